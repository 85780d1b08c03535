//! This side's own requests: one table, in which each request has one state.
//!
//! ```text
//!                send              result, error, failure
//!  Waiting ─────────────▶ Sent ────────────────────────────▶ removed
//!                         │  ▲
//!     asked for input,    │  │ send_again, under a new id
//!     a pause, a fetch    ▼  │
//!               AwaitingInput, Pausing, FetchingTools
//! ```
//!
//! A local key is never used again, and an id on the wire is a key, so a late response cannot match a newer request
//! (RP16). The table updates its indices and sums itself. It sets and moves the deadline of each request, in the caller's
//! set of timers, in which a [`RequestKey`] becomes a key of the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Bound;
use std::time::Duration;

use crate::Instant;
use crate::collections::deadlines::Deadlines;
use crate::conversation::call::AddedMeta;
use crate::conversation::given_up::GivenUp;
use crate::conversation::keys::{InstanceId, RequestKey, SessionKey, TicketKey};
use crate::error::UsageError;
use crate::json::Json;
use crate::jsonrpc::{Message, Request, RequestId};
use crate::spec::meta::stamp;
use crate::spec::{Method, ProtocolVersion};

/// All own requests that have no outcome yet. `P` is the purpose of a request.
#[derive(Debug)]
pub(crate) struct Outgoing<P> {
    session: Option<SessionKey>,
    /// The instance that makes the requests, if their ids name it.
    instance: Option<InstanceId>,
    next: u64,
    requests: BTreeMap<RequestKey, OwnRequest<P>>,
    indices: Indices,
    by_token: BTreeMap<RequestId, RequestKey>,
    /// Requests with progress that was not reported.
    unreported: BTreeSet<RequestKey>,
    given_up: GivenUp,
}

/// A request to be added to the table.
#[derive(Debug)]
pub(crate) struct NewRequest<P> {
    pub(crate) method: Method,
    pub(crate) params: Option<Json>,
    pub(crate) purpose: P,
    pub(crate) meta: AddedMeta,
    pub(crate) timeout: Duration,
    /// The maximum time for the answer, whatever progress is made.
    pub(crate) max_timeout: Duration,
}

/// An own request without an outcome.
#[derive(Debug)]
pub(crate) struct OwnRequest<P> {
    pub(crate) method: Method,
    pub(crate) purpose: P,
    pub(crate) timeout: Duration,
    /// TO-03: progress may extend the deadline up to this time.
    latest: Instant,
    token: Option<RequestId>,
    /// The newest progress that was not reported because there was no room (RP12).
    progress: Option<Json>,
    /// How often the peer has asked to wait before it handles the request.
    waits: u32,
    state: OwnRequestState,
}

#[derive(Debug)]
enum OwnRequestState {
    /// It waits until it may be sent.
    Waiting(Payload),
    /// The request is on the wire under this key. `attempts` is kept if the request may be sent again.
    Sent { wire: RequestKey, attempts: Option<Attempts> },
    /// The peer requires input, and the application has not provided all of it.
    AwaitingInput { attempts: Attempts, input: RequiredInput },
    /// It is sent again after a pause, with this `requestState` (MD-I-07).
    Pausing { attempts: Attempts, state: Option<Json> },
    /// It is sent again after this side has fetched the schemas of tools.
    FetchingTools { attempts: Attempts },
}

/// The parameters of a request, as the application set them.
#[derive(Debug, Default)]
struct Payload {
    params: Option<Json>,
    meta: AddedMeta,
}

/// A request that may have to be sent several times.
#[derive(Debug)]
pub(crate) struct Attempts {
    payload: Payload,
    /// The number of times that the peer has asked for input.
    pub(crate) rounds: usize,
    /// Revisions that were tried because the peer named them, each once (MD-V-02).
    pub(crate) corrected: BTreeSet<ProtocolVersion>,
    /// The schemas were fetched again after a header mismatch, which happens once per request (MD-P-12).
    pub(crate) has_fetched_tools: bool,
}

/// The input that the next attempt of a request needs.
#[derive(Debug)]
pub(crate) struct RequiredInput {
    /// The keys of the input requests, as received, and the answers.
    pub(crate) entries: Vec<(Json, Option<Json>)>,
    /// The tickets of the unanswered ones, with their positions in `entries`.
    pub(crate) asked: BTreeMap<TicketKey, usize>,
    /// The `requestState` that the next attempt repeats (MD-I-07).
    pub(crate) state: Option<Json>,
}

