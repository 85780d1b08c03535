//! A client and a server machine connected by a simulated byte stream, or by two streams with a relay between them. One
//! seed and one virtual clock determine the run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_intermediary::relay;
use mcp_intermediary::relay::Relay;
use mcp_proto::client::{self, Call, Client, Outcome};
use mcp_proto::server::{self, InputRequired, Progress, Server};
use mcp_proto::{
    ErrorObject, Instant, Json, Output, ProtocolVersion, RequestKey, Stdio, StdioAction, Ticket, TicketKey,
};
use mcp_testkit::network::ByteStream;
use mcp_testkit::random::Random;

/// A request that the simulated application of the server is working on, step by step.
#[derive(Debug)]
struct Job {
    ticket: Ticket,
    /// The text of its result; `None` if it refuses.
    text: Option<Json>,
    /// The number of progress notifications that it has still to send before the response.
    progress: u64,
}

/// A client and a server that are connected.
#[derive(Debug)]
pub struct EchoPair {
    /// The client machine.
    pub client: Client<Stdio>,
    /// The server machine.
    pub server: Server<Stdio>,
    /// The current virtual time.
    pub now: Instant,
    random: Random,
    relay: Option<Relay<Stdio>>,
    to_server: ByteStream,
    to_client: ByteStream,
    /// The streams to the relay, if there is one: `up` from the client, `down` from the server.
    up: ByteStream,
    down: ByteStream,
    /// The requests that the server's application is working on, by the time of the next step.
    jobs: BTreeMap<(Instant, TicketKey), Job>,
    /// Requests without an outcome, and their texts.
    pub waiting: BTreeMap<RequestKey, String>,
    /// Requests that were cancelled.
    pub cancelled: BTreeSet<RequestKey>,
    /// Outcomes in the order in which they were reported.
    pub outcomes: Vec<(RequestKey, Outcome)>,
    /// The number of requests of the server that the client's application answered.
    pub asked: usize,
    /// The number of progress notifications that the client's application has received.
    pub progressed: usize,
    /// Every event in order. The same seed gives the same trace.
    pub trace: Vec<String>,
}

impl EchoPair {
    /// A client and a server that are about to connect. With an even seed, they negotiate 2026-07-28.
    pub fn new(seed: u64) -> Self {
        let client: &[ProtocolVersion] =
            if seed % 2 == 0 { ProtocolVersion::ALL } else { &[ProtocolVersion::LATEST_LEGACY] };
        Self::with_versions(seed, client, ProtocolVersion::ALL, None)
    }

    /// A client and a server with these revisions that are about to connect through a relay.
    pub fn joined(seed: u64, client: &[ProtocolVersion], server: &[ProtocolVersion]) -> Self {
        let relay = Relay::new(Stdio::new(), relay::Config::default()).expect("a configuration");
        Self::with_versions(seed, client, server, Some(relay))
    }

    fn with_versions(
        seed: u64,
        client: &[ProtocolVersion],
        server: &[ProtocolVersion],
        relay: Option<Relay<Stdio>>,
    ) -> Self {
        let mut client_config = client::Config::new("c", "1");
        client_config.capabilities = Json::parse(r#"{"roots":{},"elicitation":{}}"#).expect("JSON");
        client_config.versions = client.to_vec();
        let mut server_config = server::Config::new("s", "1");
        server_config.capabilities = Json::parse(r#"{"tools":{}}"#).expect("JSON");
        server_config.versions = server.to_vec();
        let now = Instant::START;
        let mut client = Client::new(Stdio::new(), client_config).expect("a configuration");
        client.connect(now).expect("a fresh client");
        let server = Server::new(Stdio::new(), server_config).expect("a configuration");
        Self {
            client,
            server,
            now,
            random: Random::new(seed),
            relay,
            to_server: ByteStream::new(),
            to_client: ByteStream::new(),
            up: ByteStream::new(),
            down: ByteStream::new(),
            jobs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            outcomes: Vec::new(),
            asked: 0,
            progressed: 0,
            trace: Vec::new(),
        }
    }

    /// Makes a request of the client, which the server's application will answer with the same text.
    pub fn request(&mut self, text: &str) -> RequestKey {
        let params = Json::empty_object().with_member("text", &Json::from(text));
        let call = Call::new("tools/call").params(params).timeout(Duration::from_secs(1)).with_progress();
        let request = self.client.request(call, self.now).expect("an accepted request");
        self.waiting.insert(request, text.to_owned());
        request
    }

    /// Cancels a request of the client.
    pub fn cancel(&mut self, request: RequestKey) {
        self.cancelled.insert(request);
        self.client.cancel(request, None, self.now);
    }

    /// Runs until no event is left.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            self.drain();
            if !self.step() {
                return;
            }
        }
        panic!("the machines never stop writing");
    }

