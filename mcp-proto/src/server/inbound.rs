//! Requests, notifications and responses from the client.

use super::carrier::{Carrier, Kind, Shared};
use super::config::Config;
use super::context::Context;
use super::era::Envelope;
use super::input::Parked;
use super::listen::uri_of;
use super::peer::{Origin, Peer, Phase, Source};
use super::{Event, LoggingLevel, Timer, era};
use crate::client::Outcome;
use crate::codec::json::{Json, check_unique_keys};
use crate::codec::jsonrpc::{ErrorObject, Message, Notification, ParseError, Request, RequestId, Response, Subject};
use crate::conversation::pending::Match;
use crate::error::{Failed, Fault, InvalidResponse};
use crate::spec::meta::RequestMeta;
use crate::spec::{Era, ProtocolVersion, SettingChange};
use crate::spec::{Method, code};
use crate::transport::too_long;

/// The maximum of bytes that a session stores of its client's `capabilities`, and of its `clientInfo`.
const REMEMBERED: usize = 16 * 1024;

impl Peer {
    pub(super) fn on_message<T: Carrier>(&mut self, message: Message, source: Source, shared: &mut Shared<'_, T>) {
        match message {
            Message::Request(request) => self.on_request(request, source, shared),
            Message::Notification(notification) => self.on_notification(notification, shared),
            Message::Response(response) => self.on_response(response, shared),
        }
    }

    pub(super) fn on_batch<T: Carrier>(
        &mut self,
        items: Vec<Result<Message, ParseError>>,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        if !self.version.is_some_and(|version| version.rules().batches) {
            // The negotiated revision has no batches (JR-37, JR-38).
            shared.wire.out.report(Event::Faulted(Fault::UnexpectedBatch));
            let error = ErrorObject::new(code::INVALID_REQUEST, &Fault::UnexpectedBatch.to_string());
            self.refuse(None, &error, source, shared);
            return;
        }
        let batch = self.batches.begin();
        for item in items {
            match item {
                Ok(message) => self.on_message(message, Source { batch: Some(batch), ..source }, shared),
                Err(error) => self.on_invalid(error, Source { batch: Some(batch), ..source }, shared),
            }
        }
        self.settle_batch(batch, None, source.exchange, shared);
    }

    pub(super) fn on_request<T: Carrier>(&mut self, request: Request, source: Source, shared: &mut Shared<'_, T>) {
        let is_serving = shared.serving().is_some();
        // In a session, a server that passes through does not distinguish stateless requests, because the application
        // decides about them.
        if shared.config().serves(Era::Modern) && (is_serving || self.phase == Phase::Awaiting) {
            let meta = RequestMeta::read(request.params.as_ref());
            // A request with the `_meta` of the modern era is stateless (ER-41).
            if meta.is_claimed || (is_serving && !shared.config().serves(Era::Legacy)) {
                return self.on_stateless(request, meta, Envelope::default(), source, shared);
            }
        }
        if let Err(error) = self.admit(&request.method, request.params.as_ref(), source, shared) {
            return self.refuse(Some(request.id), &error, source, shared);
        }
        match shared.serving() {
            Some(config) => self.serve(request, source, config, shared),
            None => self.pass(request, source, shared),
        }
    }

    /// Answers a request of the protocol, or reports a request to the application.
    fn serve<T: Carrier>(&mut self, request: Request, source: Source, config: &Config, shared: &mut Shared<'_, T>) {
        let Request { id, method, params } = request;
        // `ping` is answered at once (LC-17).
        if method == Method::PING {
            return self.answer_at_once(id, Ok(Json::empty_object()), source, shared);
        }
        if method == Method::LOGGING_SET_LEVEL && config.declares("logging") {
            let answer = self.set_logging_level(params.as_ref());
            return self.answer_at_once(id, answer, source, shared);
        }
        if method == Method::INITIALIZE {
            return self.initialize(id, params, source, shared);
        }
        let setting = method.facts().changes_setting;
        let is_subscribe = matches!(setting, Some(SettingChange::Subscribe | SettingChange::Unsubscribe));
        if is_subscribe && !config.hands_up_subscribe {
            let answer = self.subscribe(&method, params.as_ref(), shared);
            return self.answer_at_once(id, answer, source, shared);
        }
        let mut origin = Origin::new(source, method, params.as_ref());
        if origin.method.facts().takes_input {
            origin.parked = Some(Parked::new(params.clone()));
        }
        if is_subscribe {
            origin.uri = uri_of(params.as_ref());
        }
        self.report_request(id, origin, params, shared);
    }

