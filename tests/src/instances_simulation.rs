//! Instances of a server that share a store, and clients whose requests reach any of them, under one seed and a virtual
//! clock.
//!
//! The clients open sessions, call, resume broken streams, answer requests of the server, and read change notifications.
//! Each request goes to an instance at random. What an instance asks of the store takes a random time, in both
//! directions. A seed has one of three kinds of faults ([`Faults`]): none; instances that end without notice, at any time; and
//! these with a store that fails, is slow, or carries out an action without an answer.
//!
//! Each message contains the number of its session (`of`), and what concerns a call its number (`call`).
//!
//! # Invariants
//!
//! - A session is found by its principal alone, until its client has ended it or has not used it for long.
//! - What a client receives belongs to its session, and to its call. A change for one principal reaches no other.
//! - The events of a stream have consecutive numbers, from the one after `Last-Event-ID`, and those that they have in the store.
//!   No event, log message or question is received twice on the GET streams of a session.
//! - A session has one GET stream at a time. A GET is refused only if there is another one, or was until shortly before.
//! - Each exchange has an end, and each call one outcome, which it receives soon after it was answered if nothing fails.
//! - What a client has set is in force at every instance after that was accepted, also in a snapshot of any moment.
//! - Without faults, each accepted answer and each accepted cancellation arrives.
//! - A stream that could not be stored in full is removed from the store.
//! - An instance answers for its own tasks, and for those of instances that have ended, and the application receives the
//!   principal of the client.
//! - After the last session, nothing is held.
//!
//! [`Defect`] has machines that are broken on purpose, each with the invariant that notices it.

mod clients;
mod defects;
mod events;
mod network;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::server::{ExchangeKey, Progress, SessionMode};
use mcp_proto::store::{MemoryStore, StoreAction, StreamId};
use mcp_proto::{InstanceId, Instant, Json, RequestKey, SessionKey, Ticket};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::random::Random;
use network::Flight;
use tasks::{AskedTask, TaskTicket};

pub use defects::Defect;

use crate::seeded::{self, Run};

/// The steps of a run.
const STEPS: usize = 300;
/// How long a session may be unused.
const IDLE: Duration = Duration::from_secs(600);
/// How long the events of an answered request are stored.
const REPLAY_FOR: Duration = Duration::from_secs(120);
/// The bytes of events that are stored for a request, in runs where some are removed, and in others.
const REPLAY: [usize; 2] = [150, 1 << 20];
/// The longest time after which a correct server has noticed everything: an instance that has ended, a lost message, a
/// store that did not answer.
const PATIENCE: Duration = Duration::from_secs(90);

/// The longest time after which something has arrived everywhere if nothing fails.
const SOON: Duration = Duration::from_secs(7);

/// What goes wrong in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Faults {
    /// Nothing but disconnected clients.
    None,
    /// Instances end without notice.
    Crashes,
    /// And the store fails.
    Store,
}

/// What has happened in one or more runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions that were opened.
    pub sessions: usize,
    /// Calls that ended with their result.
    pub results: usize,
    /// Of these, calls whose stream was resumed.
    pub resumed: usize,
    /// Calls that ended with an error of the server.
    pub errors: usize,
    /// Calls that ended without an answer, which a fault allows.
    pub lost: usize,
    /// Requests about tasks that another instance than the receiving one has answered.
    pub tasks: usize,
    /// Requests of the server that the client answered.
    pub asked: usize,
    /// Messages on GET streams.
    pub notified: usize,
    /// GET streams that were refused, because there was another one.
    pub refused: usize,
    /// Requests in sessions that had ended.
    pub ended: usize,
    /// Instances that ended without notice.
    pub crashes: usize,
    /// Actions of the store that failed.
    pub failed: usize,
    /// Snapshots that were restored.
    pub snapshots: usize,
}

impl Report {
    /// Adds what has happened in another run.
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.results += other.results;
        self.resumed += other.resumed;
        self.errors += other.errors;
        self.lost += other.lost;
        self.tasks += other.tasks;
        self.asked += other.asked;
        self.notified += other.notified;
        self.refused += other.refused;
        self.ended += other.ended;
        self.crashes += other.crashes;
        self.failed += other.failed;
        self.snapshots += other.snapshots;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} sessions, {} snapshots of them restored", self.sessions, self.snapshots)?;
        writeln!(f, "{} calls with a result, {} of them after a resumption", self.results, self.resumed)?;
        writeln!(f, "{} calls with an error, {} without an answer", self.errors, self.lost)?;
        writeln!(f, "{} requests about tasks that another instance has answered", self.tasks)?;
        writeln!(f, "{} answers to the server, {} messages on GET streams", self.asked, self.notified)?;
        writeln!(f, "{} GET streams refused, {} requests in ended sessions", self.refused, self.ended)?;
        write!(f, "{} instances ended without notice, {} actions of the store failed", self.crashes, self.failed)
    }
}

