//! A set of timers, each with at most one deadline.

use std::collections::{BTreeMap, BTreeSet};

use crate::Instant;

/// Timers by key, each with at most one deadline. Setting a timer again replaces its deadline. Each call takes
/// logarithmic time.
///
/// # Example: a machine of several parts has one next deadline
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::Instant;
/// use mcp_proto::machine::Deadlines;
///
/// let now = Instant::START;
/// let mut timers = Deadlines::new();
/// timers.set("retry", now + Duration::from_secs(5));
/// timers.set("answer", now + Duration::from_secs(2));
/// assert_eq!(timers.next(), Some(now + Duration::from_secs(2)));
/// assert_eq!(timers.pop_due(now + Duration::from_secs(3)), Some("answer"));
/// assert_eq!(timers.pop_due(now + Duration::from_secs(3)), None);
/// ```
#[derive(Debug)]
pub struct Deadlines<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: BTreeMap<K, Instant>,
}

impl<K: Ord + Clone> Default for Deadlines<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone> Deadlines<K> {
    /// Creates a set without timers.
    #[must_use]
    pub const fn new() -> Self {
        Self { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }

    /// Sets the deadline of a timer.
    pub fn set(&mut self, key: K, at: Instant) {
        if let Some(earlier) = self.by_key.insert(key.clone(), at) {
            self.by_time.remove(&(earlier, key.clone()));
        }
        self.by_time.insert((at, key));
    }

    /// Removes a timer.
    pub fn clear(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Whether a timer has a deadline.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "nearly all keys are `Copy`")]
    pub fn is_set(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// The deadline of a timer; `None` if it is not set.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "nearly all keys are `Copy`")]
    pub fn get(&self, key: K) -> Option<Instant> {
        self.by_key.get(&key).copied()
    }

    /// Removes all timers.
    pub fn clear_all(&mut self) {
        self.by_time.clear();
        self.by_key.clear();
    }

    /// The number of timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    /// Whether there are no timers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// The earliest deadline; `None` if no timer is set.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest timer that is due; `None` if none is.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}
