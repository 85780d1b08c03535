//! One client: the phase of its session, its requests, and the requests to it.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::{BatchKey, Batches};
use super::carrier::{Carrier, Kind, Route, Shared};
use super::context::Context;
use super::http::ExchangeKey;
use super::input::{InputRequired, Parked};
use super::listen::Listen;
use super::subscribed::Names;
use super::{Config, Event, LoggingLevel, Progress, Timer, era};
use crate::client::{CloseReason, Outcome};
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Message, Notification, RequestId, Response};
use crate::conversation::pending::{Incoming, Pending, RequestKey, SessionKey, Ticket, TicketKey, progress_token};
use crate::error::{Failed, Fault, UsageError};
use crate::limits::Limits;
use crate::spec::{Era, ProtocolVersion};
use crate::spec::{Method, code};

/// The server's state of one session, or over HTTP of all stateless requests.
#[derive(Debug)]
pub(super) struct Peer {
    /// `None` for the stateless requests of a server over HTTP.
    pub(super) key: Option<SessionKey>,
    pub(super) phase: Phase,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) input_ended: bool,
    /// `notifications/initialized`, if it arrived before `initialize` was answered.
    pub(super) early_confirmation: Option<Notification>,
    pub(super) incoming: Incoming<Origin>,
    pub(super) batches: Batches,
    pub(super) pending: Pending,
    /// The lowest level of log messages that the client wants, if it has set one.
    pub(super) logging_level: Option<LoggingLevel>,
    /// `capabilities` and `clientInfo` of the parameters of `initialize`; in a relay, all of the parameters.
    pub(super) client: Option<Json>,
    /// The resources that the client of the legacy session has subscribed to.
    pub(super) subscribed: Names,
    /// The requests for input, each with the client's request that needs it and the key of the input.
    pub(super) inputs: BTreeMap<RequestKey, (TicketKey, Box<str>)>,
    pub(super) listens: Incoming<Listen>,
    /// Whether an unacknowledged one was added that was not reported to the application.
    pub(super) has_unacknowledged: bool,
    /// The keys of `listens` by exchange, for those that have one.
    pub(super) listening: BTreeMap<ExchangeKey, TicketKey>,
    /// The stateless requests that the end of their exchange cancels (SH-S-17).
    pub(super) exchanges: BTreeMap<ExchangeKey, TicketKey>,
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

/// The exchange and the batch in which a message arrived, which determine where its answer is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Source {
    pub(super) exchange: Option<ExchangeKey>,
    pub(super) batch: Option<BatchKey>,
}

/// What is stored for a request of the client.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) method: Method,
    pub(super) opens_session: bool,
    /// The context that a stateless request states.
    pub(super) stated: Option<Box<Context>>,
    /// The input for a legacy request whose method may require it.
    pub(super) parked: Option<Parked>,
    /// The resource, if this request subscribes or unsubscribes.
    pub(super) uri: Option<Box<str>>,
    pub(super) token: Option<RequestId>,
    /// The last progress that was sent (PR-02).
    pub(super) progress: f64,
    /// Open requests to the client that relate to it.
    pub(super) asked: BTreeSet<RequestKey>,
}

impl Origin {
    pub(super) fn new(source: Source, method: Method, params: Option<&Json>) -> Self {
        Self {
            source,
            opens_session: method == Method::INITIALIZE,
            method,
            stated: None,
            parked: None,
            uri: None,
            token: progress_token(params),
            progress: f64::NEG_INFINITY,
            asked: BTreeSet::new(),
        }
    }
}

