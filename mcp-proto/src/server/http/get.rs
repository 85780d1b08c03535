//! Streams that clients open by GET: the standalone stream of a session, a resumed one, and that of a two-endpoint
//! session.

use bytes::Bytes;
use http::StatusCode;

use super::exchange::Exchange;
use super::refusal::Refusal;
use super::session::Session;
use super::{CANDIDATES, ExchangeKey, Http, HttpAction, RequestInfo, admission};
use crate::Instant;
use crate::client::CloseReason;
use crate::codec::sse::{EventName, encode_event};
use crate::conversation::pending::SessionKey;
use crate::server::Server;
use crate::server::carrier::Wire;
use crate::server::shares::Holder;

impl Server<Http> {
    /// Opens the standalone stream of a session. A second one at the same time is refused (row 32).
    pub(super) fn open_own_stream(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        holder: &Holder,
        now: Instant,
    ) {
        let has_stream = |session: &Session| session.own.exchange.is_some();
        if self.transport.sessions.get(session).is_some_and(has_stream) {
            return self.refuse(
                exchange,
                Refusal::new(StatusCode::CONFLICT, "this session has its stream already"),
                now,
            );
        }
        if let Err(refusal) = self.make_room_for_stream(holder, now) {
            return self.refuse(exchange, refusal, now);
        }
        let (_, shared) = &mut self.split(now);
        let http = &mut *shared.transport;
        let Some(found) = http.sessions.get_mut(session) else { return };
        found.own.exchange = Some(exchange);
        let waiting = found.own.unwritten();
        http.insert_exchange(exchange, Exchange::Streaming { session: Some(session), stream: None });
        http.hold_stream(exchange, holder.clone(), now);
        http.open_stream(exchange, &mut shared.wire);
        http.write_kept(exchange, waiting, &mut shared.wire);
    }

    /// Resumes the one stream to which the event belongs (SH-S-52).
    pub(super) fn resume(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        after: &str,
        holder: &Holder,
        now: Instant,
    ) {
        // No other stream is ended for an unknown event id.
        let knows = |session: &Session| {
            session.streams.values().chain([&session.own]).any(|stream| stream.number_of(after).is_some())
        };
        if !self.transport.sessions.get(session).is_some_and(knows) {
            return self.refuse(exchange, admission::unknown_event(), now);
        }
        if let Err(refusal) = self.make_room_for_stream(holder, now) {
            return self.refuse(exchange, refusal, now);
        }
        let (_, shared) = &mut self.split(now);
        let http = &mut *shared.transport;
        let Some(found) = http.sessions.get_mut(session) else { return };
        let of_request =
            found.streams.iter().find(|(_, stream)| stream.number_of(after).is_some()).map(|(key, _)| *key);
        let missed = found.stream_mut(of_request).and_then(|stream| {
            let number = stream.number_of(after)?;
            stream.after(number)
        });
        let Some(missed) = missed else { return self.refuse(exchange, admission::unknown_event(), now) };
        let Some(stream) = found.stream_mut(of_request) else { return };
        // A client that resumes has lost the old connection, even if the server has not detected that.
        let old = stream.exchange.replace(exchange);
        let is_over = stream.is_over;
        http.insert_exchange(exchange, Exchange::Streaming { session: Some(session), stream: of_request });
        http.hold_stream(exchange, holder.clone(), now);
        // The stream of a request counts as in use, because its answer may still follow.
        if of_request.is_some() {
            http.streams.set_used(exchange);
        }
        if let Some(old) = old {
            http.finish(old, &mut shared.wire);
        }
        http.open_stream(exchange, &mut shared.wire);
        http.write_kept(exchange, missed, &mut shared.wire);
        if is_over {
            http.finish(exchange, &mut shared.wire);
        }
    }

    /// Opens a two-endpoint session. Its first event contains the URI to which the client posts its messages (HS-02).
    pub(super) fn open_two_endpoint_session(&mut self, exchange: ExchangeKey, info: &RequestInfo, now: Instant) {
        let opened = self.make_room_for_stream(&info.holder(), now).and_then(|()| self.open_session(info, true, now));
        let session = match opened {
            Ok(session) => session,
            Err(refusal) => return self.refuse(exchange, refusal, now),
        };
        let (_, shared) = &mut self.split(now);
        let http = &mut *shared.transport;
        let (Some(found), Some(two)) = (http.sessions.get_mut(session), &http.config.two_endpoints) else { return };
        let place = format!("{}?sessionId={}", two.messages, found.id);
        found.own.exchange = Some(exchange);
        http.insert_exchange(exchange, Exchange::Streaming { session: Some(session), stream: None });
        http.hold_stream(exchange, info.holder(), now);
        http.open_stream(exchange, &mut shared.wire);
        let mut chunk = Vec::new();
        encode_event(&EventName::ENDPOINT, place.as_bytes(), None, &mut chunk);
        http.write_chunk(exchange, chunk.into(), &mut shared.wire);
    }

    /// At the limit, ends a stream that has been idle for long, or one of a client with many, so that one client cannot
    /// lock out others (M4). Its client may open it again (SH-S-49).
    fn make_room_for_stream(&mut self, newcomer: &Holder, now: Instant) -> Result<(), Refusal> {
        let http = &self.transport;
        if http.streams.len() < http.config.max_streams {
            return Ok(());
        }
        let long = http.config.evict_after;
        let evicted = http.streams.to_evict(newcomer, long, now).take(CANDIDATES).find(|key| self.can_end_stream(*key));
        let evicted = evicted.ok_or(admission::too_many_streams())?;
        if let Some(session) = self.transport.two_endpoint_session_of(evicted) {
            // Closing the stream of a two-endpoint session ends the session (HS-10).
            self.end_session(session, CloseReason::Expired, now);
        } else {
            let (_, shared) = &mut self.split(now);
            shared.transport.finish(evicted, &mut shared.wire);
        }
        Ok(())
    }

    /// Whether a stream may be ended: that of a two-endpoint session is needed for the answers to its requests.
    fn can_end_stream(&self, exchange: ExchangeKey) -> bool {
        let session = self.transport.two_endpoint_session_of(exchange);
        let peer = session.and_then(|session| self.peers.get(&Some(session)));
        peer.is_none_or(|peer| peer.requests_in_flight() == 0)
    }
}

impl Http {
    /// Writes stored events. If there is no room for one, the stream is aborted, and the client may resume it later.
    fn write_kept(&mut self, exchange: ExchangeKey, events: Vec<Bytes>, wire: &mut Wire<'_, HttpAction>) {
        for event in events {
            if self.makes_room(event.len(), wire) {
                self.write_chunk(exchange, event, wire);
            } else {
                return self.abort_unread(exchange, wire);
            }
        }
    }

    fn hold_stream(&mut self, exchange: ExchangeKey, holder: Holder, now: Instant) {
        self.streams.insert(exchange, holder);
        self.streams.set_unused(exchange, now);
    }

    fn two_endpoint_session_of(&self, exchange: ExchangeKey) -> Option<SessionKey> {
        let session = self.exchanges.get(&exchange)?.session()?;
        self.sessions.get(session).filter(|session| session.is_two_endpoint).map(|_| session)
    }
}
