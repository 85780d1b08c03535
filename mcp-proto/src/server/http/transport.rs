//! How each message of the server is sent: in a response, or as an event of a stream.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};

use crate::Instant;
use crate::conversation::keys::{InstanceId, SessionKey};
use crate::error::UsageError;
use crate::jsonrpc::{Message, ParseError, Response as Answer};
use crate::limits::Load;
use crate::server::Config;
use crate::server::http::exchange::refusal::{Refusal, empty, json, refused};
use crate::server::http::purpose::{Asked, Exchange};
use crate::server::http::sessions::session::{Session, SessionKind};
use crate::server::http::{Deferred, ExchangeKey, Http, HttpTimer, Output, Stage};
use crate::server::transport::{Kind, ReplyTo, Route, Sender, ServerTransport, Sharing, ToWrite, TransportNotice};
use crate::spec::header::SESSION_ID;
use crate::spec::{SupportedVersions, UnreadableId};

/// Bytes of an event and a message in addition to the payload and the ids.
const ENVELOPE: usize = 256;

impl ServerTransport for Http {
    const IS_ONE_CONNECTION: bool = false;
    type Step = Deferred;
    type Timer = HttpTimer;

    fn configure(&mut self, config: &Config, is_serving: bool) -> Result<(), UsageError> {
        self.config.check()?;
        // The application answers `initialize`; what it stores for a session would be missing at other instances.
        let is_elsewhere = self.config.sealed().is_some() || self.config.stored().is_some();
        if is_elsewhere && !is_serving {
            return Err(UsageError::SealedSessions);
        }
        self.exchanges.limits = config.limits.clone();
        self.versions = SupportedVersions::new(config.supported());
        Ok(())
    }

    fn proceed(&mut self, step: Deferred, output: &mut Output<'_>) {
        self.on_step(step.0, output);
    }

    fn on_timer(&mut self, timer: HttpTimer, output: &mut Output<'_>) {
        self.on_due(timer, output);
    }

    fn wants_input(&self, _requests: usize) -> bool {
        true
    }

    fn write(&mut self, what: ToWrite<'_>, route: Route, output: &mut Output<'_>) {
        match what {
            ToWrite::Message(message) => self.write_message(message, route, output),
            ToWrite::Batch(answers) => self.write_batch(answers, route, output),
            ToWrite::Nothing => self.write_nothing(route, output),
            ToWrite::Invalid(error) => self.write_invalid(error, route, output),
        }
    }

    fn takes(&mut self, bytes: usize, output: &mut Output<'_>) -> bool {
        self.makes_room(bytes.saturating_add(ENVELOPE), output)
    }

    fn takes_answer(&mut self, bytes: usize, output: &mut Output<'_>) -> bool {
        self.takes(bytes, output)
    }

    fn reports_invalid(&self) -> bool {
        true
    }

    fn on_notice(&mut self, notice: TransportNotice<'_>, output: &mut Output<'_>) {
        match notice {
            TransportNotice::Negotiated(session, version) => {
                if let Some(session) = session.and_then(|session| self.sessions.get_mut(session)) {
                    session.version = Some(version);
                }
            }
            TransportNotice::Opened(session, client) => self.on_opened(session, client),
            TransportNotice::Changed(session, reply_to, setting) => {
                if let (Some(exchange), Some(stored)) = (ExchangeKey::from_reply(reply_to), self.stored_mut(session)) {
                    stored.unanswered.entry(exchange).or_default().push(setting);
                }
            }
            TransportNotice::Busy(session) => self.set_serving(session, true),
            TransportNotice::Idle(session) => self.set_serving(session, false),
            TransportNotice::Released(session, reply_to) => self.release(session, reply_to, output),
            TransportNotice::Ended(session, reason) => self.on_ended(session, reason, output),
            TransportNotice::Published(change) if self.config.stored().is_some() => {
                Self::publish_elsewhere(change, output);
            }
            TransportNotice::Published(_) => {}
            TransportNotice::ListedTools(result) => self.tools.learn(result),
            TransportNotice::Draining => self.drain(output),
            TransportNotice::Stopped => self.stage = Stage::Closed,
        }
    }

