//! The client: requests and their outcomes, the handshake, and messages from the server.
//!
//! ```text
//!            connect                 result                confirmed
//!   Idle ────────────▶ Opening ──────────────▶ Confirming ───────────▶ Ready
//!                       ▲   │ error, silence                            │ │
//!                 retry │   ▼                                           │ │ close
//!                      Down ◀──── the session was lost (Opening again) ─┘ ▼
//!                                                                       Closing ──▶ Closed
//! ```
//!
//! A server of the modern era needs no confirmation: its result leads from `Opening` to `Ready`. After
//! [`Client::connect_with`], the client waits between `Opening` and `Confirming` until the application calls
//! [`Client::confirm`].
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration of the client, and calls |
//! | `identity` | what the client states about itself |
//! | `connection` | the connection: a session, or a stateless exchange |
//! | `event` | events that the client reports |
//! | `inbound` | requests, notifications and responses from the server |
//! | `stdio` | the client on a byte stream |
//! | `detected_era` | the type that states the era of a server, and how it was detected |
//! | `detection` | detection of the server's era (RULES section 10) |
//! | `handshake` | opening and confirming a session, losing it and opening it again (RULES section 7) |
//! | `calls` | sends requests, several for one of the application where the modern era needs them, and ends them; they are in the table `conversation/outgoing` |
//! | `cache` | results that the server allows to be cached |
//! | `listen` | subscriptions of the modern era |
//! | `restore` | settings of a lost session, set again in the next one |
//! | `transport` | the interface between the client and a transport |
//! | `http` | the client on HTTP |

mod cache;
mod calls;
mod config;
mod connection;
mod detected_era;
mod detection;
mod event;
mod handshake;
pub(crate) mod http;
mod identity;
mod inbound;
mod listen;
mod restore;
mod stdio;
mod transport;

use std::collections::BTreeSet;
use std::fmt;

use cache::Cache;
use connection::{Connection, ConnectionPhase};
use detection::Detection;
use handshake::Handshake;
use identity::Identity;
use listen::Subscriptions;
use restore::Settings;
use transport::{InboundQueue, Role, TransportOutput};

pub use config::Config;
pub use detected_era::{DetectedBy, DetectedEra};
pub use event::{Event, NotRestored, Scope, SubscriptionKey, Unavailable};
pub use handshake::Opening;
pub use http::{ExchangeKey, Failure, Http, HttpAction, HttpConfig, HttpTransport};
pub use transport::{Backlog, ClientTransport};

use crate::Instant;
use crate::collections::deadlines::Deadlines;
use crate::collections::outbox::{Outbox, Output};
use crate::conversation::cancellation;
use crate::conversation::incoming::Incoming;
use crate::conversation::keys::{RequestKey, Ticket};
use crate::conversation::outgoing::{self, Outgoing};
use crate::error::{Failed, Fault, Quirk, UsageError};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, Notification, RequestId, Response};
use crate::limits::Load;
use crate::spec::{Method, ProtocolVersion};

pub use crate::conversation::call::Call;
pub use crate::conversation::outcome::{CloseReason, Outcome};

