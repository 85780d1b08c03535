//! One client: its session's life, its requests, and what is asked of it.

use std::collections::BTreeSet;

use super::batch::{BatchKey, Batches};
use super::carrier::{Carrier, Hub, Kind, Route};
use super::http::ExchangeKey;
use super::{Event, LoggingLevel, Progress, Timer};
use crate::client::{Call, CloseReason, Forwarding, Outcome};
use crate::deadlines::after;
use crate::error::{Failed, UsageError};
use crate::json::Json;
use crate::limits::Limits;
use crate::message::{ErrorObject, Message, Method, Notification, Request, RequestId, Response, code};
use crate::pending::{Incoming, Pending, RequestKey, SessionKey, TicketKey, Waiting, progress_token};
use crate::version::ProtocolVersion;

/// The server's half of one session.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) key: SessionKey,
    pub(super) phase: Phase,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) input_ended: bool,
    /// `notifications/initialized` that came before `initialize` was answered.
    pub(super) early_confirmation: Option<Notification>,
    pub(super) incoming: Incoming<Origin>,
    pub(super) batches: Batches,
    pub(super) pending: Pending,
    /// Log messages below this are not wanted.
    pub(super) logging_level: LoggingLevel,
}

/// Where a session is in its life (RULES 7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Awaiting,
    /// `initialize` waits for the application's answer.
    Opening,
    Open,
    Ready,
    Closed,
}

/// How a message came, and so how it is answered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Source {
    pub(super) exchange: Option<ExchangeKey>,
    pub(super) batch: Option<BatchKey>,
}

/// What is known of a request of the client's.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) opens_session: bool,
    pub(super) token: Option<RequestId>,
    /// The last progress that was told (PR-02).
    pub(super) progress: f64,
    /// What the client was asked because of it.
    pub(super) asked: BTreeSet<RequestKey>,
}

impl Origin {
    pub(super) const fn new(source: Source, opens_session: bool, token: Option<RequestId>) -> Self {
        Self { source, opens_session, token, progress: f64::NEG_INFINITY, asked: BTreeSet::new() }
    }
}

