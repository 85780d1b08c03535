//! A bounded queue that counts what it had no room for.

use std::collections::VecDeque;

/// A queue, bounded in entries and in bytes. Where entries are missing, it says how many. It does not synchronize.
///
/// # Example
///
/// ```
/// use mcp_proto::driver::{Next, Queue};
///
/// let mut queue = Queue::new(2, 100);
/// assert_eq!(queue.push("a", 10), Ok(()));
/// assert_eq!(queue.push("too large", 91), Err("too large"));
/// queue.miss();
/// queue.push_last("the end");
/// let all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
/// assert_eq!(all, [Next::Entry("a"), Next::Missed(1), Next::Entry("the end")]);
/// ```
#[derive(Debug)]
pub struct Queue<T> {
    /// Each entry with its weight in bytes.
    entries: VecDeque<(Next<T>, usize)>,
    weight: usize,
    /// Entries that were dropped since the last one in the queue.
    missed: u64,
    max_entries: usize,
    max_bytes: usize,
}

/// What is taken from a [`Queue`].
#[derive(Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// An entry.
    Entry(T),
    /// At this place, this number of entries is missing.
    Missed(u64),
}

impl<T> Queue<T> {
    /// Creates a queue of at most `max_entries` entries that weigh at most `max_bytes` together. An empty queue takes
    /// one entry of any weight.
    #[must_use]
    pub const fn new(max_entries: usize, max_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), weight: 0, missed: 0, max_entries, max_bytes }
    }

    /// Adds an entry that weighs this many bytes.
    ///
    /// # Errors
    ///
    /// The entry, if there is no room for it.
    pub fn push(&mut self, entry: T, weight: usize) -> Result<(), T> {
        let has_room = self.entries.len() < self.max_entries && self.weight.saturating_add(weight) <= self.max_bytes;
        if !has_room && !self.entries.is_empty() {
            return Err(entry);
        }
        self.insert(entry, weight);
        Ok(())
    }

    /// Adds the last entry, for which there is always room.
    pub fn push_last(&mut self, entry: T) {
        self.insert(entry, 0);
    }

    /// Records that an entry is missing at this place.
    pub const fn miss(&mut self) {
        self.missed += 1;
    }

    /// Takes the next entry, or the number of those that are missing before it.
    pub fn pop(&mut self) -> Option<Next<T>> {
        if let Some((next, weight)) = self.entries.pop_front() {
            self.weight = self.weight.saturating_sub(weight);
            return Some(next);
        }
        let missed = std::mem::take(&mut self.missed);
        (missed > 0).then_some(Next::Missed(missed))
    }

    /// Whether there is nothing to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.missed == 0
    }

    fn insert(&mut self, entry: T, weight: usize) {
        if self.missed > 0 {
            self.entries.push_back((Next::Missed(std::mem::take(&mut self.missed)), 0));
        }
        self.entries.push_back((Next::Entry(entry), weight));
        self.weight = self.weight.saturating_add(weight);
    }
}
