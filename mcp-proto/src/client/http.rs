//! The HTTP transport of a client: Streamable HTTP, and HTTP+SSE with the two endpoints of 2024-11-05.
//!
//! Every message is sent in an exchange of its own (SH-C-01). An answer is matched by the exchange on which it arrives,
//! never by its id alone (C1).
//!
//! ```text
//!            room for an exchange             2xx JSON or events          response
//!  queue ───────────────────────▶ exchange ────────────────────▶ reading ─────────▶ answered
//!    ▲                              │   │                           │ stream breaks
//!    │ next session is open         │   └─ not delivered ─▶ held    ▼
//!  parked ◀── 404 for the session ──┘        (tried again)     pausing ─▶ GET with Last-Event-ID ─▶ reading
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration |
//! | `url` | validation of the configured URL |
//! | `endpoint` | the URL of the server, and references on the same origin |
//! | `headers` | headers of requests, and fields from the headers of responses |
//! | `exchange` | open exchanges: their purposes, how they are read, and their deadlines |
//! | `carrier` | the operations that the client needs from this transport |
//! | `delivery` | the messages on their way, each with one state |
//! | `answer` | responses: heads, bodies, ends and failures of exchanges |
//! | `mirrored` | headers that repeat parts of the body of a request |
//! | `tools` | tools whose arguments are repeated in headers |
//! | `route` | decoding of events and bodies, and matching of messages to requests |
//! | `failure` | failures of exchanges, as drivers report them |
//! | `refusal` | HTTP errors, and the JSON-RPC errors in their bodies |
//! | `redirect` | redirects, followed or refused |
//! | `resume` | resumption of broken streams |
//! | `server_stream` | the stream for messages that belong to no request |
//! | `session` | sessions: begun, lost, opened again, ended |
//! | `two_endpoint` | the transport of 2024-11-05, and the fallback to it |

mod carrier;
mod config;
mod delivery;
mod endpoint;
mod exchange;
mod failure;
mod headers;
mod mirrored;
mod redirect;
mod refusal;
mod response;
mod route;
mod session;
mod stream;
mod tools;
mod two_endpoint;
mod url;

use bytes::Bytes;
use http::Request;

use super::carrier::{Inbound, Role, Wire};
use crate::Instant;
use crate::conversation::backoff::Jitter;
use crate::conversation::deadlines::Deadlines;
use crate::conversation::outbox::Weight;
use crate::conversation::pending::RequestKey;
use crate::error::{Failed, Fault};
use crate::limits::Limits;
use delivery::{Deliveries, DeliveryKey, Queue};
use endpoint::Endpoint;
use exchange::{Exchange, Exchanges, Posted, Purpose};
use headers::Common;
use session::HttpSession;
use stream::{Cursor, ServerStream};
use tools::Tools;
use two_endpoint::HttpMode;

pub use config::{HttpConfig, HttpTransport};
pub use exchange::ExchangeKey;
pub use failure::Failure;
pub use url::InvalidUrl;

/// An action that the driver of an HTTP client must carry out.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly every action is an `Open`")]
pub enum HttpAction {
    /// Send this request, without following redirects or decompressing bodies, and pass the response to the client.
    Open {
        /// The key under which the response is passed to the client.
        exchange: ExchangeKey,
        /// The request, with an absolute URL and all headers except those of the connection.
        request: Request<Bytes>,
    },
    /// Drop this exchange: close its connection, and pass nothing more of it to the client.
    Abort {
        /// The exchange to drop.
        exchange: ExchangeKey,
    },
}

impl Weight for HttpAction {
    fn weight(&self) -> usize {
        match self {
            // The body is counted in the queue of messages; the action shares its buffer.
            Self::Open { .. } => 256,
            Self::Abort { .. } => 0,
        }
    }
}

