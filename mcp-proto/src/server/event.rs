//! What a server tells.

use crate::client::{CloseReason, Outcome};
use crate::codec::json::Json;
use crate::conversation::outbox::Weight;
use crate::conversation::pending::{RequestKey, SessionKey, Ticket, TicketKey};
use crate::error::Fault;
use crate::spec::Method;
use crate::spec::ProtocolVersion;

/// What a server tells its application.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The client has opened the session, and was answered.
    Connected {
        /// Which session.
        session: SessionKey,
        /// The revision in force.
        version: ProtocolVersion,
        /// The parameters of `initialize`, as they came.
        params: Json,
    },
    /// The client has confirmed: from now on it may be asked for things (LC-10).
    Ready {
        /// Which session.
        session: SessionKey,
    },
    /// The client asks for something, and waits. A request that required input comes again, as the same or a new one
    /// (see [`Server::require_input`](super::Server::require_input)).
    Requested {
        /// The right to answer.
        ticket: Ticket,
        /// What is asked for.
        method: Method,
        /// Its parameters, as they came.
        params: Option<Json>,
    },
    /// The client no longer wants an answer: it says so or, since 2026-07-28, its HTTP connection has ended (SH-S-17).
    /// Answering does nothing.
    Cancelled {
        /// Which request.
        ticket: TicketKey,
        /// The notification's parameters, as they came; `None` if the connection ended instead.
        params: Option<Json>,
    },
    /// The client tells something.
    Notified {
        /// In which session.
        session: SessionKey,
        /// What is told.
        method: Method,
        /// Its parameters, as they came.
        params: Option<Json>,
    },
    /// A request of this side has ended. This comes exactly once for every accepted request.
    Responded {
        /// Which one.
        request: RequestKey,
        /// How.
        outcome: Outcome,
    },
    /// A request of this side made progress.
    Progressed {
        /// Which one.
        request: RequestKey,
        /// The notification's parameters, as they came.
        params: Json,
    },
    /// The client's stream has ended. Requests in flight may still be answered, for a while.
    InputEnded,
    /// The client did something wrong that could be coped with.
    Faulted(Fault),
    /// A session has ended; nothing about it comes after this.
    Closed {
        /// Which one.
        session: SessionKey,
        /// Why.
        reason: CloseReason,
    },
}

impl Weight for Event {
    fn weight(&self) -> usize {
        const ENTRY: usize = size_of::<Event>();
        let payload = match self {
            Self::Connected { params, .. } | Self::Progressed { params, .. } => params.len(),
            Self::Responded { outcome: Outcome::Result(result), .. } => result.len(),
            Self::Responded { outcome: Outcome::Error(error), .. } => error.as_json().len(),
            Self::Requested { params, .. } | Self::Notified { params, .. } | Self::Cancelled { params, .. } => {
                params.as_ref().map_or(0, Json::len)
            }
            Self::Ready { .. }
            | Self::InputEnded
            | Self::Responded { outcome: Outcome::Failed(_), .. }
            | Self::Faulted(_)
            | Self::Closed { .. } => 0,
        };
        ENTRY + payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_weighs_what_it_takes_itself_and_its_payload() {
        let payload = Json::from("some text");
        let entry = size_of::<Event>();
        let notified = |params| Event::Notified { session: SessionKey::ONLY, method: Method::PROGRESS, params };
        for (event, weight) in [
            (notified(None), entry),
            (notified(Some(payload.clone())), entry + payload.len()),
            (Event::InputEnded, entry),
            (Event::Faulted(Fault::DuplicateKey), entry),
        ] {
            assert_eq!(event.weight(), weight, "{event:?}");
        }
    }
}
