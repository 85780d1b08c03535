//! The outputs of a gateway: actions and events.

use std::fmt;
use std::time::Duration;

use mcp_proto::machine::Weight;
use mcp_proto::server::{self, EndedRequest, Principal};
use mcp_proto::{Failed, Fault, StdioAction};

use crate::relay;

/// Identifies a backend: one process of the server behind a gateway. A key is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendKey(u64);

impl BackendKey {
    /// The key of the first backend.
    pub(super) const FIRST: Self = Self(1);

    /// The number of the backend: 1 for the first one of its gateway, and 1 more for each further one.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The key of the backend that is started after this one.
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The number of the backend.
impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An action that the driver of a gateway must carry out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// An action on an HTTP exchange with a client.
    Client(server::HttpAction),
    /// Start a process. Its output is passed in with [`Gateway::handle_backend_bytes`], and its end with
    /// [`Gateway::handle_backend_process_end`]. A process that cannot be started is reported with
    /// [`Gateway::handle_not_started`].
    ///
    /// [`Gateway::handle_backend_bytes`]: super::Gateway::handle_backend_bytes
    /// [`Gateway::handle_backend_process_end`]: super::Gateway::handle_backend_process_end
    /// [`Gateway::handle_not_started`]: super::Gateway::handle_not_started
    Start {
        /// The new backend.
        backend: BackendKey,
        /// The authenticated client for which it is started, if there is only one and it is known.
        principal: Option<Principal>,
    },
    /// An action on the byte stream of a backend that was started and is not stopped.
    Backend {
        /// The backend.
        backend: BackendKey,
        /// The action.
        action: StdioAction,
    },
    /// Stop a process, and report its end with [`Gateway::handle_stopped`]: after a pause terminate it, and after another
    /// one kill it, with all processes that it has started. Its stream is closed already, unless the process has closed
    /// it. No action for this backend follows.
    ///
    /// [`Gateway::handle_stopped`]: super::Gateway::handle_stopped
    ///
    /// Rules: ST-17.
    Stop {
        /// The backend.
        backend: BackendKey,
    },
}

impl Weight for Action {
    fn weight(&self) -> usize {
        match self {
            Self::Client(action) => action.weight(),
            Self::Backend { action, .. } => action.weight(),
            Self::Start { .. } | Self::Stop { .. } => 0,
        }
    }
}

/// What a gateway reports to the application, for example for logging. No event requires a reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Something happened between the clients of a backend and this backend.
    Backend {
        /// The backend.
        backend: BackendKey,
        /// What happened.
        event: relay::Event,
    },
    /// A backend could not be started, has exited, or did not answer, before it could be used. Until the pause is over,
    /// no backend is started for requests of the same principal, or for requests without a principal from the same
    /// address. Such requests are answered with an error that states the reason.
    NotStarted {
        /// Why the last one could not be used.
        reason: Failed,
        /// The length of the pause.
        retry_in: Duration,
    },
    /// A request of a client has ended, if [`Config::reports_ended_requests`](relay::Config::reports_ended_requests) is set.
    RequestEnded(Box<EndedRequest>),
    /// A client violated the protocol, or messages were lost because it did not read in time. The gateway continues.
    Faulted(Fault),
    /// The requests that [`Gateway::drain`](super::Gateway::drain) waited for are over.
    Drained {
        /// The number of requests that are cancelled, because they were not answered in time.
        cancelled: usize,
    },
}

impl Weight for Event {
    fn weight(&self) -> usize {
        match self {
            Self::Backend { event, .. } => event.weight(),
            Self::NotStarted { .. } | Self::RequestEnded(_) | Self::Faulted(_) | Self::Drained { .. } => {
                size_of::<Self>()
            }
        }
    }
}
