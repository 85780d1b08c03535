//! The server: requests and their answers, the handshake, and what is asked of the client.
//!
//! ```text
//!              initialize               answered          initialized
//!   Awaiting ─────────────▶ Opening ──────────────▶ Open ─────────────▶ Ready
//!       ▲                      │ refused             └────────┬───────────┘
//!       └──────────────────────┘                              │ end of input
//!                                                             ▼
//!                                       all answered, or no time left: Closed
//! ```
//!
//! A request of 2026-07-28 stands alone. It needs no phase and changes none, and on one stream or endpoint it may come
//! between those of a session (ER-40). Over HTTP, such requests belong to a peer of their own, which is always there.
//!
//! | file | what it does |
//! |---|---|
//! | `config` | what the server is told before it serves |
//! | `event` | what it tells |
//! | `peer` | one client: its session's life, its requests, and what is asked of it |
//! | `inbound` | what the client asks, tells and answers |
//! | `ask` | what the client is asked |
//! | `batch` | batches of 2025-03-26 |
//! | `logging` | the levels of log messages |
//! | `era` | requests that stand alone: admitting them, completing what answers them |
//! | `handover` | a relay's server that begins to serve by itself |
//! | `context` | what holds for one request |
//! | `input` | input that a request needs from its client |
//! | `state` | states that clients carry and cannot alter |
//! | `listen` | subscriptions |
//! | `subscribed` | the resources that clients have subscribed to |
//! | `connections` | connections of a driver that listens, and which of them makes room |
//! | `shares` | what one client may hold of what there is a limited number of |
//! | `annotated` | tools whose arguments headers repeat |
//! | `carrier` | what it needs of a transport |
//! | `stdio` | the server on a byte stream |
//! | `http` | the server over HTTP |

mod annotated;
mod ask;
mod batch;
mod carrier;
mod config;
mod connections;
mod context;
mod era;
mod event;
mod handover;
mod http;
mod inbound;
mod input;
mod listen;
mod logging;
mod peer;
mod shares;
mod state;
mod stdio;
mod subscribed;

use std::collections::BTreeMap;
use std::fmt;

use ::http::request::Parts;

use crate::Instant;
use crate::client::{Call, CloseReason};
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Notification, RequestId};
use crate::conversation::deadlines::Deadlines;
use crate::conversation::outbox::{Outbox, Output};
use crate::conversation::pending::{RequestKey, SessionKey, Ticket, TicketKey};
use crate::error::{Failed, Fault, UsageError};
use crate::limits::Load;
use crate::spec::Method;
use crate::spec::ProtocolVersion;
use crate::transport::Transport;
use annotated::AnnotatedTools;
use carrier::{Shared, Wire};
use listen::Publication;
use peer::Peer;
use subscribed::SubscribedResources;

pub use carrier::Carrier;
pub use config::Config;
pub use connections::{Admission, ConnectionKey, Connections};
pub use context::Context;
pub use era::CacheScope;
pub use event::Event;
pub(crate) use handover::Identity;
pub use http::{
    Access, ExchangeKey, Http, HttpAction, HttpConfig, Principal, RequestInfo, TwoEndpoints, expects_continue,
    server_stopped, too_many_connections,
};
pub use input::InputRequired;
pub(crate) use input::capability_for;
pub(crate) use listen::uri_of;
pub use logging::LoggingLevel;
pub use shares::{Holder, PeerKey, Shares};
pub use state::{StateBinding, StateKey, StateKeys};
pub(crate) use subscribed::Names;
pub use subscribed::SubscriptionChange;