    /// Reports a request to the application, which passes it through.
    fn pass<T: Carrier>(&mut self, request: Request, source: Source, shared: &mut Shared<'_, T>) {
        let Request { id, method, params } = request;
        // The application may not have a connection that could answer.
        if method == Method::PING && self.phase == Phase::Awaiting {
            return self.answer_at_once(id, Ok(Json::empty_object()), source, shared);
        }
        if method == Method::INITIALIZE {
            self.client.clone_from(&params);
        }
        let origin = Origin::new(source, method, params.as_ref());
        self.report_request(id, origin, params, shared);
    }

    /// Reports a request of the session, if there is room for it.
    fn report_request<T: Carrier>(
        &mut self,
        id: RequestId,
        origin: Origin,
        params: Option<Json>,
        shared: &mut Shared<'_, T>,
    ) {
        let (source, method) = (origin.source, origin.method.clone());
        let bytes = params.as_ref().map_or(0, Json::len);
        if let Err(error) = self.check_room(true, bytes, shared) {
            return self.refuse(Some(id), &error, source, shared);
        }
        if self.incoming.is_in_use(&id) {
            shared.wire.out.report(Event::Faulted(Fault::DuplicateId { id: id.clone() }));
        }
        if origin.opens_session {
            self.phase = Phase::Opening;
        }
        if let Some(batch) = source.batch {
            self.batches.expect_one_more(batch);
        }
        let ticket = self.begin_request(id, origin, bytes, shared);
        shared.wire.out.report(Event::Requested { ticket, method, params });
    }

    /// Handles a stateless request (RULES 8).
    pub(super) fn on_stateless<T: Carrier>(
        &mut self,
        request: Request,
        meta: RequestMeta,
        envelope: Envelope<'_>,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let on_exchange = source.exchange.is_some();
        let admitted = if source.batch.is_some() {
            // The revisions of stateless requests have no batches (JR-38).
            Err(ErrorObject::new(code::INVALID_REQUEST, "a request of this revision in a batch"))
        } else {
            self.admit_stateless(&request, shared).and_then(|()| match shared.serving() {
                Some(config) => era::admit(config, shared.tools, &request, meta, envelope),
                None => era::pass(shared.config(), meta),
            })
        };
        let Request { id, method, params } = request;
        let context = match admitted {
            Ok(context) => Context {
                principal: context.principal.or_else(|| shared.transport.principal(self.key).cloned()),
                ..context
            },
            Err(error) => return self.refuse(Some(id), &error, source, shared),
        };
        if self.version.is_none() {
            shared.transport.negotiated(self.key, context.version);
        }
        if let Some(config) = shared.serving() {
            if method == Method::SERVER_DISCOVER {
                let result = era::complete(config, &method, &era::discover(config));
                return self.answer_at_once(id, Ok(result), source, shared);
            }
            if method == Method::SUBSCRIPTIONS_LISTEN {
                return self.listen(id, params.as_ref(), &context, source, shared);
            }
        }
        let bytes = params.as_ref().map_or(0, Json::len);
        if let Err(error) = self.check_room(!on_exchange, bytes, shared) {
            return self.refuse(Some(id), &error, source, shared);
        }
        // Over HTTP, different clients may use equal ids (C1).
        if !on_exchange && self.incoming.is_in_use(&id) {
            shared.wire.out.report(Event::Faulted(Fault::DuplicateId { id: id.clone() }));
        }
        let mut origin = Origin::new(source, method.clone(), params.as_ref());
        let cancels = context.version.rules().disconnect_cancels;
        origin.stated = Some(Box::new(context));
        let ticket = self.begin_request(id, origin, bytes, shared);
        if let Some(exchange) = source.exchange.filter(|_| cancels) {
            self.exchanges.insert(exchange, ticket.key());
        }
        shared.wire.out.report(Event::Requested { ticket, method, params });
    }

