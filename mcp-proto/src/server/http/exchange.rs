//! One exchange, from the head of its request to the end of its response.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use super::admission::{self, Plan};
use super::refusal::Refusal;
use super::{Http, HttpStep, HttpTimer, Output, RequestInfo, header_check};
use crate::collections::buffer::{extend_within, into_bytes};
use crate::conversation::keys::{InstanceId, SessionKey};
use crate::jsonrpc::RequestId;
use crate::limits::Limits;
use crate::server::shares::Shares;
use crate::server::transport::ReplyTo;
use crate::spec::UnreadableId;

/// Identifies one HTTP exchange: a request that the server received, and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey(pub(super) u64);

impl ExchangeKey {
    pub(super) const fn to_reply(self) -> ReplyTo {
        ReplyTo::Exchange(self.0)
    }

    pub(super) const fn from_reply(reply_to: ReplyTo) -> Option<Self> {
        match reply_to {
            ReplyTo::Stream => None,
            ReplyTo::Exchange(key) => Some(Self(key)),
        }
    }
}

/// The state of an exchange; an answered one is removed. It has no `Debug`, because it contains headers.
pub(super) enum Exchange {
    /// The body of the request has not arrived in full.
    Receiving { head: Box<Parts>, plan: Plan, info: RequestInfo, body: Vec<u8> },
    /// The answer is pending: the response may become JSON or a stream.
    Waiting {
        asked: Asked,
        head: Box<Parts>,
        /// The tag of the stream, should the response become one.
        tag: u64,
        /// The ids of the requests in the body, if another instance may have to answer them.
        requests: Box<[RequestId]>,
    },
    /// The store has to carry something out before the response is sent.
    Storing { asked: Asked, then: Then },
    /// The response is the stream of a request, or without `stream` the GET stream of the session.
    Streaming { session: Option<SessionKey>, stream: Option<ExchangeKey> },
}

/// How an exchange continues after the store has carried out its action.
pub(super) enum Then {
    /// Sends the response.
    Respond(Response<Bytes>),
    /// Opens the GET stream of the session.
    OpenGetStream,
    /// Resumes a stream that may not exist.
    Resume,
}

/// A request that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// `initialize`, which has opened this session.
    Opening(SessionKey),
    /// A request of this session.
    InSession(SessionKey),
    /// A request of 2026-07-28.
    Stateless,
    /// A request of 2026-07-28 about a task. `instance` has received it, and identifies it by `number`.
    Elsewhere { instance: InstanceId, number: u64 },
    /// A request of an older revision, at a server that opens no sessions (ER-43).
    Sessionless,
}

impl Asked {
    pub(super) const fn session(self) -> Option<SessionKey> {
        match self {
            Self::Opening(session) | Self::InSession(session) => Some(session),
            Self::Stateless | Self::Elsewhere { .. } | Self::Sessionless => None,
        }
    }
}

impl Exchange {
    pub(super) const fn session(&self) -> Option<SessionKey> {
        match self {
            Self::Receiving { .. } => None,
            Self::Waiting { asked, .. } | Self::Storing { asked, .. } => asked.session(),
            Self::Streaming { session, .. } => *session,
        }
    }

    /// How an error without a readable id is written for the client, if its request has not arrived in full (A28).
    pub(super) fn unreadable_id(&self) -> UnreadableId {
        match self {
            Self::Receiving { head, .. } => header_check::unreadable_id(&head.headers),
            Self::Waiting { .. } | Self::Storing { .. } | Self::Streaming { .. } => UnreadableId::Null,
        }
    }

    /// Whether a stateless request has not been answered.
    pub(super) const fn is_stateless(&self) -> bool {
        match self {
            Self::Receiving { .. } => false,
            Self::Waiting { .. } | Self::Storing { .. } | Self::Streaming { .. } => self.session().is_none(),
        }
    }
}

/// The exchanges that have not ended.
pub(super) struct Exchanges {
    open: BTreeMap<ExchangeKey, Exchange>,
    next: u64,
    /// Bytes of request bodies that have not arrived in full.
    receiving: usize,
    /// The streams that clients opened by GET.
    pub(super) streams: Shares<ExchangeKey>,
    /// Open `subscriptions/listen`, which have no session.
    pub(super) listens: Shares<ExchangeKey>,
}

