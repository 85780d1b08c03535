//! The HTTP transport of a client: Streamable HTTP, and HTTP+SSE with the two endpoints of 2024-11-05.
//!
//! Every message is sent in an exchange of its own (SH-C-01). An answer is matched by the exchange on which it arrives,
//! never by its id alone (C1).
//!
//! ```text
//!              Client<Http>
//!       send, cancel │ ▲ messages, outcomes, loss of the session
//!                    ▼ │
//!     ┌──────────────────────────────────┐
//!     │ Deliveries: messages on their way│      each message has one state
//!     └──────────────────────────────────┘
//!       an exchange is free │ ▲ answered, accepted, refused, not delivered
//!                           ▼ │
//!     ┌──────────────────────────────────┐
//!     │ Exchanges: open HTTP exchanges   │      each refers to its message by key
//!     └──────────────────────────────────┘
//!           Open, Abort │ ▲ head, body, end, failure
//!                       ▼ │
//!                      driver
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration |
//! | `authorization` | challenges of the server, and credentials; messages wait for them in `delivery` |
//! | `headers` | headers of requests, and fields from the headers of responses |
//! | `delivery` | the messages on their way: the state of each, and their order |
//! | `send` | the next message for a free exchange, and its HTTP request; messages that are not delivered |
//! | `cancel` | requests that are cancelled, or whose answers are not needed |
//! | `exchange` | open exchanges: their purposes, and how they are read |
//! | `response` | responses: heads, bodies, ends and failures of exchanges |
//! | `route` | decoding of events and bodies, and matching of messages to requests |
//! | `failure` | failures of exchanges, as drivers report them |
//! | `refusal` | HTTP errors, and the JSON-RPC errors in their bodies |
//! | `redirect` | redirects, followed or refused |
//! | `session` | what follows when the session begins, is lost, or ends; the client opens another one in `handshake` |
//! | `lost_session` | the forms in which servers state that a session is lost, which `refusal`, `route` and `stream` look for |
//! | `cookies` | cookies of the server, for load balancers |
//! | `cursor` | how far a stream was read, and the pause before the next attempt |
//! | `stream` | whether a broken stream is resumed or opened again, and the stream for messages that belong to no request |
//! | `tools` | headers that repeat parts of messages, according to the received lists of tools |
//! | `two_endpoint` | the transport of 2024-11-05, and the fallback to it |

mod authorization;
mod cancel;
mod config;
mod cookies;
mod cursor;
mod delivery;
mod exchange;
mod failure;
mod headers;
mod lost_session;
mod redirect;
mod refusal;
mod response;
mod route;
mod send;
mod session;
mod stream;
mod tools;
mod two_endpoint;

use std::fmt;
use std::time::Duration;

use authorization::Authorization;
use bytes::Bytes;
use cookies::Cookies;
use delivery::{Deliveries, DeliveryKey};
use exchange::Exchanges;
use http::{HeaderMap, Request};
use session::HttpSession;
use stream::GetStream;
use tools::Tools;

pub use config::{HttpConfig, HttpTransport};
pub use exchange::ExchangeKey;
pub use failure::Failure;

use super::ClientTimer;
use super::transport::{Backlog, ClientTransport, Role, TransportOutput};
use crate::Instant;
use crate::auth::{Credentials, ProofClaims};
use crate::collections::deadlines::Deadlines;
use crate::collections::outbox::Weight;
use crate::conversation::backoff::Jitter;
use crate::conversation::keys::RequestKey;
use crate::error::{Failed, UsageError};
use crate::jsonrpc::Message;
use crate::limits::{Limits, Load};
use crate::spec::ProtocolVersion;
use crate::transport::{Transport, sealed};
use crate::url::HttpUrl;

/// An action that the driver of an HTTP client must carry out.
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly every action is an `Open`")]
pub enum HttpAction {
    /// Send this request, without following redirects or decompressing bodies, and pass the response to the client.
    Open {
        /// The key under which the response is passed to the client.
        exchange: ExchangeKey,
        /// The request, with an absolute URL and all headers except those of the connection.
        request: Request<Bytes>,
        /// The claims of the proof that the driver signs and adds as the header `DPoP`; `None` unless the client has
        /// [`Credentials`] that need one.
        ///
        /// Rules: OA-X-06.
        proof: Option<ProofClaims>,
    },
    /// Drop this exchange: close its connection. The client ignores what is passed in for it from now on.
    Abort {
        /// The exchange to drop.
        exchange: ExchangeKey,
    },
}

