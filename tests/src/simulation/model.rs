//! The model: predicts the outcome of every call from what the applications did and which faults were injected.
//!
//! A call without a fault ends with the answer of the server's application, within the latencies of its path. A call
//! with a fault may also end with the failures that this fault allows; when its stream has ended, it does so at once or
//! is resumed. A timeout is valid only when it is due and no answer is. The model does not use the state of machines:
//! it uses commands, events that applications receive, and what the network carries.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::client::{self, Outcome};
use mcp_proto::server::{ExchangeKey, HttpAction};
use mcp_proto::{Era, ErrorObject, Failed, Instant, Json, ProtocolVersion, RequestKey, SessionKey, TicketKey};

use super::changes::Changes;
use super::faults::Fault;
use super::{member_of, pipe};

/// The longest latency of an exchange.
pub const LONGEST: Duration = Duration::from_millis(1500);
/// The longest time in which a client's application answers a request.
pub const THINKING: Duration = Duration::from_secs(3);
/// The longest pause before a stream is resumed: 1.1, 2.2 or 4.4 s, or longer after ten attempts in a minute.
const RESUMING: Duration = Duration::from_secs(7);
/// The value of `client::Config::max_timeout`.
const LATEST: Duration = Duration::from_secs(600);
/// The value of `relay::Config::request_timeout`.
const RELAYED: Duration = Duration::from_secs(300);
/// The value of `relay::Config::redelivery`, with its pauses.
const REDELIVERY: Duration = Duration::from_millis(2100);

/// The most that a client waits because a busy server asks for two seconds.
const ASKED_TO_WAIT: Duration = Duration::from_millis(2200);
/// From so many calls at one time, some are queued for an exchange.
const MANY: usize = 40;
/// How long such calls may delay a later one.
const BUSY: Duration = Duration::from_secs(30);
/// At most so many bytes are written for each change to a subscription.
const CHANGE: usize = 200;

/// The state of a simulation.
#[derive(Debug)]
pub struct Model {
    /// Whether a connection can certainly be made, so that a failure to connect needs a cause.
    strict: bool,
    topology: super::Topology,
    malformed: bool,
    unwritten: usize,
    calls: BTreeMap<String, Call>,
    waiting: BTreeMap<(usize, RequestKey), String>,
    /// Calls that the server's application must stop handling, with the time limit.
    stopping: BTreeMap<String, Instant>,
    clients: Vec<Client>,
    exchanges: BTreeMap<ExchangeKey, Sent>,
    /// The changes that the server publishes.
    pub changes: Changes,
    /// The number of faults that took effect, by kind.
    pub faults: BTreeMap<String, u64>,
    /// The number of calls that failed, by reason.
    pub failures: BTreeMap<String, u64>,
    results: usize,
}

/// The state of a client and its connection.
#[derive(Debug, Default, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Client {
    /// The revision between the server and the client or its relay.
    version: Option<ProtocolVersion>,
    /// The revision of the client itself.
    own_version: Option<ProtocolVersion>,
    /// Whether its application was notified that it is connected.
    is_connected: bool,
    /// Whether the connection to the server is made, and its session was not lost.
    is_linked: bool,
    is_closed: bool,
    /// Whether one of its byte streams has been full.
    is_full: bool,
    /// Whether a fault affected the connection since it was made.
    is_shaky: bool,
    /// Whether the connection failed because no common revision was found, which a fault can cause.
    is_refused: bool,
    /// Failures of the connection that faults have allowed.
    connection: BTreeSet<&'static str>,
    /// Whether the session may be lost.
    may_lose_session: bool,
    /// Whether any fault affected this client.
    is_touched: bool,
    /// When it last had more calls than have an exchange at one time.
    busy_at: Option<Instant>,
    /// When calls last ended, and how many of them at that moment.
    ended: Option<(Instant, usize)>,
    /// When the server's application last asked because of a call that has ended, before or since.
    asked_late: Option<Instant>,
    sessions_lost: u64,
    /// Nothing arrives before this time.
    delayed_until: Option<Instant>,
    /// Requests to the client's application, with the calls to which they belong; without one, they belong to the whole
    /// connection.
    asked: BTreeMap<TicketKey, Option<RequestKey>>,
}

/// One call.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Call {
    client: usize,
    made: Instant,
    timeout: Duration,
    /// The time when the deadline was last moved.
    moved: Instant,
    /// The time when its request was last sent, which may be later than `made`.
    resent: Instant,
    /// Until this time, its relay has not read the request that was last sent.
    unread_until: Option<Instant>,
    /// Whether the deadline is suspended, because the client's application is answering a request.
    is_paused: bool,
    cancelled: bool,
    /// How often the server's application has begun to handle it.
    begun: u32,
    /// Whether the server's application is handling it.
    is_served: bool,
    served_in: Option<SessionKey>,
    /// The latest answer of the server's application, and the time of the answer.
    answer: Option<(Answer, Instant)>,
    /// Whether the server's application requires input, and the client has not sent the call again.
    is_between: bool,
    /// How often the server's application required input.
    rounds: u32,
    /// How often the server sent a request to the client because of it.
    questions: u32,
    /// When the server's application last asked the client because of it.
    asked: Option<Instant>,
    /// Whether the client's application refused to answer such a request.
    is_refused: bool,
    /// How often its stream was released.
    releases: u32,
    /// The faults that affected it.
    met: Vec<Fault>,
    /// The failures that these faults allow.
    allowed: BTreeSet<Cow<'static, str>>,
    /// The error codes of a failed connection, with which it may end.
    allowed_codes: BTreeSet<i64>,
    /// Whether the connection that it waits for could not be made in time.
    is_connection_late: bool,
    /// Nothing can have arrived before this time.
    not_before: Instant,
    /// The latency of its exchange.
    latency: Duration,
    /// The time until which its request must have reached the server's application.
    reaches: Option<Instant>,
    /// After its exchange ended without an answer: the time until which it must end or have another exchange.
    adrift: Option<Instant>,
    /// The latest exchange that carries it.
    exchange: Option<client::ExchangeKey>,
    /// The number of the session in which it was sent.
    session: Option<u64>,
    has_cursor: bool,
    progress: f64,
    logs: BTreeSet<u64>,
}

