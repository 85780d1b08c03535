//! The machine that gets tokens for one server, and keeps them.
//!
//! ```text
//!            challenge                      tokens of another process
//!  Idle ───────────────▶ FindResource ─▶ FindIssuer ─▶ Deciding ───────────────────▶ Idle, with a token
//!   │  start, expiry                                     │  │                          ▲
//!   └────────────────────────────────────────────────────┘  │ no refresh token         │ stored
//!                                                           ▼                          │
//!                          Listening ◀─ Deciding again, with the lock of sign-ins      │
//!                              │                                                       │
//!                              ▼                                                       │
//!                         Registering ─▶ AwaitingRedirect ─▶ RequestingToken ─▶ Storing┘
//! ```
//!
//! One flow runs at a time. It owns the locks that it holds, and releases them however it ends.

mod callback;
mod discovery;
mod exchange;
mod sign_in;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, response};

use self::discovery::{Discovery, Resource};
use self::exchange::TokenRequest;
use self::sign_in::Awaited;
use super::action::{Action, Authorized, Event, FetchFailure, FetchKey, Lock, Reach, SignInError, Waiting};
use super::challenge::Challenge;
use super::config::Config;
use super::imported::Imported;
use super::metadata::IssuerMetadata;
use super::record::{Record, Tokens, union};
use super::secret::Secret;
use super::seed::{Nonces, Seed};
use super::token::TokenError;
use crate::Instant;
use crate::client::{Challenged, Credentials};
use crate::conversation::deadlines::Deadlines;
use crate::conversation::outbox::{Outbox, Output};
use crate::machine::Machine;

/// The number of new tokens in a row that the server may refuse before no more are requested (OA-T-04).
const MAX_REFUSED_IN_A_ROW: u32 = 3;

/// A token that the server refuses within this many seconds was never accepted.
const FRESH: u64 = 60;

/// A lock that is not taken within this time is that of another process.
const BUSY: Duration = Duration::from_secs(1);

/// The number of sets of scopes that are remembered because the server refused them (OA-S-03).
const MAX_REMEMBERED: usize = 64;

/// Why a token is needed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// The application starts: a stored token is used, and refreshed if that is due. Nobody is asked.
    Start,
    /// The server refused a request (OA-T-02).
    Challenged {
        /// The status, 401 or 403.
        status: StatusCode,
        /// Its challenges.
        challenges: Vec<Challenge>,
        /// The generation of the token that was sent; `None` if none was.
        generation: Option<u64>,
    },
    /// The server refused a request that no person waits for: none is asked (OA-G-05).
    ChallengedInBackground {
        /// The status, 401 or 403.
        status: StatusCode,
        /// Its challenges.
        challenges: Vec<Challenge>,
        /// The generation of the token that was sent; `None` if none was.
        generation: Option<u64>,
    },
    /// A person wants to sign in.
    Requested,
    /// Tokens of another program are stored, in the place of those that are stored already.
    Imported(Imported),
}

impl From<Challenged> for Cause {
    fn from(challenged: Challenged) -> Self {
        let Challenged { status, challenges, sent_with: generation, is_background, .. } = challenged;
        if is_background {
            Self::ChallengedInBackground { status, challenges, generation }
        } else {
            Self::Challenged { status, challenges, generation }
        }
    }
}

/// Gets tokens for one server: discovers its authorization server, signs in, and refreshes the tokens.
///
/// The driver carries out its [`Action`]s, and passes each [`Event::Authorized`] to the clients that use the server.
pub struct Authorizer {
    config: Config,
    outbox: Outbox<Action, Event>,
    timers: Deadlines<Timer>,
    clock: Clock,
    nonces: Nonces,
    /// As it was last loaded or stored.
    record: Record,
    held: Option<Held>,
    flow: Option<Flow>,
    generation: u64,
    last_fetch: u64,
    history: History,
}

/// The token in use.
#[derive(Debug)]
struct Held {
    generation: u64,
    /// The serial number of the stored tokens that it is from.
    serial: u64,
}

/// What limits the number of sign-ins.
#[derive(Debug, Default)]
struct History {
    /// New tokens that the server refused, one after the other.
    refused_in_a_row: u32,
    /// Sets of scopes with which the server still refused.
    useless_scopes: BTreeSet<String>,
}

/// Seconds since 1970 at a moment of the driver's clock.
#[derive(Debug, Clone, Copy)]
struct Clock {
    unix: u64,
    at: Instant,
}

