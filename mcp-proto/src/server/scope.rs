//! What a message from the server relates to.

use crate::conversation::keys::{SessionKey, Ticket, TicketKey};
#[cfg(doc)]
use crate::error::Failed;

/// What a message from the server relates to: a session or one request of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// A session, but none of its requests.
    Session(SessionKey),
    /// A request of the client: related messages are sent on its exchange, and related requests to the client are
    /// cancelled when it ends. After it has ended, related notifications are dropped and related requests fail with
    /// [`Failed::Cancelled`].
    ///
    /// Rules: SH-S-13.
    Request(TicketKey),
}

impl Scope {
    pub(super) const fn session(self) -> Option<SessionKey> {
        match self {
            Self::Session(session) => Some(session),
            Self::Request(ticket) => ticket.session(),
        }
    }

    pub(super) const fn ticket(self) -> Option<TicketKey> {
        match self {
            Self::Session(_) => None,
            Self::Request(ticket) => Some(ticket),
        }
    }
}

impl From<SessionKey> for Scope {
    fn from(session: SessionKey) -> Self {
        Self::Session(session)
    }
}

impl From<&Ticket> for Scope {
    fn from(ticket: &Ticket) -> Self {
        Self::Request(ticket.key())
    }
}
