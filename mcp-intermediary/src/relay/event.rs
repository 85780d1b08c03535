//! The outputs of a relay: actions and events.

use std::time::Duration;

use mcp_proto::auth::Challenged;
use mcp_proto::client::{CloseReason, NotRestored, Unavailable};
use mcp_proto::machine::Weight;
use mcp_proto::server::EndedRequest;
use mcp_proto::spec::Era;
use mcp_proto::{Failed, Fault, Json, Method, ProtocolVersion, Quirk, Refusal, StdioAction, UsageError};

use super::{Pins, ToolDeviation};

/// An action that the driver of a relay must carry out. `A` is the action type of the transport to the server:
/// [`HttpAction`](mcp_proto::client::HttpAction) or [`StdioAction`].
#[derive(Debug)]
pub enum Action<A> {
    /// An action on the client's stream.
    Client(StdioAction),
    /// An action on the server's side.
    Server(A),
}

/// What a relay reports to the application, for example for logging. No event requires a reaction, except
/// [`Event::Challenged`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The server answered `initialize` or `server/discover`.
    Connected {
        /// The revision in force.
        version: ProtocolVersion,
        /// The result, unchanged.
        result: Json,
        /// Whether this is a new session after the earlier one was lost.
        is_reconnect: bool,
    },
    /// The two sides are of different eras: the relay converts between them.
    Bridging {
        /// The client's era.
        client: Era,
        /// The server's era.
        server: Era,
    },
    /// The server cannot be used now. If the client waits for its opening request, that is answered with an error.
    Unavailable {
        /// Why the server cannot be used.
        reason: Unavailable,
        /// How long until the relay tries again; `None` if it tries only on the next request.
        retry_in: Option<Duration>,
    },
    /// The session was lost and is being opened again.
    SessionLost,
    /// A resource subscription or log level that the client has set is not in effect at the server: it could not be
    /// restored after the session was lost, or could not be set at all where the relay joins two eras. Or the
    /// subscription to changes that the relay opens for a legacy client has ended.
    NotInEffect {
        /// The method of the request that sets it: `resources/subscribe`, `logging/setLevel` or
        /// `subscriptions/listen`.
        method: Method,
        /// Why the setting is not in effect.
        reason: NotRestored,
    },
    /// A request waits because `limit` requests are open at the server: the maximum that `Limits::exchanges` allows
    /// over HTTP. This is reported once.
    RequestWaits {
        /// The maximum number of requests that can be open at the server at one time.
        limit: usize,
    },
    /// A request of the client has ended, if [`Config::reports_ended_requests`](super::Config::reports_ended_requests) is
    /// set.
    RequestEnded(Box<EndedRequest>),
    /// The server was busy, and asked to wait before a request is sent again. The client has progress that says so, if it
    /// asked for progress.
    Postponed {
        /// The response of the server.
        refusal: Refusal,
        /// How long until the request is sent again.
        retry_in: Duration,
    },
    /// The server demands authorization, and messages wait for it. This event requires a reaction:
    /// [`Relay::authorize`](super::Relay::authorize) or
    /// [`Relay::refuse_authorization`](super::Relay::refuse_authorization).
    Challenged(Challenged),
    /// The client's `initialize` was answered in the place of the server, because a person signs in.
    ///
    /// Rules: OA-G-07.
    AnsweredEarly,
    /// A tool is not as it was pinned ([`Config::pinning`](super::Config::pinning)). This is reported once for each
    /// definition that is listed after another one.
    ToolDeviates(ToolDeviation),
    /// There are more pins: these are to be stored for later sessions. If other processes may pin tools of the same server
    /// ([`Pinning::is_shared`](super::Pinning::is_shared)), [`Relay::handle_pins`](super::Relay::handle_pins) must follow.
    PinsChanged(Pins),
    /// A request got no answer; the client received an error instead.
    Failed(Failed),
    /// A notification could not be forwarded.
    NotPassed {
        /// The method of the notification.
        method: Method,
        /// Why the notification could not be forwarded.
        error: UsageError,
    },
    /// One side violated the protocol, or messages were lost because it did not read in time. The relay continues.
    Faulted {
        /// The side that the fault is from.
        side: Side,
        /// The violation, or the loss.
        fault: Fault,
    },
    /// The server deviated from the protocol in a way that the relay tolerates.
    QuirkObserved(Quirk),
    /// The connection to the client has ended, and the relay ends the session with the server.
    ClientGone(CloseReason),
    /// Both sides have ended; no event follows.
    Closed(CloseReason),
}

/// One of the two sides that a relay joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client on the byte stream.
    Client,
    /// The server.
    Server,
}

impl<A: Weight> Weight for Action<A> {
    fn weight(&self) -> usize {
        match self {
            Self::Client(action) => action.weight(),
            Self::Server(action) => action.weight(),
        }
    }
}

impl Weight for Event {
    fn weight(&self) -> usize {
        let content = if let Self::Challenged(challenged) = self {
            challenged.weight()
        } else if let Self::ToolDeviates(deviation) = self {
            deviation.weight()
        } else {
            0
        };
        size_of::<Self>() + content
    }
}
