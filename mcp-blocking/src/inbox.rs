//! The queue to which the threads that read and write send their input.

use std::fmt;
use std::sync::mpsc::SyncSender;

/// Accepts input from other threads.
pub(crate) trait Inbox<I>: fmt::Debug + Send + Sync {
    /// Sends `input`, and waits for room if there is none. Returns `false` once the receiver was dropped.
    fn send(&self, input: I) -> bool;

    /// Sends `input` without waiting: it is dropped if there is no room.
    fn try_send(&self, input: I);
}

impl<I: Send> Inbox<I> for SyncSender<I> {
    fn send(&self, input: I) -> bool {
        Self::send(self, input).is_ok()
    }

    fn try_send(&self, input: I) {
        let _ = Self::try_send(self, input);
    }
}
