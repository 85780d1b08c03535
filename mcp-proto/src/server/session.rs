//! A session: its phase, the client's requests in it, and their answers.

use std::collections::BTreeSet;

use http::Extensions;

use super::batch::{BatchKey, Batches};
use super::input::{InputRequired, Parked};
use super::principal::Principal;
use super::progress::ProgressToken;
use super::shared::Shared;
use super::subscribed::Names;
use super::transport::{Kind, ReplyTo, Route, ServerTimer, ServerTransport, TransportNotice};
use super::{Config, Context, Progress};
use crate::conversation::incoming::Incoming;
use crate::conversation::keys::{InstanceId, RequestKey, SessionKey, Ticket, TicketKey};
use crate::conversation::outcome::Outcome;
use crate::conversation::outgoing::Outgoing;
use crate::error::{Failed, UsageError};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, Notification, RequestId, Response};
use crate::limits::Limits;
use crate::spec::{LoggingLevel, Method, ProtocolVersion, code};

/// The state of one session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) key: SessionKey,
    pub(super) phase: Phase,
    pub(super) version: Option<ProtocolVersion>,
    /// The client sends nothing more.
    pub(super) input_ended: bool,
    /// `notifications/initialized`, if it arrived before `initialize` was answered.
    pub(super) early_confirmation: Option<Notification>,
    pub(super) incoming: Incoming<InboundRequest>,
    pub(super) batches: Batches,
    /// Requests to the client.
    pub(super) outgoing: Outgoing<Purpose>,
    pub(super) settings: Settings,
}

/// What the client has stated and set in a session.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// `capabilities` and `clientInfo` of the parameters of `initialize`; if the server passes through, all of the
    /// parameters.
    pub(super) client: Option<Json>,
    /// The lowest level of log messages that the client has set, if any.
    pub(super) logging_level: Option<LoggingLevel>,
    /// The resources that the client has subscribed to.
    pub(super) subscribed: Names,
}

/// Why the server sends a request to the client.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The application sends the request, perhaps because of a request of the client.
    Application { during: Option<TicketKey> },
    /// The outcome is the input with this key, which a request of the client requires.
    Input { ticket: TicketKey, key: Box<str> },
}

impl Purpose {
    /// The request of the client that is the reason for this one, if any.
    pub(super) const fn ticket(&self) -> Option<TicketKey> {
        match self {
            Self::Application { during } => *during,
            Self::Input { ticket, .. } => Some(*ticket),
        }
    }
}

/// The phase of a session (RULES 7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Awaiting,
    /// The application has not answered `initialize` yet.
    Opening,
    Open,
    Ready,
    Closed,
}

/// Where the answer to a message is sent: on the way that the transport has chosen, or with others of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Source {
    pub(super) reply_to: ReplyTo,
    pub(super) batch: Option<BatchKey>,
}

/// What is stored for a request of the client.
#[derive(Debug)]
pub(super) struct InboundRequest {
    pub(super) source: Source,
    pub(super) method: Method,
    pub(super) opens_session: bool,
    /// The sender. Later requests of the session may have other scopes.
    pub(super) principal: Option<Principal>,
    /// The extensions of the HTTP request that contained this request.
    pub(super) extensions: Extensions,
    /// The input, if its method may require it.
    pub(super) parked: Option<Parked>,
    /// The resource, if this request subscribes or unsubscribes.
    pub(super) uri: Option<Box<str>>,
    pub(super) progress: ProgressToken,
    /// Open requests to the client that relate to it.
    pub(super) asked: BTreeSet<RequestKey>,
}

impl InboundRequest {
    pub(super) fn new(source: Source, method: Method, params: Option<&Json>) -> Self {
        Self {
            source,
            opens_session: method == Method::INITIALIZE,
            method,
            principal: None,
            extensions: Extensions::new(),
            parked: None,
            uri: None,
            progress: ProgressToken::read(params),
            asked: BTreeSet::new(),
        }
    }
}

