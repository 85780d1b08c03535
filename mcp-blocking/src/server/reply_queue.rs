//! The queue of what the driver sends to one connection. Its receiver waits for an entry, or is woken by the next one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// Makes both ends of a queue. Its sender bounds it.
pub(crate) fn reply_queue<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { queue: VecDeque::new(), waker: None, has_ended: false, is_over: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The end of the driver. Dropping it ends the queue.
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// The end of the connection.
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    /// Woken by the next entry, or by the end.
    waker: Option<Waker>,
    /// The sender was dropped.
    has_ended: bool,
    /// The receiver was dropped.
    is_over: bool,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the receiver.
    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let mut state = self.state();
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        match waker {
            Some(waker) => waker.wake(),
            None => self.changed.notify_one(),
        }
    }
}

impl<T> Sender<T> {
    /// Never blocks. Returns `false` if the receiver was dropped.
    pub(crate) fn send(&self, entry: T) -> bool {
        let mut is_taken = false;
        self.0.change(|state| {
            is_taken = !state.is_over;
            if is_taken {
                state.queue.push_back(entry);
            }
        });
        is_taken
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.has_ended = true);
    }
}

impl<T> Receiver<T> {
    /// Waits for an entry or the end, instead of [`Self::wake_at_next`]. Returns `false` if there was neither in this time.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let is_idle = |state: &mut State<T>| state.queue.is_empty() && !state.has_ended;
        let mut state = self.0.state();
        state.waker = None;
        let waited = self.0.changed.wait_timeout_while(state, time, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        !is_idle(&mut state)
    }

    /// Takes the next entry without waiting.
    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.state();
        match state.queue.pop_front() {
            Some(entry) => Ok(entry),
            None if state.has_ended => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Has `waker` woken once by the next entry or the end, and gives up the memory of earlier entries. Returns `false` if there
    /// is an entry, or the queue has ended.
    pub(crate) fn wake_at_next(&self, waker: &Waker) -> bool {
        let mut state = self.0.state();
        let is_idle = state.queue.is_empty() && !state.has_ended;
        if is_idle {
            state.queue = VecDeque::new();
            state.waker = Some(waker.clone());
        }
        is_idle
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.is_over, state.waker) = (true, None);
        let rest = std::mem::take(&mut state.queue);
        drop(state);
        drop(rest);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn entries_arrive_in_order_and_the_end_after_them() {
        let (sender, receiver) = reply_queue();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert!(!receiver.wait(Duration::from_millis(1)));
        assert!(sender.send(1) && sender.send(2));
        drop(sender);
        assert!(receiver.wait(LONG));
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
        assert!(receiver.wait(LONG), "the end is not waited for again");
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        let (sender, receiver) = reply_queue();
        drop(receiver);
        assert!(!sender.send(1));
    }

    #[test]
    fn a_receiver_that_waits_is_woken_by_an_entry_and_by_the_end() {
        let (sender, receiver) = reply_queue();
        let waiting = thread::spawn(move || {
            let first = (receiver.wait(LONG), receiver.try_recv());
            (first, receiver.wait(LONG), receiver.try_recv())
        });
        thread::sleep(Duration::from_millis(20));
        sender.send(1);
        thread::sleep(Duration::from_millis(20));
        drop(sender);
        assert_eq!(waiting.join().unwrap(), ((true, Ok(1)), true, Err(TryRecvError::Disconnected)));
    }

    #[test]
    fn a_waker_is_woken_once_and_only_if_nothing_is_there_already() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let count = || woken.0.load(Ordering::SeqCst);
        let (sender, receiver) = reply_queue();
        assert!(receiver.wake_at_next(&waker));
        sender.send(1);
        sender.send(2);
        assert_eq!(count(), 1, "both entries are taken together");
        assert!(!receiver.wake_at_next(&waker), "there are entries");
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
        assert!(receiver.wake_at_next(&waker));
        drop(sender);
        assert_eq!(count(), 2);
        assert!(!receiver.wake_at_next(&waker), "it has ended");
    }
}
