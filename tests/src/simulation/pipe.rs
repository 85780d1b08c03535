//! A byte stream between machines: any splits and joins, a bounded latency, and a reader that may pause.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::random::Random;

/// The longest time that bytes take while their reader reads.
pub const LATENCY: Duration = Duration::from_millis(4);

/// One direction.
#[derive(Debug, Default)]
pub struct Pipe {
    pieces: VecDeque<(Instant, Bytes)>,
    /// The reader takes nothing before this.
    stalled_until: Option<Instant>,
}

impl Pipe {
    /// Writes bytes; they arrive within [`LATENCY`] unless the reader pauses.
    pub fn send(&mut self, mut bytes: Bytes, now: Instant, random: &mut Random) {
        while !bytes.is_empty() {
            let length = usize::try_from(random.below(80)).expect("small") + 1;
            let piece = bytes.split_to(length.min(bytes.len()));
            let earliest = self.pieces.back().map_or(now, |(at, _)| *at);
            self.pieces.push_back((earliest.max(now + random.time(LATENCY)), piece));
        }
    }

    /// The reader takes nothing for a while.
    pub fn stall(&mut self, until: Instant) {
        self.stalled_until = self.stalled_until.max(Some(until));
    }

    /// What has arrived.
    pub fn due(&mut self, now: Instant) -> Option<Bytes> {
        if self.next().is_some_and(|at| at <= now) { self.pieces.pop_front().map(|(_, bytes)| bytes) } else { None }
    }

    /// When something arrives next.
    pub fn next(&self) -> Option<Instant> {
        self.pieces.front().map(|(at, _)| self.stalled_until.map_or(*at, |until| until.max(*at)))
    }

    /// Everything that was written, whatever its time.
    pub fn take_all(&mut self) -> Vec<Bytes> {
        self.pieces.drain(..).map(|(_, bytes)| bytes).collect()
    }

    /// What was written is lost.
    pub fn cut(&mut self) {
        self.pieces.clear();
        self.stalled_until = None;
    }
}
