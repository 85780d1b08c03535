//! One HTTP exchange: what it is for, and how far it has been read.

use bytes::Bytes;
use http::HeaderMap;

use super::endpoint::Endpoint;
use crate::Instant;
use crate::client::carrier::Role;
use crate::codec::buffer::extend_within;
use crate::codec::sse::{Decoder, EventId};
use crate::conversation::pending::RequestKey;
use crate::error::Refusal;
use crate::limits::Limits;
use crate::spec::ProtocolVersion;

/// Identifies one HTTP exchange. The client chooses the keys and uses each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey(pub(super) u64);

/// An outgoing message.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) role: Role,
    /// It is the request `ping`.
    pub(super) is_ping: bool,
    /// The message. It is dropped once the response has begun.
    pub(super) body: Bytes,
    /// The revision of the message, if it may differ from the one in force (RULES 8.2).
    pub(super) version: Option<ProtocolVersion>,
    /// Headers that repeat parts of the body.
    pub(super) mirrored: Option<Box<HeaderMap>>,
    /// The target of a redirect, which replaces the endpoint.
    pub(super) to: Option<Endpoint>,
    pub(super) redirects: usize,
    /// When an attempt first failed without reaching the server.
    pub(super) first_tried: Option<Instant>,
    pub(super) attempts: u32,
    /// It was refused once because its session was lost, and is sent a second and last time.
    pub(super) is_second_session: bool,
}

impl Post {
    pub(super) const fn new(role: Role, body: Bytes) -> Self {
        Self {
            role,
            is_ping: false,
            body,
            version: None,
            mirrored: None,
            to: None,
            redirects: 0,
            first_tried: None,
            attempts: 0,
            is_second_session: false,
        }
    }
}

/// What an exchange is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Carries a message to the server.
    Post(Post),
    /// Streams the server's own messages (SH-C-38).
    ServerStream { redirects: usize },
    /// Resumes the broken stream of a request (SH-C-32).
    Resume { request: RequestKey, redirects: usize },
    /// Streams everything from a two-endpoint server (HS-01).
    TwoEndpointStream { redirects: usize },
    /// Ends the session (SH-C-09).
    Delete,
    /// Nothing any more: the rest of the body is read so that the connection can be reused.
    Drain,
}

impl Purpose {
    /// The request whose answer may arrive on this exchange.
    pub(super) const fn request(&self) -> Option<RequestKey> {
        match self {
            Self::Post(post) => post.role.request(),
            Self::Resume { request, .. } => Some(*request),
            Self::ServerStream { .. } | Self::TwoEndpointStream { .. } | Self::Delete | Self::Drain => None,
        }
    }
}

/// How the response of an exchange is read.
#[derive(Debug)]
pub(super) enum Reading {
    /// The response has not begun.
    Head,
    /// A JSON body, collected until it is complete.
    Json { body: Vec<u8> },
    /// A stream of events.
    Events(Box<Decoder>),
    /// The body of an HTTP error, which may explain it.
    Refusal { refusal: Refusal, body: Vec<u8> },
    /// A body that is not needed, of which `left` more bytes are read.
    Ignored { left: usize },
}

impl Reading {
    /// A stream of events that continues after `cursor`.
    pub(super) fn events(limits: &Limits, cursor: Option<EventId>) -> Self {
        Self::Events(Box::new(Decoder::new(limits.event, limits.event_id).resuming(cursor)))
    }

    /// Bytes of a message that has not arrived in full. The body of an HTTP error is not counted: it is small.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Json { body } => body.len(),
            Self::Events(decoder) => decoder.held(),
            Self::Head | Self::Refusal { .. } | Self::Ignored { .. } => 0,
        }
    }
}

/// Appends to a body as long as it stays within `limit`.
pub(super) fn append(body: &mut Vec<u8>, chunk: &[u8], limit: usize) -> Result<(), ()> {
    if body.len() + chunk.len() > limit {
        return Err(());
    }
    extend_within(body, chunk, limit);
    Ok(())
}

/// An open exchange.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) purpose: Purpose,
    /// The number of the session that it belongs to.
    pub(super) generation: u64,
    /// It belongs to a session that the server may have forgotten.
    pub(super) in_session: bool,
    pub(super) reading: Reading,
    /// The request was written in full.
    pub(super) sent: bool,
    /// A cancellation that waits until the request that it cancels was written (BR-T-08).
    pub(super) cancellation: Option<Post>,
    /// Bytes that were read after its request had ended (SS10).
    pub(super) trailing: usize,
    /// Its share of `Http::receiving`, in bytes.
    pub(super) held: usize,
}

impl Exchange {
    /// The rest of the response is not needed.
    pub(super) fn leave(&mut self, limits: &Limits) {
        self.purpose = Purpose::Drain;
        self.reading = Reading::Ignored { left: limits.error_body };
    }
}

/// What to do with an exchange after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Continue reading.
    Read,
    /// Abort it: the client needs nothing more, but the server has not ended it.
    Abort,
}
