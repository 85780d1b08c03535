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

mod loopback;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use mcp_proto::auth::{
    Action, Authorized, Authorizer, Cause, Challenge, Config, Event, FetchFailure, Lock, Seed, SignInError, Waiting,
};
use mcp_proto::{Instant, Output};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use loopback::{ProtectedServer, browse, exchange};

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
    /// It reported that it has no token.
    pub has_none: bool,
    /// The port on which it listens.
    pub listening: Option<u16>,
    /// The URL that its browser shows.
    pub shown: Option<String>,
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
            has_none: false,
            listening: None,
            shown: None,
            taken: BTreeSet::new(),
            seeds: 0,
        }
    }

    /// The newest token.
    pub fn token(&self) -> Option<&str> {
        self.authorized.last().map(|authorized| authorized.token.reveal())
    }
}

/// An authorization server.
#[derive(Debug)]
pub struct Issuer {
    /// Its metadata.
    pub metadata: Value,
    /// The path of its metadata.
    pub metadata_path: String,
    /// The members of the response to a registration besides the id.
    pub registration: Value,
    /// The status of registrations.
    pub registration_status: u16,
    /// What the redirect contains besides code and state.
    pub redirect: Vec<(String, String)>,
    /// The lifetime of tokens in seconds.
    pub lifetime: Option<u64>,
    /// Whether refresh tokens are issued.
    pub refreshes: bool,
    /// Responses of the token endpoint that come before any other.
    pub token_responses: VecDeque<(u16, String)>,
    /// The forms that the token endpoint has received.
    pub token_requests: Vec<BTreeMap<String, String>>,
    /// The `Authorization` headers of these requests.
    pub token_authorizations: Vec<Option<String>>,
    /// The bodies of registrations.
    pub registrations: Vec<Value>,
    /// The queries of authorization requests.
    pub authorizations: Vec<BTreeMap<String, String>>,
    codes: BTreeMap<String, BTreeMap<String, String>>,
    refresh_tokens: BTreeSet<String>,
    used_refresh_tokens: BTreeSet<String>,
    issued: u64,
}