/// The data for sending a request once.
#[derive(Debug)]
pub(crate) struct Sending {
    /// Its key on the wire.
    pub(crate) wire: RequestKey,
    pub(crate) method: Method,
    pub(crate) params: Option<Json>,
    pub(crate) meta: AddedMeta,
    /// The answers to input requests by their keys; `None` if there were no such requests.
    pub(crate) input: Option<Vec<(Json, Option<Json>)>>,
    /// The `requestState` of the earlier attempt.
    pub(crate) state: Option<Json>,
}

impl<P> Outgoing<P> {
    pub(crate) const fn new(session: Option<SessionKey>, tombstones: usize) -> Self {
        Self {
            session,
            instance: None,
            // Some peers treat an id of 0 as no id.
            next: 1,
            requests: BTreeMap::new(),
            indices: Indices::new(),
            by_token: BTreeMap::new(),
            unreported: BTreeSet::new(),
            given_up: GivenUp::new(tombstones),
        }
    }

    /// The same table, whose requests have ids that name this instance.
    pub(crate) fn of_instance(self, instance: Option<InstanceId>) -> Self {
        Self { instance, ..self }
    }

    pub(crate) const fn next_number(&self) -> u64 {
        self.next
    }

    /// Sets the number of the next request, so that no id is used again.
    pub(crate) const fn continue_at(&mut self, number: u64) {
        self.next = number;
    }

    pub(crate) const fn next_key(&self) -> RequestKey {
        RequestKey::new(self.session, self.instance, self.next)
    }

    /// Takes the key of a request that is answered without being sent.
    pub(crate) const fn take_key(&mut self) -> RequestKey {
        let key = self.next_key();
        self.next += 1;
        key
    }

    /// Adds a progress token to the parameters of the next request, unless they have one already (PR-01).
    pub(crate) fn with_progress_token(&self, params: Option<Json>) -> Option<Json> {
        if progress_token(params.as_ref()).is_some() {
            return params;
        }
        let token = self.next_key().to_wire().to_json();
        Some(stamp(&params.unwrap_or(Json::empty_object()), &[("progressToken", &token)]))
    }

    /// Adds a request that waits until it may be sent, and sets its deadline.
    pub(crate) fn hold<K: From<RequestKey> + Ord + Copy>(
        &mut self,
        mut request: NewRequest<P>,
        deadlines: &mut Deadlines<K>,
        now: Instant,
    ) -> RequestKey {
        let token = progress_token(request.params.as_ref());
        let state = OwnRequestState::Waiting(request.take_payload());
        self.insert(request, token, state, deadlines, now)
    }

    /// Adds a request that is sent now, and sets its deadline. If `is_kept`, it can be sent again.
    pub(crate) fn send<K: From<RequestKey> + Ord + Copy>(
        &mut self,
        mut request: NewRequest<P>,
        is_kept: bool,
        deadlines: &mut Deadlines<K>,
        now: Instant,
    ) -> Sending {
        let wire = self.next_key();
        let token = progress_token(request.params.as_ref());
        let method = request.method.clone();
        let (sending, attempts) = request.take_payload().first(wire, method, is_kept);
        self.insert(request, token, OwnRequestState::Sent { wire, attempts }, deadlines, now);
        sending
    }

    /// Sends a request that waits. If `is_kept`, it can be sent again.
    pub(crate) fn send_waiting(&mut self, key: RequestKey, is_kept: bool) -> Option<Sending> {
        self.change(key, |method, state| match state {
            OwnRequestState::Waiting(payload) => {
                let (sending, attempts) = payload.first(key, method.clone(), is_kept);
                (OwnRequestState::Sent { wire: key, attempts }, Some(sending))
            }
            state @ (OwnRequestState::Sent { .. }
            | OwnRequestState::AwaitingInput { .. }
            | OwnRequestState::Pausing { .. }
            | OwnRequestState::FetchingTools { .. }) => (state, None),
        })
    }

    /// Sends a request again, under a new id (MD-I-08). Input and `requestState` belong to this attempt only (MD-I-05,
    /// MD-I-09).
    pub(crate) fn send_again<K: From<RequestKey> + Ord + Copy>(
        &mut self,
        key: RequestKey,
        deadlines: &mut Deadlines<K>,
        now: Instant,
    ) -> Option<Sending> {
        let wire = self.next_key();
        let sending = self.change(key, |method, state| {
            let (attempts, input, state) = match state {
                OwnRequestState::Sent { attempts: Some(attempts), .. }
                | OwnRequestState::FetchingTools { attempts } => (attempts, None, None),
                OwnRequestState::AwaitingInput { attempts, input } => (attempts, Some(input.entries), input.state),
                OwnRequestState::Pausing { attempts, state } => (attempts, None, state),
                state @ (OwnRequestState::Waiting(_) | OwnRequestState::Sent { attempts: None, .. }) => {
                    return (state, None);
                }
            };
            let Payload { params, meta } = &attempts.payload;
            let (params, meta) = (params.clone(), *meta);
            let sending = Sending { wire, method: method.clone(), params, meta, input, state };
            (OwnRequestState::Sent { wire, attempts: Some(attempts) }, Some(sending))
        })?;
        self.next += 1;
        self.extend(key, deadlines, now);
        Some(sending)
    }

