//! Back-pressure between threads: a reader waits until there is room.

use std::sync::PoisonError;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};

/// Open or closed. While it is closed, threads wait before they read.
#[derive(Debug)]
pub(crate) struct Backpressure {
    is_open: Mutex<bool>,
    /// The backpressure stays open from now on.
    is_released: AtomicBool,
    opened: Condvar,
}

impl Backpressure {
    pub(crate) const fn new() -> Self {
        Self { is_open: Mutex::new(true), is_released: AtomicBool::new(false), opened: Condvar::new() }
    }

    /// Opens or closes it; it stays open if it was [released](Self::release).
    pub(crate) fn set(&self, open: bool) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open || self.is_released.load(Ordering::Acquire);
        if *is_open != open {
            *is_open = open;
            self.opened.notify_all();
        }
    }

    /// Opens it, and keeps it open.
    pub(crate) fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        self.set(true);
    }

    /// Ends [`Self::release`].
    pub(crate) fn bind(&self) {
        self.is_released.store(false, Ordering::Release);
    }

    pub(crate) fn wait(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }

    /// Like [`Self::wait`], but also returns once `is_aborted` is set.
    pub(crate) fn wait_unless(&self, is_aborted: &AtomicBool) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open && !is_aborted.load(Ordering::Acquire)));
    }

    /// Wakes the thread that waits with this flag, without opening the backpressure for others.
    pub(crate) fn abort(&self, is_aborted: &AtomicBool) {
        // The lock ensures that no thread has read the flag but does not wait yet: such a thread would miss the
        // wake-up.
        let _is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        is_aborted.store(true, Ordering::Release);
        self.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn threads_wait_under_backpressure_and_one_may_be_cancelled() {
        let (backpressure, aborted) = (Arc::new(Backpressure::new()), Arc::new(AtomicBool::new(false)));
        backpressure.wait();
        backpressure.wait_unless(&aborted);
        backpressure.set(false);
        backpressure.set(false);
        let (taken, results) = channel();
        let waiting = [false, true, true].map(|may_abort| {
            let (backpressure, aborted, taken) = (Arc::clone(&backpressure), Arc::clone(&aborted), taken.clone());
            thread::spawn(move || {
                if may_abort {
                    backpressure.wait_unless(&aborted);
                } else {
                    backpressure.wait();
                }
                taken.send(may_abort).unwrap();
            })
        });
        thread::sleep(Duration::from_millis(50));
        assert!(results.try_recv().is_err(), "the backpressure is closed");
        backpressure.abort(&aborted);
        assert_eq!((results.recv(), results.recv()), (Ok(true), Ok(true)));
        thread::sleep(Duration::from_millis(20));
        assert!(results.try_recv().is_err(), "the backpressure is closed for all others");
        backpressure.wait_unless(&aborted);
        backpressure.set(true);
        assert_eq!(results.recv(), Ok(false));
        for thread in waiting {
            thread.join().unwrap();
        }
        backpressure.wait();
    }
}