    fn sharing(&self, session: Option<SessionKey>) -> Sharing {
        let stored = self.config.stored().map(|stored| stored.instance);
        let Some(session) = session else { return Sharing { instance: stored, ..Sharing::NONE } };
        let Some(found) = self.sessions.get(session) else { return Sharing::NONE };
        match &found.kind {
            // In a store, the record is written when the session is opened.
            SessionKind::Memory => Sharing { instance: stored, ..Sharing::NONE },
            // The tag is random, so that no other instance has it.
            SessionKind::Unsealed { .. } | SessionKind::Sealed { .. } => {
                Sharing { instance: Some(InstanceId::new(found.get_stream.tag())), ..Sharing::NONE }
            }
            SessionKind::Stored(record) => Sharing {
                instance: stored,
                has_client: record.place().is_none_or(|place| Some(place.instance) == stored),
            },
            SessionKind::TwoEndpoints { .. } => Sharing::NONE,
        }
    }

    fn sender(&self, session: Option<SessionKey>, reply_to: ReplyTo) -> Sender<'_> {
        let session = session.and_then(|session| self.sessions.get(session));
        let head = match ExchangeKey::from_reply(reply_to).and_then(|key| self.exchanges.get(key)) {
            Some(Exchange::Waiting { head, .. }) => Some(&**head),
            Some(Exchange::Receiving { .. } | Exchange::Storing { .. } | Exchange::Streaming(_)) | None => None,
        };
        Sender {
            principal: session.and_then(|session| session.principal.as_ref()),
            head,
            extensions: head.map(|head| &head.extensions).or_else(|| session.and_then(Session::extensions)),
        }
    }

    fn listen_to_evict(&mut self, newcomer: ReplyTo, now: Instant) -> Option<ReplyTo> {
        let newcomer = ExchangeKey::from_reply(newcomer)?;
        // The new one must not count towards its holder's share.
        let holder = self.exchanges.listens.remove(newcomer)?;
        let evicted = self.exchanges.listens.to_evict(&holder, self.config.evict_after, now).next();
        self.exchanges.listens.insert(newcomer, holder);
        evicted.map(ExchangeKey::to_reply)
    }

    fn is_drained(&self) -> bool {
        self.unclaimed.is_empty() && !self.store.is_pending()
    }

    fn held(&self) -> usize {
        self.exchanges.receiving()
    }

    fn load(&self) -> Load {
        Load {
            exchanges: self.exchanges.len(),
            streams: self.exchanges.kept_open(),
            held: self.exchanges.receiving(),
            unwritten: self.exchanges.unwritten.bytes() + self.store.queued,
            replay: self.sessions.kept_bytes(),
            ..Load::default()
        }
    }
}

impl Http {
    fn write_message(&mut self, message: &Message, route: Route, output: &mut Output<'_>) {
        let Some(session) = route.session else {
            let text = message.to_bytes_with(UnreadableId::Omitted);
            return self.send_stateless(message, text, route, output);
        };
        let text = message.to_bytes_with(self.unreadable_id(session));
        let status = match route.kind {
            Kind::Refusal => refused(message),
            Kind::Reply | Kind::Message => StatusCode::OK,
        };
        let is_result = matches!(message, Message::Response(Answer::Result { .. }));
        self.send(text, status, is_result, session, route, output);
    }

    fn write_batch(&mut self, answers: &[Message], route: Route, output: &mut Output<'_>) {
        // The revisions of stateless requests have no batches.
        let Some(session) = route.session else { return };
        let unreadable_id = self.unreadable_id(session);
        let mut text = Vec::new();
        for answer in answers {
            text.push(if text.is_empty() { b'[' } else { b',' });
            text.extend_from_slice(&answer.to_bytes_with(unreadable_id));
        }
        text.push(b']');
        self.send(text.into(), StatusCode::OK, false, session, route, output);
    }

    fn write_nothing(&mut self, route: Route, output: &mut Output<'_>) {
        let Some(key) = ExchangeKey::from_reply(route.reply_to) else { return };
        match self.exchanges.get(key) {
            // Without anything to answer, the response is 202 (SH-S-07).
            Some(Exchange::Waiting { .. }) => self.respond(key, empty(StatusCode::ACCEPTED), output),
            Some(Exchange::Streaming(_) | Exchange::Storing { .. } | Exchange::Receiving { .. }) | None => {
                if let Some(session) = route.session {
                    self.end_stream(session, key, output);
                }
            }
        }
    }

