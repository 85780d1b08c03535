//! Client, relay and server machines joined by a simulated network, under one seed and one virtual clock.
//!
//! A [`Plan`] says who talks to whom in which revisions, and what happens when: calls, cancellations, restarts, leaps of
//! the clock, streams that are cut. The network adds what networks do. After every step a model, which knows nothing
//! of the protocol, says whether what was seen may be: each request ends once and with its own answer, no call is
//! served twice, nothing comes for what was taken back, nobody acts on an exchange that is over.

mod application;
mod model;
mod network;
mod pipe;
mod plan;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use mcp_proto::client::{self, Client};
use mcp_proto::relay::{self, Relay};
use mcp_proto::server::{self, Arrival, Server};
use mcp_proto::{Json, Output, RequestKey, Stdio, StdioAction};

use crate::random::Random;
use application::{Application, Service};
use model::Model;
use network::{Network, ToClient, ToServer};
use pipe::Pipe;

pub use plan::{Moment, Plan, Topology};

/// Where the HTTP server of the simulation is.
const URL: &str = "http://127.0.0.1:8000/mcp";
/// Steps without time going by that no honest machine needs.
const STEPS_AT_ONCE: u32 = 200_000;
/// How long everything is given to come to an end after the plan.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// What a run has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Stands for everything that was seen, in order.
    pub hash: u64,
    /// Calls that were made.
    pub calls: usize,
    /// Calls that had their results.
    pub results: usize,
    /// Messages that the machines exchanged, as far as events and commands show them.
    pub messages: u64,
    /// The time that went by.
    pub simulated: Duration,
}

/// The client.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Near {
    Stdio(Client<Stdio>),
    Http(Client<client::Http>),
}

/// What is in between.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Middle {
    Nobody,
    Stdio(Relay<Stdio>),
    Http(Relay<client::Http>),
}

/// The server.
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
/// The run of one plan.
struct Simulation<'p> {
    plan: &'p Plan,
    start: Instant,
    now: Instant,
    random: Random,
    near: Near,
    middle: Middle,
    far: Far,
    network: Network,
    /// From the client, towards it, and the same on the far side of a relay.
    pipes: [Pipe; 4],
    application: Application,
    service: Service,
    model: Model,
    seen: Seen<'p>,
}

/// The pipes by what they carry.
const UP: usize = 0;
const DOWN: usize = 1;
const FAR_UP: usize = 2;
const FAR_DOWN: usize = 3;

/// Everything that was seen.
struct Seen<'p> {
    hash: u64,
    messages: u64,
    watcher: Option<&'p mut dyn FnMut(&str)>,
}

impl Seen<'_> {
    fn note(&mut self, at: Duration, what: &dyn Debug, who: &str) {
        self.messages += 1;
        let line = format!("{:>12.6} {who} {what:?}", at.as_secs_f64());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(watcher) = &mut self.watcher {
            watcher(&line);
        }
    }
}

/// Runs a plan, and tells what is seen, line by line, to whoever wants to know.
///
/// # Panics
///
/// Something was seen that may not be.
pub fn run<'p>(plan: &'p Plan, watcher: Option<&'p mut dyn FnMut(&str)>) -> Report {
    let mut simulation = Simulation::new(plan, watcher);
    simulation.play();
    simulation.end();
    let Simulation { seen, model, start, now, .. } = simulation;
    Report {
        hash: seen.hash,
        calls: model.calls(),
        results: model.results(),
        messages: seen.messages,
        simulated: now - start,
    }
}