    /// The peer has asked for input before it continues with a request, which is no longer on the wire.
    pub(crate) fn await_input(&mut self, key: RequestKey, input: RequiredInput) {
        self.take_off_wire(key, |attempts| OwnRequestState::AwaitingInput { attempts, input });
    }

    /// A request that is no longer on the wire is sent again after a pause, with this `requestState`.
    pub(crate) fn pause(&mut self, key: RequestKey, state: Option<Json>) {
        self.take_off_wire(key, |attempts| OwnRequestState::Pausing { attempts, state });
    }

    /// A request that is no longer on the wire is sent again after the schemas of tools were fetched.
    pub(crate) fn fetch_tools(&mut self, key: RequestKey) {
        self.take_off_wire(key, |attempts| OwnRequestState::FetchingTools {
            attempts: Attempts { has_fetched_tools: true, ..attempts },
        });
    }

    /// From now on, the answers to all requests are interpreted.
    pub(crate) fn interpret_answers(&mut self) {
        for request in self.requests.values_mut() {
            match &mut request.state {
                OwnRequestState::Waiting(payload) => payload.interpret(),
                OwnRequestState::Sent { attempts: None, .. } => {}
                OwnRequestState::Sent { attempts: Some(attempts), .. }
                | OwnRequestState::AwaitingInput { attempts, .. }
                | OwnRequestState::Pausing { attempts, .. }
                | OwnRequestState::FetchingTools { attempts } => attempts.payload.interpret(),
            }
        }
    }

    /// Consumes the ticket of an input request; returns the position of its answer.
    pub(crate) fn take_ticket(&mut self, key: RequestKey, ticket: TicketKey) -> Option<usize> {
        let OwnRequestState::AwaitingInput { input, .. } = &mut self.requests.get_mut(&key)?.state else { return None };
        input.asked.remove(&ticket)
    }

    /// Stores the answer to an input request; returns whether all input requests of the request are answered.
    pub(crate) fn provide(&mut self, key: RequestKey, position: usize, answer: Json) -> bool {
        let Some(OwnRequest { state: OwnRequestState::AwaitingInput { input, .. }, .. }) = self.requests.get_mut(&key)
        else {
            return false;
        };
        if let Some((_, slot)) = input.entries.get_mut(position) {
            self.indices.kept_bytes += answer.len();
            *slot = Some(answer);
        }
        input.asked.is_empty()
    }

    /// Removes a request because it was answered or has failed.
    pub(crate) fn remove<K: From<RequestKey> + Ord + Copy>(
        &mut self,
        key: RequestKey,
        deadlines: &mut Deadlines<K>,
    ) -> Option<OwnRequest<P>> {
        let request = self.requests.remove(&key)?;
        self.indices.remove(key, &request.state);
        if let Some(token) = &request.token {
            if self.by_token.get(token) == Some(&key) {
                self.by_token.remove(token);
            }
        }
        if request.progress.is_some() {
            self.unreported.remove(&key);
        }
        deadlines.clear(key.into());
        Some(request)
    }

    /// Removes a request whose response may still arrive.
    pub(crate) fn give_up<K: From<RequestKey> + Ord + Copy>(
        &mut self,
        key: RequestKey,
        deadlines: &mut Deadlines<K>,
    ) -> Option<OwnRequest<P>> {
        let request = self.remove(key, deadlines)?;
        self.given_up.insert(key, key);
        if let Some(wire) = request.on_wire().filter(|wire| *wire != key) {
            self.given_up.insert(wire, key);
        }
        Some(request)
    }

    /// Finds the request that a progress notification is about, and extends its deadline up to the maximum (TO-03).
    pub(crate) fn on_progress<K: From<RequestKey> + Ord + Copy>(
        &self,
        params: Option<&Json>,
        deadlines: &mut Deadlines<K>,
        now: Instant,
    ) -> Option<RequestKey> {
        let token = params?.first_member("progressToken")?;
        let key = *self.by_token.get(&RequestId::from_json_text(token.as_bytes())?)?;
        self.extend(key, deadlines, now);
        Some(key)
    }

