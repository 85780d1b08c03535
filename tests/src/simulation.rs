//! Client, relay and server machines in a simulated network, under one seed and one virtual clock.
//!
//! A [`Plan`] contains which machines are connected in which revisions, and what happens when: calls, cancellations,
//! restarts, jumps of the clock, readers that pause. The network adds faults, and parses what it carries to determine
//! which calls each fault affected. From that, the model predicts the outcome of every call: without a fault, the call
//! ends with the answer of the server's application, within the latencies of its path; with a fault, it ends with that
//! answer or with a failure that this fault allows.
//!
//! | file | what it does |
//! |---|---|
//! | `plan` | what happens, determined by the seed |
//! | `faults` | the faults, and which failures each of them allows |
//! | `pipe`, `network` | byte streams and HTTP exchanges, with their faults |
//! | `application` | the applications of the clients and of the server |
//! | `model` | calls: their predicted outcomes, compared with the real ones |
//! | `changes` | change notifications of subscriptions and sessions: predicted, and compared with the real ones |
//! | `report` | the statistics of a run |
//! | `defects` | machines that are broken on purpose, and the invariants that notice them |
//!
//! Seen to be noticed in the machines themselves, too: a resumed stream replays nothing, or its last event twice; any id is
//! accepted on an exchange; calls are not failed when the session is lost; a busy session expires.

mod application;
mod changes;
mod defects;
mod faults;
mod model;
mod network;
mod pipe;
mod plan;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use application::{Application, Service};
use defects::Broken;
use faults::Fault;
use http::{HeaderValue, Method, Request};
use mcp_intermediary::relay;
use mcp_intermediary::relay::{Relay, Rule};
use mcp_proto::client::{self, Client, CloseReason};
use mcp_proto::server::{self, Principal, RequestInfo, Server, TwoEndpoints};
use mcp_proto::spec::Primitive;
use mcp_proto::{Era, Instant, Json, Notification, Output, SessionKey, Stdio, StdioAction};
use mcp_testkit::random::Random;
use mcp_testkit::transcript;
use model::{LONGEST, Model};
use network::{Key, Network, ToClient, ToServer};
use pipe::Pipe;

pub use defects::Defect;
pub use plan::{Moment, Plan, Topology};
pub use report::Report;

use crate::seeded;

/// The URL of the HTTP server.
const URL: &str = "http://127.0.0.1:8000/mcp";
/// The URL of the HTTP server with two endpoints.
const TWO_ENDPOINTS: &str = "http://127.0.0.1:8000/sse";
/// The limit of steps without an advance of the time. No correct machine needs that many.
const STEPS_AT_ONCE: u32 = 200_000;
/// The time after the plan in which everything must end: longer than any call may take.
const PATIENCE: Duration = Duration::from_secs(11 * 60);

/// The client machine.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are three at most")]
enum Near {
    Stdio(Client<Stdio>),
    Http(Client<client::Http>),
}

/// The relay machine between client and server, if there is one.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are three at most")]
enum Middle {
    Nothing,
    Stdio(Relay<Stdio>),
    Http(Relay<client::Http>),
}

/// The server machine.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Far {
    Stdio(Server<Stdio>),
    Http(Server<server::Http>),
}

macro_rules! either {
    ($kind:ident, $value:expr, $machine:ident => $action:expr) => {
        match $value {
            $kind::Stdio($machine) => $action,
            $kind::Http($machine) => $action,
        }
    };
}

/// A client, its relay, and what belongs to it.
#[derive(Debug)]
struct End {
    near: Near,
    middle: Middle,
    /// From the client, to the client, and the same between relay and server.
    pipes: [Pipe; 4],
    application: Application,
}

/// The names of the machines in transcripts.
const CLIENTS: [&str; 3] = ["client 0", "client 1", "client 2"];
const RELAYS: [&str; 3] = ["relay 0", "relay 1", "relay 2"];

/// The positions of the pipes in `End::pipes`.
const UP: usize = 0;
const DOWN: usize = 1;
const FAR_UP: usize = 2;
const FAR_DOWN: usize = 3;

/// One run of a plan.
struct Simulation<'p> {
    plan: &'p Plan,
    start: Instant,
    now: Instant,
    random: Random,
    ends: Vec<End>,
    far: Far,
    network: Network,
    service: Service,
    model: Model,
    /// The client and the id on the wire of each session of the server.
    sessions: BTreeMap<SessionKey, (usize, Option<HeaderValue>)>,
    /// The latest session id that the server has sent.
    named: Option<HeaderValue>,
    /// Exchanges that another principal has opened.
    intruders: BTreeSet<server::ExchangeKey>,
    /// Whether the server's process exits when it is probed with `server/discover`.
    exits_when_probed: bool,
    is_ending: bool,
    busy: Duration,
    lines: u64,
    broken: Broken,
    seen: Seen<'p>,
}

/// The trace: a hash of all lines, and a watcher that receives each of them.
struct Seen<'p> {
    hash: u64,
    watcher: Option<&'p mut dyn FnMut(&str)>,
}

impl Seen<'_> {
    fn note(&mut self, at: Duration, what: &dyn Debug, whose: &str) {
        let line = format!("{:>12.6} {whose} {what:?}", at.as_secs_f64());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(watcher) = &mut self.watcher {
            watcher(&line);
        }
    }
}

