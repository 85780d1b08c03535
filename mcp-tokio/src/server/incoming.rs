//! A request as its handler receives it.

use std::fmt;

use http::HeaderMap;
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Context, LoggingLevel, Principal, Progress, Scope};
use mcp_proto::{Json, Method, Notification, ProtocolVersion, RequestKey, SessionKey, TicketKey, UsageError};
use tokio::sync::{mpsc, oneshot};

use super::requests::{Command, FinalCommand};

/// A request of a client, with methods to send messages to that client while it is processed.
pub struct Incoming {
    pub(super) method: Method,
    pub(super) params: Option<Json>,
    pub(super) ticket: TicketKey,
    pub(super) context: Context,
    pub(super) headers: HeaderMap,
    pub(super) said: mpsc::Sender<Command>,
    pub(super) last: mpsc::UnboundedSender<FinalCommand>,
}

/// Omits the headers, which contain credentials and the session id.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("method", &self.method)
            .field("params", &self.params)
            .field("ticket", &self.ticket)
            .field("version", &self.context.version)
            .finish_non_exhaustive()
    }
}

impl Incoming {
    /// The method.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The parameters, unchanged.
    #[must_use]
    pub const fn params(&self) -> Option<&Json> {
        self.params.as_ref()
    }

    /// The session that the request belongs to; `None` for a stateless request.
    #[must_use]
    pub const fn session(&self) -> Option<SessionKey> {
        self.ticket.session()
    }

    /// The context of the request: its revision, and the client's info and capabilities.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// The protocol revision of the request.
    #[must_use]
    pub const fn version(&self) -> ProtocolVersion {
        self.context.version
    }

    /// The client's capabilities: an object.
    #[must_use]
    pub const fn client_capabilities(&self) -> &Json {
        &self.context.client_capabilities
    }

    /// The client's own description of itself: an object. It is not verified, so nothing may depend on it.
    #[must_use]
    pub const fn client_info(&self) -> Option<&Json> {
        self.context.client_info.as_ref()
    }

    /// The principal that sent the request or opened its session, if a layer in front of the server authenticated it
    /// and put a [`Principal`] into the extensions of the HTTP request.
    #[must_use]
    pub const fn principal(&self) -> Option<&Principal> {
        self.context.principal.as_ref()
    }

    /// The headers of the HTTP request; empty on a byte stream.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Sends progress of the request if its client asked for it, and waits until there is room for more.
    pub async fn progress(&self, progress: Progress) {
        let (accept, accepted) = oneshot::channel();
        let _ = self.say(Command::Progress { ticket: self.ticket, progress, accept }, accepted).await;
    }

    /// Sends a log message about this request, unless the client does not want this level.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if the server's capabilities do not contain `logging`, otherwise those of
    /// [`Incoming::notify`].
    pub async fn log(&self, level: LoggingLevel, logger: Option<&str>, data: Json) -> Result<(), UsageError> {
        let (accept, accepted) = oneshot::channel();
        let (ticket, logger) = (self.ticket, logger.map(Box::from));
        self.say(Command::Log { ticket, level, logger, data, accept }, accepted).await
    }

    /// Sends a notification about this request, and waits until there is room for more.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent.
    pub async fn notify(&self, notification: Notification) -> Result<(), UsageError> {
        let (accept, accepted) = oneshot::channel();
        let scope = Scope::Request(self.ticket);
        self.say(Command::Notify { scope, notification, accept }, accepted).await
    }

    /// Publishes a change to all clients that it concerns, like [`ServerPublisher::publish`].
    ///
    /// # Errors
    ///
    /// Those of [`ServerPublisher::publish`].
    pub async fn publish(&self, notification: Notification) -> Result<(), UsageError> {
        publish(&self.said, notification).await
    }

    /// Sends a request to the client within this request, and waits for the outcome. Dropping the future cancels it.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the client may not receive this request.
    pub async fn ask(&self, call: Call) -> Result<Outcome, UsageError> {
        let (accept, accepted) = oneshot::channel();
        let (outcome, answered) = oneshot::channel();
        let last = self.last.clone();
        let request = self.say(Command::Ask { ticket: self.ticket, call, accept, outcome }, accepted).await?;
        let mut asked = Asked { request: Some(request), last };
        let outcome = answered.await.map_err(|_| UsageError::Closed);
        asked.request = None;
        outcome
    }

    /// Allows the client to disconnect and resume the response later, if the transport and the revision support that.
    pub fn release(&self) {
        let _ = self.last.send(FinalCommand::Release(self.ticket));
    }

    async fn say<T>(&self, said: Command, accepted: oneshot::Receiver<Result<T, UsageError>>) -> Result<T, UsageError> {
        say(&self.said, said, accepted).await
    }
}

/// Publishes changes to clients from any task: see [`Service::subscribed`](super::Service::subscribed).
#[derive(Debug, Clone)]
pub struct ServerPublisher {
    pub(super) said: mpsc::Sender<Command>,
}

impl ServerPublisher {
    /// Publishes a change to all clients that it concerns: `list_changed` of tools, prompts or resources, or
    /// `resources/updated`. Waits until there is room for more.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is another notification, the server has not declared the capability for it, or the server
    /// has ended.
    pub async fn publish(&self, notification: Notification) -> Result<(), UsageError> {
        publish(&self.said, notification).await
    }
}

async fn publish(to: &mpsc::Sender<Command>, notification: Notification) -> Result<(), UsageError> {
    let (accept, accepted) = oneshot::channel();
    say(to, Command::Publish { notification, accept }, accepted).await
}

async fn say<T>(
    to: &mpsc::Sender<Command>,
    said: Command,
    accepted: oneshot::Receiver<Result<T, UsageError>>,
) -> Result<T, UsageError> {
    to.send(said).await.map_err(|_| UsageError::Closed)?;
    accepted.await.map_err(|_| UsageError::Closed)?
}

/// A request to the client. Dropping this before the outcome cancels it.
struct Asked {
    request: Option<RequestKey>,
    last: mpsc::UnboundedSender<FinalCommand>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            let _ = self.last.send(FinalCommand::Withdraw(request));
        }
    }
}
