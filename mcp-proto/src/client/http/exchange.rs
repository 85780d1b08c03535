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

/// Names one HTTP exchange. The machine chooses the keys and uses each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey(pub(super) u64);

/// A message on its way out.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) role: Role,
    /// It is the request `ping`.
    pub(super) is_ping: bool,
    /// The message. It is let go once the server has begun to answer.
    pub(super) body: Bytes,
    /// The revision that it is in, if that is not the one in force (RULES 8.2).
    pub(super) version: Option<ProtocolVersion>,
    /// Headers that repeat it.
    pub(super) mirrored: Option<Box<HeaderMap>>,
    /// Where it goes instead of to the endpoint, after a redirect.
    pub(super) to: Option<Endpoint>,
    pub(super) redirects: usize,
    /// When it was first tried, if that failed without reaching the server.
    pub(super) first_tried: Option<Instant>,
    pub(super) attempts: u32,
    /// It has been refused once because its session was gone, and is sent a second and last time.
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
    /// Goes on with the broken stream of a request (SH-C-32).
    Resume { request: RequestKey, redirects: usize },
    /// Streams everything from a two-endpoint server (HS-01).
    TwoEndpointStream { redirects: usize },
    /// Ends the session (SH-C-09).
    Delete,
    /// Nothing any more: what is left of the body is read so that the connection can be used again.
    Drain,
}

impl Purpose {
    /// The request whose answer may come here.
    pub(super) const fn request(&self) -> Option<RequestKey> {
        match self {
            Self::Post(post) => post.role.request(),
            Self::Resume { request, .. } => Some(*request),
            Self::ServerStream { .. } | Self::TwoEndpointStream { .. } | Self::Delete | Self::Drain => None,
        }
    }
}

/// How an exchange is read.
#[derive(Debug)]
pub(super) enum Reading {
    /// The response has not begun.
    Head,
    /// A JSON body, put together.
    Json { body: Vec<u8> },
    /// A stream of events.
    Events(Box<Decoder>),
    /// The body of an HTTP error, which may explain it.
    Refusal { refusal: Refusal, body: Vec<u8> },
    /// A body that nobody needs, up to so many bytes.
    Ignored { left: usize },
}

impl Reading {
    /// A stream that goes on after `cursor`.
    pub(super) fn events(limits: &Limits, cursor: Option<EventId>) -> Self {
        Self::Events(Box::new(Decoder::new(limits.event, limits.event_id).resuming(cursor)))
    }

    /// Bytes of a message that has not arrived in full. The explanation of an error is no message, and small.
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

/// One exchange of the table.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) purpose: Purpose,
    /// Which session it belongs to, counted.
    pub(super) generation: u64,
    /// It belongs to a session that the server may have forgotten.
    pub(super) in_session: bool,
    pub(super) reading: Reading,
    /// The request was written in full.
    pub(super) sent: bool,
    /// A cancellation that waits until the request that it takes back was written (BR-T-08).
    pub(super) cancellation: Option<Post>,
    /// Bytes that were read after its request had ended (SS10).
    pub(super) trailing: usize,
    /// Bytes that count for it among those of all responses that have not arrived in full.
    pub(super) held: usize,
}

impl Exchange {
    /// Nobody needs the rest.
    pub(super) fn leave(&mut self, limits: &Limits) {
        self.purpose = Purpose::Drain;
        self.reading = Reading::Ignored { left: limits.error_body };
    }
}

/// What becomes of an exchange after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It goes on.
    Read,
    /// It is over for us, but not for the server.
    Abort,
}
