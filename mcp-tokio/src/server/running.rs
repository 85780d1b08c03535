//! The streams and HTTP services over which a server is served, so that one call reaches all of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::commands::{Command, FinalCommand};

/// The streams and HTTP services of one server and of its clones.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<Vec<Handle>>);

/// Sends commands to the task of one stream or HTTP service, as long as it runs.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    commands: mpsc::WeakSender<Command>,
    final_commands: mpsc::WeakUnboundedSender<FinalCommand>,
}

/// The stage of a stream or an HTTP service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Serving,
    /// Requests in progress are still answered.
    Draining,
    Closed,
}

impl Running {
    /// Adds a stream or an HTTP service, and forgets those that have ended.
    pub(super) fn add(&self, handle: Handle) {
        let mut handles = self.handles();
        handles.retain(|handle| handle.commands.strong_count() > 0);
        handles.push(handle);
    }

    /// Where commands to each of them are sent.
    pub(super) fn commands(&self) -> Vec<mpsc::Sender<Command>> {
        self.handles().iter().filter_map(|handle| handle.commands.upgrade()).collect()
    }

    /// Drains all of them at the same time. Returns the number of requests that were cancelled.
    pub(super) async fn drain(&self, timeout: Duration) -> usize {
        let handles = self.handles().clone();
        let draining: Vec<_> = handles.iter().map(|handle| handle.begin_to_drain(timeout)).collect();
        let mut cancelled = 0;
        for drained in draining {
            cancelled += drained.await.unwrap_or(0);
        }
        cancelled
    }

    fn handles(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    pub(super) fn new(commands: &mpsc::Sender<Command>, final_commands: &mpsc::UnboundedSender<FinalCommand>) -> Self {
        Self { commands: commands.downgrade(), final_commands: final_commands.downgrade() }
    }

    /// Drains this one. Returns the number of requests that were cancelled.
    #[cfg(feature = "http-server")]
    pub(super) async fn drain(&self, timeout: Duration) -> usize {
        // An error means that the task has ended, so that nothing is left to cancel.
        self.begin_to_drain(timeout).await.unwrap_or(0)
    }

    fn begin_to_drain(&self, timeout: Duration) -> oneshot::Receiver<usize> {
        let (done, drained) = oneshot::channel();
        if let Some(final_commands) = self.final_commands.upgrade() {
            let _ = final_commands.send(FinalCommand::Drain { timeout, done });
        }
        drained
    }
}
