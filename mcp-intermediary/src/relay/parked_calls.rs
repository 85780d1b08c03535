//! Calls of a modern client whose server waits for input: they are answered for the client, and still open at the server.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use mcp_proto::client::ClientTransport;
use mcp_proto::machine::Deadlines;
use mcp_proto::server::{InputRequired, Principal, ServerTransport};
use mcp_proto::{ErrorObject, Instant, Json, Method, RequestKey, Ticket, TicketKey, code};

use super::sides::Sides;
use super::{Event, convert};

/// The parked calls of a client, each until its client's retry or its deadline.
#[derive(Debug)]
pub(super) struct ParkedCalls {
    by_key: BTreeMap<ParkKey, Parked>,
    /// The parked calls by their open request at the server.
    by_request: BTreeMap<RequestKey, ParkKey>,
    next: ParkKey,
    /// A number that clients do not know; zero if there is only one client.
    secret: u128,
    timers: Deadlines<ParkKey>,
    /// How long a parked call waits for its retry.
    timeout: Duration,
}

/// Identifies a parked call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParkKey(u64);

/// A call that waits for its client's retry (BR-M-03).
#[derive(Debug)]
pub(super) struct Parked {
    /// The principal of its client, who alone may retry it.
    principal: Option<Principal>,
    pub(super) method: Method,
    /// The name of the target: the client's retry must have the same.
    pub(super) name: Option<Json>,
    pub(super) continuation: Continuation,
    /// The bytes of the parameters of its request.
    pub(super) bytes: usize,
    /// The input that the client must provide, by the keys of `inputRequests`.
    pub(super) questions: BTreeMap<Box<str>, Question>,
    asked: u64,
    /// The number that the `requestState` contains besides the key.
    secret: u128,
}

/// How a parked call continues.
#[derive(Debug)]
pub(super) enum Continuation {
    /// The request is open at the server, which waits for input.
    Open(RequestKey),
    /// The server has answered without waiting for the input.
    Answered(Result<Json, ErrorObject>),
    /// The request must be sent to the server again, with these parameters.
    Again(Option<Json>),
}

/// One input request of a parked call.
#[derive(Debug)]
pub(super) struct Question {
    /// The server's request; `None` if no request of the server waits for this input.
    pub(super) ticket: Option<Ticket>,
    method: Method,
    params: Json,
}

impl ParkedCalls {
    pub(super) fn new(timeout: Duration) -> Self {
        let (by_key, by_request) = (BTreeMap::new(), BTreeMap::new());
        Self { by_key, by_request, next: ParkKey(1), secret: 0, timers: Deadlines::new(), timeout }
    }

