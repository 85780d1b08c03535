//! What the client asks, tells and answers.

use super::batch::BatchKey;
use super::{Event, Origin, Phase, Server, Timer};
use crate::Instant;
use crate::client::{CloseReason, Forwarding, Outcome};
use crate::error::{Failed, Fault, InvalidResponse};
use crate::json::{Json, check_unique_keys};
use crate::message::{
    BUSY, ErrorObject, Message, Method, Notification, ParseError, Request, RequestId, Response, Subject, code,
};
use crate::pending::{Match, progress_token};
use crate::transport::{Stdio, too_long};
use crate::version::ProtocolVersion;

impl Server<Stdio> {
    pub(super) fn on_message(&mut self, message: Message, batch: Option<BatchKey>, now: Instant) {
        match message {
            Message::Request(request) => self.on_request(request, batch),
            Message::Notification(notification) => self.on_notification(notification, now),
            Message::Response(response) => self.on_response(response),
        }
    }

    pub(super) fn on_batch(&mut self, items: Vec<Result<Message, ParseError>>, now: Instant) {
        if !self.version.is_some_and(|version| version.rules().batches) {
            // JR-37, JR-38
            self.out.tell(Event::Faulted(Fault::UnexpectedBatch));
            self.refuse(None, &ErrorObject::new(code::INVALID_REQUEST, &Fault::UnexpectedBatch.to_string()), None);
            return;
        }
        let batch = self.batches.begin();
        for item in items {
            match item {
                Ok(message) => self.on_message(message, Some(batch), now),
                Err(error) => self.on_invalid(error, Some(batch), now),
            }
        }
        self.settle(Some(batch), None);
    }

    fn on_request(&mut self, request: Request, batch: Option<BatchKey>) {
        let Request { id, method, params } = request;
        if let Err(error) = self.admit(&method, params.as_ref(), batch) {
            self.refuse(Some(id), &error, batch);
            return;
        }
        let opens_session = method == Method::INITIALIZE;
        let is_own = self.config.forwarding == Forwarding::Own;
        // LC-17. A relay's server may not be there yet; the client hears from us that we are.
        if method == Method::PING && (is_own || self.phase == Phase::Awaiting) {
            self.answer_at_once(id, Json::empty_object(), batch);
            return;
        }
        if opens_session && is_own {
            self.initialize(id, params);
            return;
        }
        if self.incoming.is_in_use(&id) {
            self.out.tell(Event::Faulted(Fault::DuplicateId { id: id.clone() }));
        }
        if opens_session {
            self.phase = Phase::Opening;
        }
        if let Some(batch) = batch {
            self.batches.expect_one_more(batch);
        }
        let token = progress_token(params.as_ref());
        let origin = Origin { batch, opens_session, token, progress: f64::NEG_INFINITY };
        let ticket = self.incoming.insert(id, origin);
        self.out.tell(Event::Requested { ticket, method, params });
    }

    /// Whether a request may be handed up; if not, how it is answered.
    fn admit(&mut self, method: &Method, params: Option<&Json>, batch: Option<BatchKey>) -> Result<(), ErrorObject> {
        let refuse = |code, text: &str| Err(ErrorObject::new(code, text));
        if self.input_ended {
            return refuse(code::INVALID_REQUEST, "the connection is being closed");
        }
        match (self.phase, *method == Method::INITIALIZE) {
            (Phase::Awaiting, true) if batch.is_none() => {}
            // JR-32, LC-15
            (Phase::Awaiting, true) => return refuse(code::INVALID_REQUEST, "initialize in a batch"),
            // SE2, LC-21: the session stays as it is.
            (Phase::Opening | Phase::Open | Phase::Ready | Phase::Closed, true) => {
                return refuse(code::INVALID_REQUEST, "the session was initialized before");
            }
            (Phase::Awaiting, false) if *method == Method::PING => {}
            // ER-24: to a client that probes for the modern era, this says that there is none.
            (Phase::Awaiting, false) if *method == Method::SERVER_DISCOVER => {
                return refuse(code::METHOD_NOT_FOUND, "method not found: this server begins with initialize");
            }
            (Phase::Awaiting, false) => return refuse(code::INVALID_REQUEST, "the session is not initialized"),
            (Phase::Opening | Phase::Open | Phase::Ready | Phase::Closed, false) => {}
        }
        if self.config.strict_json && params.is_some_and(|params| check_unique_keys(params).is_err()) {
            self.out.tell(Event::Faulted(Fault::DuplicateKey));
            return refuse(code::INVALID_PARAMS, "invalid params: two members of one name");
        }
        let limit = self.config.limits.requests_in;
        if self.incoming.len() >= limit {
            self.out.tell(Event::Faulted(Fault::TooManyRequests { limit }));
            return refuse(BUSY, "too many requests at one time");
        }
        Ok(())
    }

    fn initialize(&mut self, id: RequestId, params: Option<Json>) {
        let params = params.unwrap_or(Json::empty_object());
        let asked = params.first_member("protocolVersion");
        let Some(asked) = asked.as_ref().and_then(Json::as_string) else {
            let error = ErrorObject::new(code::INVALID_PARAMS, "invalid params: no protocolVersion");
            self.refuse(Some(id), &error, None);
            return;
        };
        let version = self.config.negotiate(&asked);
        self.set_version(version);
        self.phase = Phase::Open;
        self.write(&Response::Result { id, result: self.config.initialize_result(version) }.into());
        self.out.tell(Event::Connected { version, params });
    }