/// The server's side of one connection.
///
/// # Example: a server with one method
///
/// ```
/// use mcp_proto::server::{Config, Event, Server};
/// use mcp_proto::{Instant, Json, Output, Stdio, StdioAction};
///
/// let now = Instant::now();
/// let mut server = Server::new(Stdio::new(), Config::new("my-tools", "1.0.0"))?;
/// let initialize = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
/// server.handle_bytes(initialize, now);
/// server.handle_bytes(b"\n", now);
/// server.handle_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/list\"}\n", now);
///
/// let mut written = Vec::new();
/// while let Some(output) = server.poll_output() {
///     match output {
///         Output::Action(StdioAction::Write(bytes)) => written.extend_from_slice(&bytes),
///         Output::Event(Event::Requested { ticket, .. }) => {
///             server.respond(ticket, Ok(Json::parse(r#"{"tools":[]}"#).unwrap()), now)?;
///         }
///         _ => {}
///     }
/// }
/// assert!(written.ends_with(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"tools\":[]}}\n"));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
pub struct Server<T: Transport> {
    config: Config,
    transport: T,
    peers: BTreeMap<SessionKey, Peer>,
    timers: Deadlines<Timer>,
    tools: AnnotatedTools,
    requests: usize,
    batched: usize,
    subscriptions: usize,
    resources: SubscribedResources,
    held: usize,
    not_written: u64,
    out: Outbox<T::Action, Event>,
}

/// Shows counts: what is under way holds payloads, headers and session ids.
impl<T: Transport> fmt::Debug for Server<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("peers", &self.peers.len())
            .field("requests_in_flight", &self.requests)
            .field("subscriptions", &self.subscriptions)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Answer(RequestKey),
    Drain(SessionKey),
    /// A request is handed up again.
    Again(TicketKey),
}

/// What a message of the server's belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A session, and none of its requests.
    Session(SessionKey),
    /// A request of the client's: what is said because of it travels with it (SH-S-13), and what the client is asked
    /// because of it ends with it. Once it has ended, nothing is said because of it, and what is asked fails with
    /// [`Failed::Cancelled`].
    Request(TicketKey),
}

impl Scope {
    const fn session(self) -> SessionKey {
        match self {
            Self::Session(session) => session,
            Self::Request(ticket) => ticket.session(),
        }
    }

    const fn ticket(self) -> Option<TicketKey> {
        match self {
            Self::Session(_) => None,
            Self::Request(ticket) => Some(ticket),
        }
    }
}

impl From<SessionKey> for Scope {
    fn from(session: SessionKey) -> Self {
        Self::Session(session)
    }
}

impl From<&Ticket> for Scope {
    fn from(ticket: &Ticket) -> Self {
        Self::Request(ticket.key())
    }
}

/// How far a request has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far; a finite number that must grow each time (PR-02).
    pub progress: f64,
    /// How far it can come, if that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<Box<str>>,
}

impl Progress {
    fn to_params(&self, token: &RequestId) -> Json {
        let mut params = Json::empty_object();
        if let Some(message) = &self.message {
            params = params.with_member("message", &Json::from(&**message));
        }
        for (name, value) in [("total", self.total), ("progress", Some(self.progress))] {
            // NaN and infinity are no JSON: `serde_json` writes them as null.
            let value = value.filter(|value| value.is_finite());
            if let Some(value) = value.and_then(|value| Json::from_serialize(&value).ok()) {
                params = params.with_member(name, &value);
            }
        }
        params.with_member("progressToken", &token.to_json())
    }
}

