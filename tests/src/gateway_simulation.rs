//! Clients of a gateway and processes of its server that act in random order, under one seed and a virtual clock.
//!
//! All clients use the same ids and progress tokens. Each message contains the number of the session that it belongs to
//! (`of`), and each call a number of its own (`mark`), which the answer repeats. Each stateless call counts as a session.
//! Processes go on with calls that have ended for their clients (cancelled, too long, or of a session that has ended): they ask
//! questions, log, report progress and answer late, with the number of the session in each. The invariants are checked after
//! each step:
//!
//! | broken gateway | invariant |
//! |---|---|
//! | a message goes to another session | what a client receives has the number of its session, an answer the mark of its call |
//! | a process serves two sessions that may not share one | a process receives messages of one session, or of one principal |
//! | a stateless call reaches the process of another principal, also as a retry of a call of another | a process receives stateless calls of one principal, unless all share it |
//! | what belongs to a call that has ended reaches another client | what a client receives has the number of its session |
//! | a stateless call reaches a process with sessions, or the reverse | a process receives calls of one kind |
//! | a refused request starts a process | there are as many starts as accepted requests to open a session |
//! | the end of a process fails no call, or fails it twice | each call has one answer, and nothing follows it |
//! | a filter that was changed does not apply, or applies to an earlier call | a process receives no call of a tool that was denied when the call was made, and each other one |
//! | a user whose credentials were withdrawn keeps a session | an ended session is unknown, and nothing is sent to it |
//! | a session that ends leaves its process | after the last session there is no process, and nothing is held |
//!
//! The harness checks the contract of the driver, and the number of processes, after each output. [`Defect`] has gateways that
//! are broken on purpose.

mod defects;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use defects::Broken;
use mcp_intermediary::gateway::{BackendKey, Sharing};
use mcp_intermediary::relay::{Filter, Rule};
use mcp_proto::Instant;
use mcp_proto::server::{ExchangeKey, Principal};
use mcp_proto::spec::Primitive;
use mcp_testkit::http_exchange::{META, TestRequest};
use mcp_testkit::messages::{INITIALIZED, request, result};
use mcp_testkit::random::Random;
use serde_json::Value;

pub use defects::Defect;

use crate::gateway::GatewayHarness;
use crate::seeded::{self, Instead, Run};

/// The maximum number of processes.
const PROCESSES: usize = 4;
/// The number of the first stateless call, where one of a session would be.
const STATELESS: usize = 1_000_000;
/// The steps of a run.
const STEPS: usize = 250;
/// The time for a request, and for which one counts that has ended without an answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time that passes in one step.
const STEP: Duration = Duration::from_secs(15);

/// What has happened in one or more runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Processes that were started.
    pub starts: usize,
    /// Calls that were answered with a result.
    pub results: usize,
    /// Calls that were answered with an error.
    pub errors: usize,
    /// Processes that exited by themselves.
    pub exits: usize,
    /// Requests of processes that a client answered.
    pub asked: usize,
    /// Notifications of processes that reached a client.
    pub notified: usize,
    /// What processes have sent about calls that had ended for their clients.
    pub late: usize,
    /// Stateless calls that were continued with the state that their client has received.
    pub continued: usize,
    /// Attempts of other clients to continue such a call.
    pub stolen: usize,
    /// Changes of the filter.
    pub reloads: usize,
    /// Calls that the filter has denied.
    pub denied: usize,
}

impl Report {
    /// Adds what has happened in another run.
    pub fn add(&mut self, other: &Self) {
        self.starts += other.starts;
        self.results += other.results;
        self.errors += other.errors;
        self.exits += other.exits;
        self.asked += other.asked;
        self.notified += other.notified;
        self.late += other.late;
        self.continued += other.continued;
        self.stolen += other.stolen;
        self.reloads += other.reloads;
        self.denied += other.denied;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { starts, results, errors, exits, asked, notified, late, continued, stolen, reloads, denied } = self;
        write!(
            f,
            "{starts} processes, {exits} of which exited; {results} calls with a result, {errors} with an error; {asked} \
             questions answered, {notified} notifications; {late} messages about calls that had ended; {continued} calls \
             continued, {stolen} not by their clients; {reloads} changes of the filter, {denied} calls denied"
        )
    }
}

/// Clients of a gateway and processes of its server.
#[derive(Debug)]
pub struct Gateways;

impl seeded::Simulation for Gateways {
    type Defect = Defect;
    type Report = Report;

    const OPTIONS: &'static str = "--gateway ";
    const DEFECTS: &'static [(Defect, &'static str)] = defects::DEFECTS;

    fn steps(_: u64) -> usize {
        STEPS
    }

    fn run(mut run: Run<'_, Defect>) -> Report {
        let mut simulation = Simulation::new(&run);
        for step in (0..STEPS).filter(|step| run.has(*step)).collect::<Vec<_>>() {
            simulation.random = run.random(step);
            let what = simulation.random.below(47);
            run.note(|| format!("{:?} {what}", simulation.gateway.now));
            simulation.step(what, &mut run);
            simulation.check();
            for line in simulation.trace.drain(..) {
                run.note(|| line);
            }
        }
        simulation.finish();
        simulation.report
    }

    fn add(sum: &mut Report, report: &Report) {
        sum.add(report);
    }
}

