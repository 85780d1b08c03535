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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::in_flight::{InFlight, ToServer};
use super::{Event, Path, Relay, convert};
use crate::Instant;
use crate::client::{self, Call, ClientTransport, NotRestored, Outcome};
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Notification};
use crate::conversation::pending::{RequestKey, Ticket, TicketKey};
use crate::error::{Failed, UsageError};
use crate::server::{InputRequired, LoggingLevel, SubscriptionChange, capability_for};
use crate::spec::{self, Method, code};

/// The maximum bytes of resource names in the relay's own requests that are not answered.
const OWN_BYTES: usize = 1024 * 1024;
/// The maximum number of `roots/list` requests that wait for a call; a server has no reason to repeat one before it is
/// answered.
const ROOTS_QUESTIONS: usize = 8;

/// What the relay stores for the client.
#[derive(Debug)]
pub(super) struct ModernClient {
    /// Whether the server has log levels.
    has_levels: bool,
    /// The level that was set last.
    level: Option<LoggingLevel>,
    /// The resources that the relay has subscribed to at the server.
    watched: BTreeSet<Arc<str>>,
    /// The relay's own requests that are not answered yet.
    own: BTreeMap<RequestKey, Own>,
    /// The bytes of the resource names in them.
    own_bytes: usize,
    /// Those that ended without an answer: they are sent again in the next session.
    unanswered: BTreeSet<Own>,
    parked: BTreeMap<ParkKey, Parked>,
    /// The parked calls by their open request at the server.
    parked_by_request: BTreeMap<RequestKey, ParkKey>,
    next: ParkKey,
    /// The server's `roots/list` requests that belong to no call: the client receives them in the result of its next
    /// call.
    roots_questions: Vec<Ticket>,
}

/// Identifies a parked call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParkKey(u64);

/// A call that waits for its client's retry (BR-M-03).
#[derive(Debug)]
struct Parked {
    method: Method,
    /// The name of the target: the client's retry must have the same.
    name: Option<Json>,
    rest: Rest,
    /// The bytes of the parameters of its request.
    bytes: usize,
    /// The input that the client must provide, by the keys of `inputRequests`.
    questions: BTreeMap<Box<str>, Question>,
    asked: u64,
}

/// A request of the relay's own.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Own {
    SetLevel(LoggingLevel),
    Subscribe(Arc<str>),
    Unsubscribe(Arc<str>),
}

impl Own {
    const fn method(&self) -> Method {
        match self {
            Self::SetLevel(_) => Method::LOGGING_SET_LEVEL,
            Self::Subscribe(_) => Method::RESOURCES_SUBSCRIBE,
            Self::Unsubscribe(_) => Method::RESOURCES_UNSUBSCRIBE,
        }
    }

    /// The bytes of the resource name in it.
    fn len(&self) -> usize {
        match self {
            Self::SetLevel(_) => 0,
            Self::Subscribe(uri) | Self::Unsubscribe(uri) => uri.len(),
        }
    }

    fn params(&self) -> Json {
        match self {
            Self::SetLevel(level) => Json::empty_object().with_member("level", &Json::from(level.as_str())),
            Self::Subscribe(uri) | Self::Unsubscribe(uri) => {
                Json::empty_object().with_member("uri", &Json::from(&**uri))
            }
        }
    }
}

/// How a parked call continues.
#[derive(Debug)]
enum Rest {
    /// The request is open at the server, which waits for input.
    Open(RequestKey),
    /// The server has answered without waiting for the input.
    Answered(Result<Json, ErrorObject>),
    /// The request must be sent to the server again, with these parameters.
    Again(Option<Json>),
}

/// One input request of a parked call.
#[derive(Debug)]
struct Question {
    /// The server's request; `None` if no request of the server waits for this input.
    ticket: Option<Ticket>,
    method: Method,
    params: Json,
}

impl ModernClient {
    /// `capabilities` are the server's.
    pub(super) fn new(capabilities: &Json) -> Self {
        Self {
            has_levels: capabilities.first_member("logging").is_some(),
            level: None,
            watched: BTreeSet::new(),
            own: BTreeMap::new(),
            own_bytes: 0,
            unanswered: BTreeSet::new(),
            parked: BTreeMap::new(),
            parked_by_request: BTreeMap::new(),
            next: ParkKey(1),
            roots_questions: Vec::new(),
        }
    }

