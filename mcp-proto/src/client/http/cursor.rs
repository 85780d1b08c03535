//! How far a stream was read, and the pause before it is resumed.

use std::time::Duration;

use crate::Instant;
use crate::conversation::backoff::{Backoff, Jitter};
use crate::limits::Limits;
use crate::sse::EventId;

/// The state for resuming one stream: after which event, and when. Every stream has its own (SH-C-36).
#[derive(Debug)]
pub(super) struct Cursor {
    last_event: Option<EventId>,
    /// The pause that the server requested with `retry`.
    retry: Option<Duration>,
    backoff: Backoff,
}

impl Cursor {
    pub(super) const fn new() -> Self {
        Self { last_event: None, retry: None, backoff: Backoff::new() }
    }

    /// Moves the cursor: with every dispatched event (EV-14), and with every block that has an id, also without data
    /// (EV-20).
    pub(super) fn moved(&mut self, to: Option<EventId>) {
        self.backoff.reset();
        self.last_event = to;
    }

    pub(super) const fn asked_to_wait(&mut self, retry: Duration) {
        self.retry = Some(retry);
    }

    /// The id to resume after, if there is one that a header can carry (SH-C-35, SS6).
    pub(super) fn resume_after(&self) -> Option<&EventId> {
        self.last_event.as_ref().filter(|id| id.to_header_value().is_some())
    }

    /// Attempts since the last event.
    pub(super) const fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// Counts an attempt to open the stream again, and returns the time for it.
    pub(super) fn next_attempt(
        &mut self,
        retry_after: Option<Duration>,
        limits: &Limits,
        jitter: &mut Jitter,
        now: Instant,
    ) -> Instant {
        let asked = self.retry.max(retry_after);
        now + self.backoff.next(asked, limits, jitter, now)
    }
}