/// The kind of answer of the server's application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A result with the text of the call.
    Echo,
    /// An error.
    Refusal,
}

/// The state of a response of the HTTP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Streaming,
    Over,
}

impl Model {
    /// A model before the first event.
    pub fn new(plan: &super::Plan) -> Self {
        Self {
            strict: plan.is_joinable(),
            topology: plan.topology,
            malformed: plan.malformed,
            unwritten: plan.unwritten,
            calls: BTreeMap::new(),
            waiting: BTreeMap::new(),
            stopping: BTreeMap::new(),
            clients: vec![Client::default(); plan.clients],
            exchanges: BTreeMap::new(),
            changes: Changes::new(plan.clients),
            faults: BTreeMap::new(),
            failures: BTreeMap::new(),
            results: 0,
        }
    }

    // Actions of the client's application.

    /// A client has made a call.
    pub fn called(&mut self, client: usize, request: RequestKey, text: &str, timeout: Duration, now: Instant) {
        assert!(
            self.waiting.insert((client, request), text.to_owned()).is_none(),
            "{request:?} names two requests of client {client}"
        );
        self.note_busy(client, now);
        let state = &self.clients[client];
        // With more calls at one time, some are queued for an exchange; a relay may still have those that have ended since.
        let is_up = state.is_connected && state.is_linked && !state.is_shaky;
        let is_sent_at_once = self.strict && is_up && state.busy_at.is_none_or(|busy| now >= busy + BUSY);
        let from = state.delayed_until.map_or(now, |until| until.max(now));
        let call = Call {
            client,
            made: now,
            timeout,
            moved: now,
            resent: now,
            unread_until: None,
            is_paused: state.asked.values().any(Option::is_none),
            cancelled: false,
            begun: 0,
            is_served: false,
            served_in: None,
            answer: None,
            is_between: false,
            rounds: 0,
            questions: 0,
            asked: None,
            is_refused: false,
            releases: 0,
            met: Vec::new(),
            allowed: BTreeSet::new(),
            allowed_codes: BTreeSet::new(),
            is_connection_late: false,
            not_before: from,
            latency: Duration::ZERO,
            // The confirmation of the session may have to be accepted first.
            reaches: is_sent_at_once.then(|| from + self.pipes() + self.http() * 3),
            adrift: None,
            exchange: None,
            session: None,
            has_cursor: false,
            progress: f64::NEG_INFINITY,
            logs: BTreeSet::new(),
        };
        assert!(self.calls.insert(text.to_owned(), call).is_none(), "plans call with different texts");
    }

    /// Whether a change is more than may wait to be written to a client, so that some of its subscriptions miss it.
    pub fn overflows_at_a_change(&self, client: usize) -> bool {
        self.changes.subscriptions(client) * CHANGE >= self.unwritten
    }

    /// Notes the time if the client has many calls.
    fn note_busy(&mut self, client: usize, now: Instant) {
        if self.waiting.keys().filter(|(of, _)| *of == client).count() >= MANY {
            self.clients[client].busy_at = Some(now);
        }
    }

    /// A call of this client without an outcome, by its position modulo their number.
    pub fn nth_waiting(&self, client: usize, nth: u64) -> Option<RequestKey> {
        let waiting: Vec<_> = self.waiting.keys().filter(|(of, _)| *of == client).collect();
        let nth = usize::try_from(nth.checked_rem(waiting.len() as u64)?).expect("few");
        waiting.get(nth).map(|(_, request)| *request)
    }

    /// A client cancels a call.
    pub fn cancelled(&mut self, client: usize, request: RequestKey, now: Instant) {
        let text = self.waiting.get(&(client, request)).expect("a request that waits").clone();
        self.calls.get_mut(&text).expect("a call").cancelled = true;
        self.must_stop(&text, now);
    }

    /// A client's application receives a request, which belongs to a call or to the whole connection.
    pub fn asked(
        &mut self,
        client: usize,
        scope: Option<RequestKey>,
        ticket: TicketKey,
        about: Option<&str>,
        now: Instant,
    ) {
        if let Some(text) = about {
            let call = self.calls.get(text).unwrap_or_else(|| panic!("a request about {text}, which no client called"));
            assert_eq!(call.client, client, "a question about {text} reached another client");
        }
        self.clients[client].asked.insert(ticket, scope);
        if let Some(request) = scope {
            self.asked_for_another(client, request, about, now);
            self.move_deadline(client, request, now);
        } else {
            self.move_all(client, now);
        }
    }

