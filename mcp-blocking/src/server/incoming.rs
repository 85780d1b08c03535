//! A request as its handler gets it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use http::HeaderMap;
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Context as RequestContext, LoggingLevel, Progress, Scope};
use mcp_proto::{ErrorObject, Json, Method, Notification, ProtocolVersion, SessionKey, TicketKey, UsageError};

use super::driver::{Command, Commands};

/// A request from a client, with methods to send messages to that client while the request is served.
pub struct Incoming {
    method: Method,
    params: Option<Json>,
    context: Context,
}

/// What a request belongs to, and the way to the driver.
pub(super) struct Context {
    pub(super) ticket: TicketKey,
    pub(super) commands: Commands,
    pub(super) shared: Arc<Shared>,
    pub(super) about: Box<RequestContext>,
    pub(super) headers: HeaderMap,
}

/// Omits the headers, because they contain credentials and the session id.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("method", &self.method)
            .field("params", &self.params)
            .field("ticket", &self.context.ticket)
            .field("version", &self.context.about.version)
            .finish_non_exhaustive()
    }
}

/// State of a request that the driver shares with its handler.
#[derive(Debug, Default)]
pub(super) struct Shared {
    is_cancelled: AtomicBool,
}

impl Shared {
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }
}

impl Incoming {
    pub(super) const fn new(method: Method, params: Option<Json>, context: Context) -> Self {
        Self { method, params, context }
    }

    /// The method of the request.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The parameters, as they were received.
    #[must_use]
    pub const fn params(&self) -> Option<&Json> {
        self.params.as_ref()
    }

    /// The session that the request belongs to; `None` for a stateless request.
    #[must_use]
    pub const fn session(&self) -> Option<SessionKey> {
        self.context.ticket.session()
    }

    /// The context of the request: its revision, and the client's info and capabilities.
    #[must_use]
    pub fn context(&self) -> &RequestContext {
        &self.context.about
    }

    /// The protocol revision of the request.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.context.about.version
    }

    /// The client's capabilities: an object.
    #[must_use]
    pub fn client_capabilities(&self) -> &Json {
        &self.context.about.client_capabilities
    }

    /// The name and version that the client states: an object. It is not verified, so do not rely on it.
    #[must_use]
    pub fn client_info(&self) -> Option<&Json> {
        self.context.about.client_info.as_ref()
    }

    /// The headers of the HTTP request.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.context.headers
    }

    /// Whether the request was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.context.shared.is_cancelled.load(Ordering::Acquire)
    }

    /// Reports progress, if the client asked for it.
    pub fn progress(&self, progress: Progress) {
        let _ = self.context.commands.send(Command::Progress { ticket: self.context.ticket, progress });
    }

    /// Closes the response's stream so that the client fetches the answer later, if the revision supports that.
    pub fn release(&self) {
        let _ = self.send(Command::Release(self.context.ticket));
    }

    /// Sends a log message about this request, unless the client has not requested messages of this level.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if the server's capabilities have no `logging`; otherwise as for
    /// [`Incoming::notify`].
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: Json) -> Result<(), UsageError> {
        let (accept, accepted) = sync_channel(1);
        let (ticket, logger) = (self.context.ticket, logger.map(Box::from));
        self.send(Command::Log { ticket, level, logger, data, accept })?;
        accepted.recv().map_err(|_| UsageError::Closed)?
    }

    /// Sends a notification about this request.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent.
    pub fn notify(&self, notification: Notification) -> Result<(), UsageError> {
        let (accept, accepted) = sync_channel(1);
        let scope = Scope::Request(self.context.ticket);
        self.send(Command::Notify { scope, notification, accept })?;
        accepted.recv().map_err(|_| UsageError::Closed)?
    }

    /// Publishes a change to all clients concerned, as [`ServerPublisher::publish`] does.
    ///
    /// # Errors
    ///
    /// As for [`ServerPublisher::publish`].
    pub fn publish(&self, notification: Notification) -> Result<(), UsageError> {
        publish(&self.context.commands, notification)
    }

    /// Sends a request to the client on behalf of this request, and waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the request cannot be sent.
    pub fn ask(&self, call: Call) -> Result<Outcome, UsageError> {
        let (outcome, answered) = sync_channel(1);
        self.send(Command::Ask { ticket: self.context.ticket, call, outcome })?;
        answered.recv().map_err(|_| UsageError::Closed)?
    }

    pub(super) const fn ticket(&self) -> TicketKey {
        self.context.ticket
    }

    pub(super) fn answer(&self, answer: Result<Json, ErrorObject>) {
        let _ = self.send(Command::Answer { ticket: self.context.ticket, answer });
    }

    fn send(&self, command: Command) -> Result<(), UsageError> {
        self.context.commands.send(command)
    }
}

/// Publishes changes to clients, from any thread.
#[derive(Debug, Clone)]
pub struct ServerPublisher {
    pub(super) commands: Commands,
}

impl ServerPublisher {
    /// Publishes a change to all clients concerned: `list_changed` of tools, prompts or resources, or
    /// `resources/updated`.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is another notification, if the server's capabilities do not declare it, or if the server
    /// has ended.
    pub fn publish(&self, notification: Notification) -> Result<(), UsageError> {
        publish(&self.commands, notification)
    }
}

fn publish(commands: &Commands, notification: Notification) -> Result<(), UsageError> {
    let (accept, accepted) = sync_channel(1);
    commands.send(Command::Publish { notification, accept })?;
    accepted.recv().map_err(|_| UsageError::Closed)?
}
