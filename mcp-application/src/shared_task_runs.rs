//! The tasks of a router, behind the lock of its driver.

#![expect(clippy::disallowed_types, reason = "the functions of tasks share this; no machine contains it")]

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::server::TaskLimits;

use crate::{Publisher, Publishers, TaskRuns};

/// The tasks of a router and the publishers of its servers, behind a lock. `W` and `I` are as for [`TaskRuns`], and `P` is
/// the driver's type of publishers.
pub struct SharedTaskRuns<W, I, P>(Mutex<RouterTasks<W, I, P>>);

/// What a [`SharedTaskRuns`] contains.
#[derive(Debug)]
#[non_exhaustive]
pub struct RouterTasks<W, I, P> {
    /// The tasks.
    pub runs: TaskRuns<W, I>,
    /// The publishers of the servers that use the router.
    pub publishers: Publishers<P>,
    /// Whether the driver publishes changes and drops the tasks whose time is over.
    pub has_driver: bool,
}

impl<W, I, P: Publisher> SharedTaskRuns<W, I, P> {
    /// No tasks yet.
    #[must_use]
    pub fn new(limits: TaskLimits) -> Self {
        let (runs, publishers) = (TaskRuns::new(limits), Publishers::default());
        Self(Mutex::new(RouterTasks { runs, publishers, has_driver: false }))
    }

    /// A server with the router was created.
    pub fn created(&self, publisher: P) {
        self.lock().publishers.add(publisher);
    }

    /// The tasks. A panic while the lock is held leaves them as they are.
    pub fn lock(&self) -> MutexGuard<'_, RouterTasks<W, I, P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W, I, P> RouterTasks<W, I, P> {
    /// Whether the driver must begin to publish changes and to drop tasks.
    #[must_use]
    pub fn needs_driver(&self) -> bool {
        !self.has_driver && (self.runs.has_notification() || self.runs.poll_timeout().is_some())
    }
}

impl<W, I, P> fmt::Debug for SharedTaskRuns<W, I, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTaskRuns").finish_non_exhaustive()
    }
}