/// Instances of a server that share a store, and their clients.
#[derive(Debug)]
pub struct Instances;

impl seeded::Simulation for Instances {
    type Defect = Defect;
    type Report = Report;

    const OPTIONS: &'static str = "--instances ";
    const DEFECTS: &'static [(Defect, &'static str)] = defects::DEFECTS;

    fn steps(_: u64) -> usize {
        STEPS
    }

    fn run(run: Run<'_, Defect>) -> Report {
        let mut simulation = Simulation::new(run);
        for step in 0..STEPS {
            if simulation.run.has(step) {
                simulation.random = simulation.run.random(step);
                simulation.step();
                simulation.advance(Duration::ZERO);
                simulation.check();
            }
        }
        simulation.random = simulation.run.random(STEPS);
        simulation.finish();
        simulation.report
    }

    fn add(sum: &mut Report, report: &Report) {
        sum.add(report);
    }
}

/// An exchange with an instance.
type Key = (InstanceId, ExchangeKey);

/// An instance of the server and its application.
struct Instance {
    server: HttpServerHarness,
    sessions: BTreeSet<SessionKey>,
    /// Requests that are not answered.
    tickets: Vec<Asked>,
    task_tickets: Vec<TaskTicket>,
    /// Its requests to clients that have no outcome, with their numbers.
    questions: BTreeMap<RequestKey, u64>,
    /// What it sends to the store arrives in this order.
    last_arrival: Instant,
}

/// A request that the application has.
struct Asked {
    ticket: Ticket,
    session: usize,
    call: usize,
    progress: u64,
}

/// A session, from the request that opens it.
struct Session {
    principal: Option<&'static str>,
    version: &'static str,
    /// Its id, once the client knows it.
    id: Option<String>,
    is_confirmed: bool,
    /// A request that ends it was sent, or it was not found.
    is_over: bool,
    /// That request was accepted.
    is_ended: bool,
    /// When it was last known to be used.
    used: Instant,
    /// The GET stream, and the last event id that the client has of it.
    stream: Option<Key>,
    last_event: Option<String>,
    /// The highest number of an event of its GET streams, and the numbers in these events.
    received: u64,
    seen: BTreeSet<u64>,
    /// When a GET stream of it was last open.
    streamed: Option<Instant>,
    /// The log level that the client has set.
    level: Level,
    /// Resources to which the client has subscribed.
    subscribed: BTreeSet<String>,
    /// Requests of the server that the client has not answered: the id, and the number.
    questions: Vec<(String, u64)>,
}

/// What is known of the log level of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Since when it is in force; `wants_all` is `false` if only errors are logged.
    Accepted { wants_all: bool, since: Instant },
    /// It is being set, or the request to set it had no answer.
    Unknown,
}

/// A call of a client.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Call {
    session: usize,
    begun: Instant,
    /// The instance that has received it.
    served_by: Option<InstanceId>,
    /// The exchange on which the answer is expected.
    reading: Option<Key>,
    last_event: Option<String>,
    /// The last progress that was received.
    progress: u64,
    outcome: Option<Outcome>,
    was_resumed: bool,
    /// Its answer is in the store.
    is_stored: bool,
    /// When it was answered by the application, or by an error in its place.
    answered: Option<Instant>,
    /// Its instance has ended, or its client has disconnected.
    was_hit: bool,
    /// Its cancellation was accepted when an application had it.
    was_cancelled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Result,
    Error,
    /// No answer, and no more will come.
    Lost,
    Cancelled,
}

struct Simulation<'w> {
    run: Run<'w, Defect>,
    random: Random,
    faults: Faults,
    /// Faults happen.
    is_faulty: bool,
    now: Instant,
    store: MemoryStore,
    replay: usize,
    instances: BTreeMap<InstanceId, Instance>,
    started: u64,
    flights: BTreeMap<(Instant, u64), Flight>,
    launched: u64,
    sessions: Vec<Session>,
    calls: Vec<Call>,
    exchanges: BTreeMap<Key, clients::Open>,
    task_exchanges: BTreeMap<Key, AskedTask>,
    /// The numbers of requests about tasks, and the instances whose applications have received them.
    reached: BTreeSet<(InstanceId, u64)>,
    numbers: u64,
    /// The numbers of requests of the server whose answers were accepted, and when.
    accepted: BTreeMap<u64, Instant>,
    /// Messages in the GET streams of the store, as texts.
    stored: BTreeMap<StreamId, Vec<String>>,
    /// Each version of the record of a session.
    records: BTreeMap<Arc<str>, Vec<Bytes>>,
    /// Streams of calls that could not be stored in full, by the instance that adds to them, and since when it knows.
    partial: BTreeMap<StreamId, (InstanceId, Instant)>,
    /// Streams whose removal an instance has asked for.
    forgotten: BTreeSet<StreamId>,
    /// The numbers of log messages that their clients do not want.
    unwanted: BTreeSet<u64>,
    /// What a broken machine sends to another client.
    misdirected: BTreeMap<Key, Vec<u8>>,
    report: Report,
}

