//! Where a caller waits for its outcome, and for progress until then.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mcp_proto::client::Outcome;
use mcp_proto::{Failed, Json};

/// Progress that a caller who is behind has not seen; older than that is missed.
const PROGRESS: usize = 64;

/// The caller's end.
#[derive(Debug)]
pub(crate) struct Mailbox(Arc<Shared>);

/// The owner's end. Dropping it without an outcome tells the caller that the connection was closed.
#[derive(Debug)]
pub(crate) struct Postman(Arc<Shared>);

/// What a caller learns.
#[derive(Debug)]
pub(crate) enum News {
    Progress(Json),
    Outcome(Outcome),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    progress: VecDeque<Json>,
    outcome: Option<Outcome>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mailbox {
    pub(crate) fn new() -> (Postman, Self) {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        (Postman(Arc::clone(&shared)), Self(shared))
    }

    /// Waits for the next progress, or the outcome, which is the last.
    pub(crate) fn wait(&self) -> News {
        let mut state = self.0.state();
        loop {
            if let Some(params) = state.progress.pop_front() {
                return News::Progress(params);
            }
            if let Some(outcome) = state.outcome.take() {
                return News::Outcome(outcome);
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Postman {
    pub(crate) fn progress(&self, params: Json) {
        let mut state = self.0.state();
        if state.progress.len() == PROGRESS {
            state.progress.pop_front();
        }
        state.progress.push_back(params);
        self.0.changed.notify_all();
    }

    pub(crate) fn outcome(self, outcome: Outcome) {
        self.0.state().outcome = Some(outcome);
    }
}

impl Drop for Postman {
    fn drop(&mut self) {
        self.0.state().outcome.get_or_insert(Outcome::Failed(Failed::Closed));
        self.0.changed.notify_all();
    }
}