/// How the sessions of a seed share processes.
#[must_use]
pub fn sharing(seed: u64) -> Sharing {
    [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared][usize::try_from(seed % 3).expect("below three")]
}

/// A session, from the request that opens it.
struct Session {
    principal: Option<&'static str>,
    opening: Option<ExchangeKey>,
    /// Its id, once the client knows it.
    id: Option<String>,
    /// The progress token of its latest call. A client uses each once.
    token: u64,
    /// Its client has ended it.
    is_ended: bool,
}

/// An exchange that was not complete at the last look.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Open {
    session: usize,
    /// It was made in a session that its client had ended.
    is_after_end: bool,
    /// It was accepted.
    is_accepted: bool,
    /// The number and the id of the call; `None` for a stream of the session.
    call: Option<(u64, u64)>,
    has_answer: bool,
    /// Its client has disconnected.
    is_gone: bool,
    /// Its client has cancelled it, so that it may end without an answer.
    is_cancelled: bool,
}

impl Open {
    fn new(session: usize, call: Option<(u64, u64)>) -> Self {
        Self {
            session,
            is_after_end: false,
            is_accepted: false,
            call,
            has_answer: call.is_none(),
            is_gone: false,
            is_cancelled: false,
        }
    }
}

/// A process as its program sees it.
#[derive(Default)]
struct Process {
    session: Option<usize>,
    /// The `initialize` that it has not answered.
    opening: Option<String>,
    /// The `server/discover` that it has not answered.
    discovering: Option<String>,
    /// It serves stateless calls.
    is_stateless: bool,
    /// The principals of its stateless calls.
    requesters: BTreeSet<Option<&'static str>>,
    /// Calls that it has not answered.
    calls: Vec<Call>,
    /// Calls that have ended for their clients, with which it goes on.
    ended: Vec<(Call, Instant)>,
    /// The marks of all calls that it has received, and when.
    marks: BTreeMap<u64, Instant>,
    /// It has made a request: its calls may take longer.
    has_asked: bool,
    /// The session of each of its requests that belongs to a call, by its number.
    asked: BTreeMap<u64, usize>,
    has_exited: bool,
}

/// A request of a process that has reached a client.
struct Question {
    session: usize,
    id: String,
    /// Its number, if it belongs to a call.
    number: Option<u64>,
}

/// A parked call, as its client knows it.
struct ParkedCall {
    state: String,
    principal: Option<&'static str>,
    session: usize,
    mark: u64,
}

/// A call that a process has received.
#[derive(Clone)]
struct Call {
    id: String,
    session: usize,
    mark: u64,
    token: Option<String>,
    /// Its client wants log messages.
    wants_logs: bool,
}

struct Simulation {
    gateway: GatewayHarness,
    sharing: Sharing,
    /// Whether processes are of a revision that begins with `initialize`, instead of all revisions.
    is_legacy: bool,
    random: Random,
    sessions: Vec<Session>,
    exchanges: BTreeMap<ExchangeKey, Open>,
    processes: BTreeMap<BackendKey, Process>,
    marks: u64,
    accepted: usize,
    /// Requests of processes that reached a client.
    questions: Vec<Question>,
    /// The number of requests of processes.
    asks: u64,
    /// The principal of each stateless call, by its number.
    requesters: BTreeMap<usize, Option<&'static str>>,
    states: Vec<ParkedCall>,
    /// The marks of calls that a process has answered, with the process.
    answered: BTreeMap<u64, BackendKey>,
    /// The marks of calls that have reported progress.
    progressed: BTreeSet<u64>,
    /// The marks of calls that their clients have cancelled.
    cancelled: BTreeSet<u64>,
    /// Whether the filter denies the tool `b`.
    is_b_denied: bool,
    /// The marks of calls of that tool while it was denied.
    denied: BTreeSet<u64>,
    /// What has been sent in a step, if someone watches.
    trace: Vec<String>,
    is_watched: bool,
    report: Report,
}

