//! A modern client, and a server that begins with `initialize`: the relay is the client's server (RULES 13.2).
//!
//! A legacy server sends requests to the client in the middle of a call. A modern client receives no requests; its call
//! gets the result `input_required` and is retried with the input. Until the retry, the call is parked: still open at
//! the server, but already answered for the client.
//!
//! ```text
//!  client              relay              server
//!    ── tools/call ─────▶│── tools/call ─────▶
//!    ◀─ input_required ──│◀── elicitation ────     parked
//!    ── tools/call ─────▶│─── its result ────▶     at the server still the same call
//!    ◀─ result ──────────│◀── result ─────────
//! ```

use std::time::Duration;

use mcp_proto::client::{self, ClientTransport, Outcome};
use mcp_proto::server::{self, ServerTransport, SubscriptionChange};
use mcp_proto::{ErrorObject, Instant, Json, Load, Method, Notification, RequestKey, Ticket, TicketKey, code, spec};

use super::convert;
use super::in_flight::{InFlight, ToServer};
use super::owner::Owner;
use super::parked_calls::{Continuation, Parked, ParkedCalls};
use super::session_settings::SessionSettings;
use super::sides::Sides;

/// The maximum number of `roots/list` requests that wait for a call; a server has no reason to repeat one before it is
/// answered.
const ROOTS_QUESTIONS: usize = 8;

/// What the relay stores for the client.
#[derive(Debug)]
pub(super) struct ModernClient {
    settings: SessionSettings,
    parked: ParkedCalls,
    /// The server's `roots/list` requests that belong to no call: the client receives them in the result of its next
    /// call.
    roots_questions: Vec<Ticket>,
}

impl ModernClient {
    /// `capabilities` are the server's; a parked call waits for its retry as long as `timeout`.
    pub(super) fn new(capabilities: &Json, timeout: Duration) -> Self {
        let (settings, parked) = (SessionSettings::new(capabilities), ParkedCalls::new(timeout));
        Self { settings, parked, roots_questions: Vec::new() }
    }

    pub(super) const fn set_secret(&mut self, secret: u128) {
        self.parked.set_secret(secret);
    }

    pub(super) fn load(&self) -> Load {
        let mut load = Load::default();
        (load.held, load.timers) = (self.parked.held(), self.parked.timers());
        load
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.parked.poll_timeout()
    }

