//! What all clients of a server share: the limits of what they make it store, and the transport.

use super::config::{Config, Handling};
use super::ended_request::{OpenRequests, RequestOutcome};
use super::event::Event;
use super::principal::Principal;
use super::served_requests::ServedRequests;
use super::subscribed::SubscribedResources;
use super::transport::{Kind, Route, ServerTransport, ToWrite, TransportNotice, TransportOutput};
use crate::conversation::keys::{SessionKey, Ticket, TicketKey};
use crate::conversation::outgoing;
use crate::error::{Fault, UsageError};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, Notification, RequestId, Response};
use crate::limits::Limits;
use crate::spec::{Method, ProtocolVersion, code};

/// What all clients make a server store.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// The number of unanswered requests.
    pub(super) requests: usize,
    /// The number of answers that wait for others of their batches.
    pub(super) batched: usize,
    /// The number of open `subscriptions/listen`.
    pub(super) subscriptions: usize,
    /// The bytes of unanswered requests, of their inputs, and of answers that wait for others of their batches.
    pub(super) held: usize,
    /// The number of the next request.
    next_ticket: u64,
    /// The requests of which the end is reported.
    pub(super) reported: OpenRequests,
    /// How many notifications were dropped since the last report, because the client does not read.
    pub(super) not_written: u64,
}

/// What all sessions and stateless requests share, borrowed while an input is handled.
pub(super) struct Shared<'s, T: ServerTransport> {
    pub(super) handling: &'s Handling,
    /// The handling of everything that has no setting of its own.
    pub(super) default_handling: &'s Handling,
    /// The handling of stateless requests that differs from the default.
    pub(super) served_requests: &'s ServedRequests,
    pub(super) transport: &'s mut T,
    pub(super) usage: &'s mut Usage,
    /// Resources that clients have subscribed to.
    pub(super) resources: &'s mut SubscribedResources,
    /// No more requests are served.
    pub(super) is_draining: bool,
    pub(super) output: TransportOutput<'s, T>,
}

