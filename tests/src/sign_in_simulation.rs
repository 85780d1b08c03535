//! Clients that sign in, in several processes of one user with one store, under one seed and one virtual clock.
//!
//! Each process has a client machine and an [`Authorizer`](mcp_auth::Authorizer). A protected server, two authorization servers and a person are
//! their surroundings; requests are lost on both ways, hosts fail, processes end without notice, tokens are revoked, the
//! server moves to the other authorization server.
//!
//! The steps of a run are the calls of applications and the changes of the surroundings.
//!
//! | file | what it does |
//! |---|---|
//! | `plan` | what happens, determined by the seed |
//! | `issuer` | authorization servers, with rotation and detection of reuse |
//! | `resource` | the protected server |
//! | `process` | a process: its two machines, and what they hold |
//! | `defects` | machines that are broken on purpose |
//!
//! # Invariants
//!
//! - Each call has exactly one outcome, and is carried out once at most. After all faults have ended, a call succeeds in each
//!   process, in three attempts.
//! - Without faults, every call succeeds for which the server has a scope, and no expired token is sent that can be refreshed ahead
//!   of time.
//! - A refresh token is the stored one when it is sent, under the lock of the record, and by one process at a time; the
//!   authorization server never sees one again whose successor was stored, unless its sender has ended without notice.
//! - A code is sent to the authorization server that issued it, and a forged one to none. A token is sent to the server
//!   alone, a refresh token and a secret to their issuer alone, and nothing of them is in a URL.
//! - A browser is opened once for each authorization, and not for a client that its authorization server has refused as unknown, or
//!   whose secret has expired. A request for more scopes includes those that were granted.
//! - A token is stored before it is used. Records are written under their lock, and a browser is opened under
//!   that of sign-ins, but not if a person has signed in three times within a minute for a server that accepts nothing.
//! - No person is asked within a minute after a person has refused or did not sign in.
//! - In the end, no lock is held, no port is open, and no flow runs.
//!
//! [`Defect`] has machines that are broken on purpose, each with the invariant that notices it. Not noticed, because the record that
//! is read next has the newer token: a challenge that was sent before the current token arrived counts as a refusal of that token.
//! A test of the machine covers that.

mod defects;
mod issuer;
mod plan;
mod process;
mod resource;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use issuer::{Answer, Issuer, basic, form};
use mcp_auth::{FetchFailure, FetchKey, Grant, Lock};
use mcp_proto::Instant;
use mcp_proto::auth::ProofClaims;
use mcp_proto::client::{ExchangeKey, Failure};
use mcp_testkit::http_client::{Reply, broken};
use mcp_testkit::random::Random;
use plan::{Change, Host, Settings};
use process::{Process, unix};
use resource::Resource;
use serde_json::Value;

pub use defects::Defect;

use crate::seeded::{self, Run};

/// The URL of the protected server.
const SERVER: &str = "https://mcp.example/mcp";

/// The issuers of tokens; the protected server begins with the first.
const ISSUERS: [&str; 2] = ["https://as-1.example", "https://as-2.example"];

/// How long after the last fault each process calls once more: a person may have been away, and is asked again after a
/// pause.
const CALM: Duration = Duration::from_secs(500);

/// The time between two attempts at the last call: the person may have been sent to an error page, because the
/// authorization server has forgotten the client.
const LAST: Duration = Duration::from_secs(400);

/// Tokens with a longer lifetime than this are refreshed before they expire.
const AHEAD: Duration = Duration::from_secs(121);

/// How long everything may take to end after that.
const END: Duration = Duration::from_secs(1500);

/// What a run has done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Calls of applications.
    pub calls: u64,
    /// Calls that ended with a result.
    pub results: u64,
    /// Sign-ins by a person.
    pub sign_ins: u64,
    /// Registrations of clients.
    pub registrations: u64,
    /// Tokens that were issued for refresh tokens.
    pub refreshes: u64,
    /// Refresh tokens that were sent twice because a response was lost, or a process ended.
    pub reuses: u64,
    /// Faults and changes by name.
    pub faults: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Adds the numbers of another run.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.results += other.results;
        self.sign_ins += other.sign_ins;
        self.registrations += other.registrations;
        self.refreshes += other.refreshes;
        self.reuses += other.reuses;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, results, sign_ins, registrations, refreshes, reuses, faults } = self;
        writeln!(f, "{calls} calls, {results} results, {sign_ins} sign-ins, {registrations} registrations")?;
        writeln!(f, "{refreshes} refreshes, {reuses} refresh tokens sent twice after a loss")?;
        let faults: Vec<_> = faults.iter().map(|(name, count)| format!("{count} {name}")).collect();
        write!(f, "faults and changes: {}", faults.join(", "))
    }
}

