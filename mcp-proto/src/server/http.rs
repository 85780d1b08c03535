//! The HTTP transport of a server: Streamable HTTP and the two endpoints of 2024-11-05.
//!
//! A message is answered on the exchange on which it arrived, independent of its id. The HTTP response is
//! JSON unless another message must be sent before the answer; then it becomes a stream of events.
//!
//! ```text
//!              head is accepted          body is a request            answer
//!   (refused) ◀── Receiving ──────────────────▶ Waiting ───────────────────────▶ JSON
//!                      │ notification, response    │ progress, a request to the client
//!                      ▼                           ▼               answer
//!                   202, empty                 Streaming ──────────────────────▶ event, end
//!                                                  │ disconnect          ▲
//!                                                  ▼   GET, Last-Event-ID│
//!                                               kept for a while ────────┘
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | `exchange` | heads, bodies, responses and streams of exchanges; it knows no session |
//! | `stream` | events of streams, their ids, and where they are kept |
//! | `sessions` | sessions: in memory, in their ids, in a store, and of two endpoints |
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration |
//! | `purpose` | what exchanges are for |
//! | `plan` | checks the head of a request (access, path, authentication, session), and decides what is done with it |
//! | `post` | messages that clients post |
//! | `stateless` | requests without a session |
//! | `transport` | decides how a message of the server is sent: in a response, or as an event of a stream |

mod config;
mod exchange;
mod plan;
mod post;
mod purpose;
mod sessions;
mod stateless;
mod stream;
mod transport;

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use exchange::annotated::AnnotatedTools;
use exchange::refusal::{Refusal, empty};
use exchange::{Exchanges, cors, header_check, metadata};
use http::request::Parts;
use http::{Extensions, Response, StatusCode};
use purpose::{Asked, Exchange, Plan, Serving, StreamOf};
use sessions::Arriving;
use sessions::sealed::Nonce;
use sessions::session::{Session, SessionKind, Sessions};
use sessions::stored::work::StoreWork;

pub use config::{HttpConfig, SessionMode, StoredSessions, TwoEndpoints};
pub use exchange::ExchangeKey;
pub use exchange::access::Access;
pub use exchange::action::HttpAction;
pub use exchange::refusal::{refusal_reason, server_stopped, too_many_connections};
pub use exchange::request_info::{RequestInfo, expects_continue};
pub use sessions::open_sessions::OpenSessions;
pub use sessions::sealed::SealedSessions;
pub use sessions::snapshot::Snapshot;

use super::Server;
use super::shares::Holder;
use super::snapshot::SessionState;
use super::transport::{Inbound, TransportOutput};
use crate::Instant;
use crate::conversation::keys::SessionKey;
use crate::conversation::outcome::CloseReason;
use crate::jsonrpc::{Frame, Request};
use crate::spec::{SupportedVersions, UnreadableId};
use crate::store::{StoreKey, StoreResult};
use crate::transport::{Transport, sealed};

/// Where the outputs of the transport go.
type Output<'s> = TransportOutput<'s, Http>;

/// The HTTP transport of a server.
pub struct Http {
    config: HttpConfig,
    /// The revisions that are served.
    versions: SupportedVersions,
    sessions: Sessions,
    exchanges: Exchanges<Serving>,
    store: StoreWork,
    /// Streams of answered requests whose clients have disconnected before the answer.
    unclaimed: BTreeSet<(SessionKey, ExchangeKey)>,
    /// The tools whose arguments are repeated in headers.
    tools: AnnotatedTools,
    stage: Stage,
}

/// What the transport still accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Only what belongs to requests that are being served.
    Draining,
    /// Nothing.
    Closed,
}

/// A step that waits until the server has handled a message or ended a session, to make room or for a DELETE.
enum HttpStep {
    /// The GET stream of a session has perhaps been closed here.
    RecordClosedStream(SessionKey),
    Respond {
        exchange: ExchangeKey,
        response: Response<Bytes>,
    },
    /// The message of a two-endpoint session is handled.
    ForgetExtensions {
        session: SessionKey,
    },
    /// There is room for the session that the id of a request contains.
    Restore {
        arriving: Arriving,
        nonce: Nonce,
        state: SessionState,
    },
    /// There is room for the session that was read from the store.
    RestoreStored {
        arriving: Arriving,
        version: u64,
        state: SessionState,
    },
    /// The search for the session of the request is over, whether it was found or not.
    Admit(Arriving),
    OpenSession {
        exchange: ExchangeKey,
        request: Request,
        head: Box<Parts>,
        info: RequestInfo,
    },
    OpenGetStream {
        exchange: ExchangeKey,
        session: SessionKey,
        holder: Holder,
    },
    Resume {
        exchange: ExchangeKey,
        session: SessionKey,
        after: Box<str>,
        holder: Holder,
    },
    /// There is room for the stream of a two-endpoint session, but perhaps not for the session.
    MakeRoomForTwoEndpointSession {
        exchange: ExchangeKey,
        info: RequestInfo,
    },
    OpenTwoEndpointSession {
        exchange: ExchangeKey,
        info: RequestInfo,
    },
}

