//! The gateway: serves clients over HTTP by processes of a server that speaks on a byte stream.
//!
//! The gateway joins one [`Server`] over HTTP, which all clients use, to one [`Client`](mcp_proto::Client) for each
//! process. Such a process is a *backend*. As the relay does, the gateway forwards payloads unchanged if client and
//! backend are of the same era, and converts them if they are not.
//!
//! ```text
//!                                          ┌─ Link ─ Client<Stdio> ── lines ──▶ backend 1
//!  clients ── HTTP ──▶ Server<Http> ── Gateway
//!                                          └─ Link ─ Client<Stdio> ── lines ──▶ backend 2
//! ```
//!
//! A backend is started when a client opens a session, after all checks of its request, unless the session can use one that
//! exists ([`Sharing`]). Each backend has an *owner*: everyone, one principal, the stateless requests without a principal, or one
//! session; only clients of its owner use it, whatever their revision. Stateless requests of 2026-07-28 have a backend for each
//! owner, if it is of that revision; else they have one for each owner and set of capabilities, or are refused, so that their
//! clients open sessions. A backend is stopped when its last session has ended (by DELETE, because it is idle, for a session of
//! another client, or with the gateway), or is unused for a while. If a backend exits, its sessions end, and their clients open
//! other ones. The life of a backend:
//!
//! ```text
//!             initialize            its result         end of the last session      handle_stopped
//!   (waiting) ──────────▶ starting ───────────▶ running ────────────────────▶ stopping ──────────▶ (gone)
//!      ▲                     │ exit, timeout               exit of the process    ▲
//!      └── handle_stopped    └────────────────────────────────────────────────────┘
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration |
//! | `event` | actions for the driver, and events |
//! | `pool` | which backend a client uses, and when one is started and ended |
//! | `backend` | one process, and what joins it to its clients |
//! | `shared` | a backend that serves several sessions |
//! | `requests` | a backend that serves stateless requests |
//! | `shared_settings` | the log level and the subscriptions of these sessions |
//! | `tasks` | tasks at a backend that works for everyone |
//! | `eras` | of which era the backends of each owner are |
//! | `recent` | a map of limited size |

mod backend;
mod config;
mod eras;
mod event;
mod pool;
mod recent;
mod requests;
mod shared;
mod shared_settings;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use backend::RunningBackend;
use eras::Eras;
use http::request::Parts;
use mcp_proto::client::{self, Unavailable};
use mcp_proto::machine::{Deadlines, Outbox};
use mcp_proto::server::{
    self, ExchangeKey, Holder, Http, HttpConfig, OpenSessions, PeerKey, Principal, RequestInfo, Server,
};
use mcp_proto::{
    Failed, Instant, Json, Load, Notification, Output, ProcessEnd, SessionKey, StartFailure, Stdio, TicketKey,
    UsageError,
};
use pool::{Group, GroupKind, Pause, WaitingRequest};
use recent::Recent;

pub use config::{Config, Sharing};
pub use event::{Action, BackendKey, Event};

use crate::relay::{self, Owner, Policy, Upstream, derived_secret};

