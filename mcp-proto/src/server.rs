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
//! | file | what it does |
//! |---|---|
//! | `config` | what the server is told before it serves |
//! | `event` | what it tells |
//! | `inbound` | what the client asks, tells and answers |
//! | `batch` | batches of 2025-03-26 |

mod batch;
mod config;
mod event;
mod inbound;

use crate::Instant;
use crate::client::{Call, CloseReason, Forwarding, Outcome};
use crate::deadlines::Deadlines;
use crate::error::{Failed, UsageError};
use crate::json::Json;
use crate::message::{ErrorObject, Message, Method, Notification, Request, RequestId, Response, code};
use crate::outbox::{Outbox, Output};
use crate::pending::{Incoming, Pending, RequestKey, Ticket, Waiting, progress_token};
use crate::transport::{Line, Stdio, StdioAction, Transport};
use crate::version::ProtocolVersion;
use batch::{BatchKey, Batches};

pub use config::Config;
pub use event::Event;

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
///             server.respond(ticket, Ok(Json::parse(r#"{"tools":[]}"#).unwrap()))?;
///         }
///         _ => {}
///     }
/// }
/// assert!(written.ends_with(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"tools\":[]}}\n"));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug)]
pub struct Server<T: Transport> {
    config: Config,
    transport: T,
    phase: Phase,
    version: Option<ProtocolVersion>,
    input_ended: bool,
    /// `notifications/initialized` that came before `initialize` was answered.
    early_confirmation: Option<Notification>,
    incoming: Incoming<Origin>,
    batches: Batches,
    pending: Pending,
    timers: Deadlines<Timer>,
    out: Outbox<T::Action, Event>,
}

/// Where a connection is in its life (RULES 7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Awaiting,
    /// `initialize` waits for the application's answer.
    Opening,
    Open,
    Ready,
    Closed,
}

/// What is known of a request of the client's.
#[derive(Debug)]
struct Origin {
    batch: Option<BatchKey>,
    opens_session: bool,
    token: Option<RequestId>,
    /// The last progress that was told (PR-02).
    progress: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Answer(RequestKey),
    Drain,
}

/// How far a request has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far; it must grow each time (PR-02).
    pub progress: f64,
    /// How far it can come, if that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<Box<str>>,
}

