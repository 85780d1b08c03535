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
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration |
//! | `access` | hosts and origins |
//! | `cors` | lets web pages of allowed origins read responses |
//! | `admission` | the checks of a request's head, in order |
//! | `metadata` | serves the metadata of the protected resource |
//! | `request_info` | what the driver states about a request besides its head |
//! | `post` | messages that clients post |
//! | `stateless` | stateless requests |
//! | `header_check` | compares headers with the body |
//! | `get` | streams that clients open |
//! | `refusal` | error responses with an HTTP status |
//! | `action` | actions for the driver |
//! | `exchange` | one exchange, from the head of its request to the end of its response |
//! | `session` | sessions by their ids |
//! | `snapshot` | sessions as values |
//! | `sealed_session` | session ids that contain the state of the session |
//! | `stored_session` | sessions in a store that instances share: how requests find them, and how they end |
//! | `stored_record` | changes of the record of a session, and the responses that wait for them |
//! | `stored_get_stream` | the GET stream of a session in the store |
//! | `stored_append` | events of requests that are served here, which are stored, then written |
//! | `stored_label` | what is stored with the stream of a request for the case that its instance ends |
//! | `stored_read` | streams that are read from the store for clients |
//! | `store_work` | actions of the store whose results are awaited |
//! | `instances` | messages between instances |
//! | `task_requests` | requests about tasks of another instance |
//! | `stream` | responses that are streams of events |
//! | `replay` | events of one stream, stored until they are sent again |
//! | `unwritten` | bytes of responses that are not written yet |
//! | `transport` | decides how a message of the server is sent: in a response, or as an event of a stream |
//! | `annotated` | tools whose arguments are repeated in headers |

mod access;
mod action;
mod admission;
mod annotated;
mod config;
mod cors;
mod exchange;
mod get;
mod header_check;
mod instances;
mod metadata;
mod post;
mod refusal;
mod replay;
mod request_info;
mod sealed_session;
mod session;
mod snapshot;
mod stateless;
mod store_work;
mod stored_append;
mod stored_get_stream;
mod stored_label;
mod stored_read;
mod stored_record;
mod stored_session;
mod stream;
mod task_requests;
mod transport;
mod unwritten;

use std::collections::BTreeSet;
use std::fmt;

use admission::Plan;
use annotated::AnnotatedTools;
use bytes::Bytes;
use cors::AllowedOrigins;
use exchange::{Asked, Exchange, Exchanges};
use http::request::Parts;
use http::{Extensions, Response, StatusCode};
use refusal::{Refusal, empty};
use sealed_session::Nonce;
use session::{Session, SessionKind, Sessions};
use store_work::StoreWork;
use stored_session::Arriving;
use unwritten::Unwritten;

pub use action::HttpAction;
pub use config::{Access, HttpConfig, SessionMode, TwoEndpoints};
pub use exchange::ExchangeKey;
pub use refusal::{refusal_reason, server_stopped, too_many_connections};
pub use request_info::{RequestInfo, expects_continue};
pub use sealed_session::SealedSessions;
pub use snapshot::Snapshot;
pub use stored_session::StoredSessions;

use super::Server;
use super::shares::Holder;
use super::snapshot::SessionState;
use super::transport::{Inbound, TransportOutput};
use crate::Instant;
use crate::conversation::keys::SessionKey;
use crate::conversation::outcome::CloseReason;
use crate::jsonrpc::{Frame, Request};
use crate::limits::Limits;
use crate::spec::header::SESSION_ID;
use crate::spec::{SupportedVersions, UnreadableId};
use crate::sse::encode_comment;
use crate::store::{StoreKey, StoreResult};
use crate::transport::{Transport, sealed};

/// Where the outputs of the transport go.
type Output<'s> = TransportOutput<'s, Http>;

/// How many unused sessions or streams are checked to find one that can be ended.
const CANDIDATES: usize = 16;