/// Serves clients over HTTP by processes of a server.
///
/// # Example: the first session starts the first process
///
/// ```
/// use http::Request;
/// use mcp_intermediary::gateway::{Action, Config, Gateway};
/// use mcp_proto::server::RequestInfo;
/// use mcp_proto::{Instant, Output, StdioAction};
///
/// let now = Instant::START;
/// let mut gateway = Gateway::new(Config::default())?;
/// let (head, ()) = Request::post("/mcp")
///     .header("host", "localhost")
///     .header("accept", "application/json, text/event-stream")
///     .header("content-type", "application/json")
///     .body(())
///     .unwrap()
///     .into_parts();
/// # let nonce = [7; 32];
/// let exchange = gateway.handle_request(head, RequestInfo::new(nonce), now);
/// let params = r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#;
/// let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"initialize","params":{params}}}"#);
/// gateway.handle_body(exchange, body.as_bytes(), now);
/// assert!(gateway.poll_output().is_none(), "the request is not complete");
/// gateway.handle_end(exchange, now);
///
/// let Some(Output::Action(Action::Start { backend, .. })) = gateway.poll_output() else { panic!() };
/// let Some(Output::Action(Action::Backend { action: StdioAction::Write(line), .. })) = gateway.poll_output() else {
///     panic!()
/// };
/// assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{params}}}\n"));
/// gateway.handle_backend_bytes(backend, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}\n", now);
/// let mut outputs = std::iter::from_fn(|| gateway.poll_output());
/// assert!(outputs.any(|output| matches!(output, Output::Action(Action::Client(_)))), "the answer");
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
pub struct Gateway {
    /// The machine that faces the clients.
    server: Server<Http>,
    sharing: Sharing,
    unused_timeout: Duration,
    config: relay::Config,
    /// What clients may use, whichever backend serves them, if that is not everything.
    policy: Option<Policy>,
    /// The configuration of the machine that faces a backend.
    client: client::Config,
    /// The backends that exist, until they are reported as stopped.
    backends: BTreeMap<BackendKey, Backend>,
    by_session: BTreeMap<SessionKey, BackendKey>,
    /// The backends that further clients of a group may use.
    by_group: BTreeMap<Group, BackendKey>,
    /// Requests that wait until there may be one more backend.
    waiting: Vec<WaitingRequest>,
    next: BackendKey,
    /// The pause of each client whose request has started a backend that failed.
    pauses: Recent<Holder, Pause>,
    /// No more sessions are opened.
    is_closed: bool,
    eras: Eras,
    /// The random bytes of all requests, combined: no client knows all of them.
    secret: u128,
    /// The backends whose machines may have outputs.
    active: BTreeSet<BackendKey>,
    timers: Deadlines<GatewayTimer>,
    out: Outbox<Action, Event>,
}

/// The address of the client of a request, if the driver has stated it.
#[derive(Clone)]
struct Peer(Option<PeerKey>);