    /// The progress of a request that the peer has not begun to handle, and asked to make again later; `None` if progress
    /// was not asked for. It increases, and stays below that of the peer, which begins with zero or more (PR-02).
    pub(crate) fn progress_of_wait(&mut self, key: RequestKey, text: &str) -> Option<Json> {
        let request = self.requests.get_mut(&key)?;
        let token = request.token.as_ref()?.to_json();
        request.waits = request.waits.saturating_add(1);
        let progress = Json::from(-1.0 / f64::from(request.waits));
        let members = [("progressToken", &token), ("progress", &progress), ("message", &Json::from(text))];
        Some(Json::empty_object().with_members(&members))
    }

    /// Keeps progress that cannot be reported now; returns whether earlier progress of the request is lost.
    pub(crate) fn keep_progress(&mut self, key: RequestKey, params: Json) -> bool {
        let Some(request) = self.requests.get_mut(&key) else { return false };
        self.unreported.insert(key);
        request.progress.replace(params).is_some()
    }

    /// The next progress that was not reported.
    pub(crate) fn take_progress(&mut self) -> Option<(RequestKey, Json)> {
        let key = self.unreported.pop_first()?;
        Some((key, self.requests.get_mut(&key)?.progress.take()?))
    }

    /// Sets the deadline of a request to its timeout from now on, up to the maximum.
    pub(crate) fn extend<K: From<RequestKey> + Ord + Copy>(
        &self,
        key: RequestKey,
        deadlines: &mut Deadlines<K>,
        now: Instant,
    ) {
        if let Some(request) = self.requests.get(&key) {
            deadlines.set(key.into(), (now + request.timeout).min(request.latest));
        }
    }

    /// Sets the deadline of a request as if it were made now: the time before does not count.
    pub(crate) fn restart<K: From<RequestKey> + Ord + Copy>(
        &self,
        key: RequestKey,
        deadlines: &mut Deadlines<K>,
        now: Instant,
    ) {
        if let Some(request) = self.requests.get(&key) {
            deadlines.set(key.into(), now + request.timeout);
        }
    }

    /// Sets the deadline of a request to the maximum while the peer waits for an answer, which a person may have to give
    /// (TO-04).
    pub(crate) fn extend_to_latest<K: From<RequestKey> + Ord + Copy>(
        &self,
        key: RequestKey,
        deadlines: &mut Deadlines<K>,
    ) {
        if let Some(request) = self.requests.get(&key) {
            deadlines.set(key.into(), request.latest);
        }
    }

    /// What is kept of a request that may be sent again.
    pub(crate) fn attempts_mut(&mut self, key: RequestKey) -> Option<&mut Attempts> {
        match &mut self.requests.get_mut(&key)?.state {
            OwnRequestState::Waiting(_) | OwnRequestState::Sent { attempts: None, .. } => None,
            OwnRequestState::Sent { attempts: Some(attempts), .. }
            | OwnRequestState::AwaitingInput { attempts, .. }
            | OwnRequestState::Pausing { attempts, .. }
            | OwnRequestState::FetchingTools { attempts } => Some(attempts),
        }
    }

    pub(crate) fn attempts(&self, key: RequestKey) -> Option<&Attempts> {
        match &self.requests.get(&key)?.state {
            OwnRequestState::Waiting(_) | OwnRequestState::Sent { attempts: None, .. } => None,
            OwnRequestState::Sent { attempts: Some(attempts), .. }
            | OwnRequestState::AwaitingInput { attempts, .. }
            | OwnRequestState::Pausing { attempts, .. }
            | OwnRequestState::FetchingTools { attempts } => Some(attempts),
        }
    }

    pub(crate) fn get(&self, key: RequestKey) -> Option<&OwnRequest<P>> {
        self.requests.get(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestKey, &OwnRequest<P>)> {
        self.requests.iter().map(|(key, request)| (*key, request))
    }

    pub(crate) fn keys(&self) -> Vec<RequestKey> {
        self.requests.keys().copied().collect()
    }

    /// The requests that wait, in the order in which they were made.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &OwnRequest<P>> {
        self.indices.waiting.iter().filter_map(|key| self.requests.get(key))
    }

    /// The first request that waits, after this one.
    pub(crate) fn next_waiting(&self, after: Option<RequestKey>) -> Option<(RequestKey, &OwnRequest<P>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let key = *self.indices.waiting.range((from, Bound::Unbounded)).next()?;
        Some((key, self.requests.get(&key)?))
    }

    pub(crate) fn waiting_len(&self) -> usize {
        self.indices.waiting.len()
    }

    /// Bytes of the parameters of requests that wait.
    pub(crate) const fn waiting_bytes(&self) -> usize {
        self.indices.waiting_bytes
    }

