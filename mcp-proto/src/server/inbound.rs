//! What the client of a session sends: requests, notifications and responses.

use super::input::Parked;
use super::session::{InboundRequest, Phase, Session, Source};
use super::shared::Shared;
use super::snapshot::Setting;
use super::subscriptions::uri_of;
use super::transport::{Kind, ReplyTo, ServerTransport, ToWrite, TransportNotice};
use super::{Config, Event};
use crate::conversation::outcome::Outcome;
use crate::conversation::outgoing::Match;
use crate::error::{Failed, Fault, InvalidResponse};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Notification, ParseError, Request, RequestId, Response, Subject};
use crate::spec::meta::RequestMeta;
use crate::spec::{LoggingLevel, Method, ProtocolVersion, SettingChange, code};
use crate::transport::too_long;

/// The maximum of bytes that a session stores of its client's `capabilities`, and of its `clientInfo`.
const REMEMBERED: usize = 16 * 1024;

impl Session {
    /// The `_meta` of a request on the session's byte stream that is stateless (ER-41); `None` for a request of the
    /// session.
    pub(super) fn stateless_meta<T: ServerTransport>(
        &self,
        request: &Request,
        shared: &Shared<'_, T>,
    ) -> Option<RequestMeta> {
        let is_serving = shared.serving().is_some();
        // In a session, a server that passes through does not distinguish stateless requests, because the application
        // decides about them.
        if !shared.config().serves_stateless() || !(is_serving || self.phase == Phase::Awaiting) {
            return None;
        }
        let meta = RequestMeta::read(request.params.as_ref());
        (meta.is_claimed || (is_serving && !shared.config().serves_sessions())).then_some(meta)
    }

    /// Handles a request of the session. `is_duplicate` states that a stateless request on the same connection has its
    /// id.
    pub(super) fn on_request<T: ServerTransport>(
        &mut self,
        request: Request,
        source: Source,
        is_duplicate: bool,
        shared: &mut Shared<'_, T>,
    ) {
        if let Err(error) = self.admit(&request.method, request.params.as_ref(), source, shared) {
            return self.refuse(Some(request.id), error, source, shared);
        }
        // If other instances may serve the session, too, the confirmation may have arrived at one of them. Before the
        // confirmation, a client sends no request but `ping` (LC-11).
        let is_confirmed = self.phase == Phase::Open && request.method != Method::PING;
        if is_confirmed && shared.transport.sharing(Some(self.key)).instance.is_some() {
            self.on_initialized(None, shared);
        }
        match shared.serving() {
            Some(config) => self.serve(request, source, is_duplicate, config, shared),
            None => self.pass(request, source, is_duplicate, shared),
        }
    }

    /// Answers a request of the protocol, or reports a request to the application.
    fn serve<T: ServerTransport>(
        &mut self,
        request: Request,
        source: Source,
        is_duplicate: bool,
        config: &Config,
        shared: &mut Shared<'_, T>,
    ) {
        let Request { id, method, params } = request;
        // `ping` is answered at once (LC-17).
        if method == Method::PING {
            return self.answer_at_once(id, Ok(Json::empty_object()), source, shared);
        }
        if method == Method::LOGGING_SET_LEVEL && config.declares("logging") {
            let answer = self.set_logging_level(params.as_ref(), source.reply_to, shared);
            return self.answer_at_once(id, answer, source, shared);
        }
        if method == Method::INITIALIZE {
            return self.initialize(id, params, source, shared);
        }
        let setting = method.facts().changes_setting;
        let is_subscribe = matches!(setting, Some(SettingChange::Subscribe | SettingChange::Unsubscribe));
        if is_subscribe && !config.reports_subscribe {
            let answer = self.subscribe(&method, params.as_ref(), source.reply_to, shared);
            return self.answer_at_once(id, answer, source, shared);
        }
        let mut request = InboundRequest::new(source, method, params.as_ref());
        if request.method.facts().takes_input {
            request.parked = Some(Parked::new(params.clone()));
        }
        if is_subscribe {
            request.uri = uri_of(params.as_ref());
        }
        self.report_request(id, request, params, is_duplicate, shared);
    }

    /// Reports a request to the application, which passes it through.
    fn pass<T: ServerTransport>(
        &mut self,
        request: Request,
        source: Source,
        is_duplicate: bool,
        shared: &mut Shared<'_, T>,
    ) {
        let Request { id, method, params } = request;
        // The application may not have a connection that could answer promptly (LC-17).
        if method == Method::PING && matches!(self.phase, Phase::Awaiting | Phase::Opening) {
            return self.answer_at_once(id, Ok(Json::empty_object()), source, shared);
        }
        if method == Method::INITIALIZE {
            if T::IS_ONE_CONNECTION {
                self.settings.client.clone_from(&params);
            } else {
                // The application may start a process for a session. A request that no server accepts must not cause
                // that.
                match what_is_stated(params.as_ref()) {
                    Ok((_, client)) => self.settings.client = Some(client),
                    Err(error) => return self.refuse(Some(id), error, source, shared),
                }
            }
        }
        let request = InboundRequest::new(source, method, params.as_ref());
        self.report_request(id, request, params, is_duplicate, shared);
    }

