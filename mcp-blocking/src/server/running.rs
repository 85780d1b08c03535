//! What a server and its clones share: the configuration, and the streams and HTTP services over which they are served.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcp_proto::UsageError;
use mcp_proto::server::{ChangeNotification, Config};

use super::{ServerPublisher, ServerStopper};

/// What a server and its clones share. It exists as long as one of them or of their streams and HTTP services does.
#[derive(Debug)]
pub(super) struct Running {
    config: Config,
    handles: Mutex<Vec<Handle>>,
}

/// What one stream or HTTP service keeps until it ends.
#[derive(Debug)]
pub(super) struct Registration {
    /// Publishers reach the server as long as it runs.
    _running: Arc<Running>,
    is_running: Arc<()>,
}

#[derive(Debug, Clone)]
struct Handle {
    is_running: Weak<()>,
    publisher: ServerPublisher,
    stopper: ServerStopper,
}

impl Running {
    pub(super) const fn new(config: Config) -> Self {
        Self { config, handles: Mutex::new(Vec::new()) }
    }

    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a stream or an HTTP service, which keeps the returned value, and removes those that have ended.
    pub(super) fn add(self: &Arc<Self>, publisher: ServerPublisher, stopper: ServerStopper) -> Registration {
        let registration = Registration { _running: Arc::clone(self), is_running: Arc::default() };
        let mut handles = self.handles();
        handles.retain(|handle| handle.is_running.strong_count() > 0);
        handles.push(Handle { is_running: Arc::downgrade(&registration.is_running), publisher, stopper });
        registration
    }

    /// Publishes a change over each of them.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is not a change, or was not declared.
    pub(super) fn publish(&self, change: &ChangeNotification) -> Result<(), UsageError> {
        self.config.check_change(change)?;
        let handles = self.handles().clone();
        for Handle { publisher, .. } in handles {
            // One that has ended has no clients.
            let _: Result<(), UsageError> = publisher.publish(change.clone());
        }
        Ok(())
    }

    /// Drains all of them at the same time.
    pub(super) fn shutdown(&self, timeout: Duration) {
        let handles = self.handles().clone();
        for Handle { stopper, .. } in handles {
            stopper.shutdown(timeout);
        }
    }

    fn handles(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::server::commands::{Commands, Input};

    #[test]
    fn what_has_ended_is_forgotten_although_a_publisher_of_it_is_kept() {
        let running = Arc::new(Running::new(Config::new("s", "1")));
        let (inbox, _inputs) = sync_channel::<Input<()>>(1);
        let publisher = ServerPublisher::new(Commands::to(inbox.clone()));
        let add = || running.add(publisher.clone(), ServerStopper::new(Commands::to(inbox.clone())));
        let _kept = add();
        for _ in 0..10 {
            drop(add());
            assert_eq!(running.handles().len(), 2);
        }
    }
}