    /// Bytes that are kept for the next attempts of requests, in addition to their parameters.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.indices.kept_bytes
    }

    /// Finds the request that a response with this id answers. The id must match exactly, in type and value (C8).
    pub(crate) fn find(&self, id: &RequestId) -> Match {
        let Some(wire) = RequestKey::from_wire(id, self.session) else { return Match::Unknown };
        match self.owner(wire) {
            Some(request) => Match::Open(request),
            None if self.given_up.contains(&wire) => Match::Late,
            None => Match::Unknown,
        }
    }

    /// Whether a response with this id answers this request.
    pub(crate) fn is_named(&self, request: RequestKey, id: &RequestId) -> bool {
        RequestKey::from_wire(id, self.session) == Some(request)
    }

    /// A response to a request that was given up has arrived.
    pub(crate) fn on_late_answer(&mut self, id: &RequestId) {
        if let Some(wire) = RequestKey::from_wire(id, self.session) {
            self.given_up.on_answered(&wire);
        }
    }

    /// Whether a response to a request that was given up has arrived.
    pub(crate) fn is_answered_late(&self, request: RequestKey) -> bool {
        self.given_up.is_answered(&request)
    }

    /// The key on the wire of the request that a response with this id answers; `None` if there is none.
    pub(crate) fn on_wire(&self, id: &RequestId) -> Option<RequestKey> {
        RequestKey::from_wire(id, self.session).filter(|wire| self.owner(*wire).is_some())
    }

    /// The request that has this key on the wire.
    pub(crate) fn owner(&self, wire: RequestKey) -> Option<RequestKey> {
        let key = self.indices.by_wire.get(&wire).copied().unwrap_or(wire);
        self.requests.get(&key).filter(|request| request.on_wire() == Some(wire)).map(|_| key)
    }

    fn insert<K: From<RequestKey> + Ord + Copy>(
        &mut self,
        request: NewRequest<P>,
        token: Option<RequestId>,
        state: OwnRequestState,
        deadlines: &mut Deadlines<K>,
        now: Instant,
    ) -> RequestKey {
        let NewRequest { method, purpose, timeout, max_timeout, .. } = request;
        let key = self.next_key();
        self.next += 1;
        if let Some(token) = &token {
            self.by_token.insert(token.clone(), key);
        }
        self.indices.insert(key, &state);
        let latest = now + max_timeout.max(timeout);
        self.requests
            .insert(key, OwnRequest { method, purpose, timeout, latest, token, progress: None, waits: 0, state });
        deadlines.set(key.into(), now + timeout);
        key
    }

    fn take_off_wire(&mut self, key: RequestKey, to: impl FnOnce(Attempts) -> OwnRequestState) {
        self.change(key, |_, state| match state {
            OwnRequestState::Sent { attempts: Some(attempts), .. } => (to(attempts), Some(())),
            state @ (OwnRequestState::Waiting(_)
            | OwnRequestState::Sent { attempts: None, .. }
            | OwnRequestState::AwaitingInput { .. }
            | OwnRequestState::Pausing { .. }
            | OwnRequestState::FetchingTools { .. }) => (state, None),
        });
    }

    /// Moves a request to another state, and updates the indices.
    fn change<R>(
        &mut self,
        key: RequestKey,
        to: impl FnOnce(&Method, OwnRequestState) -> (OwnRequestState, Option<R>),
    ) -> Option<R> {
        let request = self.requests.get_mut(&key)?;
        self.indices.remove(key, &request.state);
        let before = mem::replace(&mut request.state, OwnRequestState::Waiting(Payload::default()));
        let (after, value) = to(&request.method, before);
        self.indices.insert(key, &after);
        request.state = after;
        value
    }
}

impl Sending {
    pub(crate) fn into_message(self) -> Message {
        Message::Request(Request { id: self.wire.to_wire(), method: self.method, params: self.params })
    }
}

impl<P> NewRequest<P> {
    fn take_payload(&mut self) -> Payload {
        Payload { params: self.params.take(), meta: self.meta }
    }
}

impl<P> OwnRequest<P> {
    /// The key that it has on the wire now.
    pub(crate) const fn on_wire(&self) -> Option<RequestKey> {
        self.state.on_wire()
    }

    /// The tickets of the input that the application has not provided.
    pub(crate) fn asked(&self) -> impl Iterator<Item = TicketKey> {
        let input = if let OwnRequestState::AwaitingInput { input, .. } = &self.state { Some(input) } else { None };
        input.into_iter().flat_map(|input| input.asked.keys().copied())
    }
}

impl OwnRequestState {
    const fn on_wire(&self) -> Option<RequestKey> {
        match self {
            Self::Sent { wire, .. } => Some(*wire),
            Self::Waiting(_) | Self::AwaitingInput { .. } | Self::Pausing { .. } | Self::FetchingTools { .. } => None,
        }
    }

