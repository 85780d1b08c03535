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
//! | broken machine | invariant |
//! |---|---|
//! | the principal of a record is not compared | a session is not found for another principal |
//! | all sessions have one stream of messages in the store | what a client receives belongs to its session |
//! | a resumed stream begins one event too early | the events of a stream have consecutive numbers, from the one after `Last-Event-ID` |
//! | nothing ends the streams of an instance that has ended | each call has one outcome |
//! | a response is sent before its change is stored | what was accepted is in force at every instance |
//! | a conflict of two records is ignored | the same |
//! | the settings of a record are not in force while another change is written | the same |
//! | a record is lost when it could not be read | a session is found until it is ended, or was not used for long |
//! | the GET stream expires before its session | an event has the number that it has in the store |
//! | a request that waits when its session ends elsewhere is not answered | no exchange is without an end |
//! | an answer of a client is not passed to the instance that asked | without faults, each accepted answer arrives |
//! | a cancellation is not passed on | without faults, each accepted cancellation arrives |
//! | a snapshot lacks what a client has set | a snapshot of any moment is restored, with all that was accepted |
//! | the streams that are read for a session are not ended with it | no stream is open after the end of its session |
//! | a request about a task is answered by the instance that receives it | an instance answers for its own tasks, and for those of instances that have ended |
//! | the principal of a request about a task is not passed on | the application receives the principal of the client |
//! | a request about a task that its instance does not answer is kept | no exchange is without an end |
//! | a session stays in memory after its end | after the last session, nothing is held |

mod clients;
mod events;
mod network;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use mcp_proto::server::{ExchangeKey, Progress, SessionMode};
use mcp_proto::store::{InstanceId, MemoryStore, StoreAction, StreamId};
use mcp_proto::{Instant, Json, RequestKey, SessionKey, Ticket};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::random::Random;

use network::Flight;
use tasks::{AskedTask, TaskTicket};

/// The steps of a run.
const STEPS: u32 = 300;
/// How long a session may be unused.
const IDLE: Duration = Duration::from_secs(600);
/// How long the events of an answered request are stored.
const REPLAY_FOR: Duration = Duration::from_secs(120);
/// The bytes of events that are stored for a request, in runs where some are removed, and in others.
const REPLAY: [usize; 2] = [150, 1 << 20];
/// The longest time after which a correct server has noticed everything: an instance that has ended, a lost message, a
/// store that did not answer.
const PATIENCE: Duration = Duration::from_secs(90);

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
        write!(f, "{} instances ended without notice, {} actions of the store failed", self.crashes, self.failed)
    }
}

/// Runs the steps of a seed; prints what happens if `is_watched`.
///
/// # Panics
///
/// An invariant does not hold.
#[must_use]
pub fn run(seed: u64, is_watched: bool) -> Report {
    let faults = [Faults::None, Faults::Crashes, Faults::Store][usize::try_from(seed % 3).expect("below three")];
    let mut simulation = Simulation::new(seed, faults);
    simulation.is_watched = is_watched;
    for _ in 0..STEPS {
        simulation.step();
        simulation.advance(Duration::ZERO);
    }
    simulation.finish();
    simulation.report
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
    /// Resources to which the client has subscribed.
    subscribed: BTreeSet<String>,
    /// Requests of the server that the client has not answered: the id, and the number.
    questions: Vec<(String, u64)>,
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

struct Simulation {
    random: Random,
    faults: Faults,
    /// Faults happen.
    is_faulty: bool,
    is_watched: bool,
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
    numbers: u64,
    /// The numbers of requests of the server whose answers were accepted, and when.
    accepted: BTreeMap<u64, Instant>,
    /// Messages in the GET streams of the store, as texts.
    stored: BTreeMap<StreamId, Vec<String>>,
    report: Report,
}

impl Simulation {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(4);
        let replay = REPLAY[usize::from(!random.one_in(4))];
        let mut simulation = Self {
            random,
            faults,
            is_faulty: true,
            is_watched: false,
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
            numbers: 0,
            accepted: BTreeMap::new(),
            stored: BTreeMap::new(),
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
            30 | 31 => self.subscribe(),
            32 => self.steal(),
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

    #[expect(clippy::print_stdout, reason = "a person watches the run")]
    fn watch(&self, happens: impl FnOnce() -> String) {
        if self.is_watched {
            println!("{:?} {:.300}", self.now, happens());
        }
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
                let progress = Progress::new(f64::from(step)).message(&format!("{of} {call}"));
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
        if let Some(instance) = self.instances.get_mut(&id) {
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
            assert_eq!(load.to_string(), "nothing");
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