    /// Whether a request of the relay's own is still needed.
    fn wants(&self, own: &Own) -> bool {
        match own {
            Own::SetLevel(level) => self.level == Some(*level),
            Own::Subscribe(uri) => self.watched.contains(uri),
            Own::Unsubscribe(uri) => !self.watched.contains(uri),
        }
    }

    /// Stores a failed request of the relay's own for the next session if it is still needed.
    ///
    /// # Errors
    ///
    /// Returns the request if there is no room for it.
    fn ask_again(&mut self, own: Own, most: usize) -> Result<(), Own> {
        const ENTRY: usize = 256;
        let noted = std::mem::take(&mut self.unanswered);
        self.unanswered = noted.into_iter().filter(|noted| self.wants(noted)).collect();
        if !self.wants(&own) {
            return Ok(());
        }
        let bytes: usize = self.unanswered.iter().chain([&own]).map(|own| own.len() + ENTRY).sum();
        if bytes > most {
            return Err(own);
        }
        self.unanswered.insert(own);
        Ok(())
    }

    /// The bytes that are held for parked calls.
    pub(super) fn held(&self) -> usize {
        self.parked.values().map(Parked::held).sum()
    }

    fn park(&mut self, parked: Parked) -> ParkKey {
        let key = self.next;
        self.next = ParkKey(key.0 + 1);
        if let Rest::Open(request) = parked.rest {
            self.parked_by_request.insert(request, key);
        }
        self.parked.insert(key, parked);
        key
    }

    fn unpark(&mut self, key: ParkKey) -> Option<Parked> {
        let parked = self.parked.remove(&key)?;
        if let Rest::Open(request) = parked.rest {
            self.parked_by_request.remove(&request);
        }
        Some(parked)
    }
}

impl ParkKey {
    /// The `requestState` that identifies it. A relay has only one client, on a private pipe, so no other party can
    /// send it.
    fn to_state(self) -> String {
        format!("relay-{}", self.0)
    }

    fn from_state(state: &str) -> Option<Self> {
        let key = state.strip_prefix("relay-")?.parse().ok().map(Self)?;
        // Only the canonical spelling is valid.
        (key.to_state() == state).then_some(key)
    }
}

impl Parked {
    fn ask(&mut self, method: Method, params: Option<Json>, ticket: Option<Ticket>) {
        self.asked += 1;
        let params = convert::question_to_modern(&params.unwrap_or(Json::empty_object()));
        self.questions.insert(self.asked.to_string().into(), Question { ticket, method, params });
    }

    fn held(&self) -> usize {
        let rest = match &self.rest {
            Rest::Answered(Ok(result)) => result.len(),
            Rest::Answered(Err(error)) => error.as_json().len(),
            Rest::Open(_) | Rest::Again(_) => self.bytes,
        };
        self.questions.values().map(|question| question.params.len()).sum::<usize>() + rest
    }

    fn required(&self, key: ParkKey) -> InputRequired {
        let required = InputRequired::new().state(&key.to_state());
        let questions = self.questions.iter();
        questions.fold(required, |required, (key, question)| {
            required.ask(key, question.method.clone(), question.params.clone())
        })
    }
}

/// The name of the target of a request, if its method has one. It is held longer than the parameters.
fn name_of(method: &Method, params: &Json) -> Option<Json> {
    Some(params.first_member(method.facts().named_by?)?.detached_from(params.len()))
}

impl<T: ClientTransport> Relay<T> {
    pub(super) fn on_modern_request(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let params = params.unwrap_or(Json::empty_object());
        if method.facts().takes_input {
            if let Some(state) = params.first_member("requestState") {
                return self.on_call_again(ticket, &method, &params, &state, now);
            }
        }
        self.choose_level(&ticket, now);
        let converted = Some(convert::request_to_legacy(&params));
        if self.carries_roots_questions(&ticket, &method) && self.holds(params.len()) {
            return self.ask_for_roots(ticket, method, &params, converted, now);
        }
        let mut forwarded = ToServer { name: name_of(&method, &params), ..ToServer::new(ticket, method) };
        if forwarded.method.facts().takes_input {
            forwarded.params.clone_from(&converted);
        }
        self.send_up(forwarded, converted, now);
    }

