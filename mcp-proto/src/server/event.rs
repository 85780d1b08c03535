//! Events for the application of a server.

use super::ended_request::EndedRequest;
use crate::collections::outbox::Weight;
use crate::conversation::keys::{RequestKey, SessionKey, Ticket, TicketKey};
use crate::conversation::outcome::{CloseReason, Outcome};
use crate::error::Fault;
use crate::json::Json;
use crate::spec::{Method, ProtocolVersion};

/// An event for the application of a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has opened a session, and its `initialize` was answered.
    Connected {
        /// The session.
        session: SessionKey,
        /// The revision in force.
        version: ProtocolVersion,
        /// The parameters of `initialize`, as received.
        params: Json,
    },
    /// A session continues here. Another instance has opened it, or this one, which then ended it for lack of use
    /// ([`SessionMode::Sealed`](super::SessionMode::Sealed), [`SessionMode::Stored`](super::SessionMode::Stored)).
    /// Requests may be sent to its client.
    Restored {
        /// The session, which has a new key.
        session: SessionKey,
        /// The revision in force.
        version: ProtocolVersion,
    },
    /// The client has sent `notifications/initialized`: from now on, requests may be sent to it.
    ///
    /// Rules: LC-10.
    Ready {
        /// The session.
        session: SessionKey,
    },
    /// A request of the client that must be answered. A request that required input is reported again, as the same or
    /// as a new one (see [`Server::require_input`](super::Server::require_input)). If timers that were due at the same time have
    /// ended it already, [`Server::context`](super::Server::context) is `None`: nothing is to be done for it.
    Requested {
        /// The ticket for its answer.
        ticket: Ticket,
        /// Its method.
        method: Method,
        /// Its parameters, as received.
        params: Option<Json>,
    },
    /// A request of the client is cancelled: by a notification, by the end of its HTTP exchange since 2026-07-28, or by
    /// the end of its session. Answering it does nothing.
    ///
    /// Rules: SH-S-17.
    Cancelled {
        /// The request.
        ticket: TicketKey,
        /// The parameters of `notifications/cancelled`, as received; `None` if the exchange or the session ended
        /// instead.
        params: Option<Json>,
    },
    /// A request of the client has ended, if [`Config::reports_ended_requests`](super::Config::reports_ended_requests) is
    /// set. Nothing is to be done for it.
    RequestEnded(Box<EndedRequest>),
    /// A notification of the client.
    Notified {
        /// The session.
        session: SessionKey,
        /// Its method.
        method: Method,
        /// Its parameters, as received.
        params: Option<Json>,
    },
    /// A request to the client has ended. This is reported exactly once for every accepted request.
    Responded {
        /// The request.
        request: RequestKey,
        /// Its outcome.
        outcome: Outcome,
    },
    /// The client has sent progress of a request to it.
    Progressed {
        /// The request.
        request: RequestKey,
        /// The notification's parameters, as received.
        params: Json,
    },
    /// The client's stream has ended. Requests in flight may still be answered within
    /// [`Config::drain_timeout`](super::Config::drain_timeout).
    InputEnded,
    /// A fault, such as a protocol violation of the client, that did not end the session.
    Faulted(Fault),
    /// The wait of [`Server::drain`](super::Server::drain) is over: all requests were answered, or the time has passed.
    /// The server closes now: [`Event::Cancelled`] follows for each of the cancelled requests, and [`Event::Closed`]
    /// for each session.
    Drained {
        /// The number of requests that are cancelled, because they were not answered in time.
        cancelled: usize,
    },
    /// A session has ended; no event about it follows.
    Closed {
        /// The session.
        session: SessionKey,
        /// The reason.
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
            Self::Restored { .. }
            | Self::Ready { .. }
            | Self::InputEnded
            | Self::Responded { outcome: Outcome::Failed(_), .. }
            | Self::Faulted(_)
            | Self::Drained { .. }
            | Self::Closed { .. }
            | Self::RequestEnded(_) => 0,
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
        let notified = |params| Event::Notified { session: SessionKey::FIRST, method: Method::PROGRESS, params };
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
