//! A set of timers, each with at most one deadline.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::Instant;

/// Timers by key, each with at most one deadline. Setting a timer again replaces its deadline. Each call takes
/// logarithmic time on average.
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
    by_key: BTreeMap<K, Instant>,
    /// Each deadline of `by_key`, and outdated ones, whose timers were set again or cleared. The first one is not outdated,
    /// and there are at most as many outdated ones as timers, and [`OUTDATED`] more.
    by_time: BinaryHeap<Reverse<(Instant, K)>>,
}

/// How many outdated deadlines there may be beside few timers.
const OUTDATED: usize = 16;

impl<K: Ord + Clone> Default for Deadlines<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone> Deadlines<K> {
    /// Creates a set without timers.
    #[must_use]
    pub const fn new() -> Self {
        Self { by_key: BTreeMap::new(), by_time: BinaryHeap::new() }
    }

    /// Sets the deadline of a timer.
    pub fn set(&mut self, key: K, at: Instant) {
        let before = self.by_key.insert(key.clone(), at);
        if before == Some(at) {
            return;
        }
        let is_first = before.is_some() && self.is_first(&key);
        self.by_time.push(Reverse((at, key)));
        if self.by_time.len() > 2 * self.by_key.len() + OUTDATED {
            self.by_time.clear();
            self.by_time.extend(self.by_key.iter().map(|(key, at)| Reverse((*at, key.clone()))));
        }
        if is_first {
            self.remove_outdated();
        }
    }

    /// Removes a timer.
    #[expect(clippy::needless_pass_by_value, reason = "nearly all keys are `Copy`")]
    pub fn clear(&mut self, key: K) {
        if self.by_key.remove(&key).is_some() && self.is_first(&key) {
            self.remove_outdated();
        }
    }

    /// Whether the earliest deadline is one of this timer.
    fn is_first(&self, key: &K) -> bool {
        self.by_time.peek().is_some_and(|Reverse((_, first))| first == key)
    }

    /// Removes outdated deadlines from the front.
    fn remove_outdated(&mut self) {
        while let Some(Reverse((at, key))) = self.by_time.peek() {
            if self.by_key.get(key) == Some(at) {
                return;
            }
            self.by_time.pop();
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
        self.by_key.len()
    }

    /// Whether there are no timers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The earliest deadline; `None` if no timer is set.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.by_time.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the earliest timer that is due; `None` if none is. Of several with one deadline, it is the one
    /// with the least key.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, key)) = self.by_time.pop()?;
        self.by_key.remove(&key);
        self.remove_outdated();
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_timer_that_is_set_again_and_again_takes_no_more_memory() {
        let mut timers = Deadlines::new();
        for step in 0..10_000 {
            timers.set(step % 3, Instant::START + Duration::from_secs(100 + step % 7));
            timers.set(9, Instant::START);
            assert!(timers.by_time.len() <= 2 * timers.len() + OUTDATED + 1, "{}", timers.by_time.len());
        }
        timers.clear_all();
        assert!(timers.is_empty() && timers.next().is_none());
    }
}