/// The HTTP transport of a client.
///
/// # Example: the first request
///
/// ```
/// use mcp_proto::client::{Client, Config, Http, HttpAction, HttpConfig};
/// use mcp_proto::{Instant, Output};
///
/// let http = Http::new(HttpConfig::new("https://example.com/mcp")?);
/// let mut client = Client::new(http, Config::new("my-app", "1.0.0"))?;
/// client.connect(Instant::START)?;
/// let Some(Output::Action(HttpAction::Open { request, .. })) = client.poll_output() else { panic!() };
/// assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/mcp"));
/// assert!(request.body().starts_with(br#"{"jsonrpc":"2.0","id":1,"method":"server/discover""#));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug)]
pub struct Http {
    config: HttpConfig,
    limits: Limits,
    jitter: Jitter,
    mode: HttpMode,
    session: HttpSession,
    exchanges: Exchanges,
    deliveries: Deliveries,
    server_stream: ServerStream,
    tools: Tools,
    timers: Deadlines<Timer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The stream of the server is opened again.
    ServerStream,
    /// A two-endpoint server has not named its endpoint in time.
    Endpoint,
    /// The session could not be ended in time.
    Close,
}

impl Http {
    /// Creates a transport to the server of `config`.
    #[must_use]
    pub fn new(config: HttpConfig) -> Self {
        let limits = Limits::default();
        Self {
            mode: HttpMode::new(&config),
            server_stream: ServerStream::new(),
            config,
            limits,
            jitter: Jitter::new(0),
            session: HttpSession::new(),
            exchanges: Exchanges::new(),
            deliveries: Deliveries::new(),
            tools: Tools::default(),
            timers: Deadlines::new(),
        }
    }

    pub(crate) fn server(&self) -> String {
        self.config.server()
    }

    /// Sends waiting messages while exchanges are free.
    fn pump(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        while let Some(message) = self.next_to_send() {
            self.post(message, now, wire);
        }
        if self.mode.is_open() && self.deliveries.waits_first() {
            wire.inbound.push_back(Inbound::RequestWaits { limit: self.limits.requests_at_once() });
        }
        self.go_on_closing(wire);
    }

    /// The next message for which an exchange is free.
    fn next_to_send(&self) -> Option<DeliveryKey> {
        if !self.mode.is_open() {
            return None;
        }
        let room = self.room();
        // The stream for the server's own messages uses one of the reserved exchanges.
        let kept = self.limits.exchanges - self.limits.requests_at_once();
        let kept = kept.saturating_sub(usize::from(self.has_stream()));
        let next = |queue, is_free: bool| if is_free { self.deliveries.first_queued(queue) } else { None };
        next(Queue::Others, room > 0)
            .or_else(|| next(Queue::Pings, room > kept / 2))
            .or_else(|| next(Queue::Requests, room > kept))
    }

    /// Whether a stream that belongs to no request is open, or will be opened again.
    fn has_stream(&self) -> bool {
        self.timers.is_set(Timer::ServerStream) || self.exchanges.any(Purpose::is_stream)
    }

    /// The number of exchanges that may still be opened. A stream that will be opened again after a pause counts as
    /// open.
    fn room(&self) -> usize {
        let reopened = self.deliveries.resuming() + usize::from(self.timers.is_set(Timer::ServerStream));
        self.limits.exchanges.saturating_sub(self.exchanges.len() + reopened)
    }

    /// Opens an exchange for a message.
    fn post(&mut self, message: DeliveryKey, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        let Some(post) = self.deliveries.post(message) else { return };
        let opens_session = matches!(post.role, Role::Initialize(_));
        let to = post.to.as_ref().unwrap_or(self.mode.post_to(&self.config.endpoint));
        let user = &self.config.headers;
        let common =
            if opens_session { Common { user, session: None, version: None } } else { self.session.common(user) };
        let common = Common { version: post.version.or(common.version), ..common };
        let request = common.post(to, post.body.clone(), post.mirrored.as_deref());
        let posted = Posted { message, role: post.role, redirects: post.redirects };
        let exchange = self.open(request, Purpose::Post(posted), wire);
        self.deliveries.sent_on(message, exchange);
        if message.request().is_none() {
            self.exchanges.accept_until(exchange, now + self.config.accept_timeout);
        }
    }

