//! The server: receives the requests of clients, answers those of the protocol by itself, and sends requests to
//! clients.
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
//! A request of 2026-07-28 is stateless. It depends on no phase and changes none, and it may arrive on the same stream
//! or endpoint as requests of a session.
//!
//! ```text
//!   transport ── Inbound ──▶ dispatch ──▶ Session   (one for each session)  ──▶ Event
//!  (stdio, http) ◀── write ─────────────── Stateless (all stateless requests)
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration |
//! | `setters` | methods that set the fields of a configuration |
//! | `event` | events for the application |
//! | `transport` | the interface between a server and its transport |
//! | `stdio` | the server on a byte stream |
//! | `http` | the server over HTTP |
//! | `dispatch` | finds the session or the stateless requests to which an input belongs |
//! | `session` | a session: its phase, its requests and their answers |
//! | `snapshot`, `restored` | the state of a session as bytes, and the session that continues with it |
//! | `inbound` | requests, notifications and responses in a session |
//! | `ask` | requests to the client of a session |
//! | `batch` | batches of 2025-03-26 |
//! | `stateless` | stateless requests: admits them, and completes their results |
//! | `sessionless` | requests of revisions up to 2025-11-25 at a server that opens no sessions |
//! | `subscriptions` | `subscriptions/listen`, and the subscriptions of a session |
//! | `drain` | stops a server without breaking off the requests that it is serving |
//! | `withdraw` | ends what clients have open whose credentials were withdrawn |
//! | `changes` | changes that the application publishes, and the resources that it has to watch |
//! | `change_notification` | a notification of a change, and who may receive it |
//! | `subscribed` | the resources that clients have subscribed to |
//! | `input` | input that a request needs from its client |
//! | `tasks` | tasks: calls whose results are fetched later |
//! | `request_state` | a `requestState` with a signature, so that clients cannot alter it |
//! | `seal` | keys, and texts that they sign |
//! | `handler_error` | why a handler has no result |
//! | `ended_request` | what is reported about each request that has ended |
//! | `served_requests` | stateless requests that a server which passes through answers for its servers |
//! | `pass_through` | a server that reports every request and answers none by itself, for proxies |
//! | `shared` | the limits of what clients make a server store, and the functions that sessions and stateless requests share |
//! | `context` | the revision, client and settings that apply to one request |
//! | `progress` | progress of requests of clients |
//! | `scope` | what a message from the server relates to |
//! | `principal` | the authenticated sender of a request |
//! | `shares` | limits how much of a limited resource one client can hold |
//! | `connections` | connections of a listening driver, and which one is closed for a new one |
//!
//! Rules: ER-40.

mod ask;
mod batch;
mod change_notification;
mod changes;
mod config;
mod connections;
mod context;
mod dispatch;
mod drain;
mod ended_request;
mod event;
mod handler_error;
mod http;
mod inbound;
mod input;
mod pass_through;
mod principal;
mod progress;
mod request_state;
mod restored;
mod scope;
mod seal;
mod served_requests;
mod session;
mod sessionless;
mod setters;
mod shared;
mod shares;
mod snapshot;
mod stateless;
mod stdio;
mod subscribed;
mod subscriptions;
mod tasks;
mod transport;
mod withdraw;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use config::Handling;
use served_requests::ServedRequests;
use session::{Purpose, Session};
use shared::{Shared, Usage};
use stateless::Stateless;
use subscribed::SubscribedResources;
use transport::{Inbound, ReplyTo, ServerTimer, TransportNotice, TransportOutput};

pub use change_notification::ChangeNotification;
pub use config::Config;
pub use connections::{Admission, ConnectionKey, Connections};
pub use context::Context;
pub use ended_request::{EndedRequest, RequestOutcome};
pub use event::Event;
pub use handler_error::{HandlerError, HandlerFailure};
pub use http::{
    Access, ExchangeKey, Http, HttpAction, HttpConfig, OpenSessions, RequestInfo, SealedSessions, SessionMode,
    Snapshot, StoredSessions, TwoEndpoints, expects_continue, refusal_reason, server_stopped, too_many_connections,
};
pub use input::InputRequired;
pub use principal::Principal;
pub use progress::Progress;
pub use request_state::StateBinding;
pub use scope::Scope;
#[cfg(feature = "seal")]
pub use seal::HmacKey;
pub use seal::{StateKey, StateKeys};
pub use served_requests::Requesters;
pub use shares::{Holder, PeerKey, Shares};
pub use subscribed::SubscriptionChange;
pub use tasks::{TaskEvent, TaskId, TaskLimits, Tasks};
pub use transport::ServerTransport;