    pub(super) fn handle_timeout<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        now: Instant,
    ) {
        self.parked.handle_timeout(sides, now);
    }

    pub(super) fn on_request<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        let params = params.unwrap_or(Json::empty_object());
        if method.facts().takes_input {
            if let Some(state) = params.first_member("requestState") {
                return self.on_call_again(sides, ticket, &method, &params, &state, now);
            }
        }
        self.settings.choose_level(sides, &ticket, now);
        let converted = Some(convert::request_to_legacy(&params));
        if self.carries_roots_questions(sides, &ticket, &method) && sides.holds(params.len(), || self.parked.held()) {
            return self.ask_for_roots(sides, ticket, method, &params, converted, now);
        }
        let mut forwarded = ToServer { name: name_of(&method, &params), ..ToServer::new(ticket, method) };
        if forwarded.method.facts().takes_input {
            forwarded.params.clone_from(&converted);
        }
        sides.send_to_server(forwarded, converted, || self.parked.held(), now);
    }

    /// Handles a request of the server: attributes it to a call, whose client must provide the answer (BR-M-03).
    pub(super) fn on_question<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        scope: client::Scope,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        let is_for_roots = method == Method::ROOTS_LIST;
        let call = match scope {
            client::Scope::Request(request) => Some(request),
            client::Scope::Connection | client::Scope::Subscription(_) if is_for_roots => {
                calls(sides.in_flight, &self.parked).next()
            }
            client::Scope::Connection | client::Scope::Subscription(_) if sides.has_possibly_open(now) => None,
            client::Scope::Connection | client::Scope::Subscription(_) => {
                let mut calls = calls(sides.in_flight, &self.parked);
                calls.next().filter(|_| calls.next().is_none())
            }
        };
        // `roots/list` belongs to no particular call, and many servers send it right after the handshake (BR-M-05). A server
        // that works for everyone would use the roots of one client for all, and was told that there are none.
        if is_for_roots && *sides.owner == Owner::Everyone {
            return refuse_question(sides, ticket, "the clients of a shared server have no roots", now);
        }
        if call.is_none() && is_for_roots && self.roots_questions.len() < ROOTS_QUESTIONS {
            return self.roots_questions.push(ticket);
        }
        let Some(request) = call else {
            // A request that cannot be attributed to a call is refused (BR-M-05).
            return refuse_question(
                sides,
                ticket,
                "the client can be asked only about a call, and it is not known which",
                now,
            );
        };
        // A request is held until its client retries the call, and a server may send any number of them (M1).
        if !sides.holds(params.as_ref().map_or(0, Json::len), || self.parked.held()) {
            return sides.client.answer(ticket, Err(ErrorObject::overloaded()), now);
        }
        if let Some(parked) = self.parked.with_request(request) {
            // The client receives it in the next result.
            return parked.ask(method, params, Some(ticket));
        }
        let limit = sides.limits.requests_in;
        let Some(forwarded) =
            sides.in_flight.get_to_server(request).filter(|forwarded| forwarded.method.facts().takes_input)
        else {
            // Only calls that take input can be parked (BR-M-06).
            return refuse_question(sides, ticket, "the client cannot be asked about a request of this method", now);
        };
        if self.parked.len() >= limit {
            return refuse_question(sides, ticket, "too many calls wait for their clients", now);
        }
        let context = sides.server.context(&forwarded.ticket);
        let asked = params.clone().unwrap_or(Json::empty_object());
        if context.is_none_or(|context| !context.accepts(&method, &asked)) {
            return refuse_question(sides, ticket, "the client has not declared that it can be asked for this", now);
        }
        let Some(forwarded) = sides.in_flight.remove_to_server(request) else { return };
        let principal = sides.principal(&forwarded.ticket);
        let continuation = Continuation::Open(request);
        let mut parked = Parked::new(principal, forwarded.method, forwarded.name, continuation, forwarded.bytes);
        parked.ask(method, params, Some(ticket));
        let key = self.parked.park(parked);
        self.parked.require(sides, forwarded.ticket, key, now);
    }

    /// Forwards a notification of a server that does not attribute it to a client's subscription or request.
    pub(super) fn on_notification<S: ServerTransport, T: ClientTransport>(
        &self,
        sides: &mut Sides<'_, S, T>,
        scope: client::Scope,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        if method.facts().change.is_some_and(|change| change != spec::Change::Task) {
            // The clients of a gateway, which have no session, are not promised changes.
            if sides.session.is_some() {
                sides.publish(Notification { method, params }, now);
            }
            return;
        }
        let about = match scope {
            client::Scope::Request(request) => sides.in_flight.get_to_server(request),
            // A parked call, which may be the cause, has no exchange now.
            client::Scope::Connection | client::Scope::Subscription(_)
                if sides.connection.is_shared() && self.parked.requests().next().is_some() =>
            {
                None
            }
            client::Scope::Connection | client::Scope::Subscription(_) => sides.sole_cause_of_log(true, now),
        };
        // `notifications/elicitation/complete` does not exist in the modern era (BR-M-10).
        if let Some(scope) =
            about.map(|forwarded| server::Scope::from(&forwarded.ticket)).filter(|_| method == Method::MESSAGE)
        {
            sides.notify_client(scope, method, params, now);
        }
    }

    /// Drops the waiting `roots/list` requests of a lost session.
    pub(super) fn forget_roots_questions(&mut self) {
        self.roots_questions.clear();
    }

    /// Whether a request is a call whose client must first provide the answers to the waiting `roots/list` requests.
    fn carries_roots_questions<S: ServerTransport, T: ClientTransport>(
        &self,
        sides: &Sides<'_, S, T>,
        ticket: &Ticket,
        method: &Method,
    ) -> bool {
        let accepts = |method| {
            sides.server.context(ticket).is_some_and(|context| context.accepts(&method, &Json::empty_object()))
        };
        !self.roots_questions.is_empty()
            && self.parked.len() < sides.limits.requests_in
            && method.facts().takes_input
            && accepts(Method::ROOTS_LIST)
    }

    /// Parks a call that was not sent to the server, until the client provides its roots.
    fn ask_for_roots<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        ticket: Ticket,
        method: Method,
        params: &Json,
        converted: Option<Json>,
        now: Instant,
    ) {
        let name = name_of(&method, params);
        let bytes = converted.as_ref().map_or(0, Json::len);
        let continuation = Continuation::Again(converted);
        let mut parked = Parked::new(sides.principal(&ticket), method, name, continuation, bytes);
        for question in std::mem::take(&mut self.roots_questions) {
            parked.ask(Method::ROOTS_LIST, None, Some(question));
        }
        let key = self.parked.park(parked);
        self.parked.require(sides, ticket, key, now);
    }

    /// The client retries a call, with the required input.
    fn on_call_again<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        ticket: Ticket,
        method: &Method,
        params: &Json,
        state: &Json,
        now: Instant,
    ) {
        let name = name_of(method, params);
        let principal = sides.principal(&ticket);
        let Some((key, parked)) = self.parked.find(state, principal.as_ref(), method, name.as_ref()) else {
            let error = ErrorObject::invalid_params("requestState is unknown, of another request, or too old");
            return sides.respond(ticket, Err(error), now);
        };
        let answers = params.first_member("inputResponses").unwrap_or(Json::empty_object());
        for (name, answer) in answers.entries() {
            let question = name.and_then(|name| parked.questions.remove(&*name));
            if let Some(ticket) = question.and_then(|question| question.ticket) {
                sides.client.answer(ticket, Ok(answer), now);
            }
        }
        // Some input is missing, or the server has sent more requests since.
        if !parked.questions.is_empty() && !matches!(parked.continuation, Continuation::Answered(_)) {
            return self.parked.require(sides, ticket, key, now);
        }
        let Some(Parked { continuation, bytes, method, name, .. }) = self.parked.unpark(key) else { return };
        match continuation {
            Continuation::Open(request) => {
                let token = params.first_member("_meta").and_then(|meta| meta.first_member("progressToken"));
                let token = token.map(|token| token.detached_from(params.len()));
                let params = convert::request_to_legacy(params);
                let bytes = bytes.max(params.len());
                let forwarded = ToServer { bytes, params: Some(params), name, token, ..ToServer::new(ticket, method) };
                sides.in_flight.insert_to_server(request, forwarded);
            }
            Continuation::Answered(answer) => sides.respond(ticket, answer, now),
            Continuation::Again(params) => {
                let forwarded = ToServer { params: params.clone(), name, ..ToServer::new(ticket, method) };
                sides.send_to_server(forwarded, params, || self.parked.held(), now);
            }
        }
    }

    /// The server has cancelled one of its requests.
    pub(super) fn on_question_cancelled(&mut self, ticket: TicketKey) {
        self.roots_questions.retain(|question| question.key() != ticket);
        self.parked.on_question_cancelled(ticket);
    }

    /// Handles the outcome of a request that no client waits for: that of a parked call is kept, any other is dropped.
    pub(super) fn on_unforwarded_outcome<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        request: RequestKey,
        outcome: Outcome,
        now: Instant,
    ) {
        let Some(outcome) = self.settings.on_outcome(sides, request, outcome, now) else { return };
        let Some((key, method)) = self.parked.take_request(request) else { return };
        let answer = answer_of(sides, &method, outcome);
        let bytes = answer.as_ref().map_or(0, Json::len);
        let answer = if sides.holds(bytes, || self.parked.held()) { answer } else { Err(ErrorObject::overloaded()) };
        self.parked.set_answer(key, answer);
    }

    /// Subscribes to a resource at the server once for all clients' subscriptions to it (BR-M-09).
    pub(super) fn on_subscription_change<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        change: SubscriptionChange,
        now: Instant,
    ) {
        self.settings.on_subscription_change(sides, change, now);
    }

    /// Acknowledges the subscriptions of the client that are in effect at the server.
    pub(super) fn acknowledge_listens<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        now: Instant,
    ) {
        self.settings.acknowledge_listens(sides, now);
    }

    /// The session to the server was opened again.
    pub(super) fn on_reconnected<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        now: Instant,
    ) {
        self.settings.restore(sides, now);
    }

    pub(super) fn on_outcome<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        forwarded: ToServer,
        outcome: Outcome,
        now: Instant,
    ) {
        let ToServer { ticket, method, name, params, bytes, .. } = forwarded;
        if let (Outcome::Error(error), true) = (&outcome, method.facts().takes_input) {
            let limit = sides.limits.requests_in;
            let urls = if self.parked.len() < limit { convert::required_urls(error, limit) } else { None };
            if let Some(urls) = urls {
                // The parked call holds the parameters and the URLs (M1).
                if !sides.holds(bytes + urls.iter().map(Json::len).sum::<usize>(), || self.parked.held()) {
                    return sides.respond(ticket, Err(ErrorObject::overloaded()), now);
                }
                // The call is sent again after the client has visited the URLs (BR-M-10).
                let continuation = Continuation::Again(params);
                let mut parked = Parked::new(sides.principal(&ticket), method, name, continuation, bytes);
                for url in urls {
                    parked.ask(Method::ELICITATION_CREATE, Some(url), None);
                }
                let key = self.parked.park(parked);
                return self.parked.require(sides, ticket, key, now);
            }
        }
        let answer = answer_of(sides, &method, outcome);
        sides.respond(ticket, answer, now);
    }
}

