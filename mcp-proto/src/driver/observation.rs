//! Events of a client that need no answer.

use crate::client::{NotRestored, Unavailable};
use crate::codec::json::Json;
use crate::error::{Fault, Quirk};
use crate::spec::Method;

/// An event of a client that needs no answer: the connection was lost or made again, or the server deviated from the
/// protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// The session was lost, and has been opened again.
    Reconnected,
    /// The session was opened again without a setting of the lost one: a subscription to a resource, or the level of
    /// log messages.
    NotRestored {
        /// The method of the request that had set it: `resources/subscribe` or `logging/setLevel`.
        method: Method,
        /// The request's parameters; `None` if they were not kept.
        params: Option<Json>,
        /// The reason.
        reason: NotRestored,
    },
    /// A request waits because the server already has as many requests as the client may make at one time. Reported
    /// once.
    RequestWaits {
        /// Requests that may be in flight at one time.
        limit: usize,
    },
    /// There is no connection now, for this reason.
    Unavailable(Unavailable),
    /// The server violated the protocol, or messages were lost because one side did not read in time. The client
    /// continues.
    Faulted(Fault),
    /// The server deviated from the protocol in a way that the client tolerates.
    QuirkObserved(Quirk),
}

impl Observation {
    /// The size of its parameters in bytes, for a queue with a limit.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::NotRestored { params, .. } => params.as_ref().map_or(0, Json::len),
            Self::Reconnected
            | Self::RequestWaits { .. }
            | Self::Unavailable(_)
            | Self::Faulted(_)
            | Self::QuirkObserved(_) => 0,
        }
    }
}
