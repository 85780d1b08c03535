//! What a relay does and tells.

use crate::Instant;
use crate::client::{CloseReason, NotRestored, Unavailable};
use crate::codec::json::Json;
use crate::conversation::outbox::Weight;
use crate::error::{Failed, Fault, Quirk, UsageError};
use crate::spec::Method;
use crate::spec::{Era, ProtocolVersion};
use crate::transport::StdioAction;

/// What the driver of a relay is asked to do. `A` is what the transport to the server asks for: an
/// [`HttpAction`](crate::client::HttpAction) or a [`StdioAction`].
#[derive(Debug)]
pub enum Action<A> {
    /// Do this on the client's stream.
    Client(StdioAction),
    /// Do this on the server's side.
    Server(A),
}

/// What a relay tells whoever watches over it. Nothing of it needs an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The server answered `initialize` or `server/discover`.
    Connected {
        /// The revision in force.
        version: ProtocolVersion,
        /// The result, as it came.
        result: Json,
        /// The session was lost, and has been opened again.
        is_reconnect: bool,
    },
    /// The two sides speak different eras: the relay is each one's counterpart.
    Bridging {
        /// The client's.
        client: Era,
        /// The server's.
        server: Era,
    },
    /// The server cannot be used now. The client was told, if it waited.
    Unavailable {
        /// Why.
        reason: Unavailable,
        /// When it is tried again; `None` if only the next request will try.
        retry_at: Option<Instant>,
    },
    /// The session was lost and is being opened again.
    SessionLost,
    /// A subscription to a resource or a level of log messages, which the client has set, is not in effect at the server:
    /// it could not be set again after the session was lost, or not at all where the relay joins two eras.
    NotInEffect {
        /// The method of the request that sets it: `resources/subscribe` or `logging/setLevel`.
        method: Method,
        /// Why.
        reason: NotRestored,
    },
    /// A request waits because `limit` requests are with the server, which is as many as `Limits::exchanges` allows over
    /// HTTP. This is told once.
    RequestWaits {
        /// Requests that can be with the server at one time.
        limit: usize,
    },
    /// A request got no answer; the client was told.
    Failed(Failed),
    /// A notification could not be passed on.
    NotPassed {
        /// Its method.
        method: Method,
        /// Why not.
        error: UsageError,
    },
    /// Somebody did something wrong that could be coped with.
    Faulted {
        /// Who.
        side: Side,
        /// What.
        fault: Fault,
    },
    /// The server did something odd that could be put up with.
    QuirkMet(Quirk),
    /// The client's side has ended; the session is being ended.
    ClientGone(CloseReason),
    /// Both sides have ended; nothing comes after this.
    Closed(CloseReason),
}

/// One of the two that a relay joins.
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
        size_of::<Self>()
    }
}