pub(super) fn on_progress<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    request: RequestKey,
    params: Json,
    now: Instant,
) {
    let Some(forwarded) = sides.in_flight.get_to_server(request) else { return };
    let params = forwarded.with_own_token(params);
    sides.notify_client(server::Scope::from(&forwarded.ticket), Method::PROGRESS, Some(params), now);
}

fn answer_of<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    method: &Method,
    outcome: Outcome,
) -> Result<Json, ErrorObject> {
    match outcome {
        Outcome::Result(result) => Ok(convert::result_to_modern(method, &result)),
        Outcome::Error(error) => Err(convert::error_to_modern(&error)),
        Outcome::Failed(reason) => Err(sides.report_failure(reason)),
    }
}

fn refuse_question<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    ticket: Ticket,
    text: &str,
    now: Instant,
) {
    sides.client.answer(ticket, Err(ErrorObject::new(code::METHOD_NOT_FOUND, text)), now);
}

/// The name of the target of a request, if its method has one. It is held longer than the parameters.
fn name_of(method: &Method, params: &Json) -> Option<Json> {
    Some(params.first_member(method.facts().named_by?)?.detached_from(params.len()))
}

/// The calls that may have caused a request of the server: those that are open at the server, also if they are parked.
fn calls(in_flight: &InFlight, parked: &ParkedCalls) -> impl Iterator<Item = RequestKey> {
    let open = in_flight.all_to_server().filter(|(_, forwarded)| forwarded.method.facts().takes_input);
    open.map(|(request, _)| request).chain(parked.requests())
}