/// A step of the transport, for the queue of the server.
pub struct Deferred(HttpStep);

impl From<HttpStep> for Deferred {
    fn from(step: HttpStep) -> Self {
        Self(step)
    }
}

/// A timer of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpTimer {
    /// The body must have arrived.
    Body(ExchangeKey),
    /// Nothing was written to the stream for a while: a comment keeps it alive.
    KeepAlive(ExchangeKey),
    /// The session has been idle.
    Idle(SessionKey),
    /// The client has read nothing of its response.
    Unread(ExchangeKey),
    /// The store must have answered.
    Store(StoreKey),
    /// The record of an ended session is removed again, because the last attempt failed.
    End(StoreKey),
    /// The stream on the exchange is read again, although no instance has reported new events.
    Poll(ExchangeKey),
    /// No client has resumed the stream.
    Forget(SessionKey, ExchangeKey),
}

impl Http {
    /// Creates a transport; [`Server::new`] sets its limits and revisions.
    #[must_use]
    pub fn new(config: HttpConfig) -> Self {
        let exchanges = Exchanges::new(config.keep_alive, config.unread_timeout, config.cors);
        Self {
            config,
            versions: SupportedVersions::default(),
            sessions: Sessions::new(),
            exchanges,
            store: StoreWork::default(),
            unclaimed: BTreeSet::new(),
            tools: AnnotatedTools::default(),
            stage: Stage::Serving,
        }
    }
}

/// Shows only counts, because session ids and headers are secret.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("sessions", &self.sessions.len())
            .field("exchanges", &self.exchanges.len())
            .finish_non_exhaustive()
    }
}

impl sealed::Sealed for Http {}

impl Transport for Http {
    type Action = HttpAction;
}

impl Server<Http> {
    /// The head of a request has arrived. All later calls and actions for the request carry the returned key.
    pub fn handle_request(&mut self, head: Parts, info: RequestInfo, now: Instant) -> ExchangeKey {
        let exchange = self.with_transport(now, |http, output| http.on_head(head, info, output));
        self.settle(now);
        exchange
    }

