//! Stateless requests (RULES 8): each states its revision and client itself, and belongs to no session.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Extensions;

use super::input::InputRequired;
use super::progress::ProgressToken;
use super::session::{Session, closed_before_answer};
use super::shared::Shared;
use super::subscriptions::Listen;
use super::transport::{Envelope, Kind, ReplyTo, Route, ServerTransport, TransportNotice};
use super::{Config, Context, Progress};
use crate::conversation::incoming::Incoming;
use crate::conversation::keys::TicketKey;
use crate::error::{Fault, UsageError};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, Notification, Request, RequestId, Response};
use crate::spec::meta::{PROTOCOL_VERSION, RequestMeta, SERVER_INFO};
use crate::spec::{LoggingLevel, Method, ProtocolVersion, code};

/// The stateless requests of all clients of a server.
#[derive(Debug)]
pub(super) struct Stateless {
    pub(super) incoming: Incoming<StatelessRequest>,
    /// The requests that the end of their exchange cancels (SH-S-17).
    exchanges: BTreeMap<ReplyTo, TicketKey>,
    pub(super) listens: Incoming<Listen>,
    /// The keys of `listens` by exchange, for those that have one.
    pub(super) listening: BTreeMap<ReplyTo, TicketKey>,
    /// Whether an unacknowledged subscription was added that was not reported to the application.
    pub(super) has_unacknowledged: bool,
}

/// What is stored for a stateless request.
#[derive(Debug)]
pub(super) struct StatelessRequest {
    pub(super) reply_to: ReplyTo,
    pub(super) method: Method,
    pub(super) context: Box<Context>,
    /// The extensions of the HTTP request that contained this request.
    pub(super) extensions: Extensions,
    progress: ProgressToken,
}

impl Stateless {
    pub(super) const fn new() -> Self {
        Self {
            incoming: Incoming::new(None),
            exchanges: BTreeMap::new(),
            listens: Incoming::new(None),
            listening: BTreeMap::new(),
            has_unacknowledged: false,
        }
    }

    /// Handles a request. `beside` is the session on the same connection.
    pub(super) fn on_request<T: ServerTransport>(
        &mut self,
        request: Request,
        meta: RequestMeta,
        envelope: Envelope,
        reply_to: ReplyTo,
        beside: Option<&Session>,
        shared: &mut Shared<'_, T>,
    ) {
        shared.handle_request_of(envelope.principal.as_ref());
        let admitted = Self::admit(&request, meta, envelope, beside, shared);
        let Request { id, method, params } = request;
        let context = match admitted {
            Ok(context) => Context { instance: shared.transport.sharing(None).instance, ..context },
            Err(error) => return shared.refuse(Some(id), error, route(reply_to, Kind::Refusal)),
        };
        if beside.is_none_or(|session| session.version.is_none()) {
            shared.notice(TransportNotice::Negotiated(None, context.version));
        }
        self.on_admitted(Request { id, method, params }, context, reply_to, beside, shared);
    }

    /// Answers an admitted request of the protocol, or reports it to the application.
    pub(super) fn on_admitted<T: ServerTransport>(
        &mut self,
        request: Request,
        context: Context,
        reply_to: ReplyTo,
        beside: Option<&Session>,
        shared: &mut Shared<'_, T>,
    ) {
        shared.handle_request_of(context.principal.as_ref());
        let Request { id, method, params } = request;
        if let Some(config) = shared.serving() {
            if method == Method::SERVER_DISCOVER {
                let result = complete(config, &method, &discover(config));
                let answer = Message::Response(Response::new(id, Ok(result)));
                return shared.write(&answer, route(reply_to, Kind::Reply));
            }
            if method == Method::SUBSCRIPTIONS_LISTEN {
                return self.listen(id, params.as_ref(), &context, reply_to, shared);
            }
        }
        self.report(id, method, params, context, reply_to, beside, shared);
    }

    /// Reports a request to the application, if there is room for it.
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, which were checked one by one")]
    pub(super) fn report<T: ServerTransport>(
        &mut self,
        id: RequestId,
        method: Method,
        params: Option<Json>,
        context: Context,
        reply_to: ReplyTo,
        beside: Option<&Session>,
        shared: &mut Shared<'_, T>,
    ) {
        let bytes = params.as_ref().map_or(0, Json::len);
        // Over HTTP, the requests come from different clients, so that the limit of one client does not apply to them.
        let of_client = T::IS_ONE_CONNECTION.then_some(shared.usage.requests + shared.usage.batched);
        if let Err(error) = shared.check_room(of_client, bytes) {
            return shared.refuse(Some(id), error, route(reply_to, Kind::Refusal));
        }
        // Different clients may use equal ids (C1).
        let is_in_use =
            || self.incoming.is_in_use(&id) || beside.is_some_and(|session| session.incoming.is_in_use(&id));
        if T::IS_ONE_CONNECTION && is_in_use() {
            shared.fault(Fault::DuplicateId { id: id.clone() });
        }
        let cancels = context.version.rules().disconnect_cancels;
        let progress = ProgressToken::read(params.as_ref());
        let extensions = shared.transport.sender(None, reply_to).extensions();
        let request =
            StatelessRequest { reply_to, method: method.clone(), context: Box::new(context), extensions, progress };
        let principal = request.context.principal.clone();
        let ticket = self.incoming.insert_as(shared.begin_request(None, bytes), id, request, bytes);
        if cancels && reply_to != ReplyTo::Stream {
            self.exchanges.insert(reply_to, ticket.key());
        }
        shared.request(ticket, principal.as_ref(), method, params);
    }

