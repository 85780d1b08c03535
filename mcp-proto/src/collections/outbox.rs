//! The one ordered queue of a machine's output.

use std::collections::VecDeque;

use crate::limits::Limits;

/// The output of a machine: an action or an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<A, E> {
    /// An action for the driver to carry out.
    Action(A),
    /// An event for the application.
    Event(E),
}

/// The memory that an action or event in an [`Outbox`] counts for against [`Limits::queue_bytes`].
pub trait Weight {
    /// The number of bytes.
    #[must_use]
    fn weight(&self) -> usize;
}

/// The queue of a machine's output, also for a machine that another crate composes. All parts of a machine append to
/// one queue, so that the output is in the order in which it was caused.
///
/// # Example
///
/// ```
/// use bytes::Bytes;
/// use mcp_proto::client::Event;
/// use mcp_proto::machine::Outbox;
/// use mcp_proto::{Output, StdioAction};
///
/// let mut out: Outbox<StdioAction, Event> = Outbox::new();
/// out.act(StdioAction::Write(Bytes::from_static(b"{}")));
/// out.report(Event::SessionLost);
/// assert!(matches!(out.pop(), Some(Output::Action(StdioAction::Write(_)))));
/// assert!(matches!(out.pop(), Some(Output::Event(Event::SessionLost))));
/// ```
#[derive(Debug)]
pub struct Outbox<A, E> {
    queue: VecDeque<Output<A, E>>,
    weight: usize,
}

impl<A: Weight, E: Weight> Default for Outbox<A, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Weight, E: Weight> Outbox<A, E> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { queue: VecDeque::new(), weight: 0 }
    }

    /// Queues an action.
    pub fn act(&mut self, action: A) {
        self.weight += action.weight();
        self.queue.push_back(Output::Action(action));
    }

    /// Queues an event.
    pub fn report(&mut self, event: E) {
        self.weight += event.weight();
        self.queue.push_back(Output::Event(event));
    }

    /// Removes and returns the oldest output.
    #[must_use = "an output that is dropped is lost"]
    pub fn pop(&mut self) -> Option<Output<A, E>> {
        let output = self.queue.pop_front()?;
        self.weight -= match &output {
            Output::Action(action) => action.weight(),
            Output::Event(event) => event.weight(),
        };
        Some(output)
    }

    /// Whether the output has reached twice its limits, because the driver continues to read although `wants_input` is
    /// `false`. The machine should then end the connection.
    ///
    /// Rules: RP9.
    #[must_use]
    pub fn is_overfull(&self, limits: &Limits) -> bool {
        self.queue.len() >= 2 * limits.queue || self.weight >= 2 * limits.queue_bytes
    }

    /// Whether the output is below its limits. If not, `wants_input` should be `false`, so that the driver reads
    /// nothing more.
    ///
    /// Rules: H5.
    #[must_use]
    pub fn has_room(&self, limits: &Limits) -> bool {
        self.queue.len() < limits.queue && self.weight < limits.queue_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weight for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    #[test]
    fn a_queue_has_room_below_its_limits_and_is_overfull_from_twice_them_on() {
        let limits = Limits { queue: 5, queue_bytes: 50, ..Limits::default() };
        for (weight, full, overfull) in [(0, 5, 10), (1, 5, 10), (10, 5, 10), (25, 2, 4), (50, 1, 2), (100, 1, 1)] {
            let mut queue: Outbox<usize, usize> = Outbox::new();
            for count in 1..=12 {
                if count % 2 == 0 {
                    queue.act(weight);
                } else {
                    queue.report(weight);
                }
                let states = (queue.has_room(&limits), queue.is_overfull(&limits));
                assert_eq!(states, (count < full, count >= overfull), "{count} outputs of {weight} bytes");
            }
            while queue.pop().is_some() {}
            assert!(queue.has_room(&limits) && queue.weight == 0);
        }
    }
}