    /// Bytes of the parameters of a request that waits.
    fn waiting(&self) -> Option<usize> {
        match self {
            Self::Waiting(payload) => Some(payload.params.as_ref().map_or(0, Json::len)),
            Self::Sent { .. } | Self::AwaitingInput { .. } | Self::Pausing { .. } | Self::FetchingTools { .. } => None,
        }
    }

    /// Bytes that are kept for the next attempt, in addition to the parameters.
    fn kept(&self) -> usize {
        let len = |json: &Option<Json>| json.as_ref().map_or(0, Json::len);
        match self {
            Self::Waiting(_) | Self::Sent { .. } | Self::FetchingTools { .. } => 0,
            Self::AwaitingInput { input, .. } => {
                let entries = input.entries.iter().map(|(key, answer)| key.len() + len(answer));
                entries.sum::<usize>() + len(&input.state)
            }
            Self::Pausing { state, .. } => len(state),
        }
    }
}

impl Payload {
    /// The data for the first attempt, and the data that is kept for further ones.
    fn first(self, wire: RequestKey, method: Method, is_kept: bool) -> (Sending, Option<Attempts>) {
        let Self { params, meta } = self;
        let attempts = is_kept.then(|| Attempts {
            payload: Self { params: params.clone(), meta },
            rounds: 0,
            corrected: BTreeSet::new(),
            has_fetched_tools: false,
        });
        (Sending { wire, method, params, meta, input: None, state: None }, attempts)
    }

    fn interpret(&mut self) {
        if self.meta == AddedMeta::Nothing {
            self.meta = AddedMeta::Identity;
        }
    }
}

impl Attempts {
    pub(crate) const fn meta(&self) -> AddedMeta {
        self.payload.meta
    }
}

/// What follows from the states of all requests.
#[derive(Debug)]
struct Indices {
    /// Requests whose key on the wire is not their own key, by the key on the wire.
    by_wire: BTreeMap<RequestKey, RequestKey>,
    /// Requests that wait. The order of their keys is the order in which they were made.
    waiting: BTreeSet<RequestKey>,
    /// Bytes of the parameters of requests that wait.
    waiting_bytes: usize,
    /// Bytes that are kept for the next attempts of requests, in addition to their parameters.
    kept_bytes: usize,
}

impl Indices {
    const fn new() -> Self {
        Self { by_wire: BTreeMap::new(), waiting: BTreeSet::new(), waiting_bytes: 0, kept_bytes: 0 }
    }

    fn insert(&mut self, key: RequestKey, state: &OwnRequestState) {
        if let Some(wire) = state.on_wire().filter(|wire| *wire != key) {
            self.by_wire.insert(wire, key);
        }
        if let Some(bytes) = state.waiting() {
            self.waiting.insert(key);
            self.waiting_bytes += bytes;
        }
        self.kept_bytes += state.kept();
    }

    fn remove(&mut self, key: RequestKey, state: &OwnRequestState) {
        if let Some(wire) = state.on_wire().filter(|wire| *wire != key) {
            self.by_wire.remove(&wire);
        }
        if let Some(bytes) = state.waiting() {
            self.waiting.remove(&key);
            self.waiting_bytes -= bytes;
        }
        self.kept_bytes -= state.kept();
    }
}

/// How an incoming response is classified by its id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The response to this open request.
    Open(RequestKey),
    /// The request was cancelled or timed out.
    Late,
    /// There was no such request, or it was answered before.
    Unknown,
}

/// Reads `_meta.progressToken` of a request's parameters (PR-01).
pub(crate) fn progress_token(params: Option<&Json>) -> Option<RequestId> {
    let token = params?.first_member("_meta")?.first_member("progressToken")?;
    RequestId::from_json_text(token.as_bytes())
}