    fn admit<T: ServerTransport>(
        request: &Request,
        meta: RequestMeta,
        envelope: Envelope,
        beside: Option<&Session>,
        shared: &mut Shared<'_, T>,
    ) -> Result<Context, ErrorObject> {
        if beside.is_some_and(|session| session.input_ended) {
            return Err(ErrorObject::new(code::INVALID_REQUEST, "the connection is being closed"));
        }
        if shared.is_draining {
            return Err(ErrorObject::stopping());
        }
        shared.check_method(&request.method)?;
        // This precedes all comparisons with the envelope, because readers differ in which duplicate key they compare
        // (HM3).
        shared.check_members(request.params.as_ref())?;
        match shared.serving() {
            Some(config) => admit(config, request, meta, envelope, |method| is_offered(config, method)),
            // Over HTTP, the server to which the application forwards does not receive the envelope (BR-T-04).
            None if !T::IS_ONE_CONNECTION => admit(shared.config(), request, meta, envelope, |_| true),
            None => pass(shared.config(), meta),
        }
    }

    /// Selects the handling of the client of an open request.
    fn handle_request<T: ServerTransport>(&self, ticket: TicketKey, shared: &mut Shared<'_, T>) {
        if let Some(request) = self.incoming.get(ticket) {
            shared.handle_request_of(request.context.principal.as_ref());
        }
    }