impl<'w> Simulation<'w> {
    fn new(run: Run<'w, Defect>) -> Self {
        let mut random = Random::new(run.seed());
        let faults = [Faults::None, Faults::Crashes, Faults::Store];
        let faults = faults[usize::try_from(run.seed() % 3).expect("below three")];
        let count = 1 + random.below(4);
        let replay = REPLAY[usize::from(!random.one_in(4))];
        let mut simulation = Self {
            run,
            random,
            faults,
            is_faulty: true,
            now: Instant::START,
            store: MemoryStore::new(),
            replay,
            instances: BTreeMap::new(),
            started: 0,
            flights: BTreeMap::new(),
            launched: 0,
            sessions: Vec::new(),
            calls: Vec::new(),
            exchanges: BTreeMap::new(),
            task_exchanges: BTreeMap::new(),
            reached: BTreeSet::new(),
            numbers: 0,
            accepted: BTreeMap::new(),
            stored: BTreeMap::new(),
            records: BTreeMap::new(),
            partial: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            unwanted: BTreeSet::new(),
            misdirected: BTreeMap::new(),
            report: Report::default(),
        };
        for _ in 0..count {
            simulation.start();
        }
        simulation
    }

    fn step(&mut self) {
        match self.random.below(64) {
            0..=3 => self.open(),
            4..=13 => self.call(),
            14..=19 => self.resume(),
            20..=22 => self.answer_question(),
            23 => self.cancel(),
            24..=26 => self.disconnect(),
            27..=29 => self.get(),
            30 => self.subscribe(),
            31 => self.set(),
            32 => self.steal(),
            33 if self.random.one_in(2) => self.use_ended(),
            33 => self.delete(),
            34 | 35 => self.check_snapshot(),
            36..=38 => self.publish(),
            39 | 40 => self.ask_in_session(),
            41 if self.faults >= Faults::Crashes => self.kill(),
            42 => {
                let long = self.random.one_in(8);
                let time = self.random.time(Duration::from_secs(if long { 720 } else { 20 }));
                self.advance(time);
            }
            43 | 44 => self.ask_about_task(),
            45 if self.random.one_in(4) => self.disconnect_task(),
            46..=52 => {
                let time = self.random.time(Duration::from_millis(40));
                self.advance(time);
            }
            _ => self.act(),
        }
    }

    fn watch(&mut self, happens: impl FnOnce() -> String) {
        let now = self.now;
        self.run.note(|| format!("{now:?} {:.300}", happens()));
    }

    /// A number that is used once.
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn some_instance(&mut self) -> InstanceId {
        let all: Vec<_> = self.instances.keys().copied().collect();
        *self.random.pick(&all)
    }