    /// Checks a stateless request before its `_meta` is evaluated.
    fn admit_stateless<T: Carrier>(&self, request: &Request, shared: &mut Shared<'_, T>) -> Result<(), ErrorObject> {
        if self.input_ended {
            return Err(ErrorObject::new(code::INVALID_REQUEST, "the connection is being closed"));
        }
        let params = request.params.as_ref();
        // This precedes all comparisons with headers, because readers differ in which duplicate key they compare (HM3).
        check_members(params, shared)
    }

    /// Checks whether a request may be reported to the application.
    ///
    /// # Errors
    ///
    /// The answer to the request.
    fn admit<T: Carrier>(
        &mut self,
        method: &Method,
        params: Option<&Json>,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), ErrorObject> {
        let refuse = |code, text: &str| Err(ErrorObject::new(code, text));
        if self.input_ended {
            return refuse(code::INVALID_REQUEST, "the connection is being closed");
        }
        match (self.phase, *method == Method::INITIALIZE) {
            (Phase::Awaiting, true) if source.batch.is_none() => {}
            // `initialize` must not be in a batch (JR-32, LC-15).
            (Phase::Awaiting, true) => return refuse(code::INVALID_REQUEST, "initialize in a batch"),
            // A second `initialize` does not change the session (SE2, LC-21).
            (Phase::Opening | Phase::Open | Phase::Ready | Phase::Closed, true) => {
                return refuse(code::INVALID_REQUEST, "the session was initialized before");
            }
            (Phase::Awaiting, false) if *method == Method::PING => {}
            // A client that probes for the modern era detects by this error that it is not served (ER-24).
            (Phase::Awaiting, false) if *method == Method::SERVER_DISCOVER => {
                return refuse(code::METHOD_NOT_FOUND, "method not found: this server begins with initialize");
            }
            (Phase::Awaiting, false) => return refuse(code::INVALID_REQUEST, "the session is not initialized"),
            (Phase::Opening | Phase::Open | Phase::Ready | Phase::Closed, false) => {}
        }
        check_members(params, shared)?;
        // Parameters must be an object (JR-12). A server that passes through leaves that to the application.
        if shared.serving().is_some() && params.is_some_and(|params| !params.is_object()) {
            return refuse(code::INVALID_PARAMS, "invalid params: they must be an object");
        }
        Ok(())
    }

    fn initialize<T: Carrier>(
        &mut self,
        id: RequestId,
        params: Option<Json>,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let params = params.unwrap_or(Json::empty_object());
        let asked = params.first_member("protocolVersion");
        let Some(asked) = asked.as_ref().and_then(Json::as_string) else {
            let error = ErrorObject::new(code::INVALID_PARAMS, "invalid params: no protocolVersion");
            self.refuse(Some(id), &error, source, shared);
            return;
        };
        let Some(client) = what_client_is(&params) else {
            let error = ErrorObject::new(code::INVALID_PARAMS, "invalid params: capabilities are too large");
            self.refuse(Some(id), &error, source, shared);
            return;
        };
        self.client = Some(client);
        let version = shared.config().negotiate(&asked);
        self.set_version(version, shared);
        self.phase = Phase::Open;
        self.answer_at_once(id, Ok(shared.config().initialize_result(version)), source, shared);
        if let Some(session) = self.key {
            shared.wire.out.report(Event::Connected { session, version, params });
        }
    }

    fn set_logging_level(&mut self, params: Option<&Json>) -> Result<Json, ErrorObject> {
        let level = params.and_then(|params| params.first_member("level"));
        let level = level.as_ref().and_then(Json::as_string).and_then(|level| LoggingLevel::from_text(&level));
        let invalid = || ErrorObject::new(code::INVALID_PARAMS, "invalid params: level is none of the eight");
        self.logging_level = Some(level.ok_or_else(invalid)?);
        Ok(Json::empty_object())
    }

    /// The application has answered `initialize`: its result contains the revision.
    pub(super) fn on_initialize_answered<T: Carrier>(&mut self, result: Option<&Json>, shared: &mut Shared<'_, T>) {
        if self.phase != Phase::Opening {
            return;
        }
        let version = result.and_then(|result| result.first_member("protocolVersion"));
        let version =
            version.as_ref().and_then(Json::as_string).and_then(|version| ProtocolVersion::from_text(&version));
        match version {
            Some(version) => {
                self.set_version(version, shared);
                self.phase = Phase::Open;
            }
            None => self.phase = Phase::Awaiting,
        }
    }

