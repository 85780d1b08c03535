//! Whether the server takes what the client sends.
//!
//! ```text
//!            too much waits                 nothing taken for a while
//!  Flowing ──────────────────▶ Slow ──────────────────────────────────▶ Stalled
//!      ▲                        │ ▲                                        │
//!      └────────────────────────┘ └────────────────────────────────────────┘
//!          there is room again                 some of it is taken
//! ```

use std::time::Duration;

use crate::Instant;
use crate::client::Backlog;
use crate::deadlines::after;
use crate::limits::Limits;

/// How long a server may take nothing before the client's requests are answered for it.
const LONGEST: Duration = Duration::from_secs(5);

/// How fast the server takes what is sent to it.
#[derive(Debug)]
pub(super) struct Pace {
    patience: Duration,
    /// Messages that are no requests, and bytes of all, with which the client is not read.
    most: (usize, usize),
    state: State,
    /// Bytes that waited when this was last updated.
    waiting: usize,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Flowing,
    /// So much waits that the client is not read, until then.
    Slow(Instant),
    /// Nothing was taken for a while: the client is read, and refused what finds no room.
    Stalled,
}

impl Pace {
    pub(super) fn new(request_timeout: Duration, limits: &Limits) -> Self {
        // What a driver has read already must not be refused while the server is only slow.
        let most = (limits.queue, limits.queue_bytes.min(limits.unwritten / 2));
        Self { patience: request_timeout.min(LONGEST), most, state: State::Flowing, waiting: 0 }
    }

    pub(super) fn update(&mut self, backlog: Backlog, now: Instant) {
        let (messages, bytes) = self.most;
        let has_room = backlog.messages < messages && backlog.bytes <= bytes;
        let is_taking = backlog.bytes < std::mem::replace(&mut self.waiting, backlog.bytes);
        self.state = match self.state {
            _ if has_room => State::Flowing,
            State::Slow(until) if !is_taking && now < until => State::Slow(until),
            State::Slow(_) | State::Stalled if !is_taking => State::Stalled,
            State::Flowing | State::Slow(_) | State::Stalled => State::Slow(after(now, self.patience)),
        };
    }

    pub(super) const fn lets_read(&self) -> bool {
        !matches!(self.state, State::Slow(_))
    }

    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Slow(until) => Some(until),
            State::Flowing | State::Stalled => None,
        }
    }
}