impl<T: Carrier> Server<T> {
    /// A server that uses this transport.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    pub fn new(mut transport: T, config: Config) -> Result<Self, UsageError> {
        config.check()?;
        let only = transport.configure(&config)?;
        let peers = only.map(|session| (session, Peer::new(session, &config.limits))).into_iter().collect();
        let (tools, timers) = (AnnotatedTools::default(), Deadlines::new());
        Ok(Self {
            config,
            transport,
            peers,
            timers,
            tools,
            requests: 0,
            batched: 0,
            subscriptions: 0,
            resources: SubscribedResources::new(),
            held: 0,
            not_written: 0,
            out: Outbox::new(),
        })
    }

    /// Answers a request of the client's.
    ///
    /// If the client has cancelled it, this does nothing (CX-03).
    ///
    /// # Errors
    ///
    /// [`UsageError::ReservedErrorCode`] if the error has a code that only the protocol may use (RP15). The client has
    /// been answered with an internal error then, so that it does not wait.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub fn respond(
        &mut self,
        ticket: Ticket,
        answer: Result<Json, ErrorObject>,
        now: Instant,
    ) -> Result<(), UsageError> {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&ticket.key().session()) else { return Ok(()) };
        peer.respond(ticket.key(), answer, shared)
    }

    /// Answers a request with what it needs before it can be answered. In either era, it is then handed up again as a
    /// new or the same [`Event::Requested`], whose parameters hold `inputResponses` by their keys and `requestState`. What
    /// is in them is the client's word, and may be wrong or missing (MD-I-11).
    ///
    /// If the client cannot give what is needed, it is answered with an error (MD-I-04).
    ///
    /// # Errors
    ///
    /// [`UsageError::NotInRevision`] if the request or what is asked for is of another method than those that there are
    /// (MD-I-01, MD-I-03), and [`UsageError::NothingRequired`]. The client has been answered with an internal error then.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub fn require_input(&mut self, ticket: Ticket, required: InputRequired, now: Instant) -> Result<(), UsageError> {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&ticket.key().session()) else { return Ok(()) };
        peer.require_input(ticket.key(), &required, shared)
    }

    /// Tells everybody whom it concerns of a change: who listens to it since 2026-07-28, and earlier clients in their
    /// sessions, of a resource if they have subscribed to it.
    ///
    /// # Errors
    ///
    /// [`UsageError::NoChange`] if the notification is none of `list_changed`, `resources/updated` and the extension's
    /// `notifications/tasks`, and [`UsageError::NotDeclared`] if [`Config::capabilities`] does not promise it (LC-18).
    #[expect(clippy::needless_pass_by_value, reason = "a notification is given away, here as elsewhere")]
    pub fn publish(&mut self, notification: Notification, now: Instant) -> Result<(), UsageError> {
        let name = listen::name_of(&notification);
        let publication = Publication::of(&notification.method, name.as_deref())?;
        publication.check(&self.config)?;
        let (peers, shared) = &mut self.split(now);
        for peer in peers.values_mut() {
            peer.publish(&notification, &publication, shared);
        }
        Ok(())
    }

    /// Tells how far a request has come, if its client asked for that. Progress that does not grow is not told (PR-02).
    pub fn progress(&mut self, ticket: &Ticket, progress: &Progress, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&ticket.key().session()) {
            peer.progress(ticket.key(), progress, shared);
        }
    }

    /// Lets the client of a request come back for its answer instead of holding its connection open (SH-S-12, SH-S-55).
    ///
    /// The stream of the request ends with an event id, and with the pause that [`HttpConfig::retry`] names. Where the
    /// transport or the revision has no such thing, or nothing is kept for replay, this does nothing.
    pub fn release(&mut self, ticket: &Ticket, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        let session = ticket.key().session();
        if let Some(exchange) = peers.get(&session).and_then(|peer| peer.exchange_of(Some(ticket.key()))) {
            shared.transport.release(session, exchange, &mut shared.wire);
        }
    }

    /// Sends a notification, with the request that it is about or to the session. On a byte stream whose client reads
    /// nothing, what goes beyond [`Limits::unwritten`](crate::Limits::unwritten) is dropped, and [`Fault::NotWritten`]
    /// counts it.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent; nothing was sent then.
    pub fn notify(
        &mut self,
        scope: impl Into<Scope>,
        notification: Notification,
        now: Instant,
    ) -> Result<(), UsageError> {
        let scope = scope.into();
        let (peers, shared) = &mut self.split(now);
        let peer = peers.get_mut(&scope.session()).ok_or(UsageError::Closed)?;
        peer.notify(notification, scope.ticket(), shared)
    }

    /// Sends a log message, unless the client wants none of this level.
    ///
    /// The client says what it wants by `logging/setLevel`, which the machine answers; until then it gets everything
    /// (LC-20).
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if [`Config::capabilities`] has no `logging`, and as [`Server::notify`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Config, LoggingLevel, Server};
    /// use mcp_proto::{Instant, Json, Stdio, UsageError};
    ///
    /// let mut server = Server::new(Stdio::new(), Config::new("my-tools", "1.0.0"))?;
    /// let session = server.session();
    /// let said = server.log(session, LoggingLevel::Info, Some("disk"), &Json::from("full"), Instant::now());
    /// assert_eq!(said, Err(UsageError::NotDeclared { capability: "logging" }));
    /// # Ok::<(), UsageError>(())
    /// ```
    pub fn log(
        &mut self,
        scope: impl Into<Scope>,
        level: LoggingLevel,
        logger: Option<&str>,
        data: &Json,
        now: Instant,
    ) -> Result<(), UsageError> {
        let scope = scope.into();
        let (peers, shared) = &mut self.split(now);
        if !shared.config.declares("logging") {
            return Err(UsageError::NotDeclared { capability: "logging" });
        }
        let peer = peers.get_mut(&scope.session()).ok_or(UsageError::Closed)?;
        // What a request wants of its own log messages is looked at where notifications are.
        if !peer.states_its_own(scope.ticket()) && peer.logging_level.is_some_and(|lowest| level < lowest) {
            return Ok(());
        }
        let mut params = Json::empty_object().with_member("data", data);
        if let Some(logger) = logger {
            params = params.with_member("logger", &Json::from(logger));
        }
        let params = params.with_member("level", &Json::from(level.as_str()));
        peer.notify(Notification::with_params(Method::MESSAGE, params), scope.ticket(), shared)
    }

    /// Asks the client for something. Exactly one [`Event::Responded`] with the returned key follows.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the request cannot be made; nothing was sent then.
    pub fn request(&mut self, scope: impl Into<Scope>, call: Call, now: Instant) -> Result<RequestKey, UsageError> {
        let scope = scope.into();
        let (peers, shared) = &mut self.split(now);
        let peer = peers.get_mut(&scope.session()).ok_or(UsageError::Closed)?;
        peer.request(call, scope.ticket(), shared)
    }

    /// Takes a request of this side back. Its outcome is [`Failed::Cancelled`], unless it has ended already.
    pub fn cancel(&mut self, request: RequestKey, reason: Option<&str>, now: Instant) {
        let mut params = Json::empty_object();
        if let Some(reason) = reason {
            params = params.with_member("reason", &Json::from(reason));
        }
        self.cancel_with(request, &params, now);
    }

    /// As [`Server::cancel`], with these parameters of the notification, in which only `requestId` is set.
    pub fn cancel_with(&mut self, request: RequestKey, params: &Json, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&request.session()) {
            peer.give_up(request, Failed::Cancelled, params, shared);
        }
    }

    /// The next thing to do or to know. Draining is needed for progress, never for correctness.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<T::Action, Event>> {
        self.out.pop()
    }

    /// The next resource that a client has subscribed to, and none had before, or that no client is subscribed to any more:
    /// by `resources/subscribe`, which the machine answers, or by `subscriptions/listen` since 2026-07-28. Asking is needed
    /// only by an application that has to watch a resource to know when it changes.
    ///
    /// Until it asks, nothing accumulates: a subscription that ends before it was reported is never reported. What is
    /// reported as subscribed is reported once as unsubscribed, also when its client's session ends.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Config, Server, SubscriptionChange};
    /// use mcp_proto::{Instant, Json, Stdio};
    ///
    /// let now = Instant::now();
    /// let config = Config::new("my-files", "1.0.0").with_capabilities(Json::parse(r#"{"resources":{"subscribe":true}}"#)?);
    /// let mut server = Server::new(Stdio::new(), config)?;
    /// for line in [
    ///     r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    ///     r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///log"}}"#,
    /// ] {
    ///     server.handle_bytes(format!("{line}\n").as_bytes(), now);
    /// }
    /// assert_eq!(server.poll_subscription(), Some(SubscriptionChange::Subscribed("file:///log".into())));
    /// assert_eq!(server.poll_subscription(), None);
    /// server.close(now);
    /// assert_eq!(server.poll_subscription(), Some(SubscriptionChange::Unsubscribed("file:///log".into())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "a change is reported once"]
    pub fn poll_subscription(&mut self) -> Option<SubscriptionChange> {
        self.resources.next_change()
    }

    /// When [`Server::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.timers.next(), self.transport.poll_timeout()].into_iter().flatten().min()
    }

    /// The revision of a session, once it is known.
    #[must_use]
    pub fn version(&self, session: SessionKey) -> Option<ProtocolVersion> {
        self.peers.get(&session).and_then(Peer::version)
    }

    /// Who opened a session, if the driver checked that; nobody on a byte stream.
    #[must_use]
    pub fn principal(&self, session: SessionKey) -> Option<&Principal> {
        self.transport.principal(session)
    }

    /// The head of the HTTP request that a request of the client's came in, while it waits for its answer alone; none
    /// on a byte stream.
    #[must_use]
    pub fn request_head(&self, ticket: &Ticket) -> Option<&Parts> {
        let peer = self.peers.get(&ticket.key().session())?;
        self.transport.request_head(peer.exchange_of(Some(ticket.key()))?)
    }

    /// What holds for a request that is not answered: its revision, and what its client is and can do.
    #[must_use]
    pub fn context(&self, ticket: &Ticket) -> Option<Context> {
        let peer = self.peers.get(&ticket.key().session())?;
        peer.context(ticket.key(), &self.config, &self.transport)
    }

    /// What the server holds now.
    #[must_use]
    pub fn load(&self) -> Load {
        let peers = || self.peers.values();
        let own = Load {
            sessions: peers().filter(|peer| peer.is_open()).count(),
            requests_in: self.requests,
            requests_out: peers().map(|peer| peer.pending.len()).sum(),
            subscriptions: self.subscriptions + peers().map(|peer| peer.subscribed.len()).sum::<usize>(),
            waiting: self.batched,
            held: self.held,
            timers: self.timers.len(),
            ..Load::default()
        };
        own + self.transport.load()
    }

    /// `subscriptions/listen` that are open.
    #[must_use]
    pub const fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// Requests of all clients that are not answered yet.
    #[must_use]
    pub const fn requests_in_flight(&self) -> usize {
        self.requests
    }

    fn close_session(&mut self, session: SessionKey, reason: CloseReason, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&session) {
            peer.close(reason, shared);
        }
    }

    fn on_own_timers(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            let (peers, shared) = &mut self.split(now);
            match timer {
                Timer::Answer(request) => {
                    if let Some(peer) = peers.get_mut(&request.session()) {
                        peer.on_answer_timeout(request, shared);
                    }
                }
                Timer::Again(ticket) => {
                    if let Some(peer) = peers.get_mut(&ticket.session()) {
                        peer.hand_up_again(ticket, shared);
                    }
                }
                Timer::Drain(session) => {
                    if let Some(peer) = peers.get_mut(&session) {
                        peer.close(CloseReason::Peer, shared);
                    }
                }
            }
        }
    }

    /// Reports what was not sent, once something can be again.
    fn report_not_written(&mut self, now: Instant) {
        let (_, shared) = &mut self.split(now);
        if *shared.not_written > 0 && shared.transport.takes(1, &mut shared.wire) {
            let count = std::mem::take(shared.not_written);
            shared.wire.out.report(Event::Faulted(Fault::NotWritten { count }));
        }
    }

    fn split(&mut self, now: Instant) -> (&mut BTreeMap<SessionKey, Peer>, Shared<'_, T>) {
        let Self {
            config,
            transport,
            peers,
            timers,
            tools,
            requests,
            batched,
            subscriptions,
            resources,
            held,
            not_written,
            out,
        } = self;
        let wire = Wire { out, now };
        let shared = Shared {
            config,
            transport,
            timers,
            tools,
            requests,
            batched,
            subscriptions,
            resources,
            held,
            not_written,
            wire,
        };
        (peers, shared)
    }
}
