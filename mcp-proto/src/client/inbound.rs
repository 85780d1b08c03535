//! Requests, notifications and responses from the server.

use std::collections::BTreeSet;

use super::connection::ConnectionPhase;
use super::event::{Event, Scope};
use super::transport::{ClientTransport, Inbound};
use super::{AskedWith, Client};
use crate::Instant;
use crate::conversation::cancellation;
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::{CloseReason, Outcome};
use crate::conversation::outgoing::Match;
use crate::error::{Fault, Quirk};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, Notification, ParseError, Request, RequestId, Response, Subject};
use crate::spec::{Method, code};

/// The maximum bytes of a progress notification that is kept while the queue has no room.
const LATE_PROGRESS: usize = 1024;

impl<T: ClientTransport> Client<T> {
    pub(super) fn on_inbound(&mut self, inbound: Inbound, now: Instant) {
        if self.connection.phase == ConnectionPhase::Closed {
            return;
        }
        match inbound {
            Inbound::Message { message: Message::Request(request), during } => {
                self.on_request(request, during.and_then(|wire| self.outgoing.owner(wire)), now);
            }
            Inbound::Message { message: Message::Notification(notification), during } => {
                self.on_notification(notification, during.and_then(|wire| self.outgoing.owner(wire)), now);
            }
            Inbound::Message { message: Message::Response(response), .. } => self.on_response(response, now),
            Inbound::Invalid(error) => self.on_invalid(&error, now),
            Inbound::StrayResponse(id) => self.on_stray_response(id),
            Inbound::Unanswered { request, reason } => {
                if self.connection.phase.opening() == Some(request) {
                    self.on_opening_outcome(Outcome::Failed(reason), now);
                } else if let Some(request) = self.outgoing.owner(request) {
                    self.finish(request, Outcome::Failed(reason), now);
                }
            }
            Inbound::Confirmed => self.on_confirmed(now),
            Inbound::RequestWaits { limit } => self.out.report(Event::RequestWaits { limit }),
            Inbound::Postponed { request, refusal, retry_in } => self.on_postponed(request, refusal, retry_in, now),
            Inbound::SessionLost => self.on_session_lost(now),
            Inbound::Challenged(challenged) => self.out.report(Event::Challenged(challenged)),
            Inbound::OpeningWaits(request) => self.on_opening_waits(request),
            Inbound::OpeningContinues(request) => self.on_opening_continues(request, now),
            Inbound::Faulted(fault) => self.out.report(Event::Faulted(fault)),
            Inbound::QuirkObserved(quirk) => self.report_quirk(quirk),
            Inbound::Ended(reason) => self.on_ended(reason, now),
            Inbound::Closed => {
                let reason = if let ConnectionPhase::Closing(reason) = self.connection.phase {
                    reason
                } else {
                    CloseReason::Peer
                };
                self.connection.phase = ConnectionPhase::Closed;
                self.timers.clear_all();
                self.out.report(Event::Closed(reason));
            }
        }
    }

    fn on_request(&mut self, request: Request, during: Option<RequestKey>, now: Instant) {
        let Request { id, method, params } = request;
        if matches!(self.connection.phase, ConnectionPhase::Closing(_)) {
            return;
        }
        // In this revision, a server asks for input in its results, and accepts no responses (RULES 0.1).
        if self.connection.is_stateless() {
            self.out.report(Event::Faulted(Fault::UnexpectedRequest { method }));
            return;
        }
        // Each request is answered, and each answer takes memory until the server accepts it (RP10).
        if self.transport.backlog().is_overfull(&self.config.limits) {
            return self.close_because(CloseReason::Overflow, now);
        }
        let limit = self.config.limits.requests_in;
        if self.incoming.len() >= limit {
            self.out.report(Event::Faulted(Fault::TooManyRequests { limit }));
            self.send_answer(id, Err(ErrorObject::overloaded()), now);
            return;
        }
        // The ids in it were not mapped to those of this connection (JR-11).
        if method.is_notification() {
            let error = ErrorObject::method_not_found(&method);
            self.out.report(Event::Faulted(Fault::UnexpectedRequest { method }));
            return self.send_answer(id, Err(error), now);
        }
        if !self.reports_all_requests() {
            // `ping` must be answered promptly (LC-17).
            if method == Method::PING {
                self.send_answer(id, Ok(Json::empty_object()), now);
                return;
            }
            // A request whose capability was not declared is refused (LC-19, RP14).
            if !self.connection.identity.declares(&method) {
                let error = ErrorObject::new(code::METHOD_NOT_FOUND, "the client did not declare this capability");
                self.out.report(Event::Faulted(Fault::UnexpectedRequest { method }));
                self.send_answer(id, Err(error), now);
                return;
            }
        }
        // The application may wait for a person, and holds the request as long as that takes (M3).
        let bytes = params.as_ref().map_or(0, Json::len);
        if !self.has_room_for(bytes, 0) {
            return self.send_answer(id, Err(ErrorObject::overloaded()), now);
        }
        if self.incoming.is_in_use(&id) {
            self.out.report(Event::Faulted(Fault::DuplicateId { id: id.clone() }));
        }
        let scope = self.scope(during);
        let ticket = self.incoming.insert(id, AskedWith::Request(scope), bytes);
        self.pause_deadlines(scope);
        self.report_bounded(Event::Requested { ticket, scope, method, params }, now);
    }

