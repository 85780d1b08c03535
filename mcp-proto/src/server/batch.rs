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
    /// Answers that wait in all of them, and their bytes.
    answers: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Batch {
    /// Requests without an outcome. One more as long as the batch is still being read.
    waiting: usize,
    answers: Vec<Message>,
    bytes: usize,
}

impl Batches {
    pub(super) const fn new() -> Self {
        Self { next: 0, open: BTreeMap::new(), answers: 0, bytes: 0 }
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

    /// Answers that wait for others.
    pub(super) const fn answers(&self) -> usize {
        self.answers
    }

    /// Bytes of those.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an answer that nothing has waited for; how many bytes it has.
    pub(super) fn add(&mut self, key: BatchKey, answer: Message) -> usize {
        let Some(batch) = self.open.get_mut(&key) else { return 0 };
        let bytes = answer.payload_len();
        batch.bytes += bytes;
        batch.answers.push(answer);
        self.bytes += bytes;
        self.answers += 1;
        bytes
    }

    /// One request has its outcome, which is an answer or, if it was cancelled, none. Returns all answers with the last.
    pub(super) fn settle(&mut self, key: BatchKey, answer: Option<Message>) -> Option<Vec<Message>> {
        if let Some(answer) = answer {
            self.add(key, answer);
        }
        let batch = self.open.get_mut(&key)?;
        batch.waiting -= 1;
        if batch.waiting > 0 {
            return None;
        }
        let Batch { answers, bytes, .. } = self.open.remove(&key)?;
        self.answers -= answers.len();
        self.bytes -= bytes;
        Some(answers)
    }
}