impl<'p> Simulation<'p> {
    fn new(plan: &'p Plan, watcher: Option<&'p mut dyn FnMut(&str)>) -> Self {
        let mut random = Random::new(plan.seed);
        let now = Instant::now();
        let mut config = client::Config::new("client", "1");
        config.versions = plan.client.to_vec();
        config.capabilities = Json::parse(r#"{"roots":{},"elicitation":{}}"#).expect("JSON");
        config.reconnect = true;
        config.seed = random.draw();
        let http = || client::Http::new(client::HttpConfig::new(URL).expect("a URL"));
        let mut near = match plan.topology {
            Topology::Http => Near::Http(Client::new(http(), config).expect("a configuration")),
            Topology::Stdio | Topology::StdioRelay | Topology::HttpRelay => {
                Near::Stdio(Client::new(Stdio::new(), config).expect("a configuration"))
            }
        };
        either!(Near, &mut near, client => client.connect(now).expect("a fresh client"));
        let mut relay = relay::Config::default();
        relay.seed = random.draw();
        relay.versions = plan.allowed.to_vec();
        let middle = match plan.topology {
            Topology::Http | Topology::Stdio => Middle::Nobody,
            Topology::StdioRelay => Middle::Stdio(Relay::new(Stdio::new(), relay).expect("a configuration")),
            Topology::HttpRelay => Middle::Http(Relay::new(http(), relay).expect("a configuration")),
        };
        let far = serving(plan);
        let seen = Seen { hash: 0xcbf2_9ce4_8422_2325, messages: 0, watcher };
        Self {
            plan,
            start: now,
            now,
            network: Network::new(Random::new(random.draw())),
            random,
            near,
            middle,
            far,
            pipes: Default::default(),
            application: Application::default(),
            service: Service::default(),
            model: Model::default(),
            seen,
        }
    }

    fn play(&mut self) {
        self.network.trouble = self.plan.trouble;
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
            Moment::Call { text, timeout } => {
                let params = Json::empty_object().with_member("text", &Json::from(text.as_str()));
                let params = params.with_member("name", &Json::from("echo"));
                let call = client::Call::new("tools/call").params(params).timeout(*timeout).with_progress();
                if let Ok(request) = either!(Near, &mut self.near, client => client.request(call, now)) {
                    self.model.called(request, text);
                }
            }
            Moment::Cancel { nth } => {
                if let Some(request) = self.model.nth_waiting(*nth) {
                    self.model.taken_back(request);
                    either!(Near, &mut self.near, client => client.cancel(request, None, now));
                }
            }
            Moment::Listen => {
                let filter = Json::parse(r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#).expect("JSON");
                if let Ok(key) = either!(Near, &mut self.near, client => client.listen(filter, now)) {
                    self.model.listens(key);
                }
            }
            Moment::Unlisten => {
                if let Some(key) = self.model.any_subscription() {
                    either!(Near, &mut self.near, client => client.unlisten(key, now));
                }
            }
            Moment::Publish => {
                let changed = mcp_proto::Notification::new("notifications/tools/list_changed");
                either!(Far, &mut self.far, server => server.publish(changed, now).expect("it is declared"));
            }
            Moment::Restart => self.restart(),
            Moment::Leap { time } => self.now += *time,
            Moment::Cut => self.cut(),
        }
        self.drain();
        self.let_time_act();
    }

    /// The server ends, and another one takes its place. On a byte stream, that is the end.
    fn restart(&mut self) {
        match &self.far {
            Far::Http(_) => {
                self.network.restart(self.now);
                self.far = serving(self.plan);
                self.service.forget();
                self.model.restarted();
            }
            Far::Stdio(_) => self.cut(),
        }
    }

    /// The stream to the server ends, in the middle of whatever was said.
    fn cut(&mut self) {
        let now = self.now;
        match (&mut self.far, &mut self.middle, &mut self.near) {
            (Far::Stdio(server), Middle::Nobody, Near::Stdio(client)) => {
                server.handle_eof(now);
                client.handle_eof(now);
                self.pipes[UP].cut();
                self.pipes[DOWN].cut();
            }
            (Far::Stdio(server), Middle::Stdio(relay), _) => {
                server.handle_eof(now);
                relay.handle_server_eof(now);
                self.pipes[FAR_UP].cut();
                self.pipes[FAR_DOWN].cut();
            }
            _ => {}
        }
    }

    /// Everything comes to an end: the network is well again, and nobody makes any more calls.
    fn end(&mut self) {
        self.network.trouble = 0;
        self.run_until(self.now + PATIENCE);
        self.model.nobody_waits();
        let now = self.now;
        either!(Near, &mut self.near, client => client.close(now));
        self.run_until(self.now + PATIENCE);
        self.model.is_over();
        let (open, left) = either!(Near, &self.near, client => (client.is_closed(), client.requests_in_flight()));
        assert!(open && left == 0, "the client does not end: {left} requests are left");
    }

    fn run_until(&mut self, until: Instant) {
        let mut steps = 0;
        loop {
            self.drain();
            let Some(at) = self.next_moment().filter(|at| *at <= until) else { break };
            steps = if at > self.now { 0 } else { steps + 1 };
            assert!(steps < STEPS_AT_ONCE, "the machines never fall silent");
            self.now = self.now.max(at);
            self.deliver();
            self.let_time_act();
        }
        self.now = self.now.max(until);
    }

    fn next_moment(&self) -> Option<Instant> {
        let mut moments = vec![
            self.network.next(),
            self.application.next(),
            self.service.next(),
            either!(Near, &self.near, client => client.poll_timeout()),
            either!(Far, &self.far, server => server.poll_timeout()),
            match &self.middle {
                Middle::Nobody => None,
                Middle::Stdio(relay) => relay.poll_timeout(),
                Middle::Http(relay) => relay.poll_timeout(),
            },
        ];
        moments.extend(self.pipes.iter().map(Pipe::next));
        moments.into_iter().flatten().min()
    }

    fn let_time_act(&mut self) {
        let now = self.now;
        either!(Near, &mut self.near, client => client.handle_timeout(now));
        either!(Far, &mut self.far, server => server.handle_timeout(now));
        match &mut self.middle {
            Middle::Nobody => {}
            Middle::Stdio(relay) => relay.handle_timeout(now),
            Middle::Http(relay) => relay.handle_timeout(now),
        }
        either!(Near, &mut self.near, client => self.application.act(client, now, &mut self.random));
        either!(Far, &mut self.far, server => self.service.act(server, now, &mut self.random, &mut self.model));
        self.drain();
    }

    /// Hands over what has arrived.
    fn deliver(&mut self) {
        let now = self.now;
        while let Some(bytes) = self.pipes[DOWN].due(now) {
            if let Near::Stdio(client) = &mut self.near {
                client.handle_bytes(&bytes, now);
            }
        }
        while let Some(bytes) = self.pipes[UP].due(now) {
            match (&mut self.middle, &mut self.far) {
                (Middle::Stdio(relay), _) => relay.handle_bytes(&bytes, now),
                (Middle::Http(relay), _) => relay.handle_bytes(&bytes, now),
                (Middle::Nobody, Far::Stdio(server)) => server.handle_bytes(&bytes, now),
                (Middle::Nobody, Far::Http(_)) => unreachable!("no pipe leads there"),
            }
        }
        while let Some(bytes) = self.pipes[FAR_UP].due(now) {
            if let Far::Stdio(server) = &mut self.far {
                server.handle_bytes(&bytes, now);
            }
        }
        while let Some(bytes) = self.pipes[FAR_DOWN].due(now) {
            if let Middle::Stdio(relay) = &mut self.middle {
                relay.handle_server_bytes(&bytes, now);
            }
        }
        self.drain();
        while let Some((asked, served, piece)) = self.network.arrived_at_server(now) {
            self.hand_to_server(asked, served, piece);
            self.drain();
        }
        while let Some((asked, piece)) = self.network.arrived_at_client(now) {
            self.hand_to_client(asked, piece);
            self.drain();
        }
        self.network.sweep();
    }

    fn hand_to_server(&mut self, asked: client::ExchangeKey, named: Option<server::ExchangeKey>, piece: ToServer) {
        let Far::Http(server) = &mut self.far else { return };
        match (piece, named) {
            (ToServer::Head(head), _) => {
                let mut nonce = [0; 32];
                for part in nonce.chunks_mut(8) {
                    part.copy_from_slice(&self.random.draw().to_le_bytes());
                }
                let key = server.handle_request(
                    *head,
                    Arrival { principal: None, peer: None, is_routed: false, nonce },
                    self.now,
                );
                self.network.named(asked, key);
            }
            (ToServer::Body(bytes), Some(key)) => server.handle_body(key, &bytes, self.now),
            (ToServer::End, Some(key)) => server.handle_end(key, self.now),
            (ToServer::Gone, Some(key)) => server.handle_disconnect(key, self.now),
            // It was begun at a server that is no more.
            (ToServer::Body(_) | ToServer::End | ToServer::Gone, None) => {}
        }
    }

    fn hand_to_client(&mut self, exchange: client::ExchangeKey, piece: ToClient) {
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
        match (&mut self.near, &mut self.middle) {
            (Near::Http(client), _) => hand_in!(client),
            (_, Middle::Http(relay)) => hand_in!(relay),
            _ => unreachable!("nobody opens exchanges here"),
        }
    }

    /// Takes what the machines have to say, until they are silent.
    fn drain(&mut self) {
        loop {
            let is_silent = !self.drain_near() & !self.drain_middle() & !self.drain_far();
            if is_silent {
                return;
            }
        }
    }

    fn drain_near(&mut self) -> bool {
        let (now, at) = (self.now, self.now - self.start);
        let event = match &mut self.near {
            Near::Stdio(client) => match client.poll_output() {
                None => return false,
                Some(Output::Action(StdioAction::Write(bytes))) => {
                    self.pipes[UP].send(bytes, now, &mut self.random);
                    return true;
                }
                Some(Output::Action(_)) => {
                    match (&mut self.middle, &mut self.far) {
                        (Middle::Stdio(relay), _) => relay.handle_eof(now),
                        (Middle::Http(relay), _) => relay.handle_eof(now),
                        (Middle::Nobody, Far::Stdio(server)) => server.handle_eof(now),
                        (Middle::Nobody, Far::Http(_)) => unreachable!("no pipe leads there"),
                    }
                    return true;
                }
                Some(Output::Event(event)) => event,
            },
            Near::Http(client) => match client.poll_output() {
                None => return false,
                Some(Output::Action(client::HttpAction::Open { exchange, request })) => {
                    self.network.open(exchange, request, now);
                    return true;
                }
                Some(Output::Action(client::HttpAction::Abort { exchange })) => {
                    self.network.abort(exchange, now);
                    return true;
                }
                Some(Output::Action(action)) => panic!("{action:?} is new"),
                Some(Output::Event(event)) => event,
            },
        };
        self.seen.note(at, &without_time(&event), "client");
        self.application.told(event, now, &mut self.random, &mut self.model);
        true
    }

    fn drain_middle(&mut self) -> bool {
        let now = self.now;
        let event = match &mut self.middle {
            Middle::Nobody => return false,
            Middle::Stdio(relay) => match relay.poll_output() {
                None => return false,
                Some(Output::Action(relay::Action::Client(StdioAction::Write(bytes)))) => {
                    self.pipes[DOWN].send(bytes, now, &mut self.random);
                    return true;
                }
                Some(Output::Action(relay::Action::Server(StdioAction::Write(bytes)))) => {
                    self.pipes[FAR_UP].send(bytes, now, &mut self.random);
                    return true;
                }
                Some(Output::Action(relay::Action::Client(_))) => {
                    self.end_of_near();
                    return true;
                }
                Some(Output::Action(relay::Action::Server(_))) => {
                    if let Far::Stdio(server) = &mut self.far {
                        server.handle_eof(now);
                    }
                    return true;
                }
                Some(Output::Event(event)) => event,
            },
            Middle::Http(relay) => match relay.poll_output() {
                None => return false,
                Some(Output::Action(relay::Action::Client(StdioAction::Write(bytes)))) => {
                    self.pipes[DOWN].send(bytes, now, &mut self.random);
                    return true;
                }
                Some(Output::Action(relay::Action::Client(_))) => {
                    self.end_of_near();
                    return true;
                }
                Some(Output::Action(relay::Action::Server(client::HttpAction::Open { exchange, request }))) => {
                    self.network.open(exchange, request, now);
                    return true;
                }
                Some(Output::Action(relay::Action::Server(client::HttpAction::Abort { exchange }))) => {
                    self.network.abort(exchange, now);
                    return true;
                }
                Some(Output::Action(action)) => panic!("{action:?} is new"),
                Some(Output::Event(event)) => event,
            },
        };
        let kind = format!("{event:?}");
        let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        self.seen.note(now - self.start, &kind, "relay");
        true
    }

    /// The relay says nothing more to the client. What it has said arrives first.
    fn end_of_near(&mut self) {
        let Near::Stdio(client) = &mut self.near else { return };
        let far = self.now + Duration::from_secs(3600);
        while let Some(bytes) = self.pipes[DOWN].due(far) {
            client.handle_bytes(&bytes, self.now);
        }
        client.handle_eof(self.now);
    }

    fn drain_far(&mut self) -> bool {
        let now = self.now;
        let event = match &mut self.far {
            Far::Stdio(server) => match server.poll_output() {
                None => return false,
                Some(Output::Action(StdioAction::Write(bytes))) => {
                    let pipe = if matches!(self.middle, Middle::Nobody) { DOWN } else { FAR_DOWN };
                    self.pipes[pipe].send(bytes, now, &mut self.random);
                    return true;
                }
                Some(Output::Action(_)) => return true,
                Some(Output::Event(event)) => event,
            },
            Far::Http(server) => match server.poll_output() {
                None => return false,
                Some(Output::Action(action)) => {
                    self.model.acted(&action);
                    match action {
                        server::HttpAction::Respond { exchange, response } => {
                            let body = self.network.respond(exchange, response, now);
                            self.network.write(exchange, body, now);
                            self.network.finish(exchange, now);
                        }
                        server::HttpAction::Stream { exchange, head } => self.network.respond(exchange, head, now),
                        server::HttpAction::Write { exchange, chunk } => self.network.write(exchange, chunk, now),
                        server::HttpAction::Finish { exchange } => self.network.finish(exchange, now),
                        action => panic!("{action:?} is new"),
                    }
                    return true;
                }
                Some(Output::Event(event)) => event,
            },
        };
        self.seen.note(now - self.start, &event, "server");
        self.service.told(event, now, &mut self.random, &mut self.model);
        true
    }
}

fn serving(plan: &Plan) -> Far {
    let mut config = server::Config::new("server", "1");
    config.versions = plan.server.to_vec();
    let capabilities = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#;
    config.capabilities = Json::parse(capabilities).expect("JSON");
    match plan.topology {
        Topology::Stdio | Topology::StdioRelay => {
            Far::Stdio(Server::new(Stdio::new(), config).expect("a configuration"))
        }
        Topology::Http | Topology::HttpRelay => {
            let http = server::Http::new(server::HttpConfig::new());
            Far::Http(Server::new(http, config).expect("a configuration"))
        }
    }
}

/// What is seen of an event: all but the moments in it, which differ from run to run.
fn without_time(event: &client::Event) -> String {
    match event {
        client::Event::Unavailable { reason, .. } => format!("Unavailable {reason:?}"),
        client::Event::ListeningInterrupted { subscription, reason, .. } => {
            format!("ListeningInterrupted {subscription:?} {reason:?}")
        }
        event => format!("{event:?}"),
    }
}

/// Makes a failing plan smaller, as long as it still fails: what is left tells more.
pub fn shrink(plan: &Plan, fails: impl Fn(&Plan) -> bool) -> Plan {
    let mut smallest = plan.clone();
    let mut size = smallest.moments.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < smallest.moments.len() {
            let mut smaller = smallest.clone();
            let end = (at + size).min(smaller.moments.len());
            smaller.moments.drain(at..end);
            if fails(&smaller) {
                smallest = smaller;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    smallest
}

/// Requests by their keys, in the order in which they were made.
type ByRequest<V> = BTreeMap<RequestKey, V>;