/// Clients, relays and a server in a network.
#[derive(Debug)]
pub struct Networks;

impl seeded::Simulation for Networks {
    type Defect = Defect;
    type Report = Report;

    const OPTIONS: &'static str = "";
    const DEFECTS: &'static [(Defect, &'static str)] = defects::DEFECTS;

    fn steps(seed: u64) -> usize {
        Plan::new(seed).moments.len()
    }

    fn run(mut run: seeded::Run<'_, Defect>) -> Report {
        let mut plan = Plan::new(run.seed());
        let mut steps = 0..;
        plan.moments.retain(|_| steps.next().is_some_and(|step| run.has(step)));
        run.note(|| format!("{:?}", Plan { moments: Vec::new(), ..plan.clone() }));
        let broken = Broken::new(&run);
        let mut watcher = |line: &str| run.note(|| line.to_owned());
        run_with(&plan, broken, Some(&mut watcher))
    }

    fn add(sum: &mut Report, report: &Report) {
        sum.add(report);
    }
}

/// Runs a plan.
///
/// # Panics
///
/// An invariant does not hold.
pub fn run(plan: &Plan) -> Report {
    run_with(plan, Broken::new(&seeded::Run::new(plan.seed)), None)
}

fn run_with<'p>(plan: &'p Plan, broken: Broken, watcher: Option<&'p mut dyn FnMut(&str)>) -> Report {
    let mut simulation = Simulation::new(plan, broken, watcher);
    simulation.play();
    simulation.end();
    simulation.report()
}

impl<'p> Simulation<'p> {
    fn new(plan: &'p Plan, broken: Broken, watcher: Option<&'p mut dyn FnMut(&str)>) -> Self {
        let mut random = Random::new(plan.seed);
        // The clock starts an hour in, because the model subtracts from the current time.
        let now = Instant::START + Duration::from_secs(3600);
        let ends = (0..plan.clients).map(|number| End::new(plan, number, now, &mut random)).collect();
        Self {
            plan,
            start: now,
            now,
            network: Network::new(Random::new(random.draw()), plan.clients),
            random,
            ends,
            far: serving(plan),
            service: Service::default(),
            model: Model::new(plan),
            sessions: BTreeMap::new(),
            named: None,
            intruders: BTreeSet::new(),
            exits_when_probed: plan.exits_when_probed,
            is_ending: false,
            busy: Duration::ZERO,
            lines: 0,
            broken,
            seen: Seen { hash: 0xcbf2_9ce4_8422_2325, watcher },
        }
    }

    fn report(self) -> Report {
        Report {
            hash: self.seen.hash,
            seeds: 1,
            calls: self.model.calls(),
            results: self.model.results(),
            changes: self.model.changes.delivered(),
            messages: self.lines + self.network.messages,
            busy: self.busy,
            failures: self.model.failures,
            faults: self.model.faults,
        }
    }

    fn play(&mut self) {
        self.network.trouble = self.plan.trouble;
        self.network.malformed = self.plan.malformed;
        let plan = self.plan;
        for (after, moment) in &plan.moments {
            self.run_until(self.now + *after);
            self.seen.note(self.now - self.start, moment, "plan");
            self.act(moment);
        }
    }

