//! The demand of a server for authorization, as a client reports it.

use http::StatusCode;

use super::challenge::Challenge;
#[cfg(doc)]
use super::credentials::Credentials;
use crate::collections::outbox::Weight;

/// A demand of the server for authorization (OA-T-02).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenged {
    /// The status of the response: 401, or 403 if the credentials do not have enough scopes.
    pub status: StatusCode,
    /// The challenges of the response, in order; there may be none.
    pub challenges: Vec<Challenge>,
    /// The generation of the [`Credentials`](Credentials) that the request carried; `None` if it had none.
    pub sent_with: Option<u64>,
    /// No request of the application waits for the server, so that no person should be asked to sign in (OA-G-05). A relay
    /// determines this by the requests of its client.
    pub is_background: bool,
    /// Bytes of the fields with the challenges.
    pub(crate) bytes: usize,
}

impl Weight for Challenged {
    fn weight(&self) -> usize {
        // A challenge is stored as names and values, each with its own buffer.
        2 * self.bytes
    }
}
