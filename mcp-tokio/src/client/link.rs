//! What a connection's task needs of its transport.

use std::process::ExitStatus;

use mcp_proto::Transport;
use mcp_proto::client::{self as proto, ClientTransport, HttpTransport};

/// The transport's half of a connection: carries out what the machine wants done, and hands in what comes of it.
pub(crate) trait Link: Sized + Send + 'static {
    /// The machine's transport.
    type Transport: ClientTransport<Action: Send> + Send;

    /// Carries out an action of the machine's, or queues it: the machine bounds what waits.
    fn act(&mut self, action: <Self::Transport as Transport>::Action);

    /// Waits until something happens, and hands it in. Dropping this while it waits loses nothing.
    fn turn(&mut self, machine: &mut proto::Client<Self::Transport>) -> impl Future<Output = ()> + Send;

    /// The HTTP transport that is spoken.
    fn http_transport(machine: &proto::Client<Self::Transport>) -> Option<HttpTransport> {
        let _ = machine;
        None
    }

    /// Ends what is left of the connection, whatever the server does, in the time that
    /// [`Client::close`](super::Client::close) documents. Returns how the server's process ended, if it did so by itself.
    fn end(self) -> impl Future<Output = Option<ExitStatus>> + Send;
}
