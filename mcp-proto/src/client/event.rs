//! Events that a client reports.

use std::time::Duration;

use super::detected_era::DetectedEra;
use crate::auth::Challenged;
use crate::collections::outbox::Weight;
use crate::conversation::keys::{RequestKey, Ticket, TicketKey};
use crate::conversation::outcome::{CloseReason, Outcome};
use crate::error::{Failed, Fault, Quirk, Refusal};
use crate::json::Json;
use crate::jsonrpc::ErrorObject;
use crate::spec::{Method, ProtocolVersion};

/// An event that a client reports to its application.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The server answered `initialize`, or `server/discover`.
    Connected {
        /// The revision in force.
        version: ProtocolVersion,
        /// The result of `initialize` or `server/discover`, as received.
        result: Json,
        /// Whether the session was lost, and was opened again with the same `initialize`.
        is_reconnect: bool,
        /// Which era the server belongs to, and how that was detected.
        detected_era: DetectedEra,
        /// Whether the client supports a newer revision than the one in force. `false` if the application supplied the
        /// opening request.
        is_downgrade: bool,
    },
    /// The connection could not be made, or a lost session could not be opened again. Requests that waited for it have
    /// failed.
    Unavailable {
        /// The reason.
        reason: Unavailable,
        /// How long until the client tries again; `None` if it does not.
        retry_in: Option<Duration>,
    },
    /// The server has lost the session, which is being opened again. Requests that the server may have received have
    /// failed; the others wait.
    SessionLost,
    /// The session was opened again, and settings of the lost session are in force in it without a request of the
    /// application. This is reported once for each such session that has any.
    Restored {
        /// The number of subscriptions to resources.
        subscriptions: usize,
        /// Whether the level of log messages was set.
        log_level: bool,
    },
    /// The session was opened again, but a setting of the lost session could not be restored: a subscription to a
    /// resource, or the level of log messages. All other settings are in force again without a request of the
    /// application.
    NotRestored {
        /// The method of the request that had set it: `resources/subscribe` or `logging/setLevel`.
        method: Method,
        /// The request's parameters; `None` if they were not kept.
        params: Option<Json>,
        /// The reason.
        reason: NotRestored,
    },
    /// A request has ended. This is reported exactly once for every accepted request.
    Responded {
        /// The request.
        request: RequestKey,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A request made progress.
    Progressed {
        /// The request.
        request: RequestKey,
        /// The notification's parameters, as received. While the request is [postponed](Self::Postponed), they are the
        /// client's, with negative progress and a message that states the wait.
        params: Json,
    },
    /// The server has made a request and waits for the answer.
    Requested {
        /// The right to answer.
        ticket: Ticket,
        /// The request, subscription or connection to which the message belongs.
        scope: Scope,
        /// The method of the request.
        method: Method,
        /// Its parameters, as received.
        params: Option<Json>,
    },
    /// The server no longer needs an answer to one of its requests. Answering it does nothing.
    RequestCancelled {
        /// The request.
        ticket: TicketKey,
        /// The notification's parameters, as received.
        params: Json,
    },
    /// The server has sent a notification.
    Notified {
        /// The request, subscription or connection to which the message belongs.
        scope: Scope,
        /// The method of the notification.
        method: Method,
        /// Its parameters, as received.
        params: Option<Json>,
    },
    /// A subscription is open. The server will send the notifications in `filter`, which may be fewer than were
    /// requested.
    ///
    /// Rules: MD-L-07.
    Listening {
        /// The subscription.
        subscription: SubscriptionKey,
        /// The object `notifications` of the acknowledgement, as received.
        filter: Json,
    },
    /// A subscription was lost, and will be opened again. Changes in the meantime are not reported.
    ///
    /// Rules: MD-L-11.
    ListeningInterrupted {
        /// The subscription.
        subscription: SubscriptionKey,
        /// The reason.
        reason: Failed,
        /// How long until it is opened again.
        retry_in: Duration,
    },
    /// A subscription has ended. This is reported exactly once for each.
    ListeningEnded {
        /// The subscription.
        subscription: SubscriptionKey,
        /// Its outcome: a result if the server ended it normally.
        ///
        /// Rules: MD-L-09.
        outcome: Outcome,
    },
    /// A request waits because `limit` requests are in flight, which is as many as `Limits::exchanges` allows over
    /// HTTP. Its timeout is running already. This event is reported once.
    RequestWaits {
        /// The maximum number of requests in flight.
        limit: usize,
    },
    /// The server refused a request because it is busy, and asked to wait before the request is sent again. The request's
    /// timeout is running; if the server asks to wait longer than that, the request fails at once instead.
    ///
    /// Rules: HT8.
    Postponed {
        /// The request; `None` for the one that opens the connection.
        request: Option<RequestKey>,
        /// The response of the server.
        refusal: Refusal,
        /// How long until the request is sent again.
        retry_in: Duration,
    },
    /// The server demands authorization, and messages wait for it: see
    /// [`HttpConfig::managed_authorization`](super::HttpConfig::managed_authorization). The application answers with
    /// [`Client::authorize`](super::Client::authorize) or
    /// [`Client::refuse_authorization`](super::Client::refuse_authorization). Until then, no other challenge is reported.
    Challenged(Challenged),
    /// A fault, usually an invalid message of the server. The connection continues.
    Faulted(Fault),
    /// The server deviates from the protocol in a way that the client tolerates. Each quirk is reported once per
    /// connection.
    QuirkObserved(Quirk),
    /// The connection has ended; no event follows.
    Closed(CloseReason),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// The server answered `initialize` or `server/discover` with an error.
    Error(ErrorObject),
    /// There was no answer.
    Failed(Failed),
}

/// Why a setting of a lost session is not in force in the next one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRestored {
    /// The server refused it in the next session.
    #[error("the server answered with error {}", .0.code())]
    Error(ErrorObject),
    /// There was no answer.
    #[error("{}", .0.describe("the server"))]
    Failed(Failed),
    /// It was not kept for the next session, because the settings exceeded the limit in total.
    #[error("only {limit} bytes of such settings are kept")]
    NotKept {
        /// `Limits::session_settings`, in bytes.
        limit: usize,
    },
}

/// Identifies one subscription. The key stays the same when a lost subscription is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey(u64);

impl SubscriptionKey {
    pub(super) const FIRST: Self = Self(0);

    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What a message of the server belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The message came on the stream of this request, or belongs to the subscription of this request: a
    /// `subscriptions/listen` that the application made with [`Call::unchanged`](super::Call::unchanged).
    ///
    /// Rules: SH-S-13.
    Request(RequestKey),
    /// The message belongs to this subscription.
    ///
    /// Rules: MD-L-04.
    Subscription(SubscriptionKey),
    /// The message came on a stream for the whole connection, and belongs to no known request or subscription.
    Connection,
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
            Self::Challenged(challenged) => challenged.weight(),
            Self::Unavailable { .. }
            | Self::SessionLost
            | Self::Restored { .. }
            | Self::RequestWaits { .. }
            | Self::Postponed { .. }
            | Self::Responded { outcome: Outcome::Failed(_), .. }
            | Self::ListeningInterrupted { .. }
            | Self::ListeningEnded { outcome: Outcome::Failed(_), .. }
            | Self::Faulted(_)
            | Self::QuirkObserved(_)
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
