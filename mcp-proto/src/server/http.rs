//! The HTTP transport of a server: Streamable HTTP and the two endpoints of 2024-11-05.
//!
//! A message is answered on the exchange on which it arrived, independent of its id (invariant 2). The HTTP response is
//! JSON unless another message must be sent before the answer; then it becomes a stream of events.
//!
//! ```text
//!                head is fine            body is a request            answer
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
//! | `admission` | the checks of a request's head, in order |
//! | `request_info` | what the driver states about a request besides its head |
//! | `post` | messages that clients post |
//! | `stateless` | stateless requests |
//! | `header_check` | compares headers with the body |
//! | `get` | streams that clients open |
//! | `refusal` | error responses with an HTTP status |
//! | `action` | actions for the driver |
//! | `exchange` | one exchange, from the head of its request to the end of its response |
//! | `session` | sessions by their ids |
//! | `stream` | events of one stream, and their replay |
//! | `unwritten` | bytes of responses that are not written yet |
//! | `carrier` | turns messages of the server into responses and events |

mod access;
mod action;
mod admission;
mod carrier;
mod config;
mod exchange;
mod get;
pub(super) mod header_check;
mod post;
mod refusal;
mod request_info;
mod session;
mod stateless;
mod stream;
mod unwritten;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::Server;
use super::peer::Peer;
use super::shares::{Holder, Shares};
use crate::Instant;
use crate::client::CloseReason;
use crate::codec::jsonrpc::Frame;
use crate::codec::sse::encode_comment;
use crate::conversation::deadlines::Deadlines;
use crate::conversation::pending::SessionKey;
use crate::limits::Limits;
use crate::spec::ProtocolVersion;
use crate::transport::{Transport, sealed};
use admission::Plan;
use exchange::Exchange;
use refusal::{Refusal, empty};
use session::Sessions;
use unwritten::Unwritten;

pub use action::HttpAction;
pub use config::{Access, HttpConfig, TwoEndpoints};
pub use exchange::ExchangeKey;
pub use refusal::{server_stopped, too_many_connections};
pub use request_info::expects_continue;
pub use request_info::{Principal, RequestInfo};

/// How many unused sessions or streams are checked to find one that can be ended.
const CANDIDATES: usize = 16;