    /// Reports a request of the session, if there is room for it.
    fn report_request<T: ServerTransport>(
        &mut self,
        id: RequestId,
        mut request: InboundRequest,
        params: Option<Json>,
        is_duplicate: bool,
        shared: &mut Shared<'_, T>,
    ) {
        let (source, method) = (request.source, request.method.clone());
        let bytes = params.as_ref().map_or(0, Json::len);
        if let Err(error) = shared.check_room(Some(self.of_client(shared)), bytes) {
            return self.refuse(Some(id), error, source, shared);
        }
        if is_duplicate || self.incoming.is_in_use(&id) {
            shared.fault(Fault::DuplicateId { id: id.clone() });
        }
        if request.opens_session {
            self.phase = Phase::Opening;
        }
        if let Some(batch) = source.batch {
            self.batches.expect_one_more(batch);
        }
        let sender = shared.transport.sender(Some(self.key), source.reply_to);
        (request.principal, request.extensions) = (sender.principal.cloned(), sender.extensions());
        let principal = request.principal.clone();
        let ticket = self.begin_request(id, request, bytes, shared);
        shared.request(ticket, principal.as_ref(), method, params);
    }

    /// Checks whether a request may be reported to the application.
    ///
    /// # Errors
    ///
    /// The answer to the request.
    fn admit<T: ServerTransport>(
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
        // `ping` is answered, so that a client can check whether its request is still being served (LC-17).
        if shared.is_draining && *method != Method::PING {
            return Err(ErrorObject::stopping());
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
        shared.check_method(method)?;
        shared.check_members(params)?;
        // Parameters must be an object (JR-12). A server that passes through leaves that to the application.
        if shared.serving().is_some() && params.is_some_and(|params| !params.is_object()) {
            return refuse(code::INVALID_PARAMS, "invalid params: they must be an object");
        }
        Ok(())
    }

    fn initialize<T: ServerTransport>(
        &mut self,
        id: RequestId,
        params: Option<Json>,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let (asked, client) = match what_is_stated(params.as_ref()) {
            Ok(stated) => stated,
            Err(error) => return self.refuse(Some(id), error, source, shared),
        };
        let params = params.unwrap_or(Json::empty_object());
        self.settings.client = Some(client);
        let version = shared.config().negotiate(&asked);
        self.set_version(version, shared);
        shared.notice(TransportNotice::Opened(self.key, self.settings.client.as_ref()));
        self.phase = Phase::Open;
        self.answer_at_once(id, Ok(shared.config().initialize_result(version)), source, shared);
        shared.report(Event::Connected { session: self.key, version, params });
    }

    fn set_logging_level<T: ServerTransport>(
        &mut self,
        params: Option<&Json>,
        reply_to: ReplyTo,
        shared: &mut Shared<'_, T>,
    ) -> Result<Json, ErrorObject> {
        let level = params.and_then(|params| params.first_member("level"));
        let level = level.as_ref().and_then(Json::as_string).and_then(|level| LoggingLevel::from_text(&level));
        let invalid = || ErrorObject::new(code::INVALID_PARAMS, "invalid params: level is none of the eight");
        let level = level.ok_or_else(invalid)?;
        self.settings.logging_level = Some(level);
        shared.notice(TransportNotice::Changed(self.key, reply_to, Setting::Level(level)));
        Ok(Json::empty_object())
    }

    /// The application has answered `initialize`: its result contains the revision.
    pub(super) fn on_initialize_answered<T: ServerTransport>(
        &mut self,
        result: Option<&Json>,
        shared: &mut Shared<'_, T>,
    ) {
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

    fn set_version<T: ServerTransport>(&mut self, version: ProtocolVersion, shared: &mut Shared<'_, T>) {
        self.version = Some(version);
        shared.notice(TransportNotice::Negotiated(Some(self.key), version));
    }

    /// Handles a notification of the session, except a cancellation.
    pub(super) fn on_notification<T: ServerTransport>(
        &mut self,
        notification: Notification,
        shared: &mut Shared<'_, T>,
    ) {
        let Notification { method, params } = notification;
        if method == Method::PROGRESS {
            self.on_progress(params, shared);
        } else if method == Method::INITIALIZED {
            match self.phase {
                Phase::Open => self.on_initialized(params, shared),
                // The client did not wait for the answer; this takes effect with the answer.
                Phase::Opening => self.early_confirmation = Some(Notification { method, params }),
                Phase::Awaiting | Phase::Ready | Phase::Closed => {}
            }
        } else if self.phase != Phase::Awaiting {
            shared.report(Event::Notified { session: self.key, method, params });
        }
    }

    /// Applies `notifications/initialized` that arrived before `initialize` was answered.
    pub(super) fn take_early_confirmation<T: ServerTransport>(&mut self, shared: &mut Shared<'_, T>) {
        if self.phase == Phase::Opening {
            return;
        }
        if let Some(early) = self.early_confirmation.take().filter(|_| self.phase == Phase::Open) {
            self.on_initialized(early.params, shared);
        }
    }

    pub(super) fn on_initialized<T: ServerTransport>(&mut self, params: Option<Json>, shared: &mut Shared<'_, T>) {
        self.phase = Phase::Ready;
        let session = self.key;
        shared.report(match shared.serving() {
            Some(_) => Event::Ready { session },
            None => Event::Notified { session, method: Method::INITIALIZED, params },
        });
    }

    fn on_progress<T: ServerTransport>(&mut self, params: Option<Json>, shared: &mut Shared<'_, T>) {
        let request = self.outgoing.on_progress(params.as_ref(), shared.output.timers, shared.output.now);
        let (Some(request), Some(params)) = (request, params) else {
            shared.fault(Fault::UnknownProgressToken);
            return;
        };
        shared.report(Event::Progressed { request, params });
    }

    pub(super) fn on_response<T: ServerTransport>(&mut self, response: Response, shared: &mut Shared<'_, T>) {
        let request = match (&response, response.id()) {
            (Response::Error { error, .. }, None) => {
                shared.fault(Fault::PeerError { code: error.code() });
                return;
            }
            (Response::Result { .. }, None) => return,
            (_, Some(id)) => match self.outgoing.find(id) {
                Match::Open(request) => request,
                Match::Late => return shared.fault(Fault::LateResponse { id: id.clone() }),
                Match::Unknown => {
                    return shared.fault(Fault::UnknownResponse { id: id.clone() });
                }
            },
        };
        self.finish(request, response.into(), shared);
    }

    /// Handles a frame that is not a message. A request with a readable id is answered, an open request to the client
    /// with the id of a response fails, and for any other frame an error without an id is sent (P6).
    pub(super) fn on_invalid<T: ServerTransport>(
        &mut self,
        error: &ParseError,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let answer = ErrorObject::new(error.code(), &error.to_string());
        let reason = Failed::InvalidResponse { reason: InvalidResponse::from(error) };
        let subject = error.subject.clone();
        if source.batch.is_some() || shared.transport.reports_invalid() {
            shared.fault(Fault::Parse(error.clone()));
        }
        if !self.on_bad_frame(subject, answer, reason, source, shared) && source.batch.is_none() {
            let route = self.route(source.reply_to, Kind::Refusal);
            shared.transport.write(ToWrite::Invalid(error), route, &mut shared.output);
        }
    }

    /// Handles a frame that exceeds [`Limits::message`](crate::Limits::message).
    pub(super) fn on_too_long<T: ServerTransport>(
        &mut self,
        subject: Subject,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let limit = shared.config().limits.message;
        if shared.transport.reports_invalid() {
            shared.fault(Fault::LineTooLong { limit });
        }
        self.on_bad_frame(subject, too_long(limit), Failed::TooLarge { limit }, source, shared);
    }

    /// Returns whether an answer was sent: a response or a notification gets none.
    fn on_bad_frame<T: ServerTransport>(
        &mut self,
        subject: Subject,
        answer: ErrorObject,
        reason: Failed,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) -> bool {
        let answered = match subject {
            Subject::Request(id) => Some(id),
            Subject::Response(id) => {
                if let Match::Open(request) = self.outgoing.find(&id) {
                    self.finish(request, Outcome::Failed(reason), shared);
                }
                return false;
            }
            Subject::Either(id) => match self.outgoing.find(&id) {
                Match::Open(request) => {
                    self.finish(request, Outcome::Failed(reason), shared);
                    return false;
                }
                Match::Late | Match::Unknown => Some(id),
            },
            // A notification is never answered (JR-11).
            Subject::Notification => return false,
            Subject::Unknown => None,
        };
        self.refuse(answered, answer, source, shared);
        true
    }

    /// The number of requests of the client that are not answered, or whose answers wait for others of their batches.
    fn of_client<T: ServerTransport>(&self, shared: &Shared<'_, T>) -> usize {
        if T::IS_ONE_CONNECTION {
            shared.usage.requests + shared.usage.batched
        } else {
            self.incoming.len() + self.batches.answers()
        }
    }
}

/// The revision that the parameters of `initialize` request, and what a session stores of them.
///
/// # Errors
///
/// The answer to the request.
fn what_is_stated(params: Option<&Json>) -> Result<(String, Json), ErrorObject> {
    let asked = params.and_then(|params| params.first_member("protocolVersion"));
    let asked = asked.as_ref().and_then(Json::as_string);
    let (Some(params), Some(asked)) = (params, asked) else {
        return Err(ErrorObject::invalid_params("no protocolVersion"));
    };
    let client = what_client_is(params).ok_or_else(|| ErrorObject::invalid_params("capabilities are too large"))?;
    Ok((asked.into_owned(), client))
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
