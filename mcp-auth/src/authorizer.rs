//! The machine that gets tokens for one server, and keeps them.
//!
//! ```text
//!        challenge                                  tokens of another process
//!  Idle ───────────▶ Discovering ─▶ Locking, Loading ─────────────────────────────▶ Idle, with a token
//!   │  start, expiry                 ▲      │ │ │ └─ refresh token ──┐                ▲
//!   └────────────────────────────────┘      │ │ └─ client's own grant ┤                │ stored
//!                                           │ └─ Obtaining ───────────┤                │
//!                     with a person: LockingSignIn, then the record again              │
//!                              │            │                         ▼                │
//!                              │            └▶ Requesting codes   CreatingKey, Signing │
//!                              ▼                │                     │                │
//!      Listening ─▶ Registering ─▶ AwaitingRedirect, AwaitingDevice ─▶ Requesting ─────┘
//! ```
//!
//! One flow runs at a time. It owns the locks that it holds, and releases them however it ends.
//!
//! | file | what it does |
//! |---|---|
//! | `cause` | why a token is needed, and whether a flow begins for it |
//! | `flow` | the flow: what it has found and holds, what it waits for, and whether it may use or refresh a stored token |
//! | `discovery` | from the server to its authorization server |
//! | `tokens` | decides which token is used: a stored one, a refreshed one, or a new one |
//! | `sign_in` | a person signs in: registration, browser, redirect |
//! | `device` | a person signs in on another device |
//! | `unattended` | grants without a person |
//! | `callback` | requests to the port to which the browser returns |
//! | `request`, `signing` | requests in which the client authenticates, and their signatures |
//! | `responses` | what follows from the responses to them |
//! | `history` | limits the number of sign-ins |
//! | `sign_out` | revokes the tokens, and erases the record |

mod callback;
mod cause;
mod device;
mod discovery;
mod flow;
mod history;
mod request;
mod responses;
mod sign_in;
mod sign_out;
mod signing;
mod tokens;
mod unattended;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, response};
use mcp_proto::auth::{ProofKey, Secret};
use mcp_proto::machine::{Deadlines, Machine, Outbox};
use mcp_proto::{Instant, Output};

use super::action::{self, Action, Event, FetchKey, Lock, SignKey, Waiting};
use super::config::Config;
use super::error::FetchFailure;
use super::quirk::ProviderQuirk;
use super::reach::Reach;
use super::record::Record;
use super::seed::{Nonces, Seed};
use super::token_response::TokenScheme;
use crate::authorizer::flow::{Flow, Need, Step, Then};
use crate::authorizer::history::History;
use crate::authorizer::signing::Nonce;

pub use crate::authorizer::cause::Cause;

/// If a lock is not taken within this time, another process holds it.
const BUSY: Duration = Duration::from_secs(1);

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
    last_sign: u64,
    nonce: Option<Nonce>,
    history: History,
}

/// The token in use.
#[derive(Debug)]
struct Held {
    /// Counts the tokens of this machine.
    generation: u64,
    /// The serial number of the tokens in the record; `None` if this token is not stored.
    serial: Option<u64>,
    /// Seconds since 1970.
    issued_at: u64,
    /// Seconds since 1970; `None` if that is not known.
    expires_at: Option<u64>,
    token: Secret,
    scheme: TokenScheme,
    /// The key to which it is bound.
    proof_key: Option<Arc<ProofKey>>,
}

impl Held {
    /// The serial number and the access token, if the token is from the record.
    fn stored(&self) -> Option<(u64, Secret)> {
        Some((self.serial?, self.token.clone()))
    }
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
    /// The token endpoint is asked again whether a person has signed in on another device.
    Poll,
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
            last_sign: 0,
            nonce: None,
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
        let Some((flow, step)) = self.take_flow() else { return };
        let Step::Loading(then) = step else { return self.go_on_waiting(flow, step) };
        self.record = stored.and_then(Record::parse).unwrap_or_else(Record::new);
        match then {
            Then::Decide => self.decide(flow, now),
            Then::UseAsItIs => self.use_as_it_is(flow, now),
            Then::Store(tokens) => self.replace_tokens(flow, *tokens, now),
            Then::Forget { client, error } => {
                self.record.forget_client(&client);
                self.store();
                self.fail(flow, error, now);
            }
            Then::Keep { client, error } => {
                if self.record.set_in_use(&client, false) {
                    self.store();
                }
                self.fail(flow, error, now);
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
            Step::Requesting { .. } => self.on_response(flow, head, body, now),
            Step::Ready
            | Step::Locking(_)
            | Step::Loading(_)
            | Step::LockingSignIn
            | Step::Listening
            | Step::AwaitingRedirect(_)
            | Step::AwaitingDevice(_)
            | Step::Obtaining
            | Step::CreatingKey(_)
            | Step::Signing(_) => self.flow = Some(flow),
        }
    }