/// The client's side of one connection.
///
/// The driver of a `Client<Stdio>` passes in bytes; the driver of a `Client<Http>` passes in the events of HTTP
/// exchanges. All other methods are the same.
///
/// # Example: a whole conversation over a byte stream
///
/// ```
/// use mcp_proto::client::{Call, Client, Config, Event, Outcome};
/// use mcp_proto::{Instant, Output, ProtocolVersion, Stdio, StdioAction};
///
/// let now = Instant::START;
/// let mut config = Config::new("my-app", "1.0.0");
/// config.versions = vec![ProtocolVersion::V2025_11_25]; // Without this, the client detects what the server has.
/// let mut client = Client::new(Stdio::new(), config)?;
/// client.connect(now)?;
/// // The driver writes what `poll_output` gives to the server, and passes in what the server writes.
/// let Some(Output::Action(StdioAction::Write(line))) = client.poll_output() else { panic!() };
/// assert!(line.starts_with(br#"{"jsonrpc":"2.0","id":1,"method":"initialize""#));
/// client.handle_bytes(
///     br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
///     now,
/// );
/// client.handle_bytes(b"\n", now);
/// assert!(matches!(client.poll_output(), Some(Output::Event(Event::Connected { .. }))));
/// assert!(matches!(client.poll_output(), Some(Output::Action(_)))); // notifications/initialized
///
/// let request = client.request(Call::new("tools/list"), now)?;
/// assert!(matches!(client.poll_output(), Some(Output::Action(_))));
/// client.handle_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[]}}\n", now);
/// let Some(Output::Event(Event::Responded { request: answered, outcome })) = client.poll_output() else { panic!() };
/// assert_eq!(answered, request);
/// assert!(matches!(outcome, Outcome::Result(result) if result.as_bytes() == br#"{"tools":[]}"#));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
pub struct Client<T: ClientTransport> {
    config: Config,
    pub(crate) transport: T,
    connection: Connection,
    /// The client's own requests.
    outgoing: Outgoing<Purpose>,
    /// Requests of the server.
    incoming: Incoming<AskedWith>,
    subscriptions: Subscriptions,
    /// `None` if results are not cached.
    cache: Option<Cache>,
    timers: Deadlines<ClientTimer<T::Timer>>,
    reports: Reports,
    inbound: InboundQueue,
    out: Outbox<T::Action, Event>,
}

/// Shows only counts, because the state contains payloads and headers.
impl<T: ClientTransport> fmt::Debug for Client<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("phase", &self.connection.phase)
            .field("requests_in_flight", &self.outgoing.len())
            .field("requests_of_server", &self.incoming.len())
            .finish_non_exhaustive()
    }
}

/// What was reported once, and what is still to be reported.
#[derive(Debug, Default)]
struct Reports {
    /// Quirks of the server, each of which is reported once.
    quirks: BTreeSet<Quirk>,
    /// Events that were not reported because the queue is full.
    dropped: u64,
    /// Notifications that were not sent because the server does not read, and were not reported.
    not_written: u64,
}

/// A timer of a client. Of two that are due at the same time, the first kind is handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientTimer<X> {
    Answer(RequestKey),
    /// A request whose interim result asks for no input is sent again.
    InputRetry(RequestKey),
    /// A subscription is opened again.
    Listen(SubscriptionKey),
    /// A subscription was not acknowledged.
    Acknowledged(SubscriptionKey),
    Reconnect,
    /// Early requests stop waiting for the application to confirm the session.
    Unconfirmed,
    /// A timer of the transport.
    Transport(X),
}

impl<X> From<RequestKey> for ClientTimer<X> {
    /// The deadline of a request.
    fn from(request: RequestKey) -> Self {
        Self::Answer(request)
    }
}

/// Why the client makes a request.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// The application has made it.
    Application,
    /// It opens the connection.
    Opening,
    /// It carries a subscription.
    Subscription(SubscriptionKey),
    /// It fetches schemas for a call, page by page.
    Tools { call: RequestKey, page: usize },
    /// It restores a setting of a lost session.
    Restoring,
}

impl Purpose {
    /// Whether the client makes the request for itself, and does not report it to the application.
    const fn is_internal(self) -> bool {
        matches!(self, Self::Subscription(_) | Self::Tools { .. } | Self::Restoring)
    }
}

/// How the server asked the client for something.
#[derive(Debug, Clone, Copy)]
enum AskedWith {
    /// With a JSON-RPC request of this scope.
    Request(Scope),
    /// With an `input_required` result of this request (RULES 8.6).
    Input(RequestKey),
}

impl AskedWith {
    /// The request that it is about; `None` if it may be any.
    const fn request(self) -> Option<RequestKey> {
        match self {
            Self::Request(Scope::Request(request)) | Self::Input(request) => Some(request),
            Self::Request(Scope::Connection | Scope::Subscription(_)) => None,
        }
    }
}

