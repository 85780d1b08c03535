//! Sorts the events of a client by who receives them.

use mcp_proto::auth::Challenged;
use mcp_proto::client::{CloseReason, DetectedEra, Event, Outcome, Scope, SubscriptionKey, Unavailable};
use mcp_proto::{Json, Method, Notification, ProtocolVersion, RequestKey, Ticket, TicketKey};

use super::{Change, Error, Observation};

/// An [`Event`] of a client, sorted by its receiver. The driver has callers of requests, receivers of subscriptions,
/// and one handler for everything else that the server sends.
#[derive(Debug)]
pub enum ClientEvent {
    /// For the driver: the first connection was made.
    Connected {
        /// The revision in force.
        version: ProtocolVersion,
        /// The result of `initialize` or `server/discover`.
        result: Json,
        /// Which era the server belongs to, and how that was detected.
        detected_era: DetectedEra,
    },
    /// For the driver, and then for the handler as [`Observation::Reconnected`]: the connection was made again.
    Reconnected {
        /// The revision in force now.
        version: ProtocolVersion,
        /// The result of `initialize` or `server/discover`.
        result: Json,
        /// Which era the server belongs to, and how that was detected.
        detected_era: DetectedEra,
    },
    /// For the driver: the first connection could not be made.
    Refused(Unavailable),
    /// For the driver: the server demands authorization, and messages wait for it.
    Challenged(Challenged),
    /// For the driver: the connection has ended.
    Closed(CloseReason),
    /// For the caller of a request: its outcome.
    Responded {
        /// The request.
        request: RequestKey,
        /// Its outcome.
        outcome: Outcome,
    },
    /// For the caller of a request: its progress.
    Progressed {
        /// The request.
        request: RequestKey,
        /// The parameters of the notification.
        params: Json,
    },
    /// For a subscription.
    Changed {
        /// The subscription.
        subscription: SubscriptionKey,
        /// The event. After [`Change::Ended`], none follows.
        change: Change,
    },
    /// For the handler: a request of the server.
    Requested {
        /// The right to answer.
        ticket: Ticket,
        /// The method.
        method: Method,
        /// The parameters.
        params: Option<Json>,
    },
    /// For the handler: the server no longer needs an answer.
    RequestCancelled {
        /// The request.
        ticket: TicketKey,
    },
    /// For the handler: a notification of the server.
    Notified(Notification),
    /// For the handler: an event of the client that needs no answer.
    Observed(Observation),
}

impl ClientEvent {
    /// Sorts an event. `server` is the server's name for errors, and `is_connected` whether the first connection was
    /// made.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::{Event, Unavailable};
    /// use mcp_application::{ClientEvent, Observation};
    /// use mcp_proto::Failed;
    ///
    /// let event = || Event::Unavailable { reason: Unavailable::Failed(Failed::Closed), retry_in: None };
    /// assert!(matches!(ClientEvent::new(event(), "the server", false), ClientEvent::Refused(_)));
    /// let later = ClientEvent::new(event(), "the server", true);
    /// assert!(matches!(later, ClientEvent::Observed(Observation::Unavailable(_))));
    /// ```
    #[must_use]
    pub fn new(event: Event, server: &str, is_connected: bool) -> Self {
        let changed = |subscription, change| Self::Changed { subscription, change };
        match event {
            Event::Connected { version, result, detected_era, .. } if is_connected => {
                Self::Reconnected { version, result, detected_era }
            }
            Event::Connected { version, result, detected_era, .. } => Self::Connected { version, result, detected_era },
            Event::Unavailable { reason, .. } if is_connected => Self::Observed(Observation::Unavailable(reason)),
            Event::Unavailable { reason, .. } => Self::Refused(reason),
            Event::SessionLost => Self::Observed(Observation::SessionLost),
            Event::Restored { subscriptions, log_level } => {
                Self::Observed(Observation::Restored { subscriptions, log_level })
            }
            Event::NotRestored { method, params, reason } => {
                Self::Observed(Observation::NotRestored { method, params, reason })
            }
            Event::Responded { request, outcome } => Self::Responded { request, outcome },
            Event::Progressed { request, params } => Self::Progressed { request, params },
            Event::Requested { ticket, method, params, .. } => Self::Requested { ticket, method, params },
            Event::RequestCancelled { ticket, .. } => Self::RequestCancelled { ticket },
            Event::Notified { scope: Scope::Subscription(subscription), method, params } => {
                changed(subscription, Change::Notified(Notification { method, params }))
            }
            Event::Notified { method, params, .. } => Self::Notified(Notification { method, params }),
            Event::Listening { subscription, filter } => changed(subscription, Change::Listening(filter)),
            Event::ListeningInterrupted { subscription, reason, .. } => {
                changed(subscription, Change::Interrupted(reason))
            }
            Event::ListeningEnded { subscription, outcome } => {
                changed(subscription, Change::Ended(Error::result_of(outcome, server)))
            }
            Event::RequestWaits { limit } => Self::Observed(Observation::RequestWaits { limit }),
            Event::Postponed { refusal, retry_in, .. } => Self::Observed(Observation::Postponed { refusal, retry_in }),
            Event::Challenged(challenged) => Self::Challenged(challenged),
            Event::Faulted(fault) => Self::Observed(Observation::Faulted(fault)),
            Event::QuirkObserved(quirk) => Self::Observed(Observation::QuirkObserved(quirk)),
            Event::Closed(reason) => Self::Closed(reason),
        }
    }
}
