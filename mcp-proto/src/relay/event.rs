//! What a relay does and tells.

use bytes::Bytes;
use http::Request;

use crate::Instant;
use crate::client::{CloseReason, ExchangeKey, Occasion, Unavailable};
use crate::error::{Failed, Fault, Quirk, UsageError};
use crate::json::Json;
use crate::message::Method;
use crate::outbox::Weight;
use crate::version::ProtocolVersion;

/// What the driver of a relay is asked to do.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "half of all actions are an `Open`")]
pub enum Action {
    /// Write these bytes to the client, all of them and in this order.
    Write(Bytes),
    /// Close the stream to the client, once everything before was written.
    CloseWrite,
    /// Send this request to the server, without following redirects or unpacking bodies.
    Open {
        /// The name to hand in under what comes of it.
        exchange: ExchangeKey,
        /// The request, with an absolute URL.
        request: Request<Bytes>,
    },
    /// Drop this exchange: close its connection, and hand in nothing more of it.
    Abort {
        /// Which one.
        exchange: ExchangeKey,
    },
}

/// What a relay tells whoever watches over it. Nothing of it needs an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The server answered `initialize`.
    Connected {
        /// The revision in force.
        version: ProtocolVersion,
        /// The result of `initialize`, as it came.
        result: Json,
        /// The first time, or again after the session was lost.
        occasion: Occasion,
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
    /// The server over HTTP.
    Server,
}

impl Weight for Action {
    fn weight(&self) -> usize {
        match self {
            Self::Write(bytes) => bytes.len(),
            Self::Open { .. } => 256,
            Self::CloseWrite | Self::Abort { .. } => 0,
        }
    }
}

impl Weight for Event {
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}