    /// Removes an open request; `None` if it has already ended.
    pub(super) fn end_request<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        shared: &mut Shared<'_, T>,
    ) -> Option<(RequestId, StatelessRequest)> {
        let bytes = self.incoming.bytes_of(ticket);
        let (id, request) = self.incoming.remove(ticket)?;
        shared.end_request(bytes);
        self.exchanges.remove(&request.reply_to);
        Some((id, request))
    }

    /// Answers a request. A result that requires input is handled by `require_input`, which checks it (MD-I-01).
    pub(super) fn respond<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        answer: Result<Json, ErrorObject>,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        self.handle_request(ticket, shared);
        let required = answer.as_ref().ok().filter(|_| shared.serving().is_some());
        match required.and_then(InputRequired::read) {
            Some(required) => self.require_input(ticket, &required, shared),
            None => self.answer(ticket, answer, shared),
        }
    }

    pub(super) fn answer<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        answer: Result<Json, ErrorObject>,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        self.handle_request(ticket, shared);
        let Some((id, request)) = self.end_request(ticket, shared) else { return Ok(()) };
        let (answer, reserved) = shared.check_code(answer, request.context.version);
        let answer = match (answer, shared.serving()) {
            (Ok(result), Some(config)) => {
                shared.observe_result(&request.method, &result);
                let is_modern = request.context.version.is_stateless();
                Ok(if is_modern { complete(config, &request.method, &result) } else { result })
            }
            (Ok(result), None) => {
                shared.observe_result(&request.method, &result);
                Ok(result)
            }
            (Err(error), _) => Err(error),
        };
        shared.answered(ticket, &answer);
        let answer = Message::Response(Response::new(id, answer));
        shared.write_answer(Some(answer), route(request.reply_to, Kind::Reply));
        reserved.map_or(Ok(()), |code| Err(UsageError::ReservedErrorCode { code }))
    }

    pub(super) fn require_input<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        required: &InputRequired,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        let Some(request) = self.incoming.get(ticket) else { return Ok(()) };
        if let Err(error) = required.check(&request.method, &request.context) {
            self.answer(ticket, Err(ErrorObject::internal()), shared)?;
            return Err(error);
        }
        let refusal = required.refusal(&request.method, &request.context);
        // Without a session, a client of an earlier revision can neither be asked nor retry.
        let refusal =
            refusal.or_else(|| (!request.context.version.is_stateless()).then(|| Err(ErrorObject::internal())));
        self.answer(ticket, refusal.unwrap_or_else(|| Ok(required.to_result())), shared)
    }

    pub(super) fn progress<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        progress: &Progress,
        shared: &mut Shared<'_, T>,
    ) {
        let Some(request) = self.incoming.get_mut(ticket) else { return };
        let Some(notification) = request.progress.advance(progress) else { return };
        shared.write_notification(notification, route(request.reply_to, Kind::Message));
    }

    /// Sends a notification that relates to a request.
    pub(super) fn notify<T: ServerTransport>(
        &self,
        notification: Notification,
        during: TicketKey,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        self.handle_request(during, shared);
        shared.check_notification(&notification)?;
        let Some(request) = self.incoming.get(during) else { return Ok(()) };
        if shared.serving().is_none() || request.context.lets_pass(&notification)? {
            shared.write_notification(notification, route(request.reply_to, Kind::Message));
        }
        Ok(())
    }

    /// Checks whether a request to the client may relate to this request. Since 2026-07-28, none may (SH-S-15).
    pub(super) fn check_ask(&self, during: TicketKey) -> Result<(), UsageError> {
        let version = self.incoming.get(during).map(|request| request.context.version);
        match version.filter(|version| !version.rules().server_requests) {
            Some(version) => Err(UsageError::NotInRevision { what: "a request of the server's", version }),
            None => Ok(()),
        }
    }

    /// The client has cancelled a request.
    pub(super) fn cancel<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        params: Option<&Json>,
        shared: &mut Shared<'_, T>,
    ) {
        // `initialize` must not be cancelled (LC-14).
        if self.incoming.get(ticket).is_none_or(|request| request.method == Method::INITIALIZE) {
            return;
        }
        let Some((_, request)) = self.end_request(ticket, shared) else { return };
        shared.cancelled(ticket, params);
        shared.write_answer(None, route(request.reply_to, Kind::Reply));
    }

    /// The client has disconnected from an exchange, which cancels its request (SH-S-17).
    pub(super) fn on_disconnect<T: ServerTransport>(&mut self, reply_to: ReplyTo, shared: &mut Shared<'_, T>) {
        if let Some(key) = self.listening.remove(&reply_to) {
            self.unlisten(key, shared);
        }
        let Some(ticket) = self.exchanges.remove(&reply_to) else { return };
        if self.end_request(ticket, shared).is_some() {
            shared.cancelled(ticket, None);
        }
    }

    /// Answers an open request with an error because no more is served.
    pub(super) fn refuse_open<T: ServerTransport>(&mut self, ticket: TicketKey, shared: &mut Shared<'_, T>) {
        let Some((id, request)) = self.end_request(ticket, shared) else { return };
        let answer = Message::Response(closed_before_answer(id));
        shared.write_answer(Some(answer), route(request.reply_to, Kind::Reply));
        shared.cancelled(ticket, None);
    }

    /// Ends all requests and subscriptions, because each request has exactly one outcome (invariant 1).
    pub(super) fn end_all<T: ServerTransport>(&mut self, shared: &mut Shared<'_, T>) {
        for ticket in self.incoming.keys() {
            self.refuse_open(ticket, shared);
        }
        self.end_listens(shared);
    }

    /// Where messages that relate to a request are sent.
    pub(super) fn reply_to(&self, ticket: TicketKey) -> Option<ReplyTo> {
        self.incoming.get(ticket).map(|request| request.reply_to)
    }

    /// The context of an unanswered request.
    pub(super) fn context(&self, ticket: TicketKey) -> Option<Context> {
        self.incoming.get(ticket).map(|request| (*request.context).clone())
    }
}

/// The route of a message that relates to a stateless request.
pub(super) const fn route(reply_to: ReplyTo, kind: Kind) -> Route {
    Route { session: None, reply_to, kind }
}

/// Admits a request by RULES 8.4 from the fourth step on. A refused request is not reported to the application.
fn admit(
    config: &Config,
    request: &Request,
    meta: RequestMeta,
    envelope: Envelope,
    is_offered: impl Fn(&Method) -> bool,
) -> Result<Context, ErrorObject> {
    let Request { method, params, .. } = request;
    // A client that starts with `initialize` receives the list of served revisions (ER-42).
    if !meta.is_claimed && *method == Method::INITIALIZE && !envelope.names_stateless {
        let asked = params.as_ref().and_then(|params| params.first_member("protocolVersion"));
        return Err(unsupported(config, &asked.unwrap_or_else(|| Json::from(""))));
    }
    let (Some(asked), Some(client_capabilities)) = (meta.version, meta.client_capabilities) else {
        return Err(if !meta.is_claimed && *method == Method::INITIALIZE {
            // `initialize` without `_meta` contradicts an envelope that names the modern era (ER-44).
            ErrorObject::new(code::HEADER_MISMATCH, "MCP-Protocol-Version names a revision without initialize")
        } else {
            // A required key is missing (MD-M-02) or has the wrong type (MD-M-03).
            missing_meta()
        });
    };
    // A proxy may route by the envelope, so that it must agree with the body (MD-H-02).
    envelope.version?;
    let version = served(config, &asked)?;
    envelope.method_and_name?;
    if method.is_removed_in(version) || !is_offered(method) {
        return Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("method not found: {method}")));
    }
    envelope.arguments?;
    let logging_level = match meta.log_level {
        None => None,
        Some(level) => Some(LoggingLevel::from_text(&level).ok_or_else(|| {
            // An unknown log level is refused (MD-M-10).
            ErrorObject::new(code::INVALID_PARAMS, "invalid params: logLevel is none of the eight")
        })?),
    };
    let principal = envelope.principal;
    Ok(Context {
        version,
        client_capabilities,
        client_info: meta.client_info,
        logging_level,
        principal,
        instance: None,
    })
}