    /// Calls that are parked from now on can be retried only with a number that is derived from this one. The number of
    /// one call does not show those of others.
    pub(super) const fn set_secret(&mut self, secret: u128) {
        self.secret = secret;
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn timers(&self) -> usize {
        self.timers.len()
    }

    /// The parked call that is open at the server with this request.
    pub(super) fn with_request(&mut self, request: RequestKey) -> Option<&mut Parked> {
        self.by_request.get(&request).and_then(|key| self.by_key.get_mut(key))
    }

    /// The open requests at the server of all parked calls.
    pub(super) fn requests(&self) -> impl Iterator<Item = RequestKey> {
        self.by_request.keys().copied()
    }

    /// The parked call that a `requestState` names, if the retry is of the same principal, method and target.
    pub(super) fn find(
        &mut self,
        state: &Json,
        principal: Option<&Principal>,
        method: &Method,
        name: Option<&Json>,
    ) -> Option<(ParkKey, &mut Parked)> {
        let state = state.as_string()?;
        let key = ParkKey::from_state(&state)?;
        let parked = self.by_key.get_mut(&key)?;
        let is_same_call = parked.method == *method && parked.name.as_ref() == name;
        let is_it = is_same_call && parked.principal.as_ref() == principal && key.to_state(parked.secret) == state;
        is_it.then_some((key, parked))
    }

    /// The bytes that are held for parked calls.
    pub(super) fn held(&self) -> usize {
        self.by_key.values().map(Parked::held).sum()
    }

    pub(super) fn park(&mut self, parked: Parked) -> ParkKey {
        let key = self.next;
        let parked = Parked { secret: derived_secret(self.secret, key.0), ..parked };
        self.next = ParkKey(key.0 + 1);
        if let Continuation::Open(request) = parked.continuation {
            self.by_request.insert(request, key);
        }
        self.by_key.insert(key, parked);
        key
    }

    /// Removes a parked call and its deadline.
    pub(super) fn unpark(&mut self, key: ParkKey) -> Option<Parked> {
        self.timers.clear(key);
        let parked = self.by_key.remove(&key)?;
        if let Continuation::Open(request) = parked.continuation {
            self.by_request.remove(&request);
        }
        Some(parked)
    }

    /// The server has answered the open request of a parked call. Returns its method; `None` if there is no such call.
    pub(super) fn take_request(&mut self, request: RequestKey) -> Option<(ParkKey, Method)> {
        let key = self.by_request.remove(&request)?;
        self.by_key.get(&key).map(|parked| (key, parked.method.clone()))
    }

    /// Keeps the server's answer for the client's retry.
    pub(super) fn set_answer(&mut self, key: ParkKey, answer: Result<Json, ErrorObject>) {
        if let Some(parked) = self.by_key.get_mut(&key) {
            parked.continuation = Continuation::Answered(answer);
            parked.questions.clear();
        }
    }

    /// The server has cancelled one of its requests.
    pub(super) fn on_question_cancelled(&mut self, ticket: TicketKey) {
        for parked in self.by_key.values_mut() {
            parked.questions.retain(|_, question| question.ticket.as_ref().is_none_or(|open| open.key() != ticket));
        }
    }

    /// Answers the client with the input requests of a parked call.
    pub(super) fn require<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        ticket: Ticket,
        key: ParkKey,
        now: Instant,
    ) {
        let Some(parked) = self.by_key.get(&key) else { return };
        let required = parked.required(key);
        self.timers.set(key, now + self.timeout);
        if let Err(error) = sides.server.require_input(ticket, required, now) {
            sides.out.report(Event::NotPassed { method: Method::ELICITATION_CREATE, error });
        }
    }

    /// When the next parked call ends.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    pub(super) fn handle_timeout<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        now: Instant,
    ) {
        while let Some(key) = self.timers.pop_due(now) {
            self.on_parked_too_long(sides, key, now);
        }
    }

    /// The client's retry did not come in time.
    fn on_parked_too_long<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        key: ParkKey,
        now: Instant,
    ) {
        let Some(parked) = self.unpark(key) else { return };
        for ticket in parked.questions.into_values().filter_map(|question| question.ticket) {
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the client did not answer in time");
            sides.client.answer(ticket, Err(error), now);
        }
        if let Continuation::Open(request) = parked.continuation {
            sides.client.cancel(request, Some("the client did not retry with the required input"), now);
            sides.ended_unanswered(request, None, parked.method, now);
        }
    }
}

impl ParkKey {
    /// The `requestState` that identifies it. A relay has only one client, on a private pipe, so no other party can
    /// send it; a gateway adds the secret.
    fn to_state(self, secret: u128) -> String {
        if secret == 0 { format!("relay-{}", self.0) } else { format!("relay-{}-{secret:032x}", self.0) }
    }

    /// The key in a state, whose spelling and secret the caller compares.
    fn from_state(state: &str) -> Option<Self> {
        let key = state.strip_prefix("relay-")?;
        key.split('-').next()?.parse().ok().map(Self)
    }
}