    /// Whether every request of the server is reported. In a session that the client has opened itself, it handles those
    /// that no application has to answer.
    fn reports_all_requests(&self) -> bool {
        self.config.reports_all_requests && !self.connection.handshake.is_own_session()
    }

    /// The scope of a message that came on the stream of a request. The application has the keys of its own requests
    /// only.
    fn scope(&self, during: Option<RequestKey>) -> Scope {
        during.filter(|request| !self.is_internal(*request)).map_or(Scope::Connection, Scope::Request)
    }

    /// Whether the client has made a request for itself.
    pub(super) fn is_internal(&self, request: RequestKey) -> bool {
        self.outgoing.get(request).is_some_and(|request| request.purpose.is_internal())
    }

    fn on_notification(&mut self, notification: Notification, during: Option<RequestKey>, now: Instant) {
        // A reader that looks only at the method could serve it as a request that was not checked (JR-11).
        if notification.method.is_request() {
            self.out.report(Event::Faulted(Fault::MissingId { method: notification.method }));
            return;
        }
        if let Some(cache) = &mut self.cache {
            cache.on_notification(&notification.method, notification.params.as_ref());
        }
        let Some((notification, about)) = self.on_subscribed(notification, during, now) else { return };
        let Notification { method, params } = notification;
        if method == Method::CANCELLED {
            self.on_cancelled(params, now);
        } else if method == Method::PROGRESS {
            self.on_progress(params, now);
        } else {
            self.report_bounded(Event::Notified { scope: self.scope(about), method, params }, now);
        }
    }

    /// The server cancels a request of its own. A malformed or unknown cancellation is ignored (CX-03).
    fn on_cancelled(&mut self, params: Option<Json>, now: Instant) {
        let Some(params) = params else { return };
        let Some(id) = cancellation::cancelled_id(&params) else { return };
        if self.connection.is_stateless() {
            // In the modern era, only a subscription can be ended in this way (MD-L-10).
            return self.on_taken_back(&id, now);
        }
        // If several requests have this id, all of them are cancelled, because it is unknown which one is meant (RP4).
        for ticket in self.incoming.with_id(&id) {
            if let Some((_, AskedWith::Request(scope))) = self.incoming.remove(ticket) {
                self.resume_deadlines(scope, now);
            }
            self.out.report(Event::RequestCancelled { ticket, params: params.clone() });
        }
    }

    fn on_progress(&mut self, params: Option<Json>, now: Instant) {
        let request = self.outgoing.on_progress(params.as_ref(), &mut self.timers, now);
        let (Some(request), Some(params)) = (request, params) else {
            self.out.report(Event::Faulted(Fault::UnknownProgressToken));
            return;
        };
        if self.is_asked_about(request) {
            self.outgoing.extend_to_latest(request, &mut self.timers);
        }
        if !self.is_internal(request) {
            self.report_bounded(Event::Progressed { request, params }, now);
        }
    }

    /// Extends the deadlines of the requests concerned to their maximum while the server waits for an answer, which a
    /// person may have to give (TO-04).
    pub(super) fn pause_deadlines(&mut self, scope: Scope) {
        for request in self.requests_in(scope) {
            self.outgoing.extend_to_latest(request, &mut self.timers);
        }
    }

    /// A request of this scope was answered or cancelled. Usual deadlines apply again to the requests about which the
    /// server waits for no other answer (TO-04).
    pub(super) fn resume_deadlines(&mut self, scope: Scope, now: Instant) {
        let mut asked_about = BTreeSet::new();
        for asked in self.incoming.values() {
            match asked.request() {
                Some(request) => asked_about.insert(request),
                None => return,
            };
        }
        for request in self.requests_in(scope) {
            if !asked_about.contains(&request) {
                self.outgoing.extend(request, &mut self.timers, now);
            }
        }
    }