/// Shows neither the URL nor headers nor the body, because they contain payloads, session ids and credentials.
impl fmt::Debug for HttpAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { exchange, request, .. } => f
                .debug_struct("Open")
                .field("exchange", exchange)
                .field("method", request.method())
                .field("bytes", &request.body().len())
                .finish_non_exhaustive(),
            Self::Abort { exchange } => f.debug_struct("Abort").field("exchange", exchange).finish(),
        }
    }
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
pub struct Http {
    config: HttpConfig,
    /// The headers before those of `config`, which the server may still repeat.
    former_headers: HeaderMap,
    limits: Limits,
    jitter: Jitter,
    mode: HttpMode,
    session: HttpSession,
    exchanges: Exchanges,
    deliveries: Deliveries,
    get_stream: GetStream,
    authorization: Authorization,
    /// Those of the session, once the server has set one.
    cookies: Option<Cookies>,
    tools: Tools,
}

/// How messages are sent and answered.
#[derive(Debug)]
enum HttpMode {
    /// Streamable HTTP: sent to one endpoint, and answered in the response.
    Streamable,
    /// Two endpoints: the stream has not named the endpoint for messages yet, so nothing can be sent.
    Opening {
        /// How `initialize` failed on Streamable HTTP, if this is the fallback (ER-27).
        instead_of: Option<Failed>,
        /// Where the stream is, if the request for it was redirected.
        stream: Option<HttpUrl>,
    },
    /// Two endpoints: sent to `post_to`, and answered on the stream.
    TwoEndpoint { post_to: HttpUrl },
}

impl HttpMode {
    fn new(config: &HttpConfig) -> Self {
        match config.transport {
            HttpTransport::Auto | HttpTransport::StreamableHttp => Self::Streamable,
            HttpTransport::HttpSse => Self::opening(None),
        }
    }

    const fn opening(instead_of: Option<Failed>) -> Self {
        Self::Opening { instead_of, stream: None }
    }

    /// The request for the stream was redirected to this URL. The endpoint is relative to it.
    fn stream_is_at(&mut self, target: HttpUrl) {
        if let Self::Opening { stream, .. } = self {
            *stream = Some(target);
        }
    }

    /// Whether messages can be sent.
    const fn is_open(&self) -> bool {
        matches!(self, Self::Streamable | Self::TwoEndpoint { .. })
    }

    const fn is_streamable(&self) -> bool {
        matches!(self, Self::Streamable)
    }

    const fn post_to<'e>(&'e self, endpoint: &'e HttpUrl) -> &'e HttpUrl {
        match self {
            Self::Streamable | Self::Opening { .. } => endpoint,
            Self::TwoEndpoint { post_to } => post_to,
        }
    }
}

/// Shows only counts, because messages, session ids and headers are secret.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("exchanges", &self.exchanges.len())
            .field("waiting", &self.deliveries.load().0)
            .finish_non_exhaustive()
    }
}

/// A timer of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpTimer {
    /// The body of an exchange has been silent for too long.
    Idle(ExchangeKey),
    /// An exchange whose request has ended is read no longer.
    Linger(ExchangeKey),
    /// A message that is not a request was not accepted in time.
    Accept(ExchangeKey),
    /// A message that was not delivered is sent again.
    Retry { position: u64, key: DeliveryKey },
    /// The stream of a request is opened again.
    Resume(RequestKey),
    /// A message, or with `position` 0 the stream of a request, has waited for authorization for too long.
    Authorization { position: u64, key: DeliveryKey },
    /// The stream of the server is opened again.
    GetStream,
    /// A two-endpoint server has not named its endpoint in time.
    Endpoint,
    /// The session could not be ended in time.
    Close,
}

/// The timers of the client.
type Timers = Deadlines<ClientTimer<HttpTimer>>;

impl Http {
    /// Creates a transport to the server of `config`.
    #[must_use]
    pub fn new(config: HttpConfig) -> Self {
        let limits = Limits::default();
        Self {
            mode: HttpMode::new(&config),
            get_stream: GetStream::new(),
            authorization: Authorization::new(&config),
            cookies: None,
            config,
            former_headers: HeaderMap::new(),
            limits,
            jitter: Jitter::new(0),
            session: HttpSession::new(),
            exchanges: Exchanges::new(),
            deliveries: Deliveries::new(),
            tools: Tools::default(),
        }
    }

