//! Commands of handlers to the driver of a server.

use std::time::Duration;

use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{ChangeNotification, Progress, Scope};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Json, Notification, RequestKey, TicketKey, UsageError};
use tokio::sync::oneshot;

/// A command of a handler. The result is sent through `accept` as soon as there is room for more.
#[derive(Debug)]
pub(crate) enum Command {
    Progress { ticket: TicketKey, progress: Progress, accept: Accept<()> },
    Notify { scope: Scope, notification: Notification, accept: Accept<()> },
    Log { ticket: TicketKey, level: LoggingLevel, logger: Option<Box<str>>, data: Json, accept: Accept<()> },
    Ask { ticket: TicketKey, call: Call, accept: Accept<RequestKey>, outcome: oneshot::Sender<Outcome> },
}

/// Sends the result of a command to the handler.
pub(crate) type Accept<T> = oneshot::Sender<Result<T, UsageError>>;

/// A command that is carried out at once, also while clients do not read; `Drop` can send it, where nothing can be
/// awaited. Each request and each publisher sends a limited number of these.
#[derive(Debug)]
pub(crate) enum FinalCommand {
    Answer(TicketKey, Result<Json, ErrorObject>),
    Release(TicketKey),
    Withdraw(RequestKey),
    /// A change for all clients concerned. Its sender waits only for the result, not until clients read.
    Publish {
        change: ChangeNotification,
        accept: Accept<()>,
    },
    /// The service has handled the changes of subscriptions that it received.
    Reported,
    /// Stop the server once all requests are answered, or after this time. The sender is used when it has stopped, with
    /// the number of cancelled requests.
    Drain {
        timeout: Duration,
        done: oneshot::Sender<usize>,
    },
}