impl Peer {
    pub(super) const fn new(key: SessionKey, limits: &Limits) -> Self {
        Self {
            key,
            phase: Phase::Awaiting,
            version: None,
            input_ended: false,
            early_confirmation: None,
            incoming: Incoming::new(key),
            batches: Batches::new(),
            pending: Pending::new(key, limits.tombstones),
            logging_level: LoggingLevel::Debug,
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

    pub(super) fn respond<T: Carrier>(
        &mut self,
        ticket: TicketKey,
        answer: Result<Json, ErrorObject>,
        hub: &mut Hub<'_, T>,
    ) -> Result<(), UsageError> {
        let Some((id, origin)) = self.incoming.remove(ticket) else { return Ok(()) };
        let is_own = hub.config.forwarding == Forwarding::Own;
        let rules = self.version.unwrap_or(ProtocolVersion::LATEST_LEGACY).rules();
        let reserved =
            answer.as_ref().err().map(ErrorObject::code).filter(|code| is_own && !rules.allows_error_code(*code));
        let answer = match reserved {
            Some(_) => Err(ErrorObject::new(code::INTERNAL_ERROR, "internal error")),
            None => answer,
        };
        if origin.opens_session {
            self.on_initialize_answered(answer.as_ref().ok(), hub);
        }
        self.give_up_asked(&origin, hub);
        self.settle(origin.source, Some(Response::new(id, answer)), hub);
        if let Some(early) = self.early_confirmation.take().filter(|_| self.phase == Phase::Open) {
            self.on_initialized(early.params, hub);
        }
        self.close_if_drained(hub);
        reserved.map_or(Ok(()), |code| Err(UsageError::ReservedErrorCode { code }))
    }

    pub(super) fn progress<T: Carrier>(&mut self, ticket: TicketKey, progress: &Progress, hub: &mut Hub<'_, T>) {
        let Some(origin) = self.incoming.get_mut(ticket) else { return };
        let Some(token) = &origin.token else { return };
        let grows = progress.progress.is_finite() && progress.progress > origin.progress;
        if !grows {
            return;
        }
        origin.progress = progress.progress;
        let params = progress.to_params(token);
        let exchange = origin.source.exchange;
        self.write(&Notification::with_params(Method::PROGRESS, params).into(), exchange, hub);
    }

    pub(super) fn notify<T: Carrier>(
        &mut self,
        notification: Notification,
        during: Option<TicketKey>,
        hub: &mut Hub<'_, T>,
    ) -> Result<(), UsageError> {
        self.check_open()?;
        if notification.method == Method::CANCELLED {
            return Err(UsageError::ReservedMethod { method: notification.method });
        }
        if during.is_none_or(|ticket| self.incoming.get(ticket).is_some()) {
            self.write(&notification.into(), self.exchange_of(during), hub);
        }
        Ok(())
    }

    pub(super) fn request<T: Carrier>(
        &mut self,
        call: Call,
        during: Option<TicketKey>,
        hub: &mut Hub<'_, T>,
    ) -> Result<RequestKey, UsageError> {
        self.check_open()?;
        if self.input_ended {
            return Err(UsageError::Closed);
        }
        // LC-10: until the client has confirmed, it is asked for nothing but a sign of life.
        let may_ask = self.phase == Phase::Ready || call.method == Method::PING;
        if hub.config.forwarding == Forwarding::Own && !may_ask {
            return Err(UsageError::NotConnected);
        }
        let limit = hub.config.limits.requests_out;
        if self.pending.len() >= limit {
            return Err(UsageError::TooManyRequests { limit });
        }
        let timeout = call.timeout.unwrap_or(hub.config.request_timeout);
        let latest = after(hub.wire.now, hub.config.max_timeout.max(timeout));
        let token = progress_token(call.params.as_ref());
        let method = call.method;
        let request = self.pending.insert(Waiting { method: method.clone(), timeout, latest, token, during });
        if let Some(ticket) = during {
            let Some(origin) = self.incoming.get_mut(ticket) else {
                // Its request has ended a moment ago, of which whoever asks has not heard yet.
                self.finish(request, Outcome::Failed(Failed::Cancelled), hub);
                return Ok(request);
            };
            origin.asked.insert(request);
        }
        hub.timers.set(Timer::Answer(request), after(hub.wire.now, timeout));
        let exchange = self.exchange_of(during);
        self.write(&Request { id: request.to_wire(), method, params: call.params }.into(), exchange, hub);
        Ok(request)
    }

    pub(super) fn on_answer_timeout<T: Carrier>(&mut self, request: RequestKey, hub: &mut Hub<'_, T>) {
        let Some(waiting) = self.pending.get(request) else { return };
        let reason = Failed::TimedOut { after: waiting.timeout };
        let params = Json::empty_object().with_member("reason", &Json::from("timed out"));
        self.give_up(request, reason, &params, hub);
    }

    pub(super) fn give_up<T: Carrier>(
        &mut self,
        request: RequestKey,
        reason: Failed,
        params: &Json,
        hub: &mut Hub<'_, T>,
    ) {
        let Some(waiting) = self.pending.give_up(request) else { return };
        let origin = waiting.during.and_then(|ticket| self.incoming.get_mut(ticket));
        let exchange = origin.and_then(|origin| {
            origin.asked.remove(&request);
            origin.source.exchange
        });
        self.on_given_up(request, reason, params, exchange, hub);
    }

    /// Nobody waits any more for what was asked because of a request that has ended.
    pub(super) fn give_up_asked<T: Carrier>(&mut self, ended: &Origin, hub: &mut Hub<'_, T>) {
        for request in &ended.asked {
            if self.pending.give_up(*request).is_some() {
                self.on_given_up(*request, Failed::Cancelled, &Json::empty_object(), ended.source.exchange, hub);
            }
        }
    }

    fn on_given_up<T: Carrier>(
        &mut self,
        request: RequestKey,
        reason: Failed,
        params: &Json,
        exchange: Option<ExchangeKey>,
        hub: &mut Hub<'_, T>,
    ) {
        let params = params.with_member("requestId", &request.to_wire().to_json());
        self.write(&Notification::with_params(Method::CANCELLED, params).into(), exchange, hub);
        hub.timers.clear(Timer::Answer(request));
        hub.wire.out.tell(Event::Responded { request, outcome: Outcome::Failed(reason) });
    }

    /// The client sends nothing more: what it has asked for is still answered, what it was asked for has failed (H4).
    pub(super) fn drain<T: Carrier>(&mut self, hub: &mut Hub<'_, T>) {
        self.input_ended = true;
        for request in self.pending.keys() {
            self.finish(request, Outcome::Failed(Failed::Closed), hub);
        }
        self.close_if_drained(hub);
    }

    pub(super) fn close<T: Carrier>(&mut self, reason: CloseReason, hub: &mut Hub<'_, T>) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        // Invariant 1: who still waits hears that nothing more will come.
        for ticket in self.incoming.keys() {
            let Some((id, origin)) = self.incoming.remove(ticket) else { continue };
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the connection was closed before the answer came");
            self.settle(origin.source, Some(Response::Error { id: Some(id), error }), hub);
            hub.wire.out.tell(Event::Cancelled { ticket, params: None });
        }
        for request in self.pending.keys() {
            self.finish(request, Outcome::Failed(Failed::Closed), hub);
        }
        hub.timers.clear(Timer::Drain(self.key));
        hub.transport.ended(self.key, &mut hub.wire);
        hub.wire.out.tell(Event::Closed { session: self.key, reason });
    }

    pub(super) fn close_if_drained<T: Carrier>(&mut self, hub: &mut Hub<'_, T>) {
        if self.input_ended && self.incoming.len() == 0 {
            self.close(CloseReason::Peer, hub);
        }
    }

    fn check_open(&self) -> Result<(), UsageError> {
        match self.phase {
            Phase::Awaiting => Err(UsageError::NotConnected),
            Phase::Closed => Err(UsageError::Closed),
            Phase::Opening | Phase::Open | Phase::Ready => Ok(()),
        }
    }

    /// SH-S-13: what is said because of a request travels with it.
    pub(super) fn exchange_of(&self, during: Option<TicketKey>) -> Option<ExchangeKey> {
        during.and_then(|ticket| self.incoming.get(ticket)).and_then(|origin| origin.source.exchange)
    }

    pub(super) fn finish<T: Carrier>(&mut self, request: RequestKey, outcome: Outcome, hub: &mut Hub<'_, T>) {
        let Some(waiting) = self.pending.remove(request) else { return };
        if let Some(origin) = waiting.during.and_then(|ticket| self.incoming.get_mut(ticket)) {
            origin.asked.remove(&request);
        }
        hub.timers.clear(Timer::Answer(request));
        hub.wire.out.tell(Event::Responded { request, outcome });
    }

    /// A request of the client's has its outcome, which for a cancelled one is no answer.
    pub(super) fn settle<T: Carrier>(&mut self, source: Source, response: Option<Response>, hub: &mut Hub<'_, T>) {
        let message = response.map(Message::Response);
        let route = self.route(source.exchange, Kind::Reply);
        let Some(batch) = source.batch else {
            match message {
                Some(message) => hub.transport.write(&message, route, &mut hub.wire),
                None => hub.transport.no_answer(route, &mut hub.wire),
            }
            return;
        };
        self.settle_batch(batch, message, source.exchange, hub);
    }

    pub(super) fn settle_batch<T: Carrier>(
        &mut self,
        batch: BatchKey,
        message: Option<Message>,
        exchange: Option<ExchangeKey>,
        hub: &mut Hub<'_, T>,
    ) {
        let Some(answers) = self.batches.settle(batch, message) else { return };
        let route = self.route(exchange, Kind::Reply);
        // JR-35: a batch of notifications has no answer.
        if answers.is_empty() {
            hub.transport.no_answer(route, &mut hub.wire);
        } else {
            hub.transport.write_batch(&answers, route, &mut hub.wire);
        }
    }

    pub(super) fn write<T: Carrier>(&mut self, message: &Message, exchange: Option<ExchangeKey>, hub: &mut Hub<'_, T>) {
        hub.transport.write(message, self.route(exchange, Kind::Message), &mut hub.wire);
    }

    pub(super) const fn route(&self, exchange: Option<ExchangeKey>, kind: Kind) -> Route {
        Route { session: self.key, exchange, kind }
    }
}