    /// A chunk of a request body has arrived; it may have any size.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        let held = self.usage.held;
        self.with_transport(now, |http, output| {
            if let Err(refusal) = http.exchanges.append(exchange, chunk, held) {
                let unreadable_id = http.close_exchange(exchange, output).map(|closed| closed.unreadable_id());
                http.exchanges.refuse(exchange, refusal, unreadable_id.unwrap_or(UnreadableId::Null), output);
            }
        });
    }

    /// The body of a request has ended.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_transport(now, |http, output| http.on_body_end(exchange, output));
        self.settle(now);
    }

    /// The driver has written this many more bytes of an exchange's response body: of [`HttpAction::Respond`] and
    /// [`HttpAction::Write`].
    ///
    /// Bytes that were not reported count against [`Limits::unwritten`](crate::Limits::unwritten); a stream that
    /// exceeds it is aborted. Those of all exchanges together count against [`Limits::held`](crate::Limits::held). An
    /// exchange for which nothing is reported for [`HttpConfig::unread_timeout`] is aborted. If an exchange breaks off
    /// after its response was passed to the driver, the driver calls [`Server::handle_disconnect`].
    pub fn handle_written(&mut self, exchange: ExchangeKey, bytes: usize, now: Instant) {
        self.with_transport(now, |http, output| http.on_written(exchange, bytes, output));
        self.report_not_written(now);
    }

    /// The client has disconnected from an exchange. Its request continues if it belongs to a session, and is cancelled
    /// if it is stateless.
    ///
    /// Rules: SH-S-16, SH-S-17.
    pub fn handle_disconnect(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_transport(now, |http, output| http.on_disconnect(exchange, output));
        self.settle(now);
    }

    /// The client has ended its sending side after a whole request. Only a write shows whether it is gone or still
    /// reads the response. So the server writes at once, and again after each [`HttpConfig::keep_alive`]: a comment to
    /// a stream, and [`HttpAction::Continue`] before a response.
    pub fn handle_half_close(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_transport(now, |http, output| http.exchanges.probe(exchange, output));
        self.settle(now);
    }

    /// The store has answered an action ([`HttpAction::Store`]); an unknown key is ignored.
    pub fn handle_stored(&mut self, key: StoreKey, result: StoreResult, now: Instant) {
        self.with_transport(now, |http, output| http.on_stored(key, result, output));
        self.settle(now);
    }

    /// Another instance has sent this message ([`StoreAction::Send`](crate::store::StoreAction::Send)); an unreadable one
    /// is ignored.
    pub fn handle_message(&mut self, message: &[u8], now: Instant) {
        self.with_transport(now, |http, output| http.on_message(message, output));
        self.settle(now);
    }

    /// Ends a session: its unanswered requests are answered with an error, and later requests in it with 404.
    ///
    /// Rules: SH-S-43.
    pub fn end(&mut self, session: SessionKey, now: Instant) {
        self.end_session(session, CloseReason::Local, now);
    }

    /// Keeps connections free for requests, at a driver that accepts at most this many connections: streams that
    /// clients opened by GET take at most half of them, or fewer with [`HttpConfig::max_streams`], and subscriptions at
    /// most a quarter, or fewer with [`Limits::subscriptions`](crate::Limits::subscriptions). A later call with more
    /// connections has no effect.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Config, Http, HttpConfig, Server};
    ///
    /// let mut server = Server::new(Http::new(HttpConfig::new()), Config::new("my-tools", "1.0.0"))?;
    /// server.limit_to_connections(100);
    /// assert_eq!(server.config().limits.subscriptions, 25);
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    ///
    /// Rules: M4.
    pub fn limit_to_connections(&mut self, connections: usize) {
        let streams = &mut self.transport.config.max_streams;
        *streams = Some(connections.div_ceil(2).min(streams.unwrap_or(usize::MAX)));
        for handling in std::iter::once(&mut self.handling).chain(self.served_requests.iter_mut()) {
            let subscriptions = &mut handling.config_mut().limits.subscriptions;
            *subscriptions = connections.div_ceil(4).min(*subscriptions);
        }
    }

    /// Changes who may access the server and where they get tokens, for requests that arrive from now on: the `access`, `cors`
    /// and `protected_resource` of this configuration apply. Its other fields are not used.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Access, Config, Http, HttpConfig, Server};
    ///
    /// let mut server = Server::new(Http::new(HttpConfig::new()), Config::new("my-tools", "1.0.0"))?;
    /// let mut http = HttpConfig::new();
    /// http.access = Access::Listed { hosts: vec!["mcp.example.com".into()], origins: Vec::new() };
    /// server.set_access(http);
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    ///
    /// Rules: SH-S-03, OA-Z-01.
    pub fn set_access(&mut self, http: HttpConfig) {
        let HttpConfig { access, cors, protected_resource, server_card, .. } = http;
        self.transport.exchanges.set_cors(cors);
        let own = &mut self.transport.config;
        (own.access, own.cors, own.protected_resource, own.server_card) =
            (access, cors, protected_resource, server_card);
    }

    /// The number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.transport.sessions.len()
    }
}

impl Http {
    fn on_head(&mut self, head: Parts, info: RequestInfo, output: &mut Output<'_>) -> ExchangeKey {
        let key = self.exchanges.new_key();
        // The metadata have headers of their own.
        if self.config.cors && self.config.public_document_at(head.uri.path()).is_none() {
            self.exchanges.note_origin(key, &head, &self.config.access);
        }
        let planned = self.planned(&head, &info);
        let is_unknown = planned.as_ref().is_err_and(|refusal| *refusal == Refusal::unknown_session());
        let sealed = if is_unknown { self.sealed_state(&head, &info) } else { None };
        let id = if self.config.stored().is_some() { self.id_to_look_up(&head, &planned) } else { None };
        if let Some(id) = id {
            self.look_up(key, &id, head, info, output);
        } else if let Some((nonce, state)) = sealed {
            self.make_room_to_restore(key, head, info, nonce, state, output);
        } else {
            self.on_planned(key, planned, head, info, output);
        }
        key
    }

    /// What the server will do for a request, at this stage.
    fn planned(&self, head: &Parts, info: &RequestInfo) -> Result<Plan, Refusal> {
        match self.stage {
            Stage::Serving => self.plan(head, info),
            Stage::Draining => self.plan(head, info).and_then(Self::check_draining),
            Stage::Closed => Err(Refusal::stopped()),
        }
    }