    pub(crate) fn server(&self) -> String {
        self.config.server()
    }

    fn set_headers(&mut self, from: &HttpConfig) -> Result<(), UsageError> {
        let before = self.config.headers.clone();
        self.config.set_headers(from)?;
        if before != self.config.headers {
            self.former_headers = before;
        }
        Ok(())
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
    /// This call is optional: it allows the client to send a cancellation before the response begins.
    pub fn handle_sent(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_transport(now, |http, output| http.on_sent(exchange, now, output));
    }

    /// The head of the response of an exchange has arrived. Interim responses (1xx) must not be passed in.
    pub fn handle_response(&mut self, exchange: ExchangeKey, head: &http::response::Parts, now: Instant) {
        self.with_transport(now, |http, output| http.on_head(exchange, head, now, output));
    }

    /// A part of the body of an exchange has arrived, without the chunked transfer coding.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        self.with_transport(now, |http, output| http.on_body(exchange, chunk, now, output));
    }

    /// The body of an exchange is complete.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_transport(now, |http, output| http.on_end(exchange, now, output));
    }

    /// Sends requests with these credentials from now on, and sends everything again that waits for authorization, in its
    /// order and with the same ids. Has no effect if the configuration has an `Authorization` header.
    ///
    /// The credentials may be given at any time, also before the connection is opened, or when the current ones will
    /// expire soon. A challenge to a request that carried earlier ones is not reported: the request is sent again.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::auth::Credentials;
    /// use mcp_proto::client::{Client, Config, Event, Http, HttpAction, HttpConfig};
    /// use mcp_proto::{Instant, Output};
    ///
    /// let now = Instant::START;
    /// let mut http = HttpConfig::new("https://example.com/mcp")?;
    /// http.managed_authorization = true;
    /// let mut client = Client::new(Http::new(http), Config::new("my-app", "1.0.0"))?;
    /// client.connect(now)?;
    /// let Some(Output::Action(HttpAction::Open { exchange, request, .. })) = client.poll_output() else { panic!() };
    /// assert!(!request.headers().contains_key("authorization"));
    /// let (head, ()) = http::Response::builder().status(401).body(()).unwrap().into_parts();
    /// client.handle_response(exchange, &head, now);
    /// assert!(matches!(client.poll_output(), Some(Output::Event(Event::Challenged(_)))));
    ///
    /// client.authorize(Credentials::bearer("mF_9.B5f-4.1JqM", 1)?, now);
    /// let Some(Output::Action(HttpAction::Open { request: again, .. })) = client.poll_output() else { panic!() };
    /// assert_eq!(again.body(), request.body());
    /// assert_eq!(again.headers()["authorization"], "Bearer mF_9.B5f-4.1JqM");
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    ///
    /// Rules: OA-T-03, OA-T-06, OA-T-05.
    pub fn authorize(&mut self, credentials: Credentials, now: Instant) {
        if let Some(cache) = &mut self.cache {
            cache.clear_private();
        }
        self.with_transport(now, |http, output| http.authorize(credentials, now, output));
    }

    /// Sends every request from now on with the headers of this configuration, in the place of those with which the client was
    /// made: messages that wait or are sent again, streams that are opened again, and the end of the session, too. Nothing else
    /// of the configuration is used.
    ///
    /// # Errors
    ///
    /// [`UsageError::AuthorizationHeader`] if only one of the two configurations has an `Authorization` header. Then nothing
    /// has changed.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::{Client, Config, Http, HttpAction, HttpConfig};
    /// use mcp_proto::{Instant, Output, UsageError};
    ///
    /// let mut http = HttpConfig::new("https://example.com/mcp")?;
    /// http.header("X-Api-Key", "first")?;
    /// let mut client = Client::new(Http::new(http), Config::new("my-app", "1.0.0"))?;
    ///
    /// let mut next = HttpConfig::new("https://example.com/mcp")?;
    /// next.header("X-Api-Key", "second")?;
    /// client.set_headers(&next)?;
    /// client.connect(Instant::START)?;
    /// let Some(Output::Action(HttpAction::Open { request, .. })) = client.poll_output() else { panic!() };
    /// assert_eq!(request.headers().get_all("x-api-key").iter().collect::<Vec<_>>(), ["second"]);
    ///
    /// next.header("Authorization", "Bearer mF_9.B5f-4.1JqM")?;
    /// assert_eq!(client.set_headers(&next), Err(UsageError::AuthorizationHeader));
    /// # Ok::<(), UsageError>(())
    /// ```
    ///
    /// Rules: SH-C-18.
    pub fn set_headers(&mut self, from: &HttpConfig) -> Result<(), UsageError> {
        self.transport.set_headers(from)?;
        if let Some(cache) = &mut self.cache {
            cache.clear_private();
        }
        Ok(())
    }

    /// There will be no authorization: everything that waits for it fails with
    /// [`Failed::NotAuthorized`]. `reason` completes the text of that failure: why, and what
    /// a person can do about it. The next message that the server refuses causes another
    /// [`Event::Challenged`](super::Event::Challenged).
    pub fn refuse_authorization(&mut self, reason: &str, now: Instant) {
        self.with_transport(now, |http, output| http.refuse_authorization(reason, now, output));
    }

    /// An exchange has failed: it could not be started, or it broke off.
    pub fn handle_failure(&mut self, exchange: ExchangeKey, failure: Failure, now: Instant) {
        self.with_transport(now, |http, output| http.on_failure(exchange, failure, now, output));
    }
}