use crate::Instant;
use crate::collections::deadlines::Deadlines;
use crate::collections::outbox::{Outbox, Output};
use crate::conversation::cancellation;
use crate::conversation::keys::{RequestKey, SessionKey, Ticket, TicketKey};
use crate::error::{Failed, Fault, UsageError};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Notification, RequestId};
use crate::limits::Load;
use crate::spec::{LoggingLevel, Method, ProtocolVersion};

pub use crate::conversation::call::Call;
pub use crate::conversation::outcome::{CloseReason, Outcome};

/// The server side of one connection on a byte stream, or of all connections over HTTP.
///
/// # Example: a server with one method
///
/// ```
/// use mcp_proto::server::{Config, Event, Server};
/// use mcp_proto::{Instant, Json, Output, Stdio, StdioAction};
///
/// let now = Instant::START;
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
pub struct Server<T: ServerTransport> {
    handling: Handling,
    /// The handling of requests in the sessions for which [`Server::serve_session`] was called.
    served_sessions: BTreeMap<SessionKey, Handling>,
    /// The handling of the stateless requests for which [`Server::serve_requests`] was called.
    served_requests: ServedRequests,
    transport: T,
    /// Boxed, because the nodes of the map are not full.
    sessions: BTreeMap<SessionKey, Box<Session>>,
    /// The number of the first request to the client in a restored session. No session that has ended here, and perhaps
    /// returns, has used this number.
    next_request: u64,
    stateless: Stateless,
    timers: Deadlines<ServerTimer<T::Timer>>,
    usage: Usage,
    resources: SubscribedResources,
    /// [`Server::drain`] was called, and requests are still unanswered.
    is_draining: bool,
    /// What the transport has received and the server has not handled.
    inbound: VecDeque<Inbound<T::Step>>,
    out: Outbox<T::Action, Event>,
}

/// Shows only counts, because the state contains payloads, headers and session ids.
impl<T: ServerTransport> fmt::Debug for Server<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("sessions", &self.sessions.len())
            .field("requests_in_flight", &self.usage.requests)
            .field("subscriptions", &self.usage.subscriptions)
            .finish_non_exhaustive()
    }
}