    /// Whether the server waits for an answer that may be about this request. Meanwhile, the time of the request does
    /// not count (TO-04). A server that does one thing after the other needs the answer before it reads a request that
    /// was made since.
    pub(super) fn is_asked_about(&self, request: RequestKey) -> bool {
        self.incoming.values().any(|asked| asked.request().is_none_or(|asked| asked == request))
            && self.may_need_a_person(request)
    }

    /// Whether a person may have to answer before the server can answer this request: not for the one that opens the
    /// connection, nor for a `ping`, which shows whether the server is alive while it waits.
    fn may_need_a_person(&self, request: RequestKey) -> bool {
        let is_ping = self.outgoing.get(request).is_some_and(|request| request.method == Method::PING);
        !is_ping && self.connection.phase.opening() != Some(request)
    }

    /// The requests about which the server may ask in this scope: if it names none, any pending one.
    fn requests_in(&self, scope: Scope) -> Vec<RequestKey> {
        let mut requests = match scope {
            Scope::Request(request) => vec![request],
            Scope::Connection | Scope::Subscription(_) => self.outgoing.keys(),
        };
        requests.retain(|request| self.may_need_a_person(*request));
        requests
    }

    fn on_response(&mut self, response: Response, now: Instant) {
        let Some(id) = response.id() else {
            if let Response::Error { error, .. } = response {
                self.out.report(Event::Faulted(Fault::PeerError { code: error.code() }));
            }
            return;
        };
        let Match::Open(request) = self.outgoing.find(id) else {
            self.on_stray_response(id.clone());
            if let Response::Result { id, result } = response {
                self.on_late_result(&id, result, now);
            }
            return;
        };
        if self.outgoing.attempts(request).is_some() {
            return self.on_call_answered(request, response, now);
        }
        let outcome = response.into();
        if self.connection.phase.opening() == Some(request) {
            return self.on_opening_outcome(outcome, now);
        }
        self.judge_result(request, &outcome);
        self.finish(request, outcome, now);
    }

    /// Reports quirks of a result, which itself is passed on unchanged.
    pub(super) fn judge_result(&mut self, request: RequestKey, outcome: &Outcome) {
        let Outcome::Result(result) = outcome else { return };
        let is_tool_call = self.outgoing.get(request).is_some_and(|request| request.method == Method::TOOLS_CALL);
        if is_tool_call && !self.reports.quirks.contains(&Quirk::ToolResultWithoutContent) {
            let is_task = || result.first_members(["task", "taskId"]).iter().any(Option::is_some);
            if result.first_member("content").is_none() && !is_task() {
                self.report_quirk(Quirk::ToolResultWithoutContent);
            }
        }
    }

    fn on_stray_response(&mut self, id: RequestId) {
        let fault = match self.outgoing.find(&id) {
            Match::Late => {
                self.outgoing.on_late_answer(&id);
                Fault::LateResponse { id }
            }
            Match::Open(_) | Match::Unknown => Fault::UnknownResponse { id },
        };
        self.out.report(Event::Faulted(fault));
    }

    /// Handles a frame that is not a message. A request in it is answered with an error (P6); a response in it is
    /// failed by the transport. Any other frame gets no answer, because it may be output on the wrong stream (ST-25).
    fn on_invalid(&mut self, error: &ParseError, now: Instant) {
        self.out.report(Event::Faulted(Fault::Parse(error.clone())));
        self.refuse_invalid(error, now);
    }

    pub(super) fn refuse_invalid(&mut self, error: &ParseError, now: Instant) {
        if let Subject::Request(id) = &error.subject {
            self.send_answer(id.clone(), Err(ErrorObject::new(error.code(), &error.to_string())), now);
        }
    }

    pub(super) fn report_quirk(&mut self, quirk: Quirk) {
        if self.reports.quirks.insert(quirk) {
            self.out.report(Event::QuirkObserved(quirk));
        }
    }

    /// Reports an event that the server can cause any number of times. Over the limits, only the newest progress is
    /// kept, notifications that may be missed are dropped, and anything else ends the connection (RP9).
    pub(super) fn report_bounded(&mut self, event: Event, now: Instant) {
        if !self.out.is_overfull(&self.config.limits) {
            self.out.report(event);
            return;
        }
        if let Event::Progressed { request, params } = event {
            let is_one_lost = params.len() > LATE_PROGRESS || self.outgoing.keep_progress(request, params);
            self.reports.dropped += u64::from(is_one_lost);
        } else if matches!(&event, Event::Notified { method, .. } if method.facts().may_be_missed) {
            self.reports.dropped += 1;
        } else {
            self.close_because(CloseReason::Overflow, now);
        }
    }
}
