//! Keys of requests that were given up but may still be answered.

use std::collections::{BTreeMap, VecDeque};

use super::keys::RequestKey;

/// The latest keys of requests that were given up but may still be answered.
#[derive(Debug)]
pub(super) struct GivenUp {
    keys: BTreeMap<RequestKey, Entry>,
    order: VecDeque<RequestKey>,
    limit: usize,
}

#[derive(Debug)]
struct Entry {
    /// The request by its own key, which differs from the key on the wire if the request was sent more than once.
    request: RequestKey,
    /// A response has arrived since.
    is_answered: bool,
}

impl GivenUp {
    pub(super) const fn new(limit: usize) -> Self {
        Self { keys: BTreeMap::new(), order: VecDeque::new(), limit }
    }

    /// Adds a key of a request.
    pub(super) fn insert(&mut self, key: RequestKey, request: RequestKey) {
        self.keys.insert(key, Entry { request, is_answered: false });
        self.order.push_back(key);
        if self.order.len() > self.limit {
            if let Some(oldest) = self.order.pop_front() {
                self.keys.remove(&oldest);
            }
        }
    }

    pub(super) fn contains(&self, key: &RequestKey) -> bool {
        self.keys.contains_key(key)
    }

    /// A response with this key has arrived.
    pub(super) fn on_answered(&mut self, key: &RequestKey) {
        let Some(Entry { request, .. }) = self.keys.get(key) else { return };
        let request = *request;
        if let Some(entry) = self.keys.get_mut(&request) {
            entry.is_answered = true;
        }
    }

    /// Whether a response to this request has arrived.
    pub(super) fn is_answered(&self, request: &RequestKey) -> bool {
        self.keys.get(request).is_some_and(|entry| entry.is_answered)
    }
}
