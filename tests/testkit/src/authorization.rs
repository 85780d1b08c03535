//! The surroundings of [`Authorizer`]s: a resource and its authorization servers, a store and locks that processes share,
//! a browser and a person.
//!
//! ```
//! use mcp_testkit::authorization::World;
//!
//! let mut world = World::new();
//! world.challenge(0, 401, r#"Bearer scope="read""#);
//! assert_eq!(world.processes[0].token(), Some("access-1"));
//! assert_eq!(world.processes[0].waiting.len(), 1, "one URL was shown");
//! world.check();
//! ```

mod issuer;
mod loopback;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use mcp_auth::{
    Action, Authorized, Authorizer, CallbackHost, Cause, Config, Event, FetchFailure, KeyUse, Lock, ProviderQuirk,
    RedirectError, Seed, SignInError, Step, Waiting,
};
use mcp_proto::auth::{Challenge, ProofKey};
use mcp_proto::{Instant, Output};
use serde_json::json;

use self::issuer::{Answer, signature};

pub use self::issuer::{Issuer, Return};
pub use self::loopback::{ProtectedServer, browse, exchange};

/// The URL of the server.
pub const SERVER: &str = "https://mcp.example/v1/mcp";

/// The moment at which a world begins, in seconds since 1970.
pub const BEGIN: u64 = 1_800_000_000;

/// Everything around the machines.
#[derive(Debug)]
pub struct World {
    /// The metadata of the resource by path; any other path is 404.
    pub documents: BTreeMap<String, (u16, String)>,
    /// The authorization servers by issuer.
    pub issuers: BTreeMap<String, Issuer>,
    /// The processes of one user.
    pub processes: Vec<Process>,
    /// The stored record.
    pub stored: Option<Vec<u8>>,
    /// Requests: method and URL, in order.
    pub requests: Vec<String>,
    /// How the person acts.
    pub person: Person,
    /// Requests to URLs that begin with this fail.
    pub unreachable: Option<(String, FetchFailure)>,
    /// Requests to URLs that begin with this have no outcome.
    pub silent: Option<String>,
    now: Instant,
    waiting_for: BTreeMap<Lock, VecDeque<usize>>,
    violations: Vec<String>,
}

/// How the person at the browser acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    /// Signs in at once.
    SignsIn,
    /// Does nothing.
    IsAway,
}

/// A process with one machine.
#[derive(Debug)]
pub struct Process {
    /// The machine.
    pub authorizer: Authorizer,
    /// Its tokens, the newest last.
    pub authorized: Vec<Authorized>,
    /// Its refusals.
    pub refused: Vec<SignInError>,
    /// What it waited for.
    pub waiting: Vec<Waiting>,
    /// The issuers at which it has registered.
    pub registered: Vec<String>,
    /// It reported that it has no token.
    pub has_none: bool,
    /// The port on which it listens.
    pub listening: Option<u16>,
    /// The host at which it has listened last.
    pub callback_host: Option<CallbackHost>,
    /// The URL that its browser shows.
    pub shown: Option<String>,
    /// The pages that the browser has shown after the return.
    pub pages: Vec<String>,
    /// In which ways the authorization server differs from the rules.
    pub quirks: Vec<ProviderQuirk>,
    /// Errors with which the browser returned, and which name no sign-in.
    pub without_state: Vec<RedirectError>,
    /// The token that the other program issues.
    pub obtained: Option<&'static str>,
    /// How often that program was asked.
    pub times_obtained: u32,
    /// How often the tokens were erased, and whether they were revoked.
    pub signed_out: Vec<bool>,
    /// The driver creates keys and signs.
    pub signs: bool,
    keys: u32,
    /// Ports that are taken by other programs.
    pub taken: BTreeSet<u16>,
    seeds: u8,
}

impl Process {
    fn new(config: Config) -> Self {
        Self {
            authorizer: Authorizer::new(config),
            authorized: Vec::new(),
            refused: Vec::new(),
            waiting: Vec::new(),
            registered: Vec::new(),
            has_none: false,
            listening: None,
            callback_host: None,
            shown: None,
            pages: Vec::new(),
            quirks: Vec::new(),
            without_state: Vec::new(),
            obtained: None,
            times_obtained: 0,
            signed_out: Vec::new(),
            signs: true,
            keys: 0,
            taken: BTreeSet::new(),
            seeds: 0,
        }
    }

