//! A request as its handler sees it.

use std::fmt;

use http::HeaderMap;
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Context, LoggingLevel, Principal, Progress, Scope};
use mcp_proto::{Json, Method, Notification, ProtocolVersion, RequestKey, SessionKey, TicketKey, UsageError};
use tokio::sync::{mpsc, oneshot};

use super::requests::{Command, FinalCommand};

/// A request of a client's, and the ways to talk to that client while it is served.
pub struct Incoming {
    pub(super) method: Method,
    pub(super) params: Option<Json>,
    pub(super) ticket: TicketKey,
    pub(super) context: Context,
    pub(super) headers: HeaderMap,
    pub(super) said: mpsc::Sender<Command>,
    pub(super) last: mpsc::UnboundedSender<FinalCommand>,
}

/// Shows no header: among them are credentials and the id of the session.
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
    /// What is asked for.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The parameters, as they came.
    #[must_use]
    pub const fn params(&self) -> Option<&Json> {
        self.params.as_ref()
    }

    /// The session that the request belongs to.
    #[must_use]
    pub const fn session(&self) -> SessionKey {
        self.ticket.session()
    }

    /// What holds for the request: its revision, and what its client is and can do.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// The revision of the request.
    #[must_use]
    pub const fn version(&self) -> ProtocolVersion {
        self.context.version
    }

    /// What the client can do: an object.
    #[must_use]
    pub const fn client_capabilities(&self) -> &Json {
        &self.context.client_capabilities
    }

    /// Who the client says it is: an object. Nothing may depend on it.
    #[must_use]
    pub const fn client_info(&self) -> Option<&Json> {
        self.context.client_info.as_ref()
    }

    /// Who sent the request or opened its session, if something in front of the server checked that and put a [`Principal`] among the
    /// extensions of the HTTP request.
    #[must_use]
    pub const fn principal(&self) -> Option<&Principal> {
        self.context.principal.as_ref()
    }

    /// The headers of the HTTP request; none on a byte stream.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Tells how far the request has come, if its client asked for that, and waits until there is room for more.
    pub async fn progress(&self, progress: Progress) {
        let (accept, accepted) = oneshot::channel();
        let _ = self.say(Command::Progress { ticket: self.ticket, progress, accept }, accepted).await;
    }

    /// Sends a log message that is about this request, unless the client wants none of this level.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if the server's capabilities have no `logging`, and as [`Incoming::notify`].
    pub async fn log(&self, level: LoggingLevel, logger: Option<&str>, data: Json) -> Result<(), UsageError> {
        let (accept, accepted) = oneshot::channel();
        let (ticket, logger) = (self.ticket, logger.map(Box::from));
        self.say(Command::Log { ticket, level, logger, data, accept }, accepted).await
    }

    /// Sends a notification that is about this request, and waits until there is room for more.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent.
    pub async fn notify(&self, notification: Notification) -> Result<(), UsageError> {
        let (accept, accepted) = oneshot::channel();
        let scope = Scope::Request(self.ticket);
        self.say(Command::Notify { scope, notification, accept }, accepted).await
    }

    /// Tells all clients whom it concerns of a change, as [`ServerPublisher::publish`].
    ///
    /// # Errors
    ///
    /// As [`ServerPublisher::publish`].
    pub async fn publish(&self, notification: Notification) -> Result<(), UsageError> {
        publish(&self.said, notification).await
    }

    /// Asks the client for something because of this request, and waits for the outcome. Dropping the future takes it
    /// back.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it may not be asked.
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

    /// Lets the client come back for the answer instead of holding its connection open, where the transport and the
    /// revision have that.
    pub fn release(&self) {
        let _ = self.last.send(FinalCommand::Release(self.ticket));
    }

    async fn say<T>(&self, said: Command, accepted: oneshot::Receiver<Result<T, UsageError>>) -> Result<T, UsageError> {
        say(&self.said, said, accepted).await
    }
}

/// Publishes changes to clients, from any task: see [`Service::subscribed`](super::Service::subscribed).
#[derive(Debug, Clone)]
pub struct ServerPublisher {
    pub(super) said: mpsc::Sender<Command>,
}

impl ServerPublisher {
    /// Tells all clients whom it concerns of a change: `list_changed` of tools, prompts or resources, or
    /// `resources/updated`. It waits until there is room for more.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is no such notification, the server's capabilities do not promise it, or the server has ended.
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

/// Something that the client was asked. It is taken back unless the outcome has come.
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
