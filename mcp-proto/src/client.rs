//! The client: requests and their outcomes, the handshake, and what the server asks and tells.
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
//! | file | what it does |
//! |---|---|
//! | `config` | what the client is told before it connects; calls |
//! | `event` | what it tells |
//! | `handshake` | opening, confirming, losing and opening again (RULES section 7) |
//! | `carrier` | what it needs of a transport |
//! | `http` | HTTP |

mod carrier;
mod config;
mod event;
mod handshake;
mod http;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, Jitter};
use crate::deadlines::Deadlines;
use crate::error::{Failed, Fault, InvalidResponse, Quirk, UsageError};
use crate::json::Json;
use crate::message::{
    BUSY, ErrorObject, Message, Method, Notification, ParseError, Request, RequestId, Response, Subject, code,
};
use crate::outbox::{Outbox, Output};
use crate::pending::{Incoming, Match, Pending, RequestKey, Ticket, Waiting, progress_token};
use crate::transport::{Line, Stdio, Transport, too_long};
use crate::version::ProtocolVersion;
use carrier::{Carrier, Inbound, Role, Wire};
use handshake::{Handshake, Phase};

pub use config::{Call, Config, Confirmation, Forwarding};
pub use event::{CloseReason, Event, Occasion, Outcome, Scope, Unavailable};
pub use http::{ExchangeKey, Failure, Http, HttpAction, HttpConfig, HttpTransport};

/// Bytes of a progress notification that is kept although the queue has no room.
const LATE_PROGRESS: usize = 1024;

/// The client's side of one connection.
///
/// `Client<Stdio>` is fed bytes, `Client<Http>` what happens to HTTP exchanges. All other methods are the same.
///
/// # Example: a whole conversation over a byte stream
///
/// ```
/// use mcp_proto::client::{Call, Client, Config, Event, Outcome};
/// use mcp_proto::{Instant, Output, Stdio, StdioAction};
///
/// let now = Instant::now();
/// let mut client = Client::new(Stdio::new(), Config::new("my-app", "1.0.0"))?;
/// client.connect(now)?;
/// // The driver writes what `poll_output` gives to the server, and hands in what the server writes.
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
#[derive(Debug)]
pub struct Client<T: Transport> {
    config: Config,
    pub(crate) transport: T,
    phase: Phase,
    handshake: Option<Handshake>,
    version: Option<ProtocolVersion>,
    pending: Pending,
    /// Requests that wait for the handshake.
    held: VecDeque<(RequestKey, Message)>,
    incoming: Incoming<Scope>,
    timers: Deadlines<Timer>,
    backoff: Backoff,
    jitter: Jitter,
    quirks: BTreeSet<Quirk>,
    /// The newest progress of each request that found no room in the queue (RP12).
    late_progress: BTreeMap<RequestKey, Json>,
    dropped: u64,
    inbound: VecDeque<Inbound>,
    out: Outbox<T::Action, Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Answer(RequestKey),
    Reconnect,
    /// Requests wait no longer for the application to confirm the session.
    Unconfirmed,
}

