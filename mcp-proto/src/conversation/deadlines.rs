//! A set of timers, each with at most one deadline.

use std::collections::{BTreeMap, BTreeSet};

use crate::Instant;

/// Timers by key. Setting a timer again replaces its deadline.
#[derive(Debug)]
pub(crate) struct Deadlines<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: BTreeMap<K, Instant>,
}

impl<K: Ord + Copy> Deadlines<K> {
    pub(crate) const fn new() -> Self {
        Self { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, key: K, at: Instant) {
        if let Some(earlier) = self.by_key.insert(key, at) {
            self.by_time.remove(&(earlier, key));
        }
        self.by_time.insert((at, key));
    }

    pub(crate) fn clear(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    pub(crate) fn is_set(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    pub(crate) fn clear_all(&mut self) {
        self.by_time.clear();
        self.by_key.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.by_time.len()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest timer that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<K> {
        let (at, key) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.clear(key);
        Some(key)
    }
}
