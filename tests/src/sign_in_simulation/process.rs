//! A process: a client, the machine that signs it in, and how their actions are carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::StatusCode;
use mcp_auth::{
    Action, Authorizer, Cause, ClientIdentity, Config, Event, Grant, KeyUse, Lock, Seed, SignInError, Waiting,
};
use mcp_proto::auth::ProofKey;
use mcp_proto::client::{self, Call, Client, ExchangeKey, Failure, Http, HttpAction, HttpConfig, Outcome};
use mcp_proto::{Instant, Json, Method, Output, RequestKey};
use mcp_testkit::http_client::{Reply, legacy_client};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::issuer::form;
use super::plan::Settings;
use super::{Defect, Happening, ISSUERS, SERVER, Simulation};

/// The moment at which a run begins, in seconds since 1970.
const BEGIN: u64 = 1_800_000_000;

/// How often a person may sign in within [`ROW`] for a server that accepts nothing (OA-T-04).
const MOST_IN_A_ROW: usize = 3;

const ROW: Duration = Duration::from_secs(60);

/// For how long no person is asked after one has refused or did not sign in.
const PAUSE: Duration = Duration::from_secs(60);

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    number: usize,
    /// Counts the processes that had this place.
    pub(super) incarnation: u32,
    pub(super) authorizer: Authorizer,
    client: Client<Http>,
    /// Locks that the machine waits for.
    pub(super) wanted_locks: BTreeSet<Lock>,
    pub(super) listening: Option<u16>,
    exchanges: BTreeSet<ExchangeKey>,
    calls: BTreeMap<RequestKey, Called>,
    has_begun: bool,
    generation: u64,
    /// When a person has signed in since the server has last accepted a token.
    pub(super) signed_in_at: Vec<Instant>,
    /// When a person has refused, or did not sign in.
    without_person: Option<Instant>,
    /// The state and the issuer of the authorization for which a browser was opened last, unless it has ended.
    pub(super) asked: Option<(String, String)>,
    /// Whether the flow was begun for more scopes; `None` if that is not known.
    pub(super) is_step_up: Option<bool>,
    must_get_all: bool,
    pub(super) last_call_succeeded: bool,
    pub(super) results: u64,
}

/// A call that has not ended.
#[derive(Debug)]
struct Called {
    tool: &'static str,
    is_last: bool,
}

impl Process {
    pub(super) fn new(number: usize, incarnation: u32, settings: &Settings) -> Self {
        let mut config = Config::new(SERVER, "simulation").expect("a URL");
        config.grant = settings.grant.clone();
        if matches!(settings.grant, Grant::ClientCredentials) {
            config.registered = Some(ClientIdentity::new("robot").with_secret("robot-secret".into()));
        }
        let mut http = HttpConfig::new(SERVER).expect("a URL");
        http.managed_authorization = true;
        let client =
            if settings.is_legacy { legacy_client("simulation") } else { client::Config::new("simulation", "1") };
        Self {
            number,
            incarnation,
            authorizer: Authorizer::new(config),
            client: Client::new(Http::new(http), client).expect("a configuration"),
            wanted_locks: BTreeSet::new(),
            listening: None,
            exchanges: BTreeSet::new(),
            calls: BTreeMap::new(),
            has_begun: false,
            generation: 0,
            signed_in_at: Vec::new(),
            without_person: None,
            asked: None,
            is_step_up: None,
            must_get_all: settings.is_calm,
            last_call_succeeded: false,
            results: 0,
        }
    }

    pub(super) fn start(&mut self, seed: [u8; 32], now: Instant) {
        self.authorizer.begin(Cause::Start, Seed::new(seed), unix(now), now);
    }

    /// Connects, once it is known whether a token is stored.
    fn begin(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let _ = self.client.connect(now);
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.authorizer.poll_timeout().into_iter().chain(self.client.poll_timeout()).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.authorizer.handle_timeout(now);
        self.client.handle_timeout(now);
    }

    /// The application calls a tool. Returns whether the client has accepted that.
    pub(super) fn call(&mut self, tool: &'static str, number: u64, is_last: bool, now: Instant) -> bool {
        // A connection that has failed is opened again.
        let _ = self.client.connect(now);
        let params =
            Json::from_serialize(&json!({ "name": tool, "arguments": { "number": number } })).expect("parameters");
        match self.client.request(Call::new(Method::TOOLS_CALL).params(params), now) {
            Ok(request) => {
                self.calls.insert(request, Called { tool, is_last });
                true
            }
            Err(_) => false,
        }
    }

