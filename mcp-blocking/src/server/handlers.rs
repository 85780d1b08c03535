//! The threads on which requests are served.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Notification};

use super::Service;
use super::incoming::Incoming;
use super::subscriptions::Subscriptions;

/// Work that waits for a thread.
const WAITING: usize = 1024;
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

/// One thing for the application to do.
pub(super) enum Job {
    Call { service: Arc<dyn Service>, incoming: Incoming },
    Notified { service: Arc<dyn Service>, notification: Notification },
    Ended { service: Arc<dyn Service>, reason: CloseReason },
    Subscriptions { service: Arc<dyn Service>, subscriptions: Arc<Subscriptions> },
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl Job {
    /// Whether nobody waits for it any more.
    fn is_cancelled(&self) -> bool {
        matches!(self, Self::Call { incoming, .. } if incoming.is_cancelled())
    }

    fn run(self) {
        match self {
            // K6: its client is gone, or has taken it back.
            Self::Call { incoming, .. } if incoming.is_cancelled() => {}
            Self::Call { service, incoming } => {
                // A handler that panics fails its own request; the thread goes on.
                let outcome = catch_unwind(AssertUnwindSafe(|| service.serve(&incoming)));
                incoming.answer(outcome.unwrap_or_else(|_| {
                    log::error!("the handler of {} panicked", incoming.method());
                    Err(ErrorObject::internal())
                }));
            }
            Self::Ended { service, reason } => {
                if catch_unwind(AssertUnwindSafe(|| service.ended(reason))).is_err() {
                    log::error!("the handler of a session's end panicked");
                }
            }
            Self::Notified { service, notification } => {
                if catch_unwind(AssertUnwindSafe(|| service.notified(&notification))).is_err() {
                    log::error!("the handler of {} panicked", notification.method);
                }
            }
            Self::Subscriptions { service, subscriptions } => subscriptions.report(&*service),
        }
    }
}

/// A pool that grows up to its limit.
#[derive(Debug)]
pub(super) struct Handlers {
    shared: Arc<Pool>,
    most: usize,
}

#[derive(Debug)]
struct Pool {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Box<Job>>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job.run();
                state = self.state();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let (guard, waited) = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl Handlers {
    pub(super) fn new(most: usize) -> Self {
        let shared = Arc::new(Pool { state: Mutex::default(), changed: Condvar::new() });
        Self { shared, most }
    }

    /// Takes a job, or gives it back if too many wait.
    pub(super) fn push(&self, job: Box<Job>) -> Result<(), Box<Job>> {
        let mut state = self.shared.state();
        if state.jobs.len() >= WAITING {
            state.jobs.retain(|job| !job.is_cancelled());
        }
        // Of the other kinds, there is one for each session at most.
        let is_bounded = matches!(*job, Job::Call { .. } | Job::Notified { .. });
        if is_bounded && state.jobs.len() >= WAITING {
            return Err(job);
        }
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads >= self.most {
            drop(state);
            self.shared.changed.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new().name("mcp-handler".to_owned()).spawn(move || shared.work());
        if let Err(error) = spawned {
            log::warn!("cannot start another thread: {error}");
            self.shared.state().threads -= 1;
        }
        Ok(())
    }
}

/// Threads end when they have done what waits.
impl Drop for Handlers {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_all();
    }
}