impl<T: Carrier> Client<T> {
    /// A client that uses this transport.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    pub fn new(mut transport: T, config: Config) -> Result<Self, UsageError> {
        config.check()?;
        transport.configure(&config.limits, config.seed);
        Ok(Self {
            transport,
            phase: Phase::Idle,
            handshake: None,
            version: None,
            pending: Pending::new(config.limits.tombstones),
            held: VecDeque::new(),
            incoming: Incoming::new(),
            timers: Deadlines::new(),
            backoff: Backoff::new(&config.limits),
            jitter: Jitter::new(config.seed),
            quirks: BTreeSet::new(),
            late_progress: BTreeMap::new(),
            dropped: 0,
            inbound: VecDeque::new(),
            out: Outbox::new(),
            config,
        })
    }

    /// Opens the connection with the `initialize` that the configuration describes.
    ///
    /// [`Event::Connected`] or [`Event::Unavailable`] follows. Requests may be made at once; they wait.
    ///
    /// # Errors
    ///
    /// [`UsageError::AlreadyConnected`] or [`UsageError::Closed`].
    pub fn connect(&mut self, now: Instant) -> Result<(), UsageError> {
        let params = self.config.initialize_params();
        self.connect_with(params, now)
    }

    /// Opens the connection with these parameters of `initialize`, which cross as they are.
    ///
    /// Where nobody has used the connection yet, or it could not be made, this may be called again, and begins anew.
    ///
    /// # Errors
    ///
    /// [`UsageError::AlreadyConnected`] or [`UsageError::Closed`].
    pub fn connect_with(&mut self, params: Json, now: Instant) -> Result<(), UsageError> {
        match self.phase {
            Phase::Idle | Phase::Down | Phase::Unconfirmed | Phase::Opening { awaited: false, .. } => {}
            Phase::Opening { awaited: true, .. } | Phase::Confirming | Phase::Ready => {
                return Err(UsageError::AlreadyConnected);
            }
            Phase::Closing(_) | Phase::Closed => return Err(UsageError::Closed),
        }
        self.handshake = Some(Handshake::new(params));
        self.open(true, now);
        Ok(())
    }

    /// Sends `notifications/initialized`, if the configuration leaves that to the application.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotConnected`] if `initialize` was not answered, [`UsageError::AlreadyConnected`] if this has been
    /// done.
    pub fn confirm(&mut self, params: Option<Json>, now: Instant) -> Result<(), UsageError> {
        match self.phase {
            Phase::Unconfirmed => {}
            Phase::Idle | Phase::Down | Phase::Opening { .. } => return Err(UsageError::NotConnected),
            Phase::Confirming | Phase::Ready => return Err(UsageError::AlreadyConnected),
            Phase::Closing(_) | Phase::Closed => return Err(UsageError::Closed),
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
        if [Method::INITIALIZE, Method::INITIALIZED, Method::CANCELLED].contains(&call.method) {
            return Err(UsageError::ReservedMethod { method: call.method });
        }
        self.check_params(call.params.as_ref())?;
        let limit = self.config.limits.requests_out;
        if self.pending.len() >= limit {
            return Err(UsageError::TooManyRequests { limit });
        }
        let timeout = call.timeout.unwrap_or(self.config.request_timeout);
        let params = if call.progress { self.with_progress_token(call.params) } else { call.params };
        let (request, message) = self.wait_for(call.method, params, timeout, now);
        if self.phase.takes_requests() && self.held.is_empty() {
            self.with_wire(now, |transport, wire| transport.send(&message, Role::Request(request), now, wire));
        } else {
            self.held.push_back((request, message));
            self.try_on_demand(now);
        }
        Ok(request)
    }

    /// Sends a notification. Where there is no session yet, there is nobody to tell.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent; nothing was sent then.
    pub fn notify(&mut self, notification: Notification, now: Instant) -> Result<(), UsageError> {
        self.check_open()?;
        if [Method::INITIALIZED, Method::CANCELLED].contains(&notification.method) {
            return Err(UsageError::ReservedMethod { method: notification.method });
        }
        self.check_params(notification.params.as_ref())?;
        if !self.phase.takes_requests() {
            return Err(UsageError::NotConnected);
        }
        let message = Message::Notification(notification);
        self.with_wire(now, |transport, wire| transport.send(&message, Role::Notification, now, wire));
        Ok(())
    }

    /// Takes a request back. Its outcome is [`Failed::Cancelled`], unless it has ended already; the server is told.
    pub fn cancel(&mut self, request: RequestKey, reason: Option<&str>, now: Instant) {
        let mut params = Json::empty_object();
        if let Some(reason) = reason {
            params = params.with_member("reason", &Json::from(reason));
        }
        self.cancel_with(request, &params, now);
    }

    /// As [`Client::cancel`], with these parameters of the notification, in which only `requestId` is set.
    pub fn cancel_with(&mut self, request: RequestKey, params: &Json, now: Instant) {
        self.give_up(request, Failed::Cancelled, params, now);
    }

    /// Answers a request of the server's.
    ///
    /// If the server has cancelled it, or its session is gone, this does nothing.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub fn answer(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        if let Some((id, scope)) = self.incoming.remove(ticket.key()) {
            self.resume_deadlines(scope, now);
            self.send_answer(id, answer, now);
        }
    }

    /// Ends the connection: requests in flight fail, the session is ended. [`Event::Closed`] follows.
    pub fn close(&mut self, now: Instant) {
        self.close_because(CloseReason::Local, now);
    }

    /// Lets everything happen that is due. Calling this early or twice does nothing (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Answer(request) => self.on_answer_timeout(request, now),
                Timer::Unconfirmed => self.send_held(now),
                Timer::Reconnect => {
                    if self.phase == Phase::Down {
                        self.open(false, now);
                    }
                }
            }
        }
        self.with_wire(now, |transport, wire| transport.handle_timeout(now, wire));
    }

    /// The next thing to do or to know. Draining is needed for progress, never for correctness.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<T::Action, Event>> {
        let output = self.out.pop()?;
        if self.out.has_room(&self.config.limits) {
            if let Some((request, params)) = self.late_progress.pop_first() {
                self.out.tell(Event::Progressed { request, params });
            }
            if self.dropped > 0 {
                let count = std::mem::take(&mut self.dropped);
                self.out.tell(Event::Faulted(Fault::Dropped { count }));
            }
        }
        Some(output)
    }

    /// When [`Client::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.timers.next(), self.transport.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether more input should be read. With `false`, the application is behind: drain the output first (H5).
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.out.has_room(&self.config.limits)
    }

    /// The revision in force.
    #[must_use]
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Whether the handshake is over and requests go straight to the server.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Whether [`Event::Closed`] was told or is about to be.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Requests that have no outcome yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.pending.len()
    }

    fn check_open(&self) -> Result<(), UsageError> {
        match self.phase {
            Phase::Idle => Err(UsageError::NotConnected),
            Phase::Closing(_) | Phase::Closed => Err(UsageError::Closed),
            Phase::Opening { .. } | Phase::Unconfirmed | Phase::Confirming | Phase::Ready | Phase::Down => Ok(()),
        }
    }

    fn check_params(&self, params: Option<&Json>) -> Result<(), UsageError> {
        // JR-12. A relay passes on what its client wrote, and lets the server judge it.
        let wrong = self.config.forwarding == Forwarding::Own && params.is_some_and(|params| !params.is_object());
        if wrong { Err(UsageError::ParamsNotAnObject) } else { Ok(()) }
    }

    fn with_progress_token(&self, params: Option<Json>) -> Option<Json> {
        if progress_token(params.as_ref()).is_some() {
            return params;
        }
        let params = params.unwrap_or(Json::empty_object());
        let meta = params.first_member("_meta").filter(Json::is_object).unwrap_or(Json::empty_object());
        let meta = meta.with_member("progressToken", &self.pending.next_key().to_wire().to_json());
        Some(params.with_member("_meta", &meta))
    }

    /// Enters a request into the table, with its deadline.
    fn wait_for(
        &mut self,
        method: Method,
        params: Option<Json>,
        timeout: Duration,
        now: Instant,
    ) -> (RequestKey, Message) {
        let latest = now + self.config.max_timeout.max(timeout);
        let token = progress_token(params.as_ref());
        let request = self.pending.insert(Waiting { method: method.clone(), timeout, latest, token });
        self.timers.set(Timer::Answer(request), now + timeout);
        (request, Message::Request(Request { id: request.to_wire(), method, params }))
    }

    fn on_answer_timeout(&mut self, request: RequestKey, now: Instant) {
        let Some(waiting) = self.pending.get(request) else { return };
        let reason = Failed::TimedOut { after: waiting.timeout };
        if self.phase.opening() == Some(request) {
            // LC-14: `initialize` is never cancelled.
            self.with_wire(now, |transport, wire| transport.abandon(request, now, wire));
            self.pending.give_up(request);
            self.opening_failed(Unavailable::Failed(reason), now);
            return;
        }
        // TO-02
        let params = Json::empty_object().with_member("reason", &Json::from("timed out"));
        self.give_up(request, reason, &params, now);
    }

    /// Ends a request from this side, and tells the server.
    fn give_up(&mut self, request: RequestKey, reason: Failed, params: &Json, now: Instant) {
        if self.phase.opening() == Some(request) || self.pending.give_up(request).is_none() {
            return;
        }
        let was_held = self.held.len();
        self.held.retain(|(held, _)| *held != request);
        if self.held.len() == was_held {
            let params = params.with_member("requestId", &request.to_wire().to_json());
            let notice = Message::Notification(Notification::with_params(Method::CANCELLED, params));
            self.with_wire(now, |transport, wire| transport.cancel(request, &notice, now, wire));
        }
        self.tell_outcome(request, Outcome::Failed(reason));
    }

    fn finish(&mut self, request: RequestKey, outcome: Outcome) {
        if self.pending.remove(request).is_some() {
            self.tell_outcome(request, outcome);
        }
    }

    fn tell_outcome(&mut self, request: RequestKey, outcome: Outcome) {
        self.timers.clear(Timer::Answer(request));
        self.late_progress.remove(&request);
        self.out.tell(Event::Responded { request, outcome });
    }

    fn send_answer(&mut self, id: RequestId, answer: Result<Json, ErrorObject>, now: Instant) {
        let response = match answer {
            Ok(result) => Response::Result { id, result },
            Err(error) => Response::Error { id: Some(id), error },
        };
        let message = Message::Response(response);
        self.with_wire(now, |transport, wire| transport.send(&message, Role::Answer, now, wire));
    }

    fn close_because(&mut self, reason: CloseReason, now: Instant) {
        if matches!(self.phase, Phase::Closing(_) | Phase::Closed) {
            return;
        }
        let opening = self.phase.opening();
        self.phase = Phase::Closing(reason);
        self.timers.clear_all();
        self.incoming.clear();
        self.held.clear();
        for request in self.pending.keys() {
            if opening == Some(request) {
                self.pending.remove(request);
            } else {
                self.finish(request, Outcome::Failed(Failed::Closed));
            }
        }
        self.with_wire(now, |transport, wire| transport.close(now, wire));
    }

    /// Lets the transport act, and deals with what it hands up until nothing is left.
    pub(crate) fn with_wire(&mut self, now: Instant, act: impl FnOnce(&mut T, &mut Wire<'_, T::Action>)) {
        act(&mut self.transport, &mut Wire { out: &mut self.out, inbound: &mut self.inbound });
        while let Some(inbound) = self.inbound.pop_front() {
            self.on_inbound(inbound, now);
        }
    }

    fn on_inbound(&mut self, inbound: Inbound, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        match inbound {
            Inbound::Message { message: Message::Request(request), during } => self.on_request(request, during, now),
            Inbound::Message { message: Message::Notification(notification), during } => {
                self.on_notification(notification, during, now);
            }
            Inbound::Message { message: Message::Response(response), .. } => self.on_response(response, now),
            Inbound::Invalid { error, during } => self.on_invalid(error, during, now),
            Inbound::StrayResponse(id) => self.on_stray_response(id),
            Inbound::Unanswered { request, reason } => {
                if self.phase.opening() == Some(request) {
                    self.pending.remove(request);
                    self.opening_failed(Unavailable::Failed(reason), now);
                } else {
                    self.finish(request, Outcome::Failed(reason));
                }
            }
            Inbound::Confirmed => self.on_confirmed(now),
            Inbound::SessionLost => self.on_session_lost(now),
            Inbound::Faulted(fault) => self.out.tell(Event::Faulted(fault)),
            Inbound::QuirkMet(quirk) => self.meet(quirk),
            Inbound::Ended => self.on_ended(now),
            Inbound::Closed => {
                let reason = if let Phase::Closing(reason) = self.phase { reason } else { CloseReason::Peer };
                self.phase = Phase::Closed;
                self.out.tell(Event::Closed(reason));
            }
        }
    }

    fn on_request(&mut self, request: Request, during: Option<RequestKey>, now: Instant) {
        let Request { id, method, params } = request;
        if matches!(self.phase, Phase::Closing(_)) {
            return;
        }
        let limit = self.config.limits.requests_in;
        if self.incoming.len() >= limit {
            self.out.tell(Event::Faulted(Fault::TooManyRequests { limit }));
            self.send_answer(id, Err(ErrorObject::new(BUSY, "too many requests at one time")), now);
            return;
        }
        if self.config.forwarding == Forwarding::Own {
            // LC-17
            if method == Method::PING {
                self.send_answer(id, Ok(Json::empty_object()), now);
                return;
            }
            // LC-19, RP14
            if let Some(capability) = needed_capability(&method) {
                if self.config.capabilities.first_member(capability).is_none() {
                    let error = ErrorObject::new(code::METHOD_NOT_FOUND, "the client did not declare this capability");
                    self.out.tell(Event::Faulted(Fault::UnexpectedRequest { method }));
                    self.send_answer(id, Err(error), now);
                    return;
                }
            }
        }
        if self.incoming.is_in_use(&id) {
            self.out.tell(Event::Faulted(Fault::DuplicateId { id: id.clone() }));
        }
        let scope = scope(during);
        let ticket = self.incoming.insert(id, scope);
        self.pause_deadlines(scope);
        self.tell_bounded(Event::Requested { ticket, scope, method, params }, now);
    }

    fn on_notification(&mut self, notification: Notification, during: Option<RequestKey>, now: Instant) {
        let Notification { method, params } = notification;
        if method == Method::CANCELLED {
            self.on_cancelled(params, now);
        } else if method == Method::PROGRESS {
            self.on_progress(params, now);
        } else {
            self.tell_bounded(Event::Notified { scope: scope(during), method, params }, now);
        }
    }

    /// CX-03: the server takes a request of its own back. What is malformed or unknown is ignored.
    fn on_cancelled(&mut self, params: Option<Json>, now: Instant) {
        let Some(params) = params else { return };
        let Some(id) = params.first_member("requestId") else { return };
        let Some(id) = RequestId::from_json_text(id.as_bytes()) else { return };
        // RP4: with one id for several requests, nobody knows which is meant, so none is left running.
        for ticket in self.incoming.with_id(&id) {
            if let Some((_, scope)) = self.incoming.remove(ticket) {
                self.resume_deadlines(scope, now);
            }
            self.out.tell(Event::RequestCancelled { ticket, params: params.clone() });
        }
    }

    fn on_progress(&mut self, params: Option<Json>, now: Instant) {
        let token = params.as_ref().and_then(|params| params.first_member("progressToken"));
        let token = token.and_then(|token| RequestId::from_json_text(token.as_bytes()));
        let request = token.and_then(|token| self.pending.find_token(&token));
        let (Some(request), Some(params)) = (request, params) else {
            self.out.tell(Event::Faulted(Fault::UnknownProgressToken));
            return;
        };
        if let Some(waiting) = self.pending.get(request) {
            // TO-03
            self.timers.set(Timer::Answer(request), (now + waiting.timeout).min(waiting.latest));
        }
        self.tell_bounded(Event::Progressed { request, params }, now);
    }

    /// TO-04: while the server waits for an answer of ours, which a person may have to give, the requests that it asks
    /// for may take as long as they ever may.
    fn pause_deadlines(&mut self, scope: Scope) {
        for request in self.requests_in(scope) {
            if let Some(waiting) = self.pending.get(request) {
                self.timers.set(Timer::Answer(request), waiting.latest);
            }
        }
    }

    fn resume_deadlines(&mut self, scope: Scope, now: Instant) {
        for request in self.requests_in(scope) {
            if let Some(waiting) = self.pending.get(request) {
                self.timers.set(Timer::Answer(request), (now + waiting.timeout).min(waiting.latest));
            }
        }
    }

    fn requests_in(&self, scope: Scope) -> Vec<RequestKey> {
        match scope {
            Scope::Request(request) => vec![request],
            // Any of them may be the reason.
            Scope::Connection => self.pending.keys(),
        }
    }

    fn on_response(&mut self, response: Response, now: Instant) {
        let Some(id) = response.id() else {
            if let Response::Error { error, .. } = response {
                self.out.tell(Event::Faulted(Fault::PeerError { code: error.code() }));
            }
            return;
        };
        let Match::Open(request) = self.pending.find(id) else {
            self.on_stray_response(id.clone());
            return;
        };
        if self.held.iter().any(|(held, _)| *held == request) {
            // What was never sent cannot be answered.
            self.on_stray_response(id.clone());
            return;
        }
        let outcome = match response {
            Response::Result { result, .. } => Outcome::Result(result),
            Response::Error { error, .. } => Outcome::Error(error),
        };
        if self.phase.opening() == Some(request) {
            self.pending.remove(request);
            self.timers.clear(Timer::Answer(request));
            self.on_initialize_outcome(outcome, now);
            return;
        }
        self.judge_result(request, &outcome);
        self.finish(request, outcome);
    }

    /// Results cross as they are; what is odd about them is told.
    fn judge_result(&mut self, request: RequestKey, outcome: &Outcome) {
        let Outcome::Result(result) = outcome else { return };
        let is_tool_call = self.pending.get(request).is_some_and(|waiting| waiting.method == Method::TOOLS_CALL);
        if is_tool_call && !self.quirks.contains(&Quirk::ToolResultWithoutContent) {
            let is_task = || result.first_member("task").is_some();
            if result.first_member("content").is_none() && !is_task() {
                self.meet(Quirk::ToolResultWithoutContent);
            }
        }
    }

    fn on_stray_response(&mut self, id: RequestId) {
        let fault = match self.pending.find(&id) {
            Match::Late => Fault::LateResponse { id },
            Match::Open(_) | Match::Unknown => Fault::UnknownResponse { id },
        };
        self.out.tell(Event::Faulted(fault));
    }

    /// A frame that is no message. A request in it is answered (P6), a response in it has failed; and nothing is said
    /// to a server that only prints to the wrong stream (ST-25).
    fn on_invalid(&mut self, error: ParseError, _during: Option<RequestKey>, now: Instant) {
        let answer = ErrorObject::new(error.code(), &error.to_string());
        let subject = error.subject.clone();
        self.out.tell(Event::Faulted(Fault::Parse(error)));
        match subject {
            Subject::Request(id) => self.send_answer(id, Err(answer), now),
            Subject::Response(_) | Subject::Either(_) | Subject::Unknown => {}
        }
    }

    fn meet(&mut self, quirk: Quirk) {
        if self.quirks.insert(quirk) {
            self.out.tell(Event::QuirkMet(quirk));
        }
    }

    /// The byte stream has ended: everything that waits gets its outcome at once (H1, H4).
    fn on_ended(&mut self, now: Instant) {
        self.close_because(CloseReason::Peer, now);
    }

    /// Tells what the server can send as much of as it likes. Over the limits, progress is reduced to the newest, what
    /// can be missed is dropped, and anything else ends the connection (RP9).
    fn tell_bounded(&mut self, event: Event, now: Instant) {
        if !self.out.is_overfull(&self.config.limits) {
            self.out.tell(event);
            return;
        }
        if let Event::Progressed { request, params } = event {
            let is_one_lost = params.len() > LATE_PROGRESS || self.late_progress.insert(request, params).is_some();
            self.dropped += u64::from(is_one_lost);
        } else if matches!(&event, Event::Notified { method, .. } if can_be_missed(method)) {
            self.dropped += 1;
        } else {
            self.close_because(CloseReason::Overflow, now);
        }
    }
}