    /// Runs for this time.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..1_000_000 {
            self.drain();
            if self.next_moment().is_none_or(|at| at > until) {
                self.now = until;
                return;
            }
            self.step();
        }
        panic!("the machines never stop writing");
    }

    fn next_moment(&self) -> Option<Instant> {
        let moments = [
            self.to_server.next_arrival(),
            self.to_client.next_arrival(),
            self.up.next_arrival(),
            self.down.next_arrival(),
            self.relay.as_ref().and_then(Relay::poll_timeout),
            self.client.poll_timeout(),
            self.server.poll_timeout(),
            self.jobs.first_key_value().map(|((at, _), _)| *at),
        ];
        moments.into_iter().flatten().min()
    }

    /// Advances to the time of the next event; `false` if there is none.
    fn step(&mut self) -> bool {
        let Some(at) = self.next_moment() else { return false };
        self.now = self.now.max(at);
        while let Some(bytes) = self.to_server.read(self.now) {
            self.server.handle_bytes(&bytes, self.now);
        }
        while let Some(bytes) = self.to_client.read(self.now) {
            self.client.handle_bytes(&bytes, self.now);
        }
        if let Some(relay) = &mut self.relay {
            while let Some(bytes) = self.up.read(self.now) {
                relay.handle_bytes(&bytes, self.now);
            }
            while let Some(bytes) = self.down.read(self.now) {
                relay.handle_server_bytes(&bytes, self.now);
            }
            relay.handle_timeout(self.now);
        }
        while let Some(entry) = self.jobs.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let job = entry.remove();
            self.go_on(job);
        }
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        true
    }

    fn drain(&mut self) {
        loop {
            if let Some(output) = self.client.poll_output() {
                match output {
                    Output::Action(StdioAction::Write(bytes)) => {
                        let pipe = if self.relay.is_some() { &mut self.up } else { &mut self.to_server };
                        self.client.handle_written(bytes.len(), self.now);
                        pipe.write(bytes, self.now, &mut self.random);
                    }
                    Output::Action(action) => panic!("unexpected action: {action:?}"),
                    Output::Event(event) => self.on_client_event(event),
                }
            } else if let Some(output) = self.server.poll_output() {
                match output {
                    Output::Action(StdioAction::Write(bytes)) => {
                        let pipe = if self.relay.is_some() { &mut self.down } else { &mut self.to_client };
                        self.server.handle_written(bytes.len(), self.now);
                        pipe.write(bytes, self.now, &mut self.random);
                    }
                    Output::Action(action) => panic!("unexpected action: {action:?}"),
                    Output::Event(event) => self.on_server_event(event),
                }
            } else if let Some((relay, output)) =
                self.relay.as_mut().and_then(|relay| relay.poll_output().map(|output| (relay, output)))
            {
                match output {
                    Output::Action(relay::Action::Client(StdioAction::Write(bytes))) => {
                        relay.handle_written(bytes.len(), self.now);
                        self.to_client.write(bytes, self.now, &mut self.random);
                    }
                    Output::Action(relay::Action::Server(StdioAction::Write(bytes))) => {
                        relay.handle_server_written(bytes.len(), self.now);
                        self.to_server.write(bytes, self.now, &mut self.random);
                    }
                    Output::Action(action) => panic!("unexpected action: {action:?}"),
                    Output::Event(event) => self.trace.push(format!("relay {event:?}")),
                }
            } else {
                return;
            }
        }
    }

    fn on_client_event(&mut self, event: client::Event) {
        self.trace.push(format!("client {event:?}"));
        match event {
            client::Event::Responded { request, outcome } => {
                let text = self.waiting.remove(&request).expect("one outcome for each request");
                if let Outcome::Result(result) = &outcome {
                    let echoed = result.member("text").expect("unique members").expect("an echo");
                    assert_eq!(echoed, Json::from(text.as_str()), "the answer to another request");
                }
                self.outcomes.push((request, outcome));
            }
            client::Event::Requested { ticket, .. } => {
                self.asked += 1;
                self.client.answer(ticket, Ok(Json::empty_object()), self.now);
            }
            client::Event::Progressed { request, .. } => {
                assert!(self.waiting.contains_key(&request), "progress of a request that has ended");
                self.progressed += 1;
            }
            client::Event::Faulted(fault) => {
                let late =
                    matches!(fault, mcp_proto::Fault::LateResponse { .. } | mcp_proto::Fault::UnknownProgressToken);
                assert!(late, "{fault}");
            }
            _ => {}
        }
    }

    fn on_server_event(&mut self, event: server::Event) {
        self.trace.push(format!("server {event:?}"));
        match event {
            server::Event::Requested { ticket, params, .. } => {
                let needs_input = self.random.below(4) == 0;
                if needs_input {
                    let required = InputRequired::new();
                    // Some results request no input: the client only has to send the request again.
                    let required = if self.random.below(4) == 0 {
                        required
                    } else {
                        required.ask("form", "elicitation/create", Json::empty_object())
                    };
                    self.server.require_input(ticket, required.state("a\"b"), self.now).expect("a tool may ask");
                    return;
                }
                let text = params.and_then(|params| params.member("text").expect("unique members"));
                let text = text.filter(|_| self.random.below(5) > 0);
                let is_legacy = self.server.context(&ticket).is_some_and(|it| it.version.rules().server_requests);
                let job = Job { ticket, text, progress: self.random.below(4) };
                if is_legacy && self.random.below(4) == 0 {
                    self.server
                        .request(self.server.session(), Call::new("roots/list"), self.now)
                        .expect("a connected server");
                }
                self.later(job);
            }
            // The client's response to a request that belongs to a call, which the client has cancelled meanwhile.
            server::Event::Faulted(mcp_proto::Fault::LateResponse { .. }) => {}
            server::Event::Faulted(fault) => panic!("{fault}"),
            _ => {}
        }
    }

    fn later(&mut self, job: Job) {
        let at = self.now + Duration::from_millis(self.random.below(600));
        self.jobs.insert((at, job.ticket.key()), job);
    }

    /// Performs the next step of a job.
    fn go_on(&mut self, mut job: Job) {
        if job.progress > 0 {
            let progress = Progress {
                progress: 10.0 - f64::from(u32::try_from(job.progress).unwrap_or(0)),
                total: None,
                message: None,
            };
            self.server.progress(&job.ticket, &progress, self.now);
            job.progress -= 1;
            return self.later(job);
        }
        let answer = match job.text {
            Some(text) => Ok(Json::empty_object().with_member("text", &text)),
            None => Err(ErrorObject::new(-32000, "no")),
        };
        self.server.respond(job.ticket, answer, self.now).expect("a code that may be used");
    }
}
