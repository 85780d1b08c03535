//! What is behind the machine of an HTTP server.

use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::machine::{HandleRequests, Machine};
use mcp_proto::server::HttpAction;
use tokio::sync::oneshot;

use crate::server::requests::Accepted;

/// A machine that answers HTTP requests, and what serves them: the handlers of a server, or the processes behind a
/// gateway.
pub(crate) trait Application: Send + 'static {
    /// The machine, whose actions are those of exchanges and perhaps others.
    type Machine: HandleRequests + Machine;
    /// Something that has happened behind the machine.
    type Happened: Send;

    fn machine(&self) -> &Self::Machine;

    fn machine_mut(&mut self) -> &mut Self::Machine;

    /// Waits until something has happened. Dropping the future loses nothing.
    fn happened(&mut self) -> impl Future<Output = Self::Happened> + Send;

    /// Passes it to the machine. A returned result is for a handler, which waits until there is room for more.
    fn handle(&mut self, happened: Self::Happened, now: Instant) -> Option<Accepted>;

    /// Carries out the outputs of the machine, up to the next action on an exchange.
    fn poll_action(&mut self) -> Option<HttpAction>;

    /// The machine keeps some of these connections free for requests.
    fn limit_to_connections(&mut self, connections: usize);

    /// Stops the machine once all requests are answered, or after this time. The sender is used when everything has
    /// ended, with the number of cancelled requests.
    fn drain(&mut self, timeout: Duration, done: oneshot::Sender<usize>, now: Instant);

    /// The machine is closed. The sender is used when everything has ended.
    fn on_closed(&mut self, done: oneshot::Sender<()>);

    /// All outputs are carried out.
    fn on_settled(&mut self) {}

    /// The service was dropped, and the machine is closed.
    fn on_dropped(&mut self) {}
}
