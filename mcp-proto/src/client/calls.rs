//! Requests of the modern era. Each may need several JSON-RPC requests: to supply input, to use another revision, or to
//! correct headers (RULES 8.5, 8.6, MD-P-12).
//!
//! ```text
//!          answer                     all answered
//!  sent ───────────▶ asking ───────────────────────────▶ sent again, with a new id (MD-I-08)
//!    │  input_required       state only: after a pause
//!    │ -32022, -32020: corrected, sent again
//!    ▼
//!  outcome
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::carrier::{Carrier, Role};
use super::detection::supported_versions;
use super::event::{Event, Outcome, Scope};
use super::{Call, Client, HeldRequest, Timer};
use crate::Instant;
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Message, Request, RequestId, Response};
use crate::conversation::pending::{Match, RequestKey, TicketKey};
use crate::error::{Failed, Fault, InvalidResponse, NoInput, Quirk};
use crate::limits::Limits;
use crate::spec::{Era, ProtocolVersion};
use crate::spec::{Method, code};

/// The first pause before a request whose interim result asks for no input is sent again (MD-I-06); it doubles.
const PAUSE: Duration = Duration::from_millis(250);
/// The maximum number of pages of `tools/list` that are fetched to get one schema.
const PAGES: usize = 32;

/// All requests of the application in the modern era that have no outcome yet.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: BTreeMap<RequestKey, Calling>,
    /// Maps the key on the wire to the application's key, where the two differ.
    by_wire: BTreeMap<RequestKey, RequestKey>,
    /// Bytes that are kept for the next attempts of calls.
    held: usize,
}

/// One request of the application.
#[derive(Debug)]
struct Calling {
    method: Method,
    /// The parameters as the application set them.
    params: Option<Json>,
    /// The parameters are sent as they are, and the answer is reported as received.
    is_unchanged: bool,
    /// The key that it has on the wire now.
    wire: Option<RequestKey>,
    /// The number of `input_required` results so far.
    rounds: usize,
    /// The `requestState` that the next attempt repeats (MD-I-07).
    state: Option<Json>,
    /// The `inputResponses` of the next attempt: keys, as received, and answers; `None` if no input was requested.
    inputs: Option<Vec<(Json, Option<Json>)>>,
    /// Tickets of unanswered input requests, with their positions in `inputs`.
    asked: BTreeMap<TicketKey, usize>,
    /// Revisions that were tried because the server named them, each once (MD-V-02).
    corrected: BTreeSet<ProtocolVersion>,
    /// The schemas were fetched again after a header mismatch, which happens once per call (MD-P-12).
    has_fetched_tools: bool,
}

/// What is left to clean up after a call has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) wire: Option<RequestKey>,
    pub(super) asked: Vec<TicketKey>,
}

impl Calls {
    fn begin(&mut self, held: HeldRequest) {
        let HeldRequest { request, method, params, is_unchanged } = held;
        let calling = Calling {
            method,
            params,
            is_unchanged,
            wire: None,
            rounds: 0,
            state: None,
            inputs: None,
            asked: BTreeMap::new(),
            corrected: BTreeSet::new(),
            has_fetched_tools: false,
        };
        self.open.insert(request, calling);
    }

    /// Changes what is kept for the next attempt of a call, and updates the count of bytes.
    fn keep<R>(&mut self, request: RequestKey, change: impl FnOnce(&mut Calling) -> R) -> Option<R> {
        let calling = self.open.get_mut(&request)?;
        let before = calling.held();
        let changed = change(calling);
        self.held = self.held - before + calling.held();
        Some(changed)
    }

    /// Stores the answer to one input request of a call.
    fn answer(&mut self, request: RequestKey, at: usize, answer: Json) {
        let inputs = self.open.get_mut(&request).and_then(|calling| calling.inputs.as_mut());
        if let Some((_, slot)) = inputs.and_then(|inputs| inputs.get_mut(at)) {
            self.held += answer.len();
            *slot = Some(answer);
        }
    }

    /// Bytes that are kept for the next attempts of calls.
    pub(super) const fn held(&self) -> usize {
        self.held
    }

    pub(super) fn contains(&self, request: RequestKey) -> bool {
        self.open.contains_key(&request)
    }