impl<'s, T: ServerTransport> Shared<'s, T> {
    pub(super) const fn config(&self) -> &'s Config {
        self.handling.config()
    }

    /// The configuration of a server that answers the requests of the protocol by itself; `None` if it passes through.
    pub(super) const fn serving(&self) -> Option<&'s Config> {
        self.handling.serving()
    }

    /// Selects the handling of stateless requests of this principal.
    pub(super) fn handle_request_of(&mut self, principal: Option<&Principal>) {
        self.handling = self.served_requests.handling(principal).unwrap_or(self.default_handling);
    }

    pub(super) fn report(&mut self, event: Event) {
        self.output.out.report(event);
    }

    /// Reports a request to the application.
    pub(super) fn request(
        &mut self,
        ticket: Ticket,
        principal: Option<&Principal>,
        method: Method,
        params: Option<Json>,
    ) {
        if self.default_handling.config().reports_ended_requests {
            let (principal, now) = (principal.cloned(), self.output.now);
            self.usage.reported.begin(ticket.key(), principal, &method, params.as_ref(), now);
        }
        self.report(Event::Requested { ticket, method, params });
    }

    /// A request of the client is answered.
    pub(super) fn answered(&mut self, ticket: TicketKey, answer: &Result<Json, ErrorObject>) {
        if let Some(ended) = self.usage.reported.answered(ticket, answer, self.output.now) {
            self.report(Event::RequestEnded(Box::new(ended)));
        }
    }

    /// Reports that a request of the client is cancelled: by a notification with these parameters, or by the end of its
    /// exchange or session.
    pub(super) fn cancelled(&mut self, ticket: TicketKey, params: Option<&Json>) {
        let outcome = if params.is_some() { RequestOutcome::Cancelled } else { RequestOutcome::Disconnected };
        self.report(Event::Cancelled { ticket, params: params.cloned() });
        if let Some(ended) = self.usage.reported.end_unanswered(ticket, outcome, self.output.now) {
            self.report(Event::RequestEnded(Box::new(ended)));
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.report(Event::Faulted(fault));
    }

    /// Checks whether one more request with this many bytes may be open (RP10). `of_client` is the number of those of
    /// the same client, if the limit of one client applies.
    ///
    /// # Errors
    ///
    /// The answer to the request.
    pub(super) fn check_room(&mut self, of_client: Option<usize>, bytes: usize) -> Result<(), ErrorObject> {
        let limits = &self.config().limits;
        // An answer that waits for others of its batch is not sent yet, so that it counts as a request.
        let of_all = self.usage.requests + self.usage.batched;
        let limit = if of_client.is_some_and(|of_client| of_client >= limits.requests_in) {
            limits.requests_in
        } else if of_all >= limits.requests_in_total {
            limits.requests_in_total
        } else if self.has_room_for(bytes, 0) {
            return Ok(());
        } else {
            return Err(ErrorObject::overloaded());
        };
        self.fault(Fault::TooManyRequests { limit });
        Err(ErrorObject::overloaded())
    }

    /// Whether this many more bytes may be stored for a request that holds `held` bytes (M3). Small requests may always
    /// be stored, because their number is bounded.
    pub(super) fn has_room_for(&self, bytes: usize, held: usize) -> bool {
        held.saturating_add(bytes) <= Limits::SMALL
            || self.config().limits.holds_beside(bytes, self.usage.held + self.transport.held())
    }

    /// Counts an open request with this many bytes, and returns its key.
    pub(super) fn begin_request(&mut self, session: Option<SessionKey>, bytes: usize) -> TicketKey {
        self.usage.requests += 1;
        self.usage.held += bytes;
        let key = TicketKey::new(session, self.usage.next_ticket);
        self.usage.next_ticket += 1;
        key
    }

    /// Subtracts a request with this many bytes from the counts, because it has ended.
    pub(super) const fn end_request(&mut self, bytes: usize) {
        self.usage.requests = self.usage.requests.saturating_sub(1);
        self.usage.held -= bytes;
    }

    /// Refuses a request with the method of a notification, because ids in it were not mapped to those of this connection
    /// (JR-11).
    pub(super) fn check_method(&mut self, method: &Method) -> Result<(), ErrorObject> {
        if !method.is_notification() {
            return Ok(());
        }
        self.fault(Fault::UnexpectedRequest { method: method.clone() });
        Err(ErrorObject::method_not_found(method))
    }

    /// Refuses parameters with duplicate keys if that is configured, because readers differ in which one they use
    /// (JS6).
    pub(super) fn check_members(&mut self, params: Option<&Json>) -> Result<(), ErrorObject> {
        if self.config().strict_json && params.is_some_and(|params| params.check_unique_keys().is_err()) {
            self.fault(Fault::DuplicateKey);
            return Err(ErrorObject::new(code::INVALID_PARAMS, "invalid params: two members of one name"));
        }
        Ok(())
    }

    /// The answer of the application. If a server that serves must not send its error code (RP15), this is an internal
    /// error instead, and the code is returned, too.
    pub(super) fn check_code(
        &self,
        answer: Result<Json, ErrorObject>,
        version: ProtocolVersion,
    ) -> (Result<Json, ErrorObject>, Option<i64>) {
        let rules = version.rules();
        let code = answer.as_ref().err().map(ErrorObject::code);
        match code.filter(|code| self.serving().is_some() && !rules.allows_error_code(*code)) {
            Some(code) => (Err(ErrorObject::internal()), Some(code)),
            None => (answer, None),
        }
    }

    /// Whether the application may send this notification. A server that passes through forwards what it has received.
    pub(super) fn check_notification(&self, notification: &Notification) -> Result<(), UsageError> {
        let is_serving = self.serving().is_some();
        if notification.method == Method::CANCELLED || (is_serving && notification.method.facts().is_reserved) {
            return Err(UsageError::ReservedMethod { method: notification.method.clone() });
        }
        if is_serving { outgoing::check_params(notification.params.as_ref()) } else { Ok(()) }
    }

    /// Remembers the tools of a result of `tools/list`, whose arguments HTTP headers repeat since 2026-07-28.
    pub(super) fn observe_result(&mut self, method: &Method, result: &Json) {
        if *method == Method::TOOLS_LIST && self.config().serves_stateless() {
            self.notice(TransportNotice::ListedTools(result));
        }
    }

    pub(super) fn write(&mut self, message: &Message, route: Route) {
        self.transport.write(ToWrite::Message(message), route, &mut self.output);
    }

    /// Notifies the transport of what has become of a session, or of the server.
    pub(super) fn notice(&mut self, notice: TransportNotice<'_>) {
        self.transport.on_notice(notice, &mut self.output);
    }

    /// Ends an exchange without an answer.
    fn write_nothing(&mut self, route: Route) {
        self.transport.write(ToWrite::Nothing, route, &mut self.output);
    }

    /// Sends the answer to a request of the client, or an error if it finds no room; `None` if it was cancelled.
    pub(super) fn write_answer(&mut self, answer: Option<Message>, route: Route) {
        let Some(answer) = answer else { return self.write_nothing(route) };
        let is_taken = self.transport.takes_answer(answer.payload_len(), &mut self.output);
        self.write(&if is_taken { answer } else { answer.overloaded() }, route);
    }

    /// Sends all answers to a batch.
    pub(super) fn write_batch(&mut self, answers: Vec<Message>, route: Route) {
        // A batch without requests has no answer (JR-35).
        if answers.is_empty() {
            return self.write_nothing(route);
        }
        let bytes = answers.iter().map(Message::payload_len).sum();
        let is_taken = self.transport.takes_answer(bytes, &mut self.output);
        let answers = if is_taken { answers } else { answers.into_iter().map(Message::overloaded).collect() };
        self.transport.write(ToWrite::Batch(&answers), route, &mut self.output);
    }

    /// Writes a notification, or drops it if the client does not read and too much is unwritten (K1).
    pub(super) fn write_notification(&mut self, notification: Notification, route: Route) {
        let message = Message::Notification(notification);
        if self.transport.takes(message.payload_len(), &mut self.output) {
            self.write(&message, route);
        } else {
            self.usage.not_written += 1;
        }
    }

    pub(super) fn refuse(&mut self, id: Option<RequestId>, error: ErrorObject, route: Route) {
        self.write(&Message::Response(Response::Error { id, error }), Route { kind: Kind::Refusal, ..route });
    }
}
