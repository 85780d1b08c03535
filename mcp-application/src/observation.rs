//! Events of a client that need no answer.

use std::fmt;
use std::time::Duration;

use mcp_proto::client::{NotRestored, Unavailable};
use mcp_proto::{Fault, Json, Method, ProtocolVersion, Quirk, Refusal, Severity};

/// An event of a client that needs no answer: the connection was lost or made again, or the server deviated from the
/// protocol. Its text is for a log: it contains no payload.
///
/// # Example
///
/// ```
/// use mcp_proto::client::Unavailable;
/// use mcp_application::Observation;
/// use mcp_proto::Severity;
/// use mcp_proto::{ErrorObject, Quirk};
///
/// let quirk = Observation::QuirkObserved(Quirk::ByteOrderMark);
/// assert_eq!(quirk.to_string(), "the server begins a body with a byte order mark");
/// assert_eq!(quirk.severity(), Severity::Debug);
/// let error = Observation::Unavailable(Unavailable::Error(ErrorObject::new(-32603, "a secret")));
/// assert_eq!(error.to_string(), "there is no connection now: the server answered with error -32603");
/// assert_eq!(error.severity(), Severity::Warning);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// The server has lost the session, which is being opened again. Requests that the server may have received have
    /// failed; the others wait.
    SessionLost,
    /// The session was lost, and has been opened again. The methods of a driver's client return these values from now on.
    Reconnected {
        /// The revision in force.
        version: ProtocolVersion,
        /// The result of `initialize` or `server/discover`.
        result: Json,
    },
    /// Settings of the lost session are in force in the new one.
    Restored {
        /// The number of subscriptions to resources.
        subscriptions: usize,
        /// Whether the level of log messages was set.
        log_level: bool,
    },
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
    /// The server was busy, and asked to wait before a request is sent again. The request's timeout is running.
    Postponed {
        /// The response of the server.
        refusal: Refusal,
        /// How long until the request is sent again.
        retry_in: Duration,
    },
    /// There is no connection now, for this reason.
    Unavailable(Unavailable),
    /// The server violated the protocol, or messages were lost because one side did not read in time. The client
    /// continues.
    Faulted(Fault),
    /// The server deviated from the protocol in a way that the client tolerates.
    QuirkObserved(Quirk),
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SessionLost => f.write_str("the session was lost; it is opened again"),
            Self::Reconnected { version, .. } => write!(f, "the session was opened again, in revision {version}"),
            Self::Restored { subscriptions, log_level } => {
                let level = if *log_level { ", and the level of log messages" } else { "" };
                write!(f, "in effect again in the new session: {subscriptions} subscriptions to resources{level}")
            }
            Self::NotRestored { method, reason, .. } => {
                write!(f, "{method} is not in effect in the new session: {reason}")
            }
            Self::RequestWaits { limit } => {
                write!(
                    f,
                    "a request waits: {limit} are with the server, which is as many as `Limits::exchanges` allows"
                )
            }
            Self::Postponed { refusal, retry_in } => {
                write!(f, "a request waits {retry_in:.1?}: the server answered {refusal}")
            }
            Self::Unavailable(Unavailable::Error(error)) => {
                write!(f, "there is no connection now: the server answered with error {}", error.code())
            }
            Self::Unavailable(Unavailable::Failed(reason)) => {
                write!(f, "there is no connection now: {}", reason.describe("the server"))
            }
            Self::Faulted(fault) => write!(f, "fault: {fault}"),
            Self::QuirkObserved(quirk) => write!(f, "the server {quirk}"),
        }
    }
}

impl Observation {
    /// How important it is for the operator of the client.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::NotRestored { .. } | Self::RequestWaits { .. } | Self::Unavailable(_) => Severity::Warning,
            Self::Postponed { .. }
            | Self::SessionLost
            | Self::Reconnected { .. }
            | Self::Restored { .. }
            | Self::Faulted(_) => Severity::Info,
            Self::QuirkObserved(_) => Severity::Debug,
        }
    }

    /// The size of its payload in bytes, for a queue with a limit.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::NotRestored { params, .. } => params.as_ref().map_or(0, Json::len),
            Self::Reconnected { result, .. } => result.len(),
            Self::SessionLost
            | Self::Restored { .. }
            | Self::RequestWaits { .. }
            | Self::Postponed { .. }
            | Self::Unavailable(_)
            | Self::Faulted(_)
            | Self::QuirkObserved(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::{BodyKind, Failed};

    use super::*;

    #[test]
    fn observations_have_a_text_and_a_severity() {
        let (method, params) = (Method::from("logging/setLevel"), Some(Json::from("a secret")));
        let reason = NotRestored::NotKept { limit: 7 };
        let busy = Refusal {
            status: http::StatusCode::TOO_MANY_REQUESTS,
            body: BodyKind::Untyped,
            retry_after: Some(Duration::from_secs(2)),
            challenges: Vec::new(),
            explanation: None,
        };
        for (observation, text, severity) in [
            (Observation::SessionLost, "the session was lost; it is opened again", Severity::Info),
            (
                Observation::Reconnected { version: ProtocolVersion::LATEST_LEGACY, result: Json::from("a secret") },
                "the session was opened again, in revision 2025-11-25",
                Severity::Info,
            ),
            (
                Observation::Restored { subscriptions: 2, log_level: true },
                "in effect again in the new session: 2 subscriptions to resources, and the level of log messages",
                Severity::Info,
            ),
            (
                Observation::NotRestored { method, params, reason },
                "logging/setLevel is not in effect in the new session: only 7 bytes of such settings are kept",
                Severity::Warning,
            ),
            (
                Observation::RequestWaits { limit: 3 },
                "a request waits: 3 are with the server, which is as many as `Limits::exchanges` allows",
                Severity::Warning,
            ),
            (
                Observation::Postponed { refusal: busy, retry_in: Duration::from_millis(2100) },
                "a request waits 2.1s: the server answered 429 Too Many Requests with a body without a type; it asks to wait 2s",
                Severity::Info,
            ),
            (
                Observation::Unavailable(Unavailable::Failed(Failed::Closed)),
                "there is no connection now: the connection to the server was closed",
                Severity::Warning,
            ),
            (Observation::Faulted(Fault::UnknownEvent), "fault: an event of an unknown type", Severity::Info),
        ] {
            assert_eq!((&*observation.to_string(), observation.severity()), (text, severity));
        }
    }
}