/// A backend that was started and is not reported as stopped.
enum Backend {
    Running(Box<RunningBackend>),
    /// Nothing more is expected of it but its end.
    Stopping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GatewayTimer {
    /// One of the machines of the backend.
    Machine(BackendKey),
    /// The backend has no client for too long.
    Unused(BackendKey),
}

/// Shows only counts, because the state contains payloads and session ids.
impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("server", &self.server)
            .field("backends", &self.backends.len())
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// Creates a gateway.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn new(config: Config) -> Result<Self, UsageError> {
        let Config { sharing, mut http, relay, unused_timeout } = config;
        if sharing == Sharing::PerSession {
            // At the limit, the server ends an unused session for a new one.
            http.max_sessions = http.max_sessions.min(relay.limits.backends);
        }
        let (server, mut client) = relay.clone().split();
        // The session of a backend ends with its process, and the gateway itself starts another process.
        (client.reconnect, client.respawn) = (false, false);
        let gateway = Self {
            server: Server::pass_through(Http::new(http), server)?,
            sharing,
            unused_timeout,
            policy: Policy::new(&relay),
            config: relay,
            client,
            backends: BTreeMap::new(),
            by_session: BTreeMap::new(),
            by_group: BTreeMap::new(),
            waiting: Vec::new(),
            next: BackendKey::FIRST,
            pauses: Recent::new(),
            is_closed: false,
            eras: Eras::new(),
            secret: 0,
            active: BTreeSet::new(),
            timers: Deadlines::new(),
            out: Outbox::new(),
        };
        // So that the configuration is found to be invalid now.
        Upstream::new(Stdio::new(), Owner::Everyone, gateway.config.redelivery, gateway.client.clone())?;
        Ok(gateway)
    }

    /// The head of a request has arrived. All later calls and actions for the request carry the returned key.
    pub fn handle_request(&mut self, mut head: Parts, info: RequestInfo, now: Instant) -> ExchangeKey {
        head.extensions.insert(Peer(info.peer.clone()));
        // The other half is that of event ids.
        self.secret ^= info.nonce.iter().take(16).fold(0, |secret, byte| (secret << 8) | u128::from(*byte));
        let exchange = self.server.handle_request(head, info, now);
        self.settle(now);
        exchange
    }

    /// A chunk of a request body has arrived; it may have any size.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        self.server.handle_body(exchange, chunk, now);
        self.settle(now);
    }

    /// The body of a request has ended.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        self.server.handle_end(exchange, now);
        self.settle(now);
    }

    /// The driver has written this many more bytes of an exchange's response body, as for
    /// [`Server::handle_written`](Server::<Http>::handle_written).
    pub fn handle_written(&mut self, exchange: ExchangeKey, bytes: usize, now: Instant) {
        self.server.handle_written(exchange, bytes, now);
        self.settle(now);
    }

    /// The client has disconnected from an exchange. Its request continues, except one for a session that is not answered
    /// yet: that session ends.
    pub fn handle_disconnect(&mut self, exchange: ExchangeKey, now: Instant) {
        self.server.handle_disconnect(exchange, now);
        self.settle(now);
    }

    /// The client has ended its sending side, as for [`Server::handle_half_close`](Server::<Http>::handle_half_close).
    pub fn handle_half_close(&mut self, exchange: ExchangeKey, now: Instant) {
        self.server.handle_half_close(exchange, now);
        self.settle(now);
    }

    /// Bytes have arrived from a backend, in pieces of any size.
    pub fn handle_backend_bytes(&mut self, backend: BackendKey, bytes: &[u8], now: Instant) {
        if let Some(running) = self.running(backend) {
            running.upstream.client.handle_bytes(bytes, now);
        }
        self.settle(now);
    }

    /// The stream of a backend has accepted this many more bytes of [`StdioAction::Write`](mcp_proto::StdioAction).
    pub fn handle_backend_written(&mut self, backend: BackendKey, bytes: usize, now: Instant) {
        if let Some(running) = self.running(backend) {
            running.upstream.client.handle_written(bytes, now);
        }
        self.settle(now);
    }

    /// The stream of a backend has ended: its session ends, and each open request is answered with an error.
    pub fn handle_backend_eof(&mut self, backend: BackendKey, now: Instant) {
        if let Some(running) = self.running(backend) {
            running.upstream.client.handle_eof(now);
        }
        self.settle(now);
    }

    /// The process of a backend has ended, and what it had written was passed in: its sessions end, and each open request
    /// is answered with an error that states how it has ended. [`Action::Stop`] follows, as after the end of its stream.
    pub fn handle_backend_process_end(&mut self, backend: BackendKey, end: ProcessEnd, now: Instant) {
        if let Some(running) = self.running(backend) {
            running.upstream.client.handle_process_end(end, now);
        }
        self.settle(now);
    }

    /// The process of a backend could not be started: the requests that wait for it are answered with this reason. Like
    /// [`Gateway::handle_stopped`], it is the last report after an [`Action::Start`].
    pub fn handle_not_started(&mut self, backend: BackendKey, failure: StartFailure, now: Instant) {
        if let Some(running) = self.running(backend) {
            running.has_stopped = true;
            running.upstream.client.handle_not_started(failure, now);
            self.settle(now);
        }
        self.handle_stopped(backend, now);
    }

    /// The process of a backend has ended, or was not started. This is reported once for each [`Action::Start`].
    pub fn handle_stopped(&mut self, backend: BackendKey, now: Instant) {
        if let Some(running) = self.running(backend) {
            running.has_stopped = true;
            running.upstream.client.handle_eof(now);
            self.settle(now);
        }
        self.backends.remove(&backend);
        self.start_waiting(now);
        self.settle(now);
    }

    /// The driver has stored the pins of [`relay::Event::PinsChanged`] beside those of other processes; `stored` are all. A pin
    /// of another process applies: a tool that differs from it has changed. See [`relay::Pinning::is_shared`].
    pub fn handle_pins(&mut self, stored: relay::Pins, now: Instant) {
        let Some(policy) = &mut self.policy else { return };
        policy.set_stored_pins(stored);
        for (backend, state) in &mut self.backends {
            let Backend::Running(running) = state else { continue };
            for event in running.upstream.take_held_lists() {
                let session = running.only_session();
                let event = policy.check_server(event, session, &self.server, &mut running.upstream);
                if let Some(event) = event {
                    running.on_client_event(event, &mut self.server, now);
                }
                self.active.insert(*backend);
            }
        }
        self.settle(now);
    }

    /// Applies another filter to the requests, lists and notifications that follow, and notifies the clients of sessions, and
    /// those with subscriptions, of the lists that may have changed for them. Processes and sessions stay.
    ///
    /// A driver that changes the credentials of clients at the same time first sets what both filters allow
    /// ([`relay::Filter::and`]), until all requests have arrived that were authenticated by the earlier credentials.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_intermediary::gateway::{Config, Gateway};
    /// use mcp_intermediary::relay::{Filter, Rule};
    /// use mcp_proto::Instant;
    /// use mcp_proto::spec::Primitive;
    ///
    /// let mut gateway = Gateway::new(Config::default())?;
    /// let mut filter = Filter::new();
    /// filter.add(Rule::deny(Primitive::Tool, "delete_*")?);
    /// gateway.set_filter(filter, Instant::START);
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    pub fn set_filter(&mut self, filter: relay::Filter, now: Instant) {
        for list in Policy::set_filter(&mut self.policy, filter) {
            for session in self.by_session.keys() {
                // A client that has just gone needs no notification.
                let _ = self.server.notify(*session, Notification::new(list.notification()), now);
            }
            for backend in self.backends.values() {
                if let Backend::Running(running) = backend {
                    running.upstream.notify_subscriptions(list, &mut self.server, now);
                }
            }
        }
        self.settle(now);
    }

    /// Changes who may access the gateway, as [`Server::set_access`](Server::<Http>::set_access) does.
    pub fn set_access(&mut self, http: HttpConfig) {
        self.server.set_access(http);
    }

    /// Ends the sessions and subscriptions of clients whose credentials were withdrawn, as
    /// [`Server::end_withdrawn`](Server::end_withdrawn) does.
    pub fn end_withdrawn(&mut self, is_withdrawn: impl Fn(Option<&Principal>) -> bool, now: Instant) {
        self.server.end_withdrawn(is_withdrawn, now);
        self.settle(now);
    }

    /// The sessions that are open.
    #[must_use]
    pub fn open_sessions(&self) -> OpenSessions {
        self.server.open_sessions()
    }

    /// Handles all timers that are due. Calling this early or twice has no effect.
    ///
    /// Rules: CL2.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.server.handle_timeout(now);
        self.settle(now);
        while let Some(timer) = self.timers.pop_due(now) {
            let (GatewayTimer::Machine(backend) | GatewayTimer::Unused(backend)) = timer;
            if let Some(Backend::Running(running)) = self.backends.get_mut(&backend) {
                self.active.insert(backend);
                match timer {
                    GatewayTimer::Machine(_) => running.handle_timeout(&mut self.server, now),
                    GatewayTimer::Unused(_) => running.upstream.client.close(now),
                }
            }
            self.settle(now);
        }
    }

    /// Stops the gateway as soon as all requests are answered, or after this time, as
    /// [`Server::drain`](Server::drain) does. [`Event::Drained`] follows; then all backends are stopped.
    pub fn drain(&mut self, timeout: Duration, now: Instant) {
        self.server.drain(timeout, now);
        self.settle(now);
    }

    /// Ends all sessions at once, stops all backends, and refuses all later requests.
    pub fn close(&mut self, now: Instant) {
        self.server.close(now);
        self.end_all_without_clients();
        self.settle(now);
    }

    /// Keeps connections free for requests, as
    /// [`Server::limit_to_connections`](Server::<Http>::limit_to_connections) does.
    pub fn limit_to_connections(&mut self, connections: usize) {
        self.server.limit_to_connections(connections);
    }

    /// The next action for the driver or event for the application. Call this after every input until it returns
    /// `None`.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<Action, Event>> {
        self.out.pop()
    }

    /// When [`Gateway::handle_timeout`] must be called next; `None` if no timer is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.server.poll_timeout(), self.timers.next()].into_iter().flatten().min()
    }

    /// Whether the driver should read more requests.
    ///
    /// Rules: H5.
    #[must_use]
    pub fn wants_request(&self) -> bool {
        self.out.has_room(&self.config.limits) && self.server.wants_input()
    }

    /// Whether the driver should read more of a backend's data. `false` means that outputs are not taken, or that the
    /// backend does not read the answers to its own requests.
    ///
    /// Rules: H5.
    #[must_use]
    pub fn wants_backend_bytes(&self, backend: BackendKey) -> bool {
        match self.backends.get(&backend) {
            Some(Backend::Running(running)) => {
                self.out.has_room(&self.config.limits) && running.upstream.client.wants_input()
            }
            Some(Backend::Stopping) | None => true,
        }
    }

    /// The number of backends that were started and are not reported as stopped.
    #[must_use]
    pub fn backends(&self) -> usize {
        self.backends.len()
    }

    /// The number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.server.sessions()
    }

    /// The resources that the gateway holds now, those of its machines included.
    #[must_use]
    pub fn load(&self) -> Load {
        let mut own = self.server.load();
        own.waiting += self.waiting.len();
        let backends = self.backends.values().filter_map(|backend| match backend {
            Backend::Running(running) => Some(running.load()),
            Backend::Stopping => None,
        });
        backends.fold(own, |sum, backend| sum + backend)
    }

    /// Passes the outputs of each machine on until all have none left.
    fn settle(&mut self, now: Instant) {
        loop {
            let Some(backend) = self.active.first().copied() else {
                let Some(output) = self.server.poll_output() else { return };
                self.on_server_output(output, now);
                continue;
            };
            // All that follows from one event is done before the next event is taken: if a session ends for a new one,
            // its end comes first.
            let Some(Backend::Running(running)) = self.backends.get_mut(&backend) else {
                self.active.remove(&backend);
                continue;
            };
            if let Some(event) = running.upstream.poll_event() {
                self.on_link_event(backend, event, now);
            } else if let Some(output) = running.upstream.client.poll_output() {
                match output {
                    Output::Action(_) if running.has_stopped => {}
                    Output::Action(action) => self.out.act(Action::Backend { backend, action }),
                    Output::Event(event) => {
                        running.set_secret(derived_secret(self.secret, backend.number()));
                        let session = running.only_session();
                        let event = match &mut self.policy {
                            Some(policy) => policy.check_server(event, session, &self.server, &mut running.upstream),
                            None => Some(event),
                        };
                        if let Some(event) = event {
                            let is_authenticated = matches!(running.opener(), Holder::Principal(_));
                            let event =
                                tasks::withhold_from_event(event, &running.upstream, is_authenticated, &self.server);
                            running.on_client_event(event, &mut self.server, now);
                        }
                    }
                }
            } else {
                match running.poll_timeout() {
                    Some(at) => self.timers.set(GatewayTimer::Machine(backend), at),
                    None => self.timers.clear(GatewayTimer::Machine(backend)),
                }
                if !self.end_without_clients(backend, now) {
                    self.active.remove(&backend);
                }
            }
        }
    }

    fn on_server_output(&mut self, output: Output<server::HttpAction, server::Event>, now: Instant) {
        use server::Event as E;
        let event = match output {
            Output::Action(action) => return self.out.act(Action::Client(action)),
            Output::Event(event) => event,
        };
        let event = match &self.policy {
            Some(policy) => policy.check_client(event, &mut self.server, now),
            None => Some(event),
        };
        let Some(event) = event else { return };
        let event = match self.sharing {
            Sharing::Shared => tasks::withhold_from_request(event, &mut self.server, now),
            Sharing::PerSession | Sharing::PerPrincipal => Some(event),
        };
        let Some(event) = event else { return };
        let session = match &event {
            E::Requested { ticket, .. } => ticket.key().session(),
            E::Cancelled { ticket, .. } => ticket.session(),
            E::Responded { request, .. } | E::Progressed { request, .. } => request.session(),
            E::Connected { session, .. }
            | E::Ready { session }
            | E::Notified { session, .. }
            | E::Closed { session, .. } => Some(*session),
            E::Restored { .. } | E::RequestEnded(_) | E::InputEnded | E::Faulted(_) | E::Drained { .. } => None,
        };
        let backend = session.and_then(|session| self.by_session.get(&session));
        match (backend.copied(), event) {
            (_, E::Faulted(fault)) => self.out.report(Event::Faulted(fault)),
            (_, E::RequestEnded(ended)) => self.out.report(Event::RequestEnded(ended)),
            (None, E::Requested { ticket, method, params }) => self.open(ticket, method, params, now),
            (None, E::Closed { session, .. }) => {
                self.waiting.retain(|waiting| waiting.ticket.key().session() != Some(session));
            }
            (None, E::Cancelled { ticket, params }) => self.cancel(ticket, params.as_ref(), now),
            (_, E::Drained { cancelled }) => {
                self.out.report(Event::Drained { cancelled });
                self.end_all_without_clients();
            }
            (Some(backend), event) => self.pass(session, backend, event, now),
            // The event belongs to a client whose backend has been stopped.
            (None, _) => {}
        }
    }

    /// A stateless request has ended: it waits for a backend, or is known to one of those for stateless requests.
    fn cancel(&mut self, ticket: TicketKey, params: Option<&Json>, now: Instant) {
        self.waiting.retain(|waiting| waiting.ticket.key() != ticket);
        for (backend, state) in &mut self.backends {
            if let Backend::Running(running) = state {
                if running.serves_requests() {
                    let cancelled = server::Event::Cancelled { ticket, params: params.cloned() };
                    running.on_server_event(None, cancelled, &mut self.server, now);
                    self.active.insert(*backend);
                }
            }
        }
    }

    /// Passes an event of a client to its backend.
    fn pass(&mut self, session: Option<SessionKey>, backend: BackendKey, event: server::Event, now: Instant) {
        let Some(Backend::Running(running)) = self.backends.get_mut(&backend) else { return };
        self.active.insert(backend);
        if let server::Event::Closed { session, .. } = &event {
            self.by_session.remove(session);
        }
        running.on_server_event(session, event, &mut self.server, now);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event ends a backend")]
    fn on_link_event(&mut self, backend: BackendKey, event: relay::Event, now: Instant) {
        use relay::Event as E;
        let ended = match &event {
            E::Connected { version, .. } => {
                if let Some(Backend::Running(running)) = self.backends.get_mut(&backend) {
                    running.is_usable = true;
                    self.active.insert(backend);
                    self.pauses.remove(running.opener());
                    let Group { owner, kind } = running.group();
                    if matches!(kind, GroupKind::Requests | GroupKind::LegacyRequests(_)) {
                        self.eras.on_opened(owner, version.is_stateless());
                    }
                }
                None
            }
            E::Unavailable { reason, .. } => {
                let failed = match reason {
                    // A revision that the client has requested, and the server does not have, is not a failure of the
                    // server.
                    Unavailable::Failed(Failed::NoCommonVersion { .. }) | Unavailable::Error(_) => None,
                    Unavailable::Failed(reason) => Some(reason.clone()),
                };
                // The backend is closed, because its process may have kept something of this attempt.
                if let Some(Backend::Running(mut running)) = self.backends.remove(&backend) {
                    running.failed.clone_from(&failed);
                    // A process that has ended is reported as closed.
                    if let Some(reason) = failed.filter(|reason| !reason.is_end_of_connection()) {
                        self.on_failure(&running, reason, now);
                    }
                    running.upstream.client.close(now);
                    self.active.insert(backend);
                    self.backends.insert(backend, Backend::Running(running));
                }
                None
            }
            E::Closed(reason) => Some(*reason),
            _ => None,
        };
        self.out.report(Event::Backend { backend, event });
        if let Some(reason) = ended {
            self.on_closed(backend, reason, now);
        }
    }

    /// Borrows a backend that was started and not stopped, and marks it as active, because the caller's use of it may
    /// cause outputs.
    fn running(&mut self, backend: BackendKey) -> Option<&mut RunningBackend> {
        match self.backends.get_mut(&backend)? {
            Backend::Running(running) => {
                self.active.insert(backend);
                Some(running)
            }
            Backend::Stopping => None,
        }
    }
}
