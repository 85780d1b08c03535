//! Keys of requests that were given up but may still be answered.

use std::collections::{BTreeSet, VecDeque};

use super::keys::RequestKey;

/// The latest keys of requests that were given up but may still be answered.
#[derive(Debug)]
pub(super) struct GivenUp {
    keys: BTreeSet<RequestKey>,
    order: VecDeque<RequestKey>,
    limit: usize,
}

impl GivenUp {
    pub(super) const fn new(limit: usize) -> Self {
        Self { keys: BTreeSet::new(), order: VecDeque::new(), limit }
    }

    pub(super) fn insert(&mut self, key: RequestKey) {
        self.keys.insert(key);
        self.order.push_back(key);
        if self.order.len() > self.limit {
            if let Some(oldest) = self.order.pop_front() {
                self.keys.remove(&oldest);
            }
        }
    }

    pub(super) fn contains(&self, key: &RequestKey) -> bool {
        self.keys.contains(key)
    }
}
