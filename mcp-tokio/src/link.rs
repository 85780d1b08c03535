//! The interface between the task of a connection and its transport.

use std::process::ExitStatus;

use mcp_proto::Transport;
use mcp_proto::client::{self as proto, ClientTransport, HttpTransport};

/// The transport of a connection: carries out the machine's actions, and passes the results to the machine.
pub(crate) trait Link: Sized + Send + 'static {
    /// The machine's transport.
    type Transport: ClientTransport<Action: Send> + Send;

    /// Carries out an action of the machine, or queues it. The machine limits what is queued.
    fn act(&mut self, action: <Self::Transport as Transport>::Action);

    /// Waits for an event of the transport, and passes it to the machine. Dropping the future while it waits loses
    /// nothing.
    fn turn(&mut self, machine: &mut proto::Client<Self::Transport>) -> impl Future<Output = ()> + Send;

    /// The HTTP transport in use.
    fn http_transport(machine: &proto::Client<Self::Transport>) -> Option<HttpTransport> {
        let _ = machine;
        None
    }

    /// Closes the connection within the time that [`Client::close`](crate::Client::close) documents, whatever the
    /// server does. Returns the exit status of the server's process if it exited before it was terminated.
    fn end(self) -> impl Future<Output = Option<ExitStatus>> + Send;
}