impl sealed::Sealed for Http {}

impl Transport for Http {
    type Action = HttpAction;
}

impl ClientTransport for Http {
    const SILENCE_MEANS_LEGACY: bool = false;
    const CAN_LOSE_SESSION: bool = true;
    type Timer = HttpTimer;

    fn set_redelivery_time(&mut self, time: Duration) {
        self.config.redelivery = time;
    }

    fn peer(&self) -> String {
        format!("the server at {}", self.server())
    }

    fn configure(&mut self, limits: &Limits, seed: u64) {
        self.limits = limits.clone();
        self.jitter = Jitter::new(seed);
    }

    fn begin(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.begin_session(now, output);
    }

    fn send(&mut self, message: &Message, role: Role, now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.send_message(message, role, now, output);
    }

    fn backlog(&self) -> Backlog {
        self.deliveries.backlog()
    }

    fn load(&self) -> Load {
        let (waiting, bytes) = self.deliveries.load();
        Load { exchanges: self.exchanges.len(), waiting, held: bytes + self.exchanges.receiving(), ..Load::default() }
    }

    fn takes_answer(&self, bytes: usize, limits: &Limits) -> bool {
        limits.holds(bytes, || self.deliveries.unaccepted())
    }

    fn wants_input(&self, _limits: &Limits) -> bool {
        // Exchanges become free only by reading their responses.
        true
    }

    fn may_be_modern(&self) -> bool {
        self.config.transport != HttpTransport::HttpSse
    }

    fn repeats_arguments(&self) -> bool {
        true
    }

    fn respawn(&mut self, _output: &mut TransportOutput<'_, Self>) {}

    fn cancel(&mut self, request: RequestKey, notice: &Message, now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.cancel_request(request, notice, now, output);
    }

    fn abandon(&mut self, request: RequestKey, now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.drop_request(request, now, output);
    }

    fn negotiated(&mut self, version: ProtocolVersion, output: &mut TransportOutput<'_, Self>) {
        self.accept_session(version, output);
    }

    fn ready(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.session_ready(now, output);
    }

    fn close(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.begin_closing(now, output);
    }

    fn on_timer(&mut self, timer: HttpTimer, now: Instant, output: &mut TransportOutput<'_, Self>) {
        match timer {
            HttpTimer::Idle(exchange) => self.on_silence(exchange, now, output),
            HttpTimer::Linger(exchange) => self.on_lingered(exchange, output),
            HttpTimer::Accept(exchange) => self.on_not_accepted(exchange, output),
            HttpTimer::Retry { key, .. } => self.deliveries.enqueue(key, output.timers),
            HttpTimer::Resume(request) => self.reopen(request, now, output),
            HttpTimer::Authorization { key, .. } => self.on_no_authorization(key, output),
            HttpTimer::GetStream => self.open_get_stream(output),
            HttpTimer::Endpoint => self.on_no_endpoint(output),
            HttpTimer::Close => self.close_unended(output),
        }
    }

    /// Sends what was queued again, in the order of the queues.
    fn after_timers(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.pump(now, output);
    }
}