    /// Sets the lowest level that any request has wanted, because a legacy session has only one (BR-M-08).
    fn choose_level(&mut self, ticket: &Ticket, now: Instant) {
        let wanted = self.server.stated(ticket).and_then(|context| context.logging_level);
        let Path::ModernClient(state) = &mut self.path else { return };
        let Some(wanted) = wanted.filter(|wanted| state.has_levels && state.level.is_none_or(|level| *wanted < level))
        else {
            return;
        };
        state.level = Some(wanted);
        self.request_of_own(Own::SetLevel(wanted), now);
    }

    /// Sends a request of the relay's own, which no client waits for.
    fn request_of_own(&mut self, own: Own, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        let method = own.method();
        let has_room = state.own_bytes + own.len() <= OWN_BYTES;
        let requested = if has_room {
            self.client.request(Call::new(method.clone()).params(own.params()), now)
        } else {
            Err(UsageError::TooManyRequests { limit: state.own.len() })
        };
        match requested {
            Ok(request) => {
                state.own_bytes += own.len();
                state.own.insert(request, own);
            }
            Err(error) => {
                self.give_up_own(&own, now);
                self.out.report(Event::NotPassed { method, error });
            }
        }
    }

    /// Withdraws a request of the relay's own that was not sent or failed, so that it is not acknowledged as in effect.
    fn give_up_own(&mut self, own: &Own, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        if let Own::Subscribe(uri) = own {
            state.watched.remove(uri);
            self.server.leave_out(uri, now);
        }
    }

    /// Acknowledges only what is in effect, so that no change after the acknowledgement is missed (MD-L-02, BR-M-09).
    pub(super) fn acknowledge_listens(&mut self, now: Instant) {
        let Path::ModernClient(state) = &self.path else { return };
        let subscriptions = state.own.values().chain(&state.unanswered);
        let pending: BTreeSet<&str> = subscriptions
            .filter_map(|own| match own {
                Own::Subscribe(uri) => Some(&**uri),
                Own::SetLevel(_) | Own::Unsubscribe(_) => None,
            })
            .collect();
        self.server.acknowledge_listens(|uri| pending.contains(uri), now);
    }

    fn on_own_outcome(&mut self, own: Own, outcome: Outcome, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        let method = own.method();
        let (own, reason) = match outcome {
            Outcome::Result(_) | Outcome::Failed(Failed::Closed) => return,
            Outcome::Failed(Failed::SessionLost) => match state.ask_again(own, self.limits.session_settings) {
                Ok(()) => return,
                Err(own) => (own, NotRestored::Failed(Failed::SessionLost)),
            },
            Outcome::Error(error) => (own, NotRestored::Error(error)),
            Outcome::Failed(reason) => (own, NotRestored::Failed(reason)),
        };
        let may_later = matches!(reason, NotRestored::Failed(_)) && !matches!(own, Own::Subscribe(_));
        self.give_up_own(&own, now);
        if let (Path::ModernClient(state), true) = (&mut self.path, may_later) {
            // If there is no room for it, it is just not in effect, which is reported below anyway.
            let _ = state.ask_again(own, self.limits.session_settings);
        }
        self.out.report(Event::NotInEffect { method, reason });
    }

    /// Subscribes to a resource at the server once for all clients' subscriptions to it (BR-M-09).
    pub(super) fn on_subscription_change(&mut self, change: SubscriptionChange, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        let own = match change {
            SubscriptionChange::Subscribed(uri) => {
                state.watched.insert(Arc::clone(&uri));
                Own::Subscribe(uri)
            }
            SubscriptionChange::Unsubscribed(uri) => {
                if !state.watched.remove(&uri) {
                    // The server has refused the subscription.
                    return;
                }
                Own::Unsubscribe(uri)
            }
        };
        self.request_of_own(own, now);
    }