impl Peer {
    pub(super) fn new(key: Option<SessionKey>, limits: &Limits) -> Self {
        Self {
            key,
            phase: Phase::Awaiting,
            version: None,
            input_ended: false,
            early_confirmation: None,
            incoming: Incoming::new(key),
            batches: Batches::new(),
            pending: Pending::new(key, limits.tombstones),
            logging_level: None,
            client: None,
            subscribed: Names::default(),
            inputs: BTreeMap::new(),
            listens: Incoming::new(key),
            has_unacknowledged: false,
            listening: BTreeMap::new(),
            exchanges: BTreeMap::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    pub(super) const fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    pub(super) fn requests_in_flight(&self) -> usize {
        self.incoming.len()
    }

    /// Checks whether one more request with this many bytes may be open (RP10). Stateless requests over HTTP share a
    /// peer, so that the limit of one client does not apply to them.
    ///
    /// # Errors
    ///
    /// The answer to the request.
    pub(super) fn check_room<T: Carrier>(
        &self,
        is_of_one_client: bool,
        bytes: usize,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), ErrorObject> {
        let limits = &shared.config().limits;
        // An answer that waits for others of its batch is not sent yet, so that it counts as a request.
        let of_client = self.incoming.len() + self.batches.answers();
        let limit = if is_of_one_client && of_client >= limits.requests_in {
            limits.requests_in
        } else if *shared.requests + *shared.batched >= limits.requests_in_total {
            limits.requests_in_total
        } else if self.has_room_for(bytes, None, shared) {
            return Ok(());
        } else {
            return Err(ErrorObject::overloaded());
        };
        shared.wire.out.report(Event::Faulted(Fault::TooManyRequests { limit }));
        Err(ErrorObject::overloaded())
    }

    /// Whether a session was opened and has not ended.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ready)
    }

    /// Whether this many more bytes may be stored for an open or a new request (M3). Small requests may always be
    /// stored, because their number is bounded.
    pub(super) fn has_room_for<T: Carrier>(&self, bytes: usize, of: Option<TicketKey>, shared: &Shared<'_, T>) -> bool {
        let of_request = of.map_or(0, |ticket| self.incoming.bytes_of(ticket));
        of_request.saturating_add(bytes) <= Limits::SMALL
            || shared.config().limits.holds_beside(bytes, *shared.held + shared.transport.held())
    }

    /// Adds an open request with this many bytes.
    pub(super) fn begin_request<T: Carrier>(
        &mut self,
        id: RequestId,
        origin: Origin,
        bytes: usize,
        shared: &mut Shared<'_, T>,
    ) -> Ticket {
        *shared.requests += 1;
        *shared.held += bytes;
        let session = self.key.filter(|_| origin.stated.is_none());
        let key = TicketKey::new(session, *shared.next_ticket);
        *shared.next_ticket += 1;
        self.incoming.insert_as(key, id, origin, bytes)
    }

    /// Sets how many bytes are stored for a request.
    pub(super) fn keep<T: Carrier>(&mut self, ticket: TicketKey, bytes: usize, shared: &mut Shared<'_, T>) {
        *shared.held = *shared.held - self.incoming.bytes_of(ticket) + bytes;
        self.incoming.set_bytes(ticket, bytes);
    }

    /// Removes an open request; `None` if it has already ended.
    pub(super) fn end_request<T: Carrier>(
        &mut self,
        ticket: TicketKey,
        shared: &mut Shared<'_, T>,
    ) -> Option<(RequestId, Origin)> {
        *shared.held -= self.incoming.bytes_of(ticket);
        let ended = self.incoming.remove(ticket)?;
        *shared.requests = shared.requests.saturating_sub(1);
        Some(ended)
    }

    /// Answers a request. A result that requires input is handled by `require_input`, which checks it (MD-I-01).
    pub(super) fn respond<T: Carrier>(
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

    pub(super) fn answer<T: Carrier>(
        &mut self,
        ticket: TicketKey,
        answer: Result<Json, ErrorObject>,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        let Some((id, origin)) = self.end_request(ticket, shared) else { return Ok(()) };
        let is_serving = shared.serving().is_some();
        self.forget_exchange(&origin);
        let rules = self.version_of(&origin).rules();
        let reserved =
            answer.as_ref().err().map(ErrorObject::code).filter(|code| is_serving && !rules.allows_error_code(*code));
        let answer = match reserved {
            Some(_) => Err(ErrorObject::internal()),
            None => answer,
        };
        if origin.opens_session {
            self.on_initialize_answered(answer.as_ref().ok(), shared);
        }
        let answer = answer.and_then(|result| self.on_result(&origin, result, shared));
        self.give_up_asked(&origin, shared);
        self.settle(origin.source, Some(Response::new(id, answer)), shared);
        if let Some(early) = self.early_confirmation.take().filter(|_| self.phase == Phase::Open) {
            self.on_initialized(early.params, shared);
        }
        self.close_if_drained(shared);
        reserved.map_or(Ok(()), |code| Err(UsageError::ReservedErrorCode { code }))
    }

    pub(super) fn progress<T: Carrier>(&mut self, ticket: TicketKey, progress: &Progress, shared: &mut Shared<'_, T>) {
        let Some(origin) = self.incoming.get_mut(ticket) else { return };
        let Some(token) = &origin.token else { return };
        let grows = progress.progress.is_finite() && progress.progress > origin.progress;
        if !grows {
            return;
        }
        origin.progress = progress.progress;
        let params = progress.to_params(token);
        let exchange = origin.source.exchange;
        self.write_notification(Notification::with_params(Method::PROGRESS, params), exchange, shared);
    }

    pub(super) fn notify<T: Carrier>(
        &mut self,
        notification: Notification,
        during: Option<TicketKey>,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        self.check_open(during)?;
        if notification.method == Method::CANCELLED {
            return Err(UsageError::ReservedMethod { method: notification.method });
        }
        let origin = during.and_then(|ticket| self.incoming.get(ticket));
        let is_serving = shared.serving().is_some();
        if let Some(stated) = origin.and_then(|origin| origin.stated.as_ref()).filter(|_| is_serving) {
            if !stated.lets_pass(&notification)? {
                return Ok(());
            }
        }
        if during.is_none_or(|ticket| self.incoming.get(ticket).is_some()) {
            self.write_notification(notification, self.exchange_of(during), shared);
        }
        Ok(())
    }

    /// The client sends nothing more: its requests are still answered, and the requests to it fail (H4).
    pub(super) fn drain<T: Carrier>(&mut self, shared: &mut Shared<'_, T>) {
        self.input_ended = true;
        for request in self.pending.keys() {
            self.finish(request, Outcome::Failed(Failed::Closed), shared);
        }
        self.close_if_drained(shared);
    }

    pub(super) fn close<T: Carrier>(&mut self, reason: CloseReason, shared: &mut Shared<'_, T>) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.refuse_waiting(shared);
        self.end_subscriptions(shared);
        shared.timers.clear(Timer::Drain);
        shared.transport.ended(self.key, &mut shared.wire);
        if let Some(session) = self.key {
            shared.wire.out.report(Event::Closed { session, reason });
        }
    }

    /// Answers all open requests with an error and ends all requests to the client and subscriptions, because each
    /// request has exactly one outcome (invariant 1).
    pub(super) fn refuse_waiting<T: Carrier>(&mut self, shared: &mut Shared<'_, T>) {
        let mut tickets = self.incoming.keys();
        tickets.sort_unstable_by_key(|ticket| ticket.number());
        for ticket in tickets {
            let Some((id, origin)) = self.end_request(ticket, shared) else { continue };
            self.forget_exchange(&origin);
            shared.timers.clear(Timer::Again(ticket));
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the connection was closed before the answer came");
            self.settle(origin.source, Some(Response::Error { id: Some(id), error }), shared);
            shared.wire.out.report(Event::Cancelled { ticket, params: None });
        }
        for request in self.pending.keys() {
            self.finish(request, Outcome::Failed(Failed::Closed), shared);
        }
        self.end_listens(shared);
    }

    pub(super) fn close_if_drained<T: Carrier>(&mut self, shared: &mut Shared<'_, T>) {
        if self.input_ended && self.incoming.len() == 0 {
            self.close(CloseReason::Peer, shared);
        }
    }

    /// Checks whether messages may be sent. For those that relate to a stateless request, no session is needed.
    pub(super) fn check_open(&self, during: Option<TicketKey>) -> Result<(), UsageError> {
        match self.phase {
            Phase::Awaiting if during.is_some() => Ok(()),
            Phase::Awaiting => Err(UsageError::NotConnected),
            Phase::Closed => Err(UsageError::Closed),
            Phase::Opening | Phase::Open | Phase::Ready => Ok(()),
        }
    }

    /// The exchange of a request, on which related messages are sent (SH-S-13).
    pub(super) fn exchange_of(&self, during: Option<TicketKey>) -> Option<ExchangeKey> {
        during.and_then(|ticket| self.incoming.get(ticket)).and_then(|origin| origin.source.exchange)
    }

    /// The context of an unanswered request.
    pub(super) fn context<T: Carrier>(&self, ticket: TicketKey, config: &Config, transport: &T) -> Option<Context> {
        let origin = self.incoming.get(ticket)?;
        if let Some(stated) = &origin.stated {
            return Some((**stated).clone());
        }
        let of_client = |name: &str| {
            let member = self.client.as_ref().and_then(|client| client.first_member(name));
            member.filter(Json::is_object)
        };
        Some(Context {
            version: self.version_of(origin),
            client_capabilities: of_client("capabilities").unwrap_or(Json::empty_object()),
            client_info: of_client("clientInfo"),
            logging_level: config.declares("logging").then_some(self.logging_level.unwrap_or(LoggingLevel::Debug)),
            principal: transport.principal(self.key).cloned(),
        })
    }

    /// Whether this is a stateless request, or one that has ended.
    pub(super) fn states_its_own(&self, ticket: Option<TicketKey>) -> bool {
        ticket.is_some_and(|ticket| self.incoming.get(ticket).is_none_or(|origin| origin.stated.is_some()))
    }

    pub(super) fn version_of(&self, origin: &Origin) -> ProtocolVersion {
        let stated = origin.stated.as_ref().map(|stated| stated.version);
        stated.or(self.version).unwrap_or(ProtocolVersion::LATEST_LEGACY)
    }

    /// The client has disconnected from an exchange, which cancels its stateless request (SH-S-17).
    pub(super) fn on_disconnect<T: Carrier>(&mut self, exchange: ExchangeKey, shared: &mut Shared<'_, T>) {
        if let Some(key) = self.listening.remove(&exchange) {
            self.unlisten(key, shared);
        }
        let Some(ticket) = self.exchanges.remove(&exchange) else { return };
        if self.end_request(ticket, shared).is_some() {
            shared.wire.out.report(Event::Cancelled { ticket, params: None });
        }
    }

    pub(super) fn forget_exchange(&mut self, origin: &Origin) {
        if let Some(exchange) = origin.source.exchange {
            self.exchanges.remove(&exchange);
        }
    }

    /// Applies the effects of a result from the application, and adds the members that the protocol requires.
    ///
    /// # Errors
    ///
    /// The answer that replaces the result.
    fn on_result<T: Carrier>(
        &mut self,
        origin: &Origin,
        result: Json,
        shared: &mut Shared<'_, T>,
    ) -> Result<Json, ErrorObject> {
        if let Some(uri) = &origin.uri {
            self.on_subscription(&origin.method, uri, shared)?;
        }
        let Some(config) = shared.serving() else { return Ok(result) };
        if origin.method == Method::TOOLS_LIST && config.serves(Era::Modern) {
            shared.tools.learn(&result);
        }
        Ok(if origin.stated.is_some() { era::complete(config, &origin.method, &result) } else { result })
    }

    /// Sends the answer to a request of the client; `None` if it was cancelled.
    pub(super) fn settle<T: Carrier>(
        &mut self,
        source: Source,
        response: Option<Response>,
        shared: &mut Shared<'_, T>,
    ) {
        let message = response.map(Message::Response);
        let route = self.route(source.exchange, Kind::Reply);
        let Some(batch) = source.batch else {
            match message {
                Some(message) => {
                    let is_taken = shared.transport.takes_answer(message.payload_len(), &mut shared.wire);
                    let message = if is_taken { message } else { message.overloaded() };
                    shared.transport.write(&message, route, &mut shared.wire);
                }
                None => shared.transport.no_answer(route, &mut shared.wire),
            }
            return;
        };
        self.settle_batch(batch, message, source.exchange, shared);
    }

    pub(super) fn settle_batch<T: Carrier>(
        &mut self,
        batch: BatchKey,
        message: Option<Message>,
        exchange: Option<ExchangeKey>,
        shared: &mut Shared<'_, T>,
    ) {
        // An answer that finds no room among the stored ones is replaced by an error (M3).
        let has_room = |bytes| self.has_room_for(bytes, None, shared);
        let message = match message {
            Some(message) if !has_room(message.payload_len()) => Some(message.overloaded()),
            message => message,
        };
        let (bytes, waiting) = (self.batches.bytes(), self.batches.answers());
        let answers = self.batches.settle(batch, message);
        *shared.held = *shared.held - bytes + self.batches.bytes();
        *shared.batched = *shared.batched - waiting + self.batches.answers();
        let Some(answers) = answers else { return };
        let route = self.route(exchange, Kind::Reply);
        // A batch without requests has no answer (JR-35).
        if answers.is_empty() {
            shared.transport.no_answer(route, &mut shared.wire);
        } else {
            let bytes = answers.iter().map(Message::payload_len).sum();
            let is_taken = shared.transport.takes_answer(bytes, &mut shared.wire);
            let answers = if is_taken { answers } else { answers.into_iter().map(Message::overloaded).collect() };
            shared.transport.write_batch(&answers, route, &mut shared.wire);
        }
    }

    pub(super) fn write<T: Carrier>(
        &mut self,
        message: &Message,
        exchange: Option<ExchangeKey>,
        shared: &mut Shared<'_, T>,
    ) {
        shared.transport.write(message, self.route(exchange, Kind::Message), &mut shared.wire);
    }

    /// Writes a notification, or drops it if the client does not read and too much is unwritten (K1).
    pub(super) fn write_notification<T: Carrier>(
        &mut self,
        notification: Notification,
        exchange: Option<ExchangeKey>,
        shared: &mut Shared<'_, T>,
    ) {
        let message = Message::Notification(notification);
        if shared.transport.takes(message.payload_len(), &mut shared.wire) {
            self.write(&message, exchange, shared);
        } else {
            *shared.not_written += 1;
        }
    }

    pub(super) const fn route(&self, exchange: Option<ExchangeKey>, kind: Kind) -> Route {
        Route { session: self.key, exchange, kind }
    }
}