impl Exchanges {
    pub(super) const fn new() -> Self {
        Self { open: BTreeMap::new(), next: 0, receiving: 0, streams: Shares::new(), listens: Shares::new() }
    }

    pub(super) const fn new_key(&mut self) -> ExchangeKey {
        self.next += 1;
        ExchangeKey(self.next)
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The number of open streams, those of `subscriptions/listen` included.
    pub(super) fn kept_open(&self) -> usize {
        self.streams.len() + self.listens.len()
    }

    /// Bytes of request bodies that have not arrived in full.
    pub(super) const fn receiving(&self) -> usize {
        self.receiving
    }

    pub(super) fn get(&self, key: ExchangeKey) -> Option<&Exchange> {
        self.open.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: ExchangeKey) -> Option<&mut Exchange> {
        self.open.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: ExchangeKey, exchange: Exchange) {
        self.open.insert(key, exchange);
    }

    fn remove(&mut self, key: ExchangeKey) -> Option<Exchange> {
        let exchange = self.open.remove(&key)?;
        if let Exchange::Receiving { body, .. } = &exchange {
            self.receiving = self.receiving.saturating_sub(body.len());
        }
        self.streams.remove(key);
        self.listens.remove(key);
        Some(exchange)
    }

    /// Appends a chunk to a body, unless the body exceeds its limit (OR6) or the sum of all bodies and `held`, the
    /// other bytes that the server stores, exceeds the common one (M3).
    pub(super) fn append(
        &mut self,
        key: ExchangeKey,
        chunk: &[u8],
        held: usize,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        if let Some(Exchange::Receiving { body, .. }) = self.open.get_mut(&key) {
            let length = body.len() + chunk.len();
            if length > limits.message {
                return Err(admission::too_large());
            }
            if !limits.holds(length, || held + self.receiving - body.len()) {
                return Err(admission::overloaded());
            }
            extend_within(body, chunk, limits.message);
            self.receiving += chunk.len();
        }
        Ok(())
    }
}

impl Http {
    pub(super) fn insert_exchange(&mut self, key: ExchangeKey, exchange: Exchange) {
        if let Some(session) = exchange.session() {
            self.sessions.begin_exchange(session);
        }
        self.exchanges.insert(key, exchange);
    }

    /// Removes an exchange that has ended from all tables; `None` if it was removed before.
    pub(super) fn close_exchange(&mut self, key: ExchangeKey, output: &mut Output<'_>) -> Option<Exchange> {
        let exchange = self.exchanges.remove(key)?;
        output.clear_timer(HttpTimer::Body(key));
        output.clear_timer(HttpTimer::KeepAlive(key));
        output.clear_timer(HttpTimer::Poll(key));
        self.take_task_request(key);
        let mut reader = self.store.readers.remove(&key);
        if let Some(reader) = &mut reader {
            reader.replaces = reader.replaces.filter(|old| self.store.readers.contains_key(old));
        }
        let was_open = matches!(exchange, Exchange::Streaming { .. });
        if let Some(session) = exchange.session() {
            self.sessions.end_exchange(session, output.now);
        }
        let found = exchange.session();
        if let Some((found, session)) = found.and_then(|found| Some((found, self.sessions.get_mut(found)?))) {
            if let Exchange::Streaming { stream, .. } = &exchange {
                if let Some(stream) = session.stream_mut(*stream) {
                    stream.exchange = stream.exchange.filter(|exchange| *exchange != key);
                }
            }
            if let (Some(stored), Some(reader)) = (session.stored_mut(), reader) {
                if stored.on_reader_closed(key, &reader, was_open) {
                    output.defer(HttpStep::RecordClosedStream(found));
                }
            }
        }
        Some(exchange)
    }

    /// Removes an exchange whose request has arrived in full, and returns the parts of the request.
    pub(super) fn take_received(
        &mut self,
        key: ExchangeKey,
        output: &mut Output<'_>,
    ) -> Option<(Box<Parts>, Plan, RequestInfo, Bytes)> {
        if !matches!(self.exchanges.get(key), Some(Exchange::Receiving { .. })) {
            return None;
        }
        match self.close_exchange(key, output)? {
            Exchange::Receiving { head, plan, info, body } => Some((head, plan, info, into_bytes(body))),
            Exchange::Waiting { .. } | Exchange::Storing { .. } | Exchange::Streaming { .. } => None,
        }
    }
}