    fn act(&mut self, moment: &Moment) {
        let now = self.now;
        match moment {
            Moment::Call { client, text, timeout } => {
                let params = Json::empty_object().with_member("text", &Json::from(text.as_str()));
                let params = params.with_member("name", &Json::from("echo"));
                let call = client::Call::new("tools/call").params(params).timeout(*timeout).with_progress();
                let near = &mut self.ends[*client].near;
                if let Ok(request) = either!(Near, near, machine => machine.request(call, now)) {
                    self.model.called(*client, request, text, *timeout, now);
                }
            }
            Moment::Cancel { client, nth } => {
                if let Some(request) = self.model.nth_waiting(*client, *nth) {
                    self.model.cancelled(*client, request, now);
                    either!(Near, &mut self.ends[*client].near, machine => machine.cancel(request, None, now));
                }
            }
            Moment::Listen { client } => {
                let filter = Json::parse(r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#).expect("JSON");
                let near = &mut self.ends[*client].near;
                if let Ok(key) = either!(Near, near, machine => machine.listen(filter, now)) {
                    self.model.changes.listens(*client, key);
                }
            }
            Moment::Unlisten { client } => {
                if let Some(key) = self.model.changes.any_subscription(*client) {
                    either!(Near, &mut self.ends[*client].near, machine => machine.unlisten(key, now));
                }
            }
            Moment::Publish => self.publish(),
            Moment::Restart => self.restart(),
            Moment::Leap { time } => self.leap(*time),
            Moment::Stall { client, stream, time } => {
                let until = now + *time;
                match self.ends[*client].pipes.get_mut(*stream) {
                    Some(pipe) => pipe.stall(until),
                    None => self.network.stall(*client, until),
                }
                self.model.count(Fault::SlowReader);
                self.model.touched_connection(*client, Fault::SlowReader, now);
                self.model.delayed(*client, until);
                if *stream == UP {
                    // The messages that the client must send before it can subscribe are delayed.
                    self.model.changes.disturbed(*client, until);
                }
            }
            Moment::Intrude { client } => self.intrude(*client),
        }
        self.drain();
        self.let_time_act();
    }

    fn publish(&mut self) {
        let now = self.now;
        let path = |client| self.path_of_changes(client).filter(|_| !self.model.overflows_at_a_change(client));
        let paths: Vec<_> = (0..self.ends.len()).map(path).collect();
        let latency = |client: usize, through: Option<client::SubscriptionKey>| {
            let (era, latency) = paths[client]?;
            (through.is_some() == (era == Era::Modern)).then_some(latency)
        };
        let number = self.model.changes.publish(now, latency);
        let params = Json::empty_object().with_member("number", &Json::from(i64::try_from(number).expect("few")));
        let changed = Notification::with_params("notifications/tools/list_changed", params);
        either!(Far, &mut self.far, server => server.publish(changed, now).expect("it is declared"));
    }

    /// The era of a client, and the longest time that a change takes to reach it if all connections are up.
    fn path_of_changes(&self, client: usize) -> Option<(Era, Duration)> {
        let topology = self.plan.topology;
        let own = self.model.own_version(client)?;
        let rules = self.model.version(client).filter(|_| self.model.is_linked(client))?.rules();
        // A session over Streamable HTTP receives changes on its GET stream.
        let is_streamable = matches!(topology, Topology::Http | Topology::HttpRelay);
        let is_received = rules.era == Era::Modern || rules.get_stream || !is_streamable;
        let http = if topology.is_http() { LONGEST } else { Duration::ZERO };
        is_received.then_some((own.rules().era, http + pipe::LATENCY * 2))
    }

    /// Replaces the server with another one. On a byte stream, the server exits.
    fn restart(&mut self) {
        let now = self.now;
        if let Far::Stdio(_) = self.far {
            self.exit(Fault::Exit);
            return;
        }
        self.model.count(Fault::Restart);
        self.network.restart(now, &mut self.model);
        self.replace_server();
        for client in 0..self.ends.len() {
            self.model.touched_all(client, Fault::Restart, now);
        }
    }

    fn replace_server(&mut self) {
        self.far = serving(self.plan);
        self.service.forget();
        self.sessions.clear();
        self.intruders.clear();
        self.model.forgotten();
    }

    /// The server's process exits.
    fn exit(&mut self, fault: Fault) {
        let now = self.now;
        self.model.count(fault);
        if fault == Fault::Exit {
            self.model.touched_all(0, fault, now);
            self.model.forgotten();
            self.service.forget();
        }
        if let Far::Stdio(server) = &mut self.far {
            server.handle_eof(now);
        }
        let End { near, middle, pipes, .. } = &mut self.ends[0];
        match (middle, near) {
            (Middle::Stdio(relay), _) => {
                pipes[FAR_UP].cut();
                pipes[FAR_DOWN].cut();
                relay.handle_server_eof(now);
            }
            (_, Near::Stdio(client)) => {
                pipes[UP].cut();
                pipes[DOWN].cut();
                client.handle_eof(now);
            }
            _ => unreachable!("such a server is a process"),
        }
    }

    /// A new process replaces one that has exited.
    fn respawn(&mut self) {
        self.exits_when_probed = false;
        self.replace_server();
    }

    fn leap(&mut self, time: Duration) {
        self.now += time;
        self.model.count(Fault::Leap);
        for client in 0..self.ends.len() {
            self.model.touched_connection(client, Fault::Leap, self.now);
            if self.plan.topology.is_http() {
                self.model.touched_all(client, Fault::Leap, self.now);
            }
            self.model.delayed(client, self.now);
            self.model.leapt(client, self.now);
        }
    }

    /// Another principal sends ids of a client, and must not get access to the client's session (SE4).
    fn intrude(&mut self, client: usize) {
        let shown = self.network.shown(client).clone();
        let (Far::Http(server), Some(session)) = (&mut self.far, shown.session) else { return };
        self.model.count(Fault::Intruder);
        let method = self.random.pick(&[Method::GET, Method::DELETE]).clone();
        let mut request = Request::builder().method(method).uri("/mcp").header("host", "127.0.0.1:8000");
        request = request.header("accept", "text/event-stream").header("mcp-session-id", session);
        if let Some(event) = shown.event {
            request = request.header("last-event-id", event);
        }
        let head = request.body(()).expect("a request").into_parts().0;
        let mut nonce = [0; 32];
        for part in nonce.chunks_mut(8) {
            part.copy_from_slice(&self.random.draw().to_le_bytes());
        }
        let mut arrival = RequestInfo::new(nonce);
        let name = if self.broken.is(Defect::ForgetsPrincipals) { client.to_string() } else { "intruder".to_owned() };
        arrival.authentication = Ok(Some(Principal::new(&name)));
        let key = server.handle_request(head, arrival, self.now);
        self.intruders.insert(key);
    }

    /// Ends the run: the network has no more faults, no more calls are made, and everything must come to an end.
    fn end(&mut self) {
        self.network.trouble = 0;
        self.network.malformed = false;
        self.run_until(self.now + PATIENCE);
        self.model.is_settled();
        self.is_ending = true;
        for end in &mut self.ends {
            either!(Near, &mut end.near, client => client.close(self.now));
        }
        self.run_until(self.now + PATIENCE);
        self.model.is_settled();
        self.model.changes.is_over();
        for end in &self.ends {
            let (closed, left) = either!(Near, &end.near, client => (client.is_closed(), client.requests_in_flight()));
            assert!(closed && left == 0, "a client does not end: {left} requests are left");
        }
    }

    fn run_until(&mut self, until: Instant) {
        let mut steps = 0;
        loop {
            self.drain();
            self.model.check(self.now);
            let Some(at) = self.next_moment().filter(|at| *at <= until) else { break };
            steps = if at > self.now { 0 } else { steps + 1 };
            assert!(steps < STEPS_AT_ONCE, "the machines never stop writing");
            self.pass_to(self.now.max(at));
            self.deliver();
            self.let_time_act();
        }
        self.pass_to(self.now.max(until));
    }

    /// Advances the time.
    fn pass_to(&mut self, at: Instant) {
        let pipes = || self.ends.iter().flat_map(|end| &end.pipes);
        if self.model.is_busy() || self.network.is_busy() || pipes().any(|pipe| pipe.next().is_some()) {
            self.busy += at - self.now;
        }
        self.now = at;
        for (number, end) in self.ends.iter().enumerate() {
            if let Some(since) = end.pipes[UP].unread_since() {
                self.model.unread(number, since, at);
            }
        }
    }

    fn next_moment(&self) -> Option<Instant> {
        let shared =
            [self.network.next(), self.service.next(), either!(Far, &self.far, server => server.poll_timeout())];
        let own = self.ends.iter().enumerate().flat_map(|(number, end)| {
            let middle = match &end.middle {
                Middle::Nothing => None,
                Middle::Stdio(relay) => relay.poll_timeout(),
                Middle::Http(relay) => relay.poll_timeout(),
            };
            let near = either!(Near, &end.near, client => client.poll_timeout());
            let near = near.filter(|_| !self.broken.is(Defect::IgnoresTimers));
            // A pipe whose reader wants no input causes no event; the reader resumes at one of the other events.
            let pipes = [UP, DOWN, FAR_UP, FAR_DOWN].into_iter().filter(move |pipe| self.reads(number, *pipe));
            pipes.map(|pipe| end.pipes[pipe].next()).chain([middle, near, end.application.next()])
        });
        shared.into_iter().chain(own).flatten().min()
    }

    fn let_time_act(&mut self) {
        let now = self.now;
        for end in &mut self.ends {
            if !self.broken.is(Defect::IgnoresTimers) {
                either!(Near, &mut end.near, client => client.handle_timeout(now));
            }
            match &mut end.middle {
                Middle::Nothing => {}
                Middle::Stdio(relay) => relay.handle_timeout(now),
                Middle::Http(relay) => relay.handle_timeout(now),
            }
        }
        either!(Far, &mut self.far, server => server.handle_timeout(now));
        self.drain();
        for End { near, application, .. } in &mut self.ends {
            either!(Near, near, client => application.act(client, now, &mut self.random, &mut self.model));
        }
        either!(Far, &mut self.far, server => self.service.act(server, now, &mut self.random, &mut self.model));
        self.drain();
    }

    /// Passes everything that has arrived to the machines.
    fn deliver(&mut self) {
        let now = self.now;
        for number in 0..self.ends.len() {
            for pipe in [DOWN, UP, FAR_UP, FAR_DOWN] {
                while self.reads(number, pipe) {
                    let Some(bytes) = self.ends[number].pipes[pipe].due(now, &mut self.random) else { break };
                    self.hand_bytes(number, pipe, &bytes);
                    self.drain();
                }
            }
        }
        while let Some((key, served, piece)) = self.network.arrived_at_server(now) {
            self.hand_to_server(key, served, piece);
            self.drain();
        }
        while let Some((key, served, piece)) = self.network.arrived_at_client(now, &mut self.model) {
            if let (Far::Http(server), Some(served), ToClient::Body(bytes)) = (&mut self.far, served, &piece) {
                server.handle_written(served, bytes.len(), now);
            }
            self.hand_to_client(key, piece);
            self.drain();
        }
        self.network.sweep();
    }

    /// Whether the machine at the end of a pipe accepts input.
    fn reads(&self, number: usize, pipe: usize) -> bool {
        let End { near, middle, .. } = &self.ends[number];
        match (pipe, near, middle, &self.far) {
            (DOWN, Near::Stdio(client), ..) => client.wants_input(),
            (UP, _, Middle::Stdio(relay), _) => relay.wants_bytes(),
            (UP, _, Middle::Http(relay), _) => relay.wants_bytes(),
            (FAR_DOWN, _, Middle::Stdio(relay), _) => relay.wants_body(),
            (UP | FAR_UP, _, _, Far::Stdio(server)) => server.wants_input(),
            _ => true,
        }
    }

    /// Passes the bytes that have arrived on a pipe to the machine.
    fn hand_bytes(&mut self, number: usize, pipe: usize, bytes: &[u8]) {
        let now = self.now;
        let End { near, middle, .. } = &mut self.ends[number];
        match (pipe, near, middle, &mut self.far) {
            (DOWN, Near::Stdio(client), ..) => client.handle_bytes(bytes, now),
            (UP, _, Middle::Stdio(relay), _) => relay.handle_bytes(bytes, now),
            (UP, _, Middle::Http(relay), _) => relay.handle_bytes(bytes, now),
            (FAR_DOWN, _, Middle::Stdio(relay), _) => relay.handle_server_bytes(bytes, now),
            (UP | FAR_UP, _, _, Far::Stdio(server)) => server.handle_bytes(bytes, now),
            _ => unreachable!("no pipe leads there"),
        }
    }

    /// Reports the written bytes to the machines, and pauses the network for machines that accept no input.
    fn report_written(&mut self) {
        let now = self.now;
        for (number, End { near, middle, pipes, .. }) in self.ends.iter_mut().enumerate() {
            if pipes.iter().any(Pipe::is_full) {
                self.model.is_full(number, now);
            }
            let wants_more = match (&*near, &*middle) {
                (Near::Http(client), _) => client.wants_input(),
                (_, Middle::Http(relay)) => relay.wants_body(),
                _ => true,
            };
            self.network.pause(number, !wants_more);
            let [sent, answered, passed, returned] = pipes.each_mut().map(Pipe::taken);
            if let Near::Stdio(client) = near {
                client.handle_written(sent, now);
            }
            match (middle, &mut self.far) {
                (Middle::Stdio(relay), Far::Stdio(server)) => {
                    relay.handle_written(answered, now);
                    relay.handle_server_written(passed, now);
                    server.handle_written(returned, now);
                }
                (Middle::Http(relay), _) => relay.handle_written(answered, now),
                (_, Far::Stdio(server)) => server.handle_written(answered, now),
                _ => {}
            }
        }
    }

    fn hand_to_server(&mut self, key: Key, named: Option<server::ExchangeKey>, piece: ToServer) {
        let Far::Http(server) = &mut self.far else { return };
        match (piece, named) {
            (ToServer::Head(head), _) => {
                let mut nonce = [0; 32];
                for part in nonce.chunks_mut(8) {
                    part.copy_from_slice(&self.random.draw().to_le_bytes());
                }
                let mut arrival = RequestInfo::new(nonce);
                arrival.authentication = Ok(Some(Principal::new(&key.0.to_string())));
                let exchange = server.handle_request(*head, arrival, self.now);
                self.network.named(key, exchange);
            }
            (ToServer::Body(bytes), Some(exchange)) => server.handle_body(exchange, &bytes, self.now),
            (ToServer::End, Some(exchange)) => server.handle_end(exchange, self.now),
            (ToServer::Gone, Some(exchange)) => server.handle_disconnect(exchange, self.now),
            // The request was sent to a server that has ended.
            (ToServer::Body(_) | ToServer::End | ToServer::Gone, None) => {}
        }
    }

    fn hand_to_client(&mut self, key: Key, piece: ToClient) {
        let (client, exchange) = key;
        if self.network.is_end_of_listen(key, &piece) {
            self.on_end_of_listen(client);
        }
        if matches!(piece, ToClient::End | ToClient::Failed(_)) && self.broken.is_now(Defect::IgnoresEnds) {
            return;
        }
        macro_rules! hand_in {
            ($machine:expr) => {
                match piece {
                    ToClient::Sent => $machine.handle_sent(exchange, self.now),
                    ToClient::Head(head) => $machine.handle_response(exchange, &head, self.now),
                    ToClient::Body(bytes) => $machine.handle_body(exchange, &bytes, self.now),
                    ToClient::End => $machine.handle_end(exchange, self.now),
                    ToClient::Failed(failure) => $machine.handle_failure(exchange, failure, self.now),
                }
            };
        }
        let End { near, middle, .. } = &mut self.ends[client];
        match (near, middle) {
            (Near::Http(client), _) => hand_in!(client),
            (_, Middle::Http(relay)) => hand_in!(relay),
            _ => unreachable!("no exchanges are opened here"),
        }
    }

    /// The stream of a subscription has ended, and the client must be notified that it may have missed changes.
    fn on_end_of_listen(&mut self, client: usize) {
        let own = self.model.own_version(client).map(|version| version.rules().era);
        let by = match (own, self.plan.topology.has_relay()) {
            (Some(Era::Modern), false) => Some(self.now - Duration::from_nanos(1)),
            (Some(Era::Modern), true) => Some(self.now + self.model.to_client()),
            // The relay notifies its client once it has subscribed again.
            (Some(Era::Legacy), true) => None,
            (Some(Era::Legacy), false) | (None, _) => return,
        };
        self.model.changes.broke(client, by, self.ends[client].pipes[UP].unread_since());
    }

    /// Takes the output of all machines until there is none.
    fn drain(&mut self) {
        loop {
            for note in std::mem::take(&mut self.network.notes) {
                self.seen.note(self.now - self.start, &note, "exchange");
            }
            self.report_written();
            let mut is_silent = !self.drain_far();
            for client in 0..self.ends.len() {
                is_silent &= !self.drain_near(client) & !self.drain_middle(client);
            }
            if is_silent {
                self.add_states();
                return;
            }
        }
    }

    fn add_states(&self) {
        for (number, end) in self.ends.iter().enumerate() {
            let (wake, load) = either!(Near, &end.near, client => (client.poll_timeout(), client.load()));
            transcript::add_state(self.now, CLIENTS[number], wake, || load, &[]);
            let (wake, load, bytes, body) = match &end.middle {
                Middle::Nothing => continue,
                Middle::Stdio(relay) => (relay.poll_timeout(), relay.load(), relay.wants_bytes(), relay.wants_body()),
                Middle::Http(relay) => (relay.poll_timeout(), relay.load(), relay.wants_bytes(), relay.wants_body()),
            };
            let can = [("wanting bytes", bytes), ("wanting the server's", body)];
            transcript::add_state(self.now, RELAYS[number], wake, || load, &can);
        }
        let (wake, load, wants) =
            either!(Far, &self.far, server => (server.poll_timeout(), server.load(), server.wants_input()));
        transcript::add_state(self.now, "server", wake, || load, &[("wanting input", wants)]);
    }

    fn drain_near(&mut self, number: usize) -> bool {
        let (now, at) = (self.now, self.now - self.start);
        let End { near, middle, pipes, application } = &mut self.ends[number];
        let event = match near {
            Near::Stdio(client) => match transcript::added(now, CLIENTS[number], client.poll_output()) {
                None => return false,
                Some(Output::Action(StdioAction::Write(bytes))) => {
                    self.lines += 1;
                    for text in returning(&bytes) {
                        self.model.sent_again(&text, now);
                    }
                    if !self.broken.loses(&bytes) {
                        pipes[UP].send(bytes, now, &mut self.random);
                    }
                    return true;
                }
                Some(Output::Action(StdioAction::Respawn)) => {
                    pipes[UP].cut();
                    self.respawn();
                    return true;
                }
                Some(Output::Action(_)) => {
                    // Bytes that were written before the close arrive first.
                    let rest = pipes[UP].take_all();
                    macro_rules! end {
                        ($machine:expr) => {{
                            for bytes in &rest {
                                $machine.handle_bytes(bytes, now);
                            }
                            $machine.handle_eof(now);
                        }};
                    }
                    match (middle, &mut self.far) {
                        (Middle::Stdio(relay), _) => end!(relay),
                        (Middle::Http(relay), _) => end!(relay),
                        (Middle::Nothing, Far::Stdio(server)) => end!(server),
                        (Middle::Nothing, Far::Http(_)) => unreachable!("no pipe leads there"),
                    }
                    return true;
                }
                Some(Output::Event(event)) => event,
            },
            Near::Http(client) => match transcript::added(now, CLIENTS[number], client.poll_output()) {
                None => return false,
                Some(Output::Action(client::HttpAction::Open { request, .. })) if self.broken.loses(request.body()) => {
                    return true;
                }
                Some(Output::Action(client::HttpAction::Open { exchange, request, .. })) => {
                    self.network.open((number, exchange), request, now, &mut self.model);
                    return true;
                }
                Some(Output::Action(client::HttpAction::Abort { exchange })) => {
                    self.network.abort((number, exchange), now);
                    return true;
                }
                Some(Output::Action(action)) => panic!("{action:?} is new"),
                Some(Output::Event(event)) => event,
            },
        };
        self.seen.note(at, &without_time(&event), &format!("client {number}"));
        application.on_event(event, now, &mut self.random, &mut self.model);
        true
    }

    fn drain_middle(&mut self, number: usize) -> bool {
        let now = self.now;
        let End { middle, pipes, .. } = &mut self.ends[number];
        let event = match middle {
            Middle::Nothing => return false,
            Middle::Stdio(relay) => match transcript::added(now, RELAYS[number], relay.poll_output()) {
                None => return false,
                Some(Output::Action(relay::Action::Client(action))) => {
                    self.on_client_action(number, action);
                    return true;
                }
                Some(Output::Action(relay::Action::Server(StdioAction::Write(bytes)))) => {
                    self.lines += 1;
                    pipes[FAR_UP].send(bytes, now, &mut self.random);
                    return true;
                }
                Some(Output::Action(relay::Action::Server(StdioAction::Respawn))) => {
                    pipes[FAR_UP].cut();
                    self.respawn();
                    return true;
                }
                Some(Output::Action(relay::Action::Server(_))) => {
                    let rest = pipes[FAR_UP].take_all();
                    if let Far::Stdio(server) = &mut self.far {
                        for bytes in &rest {
                            server.handle_bytes(bytes, now);
                        }
                        server.handle_eof(now);
                    }
                    return true;
                }
                Some(Output::Event(event)) => event,
            },
            Middle::Http(relay) => match transcript::added(now, RELAYS[number], relay.poll_output()) {
                None => return false,
                Some(Output::Action(relay::Action::Client(action))) => {
                    self.on_client_action(number, action);
                    return true;
                }
                Some(Output::Action(relay::Action::Server(client::HttpAction::Open { exchange, request, .. }))) => {
                    self.network.open((number, exchange), request, now, &mut self.model);
                    return true;
                }
                Some(Output::Action(relay::Action::Server(client::HttpAction::Abort { exchange }))) => {
                    self.network.abort((number, exchange), now);
                    return true;
                }
                Some(Output::Action(action)) => panic!("{action:?} is new"),
                Some(Output::Event(event)) => event,
            },
        };
        let kind = format!("{event:?}");
        let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        self.seen.note(now - self.start, &kind, &format!("relay {number}"));
        self.on_relay_event(number, event);
        true
    }

    fn on_relay_event(&mut self, number: usize, event: relay::Event) {
        match event {
            relay::Event::Connected { version, .. } => self.model.linked(number, version, self.now),
            relay::Event::SessionLost => self.model.session_lost(number, self.model.to_client(), self.now),
            relay::Event::Unavailable { reason, .. } => match reason {
                client::Unavailable::Failed(failed) => self.model.unavailable(number, Some(&failed), None),
                client::Unavailable::Error(error) => self.model.unavailable(number, None, Some(&error)),
            },
            relay::Event::Faulted { fault, .. } => self.model.faulted(number, &fault),
            _ => {}
        }
    }

    /// An action of a relay on the stream to its client.
    fn on_client_action(&mut self, number: usize, action: StdioAction) {
        let now = self.now;
        let End { near, pipes, .. } = &mut self.ends[number];
        if let StdioAction::Write(bytes) = action {
            self.lines += 1;
            if defects::is_echo(&bytes) && self.broken.is_now(Defect::LosesRelayedAnswers) {
                return;
            }
            pipes[DOWN].send(bytes, now, &mut self.random);
            return;
        }
        // Bytes that were written before the close arrive first.
        let Near::Stdio(client) = near else { return };
        for bytes in pipes[DOWN].take_all() {
            client.handle_bytes(&bytes, now);
        }
        client.handle_eof(now);
    }

    fn drain_far(&mut self) -> bool {
        let now = self.now;
        let event = match &mut self.far {
            Far::Stdio(server) => match transcript::added(now, "server", server.poll_output()) {
                None => return false,
                Some(Output::Action(StdioAction::Write(bytes))) => {
                    self.on_server_line(bytes);
                    return true;
                }
                Some(Output::Action(_)) => return true,
                Some(Output::Event(event)) => event,
            },
            Far::Http(server) => match transcript::added(now, "server", server.poll_output()) {
                None => return false,
                Some(Output::Action(action)) => {
                    self.on_http_action(action);
                    return true;
                }
                Some(Output::Event(event)) => event,
            },
        };
        self.seen.note(now - self.start, &event, "server");
        self.on_server_event(event);
        true
    }

    /// A line that a server on a byte stream writes.
    fn on_server_line(&mut self, bytes: bytes::Bytes) {
        for bytes in self.broken.instead(bytes) {
            self.send_server_line(bytes);
        }
    }

    fn send_server_line(&mut self, bytes: bytes::Bytes) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if self.exits_when_probed && text.contains("begins with initialize") {
            self.exit(Fault::Respawn);
            return;
        }
        let has_relay = self.plan.topology.has_relay();
        let pipe = &mut self.ends[0].pipes[if has_relay { FAR_DOWN } else { DOWN }];
        self.lines += 1;
        let is_answer = text.contains("\"result\":") || text.contains("\"error\":");
        let nonsense = self.network.malformed && !text.contains("\"serverInfo\"") && self.random.one_in(6);
        let stray = self.random.below(3);
        if nonsense && stray < 2 {
            self.model.count(Fault::StrayEvent);
            let line: &[u8] = match stray {
                0 => b"debug: {not JSON}\n",
                _ => b"{\"jsonrpc\":\"2.0\",\"id\":900001,\"result\":{\"text\":\"forged\"}}\n",
            };
            pipe.send(bytes::Bytes::from_static(line), self.now, &mut self.random);
        }
        pipe.send(bytes.clone(), self.now, &mut self.random);
        if nonsense && stray == 2 && is_answer {
            self.model.count(Fault::Duplicate);
            pipe.send(bytes, self.now, &mut self.random);
        }
    }

