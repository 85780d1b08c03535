//! Batches of 2025-03-26: answered with one array once every request in them has its outcome (JR-35, A2).

use std::collections::BTreeMap;

use crate::message::Message;

/// Names a batch that is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchKey(u64);

/// Batches that are not answered yet.
#[derive(Debug)]
pub(super) struct Batches {
    next: u64,
    open: BTreeMap<BatchKey, Batch>,
}

#[derive(Debug, Default)]
struct Batch {
    /// Requests without an outcome. One more as long as the batch is still being read.
    waiting: usize,
    answers: Vec<Message>,
    /// Bytes of the answers.
    bytes: usize,
}

impl Batches {
    pub(super) const fn new() -> Self {
        Self { next: 0, open: BTreeMap::new() }
    }

    pub(super) fn begin(&mut self) -> BatchKey {
        let key = BatchKey(self.next);
        self.next += 1;
        self.open.insert(key, Batch { waiting: 1, answers: Vec::new(), bytes: 0 });
        key
    }

    pub(super) fn expect_one_more(&mut self, key: BatchKey) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.waiting += 1;
        }
    }

    /// Adds an answer that nothing has waited for.
    pub(super) fn add(&mut self, key: BatchKey, answer: Message) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.bytes += answer.payload_len();
            batch.answers.push(answer);
        }
    }

    /// Bytes of the answers of a batch.
    pub(super) fn bytes(&self, key: BatchKey) -> usize {
        self.open.get(&key).map_or(0, |batch| batch.bytes)
    }

    /// One request has its outcome, which is an answer or, if it was cancelled, none. Returns all answers with the last.
    pub(super) fn settle(&mut self, key: BatchKey, answer: Option<Message>) -> Option<Vec<Message>> {
        let batch = self.open.get_mut(&key)?;
        batch.bytes += answer.as_ref().map_or(0, Message::payload_len);
        batch.answers.extend(answer);
        batch.waiting -= 1;
        if batch.waiting > 0 {
            return None;
        }
        self.open.remove(&key).map(|batch| batch.answers)
    }
}