impl<T: ClientTransport> Client<T> {
    /// Creates a client that uses this transport.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn new(mut transport: T, config: Config) -> Result<Self, UsageError> {
        config.check()?;
        let connection = Connection::new(&config, T::SILENCE_MEANS_LEGACY)?;
        transport.configure(&config.limits, config.seed);
        Ok(Self {
            transport,
            connection,
            outgoing: Outgoing::new(None, config.limits.tombstones),
            incoming: Incoming::new(None),
            subscriptions: Subscriptions::new(),
            cache: Cache::new(config.cache),
            timers: Deadlines::new(),
            reports: Reports::default(),
            inbound: InboundQueue::default(),
            out: Outbox::new(),
            config,
        })
    }

    /// Opens the connection: with `server/discover` if the configuration allows the modern era and the server is not
    /// known to be a legacy one, else with `initialize`.
    ///
    /// [`Event::Connected`] or [`Event::Unavailable`] follows. Requests may be made at once; they wait for the
    /// handshake.
    ///
    /// # Errors
    ///
    /// [`UsageError::AlreadyConnected`] or [`UsageError::Closed`].
    pub fn connect(&mut self, now: Instant) -> Result<(), UsageError> {
        self.check_unconnected()?;
        let known = self.connection.detection.settled().or(self.config.known_era);
        self.connection.detection = Detection::new(&self.allowed_versions(), known, T::SILENCE_MEANS_LEGACY);
        self.connection.handshake = Handshake::new(None);
        self.connection.clear_settings();
        self.open(true, now);
        Ok(())
    }

    /// Opens the connection with a request that the application supplies, for an application that forwards the
    /// requests of another client.
    ///
    /// If the server is of the other era and the configuration allows that, the client continues by itself: with
    /// `server/discover` if `initialize` was refused with an error that a modern server may send, with `initialize` if
    /// `server/discover` shows a legacy server. [`Event::Connected`] contains the result. If it is the result of
    /// `initialize`, the application confirms the session with [`Client::confirm`].
    ///
    /// If the connection could not be made, or the session is not confirmed yet, this method may be called again, and
    /// then opens another connection or session.
    ///
    /// # Errors
    ///
    /// [`UsageError::AlreadyConnected`] or [`UsageError::Closed`].
    pub fn connect_with(&mut self, opening: Opening, now: Instant) -> Result<(), UsageError> {
        self.check_unconnected()?;
        let known = match opening {
            Opening::Initialize(_) => Some(DetectedEra::legacy(DetectedBy::Known)),
            Opening::Discover(_) => None,
        };
        self.connection.detection = Detection::new(&self.allowed_versions(), known, T::SILENCE_MEANS_LEGACY);
        self.connection.handshake = Handshake::new(Some(opening));
        self.connection.clear_settings();
        self.open(true, now);
        Ok(())
    }

    /// Sets the identity that the client states from now on, instead of the configured one. A client that acts for
    /// another client states the identity of that one.
    ///
    /// `clientInfo` and the capabilities are stated in `initialize`, and in every request of the modern era. The server
    /// is not notified.
    ///
    /// On a connection of the modern era, this also ends the forwarding for another client: from now on, the client
    /// interprets also the answers to open requests that were sent with [`Call::unchanged`], and if it opens the
    /// connection again, it sends its own request instead of that of [`Client::connect_with`].
    ///
    /// # Errors
    ///
    /// [`UsageError::NotAnObject`] if one of the two is not an object; the identity is unchanged then.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::{Client, Config};
    /// use mcp_proto::{Instant, Json, Output, ProtocolVersion, Stdio, StdioAction};
    ///
    /// let mut client = Client::new(Stdio::new(), Config::new("my-gateway", "1.0.0"))?;
    /// client.identify(Json::parse(r#"{"name":"editor","version":"7"}"#).unwrap(), Json::parse("{}").unwrap())?;
    /// client.connect(Instant::START)?;
    /// let Some(Output::Action(StdioAction::Write(line))) = client.poll_output() else { panic!() };
    /// assert!(std::str::from_utf8(&line).unwrap().contains(r#"{"name":"editor","version":"7"}"#));
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    pub fn identify(&mut self, client_info: Json, capabilities: Json) -> Result<(), UsageError> {
        self.connection.identity = Identity::new(client_info, capabilities)?;
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
        if self.connection.is_stateless() {
            self.outgoing.interpret_answers();
            self.connection.handshake.take_over();
        }
        Ok(())
    }

    /// Sends `notifications/initialized` after [`Client::connect_with`]. After [`Client::connect`], the client sends it
    /// by itself.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotConnected`] if `initialize` was not answered, [`UsageError::AlreadyConnected`] if the session
    /// is confirmed already, or [`UsageError::Closed`].
    pub fn confirm(&mut self, params: Option<Json>, now: Instant) -> Result<(), UsageError> {
        match self.connection.phase {
            ConnectionPhase::Unconfirmed => {}
            ConnectionPhase::Idle | ConnectionPhase::Down | ConnectionPhase::Opening { .. } => {
                return Err(UsageError::NotConnected);
            }
            ConnectionPhase::Confirming | ConnectionPhase::Ready => return Err(UsageError::AlreadyConnected),
            ConnectionPhase::Closing(_) | ConnectionPhase::Closed => return Err(UsageError::Closed),
        }
        self.send_confirmation(Notification { method: Method::INITIALIZED, params }, now);
        Ok(())
    }

    /// Makes a request. Exactly one [`Event::Responded`] with the returned key follows.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the request cannot be made; nothing was sent then.
    pub fn request(&mut self, call: Call, now: Instant) -> Result<RequestKey, UsageError> {
        self.check_open()?;
        let may_listen = call.is_unchanged() && self.connection.is_stateless();
        if call.method.facts().is_reserved || (call.method == Method::SUBSCRIPTIONS_LISTEN && !may_listen) {
            return Err(UsageError::ReservedMethod { method: call.method });
        }
        if !call.is_unchanged() && !self.config.reports_all_requests {
            outgoing::check_params(call.params.as_ref())?;
        }
        let limit = self.config.limits.requests_out;
        if self.outgoing.len() >= limit {
            return Err(UsageError::TooManyRequests { limit });
        }
        let key = self.cache.as_ref().and_then(|_| Cache::key(&call));
        if let Some(result) = self.cache.as_ref().zip(key.as_ref()).and_then(|(cache, key)| cache.find(key, now)) {
            let request = self.outgoing.take_key();
            self.out.report(Event::Responded { request, outcome: Outcome::Result(result) });
            return Ok(request);
        }
        let request = self.begin(call, now);
        if let Some((cache, key)) = self.cache.as_mut().zip(key) {
            // The request may have ended already.
            if self.outgoing.get(request).is_some() {
                cache.expect(request, key);
            }
        }
        Ok(request)
    }

    /// Sends a request of the application, or keeps it until it may be sent.
    fn begin(&mut self, call: Call, now: Instant) -> RequestKey {
        let may_go = self.connection.phase.takes_requests() && !self.waits_for_settings(&call.method);
        let is_next = self.outgoing.waiting().all(|waiting| self.waits_for_settings(&waiting.method));
        let request = self.new_request(call, Purpose::Application);
        let request = if may_go && is_next { self.send_now(request, now) } else { self.hold(request, now) };
        if self.is_asked_about(request) {
            self.outgoing.extend_to_latest(request, &mut self.timers);
        }
        request
    }

    /// Sends a notification.
    ///
    /// If the server does not read and [`Limits::unwritten`](crate::Limits::unwritten) bytes wait, the notification is
    /// dropped, and [`Fault::NotWritten`] counts it.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotConnected`] if the connection is not open yet, or another [`UsageError`] if the notification
    /// cannot be sent; nothing was sent then.
    pub fn notify(&mut self, notification: Notification, now: Instant) -> Result<(), UsageError> {
        self.check_open()?;
        if notification.method.facts().is_reserved {
            return Err(UsageError::ReservedMethod { method: notification.method });
        }
        if !self.config.reports_all_requests {
            outgoing::check_params(notification.params.as_ref())?;
        }
        if !self.connection.phase.takes_requests() {
            return Err(UsageError::NotConnected);
        }
        let message = Message::Notification(notification);
        if self.takes(message.payload_len()) {
            self.with_transport(now, |transport, output| transport.send(&message, Role::Notification, now, output));
        } else {
            self.reports.not_written += 1;
        }
        Ok(())
    }

    /// Whether the server has answered a request that was cancelled or has timed out here: the server then does not
    /// work on it any more. A server should not answer a cancelled request. Answers are known of the latest
    /// [`Limits::tombstones`](crate::Limits::tombstones) such requests.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::{Call, Client, Config};
    /// use mcp_proto::{Instant, ProtocolVersion, Stdio};
    ///
    /// let now = Instant::START;
    /// let mut config = Config::new("my-app", "1.0.0");
    /// config.versions = vec![ProtocolVersion::LATEST_LEGACY];
    /// let mut client = Client::new(Stdio::new(), config)?;
    /// client.connect(now)?;
    /// let initialized = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    /// client.handle_bytes(format!("{initialized}\n").as_bytes(), now);
    /// let request = client.request(Call::new("ping"), now)?;
    /// client.cancel(request, None, now);
    /// assert!(!client.is_answered_late(request));
    /// client.handle_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n", now);
    /// assert!(client.is_answered_late(request));
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    ///
    /// Rules: CX-03.
    #[must_use]
    pub fn is_answered_late(&self, request: RequestKey) -> bool {
        self.outgoing.is_answered_late(request)
    }

    /// Cancels a request. Its outcome is [`Failed::Cancelled`], unless it has ended already. The server is notified if
    /// the request was sent.
    pub fn cancel(&mut self, request: RequestKey, reason: Option<&str>, now: Instant) {
        self.cancel_with(request, &cancellation::params(reason), now);
    }

    /// Cancels as [`Client::cancel`] does, with these parameters of `notifications/cancelled`, in which the client sets
    /// only `requestId`.
    pub fn cancel_with(&mut self, request: RequestKey, params: &Json, now: Instant) {
        self.give_up(request, Failed::Cancelled, params, now);
    }

    /// Answers a request of the server.
    ///
    /// Does nothing if the server has cancelled the request or its session is lost.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub fn answer(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        match self.incoming.remove(ticket.key()) {
            Some((id, AskedWith::Request(scope))) => {
                self.resume_deadlines(scope, now);
                self.send_answer(id, answer, now);
            }
            Some((_, AskedWith::Input(request))) => self.on_input(request, ticket.key(), answer, now),
            None => {}
        }
    }

    /// Ends the connection: requests in flight fail, the session is ended. [`Event::Closed`] follows.
    pub fn close(&mut self, now: Instant) {
        self.close_because(CloseReason::Local, now);
    }

    /// Runs the timers that are due. An early or repeated call does nothing.
    ///
    /// Rules: CL2.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut is_of_transport = false;
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                ClientTimer::Answer(request) => self.on_answer_timeout(request, now),
                ClientTimer::InputRetry(request) => self.send_call_again(request, now),
                ClientTimer::Listen(subscription) => self.open_subscription(subscription, now),
                ClientTimer::Acknowledged(subscription) => self.on_not_acknowledged(subscription, now),
                ClientTimer::Unconfirmed => self.serve_requests(now),
                ClientTimer::Reconnect => {
                    if self.connection.phase == ConnectionPhase::Down {
                        self.open(false, now);
                    }
                }
                // What it passes to the client is handled after the timers, when the transport has continued.
                ClientTimer::Transport(timer) => {
                    is_of_transport = true;
                    let (transport, output) = &mut self.split();
                    transport.on_timer(timer, now, output);
                }
            }
        }
        if is_of_transport {
            self.with_transport(now, |transport, output| transport.after_timers(now, output));
        }
    }

    /// The next action for the driver or event for the application. Call this after every input and command until it
    /// returns `None`.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<T::Action, Event>> {
        let output = self.out.pop()?;
        if self.out.has_room(&self.config.limits) {
            if let Some((request, params)) = self.outgoing.take_progress() {
                self.out.report(Event::Progressed { request, params });
            }
            if self.reports.dropped > 0 {
                let count = std::mem::take(&mut self.reports.dropped);
                self.out.report(Event::Faulted(Fault::Dropped { count }));
            }
        }
        Some(output)
    }

    /// When [`Client::handle_timeout`] must be called next; `None` if no timer is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether the driver should read more input. It is `false` while outputs are not polled fast enough, or while the
    /// server does not read the answers to its own requests.
    ///
    /// Rules: H5.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.out.has_room(&self.config.limits) && self.transport.wants_input(&self.config.limits)
    }

    /// The capabilities that the client declares: an object.
    #[must_use]
    pub const fn capabilities(&self) -> &Json {
        self.connection.identity.capabilities()
    }

    /// The negotiated revision; `None` before the first handshake.
    #[must_use]
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.connection.version()
    }

    /// Whether the handshake is over and requests are sent at once.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection.phase == ConnectionPhase::Ready
    }

    /// Whether [`Event::Closed`] was reported or is in the output queue.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.connection.phase == ConnectionPhase::Closed
    }

    /// The name of the server, for messages to people: `the server at https://example.com/mcp` over HTTP, without the
    /// query of the URL, or `the server` on a byte stream.
    #[must_use]
    pub fn peer(&self) -> String {
        self.transport.peer()
    }

    /// The resources that the client holds now.
    #[must_use]
    pub fn load(&self) -> Load {
        let settings = self.connection.settings().map_or(0, Settings::held);
        let cached = self.cache.as_ref().map_or(0, Cache::weight);
        let own = Load {
            requests_in: self.incoming.len(),
            requests_out: self.outgoing.len(),
            subscriptions: self.subscriptions.open.len(),
            waiting: self.outgoing.waiting_len(),
            held: self.outgoing.waiting_bytes() + self.outgoing.kept_bytes() + settings + cached,
            timers: self.timers.len(),
            ..Load::default()
        };
        own + self.transport.load()
    }

    /// The messages that wait to be sent because the server accepts them slowly, or because there is no connection.
    ///
    /// An application that forwards messages should read nothing from their source while this is large.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let held = Backlog { bytes: self.outgoing.waiting_bytes(), ..Backlog::default() };
        self.transport.backlog().plus(held)
    }

    /// The number of the application's requests that have no outcome yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.outgoing.iter().filter(|(_, request)| !request.purpose.is_internal()).count()
    }

    /// The server's era, and how it was detected; `None` if it is not known yet.
    #[must_use]
    pub const fn detected_era(&self) -> Option<DetectedEra> {
        self.connection.detection.detected_era()
    }

    fn allowed_versions(&self) -> Vec<ProtocolVersion> {
        let is_allowed = |version: &ProtocolVersion| self.transport.may_be_modern() || !version.is_stateless();
        self.config.versions.iter().copied().filter(is_allowed).collect()
    }

    fn check_unconnected(&self) -> Result<(), UsageError> {
        match self.connection.phase {
            ConnectionPhase::Idle
            | ConnectionPhase::Down
            | ConnectionPhase::Unconfirmed
            | ConnectionPhase::Opening { awaited: false, .. } => Ok(()),
            ConnectionPhase::Opening { awaited: true, .. } | ConnectionPhase::Confirming | ConnectionPhase::Ready => {
                Err(UsageError::AlreadyConnected)
            }
            ConnectionPhase::Closing(_) | ConnectionPhase::Closed => Err(UsageError::Closed),
        }
    }

    fn check_open(&self) -> Result<(), UsageError> {
        match self.connection.phase {
            ConnectionPhase::Idle => Err(UsageError::NotConnected),
            ConnectionPhase::Closing(_) | ConnectionPhase::Closed => Err(UsageError::Closed),
            ConnectionPhase::Opening { .. }
            | ConnectionPhase::Unconfirmed
            | ConnectionPhase::Confirming
            | ConnectionPhase::Ready
            | ConnectionPhase::Down => Ok(()),
        }
    }

    /// Whether a message with a payload of this many bytes may be added to the unsent messages (K1).
    fn takes(&self, bytes: usize) -> bool {
        self.backlog().takes(bytes, &self.config.limits)
    }

    /// Ends a request that was not sent because too many bytes wait already.
    fn refuse_unwritten(&mut self, request: RequestKey, now: Instant) {
        let limit = self.config.limits.unwritten;
        self.finish(request, Outcome::Failed(Failed::QueueFull { limit }), now);
    }

    /// Reports the number of dropped notifications once there is room again.
    fn report_not_written(&mut self) {
        if self.reports.not_written > 0 && self.takes(1) {
            let count = std::mem::take(&mut self.reports.not_written);
            self.out.report(Event::Faulted(Fault::NotWritten { count }));
        }
    }

    fn send_answer(&mut self, id: RequestId, answer: Result<Json, ErrorObject>, now: Instant) {
        let message = Message::Response(Response::new(id, answer));
        // A server that sends requests without reading the answers must not fill the memory (M3).
        let is_taken = self.transport.takes_answer(message.payload_len(), &self.config.limits);
        let message = if is_taken { message } else { message.overloaded() };
        if self.inbound.is_handled {
            // No nested call: a server can send any number of requests in one chunk, and each call would take stack.
            let (transport, output) = &mut self.split();
            return transport.send(&message, Role::Answer, now, output);
        }
        self.with_transport(now, |transport, output| transport.send(&message, Role::Answer, now, output));
    }

    fn close_because(&mut self, reason: CloseReason, now: Instant) {
        if matches!(self.connection.phase, ConnectionPhase::Closing(_) | ConnectionPhase::Closed) {
            return;
        }
        let opening = self.connection.phase.opening();
        let unanswered = opening.and_then(|request| self.outgoing.get(request)).map(|request| request.method.clone());
        let failed = reason.failure(unanswered);
        self.connection.phase = ConnectionPhase::Closing(reason);
        self.incoming.clear();
        for request in self.outgoing.keys() {
            if opening == Some(request) {
                self.outgoing.remove(request, &mut self.timers);
                self.out.report(Event::Unavailable { reason: Unavailable::Failed(failed.clone()), retry_in: None });
            } else {
                self.finish(request, Outcome::Failed(failed.clone()), now);
            }
        }
        self.end_subscriptions(&Outcome::Failed(failed), now);
        self.connection.clear_settings();
        self.timers.clear_all();
        self.with_transport(now, |transport, output| transport.close(now, output));
    }

    /// Runs `act` on the transport, and handles everything that the transport passes to the client.
    pub(crate) fn with_transport(&mut self, now: Instant, act: impl FnOnce(&mut T, &mut TransportOutput<'_, T>)) {
        let (transport, output) = &mut self.split();
        act(transport, output);
        let is_nested = std::mem::replace(&mut self.inbound.is_handled, true);
        while let Some(inbound) = self.inbound.messages.pop_front() {
            self.on_inbound(inbound, now);
        }
        self.inbound.is_handled = is_nested;
    }

    /// The transport and its outputs.
    const fn split(&mut self) -> (&mut T, TransportOutput<'_, T>) {
        let Self { transport, out, inbound, timers, .. } = self;
        (transport, TransportOutput { out, inbound, timers })
    }
}