    fn write_invalid(&mut self, error: &ParseError, route: Route, output: &mut Output<'_>) {
        // No message answers an invalid response, so that the HTTP status must.
        if let Some(key) = ExchangeKey::from_reply(route.reply_to) {
            let unreadable_id = route.session.map_or(UnreadableId::Omitted, |session| self.unreadable_id(session));
            self.respond(key, Refusal::frame(error).into_response(unreadable_id), output);
        }
    }

    fn drain(&mut self, output: &mut Output<'_>) {
        if self.stage == Stage::Serving {
            self.stage = Stage::Draining;
        }
        for exchange in self.sessions.get_streams() {
            self.finish(exchange, output);
        }
        if self.config.stored().is_some() {
            self.finish_get_readers(output);
        }
    }

    fn send(
        &mut self,
        text: Bytes,
        status: StatusCode,
        is_result: bool,
        session: SessionKey,
        route: Route,
        output: &mut Output<'_>,
    ) {
        // Messages that relate to no exchange, and all of a two-endpoint session (HS-04), use the session's stream.
        let Some(key) = ExchangeKey::from_reply(route.reply_to) else {
            self.write_event(session, None, &text, output);
            return;
        };
        if let Some(Exchange::Waiting { asked, .. }) = self.exchanges.get(key) {
            match route.kind {
                Kind::Reply | Kind::Refusal => {
                    let mut response = json(status, text);
                    // The response with the result of `initialize` contains the session id (SH-S-40).
                    let id = self.sessions.get(session).filter(|_| *asked == Asked::Opening(session) && is_result);
                    if let Some(id) = id.and_then(|session| HeaderValue::from_str(&session.id).ok()) {
                        response.headers_mut().insert(SESSION_ID, id);
                        if self.sessions.is_stored(session) {
                            let asked = *asked;
                            return self.respond_when_stored(key, asked, response, output);
                        }
                    }
                    self.respond(key, response, output);
                    return;
                }
                // A message before the answer turns the response into a stream (SH-S-21).
                Kind::Message => self.begin_stream(session, key, output),
            }
        }
        let has_stream = self.sessions.get(session).is_some_and(|session| session.streams.contains_key(&key));
        match (has_stream, route.kind) {
            (true, Kind::Message) => self.write_event(session, Some(key), &text, output),
            (true, Kind::Reply | Kind::Refusal) if self.sessions.is_appended(session, key) => {
                self.append(session, key, &text, true, output);
            }
            (true, Kind::Reply | Kind::Refusal) => {
                self.keep_settings_of(session, key, output);
                self.write_event(session, Some(key), &text, output);
                self.end_stream(session, key, output);
            }
            // The request is still being served, but its exchange has no stream (SH-S-56).
            (false, Kind::Message) => self.write_event(session, None, &text, output),
            // Without an event id, the client has nothing to resume, so that the answer is lost (SH-S-57).
            (false, Kind::Reply | Kind::Refusal) => self.keep_settings_of(session, key, output),
        }
    }

    /// Answers an exchange with a whole response, and removes it.
    pub(super) fn respond(&mut self, exchange: ExchangeKey, response: Response<Bytes>, output: &mut Output<'_>) {
        if let Some(Exchange::Waiting { asked, .. }) = self.exchanges.get(exchange) {
            let asked = *asked;
            let stored = asked.session().and_then(|session| self.stored_mut(session));
            if stored.is_some_and(|stored| stored.unanswered.contains_key(&exchange)) {
                return self.respond_when_stored(exchange, asked, response, output);
            }
        }
        match self.close_exchange(exchange, output) {
            Some(Exchange::Waiting { asked: Asked::Elsewhere { instance, number }, .. }) => {
                Self::answer_elsewhere(instance, number, response, output);
            }
            Some(_) => self.exchanges.respond(exchange, response, output),
            None => {}
        }
    }

    pub(super) fn unreadable_id(&self, session: SessionKey) -> UnreadableId {
        let version = self.sessions.get(session).and_then(|session| session.version);
        version.map_or(UnreadableId::Null, |version| version.rules().unreadable_id)
    }
}