impl Simulation {
    fn new(run: &Run<'_, Defect>) -> Self {
        let (mut random, sharing) = (Random::new(run.seed()), sharing(run.seed()));
        let idle = *random.pick(&[120, 1800]);
        let is_legacy = random.one_in(2);
        let tombstones = *random.pick(&[2, 1024]);
        let mut gateway = GatewayHarness::with(|config| {
            config.sharing = sharing;
            config.http.max_sessions = PROCESSES;
            config.relay.limits.backends = PROCESSES;
            config.relay.limits.requests_in = 6;
            config.relay.limits.tombstones = tombstones;
            config.relay.request_timeout = TIMEOUT;
            config.relay.parking_timeout = Duration::from_secs(45);
            config.http.session_idle = Duration::from_secs(idle);
            config.http.evict_after = Duration::from_secs(20);
        });
        let mut broken = Broken::new(run);
        gateway.instead = Some(Instead(Box::new(move |action| broken.instead(action))));
        gateway.has_timers = !run.is(Defect::IgnoresTimers);
        Self {
            gateway,
            sharing,
            is_legacy,
            random,
            sessions: Vec::new(),
            exchanges: BTreeMap::new(),
            processes: BTreeMap::new(),
            marks: 0,
            accepted: 0,
            questions: Vec::new(),
            asks: 0,
            requesters: BTreeMap::new(),
            states: Vec::new(),
            answered: BTreeMap::new(),
            progressed: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            is_b_denied: false,
            denied: BTreeSet::new(),
            trace: Vec::new(),
            is_watched: run.is_watched(),
            report: Report::default(),
        }
    }

    fn step(&mut self, what: u64, run: &mut Run<'_, Defect>) {
        match what {
            0..=2 => self.open(),
            3..=9 => self.call(),
            10 | 11 => self.call_stateless(),
            12 => self.cancel(),
            13 => self.disconnect(),
            14 | 15 => self.stream(run),
            16 => self.delete(run),
            17 => self.refused(run),
            18 | 19 | 29 => self.answer_question(),
            20 | 21 => {
                let time = self.random.time(STEP);
                self.gateway.pass(time);
            }
            22 => self.exit(run),
            23 | 24 | 28 => self.act_late(),
            25 | 26 => self.call_again(),
            27 if self.random.one_in(2) => self.reload(run),
            _ => self.act(),
        }
        self.report_stopped(3);
    }