/// The HTTP transport of a server.
pub struct Http {
    config: HttpConfig,
    limits: Limits,
    /// Whether sessions, which begin with `initialize`, are served.
    serves_sessions: bool,
    /// Whether stateless requests are served.
    serves_stateless: bool,
    /// The revisions that `MCP-Protocol-Version` may name.
    versions: Vec<ProtocolVersion>,
    sessions: Sessions,
    exchanges: BTreeMap<ExchangeKey, Exchange>,
    /// The streams that clients opened by GET.
    streams: Shares<ExchangeKey>,
    /// Open `subscriptions/listen`, which have no session.
    listens: Shares<ExchangeKey>,
    next_exchange: u64,
    unwritten: Unwritten,
    /// Bytes of request bodies that have not arrived in full.
    receiving: usize,
    timers: Deadlines<Timer>,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The body must have arrived.
    Body(ExchangeKey),
    /// Nothing was written to the stream for a while: a comment keeps it alive.
    KeepAlive(ExchangeKey),
    /// The session has been idle.
    Idle(SessionKey),
    /// The client has read nothing of its response.
    Unread(ExchangeKey),
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
            serves_sessions: true,
            serves_stateless: false,
            versions: Vec::new(),
            sessions: Sessions::new(),
            exchanges: BTreeMap::new(),
            streams: Shares::new(),
            listens: Shares::new(),
            next_exchange: 0,
            unwritten: Unwritten::default(),
            receiving: 0,
            timers: Deadlines::new(),
            is_closed: false,
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
        let http = &mut self.transport;
        let key = http.new_exchange();
        let planned = if http.is_closed { Err(admission::stopped()) } else { http.plan(&head, &info) };
        let plan = match planned {
            Ok(plan) => plan,
            Err(refusal) => {
                self.refuse(key, refusal, now);
                return key;
            }
        };
        match plan {
            Plan::Post { .. } | Plan::PostMessage { .. } => {
                let at = now + http.config.body_timeout;
                let continues = expects_continue(&head);
                let head = Box::new(head);
                http.insert_exchange(key, Exchange::Receiving { head, plan, info, body: Vec::new() });
                http.timers.set(Timer::Body(key), at);
                if continues {
                    self.out.act(HttpAction::Continue { exchange: key });
                }
            }
            Plan::Get { session } => self.open_own_stream(key, session, &info.holder(), now),
            Plan::Resume { session, after } => self.resume(key, session, &after, &info.holder(), now),
            Plan::OpenStream => self.open_two_endpoint_session(key, &info, now),
            Plan::Delete { session } => {
                self.end_session(session, CloseReason::Peer, now);
                self.respond_at_once(key, empty(StatusCode::NO_CONTENT), now);
            }
        }
        key
    }

    /// A chunk of a request body has arrived; it may have any size.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        if let Err(refusal) = self.transport.append(exchange, chunk, self.held) {
            self.transport.close_exchange(exchange, now);
            self.refuse(exchange, refusal, now);
        }
    }

    /// The body of a request has ended.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        let Some((head, plan, info, body)) = self.transport.take_received(exchange, now) else { return };
        let frame = Frame::parse(&body, &self.config().limits);
        match plan {
            Plan::Post { session } => self.on_post(exchange, session, frame, head, &info, now),
            Plan::PostMessage { session } => self.on_post_message(exchange, session, frame, now),
            Plan::Get { .. } | Plan::Resume { .. } | Plan::OpenStream | Plan::Delete { .. } => {}
        }
    }

    /// The driver has written this many more bytes of an exchange's response body: of [`HttpAction::Respond`] and
    /// [`HttpAction::Write`].
    ///
    /// Bytes that were not reported count against [`Limits::unwritten`](crate::Limits::unwritten); a stream that
    /// exceeds it is aborted. Those of all exchanges together count against [`Limits::held`](crate::Limits::held). An
    /// exchange for which nothing is reported for [`HttpConfig::unread_timeout`] is aborted. If an exchange breaks off
    /// after its response was passed to the driver, the driver calls [`Server::handle_disconnect`].
    pub fn handle_written(&mut self, exchange: ExchangeKey, bytes: usize, now: Instant) {
        self.transport.on_written(exchange, bytes, now);
        self.report_not_written(now);
    }

    /// The client has disconnected from an exchange. Its request continues if it belongs to a session (SH-S-16), and is
    /// cancelled if it is stateless (SH-S-17).
    pub fn handle_disconnect(&mut self, exchange: ExchangeKey, now: Instant) {
        self.transport.unwritten.forget(exchange);
        self.transport.timers.clear(Timer::Unread(exchange));
        let Some(closed) = self.transport.close_exchange(exchange, now) else { return };
        if closed.is_stateless() {
            let (peers, shared) = &mut self.split(now);
            if let Some(peer) = peers.get_mut(&None) {
                peer.on_disconnect(exchange, shared);
            }
            return;
        }
        if let Exchange::Streaming { session: Some(session), stream: None } = closed {
            // Closing the stream of a two-endpoint session ends the session (HS-10).
            if self.transport.sessions.get(session).is_some_and(|session| session.is_two_endpoint) {
                self.end_session(session, CloseReason::Peer, now);
            }
        }
    }

    /// Ends a session: its open requests receive an error. Later requests in it are answered with 404 (SH-S-43).
    pub fn end(&mut self, session: SessionKey, now: Instant) {
        self.end_session(session, CloseReason::Local, now);
    }

    /// Ends all sessions, and answers all later requests with 503.
    pub fn close(&mut self, now: Instant) {
        self.transport.is_closed = true;
        for session in self.transport.sessions.keys() {
            self.end_session(session, CloseReason::Local, now);
        }
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&None) {
            peer.refuse_waiting(shared);
        }
    }

    /// Handles all timers that are due. Calling this early or twice does nothing (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.on_own_timers(now);
        while let Some(timer) = self.transport.timers.pop_due(now) {
            match timer {
                Timer::Body(exchange) => {
                    self.transport.close_exchange(exchange, now);
                    let refusal = Refusal::new(StatusCode::REQUEST_TIMEOUT, "the message did not come in time");
                    self.refuse(exchange, refusal, now);
                }
                Timer::KeepAlive(exchange) => {
                    let mut comment = Vec::new();
                    encode_comment(&mut comment);
                    let (_, shared) = &mut self.split(now);
                    shared.transport.write_chunk(exchange, comment.into(), &mut shared.wire);
                    let next = now + self.transport.config.keep_alive;
                    self.transport.timers.set(Timer::KeepAlive(exchange), next);
                }
                Timer::Unread(exchange) => self.on_unread(exchange, now),
                Timer::Idle(session) => self.on_idle(session, now),
                Timer::Forget(session, exchange) => {
                    if let Some(session) = self.transport.sessions.get_mut(session) {
                        session.forget_stream(exchange);
                    }
                }
            }
        }
    }

    /// Whether the driver should read more requests. `false` if outputs are not polled fast enough (H5).
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.out.has_room(&self.config().limits)
    }

    /// The number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.transport.sessions.len()
    }

    fn refuse(&mut self, exchange: ExchangeKey, refusal: Refusal, now: Instant) {
        self.respond_at_once(exchange, refusal.into_response(), now);
    }

    /// Answers a request whose exchange is not stored.
    fn respond_at_once(&mut self, exchange: ExchangeKey, response: Response<Bytes>, now: Instant) {
        let (_, shared) = &mut self.split(now);
        shared.transport.act_response(exchange, response, &mut shared.wire);
    }

    /// A client that does not read its response is treated as disconnected (K1).
    fn on_unread(&mut self, exchange: ExchangeKey, now: Instant) {
        let (_, shared) = &mut self.split(now);
        if !shared.transport.unwritten.is_aborted(exchange) {
            shared.transport.abort_unread(exchange, &mut shared.wire);
        }
        self.handle_disconnect(exchange, now);
    }

    fn open_session(&mut self, info: &RequestInfo, is_two_endpoint: bool, now: Instant) -> Result<SessionKey, Refusal> {
        // The server may have been closed between the head and the end of the body.
        if self.transport.is_closed {
            return Err(admission::stopped());
        }
        self.make_room_for_session(&info.holder(), now)?;
        let http = &mut self.transport;
        let collision = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the session could not be named");
        let key = http.sessions.open(info, is_two_endpoint, now).ok_or(collision)?;
        http.timers.set(Timer::Idle(key), now + http.config.session_idle);
        let peer = Peer::new(Some(key), &self.config().limits);
        self.peers.insert(Some(key), peer);
        Ok(key)
    }

    /// Ends an unused session at the limit, so that idle sessions cannot lock out new ones (M4).
    fn make_room_for_session(&mut self, newcomer: &Holder, now: Instant) -> Result<(), Refusal> {
        let http = &self.transport;
        if http.sessions.len() < http.config.max_sessions {
            return Ok(());
        }
        // A disconnected client may have a request that is still being served (SH-S-16).
        let is_idle = |key: &SessionKey| self.peers.get(&Some(*key)).is_none_or(|peer| peer.requests_in_flight() == 0);
        let long = http.config.evict_after;
        let evicted = http.sessions.to_evict(newcomer, long, now).take(CANDIDATES).find(is_idle);
        let evicted = evicted.ok_or(admission::too_many_sessions())?;
        self.end_session(evicted, CloseReason::Expired, now);
        Ok(())
    }

    fn on_idle(&mut self, session: SessionKey, now: Instant) {
        let Some(found) = self.transport.sessions.get(session) else { return };
        let idle = self.transport.config.session_idle;
        let is_busy =
            found.exchanges > 0 || self.peers.get(&Some(session)).is_some_and(|peer| peer.requests_in_flight() > 0);
        let ends = if is_busy { now + idle } else { found.last_active + idle };
        if ends > now {
            self.transport.timers.set(Timer::Idle(session), ends);
        } else {
            self.end_session(session, CloseReason::Expired, now);
        }
    }

    fn end_session(&mut self, session: SessionKey, reason: CloseReason, now: Instant) {
        self.close_session(Some(session), reason, now);
        self.peers.remove(&Some(session));
    }

    /// Removes a session whose id was never sent and that was not reported.
    fn drop_session(&mut self, session: SessionKey) {
        self.transport.sessions.remove(session);
        self.transport.timers.clear(Timer::Idle(session));
        self.peers.remove(&Some(session));
    }
}
