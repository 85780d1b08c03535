//! An aggregate between a client machine and servers, each of which is a server machine with an application, under a
//! virtual clock.
//!
//! Each output is checked against the contract of the driver: a server is started only if it does not run, and receives
//! nothing after it was stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_intermediary::aggregate::{Action, Aggregate, Config, Event, ServerKey};
use mcp_intermediary::relay;
use mcp_proto::client::{self, Call, Client, Outcome};
use mcp_proto::server::{InputRequired, Progress, Server};
use mcp_proto::spec::{CacheScope, LoggingLevel};
use mcp_proto::{
    ErrorObject, Fault, Instant, Json, Method, Notification, Output, ProcessEnd, ProtocolVersion, RequestKey,
    StartFailure, Stdio, StdioAction, Ticket, server,
};
use mcp_testkit::transcript;

use crate::seeded::Instead;

/// What a server offers, and how it behaves.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "ways of a server to misbehave, in any combination")]
pub struct Offer {
    /// The revisions that it serves.
    pub versions: Vec<ProtocolVersion>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The definitions of further tools, on the last page.
    pub definitions: Vec<String>,
    /// How long its lists are valid, since 2026-07-28.
    pub cache_ttl: Duration,
    /// Who may keep its lists.
    pub cache_scope: CacheScope,
    /// The number of tools in each page.
    pub page: usize,
    /// The URIs of its resources.
    pub resources: Vec<String>,
    /// Its templates of resources.
    pub templates: Vec<String>,
    /// The URIs of resources that it has and does not list.
    pub unlisted: Vec<String>,
    /// The methods of requests that it does not answer.
    pub silent_for: Vec<&'static str>,
    /// Each page of its lists of tools and resources is followed by another one.
    pub is_endless: bool,
    /// The length of the description of each tool.
    pub description: usize,
    /// Its capabilities.
    pub capabilities: &'static str,
    /// Its process exits at once when it is started.
    pub is_broken: bool,
    /// Its command is not found when it is started.
    pub is_missing: bool,
    /// It answers nothing.
    pub is_silent: bool,
    /// Its process exits on a request before `initialize`.
    pub exits_on_discover: bool,
}

/// The capabilities of a server with everything.
pub const ALL: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}"#;

