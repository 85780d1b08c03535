//! A byte stream between machines that splits and joins writes, with a bounded latency, a bounded buffer, and a reader
//! that may pause.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use mcp_proto::Instant;
use mcp_testkit::random::Random;

/// The longest latency of bytes while the reader reads and the buffer has room.
pub const LATENCY: Duration = Duration::from_millis(4);

/// One direction of a stream.
#[derive(Debug)]
pub struct Pipe {
    capacity: usize,
    /// Bytes that the buffer has no room for.
    unwritten: VecDeque<Bytes>,
    /// Bytes in the buffer, with their arrival times.
    pieces: VecDeque<(Instant, Bytes)>,
    inside: usize,
    /// Bytes that entered the buffer and were not yet reported.
    taken: usize,
    /// The reader reads nothing before this time.
    stalled_until: Option<Instant>,
}

impl Pipe {
    /// A stream with a buffer of this many bytes.
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

    /// Pauses the reader until this time.
    pub fn stall(&mut self, until: Instant) {
        self.stalled_until = self.stalled_until.max(Some(until));
    }

    /// The next bytes that have arrived.
    pub fn due(&mut self, now: Instant, random: &mut Random) -> Option<Bytes> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        let (_, bytes) = self.pieces.pop_front()?;
        self.inside -= bytes.len();
        self.fill(now, random);
        Some(bytes)
    }

    /// The time of the next arrival.
    pub fn next(&self) -> Option<Instant> {
        self.pieces.front().map(|(at, _)| self.stalled_until.map_or(*at, |until| until.max(*at)))
    }

    /// The number of bytes that entered the buffer since the last call.
    pub const fn taken(&mut self) -> usize {
        std::mem::replace(&mut self.taken, 0)
    }

    /// Whether bytes wait for room in the buffer.
    pub fn is_full(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Takes all bytes, including those that have not arrived.
    pub fn take_all(&mut self) -> Vec<Bytes> {
        self.inside = 0;
        self.pieces.drain(..).map(|(_, bytes)| bytes).chain(self.unwritten.drain(..)).collect()
    }

    /// Discards all bytes.
    pub fn cut(&mut self) {
        *self = Self::new(self.capacity);
    }
}
