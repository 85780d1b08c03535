//! Batches of 2025-03-26, which are answered with one array after all their requests have ended (JR-35, A2).

use std::collections::BTreeMap;

use crate::jsonrpc::Message;

/// Identifies a batch that is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchKey(u64);

/// Batches that are not answered yet.
#[derive(Debug)]
pub(super) struct Batches {
    next: u64,
    open: BTreeMap<BatchKey, Batch>,
    /// The number and the bytes of the stored answers of all batches.
    answers: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Batch {
    /// Unanswered requests, plus one while the batch is still being read.
    waiting: usize,
    answers: Vec<Message>,
}

impl Batches {
    pub(super) const fn new() -> Self {
        Self { next: 0, open: BTreeMap::new(), answers: 0, bytes: 0 }
    }

    pub(super) fn begin(&mut self) -> BatchKey {
        let key = BatchKey(self.next);
        self.next += 1;
        self.open.insert(key, Batch { waiting: 1, answers: Vec::new() });
        key
    }

    pub(super) fn expect_one_more(&mut self, key: BatchKey) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.waiting += 1;
        }
    }

    /// The number of answers that wait for others of their batches.
    pub(super) const fn answers(&self) -> usize {
        self.answers
    }

    /// The bytes of the answers that wait for others of their batches.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an answer without ending a request of the batch. Returns its bytes.
    pub(super) fn add(&mut self, key: BatchKey, answer: Message) -> usize {
        let Some(batch) = self.open.get_mut(&key) else { return 0 };
        let bytes = answer.payload_len();
        batch.answers.push(answer);
        self.bytes += bytes;
        self.answers += 1;
        bytes
    }

    /// A request has ended, with an answer or, if it was cancelled, without. Returns all answers after the last
    /// request.
    pub(super) fn settle(&mut self, key: BatchKey, answer: Option<Message>) -> Option<Vec<Message>> {
        if let Some(answer) = answer {
            self.add(key, answer);
        }
        let batch = self.open.get_mut(&key)?;
        batch.waiting -= 1;
        if batch.waiting > 0 {
            return None;
        }
        let answers = self.open.remove(&key)?.answers;
        self.answers -= answers.len();
        self.bytes -= answers.iter().map(Message::payload_len).sum::<usize>();
        Some(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::jsonrpc::{RequestId, Response};

    fn answer(text: &str) -> Message {
        Message::Response(Response::new(RequestId::from_json_text(b"1").unwrap(), Ok(Json::from(text))))
    }

    #[test]
    fn jr_35_a_batch_is_answered_once_all_of_it_has_its_outcome_and_what_waits_is_counted() {
        let mut batches = Batches::new();
        let (first, second) = (batches.begin(), batches.begin());
        batches.expect_one_more(first);
        batches.expect_one_more(first);
        for (batch, text, bytes) in [(first, "abc", 5), (second, "", 2), (first, "d", 3)] {
            assert_eq!(batches.add(batch, answer(text)), bytes);
        }
        assert_eq!((batches.answers(), batches.bytes()), (3, 10));
        assert_eq!(batches.settle(first, Some(answer("ef"))), None);
        // A cancelled request has no answer.
        assert_eq!(batches.settle(first, None), None);
        assert_eq!((batches.answers(), batches.bytes()), (4, 14));
        assert_eq!(batches.settle(first, None), Some(["abc", "d", "ef"].map(answer).into()));
        assert_eq!((batches.answers(), batches.bytes()), (1, 2));
        assert_eq!(batches.settle(second, Some(answer("gh"))), Some(["", "gh"].map(answer).into()));
        assert_eq!((batches.answers(), batches.bytes(), batches.open.len()), (0, 0, 0));
        // Nothing is stored for a batch that was answered.
        assert_eq!((batches.add(first, answer("late")), batches.settle(first, Some(answer("late")))), (0, None));
        assert_eq!((batches.answers(), batches.bytes()), (0, 0));
    }
}
