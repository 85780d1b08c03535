//! Bytes of responses that were handed out and that clients have not taken.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;

use super::{ExchangeKey, Http, HttpAction, Timer};
use crate::server::carrier::Wire;

/// By exchange, from its first byte until the last one was taken.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    exchanges: BTreeMap<ExchangeKey, Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    /// A chunk found no room: the stream cannot go on.
    is_broken: bool,
}

impl Unwritten {
    fn add(&mut self, exchange: ExchangeKey, bytes: usize) {
        if bytes > 0 {
            self.exchanges.entry(exchange).or_default().bytes += bytes;
        }
    }

    /// Whether something of a stream found no room.
    pub(super) fn is_broken(&self, exchange: ExchangeKey) -> bool {
        self.exchanges.get(&exchange).is_some_and(|waiting| waiting.is_broken)
    }

    /// More bytes than there are count as all of them.
    pub(super) fn remove(&mut self, exchange: ExchangeKey, bytes: usize) {
        let Some(waiting) = self.exchanges.get_mut(&exchange) else { return };
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        if waiting.bytes == 0 && !waiting.is_broken {
            self.exchanges.remove(&exchange);
        }
    }

    pub(super) fn forget(&mut self, exchange: ExchangeKey) {
        self.exchanges.remove(&exchange);
    }
}

impl Http {
    /// Hands out the response of an exchange.
    pub(super) fn act_response(
        &mut self,
        exchange: ExchangeKey,
        response: Response<Bytes>,
        wire: &mut Wire<'_, HttpAction>,
    ) {
        self.unwritten.add(exchange, response.body().len());
        wire.out.act(HttpAction::Respond { exchange, response });
    }

    /// Hands out a piece of a stream. If too much of the stream waits already, it is aborted as soon as the driver lets
    /// timers act; one piece is taken when nothing waits (K1).
    pub(super) fn write_chunk(&mut self, exchange: ExchangeKey, chunk: Bytes, wire: &mut Wire<'_, HttpAction>) {
        if let Some(waiting) = self.unwritten.exchanges.get_mut(&exchange) {
            if waiting.is_broken || waiting.bytes.saturating_add(chunk.len()) > self.limits.unwritten {
                waiting.is_broken = true;
                self.timers.set(Timer::Unread(exchange), wire.now);
                return;
            }
        }
        self.unwritten.add(exchange, chunk.len());
        wire.out.act(HttpAction::Write { exchange, chunk });
    }
}