    /// Opens an exchange for a stream.
    fn get(&mut self, from: Option<&Endpoint>, purpose: Purpose, wire: &mut Wire<'_, HttpAction>) -> ExchangeKey {
        let cursor = match &purpose {
            Purpose::ServerStream { .. } => self.server_stream.cursor.resume_after(),
            Purpose::Resume { request, .. } => self.deliveries.cursor(*request).and_then(Cursor::resume_after),
            Purpose::Post(_) | Purpose::TwoEndpointStream { .. } | Purpose::Delete | Purpose::Drain => None,
        };
        let request = self.session.common(&self.config.headers).get(from.unwrap_or(&self.config.endpoint), cursor);
        self.open(request, purpose, wire)
    }

    fn open(&mut self, request: Request<Bytes>, purpose: Purpose, wire: &mut Wire<'_, HttpAction>) -> ExchangeKey {
        let opens_session = matches!(&purpose, Purpose::Post(Posted { role: Role::Initialize(_), .. }));
        // The session of a two-endpoint server is in the URL that it named (HS-08).
        let opened_in = self.session.opened_in(!self.mode.is_streamable(), opens_session);
        self.exchanges.open(Exchange::new(purpose, opened_in), request, wire)
    }

    /// CX-07, CX-08: closing the exchange is the cancellation.
    fn close_exchange(&mut self, request: RequestKey, wire: &mut Wire<'_, HttpAction>) {
        let removed = self.deliveries.remove(DeliveryKey::Request(request));
        if let Some(exchange) = removed.and_then(|removed| removed.exchange) {
            self.exchanges.abort(exchange, wire);
        }
    }

    /// The request will get no answer.
    fn unanswered(&mut self, request: RequestKey, reason: Failed, wire: &mut Wire<'_, HttpAction>) {
        self.undelivered(DeliveryKey::Request(request), reason, wire);
    }

    /// A message certainly did not reach the server: it is sent again after a pause, within `HttpConfig::redelivery`.
    fn not_delivered(&mut self, message: DeliveryKey, reason: Failed, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        let is_retried =
            !self.session.is_closing() && self.deliveries.retry_later(message, self.config.redelivery, now);
        if !is_retried {
            self.undelivered(message, reason, wire);
        }
    }

    /// A message will not be accepted or answered.
    fn undelivered(&mut self, message: DeliveryKey, reason: Failed, wire: &mut Wire<'_, HttpAction>) {
        match self.deliveries.remove(message).map(|removed| removed.role) {
            Some(Role::Initialize(request) | Role::Discover(request, _) | Role::Request(request)) => {
                wire.unanswered(request, reason);
            }
            Some(Role::Confirmation) => {
                wire.fault(Fault::NotAccepted { reason });
                wire.inbound.push_back(Inbound::Confirmed);
            }
            Some(Role::Answer | Role::Cancellation | Role::Notification) => wire.fault(Fault::NotAccepted { reason }),
            None => {}
        }
    }
}

impl super::Client<Http> {
    /// The server's URL for people to read: without the query, which may contain a key.
    #[must_use]
    pub fn server(&self) -> String {
        self.transport.server()
    }

    /// The HTTP transport in use. Once the connection is made, it is the one that the server supports.
    #[must_use]
    pub fn http_transport(&self) -> HttpTransport {
        if self.transport.mode.is_streamable() { HttpTransport::StreamableHttp } else { HttpTransport::HttpSse }
    }

    /// The request of an exchange was written in full.
    ///
    /// This call is optional. It allows a cancellation to be sent before the response begins.
    pub fn handle_sent(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_wire(now, |http, wire| http.on_sent(exchange, now, wire));
    }

    /// The head of the response of an exchange has arrived. Interim responses (1xx) must not be passed in.
    pub fn handle_response(&mut self, exchange: ExchangeKey, head: &http::response::Parts, now: Instant) {
        self.with_wire(now, |http, wire| http.on_head(exchange, head, now, wire));
    }

    /// A part of the body of an exchange has arrived, without the chunked transfer coding.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        self.with_wire(now, |http, wire| http.on_body(exchange, chunk, now, wire));
    }

    /// The body of an exchange is complete.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_wire(now, |http, wire| http.on_end(exchange, now, wire));
    }

    /// An exchange has failed: it could not be started, or it broke off.
    pub fn handle_failure(&mut self, exchange: ExchangeKey, failure: Failure, now: Instant) {
        self.with_wire(now, |http, wire| http.on_failure(exchange, failure, now, wire));
    }
}