impl<T: ServerTransport> Server<T> {
    /// Creates a server that uses this transport.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn new(transport: T, config: Config) -> Result<Self, UsageError> {
        config.check()?;
        Self::with_handling(transport, Handling::Serving(config))
    }

    fn with_handling(mut transport: T, handling: Handling) -> Result<Self, UsageError> {
        let config = handling.config();
        transport.configure(config, handling.serving().is_some())?;
        let mut sessions = BTreeMap::new();
        if T::IS_ONE_CONNECTION {
            let session = Session::new(SessionKey::FIRST, None, &config.limits);
            sessions.insert(SessionKey::FIRST, Box::new(session));
        }
        Ok(Self {
            handling,
            served_sessions: BTreeMap::new(),
            served_requests: ServedRequests::default(),
            transport,
            sessions,
            next_request: 0,
            stateless: Stateless::new(),
            timers: Deadlines::new(),
            usage: Usage::default(),
            resources: SubscribedResources::new(),
            is_draining: false,
            inbound: VecDeque::new(),
            out: Outbox::new(),
        })
    }

    /// Answers a request of the client.
    ///
    /// If the client has cancelled it, this does nothing.
    ///
    /// # Errors
    ///
    /// [`UsageError::ReservedErrorCode`] if the error has a code that only the protocol may use. The client has then
    /// received an internal error instead, so that it does not wait.
    ///
    /// Rules: CX-03, RP15.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub fn respond(
        &mut self,
        ticket: Ticket,
        answer: Result<Json, ErrorObject>,
        now: Instant,
    ) -> Result<(), UsageError> {
        let ticket = ticket.key();
        let (sessions, stateless, shared) = &mut self.split_for(ticket.session(), now);
        let is_stateless = stateless.incoming.get(ticket).is_some();
        let result = match ticket.session() {
            Some(session) => sessions.get_mut(&session).map(|session| session.respond(ticket, answer, shared)),
            None => Some(stateless.respond(ticket, answer, shared)),
        };
        self.on_answered(is_stateless, now);
        self.end_unopened(ticket.session(), now);
        result.unwrap_or(Ok(()))
    }

    /// Requires input from the client before a request can be answered. In both eras, [`Event::Requested`] follows once
    /// more, with a ticket for the answer: since 2026-07-28 for the client's retry, which is a new request, before that
    /// for the same request. Its parameters then contain `inputResponses`, each under the key of its request for input,
    /// and `requestState`. Both come from the client without validation and may be wrong or missing.
    ///
    /// If the client lacks a capability that the input needs, it receives an error.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotInRevision`] if the method of the request cannot require input or a required entry is not a
    /// request for input, and [`UsageError::NothingRequired`] if there is neither an entry nor a state. The client has
    /// then received an internal error.
    ///
    /// Rules: MD-I-11, MD-I-04, MD-I-01, MD-I-03.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub fn require_input(&mut self, ticket: Ticket, required: InputRequired, now: Instant) -> Result<(), UsageError> {
        let ticket = ticket.key();
        let (sessions, stateless, shared) = &mut self.split_for(ticket.session(), now);
        let is_stateless = stateless.incoming.get(ticket).is_some();
        let result = match ticket.session() {
            Some(session) => sessions.get_mut(&session).map(|session| session.require_input(ticket, &required, shared)),
            None => Some(stateless.require_input(ticket, &required, shared)),
        };
        self.on_answered(is_stateless, now);
        result.unwrap_or(Ok(()))
    }

    /// Sends the progress of a request, if its client asked for progress. Progress that does not grow is not sent.
    ///
    /// Rules: PR-02.
    pub fn progress(&mut self, ticket: &Ticket, progress: &Progress, now: Instant) {
        let ticket = ticket.key();
        let (sessions, stateless, shared) = &mut self.split_for(ticket.session(), now);
        match ticket.session().map(|session| sessions.get_mut(&session)) {
            Some(Some(session)) => session.progress(ticket, progress, shared),
            Some(None) => {}
            None => stateless.progress(ticket, progress, shared),
        }
    }

    /// Ends the HTTP response of a request early, so that its client reconnects for the answer instead of keeping a
    /// connection open.
    ///
    /// Before the end, the client receives an event id and the pause from [`HttpConfig::retry`]. This does nothing if
    /// the transport or the revision does not support it, or if no events are kept for replay.
    ///
    /// Rules: SH-S-12, SH-S-55.
    pub fn release(&mut self, ticket: &Ticket, now: Instant) {
        let (Some(session), Some(reply_to)) = (ticket.key().session(), self.reply_to(ticket.key())) else { return };
        self.notice(TransportNotice::Released(session, reply_to), now);
    }

    /// Sends a notification that relates to a request or to a session. If the client on a byte stream reads nothing,
    /// notifications beyond [`Limits::unwritten`](crate::Limits::unwritten) are dropped, and [`Fault::NotWritten`]
    /// reports their number.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent; then nothing was sent.
    pub fn notify(
        &mut self,
        scope: impl Into<Scope>,
        notification: Notification,
        now: Instant,
    ) -> Result<(), UsageError> {
        let scope = scope.into();
        self.check_connection()?;
        let (sessions, stateless, shared) = &mut self.split_for(scope.session(), now);
        match scope {
            Scope::Session(session) => {
                sessions.get(&session).ok_or(UsageError::Closed)?.notify(notification, None, shared)
            }
            Scope::Request(ticket) => match ticket.session() {
                Some(session) => {
                    sessions.get(&session).ok_or(UsageError::Closed)?.notify(notification, Some(ticket), shared)
                }
                None => stateless.notify(notification, ticket, shared),
            },
        }
    }

    /// Sends a log message, unless the client has set a higher level.
    ///
    /// A client sets the level with `logging/setLevel`, which the machine answers; until then it receives all log
    /// messages. Since 2026-07-28, each request states its level, and without one no message is sent.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if [`Config::capabilities`] has no `logging`, and the errors of [`Server::notify`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Config, Server};
    /// use mcp_proto::spec::LoggingLevel;
    /// use mcp_proto::{Instant, Json, Stdio, UsageError};
    ///
    /// let mut server = Server::new(Stdio::new(), Config::new("my-tools", "1.0.0"))?;
    /// let session = server.session();
    /// let said = server.log(session, LoggingLevel::Info, Some("disk"), &Json::from("full"), Instant::START);
    /// assert_eq!(said, Err(UsageError::NotDeclared { capability: "logging" }));
    /// # Ok::<(), UsageError>(())
    /// ```
    ///
    /// Rules: LC-20, MD-M-09.
    pub fn log(
        &mut self,
        scope: impl Into<Scope>,
        level: LoggingLevel,
        logger: Option<&str>,
        data: &Json,
        now: Instant,
    ) -> Result<(), UsageError> {
        let scope = scope.into();
        let config = scope.session().map_or(self.config(), |session| self.config_of(session));
        if !config.declares("logging") {
            return Err(UsageError::NotDeclared { capability: "logging" });
        }
        if let Some(session) = scope.session() {
            let session = self.sessions.get(&session).ok_or(UsageError::Closed)?;
            let is_open = scope.ticket().is_none_or(|ticket| session.incoming.get(ticket).is_some());
            if is_open && session.settings.logging_level.is_some_and(|lowest| level < lowest) {
                return Ok(());
            }
        }
        let mut params = Json::empty_object().with_member("data", data);
        if let Some(logger) = logger {
            params = params.with_member("logger", &Json::from(logger));
        }
        let params = params.with_member("level", &Json::from(level.as_str()));
        // `notify` checks the level that a stateless request states.
        self.notify(scope, Notification::with_params(Method::MESSAGE, params), now)
    }

    /// Sends a request to the client. Exactly one [`Event::Responded`] with the returned key follows.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the request cannot be sent; then nothing was sent.
    pub fn request(&mut self, scope: impl Into<Scope>, call: Call, now: Instant) -> Result<RequestKey, UsageError> {
        let scope = scope.into();
        self.check_connection()?;
        if let (None, Some(ticket)) = (scope.session(), scope.ticket()) {
            self.stateless.check_ask(ticket)?;
            if !T::IS_ONE_CONNECTION {
                return Err(UsageError::NotConnected);
            }
        }
        let purpose = Purpose::Application { during: scope.ticket() };
        let session = scope.session().unwrap_or(SessionKey::FIRST);
        let (session, _, shared) = &mut self.split_at(session, now);
        session.as_mut().ok_or(UsageError::Closed)?.ask(call, purpose, shared)
    }

    /// Cancels a request to the client. Its outcome is [`Failed::Cancelled`], unless it has ended already.
    pub fn cancel(&mut self, request: RequestKey, reason: Option<&str>, now: Instant) {
        self.cancel_with(request, &cancellation::params(reason), now);
    }

    /// Cancels as [`Server::cancel`] does, with these parameters of `notifications/cancelled`, in which the machine
    /// sets only `requestId`.
    pub fn cancel_with(&mut self, request: RequestKey, params: &Json, now: Instant) {
        let Some(session) = request.session() else { return };
        let (session, _, shared) = &mut self.split_at(session, now);
        if let Some(session) = session {
            session.give_up(request, Failed::Cancelled, params, shared);
        }
    }

    /// The next action for the driver or event for the application. Call this after every input and command until it
    /// returns `None`.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<T::Action, Event>> {
        self.out.pop()
    }

    /// When [`Server::handle_timeout`] must be called next; `None` if no timer is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The revision of a session, once it is negotiated.
    #[must_use]
    pub fn version(&self, session: SessionKey) -> Option<ProtocolVersion> {
        self.sessions.get(&session).and_then(|session| session.version)
    }

    /// The capabilities that the client of a session has declared; `None` if there is no such session.
    #[must_use]
    pub fn client_capabilities(&self, session: SessionKey) -> Option<Json> {
        self.sessions.get(&session).map(|session| session.client_capabilities())
    }

    /// The principal to which a session belongs, as its latest request states it, if the driver authenticated it; `None`
    /// on a byte stream.
    #[must_use]
    pub fn principal(&self, session: SessionKey) -> Option<&Principal> {
        self.transport.sender(Some(session), ReplyTo::Stream).principal
    }

    /// The head of the HTTP request that contained this request of the client; `None` on a byte stream, and after the
    /// response has begun as a stream.
    #[must_use]
    pub fn request_head(&self, ticket: &Ticket) -> Option<&::http::request::Parts> {
        self.transport.sender(None, self.reply_to(ticket.key())?).head
    }

    /// The extensions of the HTTP request that contained this unanswered request of the client; none on a byte stream.
    #[must_use]
    pub fn extensions(&self, ticket: &Ticket) -> Option<&::http::Extensions> {
        let ticket = ticket.key();
        match ticket.session() {
            Some(session) => Some(&self.sessions.get(&session)?.incoming.get(ticket)?.extensions),
            None => Some(&self.stateless.incoming.get(ticket)?.extensions),
        }
    }

    /// The context of an unanswered request: its revision, and the identity and capabilities of its client.
    #[must_use]
    pub fn context(&self, ticket: &Ticket) -> Option<Context> {
        let ticket = ticket.key();
        match ticket.session() {
            Some(session) => self.sessions.get(&session)?.context(ticket, self.config_of(session)),
            None => self.stateless.context(ticket),
        }
    }

    /// The client's id of an unanswered request, as it was received.
    #[must_use]
    pub fn request_id(&self, ticket: &Ticket) -> Option<&RequestId> {
        let ticket = ticket.key();
        match ticket.session() {
            Some(session) => self.sessions.get(&session)?.incoming.id(ticket),
            None => self.stateless.incoming.id(ticket),
        }
    }

    /// The lowest level of log messages that the client of a session has set with `logging/setLevel`.
    #[must_use]
    pub fn logging_level(&self, session: SessionKey) -> Option<LoggingLevel> {
        self.sessions.get(&session)?.settings.logging_level
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        self.handling.config()
    }

    /// The configuration by which the requests of a session are handled.
    fn config_of(&self, session: SessionKey) -> &Config {
        self.served_sessions.get(&session).unwrap_or(&self.handling).config()
    }

    /// The resources that the server holds now.
    #[must_use]
    pub fn load(&self) -> Load {
        let sessions = || self.sessions.values();
        let subscribed = sessions().map(|session| session.settings.subscribed.len()).sum::<usize>();
        let own = Load {
            sessions: sessions().filter(|session| session.is_open()).count(),
            requests_in: self.usage.requests,
            requests_out: sessions().map(|session| session.outgoing.len()).sum(),
            subscriptions: self.usage.subscriptions + subscribed,
            waiting: self.usage.batched,
            held: self.usage.held,
            timers: self.timers.len(),
            ..Load::default()
        };
        own + self.transport.load()
    }

    /// The number of open `subscriptions/listen`.
    #[must_use]
    pub const fn subscriptions(&self) -> usize {
        self.usage.subscriptions
    }

    /// The number of unanswered requests of all clients.
    #[must_use]
    pub const fn requests_in_flight(&self) -> usize {
        self.usage.requests
    }

    /// Whether the driver should read more input. It is `false` while outputs are not polled fast enough, and on a byte
    /// stream also while the client does not read its answers, or while the application has as many unanswered requests
    /// as the limit allows.
    ///
    /// Rules: H5, RP10.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.out.has_room(&self.config().limits) && self.transport.wants_input(self.usage.requests)
    }

    /// Handles all timers that are due. Calling this early or twice does nothing.
    ///
    /// Rules: CL2.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            self.on_timer(timer, now);
        }
        // A timer may have ended the last request.
        self.close_if_drained(now);
    }

    /// Ends all sessions and stateless requests at once, and refuses all later input. [`Event::Closed`] follows for
    /// each session. [`Server::drain`] first waits for the answers of the application.
    pub fn close(&mut self, now: Instant) {
        self.end_drain();
        self.notice(TransportNotice::Stopped, now);
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end_session(session, CloseReason::Local, now);
        }
        let (_, stateless, shared) = &mut self.split(now);
        stateless.end_all(shared);
    }

    fn on_timer(&mut self, timer: ServerTimer<T::Timer>, now: Instant) {
        let session = match timer {
            ServerTimer::Answer(request) => request.session(),
            ServerTimer::Again(ticket) => ticket.session(),
            ServerTimer::InputEnded => return self.end_session(SessionKey::FIRST, CloseReason::Peer, now),
            ServerTimer::Drain => return self.close(now),
            ServerTimer::Transport(timer) => {
                self.with_transport(now, |transport, output| transport.on_timer(timer, output));
                return self.settle(now);
            }
        };
        let Some(session) = session else { return };
        let (session, _, shared) = &mut self.split_at(session, now);
        let Some(session) = session else { return };
        match timer {
            ServerTimer::Answer(request) => session.on_answer_timeout(request, shared),
            ServerTimer::Again(ticket) => session.report_again(ticket, shared),
            ServerTimer::InputEnded | ServerTimer::Drain | ServerTimer::Transport(_) => {}
        }
    }

    /// Reports how many notifications were dropped, as soon as something can be sent again.
    fn report_not_written(&mut self, now: Instant) {
        let (_, _, shared) = &mut self.split(now);
        if shared.usage.not_written > 0 && shared.transport.takes(1, &mut shared.output) {
            let count = std::mem::take(&mut shared.usage.not_written);
            shared.fault(Fault::NotWritten { count });
        }
    }

    /// Checks whether the connection of a byte stream has not ended.
    fn check_connection(&self) -> Result<(), UsageError> {
        let is_closed = T::IS_ONE_CONNECTION && self.sessions.values().any(|session| session.is_closed());
        if is_closed { Err(UsageError::Closed) } else { Ok(()) }
    }

    /// Where messages that relate to an unanswered request are sent.
    fn reply_to(&self, ticket: TicketKey) -> Option<ReplyTo> {
        match ticket.session() {
            Some(session) => Some(self.sessions.get(&session)?.reply_to(Some(ticket))),
            None => self.stateless.reply_to(ticket),
        }
    }

    /// The session with this key, the stateless requests, and what they share.
    fn split_at(&mut self, session: SessionKey, now: Instant) -> (Option<&mut Session>, &mut Stateless, Shared<'_, T>) {
        let (sessions, stateless, shared) = self.split_for(Some(session), now);
        (sessions.get_mut(&session).map(AsMut::as_mut), stateless, shared)
    }

    fn split(&mut self, now: Instant) -> (&mut BTreeMap<SessionKey, Box<Session>>, &mut Stateless, Shared<'_, T>) {
        self.split_for(None, now)
    }

    /// All sessions, the stateless requests, and what they share, for an input or command that concerns this session;
    /// with `None`, stateless requests or all sessions.
    fn split_for(
        &mut self,
        session: Option<SessionKey>,
        now: Instant,
    ) -> (&mut BTreeMap<SessionKey, Box<Session>>, &mut Stateless, Shared<'_, T>) {
        let Self {
            handling,
            served_sessions,
            served_requests,
            transport,
            sessions,
            next_request: _,
            stateless,
            timers,
            usage,
            resources,
            is_draining,
            inbound,
            out,
        } = self;
        let default_handling = &*handling;
        let handling = session.and_then(|session| served_sessions.get(&session)).unwrap_or(default_handling);
        let output = TransportOutput { out, inbound, timers, now };
        let is_draining = *is_draining;
        let shared =
            Shared { handling, default_handling, served_requests, transport, usage, resources, is_draining, output };
        (sessions, stateless, shared)
    }
}