    /// The server has answered.
    pub(super) fn answered(
        &mut self,
        exchange: ExchangeKey,
        reply: Result<Reply, Failure>,
        is_accepted: bool,
        now: Instant,
    ) {
        if !self.exchanges.remove(&exchange) {
            return;
        }
        if is_accepted {
            self.signed_in_at.clear();
        }
        match reply {
            Ok(reply) => {
                let (head, body) = reply.parts();
                self.client.handle_sent(exchange, now);
                self.client.handle_response(exchange, &head, now);
                self.client.handle_body(exchange, &body, now);
                self.client.handle_end(exchange, now);
            }
            Err(failure) => self.client.handle_failure(exchange, failure, now),
        }
    }

    fn ended(&mut self, request: RequestKey, outcome: &Outcome) {
        let Called { tool, is_last } = self.calls.remove(&request).expect("a call has one outcome");
        let is_result = matches!(outcome, Outcome::Result(_));
        self.results += u64::from(is_result);
        assert!(tool != "admin" || !is_result, "no token has the scope for this tool");
        assert!(is_result || tool == "admin" || !self.must_get_all, "without faults, {tool} gives {outcome:?}");
        self.last_call_succeeded |= is_last && is_result;
    }

    /// The browser of a person who has refused comes back.
    pub(super) fn note_redirect(&mut self, url: &str, now: Instant) {
        let query = form(url.split_once('?').map_or("", |(_, query)| query).as_bytes());
        let given = query.get("state").zip(query.get("iss"));
        let is_current = self.asked.as_ref().is_some_and(|(state, issuer)| given == Some((state, issuer)));
        if is_current && query.contains_key("error") {
            (self.without_person, self.asked) = (Some(now), None);
        }
    }

    /// A browser is opened, or a code shown.
    fn ask_person(&mut self, now: Instant) {
        self.signed_in_at.retain(|at| now.saturating_duration_since(*at) < ROW);
        let is_in_pause = self.without_person.is_some_and(|at| now.saturating_duration_since(at) < PAUSE);
        assert!(!is_in_pause, "a person is asked again who has just refused");
        assert!(self.signed_in_at.len() < MOST_IN_A_ROW, "a person is asked again and again");
    }

    /// Checks what must be so after everything has ended.
    pub(super) fn check_end(&self, may_fail: bool) {
        let number = self.number;
        assert!(self.calls.is_empty(), "calls of process {number} have no outcome: {:?}", self.calls);
        assert!(self.last_call_succeeded || may_fail, "the last call of process {number} has failed");
        assert!(!self.authorizer.is_busy(), "a flow of process {number} has not ended");
        assert_eq!(self.listening, None, "process {number} still listens");
    }
}

/// Seconds since 1970.
pub(super) fn unix(now: Instant) -> u64 {
    BEGIN + now.saturating_duration_since(Instant::START).as_secs()
}

