//! A map of limited size that forgets what was written longest ago.

use std::collections::BTreeMap;

/// A map with at most [`Recent::LIMIT`] entries. A further entry replaces the one that was written longest ago.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    /// Each value with the number of its write.
    entries: BTreeMap<K, (u64, V)>,
    by_age: BTreeMap<u64, K>,
    writes: u64,
}

impl<K: Clone + Ord, V> Recent<K, V> {
    /// The maximum number of entries, of some 200 bytes each.
    const LIMIT: usize = 1024;

    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), by_age: BTreeMap::new(), writes: 0 }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        self.writes += 1;
        self.by_age.insert(self.writes, key.clone());
        self.entries.insert(key, (self.writes, value));
        if self.entries.len() > Self::LIMIT {
            if let Some((_, oldest)) = self.by_age.pop_first() {
                self.entries.remove(&oldest);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (write, value) = self.entries.remove(key)?;
        self.by_age.remove(&write);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_longest_ago_is_forgotten_at_the_limit() {
        let mut recent = Recent::new();
        let limit = Recent::<usize, ()>::LIMIT;
        for key in 0..limit {
            recent.insert(key, key);
        }
        recent.insert(0, limit);
        recent.insert(limit, 7);
        assert_eq!([0, 1, 2, limit].map(|key| recent.get(&key).copied()), [Some(limit), None, Some(2), Some(7)]);
        assert_eq!((recent.remove(&0), recent.remove(&0)), (Some(limit), None));
        assert_eq!((recent.entries.len(), recent.by_age.len()), (limit - 1, limit - 1));
    }
}
