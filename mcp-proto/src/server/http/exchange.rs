//! Exchanges, from the head of a request to the end of its response: bodies that arrive, responses that are written, and
//! streams that are kept alive. What a request is for is known to the layer above.
//!
//! | file | what it does |
//! |---|---|
//! | `action` | actions for the driver |
//! | `request_info` | what the driver states about a request besides its head |
//! | `head` | the checks of a head that concern no session |
//! | `access` | refuses a `Host` or an `Origin` that is not allowed |
//! | `cors` | lets web pages of allowed origins read responses |
//! | `header_check`, `annotated` | compares headers with the body, and the tools that repeat arguments in headers |
//! | `metadata` | serves the metadata of the protected resource |
//! | `refusal` | responses with an error status |
//! | `response` | whole responses, and streams of events |
//! | `unwritten` | bytes that the driver has received but not written |

pub(crate) mod access;
pub(crate) mod action;
pub(crate) mod annotated;
pub(crate) mod cors;
pub(crate) mod head;
pub(crate) mod header_check;
pub(crate) mod metadata;
pub(crate) mod refusal;
pub(crate) mod request_info;
pub(crate) mod response;
pub(crate) mod unwritten;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;

use self::cors::AllowedOrigins;
use self::refusal::Refusal;
use self::request_info::RequestInfo;
use self::unwritten::Unwritten;
use crate::collections::buffer::{extend_within, into_bytes};
use crate::limits::Limits;
use crate::server::http::{HttpTimer, Output};
use crate::server::shares::Shares;
use crate::server::transport::ReplyTo;
use crate::spec::UnreadableId;

/// Identifies one HTTP exchange: a request that the server received, and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey(pub(crate) u64);

impl ExchangeKey {
    pub(crate) const fn to_reply(self) -> ReplyTo {
        ReplyTo::Exchange(self.0)
    }

    pub(crate) const fn from_reply(reply_to: ReplyTo) -> Option<Self> {
        match reply_to {
            ReplyTo::Stream => None,
            ReplyTo::Exchange(key) => Some(Self(key)),
        }
    }
}

/// The types of what exchanges are for, which the layer above defines.
pub(crate) trait ExchangeTypes {
    /// What is done with a request when its body has arrived.
    type Plan;
    /// The request that is answered by the response.
    type Asked: Copy;
    /// What the response needs if it becomes a stream.
    type Opening;
    /// How the exchange continues when the store has carried out an action.
    type Then;
    /// The stream that the response is.
    type Stream: Copy;
}

/// The state of an exchange; an answered one is removed. It has no `Debug`, because it contains headers.
pub(crate) enum Exchange<P: ExchangeTypes> {
    /// The body of the request has not arrived in full.
    Receiving { head: Box<Parts>, plan: P::Plan, info: RequestInfo, body: Vec<u8> },
    /// The answer is pending: the response may become JSON or a stream.
    Waiting { asked: P::Asked, head: Box<Parts>, opening: P::Opening },
    /// The store has to carry something out before the response is sent.
    Storing { asked: P::Asked, then: P::Then },
    /// The response is a stream.
    Streaming(P::Stream),
}

impl<P: ExchangeTypes> Exchange<P> {
    /// How an error without a readable id is written for the client, if its request has not arrived in full (A28).
    pub(crate) fn unreadable_id(&self) -> UnreadableId {
        match self {
            Self::Receiving { head, .. } => header_check::unreadable_id(&head.headers),
            Self::Waiting { .. } | Self::Storing { .. } | Self::Streaming(_) => UnreadableId::Null,
        }
    }

    /// The parts of a request that has arrived in full.
    pub(crate) fn received(self) -> Option<(Box<Parts>, P::Plan, RequestInfo, Bytes)> {
        match self {
            Self::Receiving { head, plan, info, body } => Some((head, plan, info, into_bytes(body))),
            Self::Waiting { .. } | Self::Storing { .. } | Self::Streaming(_) => None,
        }
    }
}

/// The exchanges that have not ended.
pub(crate) struct Exchanges<P: ExchangeTypes> {
    open: BTreeMap<ExchangeKey, Exchange<P>>,
    next: u64,
    /// Bytes of request bodies that have not arrived in full.
    receiving: usize,
    /// The streams that clients opened by GET.
    pub(crate) streams: Shares<ExchangeKey>,
    /// Open `subscriptions/listen`.
    pub(crate) listens: Shares<ExchangeKey>,
    pub(crate) unwritten: Unwritten,
    /// Web pages that may read the responses.
    origins: AllowedOrigins,
    pub(crate) limits: Limits,
    /// The pause after which a comment is written to an idle stream.
    keep_alive: Duration,
    /// How long a client may read nothing of its response.
    unread_timeout: Duration,
}

impl<P: ExchangeTypes> Exchanges<P> {
    /// `allows_pages` states whether web pages of allowed origins may read responses.
    pub(crate) fn new(keep_alive: Duration, unread_timeout: Duration, allows_pages: bool) -> Self {
        Self {
            open: BTreeMap::new(),
            next: 0,
            receiving: 0,
            streams: Shares::new(),
            listens: Shares::new(),
            unwritten: Unwritten::default(),
            origins: AllowedOrigins::new(allows_pages),
            limits: Limits::default(),
            keep_alive,
            unread_timeout,
        }
    }

    /// Sets whether web pages of allowed origins may read responses.
    pub(crate) const fn set_cors(&mut self, allows_pages: bool) {
        self.origins.set(allows_pages);
    }

    pub(crate) const fn new_key(&mut self) -> ExchangeKey {
        self.next += 1;
        ExchangeKey(self.next)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// The number of open streams, those of `subscriptions/listen` included.
    pub(crate) fn kept_open(&self) -> usize {
        self.streams.len() + self.listens.len()
    }

    /// Bytes of request bodies that have not arrived in full.
    pub(crate) const fn receiving(&self) -> usize {
        self.receiving
    }

    pub(crate) fn get(&self, key: ExchangeKey) -> Option<&Exchange<P>> {
        self.open.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: ExchangeKey) -> Option<&mut Exchange<P>> {
        self.open.get_mut(&key)
    }

    pub(crate) fn insert(&mut self, key: ExchangeKey, exchange: Exchange<P>) {
        self.open.insert(key, exchange);
    }

    /// Removes an exchange that has ended, with its timers; `None` if it was removed before.
    pub(crate) fn remove(&mut self, key: ExchangeKey, output: &mut Output<'_>) -> Option<Exchange<P>> {
        let exchange = self.open.remove(&key)?;
        if let Exchange::Receiving { body, .. } = &exchange {
            self.receiving = self.receiving.saturating_sub(body.len());
        }
        self.streams.remove(key);
        self.listens.remove(key);
        output.clear_timer(HttpTimer::Body(key));
        output.clear_timer(HttpTimer::KeepAlive(key));
        Some(exchange)
    }

    /// Appends a chunk to a body, unless the body exceeds its limit (OR6) or the sum of all bodies and `held`, the
    /// other bytes that the server stores, exceeds the common one (M3).
    pub(crate) fn append(&mut self, key: ExchangeKey, chunk: &[u8], held: usize) -> Result<(), Refusal> {
        if let Some(Exchange::Receiving { body, .. }) = self.open.get_mut(&key) {
            let length = body.len() + chunk.len();
            if length > self.limits.message {
                return Err(Refusal::too_large());
            }
            if !self.limits.holds(length, || held + self.receiving - body.len()) {
                return Err(Refusal::overloaded());
            }
            extend_within(body, chunk, self.limits.message);
            self.receiving += chunk.len();
        }
        Ok(())
    }
}