impl Simulation<'_> {
    /// Carries out all outputs of a process.
    pub(super) fn drain(&mut self, number: usize) {
        for _ in 0..10_000 {
            if let Some(output) = self.processes[number].authorizer.poll_output() {
                match output {
                    Output::Action(action) => {
                        for action in self.action_instead(number, action) {
                            self.act(number, action);
                        }
                    }
                    Output::Event(event) => self.report_sign_in(number, event),
                }
            } else if let Some(output) = self.processes[number].client.poll_output() {
                match output {
                    Output::Action(action) => self.act_for_client(number, action),
                    Output::Event(event) => self.report_client(number, event),
                }
            } else {
                return;
            }
        }
        panic!("the machines of process {number} never stop");
    }

    fn act_for_client(&mut self, number: usize, action: HttpAction) {
        let from = (number, self.processes[number].incarnation);
        match action {
            HttpAction::Open { exchange, request, proof } => {
                let request = self.opened_instead(request);
                Self::check_open(&request, proof.as_ref());
                self.processes[number].exchanges.insert(exchange);
                let is_call = request.body().windows(12).any(|part| part == b"\"tools/call\"");
                if is_call && self.run.is_now(Defect::CallsTwice) {
                    self.soon(Happening::AtServer(from, exchange, request.clone(), proof.clone()));
                }
                self.soon(Happening::AtServer(from, exchange, request, proof));
            }
            HttpAction::Abort { exchange } => {
                self.processes[number].exchanges.remove(&exchange);
            }
            other => panic!("the simulation does not know {other:?}"),
        }
    }

    fn report_client(&mut self, number: usize, event: client::Event) {
        let (seed, now) = (self.seed(), self.now);
        let is_lost = match event {
            client::Event::Responded { .. } => self.run.is_now(Defect::LosesOutcomes),
            client::Event::Challenged(_) => self.run.is_now(Defect::IgnoresChallenges),
            _ => false,
        };
        let is_repeated = self.run.is_now(Defect::RepeatsOutcomes);
        let process = &mut self.processes[number];
        match event {
            _ if is_lost => {}
            client::Event::Responded { request, outcome } => {
                process.ended(request, &outcome);
                if is_repeated {
                    process.ended(request, &outcome);
                }
            }
            client::Event::Challenged(challenged) => {
                let is_step_up = challenged.status == StatusCode::FORBIDDEN;
                if !process.authorizer.is_busy() {
                    process.is_step_up = Some(is_step_up);
                } else if process.is_step_up != Some(is_step_up) {
                    process.is_step_up = None;
                }
                process.authorizer.begin(Cause::from(challenged), Seed::new(seed), unix(now), now);
            }
            _ => {}
        }
    }

    fn report_sign_in(&mut self, number: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Authorized(authorized) => {
                if authorized.generation > self.processes[number].generation {
                    let stored = self.stored("access_token");
                    assert_eq!(
                        stored.as_deref(),
                        Some(authorized.token.reveal()),
                        "a token is used before it is stored"
                    );
                }
                let process = &mut self.processes[number];
                process.generation = authorized.generation;
                process.client.authorize(authorized.credentials, now);
                process.begin(now);
            }
            Event::Refused(error) => {
                let process = &mut self.processes[number];
                process.asked = None;
                if matches!(error, SignInError::UserTimedOut { .. }) {
                    process.without_person = Some(now);
                }
                process.client.refuse_authorization(&error.to_string(), now);
                process.begin(now);
            }
            Event::NoToken => {
                self.processes[number].begin(now);
            }
            Event::Waiting(Waiting::Device { url, code, .. }) => {
                assert!(self.holds(number, Lock::SignIn), "a code is shown without the lock of sign-ins");
                self.processes[number].ask_person(now);
                let issuer = ISSUERS.iter().position(|issuer| url.starts_with(issuer)).expect("a known issuer");
                if let Some(delay) = self.person_delay() {
                    self.after(delay, Happening::Enter(issuer, code));
                }
            }
            _ => {}
        }
    }

    /// How long the person takes; `None` if the person is away.
    fn person_delay(&mut self) -> Option<Duration> {
        if self.is_calm || self.resource.refuses_all {
            return Some(Duration::from_secs(1) + self.random.time(Duration::from_secs(5)));
        }
        if self.random.one_in(10) {
            self.fault("absent person");
            return None;
        }
        Some(Duration::from_secs(1) + self.random.time(Duration::from_secs(60)))
    }

    fn act(&mut self, number: usize, action: Action) {
        let (now, incarnation) = (self.now, self.processes[number].incarnation);
        let from = (number, incarnation);
        match action {
            Action::Fetch { fetch, request, .. } => {
                self.check_fetch(number, &request);
                self.soon(Happening::AtHost(from, fetch, request));
            }
            Action::Lock(lock) => {
                self.processes[number].wanted_locks.insert(lock);
                self.after(Duration::ZERO, Happening::TryLock(from, lock));
            }
            Action::Unlock(lock) => {
                self.processes[number].wanted_locks.remove(&lock);
                if self.holds(number, lock) {
                    self.locks.remove(&lock);
                }
            }
            Action::Load => {
                let stored = self.stored.clone();
                self.processes[number].authorizer.handle_loaded(stored.as_deref(), now);
            }
            Action::Store(record) => {
                assert!(self.holds(number, Lock::Record), "the record is written without its lock");
                self.stored_before = self.stored.replace(record.reveal().as_bytes().to_vec());
            }
            Action::Listen { port, .. } => {
                let is_taken = |port: u16| self.processes.iter().any(|own| own.listening == Some(port));
                let port = match port {
                    Some(port) => Some(port).filter(|port| !is_taken(*port)),
                    None => (40_000..u16::MAX).find(|port| !is_taken(*port)),
                };
                self.processes[number].listening = port;
                self.processes[number].authorizer.handle_listening(port, now);
            }
            Action::Unlisten => self.processes[number].listening = None,
            Action::OpenBrowser { url } => {
                assert!(self.holds(number, Lock::SignIn), "a browser is opened without the lock of sign-ins");
                assert!(self.processes[number].listening.is_some(), "a browser is opened, and nothing listens");
                self.check_browser(number, &url);
                self.processes[number].ask_person(now);
                if let Some(delay) = self.person_delay() {
                    self.after(delay, Happening::Visit(url));
                }
            }
            Action::CreateKey => {
                let id = self.random.draw();
                let key = ProofKey::new(format!("key-{id}").as_str().into(), &format!("x-{id}"), "y");
                self.processes[number].authorizer.handle_key(Some(key), now);
            }
            Action::Sign { sign, key, message } => {
                let KeyUse::Proof(key) = key else { panic!("no client has a key of its own") };
                let signature = Sha256::new().chain_update(key.private().reveal()).chain_update(&message).finalize();
                self.processes[number].authorizer.handle_signed(sign, Some(&signature), now);
            }
            other => panic!("the simulation does not know {other:?}"),
        }
    }
}