impl Clock {
    fn unix(self, now: Instant) -> u64 {
        self.unix.saturating_add(now.saturating_duration_since(self.at).as_secs())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The flow has waited long enough for what it waits for.
    Step,
    /// Another process has the lock of sign-ins.
    Busy,
    /// The token expires soon.
    Refresh,
}

/// A flow, from its cause to a token or a refusal.
#[derive(Debug)]
struct Flow {
    need: Need,
    /// A person waits for its outcome, and may be asked.
    has_person: bool,
    /// What is stored once discovery has ended.
    imported: Option<Imported>,
    locks: BTreeSet<Lock>,
    found: Option<Found>,
    is_listening: bool,
    /// The port that the driver was asked to listen on.
    asked_port: Option<u16>,
    /// The registered client is unknown at the issuer.
    must_register: bool,
    repeated: Repeated,
    step: Step,
}

/// What the flow is to achieve.
#[derive(Debug)]
enum Need {
    /// A stored token, if there is one: at the start, and before a token expires.
    Stored,
    /// A token that the server accepts.
    New {
        /// The URL of the resource's metadata.
        named: Option<String>,
        has_challenge: bool,
        /// The scopes of the challenge.
        scope: Option<String>,
        /// The token that was sent lacks scopes.
        is_step_up: bool,
        /// The serial number of the stored tokens that were refused.
        refused: Option<u64>,
    },
}

/// What discovery has found.
#[derive(Debug)]
struct Found {
    resource: Resource,
    issuer: IssuerMetadata,
}

/// What a flow does at most once.
#[derive(Debug, Default)]
struct Repeated {
    /// The code was refused, and another one requested (OA-K-04).
    has_restarted: bool,
    /// The client was unknown, and registered again (OA-K-04).
    has_registered_again: bool,
    /// The scopes were refused, and left out (OA-K-04).
    is_without_scope: bool,
}

/// What a flow waits for.
#[derive(Debug)]
enum Step {
    /// Nothing: the flow goes on with the current input.
    Ready,
    Discovering(Discovery),
    /// The lock of the record.
    Locking(Then),
    Loading(Then),
    /// The lock of sign-ins.
    LockingSignIn,
    Listening,
    Registering {
        fetch: FetchKey,
        url: String,
        redirect_uri: String,
    },
    AwaitingRedirect(Awaited),
    RequestingToken {
        fetch: FetchKey,
        request: TokenRequest,
    },
}

/// What happens once the record is locked and loaded.
#[derive(Debug)]
enum Then {
    /// Stored tokens are used, refreshed or replaced.
    Decide,
    /// New tokens are stored.
    Store(Box<Tokens>),
}

impl Authorizer {
    /// Creates a machine without a token.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            outbox: Outbox::default(),
            timers: Deadlines::new(),
            clock: Clock { unix: 0, at: Instant::START },
            nonces: Nonces::new(Seed::new([0; 32])),
            record: Record::new(),
            held: None,
            flow: None,
            generation: 0,
            last_fetch: 0,
            history: History::default(),
        }
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether a flow runs.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.flow.is_some()
    }

    /// A token is needed. `seed` is new random data, and `unix` the time in seconds since 1970.
    ///
    /// While a flow runs, no other one is begun: everything that needs a token waits for that flow (OA-T-05). A flow that
    /// would end without a token, because none was needed, gets one then.
    pub fn begin(&mut self, cause: Cause, seed: Seed, unix: u64, now: Instant) {
        if self.flow.as_ref().is_some_and(|flow| !matches!(flow.need, Need::Stored)) {
            return;
        }
        self.clock = Clock { unix, at: now };
        self.nonces = Nonces::new(seed);
        let unprompted = Need::New { named: None, has_challenge: false, scope: None, is_step_up: false, refused: None };
        let (has_person, mut imported) = (!matches!(cause, Cause::ChallengedInBackground { .. }), None);
        let need = match cause {
            Cause::Start => Some(Need::Stored),
            Cause::Requested => Some(unprompted),
            Cause::Imported(tokens) => {
                imported = Some(tokens);
                Some(unprompted)
            }
            Cause::Challenged { status, challenges, generation }
            | Cause::ChallengedInBackground { status, challenges, generation } => {
                self.challenged(status, &challenges, generation, now)
            }
        };
        let Some(need) = need else { return };
        let is_stored = matches!(need, Need::Stored);
        match self.flow.take() {
            Some(flow) if is_stored => self.flow = Some(flow),
            Some(flow) => self.flow = Some(Flow { need, has_person, imported, ..flow }),
            None if is_stored => self.lock_record(Flow::new(need), Then::Decide, now),
            None => self.discover(Flow { has_person, imported, ..Flow::new(need) }, now),
        }
    }

    /// What a challenge demands; `None` if it is answered already.
    fn challenged(
        &mut self,
        status: StatusCode,
        challenges: &[Challenge],
        generation: Option<u64>,
        now: Instant,
    ) -> Option<Need> {
        // The refused request was sent before the current token was there (OA-T-05).
        if self.held.as_ref().is_some_and(|held| generation.is_none_or(|sent| sent < held.generation)) {
            self.authorize_again();
            return None;
        }
        let challenge = Challenge::for_token(challenges);
        let scope = challenge.and_then(Challenge::scope).map(str::to_owned);
        let is_step_up = status == StatusCode::FORBIDDEN;
        let tokens = self.record.tokens.as_ref().filter(|_| generation.is_some());
        if is_step_up {
            let wanted = union([scope.as_deref()]).unwrap_or_default();
            let is_useless = wanted.is_empty()
                || tokens.is_some_and(|tokens| tokens.covers(&wanted))
                || self.history.useless_scopes.contains(&wanted);
            if is_useless {
                self.outbox.report(Event::Refused(SignInError::ScopesGranted));
                return None;
            }
            if self.history.useless_scopes.len() < MAX_REMEMBERED {
                self.history.useless_scopes.insert(wanted);
            }
        } else if let Some(tokens) = tokens {
            let is_fresh = self.clock.unix(now).saturating_sub(tokens.issued_at) < FRESH;
            self.history.refused_in_a_row = if is_fresh { self.history.refused_in_a_row + 1 } else { 0 };
            if self.history.refused_in_a_row >= MAX_REFUSED_IN_A_ROW {
                self.outbox.report(Event::Refused(SignInError::TokensRefused(self.history.refused_in_a_row)));
                return None;
            }
        }
        Some(Need::New {
            named: challenge.and_then(Challenge::resource_metadata).map(str::to_owned),
            has_challenge: challenge.is_some(),
            scope,
            is_step_up,
            refused: self.held.as_ref().filter(|_| generation.is_some()).map(|held| held.serial),
        })
    }

    /// A lock was taken.
    pub fn handle_locked(&mut self, lock: Lock, now: Instant) {
        let Some(mut flow) = self.flow.take() else { return };
        match (lock, std::mem::replace(&mut flow.step, Step::Ready)) {
            (Lock::Record, Step::Locking(then)) => {
                flow.locks.insert(lock);
                self.lock_record(flow, then, now);
            }
            (Lock::SignIn, Step::LockingSignIn) => {
                self.timers.clear(Timer::Busy);
                flow.locks.insert(lock);
                self.lock_record(flow, Then::Decide, now);
            }
            (Lock::Record | Lock::SignIn, step) => {
                flow.step = step;
                self.flow = Some(flow);
            }
        }
    }

    /// The record was loaded; `None` if none is stored.
    pub fn handle_loaded(&mut self, stored: Option<&[u8]>, now: Instant) {
        let Some(mut flow) = self.flow.take() else { return };
        match std::mem::replace(&mut flow.step, Step::Ready) {
            Step::Loading(then) => {
                self.record = stored.and_then(Record::parse).unwrap_or_else(Record::new);
                match then {
                    Then::Decide => {
                        self.decide(flow, now);
                    }
                    Then::Store(tokens) => {
                        self.record.set_tokens(*tokens);
                        self.store();
                        self.use_stored(flow, now);
                    }
                }
            }
            step @ (Step::Ready
            | Step::Discovering(_)
            | Step::Locking(_)
            | Step::LockingSignIn
            | Step::Listening
            | Step::Registering { .. }
            | Step::AwaitingRedirect(_)
            | Step::RequestingToken { .. }) => {
                flow.step = step;
                self.flow = Some(flow);
            }
        }
    }

    /// The response to a request has arrived, with its whole body.
    pub fn handle_response(&mut self, fetch: FetchKey, head: &response::Parts, body: &[u8], now: Instant) {
        let Some(flow) = self.take_flow_of(fetch) else { return };
        self.timers.clear(Timer::Step);
        match flow.step {
            Step::Discovering(_) => self.on_document(flow, head, body, now),
            Step::Registering { .. } => self.on_registered(flow, head.status, body, now),
            Step::RequestingToken { .. } => self.on_token(flow, head.status, body, now),
            Step::Ready
            | Step::Locking(_)
            | Step::Loading(_)
            | Step::LockingSignIn
            | Step::Listening
            | Step::AwaitingRedirect(_) => self.flow = Some(flow),
        }
    }

    /// A request has no response.
    pub fn handle_failure(&mut self, fetch: FetchKey, reason: FetchFailure, _now: Instant) {
        let Some(flow) = self.take_flow_of(fetch) else { return };
        let url = flow.step.request().map_or("", |(_, url)| url).to_owned();
        self.fail(flow, SignInError::Fetch { url: without_query(&url), reason });
    }

    /// The driver listens on this port of 127.0.0.1; `None` if that is not possible.
    pub fn handle_listening(&mut self, port: Option<u16>, now: Instant) {
        let Some(flow) = self.flow.take() else { return };
        if matches!(flow.step, Step::Listening) && !flow.is_listening {
            self.on_listening(flow, port, now);
        } else {
            self.flow = Some(flow);
        }
    }

    /// A person was sent back by the authorization server: the URL, or its path with the query, as a browser requests it
    /// or as a person pastes it (OA-B-04). Returns whether it belongs to the current sign-in.
    pub fn handle_redirect(&mut self, url: &str, now: Instant) -> bool {
        let Some(flow) = self.flow.take() else { return false };
        if matches!(flow.step, Step::AwaitingRedirect(_)) {
            self.on_redirect(flow, url, now)
        } else {
            self.flow = Some(flow);
            false
        }
    }

    /// Gives up a flow that runs: its locks are released.
    pub fn close(&mut self, _now: Instant) {
        if let Some(flow) = self.flow.take() {
            self.release(flow);
        }
        self.timers.clear_all();
    }

    /// The next action or event.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<Action, Event>> {
        self.outbox.pop()
    }

    /// When [`Authorizer::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Handles all timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Step => {
                    if let Some(flow) = self.flow.take() {
                        let error = flow.timed_out(&self.config);
                        self.fail(flow, error);
                    }
                }
                Timer::Refresh if self.flow.is_none() => {
                    self.lock_record(Flow::new(Need::Stored), Then::Decide, now);
                }
                Timer::Busy => self.outbox.report(Event::Waiting(Waiting::OtherProcess)),
                // The flow that runs replaces the token.
                Timer::Refresh => {}
            }
        }
    }

    /// Takes the lock of the record, and loads it.
    fn lock_record(&mut self, mut flow: Flow, then: Then, now: Instant) {
        self.timers.set(Timer::Step, now + self.config.request_timeout * 2);
        if flow.locks.contains(&Lock::Record) {
            self.outbox.act(Action::Load);
            flow.step = Step::Loading(then);
        } else {
            self.outbox.act(Action::Lock(Lock::Record));
            flow.step = Step::Locking(then);
        }
        self.flow = Some(flow);
    }

    fn unlock(&mut self, flow: &mut Flow, lock: Lock) {
        if flow.locks.remove(&lock) {
            self.outbox.act(Action::Unlock(lock));
        }
    }

    /// Uses stored tokens, refreshes them, or gets new ones. The record is locked and was just read (OA-F-04).
    fn decide(&mut self, mut flow: Flow, now: Instant) {
        self.timers.clear(Timer::Step);
        let unix = self.clock.unix(now);
        if let (Some(imported), Some(found)) = (&flow.imported, &flow.found) {
            let tokens = imported.to_tokens(&found.issuer, found.resource.parameter.as_deref(), unix);
            if let Some(tokens) = tokens {
                return self.store_tokens(flow, tokens, now);
            }
            let issuer = found.issuer.issuer().to_owned();
            return self.fail(flow, SignInError::ImportedFromOther { issuer });
        }
        let is_replaced = flow.imported.is_some();
        let tokens = self.record.tokens.as_ref().filter(|tokens| flow.is_for(tokens) && !is_replaced);
        if tokens.is_some_and(|tokens| flow.may_use(tokens, self.record.serial, unix)) {
            self.use_stored(flow, now);
        } else if let Some(tokens) = tokens.filter(|tokens| flow.may_refresh(tokens)) {
            let request = TokenRequest::refresh(tokens);
            self.request_token(flow, request, now);
        } else if matches!(flow.need, Need::Stored) {
            // Nobody has asked for a token: the server will, if it needs one (OA-T-02).
            let is_first = self.held.is_none();
            self.release(flow);
            if is_first {
                self.outbox.report(Event::NoToken);
            }
        } else if flow.found.is_none() {
            // The challenge has come while the record was looked at.
            self.unlock(&mut flow, Lock::Record);
            self.discover(flow, now);
        } else if !self.config.grant.is_interactive() {
            self.request_client_credentials(flow, now);
        } else if !self.config.may_ask_user || !flow.has_person {
            let command = self.config.sign_in_command.clone();
            self.fail(flow, SignInError::NotInteractive { command });
        } else if flow.locks.contains(&Lock::SignIn) {
            self.sign_in(flow, now);
        } else {
            // Locks are always taken in the same order: that of sign-ins first.
            self.unlock(&mut flow, Lock::Record);
            self.timers.set(Timer::Step, now + self.config.user_timeout);
            self.timers.set(Timer::Busy, now + BUSY);
            self.outbox.act(Action::Lock(Lock::SignIn));
            flow.step = Step::LockingSignIn;
            self.flow = Some(flow);
        }
    }

    /// New tokens were issued: they are stored before they are used (OA-F-03).
    fn store_tokens(&mut self, flow: Flow, tokens: Tokens, now: Instant) {
        if flow.locks.contains(&Lock::Record) {
            self.record.set_tokens(tokens);
            self.store();
            self.use_stored(flow, now);
        } else {
            self.lock_record(flow, Then::Store(Box::new(tokens)), now);
        }
    }

    fn store(&mut self) {
        let record = String::from_utf8(self.record.to_bytes()).unwrap_or_default();
        self.outbox.act(Action::Store(Secret::new(record)));
    }

    /// The tokens of the record are used from now on.
    fn use_stored(&mut self, flow: Flow, now: Instant) {
        self.release(flow);
        let serial = self.record.serial;
        if self.held.as_ref().is_none_or(|held| held.serial != serial) {
            self.generation += 1;
            self.held = Some(Held { generation: self.generation, serial });
        }
        self.authorize_again();
        self.timers.clear(Timer::Refresh);
        if let Some(at) = self.record.tokens.as_ref().and_then(Tokens::refresh_at) {
            let after = at.saturating_sub(self.clock.unix(now));
            self.timers.set(Timer::Refresh, now + Duration::from_secs(after));
        }
    }

    fn authorize_again(&mut self) {
        if let (Some(tokens), Some(held)) = (&self.record.tokens, &self.held) {
            let generation = held.generation;
            let event = if let Ok(credentials) = Credentials::bearer(tokens.access_token.reveal(), generation) {
                let (token, scheme) = (tokens.access_token.clone(), tokens.scheme);
                Event::Authorized(Authorized { credentials, token, scheme, generation })
            } else {
                // Only a record that another program has written contains such a token.
                let issuer = tokens.issuer.issuer().to_owned();
                Event::Refused(SignInError::Token { issuer, reason: TokenError::Unusable })
            };
            self.outbox.report(event);
        }
    }

    /// Ends a flow without a token.
    fn fail(&mut self, flow: Flow, error: SignInError) {
        let is_asked = matches!(flow.need, Need::New { .. });
        let is_first = self.held.is_none();
        self.release(flow);
        if is_asked {
            self.outbox.report(Event::Refused(error));
        } else if is_first {
            // A token that could not be refreshed ahead of time may still be valid (OA-F-02).
            self.outbox.report(Event::NoToken);
        }
    }

    /// Releases what a flow holds, in the reverse order.
    fn release(&mut self, mut flow: Flow) {
        self.timers.clear(Timer::Step);
        self.timers.clear(Timer::Busy);
        if flow.is_listening {
            self.outbox.act(Action::Unlisten);
        }
        // Waiting for a lock is given up by releasing it.
        match flow.step {
            Step::Locking(_) => self.outbox.act(Action::Unlock(Lock::Record)),
            Step::LockingSignIn => self.outbox.act(Action::Unlock(Lock::SignIn)),
            Step::Ready
            | Step::Discovering(_)
            | Step::Loading(_)
            | Step::Listening
            | Step::Registering { .. }
            | Step::AwaitingRedirect(_)
            | Step::RequestingToken { .. } => {}
        }
        self.unlock(&mut flow, Lock::Record);
        self.unlock(&mut flow, Lock::SignIn);
    }

    /// Sends a request, and returns its key.
    fn fetch(&mut self, request: Request<Bytes>, limit: usize, now: Instant) -> FetchKey {
        self.last_fetch += 1;
        let fetch = FetchKey(self.last_fetch);
        let timeout = self.config.request_timeout;
        let reach = self.reach(request.uri().host().unwrap_or_default());
        self.outbox.act(Action::Fetch { fetch, request, reach, limit, timeout });
        // The driver ends the request first; this is for one that does not.
        self.timers.set(Timer::Step, now + timeout * 2);
        fetch
    }

    /// Where a request to a host may go: the server itself is reached anyway, and what it names on a private network may
    /// be there too, if it is itself (OA-N-02).
    fn reach(&self, host: &str) -> Reach {
        let own = &self.config.endpoint;
        let is_private = |host: &str| {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse().is_ok_and(|address| !Reach::Public.allows(address))
        };
        let may_be_private = self.config.exceptions.private_addresses
            || own.is_loopback()
            || is_private(own.host())
            || own.host().eq_ignore_ascii_case(host);
        if may_be_private { Reach::Private } else { Reach::Public }
    }

    /// The flow, if it waits for this response.
    fn take_flow_of(&mut self, fetch: FetchKey) -> Option<Flow> {
        let (waits_for, _) = self.flow.as_ref()?.step.request()?;
        if waits_for == fetch { self.flow.take() } else { None }
    }
}

