//! A queue between two tasks, bounded in entries and in bytes. Sending never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// An entry of a queue.
pub(crate) trait Entry {
    /// The size of the entry in bytes.
    fn weight(&self) -> usize;

    /// The entry in whose place this number of entries is missing.
    fn missed(count: u64) -> Self;
}

/// Makes a queue of at most `entries` entries that weigh at most `bytes` together. An empty queue takes one entry of
/// any weight.
pub(crate) fn bounded<T: Entry>(entries: usize, bytes: usize) -> (Sender<T>, Receiver<T>) {
    // The load bounds the channel.
    let (sender, receiver) = mpsc::unbounded_channel();
    let load = Arc::new(Load::default());
    (Sender { queue: sender, load: Arc::clone(&load), entries, bytes }, Receiver { queue: receiver, load })
}

#[derive(Debug)]
pub(crate) struct Sender<T> {
    queue: mpsc::UnboundedSender<T>,
    load: Arc<Load>,
    entries: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Receiver<T> {
    queue: mpsc::UnboundedReceiver<T>,
    load: Arc<Load>,
}

/// What is queued.
#[derive(Debug, Default)]
struct Load {
    entries: AtomicUsize,
    bytes: AtomicUsize,
    /// Entries that were dropped since the last one in the queue.
    missed: AtomicU64,
}

impl<T: Entry> Sender<T> {
    /// Adds an entry. If there is no room, the entry is dropped and counted, and this returns `false`.
    pub(crate) fn send(&self, entry: T) -> bool {
        let (queued, weight) = (self.load.entries.load(Ordering::Acquire), entry.weight());
        let bytes = self.load.bytes.load(Ordering::Acquire).saturating_add(weight);
        if queued > 0 && (queued >= self.entries || bytes > self.bytes) {
            self.load.missed.fetch_add(1, Ordering::AcqRel);
            return false;
        }
        self.push(entry);
        true
    }

    /// Adds the last entry, for which there is always room.
    pub(crate) fn finish(self, entry: T) {
        self.push(entry);
    }

    fn push(&self, entry: T) {
        let missed = self.load.missed.swap(0, Ordering::AcqRel);
        for entry in (missed > 0).then(|| T::missed(missed)).into_iter().chain([entry]) {
            self.load.entries.fetch_add(1, Ordering::AcqRel);
            self.load.bytes.fetch_add(entry.weight(), Ordering::AcqRel);
            // If the receiver was dropped, nothing is to be done.
            let _ = self.queue.send(entry);
        }
    }
}

impl<T: Entry> Receiver<T> {
    /// Waits for the next entry. Returns `None` once the sender was dropped and the queue is empty. Dropping the future
    /// loses nothing.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        let entry = match self.queue.try_recv() {
            Ok(entry) => entry,
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                // Nothing is dropped while the queue is empty, so no entry goes missing after this.
                let missed = self.load.missed.swap(0, Ordering::AcqRel);
                if missed > 0 {
                    return Some(T::missed(missed));
                }
                self.queue.recv().await?
            }
        };
        self.load.bytes.fetch_sub(entry.weight(), Ordering::AcqRel);
        self.load.entries.fetch_sub(1, Ordering::AcqRel);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Text {
        Of(&'static str),
        Missed(u64),
    }

    impl Entry for Text {
        fn weight(&self) -> usize {
            if let Self::Of(text) = self { text.len() } else { 0 }
        }

        fn missed(count: u64) -> Self {
            Self::Missed(count)
        }
    }

    #[tokio::test]
    async fn a_queue_is_bounded_in_entries_and_bytes_and_counts_what_is_missing_in_its_place() {
        let (sender, mut receiver) = bounded(3, 4);
        assert!(sender.send(Text::Of("longer than all")), "one entry of any weight");
        assert!(!sender.send(Text::Of("")) && !sender.send(Text::Of("a")));
        assert_eq!(receiver.recv().await, Some(Text::Of("longer than all")));
        assert_eq!(receiver.recv().await, Some(Text::Missed(2)), "also where no entry follows");
        assert!(sender.send(Text::Of("ab")) && !sender.send(Text::Of("abc")) && sender.send(Text::Of("cd")));
        assert!(!sender.send(Text::Of("")), "three entries are queued");
        sender.finish(Text::Of("end"));
        let mut rest = Vec::new();
        while let Some(entry) = receiver.recv().await {
            rest.push(entry);
        }
        let expected = [Text::Of("ab"), Text::Missed(1), Text::Of("cd"), Text::Missed(1), Text::Of("end")];
        assert_eq!(rest, expected);
    }

    #[tokio::test]
    async fn a_receiver_is_woken_by_each_entry_and_by_the_end() {
        let (sender, mut receiver) = bounded(2, 100);
        let receiving = tokio::spawn(async move { (receiver.recv().await, receiver.recv().await) });
        tokio::task::yield_now().await;
        assert!(sender.send(Text::Of("a")));
        tokio::task::yield_now().await;
        drop(sender);
        assert_eq!(receiving.await.unwrap(), (Some(Text::Of("a")), None));
    }
}
