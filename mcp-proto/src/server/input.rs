//! Input that a request needs from its client, with the same interface for the application in both eras (RULES 8.6).
//!
//! Since 2026-07-28, the required input is the result of the request, and the client retries the request with the
//! input. Before, the server sends requests to the client, and then reports the original request again as if it were a
//! retry.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Event;
use super::context::Context;
use super::session::{Purpose, Session};
use super::shared::Shared;
use super::transport::{ServerTimer, ServerTransport};
use crate::conversation::call::Call;
use crate::conversation::keys::TicketKey;
use crate::conversation::outcome::Outcome;
use crate::error::UsageError;
use crate::json::Json;
use crate::jsonrpc::ErrorObject;
use crate::spec::capability::needed;
use crate::spec::{Method, code};

/// The pause before a request that required no input but a retry is reported again (MD-I-06).
const PACE: Duration = Duration::from_millis(250);

/// The input that a request needs before it can be answered. It converts to a result: answering with that has the same
/// effect as [`Server::require_input`](super::Server::require_input).
///
/// # Example: a question for the user
///
/// ```
/// use mcp_proto::Json;
/// use mcp_proto::server::InputRequired;
///
/// let params = r#"{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
/// let required = InputRequired::new().ask("name", "elicitation/create", Json::parse(params)?).state("asked once");
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "the client waits for an answer"]
pub struct InputRequired {
    requests: BTreeMap<Box<str>, (Method, Json)>,
    state: Option<Box<str>>,
}

impl InputRequired {
    /// Requires nothing yet; at least one request or a state must be added.
    ///
    /// Rules: MD-I-02.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request for input, whose answer will have the same key: `elicitation/create`, `sampling/createMessage` or
    /// `roots/list`.
    ///
    /// Rules: MD-I-03.
    pub fn ask(mut self, key: &str, method: impl Into<Method>, params: impl Into<Json>) -> Self {
        self.requests.insert(key.into(), (method.into(), params.into()));
        self
    }

    /// Adds a state that the client returns with its retry. The client could alter it.
    ///
    /// Rules: MD-I-12.
    pub fn state(mut self, state: &str) -> Self {
        self.state = Some(state.into());
        self
    }

    /// Reads a result that requires input; `None` for every other result.
    pub(super) fn read(result: &Json) -> Option<Self> {
        // This search excludes most other results at low cost.
        memchr::memmem::find(result.as_bytes(), b"\"input_required\"")?;
        let [kind, requests, state] = result.first_members(["resultType", "inputRequests", "requestState"]);
        kind.filter(|kind| kind.as_bytes() == b"\"input_required\"")?;
        let mut required =
            Self { state: state.as_ref().and_then(Json::as_string).map(|state| Box::from(&*state)), ..Self::new() };
        for (key, request) in requests.iter().flat_map(Json::entries) {
            let [method, params] = request.first_members(["method", "params"]);
            let method = method.as_ref().and_then(Json::as_string).unwrap_or_default();
            required = required.ask(&key.unwrap_or_default(), &*method, params.unwrap_or(Json::empty_object()));
        }
        Some(required)
    }

    /// Each request, with its key.
    pub fn calls(&self) -> impl Iterator<Item = (&str, Call)> {
        self.requests.iter().map(|(key, (method, params))| (&**key, Call::new(method.clone()).params(params.clone())))
    }

    /// Each request, under its key, as the client receives it.
    pub(super) fn requests(&self) -> impl Iterator<Item = (Box<str>, Json)> {
        self.requests.iter().map(|(key, (method, params))| {
            let request = [("method", &Json::from(method.as_str())), ("params", params)];
            (key.clone(), Json::empty_object().with_members(&request))
        })
    }