    /// The newest token.
    pub fn token(&self) -> Option<&str> {
        self.authorized.last().map(|authorized| authorized.token.reveal())
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// One process, and a resource whose tokens `https://as.example/t` issues.
    pub fn new() -> Self {
        let issuer = "https://as.example/t";
        let metadata = json!({ "resource": SERVER, "authorization_servers": [issuer] }).to_string();
        let path = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp";
        Self {
            documents: BTreeMap::from([(path.to_owned(), (200, metadata))]),
            issuers: BTreeMap::from([(issuer.to_owned(), Issuer::new(issuer))]),
            processes: vec![Process::new(config())],
            stored: None,
            requests: Vec::new(),
            person: Person::SignsIn,
            unreachable: None,
            silent: None,
            now: Instant::START,
            waiting_for: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    /// Replaces the machine of the first process by one with another configuration.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config();
        change(&mut config);
        self.processes = vec![Process::new(config)];
        self
    }

    /// Adds a process, and returns its number.
    pub fn add_process(&mut self) -> usize {
        self.add_process_with(|_| {})
    }

    /// Adds a process with another configuration, and returns its number.
    pub fn add_process_with(&mut self, change: impl FnOnce(&mut Config)) -> usize {
        let mut config = config();
        change(&mut config);
        self.processes.push(Process::new(config));
        self.processes.len() - 1
    }

    /// The only authorization server, or the one that `https://as.example/t` is.
    pub fn issuer(&mut self) -> &mut Issuer {
        self.issuers.get_mut("https://as.example/t").unwrap()
    }

    /// The server challenges a request that was sent with the newest token of a process, or without one.
    pub fn challenge(&mut self, process: usize, status: u16, field: &str) {
        self.begin(process, status, field);
        self.run();
    }

    /// Like [`World::challenge`], but nothing is carried out yet.
    pub fn begin(&mut self, process: usize, status: u16, field: &str) {
        let challenges = Challenge::parse([&HeaderValue::from_str(field).unwrap()]);
        let generation = self.processes[process].authorized.last().map(|authorized| authorized.generation);
        let status = StatusCode::from_u16(status).unwrap();
        self.cause(process, Cause::Challenged { status, challenges, generation, is_background: false });
    }

    /// A process needs a token.
    pub fn cause(&mut self, process: usize, cause: Cause) {
        let (now, unix) = (self.now, self.unix());
        let process_number = u8::try_from(process).unwrap();
        let process = &mut self.processes[process];
        process.seeds += 1;
        let mut seed = [process.seeds; 32];
        seed[0] = process_number;
        process.authorizer.begin(cause, Seed::new(seed), unix, now);
    }

    /// A process begins with what is stored.
    pub fn start(&mut self, process: usize) {
        self.cause(process, Cause::Start);
        self.run();
    }

    /// Time passes; timers are handled when they are due.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.processes.iter().filter_map(|own| own.authorizer.poll_timeout()).min() {
            if due > end {
                break;
            }
            self.now = self.now.max(due);
            for process in &mut self.processes {
                process.authorizer.handle_timeout(self.now);
            }
            self.run();
        }
        self.now = end;
    }

    /// Time passes until the token of a process is due to be refreshed; nothing is carried out yet.
    pub fn pass_until_refresh(&mut self, process: usize) {
        let authorizer = &mut self.processes[process].authorizer;
        self.now = authorizer.poll_timeout().unwrap();
        authorizer.handle_timeout(self.now);
    }

    /// Seconds since 1970.
    pub fn unix(&self) -> u64 {
        BEGIN + self.now.saturating_duration_since(Instant::START).as_secs()
    }

    /// Sends the browser of a process to a URL.
    pub fn redirect(&mut self, process: usize, url: &str) -> bool {
        let belongs = self.processes[process].authorizer.handle_redirect(url, self.now);
        self.run();
        belongs
    }

    /// A request arrives at the open port of a process.
    pub fn callback(&mut self, process: usize, head: &http::request::Parts) -> Response<Bytes> {
        let response = self.processes[process].authorizer.handle_callback(head, self.now);
        self.run();
        response
    }

    /// The process ends without any further action; the operating system releases its locks.
    pub fn crash(&mut self, process: usize) {
        self.processes[process] = Process::new(config());
        for lock in [Lock::SignIn, Lock::Record] {
            self.release(process, lock);
        }
        self.run();
    }