    /// A client's application answers a request, or the server cancels it.
    pub fn settled(
        &mut self,
        client: usize,
        scope: Option<RequestKey>,
        ticket: TicketKey,
        about: Option<&str>,
        refused: bool,
        now: Instant,
    ) {
        let scope_text = scope.and_then(|request| self.waiting.get(&(client, request)).cloned());
        let texts: BTreeSet<&str> = about.into_iter().chain(scope_text.as_deref()).collect();
        for text in texts {
            if let Some(call) = self.calls.get_mut(text) {
                call.is_refused |= refused;
                call.not_before = call.not_before.max(now);
            }
        }
        self.clients[client].asked.remove(&ticket);
        if let Some(request) = scope {
            self.move_deadline(client, request, now);
        } else {
            self.move_all(client, now);
        }
    }

    // Events that the client's application receives.

    /// The client is connected.
    pub fn connected(&mut self, client: usize, version: ProtocolVersion, now: Instant) {
        let state = &mut self.clients[client];
        state.is_connected = true;
        state.own_version = Some(version);
        if !self.topology.has_relay() {
            self.linked(client, version, now);
        }
    }

    /// The client or its relay is connected to the server.
    pub fn linked(&mut self, client: usize, version: ProtocolVersion, now: Instant) {
        self.changes.disturbed(client, now);
        let state = &mut self.clients[client];
        state.version = Some(version);
        state.is_linked = true;
        state.is_shaky = false;
        state.connection.clear();
        state.may_lose_session = false;
    }

    /// The connection could not be made. The calls that wait for it fail with this error.
    pub fn unavailable(&mut self, client: usize, failed: Option<&Failed>, error: Option<&ErrorObject>) {
        let has_relay = self.topology.has_relay();
        let state = &mut self.clients[client];
        state.is_connected &= has_relay;
        state.is_linked = false;
        state.is_refused |= matches!(failed, Some(Failed::NoCommonVersion { .. }));
        let reasons: Vec<_> = state.connection.iter().copied().collect();
        assert!(
            !self.strict || state.is_touched,
            "client {client} could not connect, and no fault met its connection: {failed:?} {error:?}"
        );
        for call in self.calls.values_mut().filter(|call| call.client == client) {
            call.allowed.extend(failed.map(|failed| failed.name().into()));
            call.allowed.extend(error.and_then(failure_of).map(Cow::from));
            call.is_connection_late |= matches!(failed, Some(Failed::TimedOut { .. }));
            call.allowed_codes.extend(error.map(ErrorObject::code));
            call.allowed.extend(reasons.iter().map(|reason| Cow::from(*reason)));
            call.reaches = None;
        }
    }

    /// The session was lost. The calls in it end now; the client is notified within `slack`.
    pub fn session_lost(&mut self, client: usize, slack: Duration, now: Instant) {
        let state = &mut self.clients[client];
        assert!(!self.strict || state.may_lose_session, "client {client} lost its session, and no fault took it away");
        state.is_linked = false;
        let session = state.sessions_lost;
        state.sessions_lost += 1;
        let (http, pipes) = (self.http(), self.pipes());
        for call in self.calls.values_mut().filter(|call| call.client == client) {
            call.allowed.insert("session_lost".into());
            call.met.push(Fault::Restart);
            call.reaches = None;
            if call.session.is_none() {
                // The call waits for the next session.
                call.adrift = None;
            } else if call.session == Some(session) {
                call.adrift = Some(by(now.max(call.not_before), slack + call.parked(http, pipes)));
            }
        }
        // No cancellation can be delivered in a lost session.
        self.stopping.retain(|text, _| self.calls[text].client != client);
        self.changes.disturbed(client, now);
        self.clients[client].asked.clear();
    }

    /// The client has closed.
    pub fn closed(&mut self, client: usize, is_over: bool) {
        let state = &mut self.clients[client];
        assert!(
            is_over || !self.strict || state.connection.contains("closed") || state.is_refused,
            "client {client} closed by itself"
        );
        state.is_closed = true;
        state.is_connected = false;
    }

    /// A call has made progress.
    pub fn progressed(&mut self, client: usize, request: RequestKey, params: &Json, now: Instant) {
        let text = self.waiting.get(&(client, request));
        let text = text.unwrap_or_else(|| panic!("progress of {request:?}, which has ended")).clone();
        let message = member_of(params, "message").and_then(|message| message.as_string().map(String::from));
        let call = self.calls.get_mut(&text).expect("a call");
        let progress = member_of(params, "progress").and_then(|value| value.read::<f64>().ok()).expect("a number");
        let is_wait = call.met.contains(&Fault::BUSY) && progress < 0.0;
        let expected = if is_wait { "the server answered 429 Too Many Requests and asked to wait 2 s" } else { &text };
        assert_eq!(message.as_deref(), Some(expected), "the progress of another call");
        if is_wait && call.rounds > 0 && call.progress >= 0.0 {
            // Progress starts again.
            call.progress = f64::NEG_INFINITY;
        }
        assert!(progress > call.progress, "{text} made progress {progress} after {}", call.progress);
        call.progress = progress;
        // The client itself reports that it waits, which does not extend the time for the answer; a relay sends it on.
        if !is_wait || self.topology.has_relay() {
            self.move_deadline(client, request, now);
        }
    }