impl Session {
    /// Creates a session. With `instance`, the ids of requests to the client name it, because other instances may serve
    /// the session, too.
    pub(super) fn new(key: SessionKey, instance: Option<InstanceId>, limits: &Limits) -> Self {
        Self {
            key,
            phase: Phase::Awaiting,
            version: None,
            input_ended: false,
            early_confirmation: None,
            incoming: Incoming::new(Some(key)),
            batches: Batches::new(),
            outgoing: Outgoing::new(Some(key), limits.tombstones).of_instance(instance),
            settings: Settings::default(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether the session was opened and has not ended.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ready)
    }

    /// Adds an open request with this many bytes.
    pub(super) fn begin_request<T: ServerTransport>(
        &mut self,
        id: RequestId,
        request: InboundRequest,
        bytes: usize,
        shared: &mut Shared<'_, T>,
    ) -> Ticket {
        let key = shared.begin_request(Some(self.key), bytes);
        if self.incoming.len() == 0 {
            shared.notice(TransportNotice::Busy(self.key));
        }
        self.incoming.insert_as(key, id, request, bytes)
    }

    /// Sets how many bytes are stored for a request.
    pub(super) fn keep<T: ServerTransport>(&mut self, ticket: TicketKey, bytes: usize, shared: &mut Shared<'_, T>) {
        shared.usage.held = shared.usage.held - self.incoming.bytes_of(ticket) + bytes;
        self.incoming.set_bytes(ticket, bytes);
    }

    /// Removes an open request; `None` if it has already ended.
    pub(super) fn end_request<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        shared: &mut Shared<'_, T>,
    ) -> Option<(RequestId, InboundRequest)> {
        let bytes = self.incoming.bytes_of(ticket);
        let ended = self.incoming.remove(ticket)?;
        shared.end_request(bytes);
        if self.incoming.len() == 0 {
            shared.notice(TransportNotice::Idle(self.key));
        }
        Some(ended)
    }

