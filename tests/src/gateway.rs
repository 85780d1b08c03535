//! A gateway with clients over HTTP, and processes whose lines a test reads and writes, under a virtual clock.
//!
//! Each output is checked against the contract of the driver: a process is started once, receives nothing after it was
//! stopped, and there are never more processes than allowed.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_intermediary::gateway::{Action, BackendKey, Config, Event, Gateway};
use mcp_proto::server::{ExchangeKey, Principal, RequestInfo};
use mcp_proto::{Instant, Output, ProcessEnd, StartFailure, StdioAction};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::http_server::{Responses, nonce};
use mcp_testkit::messages::INITIALIZED;
use mcp_testkit::transcript;

use crate::seeded::Instead;

/// A process that the gateway has started.
#[derive(Debug, Default)]
struct Process {
    principal: Option<Principal>,
    /// What it has received and the test has not read.
    received: Vec<u8>,
    is_input_closed: bool,
    is_stopping: bool,
}

/// The gateway, the responses to its clients, and its processes.
#[derive(Debug)]
pub struct GatewayHarness {
    /// The machine.
    pub gateway: Gateway,
    /// The current virtual time.
    pub now: Instant,
    /// What was sent to clients.
    pub responses: Responses,
    /// Whether clients read what is sent to them.
    pub is_read: bool,
    /// What the gateway does instead of each action, if it is broken.
    pub instead: Option<Instead<Action>>,
    /// Whether timers fire.
    pub has_timers: bool,
    /// The maximum number of processes.
    limit: usize,
    processes: BTreeMap<BackendKey, Process>,
    /// All processes that were ever started.
    started: Vec<BackendKey>,
    events: Vec<Event>,
    drawn: u64,
}