    /// The result in the form of 2026-07-28.
    pub(super) fn to_result(&self) -> Json {
        let requests: Vec<_> = self.requests().collect();
        let requests: Vec<_> = requests.iter().map(|(key, request)| (&**key, request)).collect();
        let requests = Json::empty_object().with_members(&requests);
        let mut result = Json::empty_object();
        if let Some(state) = &self.state {
            result = result.with_member("requestState", &Json::from(&**state));
        }
        if !self.requests.is_empty() {
            result = result.with_member("inputRequests", &requests);
        }
        result.with_member("resultType", &Json::from("input_required"))
    }

    /// Checks whether a request of this method may be answered with this input requirement (MD-I-01 to MD-I-03).
    pub(super) fn check(&self, method: &Method, context: &Context) -> Result<(), UsageError> {
        let version = context.version;
        if !method.facts().takes_input {
            return Err(UsageError::NotInRevision { what: "input for a request of this method", version });
        }
        if self.requests.is_empty() && self.state.is_none() {
            return Err(UsageError::NothingRequired);
        }
        if self.requests.values().any(|(method, params)| needed(method, params).is_none()) {
            return Err(UsageError::NotInRevision { what: "a request for input of this method", version });
        }
        Ok(())
    }

    /// The answer if the client has not declared a capability that the input needs (MD-I-04); `None` if all are
    /// declared.
    ///
    /// 2026-07-28 demands an error (MD-M-05). Before, the call of a tool is answered with a result, which the language
    /// model reads and can explain; most clients show an error of the protocol as a failure of the server.
    pub(super) fn refusal(&self, method: &Method, context: &Context) -> Option<Result<Json, ErrorObject>> {
        let missing = context.require(&self.capabilities()).err()?;
        if *method != Method::TOOLS_CALL || context.version.is_stateless() {
            return Some(Err(missing));
        }
        let needed = self.requests.values().filter_map(|(method, params)| needed(method, params));
        let mut names: Vec<_> =
            needed.map(|(name, inside)| inside.map_or(name.to_owned(), |inside| format!("{name}.{inside}"))).collect();
        names.sort_unstable();
        names.dedup();
        let text = format!(
            "this tool needs input from the client, which has not declared that it can give it: {}",
            names.join(", ")
        );
        let block = [("type", &Json::from("text")), ("text", &Json::from(text))];
        let blocks = Json::array([&Json::empty_object().with_members(&block)]);
        let result = [("content", &blocks), ("isError", &Json::from(true))];
        Some(Ok(Json::empty_object().with_members(&result)))
    }

    /// The capabilities that the client must have declared (MD-I-04).
    pub(super) fn capabilities(&self) -> Json {
        let needed = self.requests.values().filter_map(|(method, params)| needed(method, params));
        needed.fold(Json::empty_object(), |all, (name, inside)| {
            let known = all.first_member(name).unwrap_or(Json::empty_object());
            let known = inside.map_or(known.clone(), |inside| known.with_member(inside, &Json::empty_object()));
            all.with_member(name, &known)
        })
    }
}

impl From<InputRequired> for Json {
    fn from(required: InputRequired) -> Self {
        required.to_result()
    }
}

/// The state of a legacy request whose input is requested from its client.
#[derive(Debug)]
pub(super) struct Parked {
    params: Option<Json>,
    waiting: usize,
    answers: BTreeMap<Box<str>, Json>,
    state: Option<Box<str>>,
    rounds: usize,
}

impl Parked {
    pub(super) const fn new(params: Option<Json>) -> Self {
        Self { params, waiting: 0, answers: BTreeMap::new(), state: None, rounds: 0 }
    }

    /// Bytes that are stored in addition to the parameters.
    fn added(&self) -> usize {
        let answers = self.answers.iter().map(|(key, answer)| key.len() + answer.len());
        answers.sum::<usize>() + self.state.as_ref().map_or(0, |state| state.len())
    }

    /// The parameters of the retry that a client of the modern era would send (MD-I-08).
    fn params_of_retry(&self) -> Json {
        let answers: Vec<_> = self.answers.iter().map(|(key, answer)| (&**key, answer)).collect();
        let answers = Json::empty_object().with_members(&answers);
        let params = self.params.clone().unwrap_or(Json::empty_object()).with_member("inputResponses", &answers);
        match &self.state {
            Some(state) => params.with_member("requestState", &Json::from(&**state)),
            None => params,
        }
    }
}

