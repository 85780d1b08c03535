//! Streams that clients open by GET: the GET stream of a session, a resumed one, and that of a two-endpoint
//! session.

use bytes::Bytes;
use http::Extensions;

use crate::Instant;
use crate::conversation::keys::SessionKey;
use crate::conversation::outcome::CloseReason;
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::purpose::{Exchange, StreamOf};
use crate::server::http::sessions::CANDIDATES;
use crate::server::http::sessions::session::{Session, SessionKind};
use crate::server::http::{ExchangeKey, Http, HttpStep, Output, RequestInfo, Stage};
use crate::server::shares::Holder;
use crate::server::transport::Inbound;
use crate::spec::UnreadableId;
use crate::sse::{EventName, encode_event};

impl Http {
    /// A client opens the GET stream of a session. A second one at the same time is refused (row 32).
    pub(crate) fn make_room_for_get_stream(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        holder: Holder,
        output: &mut Output<'_>,
    ) {
        let has_stream = |session: &Session| session.get_stream.exchange.is_some();
        if self.sessions.get(session).is_some_and(has_stream) {
            return self.exchanges.refuse(exchange, Refusal::has_get_stream(), self.unreadable_id(session), output);
        }
        match self.make_room_for_stream(&holder, output) {
            Ok(()) => output.defer(HttpStep::OpenGetStream { exchange, session, holder }),
            Err(refusal) => self.exchanges.refuse(exchange, refusal, self.unreadable_id(session), output),
        }
    }

