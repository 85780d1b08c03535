//! Commands of handlers and of the application to the driver of a server.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{LoggingLevel, Progress, Scope};
use mcp_proto::{ErrorObject, Json, Notification, TicketKey, UsageError};

/// Input to the driver: what has arrived from clients, or a command.
#[derive(Debug)]
pub(super) enum Input<A> {
    Arrived(A),
    Command(Command),
}

/// A command of a handler or of the application.
#[derive(Debug)]
pub(super) enum Command {
    /// A handler has answered.
    Answer { ticket: TicketKey, answer: Result<Json, ErrorObject> },
    /// A handler reports its progress.
    Progress { ticket: TicketKey, progress: Progress },
    /// A handler releases the connection of its request, because its answer will take long.
    Release(TicketKey),
    /// A handler sends a notification.
    Notify { scope: Scope, notification: Notification, accept: SyncSender<Result<(), UsageError>> },
    /// A handler sends a log message.
    Log {
        ticket: TicketKey,
        level: LoggingLevel,
        logger: Option<Box<str>>,
        data: Json,
        accept: SyncSender<Result<(), UsageError>>,
    },
    /// A change is published to clients.
    Publish { notification: Notification, accept: SyncSender<Result<(), UsageError>> },
    /// A handler sends a request to the client.
    Ask { ticket: TicketKey, call: Call, outcome: SyncSender<Result<Outcome, UsageError>> },
    /// The service has handled the subscription changes that it was given.
    Reported,
    /// The server must stop.
    Stop,
}

/// Sends commands to the driver, over any transport.
#[derive(Clone)]
pub(super) struct Commands(Arc<dyn Fn(Command) -> Result<(), UsageError> + Send + Sync>);

impl Commands {
    pub(super) fn to<A: Send + 'static>(inbox: SyncSender<Input<A>>) -> Self {
        Self(Arc::new(move |command| inbox.send(Input::Command(command)).map_err(|_| UsageError::Closed)))
    }

    /// # Errors
    ///
    /// [`UsageError::Closed`] if the driver has ended.
    pub(super) fn send(&self, command: Command) -> Result<(), UsageError> {
        (self.0)(command)
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}