    /// A log message about a call has arrived; each has a unique number.
    pub fn logged(&mut self, client: usize, text: &str, number: u64) {
        let call =
            self.calls.get_mut(text).unwrap_or_else(|| panic!("a log message about {text}, which no client called"));
        assert_eq!(call.client, client, "a log message about {text} reached another client");
        assert!(call.logs.insert(number), "log message {number} about {text} came twice");
    }

    /// The machine has reported a fault of its peer.
    pub fn faulted(&self, client: usize, fault: &mcp_proto::Fault) {
        use mcp_proto::Fault as F;
        let state = &self.clients[client];
        let is_expected = match fault {
            F::Parse(_) | F::NotAMessage { .. } | F::PeerError { .. } => self.malformed,
            // A call ends when its own exchange breaks, even if its response would arrive on another stream.
            F::UnknownResponse { .. } => {
                self.malformed || (state.is_touched && self.topology == super::Topology::TwoEndpoints)
            }
            // A call that has ended may still be answered.
            F::LateResponse { .. } | F::UnknownProgressToken | F::UnexpectedRequest { .. } => true,
            F::NotWritten { .. } => state.is_full,
            F::NotAccepted { .. } | F::NoServerStream { .. } | F::SessionNotEnded { .. } | F::Truncated { .. } => {
                state.is_touched
            }
            _ => false,
        };
        assert!(is_expected || !self.strict, "client {client} saw a fault that nothing caused: {fault:?}");
    }

    /// A call has ended.
    pub fn ended(&mut self, client: usize, request: RequestKey, outcome: &Outcome, now: Instant) {
        self.note_busy(client, now);
        let text = self.waiting.remove(&(client, request));
        let text = text.unwrap_or_else(|| panic!("{request:?} ended twice: {outcome:?}"));
        let state = &mut self.clients[client];
        let ended_before = state.ended.filter(|(at, _)| *at == now).map_or(0, |(_, count)| count);
        state.ended = Some((now, ended_before + 1));
        state.asked_late = state.asked_late.max(self.calls[&text].asked);
        let due = self.answer_due(&text);
        let strict = self.strict;
        let call = &self.calls[&text];
        if call.cancelled {
            let is_cancelled = matches!(outcome, Outcome::Failed(Failed::Cancelled));
            assert!(is_cancelled, "{text} was cancelled, and ended otherwise: {outcome:?}");
            *self.failures.entry("cancelled".to_owned()).or_default() += 1;
            return;
        }
        let failure = match outcome {
            Outcome::Result(result) => {
                if member_of(result, "isError").is_some() {
                    // A legacy client gets a tool error when the tool got no input (BR-L-06).
                    assert!(call.rounds > 0 || call.questions > 0, "{text}: an error of a tool without a cause");
                    *self.failures.entry("no_input".to_owned()).or_default() += 1;
                    return;
                }
                let echoed = result.member("text").expect("unique members");
                assert_eq!(echoed, Some(Json::from(text.as_str())), "the answer to another call");
                let is_answered = matches!(call.answer, Some((Answer::Echo, _)));
                assert!(is_answered, "a result that the server's application did not give: {text}");
                self.results += 1;
                return;
            }
            Outcome::Error(error) => {
                let Some(failure) = failure_of(error) else {
                    self.refused(&text, error);
                    return;
                };
                failure
            }
            Outcome::Failed(failed) => failed.name().to_owned(),
        };
        *self.failures.entry(failure.clone()).or_default() += 1;
        match failure.as_str() {
            "timed_out" => {
                let deadline = (call.moved + call.timeout).min(call.made + LATEST.max(call.timeout));
                let is_relay_done = self.topology.has_relay() && now >= call.made + RELAYED;
                let is_due = now >= deadline || is_relay_done || call.is_connection_late;
                assert!(is_due, "{text} timed out {:?} early", deadline.saturating_duration_since(now));
                assert!(
                    due.is_none_or(|due| now <= due) || call.is_connection_late,
                    "{text} timed out although its answer was due, and no fault met it"
                );
                self.must_stop(&text, now);
            }
            "no_input" => assert!(call.is_refused || call.rounds + call.questions > 0, "{text}: no input was needed"),
            "queue_full" => {
                // Calls that wait for a connection or an exchange count, too, and the cancellations of those that have
                // ended at the same moment.
                let waiting = self.waiting.keys().filter(|(of, _)| *of == client).count();
                let is_full = self.clients[client].is_full || (waiting + ended_before) * 400 >= self.unwritten;
                assert!(is_full, "{text}: nothing waited to be written");
            }
            failure => {
                // A message that meets the loss of a session for the second time ends with the refusal.
                let is_refused_again = match outcome {
                    Outcome::Failed(Failed::Refused(refusal)) => refusal.status.as_u16() == 404,
                    // A relay passes the reason on in words.
                    Outcome::Error(error) => failure == "refused" && error.message().contains(" 404 "),
                    _ => false,
                };
                let is_busy = matches!(outcome, Outcome::Failed(Failed::Refused(refusal)) if refusal.status == 429);
                // The connection of the call may have been refused, or the stream with the answer.
                let is_about_call = !self.clients[client].connection.contains("refused") && !call.has_cursor;
                if is_busy && is_about_call {
                    let deadline = (call.moved + call.timeout).min(call.made + LATEST.max(call.timeout));
                    assert!(now + ASKED_TO_WAIT >= deadline, "{text} did not wait as the server asked");
                }
                let may_lose_session = self.clients[client].may_lose_session || call.allowed.contains("session_lost");
                let is_loss = failure == "session_lost" || is_refused_again;
                let is_allowed = call.allowed.contains(failure) || is_loss && may_lose_session;
                assert!(
                    is_allowed || !strict,
                    "{text} ended with {failure}, and met only {:?}, which allow {:?}",
                    call.met,
                    call.allowed
                );
            }
        }
    }