/// Admits a request that a relay forwards: it needs a served revision, and the server checks the rest (BR-T-09).
fn pass(config: &Config, meta: RequestMeta) -> Result<Context, ErrorObject> {
    let asked = meta.version.ok_or_else(missing_meta)?;
    let version = served(config, &asked)?;
    Ok(Context {
        version,
        client_capabilities: meta.client_capabilities.unwrap_or(Json::empty_object()),
        client_info: meta.client_info,
        logging_level: meta.log_level.as_deref().and_then(LoggingLevel::from_text),
        principal: None,
        instance: None,
    })
}

/// The requested revision of the modern era. One that is not served is answered with the served ones (MD-V-01).
fn served(config: &Config, asked: &str) -> Result<ProtocolVersion, ErrorObject> {
    let version = ProtocolVersion::from_text(asked);
    let version = version.filter(|version| version.is_stateless() && config.versions.contains(version));
    version.ok_or_else(|| unsupported(config, &Json::from(asked)))
}

fn missing_meta() -> ErrorObject {
    let text = format!("invalid params: _meta must hold {PROTOCOL_VERSION} and the client's capabilities");
    ErrorObject::new(code::INVALID_PARAMS, &text)
}

fn unsupported(config: &Config, requested: &Json) -> ErrorObject {
    let data = Json::empty_object().with_members(&[("supported", &supported(config)), ("requested", requested)]);
    ErrorObject::with_data(code::UNSUPPORTED_PROTOCOL_VERSION, "this revision is not served", &data)
}

/// The served revisions, newest first, so that those of the modern era precede the others (ER-46).
fn supported(config: &Config) -> Json {
    let mut versions = config.versions.clone();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.dedup();
    let names: Vec<_> = versions.iter().map(|version| version.as_str()).collect();
    Json::from_serialize(&names).unwrap_or(Json::empty_object())
}

/// Whether the capability of a method is declared; without it, the method does not exist (row 26, MD-V-05).
fn is_offered(config: &Config, method: &Method) -> bool {
    method.server_capability().is_none_or(|capability| config.declares(capability))
}

/// The result of `server/discover`, without the members that [`complete`] adds (MD-V-04).
fn discover(config: &Config) -> Json {
    let mut result = Json::empty_object();
    if let Some(instructions) = &config.instructions {
        result = result.with_member("instructions", &Json::from(&**instructions));
    }
    result.with_members(&[("supportedVersions", &supported(config)), ("capabilities", &config.capabilities)])
}

/// Adds the members that the protocol requires to a result, unless the application has set them: `resultType` (JR-14),
/// the server's information in `_meta`, and `ttlMs` and `cacheScope` (MD-K-01).
pub(super) fn complete(config: &Config, method: &Method, result: &Json) -> Json {
    let [kind, ttl, scope, meta] = result.first_members(["resultType", "ttlMs", "cacheScope", "_meta"]);
    let complete = Json::from("complete");
    let is_complete = kind.as_ref().is_none_or(|kind| *kind == complete);
    let caches = is_complete && method.facts().is_cacheable;
    let meta = config.names_itself.then(|| {
        let meta = meta.filter(Json::is_object).unwrap_or(Json::empty_object());
        if meta.first_member(SERVER_INFO).is_some() { meta } else { meta.with_member(SERVER_INFO, &config.server_info) }
    });
    let cache_ttl = Json::from(milliseconds(config.cache_ttl));
    let cache_scope = Json::from(config.cache_scope.as_str());
    let mut set: Vec<(&str, &Json)> = Vec::with_capacity(4);
    if kind.is_none() {
        set.push(("resultType", &complete));
    }
    if caches && ttl.is_none() {
        set.push(("ttlMs", &cache_ttl));
    }
    if caches && scope.is_none() {
        set.push(("cacheScope", &cache_scope));
    }
    if let Some(meta) = &meta {
        set.push(("_meta", meta));
    }
    result.with_members(&set)
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