    /// The application's key for a key on the wire; `None` if that key belongs to no call or is no longer in use.
    fn owner(&self, wire: RequestKey) -> Option<RequestKey> {
        let request = self.by_wire.get(&wire).copied().unwrap_or(wire);
        let calling = self.open.get(&request)?;
        (calling.wire == Some(wire)).then_some(request)
    }

    fn put_on_wire(&mut self, request: RequestKey, wire: RequestKey) {
        if let Some(calling) = self.open.get_mut(&request) {
            calling.wire = Some(wire);
            if wire != request {
                self.by_wire.insert(wire, request);
            }
        }
    }

    fn take_off_wire(&mut self, request: RequestKey) {
        if let Some(wire) = self.open.get_mut(&request).and_then(|calling| calling.wire.take()) {
            self.by_wire.remove(&wire);
        }
    }

    /// Removes a call that has its outcome.
    pub(super) fn end(&mut self, request: RequestKey) -> Option<Ended> {
        let calling = self.open.remove(&request)?;
        self.held -= calling.held();
        if let Some(wire) = calling.wire {
            self.by_wire.remove(&wire);
        }
        Some(Ended { wire: calling.wire, asked: calling.asked.into_keys().collect() })
    }
}

impl Calling {
    fn held(&self) -> usize {
        let inputs = self.inputs.iter().flatten().map(|(key, answer)| key.len() + answer.as_ref().map_or(0, Json::len));
        inputs.sum::<usize>() + self.state.as_ref().map_or(0, Json::len)
    }
}

impl<T: Carrier> Client<T> {
    /// Whether there is room for `asked` bytes that the application has to answer and `kept` bytes for the next attempt
    /// of a call, in addition to everything that is unanswered (M3). A small request always fits if nothing is kept:
    /// the number of requests is bounded.
    pub(super) fn has_room_for(&self, asked: usize, kept: usize) -> bool {
        let is_small = kept == 0 && asked <= Limits::SMALL;
        is_small || self.config.limits.holds_beside(asked + kept, self.incoming.bytes() + self.calls.held)
    }

    /// Sends a request of the application for the first time.
    pub(super) fn dispatch(&mut self, held: HeldRequest, now: Instant) {
        let request = held.request;
        if self.is_modern() {
            self.calls.begin(held);
            self.send_call(request, request, now);
        } else {
            let HeldRequest { method, params, .. } = held;
            self.note_setting(request, &method, params.as_ref());
            let message = Message::Request(Request { id: request.to_wire(), method, params });
            self.send_request(request, request, &message, now);
        }
    }

