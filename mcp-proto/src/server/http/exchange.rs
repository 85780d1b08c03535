//! One exchange, from the head of its request to the end of its response.

use bytes::Bytes;
use http::request::Parts;

use super::admission::{self, Plan};
use super::refusal::Refusal;
use super::{Http, RequestInfo, Timer};
use crate::Instant;
use crate::codec::buffer::{extend_within, into_bytes};
use crate::conversation::pending::SessionKey;

/// Names one HTTP exchange: a request that came in, and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey(pub(super) u64);

/// How far an exchange has come. One that is answered is no more. It holds headers, and so shows nothing of itself.
pub(super) enum Exchange {
    /// The body of the request arrives.
    Receiving { head: Box<Parts>, plan: Plan, info: RequestInfo, body: Vec<u8> },
    /// The answer is not there yet: it may become JSON or a stream.
    Waiting {
        session: SessionKey,
        head: Box<Parts>,
        /// It began the session.
        opens: bool,
        /// What will name the stream.
        tag: u64,
    },
    /// The response is a stream: that of a request, or with `None` the session's own.
    Streaming { session: SessionKey, stream: Option<ExchangeKey> },
}

impl Exchange {
    pub(super) const fn session(&self) -> Option<SessionKey> {
        match self {
            Self::Receiving { .. } => None,
            Self::Waiting { session, .. } | Self::Streaming { session, .. } => Some(*session),
        }
    }
}

impl Http {
    pub(super) fn new_exchange(&mut self) -> ExchangeKey {
        self.next_exchange += 1;
        ExchangeKey(self.next_exchange)
    }

    pub(super) fn insert_exchange(&mut self, key: ExchangeKey, exchange: Exchange) {
        if let Some(session) = exchange.session() {
            self.sessions.begin_exchange(session);
        }
        self.exchanges.insert(key, exchange);
    }

    /// Takes an exchange that is over out of all tables; `None` if that has happened.
    pub(super) fn close_exchange(&mut self, key: ExchangeKey, now: Instant) -> Option<Exchange> {
        let exchange = self.exchanges.remove(&key)?;
        if let Exchange::Receiving { body, .. } = &exchange {
            self.receiving = self.receiving.saturating_sub(body.len());
        }
        self.timers.clear(Timer::Body(key));
        self.timers.clear(Timer::KeepAlive(key));
        self.streams.remove(key);
        self.listens.remove(key);
        if let Some(session) = exchange.session() {
            self.sessions.end_exchange(session, now);
        }
        if let Some(session) = exchange.session().and_then(|session| self.sessions.get_mut(session)) {
            if let Exchange::Streaming { stream, .. } = &exchange {
                if let Some(stream) = session.stream_mut(*stream) {
                    stream.exchange = stream.exchange.filter(|exchange| *exchange != key);
                }
            }
        }
        Some(exchange)
    }

    /// Appends a part of a body, unless it grew over the limit (OR6) or all bodies together do (M3). `held` is what the
    /// server keeps beside them.
    pub(super) fn append(&mut self, key: ExchangeKey, chunk: &[u8], held: usize) -> Result<(), Refusal> {
        if let Some(Exchange::Receiving { body, .. }) = self.exchanges.get_mut(&key) {
            let length = body.len() + chunk.len();
            if length > self.limits.message {
                return Err(admission::too_large());
            }
            if !self.limits.holds(length, || held + self.receiving - body.len()) {
                return Err(admission::overloaded());
            }
            extend_within(body, chunk, self.limits.message);
            self.receiving += chunk.len();
        }
        Ok(())
    }

    /// A body as the frame that it holds.
    pub(super) fn take_received(
        &mut self,
        key: ExchangeKey,
        now: Instant,
    ) -> Option<(Box<Parts>, Plan, RequestInfo, Bytes)> {
        if !matches!(self.exchanges.get(&key), Some(Exchange::Receiving { .. })) {
            return None;
        }
        match self.close_exchange(key, now)? {
            Exchange::Receiving { head, plan, info, body } => Some((head, plan, info, into_bytes(body))),
            Exchange::Waiting { .. } | Exchange::Streaming { .. } => None,
        }
    }
}