/// The HTTP transport of a server.
pub struct Http {
    config: HttpConfig,
    limits: Limits,
    /// The revisions that are served.
    versions: SupportedVersions,
    sessions: Sessions,
    exchanges: Exchanges,
    unwritten: Unwritten,
    store: StoreWork,
    /// Streams of answered requests whose clients have disconnected before the answer.
    unclaimed: BTreeSet<(SessionKey, ExchangeKey)>,
    /// The tools whose arguments are repeated in headers.
    tools: AnnotatedTools,
    /// Web pages that may read the responses of exchanges.
    allowed_origins: AllowedOrigins,
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
        Self {
            config,
            limits: Limits::default(),
            versions: SupportedVersions::default(),
            sessions: Sessions::new(),
            exchanges: Exchanges::new(),
            unwritten: Unwritten::default(),
            store: StoreWork::default(),
            unclaimed: BTreeSet::new(),
            tools: AnnotatedTools::default(),
            allowed_origins: AllowedOrigins::default(),
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
            if let Err(refusal) = http.exchanges.append(exchange, chunk, held, &http.limits) {
                let unreadable_id = http.close_exchange(exchange, output).map(|closed| closed.unreadable_id());
                http.refuse(exchange, refusal, unreadable_id.unwrap_or(UnreadableId::Null), output);
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

    /// The client has disconnected from an exchange. Its request continues if it belongs to a session (SH-S-16), and is
    /// cancelled if it is stateless (SH-S-17).
    pub fn handle_disconnect(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_transport(now, |http, output| http.on_disconnect(exchange, output));
        self.settle(now);
    }

    /// The client has ended its sending side after a whole request. Only a write shows whether it is gone or still
    /// reads the response. So the server writes at once, and again after each [`HttpConfig::keep_alive`]: a comment to
    /// a stream, and [`HttpAction::Continue`] before a response.
    pub fn handle_half_close(&mut self, exchange: ExchangeKey, now: Instant) {
        self.with_transport(now, |http, output| http.probe(exchange, output));
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

    /// Ends a session: its unanswered requests are answered with an error, and later requests in it with 404 (SH-S-43).
    pub fn end(&mut self, session: SessionKey, now: Instant) {
        self.end_session(session, CloseReason::Local, now);
    }

    /// Keeps connections free for requests (M4), at a driver that accepts at most this many connections: streams that
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
    pub fn limit_to_connections(&mut self, connections: usize) {
        let streams = &mut self.transport.config.max_streams;
        *streams = Some(connections.div_ceil(2).min(streams.unwrap_or(usize::MAX)));
        for handling in std::iter::once(&mut self.handling).chain(self.served_requests.iter_mut()) {
            let subscriptions = &mut handling.config_mut().limits.subscriptions;
            *subscriptions = connections.div_ceil(4).min(*subscriptions);
        }
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
        self.note_origin(key, &head);
        let planned = self.planned(&head, &info);
        let is_unknown = planned.as_ref().is_err_and(|refusal| *refusal == admission::unknown_session());
        let sealed = if is_unknown { self.sealed_state(&head, &info) } else { None };
        if let Some(id) = self.id_to_look_up(&head, &planned) {
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
            Stage::Closed => Err(admission::stopped()),
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
                return self.refuse(key, refusal, header_check::unreadable_id(&head.headers), output);
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
                if let Some(resource) = self.config.metadata_at(head.uri.path()) {
                    let response = metadata::document(resource);
                    self.act_response(key, response, output);
                }
            }
            Plan::MetadataPreflight => self.act_response(key, metadata::preflight(), output),
            Plan::Preflight { methods } => self.act_response(key, cors::permission(methods, &head), output),
            Plan::Get { session } if self.stored_at(session).is_some() => {
                self.open_get_stream_stored(key, session, &info, output);
            }
            Plan::Resume { session, after } if self.stored_at(session).is_some() => {
                self.resume_stored(key, session, &after, &info, output);
            }
            Plan::Delete { session } if self.stored_at(session).is_some() => self.forget(key, session, output),
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
            Plan::Get { .. } | Plan::OpenStream => Err(admission::stopped()),
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
        let Some((head, plan, info, body)) = self.take_received(exchange, output) else { return };
        // The server may have been closed between the head and the end of the body.
        if self.stage == Stage::Closed {
            return self.refuse(exchange, admission::stopped(), header_check::unreadable_id(&head.headers), output);
        }
        let frame = Frame::parse(&body, &self.limits);
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
        self.unwritten.forget(exchange);
        output.clear_timer(HttpTimer::Unread(exchange));
        self.allowed_origins.remove(exchange);
        let Some(closed) = self.close_exchange(exchange, output) else { return };
        if let Some(session) = closed.session() {
            self.store_settings_of(session, exchange, output);
        }
        if closed.is_stateless() {
            output.inbound.push_back(Inbound::Disconnected { reply_to: exchange.to_reply() });
        } else if let Exchange::Streaming { session: Some(session), stream: None } = closed {
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

    /// Writes bytes without meaning to a client, to detect whether the client is gone.
    fn probe(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        match self.exchanges.get(exchange) {
            Some(Exchange::Streaming { .. }) => {
                let mut comment = Vec::new();
                encode_comment(&mut comment);
                self.write_chunk(exchange, comment.into(), output);
            }
            Some(Exchange::Waiting { .. } | Exchange::Storing { .. }) => {
                output.out.act(HttpAction::Continue { exchange });
            }
            Some(Exchange::Receiving { .. }) => {}
            None => return,
        }
        output.set_timer(HttpTimer::KeepAlive(exchange), output.now + self.config.keep_alive);
    }

    fn on_due(&mut self, timer: HttpTimer, output: &mut Output<'_>) {
        match timer {
            HttpTimer::Body(exchange) => {
                let Some(closed) = self.close_exchange(exchange, output) else { return };
                let refusal = Refusal::new(StatusCode::REQUEST_TIMEOUT, "the message did not come in time");
                self.refuse(exchange, refusal, closed.unreadable_id(), output);
            }
            HttpTimer::KeepAlive(exchange) => self.probe(exchange, output),
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
            HttpStep::Respond { exchange, response } => self.act_response(exchange, response, output),
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

    /// A client that does not read its response is treated as disconnected (K1).
    fn on_unread(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        if !self.unwritten.is_aborted(exchange) {
            self.abort_unread(exchange, output);
        }
        self.on_disconnect(exchange, output);
    }

    fn open_session(
        &mut self,
        info: &RequestInfo,
        kind: SessionKind,
        output: &mut Output<'_>,
    ) -> Result<SessionKey, Refusal> {
        let collision = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no unique session id could be created");
        let key = self.sessions.open(info, kind, output.now).ok_or(collision)?;
        // A session in the store must be renewed there before it expires.
        let idle = self.config.session_idle;
        output
            .set_timer(HttpTimer::Idle(key), output.now + if self.config.stored().is_some() { idle / 2 } else { idle });
        Ok(key)
    }

    /// The state that the session id of a request contains, if it belongs to the sender and was not ended here.
    fn sealed_state(&self, head: &Parts, info: &RequestInfo) -> Option<(Nonce, SessionState)> {
        let (sealed, now) = (self.config.sealed()?, info.unix_time?);
        let id = admission::single(&head.headers, &SESSION_ID).ok()??;
        let (nonce, state) = sealed.open(id, info.principal(), now)?;
        // Another instance may serve other revisions.
        (!self.sessions.has_ended(&nonce) && self.versions.contains(state.version)).then_some((nonce, state))
    }

    /// A request names a session that another instance has opened, or that was ended here for lack of use.
    fn make_room_to_restore(
        &mut self,
        exchange: ExchangeKey,
        head: Parts,
        info: RequestInfo,
        nonce: Nonce,
        state: SessionState,
        output: &mut Output<'_>,
    ) {
        match self.make_room_for_session(&info.holder(), output) {
            Ok(()) => {
                let head = Box::new(head);
                let arriving = Arriving { exchange, head, info, body: Vec::new(), is_whole: false };
                output.defer(HttpStep::Restore { arriving, nonce, state });
            }
            Err(refusal) => self.refuse(exchange, refusal, header_check::unreadable_id(&head.headers), output),
        }
    }

    fn restore(&mut self, arriving: Arriving, nonce: Nonce, state: SessionState, output: &mut Output<'_>) {
        let id = arriving.head.headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let kind = SessionKind::Sealed { nonce };
        let session = id.and_then(|id| self.sessions.restore(id, kind, state.version, &arriving.info, output.now));
        if let Some(session) = session {
            output.set_timer(HttpTimer::Idle(session), output.now + self.config.session_idle);
            output.inbound.push_back(Inbound::Restored { session, state });
        }
        output.defer(HttpStep::Admit(arriving));
    }

    /// Admits a request after the search for its session, with the part of its body that has arrived.
    fn admit(&mut self, arriving: Arriving, output: &mut Output<'_>) {
        let Arriving { exchange, head, info, body, is_whole } = arriving;
        let planned = self.planned(&head, &info);
        self.on_planned(exchange, planned, *head, info, output);
        // The body was within the limits when it arrived.
        if self.exchanges.append(exchange, &body, 0, &self.limits).is_ok() && is_whole {
            self.on_body_end(exchange, output);
        }
    }

    /// Ends an unused session at the limit, so that idle sessions cannot lock out new ones (M4).
    fn make_room_for_session(&mut self, newcomer: &Holder, output: &mut Output<'_>) -> Result<(), Refusal> {
        if self.stage != Stage::Serving {
            return Err(admission::stopped());
        }
        if self.sessions.len() < self.config.max_sessions {
            return Ok(());
        }
        // A disconnected client may have a request that is still being served (SH-S-16).
        let is_idle = |key: &SessionKey| self.sessions.get(*key).is_none_or(|session| !session.is_serving);
        let candidates = self.sessions.to_evict(newcomer, self.config.evict_after, output.now).take(CANDIDATES);
        let session = candidates.into_iter().find(is_idle).ok_or(admission::too_many_sessions())?;
        output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Expired });
        Ok(())
    }

    fn on_idle(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get(session) else { return };
        let (now, idle) = (output.now, self.config.session_idle);
        let is_busy = found.exchanges > 0 || found.is_serving;
        let ends = if is_busy { now + idle } else { found.last_active + idle };
        if ends > now {
            let stored = found.stored();
            // The store does not know that the session is in use, or was until not long ago.
            let is_touched =
                stored.is_some_and(|stored| is_busy || found.last_active + idle / 2 > now || stored.closed.is_some());
            output.set_timer(HttpTimer::Idle(session), if stored.is_some() { ends.min(now + idle / 2) } else { ends });
            if is_touched {
                self.touch_stored(session, output);
            }
        } else {
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Expired });
        }
    }
}