impl Issuer {
    /// A server that registers clients and issues refresh tokens.
    pub fn new(issuer: &str) -> Self {
        let (origin, path) = split(issuer);
        Self {
            metadata: json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "token_endpoint_auth_methods_supported": ["none"],
            }),
            metadata_path: format!("{origin}/.well-known/oauth-authorization-server{}", path.trim_end_matches('/')),
            registration: json!({}),
            registration_status: 201,
            redirect: vec![("iss".to_owned(), issuer.to_owned())],
            lifetime: Some(3600),
            refreshes: true,
            token_responses: VecDeque::new(),
            token_requests: Vec::new(),
            token_authorizations: Vec::new(),
            registrations: Vec::new(),
            authorizations: Vec::new(),
            codes: BTreeMap::new(),
            refresh_tokens: BTreeSet::new(),
            used_refresh_tokens: BTreeSet::new(),
            issued: 0,
        }
    }

    fn register(&mut self, body: &[u8]) -> (u16, String) {
        self.registrations.push(serde_json::from_slice(body).unwrap());
        let mut response = self.registration.clone();
        response["client_id"] = json!(format!("client-{}", self.registrations.len()));
        (self.registration_status, response.to_string())
    }

    /// The person signs in: the URL to which the browser is sent.
    fn authorize(&mut self, query: &str) -> String {
        let parameters = form(query.as_bytes());
        let code = format!("code-{}", self.authorizations.len() + 1);
        let mut redirect = form_urlencoded::Serializer::new(String::new());
        redirect.append_pair("code", &code).append_pair("state", &parameters["state"]);
        redirect.extend_pairs(&self.redirect);
        let url = format!("{}?{}", parameters["redirect_uri"], redirect.finish());
        self.codes.insert(code, parameters.clone());
        self.authorizations.push(parameters);
        url
    }

    fn token(&mut self, headers: &HeaderMap, body: &[u8], violations: &mut Vec<String>) -> (u16, String) {
        let request = form(body);
        let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let prepared = self.token_responses.pop_front();
        let answer = prepared.unwrap_or_else(|| self.issue(&request, authorization.as_deref(), violations));
        self.token_requests.push(request);
        self.token_authorizations.push(authorization);
        answer
    }

    fn issue(
        &mut self,
        request: &BTreeMap<String, String>,
        authorization: Option<&str>,
        violations: &mut Vec<String>,
    ) -> (u16, String) {
        let refusal = |error: &str| (400, json!({ "error": error }).to_string());
        match request["grant_type"].as_str() {
            "authorization_code" => {
                let Some(asked) = self.codes.remove(&request["code"]) else { return refusal("invalid_grant") };
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&request["code_verifier"]));
                let client = request.get("client_id").cloned().or_else(|| basic_id(authorization));
                for (what, is_equal) in [
                    ("code_challenge", challenge == asked["code_challenge"]),
                    ("redirect_uri", request["redirect_uri"] == asked["redirect_uri"]),
                    ("client_id", client.as_ref() == asked.get("client_id")),
                    ("resource", request.get("resource") == asked.get("resource")),
                ] {
                    if !is_equal {
                        violations.push(format!("the token request differs from the authorization request in {what}"));
                    }
                }
            }
            "refresh_token" => {
                let token = request["refresh_token"].clone();
                if self.used_refresh_tokens.contains(&token) {
                    violations.push(format!("{token} was sent twice"));
                }
                if !self.refresh_tokens.remove(&token) {
                    return refusal("invalid_grant");
                }
                self.used_refresh_tokens.insert(token);
            }
            "client_credentials" => {}
            _ => return refusal("unsupported_grant_type"),
        }
        self.issued += 1;
        let mut response = json!({ "access_token": format!("access-{}", self.issued), "token_type": "Bearer" });
        if let Some(lifetime) = self.lifetime {
            response["expires_in"] = json!(lifetime);
        }
        if self.refreshes {
            let token = format!("refresh-{}", self.issued);
            response["refresh_token"] = json!(token);
            self.refresh_tokens.insert(token);
        }
        (200, response.to_string())
    }

    /// All refresh tokens become invalid.
    pub fn revoke(&mut self) {
        self.refresh_tokens.clear();
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
        self.processes.push(Process::new(config()));
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
        self.cause(process, Cause::Challenged { status, challenges, generation });
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
            _ => {}
        }
    }

    fn act(&mut self, number: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Fetch { fetch, request, .. } => {
                let url = request.uri().to_string();
                if let Some((_, failure)) = self.unreachable.as_ref().filter(|(start, _)| url.starts_with(start)) {
                    let failure = *failure;
                    self.processes[number].authorizer.handle_failure(fetch, failure, now);
                    return;
                }
                let (status, body) = self.answer(&request);
                let (head, ()) = Response::builder().status(status).body(()).unwrap().into_parts();
                self.processes[number].authorizer.handle_response(fetch, &head, body.as_bytes(), now);
            }
            Action::Lock(lock) => {
                let queue = self.waiting_for.entry(lock).or_default();
                queue.push_back(number);
                if queue.len() == 1 {
                    self.processes[number].authorizer.handle_locked(lock, now);
                }
            }
            Action::Unlock(lock) => self.release(number, lock),
            Action::Load => {
                let stored = self.stored.clone();
                self.require(number, Lock::Record, "loads");
                self.processes[number].authorizer.handle_loaded(stored.as_deref(), now);
            }
            Action::Store(record) => {
                self.require(number, Lock::Record, "stores");
                self.stored = Some(record.reveal().as_bytes().to_vec());
            }
            Action::Listen { port } => {
                let process = &mut self.processes[number];
                let port = port.unwrap_or(40_000);
                let is_free = !process.taken.contains(&port);
                process.listening = is_free.then_some(port);
                process.authorizer.handle_listening(is_free.then_some(port), now);
            }
            Action::Unlisten => self.processes[number].listening = None,
            Action::OpenBrowser { url } => {
                self.require(number, Lock::SignIn, "opens a browser");
                self.processes[number].shown = Some(url);
                if self.person == Person::SignsIn {
                    self.sign_in(number);
                }
            }
            _ => unreachable!(),
        }
    }

    /// The person signs in at the URL that the browser of a process shows.
    pub fn sign_in(&mut self, process: usize) {
        let url = self.processes[process].shown.take().unwrap();
        let redirect = self.visit(&url);
        assert!(self.processes[process].authorizer.handle_redirect(&redirect, self.now));
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

    fn answer(&mut self, request: &Request<Bytes>) -> (u16, String) {
        let url = request.uri().to_string();
        self.requests.push(format!("{} {url}", request.method()));
        if request.method() == "GET" && request.headers().contains_key("authorization") {
            self.violations.push(format!("a credential was sent to {url}"));
        }
        if let Some((status, body)) = self.documents.get(&url) {
            return (*status, body.clone());
        }
        for issuer in self.issuers.values_mut() {
            if url == issuer.metadata_path {
                return (200, issuer.metadata.to_string());
            }
            if issuer.metadata["registration_endpoint"] == url {
                return issuer.register(request.body());
            }
            if issuer.metadata["token_endpoint"] == url {
                return issuer.token(request.headers(), request.body(), &mut self.violations);
            }
        }
        (404, "not found".to_owned())
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

fn form(body: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(body).into_owned().collect()
}

/// The id in a `Basic` header.
fn basic_id(authorization: Option<&str>) -> Option<String> {
    let pair = STANDARD.decode(authorization?.strip_prefix("Basic ")?).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    form(format!("id={}", pair.split_once(':')?.0).as_bytes()).remove("id")
}
