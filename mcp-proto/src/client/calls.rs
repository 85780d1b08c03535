//! Requests, from their beginning to their outcome: those that the client makes for itself, and those of the application.
//! Each has exactly one outcome: an answer, a timeout, or that it was given up. In the modern era, one of the application
//! may need several JSON-RPC requests: to supply input, to use another revision, or to correct headers (RULES 8.5, 8.6,
//! MD-P-12). Their states are in `conversation/outgoing`.
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

use super::detection::supported_versions;
use super::event::{Event, Scope};
use super::restore::Settings;
use super::transport::{ClientTransport, Role};
use super::{Call, Client, ClientTimer, Purpose};
use crate::Instant;
use crate::conversation::call::AddedMeta;
use crate::conversation::cancellation;
use crate::conversation::keys::{RequestKey, TicketKey};
use crate::conversation::outcome::Outcome;
use crate::conversation::outgoing::{Attempts, NewRequest, OwnRequest, RequiredInput, Sending};
use crate::error::{Failed, Fault, InvalidResponse, NoInput, Quirk, Refusal};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, RequestId, Response};
use crate::limits::Limits;
use crate::spec::{Method, ProtocolVersion, SupportedVersions, code};

/// The first pause before a request whose interim result asks for no input is sent again (MD-I-06); it doubles.
const PAUSE: Duration = Duration::from_millis(250);
/// The maximum number of pages of `tools/list` that are fetched to get one schema.
const PAGES: usize = 32;

impl<T: ClientTransport> Client<T> {
    /// Whether there is room for `asked` bytes that the application has to answer and `kept` bytes for the next attempt
    /// of a call, in addition to everything that is unanswered (M3). A small request always fits if nothing is kept:
    /// the number of requests is bounded.
    pub(super) fn has_room_for(&self, asked: usize, kept: usize) -> bool {
        let is_small = kept == 0 && asked <= Limits::SMALL;
        is_small || self.config.limits.holds_beside(asked + kept, self.incoming.bytes() + self.outgoing.kept_bytes())
    }

    /// Whether a request must wait until the settings of the lost session are restored: over HTTP, two requests that
    /// change the same setting may overtake each other.
    pub(super) fn waits_for_settings(&self, method: &Method) -> bool {
        let is_restoring = self.connection.settings().is_some_and(Settings::is_restoring);
        is_restoring && method.facts().changes_setting.is_some()
    }

    pub(super) fn new_request(&self, call: Call, purpose: Purpose) -> NewRequest<Purpose> {
        let Call { method, params, timeout, progress, meta } = call;
        NewRequest {
            method,
            params: if progress { self.outgoing.with_progress_token(params) } else { params },
            purpose,
            meta,
            timeout: timeout.unwrap_or(self.config.request_timeout),
            max_timeout: self.config.max_timeout,
        }
    }

    /// Sends a request that the client makes for itself.
    pub(super) fn send_internal(&mut self, call: Call, purpose: Purpose, now: Instant) -> RequestKey {
        let request = self.new_request(call, purpose);
        let sending = self.outgoing.send(request, false, &mut self.timers, now);
        let request = sending.wire;
        self.send_request(request, request, &sending.into_message(), now);
        request
    }

    /// Sends the message of a request under its key on the wire, unless too many bytes wait already (K1).
    pub(super) fn send_request(&mut self, request: RequestKey, on_wire: RequestKey, message: &Message, now: Instant) {
        if self.takes(message.payload_len()) {
            self.with_transport(now, |transport, output| transport.send(message, Role::Request(on_wire), now, output));
        } else {
            self.refuse_unwritten(request, now);
        }
    }

    /// Sends a new request of the application.
    pub(super) fn send_now(&mut self, request: NewRequest<Purpose>, now: Instant) -> RequestKey {
        let sending = self.outgoing.send(request, self.connection.is_stateless(), &mut self.timers, now);
        let request = sending.wire;
        self.send_prepared(request, sending, now);
        request
    }

    /// Keeps a request of the application until it may be sent.
    pub(super) fn hold(&mut self, request: NewRequest<Purpose>, now: Instant) -> RequestKey {
        let is_taken = self.takes(request.params.as_ref().map_or(0, Json::len));
        let request = self.outgoing.hold(request, &mut self.timers, now);
        if is_taken {
            self.try_on_demand(now);
        } else {
            self.refuse_unwritten(request, now);
        }
        request
    }

