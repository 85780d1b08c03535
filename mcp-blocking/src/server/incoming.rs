//! A request as its handler receives it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use mcp_application::IncomingRequest;
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{ChangeNotification, Progress};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Json, Notification, UsageError};

use super::commands::{Command, Commands};

/// A request of a client, with methods to send messages to that client while the request is served. It has all methods
/// of [`IncomingRequest`].
pub struct Incoming {
    request: Box<IncomingRequest>,
    shared: Arc<Shared>,
    commands: Commands,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

mcp_application::deref_to!(Incoming, request: IncomingRequest);

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
    pub(super) fn new(request: IncomingRequest, shared: Arc<Shared>, commands: Commands) -> Self {
        Self { request: Box::new(request), shared, commands }
    }

    /// Whether the request was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled.load(Ordering::Acquire)
    }

    /// Sends progress of the request, if its client has requested progress. Waits as [`Incoming::notify`] does.
    pub fn progress(&self, progress: Progress) {
        let ticket = self.ticket();
        let _ = self.commands.accepted(|accept| Command::Progress { ticket, progress, accept });
    }

    /// Closes the stream of the response, so that the client reconnects and receives the answer later, if the transport
    /// and the revision support that. This is for answers that take long.
    pub fn release(&self) {
        let _ = self.commands.send(Command::Release(self.ticket()));
    }

    /// Sends a log message about this request, if the client has requested messages of this level. Waits as
    /// [`Incoming::notify`] does.
    ///
    /// Log messages are deprecated since 2026-07-28, and go on working: what is for operators goes to stderr or
    /// OpenTelemetry instead, what is for the model into the result, and what is for a waiting user into
    /// [`Incoming::progress`].
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if the server's capabilities do not contain `logging`; otherwise as for
    /// [`Incoming::notify`].
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: Json) -> Result<(), UsageError> {
        let (ticket, logger) = (self.ticket(), logger.map(Box::from));
        self.commands.accepted(|accept| Command::Log { ticket, level, logger, data, accept })
    }

    /// Sends a notification about this request. If the client has more than 64 KiB to read, waits until it has read
    /// them, the request is cancelled, or its connection has ended.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it cannot be sent.
    pub fn notify(&self, notification: Notification) -> Result<(), UsageError> {
        let ticket = self.ticket();
        self.commands.accepted(|accept| Command::Notify { ticket, notification, accept })
    }

    /// Publishes a change to all clients concerned, as [`ServerPublisher::publish`](super::ServerPublisher::publish) does.
    ///
    /// # Errors
    ///
    /// As for [`ServerPublisher::publish`](super::ServerPublisher::publish).
    pub fn publish(&self, change: impl Into<ChangeNotification>) -> Result<(), UsageError> {
        let change = change.into();
        self.commands.accepted(|accept| Command::Publish { change, accept })
    }

    /// Sends a request to the client on behalf of this request, for example for input of its user, and waits for the
    /// outcome.
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
    /// use mcp_blocking::{Client, Incoming, Server};
    /// use mcp_blocking::proto::client::{Call, Outcome};
    /// use mcp_blocking::model::Root;
    /// use mcp_blocking::proto::server::Config;
    /// use mcp_blocking::proto::{ErrorObject, Json, ProtocolVersion, UsageError};
    ///
    /// fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    ///     match incoming.ask(Call::new("roots/list")) {
    ///         Ok(Outcome::Result(roots)) => Ok(roots),
    ///         Ok(Outcome::Error(error)) => Err(error),
    ///         Err(UsageError::NotInRevision { .. }) => Ok(Json::from("no requests")),
    ///         Ok(Outcome::Failed(_)) | Err(_) => Err(ErrorObject::internal()),
    ///     }
    /// }
    ///
    /// let server = Server::new(Config::new("my-tools", "1.0.0"), serve);
    /// let roots = r#"{"roots":[{"uri":"file:///home/ada"}]}"#;
    /// for (version, answer) in [
    ///     (ProtocolVersion::V2025_11_25, Json::parse(roots).unwrap()),
    ///     (ProtocolVersion::V2026_07_28, Json::from("no requests")),
    /// ] {
    ///     let client = Client::builder().versions([version]).roots([Root::new("file:///home/ada")]);
    ///     let client = client.in_memory(&server).connect()?;
    ///     assert_eq!(client.request("hello", None)?, answer);
    /// }
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    pub fn ask(&self, call: Call) -> Result<Outcome, UsageError> {
        let (outcome, answered) = sync_channel(1);
        self.commands.send(Command::Ask { ticket: self.ticket(), call, outcome })?;
        answered.recv().map_err(|_| UsageError::Closed)?
    }

    pub(super) fn answer(&self, answer: Result<Json, ErrorObject>) {
        let _ = self.commands.send(Command::Answer { ticket: self.ticket(), answer });
    }
}