    /// Answers a request. A result that requires input is handled by `require_input`, which checks it (MD-I-01).
    pub(super) fn respond<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        answer: Result<Json, ErrorObject>,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
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
        let Some((id, request)) = self.end_request(ticket, shared) else { return Ok(()) };
        let (answer, reserved) = shared.check_code(answer, self.version_in_force());
        if request.opens_session {
            self.on_initialize_answered(answer.as_ref().ok(), shared);
        }
        let answer = answer.and_then(|result| self.on_result(&request, result, shared));
        shared.answered(ticket, &answer);
        self.give_up_asked(&request, shared);
        self.settle(request.source, Some(Response::new(id, answer)), shared);
        self.take_early_confirmation(shared);
        reserved.map_or(Ok(()), |code| Err(UsageError::ReservedErrorCode { code }))
    }

    /// Applies the effects of a result from the application.
    ///
    /// # Errors
    ///
    /// The answer that replaces the result.
    fn on_result<T: ServerTransport>(
        &mut self,
        request: &InboundRequest,
        result: Json,
        shared: &mut Shared<'_, T>,
    ) -> Result<Json, ErrorObject> {
        if let Some(uri) = &request.uri {
            self.on_subscription(&request.method, uri, request.source.reply_to, shared)?;
        }
        shared.observe_result(&request.method, &result);
        Ok(result)
    }

    /// Cancels all requests to the client that relate to a request that has ended.
    pub(super) fn give_up_asked<T: ServerTransport>(&mut self, ended: &InboundRequest, shared: &mut Shared<'_, T>) {
        for request in &ended.asked {
            self.cancel_own(*request, ended.source.reply_to, Failed::Cancelled, &Json::empty_object(), shared);
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
        if self.incoming.get(ticket).is_none_or(|request| request.opens_session) {
            return;
        }
        let Some((_, request)) = self.end_request(ticket, shared) else { return };
        shared.output.timers.clear(ServerTimer::Again(ticket));
        shared.cancelled(ticket, params);
        self.give_up_asked(&request, shared);
        self.settle(request.source, None, shared);
    }

    pub(super) fn progress<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        progress: &Progress,
        shared: &mut Shared<'_, T>,
    ) {
        let Some(request) = self.incoming.get_mut(ticket) else { return };
        let reply_to = request.source.reply_to;
        let Some(notification) = request.progress.advance(progress) else { return };
        shared.write_notification(notification, self.route(reply_to, Kind::Message));
    }

    pub(super) fn notify<T: ServerTransport>(
        &self,
        notification: Notification,
        during: Option<TicketKey>,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        self.check_open(during)?;
        shared.check_notification(&notification)?;
        if during.is_none_or(|ticket| self.incoming.get(ticket).is_some()) {
            shared.write_notification(notification, self.route(self.reply_to(during), Kind::Message));
        }
        Ok(())
    }

    /// Begins to end the session; `false` if it has ended before.
    pub(super) fn begin_close(&mut self) -> bool {
        std::mem::replace(&mut self.phase, Phase::Closed) != Phase::Closed
    }

    /// The client sends nothing more: its requests are still answered, and the requests to it fail (H4).
    pub(super) fn end_input<T: ServerTransport>(&mut self, shared: &mut Shared<'_, T>) {
        self.input_ended = true;
        self.fail_pending(shared);
    }

    /// Answers an open request with an error because the session ends.
    pub(super) fn refuse_open<T: ServerTransport>(&mut self, ticket: TicketKey, shared: &mut Shared<'_, T>) {
        let Some((id, request)) = self.end_request(ticket, shared) else { return };
        shared.output.timers.clear(ServerTimer::Again(ticket));
        self.settle(request.source, Some(closed_before_answer(id)), shared);
        shared.cancelled(ticket, None);
    }

    /// Ends all requests to the client, because they will get no answer.
    pub(super) fn fail_pending<T: ServerTransport>(&mut self, shared: &mut Shared<'_, T>) {
        for request in self.outgoing.keys() {
            self.finish(request, Outcome::Failed(Failed::Closed), shared);
        }
    }

    /// Checks whether messages may be sent. For those that relate to a request, the session need not be open.
    pub(super) const fn check_open(&self, during: Option<TicketKey>) -> Result<(), UsageError> {
        match self.phase {
            Phase::Awaiting if during.is_some() => Ok(()),
            Phase::Awaiting => Err(UsageError::NotConnected),
            Phase::Closed => Err(UsageError::Closed),
            Phase::Opening | Phase::Open | Phase::Ready => Ok(()),
        }
    }

    /// Where messages that relate to a request are sent (SH-S-13).
    pub(super) fn reply_to(&self, during: Option<TicketKey>) -> ReplyTo {
        let request = during.and_then(|ticket| self.incoming.get(ticket));
        request.map_or(ReplyTo::Stream, |request| request.source.reply_to)
    }

    /// The context of an unanswered request.
    pub(super) fn context(&self, ticket: TicketKey, config: &Config) -> Option<Context> {
        let request = self.incoming.get(ticket)?;
        Some(Context {
            version: self.version_in_force(),
            client_capabilities: self.client_capabilities(),
            client_info: self.stated("clientInfo"),
            logging_level: config
                .declares("logging")
                .then_some(self.settings.logging_level.unwrap_or(LoggingLevel::Debug)),
            principal: request.principal.clone(),
            instance: None,
        })
    }

    /// The capabilities that the client has declared.
    pub(super) fn client_capabilities(&self) -> Json {
        self.stated("capabilities").unwrap_or(Json::empty_object())
    }

    /// An object of the parameters of `initialize`.
    fn stated(&self, name: &str) -> Option<Json> {
        let member = self.settings.client.as_ref().and_then(|client| client.first_member(name));
        member.filter(Json::is_object)
    }

    pub(super) fn version_in_force(&self) -> ProtocolVersion {
        self.version.unwrap_or(ProtocolVersion::LATEST_LEGACY)
    }

    /// Sends the answer to a request of the client; `None` if it was cancelled.
    fn settle<T: ServerTransport>(&mut self, source: Source, response: Option<Response>, shared: &mut Shared<'_, T>) {
        let message = response.map(Message::Response);
        match source.batch {
            Some(batch) => self.settle_batch(batch, message, source.reply_to, shared),
            None => shared.write_answer(message, self.route(source.reply_to, Kind::Reply)),
        }
    }

    /// A request of a batch has ended, or with `None` the batch has been read.
    pub(super) fn settle_batch<T: ServerTransport>(
        &mut self,
        batch: BatchKey,
        message: Option<Message>,
        reply_to: ReplyTo,
        shared: &mut Shared<'_, T>,
    ) {
        // An answer that finds no room among the stored ones is replaced by an error (M3).
        let message = match message {
            Some(message) if !shared.has_room_for(message.payload_len(), 0) => Some(message.overloaded()),
            message => message,
        };
        let (bytes, waiting) = (self.batches.bytes(), self.batches.answers());
        let answers = self.batches.settle(batch, message);
        shared.usage.held = shared.usage.held - bytes + self.batches.bytes();
        shared.usage.batched = shared.usage.batched - waiting + self.batches.answers();
        if let Some(answers) = answers {
            shared.write_batch(answers, self.route(reply_to, Kind::Reply));
        }
    }

    pub(super) fn refuse<T: ServerTransport>(
        &mut self,
        id: Option<RequestId>,
        error: ErrorObject,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let message = Message::Response(Response::Error { id, error });
        self.write_at_once(message, Kind::Refusal, source, shared);
    }

    pub(super) fn answer_at_once<T: ServerTransport>(
        &mut self,
        id: RequestId,
        answer: Result<Json, ErrorObject>,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        let message = Message::Response(Response::new(id, answer));
        self.write_at_once(message, Kind::Reply, source, shared);
    }

    fn write_at_once<T: ServerTransport>(
        &mut self,
        message: Message,
        kind: Kind,
        source: Source,
        shared: &mut Shared<'_, T>,
    ) {
        match source.batch {
            Some(batch) => {
                shared.usage.held += self.batches.add(batch, message);
                shared.usage.batched += 1;
            }
            None => shared.write(&message, self.route(source.reply_to, kind)),
        }
    }

    pub(super) const fn route(&self, reply_to: ReplyTo, kind: Kind) -> Route {
        Route { session: Some(self.key), reply_to, kind }
    }
}

/// The answer to a request whose client is served no more.
pub(super) fn closed_before_answer(id: RequestId) -> Response {
    let error = ErrorObject::new(code::INTERNAL_ERROR, "the connection was closed before the answer came");
    Response::Error { id: Some(id), error }
}
