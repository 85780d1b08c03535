//! The streams and HTTP services over which a server is served, so that one call reaches all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcp_proto::{Notification, UsageError};

use super::{ServerPublisher, ServerStopper};

/// The streams and HTTP services of one server and of its clones.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<Vec<Handle>>);

/// What one stream or HTTP service keeps until it ends.
pub(super) type Registration = Arc<()>;

#[derive(Debug, Clone)]
struct Handle {
    registration: Weak<()>,
    publisher: ServerPublisher,
    stopper: ServerStopper,
}

impl Running {
    /// Adds a stream or an HTTP service, which keeps the returned value, and forgets those that have ended.
    pub(super) fn add(&self, publisher: ServerPublisher, stopper: ServerStopper) -> Registration {
        let registration = Registration::default();
        let mut handles = self.handles();
        handles.retain(|handle| handle.registration.strong_count() > 0);
        handles.push(Handle { registration: Arc::downgrade(&registration), publisher, stopper });
        registration
    }

    /// Publishes a change that was checked.
    pub(super) fn publish(&self, notification: &Notification) {
        let handles = self.handles().clone();
        for Handle { publisher, .. } in handles {
            // One that has ended has no clients.
            let _: Result<(), UsageError> = publisher.publish(notification.clone());
        }
    }

    /// Drains all of them at the same time.
    pub(super) fn shutdown(&self, timeout: Duration) {
        let handles = self.handles().clone();
        for Handle { stopper, .. } in handles {
            stopper.shutdown(timeout);
        }
    }

    fn handles(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
