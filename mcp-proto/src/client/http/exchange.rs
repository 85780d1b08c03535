//! Open HTTP exchanges: what each is for, and how far it has been read.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Request;
use http::response::Parts;

use super::delivery::DeliveryKey;
use super::{Http, HttpAction, HttpTimer};
use crate::Instant;
use crate::auth::ProofClaims;
use crate::client::transport::{Role, TransportOutput};
use crate::collections::buffer::extend_within;
use crate::conversation::keys::RequestKey;
use crate::error::Refusal;
use crate::limits::Limits;
use crate::sse::{Decoder, EventId};

/// Identifies one HTTP exchange: a request of the client, and its response. The client uses each key once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey(u64);

#[cfg(test)]
impl ExchangeKey {
    pub(super) const FIRST: Self = Self(0);
    pub(super) const SECOND: Self = Self(1);
}

/// The open exchanges.
#[derive(Debug)]
pub(super) struct Exchanges {
    open: BTreeMap<ExchangeKey, Exchange>,
    next_key: u64,
    /// Bytes of all responses that have not arrived in full.
    receiving: usize,
}

impl Exchanges {
    pub(super) const fn new() -> Self {
        Self { open: BTreeMap::new(), next_key: 0, receiving: 0 }
    }

    pub(super) fn open(
        &mut self,
        exchange: Exchange,
        request: Request<Bytes>,
        proof: Option<ProofClaims>,
        output: &mut TransportOutput<'_, Http>,
    ) -> ExchangeKey {
        let key = self.next_key();
        self.next_key += 1;
        self.open.insert(key, exchange);
        output.act(HttpAction::Open { exchange: key, request, proof });
        key
    }

    /// The key of the next exchange. It is greater than those of all earlier ones.
    pub(super) const fn next_key(&self) -> ExchangeKey {
        ExchangeKey(self.next_key)
    }

    pub(super) fn get_mut(&mut self, key: ExchangeKey) -> Option<&mut Exchange> {
        self.open.get_mut(&key)
    }

    /// Takes an exchange out of the table while its input is handled; [`Exchanges::put_back`] follows.
    pub(super) fn take(&mut self, key: ExchangeKey) -> Option<Exchange> {
        self.open.remove(&key)
    }

    pub(super) fn put_back(&mut self, key: ExchangeKey, mut exchange: Exchange) {
        let held = exchange.reading.held();
        self.receiving = self.receiving - exchange.held + held;
        exchange.held = held;
        self.open.insert(key, exchange);
    }

    /// Removes an exchange that has ended.
    pub(super) fn remove(&mut self, key: ExchangeKey, output: &mut TransportOutput<'_, Http>) -> Option<Exchange> {
        let exchange = self.open.remove(&key)?;
        self.receiving -= exchange.held;
        for timer in [HttpTimer::Idle(key), HttpTimer::Linger(key), HttpTimer::Accept(key)] {
            output.clear_timer(timer);
        }
        Some(exchange)
    }

    /// Removes an exchange, and closes its connection.
    pub(super) fn abort(&mut self, key: ExchangeKey, output: &mut TransportOutput<'_, Http>) -> Option<Exchange> {
        let exchange = self.remove(key, output)?;
        output.act(HttpAction::Abort { exchange: key });
        Some(exchange)
    }

    /// Aborts every exchange for which `wanted` holds.
    pub(super) fn abort_where(&mut self, wanted: impl Fn(&Exchange) -> bool, output: &mut TransportOutput<'_, Http>) {
        let wanted = self.open.iter().filter(|(_, exchange)| wanted(exchange));
        let keys: Vec<_> = wanted.map(|(key, _)| *key).collect();
        for key in keys {
            self.abort(key, output);
        }
    }

    /// Whether an exchange for such a purpose is open.
    pub(super) fn any(&self, wanted: impl Fn(Purpose) -> bool) -> bool {
        self.open.values().any(|exchange| wanted(exchange.purpose))
    }