    /// A call ended with an error that is not a failure of a relay.
    fn refused(&mut self, text: &str, error: &ErrorObject) {
        let call = &self.calls[text];
        *self.failures.entry(format!("error {}", error.code())).or_default() += 1;
        if matches!(call.answer, Some((Answer::Refusal, _))) && error.code() == 7 {
            return;
        }
        // The server's machine or a relay sends an error if the client gave no input or does not support the request.
        let is_about_input = call.rounds + call.questions > 0;
        assert!(
            is_about_input || call.allowed_codes.contains(&error.code()) || !call.met.is_empty() || !self.strict,
            "{text}: error {} ({}) without a cause",
            error.code(),
            error.message()
        );
    }

    // Actions of the server's application, and events that it receives.

    /// The application begins to handle a call, or continues after the client has sent the input.
    pub fn served(&mut self, text: &str, client: usize, session: Option<SessionKey>, is_again: bool, now: Instant) {
        let call = self.calls.get_mut(text).unwrap_or_else(|| panic!("{text} was served, which no client called"));
        assert_eq!(call.client, client, "{text} came under the name of another client");
        call.is_served = true;
        call.served_in = session;
        call.is_between = false;
        if is_again {
            // Progress starts again.
            call.progress = f64::NEG_INFINITY;
        } else {
            call.reaches = None;
            call.begun += 1;
            assert!(call.begun == 1, "{text} was delivered {} times", call.begun);
        }
        if call.cancelled {
            self.must_stop(text, now);
        }
    }

    /// The application answers a call.
    pub fn answered(&mut self, text: &str, answer: Answer, now: Instant) {
        let call = self.calls.get_mut(text).expect("a call that was begun");
        assert!(call.begun > 0, "{text} was answered before it was asked");
        call.answer = Some((answer, now));
        call.is_served = false;
        self.stopping.remove(text);
    }

    /// The application requires input before it continues.
    pub fn needs_input(&mut self, text: &str) {
        let call = self.calls.get_mut(text).expect("a call that was begun");
        call.rounds += 1;
        call.is_between = true;
        call.is_served = false;
        self.stopping.remove(text);
    }

    /// The application sends a request to the client while it handles a call.
    pub fn asks(&mut self, text: &str, now: Instant) {
        self.questioned(text, now);
        let call = self.calls.get_mut(text).expect("a call that was begun");
        call.questions += 1;
        // A relay answers its modern client with the input request, and a call that was answered cannot be cancelled.
        let is_modern = self.clients[call.client].own_version.is_some_and(|own| own.rules().era == Era::Modern);
        if self.topology.has_relay() && is_modern {
            self.stopping.remove(text);
        }
    }

    /// A question about a call is on its way to the client.
    pub fn questioned(&mut self, text: &str, now: Instant) {
        let is_awaited = self.waiting.values().any(|waiting| waiting == text);
        let call = self.calls.get_mut(text).expect("a call that was begun");
        call.asked = Some(now);
        if !is_awaited {
            self.clients[call.client].asked_late = Some(now);
        }
    }

    /// The application ends the stream of a call, so that the client has to resume it for the answer.
    pub fn released(&mut self, text: &str) {
        let call = self.calls.get_mut(text).expect("a call that was begun");
        call.releases += 1;
        if call.releases >= 3 {
            // The client gives up after three resumptions without an event.
            call.allowed.insert("stream_ended".into());
        }
    }

    /// The application received a cancellation.
    pub fn stopped(&mut self, text: &str) {
        let call = self.calls.get_mut(text).expect("a call that was begun");
        let is_gone = call.cancelled || !self.waiting.values().any(|waiting| waiting == text);
        assert!(
            is_gone || !call.met.is_empty() || self.clients[call.client].is_touched || !self.strict,
            "the server received a cancellation of {text}, which no client cancelled"
        );
        call.is_served = false;
        self.stopping.remove(text);
    }

    /// The server has ended, and with it all calls that it was handling.
    pub fn forgotten(&mut self) {
        for call in self.calls.values_mut() {
            call.is_served = false;
        }
        self.stopping.clear();
        self.exchanges.clear();
    }

    /// A session of a client has expired at the server, which is valid only if nothing is open in it.
    pub fn expired(&mut self, client: usize, session: SessionKey, open: usize) {
        let serving = self.calls.values().filter(|call| call.is_served && call.served_in == Some(session)).count();
        assert!(
            open == 0 && serving == 0,
            "the session of client {client} expired with {open} exchanges open and {serving} calls served"
        );
        self.clients[client].may_lose_session = true;
        self.clients[client].is_touched = true;
    }

    // Actions of the network.

    /// A fault took effect.
    pub fn count(&mut self, fault: Fault) {
        *self.faults.entry(fault.name()).or_default() += 1;
    }