impl Step {
    /// The key and the URL of the request whose response is awaited.
    fn request(&self) -> Option<(FetchKey, &str)> {
        match self {
            Self::Discovering(discovery) => Some((discovery.fetch, discovery.url())),
            Self::Registering { fetch, url, .. } => Some((*fetch, url)),
            Self::RequestingToken { fetch, request } => Some((*fetch, request.issuer.token_endpoint())),
            Self::Ready
            | Self::Locking(_)
            | Self::Loading(_)
            | Self::LockingSignIn
            | Self::Listening
            | Self::AwaitingRedirect(_) => None,
        }
    }
}

impl Flow {
    fn new(need: Need) -> Self {
        Self {
            need,
            has_person: true,
            imported: None,
            locks: BTreeSet::new(),
            found: None,
            is_listening: false,
            asked_port: None,
            must_register: false,
            repeated: Repeated::default(),
            step: Step::Ready,
        }
    }

    /// Whether tokens are for what discovery has found: never for another issuer (OA-M-02).
    fn is_for(&self, tokens: &Tokens) -> bool {
        self.found.as_ref().is_none_or(|found| found.issuer.issuer() == tokens.issuer.issuer())
    }

    /// Whether stored tokens can be used as they are.
    fn may_use(&self, tokens: &Tokens, serial: u64, unix: u64) -> bool {
        match &self.need {
            Need::Stored => tokens.is_valid(unix) && tokens.refresh_at().is_none_or(|at| at > unix),
            Need::New { scope, is_step_up, refused, .. } => {
                let is_other = *refused != Some(serial);
                let covers = !*is_step_up || scope.as_deref().is_some_and(|scope| tokens.covers(scope));
                is_other && covers && tokens.is_valid(unix)
            }
        }
    }