/// Derives a number from a secret and another number, without showing the secret; zero if there is no secret.
pub(crate) fn derived_secret(secret: u128, number: u64) -> u128 {
    let half = |half: u8| {
        let mut hasher = DefaultHasher::new();
        (secret, number, half).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    if secret == 0 { 0 } else { half(0) << 64 | half(1) }
}

impl Parked {
    /// A call of a client with this principal.
    pub(super) const fn new(
        principal: Option<Principal>,
        method: Method,
        name: Option<Json>,
        continuation: Continuation,
        bytes: usize,
    ) -> Self {
        Self { principal, method, name, continuation, bytes, questions: BTreeMap::new(), asked: 0, secret: 0 }
    }

    /// Adds an input request to those that the client receives.
    pub(super) fn ask(&mut self, method: Method, params: Option<Json>, ticket: Option<Ticket>) {
        self.asked += 1;
        let params = convert::question_to_modern(&params.unwrap_or(Json::empty_object()));
        self.questions.insert(self.asked.to_string().into(), Question { ticket, method, params });
    }

    fn held(&self) -> usize {
        let continuation = match &self.continuation {
            Continuation::Answered(Ok(result)) => result.len(),
            Continuation::Answered(Err(error)) => error.as_json().len(),
            Continuation::Open(_) | Continuation::Again(_) => self.bytes,
        };
        self.questions.values().map(|question| question.params.len()).sum::<usize>() + continuation
    }

    fn required(&self, key: ParkKey) -> InputRequired {
        let required = InputRequired::new().state(&key.to_state(self.secret));
        let questions = self.questions.iter();
        questions.fold(required, |required, (key, question)| {
            required.ask(key, question.method.clone(), question.params.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(continuation: Continuation) -> Parked {
        Parked::new(Some(Principal::new("ada")), Method::TOOLS_CALL, None, continuation, 40)
    }

    #[test]
    fn a_parked_call_counts_with_what_is_kept_of_it() {
        let error = ErrorObject::new(-1, "an error");
        let error_bytes = error.as_json().len();
        let mut calls = ParkedCalls::new(Duration::ZERO);
        let mut all = 0;
        for (continuation, bytes) in [
            (Continuation::Again(None), 40),
            (Continuation::Answered(Ok(Json::from("12345678"))), 10),
            (Continuation::Answered(Err(error)), error_bytes),
        ] {
            let mut parked = parked(continuation);
            assert_eq!(parked.held(), bytes);
            parked.ask("a".into(), None, None);
            parked.ask("b".into(), Some(Json::parse(r#"{"mode":"form"}"#).unwrap()), None);
            let questions = parked.questions["1"].params.len() + parked.questions["2"].params.len();
            assert!(questions > 2 && parked.held() == bytes + questions, "{} bytes", parked.held());
            all += parked.held();
            calls.park(parked);
            assert_eq!(calls.held(), all);
        }
        assert_eq!(calls.len(), 3);
        for key in 1..=3 {
            assert!(calls.unpark(ParkKey(key)).is_some() && calls.unpark(ParkKey(key)).is_none());
        }
        assert_eq!(calls.held(), 0);
    }

    #[test]
    fn a_parked_call_has_one_name_which_contains_its_secret() {
        let mut calls = ParkedCalls::new(Duration::ZERO);
        let mut keys = Vec::new();
        for secret in [0, 0xab] {
            calls.set_secret(secret);
            keys.push(calls.park(parked(Continuation::Again(None))));
        }
        let secret = format!("{:032x}", calls.by_key[&keys[1]].secret);
        let another = calls.park(parked(Continuation::Again(None)));
        assert!(calls.by_key[&another].secret != calls.by_key[&keys[1]].secret && !secret.ends_with("ab"));
        for (state, key) in [
            ("relay-1".to_owned(), Some(keys[0])),
            (format!("relay-2-{secret}"), Some(keys[1])),
            ("relay-01".to_owned(), None),
            ("relay-+1".to_owned(), None),
            (format!("relay-1-{secret}"), None),
            ("relay-2".to_owned(), None),
            ("relay-2-ab".to_owned(), None),
            (format!("relay-2-{}c", &secret[..31]), None),
            (format!("relay-2-{secret}-"), None),
            ("relay-".to_owned(), None),
            ("1".to_owned(), None),
            (String::new(), None),
        ] {
            let state = Json::from(state.as_str());
            for (principal, key) in [(Some("ada"), key), (Some("eve"), None), (None, None)] {
                let principal = principal.map(Principal::new);
                let found = calls.find(&state, principal.as_ref(), &Method::TOOLS_CALL, None).map(|(key, _)| key);
                assert_eq!(found, key, "{state:?} of {principal:?}");
            }
        }
    }
}
