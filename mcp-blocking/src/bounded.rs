//! A queue between two threads, bounded in entries and in bytes. Sending never blocks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mcp_proto::driver::{Next, Queue};

/// Makes a queue of at most `entries` entries that weigh at most `bytes` together. An empty queue takes one entry of
/// any weight.
pub(crate) fn bounded<T>(entries: usize, bytes: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { queue: Queue::new(entries, bytes), has_ended: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    queue: Queue<T>,
    has_ended: bool,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Adds an entry that weighs this many bytes, or returns it if there is no room.
    pub(crate) fn try_send(&self, entry: T, weight: usize) -> Result<(), T> {
        self.0.state().queue.push(entry, weight)?;
        self.0.changed.notify_one();
        Ok(())
    }

    /// Records that an entry is missing at this place.
    pub(crate) fn miss(&self) {
        self.0.state().queue.miss();
    }

    /// Adds the last entry, for which there is always room.
    pub(crate) fn finish(self, entry: T) {
        self.0.state().queue.push_last(entry);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for the next entry. Returns `None` once the sender is gone and the queue is empty.
    pub(crate) fn recv(&self) -> Option<Next<T>> {
        let is_idle = |state: &mut State<T>| state.queue.is_empty() && !state.has_ended;
        let mut state = self.0.changed.wait_while(self.0.state(), is_idle).unwrap_or_else(PoisonError::into_inner);
        state.queue.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_bounded_in_entries_and_bytes_and_counts_what_is_missing_in_its_place() {
        let (sender, receiver) = bounded(3, 100);
        assert_eq!(sender.try_send(1, 1000), Ok(()), "one entry of any weight");
        assert_eq!(sender.try_send(2, 1), Err(2));
        sender.miss();
        sender.miss();
        assert_eq!(receiver.recv(), Some(Next::Entry(1)));
        assert_eq!((sender.try_send(3, 50), sender.try_send(4, 51)), (Ok(()), Err(4)));
        assert_eq!((sender.try_send(5, 50), sender.try_send(6, 0)), (Ok(()), Err(6)));
        sender.miss();
        sender.finish(7);
        let rest: Vec<_> = std::iter::from_fn(|| receiver.recv()).collect();
        let missed = Next::Missed;
        assert_eq!(rest, [missed(2), Next::Entry(3), Next::Entry(5), missed(1), Next::Entry(7)]);
    }

    #[test]
    fn a_gap_at_the_end_is_reported_too() {
        let (sender, receiver) = bounded(1, 1);
        sender.try_send(1, 1).unwrap();
        sender.miss();
        drop(sender);
        assert_eq!(receiver.recv(), Some(Next::Entry(1)));
        assert_eq!(receiver.recv(), Some(Next::Missed(1)));
        assert_eq!(receiver.recv(), None);
    }

    #[test]
    fn a_receiver_is_woken_by_each_entry_and_by_the_end() {
        let (sender, receiver) = bounded(3, 100);
        let (taken, results) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            while let Some(next) = receiver.recv() {
                taken.send(next).unwrap();
            }
        });
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        pause();
        for entry in 0..3 {
            sender.try_send(entry, 1).unwrap();
            assert_eq!(results.recv(), Ok(Next::Entry(entry)));
            pause();
        }
        assert!(results.try_recv().is_err(), "nothing comes before it is sent");
        sender.finish(3);
        assert_eq!(results.recv(), Ok(Next::Entry(3)));
        waiting.join().unwrap();

        let (sender, receiver) = bounded::<u8>(3, 100);
        let waiting = std::thread::spawn(move || receiver.recv());
        pause();
        drop(sender);
        assert_eq!(waiting.join().unwrap(), None);
    }
}