    fn open(&mut self) {
        let number = self.sessions.len();
        let principal = *self.random.pick(&[None, Some("ada"), Some("eve")]);
        let capabilities = r#"{"roots":{},"elicitation":{}}"#;
        let params = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{capabilities},"of":{number}}}"#);
        let asked = by(TestRequest::post(request("0", "initialize", &params)), principal);
        let exchange = self.gateway.ask(&asked);
        // At the limit, it is refused before a process is started.
        let is_refused = self.gateway.responses.peek(exchange).is_some_and(|sent| sent.code() == 503);
        let is_paused = self.gateway.responses.peek(exchange).is_some_and(|sent| {
            sent.text().contains("try again") || sent.text().contains("the next attempt may be made")
        });
        self.accepted += usize::from(!is_refused && !is_paused);
        self.sessions.push(Session { principal, opening: Some(exchange), id: None, token: 0, is_ended: false });
    }

    /// A session whose id its client knows; it may have ended.
    fn some_session(&mut self) -> Option<(usize, TestRequest)> {
        let known = self.sessions.iter().enumerate().filter(|(_, session)| session.id.is_some());
        let known: Vec<usize> = known.map(|(number, _)| number).rev().take(PROCESSES).collect();
        if known.is_empty() {
            return None;
        }
        let number = *self.random.pick(&known);
        let session = &self.sessions[number];
        let id = session.id.as_deref().expect("it is known");
        Some((number, by(TestRequest::post(""), session.principal).in_session(id)))
    }

    fn call(&mut self) {
        let Some((session, mut asked)) = self.some_session() else { return };
        self.marks += 1;
        let (id, mark) = (self.random.below(3), self.marks);
        self.sessions[session].token += 1;
        let token = self.sessions[session].token;
        let tool = self.tool(mark);
        let params = format!(r#"{{"name":"{tool}","of":{session},"mark":{mark},"_meta":{{"progressToken":{token}}}}}"#);
        asked.body = request(&id.to_string(), "tools/call", &params).into();
        let exchange = self.gateway.ask(&asked);
        let is_after_end = self.sessions[session].is_ended;
        let open = Open::new(session, Some((mark, id)));
        self.exchanges.insert(exchange, Open { is_after_end, ..open });
    }

    /// The tool of a call with this mark.
    fn tool(&mut self, mark: u64) -> &'static str {
        let is_b = mark % 4 == 0;
        if is_b && self.is_b_denied {
            self.denied.insert(mark);
            self.report.denied += 1;
        }
        if is_b { "b" } else { "a" }
    }

    /// The filter changes, and perhaps the credentials of a user are withdrawn, who may come back with others.
    fn reload(&mut self, run: &mut Run<'_, Defect>) {
        self.report.reloads += 1;
        self.is_b_denied = !self.is_b_denied;
        let mut filter = Filter::new();
        if self.is_b_denied {
            filter.add(Rule::deny(Primitive::Tool, "b").expect("a pattern"));
        }
        if !run.is_now(Defect::KeepsFilters) {
            self.gateway.gateway.set_filter(filter, self.gateway.now);
        }
        let withdrawn = *self.random.pick(&[None, None, None, None, Some("ada"), Some("eve")]);
        let Some(user) = withdrawn else { return self.gateway.settle() };
        for session in self.sessions.iter_mut().filter(|session| session.principal == Some(user)) {
            session.is_ended = true;
        }
        if !run.is_now(Defect::KeepsWithdrawn) {
            let is_withdrawn = |client: Option<&Principal>| client.is_some_and(|client| client.as_str() == user);
            self.gateway.gateway.end_withdrawn(is_withdrawn, self.gateway.now);
        }
        self.gateway.settle();
    }

    fn call_stateless(&mut self) {
        self.marks += 1;
        // The first may also start one that turns out to serve sessions only.
        self.accepted += 2;
        let (id, mark) = (self.random.below(3), self.marks);
        let of = STATELESS + usize::try_from(mark).expect("few calls");
        let meta = META.replace("{}", r#"{"elicitation":{},"roots":{}}"#);
        let level = self.random.pick(&["", r#","io.modelcontextprotocol/logLevel":"debug""#]);
        let meta = format!(r#"{{{meta}{level},"progressToken":{id}}}"#);
        let tool = self.tool(mark);
        let params = format!(r#"{{"name":"{tool}","of":{of},"mark":{mark},"_meta":{meta}}}"#);
        let principal = *self.random.pick(&[None, Some("ada"), Some("eve")]);
        self.requesters.insert(of, principal);
        let asked = by(stateless(id, &params), principal).with("mcp-name", tool);
        let exchange = self.gateway.ask(&asked);
        self.exchanges.insert(exchange, Open::new(of, Some((mark, id))));
    }

    /// A client continues a parked call with its input, or one of another principal tries to.
    fn call_again(&mut self) {
        let count = u64::try_from(self.states.len()).expect("few states");
        let Some(at) = self.random.draw().checked_rem(count) else { return };
        let ParkedCall { state, principal, session, mark } =
            self.states.swap_remove(usize::try_from(at).expect("few states"));
        let other = *self.random.pick(&[principal, principal, Some("mallory"), Some("ada"), None]);
        self.accepted += 2;
        let id = self.random.below(3);
        let tool = if other == principal { self.tool(mark) } else { "a" };
        let meta = META.replace("{}", r#"{"elicitation":{},"roots":{}}"#);
        let input = format!(r#""inputResponses":{{"1":{{"action":"cancel","roots":[],"of":{session}}}}}"#);
        let params = format!(
            r#"{{"name":"{tool}","of":{session},"mark":{mark},{input},"requestState":"{state}","_meta":{{{meta}}}}}"#
        );
        if other == principal {
            self.report.continued += 1;
            let asked = by(stateless(id, &params), principal).with("mcp-name", tool);
            let exchange = self.gateway.ask(&asked);
            self.exchanges.insert(exchange, Open::new(session, Some((mark, id))));
            return;
        }
        self.report.stolen += 1;
        // Its own number, with which nothing may be answered that belongs to the other call.
        self.marks += 1;
        let mark = self.marks;
        let of = STATELESS + usize::try_from(mark).expect("few calls");
        self.requesters.insert(of, other);
        let params = format!(
            r#"{{"name":"a","of":{of},"mark":{mark},{},"requestState":"{state}","_meta":{{{meta}}}}}"#,
            input.replace(&format!(r#""of":{session}"#), &format!(r#""of":{of}"#))
        );
        let exchange = self.gateway.ask(&by(stateless(id, &params), other));
        self.exchanges.insert(exchange, Open::new(of, Some((mark, id))));
    }

    fn cancel(&mut self) {
        let Some((session, mut asked)) = self.some_session() else { return };
        let id = self.random.below(3);
        let params = format!(r#"{{"requestId":{id}}}"#);
        asked.body = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#).into();
        let accepted = self.gateway.answer(&asked).code() == 202;
        let is_meant = |open: &&mut Open| open.session == session && open.call.is_some_and(|(_, called)| called == id);
        let meant: Vec<_> = self.exchanges.values_mut().filter(is_meant).collect();
        // With several requests of this id, it is not known which one is meant.
        if let ([open], true) = (&meant[..], accepted) {
            self.cancelled.extend(open.call.filter(|_| !open.has_answer && !open.is_cancelled).map(|(mark, _)| mark));
        }
        for open in meant {
            open.is_cancelled = true;
        }
    }

    fn disconnect(&mut self) {
        let openings = self.sessions.iter().filter_map(|session| session.opening);
        let all: Vec<_> = self.exchanges.keys().copied().chain(openings).collect();
        if all.is_empty() {
            return;
        }
        let exchange = *self.random.pick(&all);
        let is_over = self.gateway.responses.peek(exchange).is_some_and(|sent| sent.is_over);
        if !is_over {
            self.gateway.disconnect(exchange);
            if let Some(open) = self.exchanges.get_mut(&exchange) {
                open.is_gone = true;
            }
            for session in &mut self.sessions {
                session.opening = session.opening.filter(|opening| *opening != exchange);
            }
        }
    }

    fn stream(&mut self, run: &mut Run<'_, Defect>) {
        let Some((session, asked)) = self.some_session() else { return };
        let mut of_session = self.exchanges.iter().filter(|(_, open)| open.session == session && open.call.is_none());
        if let Some(first) = of_session.next().map(|(first, _)| *first).filter(|_| run.is_now(Defect::OpensTwoStreams))
        {
            // The gateway does not know of the first one any more.
            self.gateway.disconnect(first);
        }
        let exchange = self.gateway.ask(&TestRequest { method: "GET", ..asked });
        let is_after_end = self.sessions[session].is_ended;
        let open = Open::new(session, None);
        self.exchanges.insert(exchange, Open { is_after_end, ..open });
    }

    fn delete(&mut self, run: &mut Run<'_, Defect>) {
        let Some((session, asked)) = self.some_session() else { return };
        self.sessions[session].is_ended = true;
        if !run.is_now(Defect::KeepsEndedSessions) {
            self.gateway.answer(&TestRequest { method: "DELETE", ..asked });
        }
    }

    /// A request that is refused, perhaps for the session of another principal.
    fn refused(&mut self, run: &mut Run<'_, Defect>) {
        let starts = self.gateway.starts();
        let opening = TestRequest::post(request("0", "initialize", r#"{"protocolVersion":"2025-06-18"}"#));
        let mut asked = opening.with("origin", "https://evil.example");
        let mut is_stolen = false;
        if let Some((_, stolen)) = self.some_session() {
            if self.random.one_in(2) {
                is_stolen = true;
                asked = if run.is_now(Defect::ForgetsPrincipals) { stolen } else { stolen.by("mallory") };
                asked.body = request("0", "tools/call", r#"{"of":"mallory"}"#).into();
            }
        }
        let refused = self.gateway.answer(&asked);
        let expected = if is_stolen { 404 } else { 403 };
        assert_eq!(refused.code(), expected, "another principal, or another origin: {}", refused.text());
        assert_eq!(self.gateway.starts(), starts);
    }

    fn answer_question(&mut self) {
        let Some(Question { session, id, number }) = self.questions.pop() else { return };
        let Session { principal, id: Some(name), .. } = &self.sessions[session] else { return };
        let answer = result(&id, &format!(r#"{{"roots":[],"action":"cancel","of":{session}}}"#));
        let answered = self.gateway.answer(&by(TestRequest::post(answer), *principal).in_session(name));
        self.report.asked += 1;
        self.read_processes();
        let mut alive = self.processes.values().filter(|process| !process.has_exited);
        let is_asked = alive.any(|process| number.is_some_and(|number| process.asked.contains_key(&number)));
        assert!(answered.code() != 202 || !is_asked, "an answer has not reached the process that asked");
    }

    /// A process that exists and has not exited.
    fn some_process(&mut self) -> Option<BackendKey> {
        let alive = self.processes.iter().filter(|(_, process)| !process.has_exited);
        let alive: Vec<_> = alive.map(|(key, _)| *key).collect();
        if alive.is_empty() { None } else { Some(*self.random.pick(&alive)) }
    }

    /// A process writes something.
    fn act(&mut self) {
        let Some(key) = self.some_process() else { return };
        let (choice, any) = (self.random.below(6), self.random.draw());
        let Some(process) = self.processes.get_mut(&key) else { return };
        let (is_stateless, is_legacy) = (process.is_stateless, self.is_legacy);
        let of = process.session.unwrap_or_default();
        if let Some(id) = process.discovering.take() {
            let unknown = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"m"}}}}"#);
            let opened = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
            return self.gateway.reply(key, &if is_legacy { unknown } else { result(&id, opened) });
        }
        if let Some(id) = process.opening.take() {
            let opened = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"of":{of}}}"#);
            return self.gateway.reply(key, &result(&id, &opened));
        }
        // What belongs to no call states its session only if there is no other.
        let alone =
            if self.sharing == Sharing::PerSession && !is_stateless { format!(r#","of":{of}"#) } else { String::new() };
        let count = u64::try_from(process.calls.len()).expect("few calls");
        let at = any.checked_rem(count).map(|at| usize::try_from(at).expect("few calls"));
        let line = match (choice, at) {
            (0..=2, Some(at)) => {
                let Call { id, session, mark, .. } = process.calls.remove(at);
                self.answered.insert(mark, key);
                result(&id, &format!(r#"{{"content":[],"of":{session},"mark":{mark}}}"#))
            }
            (3, Some(at)) => {
                let Call { session, mark, token, .. } = &process.calls[at];
                let Some(token) = token else { return };
                self.progressed.insert(*mark);
                let progress = self.marks;
                let params = format!(r#""progressToken":{token},"progress":{progress},"of":{session},"for":{mark}"#);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{{params}}}}}"#)
            }
            (4, at) => {
                let wants_logs = at.is_none_or(|at| process.calls[at].wants_logs);
                if is_stateless && !is_legacy && !wants_logs {
                    return;
                }
                let own = at.map_or(alone, |at| format!(r#","of":{}"#, process.calls[at].session));
                let params = format!(r#""level":"info","data":"d"{own}"#);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{{params}}}}}"#)
            }
            // A modern server makes no requests.
            _ if is_stateless && !is_legacy => return,
            (_, at) => {
                self.asks += 1;
                process.has_asked = true;
                let number = self.asks;
                let id = format!(r#""q{number}""#);
                if let Some(at) = at {
                    let session = process.calls[at].session;
                    process.asked.insert(number, session);
                    request(&id, "elicitation/create", &asking(session, number))
                } else {
                    request(&id, "roots/list", &format!(r#"{{"x":1{alone}}}"#))
                }
            }
        };
        let pieces = self.random.below(3) + 1;
        let line = format!("{line}\n");
        for piece in line.as_bytes().chunks(line.len().div_ceil(usize::try_from(pieces).expect("small"))) {
            self.gateway.write(key, piece);
        }
    }

    /// A process goes on with a call that has ended for its client.
    fn act_late(&mut self) {
        let Some(key) = self.some_process() else { return };
        let (choice, any, now) = (self.random.below(4), self.random.draw(), self.gateway.now);
        let Some(process) = self.processes.get_mut(&key) else { return };
        process.ended.retain(|(_, until)| *until > now);
        let count = u64::try_from(process.ended.len()).expect("few calls");
        let Some(at) = any.checked_rem(count).map(|at| usize::try_from(at).expect("few calls")) else { return };
        let (Call { id, session, mark, token, wants_logs }, _) = process.ended[at].clone();
        let logs = wants_logs || self.is_legacy || !process.is_stateless;
        let line = match choice {
            0 => {
                process.ended.remove(at);
                result(&id, &format!(r#"{{"content":[],"of":{session},"mark":{mark}}}"#))
            }
            // A modern server logs only for those that want it.
            1 if !logs => return,
            1 => {
                let params = format!(r#""level":"info","data":"d","of":{session}"#);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{{params}}}}}"#)
            }
            2 => {
                let Some(token) = token else { return };
                let params = format!(r#""progressToken":{token},"progress":9e9,"of":{session},"for":{mark}"#);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{{params}}}}}"#)
            }
            // A modern server makes no requests.
            _ if process.is_stateless && !self.is_legacy => return,
            _ => {
                self.asks += 1;
                process.has_asked = true;
                process.asked.insert(self.asks, session);
                request(&format!(r#""q{}""#, self.asks), "elicitation/create", &asking(session, self.asks))
            }
        };
        self.report.late += 1;
        self.gateway.reply(key, &line);
    }

    /// A process exits, perhaps in the middle of a line.
    fn exit(&mut self, run: &mut Run<'_, Defect>) {
        if !self.random.one_in(3) {
            return;
        }
        // It has received what was sent to it before.
        self.read_processes();
        let Some(key) = self.some_process() else { return };
        if self.random.one_in(2) {
            self.gateway.write(key, br#"{"jsonrpc":"2.0","id":1,"resu"#);
        }
        if let Some(process) = self.processes.get_mut(&key) {
            process.has_exited = true;
        }
        self.report.exits += 1;
        if !run.is_now(Defect::IgnoresExits) {
            self.gateway.gateway.handle_backend_eof(key, self.gateway.now);
            self.gateway.settle();
        }
    }

    /// The driver reports that processes are gone which were to be stopped; one in `times` of them.
    fn report_stopped(&mut self, times: u64) {
        for (key, is_stopping) in self.gateway.processes() {
            if is_stopping && self.random.one_in(times) {
                self.processes.remove(&key);
                self.gateway.stopped(key);
            }
        }
    }

    fn check(&mut self) {
        self.read_processes();
        self.read_openings();
        self.read_exchanges();
        assert!(self.gateway.starts() <= self.accepted, "{} of {}", self.gateway.starts(), self.accepted);
        self.check_calls();
        self.check_streams();
    }

    /// What was answered has an answer, what was called is served, and what was cancelled is not.
    fn check_calls(&self) {
        let alive = || self.processes.values().filter(|process| !process.has_exited);
        let serving = alive().flat_map(|process| process.calls.iter().map(|call| call.mark));
        let cancelled: Vec<_> = serving.filter(|mark| self.cancelled.contains(mark)).collect();
        assert!(cancelled.is_empty(), "call {cancelled:?} was cancelled, and is still served");
        let is_opening = |process: &Process| process.opening.is_some() || process.discovering.is_some();
        let is_quiet =
            !self.processes.values().any(is_opening) && !self.gateway.processes().iter().any(|(_, stops)| *stops);
        for open in self.exchanges.values().filter(|open| !open.has_answer && !open.is_cancelled) {
            let Some((mark, _)) = open.call else { continue };
            // The answer to a parked call is lost with its process.
            let answered_by = self.answered.get(&mark).and_then(|key| self.processes.get(key));
            let is_answered = answered_by.is_some_and(|process| !process.has_exited);
            assert!(!is_answered, "the answer to call {mark} has not reached its client");
            let mut serving = self.processes.values().filter_map(|process| Some((process, *process.marks.get(&mark)?)));
            let Some((process, since)) = serving.next_back() else {
                assert!(!is_quiet, "call {mark} has reached no process");
                continue;
            };
            let is_over = self.gateway.now > since + TIMEOUT && !process.has_asked && !self.progressed.contains(&mark);
            assert!(!is_over, "call {mark} takes longer than its timeout");
        }
    }

    /// Each session has one stream of its own.
    fn check_streams(&self) {
        let mut sessions = BTreeSet::new();
        for open in self.exchanges.values().filter(|open| open.call.is_none() && open.is_accepted) {
            assert!(sessions.insert(open.session), "two streams of one session");
        }
    }

    /// The processes receive what was written to them.
    fn read_processes(&mut self) {
        let now = self.gateway.now;
        for (key, _) in self.gateway.processes() {
            let lines = self.gateway.lines(key);
            let process = self.processes.entry(key).or_default();
            assert!(!process.has_exited || lines.is_empty(), "a process receives something after its exit");
            for line in lines {
                if self.is_watched {
                    self.trace.push(format!("{key:?} receives {line}"));
                }
                let message: Value = serde_json::from_str(&line).expect("a whole line of JSON");
                let of = message.pointer("/params/of").or(message.pointer("/result/of")).and_then(Value::as_u64);
                let of = of.map(|of| usize::try_from(of).expect("few sessions"));
                let method = message.get("method").and_then(Value::as_str);
                let is_opening = matches!(method, Some("initialize" | "server/discover"));
                process.is_stateless |= is_opening && of.is_none();
                let is_stateless = of.is_some_and(|of| of >= STATELESS);
                assert!(of.is_none() || is_stateless == process.is_stateless, "a call of the other kind: {line}");
                if let Some(requester) = of.and_then(|of| self.requesters.get(&of)) {
                    process.requesters.insert(*requester);
                    let is_one = process.requesters.len() == 1;
                    assert!(self.sharing == Sharing::Shared || is_one, "a call of another user: {line}");
                }
                if let Some(of) = of.filter(|_| !is_stateless) {
                    let first = *process.session.get_or_insert(of);
                    let may = match self.sharing {
                        Sharing::Shared => true,
                        Sharing::PerPrincipal => {
                            let [first, of] = [first, of].map(|session| self.sessions[session].principal);
                            first == of
                        }
                        _ => first == of,
                    };
                    assert!(may, "a message of another session: {line}");
                }
                let id = message.get("id").map(Value::to_string).unwrap_or_default();
                match method {
                    Some("initialize") => process.opening = Some(id),
                    Some("server/discover") => process.discovering = Some(id),
                    Some("tools/call") => {
                        let mark = message["params"]["mark"].as_u64().expect("a mark");
                        assert!(!self.denied.contains(&mark), "a denied call has reached a process: {line}");
                        let token = message.pointer("/params/_meta/progressToken").map(Value::to_string);
                        let wants_logs = line.contains("logLevel");
                        let is_again = line.contains("inputResponses");
                        assert!(
                            process.marks.insert(mark, now).is_none() || is_again,
                            "call {mark} has reached a process twice"
                        );
                        process.calls.push(Call { id, session: of.expect("a number"), mark, token, wants_logs });
                    }
                    Some("notifications/cancelled") => {
                        let cancelled = message["params"]["requestId"].to_string();
                        if let Some(at) = process.calls.iter().position(|call| call.id == cancelled) {
                            // It may have ended at any time of the step.
                            let until = self.gateway.now + TIMEOUT.saturating_sub(STEP);
                            process.ended.push((process.calls.remove(at), until));
                        }
                    }
                    Some(_) => {}
                    None => {
                        let question = id.trim_matches('"').trim_start_matches('q').parse::<u64>().ok();
                        let asked = question.and_then(|question| process.asked.remove(&question));
                        assert!(of.is_none() || asked.is_none() || of == asked, "the answer of another client: {line}");
                    }
                }
            }
        }
    }

    /// Clients learn the ids of their sessions.
    fn read_openings(&mut self) {
        for number in 0..self.sessions.len() {
            let Some(exchange) = self.sessions[number].opening else { continue };
            if !self.gateway.responses.peek(exchange).is_some_and(|sent| sent.is_over) {
                continue;
            }
            let opened = self.gateway.responses.take(exchange);
            let session = &mut self.sessions[number];
            session.opening = None;
            let Some(id) = opened.headers.get("mcp-session-id") else { continue };
            let is_own = opened.text().contains(&format!(r#""of":{number}}}"#));
            assert!(is_own || self.sharing != Sharing::PerSession, "{}", opened.text());
            let id = id.to_str().expect("text").to_owned();
            let confirmed = by(TestRequest::post(INITIALIZED), session.principal).in_session(&id);
            session.id = Some(id);
            self.gateway.answer(&confirmed);
        }
        let ids: Vec<_> = self.sessions.iter().filter_map(|session| session.id.as_deref()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "each session has an id of its own");
    }

    /// What clients receive is theirs.
    fn read_exchanges(&mut self) {
        let gateway = &mut self.gateway;
        let (questions, report) = (&mut self.questions, &mut self.report);
        let (states, requesters, sharing) = (&mut self.states, &self.requesters, self.sharing);
        self.exchanges.retain(|exchange, open| {
            let sent = gateway.responses.take(*exchange);
            open.is_accepted |= sent.code() == 200;
            assert!(!open.is_after_end || matches!(sent.code(), 0 | 404), "an ended session is found: {}", sent.code());
            let messages = if sent.is_stream || sent.code() == 0 { sent.data() } else { vec![sent.text()] };
            for text in messages.iter().filter(|text| !text.is_empty()) {
                if self.is_watched {
                    self.trace.push(format!("the client of session {} receives {text}", open.session));
                }
                let message: Value = serde_json::from_str(text).expect("JSON");
                let places = ["/params/of", "/result/of"].map(|place| message.pointer(place).and_then(Value::as_u64));
                for of in places.into_iter().flatten() {
                    assert_eq!(usize::try_from(of), Ok(open.session), "a message of another session: {text}");
                }
                let is_asked = text.contains("input_required") && text.contains("elicitation/create");
                assert!(!is_asked || text.contains(&format!(r#""of":{}"#, open.session)), "a call of another: {text}");
                let are_roots_shared = text.contains("roots/list") && sharing == Sharing::Shared;
                assert!(!are_roots_shared, "the roots of one client for all: {text}");
                if let (Some(state), Some((mark, _))) = (message.pointer("/result/requestState"), open.call) {
                    let state = state.as_str().expect("text").to_owned();
                    let principal = requesters.get(&open.session).copied().flatten();
                    states.push(ParkedCall { state, principal, session: open.session, mark });
                }
                let is_answer = message.get("result").or(message.get("error")).is_some();
                match (open.call, message.get("method")) {
                    (Some((mark, id)), None) if is_answer => {
                        assert_eq!(message["id"].as_u64().unwrap_or(id), id, "{text}");
                        assert!(!std::mem::replace(&mut open.has_answer, true), "a second answer: {text}");
                        match message.pointer("/result/mark") {
                            Some(answered) => {
                                assert_eq!(answered.as_u64(), Some(mark), "the answer to another call: {text}");
                                report.results += 1;
                            }
                            None => report.errors += 1,
                        }
                    }
                    (_, Some(Value::String(method))) if method == "roots/list" || method == "elicitation/create" => {
                        let number = message.pointer("/params/number").and_then(Value::as_u64);
                        questions.push(Question { session: open.session, id: message["id"].to_string(), number });
                    }
                    (call, Some(_)) => {
                        let of_call = message.pointer("/params/for").and_then(Value::as_u64);
                        // What belongs to a call without an exchange is sent on the stream of the session (SH-S-56).
                        let is_own = call.is_none_or(|(mark, _)| of_call.is_none_or(|of_call| of_call == mark));
                        assert!(is_own, "a message of another call: {text}");
                        report.notified += 1;
                    }
                    (..) => {}
                }
            }
            let may_end = open.has_answer || open.is_gone || open.is_cancelled;
            assert!(!sent.is_over || may_end, "no answer: {}", sent.text());
            !sent.is_over && !open.is_gone
        });
    }

    fn finish(&mut self) {
        self.report.starts = self.gateway.starts();
        self.gateway.gateway.close(self.gateway.now);
        self.gateway.settle();
        self.check();
        let open = self.exchanges.values().filter(|open| open.call.is_some()).count();
        assert_eq!(open, 0, "calls without an outcome");
        self.report_stopped(1);
        let left = (self.gateway.gateway.backends(), self.gateway.gateway.sessions());
        assert_eq!(left, (0, 0), "processes are left, or sessions");
        assert_eq!(self.gateway.gateway.load().to_string(), "nothing");
    }
}

/// The parameters of a question.
fn asking(session: usize, number: u64) -> String {
    format!(r#"{{"message":"m","of":{session},"number":{number}}}"#)
}

/// A stateless call.
fn stateless(id: u64, params: &str) -> TestRequest {
    let asked = TestRequest::post(request(&id.to_string(), "tools/call", params));
    asked.repeating_headers("2026-07-28", "tools/call").with("mcp-name", "a")
}

fn by(asked: TestRequest, principal: Option<&str>) -> TestRequest {
    if let Some(principal) = principal { asked.by(principal) } else { asked }
}
