//! Where threads that read and write hand in what happens.

use std::fmt;
use std::sync::mpsc::SyncSender;

/// Takes what happens.
pub(crate) trait Inbox<I>: fmt::Debug + Send + Sync {
    /// Takes it, and waits for room if there is none. `false` if nothing is taken any more.
    fn send(&self, input: I) -> bool;

    /// The same without waiting: what there is no room for is dropped.
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
