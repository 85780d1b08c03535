//! A queue between two threads, bounded in entries and in bytes. Sending never blocks.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use crate::sync::{Condvar, Mutex, MutexGuard};

/// Makes a queue of at most `entries` entries that weigh at most `bytes` together. An empty queue takes one entry of
/// any weight.
pub(crate) fn bounded<T>(entries: usize, bytes: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { queue: VecDeque::new(), weight: 0, missed: 0, has_ended: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), entries, bytes });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

/// What is taken from a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    Entry(T),
    /// At this place, this number of entries is missing.
    Missed(u64),
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    entries: usize,
    bytes: usize,
}

#[derive(Debug)]
struct State<T> {
    /// Each entry with its weight in bytes.
    queue: VecDeque<(Next<T>, usize)>,
    weight: usize,
    /// Entries that were dropped since the last one in the queue.
    missed: u64,
    has_ended: bool,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn push(&mut self, entry: T, weight: usize) {
        if self.missed > 0 {
            self.queue.push_back((Next::Missed(std::mem::take(&mut self.missed)), 0));
        }
        self.queue.push_back((Next::Entry(entry), weight));
        self.weight = self.weight.saturating_add(weight);
    }
}

impl<T> Sender<T> {
    /// Adds an entry that weighs this many bytes, or returns it if there is no room.
    pub(crate) fn try_send(&self, entry: T, weight: usize) -> Result<(), T> {
        let mut state = self.0.state();
        let has_room = state.queue.len() < self.0.entries && state.weight.saturating_add(weight) <= self.0.bytes;
        if !has_room && !state.queue.is_empty() {
            return Err(entry);
        }
        state.push(entry, weight);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Records that an entry is missing at this place.
    pub(crate) fn miss(&self) {
        self.0.state().missed += 1;
    }

    /// Adds the last entry, for which there is always room.
    pub(crate) fn finish(self, entry: T) {
        self.0.state().push(entry, 0);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for the next entry. Returns `None` once the sender was dropped and the queue is empty.
    pub(crate) fn recv(&self) -> Option<Next<T>> {
        let is_idle = |state: &mut State<T>| state.queue.is_empty() && state.missed == 0 && !state.has_ended;
        let mut state = self.0.changed.wait_while(self.0.state(), is_idle).unwrap_or_else(PoisonError::into_inner);
        if let Some((next, weight)) = state.queue.pop_front() {
            state.weight = state.weight.saturating_sub(weight);
            return Some(next);
        }
        let missed = std::mem::take(&mut state.missed);
        (missed > 0).then_some(Next::Missed(missed))
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