    /// Sends a request of the application that has waited.
    pub(super) fn send_waiting(&mut self, request: RequestKey, now: Instant) {
        if let Some(sending) = self.outgoing.send_waiting(request, self.connection.is_stateless()) {
            self.send_prepared(request, sending, now);
        }
    }

    /// Sends a request again, under a new id (MD-I-08).
    pub(super) fn send_call_again(&mut self, request: RequestKey, now: Instant) {
        if let Some(sending) = self.outgoing.send_again(request, &mut self.timers, now) {
            self.send_prepared(request, sending, now);
        }
    }

    fn send_prepared(&mut self, request: RequestKey, mut sending: Sending, now: Instant) {
        match self.connection.stateless() {
            Some(stateless) => stateless.prepare(&self.connection.identity, &mut sending),
            None if sending.method.facts().changes_setting.is_some() => {
                self.note_setting(request, &sending.method, sending.params.as_ref());
            }
            None => {}
        }
        let wire = sending.wire;
        self.send_request(request, wire, &sending.into_message(), now);
    }

    /// A request of the modern era was answered.
    pub(super) fn on_call_answered(&mut self, request: RequestKey, response: Response, now: Instant) {
        let Some(meta) = self.outgoing.attempts(request).map(Attempts::meta) else { return };
        let is_unchanged = meta == AddedMeta::Nothing;
        match response {
            Response::Result { result, .. } if is_unchanged => self.finish(request, Outcome::Result(result), now),
            Response::Error { error, .. } => {
                let code = error.code();
                if code == code::UNSUPPORTED_PROTOCOL_VERSION && !is_unchanged {
                    self.correct_version(request, error, now);
                } else if code == code::HEADER_MISMATCH && self.can_fetch_tools(request) {
                    self.outgoing.fetch_tools(request);
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
                        self.report_quirk(Quirk::ResultTypeMissing);
                        self.finish_call(request, result, now);
                    }
                    (Some(_), Some("complete")) => self.finish_call(request, result, now),
                    (Some(_), Some("input_required")) => {
                        let method = self.outgoing.get(request).map(|request| &request.method);
                        let may = self.connection.stateless().zip(method);
                        if may.is_some_and(|(stateless, method)| stateless.may_require_input(method)) {
                            self.on_input_required(request, &result, now);
                        } else {
                            self.invalid(request, InvalidResponse::InputRequired, now);
                        }
                    }
                    // Other values come from extensions, and are valid only if the request declared any (JR-15).
                    (Some(_), Some(_)) if self.connection.identity.declares_extensions(meta) => {
                        self.finish_call(request, result, now);
                    }
                    (Some(_), Some(_) | None) => self.invalid(request, InvalidResponse::ResultType, now),
                }
            }
        }
    }

    fn finish_call(&mut self, request: RequestKey, result: Json, now: Instant) {
        // The result of a retry with input is never cached (MD-I-14).
        if self.outgoing.attempts(request).is_some_and(|attempts| attempts.rounds == 0) {
            if let Some(cache) = &mut self.cache {
                cache.store(request, &result, now);
            }
        }
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
        let version = SupportedVersions::new(&self.config.versions).in_common_with(&named).newest_modern();
        let is_new = |version: &ProtocolVersion| {
            self.outgoing.attempts_mut(request).is_some_and(|attempts| attempts.corrected.insert(*version))
        };
        let Some(version) = version.filter(is_new) else {
            return self.finish(request, Outcome::Error(error), now);
        };
        self.connection.establish_stateless(version);
        self.with_transport(now, |transport, output| transport.negotiated(version, output));
        self.send_call_again(request, now);
    }

    fn can_fetch_tools(&self, request: RequestKey) -> bool {
        let is_call = self.outgoing.get(request).is_some_and(|request| request.method == Method::TOOLS_CALL);
        let is_first = self.outgoing.attempts(request).is_some_and(|attempts| !attempts.has_fetched_tools);
        self.transport.repeats_arguments() && is_call && is_first
    }

    /// Fetches the schemas again, page by page, after which the call is sent once more (MD-P-12).
    fn fetch_tools(&mut self, request: RequestKey, cursor: Option<&Json>, page: usize, now: Instant) {
        let Some(stateless) = self.connection.stateless() else { return };
        let params = cursor.map(|cursor| Json::empty_object().with_member("cursor", cursor));
        let params = stateless.stamped(&self.connection.identity, params.as_ref());
        let call = Call::new(Method::TOOLS_LIST).params(params);
        self.send_internal(call, Purpose::Tools { call: request, page }, now);
    }

    /// The request for a page of tools has ended.
    pub(super) fn on_tools_fetched(&mut self, request: RequestKey, page: usize, outcome: &Outcome, now: Instant) {
        if self.outgoing.get(request).is_none() {
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
        // All unanswered requests share one limit on bytes (M3).
        let kept = inputs.iter().map(|input| input.key.len()).sum::<usize>() + state.as_ref().map_or(0, Json::len);
        let asked = inputs.iter().map(Input::len).sum::<usize>();
        if !self.has_room_for(asked, kept) {
            return self.no_input(request, NoInput::TooLarge { limit: self.config.limits.held }, now);
        }
        let limit = self.config.limits.input_rounds;
        let Some(attempts) = self.outgoing.attempts_mut(request) else { return };
        attempts.rounds += 1;
        let rounds = attempts.rounds;
        if rounds > limit {
            return self.no_input(request, NoInput::TooManyRounds { limit }, now);
        }
        if inputs.is_empty() {
            let doublings = u32::try_from(rounds - 1).unwrap_or(u32::MAX).min(5);
            self.outgoing.pause(request, state);
            self.timers.set(ClientTimer::InputRetry(request), now + PAUSE * 2_u32.pow(doublings));
            return;
        }
        if inputs.len() > room {
            let limit = self.config.limits.requests_in;
            self.out.report(Event::Faulted(Fault::TooManyRequests { limit }));
            return self.no_input(request, NoInput::TooMuch { limit }, now);
        }
        // A server must not ask for what the client did not declare (MD-I-04).
        if let Some(input) = inputs.iter().find(|input| !self.connection.identity.declares(&input.method)) {
            self.out.report(Event::Faulted(Fault::UnexpectedRequest { method: input.method.clone() }));
            return self.no_input(request, NoInput::NotDeclared, now);
        }
        self.ask(request, inputs, state);
    }

    /// Reports the input requests as if the server had sent them as JSON-RPC requests.
    fn ask(&mut self, request: RequestKey, inputs: Vec<Input>, state: Option<Json>) {
        let scope = Scope::Request(request);
        let entries = inputs.iter().map(|input| (input.key.clone(), None)).collect();
        let mut required = RequiredInput { entries, asked: BTreeMap::new(), state };
        self.pause_deadlines(scope);
        for (at, input) in inputs.into_iter().enumerate() {
            // An input request has no JSON-RPC id, so its position is used.
            let id = RequestId::from(i64::try_from(at).unwrap_or(i64::MAX));
            let ticket = self.incoming.insert(id, super::AskedWith::Input(request), input.len());
            required.asked.insert(ticket.key(), at);
            let Input { method, params, .. } = input;
            // Not `report_bounded`: one message may hold many input requests, and `requests_in` bounds their number.
            self.out.report(Event::Requested { ticket, scope, method, params });
        }
        self.outgoing.await_input(request, required);
    }

    /// The application has answered an input request.
    pub(super) fn on_input(
        &mut self,
        request: RequestKey,
        ticket: TicketKey,
        answer: Result<Json, ErrorObject>,
        now: Instant,
    ) {
        let Some(position) = self.outgoing.take_ticket(request, ticket) else { return };
        match answer {
            Err(error) => self.no_input(request, NoInput::Refused { code: error.code() }, now),
            Ok(answer) if !self.has_room_for(0, answer.len()) => {
                let limit = self.config.limits.held;
                self.no_input(request, NoInput::TooLarge { limit }, now);
            }
            Ok(answer) => {
                if self.outgoing.provide(request, position, answer) {
                    self.send_call_again(request, now);
                }
            }
        }
    }

    /// Ends the call on this side only: the protocol has no message that refuses input (MD-I-10).
    fn no_input(&mut self, request: RequestKey, reason: NoInput, now: Instant) {
        self.finish(request, Outcome::Failed(Failed::NoInput { reason }), now);
    }

    pub(super) fn on_answer_timeout(&mut self, request: RequestKey, now: Instant) {
        let Some(waiting) = self.outgoing.get(request) else { return };
        let reason = Failed::TimedOut { after: waiting.timeout };
        if self.connection.phase.opening() == Some(request) {
            // `initialize` and `server/discover` are never cancelled (LC-14, ER-07).
            self.with_transport(now, |transport, output| transport.abandon(request, now, output));
            self.on_opening_outcome(Outcome::Failed(reason), now);
            return;
        }
        // A request that has timed out is cancelled (TO-02).
        let params = cancellation::params(Some("timed out"));
        self.give_up(request, reason, &params, now);
    }

    /// The transport will send a request again after `retry_in`, as the server asked. A request whose timeout ends before that
    /// fails at once, with what the server said.
    pub(super) fn on_postponed(&mut self, on_wire: RequestKey, refusal: Refusal, retry_in: Duration, now: Instant) {
        let is_opening = self.connection.phase.opening() == Some(on_wire);
        let owner = if is_opening { Some(on_wire) } else { self.outgoing.owner(on_wire) };
        let Some(request) = owner else { return };
        let subscription = self.subscription(request).map(ClientTimer::Acknowledged);
        let deadline = self.timers.get(request.into()).or_else(|| self.timers.get(subscription?));
        if deadline.is_some_and(|deadline| deadline <= now + retry_in) {
            self.with_transport(now, |transport, output| transport.abandon(on_wire, now, output));
            let outcome = Outcome::Failed(Failed::Refused(refusal));
            return if is_opening { self.on_opening_outcome(outcome, now) } else { self.finish(request, outcome, now) };
        }
        if self.is_internal(request) {
            return;
        }
        let text = format!("the server answered {} and asked to wait {} s", refusal.status, retry_in.as_secs().max(1));
        if let Some(params) = self.outgoing.progress_of_wait(request, &text) {
            self.report_bounded(Event::Progressed { request, params }, now);
        }
        self.out.report(Event::Postponed { request: Some(request).filter(|_| !is_opening), refusal, retry_in });
    }

    /// Ends a request from this side, and notifies the server if the request was sent.
    pub(super) fn give_up(&mut self, request: RequestKey, reason: Failed, params: &Json, now: Instant) {
        if self.connection.phase.opening() == Some(request) {
            return;
        }
        let Some(given_up) = self.outgoing.give_up(request, &mut self.timers) else { return };
        self.withdraw_input(request, &given_up);
        if let Some(on_wire) = given_up.on_wire() {
            let notice = cancellation::notice(on_wire, params);
            self.with_transport(now, |transport, output| transport.cancel(on_wire, &notice, now, output));
        }
        self.report_outcome(request, given_up.purpose, Outcome::Failed(reason), now);
    }

    pub(super) fn finish(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let Some(ended) = self.outgoing.remove(request, &mut self.timers) else { return };
        self.withdraw_input(request, &ended);
        self.report_outcome(request, ended.purpose, outcome, now);
    }

    /// Withdraws the unanswered input requests of a request that has ended.
    fn withdraw_input(&mut self, request: RequestKey, ended: &OwnRequest<Purpose>) {
        self.timers.clear(ClientTimer::InputRetry(request));
        for ticket in ended.asked() {
            if self.incoming.remove(ticket).is_some() {
                self.out.report(Event::RequestCancelled { ticket, params: Json::empty_object() });
            }
        }
    }

    fn report_outcome(&mut self, request: RequestKey, purpose: Purpose, outcome: Outcome, now: Instant) {
        if let Some(cache) = &mut self.cache {
            cache.forget(request);
        }
        match purpose {
            Purpose::Application | Purpose::Opening => {
                if self.connection.settings().is_some() {
                    self.note_outcome(request, &outcome, now);
                }
                self.out.report(Event::Responded { request, outcome });
            }
            Purpose::Subscription(subscription) => self.on_listen_outcome(subscription, outcome, now),
            Purpose::Tools { call, page } => self.on_tools_fetched(call, page, &outcome, now),
            Purpose::Restoring => self.on_restored(request, outcome, now),
        }
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