    /// The application of an instance does something with one of its requests.
    fn act(&mut self) {
        let id = self.some_instance();
        self.answer_task(id);
        let number = self.number();
        let (choice, any) = (self.random.below(10), self.random.draw());
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let count = u64::try_from(instance.tickets.len()).expect("few requests");
        let Some(at) = any.checked_rem(count) else { return };
        let at = usize::try_from(at).expect("few requests");
        let asked = &mut instance.tickets[at];
        let (of, call) = (asked.session, asked.call);
        match choice {
            0..=3 => {
                asked.progress += 1;
                let step = u32::try_from(asked.progress).expect("few steps");
                let progress = Progress::new(f64::from(step)).message(format!("{of} {call}"));
                instance.server.server.progress(&asked.ticket, &progress, now);
            }
            4 => {
                let params = json(&format!(r#"{{"of":{of},"call":{call},"question":{number}}}"#));
                let question = mcp_proto::client::Call::new("roots/list").params(params);
                if let Ok(key) = instance.server.server.request(&asked.ticket, question, now) {
                    instance.questions.insert(key, number);
                }
            }
            5 => instance.server.server.release(&asked.ticket, now),
            _ => {
                let asked = instance.tickets.swap_remove(at);
                self.respond(id, asked);
            }
        }
    }

    fn respond(&mut self, id: InstanceId, asked: Asked) {
        let (of, call) = (asked.session, asked.call);
        self.watch(|| format!("{id} answers call {call} of session {of}"));
        let result = json(&format!(r#"{{"content":[],"of":{of},"call":{call}}}"#));
        let now = self.now;
        let is_lost = self.run.is_now(Defect::LosesAnswers);
        if let Some(instance) = self.instances.get_mut(&id).filter(|_| !is_lost) {
            instance.server.server.respond(asked.ticket, Ok(result), now).expect("no code to be refused");
        }
        self.calls[call].answered.get_or_insert(now);
    }

    /// Everything is answered, resumed and ended.
    fn finish(&mut self) {
        self.is_faulty = false;
        self.advance(Duration::from_secs(2));
        self.check_arrived();
        self.advance(PATIENCE);
        for _ in 0..6 {
            for id in self.instances.keys().copied().collect::<Vec<_>>() {
                let tickets = self.instances.get_mut(&id).map(|instance| std::mem::take(&mut instance.tickets));
                for asked in tickets.into_iter().flatten() {
                    self.respond(id, asked);
                }
                while self.instances.get(&id).is_some_and(|instance| !instance.task_tickets.is_empty()) {
                    self.answer_task(id);
                }
            }
            for call in 0..self.calls.len() {
                self.resume_call(call);
            }
            self.advance(PATIENCE / 3);
        }
        let open: Vec<_> = (0..self.calls.len()).filter(|call| self.calls[*call].outcome.is_none()).collect();
        assert!(open.is_empty(), "calls without an outcome: {open:?}");
        assert!(self.task_exchanges.is_empty(), "exchanges without an end: {:?}", self.task_exchanges);
        if self.faults != Faults::None && self.has_stream_of_ended_session() {
            // The message to the instance with the stream may be lost, also with the one that sends it.
            self.advance(IDLE);
        }
        assert!(!self.has_stream_of_ended_session(), "a stream of a session that has ended");
        for (key, open) in std::mem::take(&mut self.exchanges) {
            assert!(open.is_stream(), "an exchange without an end: {open:?}");
            self.leave(key);
        }
        for _ in 0..40 {
            self.advance(IDLE / 10);
        }
        // What has expired is removed with the next action.
        let forget = StoreAction::ForgetStream { stream: StreamId { session: "none".into(), tag: 0 } };
        self.store.carry_out(InstanceId::new(0), &forget, self.now);
        assert_eq!(self.store.sessions(), 0, "sessions in the store");
        for instance in self.instances.values() {
            let load = instance.server.server.load();
            assert_eq!(load.to_string(), "nothing", "an instance holds something in the end");
        }
    }

    /// What must be so after each step.
    fn check(&mut self) {
        self.check_streams();
        self.check_answered();
        for (stream, (instance, since)) in &self.partial {
            let is_old = self.now.saturating_duration_since(*since) > PATIENCE;
            let is_removed = self.forgotten.contains(stream) || !self.instances.contains_key(instance);
            assert!(!is_old || is_removed, "a part of a stream is left in the store");
        }
    }

    /// Each answer reaches its client soon, if nothing fails.
    fn check_answered(&self) {
        if self.faults != Faults::None {
            return;
        }
        for (number, call) in self.calls.iter().enumerate().filter(|(_, call)| call.outcome.is_none()) {
            let Some(open) = call.reading.and_then(|key| self.exchanges.get(&key)) else { continue };
            // The answer may have expired before its stream is resumed, which is refused then.
            let since = call.answered.map(|at| at.max(open.begun));
            let is_late = since.is_some_and(|since| self.now.saturating_duration_since(since) > SOON);
            let is_over = self.sessions[call.session].is_over;
            assert!(!is_late || is_over, "the answer to call {number} has not reached its client");
        }
    }

    fn has_stream_of_ended_session(&self) -> bool {
        self.exchanges.values().any(|open| self.sessions[open.session].is_ended)
    }

    /// What was accepted before the last wait has arrived, if nothing but clients failed.
    fn check_arrived(&mut self) {
        if self.faults != Faults::None {
            return;
        }
        for instance in self.instances.values() {
            for number in instance.questions.values() {
                assert!(!self.accepted.contains_key(number), "the answer to {number} was accepted and has not arrived");
            }
            for asked in &instance.tickets {
                let was_cancelled = self.calls[asked.call].was_cancelled;
                assert!(!was_cancelled, "the cancellation of {} was accepted and has not arrived", asked.call);
            }
        }
    }
}

impl Instance {
    fn new(id: InstanceId, number: u64, replay: usize, now: Instant) -> Self {
        let mut server = HttpServerHarness::with(|http, config| {
            http.sessions = SessionMode::Stored(mcp_proto::server::StoredSessions::new(id));
            http.session_idle = IDLE;
            http.replay_for = REPLAY_FOR;
            http.replay = replay;
            let declared = r#"{"logging":{},"tools":{"listChanged":true},"resources":{"subscribe":true}}"#;
            config.capabilities = json(declared);
        });
        server.drawn = number * 1_000_000;
        server.now = now;
        Self {
            server,
            sessions: BTreeSet::new(),
            tickets: Vec::new(),
            task_tickets: Vec::new(),
            questions: BTreeMap::new(),
            last_arrival: now,
        }
    }
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("JSON")
}
