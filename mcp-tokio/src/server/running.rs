//! What a server and its clones share: the configuration, and the streams and HTTP services over which they are served.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::UsageError;
use mcp_proto::server::{ChangeNotification, Config};
use tokio::sync::{mpsc, oneshot};

use super::commands::FinalCommand;

/// What a server and its clones share. It exists as long as one of them or of their streams and HTTP services does.
#[derive(Debug)]
pub(super) struct Running {
    config: Config,
    handles: Mutex<Vec<Handle>>,
}

/// Sends commands to the task of one stream or HTTP service, as long as it runs.
#[derive(Debug, Clone)]
pub(super) struct Handle(mpsc::WeakUnboundedSender<FinalCommand>);

/// The stage of a stream or an HTTP service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// Requests in progress are still answered.
    Draining,
    Closed,
}

impl Running {
    pub(super) const fn new(config: Config) -> Self {
        Self { config, handles: Mutex::new(Vec::new()) }
    }

    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a stream or an HTTP service, and removes those that have ended.
    pub(super) fn add(&self, handle: Handle) {
        let mut handles = self.handles();
        handles.retain(|handle| handle.final_commands().is_some());
        handles.push(handle);
    }

    /// Publishes a change over each of them.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is not a change, or was not declared.
    pub(super) async fn publish(&self, change: &ChangeNotification) -> Result<(), UsageError> {
        self.config.check_change(change)?;
        let running: Vec<_> = self.handles().iter().filter_map(Handle::final_commands).collect();
        let published: Vec<_> = running.iter().map(|running| publish(running, change.clone())).collect();
        for accepted in published {
            // One that has ended meanwhile has no clients.
            let _ = accepted.await;
        }
        Ok(())
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
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    pub(super) fn new(final_commands: &mpsc::UnboundedSender<FinalCommand>) -> Self {
        Self(final_commands.downgrade())
    }

    /// Where its commands are sent; `None` if its task has ended, although a publisher of it may exist.
    fn final_commands(&self) -> Option<mpsc::UnboundedSender<FinalCommand>> {
        self.0.upgrade().filter(|final_commands| !final_commands.is_closed())
    }

    fn begin_to_drain(&self, timeout: Duration) -> oneshot::Receiver<usize> {
        let (done, drained) = oneshot::channel();
        if let Some(final_commands) = self.final_commands() {
            let _ = final_commands.send(FinalCommand::Drain { timeout, done });
        }
        drained
    }
}

/// Sends a change to the task of a stream or an HTTP service. The result is an error if the task has ended.
pub(super) fn publish(
    to: &mpsc::UnboundedSender<FinalCommand>,
    change: ChangeNotification,
) -> oneshot::Receiver<Result<(), UsageError>> {
    let (accept, accepted) = oneshot::channel();
    let _ = to.send(FinalCommand::Publish { change, accept });
    accepted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_forgotten_although_a_publisher_of_it_is_kept() {
        let running = Running::new(Config::new("s", "1"));
        let (kept, _received) = mpsc::unbounded_channel();
        running.add(Handle::new(&kept));
        let mut publishers = Vec::new();
        for _ in 0..10 {
            let (ended, _) = mpsc::unbounded_channel();
            running.add(Handle::new(&ended));
            publishers.push(ended);
            assert_eq!(running.handles().len(), 2);
        }
    }
}