    /// Sends the relay's own requests again after the session was reopened: those that the old session did not answer
    /// and that are still needed. The client machine restores what was in effect.
    pub(super) fn restore_own(&mut self, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        for own in std::mem::take(&mut state.unanswered) {
            let Path::ModernClient(state) = &self.path else { return };
            if state.wants(&own) {
                self.request_of_own(own, now);
            }
        }
    }

    /// Handles a request of the server: attributes it to a call, whose client must provide the answer (BR-M-03).
    pub(super) fn on_question(
        &mut self,
        scope: client::Scope,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        let Path::ModernClient(state) = &mut self.path else { return };
        let is_for_roots = method == Method::ROOTS_LIST;
        let call = match scope {
            client::Scope::Request(request) => Some(request),
            client::Scope::Connection | client::Scope::Subscription(_) => {
                sole_call(&self.in_flight, state, is_for_roots)
            }
        };
        // `roots/list` belongs to no particular call, and many servers send it right after the handshake (BR-M-05).
        if call.is_none() && is_for_roots && state.roots_questions.len() < ROOTS_QUESTIONS {
            return state.roots_questions.push(ticket);
        }
        let Some(request) = call else {
            // A request that cannot be attributed to a call is refused (BR-M-05).
            return self.refuse_question(
                ticket,
                "the client can be asked only about a call, and it is not known which",
                now,
            );
        };
        // A request is held until its client retries the call, and a server may send any number of them (M1).
        if !self.holds(params.as_ref().map_or(0, Json::len)) {
            return self.client.answer(ticket, Err(ErrorObject::overloaded()), now);
        }
        let Path::ModernClient(state) = &mut self.path else { return };
        if let Some(parked) = state.parked_by_request.get(&request).and_then(|key| state.parked.get_mut(key)) {
            // The client receives it in the next result.
            return parked.ask(method, params, Some(ticket));
        }
        let limit = self.limits.requests_in;
        let Some(forwarded) =
            self.in_flight.get_to_server(request).filter(|forwarded| forwarded.method.facts().takes_input)
        else {
            // Only calls that take input can be parked (BR-M-06).
            return self.refuse_question(ticket, "the client cannot be asked about a request of this method", now);
        };
        if state.parked.len() >= limit {
            return self.refuse_question(ticket, "too many calls wait for their clients", now);
        }
        let needed = capability_for(&method, params.as_ref().unwrap_or(&Json::empty_object()));
        let context = self.server.stated(&forwarded.ticket);
        if context.zip(needed).is_none_or(|(context, needed)| context.require(&needed).is_err()) {
            return self.refuse_question(ticket, "the client has not declared that it can be asked for this", now);
        }
        let Some(forwarded) = self.in_flight.remove_to_server(request) else { return };
        let mut parked = Parked {
            method: forwarded.method,
            name: forwarded.name,
            rest: Rest::Open(request),
            bytes: forwarded.bytes,
            questions: BTreeMap::new(),
            asked: 0,
        };
        parked.ask(method, params, Some(ticket));
        let key = state.park(parked);
        self.require(forwarded.ticket, key, now);
    }

    /// Drops the waiting `roots/list` requests of a lost session.
    pub(super) fn forget_roots_questions(&mut self) {
        if let Path::ModernClient(state) = &mut self.path {
            state.roots_questions.clear();
        }
    }

    /// Whether a request is a call whose client must first provide the answers to the waiting `roots/list` requests.
    fn carries_roots_questions(&self, ticket: &Ticket, method: &Method) -> bool {
        let Path::ModernClient(state) = &self.path else { return false };
        let declares = |needed: &Json| self.server.stated(ticket).is_some_and(|it| it.require(needed).is_ok());
        !state.roots_questions.is_empty()
            && state.parked.len() < self.limits.requests_in
            && method.facts().takes_input
            && capability_for(&Method::ROOTS_LIST, &Json::empty_object()).is_some_and(|needed| declares(&needed))
    }

