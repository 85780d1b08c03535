//! A request as its handler receives it.

use std::fmt;

use mcp_application::IncomingRequest;
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{ChangeNotification, Progress, Scope};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{Json, Notification, RequestKey, UsageError};
use tokio::sync::{mpsc, oneshot};

use super::commands::{Command, FinalCommand};
use super::running::publish;

/// A request of a client, with methods to send messages to that client while the request is served. It has all methods
/// of [`IncomingRequest`].
pub struct Incoming {
    request: IncomingRequest,
    commands: mpsc::Sender<Command>,
    final_commands: mpsc::UnboundedSender<FinalCommand>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

mcp_application::deref_to!(Incoming, request: IncomingRequest);

impl Incoming {
    pub(super) const fn new(
        request: IncomingRequest,
        commands: mpsc::Sender<Command>,
        final_commands: mpsc::UnboundedSender<FinalCommand>,
    ) -> Self {
        Self { request, commands, final_commands }
    }

    /// Sends progress of the request, if its client has requested progress, and waits until there is room for more.
    pub async fn progress(&self, progress: Progress) {
        let (accept, accepted) = oneshot::channel();
        let _ = self.send(Command::Progress { ticket: self.ticket(), progress, accept }, accepted).await;
    }

    /// Sends a log message about this request, if the client has requested messages of this level. Waits until there is
    /// room for more.
    ///
    /// Log messages are deprecated since 2026-07-28, and go on working: what is for operators goes to stderr or
    /// OpenTelemetry instead, what is for the model into the result, and what is for a waiting user into
    /// [`Incoming::progress`].
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if the server's capabilities do not contain `logging`; otherwise as for
    /// [`Incoming::notify`].
    pub async fn log(&self, level: LoggingLevel, logger: Option<&str>, data: Json) -> Result<(), UsageError> {
        let (accept, accepted) = oneshot::channel();
        let (ticket, logger) = (self.ticket(), logger.map(Box::from));
        self.send(Command::Log { ticket, level, logger, data, accept }, accepted).await
    }

    /// Sends a notification about this request, and waits until there is room for more.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent.
    pub async fn notify(&self, notification: Notification) -> Result<(), UsageError> {
        let (accept, accepted) = oneshot::channel();
        let scope = Scope::Request(self.ticket());
        self.send(Command::Notify { scope, notification, accept }, accepted).await
    }

    /// Publishes a change to all clients concerned, as [`ServerPublisher::publish`](super::ServerPublisher::publish) does.
    ///
    /// # Errors
    ///
    /// As for [`ServerPublisher::publish`](super::ServerPublisher::publish).
    pub async fn publish(&self, change: impl Into<ChangeNotification>) -> Result<(), UsageError> {
        publish(&self.final_commands, change.into()).await.map_err(|_| UsageError::Closed)?
    }

    /// Sends a request to the client on behalf of this request, for example for input of its user, and waits for the
    /// outcome. Dropping the future cancels it.
    ///
    /// Since 2026-07-28, a server sends no requests: a handler for all revisions uses
    /// [`Inputs`](mcp_application::Inputs), or returns [`InputRequired`](mcp_proto::server::InputRequired).
    ///
    /// # Errors
    ///
    /// [`UsageError::NotInRevision`] since 2026-07-28. Otherwise [`UsageError`] if the request cannot be sent, for
    /// example because the client has not declared the capability.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_tokio::proto::client::{Call, Outcome};
    /// use mcp_tokio::model::Root;
    /// use mcp_tokio::proto::server::Config;
    /// use mcp_tokio::proto::{ErrorObject, Json, ProtocolVersion, UsageError};
    /// use mcp_tokio::{Client, Incoming, Server};
    ///
    /// async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    ///     match incoming.ask(Call::new("roots/list")).await {
    ///         Ok(Outcome::Result(roots)) => Ok(roots),
    ///         Ok(Outcome::Error(error)) => Err(error),
    ///         Err(UsageError::NotInRevision { .. }) => Ok(Json::from("no requests")),
    ///         Ok(Outcome::Failed(_)) | Err(_) => Err(ErrorObject::internal()),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_tokio::Error> {
    /// let server = Server::new(Config::new("my-tools", "1.0.0"), serve);
    /// let roots = r#"{"roots":[{"uri":"file:///home/ada"}]}"#;
    /// for (version, answer) in [
    ///     (ProtocolVersion::V2025_11_25, Json::parse(roots).unwrap()),
    ///     (ProtocolVersion::V2026_07_28, Json::from("no requests")),
    /// ] {
    ///     let client = Client::builder().versions([version]).roots([Root::new("file:///home/ada")]);
    ///     let client = client.in_memory(&server).connect().await?;
    ///     assert_eq!(client.request("hello", None).await?, answer);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ask(&self, call: Call) -> Result<Outcome, UsageError> {
        let (accept, accepted) = oneshot::channel();
        let (outcome, answered) = oneshot::channel();
        let final_commands = self.final_commands.clone();
        let request = self.send(Command::Ask { ticket: self.ticket(), call, accept, outcome }, accepted).await?;
        let mut asked = Asked { request: Some(request), final_commands };
        let outcome = answered.await.map_err(|_| UsageError::Closed);
        asked.request = None;
        outcome
    }

    /// Closes the stream of the response, so that the client reconnects and receives the answer later, if the transport
    /// and the revision support that. This is for answers that take long.
    pub fn release(&self) {
        let _ = self.final_commands.send(FinalCommand::Release(self.ticket()));
    }

    async fn send<T>(
        &self,
        command: Command,
        accepted: oneshot::Receiver<Result<T, UsageError>>,
    ) -> Result<T, UsageError> {
        send(&self.commands, command, accepted).await
    }
}

async fn send<T>(
    to: &mpsc::Sender<Command>,
    command: Command,
    accepted: oneshot::Receiver<Result<T, UsageError>>,
) -> Result<T, UsageError> {
    to.send(command).await.map_err(|_| UsageError::Closed)?;
    accepted.await.map_err(|_| UsageError::Closed)?
}

/// A request to the client. Dropping this before the outcome cancels it.
struct Asked {
    request: Option<RequestKey>,
    final_commands: mpsc::UnboundedSender<FinalCommand>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            let _ = self.final_commands.send(FinalCommand::Withdraw(request));
        }
    }
}