impl Session {
    pub(super) fn require_input<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        required: &InputRequired,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        let Some(context) = self.context(ticket, shared.config()) else { return Ok(()) };
        let Some(request) = self.incoming.get(ticket) else { return Ok(()) };
        if let Err(error) = required.check(&request.method, &context) {
            let internal = ErrorObject::internal();
            self.answer(ticket, Err(internal), shared)?;
            return Err(error);
        }
        if let Some(refusal) = required.refusal(&request.method, &context) {
            return self.answer(ticket, refusal, shared);
        }
        if context.version.rules().server_requests {
            self.park(ticket, required, shared)
        } else {
            self.answer(ticket, Ok(required.to_result()), shared)
        }
    }

    /// Sends the required requests to a legacy client.
    fn park<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        required: &InputRequired,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), UsageError> {
        let Some(parked) = self.incoming.get_mut(ticket).and_then(|request| request.parked.as_mut()) else {
            return Ok(());
        };
        parked.rounds += 1;
        if parked.rounds > shared.config().limits.input_rounds {
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the request needs input too often");
            return self.answer(ticket, Err(error), shared);
        }
        parked.waiting = required.requests.len();
        let before = parked.added();
        parked.answers = BTreeMap::new();
        parked.state.clone_from(&required.state);
        let bytes = parked.added();
        self.keep(ticket, self.incoming.bytes_of(ticket) - before + bytes, shared);
        if required.requests.is_empty() {
            shared.output.timers.set(ServerTimer::Again(ticket), shared.output.now + PACE);
        }
        for (key, (method, params)) in &required.requests {
            let call = Call::new(method.clone()).params(params.clone());
            if let Err(error) = self.ask(call, Purpose::Input { ticket, key: key.clone() }, shared) {
                let text = format!("the client could not be asked: {error}");
                return self.answer(ticket, Err(ErrorObject::new(code::INTERNAL_ERROR, &text)), shared);
            }
            // A request for input that finds no room ends the client's request.
            if self.incoming.get(ticket).is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Handles the outcome of the request for the input with this key.
    pub(super) fn on_input<T: ServerTransport>(
        &mut self,
        ticket: TicketKey,
        key: Box<str>,
        outcome: Outcome,
        shared: &mut Shared<'_, T>,
    ) {
        match outcome {
            Outcome::Result(answer) => {
                let bytes = key.len() + answer.len();
                // All stored bytes together have a limit (M3).
                if !shared.has_room_for(bytes, self.incoming.bytes_of(ticket)) {
                    let _ = self.answer(ticket, Err(ErrorObject::overloaded()), shared);
                    return;
                }
                let parked = self.incoming.get_mut(ticket).and_then(|request| request.parked.as_mut());
                let Some(parked) = parked else { return };
                parked.answers.insert(key, answer);
                parked.waiting -= 1;
                let is_last = parked.waiting == 0;
                self.keep(ticket, self.incoming.bytes_of(ticket) + bytes, shared);
                if is_last {
                    self.report_again(ticket, shared);
                }
            }
            // Without one of the inputs, the request cannot be continued (MD-I-10).
            Outcome::Error(_) | Outcome::Failed(_) => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, "the client did not give what the request needs");
                // This cannot fail, because the code is not reserved.
                let _ = self.answer(ticket, Err(error), shared);
            }
        }
    }

    pub(super) fn report_again<T: ServerTransport>(&mut self, ticket: TicketKey, shared: &mut Shared<'_, T>) {
        let Some(request) = self.incoming.get(ticket) else { return };
        let Some(parked) = &request.parked else { return };
        let (method, params) = (request.method.clone(), Some(parked.params_of_retry()));
        if let Some(ticket) = self.incoming.ticket(ticket) {
            shared.report(Event::Requested { ticket, method, params });
        }
    }
}