    /// The application has answered `initialize`: the revision is what its result says.
    pub(super) fn on_initialize_answered(&mut self, result: Option<&Json>) {
        if self.phase != Phase::Opening {
            return;
        }
        let version = result.and_then(|result| result.first_member("protocolVersion"));
        let version =
            version.as_ref().and_then(Json::as_string).and_then(|version| ProtocolVersion::from_text(&version));
        match version {
            Some(version) => {
                self.set_version(version);
                self.phase = Phase::Open;
            }
            None => self.phase = Phase::Awaiting,
        }
    }

    fn set_version(&mut self, version: ProtocolVersion) {
        self.version = Some(version);
        self.transport.set_unreadable_id(version.rules().unreadable_id);
    }

    fn on_notification(&mut self, notification: Notification, now: Instant) {
        let Notification { method, params } = notification;
        if self.config.strict_json && params.as_ref().is_some_and(|params| check_unique_keys(params).is_err()) {
            self.out.tell(Event::Faulted(Fault::DuplicateKey));
            return;
        }
        if method == Method::CANCELLED {
            self.on_cancelled(params.as_ref());
        } else if method == Method::PROGRESS {
            self.on_progress(params, now);
        } else if method == Method::INITIALIZED {
            match self.phase {
                Phase::Open => self.on_initialized(params),
                // A client that does not wait for its answers: this takes effect with the answer.
                Phase::Opening => self.early_confirmation = Some(Notification { method, params }),
                Phase::Awaiting | Phase::Ready | Phase::Closed => {}
            }
        } else if self.phase != Phase::Awaiting {
            self.out.tell(Event::Notified { method, params });
        }
    }

    pub(super) fn on_initialized(&mut self, params: Option<Json>) {
        self.phase = Phase::Ready;
        self.out.tell(match self.config.forwarding {
            Forwarding::Own => Event::Ready,
            Forwarding::All => Event::Notified { method: Method::INITIALIZED, params },
        });
    }

    /// CX-03: the client takes a request back. What is malformed or unknown is ignored.
    fn on_cancelled(&mut self, params: Option<&Json>) {
        let id = params.and_then(|params| params.first_member("requestId"));
        let Some(id) = id.and_then(|id| RequestId::from_json_text(id.as_bytes())) else { return };
        // RP4: with one id for several requests, nobody knows which is meant, so none is left running.
        for ticket in self.incoming.with_id(&id) {
            // LC-14: `initialize` is not cancelled.
            if self.incoming.get_mut(ticket).is_none_or(|origin| origin.opens_session) {
                continue;
            }
            let Some((_, origin)) = self.incoming.remove(ticket) else { continue };
            self.settle(origin.batch, None);
            self.out.tell(Event::Cancelled { ticket, params: params.cloned() });
        }
        self.close_if_drained();
    }

    fn on_progress(&mut self, params: Option<Json>, now: Instant) {
        let token = params.as_ref().and_then(|params| params.first_member("progressToken"));
        let token = token.and_then(|token| RequestId::from_json_text(token.as_bytes()));
        let request = token.and_then(|token| self.pending.find_token(&token));
        let (Some(request), Some(params)) = (request, params) else {
            self.out.tell(Event::Faulted(Fault::UnknownProgressToken));
            return;
        };
        if let Some(waiting) = self.pending.get(request) {
            self.timers.set(Timer::Answer(request), (now + waiting.timeout).min(waiting.latest));
        }
        self.out.tell(Event::Progressed { request, params });
    }

    fn on_response(&mut self, response: Response) {
        let outcome = match (&response, response.id()) {
            (Response::Error { error, .. }, None) => {
                self.out.tell(Event::Faulted(Fault::PeerError { code: error.code() }));
                return;
            }
            (_, None) => return,
            (_, Some(id)) => match self.pending.find(id) {
                Match::Open(request) => request,
                Match::Late => return self.out.tell(Event::Faulted(Fault::LateResponse { id: id.clone() })),
                Match::Unknown => return self.out.tell(Event::Faulted(Fault::UnknownResponse { id: id.clone() })),
            },
        };
        let request = outcome;
        self.finish(
            request,
            match response {
                Response::Result { result, .. } => Outcome::Result(result),
                Response::Error { error, .. } => Outcome::Error(error),
            },
        );
    }

    /// A frame that is no message: whoever can be answered is (P6).
    pub(super) fn on_invalid(&mut self, error: ParseError, batch: Option<BatchKey>, now: Instant) {
        let answer = ErrorObject::new(error.code(), &error.to_string());
        let reason = Failed::InvalidResponse { reason: InvalidResponse::from(&error) };
        let subject = error.subject.clone();
        self.out.tell(Event::Faulted(Fault::Parse(error)));
        self.on_bad_frame(subject, &answer, reason, batch);
        if self.transport.counts_garbage(now) {
            self.close_because(CloseReason::Garbage);
        }
    }

    pub(super) fn on_long_line(&mut self, subject: Subject, now: Instant) {
        let limit = self.config.limits.message;
        self.out.tell(Event::Faulted(Fault::LineTooLong { limit }));
        self.on_bad_frame(subject, &too_long(limit), Failed::TooLarge { limit }, None);
        if self.transport.counts_garbage(now) {
            self.close_because(CloseReason::Garbage);
        }
    }

    fn on_bad_frame(&mut self, subject: Subject, answer: &ErrorObject, reason: Failed, batch: Option<BatchKey>) {
        match subject {
            Subject::Request(id) => self.refuse(Some(id), answer, batch),
            Subject::Response(id) => {
                if let Match::Open(request) = self.pending.find(&id) {
                    self.finish(request, Outcome::Failed(reason));
                }
            }
            Subject::Either(id) => match self.pending.find(&id) {
                Match::Open(request) => self.finish(request, Outcome::Failed(reason)),
                Match::Late | Match::Unknown => self.refuse(Some(id), answer, batch),
            },
            Subject::Unknown => self.refuse(None, answer, batch),
        }
    }
}