    /// An exchange was opened for a call: for its request, or to resume its stream.
    pub fn opened(
        &mut self,
        text: &str,
        exchange: client::ExchangeKey,
        is_request: bool,
        latency: Duration,
        now: Instant,
    ) {
        let Some(call) = self.calls.get_mut(text) else { return };
        call.exchange = Some(exchange);
        call.latency = call.latency.max(latency);
        call.adrift = None;
        call.session = Some(self.clients[call.client].sessions_lost);
        // The timeout starts again for a request that is sent again because it required input.
        let version = self.clients[call.client].own_version;
        let is_modern = version.is_some_and(|version| version.rules().era == Era::Modern);
        if is_request && is_modern && call.rounds > 0 && !self.topology.has_relay() {
            call.resent = now;
        }
    }

    /// A client on a byte stream sends a call again, because it required input. Its timeout starts again.
    pub fn sent_again(&mut self, text: &str, now: Instant) {
        if let Some(call) = self.calls.get_mut(text).filter(|call| call.rounds + call.questions > 0) {
            call.resent = now;
            call.unread_until = Some(now);
        }
    }

    /// Until now, what a client wrote since a time was not read.
    pub fn unread(&mut self, client: usize, since: Instant, now: Instant) {
        for call in self.calls.values_mut().filter(|call| call.client == client) {
            call.unread_until = call.unread_until.map(|until| if call.resent >= since { now } else { until });
        }
    }

    /// Allows one more failure for a call whose exchange was cut.
    pub fn allow(&mut self, text: &str, failure: &'static str) {
        if let Some(call) = self.calls.get_mut(text) {
            call.allowed.insert(failure.into());
        }
    }

    /// A fault affected the exchange of a call.
    pub fn touched(&mut self, text: &str, fault: Fault) {
        if let Some(call) = self.calls.get_mut(text) {
            call.met.push(fault);
            call.allowed.extend(fault.allows().iter().map(|failure| Cow::from(*failure)));
            call.reaches = None;
            self.clients[call.client].is_touched = true;
        }
        self.stopping.remove(text);
    }

    /// A fault affected the connection of a client, and so all calls that wait for it.
    pub fn touched_connection(&mut self, client: usize, fault: Fault, now: Instant) {
        let state = &mut self.clients[client];
        state.is_touched = true;
        state.is_shaky |= fault != Fault::SlowReader;
        state.connection.extend(fault.allows());
        if matches!(fault, Fault::Status(404) | Fault::Restart | Fault::Leap) {
            state.may_lose_session = true;
        }
        self.changes.disturbed(client, now);
        for call in self.calls.values_mut().filter(|call| call.client == client) {
            call.reaches = None;
        }
    }

    /// A fault affected everything that a client waits for.
    pub fn touched_all(&mut self, client: usize, fault: Fault, now: Instant) {
        self.touched_connection(client, fault, now);
        let texts: Vec<_> = self.texts_of(client);
        for text in texts {
            self.touched(&text, fault);
        }
        self.stopping.retain(|text, _| self.calls[text].client != client);
    }

    /// A byte stream of a client is full: more bytes take longer, or are rejected.
    pub fn is_full(&mut self, client: usize, now: Instant) {
        self.delayed(client, now + pipe::LATENCY);
        self.changes.deafened(client, now);
        self.clients[client].is_full = true;
    }

    /// The clock has jumped. Requests that wait to be sent again are sent now, and their timeouts start again.
    pub fn leapt(&mut self, client: usize, now: Instant) {
        for text in self.texts_of(client) {
            let call = self.calls.get_mut(&text).expect("a call");
            if call.rounds + call.questions > 0 {
                call.resent = now;
            }
        }
    }

    /// A fault affected neither a call nor the connection.
    pub fn touched_other(&mut self, client: usize) {
        self.clients[client].is_touched = true;
    }

    /// The session of a client may be lost from now on.
    pub fn may_lose_session(&mut self, client: usize) {
        self.clients[client].may_lose_session = true;
        self.clients[client].is_touched = true;
    }

    /// Nothing arrives for a client before this time.
    pub fn delayed(&mut self, client: usize, until: Instant) {
        let state = &mut self.clients[client];
        state.delayed_until = state.delayed_until.max(Some(until));
        for text in self.texts_of(client) {
            let call = self.calls.get_mut(&text).expect("a call");
            call.not_before = call.not_before.max(until);
            for bound in [&mut call.reaches, &mut call.adrift].into_iter().flatten() {
                *bound = (*bound).max(until + LONGEST);
            }
        }
        for (text, bound) in &mut self.stopping {
            if self.calls[text].client == client {
                *bound = (*bound).max(until + LONGEST);
            }
        }
        self.changes.delayed(client, until + LONGEST);
    }

    /// The client has received an event id on the stream of a call.
    pub fn got_cursor(&mut self, text: &str) {
        if let Some(call) = self.calls.get_mut(text) {
            call.has_cursor = true;
        }
    }

    /// The exchange of a call has ended for its client, and the network saw no answer on it. `is_cut` if a fault is the
    /// reason.
    pub fn over(
        &mut self,
        text: &str,
        exchange: client::ExchangeKey,
        is_cut: bool,
        is_undelivered: bool,
        now: Instant,
    ) {
        let slack = self.to_client();
        let (http, pipes) = (self.http(), self.pipes());
        let waiting = self.waiting.len();
        let Some(call) = self.calls.get_mut(text) else { return };
        // The call may have been sent again, with the input that it required.
        let is_replaced = call.exchange != Some(exchange);
        if is_replaced || (call.is_between && !is_cut) {
            return;
        }
        let is_postponed = call.met.contains(&Fault::BUSY);
        if is_postponed {
            call.session = None;
        }
        if self.topology == super::Topology::TwoEndpoints {
            return;
        }
        let rules = self.clients[call.client].version.map(ProtocolVersion::rules);
        let is_resumable = call.has_cursor && rules.is_some_and(|rules| rules.resumable);
        let is_redelivered = is_undelivered && self.topology.has_relay();
        let pause = if is_resumable {
            RESUMING
        } else if is_postponed || is_redelivered {
            call.session = None;
            // With more calls, this one may be queued for an exchange.
            if waiting >= 40 {
                return;
            }
            if is_postponed { ASKED_TO_WAIT.max(REDELIVERY) } else { REDELIVERY }
        } else {
            Duration::ZERO
        };
        call.adrift = Some(by(now.max(call.not_before), pause + slack + call.parked(http, pipes)));
    }