impl GatewayHarness {
    /// A gateway with the default configuration.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A gateway with a changed configuration.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let limit = config.relay.limits.backends;
        Self {
            gateway: Gateway::new(config).expect("a configuration"),
            now: Instant::START,
            responses: Responses::default(),
            is_read: true,
            instead: None,
            has_timers: true,
            limit,
            processes: BTreeMap::new(),
            started: Vec::new(),
            events: Vec::new(),
            drawn: 0,
        }
    }

    /// Passes a whole request to the gateway.
    pub fn ask(&mut self, asked: &TestRequest) -> ExchangeKey {
        self.drawn += 1;
        let mut info = RequestInfo::new(nonce(self.drawn));
        info.authentication.clone_from(&asked.authentication);
        info.peer.clone_from(&asked.peer);
        let exchange = self.gateway.handle_request(asked.head(), info, self.now);
        self.gateway.handle_body(exchange, &asked.body, self.now);
        self.gateway.handle_end(exchange, self.now);
        self.settle();
        exchange
    }

    /// Passes a whole request to the gateway; returns what it sends at once.
    pub fn answer(&mut self, asked: &TestRequest) -> TestResponse {
        let exchange = self.ask(asked);
        self.responses.take(exchange)
    }

    /// The client disconnects from an exchange.
    pub fn disconnect(&mut self, exchange: ExchangeKey) {
        self.gateway.handle_disconnect(exchange, self.now);
        self.settle();
    }

    /// Opens and confirms a session of a principal. Returns its id and its process, which has answered in this revision.
    pub fn session_of(&mut self, version: &str, principal: Option<&str>) -> (String, BackendKey) {
        let by = |asked: TestRequest| if let Some(principal) = principal { asked.by(principal) } else { asked };
        let exchange = self.ask(&by(TestRequest::post(initialize(version))));
        let process = self.last_started();
        self.reply_to_initialize(process, version);
        let opened = self.responses.take(exchange);
        assert_eq!(opened.code(), 200, "{}", opened.text());
        let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
        let confirmed = self.answer(&by(TestRequest::post(INITIALIZED)).in_session(&id));
        assert_eq!(confirmed.code(), 202);
        let lines = self.lines(process);
        assert!(matches!(&lines[..], [line] if line.contains("notifications/initialized")), "{lines:?}");
        (id, process)
    }

    /// Opens and confirms a session in revision 2025-11-25.
    pub fn session(&mut self) -> (String, BackendKey) {
        self.session_of("2025-11-25", None)
    }

    /// A process answers the `initialize` that it has received.
    pub fn reply_to_initialize(&mut self, process: BackendKey, version: &str) {
        let lines = self.lines(process);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.contains(r#""method":"initialize""#), "{line}");
        let result = format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
        );
        self.reply(process, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id_of(line)));
    }

    /// A process writes a line.
    pub fn reply(&mut self, process: BackendKey, line: &str) {
        self.write(process, format!("{line}\n").as_bytes());
    }

    /// A process writes bytes.
    pub fn write(&mut self, process: BackendKey, bytes: &[u8]) {
        self.gateway.handle_backend_bytes(process, bytes, self.now);
        self.settle();
    }

    /// A process exits: its stream ends, and then it is gone.
    pub fn exit(&mut self, process: BackendKey) {
        self.gateway.handle_backend_eof(process, self.now);
        self.settle();
        self.stopped(process);
    }

    /// A process ends like this, and then it is gone.
    pub fn end_process(&mut self, process: BackendKey, end: ProcessEnd) {
        self.gateway.handle_backend_process_end(process, end, self.now);
        self.settle();
        self.stopped(process);
    }

    /// A process cannot be started.
    pub fn not_started(&mut self, process: BackendKey, failure: StartFailure) {
        assert!(self.processes.remove(&process).is_some(), "it is to be started");
        self.gateway.handle_not_started(process, failure, self.now);
        self.settle();
    }

    /// The driver reports that a process is gone.
    pub fn stopped(&mut self, process: BackendKey) {
        assert!(self.processes.remove(&process).is_some(), "it exists");
        self.gateway.handle_stopped(process, self.now);
        self.settle();
    }

    /// The complete lines that a process has received since the last call.
    pub fn lines(&mut self, process: BackendKey) -> Vec<String> {
        let Some(process) = self.processes.get_mut(&process) else { return Vec::new() };
        let received = std::mem::take(&mut process.received);
        String::from_utf8(received).expect("lines are UTF-8").lines().map(str::to_owned).collect()
    }

    /// Puts a line back that a process is to receive with the next ones.
    pub fn put_back(&mut self, process: BackendKey, line: &str) {
        let process = self.processes.get_mut(&process).expect("it exists");
        process.received.extend_from_slice(format!("{line}\n").as_bytes());
    }

    /// The processes that exist, and whether the gateway wants each to end.
    pub fn processes(&self) -> Vec<(BackendKey, bool)> {
        self.processes.iter().map(|(key, process)| (*key, process.is_stopping)).collect()
    }

    /// Whether the input of a process was closed.
    pub fn is_input_closed(&self, process: BackendKey) -> bool {
        self.processes.get(&process).is_some_and(|process| process.is_input_closed)
    }

    /// The client for which a process was started.
    pub fn principal(&self, process: BackendKey) -> Option<&str> {
        self.processes.get(&process)?.principal.as_ref().map(Principal::as_str)
    }

    /// The number of processes that were ever started.
    pub fn starts(&self) -> usize {
        self.started.len()
    }

    /// The process that was started last.
    pub fn last_started(&self) -> BackendKey {
        *self.started.last().expect("a process was started")
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Advances the time, and fires each timer at its time.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.gateway.poll_timeout().filter(|at| *at <= until && self.has_timers) {
            self.now = at.max(self.now);
            self.gateway.handle_timeout(self.now);
            self.settle();
        }
        self.now = until;
    }

    /// Carries out the actions of the gateway.
    pub fn settle(&mut self) {
        while let Some(output) = transcript::added(self.now, "gateway", self.gateway.poll_output()) {
            match output {
                Output::Event(event) => self.events.push(event),
                Output::Action(action) => {
                    for action in Instead::of(&mut self.instead, action) {
                        self.carry_out(action);
                    }
                }
            }
        }
        transcript::add_state(self.now, "gateway", self.gateway.poll_timeout(), || self.gateway.load(), &[]);
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Client(action) => {
                let written = self.responses.act(action);
                if let Some((exchange, bytes)) = written.filter(|_| self.is_read) {
                    self.gateway.handle_written(exchange, bytes, self.now);
                }
            }
            Action::Start { backend, principal } => {
                assert!(!self.started.contains(&backend), "a key is used once");
                self.started.push(backend);
                self.processes.insert(backend, Process { principal, ..Process::default() });
                assert!(self.processes.len() <= self.limit, "there are too many processes");
            }
            Action::Backend { backend, action } => {
                let process = self.processes.get_mut(&backend).expect("an action for a process that exists");
                assert!(!process.is_stopping, "an action for a process that was stopped");
                match action {
                    StdioAction::Write(bytes) => {
                        process.received.extend_from_slice(&bytes);
                        self.gateway.handle_backend_written(backend, bytes.len(), self.now);
                    }
                    StdioAction::CloseWrite => process.is_input_closed = true,
                    action => panic!("{action:?} is not expected"),
                }
            }
            Action::Stop { backend } => {
                let process = self.processes.get_mut(&backend).expect("a process that exists");
                assert!(!std::mem::replace(&mut process.is_stopping, true), "stopped twice");
            }
            action => panic!("{action:?} is new"),
        }
    }
}

impl Default for GatewayHarness {
    fn default() -> Self {
        Self::new()
    }
}

/// The text of the id of a message in a line.
pub fn id_of(line: &str) -> &str {
    let id = line.split_once(r#""id":"#).expect("a message with an id").1;
    id.split([',', '}']).next().expect("an id")
}
