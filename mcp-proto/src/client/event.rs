//! What a client tells.

use super::{DetectedEra, SubscriptionKey};
use crate::Instant;
use crate::codec::json::Json;
use crate::codec::jsonrpc::ErrorObject;
use crate::conversation::outbox::Weight;
use crate::conversation::pending::{RequestKey, Ticket, TicketKey};
use crate::error::{Failed, Fault, Quirk};
use crate::spec::Method;
use crate::spec::ProtocolVersion;

/// What a client tells its application.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The server answered `initialize`, or `server/discover`.
    Connected {
        /// The revision in force.
        version: ProtocolVersion,
        /// The result of `initialize` or `server/discover`, as it came.
        result: Json,
        /// The session was lost, and has been opened again by the same `initialize`.
        is_reconnect: bool,
        /// Which era the server belongs to, and how that was detected.
        detected_era: DetectedEra,
        /// A newer revision would have been spoken if the server knew it.
        is_downgrade: bool,
    },
    /// The connection could not be made, or the session not opened again. Requests that waited for it have failed.
    Unavailable {
        /// Why.
        reason: Unavailable,
        /// When it is tried again; `None` if it is not.
        retry_at: Option<Instant>,
    },
    /// The server does not know the session any more; it is being opened again. Requests that the server may have seen
    /// have failed, the others wait.
    SessionLost,
    /// The session was opened again, and a subscription to a resource or the level of log messages, which the application
    /// had set in the lost one, could not be set again. All others are in force without the application's doing.
    NotRestored {
        /// The method of the request that had set it: `resources/subscribe` or `logging/setLevel`.
        method: Method,
        /// The request's parameters; `None` if they were not kept.
        params: Option<Json>,
        /// Why.
        reason: NotRestored,
    },
    /// A request has ended. This comes exactly once for every accepted request.
    Responded {
        /// Which one.
        request: RequestKey,
        /// How.
        outcome: Outcome,
    },
    /// A request made progress.
    Progressed {
        /// Which one.
        request: RequestKey,
        /// The notification's parameters, as they came.
        params: Json,
    },
    /// The server asks for something, and waits.
    Requested {
        /// The right to answer.
        ticket: Ticket,
        /// What it belongs to.
        scope: Scope,
        /// What is asked for.
        method: Method,
        /// Its parameters, as they came.
        params: Option<Json>,
    },
    /// The server no longer wants an answer to a request of its own. Answering it does nothing.
    RequestCancelled {
        /// Which one.
        ticket: TicketKey,
        /// The notification's parameters, as they came.
        params: Json,
    },
    /// The server tells something.
    Notified {
        /// What it belongs to.
        scope: Scope,
        /// What is told.
        method: Method,
        /// Its parameters, as they came.
        params: Option<Json>,
    },
    /// A subscription is open: the server will tell of this. It may be less than what was asked for (MD-L-07).
    Listening {
        /// Which one.
        subscription: SubscriptionKey,
        /// The object `notifications` of the acknowledgement, as it came.
        filter: Json,
    },
    /// A subscription broke off, and is opened again. What changed meanwhile is not told (MD-L-11).
    ListeningInterrupted {
        /// Which one.
        subscription: SubscriptionKey,
        /// Why.
        reason: Failed,
        /// When it is opened again.
        retry_at: Instant,
    },
    /// A subscription has ended. This comes exactly once for each.
    ListeningEnded {
        /// Which one.
        subscription: SubscriptionKey,
        /// How: with a result if the server ended it in good order (MD-L-09).
        outcome: Outcome,
    },
    /// A request waits because `limit` requests are with the server, which is as many as `Limits::exchanges` allows over
    /// HTTP. Its time to be answered runs. This is told once.
    RequestWaits {
        /// Requests that can be with the server at one time.
        limit: usize,
    },
    /// The server did something wrong that could be coped with.
    Faulted(Fault),
    /// The server did something odd that could be put up with. Each is told once per connection.
    QuirkMet(Quirk),
    /// The connection has ended; nothing comes after this.
    Closed(CloseReason),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// The server answered `initialize` with an error.
    Error(ErrorObject),
    /// There was no answer.
    Failed(Failed),
}

/// Why a setting of a lost session is not in force in the next one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRestored {
    /// The server refused it this time.
    #[error("the server answered with error {}", .0.code())]
    Error(ErrorObject),
    /// There was no answer.
    #[error("{}", .0.describe("the server"))]
    Failed(Failed),
    /// It was not kept for the next session, because all that was set came to more than the limit.
    #[error("only {limit} bytes of such settings are kept")]
    NotKept {
        /// `Limits::session_settings`.
        limit: usize,
    },
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With a result, as it came.
    Result(Json),
    /// With an error of the server's.
    Error(ErrorObject),
    /// Without an answer.
    Failed(Failed),
}

/// What a message of the server belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// It came on the stream of this request (SH-S-13).
    Request(RequestKey),
    /// It was subscribed to (MD-L-04).
    Subscription(SubscriptionKey),
    /// It came on a stream that serves the whole connection.
    Connection,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The application closed it.
    Local,
    /// The peer closed it.
    Peer,
    /// The server speaks no revision that this client knows (LC-06).
    NoCommonVersion,
    /// The peer sent too much that is no message (FR10).
    Garbage,
    /// Nothing happened in the session for so long that it was given up.
    Expired,
    /// The application took no output, and what had to be kept for it grew over the limits (RP9).
    Overflow,
}

impl Weight for Event {
    fn weight(&self) -> usize {
        const ENTRY: usize = size_of::<Event>();
        let payload = match self {
            Self::Connected { result, .. }
            | Self::Responded { outcome: Outcome::Result(result), .. }
            | Self::ListeningEnded { outcome: Outcome::Result(result), .. } => result.len(),
            Self::Responded { outcome: Outcome::Error(error), .. }
            | Self::ListeningEnded { outcome: Outcome::Error(error), .. } => error.as_json().len(),
            Self::Listening { filter, .. } => filter.len(),
            Self::Progressed { params, .. } | Self::RequestCancelled { params, .. } => params.len(),
            Self::Requested { params, .. } | Self::Notified { params, .. } | Self::NotRestored { params, .. } => {
                params.as_ref().map_or(0, Json::len)
            }
            Self::Unavailable { .. }
            | Self::SessionLost
            | Self::RequestWaits { .. }
            | Self::Responded { outcome: Outcome::Failed(_), .. }
            | Self::ListeningInterrupted { .. }
            | Self::ListeningEnded { outcome: Outcome::Failed(_), .. }
            | Self::Faulted(_)
            | Self::QuirkMet(_)
            | Self::Closed(_) => 0,
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
        let (entry, bytes) = (size_of::<Event>(), payload.len());
        let notified = |params| Event::Notified { method: Method::MESSAGE, params, scope: Scope::Connection };
        for (event, weight) in [
            (notified(None), entry),
            (notified(Some(payload.clone())), entry + bytes),
            (Event::SessionLost, entry),
            (
                Event::NotRestored {
                    method: Method::MESSAGE,
                    params: Some(payload),
                    reason: NotRestored::NotKept { limit: 1 },
                },
                entry + bytes,
            ),
            (Event::Faulted(Fault::DuplicateKey), entry),
        ] {
            assert_eq!(event.weight(), weight, "{event:?}");
        }
    }
}