    /// Parks a call that was not sent to the server, until the client provides its roots.
    fn ask_for_roots(&mut self, ticket: Ticket, method: Method, params: &Json, converted: Option<Json>, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        let name = name_of(&method, params);
        let bytes = converted.as_ref().map_or(0, Json::len);
        let rest = Rest::Again(converted);
        let mut parked = Parked { method, name, rest, bytes, questions: BTreeMap::new(), asked: 0 };
        for question in std::mem::take(&mut state.roots_questions) {
            parked.ask(Method::ROOTS_LIST, None, Some(question));
        }
        let key = state.park(parked);
        self.require(ticket, key, now);
    }

    fn refuse_question(&mut self, ticket: Ticket, text: &str, now: Instant) {
        self.client.answer(ticket, Err(ErrorObject::new(code::METHOD_NOT_FOUND, text)), now);
    }

    /// Answers the client with the input requests of a parked call.
    fn require(&mut self, ticket: Ticket, key: ParkKey, now: Instant) {
        let Path::ModernClient(state) = &self.path else { return };
        let Some(parked) = state.parked.get(&key) else { return };
        let required = parked.required(key);
        self.timers.set(key, now + self.parking_timeout);
        if let Err(error) = self.server.require_input(ticket, required, now) {
            self.out.report(Event::NotPassed { method: Method::ELICITATION_CREATE, error });
        }
    }

    /// The client retries a call, with the required input.
    fn on_call_again(&mut self, ticket: Ticket, method: &Method, params: &Json, state: &Json, now: Instant) {
        let Path::ModernClient(modern) = &mut self.path else { return };
        let key = state.as_string().and_then(|state| ParkKey::from_state(&state));
        let name = name_of(method, params);
        let is_same = |parked: &&mut Parked| parked.method == *method && parked.name == name;
        let Some((key, parked)) =
            key.and_then(|key| modern.parked.get_mut(&key).filter(is_same).map(|parked| (key, parked)))
        else {
            let error = ErrorObject::invalid_params("requestState is unknown, of another request, or too old");
            return self.respond(ticket, Err(error), now);
        };
        let answers = params.first_member("inputResponses").unwrap_or(Json::empty_object());
        for (name, answer) in answers.entries() {
            let question = name.and_then(|name| parked.questions.remove(&*name));
            if let Some(ticket) = question.and_then(|question| question.ticket) {
                self.client.answer(ticket, Ok(answer), now);
            }
        }
        // Some input is missing, or the server has sent more requests since.
        if !parked.questions.is_empty() && !matches!(parked.rest, Rest::Answered(_)) {
            return self.require(ticket, key, now);
        }
        self.timers.clear(key);
        let Some(Parked { rest, bytes, method, name, .. }) = modern.unpark(key) else { return };
        match rest {
            Rest::Open(request) => {
                let token = params.first_member("_meta").and_then(|meta| meta.first_member("progressToken"));
                let token = token.map(|token| token.detached_from(params.len()));
                self.in_flight
                    .insert_to_server(request, ToServer { bytes, name, token, ..ToServer::new(ticket, method) });
            }
            Rest::Answered(answer) => self.respond(ticket, answer, now),
            Rest::Again(params) => self.send_up(ToServer { name, ..ToServer::new(ticket, method) }, params, now),
        }
    }

    /// The client's retry did not come in time.
    pub(super) fn on_parked_too_long(&mut self, key: ParkKey, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        let Some(parked) = state.unpark(key) else { return };
        for ticket in parked.questions.into_values().filter_map(|question| question.ticket) {
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the client did not answer in time");
            self.client.answer(ticket, Err(error), now);
        }
        if let Rest::Open(request) = parked.rest {
            self.client.cancel(request, Some("its client did not come back with what was asked for"), now);
        }
    }

    /// The server has cancelled one of its requests.
    pub(super) fn on_question_cancelled(&mut self, ticket: TicketKey) {
        let Path::ModernClient(state) = &mut self.path else { return };
        state.roots_questions.retain(|question| question.key() != ticket);
        for parked in state.parked.values_mut() {
            parked.questions.retain(|_, question| question.ticket.as_ref().is_none_or(|open| open.key() != ticket));
        }
    }

