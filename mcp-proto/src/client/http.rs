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
//! | `exchange` | one exchange: its purpose and how it is read |
//! | `carrier` | the operations that the client needs from this transport |
//! | `post_queue` | messages that wait to be sent |
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

mod answer;
mod carrier;
mod config;
mod endpoint;
mod exchange;
mod failure;
mod headers;
mod mirrored;
mod post_queue;
mod redirect;
mod refusal;
mod resume;
mod route;
mod server_stream;
mod session;
mod tools;
mod two_endpoint;
mod url;

use std::collections::BTreeMap;
use std::time::Duration;

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
use crate::spec::ProtocolVersion;
use endpoint::Endpoint;
use exchange::{Exchange, Post, Purpose, Reading};
use headers::{Common, SessionId};
use post_queue::PostQueue;
use resume::Cursor;
use session::Closing;
use tools::Tools;
use two_endpoint::HttpMode;

pub use config::{HttpConfig, HttpTransport};
pub use exchange::ExchangeKey;
pub use failure::Failure;
pub use url::InvalidUrl;

/// The first pause before a message that did not reach the server is tried again; it doubles.
const REDELIVER_AFTER: Duration = Duration::from_millis(250);

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
/// assert!(request.body().starts_with(br#"{"jsonrpc":"2.0","id":1,"method":"initialize""#));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug)]
pub struct Http {
    config: HttpConfig,
    limits: Limits,
    jitter: Jitter,
    mode: HttpMode,
    session: Option<SessionId>,
    /// The session id in the response to `initialize`, until the result is accepted.
    offered_session: Option<SessionId>,
    version: Option<ProtocolVersion>,
    /// The number of sessions so far.
    generation: u64,
    /// The handshake of the current session is over.
    is_ready: bool,
    next_exchange: u64,
    exchanges: BTreeMap<ExchangeKey, Exchange>,
    /// Bytes of all responses that have not arrived in full.
    receiving: usize,
    /// Where each unanswered request is.
    requests: BTreeMap<RequestKey, Carried>,
    /// Messages that wait for an exchange or for the server's endpoint.
    queue: Queue,
    /// Messages that wait for the next session.
    parked: PostQueue,
    /// Messages that were not delivered and are tried again, by the numbers of their timers.
    held: PostQueue,
    /// The number of requests at `Place::Pausing`.
    pausing: usize,
    /// `Inbound::RequestWaits` was passed to the client.
    has_reported_waiting: bool,
    /// The last place that was assigned in the order of waiting messages.
    next_place: u64,
    server_stream: ServerStream,
    tools: Tools,
    timers: Deadlines<Timer>,
    closing: Closing,
}

/// An unanswered request.
#[derive(Debug)]
struct Carried {
    place: Place,
    cursor: Cursor,
    /// Its result lists tools, whose schemas define headers.
    lists_tools: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Queued(u64),
    Held(u64),
    Parked(u64),
    Exchange(ExchangeKey),
    /// Its stream broke and is opened again after a pause.
    Pausing,
    /// A two-endpoint server has accepted it and answers on its stream.
    Accepted,
}

/// Messages that wait to be sent, in queues that may overtake each other. If calls that wait for answers of this client
/// occupy all exchanges of requests, those answers must still be sent, and `ping` must still be able to check the
/// server. Some exchanges are reserved for both; pings may use half of these, so that they do not block the answers.
#[derive(Debug, Default)]
struct Queue {
    requests: PostQueue,
    pings: PostQueue,
    others: PostQueue,
}

impl Queue {
    fn insert(&mut self, place: u64, post: Post) {
        let waiting = match (post.role.request(), post.is_ping) {
            (None, _) => &mut self.others,
            (Some(_), true) => &mut self.pings,
            (Some(_), false) => &mut self.requests,
        };
        waiting.insert(place, post);
    }

    fn remove_request(&mut self, place: u64) {
        if self.requests.remove(place).is_none() {
            self.pings.remove(place);
        }
    }

    fn into_posts(self) -> impl Iterator<Item = Post> {
        self.requests.into_posts().chain(self.pings.into_posts()).chain(self.others.into_posts())
    }
}