/// Parameters must be an object (JR-12).
pub(crate) fn check_params(params: Option<&Json>) -> Result<(), UsageError> {
    if params.is_some_and(|params| !params.is_object()) {
        Err(UsageError::NotAnObject { what: "the value of params" })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::incoming::Incoming;

    const TIMEOUT: Duration = Duration::from_secs(10);

    struct Table {
        outgoing: Outgoing<&'static str>,
        deadlines: Deadlines<RequestKey>,
        now: Instant,
    }

    fn table(tombstones: usize) -> Table {
        let outgoing = Outgoing::new(None, tombstones);
        Table { outgoing, deadlines: Deadlines::new(), now: Instant::START }
    }

    fn request(params: &str) -> NewRequest<&'static str> {
        NewRequest {
            method: Method::TOOLS_CALL,
            params: Some(json(params)),
            purpose: "a test",
            meta: AddedMeta::Identity,
            timeout: TIMEOUT,
            max_timeout: 3 * TIMEOUT,
        }
    }

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    impl Table {
        fn hold(&mut self, params: &str) -> RequestKey {
            self.outgoing.hold(request(params), &mut self.deadlines, self.now)
        }

        fn send(&mut self) -> RequestKey {
            self.outgoing.send(request("{}"), true, &mut self.deadlines, self.now).wire
        }

        fn send_again(&mut self, key: RequestKey) -> Option<Sending> {
            self.outgoing.send_again(key, &mut self.deadlines, self.now)
        }

        fn remove(&mut self, key: RequestKey) -> Option<OwnRequest<&'static str>> {
            self.outgoing.remove(key, &mut self.deadlines)
        }

        fn give_up(&mut self, key: RequestKey) -> Option<OwnRequest<&'static str>> {
            self.outgoing.give_up(key, &mut self.deadlines)
        }

        /// Checks that nothing is left of any request.
        fn check_empty(&self) {
            let Indices { by_wire, waiting, waiting_bytes, kept_bytes } = &self.outgoing.indices;
            assert!(by_wire.is_empty() && waiting.is_empty() && (*waiting_bytes, *kept_bytes) == (0, 0));
            let Outgoing { requests, by_token, unreported, .. } = &self.outgoing;
            assert!(requests.is_empty() && by_token.is_empty() && unreported.is_empty());
            assert_eq!(self.deadlines.len(), 0);
        }
    }

    #[test]
    fn requests_that_wait_are_sent_in_order_and_counted_until_then() {
        let mut table = table(8);
        let [first, second, third] = ["[1]", "[22]", "[333]"].map(|params| table.hold(params));
        assert_eq!((table.outgoing.waiting_len(), table.outgoing.waiting_bytes()), (3, 12));
        assert_eq!(table.outgoing.find(&second.to_wire()), Match::Unknown, "it is not on the wire");
        let next = |table: &Table, after| table.outgoing.next_waiting(after).map(|(key, _)| key);
        assert_eq!(next(&table, None), Some(first));
        let sending = table.outgoing.send_waiting(first, true).unwrap();
        assert_eq!((sending.wire, sending.params), (first, Some(json("[1]"))));
        assert!(table.outgoing.send_waiting(first, true).is_none(), "it does not wait any more");
        assert_eq!(next(&table, Some(first)), Some(second));
        assert_eq!(next(&table, Some(second)), Some(third));
        assert_eq!((table.outgoing.waiting_len(), table.outgoing.waiting_bytes()), (2, 9));
        for key in [second, first, third] {
            assert!(table.remove(key).is_some() && table.remove(key).is_none());
        }
        table.check_empty();
    }

    #[test]
    fn rp16_a_request_is_found_only_by_the_id_that_it_has_on_the_wire_now() {
        let mut table = table(8);
        let key = table.send();
        let mut wire = key;
        for is_last in [false, false, true] {
            assert_eq!(table.outgoing.find(&wire.to_wire()), Match::Open(key));
            assert_eq!(table.outgoing.on_wire(&wire.to_wire()), Some(wire));
            assert_eq!(table.outgoing.indices.by_wire.len(), usize::from(wire != key));
            table.outgoing.pause(key, Some(json("\"state\"")));
            assert_eq!(table.outgoing.find(&wire.to_wire()), Match::Unknown);
            assert_eq!((table.outgoing.kept_bytes(), table.outgoing.owner(wire)), (7, None));
            if !is_last {
                let sending = table.send_again(key).unwrap();
                assert_eq!((sending.params, sending.state), (Some(json("{}")), Some(json("\"state\""))));
                wire = sending.wire;
                assert_eq!(table.outgoing.kept_bytes(), 0);
            }
        }
        assert_eq!(table.remove(key).unwrap().on_wire(), None);
        table.check_empty();
    }

    #[test]
    fn the_input_for_the_next_attempt_is_counted_until_that_is_sent_or_the_request_ends() {
        for is_sent in [false, true] {
            let (mut table, mut incoming) = (table(8), Incoming::new(None));
            let key = table.send();
            let tickets = [0, 1].map(|id| incoming.insert(RequestId::from(id), (), 0).key());
            let entries = vec![(json("\"a\""), None), (json("\"b\""), None)];
            let asked = tickets.into_iter().zip(0..).collect();
            table.outgoing.await_input(key, RequiredInput { entries, asked, state: Some(json("\"s\"")) });
            assert_eq!(table.outgoing.kept_bytes(), 9);
            assert_eq!(table.outgoing.take_ticket(key, tickets[1]), Some(1));
            assert_eq!(table.outgoing.take_ticket(key, tickets[1]), None);
            assert!(!table.outgoing.provide(key, 1, json("[22]")));
            assert_eq!(table.outgoing.kept_bytes(), 13);
            if is_sent {
                assert_eq!(table.outgoing.take_ticket(key, tickets[0]), Some(0));
                assert!(table.outgoing.provide(key, 0, json("1")));
                let sending = table.send_again(key).unwrap();
                let input = vec![(json("\"a\""), Some(json("1"))), (json("\"b\""), Some(json("[22]")))];
                assert_eq!((sending.input, sending.state), (Some(input), Some(json("\"s\""))));
                assert_eq!(table.outgoing.kept_bytes(), 0);
                assert!(table.remove(key).unwrap().asked().next().is_none());
            } else {
                assert_eq!(table.remove(key).unwrap().asked().collect::<Vec<_>>(), [tickets[0]]);
            }
            table.check_empty();
        }
    }

    #[test]
    fn rp11_a_request_that_was_given_up_is_known_by_both_ids_until_newer_ones_take_their_place() {
        let mut table = table(2);
        let key = table.send();
        table.outgoing.fetch_tools(key);
        assert!(table.outgoing.attempts(key).is_some_and(|attempts| attempts.has_fetched_tools));
        let wire = table.send_again(key).unwrap().wire;
        assert!(table.give_up(key).is_some() && table.give_up(key).is_none());
        let late = |table: &Table, key: RequestKey| table.outgoing.find(&key.to_wire()) == Match::Late;
        assert!(late(&table, key) && late(&table, wire) && !table.outgoing.is_answered_late(key));
        table.outgoing.on_late_answer(&wire.to_wire());
        assert!(table.outgoing.is_answered_late(key) && late(&table, key) && late(&table, wire));
        let answered = table.send();
        table.remove(answered);
        assert_eq!(table.outgoing.find(&answered.to_wire()), Match::Unknown);
        let newer = table.send();
        table.give_up(newer);
        assert!(!late(&table, key) && late(&table, wire) && late(&table, newer));
        table.check_empty();
    }

    #[test]
    fn what_is_sent_once_cannot_be_sent_again() {
        let mut table = table(8);
        let key = table.outgoing.send(request("{}"), false, &mut table.deadlines, table.now).wire;
        table.outgoing.pause(key, None);
        assert!(table.outgoing.attempts_mut(key).is_none() && table.send_again(key).is_none());
        assert_eq!(table.outgoing.find(&key.to_wire()), Match::Open(key));
        assert_eq!(table.send(), RequestKey::new(None, None, 2), "no key was used up");
    }

    #[test]
    fn to_03_progress_extends_the_deadline_up_to_the_maximum() {
        let mut table = table(8);
        let token = r#"{"_meta":{"progressToken":"t"}}"#;
        let key = table.hold(token);
        let params = json(r#"{"progressToken":"t"}"#);
        for (after, deadline) in [(0, 10), (5, 15), (19, 29), (25, 30), (29, 30)] {
            table.now = Instant::START + Duration::from_secs(after);
            assert_eq!(table.outgoing.on_progress(Some(&params), &mut table.deadlines, table.now), Some(key));
            assert_eq!(table.deadlines.next(), Some(Instant::START + Duration::from_secs(deadline)));
        }
        // The newest request with a token has the progress, also after an older one has ended.
        let newer = table.hold(token);
        table.remove(key);
        assert_eq!(table.outgoing.on_progress(Some(&params), &mut table.deadlines, table.now), Some(newer));
        table.outgoing.extend_to_latest(newer, &mut table.deadlines);
        assert_eq!(table.deadlines.next(), Some(table.now + 3 * TIMEOUT));
        table.remove(newer);
        assert_eq!(table.outgoing.on_progress(Some(&params), &mut table.deadlines, table.now), None);
        table.check_empty();
    }

    #[test]
    fn rp12_the_newest_progress_is_kept_until_it_is_reported_or_the_request_ends() {
        let mut table = table(8);
        let (first, second) = (table.send(), table.send());
        assert!(!table.outgoing.keep_progress(second, json("1")));
        assert!(table.outgoing.keep_progress(second, json("2")));
        assert!(!table.outgoing.keep_progress(first, json("3")));
        assert_eq!(table.outgoing.take_progress(), Some((first, json("3"))));
        assert_eq!(table.outgoing.take_progress(), Some((second, json("2"))));
        assert_eq!(table.outgoing.take_progress(), None);
        table.outgoing.keep_progress(first, json("4"));
        table.remove(first);
        table.remove(second);
        assert_eq!(table.outgoing.take_progress(), None);
        assert!(!table.outgoing.keep_progress(first, json("5")));
        table.check_empty();
    }
}