/// Clients that sign in.
#[derive(Debug)]
pub struct SignIns;

impl seeded::Simulation for SignIns {
    type Defect = Defect;
    type Report = Report;

    const OPTIONS: &'static str = "--sign-in ";
    const DEFECTS: &'static [(Defect, &'static str)] = defects::DEFECTS;

    fn steps(seed: u64) -> usize {
        Settings::new(&mut Random::new(seed)).steps()
    }

    fn run(run: Run<'_, Defect>) -> Report {
        let mut simulation = Simulation::new(run);
        simulation.run();
        simulation.report()
    }

    fn add(sum: &mut Report, report: &Report) {
        sum.add(report);
    }
}

/// Something that happens at a moment. A process is meant with its incarnation: what was on its way to one that has ended
/// is lost.
#[derive(Debug)]
enum Happening {
    AtHost(Origin, FetchKey, Request<Bytes>),
    FromHost(Origin, FetchKey, Result<Answer, FetchFailure>),
    AtServer(Origin, ExchangeKey, Request<Bytes>, Option<ProofClaims>),
    FromServer(Origin, ExchangeKey, Result<Reply, Failure>, bool),
    TryLock(Origin, Lock),
    /// The person looks at an authorization URL.
    Visit(String),
    /// The person enters the code of a device grant.
    Enter(usize, String),
    /// The browser requests the redirect.
    Redirect(String),
    /// A step of the plan.
    Step(usize),
    Call(usize, &'static str),
    /// Each process makes a call that must succeed.
    LastCalls,
    Change(Change),
    /// Faults end.
    Calm,
}

/// A process and its incarnation.
type Origin = (usize, u32);

#[derive(Debug)]
struct Simulation<'w> {
    run: Run<'w, Defect>,
    settings: Settings,
    /// A step begins with choices of its own, which those of what happens until the next one follow.
    random: Random,
    now: Instant,
    order: u64,
    happenings: BTreeMap<(Instant, u64), Happening>,
    processes: Vec<Process>,
    issuers: Vec<Issuer>,
    resource: Resource,
    outages: Vec<Host>,
    is_calm: bool,
    stored: Option<Vec<u8>>,
    /// What was stored before.
    stored_before: Option<Vec<u8>>,
    locks: BTreeMap<Lock, Origin>,
    /// The authorization server to which the secret of the configured client was sent first.
    secret_at: Option<String>,
    /// Clients that an authorization server has refused as unknown to a process.
    unknown_clients: BTreeSet<String>,
    /// The states of authorizations for which a browser was opened.
    states: BTreeSet<String>,
    faults: BTreeMap<&'static str, u64>,
    calls: u64,
    results: u64,
}

impl<'w> Simulation<'w> {
    fn new(mut run: Run<'w, Defect>) -> Self {
        let mut random = Random::new(run.seed());
        let settings = Settings::new(&mut random);
        run.note(|| format!("{settings:?}"));
        let processes = (0..settings.processes).map(|number| Process::new(number, 0, &settings)).collect();
        let mut simulation = Self {
            issuers: ISSUERS.iter().map(|origin| Issuer::new(origin, settings.clone())).collect(),
            resource: Resource::new(settings.clone()),
            is_calm: settings.is_calm,
            settings,
            run,
            random,
            now: Instant::START,
            order: 0,
            happenings: BTreeMap::new(),
            processes,
            outages: Vec::new(),
            stored: None,
            stored_before: None,
            locks: BTreeMap::new(),
            secret_at: None,
            unknown_clients: BTreeSet::new(),
            states: BTreeSet::new(),
            faults: BTreeMap::new(),
            calls: 0,
            results: 0,
        };
        simulation.plan();
        simulation
    }

    /// Draws what happens from outside.
    fn plan(&mut self) {
        let (span, random) = (self.settings.span, self.random.clone());
        for step in 0..self.settings.steps() {
            if self.run.has(step) {
                let (after, _) = self.planned(step);
                self.after(after, Happening::Step(step));
            }
        }
        self.random = random;
        self.after(span, Happening::Calm);
        for attempt in 0..3 {
            self.after(span + CALM + LAST * attempt, Happening::LastCalls);
        }
    }