    /// Panics if a rule was violated.
    pub fn check(&self) {
        assert!(self.violations.is_empty(), "{:?}", self.violations);
        for process in &self.processes {
            assert!(!process.authorizer.is_busy(), "a flow has not ended");
            assert_eq!(process.listening, None, "a port is still open");
        }
        assert!(self.waiting_for.values().all(VecDeque::is_empty), "a lock is held: {:?}", self.waiting_for);
    }

    /// Carries out all actions, of the processes in turn.
    pub fn run(&mut self) {
        while self.turn() {}
    }

    /// Carries out one action or event of each process. Returns whether there was any.
    pub fn turn(&mut self) -> bool {
        let mut any = false;
        for process in 0..self.processes.len() {
            if let Some(output) = self.processes[process].authorizer.poll_output() {
                any = true;
                match output {
                    Output::Action(action) => self.act(process, action),
                    Output::Event(event) => self.report(process, event),
                }
            }
        }
        any
    }

    fn report(&mut self, process: usize, event: Event) {
        let process = &mut self.processes[process];
        match event {
            Event::Authorized(authorized) => process.authorized.push(authorized),
            Event::Refused(error) => process.refused.push(error),
            Event::Waiting(waiting) => process.waiting.push(waiting),
            Event::NoToken => process.has_none = true,
            Event::Step(Step::Registered { issuer }) => process.registered.push(issuer),
            Event::Step(Step::Quirk { quirk, .. }) => process.quirks.push(quirk),
            Event::Step(Step::ErrorWithoutState { error }) => process.without_state.push(error),
            Event::SignedOut { is_revoked } => process.signed_out.push(is_revoked),
            _ => {}
        }
    }