    /// Handles the outcome of a request that no client waits for: that of a parked call is kept, any other is dropped.
    pub(super) fn on_parked_outcome(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let Path::ModernClient(state) = &mut self.path else { return };
        if let Some(own) = state.own.remove(&request) {
            state.own_bytes -= own.len();
            self.on_own_outcome(own, outcome, now);
            return self.acknowledge_listens(now);
        }
        let Some(key) = state.parked_by_request.remove(&request) else { return };
        let Some(method) = state.parked.get(&key).map(|parked| parked.method.clone()) else { return };
        let answer = self.answer_of(&method, outcome);
        let bytes = answer.as_ref().map_or(0, Json::len);
        let answer = if self.holds(bytes) { answer } else { Err(ErrorObject::overloaded()) };
        let Path::ModernClient(state) = &mut self.path else { return };
        if let Some(parked) = state.parked.get_mut(&key) {
            parked.rest = Rest::Answered(answer);
            parked.questions.clear();
        }
    }

    pub(super) fn on_modern_outcome(&mut self, forwarded: ToServer, outcome: Outcome, now: Instant) {
        let ToServer { ticket, method, name, params, bytes, .. } = forwarded;
        if let (Outcome::Error(error), true) = (&outcome, method.facts().takes_input) {
            let limit = self.limits.requests_in;
            let Path::ModernClient(state) = &mut self.path else { return };
            let urls = if state.parked.len() < limit { convert::required_urls(error, limit) } else { None };
            if let Some(urls) = urls {
                // The parked call holds the parameters and the URLs (M1).
                if !self.holds(bytes + urls.iter().map(Json::len).sum::<usize>()) {
                    return self.respond(ticket, Err(ErrorObject::overloaded()), now);
                }
                let Path::ModernClient(state) = &mut self.path else { return };
                // The call is sent again after the client has visited the URLs (BR-M-10).
                let rest = Rest::Again(params);
                let mut parked = Parked { method, name, rest, bytes, questions: BTreeMap::new(), asked: 0 };
                for url in urls {
                    parked.ask(Method::ELICITATION_CREATE, Some(url), None);
                }
                let key = state.park(parked);
                return self.require(ticket, key, now);
            }
        }
        let answer = self.answer_of(&method, outcome);
        self.respond(ticket, answer, now);
    }

    fn answer_of(&mut self, method: &Method, outcome: Outcome) -> Result<Json, ErrorObject> {
        match outcome {
            Outcome::Result(result) => Ok(convert::result_to_modern(method, &result)),
            Outcome::Error(error) => Err(convert::error_to_modern(&error)),
            Outcome::Failed(reason) => Err(self.report_failure(reason)),
        }
    }

    /// Forwards a notification of a server that does not attribute it to a client's subscription or request.
    pub(super) fn on_legacy_notification(
        &mut self,
        scope: client::Scope,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        if method.facts().change.is_some_and(|change| change != spec::Change::Task) {
            return self.publish(Notification { method, params }, now);
        }
        let about = match scope {
            client::Scope::Request(request) => self.in_flight.get_to_server(request),
            // A log message belongs to a request with a log level; it is forwarded only if there is just one (BR-M-08).
            client::Scope::Connection | client::Scope::Subscription(_) => {
                let wants = |forwarded: &&ToServer| {
                    let context = self.server.stated(&forwarded.ticket);
                    context.is_some_and(|context| context.logging_level.is_some())
                };
                let mut wanting = self.in_flight.all_to_server().map(|(_, forwarded)| forwarded).filter(wants);
                wanting.next().filter(|_| wanting.next().is_none())
            }
        };
        // `notifications/elicitation/complete` does not exist in the modern era (BR-M-10).
        if let Some(scope) = about.map(|forwarded| (&forwarded.ticket).into()).filter(|_| method == Method::MESSAGE) {
            self.notify_client(scope, method, params, now);
        }
    }

    pub(super) fn on_modern_progress(&mut self, request: RequestKey, params: Json, now: Instant) {
        let Some(forwarded) = self.in_flight.get_to_server(request) else { return };
        let params = match &forwarded.token {
            Some(token) => params.with_member("progressToken", token),
            None => params,
        };
        self.notify_client((&forwarded.ticket).into(), Method::PROGRESS, Some(params), now);
    }
}

