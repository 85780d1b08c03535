//! Progress notifications that callers have not received yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_proto::Json;

/// The bytes of progress notifications that are queued for all callers of a client. Clones share one count.
///
/// # Example: a caller that is behind gets the newest progress
///
/// ```
/// use mcp_proto::Json;
/// use mcp_application::ProgressBytes;
///
/// let mut queue = ProgressBytes::default().queue();
/// for step in 0..100 {
///     queue.push(Json::from(step));
/// }
/// assert_eq!(queue.pop(), Some(Json::from(100 - 64)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ProgressBytes(Arc<AtomicUsize>);

/// The progress notifications that are queued for one caller, made by [`ProgressBytes::queue`].
#[derive(Debug)]
pub struct ProgressQueue {
    /// The parameters of each notification.
    queue: VecDeque<Json>,
    total: ProgressBytes,
}

impl ProgressBytes {
    /// The maximum number of bytes that are queued for all callers of a client: 4 MiB.
    pub const MOST: usize = 4 * 1024 * 1024;

    /// Creates the queue of one caller.
    #[must_use]
    pub fn queue(&self) -> ProgressQueue {
        ProgressQueue { queue: VecDeque::new(), total: self.clone() }
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl ProgressQueue {
    /// The maximum number of notifications that are queued for one caller.
    pub const MOST: usize = 64;

    /// Adds the parameters of a notification. If there is no room, older ones of this caller are dropped. If other
    /// callers take up all the room, this one is dropped.
    ///
    /// Only the thread or task that owns the client may add to the queues of one client.
    pub fn push(&mut self, params: Json) {
        while self.queue.len() >= Self::MOST || self.total.count().saturating_add(params.len()) > ProgressBytes::MOST {
            if self.pop().is_none() {
                return;
            }
        }
        self.total.0.fetch_add(params.len(), Ordering::Relaxed);
        self.queue.push_back(params);
    }

    /// Takes the parameters of the oldest notification.
    pub fn pop(&mut self) -> Option<Json> {
        let params = self.queue.pop_front()?;
        self.total.remove(params.len());
        Some(params)
    }
}

impl Drop for ProgressQueue {
    fn drop(&mut self) {
        self.total.remove(self.queue.iter().map(Json::len).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Progress whose text, with its quotes, has this many bytes.
    fn sized(bytes: usize, text: &str) -> Json {
        Json::from(text.repeat(bytes - 2).as_str())
    }

    fn rest(queue: &mut ProgressQueue) -> Vec<Json> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn queued_progress_is_bounded_over_all_callers_and_the_newest_of_a_caller_stays() {
        let quarter = |text| sized(ProgressBytes::MOST / 4, text);
        let total = ProgressBytes::default();
        let (mut first, mut second) = (total.queue(), total.queue());
        for text in ["a", "b", "c", "d", "e", "f"] {
            first.push(quarter(text));
            assert!(total.count() <= ProgressBytes::MOST);
        }
        second.push(Json::from(1));
        assert_eq!(rest(&mut second), [], "there is no room, and it has nothing older to drop");
        assert_eq!(rest(&mut first), ["c", "d", "e", "f"].map(quarter));
        second.push(quarter("g"));
        first.push(sized(ProgressBytes::MOST + 1, "h"));
        assert_eq!((rest(&mut first), total.count()), (Vec::new(), ProgressBytes::MOST / 4));
        drop(second);
        assert_eq!(total.count(), 0, "a dropped queue has returned its room");
        first.push(sized(ProgressBytes::MOST, "i"));
        assert_eq!(total.count(), ProgressBytes::MOST);
    }

    #[test]
    fn a_caller_that_is_behind_gets_the_newest_progress() {
        let mut queue = ProgressBytes::default().queue();
        (0..100).for_each(|step| queue.push(Json::from(step)));
        assert_eq!(rest(&mut queue), (36..100).map(Json::from).collect::<Vec<_>>());
    }
}