/// The stream for messages that belong to no request.
#[derive(Debug)]
struct ServerStream {
    cursor: Cursor,
    /// The server has offered it in this session.
    was_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The body of an exchange has been silent for too long.
    Idle(ExchangeKey),
    /// An exchange whose request has ended is read no longer.
    Linger(ExchangeKey),
    /// A message that is not a request was not accepted in time.
    Accept(ExchangeKey),
    /// A message that was not delivered is tried again.
    Held(u64),
    /// The stream of a request is opened again.
    Resume(RequestKey),
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
            server_stream: ServerStream { cursor: Cursor::new(), was_open: false },
            config,
            limits,
            jitter: Jitter::new(0),
            session: None,
            offered_session: None,
            version: None,
            generation: 0,
            is_ready: false,
            next_exchange: 0,
            exchanges: BTreeMap::new(),
            receiving: 0,
            requests: BTreeMap::new(),
            queue: Queue::default(),
            parked: PostQueue::default(),
            held: PostQueue::default(),
            pausing: 0,
            has_reported_waiting: false,
            next_place: 0,
            tools: Tools::default(),
            timers: Deadlines::new(),
            closing: Closing::No,
        }
    }

    pub(crate) fn server(&self) -> String {
        self.config.server()
    }

    /// Sends waiting messages while exchanges are free.
    fn pump(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        while self.mode.is_open() {
            let room = self.room();
            // The stream for the server's own messages uses one of the reserved exchanges.
            let kept = self.limits.exchanges - self.limits.requests_at_once();
            let kept = kept.saturating_sub(usize::from(self.has_stream()));
            let post = if room == 0 { None } else { self.queue.others.pop_first() };
            let post = post.or_else(|| if room > kept / 2 { self.queue.pings.pop_first() } else { None });
            let post = post.or_else(|| if room > kept { self.queue.requests.pop_first() } else { None });
            let Some(post) = post else { break };
            self.post(post, now, wire);
        }
        if self.mode.is_open() && !self.queue.requests.is_empty() && !self.has_reported_waiting {
            self.has_reported_waiting = true;
            wire.inbound.push_back(Inbound::RequestWaits { limit: self.limits.requests_at_once() });
        }
        self.go_on_closing(wire);
    }

    /// Whether a stream that belongs to no request is open, or will be opened again.
    fn has_stream(&self) -> bool {
        let is_stream = |exchange: &Exchange| {
            matches!(exchange.purpose, Purpose::ServerStream { .. } | Purpose::TwoEndpointStream { .. })
        };
        self.timers.is_set(Timer::ServerStream) || self.exchanges.values().any(is_stream)
    }

    /// The number of exchanges that may still be opened. A stream that will be opened again after a pause counts as
    /// open.
    fn room(&self) -> usize {
        let reopened = self.pausing + usize::from(self.timers.is_set(Timer::ServerStream));
        self.limits.exchanges.saturating_sub(self.exchanges.len() + reopened)
    }

    fn enqueue(&mut self, post: Post) {
        let place = self.next_place();
        if let Some(request) = post.role.request() {
            self.place(request, Place::Queued(place));
        }
        self.queue.insert(place, post);
    }

    const fn next_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    /// Whether this is a request whose answer is no longer needed: it is not sent again.
    fn is_void(&self, post: &Post) -> bool {
        post.role.request().is_some_and(|request| !self.requests.contains_key(&request))
    }

    fn place(&mut self, request: RequestKey, place: Place) {
        if let Some(carried) = self.requests.get_mut(&request) {
            carried.place = place;
        }
    }

    /// Opens an exchange for a message.
    fn post(&mut self, post: Post, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        let opens_session = matches!(post.role, Role::Initialize(_));
        let to = post.to.as_ref().unwrap_or(self.mode.post_to(&self.config.endpoint));
        let common = Common {
            user: &self.config.headers,
            session: self.session.as_ref().filter(|_| !opens_session),
            version: post.version.or(self.version.filter(|_| !opens_session)),
        };
        let request = common.post(to, post.body.clone(), post.mirrored.as_deref());
        let role = post.role;
        let exchange = self.open(request, Purpose::Post(post), wire);
        match role.request() {
            Some(request) => self.place(request, Place::Exchange(exchange)),
            None => self.timers.set(Timer::Accept(exchange), now + self.config.accept_timeout),
        }
    }

    /// Opens an exchange for a stream.
    fn get(&mut self, from: Option<&Endpoint>, purpose: Purpose, wire: &mut Wire<'_, HttpAction>) -> ExchangeKey {
        let cursor = match &purpose {
            Purpose::ServerStream { .. } => self.server_stream.cursor.resume_after(),
            Purpose::Resume { request, .. } => {
                self.requests.get(request).and_then(|carried| carried.cursor.resume_after())
            }
            Purpose::Post(_) | Purpose::TwoEndpointStream { .. } | Purpose::Delete | Purpose::Drain => None,
        };
        let common = Common { user: &self.config.headers, session: self.session.as_ref(), version: self.version };
        let request = common.get(from.unwrap_or(&self.config.endpoint), cursor);
        self.open(request, purpose, wire)
    }

    fn open(&mut self, request: Request<Bytes>, purpose: Purpose, wire: &mut Wire<'_, HttpAction>) -> ExchangeKey {
        let key = ExchangeKey(self.next_exchange);
        self.next_exchange += 1;
        let opens_session = matches!(&purpose, Purpose::Post(Post { role: Role::Initialize(_), .. }));
        let exchange = Exchange {
            purpose,
            generation: self.generation,
            // The session of a two-endpoint server is in the URL that it named (HS-08).
            in_session: (self.session.is_some() || !self.mode.is_streamable()) && !opens_session,
            reading: Reading::Head,
            sent: false,
            cancellation: None,
            trailing: 0,
            held: 0,
        };
        self.exchanges.insert(key, exchange);
        wire.out.act(HttpAction::Open { exchange: key, request });
        key
    }

    /// Removes an exchange from the table, with its timers.
    fn take(&mut self, key: ExchangeKey) -> Option<Exchange> {
        let exchange = self.exchanges.remove(&key)?;
        self.receiving -= exchange.held;
        self.timers.clear(Timer::Idle(key));
        self.timers.clear(Timer::Linger(key));
        self.timers.clear(Timer::Accept(key));
        Some(exchange)
    }

    fn abort(&mut self, key: ExchangeKey, wire: &mut Wire<'_, HttpAction>) -> Option<Exchange> {
        let exchange = self.take(key)?;
        wire.out.act(HttpAction::Abort { exchange: key });
        Some(exchange)
    }

    /// CX-07, CX-08: closing the exchange is the cancellation.
    fn close_exchange(&mut self, request: RequestKey, wire: &mut Wire<'_, HttpAction>) {
        if let Some(Carried { place: Place::Exchange(key), .. }) = self.forget(request) {
            self.abort(key, wire);
        }
    }

    /// The request will get no answer.
    fn unanswered(&mut self, request: RequestKey, reason: Failed, wire: &mut Wire<'_, HttpAction>) {
        if self.forget(request).is_some() {
            wire.unanswered(request, reason);
        }
    }

    /// Removes a request. A waiting message of it is dropped; an open exchange stays open.
    fn forget(&mut self, request: RequestKey) -> Option<Carried> {
        let carried = self.requests.remove(&request)?;
        match carried.place {
            Place::Queued(place) => {
                self.queue.remove_request(place);
            }
            Place::Parked(place) => {
                self.parked.remove(place);
            }
            Place::Held(number) => {
                self.held.remove(number);
                self.timers.clear(Timer::Held(number));
            }
            Place::Pausing => {
                self.pausing -= 1;
                self.timers.clear(Timer::Resume(request));
            }
            Place::Exchange(_) | Place::Accepted => {}
        }
        Some(carried)
    }

    /// Schedules another attempt for a message that did not reach the server, within `HttpConfig::redelivery`.
    fn hold(&mut self, mut post: Post, reason: Failed, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        if self.is_void(&post) {
            return;
        }
        let since = *post.first_tried.get_or_insert(now);
        let pause = REDELIVER_AFTER * 2_u32.saturating_pow(post.attempts.min(16));
        post.attempts += 1;
        if self.closing != Closing::No || now + pause > since + self.config.redelivery {
            self.undelivered(post.role, reason, wire);
            return;
        }
        let number = self.next_place();
        if let Some(request) = post.role.request() {
            self.place(request, Place::Held(number));
        }
        self.held.insert(number, post);
        self.timers.set(Timer::Held(number), now + pause);
    }

    fn undelivered(&mut self, role: Role, reason: Failed, wire: &mut Wire<'_, HttpAction>) {
        match role {
            Role::Initialize(request) | Role::Discover(request, _) | Role::Request(request) => {
                self.unanswered(request, reason, wire);
            }
            Role::Confirmation => {
                wire.fault(Fault::NotAccepted { reason });
                wire.inbound.push_back(Inbound::Confirmed);
            }
            Role::Answer | Role::Cancellation | Role::Notification => wire.fault(Fault::NotAccepted { reason }),
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