    fn on_http_action(&mut self, action: server::HttpAction) {
        for action in self.broken.instead_over_http(action) {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: server::HttpAction) {
        let now = self.now;
        self.model.acted(&action);
        match action {
            server::HttpAction::Respond { exchange, response } => {
                if self.intruders.remove(&exchange) {
                    assert_eq!(response.status(), 404, "another principal found the session");
                }
                if let Some(id) = response.headers().get("mcp-session-id") {
                    self.named = Some(id.clone());
                }
                self.network.respond(exchange, response, now, &mut self.model);
            }
            server::HttpAction::Stream { exchange, head } => {
                assert!(!self.intruders.contains(&exchange), "another principal found a stream");
                self.network.stream(exchange, head, now, &mut self.model);
            }
            server::HttpAction::Write { exchange, chunk } => {
                self.network.write(exchange, chunk, now, &mut self.model);
            }
            server::HttpAction::Continue { .. } => {}
            server::HttpAction::Abort { exchange } => self.network.drop_unread(exchange, now, &mut self.model),
            server::HttpAction::Finish { exchange } => self.network.finish(exchange, now, &mut self.model),
            action => panic!("{action:?} is new"),
        }
    }

    fn on_server_event(&mut self, event: server::Event) {
        let now = self.now;
        match event {
            server::Event::Requested { ticket, method, params } => {
                // A request that has ended since is not handled, as in the drivers.
                let Some(context) = either!(Far, &self.far, server => server.context(&ticket)) else { return };
                let client = client_of(context.principal.as_ref());
                let request = (ticket, &method, params.as_ref());
                if method.as_str() == "tools/call" && self.broken.is_now(Defect::DeliversTwice) {
                    let text = params.as_ref().and_then(|params| member_of(params, "text"));
                    let text = text.as_ref().and_then(Json::as_string).unwrap_or_default().into_owned();
                    self.model.served(&text, client, None, false, now);
                }
                self.service.on_request(request, client, now, &mut self.random, &mut self.model);
            }
            server::Event::Cancelled { ticket, .. } => self.service.on_cancelled(ticket, &mut self.model),
            server::Event::Connected { session, .. } => {
                let client = client_of(either!(Far, &self.far, server => server.principal(session)));
                self.sessions.insert(session, (client, self.named.take()));
            }
            server::Event::Closed { session, reason } => {
                if let (Some((client, Some(id))), CloseReason::Expired) = (self.sessions.remove(&session), reason) {
                    self.model.expired(client, session, self.network.open_in_session(&id));
                }
            }
            _ => {}
        }
    }
}

impl End {
    fn new(plan: &Plan, number: usize, now: Instant, random: &mut Random) -> Self {
        let mut config = client::Config::new("client", "1");
        config.versions = plan.client.to_vec();
        config.capabilities = Json::parse(r#"{"roots":{},"elicitation":{}}"#).expect("JSON");
        config.reconnect = true;
        config.limits.unwritten = plan.unwritten;
        config.respawn = true;
        config.seed = random.draw();
        let http = |url| client::HttpConfig::new(url).expect("a URL");
        let mut near = match plan.topology {
            Topology::Http => Near::Http(Client::new(client::Http::new(http(URL)), config).expect("a configuration")),
            Topology::TwoEndpoints => {
                let mut http = http(TWO_ENDPOINTS);
                http.transport = client::HttpTransport::HttpSse;
                Near::Http(Client::new(client::Http::new(http), config).expect("a configuration"))
            }
            Topology::Stdio | Topology::StdioRelay | Topology::HttpRelay => {
                Near::Stdio(Client::new(Stdio::new(), config).expect("a configuration"))
            }
        };
        either!(Near, &mut near, client => client.connect(now).expect("a fresh client"));
        let mut relay = relay::Config::default();
        // A filter that denies nothing of what is used has no effect.
        relay.filter.add(Rule::deny(Primitive::Tool, "denied*").expect("a pattern"));
        relay.seed = random.draw();
        relay.respawn = true;
        relay.limits.unwritten = plan.unwritten;
        relay.versions = plan.allowed.to_vec();
        let middle = match plan.topology {
            Topology::Http | Topology::TwoEndpoints | Topology::Stdio => Middle::Nothing,
            Topology::StdioRelay => Middle::Stdio(Relay::new(Stdio::new(), relay).expect("a configuration")),
            Topology::HttpRelay => {
                Middle::Http(Relay::new(client::Http::new(http(URL)), relay).expect("a configuration"))
            }
        };
        let pipes = std::array::from_fn(|_| Pipe::new(plan.capacity));
        Self { near, middle, pipes, application: Application::new(number) }
    }
}

/// The texts of the calls that a client sends again with these lines, because they required input.
fn returning(lines: &[u8]) -> Vec<String> {
    let text = |line: &[u8]| {
        let params = member_of(&Json::parse(line.to_vec()).expect("a message"), "params")?;
        member_of(&params, "requestState")?;
        member_of(&params, "text")?.as_string().map(String::from)
    };
    lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).filter_map(text).collect()
}

/// A member of an object.
fn member_of(of: &Json, name: &str) -> Option<Json> {
    of.member(name).expect("names are unique")
}

/// The client that a principal stands for.
fn client_of(principal: Option<&Principal>) -> usize {
    principal.map_or(0, |principal| principal.as_str().parse().expect("the number of a client"))
}

fn serving(plan: &Plan) -> Far {
    let mut config = server::Config::new("server", "1");
    config.versions = plan.server.to_vec();
    config.limits.unwritten = plan.unwritten;
    let capabilities = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#;
    config.capabilities = Json::parse(capabilities).expect("JSON");
    if !plan.topology.is_http() {
        return Far::Stdio(Server::new(Stdio::new(), config).expect("a configuration"));
    }
    let mut http = server::HttpConfig::new();
    http.session_idle = plan.session_idle;
    if plan.topology == Topology::TwoEndpoints {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    }
    Far::Http(Server::new(server::Http::new(http), config).expect("a configuration"))
}

/// An event as text, without the times in it, which differ from run to run.
fn without_time(event: &client::Event) -> String {
    match event {
        client::Event::Unavailable { reason, .. } => format!("Unavailable {reason:?}"),
        client::Event::ListeningInterrupted { subscription, reason, .. } => {
            format!("ListeningInterrupted {subscription:?} {reason:?}")
        }
        event => format!("{event:?}"),
    }
}