    pub(crate) fn open_get_stream(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        holder: Holder,
        output: &mut Output<'_>,
    ) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        found.get_stream.exchange = Some(exchange);
        let waiting = found.get_stream.unwritten();
        self.insert_exchange(exchange, Exchange::Streaming(StreamOf::Session(session)));
        self.hold_stream(exchange, holder, output.now);
        self.exchanges.open_stream(exchange, output);
        self.write_kept(exchange, waiting, output);
    }

    /// A client resumes the one stream to which the event belongs (SH-S-52).
    pub(crate) fn make_room_to_resume(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        after: Box<str>,
        holder: Holder,
        output: &mut Output<'_>,
    ) {
        // No other stream is ended for an unknown event id.
        let has_event = |session: &Session| {
            session.streams.values().chain([&session.get_stream]).any(|stream| stream.number_of(&after).is_some())
        };
        if !self.sessions.get(session).is_some_and(has_event) {
            return self.exchanges.refuse(exchange, Refusal::unknown_event(), self.unreadable_id(session), output);
        }
        let is_get_stream = |session: &Session| session.get_stream.number_of(&after).is_some();
        if self.stage != Stage::Serving && self.sessions.get(session).is_some_and(is_get_stream) {
            return self.exchanges.refuse(exchange, Refusal::stopped(), self.unreadable_id(session), output);
        }
        match self.make_room_for_stream(&holder, output) {
            Ok(()) => output.defer(HttpStep::Resume { exchange, session, after, holder }),
            Err(refusal) => self.exchanges.refuse(exchange, refusal, self.unreadable_id(session), output),
        }
    }

    pub(crate) fn resume(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        after: &str,
        holder: Holder,
        output: &mut Output<'_>,
    ) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let of_request =
            found.streams.iter().find(|(_, stream)| stream.number_of(after).is_some()).map(|(key, _)| *key);
        let missed = found.stream_mut(of_request).and_then(|stream| {
            let number = stream.number_of(after)?;
            stream.after(number)
        });
        let Some(missed) = missed else {
            return self.exchanges.refuse(exchange, Refusal::unknown_event(), self.unreadable_id(session), output);
        };
        let Some(stream) = found.stream_mut(of_request) else { return };
        // A client that resumes has lost the old connection, even if the server has not detected that.
        let old = stream.exchange.replace(exchange);
        let is_over = stream.is_over;
        self.insert_exchange(
            exchange,
            Exchange::Streaming(
                of_request.map_or(StreamOf::Session(session), |request| StreamOf::Request(session, request)),
            ),
        );
        self.hold_stream(exchange, holder, output.now);
        if let Some(request) = of_request {
            self.unclaimed.remove(&(session, request));
        }
        // The stream of a request counts as in use, because its answer may still follow.
        if of_request.is_some() {
            self.exchanges.streams.set_used(exchange);
        }
        if let Some(old) = old {
            self.finish(old, output);
        }
        self.exchanges.open_stream(exchange, output);
        self.write_kept(exchange, missed, output);
        if is_over {
            self.finish(exchange, output);
        }
    }

    /// A client opens the stream that begins a two-endpoint session.
    pub(crate) fn make_room_for_two_endpoint_stream(
        &mut self,
        exchange: ExchangeKey,
        info: RequestInfo,
        output: &mut Output<'_>,
    ) {
        match self.make_room_for_stream(&info.holder(), output) {
            Ok(()) => output.defer(HttpStep::MakeRoomForTwoEndpointSession { exchange, info }),
            Err(refusal) => self.exchanges.refuse(exchange, refusal, UnreadableId::Null, output),
        }
    }

    pub(crate) fn make_room_for_two_endpoint_session(
        &mut self,
        exchange: ExchangeKey,
        info: RequestInfo,
        output: &mut Output<'_>,
    ) {
        match self.make_room_for_session(&info.holder(), output) {
            Ok(()) => output.defer(HttpStep::OpenTwoEndpointSession { exchange, info }),
            Err(refusal) => self.exchanges.refuse(exchange, refusal, UnreadableId::Null, output),
        }
    }

    /// The first event of a two-endpoint session contains the URI to which the client posts its messages (HS-02).
    pub(crate) fn open_two_endpoint_session(
        &mut self,
        exchange: ExchangeKey,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) {
        let session = match self.open_session(info, SessionKind::TwoEndpoints { extensions: Extensions::new() }, output)
        {
            Ok(session) => session,
            Err(refusal) => return self.exchanges.refuse(exchange, refusal, UnreadableId::Null, output),
        };
        output.inbound.push_back(Inbound::Opened { session, request: None });
        let (Some(found), Some(two)) = (self.sessions.get_mut(session), &self.config.two_endpoints) else { return };
        let place = format!("{}{}?sessionId={}", self.config.public_path, two.messages, found.id);
        found.get_stream.exchange = Some(exchange);
        self.insert_exchange(exchange, Exchange::Streaming(StreamOf::Session(session)));
        self.hold_stream(exchange, info.holder(), output.now);
        self.exchanges.open_stream(exchange, output);
        let mut chunk = Vec::new();
        encode_event(&EventName::ENDPOINT, place.as_bytes(), None, &mut chunk);
        self.exchanges.write_chunk(exchange, chunk.into(), output);
    }

    /// At the limit, ends a stream that has been idle for long, or one of a client with many, so that one client cannot
    /// lock out others (M4). Its client may open it again (SH-S-49).
    pub(crate) fn make_room_for_stream(&mut self, newcomer: &Holder, output: &mut Output<'_>) -> Result<(), Refusal> {
        if self.exchanges.streams.len() < self.config.most_streams() {
            return Ok(());
        }
        let candidates =
            self.exchanges.streams.to_evict(newcomer, self.config.evict_after, output.now).take(CANDIDATES);
        let evicted = candidates.into_iter().find(|key| self.can_end_stream(*key));
        let evicted = evicted.ok_or(Refusal::too_many_streams())?;
        if let Some(session) = self.two_endpoint_session_of(evicted) {
            // Closing the stream of a two-endpoint session ends the session (HS-10).
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Expired });
        } else {
            self.finish_reading(evicted, Refusal::too_many_streams(), output);
        }
        Ok(())
    }

    /// Whether a stream may be ended. A two-endpoint session needs its stream while it has unanswered requests.
    fn can_end_stream(&self, exchange: ExchangeKey) -> bool {
        let session = self.two_endpoint_session_of(exchange).and_then(|session| self.sessions.get(session));
        session.is_none_or(|session| !session.is_serving)
    }

    /// Writes stored events. If there is no room for one, the stream is aborted, and the client may resume it later.
    fn write_kept(&mut self, exchange: ExchangeKey, events: Vec<Bytes>, output: &mut Output<'_>) {
        for event in events {
            if self.makes_room(event.len(), output) {
                self.exchanges.write_chunk(exchange, event, output);
            } else {
                return self.exchanges.abort_unread(exchange, output);
            }
        }
    }

    pub(crate) fn hold_stream(&mut self, exchange: ExchangeKey, holder: Holder, now: Instant) {
        self.exchanges.streams.insert(exchange, holder);
        self.exchanges.streams.set_unused(exchange, now);
    }

    fn two_endpoint_session_of(&self, exchange: ExchangeKey) -> Option<SessionKey> {
        let session = self.exchanges.get(exchange)?.session()?;
        self.sessions.get(session).filter(|session| session.is_two_endpoint()).map(|_| session)
    }
}