    /// A request has no response.
    pub fn handle_failure(&mut self, fetch: FetchKey, reason: FetchFailure, now: Instant) {
        if let Some(flow) = self.take_flow_of(fetch) {
            self.on_failed(flow, reason, now);
        }
    }

    /// A request has a response with its whole body, or none: [`Authorizer::handle_response`] or
    /// [`Authorizer::handle_failure`].
    pub fn handle_fetched(
        &mut self,
        fetch: FetchKey,
        outcome: Result<Response<impl AsRef<[u8]>>, FetchFailure>,
        now: Instant,
    ) {
        match outcome {
            Ok(response) => {
                let (head, body) = response.into_parts();
                self.handle_response(fetch, &head, body.as_ref(), now);
            }
            Err(reason) => self.handle_failure(fetch, reason, now),
        }
    }

    /// The driver has got the token of another program; `None` if it could not.
    pub fn handle_obtained(&mut self, token: Option<&str>, now: Instant) {
        let Some((flow, step)) = self.take_flow() else { return };
        if let Step::Obtaining = step {
            self.on_obtained(flow, token, now);
        } else {
            self.go_on_waiting(flow, step);
        }
    }

    /// The driver has created a key; `None` if it could not.
    pub fn handle_key(&mut self, key: Option<ProofKey>, now: Instant) {
        let Some((flow, step)) = self.take_flow() else { return };
        if let Step::CreatingKey(request) = step {
            self.on_key(flow, *request, key, now);
        } else {
            self.go_on_waiting(flow, step);
        }
    }

    /// The driver has signed a message; `None` if it could not.
    pub fn handle_signed(&mut self, sign: SignKey, signature: Option<&[u8]>, now: Instant) {
        let Some((flow, step)) = self.take_flow() else { return };
        if let Step::Signing(signing) = step {
            self.on_signed(flow, *signing, sign, signature, now);
        } else {
            self.go_on_waiting(flow, step);
        }
    }

    /// The flow, and what it waits for.
    fn take_flow(&mut self) -> Option<(Flow, Step)> {
        let mut flow = self.flow.take()?;
        let step = std::mem::replace(&mut flow.step, Step::Ready);
        Some((flow, step))
    }

    /// Puts the flow back, because an input was not the one that the flow waits for.
    fn go_on_waiting(&mut self, mut flow: Flow, step: Step) {
        flow.step = step;
        self.flow = Some(flow);
    }

    /// The driver listens on this port; `None` if that is not possible.
    pub fn handle_listening(&mut self, port: Option<u16>, now: Instant) {
        let Some(flow) = self.flow.take() else { return };
        if matches!(flow.step, Step::Listening) && !flow.is_listening {
            self.on_listening(flow, port, now);
        } else {
            self.flow = Some(flow);
        }
    }

    /// A person was sent back by the authorization server: the URL, or its path with the query, as a browser requests it
    /// or as a person pastes it. Returns whether it belongs to the current sign-in.
    ///
    /// Rules: OA-B-04.
    pub fn handle_redirect(&mut self, url: &str, now: Instant) -> bool {
        let Some(flow) = self.flow.take() else { return false };
        if matches!(flow.step, Step::AwaitingRedirect(_)) {
            self.on_redirect(flow, url, true, now).belongs()
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
                    let Some(mut flow) = self.flow.take() else { continue };
                    let error = flow.timed_out(&self.config);
                    let step = std::mem::replace(&mut flow.step, Step::Ready);
                    if let Step::AwaitingRedirect(awaited) = step {
                        self.on_no_redirect(flow, &awaited, error, now);
                    } else {
                        flow.step = step;
                        self.fail(flow, error, now);
                    }
                }
                Timer::Refresh if self.flow.is_none() => {
                    self.lock_record(Flow::new(Need::Stored), Then::Decide, now);
                }
                Timer::Busy => self.outbox.report(Event::Waiting(Waiting::OtherProcess)),
                // The flow that runs replaces the token.
                Timer::Refresh => {}
                Timer::Poll => self.poll_device(now),
            }
        }
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

    pub(super) fn report_quirk(&mut self, quirk: ProviderQuirk, from: &str) {
        self.outbox.report(Event::Step(action::Step::Quirk { quirk, from: from.to_owned() }));
    }

    /// The addresses that a request to a host may reach. Private addresses are allowed for the server's own host, and
    /// for other hosts only if the server itself is on a private network (OA-N-02).
    fn reach(&self, host: &str) -> Reach {
        let own = &self.config.endpoint;
        let may_be_private = self.config.exceptions.private_addresses
            || own.is_loopback()
            || !Reach::Public.allows_host(own.host())
            || own.host().eq_ignore_ascii_case(host);
        if may_be_private { Reach::Private } else { Reach::Public }
    }

    /// The flow, if it waits for this response.
    fn take_flow_of(&mut self, fetch: FetchKey) -> Option<Flow> {
        let (waits_for, _) = self.flow.as_ref()?.step.request()?;
        if waits_for == fetch { self.flow.take() } else { None }
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