impl Server<Stdio> {
    /// A server on a byte stream.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    pub fn new(mut transport: Stdio, config: Config) -> Result<Self, UsageError> {
        config.check()?;
        transport.set_limits(&config.limits);
        Ok(Self {
            transport,
            phase: Phase::Awaiting,
            version: None,
            input_ended: false,
            early_confirmation: None,
            incoming: Incoming::new(),
            batches: Batches::default(),
            pending: Pending::new(config.limits.tombstones),
            timers: Deadlines::new(),
            out: Outbox::new(),
            config,
        })
    }

    /// Bytes have arrived from the client, in pieces of any size.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        for line in self.transport.read(bytes) {
            if self.phase == Phase::Closed {
                return;
            }
            match line {
                Line::Message(message) => self.on_message(message, None, now),
                Line::Batch(items) => self.on_batch(items, now),
                Line::Invalid(error) => self.on_invalid(error, None, now),
                Line::TooLong(subject) => self.on_long_line(subject, now),
            }
        }
    }

    /// The client's stream has ended: requests in flight are answered within a bound, then the connection closes (FR15).
    pub fn handle_eof(&mut self, now: Instant) {
        let Some(end) = self.transport.end() else { return };
        if self.phase == Phase::Closed {
            return;
        }
        if let Err(fault) = end {
            self.out.tell(Event::Faulted(fault));
        }
        self.input_ended = true;
        // H4: nobody is left to answer.
        for request in self.pending.keys() {
            self.finish(request, Outcome::Failed(Failed::Closed));
        }
        self.out.tell(Event::InputEnded);
        self.timers.set(Timer::Drain, now + self.config.drain_timeout);
        self.close_if_drained();
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
    pub fn respond(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>) -> Result<(), UsageError> {
        let Some((id, origin)) = self.incoming.remove(ticket.key()) else { return Ok(()) };
        let is_own = self.config.forwarding == Forwarding::Own;
        let rules = self.version.unwrap_or(ProtocolVersion::LATEST_LEGACY).rules();
        let reserved =
            answer.as_ref().err().map(ErrorObject::code).filter(|code| is_own && !rules.allows_error_code(*code));
        let answer = match reserved {
            Some(_) => Err(ErrorObject::new(code::INTERNAL_ERROR, "internal error")),
            None => answer,
        };
        if origin.opens_session {
            self.on_initialize_answered(answer.as_ref().ok());
        }
        let response = match answer {
            Ok(result) => Response::Result { id, result },
            Err(error) => Response::Error { id: Some(id), error },
        };
        self.settle(origin.batch, Some(response));
        if let Some(early) = self.early_confirmation.take().filter(|_| self.phase == Phase::Open) {
            self.on_initialized(early.params);
        }
        self.close_if_drained();
        reserved.map_or(Ok(()), |code| Err(UsageError::ReservedErrorCode { code }))
    }

    /// Tells how far a request has come, if its client asked for that. Progress that does not grow is not told (PR-02).
    pub fn progress(&mut self, ticket: &Ticket, progress: &Progress) {
        let Some(origin) = self.incoming.get_mut(ticket.key()) else { return };
        let Some(token) = &origin.token else { return };
        let grows = progress.progress > origin.progress;
        if !grows {
            return;
        }
        origin.progress = progress.progress;
        let mut params = Json::empty_object();
        if let Some(message) = &progress.message {
            params = params.with_member("message", &Json::from(&**message));
        }
        for (name, value) in [("total", progress.total), ("progress", Some(progress.progress))] {
            // NaN and infinity are no JSON.
            if let Some(value) = value.and_then(|value| Json::from_serialize(&value).ok()) {
                params = params.with_member(name, &value);
            }
        }
        let params = params.with_member("progressToken", &token.to_json());
        self.write(&Notification::with_params(Method::PROGRESS, params).into());
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent; nothing was sent then.
    pub fn notify(&mut self, notification: Notification) -> Result<(), UsageError> {
        self.check_open()?;
        if notification.method == Method::CANCELLED {
            return Err(UsageError::ReservedMethod { method: notification.method });
        }
        self.write(&notification.into());
        Ok(())
    }

    /// Asks the client for something. Exactly one [`Event::Responded`] with the returned key follows.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the request cannot be made; nothing was sent then.
    pub fn request(&mut self, call: Call, now: Instant) -> Result<RequestKey, UsageError> {
        self.check_open()?;
        if self.input_ended {
            return Err(UsageError::Closed);
        }
        // LC-10: until the client has confirmed, it is asked for nothing but a sign of life.
        let may_ask = self.phase == Phase::Ready || call.method == Method::PING;
        if self.config.forwarding == Forwarding::Own && !may_ask {
            return Err(UsageError::NotConnected);
        }
        let limit = self.config.limits.requests_out;
        if self.pending.len() >= limit {
            return Err(UsageError::TooManyRequests { limit });
        }
        let timeout = call.timeout.unwrap_or(self.config.request_timeout);
        let latest = now + self.config.max_timeout.max(timeout);
        let token = progress_token(call.params.as_ref());
        let method = call.method;
        let request = self.pending.insert(Waiting { method: method.clone(), timeout, latest, token });
        self.timers.set(Timer::Answer(request), now + timeout);
        self.write(&Request { id: request.to_wire(), method, params: call.params }.into());
        Ok(request)
    }

    /// Takes a request of this side back. Its outcome is [`Failed::Cancelled`], unless it has ended already.
    pub fn cancel(&mut self, request: RequestKey, reason: Option<&str>) {
        let mut params = Json::empty_object();
        if let Some(reason) = reason {
            params = params.with_member("reason", &Json::from(reason));
        }
        self.cancel_with(request, &params);
    }

    /// As [`Server::cancel`], with these parameters of the notification, in which only `requestId` is set.
    pub fn cancel_with(&mut self, request: RequestKey, params: &Json) {
        self.give_up(request, Failed::Cancelled, params);
    }

    /// Ends the connection at once.
    pub fn close(&mut self) {
        self.close_because(CloseReason::Local);
    }

    /// Lets everything happen that is due. Calling this early or twice does nothing (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Answer(request) => {
                    let Some(waiting) = self.pending.get(request) else { continue };
                    let reason = Failed::TimedOut { after: waiting.timeout };
                    let params = Json::empty_object().with_member("reason", &Json::from("timed out"));
                    self.give_up(request, reason, &params);
                }
                Timer::Drain => self.close_because(CloseReason::Peer),
            }
        }
    }

    /// The next thing to do or to know. Draining is needed for progress, never for correctness.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<StdioAction, Event>> {
        self.out.pop()
    }

    /// When [`Server::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether more input should be read. With `false`, the output is not taken fast enough, or as many requests as the
    /// limit allows wait for the application (H5, RP10).
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.out.has_room(&self.config.limits) && self.incoming.len() < self.config.limits.requests_in
    }

    /// The revision in force.
    #[must_use]
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Requests of the client's that are not answered yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.incoming.len()
    }

    /// Whether [`Event::Closed`] was told or is about to be.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    fn check_open(&self) -> Result<(), UsageError> {
        match self.phase {
            Phase::Awaiting => Err(UsageError::NotConnected),
            Phase::Closed => Err(UsageError::Closed),
            Phase::Opening | Phase::Open | Phase::Ready => Ok(()),
        }
    }

    fn refuse(&mut self, id: Option<RequestId>, error: &ErrorObject, batch: Option<BatchKey>) {
        let message = Message::Response(Response::Error { id, error: error.clone() });
        match batch {
            Some(batch) => self.batches.add(batch, message),
            None => self.write(&message),
        }
    }

    fn answer_at_once(&mut self, id: RequestId, result: Json, batch: Option<BatchKey>) {
        let message = Message::Response(Response::Result { id, result });
        match batch {
            Some(batch) => self.batches.add(batch, message),
            None => self.write(&message),
        }
    }

    /// A request of the client's has its outcome.
    fn settle(&mut self, batch: Option<BatchKey>, response: Option<Response>) {
        let message = response.map(Message::Response);
        let Some(batch) = batch else {
            if let Some(message) = message {
                self.write(&message);
            }
            return;
        };
        // JR-35: a batch of notifications has no answer.
        if let Some(answers) = self.batches.settle(batch, message).filter(|answers| !answers.is_empty()) {
            self.transport.write_batch(&answers, &mut self.out);
        }
    }

    fn give_up(&mut self, request: RequestKey, reason: Failed, params: &Json) {
        if self.pending.give_up(request).is_none() {
            return;
        }
        let params = params.with_member("requestId", &request.to_wire().to_json());
        self.write(&Notification::with_params(Method::CANCELLED, params).into());
        self.timers.clear(Timer::Answer(request));
        self.out.tell(Event::Responded { request, outcome: Outcome::Failed(reason) });
    }

    fn finish(&mut self, request: RequestKey, outcome: Outcome) {
        if self.pending.remove(request).is_some() {
            self.timers.clear(Timer::Answer(request));
            self.out.tell(Event::Responded { request, outcome });
        }
    }

    fn write(&mut self, message: &Message) {
        self.transport.write(message, &mut self.out);
    }

    fn close_if_drained(&mut self) {
        if self.input_ended && self.incoming.len() == 0 {
            self.close_because(CloseReason::Peer);
        }
    }

    fn close_because(&mut self, reason: CloseReason) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        // Invariant 1: who still waits hears that nothing more will come.
        for ticket in self.incoming.keys() {
            let Some((id, origin)) = self.incoming.remove(ticket) else { continue };
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the connection was closed before the answer came");
            self.settle(origin.batch, Some(Response::Error { id: Some(id), error }));
            self.out.tell(Event::Cancelled { ticket, params: None });
        }
        for request in self.pending.keys() {
            self.finish(request, Outcome::Failed(Failed::Closed));
        }
        self.timers.clear_all();
        self.transport.close(&mut self.out);
        self.out.tell(Event::Closed(reason));
    }
}