    /// The server or an intermediary responded with a 404 for the session of this call, which may be sent again in
    /// another session.
    pub fn may_be_sent_again(&mut self, text: &str) {
        if let Some(call) = self.calls.get_mut(text) {
            call.session = None;
            call.adrift = None;
            call.allowed.insert("session_lost".into());
        }
    }

    /// Checks that an HTTP server sends nothing on an exchange after the end of the response.
    pub fn acted(&mut self, action: &HttpAction) {
        let (exchange, is_begun, then) = match action {
            HttpAction::Continue { .. } => return,
            HttpAction::Abort { exchange } => {
                assert!(self.exchanges.contains_key(exchange), "{action:?} before a response");
                self.exchanges.insert(*exchange, Sent::Over);
                return;
            }
            HttpAction::Respond { exchange, .. } => (*exchange, false, Sent::Over),
            HttpAction::Stream { exchange, .. } => (*exchange, false, Sent::Streaming),
            HttpAction::Write { exchange, .. } => (*exchange, true, Sent::Streaming),
            HttpAction::Finish { exchange } => (*exchange, true, Sent::Over),
            action => panic!("{action:?} is new"),
        };
        let before = self.exchanges.insert(exchange, then);
        let expected = is_begun.then_some(Sent::Streaming);
        assert_eq!(before, expected, "{action:?} in the wrong place");
    }

    // Invariants that must hold at any time.

    /// Checks that everything that was due has happened.
    pub fn check(&self, now: Instant) {
        for ((client, _), text) in &self.waiting {
            let call = &self.calls[text];
            assert!(!call.cancelled, "{text} was cancelled and has no outcome");
            assert!(
                !(self.clients[*client].is_closed && self.strict),
                "{text} has no outcome, and its client has closed"
            );
            if let Some(due) = self.answer_due(text) {
                assert!(now <= due, "{text} was answered {:?} ago, met no fault, and has no outcome", now - due);
            }
            // A call that waited as the server asked may then wait for an exchange.
            let is_busy = self.clients[*client].busy_at.is_some_and(|busy| now < busy + BUSY);
            let is_queued = is_busy && call.met.contains(&Fault::BUSY);
            if let Some(adrift) = call.adrift.filter(|_| !is_queued) {
                assert!(now <= adrift, "the exchange of {text} is over, and the call neither ended nor was resumed");
            }
            if let Some(reaches) = call.reaches {
                assert!(now <= reaches, "{text} met no fault and did not reach the server's application");
            }
            let latest = call.made + LATEST.max(call.timeout);
            // Each round begins after a pause, or is requested by a relay.
            let rounds = Duration::from_secs(9) * (call.rounds + call.questions);
            let deadline = call.moved.max(call.resent) + call.timeout + rounds;
            let deadline = if call.is_paused { latest } else { deadline.min(latest) };
            let deadline = deadline.max(call.not_before);
            assert!(now <= deadline || !self.strict, "{text} has no outcome {:?} after its timeout", now - deadline);
        }
        for (text, until) in &self.stopping {
            assert!(now <= *until, "{text} was cancelled, met no fault, and is still served");
        }
        self.changes.check(now);
    }

