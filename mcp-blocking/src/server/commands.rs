//! Commands of handlers and of the application to the driver of a server.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{ChangeNotification, Progress};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Json, Notification, TicketKey, UsageError};

use crate::inbox::Inbox;

/// With this many bytes unwritten to a client, handlers that send to it wait.
pub(super) const ROOM: usize = 64 * 1024;

/// Receives the result of a command, for which the sender of the command waits.
pub(super) type Accept = SyncSender<Result<(), UsageError>>;

/// Input to the driver: what has arrived from clients, or a command.
#[derive(Debug)]
pub(super) enum Input<A> {
    Arrived(A),
    Command(Command),
}

/// Accepts what has arrived.
impl<A: fmt::Debug + Send> Inbox<A> for SyncSender<Input<A>> {
    fn send(&self, arrived: A) -> bool {
        Self::send(self, Input::Arrived(arrived)).is_ok()
    }

    fn try_send(&self, arrived: A) {
        let _ = Self::try_send(self, Input::Arrived(arrived));
    }
}

/// A command of a handler or of the application.
#[derive(Debug)]
pub(super) enum Command {
    /// A handler has answered.
    Answer { ticket: TicketKey, answer: Result<Json, ErrorObject> },
    /// A handler reports its progress.
    Progress { ticket: TicketKey, progress: Progress, accept: Accept },
    /// A handler releases the connection of its request, because its answer will take long.
    Release(TicketKey),
    /// A handler sends a notification.
    Notify { ticket: TicketKey, notification: Notification, accept: Accept },
    /// A handler sends a log message.
    Log { ticket: TicketKey, level: LoggingLevel, logger: Option<Box<str>>, data: Json, accept: Accept },
    /// A change is published to clients.
    Publish { change: ChangeNotification, accept: Accept },
    /// A handler sends a request to the client.
    Ask { ticket: TicketKey, call: Call, outcome: SyncSender<Result<Outcome, UsageError>> },
    /// The service has handled the subscription changes that it was given.
    Reported,
    /// The server must stop once all requests are answered, or after this time.
    Drain(Duration),
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

    /// Sends a command, and waits for its result.
    ///
    /// # Errors
    ///
    /// The error of the command; [`UsageError::Closed`] if the driver has ended.
    pub(super) fn accepted(&self, command: impl FnOnce(Accept) -> Command) -> Result<(), UsageError> {
        let (accept, accepted) = sync_channel(1);
        self.send(command(accept))?;
        accepted.recv().map_err(|_| UsageError::Closed)?
    }
}

mcp_application::opaque_debug!(Commands);