    fn act(&mut self, number: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Fetch { fetch, request, .. } => {
                let url = request.uri().to_string();
                let has_record = self.waiting_for.get(&Lock::Record).is_some_and(|queue| queue.contains(&number));
                if has_record && request.method() == "GET" {
                    self.violations.push(format!("process {number} reads metadata while the record is locked"));
                }
                if self.silent.as_ref().is_some_and(|start| url.starts_with(start)) {
                    return;
                }
                if let Some((_, failure)) = self.unreachable.as_ref().filter(|(start, _)| url.starts_with(start)) {
                    let failure = *failure;
                    self.processes[number].authorizer.handle_failure(fetch, failure, now);
                    return;
                }
                let Answer { status, nonce, body } = self.answer(&request);
                let mut response = Response::builder().status(status);
                if let Some(nonce) = nonce {
                    response = response.header("dpop-nonce", nonce);
                }
                let (head, ()) = response.body(()).unwrap().into_parts();
                self.processes[number].authorizer.handle_response(fetch, &head, body.as_bytes(), now);
            }
            Action::Lock(lock) => {
                let queue = self.waiting_for.entry(lock).or_default();
                queue.push_back(number);
                if queue.len() == 1 {
                    self.processes[number].authorizer.handle_locked(lock, now);
                }
            }
            Action::Unlock(lock) => {
                let is_known = self.waiting_for.get(&lock).is_some_and(|queue| queue.contains(&number));
                if !is_known {
                    self.violations
                        .push(format!("process {number} releases the lock {lock:?}, which it does not have"));
                }
                self.release(number, lock);
            }
            Action::Load => {
                let stored = self.stored.clone();
                self.processes[number].authorizer.handle_loaded(stored.as_deref(), now);
            }
            Action::Store(record) => {
                self.require(number, Lock::Record, "stores");
                self.stored = Some(record.reveal().as_bytes().to_vec());
            }
            Action::Listen { host, port } => {
                let process = &mut self.processes[number];
                process.callback_host = Some(host);
                let port = port.unwrap_or(40_000);
                let is_free = !process.taken.contains(&port);
                process.listening = is_free.then_some(port);
                process.authorizer.handle_listening(is_free.then_some(port), now);
            }
            Action::Unlisten => self.processes[number].listening = None,
            Action::OpenBrowser { url } => {
                self.require(number, Lock::SignIn, "opens a browser");
                if self.waiting_for.get(&Lock::Record).is_some_and(|queue| queue.contains(&number)) {
                    self.violations.push(format!("process {number} opens a browser while the record is locked"));
                }
                self.processes[number].shown = Some(url);
                if self.person == Person::SignsIn {
                    self.sign_in(number);
                }
            }
            Action::ObtainToken => {
                let process = &mut self.processes[number];
                process.times_obtained += 1;
                process.authorizer.handle_obtained(process.obtained, now);
            }
            Action::CreateKey => {
                let process = &mut self.processes[number];
                process.keys += 1;
                let id = format!("{number}{}", process.keys);
                let key = ProofKey::new(format!("private-{id}").as_str().into(), &format!("x-{id}"), "y");
                process.authorizer.handle_key(process.signs.then_some(key), now);
            }
            Action::Sign { sign, key, message } => {
                let private = match &key {
                    KeyUse::Proof(key) => key.private().reveal(),
                    _ => "client-key",
                };
                let process = &mut self.processes[number];
                let signed = process.signs.then(|| signature(private, &message));
                process.authorizer.handle_signed(sign, signed.as_deref(), now);
            }
            Action::Erase => {
                self.require(number, Lock::Record, "erases");
                self.stored = None;
            }
            _ => unreachable!(),
        }
    }

    /// The person signs in at the URL that the browser of a process shows, and opens it again if the browser returned with
    /// an error that names no sign-in.
    pub fn sign_in(&mut self, process: usize) {
        let url = self.processes[process].shown.take().unwrap();
        loop {
            let redirect = self.visit(&url);
            if redirect.ends_with("/unknown-client") {
                return;
            }
            let (origin, path) = split(&redirect);
            let request = Request::get(path).header("Host", origin.trim_start_matches("http://")).body(()).unwrap();
            let process = &mut self.processes[process];
            let page = process.authorizer.handle_callback(&request.into_parts().0, self.now);
            process.pages.push(String::from_utf8_lossy(page.body()).into_owned());
            if page.status() == StatusCode::OK {
                return;
            }
            assert!(redirect.contains("error=") && !redirect.contains("state="), "the return is not expected");
        }
    }

    /// The person signs in at a URL: where the browser is sent.
    pub fn visit(&mut self, url: &str) -> String {
        let (endpoint, query) = url.split_once('?').unwrap();
        let issuer = self.issuers.values_mut().find(|own| own.metadata["authorization_endpoint"] == endpoint).unwrap();
        issuer.authorize(query)
    }

    fn release(&mut self, number: usize, lock: Lock) {
        let queue = self.waiting_for.entry(lock).or_default();
        let was_first = queue.front() == Some(&number);
        queue.retain(|own| *own != number);
        if let Some(next) = queue.front().filter(|_| was_first) {
            let next = *next;
            self.processes[next].authorizer.handle_locked(lock, self.now);
        }
    }

    fn require(&mut self, number: usize, lock: Lock, what: &str) {
        if self.waiting_for.get(&lock).and_then(VecDeque::front) != Some(&number) {
            self.violations.push(format!("process {number} {what} without the lock {lock:?}"));
        }
    }

    fn answer(&mut self, request: &Request<Bytes>) -> Answer {
        let url = request.uri().to_string();
        self.requests.push(format!("{} {url}", request.method()));
        if request.method() == "GET" && request.headers().contains_key("authorization") {
            self.violations.push(format!("a credential was sent to {url}"));
        }
        if request.headers().get("accept").is_none_or(|accept| accept != "application/json") {
            self.violations.push(format!("no JSON was asked for at {url}"));
        }
        if let Some((status, body)) = self.documents.get(&url) {
            return Answer::new(*status, body);
        }
        for issuer in self.issuers.values_mut() {
            if url == issuer.metadata_path {
                return Answer::new(200, &issuer.metadata);
            }
            let answer = issuer.answer(&url, request.headers(), request.body(), &mut self.violations);
            if let Some(answer) = answer {
                return answer;
            }
        }
        Answer::new(404, "not found")
    }
}

/// The configuration of a process.
pub fn config() -> Config {
    Config::new(SERVER, "testkit").unwrap()
}

fn split(url: &str) -> (&str, &str) {
    let start = url.find("://").unwrap() + 3;
    let end = url[start..].find('/').map_or(url.len(), |end| start + end);
    url.split_at(end)
}

/// The parameters of a form, of which each may be sent once (RFC 6749, section 3.1).
fn form(body: &[u8]) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(body).into_owned() {
        assert_eq!(parameters.insert(name, value), None, "a parameter was sent twice");
    }
    parameters
}