    /// When a step happens, and what it is. What is drawn from then on follows from its choices.
    fn planned(&mut self, step: usize) -> (Duration, Happening) {
        self.random = self.run.random(step);
        let after = self.random.time(self.settings.span);
        let happening = if step < self.settings.all_calls() {
            let tool = self.random.text(&["read", "read", "read", "write", "admin"]);
            Happening::Call(step % self.settings.processes, tool)
        } else {
            Happening::Change(Change::draw(&self.settings, &mut self.random))
        };
        (after, happening)
    }

    fn after(&mut self, delay: Duration, happening: Happening) {
        self.order += 1;
        self.happenings.insert((self.now + delay, self.order), happening);
    }

    /// A moment later.
    fn soon(&mut self, happening: Happening) {
        let delay = self.random.time(Duration::from_millis(200));
        self.after(delay, happening);
    }

    fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    /// Whether the next request meets a fault.
    fn draws_fault(&mut self) -> bool {
        !self.is_calm && self.random.one_in(self.settings.fault_in)
    }

    fn run(&mut self) {
        for process in 0..self.processes.len() {
            self.start(process);
        }
        let end = Instant::START + self.settings.span + CALM + END;
        loop {
            let has_timers = !self.run.is(Defect::IgnoresTimers);
            let with_timers = self.processes.iter().enumerate().filter(|_| has_timers);
            let due = with_timers.filter_map(|(number, own)| Some((own.next_timeout()?, number)));
            let (timer, next) = (due.min(), self.happenings.keys().next().copied());
            match (timer, next) {
                (Some((at, process)), next) if next.is_none_or(|(next, _)| at <= next) => {
                    // A flow that was begun before the end may still run.
                    if at > end && !self.processes.iter().any(|own| own.authorizer.is_busy()) || at > end + CALM {
                        break;
                    }
                    self.now = self.now.max(at);
                    let now = self.now;
                    self.processes[process].handle_timeout(now);
                    self.drain(process);
                }
                (_, Some(key)) if key.0 <= end + CALM => {
                    self.now = self.now.max(key.0);
                    let happening = self.happenings.remove(&key).expect("it was just there");
                    self.happen(happening);
                }
                _ => break,
            }
        }
        self.check_end();
    }

    fn is_live(&self, (process, incarnation): Origin) -> bool {
        self.processes[process].incarnation == incarnation
    }

    fn happen(&mut self, happening: Happening) {
        let now = self.now;
        self.run.note(|| format!("{now:?} {happening:.200?}"));
        match happening {
            Happening::AtHost(from, fetch, request) => self.at_host(from, fetch, &request),
            Happening::FromHost(to, fetch, answer) => self.host_answered(to, fetch, answer),
            Happening::AtServer(from, exchange, request, proof) => {
                self.at_server(from, exchange, &request, proof.as_ref());
            }
            Happening::FromServer(to, exchange, reply, is_accepted) => {
                if self.is_live(to) {
                    let now = self.now;
                    self.processes[to.0].answered(exchange, reply, is_accepted, now);
                    self.drain(to.0);
                }
            }
            Happening::TryLock(from, lock) => self.try_lock(from, lock),
            Happening::Visit(url) => self.visit(&url),
            Happening::Enter(issuer, code) => self.issuers[issuer].approve(&code),
            Happening::Redirect(url) => self.redirect(&url),
            Happening::Step(step) => {
                let (_, happening) = self.planned(step);
                self.happen(happening);
            }
            Happening::Call(process, tool) => self.call(process, tool, false),
            Happening::LastCalls => {
                for process in 0..self.processes.len() {
                    if !self.processes[process].last_call_succeeded {
                        self.call(process, "read", true);
                    }
                }
            }
            Happening::Change(change) => self.change(change),
            Happening::Calm => {
                self.is_calm = true;
                self.outages.clear();
                self.resource.refuses_all = false;
            }
        }
    }

    fn start(&mut self, process: usize) {
        let (seed, now) = (self.seed(), self.now);
        self.processes[process].start(seed, now);
        self.drain(process);
    }

    fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        for chunk in seed.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.draw().to_be_bytes());
        }
        seed
    }

    fn call(&mut self, process: usize, tool: &'static str, is_last: bool) {
        let now = self.now;
        if self.processes[process].call(tool, self.calls, is_last, now) {
            self.calls += 1;
        } else if is_last {
            self.after(Duration::from_secs(5), Happening::Call(process, tool));
        }
        self.drain(process);
    }

    fn change(&mut self, change: Change) {
        let name = match change {
            Change::Crash(process) => {
                let incarnation = self.processes[process].incarnation;
                self.locks.retain(|_, owner| *owner != (process, incarnation));
                if self.run.is(Defect::GoesOnWithoutLocks) {
                    return;
                }
                self.processes[process] = Process::new(process, incarnation + 1, &self.settings);
                self.start(process);
                "crash"
            }
            Change::Revoke => {
                self.issuers.iter_mut().for_each(Issuer::revoke_all);
                "revocation"
            }
            Change::ForgetClients => {
                self.issuers.iter_mut().for_each(Issuer::forget_clients);
                "forgotten clients"
            }
            Change::Migrate => {
                self.resource.issuer = 1 - self.resource.issuer;
                "migration"
            }
            Change::BeginStorm => {
                self.resource.refuses_all = true;
                // The application repeats its calls without a pause, and the person signs in at once: only the limits of the
                // machines end this (OA-T-04).
                for _ in 0..12 {
                    let after = self.random.time(Duration::from_secs(90));
                    self.after(after, Happening::Call(0, "read"));
                }
                let after = self.random.time(Duration::from_secs(300));
                self.after(after, Happening::Change(Change::EndStorm));
                "storm of 401"
            }
            Change::EndStorm => {
                self.resource.refuses_all = false;
                return;
            }
            Change::BeginOutage(host) => {
                self.outages.push(host);
                let after = self.random.time(Duration::from_secs(300));
                self.after(after, Happening::Change(Change::EndOutage));
                "outage"
            }
            Change::EndOutage => {
                self.outages.pop();
                return;
            }
        };
        self.fault(name);
    }

    /// A request to the server has arrived.
    fn at_server(
        &mut self,
        from: Origin,
        exchange: ExchangeKey,
        request: &Request<Bytes>,
        proof: Option<&ProofClaims>,
    ) {
        self.check_expiry(request);
        let (reply, is_accepted) = self.resource.answer(request, proof, &self.issuers, self.now, &mut self.random);
        let is_down = self.outages.contains(&Host::Resource);
        let reply = if is_down || self.draws_fault() {
            match self.random.below(4) {
                0 => {
                    self.fault("broken connection");
                    Err(broken())
                }
                1 => {
                    self.fault("status 500");
                    Ok(Reply::status(500))
                }
                2 => {
                    self.fault("status 503");
                    Ok(Reply::status(503))
                }
                _ => {
                    self.fault("silence of the server");
                    return;
                }
            }
        } else {
            Ok(reply)
        };
        let is_accepted = is_accepted && reply.is_ok();
        self.soon(Happening::FromServer(from, exchange, reply, is_accepted));
    }

    /// A request to a host has arrived: the metadata of the server, or an authorization server.
    fn at_host(&mut self, from: Origin, fetch: FetchKey, request: &Request<Bytes>) {
        let host = format!("https://{}", request.uri().host().unwrap_or_default());
        let issuer = ISSUERS.iter().position(|issuer| *issuer == host);
        let outage = if issuer.is_some() { Host::Issuer } else { Host::Resource };
        let fault = if self.outages.contains(&outage) || self.draws_fault() { self.random.below(5) } else { 5 };
        if fault == 0 {
            self.fault("lost request");
            return self.soon(Happening::FromHost(from, fetch, Err(FetchFailure::Unreachable)));
        }
        let mut answer = match issuer {
            Some(issuer) => {
                let is_live = self.is_live(from);
                self.issuers[issuer].answer(request, is_live, self.now)
            }
            None => self.resource.metadata(request.uri().path()),
        };
        match fault {
            1 => {
                self.fault("lost response");
                self.soon(Happening::FromHost(from, fetch, Err(FetchFailure::Unreachable)));
            }
            2 => {
                self.fault("silence");
                self.after(Duration::from_secs(30), Happening::FromHost(from, fetch, Err(FetchFailure::TimedOut)));
            }
            3 => {
                self.fault("status 502");
                answer = Answer::new(502, "<html>");
                self.soon(Happening::FromHost(from, fetch, Ok(answer)));
            }
            4 if issuer.is_some() => {
                self.fault("page");
                answer = Answer::new(200, "<html>");
                self.soon(Happening::FromHost(from, fetch, Ok(answer)));
            }
            _ => self.soon(Happening::FromHost(from, fetch, Ok(answer))),
        }
    }

    fn host_answered(&mut self, to: Origin, fetch: FetchKey, answer: Result<Answer, FetchFailure>) {
        if !self.is_live(to) {
            return;
        }
        let now = self.now;
        let mut replaced = None;
        match answer.map(|answer| Self::answered_instead(&self.run, answer)) {
            Ok(Answer { status, body, replaces, unknown_client, is_sign_in }) => {
                self.unknown_clients.extend(unknown_client);
                if is_sign_in {
                    self.processes[to.0].signed_in_at.push(now);
                }
                let (head, ()) = Response::builder().status(status).body(()).expect("a status").into_parts();
                self.processes[to.0].authorizer.handle_response(fetch, &head, body.as_bytes(), now);
                replaced = replaces;
            }
            Err(failure) => self.processes[to.0].authorizer.handle_failure(fetch, failure, now),
        }
        self.drain(to.0);
        for issuer in &mut self.issuers {
            issuer.replaced.extend(replaced.clone());
        }
    }

    fn try_lock(&mut self, from: Origin, lock: Lock) {
        if !self.is_live(from) || !self.processes[from.0].wanted_locks.contains(&lock) {
            return;
        }
        if self.locks.contains_key(&lock) {
            return self.after(Duration::from_millis(50), Happening::TryLock(from, lock));
        }
        self.locks.insert(lock, from);
        let now = self.now;
        let process = &mut self.processes[from.0];
        process.wanted_locks.remove(&lock);
        process.authorizer.handle_locked(lock, now);
        self.drain(from.0);
    }

    /// The person has the page of the authorization server before them.
    fn visit(&mut self, url: &str) {
        let (endpoint, query) = url.split_once('?').expect("an authorization request has a query");
        let issuer = ISSUERS.iter().position(|issuer| endpoint == format!("{issuer}/authorize"));
        let issuer = issuer.expect("a browser is sent to an authorization server");
        let agrees = self.is_calm || !self.random.one_in(10);
        if !agrees {
            self.fault("refusal of the person");
        }
        let now = self.now;
        let Some(redirect) = self.issuers[issuer].authorize(query, agrees, now) else {
            return self.fault("error page");
        };
        if self.draws_fault() {
            self.fault("forged redirect");
            let forged = self.issuers[issuer].forge(&redirect, &mut self.random);
            self.redirect(&forged);
        }
        self.soon(Happening::Redirect(redirect));
    }

    fn redirect(&mut self, url: &str) {
        let rest = url.strip_prefix("http://127.0.0.1:").expect("redirects go to this machine");
        let port = rest.split('/').next().and_then(|port| port.parse::<u16>().ok());
        let Some(process) = self.processes.iter().position(|own| own.listening.is_some() && own.listening == port)
        else {
            return;
        };
        let url = &self.redirected_instead(process, url);
        let (head, ()) = Request::get(url).header("host", "127.0.0.1:40000").body(()).expect("a request").into_parts();
        let now = self.now;
        self.processes[process].note_redirect(url, now);
        let _ = self.processes[process].authorizer.handle_callback(&head, now);
        self.drain(process);
    }

    /// What is stored of the tokens.
    fn stored(&self, member: &str) -> Option<String> {
        let record: Value = serde_json::from_slice(self.stored.as_ref()?).ok()?;
        record["tokens"][member].as_str().map(str::to_owned)
    }

    fn holds(&self, process: usize, lock: Lock) -> bool {
        self.locks.get(&lock) == Some(&(process, self.processes[process].incarnation))
    }

    /// Checks what a request to a host contains: credentials go to their issuer only.
    fn check_fetch(&mut self, process: usize, request: &Request<Bytes>) {
        let url = request.uri().to_string();
        let host = format!("https://{}", request.uri().host().unwrap_or_default());
        for credential in ["access-", "refresh-", "code-", "device-", "robot-secret"] {
            assert!(!url.contains(credential), "a credential is in a URL");
        }
        assert!(request.headers().get("cookie").is_none());
        let authorization = request.headers().get("authorization").map(|value| value.to_str().expect("visible"));
        if let Some(authorization) = authorization {
            let (client, secret) = basic(authorization).expect("a name and a password");
            if client == "robot" {
                let first = self.secret_at.get_or_insert_with(|| host.clone());
                assert!(host == *first, "the secret of another issuer");
            } else {
                assert!(secret.ends_with(&host), "the secret of another issuer");
            }
        }
        if request.uri().path() == "/register" {
            return;
        }
        for (name, value) in form(request.body()) {
            assert!(!value.contains("access-"), "an access token was sent to an authorization server");
            if ["code", "refresh_token", "device_code"].contains(&name.as_str()) {
                assert!(value.ends_with(&host), "a {name} was sent to another issuer");
                assert!(!value.contains("forged"), "a forged code was sent");
            }
            if name == "code" {
                assert!(self.holds(process, Lock::SignIn), "a code is sent without the lock of sign-ins");
            }
            if name == "refresh_token" {
                assert!(self.holds(process, Lock::Record), "a refresh without the lock of the record");
                assert_eq!(
                    self.stored("refresh_token").as_deref(),
                    Some(&*value),
                    "a refresh token that is not stored"
                );
            }
        }
    }

    /// Checks the credentials of a request to the server.
    fn check_open(request: &Request<Bytes>, proof: Option<&ProofClaims>) {
        assert_eq!(request.uri().to_string(), SERVER, "a request is sent to another server");
        let scheme = request.headers().get("authorization").map(|value| {
            let (scheme, token) = value.to_str().expect("visible").split_once(' ').expect("a scheme");
            assert!(token.starts_with("access-"), "something else than an access token was sent to the server");
            scheme
        });
        assert_eq!(scheme == Some("DPoP"), proof.is_some(), "a bound token is sent with a proof, and no other is");
    }

    /// Without faults, a token is replaced before it expires.
    fn check_expiry(&self, request: &Request<Bytes>) {
        let is_replaced = self.settings.refreshes
            && !self.settings.has_secrets
            && !matches!(self.settings.grant, Grant::ClientCredentials);
        if !self.settings.is_calm || !is_replaced || self.settings.lifetime.is_none_or(|lifetime| lifetime < AHEAD) {
            return;
        }
        let token = request.headers().get("authorization").and_then(|value| value.to_str().ok()?.split_once(' '));
        let until = token.and_then(|(_, token)| self.issuers[self.resource.issuer].access.get(token)?.until);
        assert!(until.is_none_or(|until| self.now < until), "an expired token is sent");
    }

    /// A browser is opened once for each authorization, for a client that can be used.
    fn check_browser(&mut self, process: usize, url: &str) {
        let (endpoint, query) = url.split_once('?').expect("an authorization request has a query");
        let mut query = form(query.as_bytes());
        let state = query.remove("state").expect("a state");
        assert!(self.states.insert(state.clone()), "a browser is opened twice");
        let client = query.remove("client_id").expect("a client");
        assert!(!self.unknown_clients.contains(&client), "a person is asked for an unknown client");
        let issuer = self.issuers.iter().find(|issuer| endpoint.starts_with(&issuer.origin)).expect("an issuer");
        let expiry = issuer.secret_expires_at(&client);
        let origin = issuer.origin.clone();
        // A client counts whole seconds from the one in which it began.
        assert!(expiry.is_none_or(|expiry| unix(self.now) <= expiry), "the secret of the client has expired");
        if self.processes[process].is_step_up == Some(true) {
            let scopes = query.remove("scope").unwrap_or_default();
            let wanted: BTreeSet<_> = scopes.split_whitespace().collect();
            let granted = self.stored("granted").unwrap_or_default();
            assert!(granted.split_whitespace().all(|scope| wanted.contains(scope)), "scopes are lost");
        }
        self.processes[process].asked = Some((state, origin));
    }

    fn check_end(&self) {
        assert!(self.locks.is_empty(), "locks are held in the end: {:?}", self.locks);
        for process in &self.processes {
            let is_elsewhere = self.secret_at.as_ref().is_some_and(|at| at != ISSUERS[self.resource.issuer]);
            process.check_end(is_elsewhere);
        }
    }

    fn report(&self) -> Report {
        let sum = |number: fn(&Issuer) -> u64| self.issuers.iter().map(number).sum();
        Report {
            calls: self.calls,
            results: self.results + self.processes.iter().map(|process| process.results).sum::<u64>(),
            sign_ins: sum(|issuer| issuer.report.sign_ins),
            registrations: sum(|issuer| issuer.report.registrations),
            refreshes: sum(|issuer| issuer.report.refreshes),
            reuses: sum(|issuer| issuer.report.reuses),
            faults: self.faults.clone(),
        }
    }
}