impl Offer {
    /// A server of these revisions with these tools, a prompt `p`, and no resources.
    pub fn new(versions: &[ProtocolVersion], tools: &[&str]) -> Self {
        Self {
            versions: versions.to_vec(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            definitions: Vec::new(),
            cache_ttl: Duration::ZERO,
            cache_scope: CacheScope::Private,
            page: 100,
            resources: Vec::new(),
            templates: Vec::new(),
            unlisted: Vec::new(),
            silent_for: Vec::new(),
            is_endless: false,
            description: 0,
            capabilities: ALL,
            is_broken: false,
            is_missing: false,
            is_silent: false,
            exits_on_discover: false,
        }
    }
}

/// A server behind the aggregate.
#[derive(Debug)]
pub struct TestServer {
    name: String,
    /// What it offers from its next start on; its lists and its silence change at once.
    pub offer: Offer,
    key: Option<ServerKey>,
    /// It has received nothing.
    is_new: bool,
    process: Option<Server<Stdio>>,
    is_stopping: bool,
    /// It has answered the request that opens the connection.
    is_open: bool,
    /// What was written to it while it was silent.
    unread: Vec<u8>,
    /// The requests that it has received since it was started first: methods and parameters.
    pub requests: Vec<(String, String)>,
    /// The notifications that it has received.
    pub notifications: Vec<String>,
    /// The number of its clients' mistakes.
    pub faults: usize,
    /// The calls of the tool `slow`: their tickets and marks.
    held: Vec<(Ticket, String)>,
    /// The requests that it did not answer, because it is silent for their methods.
    unanswered: Vec<(Ticket, Method, Json)>,
    /// What was written to its process.
    pub received: Vec<u8>,
    /// What its process has written.
    pub written: Vec<u8>,
    /// The answers to the requests that it has made outside of calls.
    pub answers: Vec<Outcome>,
    /// Requests of the client that were cancelled.
    pub cancelled: usize,
    /// How often it was started.
    pub starts: usize,
}

/// An aggregate with its client and its servers.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub struct AggregateHarness {
    /// The machine.
    pub aggregate: Aggregate,
    /// The current virtual time.
    pub now: Instant,
    /// The client.
    pub client: Client<Stdio>,
    /// The servers, in the order of the configuration.
    pub servers: Vec<TestServer>,
    /// The outcomes of the client's requests.
    pub outcomes: BTreeMap<RequestKey, Outcome>,
    /// The notifications that the client has received: methods and parameters.
    pub notified: Vec<(String, String)>,
    /// The progress that the client has received, and the requests that it is about.
    pub progress: Vec<(RequestKey, String)>,
    /// The parameters of the requests that the client has received.
    pub asked: Vec<String>,
    /// Whether the client answers requests at once.
    pub answers_at_once: bool,
    /// The requests that the client has not answered: their tickets and parameters.
    pub questions: Vec<(Ticket, String)>,
    /// The requests that were cancelled at the client.
    pub withdrawn: usize,
    /// The acknowledged filters of the client's subscriptions.
    pub listening: Vec<String>,
    /// The result with which the connection was opened.
    pub opened: Option<Json>,
    /// The lines that the client has received.
    pub received: Vec<u8>,
    /// The events of the aggregate.
    pub events: Vec<Event>,
    /// What the client has not expected: answers to no request of it.
    pub unexpected: Vec<String>,
    /// What the aggregate does instead of each action, if it is broken.
    pub instead: Option<Instead<Action>>,
    /// Whether the aggregate notices the end of a server.
    pub notices_exits: bool,
    /// Whether the timers of the aggregate fire.
    pub has_timers: bool,
    /// Whether processes that were stopped end at once.
    pub stops_at_once: bool,
    is_closed: bool,
    answered: BTreeSet<RequestKey>,
}

impl AggregateHarness {
    /// An aggregate with servers of these names, whose client uses these revisions.
    pub fn new(client: &[ProtocolVersion], servers: &[(&str, Offer)]) -> Self {
        Self::with(client, servers, |_| {})
    }

