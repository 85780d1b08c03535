//! The slot in which a caller waits for its outcome, and for progress before it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mcp_proto::client::Outcome;
use mcp_proto::{Failed, Json};

/// Progress notifications queued for one caller; beyond this, the oldest are dropped.
const PROGRESS: usize = 64;
/// Bytes of progress queued for all callers of a client.
const PROGRESS_BYTES: usize = 4 * 1024 * 1024;

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
    /// Bytes of progress queued for all callers of the client.
    total: Arc<AtomicUsize>,
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

    fn pop(&self, state: &mut State) -> Option<Json> {
        let params = state.progress.pop_front()?;
        self.total.fetch_sub(params.len(), Ordering::Relaxed);
        Some(params)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let left = self.state().progress.iter().map(Json::len).sum();
        self.total.fetch_sub(left, Ordering::Relaxed);
    }
}

impl ResponseSlot {
    /// `total` counts the bytes of progress queued for all callers of a client.
    pub(crate) fn new(total: Arc<AtomicUsize>) -> (ResponseSender, Self) {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), total });
        (ResponseSender(Arc::clone(&shared)), Self(shared))
    }

    /// Waits for the next progress, or the outcome, which is the last.
    pub(crate) fn wait(&self) -> ResponseUpdate {
        let mut state = self.0.state();
        loop {
            if let Some(params) = self.0.pop(&mut state) {
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
        let mut state = self.0.state();
        let is_full = || self.0.total.load(Ordering::Relaxed).saturating_add(params.len()) > PROGRESS_BYTES;
        while state.progress.len() >= PROGRESS || is_full() {
            // This caller has no older progress to drop, so it misses this one.
            let Some(_dropped) = self.0.pop(&mut state) else { return };
        }
        self.0.total.fetch_add(params.len(), Ordering::Relaxed);
        state.progress.push_back(params);
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
    use super::*;

    fn large(text: &str) -> Json {
        Json::from(text.repeat(PROGRESS_BYTES / 4).as_str())
    }

    #[test]
    fn progress_that_waits_is_bounded_over_all_callers_and_the_newest_of_a_caller_stays() {
        let total = Arc::new(AtomicUsize::new(0));
        let (first, first_caller) = ResponseSlot::new(Arc::clone(&total));
        let (second, second_caller) = ResponseSlot::new(Arc::clone(&total));
        for text in ["a", "b", "c", "d", "e", "f"] {
            first.progress(large(text));
        }
        second.progress(large("z"));
        assert!(total.load(Ordering::Relaxed) <= PROGRESS_BYTES);
        for text in ["d", "e", "f"] {
            assert!(matches!(first_caller.wait(), ResponseUpdate::Progress(params) if params == large(text)));
        }
        second.progress(large("y"));
        drop((first, second));
        assert!(matches!(second_caller.wait(), ResponseUpdate::Progress(params) if params == large("y")));
        assert!(matches!(second_caller.wait(), ResponseUpdate::Outcome(_)));
        drop((first_caller, second_caller));
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_caller_that_is_behind_gets_the_newest_progress() {
        let (responder, caller) = ResponseSlot::new(Arc::default());
        (0..100).for_each(|step| responder.progress(Json::from(step)));
        drop(responder);
        let taken = std::iter::from_fn(|| match caller.wait() {
            ResponseUpdate::Progress(params) => Some(params),
            ResponseUpdate::Outcome(_) => None,
        });
        assert_eq!(taken.collect::<Vec<_>>(), (36..100).map(Json::from).collect::<Vec<_>>());
    }
    #[test]
    fn progress_takes_all_the_room_there_is_and_gives_it_back() {
        let total = Arc::new(AtomicUsize::new(0));
        let (responder, caller) = ResponseSlot::new(Arc::clone(&total));
        let (other, _other_caller) = ResponseSlot::new(Arc::clone(&total));
        // With its quotes, this is exactly half of the room.
        let half = || Json::from("x".repeat(PROGRESS_BYTES / 2 - 2).as_str());
        responder.progress(half());
        responder.progress(half());
        assert_eq!(total.load(Ordering::Relaxed), PROGRESS_BYTES);
        other.progress(Json::from(1));
        assert!(other.0.state().progress.is_empty(), "there is no room, and nothing of its own to drop");
        assert!(matches!(caller.wait(), ResponseUpdate::Progress(_)));
        assert_eq!(total.load(Ordering::Relaxed), PROGRESS_BYTES / 2);
        // Dropping the caller also frees the room of progress that was not taken.
        drop((responder, caller));
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_caller_that_waits_is_woken_by_progress_and_by_the_end() {
        let (responder, caller) = ResponseSlot::new(Arc::default());
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
        let (responder, caller) = ResponseSlot::new(Arc::default());
        responder.outcome(Outcome::Result(Json::from(1)));
        assert!(matches!(caller.wait(), ResponseUpdate::Outcome(Outcome::Result(_))));
    }
}