    fn set_version<T: Carrier>(&mut self, version: ProtocolVersion, shared: &mut Shared<'_, T>) {
        self.version = Some(version);
        shared.transport.negotiated(self.key, version);
    }

    fn on_notification<T: Carrier>(&mut self, notification: Notification, shared: &mut Shared<'_, T>) {
        let Notification { method, params } = notification;
        if check_members(params.as_ref(), shared).is_err() {
            return;
        }
        if method == Method::CANCELLED {
            self.on_cancelled(params.as_ref(), shared);
        } else if method == Method::PROGRESS {
            self.on_progress(params, shared);
        } else if method == Method::INITIALIZED {
            match self.phase {
                Phase::Open => self.on_initialized(params, shared),
                // The client did not wait for the answer; this takes effect with the answer.
                Phase::Opening => self.early_confirmation = Some(Notification { method, params }),
                Phase::Awaiting | Phase::Ready | Phase::Closed => {}
            }
        } else if let Some(session) = self.key.filter(|_| self.phase != Phase::Awaiting) {
            shared.wire.out.report(Event::Notified { session, method, params });
        }
    }

    pub(super) fn on_initialized<T: Carrier>(&mut self, params: Option<Json>, shared: &mut Shared<'_, T>) {
        self.phase = Phase::Ready;
        let Some(session) = self.key else { return };
        shared.wire.out.report(match shared.serving() {
            Some(_) => Event::Ready { session },
            None => Event::Notified { session, method: Method::INITIALIZED, params },
        });
    }

    /// The client cancels a request. A malformed notification or an unknown id is ignored (CX-03).
    fn on_cancelled<T: Carrier>(&mut self, params: Option<&Json>, shared: &mut Shared<'_, T>) {
        let id = params.and_then(|params| params.first_member("requestId"));
        let Some(id) = id.and_then(|id| RequestId::from_json_text(id.as_bytes())) else { return };
        // If several requests have this id, it is ambiguous, so that all of them are cancelled (RP4).
        let mut tickets = self.incoming.with_id(&id);
        tickets.sort_unstable_by_key(|ticket| ticket.number());
        for ticket in tickets {
            // `initialize` must not be cancelled (LC-14).
            if self.incoming.get_mut(ticket).is_none_or(|origin| origin.opens_session) {
                continue;
            }
            let Some((_, origin)) = self.end_request(ticket, shared) else { continue };
            shared.timers.clear(Timer::Again(ticket));
            shared.wire.out.report(Event::Cancelled { ticket, params: params.cloned() });
            self.give_up_asked(&origin, shared);
            self.settle(origin.source, None, shared);
        }
        // On a byte stream, a client ends a subscription by cancelling it (MD-L-08).
        for listen in self.listens.with_id(&id) {
            self.unlisten(listen, shared);
        }
        self.close_if_drained(shared);
    }

    fn on_progress<T: Carrier>(&mut self, params: Option<Json>, shared: &mut Shared<'_, T>) {
        let token = params.as_ref().and_then(|params| params.first_member("progressToken"));
        let token = token.and_then(|token| RequestId::from_json_text(token.as_bytes()));
        let request = token.and_then(|token| self.pending.find_token(&token));
        let (Some(request), Some(params)) = (request, params) else {
            shared.wire.out.report(Event::Faulted(Fault::UnknownProgressToken));
            return;
        };
        if let Some(waiting) = self.pending.get(request) {
            shared.timers.set(Timer::Answer(request), (shared.wire.now + waiting.timeout).min(waiting.latest));
        }
        shared.wire.out.report(Event::Progressed { request, params });
    }

    fn on_response<T: Carrier>(&mut self, response: Response, shared: &mut Shared<'_, T>) {
        let request = match (&response, response.id()) {
            (Response::Error { error, .. }, None) => {
                shared.wire.out.report(Event::Faulted(Fault::PeerError { code: error.code() }));
                return;
            }
            (Response::Result { .. }, None) => return,
            (_, Some(id)) => match self.pending.find(id) {
                Match::Open(request) => request,
                Match::Late => return shared.wire.out.report(Event::Faulted(Fault::LateResponse { id: id.clone() })),
                Match::Unknown => {
                    return shared.wire.out.report(Event::Faulted(Fault::UnknownResponse { id: id.clone() }));
                }
            },
        };
        let outcome = match response {
            Response::Result { result, .. } => Outcome::Result(result),
            Response::Error { error, .. } => Outcome::Error(error),
        };
        self.finish(request, outcome, shared);
    }