impl Client<Stdio> {
    /// Bytes have arrived from the server, in pieces of any size.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        for line in self.transport.read(bytes) {
            match line {
                Line::Message(message) => self.on_inbound(Inbound::Message { message, during: None }, now),
                Line::Batch(items) => {
                    for item in items {
                        match item {
                            Ok(message) => self.on_inbound(Inbound::Message { message, during: None }, now),
                            Err(error) => self.on_invalid_line(error, now),
                        }
                    }
                }
                Line::Invalid(error) => self.on_invalid_line(error, now),
                Line::TooLong(subject) => self.on_long_line(subject, now),
            }
        }
    }

    /// The server's stream has ended.
    pub fn handle_eof(&mut self, now: Instant) {
        match self.transport.end() {
            Some(Err(fault)) => self.on_inbound(Inbound::Faulted(fault), now),
            Some(Ok(())) => {}
            None => return,
        }
        self.on_inbound(Inbound::Ended, now);
    }

    fn on_invalid_line(&mut self, error: ParseError, now: Instant) {
        // RP5: a broken response fails its request now, not when its time is up.
        let about = match &error.subject {
            Subject::Response(id) | Subject::Either(id) => Some(id.clone()),
            Subject::Request(_) | Subject::Unknown => None,
        };
        let reason = InvalidResponse::from(&error);
        self.on_inbound(Inbound::Invalid { error, during: None }, now);
        if let Some(Match::Open(request)) = about.map(|id| self.pending.find(&id)) {
            self.on_inbound(Inbound::Unanswered { request, reason: Failed::InvalidResponse { reason } }, now);
        }
        self.count_garbage(now);
    }

    fn on_long_line(&mut self, subject: Subject, now: Instant) {
        let limit = self.config.limits.message;
        self.on_inbound(Inbound::Faulted(Fault::LineTooLong { limit }), now);
        match subject {
            Subject::Response(id) | Subject::Either(id) => {
                if let Match::Open(request) = self.pending.find(&id) {
                    self.on_inbound(Inbound::Unanswered { request, reason: Failed::TooLarge { limit } }, now);
                }
            }
            Subject::Request(id) => self.send_answer(id, Err(too_long(limit)), now),
            Subject::Unknown => {}
        }
        self.count_garbage(now);
    }

    fn count_garbage(&mut self, now: Instant) {
        if self.transport.counts_garbage(now) {
            self.close_because(CloseReason::Garbage, now);
        }
    }
}

const fn scope(during: Option<RequestKey>) -> Scope {
    match during {
        Some(request) => Scope::Request(request),
        None => Scope::Connection,
    }
}

/// The capability that a client declares to be asked for this.
fn needed_capability(method: &Method) -> Option<&'static str> {
    match method.as_str() {
        "sampling/createMessage" => Some("sampling"),
        "roots/list" => Some("roots"),
        "elicitation/create" => Some("elicitation"),
        _ => None,
    }
}

/// Notifications of which the next one makes up for a missed one, or which only inform people.
fn can_be_missed(method: &Method) -> bool {
    [
        Method::MESSAGE,
        Method::TOOLS_LIST_CHANGED,
        Method::PROMPTS_LIST_CHANGED,
        Method::RESOURCES_LIST_CHANGED,
        Method::RESOURCES_UPDATED,
    ]
    .contains(method)
}