    /// Whether the received part of a message may be kept in addition to those of all other exchanges (M3). `exchange`
    /// was taken out of the table.
    pub(super) fn has_room_for(&self, exchange: &Exchange, limits: &Limits) -> bool {
        let held = exchange.reading.held();
        held <= exchange.held || limits.holds(held, || self.receiving - exchange.held)
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) const fn receiving(&self) -> usize {
        self.receiving
    }
}

/// The request of an exchange has ended: the exchange is read until this time, which later calls do not move.
pub(super) fn linger_until(key: ExchangeKey, at: Instant, output: &mut TransportOutput<'_, Http>) {
    if !output.is_set(HttpTimer::Linger(key)) {
        output.set_timer(HttpTimer::Linger(key), at);
    }
}

/// What an exchange is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// Carries a message to the server.
    Post(Posted),
    /// Streams the server's own messages (SH-C-38).
    GetStream { redirects: usize },
    /// Resumes the broken stream of a request (SH-C-32).
    Resume { request: RequestKey, redirects: usize },
    /// Streams everything from a two-endpoint server (HS-01).
    TwoEndpointStream { redirects: usize },
    /// Ends the session (SH-C-09).
    Delete,
    /// Nothing any more: the rest of the body is read so that the connection can be reused.
    Drain,
}

/// The message of an exchange. It may have ended before the exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posted {
    pub(super) message: DeliveryKey,
    pub(super) role: Role,
    pub(super) redirects: usize,
}

impl Purpose {
    /// Whether it is a stream that belongs to no request.
    pub(super) const fn is_stream(self) -> bool {
        match self {
            Self::GetStream { .. } | Self::TwoEndpointStream { .. } => true,
            Self::Post(_) | Self::Resume { .. } | Self::Delete | Self::Drain => false,
        }
    }

    /// The request whose answer may arrive on this exchange.
    pub(super) const fn request(self) -> Option<RequestKey> {
        match self {
            Self::Post(posted) => posted.message.request(),
            Self::Resume { request, .. } => Some(request),
            Self::GetStream { .. } | Self::TwoEndpointStream { .. } | Self::Delete | Self::Drain => None,
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
    /// The body of an HTTP error, which may explain it. `challenge` is the head of the response if it demands credentials
    /// unless the body states that the session is lost.
    Refusal { refusal: Refusal, body: Vec<u8>, challenge: Option<Box<Parts>> },
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

/// The session and the credentials with which an exchange was opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenedIn {
    /// The number of the session.
    pub(super) generation: u64,
    /// The server may have forgotten the session.
    pub(super) in_session: bool,
    /// The generation of the credentials that its request carries.
    pub(super) credentials: Option<u64>,
}

/// An open exchange.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) purpose: Purpose,
    pub(super) opened_in: OpenedIn,
    pub(super) reading: Reading,
    /// The request was written in full.
    pub(super) sent: bool,
    /// A cancellation that waits until the request that it cancels was written (BR-T-08).
    pub(super) cancellation: Option<Bytes>,
    /// Bytes that were read after its request had ended (SS10).
    pub(super) trailing: usize,
    /// Its share of `Exchanges::receiving`, in bytes.
    held: usize,
}

impl Exchange {
    pub(super) const fn new(purpose: Purpose, opened_in: OpenedIn) -> Self {
        Self { purpose, opened_in, reading: Reading::Head, sent: false, cancellation: None, trailing: 0, held: 0 }
    }

    /// The request that the server may be opening a session for: its response has not begun.
    pub(super) const fn opening(&self) -> Option<RequestKey> {
        match (self.purpose, &self.reading) {
            (Purpose::Post(Posted { role: Role::Initialize(request), .. }), Reading::Head) => Some(request),
            _ => None,
        }
    }

    /// The rest of the response is not needed.
    pub(super) fn discard_rest(&mut self, limits: &Limits) {
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
