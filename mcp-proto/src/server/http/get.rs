//! Streams that clients open: a session's own, one that broke, and that of a two-endpoint session.

use http::StatusCode;

use super::exchange::Exchange;
use super::refusal::Refusal;
use super::{Arrival, ExchangeKey, Http, HttpAction, ladder};
use crate::Instant;
use crate::pending::SessionKey;
use crate::server::Server;
use crate::sse::{EventName, encode_event};

impl Server<Http> {
    /// Row 32: the session's own stream is one at a time.
    pub(super) fn open_own_stream(&mut self, exchange: ExchangeKey, session: SessionKey, now: Instant) {
        let (_, hub) = &mut self.split(now);
        let http = &mut *hub.transport;
        let Some(found) = http.sessions.get_mut(session) else { return };
        if found.own.exchange.is_some() {
            return self.refuse(exchange, Refusal::new(StatusCode::CONFLICT, "this session has its stream already"));
        }
        found.own.exchange = Some(exchange);
        let waiting = found.own.unwritten();
        http.insert_exchange(exchange, Exchange::Streaming { session, stream: None });
        http.open_stream(exchange, &mut hub.wire);
        for chunk in waiting {
            hub.wire.out.act(HttpAction::Write { exchange, chunk });
        }
    }

    /// SH-S-52: goes on with the one stream that the event belongs to.
    pub(super) fn resume(&mut self, exchange: ExchangeKey, session: SessionKey, after: &str, now: Instant) {
        let (_, hub) = &mut self.split(now);
        let http = &mut *hub.transport;
        let Some(found) = http.sessions.get_mut(session) else { return };
        let of_request =
            found.streams.iter().find(|(_, stream)| stream.number_of(after).is_some()).map(|(key, _)| *key);
        let missed = found.stream_mut(of_request).and_then(|stream| {
            let number = stream.number_of(after)?;
            stream.after(number)
        });
        let Some(missed) = missed else { return self.refuse(exchange, ladder::unknown_event()) };
        let Some(stream) = found.stream_mut(of_request) else { return };
        // A client that comes back has lost the old connection, whether or not that was noticed here.
        let old = stream.exchange.replace(exchange);
        let is_over = stream.is_over;
        http.insert_exchange(exchange, Exchange::Streaming { session, stream: of_request });
        if let Some(old) = old {
            http.finish(old, &mut hub.wire);
        }
        http.open_stream(exchange, &mut hub.wire);
        for chunk in missed {
            hub.wire.out.act(HttpAction::Write { exchange, chunk });
        }
        if is_over {
            http.finish(exchange, &mut hub.wire);
        }
    }

    /// HS-02: the first event says where the client's messages go.
    pub(super) fn open_two_endpoint_session(&mut self, exchange: ExchangeKey, arrival: &Arrival, now: Instant) {
        let session = match self.open_session(arrival, true, now) {
            Ok(session) => session,
            Err(refusal) => return self.refuse(exchange, refusal),
        };
        let (_, hub) = &mut self.split(now);
        let http = &mut *hub.transport;
        let (Some(found), Some(two)) = (http.sessions.get_mut(session), &http.config.two_endpoints) else { return };
        let place = format!("{}?sessionId={}", two.messages, found.id);
        found.own.exchange = Some(exchange);
        http.insert_exchange(exchange, Exchange::Streaming { session, stream: None });
        http.open_stream(exchange, &mut hub.wire);
        let mut chunk = Vec::new();
        encode_event(&EventName::ENDPOINT, place.as_bytes(), None, &mut chunk);
        hub.wire.out.act(HttpAction::Write { exchange, chunk: chunk.into() });
    }
}
