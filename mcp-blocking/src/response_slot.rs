//! The slot in which a caller waits for its outcome, and for progress before it.

use std::sync::{Arc, PoisonError};

use mcp_application::ProgressQueue;
use mcp_proto::client::Outcome;
use mcp_proto::{Failed, Json};

use crate::sync::{Condvar, Mutex, MutexGuard};

/// The caller's end.
#[derive(Debug)]
pub(crate) struct ResponseSlot(Arc<Shared>);

/// The driver's end. If it is dropped without an outcome, the caller gets [`Failed::Closed`].
#[derive(Debug)]
pub(crate) struct ResponseSender(Arc<Shared>);

/// What a caller receives.
#[derive(Debug)]
pub(crate) enum ResponseUpdate {
    Progress(Json),
    Outcome(Outcome),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    progress: ProgressQueue,
    outcome: Option<Outcome>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResponseSlot {
    /// Creates both ends; `progress` is the queue of this caller.
    pub(crate) fn new(progress: ProgressQueue) -> (ResponseSender, Self) {
        let state = Mutex::new(State { progress, outcome: None });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        (ResponseSender(Arc::clone(&shared)), Self(shared))
    }

    /// Waits for the next progress, or the outcome, which is the last.
    pub(crate) fn wait(&self) -> ResponseUpdate {
        let mut state = self.0.state();
        loop {
            if let Some(params) = state.progress.pop() {
                return ResponseUpdate::Progress(params);
            }
            if let Some(outcome) = state.outcome.take() {
                return ResponseUpdate::Outcome(outcome);
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl ResponseSender {
    /// Queues progress for the caller. If there is no room, older progress of this caller is dropped.
    pub(crate) fn progress(&self, params: Json) {
        self.0.state().progress.push(params);
        self.0.changed.notify_all();
    }

    pub(crate) fn outcome(self, outcome: Outcome) {
        self.0.state().outcome = Some(outcome);
    }
}

impl Drop for ResponseSender {
    fn drop(&mut self) {
        self.0.state().outcome.get_or_insert(Outcome::Failed(Failed::Closed));
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use mcp_application::ProgressBytes;

    use super::*;

    #[test]
    fn a_caller_that_waits_is_woken_by_progress_and_by_the_end() {
        let (responder, caller) = ResponseSlot::new(ProgressBytes::default().queue());
        let (taken, results) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            loop {
                let update = caller.wait();
                let is_last = matches!(update, ResponseUpdate::Outcome(_));
                taken.send(update).unwrap();
                if is_last {
                    return;
                }
            }
        });
        for step in 0..2 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            responder.progress(Json::from(step));
            assert!(matches!(results.recv(), Ok(ResponseUpdate::Progress(found)) if found == Json::from(step)));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(responder);
        assert!(matches!(results.recv(), Ok(ResponseUpdate::Outcome(Outcome::Failed(Failed::Closed)))));
        waiting.join().unwrap();
        let (responder, caller) = ResponseSlot::new(ProgressBytes::default().queue());
        responder.outcome(Outcome::Result(Json::from(1)));
        assert!(matches!(caller.wait(), ResponseUpdate::Outcome(Outcome::Result(_))));
    }
}