/// The call that a request of the server belongs to, if there is only one; if `is_for_any`, the first of several.
fn sole_call(in_flight: &InFlight, state: &ModernClient, is_for_any: bool) -> Option<RequestKey> {
    let up = in_flight
        .all_to_server()
        .filter(|(_, forwarded)| forwarded.method.facts().takes_input)
        .map(|(request, _)| request);
    let mut all = up.chain(state.parked_by_request.keys().copied());
    all.next().filter(|_| is_for_any || all.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(rest: Rest) -> Parked {
        Parked { method: Method::TOOLS_CALL, name: None, rest, bytes: 40, questions: BTreeMap::new(), asked: 0 }
    }

    #[test]
    fn m1_a_parked_call_counts_with_what_is_kept_of_it() {
        let error = ErrorObject::new(-1, "an error");
        let error_bytes = error.as_json().len();
        let mut state = ModernClient::new(&Json::empty_object());
        let mut all = 0;
        for (rest, bytes) in [
            (Rest::Again(None), 40),
            (Rest::Answered(Ok(Json::from("12345678"))), 10),
            (Rest::Answered(Err(error)), error_bytes),
        ] {
            let mut parked = parked(rest);
            assert_eq!(parked.held(), bytes);
            parked.ask("a".into(), None, None);
            parked.ask("b".into(), Some(Json::parse(r#"{"mode":"form"}"#).unwrap()), None);
            let questions = parked.questions["1"].params.len() + parked.questions["2"].params.len();
            assert!(questions > 2 && parked.held() == bytes + questions, "{} bytes", parked.held());
            all += parked.held();
            state.park(parked);
            assert_eq!(state.held(), all);
        }
        assert_eq!(state.parked.len(), 3);
        for key in 1..=3 {
            assert!(state.unpark(ParkKey(key)).is_some() && state.unpark(ParkKey(key)).is_none());
        }
        assert_eq!(state.held(), 0);
    }

    #[test]
    fn a_parked_call_has_one_name() {
        for (state, key) in [
            ("relay-7", Some(ParkKey(7))),
            ("relay-07", None),
            ("relay-+7", None),
            ("relay-", None),
            ("7", None),
            ("", None),
        ] {
            assert_eq!(ParkKey::from_state(state), key, "{state}");
        }
    }

    #[test]
    fn what_was_not_answered_is_noted_for_the_next_session_while_it_has_a_purpose_and_room() {
        let mut state = ModernClient::new(&Json::empty_object());
        let [first, second]: [Arc<str>; 2] = ["a".repeat(100).into(), "b".repeat(50).into()];
        let subscribe = |uri: &Arc<str>| Own::Subscribe(Arc::clone(uri));
        state.watched.extend([Arc::clone(&first), Arc::clone(&second)]);
        assert_eq!(state.ask_again(subscribe(&first), 355), Err(subscribe(&first)));
        assert_eq!(state.ask_again(subscribe(&first), 356), Ok(()));
        assert_eq!(state.ask_again(subscribe(&second), 661), Err(subscribe(&second)));
        assert_eq!(state.ask_again(subscribe(&second), 662), Ok(()));
        assert_eq!(state.unanswered.len(), 2);
        // The first is not watched any more, which makes room.
        state.watched.remove(&first);
        assert_eq!(state.ask_again(Own::Unsubscribe(Arc::clone(&first)), 662), Ok(()));
        assert_eq!(state.unanswered, [subscribe(&second), Own::Unsubscribe(first)].into());
        assert_eq!(state.ask_again(Own::Unsubscribe(second), 0), Ok(()), "it has no purpose");
        let (level, lower) = (LoggingLevel::Warning, LoggingLevel::Info);
        state.level = Some(level);
        assert_eq!(state.ask_again(Own::SetLevel(lower), 10_000), Ok(()));
        assert_eq!(state.ask_again(Own::SetLevel(level), 10_000), Ok(()));
        assert!(state.unanswered.contains(&Own::SetLevel(level)) && state.unanswered.len() == 3);
    }
}