    /// Handles a frame that is not a message. A request with a readable id is answered, an open request to the client
    /// with the id of a response fails, and for any other frame an error without an id is sent (P6).
    pub(super) fn on_invalid<T: Carrier>(&mut self, error: ParseError, source: Source, shared: &mut Shared<'_, T>) {
        let answer = ErrorObject::new(error.code(), &error.to_string());
        let reason = Failed::InvalidResponse { reason: InvalidResponse::from(&error) };
        let subject = error.subject.clone();
        shared.wire.out.report(Event::Faulted(Fault::Parse(error)));
        self.on_bad_frame(subject, &answer, reason, source, shared);
    }

    /// Handles a frame that exceeds [`Limits::message`](crate::Limits::message).
    pub(super) fn on_too_long<T: Carrier>(&mut self, subject: Subject, source: Source, shared: &mut Shared<'_, T>) {
        let limit = shared.config().limits.message;
        shared.wire.out.report(Event::Faulted(Fault::LineTooLong { limit }));
        self.on_bad_frame(subject, &too_long(limit), Failed::TooLarge { limit }, source, shared);
    }

    fn on_bad_frame<T: Carrier>(
        &mut self,
        subject: Subject,
        answer: &ErrorObject,
        reason: Failed,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let answered = match subject {
            Subject::Request(id) => Some(id),
            Subject::Response(id) => {
                if let Match::Open(request) = self.pending.find(&id) {
                    self.finish(request, Outcome::Failed(reason), shared);
                }
                return;
            }
            Subject::Either(id) => match self.pending.find(&id) {
                Match::Open(request) => return self.finish(request, Outcome::Failed(reason), shared),
                Match::Late | Match::Unknown => Some(id),
            },
            Subject::Unknown => None,
        };
        self.refuse(answered, answer, source, shared);
    }

    pub(super) fn refuse<T: Carrier>(
        &mut self,
        id: Option<RequestId>,
        error: &ErrorObject,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let message = Message::Response(Response::Error { id, error: error.clone() });
        match source.batch {
            Some(batch) => {
                *shared.held += self.batches.add(batch, message);
                *shared.batched += 1;
            }
            None => shared.transport.write(&message, self.route(source.exchange, Kind::Refusal), &mut shared.wire),
        }
    }

    fn answer_at_once<T: Carrier>(
        &mut self,
        id: RequestId,
        answer: Result<Json, ErrorObject>,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let message = Message::Response(Response::new(id, answer));
        match source.batch {
            Some(batch) => {
                *shared.held += self.batches.add(batch, message);
                *shared.batched += 1;
            }
            None => shared.transport.write(&message, self.route(source.exchange, Kind::Reply), &mut shared.wire),
        }
    }
}

/// What a session stores of the parameters of `initialize`, bounded because there may be many sessions (SE6); `None` if
/// the capabilities are too large. A `clientInfo` that is too large is dropped, because behaviour must not depend on
/// it.
fn what_client_is(params: &Json) -> Option<Json> {
    let [capabilities, info] = params.first_members(["capabilities", "clientInfo"]);
    let capabilities = capabilities.filter(Json::is_object).unwrap_or(Json::empty_object());
    if capabilities.len() > REMEMBERED {
        return None;
    }
    let info = info.filter(|info| info.is_object() && info.len() <= REMEMBERED);
    let client = Json::empty_object().with_member("capabilities", &capabilities);
    Some(info.map_or(client.clone(), |info| client.with_member("clientInfo", &info)))
}

/// Refuses parameters with duplicate keys if that is configured, because readers differ in which one they use (JS6).
fn check_members<T: Carrier>(params: Option<&Json>, shared: &mut Shared<'_, T>) -> Result<(), ErrorObject> {
    if shared.config().strict_json && params.is_some_and(|params| check_unique_keys(params).is_err()) {
        shared.wire.out.report(Event::Faulted(Fault::DuplicateKey));
        return Err(ErrorObject::new(code::INVALID_PARAMS, "invalid params: two members of one name"));
    }
    Ok(())
}