    /// The same with a changed configuration.
    pub fn with(client: &[ProtocolVersion], servers: &[(&str, Offer)], change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new("all", "1.0.0");
        for (name, _) in servers {
            config = config.server(name, relay::Config::default());
        }
        change(&mut config);
        let mut of_client = client::Config::new("test", "1.0.0");
        of_client.versions = client.to_vec();
        of_client.capabilities =
            Json::parse(r#"{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}"#).expect("JSON");
        let now = Instant::START;
        let mut client = Client::new(Stdio::new(), of_client).expect("a configuration");
        client.connect(now).expect("it was not connected");
        let servers = servers.iter().map(|(name, offer)| TestServer::new(name, offer.clone())).collect();
        let mut harness = Self {
            aggregate: Aggregate::new(config).expect("a configuration"),
            now,
            client,
            servers,
            outcomes: BTreeMap::new(),
            notified: Vec::new(),
            progress: Vec::new(),
            asked: Vec::new(),
            answers_at_once: true,
            questions: Vec::new(),
            withdrawn: 0,
            listening: Vec::new(),
            opened: None,
            received: Vec::new(),
            events: Vec::new(),
            unexpected: Vec::new(),
            instead: None,
            notices_exits: true,
            has_timers: true,
            stops_at_once: true,
            is_closed: false,
            answered: BTreeSet::new(),
        };
        harness.settle();
        harness
    }

    /// Makes a request of the client.
    pub fn request(&mut self, method: &str, params: &str) -> RequestKey {
        let call = Call::new(method).params(Json::parse(params.to_owned()).expect("JSON"));
        let request = self.client.request(call.with_progress(), self.now).expect("a request");
        self.settle();
        request
    }

    /// Makes a request of the client; returns the result.
    ///
    /// # Errors
    ///
    /// The text of the error.
    pub fn ask(&mut self, method: &str, params: &str) -> Result<String, String> {
        let request = self.request(method, params);
        self.outcome(request).unwrap_or_else(|| panic!("{method} {params} was not answered"))
    }

    /// The outcome of a request, once: the result, or the text of the error.
    pub fn outcome(&mut self, request: RequestKey) -> Option<Result<String, String>> {
        Some(match self.outcomes.remove(&request)? {
            Outcome::Result(result) => Ok(result.to_text().into_owned()),
            Outcome::Error(error) => Err(format!("{} {}", error.code(), error.message())),
            Outcome::Failed(reason) => Err(format!("failed: {}", reason.name())),
        })
    }

    /// The names of the tools in the first page of the list.
    pub fn tools(&mut self) -> Vec<String> {
        let list = self.ask("tools/list", "{}").expect("a list");
        names(&list, "tools", "name")
    }

    /// Calls a tool; returns the text of its result.
    ///
    /// # Errors
    ///
    /// The text of the error.
    pub fn call(&mut self, tool: &str, arguments: &str) -> Result<String, String> {
        let result = self.ask("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))?;
        let content = Json::parse(result).expect("JSON").first_member("content").expect("content");
        let text = content.elements().next().expect("a content").first_member("text").expect("a text");
        Ok(text.as_string().expect("a text").into_owned())
    }

    /// The notifications of this method since the last call.
    pub fn take_notified(&mut self, method: &Method) -> usize {
        let before = self.notified.len();
        self.notified.retain(|(notified, _)| notified != method.as_str());
        before - self.notified.len()
    }

    /// Advances the time, and fires each timer at its time.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.next_timer().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            if self.has_timers {
                self.aggregate.handle_timeout(self.now);
            }
            self.client.handle_timeout(self.now);
            for server in &mut self.servers {
                if let Some(process) = &mut server.process {
                    process.handle_timeout(self.now);
                }
            }
            self.settle();
        }
        self.now = until;
    }

    /// The stream of a server ends with its process, whose end is not reported.
    pub fn exit(&mut self, server: usize) {
        self.exit_as(server, None);
    }

    /// The process of a server ends in this way.
    pub fn exit_as(&mut self, server: usize, end: Option<ProcessEnd>) {
        self.servers[server].process = None;
        self.servers[server].is_stopping = false;
        if !self.notices_exits {
            return;
        }
        let key = self.server_key(server);
        // Its end is reported once.
        let stops_at_once = std::mem::replace(&mut self.stops_at_once, false);
        match end {
            Some(end) => self.aggregate.handle_server_process_end(key, end, self.now),
            None => self.aggregate.handle_server_eof(key, self.now),
        }
        self.settle_outputs();
        (self.stops_at_once, self.servers[server].is_stopping) = (stops_at_once, false);
        self.aggregate.handle_stopped(key, self.now);
        self.settle();
    }

    /// The driver reports that processes that were stopped have ended.
    pub fn end_stopping(&mut self) {
        for server in 0..self.servers.len() {
            if std::mem::take(&mut self.servers[server].is_stopping) {
                self.servers[server].process = None;
                let key = self.server_key(server);
                self.aggregate.handle_stopped(key, self.now);
            }
        }
        self.settle();
    }

    /// The number of subscriptions that are open at a server.
    pub fn subscriptions_at(&self, server: usize) -> usize {
        self.servers[server].process.as_ref().map_or(0, |process| process.load().subscriptions)
    }

    /// Whether a server has answered the request that opens the connection.
    pub fn is_usable(&self, server: usize) -> bool {
        self.is_running(server) && self.servers[server].is_open
    }

    /// Whether a server has a process that was not stopped.
    pub fn is_running(&self, server: usize) -> bool {
        self.servers[server].process.is_some() && !self.servers[server].is_stopping
    }

    /// A server sends a notification to all that want it.
    pub fn publish(&mut self, server: usize, method: &Method, params: &str) {
        let change = Notification::with_params(method.clone(), Json::parse(params.to_owned()).expect("JSON"));
        let now = self.now;
        if let Some(process) = &mut self.servers[server].process {
            process.publish(change, now).expect("it was declared");
        }
        self.settle();
    }

    /// A server sends a log message outside of a request.
    pub fn log(&mut self, server: usize, level: LoggingLevel, text: &str) {
        let now = self.now;
        if let Some(process) = &mut self.servers[server].process {
            let session = process.session();
            process.log(session, level, None, &Json::from(text), now).expect("it was declared");
        }
        self.settle();
    }

    /// A server makes a request to the client outside of a call.
    pub fn ask_client(&mut self, server: usize, method: &str, params: &str) {
        let now = self.now;
        let call = Call::new(method).params(Json::parse(params.to_owned()).expect("JSON"));
        if let Some(process) = &mut self.servers[server].process {
            let session = process.session();
            process.request(session, call, now).expect("the session is open");
        }
        self.settle();
    }

    /// A server that was silent answers what it has received.
    pub fn speak(&mut self, server: usize) {
        let now = self.now;
        let server = &mut self.servers[server];
        server.offer.is_silent = false;
        let unread = std::mem::take(&mut server.unread);
        if let Some(process) = &mut server.process {
            process.handle_bytes(&unread, now);
        }
        self.settle();
    }

    /// A server writes this line, whatever its machine does.
    pub fn inject(&mut self, server: usize, line: &str) {
        if self.is_running(server) {
            let key = self.server_key(server);
            self.aggregate.handle_server_bytes(key, format!("{line}\n").as_bytes(), self.now);
            self.settle();
        }
    }

    /// A server answers all requests from now on, those that it did not answer included.
    pub fn answer_all(&mut self, server: usize) {
        let now = self.now;
        let server = &mut self.servers[server];
        server.offer.silent_for.clear();
        for (ticket, method, params) in std::mem::take(&mut server.unanswered) {
            server.on_request(ticket, &method, &params, now);
        }
        self.settle();
    }

    /// Requests a list up to its last page; returns the names of its items, and the longest time that a page took, which is
    /// at most `patience`.
    pub fn read_to_end(&mut self, method: &str, patience: Duration) -> (Vec<String>, Duration) {
        let (items, name) = match method {
            "tools/list" => ("tools", "name"),
            "prompts/list" => ("prompts", "name"),
            "resources/list" => ("resources", "uri"),
            _ => ("resourceTemplates", "uriTemplate"),
        };
        let (mut found, mut longest, mut params) = (Vec::new(), Duration::ZERO, "{}".to_owned());
        loop {
            let begun = self.now;
            let request = self.request(method, &params);
            while !self.outcomes.contains_key(&request) {
                assert!(self.now - begun < patience, "{method} {params} was not answered in time");
                let due = self.next_timer().expect("a list has a timer");
                self.pass(due.saturating_duration_since(self.now));
            }
            longest = longest.max(self.now - begun);
            let page = self.outcome(request).expect("an outcome").expect("a list");
            found.extend(names(&page, items, name));
            let cursor = member(&page, "nextCursor");
            if cursor.is_empty() {
                return (found, longest);
            }
            params = format!(r#"{{"cursor":"{cursor}"}}"#);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let timers = self.servers.iter().filter_map(|server| server.process.as_ref()?.poll_timeout());
        let own = self.aggregate.poll_timeout().filter(|_| self.has_timers);
        timers.chain(own).chain(self.client.poll_timeout()).min()
    }

    /// A server answers its calls of `slow`.
    pub fn answer_slow(&mut self, server: usize) {
        let now = self.now;
        let server = &mut self.servers[server];
        for (ticket, mark) in std::mem::take(&mut server.held) {
            if let Some(process) = &mut server.process {
                let _ = process.respond(ticket, Ok(text_result(&format!("{} slow{mark}", server.name))), now);
            }
        }
        self.settle();
    }

    /// The client disconnects, and all processes end.
    pub fn close(&mut self) {
        self.client.close(self.now);
        self.settle();
        self.pass(Duration::from_secs(10));
        self.end_stopping();
    }

    /// Whether the aggregate has reported its end.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The key of a server that was started.
    pub fn server_key(&self, server: usize) -> ServerKey {
        self.servers[server].key.expect("it was started")
    }

    /// Passes the outputs of all machines on until there are none left.
    pub fn settle(&mut self) {
        while self.settle_outputs() || self.settle_client() || self.settle_servers() {}
        transcript::add_state(self.now, "aggregate", self.aggregate.poll_timeout(), || self.aggregate.load(), &[]);
    }

    /// Carries out the actions of the aggregate. Returns whether there were any.
    fn settle_outputs(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(output) = transcript::added(self.now, "aggregate", self.aggregate.poll_output()) {
            has_acted = true;
            assert!(!self.is_closed, "{output:?} after the end");
            match output {
                Output::Event(event) => {
                    self.is_closed |= matches!(event, Event::Closed(_));
                    self.events.push(event);
                }
                Output::Action(action) => {
                    for action in Instead::of(&mut self.instead, action) {
                        self.carry_out(action);
                    }
                }
            }
        }
        has_acted
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Client(StdioAction::Write(bytes)) => {
                self.received.extend_from_slice(&bytes);
                self.client.handle_bytes(&bytes, self.now);
                self.aggregate.handle_written(bytes.len(), self.now);
            }
            Action::Client(_) => self.client.handle_eof(self.now),
            Action::Start { server } => {
                self.servers[server.index()].key = Some(server);
                self.servers[server.index()].start();
                if self.servers[server.index()].offer.is_missing {
                    self.servers[server.index()].process = None;
                    self.aggregate.handle_not_started(server, StartFailure::NotFound, self.now);
                } else if self.servers[server.index()].offer.is_broken {
                    self.servers[server.index()].process = None;
                    self.aggregate.handle_stopped(server, self.now);
                }
            }
            Action::Server { server, action } => self.act_at_server(server, action),
            Action::Stop { server } => {
                let stopped = &mut self.servers[server.index()];
                assert!(!std::mem::replace(&mut stopped.is_stopping, true), "stopped twice");
                if self.stops_at_once {
                    (stopped.process, stopped.is_stopping) = (None, false);
                    self.aggregate.handle_stopped(server, self.now);
                }
            }
            action => panic!("{action:?} is new"),
        }
    }

    fn act_at_server(&mut self, server: ServerKey, action: StdioAction) {
        let to = &mut self.servers[server.index()];
        assert!(!to.is_stopping, "{} was stopped: {action:?}", to.name);
        if let StdioAction::Write(bytes) = &action {
            to.received.extend_from_slice(bytes);
        }
        // What is written to a process that has just exited is lost.
        let Some(process) = &mut to.process else { return };
        match action {
            StdioAction::Write(bytes) => {
                let is_first = to.is_new;
                to.is_new = false;
                if to.offer.is_silent {
                    to.unread.extend_from_slice(&bytes);
                } else if is_first && to.offer.exits_on_discover && !contains(&bytes, "initialize") {
                    return self.exit_now(server.index());
                } else {
                    process.handle_bytes(&bytes, self.now);
                }
                self.aggregate.handle_server_written(server, bytes.len(), self.now);
            }
            StdioAction::CloseWrite => process.handle_eof(self.now),
            action => panic!("{action:?} is not expected"),
        }
    }

    fn exit_now(&mut self, server: usize) {
        self.servers[server].process = None;
        let key = self.server_key(server);
        self.aggregate.handle_stopped(key, self.now);
    }

    fn settle_client(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(output) = self.client.poll_output() {
            has_acted = true;
            match output {
                Output::Action(StdioAction::Write(bytes)) => {
                    self.aggregate.handle_bytes(&bytes, self.now);
                    self.client.handle_written(bytes.len(), self.now);
                }
                Output::Action(_) => self.aggregate.handle_eof(self.now),
                Output::Event(event) => self.on_client_event(event),
            }
        }
        has_acted
    }

    fn on_client_event(&mut self, event: client::Event) {
        use client::Event as E;
        match event {
            E::Connected { result, .. } => self.opened = Some(result),
            E::Responded { request, outcome } => {
                assert!(self.answered.insert(request), "two outcomes of one request");
                self.outcomes.insert(request, outcome);
            }
            E::Faulted(fault @ (Fault::UnknownResponse { .. } | Fault::LateResponse { .. })) => {
                self.unexpected.push(format!("{fault:?}"));
            }
            E::Progressed { request, params } => self.progress.push((request, params.to_text().into_owned())),
            E::Listening { filter, .. } => self.listening.push(filter.to_text().into_owned()),
            E::RequestCancelled { ticket, .. } => {
                self.questions.retain(|(asked, _)| asked.key() != ticket);
                self.withdrawn += 1;
            }
            E::Notified { method, params, .. } => {
                let params = params.map(|params| params.to_text().into_owned()).unwrap_or_default();
                self.notified.push((method.as_str().to_owned(), params));
            }
            E::Requested { ticket, method, params, .. } => {
                let params = params.map(|params| params.to_text().into_owned()).unwrap_or_default();
                let answer = match method.as_str() {
                    "elicitation/create" => r#"{"action":"accept","content":{"name":"Ann"}}"#.to_owned(),
                    "roots/list" => r#"{"roots":[]}"#.to_owned(),
                    _ => format!(r#"{{"role":"assistant","content":{{"type":"text","text":"{method}"}},"model":"m"}}"#),
                };
                self.asked.push(params.clone());
                if !self.answers_at_once {
                    return self.questions.push((ticket, params));
                }
                self.client.answer(ticket, Ok(Json::parse(answer).expect("JSON")), self.now);
            }
            _ => {}
        }
    }

    fn settle_servers(&mut self) -> bool {
        let mut has_acted = false;
        for server in 0..self.servers.len() {
            while let Some(output) = self.servers[server].poll_output() {
                has_acted = true;
                match output {
                    Output::Action(StdioAction::Write(bytes)) => {
                        let key = self.server_key(server);
                        let written = &mut self.servers[server];
                        written.written.extend_from_slice(&bytes);
                        written.is_open |= contains(&bytes, r#""capabilities""#);
                        self.aggregate.handle_server_bytes(key, &bytes, self.now);
                        if let Some(process) = &mut self.servers[server].process {
                            process.handle_written(bytes.len(), self.now);
                        }
                    }
                    Output::Action(_) => {}
                    Output::Event(event) => {
                        if self.servers[server].on_event(event, self.now) {
                            self.exit(server);
                        }
                    }
                }
            }
        }
        has_acted
    }
}

impl TestServer {
    fn new(name: &str, offer: Offer) -> Self {
        Self {
            name: name.to_owned(),
            offer,
            key: None,
            is_new: false,
            process: None,
            is_stopping: false,
            is_open: false,
            unread: Vec::new(),
            requests: Vec::new(),
            notifications: Vec::new(),
            faults: 0,
            held: Vec::new(),
            unanswered: Vec::new(),
            received: Vec::new(),
            written: Vec::new(),
            answers: Vec::new(),
            cancelled: 0,
            starts: 0,
        }
    }

    fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let mut config = server::Config::new(&self.name, "1.0.0");
        config.versions.clone_from(&self.offer.versions);
        config.capabilities = Json::parse(self.offer.capabilities).expect("JSON");
        (config.cache_ttl, config.cache_scope) = (self.offer.cache_ttl, self.offer.cache_scope);
        config.instructions = Some(format!("Use {}.", self.name).into());
        self.process = Some(Server::new(Stdio::new(), config).expect("a configuration"));
        self.unread.clear();
        self.held.clear();
        self.unanswered.clear();
        self.received.clear();
        self.written.clear();
        (self.is_new, self.is_stopping, self.is_open) = (true, false, false);
        self.starts += 1;
    }

    fn poll_output(&mut self) -> Option<Output<StdioAction, server::Event>> {
        self.process.as_mut()?.poll_output()
    }

    /// Whether it has received requests that it has not answered.
    pub fn has_open_requests(&self) -> bool {
        !self.held.is_empty() || !self.unanswered.is_empty() || !self.unread.is_empty()
    }

    /// Whether it may have received requests besides calls that it has not answered. What it says of no call is about them.
    pub fn may_have_other_requests(&self) -> bool {
        !self.unread.is_empty() || self.unanswered.iter().any(|(_, method, _)| *method != Method::TOOLS_CALL)
    }

    /// Whether it has a call that contains this mark, and has not answered it.
    pub fn serves(&self, mark: &str) -> bool {
        let unanswered = |(_, _, params): &(Ticket, Method, Json)| params.to_text().contains(mark);
        self.held.iter().any(|(_, held)| held.contains(mark)) || self.unanswered.iter().any(unanswered)
    }

    /// The names of the tools that were called.
    pub fn called(&self) -> Vec<String> {
        let calls = self.requests.iter().filter(|(method, _)| method == "tools/call");
        calls.map(|(_, params)| member(params, "name")).collect()
    }

    /// Handles an event of the machine. Returns whether the process exits.
    fn on_event(&mut self, event: server::Event, now: Instant) -> bool {
        use server::Event as E;
        match event {
            E::Requested { ticket, method, params } => {
                let params = params.unwrap_or(Json::empty_object());
                self.requests.push((method.as_str().to_owned(), params.to_text().into_owned()));
                return self.on_request(ticket, &method, &params, now);
            }
            E::Faulted(_) => self.faults += 1,
            E::Notified { method, .. } => self.notifications.push(method.as_str().to_owned()),
            E::Cancelled { ticket, .. } => {
                self.held.retain(|(held, _)| held.key() != ticket);
                self.unanswered.retain(|(held, ..)| held.key() != ticket);
                self.cancelled += 1;
            }
            E::Responded { outcome, .. } => self.answers.push(outcome),
            _ => {}
        }
        false
    }

    fn on_request(&mut self, ticket: Ticket, method: &Method, params: &Json, now: Instant) -> bool {
        let text = |name: &str| {
            params.first_member(name).and_then(|member| member.as_string().map(String::from)).unwrap_or_default()
        };
        if self.offer.silent_for.contains(&method.as_str()) {
            self.unanswered.push((ticket, method.clone(), params.clone()));
            return false;
        }
        let name = self.name.clone();
        let mark = mark_of(params);
        let Some(process) = &mut self.process else { return false };
        let answer = match method.as_str() {
            "tools/list" => {
                let first: usize = text("cursor").parse().unwrap_or(0);
                let description = "d".repeat(self.offer.description);
                let tool = |tool: &str| {
                    format!(r#"{{"name":"{tool}","description":"{description}","inputSchema":{{"type":"object"}}}}"#)
                };
                if self.offer.is_endless {
                    let next = first + 1;
                    json(&format!(r#"{{"tools":[{}],"nextCursor":"{next}"}}"#, tool(&format!("endless-{first}"))))
                } else if first > 0 && first >= self.offer.tools.len() {
                    Err(ErrorObject::invalid_params("there is no such page"))
                } else {
                    let tools = self.offer.tools.iter().skip(first).take(self.offer.page);
                    let next = first + self.offer.page;
                    let is_last = next >= self.offer.tools.len();
                    let more = self.offer.definitions.iter().filter(|_| is_last).cloned();
                    let tools = tools.map(|name| tool(name)).chain(more);
                    let next = (next < self.offer.tools.len()).then(|| format!(r#","nextCursor":"{next}""#));
                    json(&format!(r#"{{"tools":[{}]{}}}"#, join(tools), next.unwrap_or_default()))
                }
            }
            "prompts/list" => json(r#"{"prompts":[{"name":"p"}]}"#),
            "prompts/get" => Ok(prompt(&format!("{name} {}", text("name")))),
            "resources/list" => {
                let uris = self.offer.resources.iter().map(|uri| format!(r#"{{"uri":"{uri}","name":"r"}}"#));
                json(&format!(r#"{{"resources":[{}]}}"#, join(uris)))
            }
            "resources/templates/list" => {
                let all = self.offer.templates.iter();
                let all = all.map(|template| format!(r#"{{"uriTemplate":"{template}","name":"t"}}"#));
                json(&format!(r#"{{"resourceTemplates":[{}]}}"#, join(all)))
            }
            "resources/read" => {
                let uri = text("uri");
                let start = |template: &String| template.split('{').next().unwrap_or_default().to_owned();
                let is_known = self.offer.resources.contains(&uri)
                    || self.offer.unlisted.contains(&uri)
                    || self.offer.templates.iter().any(|template| uri.starts_with(&start(template)));
                if is_known {
                    json(&format!(r#"{{"contents":[{{"uri":"{uri}","text":"{name}"}}]}}"#))
                } else {
                    Err(ErrorObject::invalid_params("no such resource"))
                }
            }
            "completion/complete" => json(&format!(r#"{{"completion":{{"values":["{name}"]}}}}"#)),
            "tools/call" => match &*text("name") {
                "slow" => {
                    self.held.push((ticket, mark));
                    return false;
                }
                "exit" => return true,
                "progress" => {
                    let mut progress = Progress::new(0.5);
                    progress.message = Some(mark.as_str().into());
                    process.progress(&ticket, &progress, now);
                    Ok(text_result(&format!("{name} progress{mark}")))
                }
                "log" => {
                    let said = format!("broken{mark}");
                    let said = process.log(&ticket, LoggingLevel::Error, None, &Json::from(said.as_str()), now);
                    said.expect("it was declared");
                    Ok(text_result(&format!("{name} log{mark}")))
                }
                "ask" if params.first_member("inputResponses").is_none() => {
                    let question = format!(
                        r#"{{"message":"Name?{mark}","requestedSchema":{{"type":"object","properties":{{}}}}}}"#
                    );
                    let question = Json::parse(question).expect("JSON");
                    let required = InputRequired::new().ask("q", "elicitation/create", question);
                    process.require_input(ticket, required.state(&format!("of {name}{mark}")), now).expect("input");
                    return false;
                }
                "ask" => {
                    let answers = params.first_member("inputResponses").expect("it was checked");
                    let state = text("requestState");
                    assert_eq!(state, format!("of {name}{mark}"), "the state of this server and call");
                    Ok(text_result(&format!("{name} {}{mark}", answers.to_text().contains("Ann"))))
                }
                tool => {
                    let arguments = params.first_member("arguments").unwrap_or(Json::empty_object());
                    Ok(text_result(&format!("{name} {tool} {}", arguments.to_text())))
                }
            },
            _ => Err(ErrorObject::method_not_found(method)),
        };
        let _ = process.respond(ticket, answer, now);
        false
    }
}

/// The mark in the arguments of a call, after a blank.
fn mark_of(params: &Json) -> String {
    let mark = params.first_member("arguments").and_then(|arguments| arguments.first_member("mark"));
    let mark = mark.as_ref().and_then(Json::as_string);
    mark.map(|mark| format!(" {mark}")).unwrap_or_default()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

#[expect(clippy::unnecessary_wraps, reason = "it is an answer")]
fn json(text: &str) -> Result<Json, ErrorObject> {
    Ok(Json::parse(text.to_owned()).expect("JSON"))
}

fn text_result(text: &str) -> Json {
    let content = Json::empty_object().with_members(&[("type", &"text".into()), ("text", &text.into())]);
    Json::empty_object().with_member("content", &Json::array(&[content]))
}

fn prompt(text: &str) -> Json {
    let content = Json::empty_object().with_members(&[("type", &"text".into()), ("text", &text.into())]);
    let message = Json::empty_object().with_members(&[("role", &"user".into()), ("content", &content)]);
    Json::empty_object().with_member("messages", &Json::array(&[message]))
}

/// A member of an object that is a string.
pub fn member(object: &str, name: &str) -> String {
    let object = Json::parse(object.to_owned()).expect("JSON");
    object.first_member(name).and_then(|member| member.as_string().map(String::from)).unwrap_or_default()
}

/// The names of the items of a list.
pub fn names(list: &str, items: &str, name: &str) -> Vec<String> {
    let list = Json::parse(list.to_owned()).expect("JSON");
    let items = list.first_member(items).expect("items");
    let named = items.elements().filter_map(|item| item.first_member(name)?.as_string().map(String::from));
    named.collect()
}
