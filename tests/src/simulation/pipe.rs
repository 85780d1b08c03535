//! A byte stream between machines: any splits and joins, a bounded latency, a buffer of bounded size, and a reader that
//! may pause.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::random::Random;
use mcp_proto::Instant;

/// The longest time that bytes take while their reader reads and the buffer has room.
pub const LATENCY: Duration = Duration::from_millis(4);

/// One direction.
#[derive(Debug)]
pub struct Pipe {
    capacity: usize,
    /// What the stream has not taken.
    unwritten: VecDeque<Bytes>,
    /// What it has taken, and the reader has not.
    pieces: VecDeque<(Instant, Bytes)>,
    inside: usize,
    /// Bytes that were taken and not reported.
    taken: usize,
    /// The reader takes nothing before this.
    stalled_until: Option<Instant>,
}

impl Pipe {
    /// A stream that takes so many bytes before its reader does.
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, unwritten: VecDeque::new(), pieces: VecDeque::new(), inside: 0, taken: 0, stalled_until: None }
    }

    /// Writes bytes.
    pub fn send(&mut self, bytes: Bytes, now: Instant, random: &mut Random) {
        self.unwritten.push_back(bytes);
        self.fill(now, random);
    }

    fn fill(&mut self, now: Instant, random: &mut Random) {
        while let Some(bytes) = self.unwritten.front_mut() {
            let room = self.capacity - self.inside;
            let length = usize::try_from(random.below(80)).expect("small") + 1;
            let piece = bytes.split_to(length.min(bytes.len()).min(room));
            if bytes.is_empty() {
                self.unwritten.pop_front();
            }
            if piece.is_empty() {
                return;
            }
            self.inside += piece.len();
            self.taken += piece.len();
            let earliest = self.pieces.back().map_or(now, |(at, _)| *at);
            self.pieces.push_back((earliest.max(now + random.time(LATENCY)), piece));
        }
    }

    /// The reader takes nothing for a while.
    pub fn stall(&mut self, until: Instant) {
        self.stalled_until = self.stalled_until.max(Some(until));
    }

    /// What has arrived.
    pub fn due(&mut self, now: Instant, random: &mut Random) -> Option<Bytes> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        let (_, bytes) = self.pieces.pop_front()?;
        self.inside -= bytes.len();
        self.fill(now, random);
        Some(bytes)
    }

    /// When something arrives next.
    pub fn next(&self) -> Option<Instant> {
        self.pieces.front().map(|(at, _)| self.stalled_until.map_or(*at, |until| until.max(*at)))
    }

    /// Bytes that were taken since this was last asked.
    pub const fn taken(&mut self) -> usize {
        std::mem::replace(&mut self.taken, 0)
    }

    /// Whether the stream has not taken everything that was written.
    pub fn is_full(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Everything that was written, whatever its time.
    pub fn take_all(&mut self) -> Vec<Bytes> {
        self.inside = 0;
        self.pieces.drain(..).map(|(_, bytes)| bytes).chain(self.unwritten.drain(..)).collect()
    }

    /// What was written is lost.
    pub fn cut(&mut self) {
        *self = Self::new(self.capacity);
    }
}
