//! Whether the server accepts what the client sends.
//!
//! ```text
//!            too much waits                 nothing taken for a while
//!  Flowing ──────────────────▶ Slow ──────────────────────────────────▶ Stalled
//!      ▲                        │ ▲                                        │
//!      └────────────────────────┘ └────────────────────────────────────────┘
//!          there is room again                 some of it is taken
//! ```

use std::time::Duration;

use mcp_proto::client::Backlog;
use mcp_proto::{Instant, Limits};

/// How long a server may take nothing before the relay reads the client again and refuses requests without room.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How fast the server takes what is sent to it.
#[derive(Debug)]
pub(super) struct Pace {
    stall_timeout: Duration,
    /// The client is read while fewer than this number of messages other than requests, and at most this number of
    /// bytes, are queued.
    max_backlog: (usize, usize),
    state: PaceState,
    /// The number of queued bytes at the last update.
    waiting: usize,
}

#[derive(Debug, Clone, Copy)]
enum PaceState {
    Flowing,
    /// The queue is over its limit: the client is not read until this instant.
    Slow(Instant),
    /// Nothing was taken for a while: the client is read, and requests without room are refused.
    Stalled,
}

impl Pace {
    pub(super) fn new(request_timeout: Duration, limits: &Limits) -> Self {
        // Messages that a driver has already read must not be refused while the server is only slow.
        let max_backlog = (limits.queue, limits.queue_bytes.min(limits.unwritten / 2));
        Self { stall_timeout: request_timeout.min(STALL_TIMEOUT), max_backlog, state: PaceState::Flowing, waiting: 0 }
    }

    pub(super) fn update(&mut self, backlog: Backlog, now: Instant) {
        let (messages, bytes) = self.max_backlog;
        let has_room = backlog.messages < messages && backlog.bytes <= bytes;
        let is_taking = backlog.bytes < std::mem::replace(&mut self.waiting, backlog.bytes);
        self.state = match self.state {
            _ if has_room => PaceState::Flowing,
            PaceState::Slow(until) if !is_taking && now < until => PaceState::Slow(until),
            PaceState::Slow(_) | PaceState::Stalled if !is_taking => PaceState::Stalled,
            PaceState::Flowing | PaceState::Slow(_) | PaceState::Stalled => PaceState::Slow(now + self.stall_timeout),
        };
    }

    pub(super) const fn may_read_client(&self) -> bool {
        !matches!(self.state, PaceState::Slow(_))
    }

    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            PaceState::Slow(until) => Some(until),
            PaceState::Flowing | PaceState::Stalled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        Instant::START
    }

    #[test]
    fn a_client_is_not_read_while_its_server_is_slow_and_is_again_once_that_is_stalled() {
        let mut limits = Limits::default();
        (limits.queue, limits.queue_bytes, limits.unwritten) = (10, 1000, 1 << 20);
        let mut pace = Pace::new(Duration::from_secs(60), &limits);
        let start = now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // Time, messages, bytes; until when the client is not read.
        for (now, messages, bytes, until) in [
            (0, 9, 1000, None),
            (1, 10, 0, Some(6)),
            (2, 0, 1000, None),
            (2, 9, 1001, Some(7)),
            (3, 9, 1001, Some(7)),
            // The server takes some bytes.
            (4, 9, 1500, Some(7)),
            (4, 9, 1400, Some(9)),
            (8, 9, 1400, Some(9)),
            (9, 9, 1400, None),
            (20, 9, 1400, None),
            (21, 9, 1300, Some(26)),
            (22, 0, 0, None),
        ] {
            pace.update(Backlog { messages, message_bytes: 0, bytes }, at(now));
            assert_eq!((pace.poll_timeout(), pace.may_read_client()), (until.map(at), until.is_none()), "{now} s");
        }
        // The pause is never longer than the request timeout, and starts at half of `unwritten` at the latest.
        limits.unwritten = 1000;
        let mut pace = Pace::new(Duration::from_secs(2), &limits);
        for (bytes, until) in [(500, None), (501, Some(2))] {
            pace.update(Backlog { messages: 0, message_bytes: 0, bytes }, at(0));
            assert_eq!(pace.poll_timeout(), until.map(at), "{bytes} bytes");
        }
    }
}
