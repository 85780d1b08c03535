//! The outputs of an aggregate: actions and events.

use std::fmt;
use std::time::Duration;

use mcp_proto::client::CloseReason;
use mcp_proto::machine::Weight;
use mcp_proto::{Fault, Method, StdioAction};

use crate::relay;

/// Identifies a server of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerKey(usize);

impl ServerKey {
    pub(super) const fn new(index: usize) -> Self {
        Self(index)
    }

    /// The position of the server in [`Config::servers`](super::Config::servers).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// The position of the server in the configuration.
impl fmt::Display for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An action that the driver of an aggregate must carry out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// An action on the client's stream.
    Client(StdioAction),
    /// Start the process of a server, or another byte stream to it. What it writes is passed in with
    /// [`Aggregate::handle_server_bytes`]. One that cannot be started is reported with [`Aggregate::handle_stopped`]. A
    /// server is started again only after its end was reported.
    ///
    /// [`Aggregate::handle_server_bytes`]: super::Aggregate::handle_server_bytes
    /// [`Aggregate::handle_stopped`]: super::Aggregate::handle_stopped
    Start {
        /// The server.
        server: ServerKey,
    },
    /// An action on the byte stream of a server that was started and is not stopped.
    Server {
        /// The server.
        server: ServerKey,
        /// The action.
        action: StdioAction,
    },
    /// Stop the process of a server, and report its end with [`Aggregate::handle_stopped`]: close its input, after a pause
    /// terminate it, and after another one kill it, with all processes that it has started. What it still writes is
    /// ignored. No action for it follows until its end was reported.
    ///
    /// [`Aggregate::handle_stopped`]: super::Aggregate::handle_stopped
    ///
    /// Rules: ST-17.
    Stop {
        /// The server.
        server: ServerKey,
    },
}

impl Weight for Action {
    fn weight(&self) -> usize {
        match self {
            Self::Client(action) | Self::Server { action, .. } => action.weight(),
            Self::Start { .. } | Self::Stop { .. } => 0,
        }
    }
}

/// What an aggregate reports to the application, for example for logging. No event requires a reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Something happened between the aggregate and this server.
    Server {
        /// The server.
        server: ServerKey,
        /// What happened.
        event: relay::Event,
    },
    /// A server could not be used, or has exited. It is started again after a pause.
    ServerFailed {
        /// The server.
        server: ServerKey,
        /// The length of the pause.
        retry_in: Duration,
    },
    /// A server has not answered this request in time; for the request that opens the connection, this is `initialize` in
    /// all revisions. The client does not wait for the server again, until it was in time.
    Late {
        /// The server.
        server: ServerKey,
        /// The method of the request.
        method: Method,
    },
    /// A server that was late has answered a request of this method in time.
    InTime {
        /// The server.
        server: ServerKey,
        /// The method of the request.
        method: Method,
    },
    /// The list of a server has more pages, bytes or longer cursors than the aggregate reads, or takes too long. The client
    /// receives a part of it. This is reported once for each list of a process.
    ListTooLong {
        /// The server.
        server: ServerKey,
        /// The method of the list.
        method: Method,
    },
    /// Two servers list the same resource or template: it belongs to the one that has listed it first, and that of the other
    /// is left out. This is reported once for each pair of servers while `other` runs.
    SameResource {
        /// The server that the resource belongs to.
        owner: ServerKey,
        /// The server whose resource is left out.
        other: ServerKey,
    },
    /// A server lists tools or prompts with names of another one: those that an earlier server in the configuration has
    /// listed, if neither has a prefix, or those that begin with the prefix of the other one. They are left out. This is
    /// reported once for each pair of servers and method while `other` runs.
    SameName {
        /// The server that the names belong to.
        owner: ServerKey,
        /// The server whose tools or prompts are left out.
        other: ServerKey,
        /// The method of the list.
        method: Method,
    },
    /// A tool of a server is linked to the page of an app that a tool of another one was linked to first. It is listed without
    /// the link. This is reported once for each pair of servers while `other` runs.
    SamePage {
        /// The server that the page belongs to.
        owner: ServerKey,
        /// The server whose tool is listed without the link.
        other: ServerKey,
    },
    /// The client violated the protocol, or messages were lost because it did not read in time. The aggregate continues.
    Faulted(Fault),
    /// The client has gone, and all servers have ended; no event follows.
    Closed(CloseReason),
}

impl Weight for Event {
    fn weight(&self) -> usize {
        match self {
            Self::Server { event, .. } => event.weight(),
            Self::ServerFailed { .. }
            | Self::Late { .. }
            | Self::InTime { .. }
            | Self::ListTooLong { .. }
            | Self::SameResource { .. }
            | Self::SameName { .. }
            | Self::SamePage { .. }
            | Self::Faulted(_)
            | Self::Closed(_) => size_of::<Self>(),
        }
    }
}
