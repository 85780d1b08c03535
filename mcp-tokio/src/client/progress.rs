//! The progress of a call, from the task to the caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use mcp_application::ProgressQueue;
use mcp_proto::Json;
use tokio::sync::Notify;

/// Makes both ends of a queue.
pub(super) fn progress(queue: ProgressQueue) -> (ProgressSender, ProgressReceiver) {
    let state = Mutex::new(State { queue, has_ended: false });
    let shared = Arc::new(Shared { state, changed: Notify::new() });
    (ProgressSender(Arc::downgrade(&shared)), ProgressReceiver(shared))
}

/// The task's end. Dropping it ends the queue.
#[derive(Debug)]
pub(super) struct ProgressSender(Weak<Shared>);

/// The caller's end. Dropping it drops what is queued.
#[derive(Debug)]
pub(super) struct ProgressReceiver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    queue: ProgressQueue,
    has_ended: bool,
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest notification, or the end.
    fn poll(&self) -> Poll<Option<Json>> {
        let mut state = self.state();
        match state.queue.pop() {
            None if !state.has_ended => Poll::Pending,
            params => Poll::Ready(params),
        }
    }
}

impl ProgressSender {
    /// Queues the parameters of a notification, unless the caller's end was dropped.
    pub(super) fn send(&self, params: Json) {
        if let Some(shared) = self.0.upgrade() {
            shared.change(|state| state.queue.push(params));
        }
    }
}

impl Drop for ProgressSender {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.change(|state| state.has_ended = true);
        }
    }
}

impl ProgressReceiver {
    /// Waits for the parameters of the next notification. Returns `None` once the sender was dropped and the queue is
    /// empty. Dropping the future loses nothing.
    pub(super) async fn recv(&mut self) -> Option<Json> {
        loop {
            if let Poll::Ready(params) = self.0.poll() {
                return params;
            }
            self.0.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_application::ProgressBytes;
    use tokio::task::{spawn, yield_now};

    use super::*;

    #[tokio::test]
    async fn a_caller_is_woken_by_progress_and_by_the_end() {
        let (sender, mut receiver) = progress(ProgressBytes::default().queue());
        let receiving = spawn(async move { (receiver.recv().await, receiver.recv().await, receiver.recv().await) });
        yield_now().await;
        sender.send(Json::from(1));
        yield_now().await;
        drop(sender);
        assert_eq!(receiving.await.unwrap(), (Some(Json::from(1)), None, None));
    }

    #[tokio::test]
    async fn progress_of_a_caller_that_only_waits_is_bounded_and_the_oldest_is_dropped() {
        let bytes = ProgressBytes::default();
        let (sender, mut receiver) = progress(bytes.queue());
        let third = |text: &str| Json::from(text.repeat(ProgressBytes::MOST / 3 - 2).as_str());
        for text in ["a", "b", "c", "d"] {
            sender.send(third(text));
        }
        for text in ["b", "c", "d"] {
            assert_eq!(receiver.recv().await, Some(third(text)));
        }
        // The room of a caller that is not interested in progress is free for others.
        sender.send(third("e"));
        drop(receiver);
        sender.send(third("f"));
        let (other, mut caller) = progress(bytes.queue());
        for text in ["g", "h", "i"] {
            other.send(third(text));
        }
        assert_eq!(caller.recv().await, Some(third("g")));
    }
}