    /// Whether a call has no outcome, or must still be stopped.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.stopping.is_empty()
    }

    /// Checks that nothing is pending.
    pub fn is_settled(&self) {
        assert!(self.waiting.is_empty(), "{:?} never ended", self.waiting);
        assert!(self.stopping.is_empty(), "{:?} are still served", self.stopping);
    }

    /// The number of calls.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// The number of calls that ended with a result.
    pub fn results(&self) -> usize {
        self.results
    }

    /// The revision of the client itself.
    pub fn own_version(&self, client: usize) -> Option<ProtocolVersion> {
        self.clients[client].own_version
    }

    /// The revision between the server and the client or its relay.
    pub fn version(&self, client: usize) -> Option<ProtocolVersion> {
        self.clients[client].version
    }

    /// Whether messages are delivered at this time.
    pub fn is_linked(&self, client: usize) -> bool {
        let state = &self.clients[client];
        self.strict && state.is_connected && state.is_linked && !state.is_shaky
    }

    /// The time until which a call must have its outcome, if it was answered and no fault affected it.
    fn answer_due(&self, text: &str) -> Option<Instant> {
        let call = &self.calls[text];
        let (_, at) = call.answer.filter(|_| call.met.is_empty() && self.strict)?;
        let asked = call.parked(self.http(), self.pipes());
        let released = if call.releases > 0 { RESUMING + LONGEST * 2 } else { Duration::ZERO };
        let latency = if self.topology == super::Topology::TwoEndpoints { LONGEST } else { call.latency };
        let from = at.max(call.not_before).max(call.unread_until.unwrap_or(at));
        Some(from + latency + self.to_client() + asked + released)
    }

    /// The client of a call no longer wants the answer: the server must be notified.
    fn must_stop(&mut self, text: &str, now: Instant) {
        let call = &self.calls[text];
        // A modern client has nothing to cancel while it collects input, and its relay keeps the server's request open.
        let is_parked = call.questions + call.rounds > 0 || self.may_be_asked_for_another(call, now);
        let is_safe = self.strict && call.met.is_empty() && self.clients[call.client].is_linked;
        if call.is_served && is_safe && !is_parked {
            // Cancellations share the exchanges that are reserved for them.
            let queue = Duration::from_millis(250) * u32::try_from(self.calls.len()).expect("few");
            let queue = if self.topology.is_http() { queue } else { Duration::ZERO };
            let from = self.clients[call.client].delayed_until.map_or(now, |until| until.max(now));
            let until = from.max(call.not_before) + self.pipes() + self.http() * 2 + queue;
            self.stopping.insert(text.to_owned(), until);
        }
    }

    /// A request of the server is attached to a call. It must be the call that it belongs to, except that a relay
    /// attaches a legacy server's request to the only open call if its own call has ended (BR-M-05).
    fn asked_for_another(&mut self, client: usize, request: RequestKey, about: Option<&str>, now: Instant) {
        let Some(text) = self.waiting.get(&(client, request)).filter(|text| Some(text.as_str()) != about) else {
            return;
        };
        let version = self.clients[client].version;
        let is_guessed = self.topology.has_relay() && version.is_some_and(|version| version.rules().era == Era::Legacy);
        assert!(is_guessed, "a question about {about:?} is attached to {text}");
        let is_given_up = about.is_none_or(|about| !self.waiting.values().any(|waiting| waiting == about));
        assert!(is_given_up, "a question about {about:?}, which is open, is attached to {text}");
        let (http, pipes) = (self.http(), self.pipes());
        let call = self.calls.get_mut(text).expect("a call");
        call.questions += 1;
        // The relay may have received the answer of this call, and keeps it until the client sends the call again.
        call.adrift = call.adrift.map(|until| until.max(by(now, call.parked(http, pipes))));
    }

    /// Whether the question of another call may be on its way to this one, as in `asked_for_another`. The relay of a modern
    /// client answers a call with such a question.
    fn may_be_asked_for_another(&self, call: &Call, now: Instant) -> bool {
        let client = &self.clients[call.client];
        let is = |version: Option<ProtocolVersion>, era| version.is_some_and(|version| version.rules().era == era);
        let is_guessed =
            self.topology.has_relay() && is(client.own_version, Era::Modern) && is(client.version, Era::Legacy);
        let arrives = |at: Instant| client.delayed_until.map_or(at, |until| until.max(at)) + self.http() + self.pipes();
        is_guessed && client.asked_late.is_some_and(|at| call.made <= at + self.http() && now <= arrives(at))
    }

    fn texts_of(&self, client: usize) -> Vec<String> {
        self.waiting.iter().filter(|((of, _), _)| *of == client).map(|(_, text)| text.clone()).collect()
    }

    /// Moves the deadline of a call, which is suspended while a request of the server that may be about it is open.
    fn move_deadline(&mut self, client: usize, request: RequestKey, now: Instant) {
        let is_paused = self.clients[client].asked.values().any(|asked| asked.is_none_or(|asked| asked == request));
        if let Some(call) = self.waiting.get(&(client, request)).and_then(|text| self.calls.get_mut(text)) {
            call.moved = now;
            call.is_paused = is_paused;
        }
    }

    fn move_all(&mut self, client: usize, now: Instant) {
        let requests: Vec<_> =
            self.waiting.keys().filter(|(of, _)| *of == client).map(|(_, request)| *request).collect();
        for request in requests {
            self.move_deadline(client, request, now);
        }
    }

    /// The longest time on the byte streams between client and server.
    fn pipes(&self) -> Duration {
        match self.topology {
            super::Topology::Http | super::Topology::TwoEndpoints => Duration::ZERO,
            super::Topology::Stdio | super::Topology::HttpRelay => pipe::LATENCY,
            super::Topology::StdioRelay => pipe::LATENCY * 2,
        }
    }

    /// The longest time between the client and the machine that opens its exchanges.
    pub fn to_client(&self) -> Duration {
        if self.topology == super::Topology::HttpRelay { pipe::LATENCY } else { self.pipes() }
    }

    const fn http(&self) -> Duration {
        if self.topology.is_http() { LONGEST } else { Duration::ZERO }
    }
}

impl Call {
    /// The longest time that the answer waits for a client that must return with input.
    fn parked(&self, http: Duration, pipes: Duration) -> Duration {
        (THINKING + http * 4 + pipes * 4) * (self.questions + self.rounds)
    }
}

/// The time limit for an event. If `within` is zero, it must have happened before any other event.
fn by(now: Instant, within: Duration) -> Instant {
    if within.is_zero() { now - Duration::from_nanos(1) } else { now + within }
}

/// The relay's failure that an error contains.
fn failure_of(error: &ErrorObject) -> Option<String> {
    let data = error.data()?;
    member_of(&data, "source").filter(|source| *source == Json::from("relay"))?;
    member_of(&data, "failure")?.as_string().map(String::from)
}
