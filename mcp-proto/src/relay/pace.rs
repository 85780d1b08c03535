//! Whether the server takes what the client sends.
//!
//! ```text
//!            queue_bytes wait               nothing taken for a while
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
    pub(super) fn new(request_timeout: Duration) -> Self {
        Self { patience: request_timeout.min(LONGEST), state: State::Flowing, waiting: 0 }
    }

    pub(super) fn update(&mut self, backlog: Backlog, limits: &Limits, now: Instant) {
        let is_taking = backlog.bytes < std::mem::replace(&mut self.waiting, backlog.bytes);
        self.state = match self.state {
            _ if backlog.has_room(limits) => State::Flowing,
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