    /// Whether a refresh may help: it never adds scopes.
    fn may_refresh(&self, tokens: &Tokens) -> bool {
        let is_step_up = matches!(self.need, Need::New { is_step_up: true, .. });
        tokens.refresh_token.is_some() && !is_step_up
    }

    /// Why the flow ends if what it waits for does not come in time.
    fn timed_out(&self, config: &Config) -> SignInError {
        match &self.step {
            Step::LockingSignIn | Step::AwaitingRedirect(_) => SignInError::UserTimedOut { after: config.user_timeout },
            Step::Locking(_) | Step::Loading(_) => SignInError::StoreTimedOut,
            Step::Ready | Step::Listening => SignInError::NotListening,
            step @ (Step::Discovering(_) | Step::Registering { .. } | Step::RequestingToken { .. }) => {
                let url = without_query(step.request().map_or("", |(_, url)| url));
                SignInError::Fetch { url, reason: FetchFailure::TimedOut }
            }
        }
    }
}

/// A URL for people to read: without the query, which may contain a key.
fn without_query(url: &str) -> String {
    url.split_once('?').map_or(url, |(before, _)| before).to_owned()
}

/// Shows neither tokens nor codes.
impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer")
            .field("generation", &self.generation)
            .field("is_busy", &self.flow.is_some())
            .finish_non_exhaustive()
    }
}

impl Machine for Authorizer {
    type Action = Action;
    type Event = Event;

    fn poll_output(&mut self) -> Option<Output<Action, Event>> {
        Self::poll_output(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn close(&mut self, now: Instant) {
        Self::close(self, now);
    }
}