    /// Sends the message of a request under its key on the wire, unless too many bytes wait already (K1).
    pub(super) fn send_request(&mut self, request: RequestKey, on_wire: RequestKey, message: &Message, now: Instant) {
        if self.takes(message.payload_len()) {
            self.with_wire(now, |transport, wire| transport.send(message, Role::Request(on_wire), now, wire));
        } else {
            self.refuse_unwritten(request, now);
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version.is_some_and(|version| version.rules().era == Era::Modern)
    }

    fn send_call(&mut self, request: RequestKey, wire_key: RequestKey, now: Instant) {
        let Some(version) = self.version else { return };
        // Input responses and state belong to this attempt only (MD-I-05, MD-I-09).
        let kept = self.calls.keep(request, |calling| (calling.inputs.take(), calling.state.take()));
        let (Some((inputs, state)), Some(calling)) = (kept, self.calls.open.get(&request)) else { return };
        let params = if calling.is_unchanged {
            calling.params.clone()
        } else {
            let mut params = calling.params.clone().unwrap_or(Json::empty_object());
            if let Some(inputs) = inputs {
                params = params.with_member("inputResponses", &responses(&inputs));
            }
            if let Some(state) = state {
                params = params.with_member("requestState", &state);
            }
            Some(self.identity.stamped(Some(&params), version))
        };
        let method = calling.method.clone();
        self.calls.put_on_wire(request, wire_key);
        let message = Message::Request(Request { id: wire_key.to_wire(), method, params });
        self.send_request(request, wire_key, &message, now);
    }

    /// Sends a request again, under a new id (MD-I-08).
    pub(super) fn send_call_again(&mut self, request: RequestKey, now: Instant) {
        let Some(waiting) = self.pending.get(request) else { return };
        self.timers.set(Timer::Answer(request), (now + waiting.timeout).min(waiting.latest));
        let wire = self.pending.reserve();
        self.send_call(request, wire, now);
    }

    /// Maps a key on the wire to the pending request that it was sent for.
    pub(super) fn owner(&self, wire: RequestKey) -> Option<RequestKey> {
        self.calls.owner(wire).or_else(|| {
            let is_own = self.pending.get(wire).is_some() && !self.calls.open.contains_key(&wire);
            is_own.then_some(wire)
        })
    }

    /// The request that a response with this id answers.
    pub(super) fn find(&self, id: &RequestId) -> Match {
        match self.pending.find(id) {
            Match::Late => Match::Late,
            Match::Open(_) | Match::Unknown => {
                let owner = self.on_wire(id).and_then(|wire| self.owner(wire));
                owner.map_or(Match::Unknown, Match::Open)
            }
        }
    }

    /// The key on the wire of the request that a response with this id answers; `None` if there is none.
    pub(super) fn on_wire(&self, id: &RequestId) -> Option<RequestKey> {
        RequestKey::from_wire(id, None).filter(|wire| self.owner(*wire).is_some())
    }

    /// A request of the modern era was answered.
    pub(super) fn on_call_answered(&mut self, request: RequestKey, response: Response, now: Instant) {
        let Some(calling) = self.calls.open.get(&request) else { return };
        let is_unchanged = calling.is_unchanged;
        match response {
            Response::Result { result, .. } if is_unchanged => self.finish(request, Outcome::Result(result), now),
            Response::Error { error, .. } => {
                let code = error.code();
                if code == code::UNSUPPORTED_PROTOCOL_VERSION && !is_unchanged {
                    self.correct_version(request, error, now);
                } else if code == code::HEADER_MISMATCH && self.can_fetch_tools(request) {
                    self.calls.take_off_wire(request);
                    self.fetch_tools(request, None, 0, now);
                } else {
                    self.finish(request, Outcome::Error(error), now);
                }
            }
            Response::Result { result, .. } => {
                let kind = result.first_member("resultType");
                match (&kind, kind.as_ref().and_then(Json::as_string).as_deref()) {
                    // A missing `resultType` means `complete` (JR-16).
                    (None, _) => {
                        self.meet(Quirk::ResultTypeMissing);
                        self.finish_call(request, result, now);
                    }
                    (Some(_), Some("complete")) => self.finish_call(request, result, now),
                    (Some(_), Some("input_required")) => {
                        let may =
                            self.version.is_some_and(|version| version.rules().may_require_input(&calling.method));
                        if may {
                            self.on_input_required(request, &result, now);
                        } else {
                            self.invalid(request, InvalidResponse::InputRequired, now);
                        }
                    }
                    // Other values come from extensions, and are valid only if the client declared any (JR-15).
                    (Some(_), Some(_)) if self.identity.declares_extensions() => self.finish_call(request, result, now),
                    (Some(_), Some(_) | None) => self.invalid(request, InvalidResponse::ResultType, now),
                }
            }
        }
    }

    fn finish_call(&mut self, request: RequestKey, result: Json, now: Instant) {
        let outcome = Outcome::Result(result);
        self.judge_result(request, &outcome);
        self.finish(request, outcome, now);
    }

    fn invalid(&mut self, request: RequestKey, reason: InvalidResponse, now: Instant) {
        self.finish(request, Outcome::Failed(Failed::InvalidResponse { reason }), now);
    }

    /// Sends the request again in the newest common revision, at most once for each revision (MD-V-02).
    fn correct_version(&mut self, request: RequestKey, error: ErrorObject, now: Instant) {
        let named = supported_versions(&error).unwrap_or_default();
        let is_mutual = |version: &&ProtocolVersion| version.rules().era == Era::Modern && named.contains(version);
        let mutual = self.config.versions.iter().filter(is_mutual);
        let version = mutual.max().copied();
        let calling = self.calls.open.get_mut(&request);
        match (version, calling) {
            (Some(version), Some(calling)) if !calling.corrected.contains(&version) => {
                calling.corrected.insert(version);
                self.calls.take_off_wire(request);
                self.version = Some(version);
                self.with_wire(now, |transport, wire| transport.negotiated(version, wire));
                self.send_call_again(request, now);
            }
            _ => self.finish(request, Outcome::Error(error), now),
        }
    }

    fn can_fetch_tools(&self, request: RequestKey) -> bool {
        let is_first = |calling: &Calling| calling.method == Method::TOOLS_CALL && !calling.has_fetched_tools;
        self.transport.repeats_arguments() && self.calls.open.get(&request).is_some_and(is_first)
    }

    /// Fetches the schemas again, page by page, after which the call is sent once more (MD-P-12).
    fn fetch_tools(&mut self, request: RequestKey, cursor: Option<&Json>, page: usize, now: Instant) {
        let (Some(version), Some(calling)) = (self.version, self.calls.open.get_mut(&request)) else { return };
        calling.has_fetched_tools = true;
        let params = cursor.map(|cursor| Json::empty_object().with_member("cursor", cursor));
        let params = self.identity.stamped(params.as_ref(), version);
        let call = Call::new(Method::TOOLS_LIST).params(params);
        let fetching = super::Internal::Tools { call: request, page };
        self.send_internal(call, fetching, now);
    }

    /// The request for a page of tools has ended.
    pub(super) fn on_tools_fetched(&mut self, request: RequestKey, page: usize, outcome: &Outcome, now: Instant) {
        if !self.calls.open.contains_key(&request) {
            return;
        }
        let next = match outcome {
            Outcome::Result(result) => result.first_member("nextCursor").filter(|next| next.as_string().is_some()),
            Outcome::Error(_) | Outcome::Failed(_) => None,
        };
        match next {
            Some(cursor) if page + 1 < PAGES => self.fetch_tools(request, Some(&cursor), page + 1, now),
            Some(_) | None => self.send_call_again(request, now),
        }
    }

    /// Handles a result that asks for input before the call can continue (MD-I-02).
    fn on_input_required(&mut self, request: RequestKey, result: &Json, now: Instant) {
        let room = self.config.limits.requests_in.saturating_sub(self.incoming.len());
        let [inputs, state] = result.first_members(["inputRequests", "requestState"]);
        let state = state.map(|state| state.detached_from(result.len()));
        let is_valid = (inputs.is_some() || state.is_some())
            && inputs.as_ref().is_none_or(Json::is_object)
            && state.as_ref().is_none_or(|state| state.as_bytes().starts_with(b"\""));
        let Some(inputs) = inputs
            .as_ref()
            .map_or(Some(Vec::new()), |inputs| read_inputs(inputs, room, result.len()))
            .filter(|_| is_valid)
        else {
            return self.invalid(request, InvalidResponse::InputRequired, now);
        };
        self.calls.take_off_wire(request);
        // All unanswered requests share one limit on bytes (M3).
        let kept = inputs.iter().map(|input| input.key.len()).sum::<usize>() + state.as_ref().map_or(0, Json::len);
        let asked = inputs.iter().map(Input::len).sum::<usize>();
        if !self.has_room_for(asked, kept) {
            return self.no_input(request, NoInput::TooLarge { limit: self.config.limits.held }, now);
        }
        let limit = self.config.limits.input_rounds;
        let Some(calling) = self.calls.open.get_mut(&request) else { return };
        calling.rounds += 1;
        let rounds = calling.rounds;
        self.calls.keep(request, |calling| calling.state = state);
        if rounds > limit {
            return self.no_input(request, NoInput::TooManyRounds { limit }, now);
        }
        if inputs.is_empty() {
            let doublings = u32::try_from(rounds - 1).unwrap_or(u32::MAX).min(5);
            self.timers.set(Timer::Round(request), now + PAUSE * 2_u32.pow(doublings));
            return;
        }
        if inputs.len() > room {
            let limit = self.config.limits.requests_in;
            self.out.report(Event::Faulted(Fault::TooManyRequests { limit }));
            return self.no_input(request, NoInput::TooMuch { limit }, now);
        }
        // A server must not ask for what the client did not declare (MD-I-04).
        if let Some(input) = inputs.iter().find(|input| !self.identity.declares(&input.method)) {
            self.out.report(Event::Faulted(Fault::UnexpectedRequest { method: input.method.clone() }));
            return self.no_input(request, NoInput::NotDeclared, now);
        }
        self.ask(request, inputs);
    }

    /// Reports the input requests as if the server had sent them as JSON-RPC requests.
    fn ask(&mut self, request: RequestKey, inputs: Vec<Input>) {
        let scope = Scope::Request(request);
        let keys = inputs.iter().map(|input| (input.key.clone(), None)).collect();
        self.calls.keep(request, |calling| calling.inputs = Some(keys));
        self.pause_deadlines(scope);
        for (at, input) in inputs.into_iter().enumerate() {
            // An input request has no JSON-RPC id, so its position is used.
            let id = RequestId::from(i64::try_from(at).unwrap_or(i64::MAX));
            let ticket = self.incoming.insert(id, super::Asked::Input(request), input.len());
            let Some(calling) = self.calls.open.get_mut(&request) else { return };
            calling.asked.insert(ticket.key(), at);
            let Input { method, params, .. } = input;
            // Not `report_bounded`: one message may hold many input requests, and `requests_in` bounds their number.
            self.out.report(Event::Requested { ticket, scope, method, params });
        }
    }

    /// The application has answered an input request.
    pub(super) fn on_input(
        &mut self,
        request: RequestKey,
        ticket: TicketKey,
        answer: Result<Json, ErrorObject>,
        now: Instant,
    ) {
        let Some(calling) = self.calls.open.get_mut(&request) else { return };
        let Some(at) = calling.asked.remove(&ticket) else { return };
        let is_last = calling.asked.is_empty();
        match answer {
            Err(error) => self.no_input(request, NoInput::Refused { code: error.code() }, now),
            Ok(answer) if !self.has_room_for(0, answer.len()) => {
                let limit = self.config.limits.held;
                self.no_input(request, NoInput::TooLarge { limit }, now);
            }
            Ok(answer) => {
                self.calls.answer(request, at, answer);
                if is_last {
                    self.send_call_again(request, now);
                }
            }
        }
    }

    /// Ends the call on this side only: the protocol has no message that refuses input (MD-I-10).
    fn no_input(&mut self, request: RequestKey, reason: NoInput, now: Instant) {
        self.finish(request, Outcome::Failed(Failed::NoInput { reason }), now);
    }
}

/// One entry of `inputRequests`.
#[derive(Debug)]
struct Input {
    /// The key as JSON text, with the quotes.
    key: Json,
    method: Method,
    params: Option<Json>,
}

impl Input {
    /// Bytes that are reported to the application.
    fn len(&self) -> usize {
        self.params.as_ref().map_or(0, Json::len)
    }
}

/// Reads the `inputRequests` of a result of `whole` bytes, but at most `most + 1` entries (MD-I-03). `None` if an entry
/// is not a valid request or a key is repeated.
fn read_inputs(inputs: &Json, most: usize, whole: usize) -> Option<Vec<Input>> {
    let mut keys = BTreeSet::new();
    let mut read = Vec::new();
    for (key, entry) in inputs.entries() {
        let key = key?;
        let [method, params] = entry.first_members(["method", "params"]);
        let method = Method::from(&*method?.as_string()?);
        if method.facts().client_capability.is_none() || params.as_ref().is_some_and(|params| !params.is_object()) {
            return None;
        }
        let text = Json::from(&*key);
        if !keys.insert(key) {
            return None;
        }
        let params = params.map(|params| params.detached_from(whole));
        read.push(Input { key: text, method, params });
        if read.len() > most {
            break;
        }
    }
    Some(read)
}

/// The `inputResponses`: each answer under the key of its request (MD-I-05).
fn responses(inputs: &[(Json, Option<Json>)]) -> Json {
    let mut text = vec![b'{'];
    for (key, answer) in inputs {
        let Some(answer) = answer else { continue };
        if text.len() > 1 {
            text.push(b',');
        }
        text.extend_from_slice(key.as_bytes());
        text.push(b':');
        text.extend_from_slice(answer.as_bytes());
    }
    text.push(b'}');
    Json::from_validated(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::pending::Pending;

    #[test]
    fn nothing_is_kept_of_what_is_on_the_wire_no_longer() {
        let mut pending = Pending::new(None, 8);
        let (request, mut calls) = (pending.reserve(), Calls::default());
        calls.begin(HeldRequest { request, method: Method::TOOLS_CALL, params: None, is_unchanged: false });
        for is_last in [false, false, true] {
            let wire = pending.reserve();
            calls.put_on_wire(request, wire);
            assert_eq!((calls.owner(wire), calls.by_wire.len()), (Some(request), 1));
            if is_last {
                assert_eq!(calls.end(request).and_then(|ended| ended.wire), Some(wire));
            } else {
                calls.take_off_wire(request);
            }
            assert_eq!((calls.owner(wire), calls.by_wire.len()), (None, 0));
        }
    }
}