    fn on_planned(
        &mut self,
        key: ExchangeKey,
        planned: Result<Plan, Refusal>,
        head: Parts,
        info: RequestInfo,
        output: &mut Output<'_>,
    ) {
        let plan = match planned {
            Ok(plan) => plan,
            Err(refusal) => {
                return self.exchanges.refuse(key, refusal, header_check::unreadable_id(&head.headers), output);
            }
        };
        match plan {
            Plan::Post { .. } | Plan::PostMessage { .. } => {
                let at = output.now + self.config.body_timeout;
                let continues = expects_continue(&head);
                let head = Box::new(head);
                self.insert_exchange(key, Exchange::Receiving { head, plan, info, body: Vec::new() });
                output.set_timer(HttpTimer::Body(key), at);
                if continues {
                    output.out.act(HttpAction::Continue { exchange: key });
                }
            }
            Plan::Metadata => {
                if let Some(document) = self.config.public_document_at(head.uri.path()) {
                    let response = metadata::document(document, &head.headers);
                    self.exchanges.respond(key, response, output);
                }
            }
            Plan::MetadataPreflight => self.exchanges.respond(key, metadata::preflight(), output),
            Plan::Preflight { methods } => self.exchanges.respond(key, cors::permission(methods, &head), output),
            Plan::Get { session } if self.sessions.is_stored(session) => {
                self.open_get_stream_stored(key, session, &info, output);
            }
            Plan::Resume { session, after } if self.sessions.is_stored(session) => {
                self.resume_stored(key, session, &after, &info, output);
            }
            Plan::Delete { session } if self.sessions.is_stored(session) => self.forget(key, session, output),
            // Only the store's answer continues this plan.
            Plan::LookUp { .. } => {}
            Plan::Get { session } => self.make_room_for_get_stream(key, session, info.holder(), output),
            Plan::Resume { session, after } => self.make_room_to_resume(key, session, after, info.holder(), output),
            Plan::OpenStream => self.make_room_for_two_endpoint_stream(key, info, output),
            Plan::Delete { session } => {
                output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Peer });
                output.defer(HttpStep::Respond { exchange: key, response: empty(StatusCode::NO_CONTENT) });
            }
        }
    }

    /// Refuses new streams while the server is being stopped. A POST is refused later, depending on its body.
    fn check_draining(plan: Plan) -> Result<Plan, Refusal> {
        match plan {
            Plan::Get { .. } | Plan::OpenStream => Err(Refusal::stopped()),
            Plan::Post { .. }
            | Plan::PostMessage { .. }
            | Plan::Resume { .. }
            | Plan::Delete { .. }
            | Plan::Metadata
            | Plan::MetadataPreflight
            | Plan::Preflight { .. }
            | Plan::LookUp { .. } => Ok(plan),
        }
    }

    fn on_body_end(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        if let Some(Exchange::Receiving { plan: Plan::LookUp { is_whole }, .. }) = self.exchanges.get_mut(exchange) {
            *is_whole = true;
            output.clear_timer(HttpTimer::Body(exchange));
            return;
        }
        if !matches!(self.exchanges.get(exchange), Some(Exchange::Receiving { .. })) {
            return;
        }
        let received = self.close_exchange(exchange, output).and_then(Exchange::received);
        let Some((head, plan, info, body)) = received else { return };
        // The server may have been closed between the head and the end of the body.
        if self.stage == Stage::Closed {
            return self.exchanges.refuse(
                exchange,
                Refusal::stopped(),
                header_check::unreadable_id(&head.headers),
                output,
            );
        }
        let frame = Frame::parse(&body, &self.exchanges.limits);
        match plan {
            Plan::Post { session } => self.on_post(exchange, session, frame, head, info, output),
            Plan::PostMessage { session } => {
                self.on_post_message(exchange, session, frame, head.extensions, &info, output);
            }
            Plan::Get { .. }
            | Plan::Resume { .. }
            | Plan::OpenStream
            | Plan::Delete { .. }
            | Plan::Metadata
            | Plan::MetadataPreflight
            | Plan::Preflight { .. }
            | Plan::LookUp { .. } => {}
        }
    }

    fn on_disconnect(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        self.exchanges.forget(exchange, output);
        let Some(closed) = self.close_exchange(exchange, output) else { return };
        if let Some(session) = closed.session() {
            self.keep_settings_of(session, exchange, output);
        }
        if closed.is_stateless() {
            output.inbound.push_back(Inbound::Disconnected { reply_to: exchange.to_reply() });
        } else if let Exchange::Streaming(StreamOf::Session(session)) = closed {
            // Closing the stream of a two-endpoint session ends the session (HS-10).
            if self.sessions.get(session).is_some_and(Session::is_two_endpoint) {
                output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Peer });
            }
        } else if let Exchange::Waiting { asked: Asked::Opening(session), .. }
        | Exchange::Storing { asked: Asked::Opening(session), .. } = closed
        {
            // No client has the id of this session, which was not sent.
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Peer });
        }
    }

    fn on_due(&mut self, timer: HttpTimer, output: &mut Output<'_>) {
        match timer {
            HttpTimer::Body(exchange) => {
                let Some(closed) = self.close_exchange(exchange, output) else { return };
                let refusal = Refusal::new(StatusCode::REQUEST_TIMEOUT, "the message did not come in time");
                self.exchanges.refuse(exchange, refusal, closed.unreadable_id(), output);
            }
            HttpTimer::KeepAlive(exchange) => self.exchanges.probe(exchange, output),
            HttpTimer::Unread(exchange) => self.on_unread(exchange, output),
            HttpTimer::Store(key) => self.on_stored(key, StoreResult::Failed, output),
            HttpTimer::End(key) => self.end_record_again(key, output),
            HttpTimer::Poll(exchange) => self.on_poll(exchange, output),
            HttpTimer::Idle(session) => self.on_idle(session, output),
            HttpTimer::Forget(session, exchange) => {
                self.unclaimed.remove(&(session, exchange));
                if let Some(session) = self.sessions.get_mut(session) {
                    session.forget_stream(exchange);
                }
            }
        }
    }

    /// Continues with a step.
    fn on_step(&mut self, step: HttpStep, output: &mut Output<'_>) {
        match step {
            HttpStep::RecordClosedStream(session) => self.record_closed_stream(session, output),
            HttpStep::Respond { exchange, response } => self.exchanges.respond(exchange, response, output),
            HttpStep::ForgetExtensions { session } => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.kind = SessionKind::TwoEndpoints { extensions: Extensions::new() };
                }
            }
            HttpStep::Restore { arriving, nonce, state } => self.restore(arriving, nonce, state, output),
            HttpStep::RestoreStored { arriving, version, state } => {
                self.restore_stored(arriving, version, state, output);
            }
            HttpStep::Admit(arriving) => self.admit(arriving, output),
            HttpStep::OpenSession { exchange, request, head, info } => {
                self.open_session_with(exchange, request, head, &info, output);
            }
            HttpStep::OpenGetStream { exchange, session, holder } => {
                self.open_get_stream(exchange, session, holder, output);
            }
            HttpStep::Resume { exchange, session, after, holder } => {
                self.resume(exchange, session, &after, holder, output);
            }
            HttpStep::MakeRoomForTwoEndpointSession { exchange, info } => {
                self.make_room_for_two_endpoint_session(exchange, info, output);
            }
            HttpStep::OpenTwoEndpointSession { exchange, info } => {
                self.open_two_endpoint_session(exchange, &info, output);
            }
        }
    }

    /// The driver has written bytes of a response.
    fn on_written(&mut self, exchange: ExchangeKey, bytes: usize, output: &mut Output<'_>) {
        self.exchanges.on_written(exchange, bytes, output);
        if self.config.stored().is_some() {
            self.on_reader_written(exchange, output);
        }
    }

    /// Whether a message of this many bytes may be sent.
    fn makes_room(&mut self, bytes: usize, output: &mut Output<'_>) -> bool {
        self.exchanges.makes_room(bytes, self.store.queued, output)
    }

    fn insert_exchange(&mut self, key: ExchangeKey, exchange: Exchange) {
        if let Some(session) = exchange.session() {
            self.sessions.begin_exchange(session);
        }
        self.exchanges.insert(key, exchange);
    }

    /// Removes an exchange that has ended from all tables; `None` if it was removed before.
    fn close_exchange(&mut self, key: ExchangeKey, output: &mut Output<'_>) -> Option<Exchange> {
        let exchange = self.exchanges.remove(key, output)?;
        if let Some(session) = exchange.session() {
            self.sessions.end_exchange(session, key, &exchange, output.now);
        }
        if self.config.stored().is_some() {
            self.end_stored_exchange(key, &exchange, output);
        }
        Some(exchange)
    }

    /// Ends a response that is a stream, and removes its exchange.
    fn finish(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        if self.close_exchange(exchange, output).is_some() {
            self.exchanges.finish(exchange, output);
        }
    }

    /// A client that does not read its response is treated as disconnected (K1).
    fn on_unread(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        if !self.exchanges.unwritten.is_aborted(exchange) {
            self.exchanges.abort_unread(exchange, output);
        }
        self.on_disconnect(exchange, output);
    }
}
