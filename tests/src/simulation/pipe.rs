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
    /// Bytes that the buffer has no room for, with the times when they were sent.
    unwritten: VecDeque<(Instant, Bytes)>,
    /// Bytes in the buffer.
    pieces: VecDeque<Piece>,
    inside: usize,
    /// Bytes that entered the buffer and were not yet reported.
    taken: usize,
    /// The reader reads nothing before this time.
    stalled_until: Option<Instant>,
}

#[derive(Debug)]
struct Piece {
    sent: Instant,
    arrives: Instant,
    bytes: Bytes,
}

impl Pipe {
    /// A stream with a buffer of this many bytes.
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, unwritten: VecDeque::new(), pieces: VecDeque::new(), inside: 0, taken: 0, stalled_until: None }
    }

    /// Writes bytes.
    pub fn send(&mut self, bytes: Bytes, now: Instant, random: &mut Random) {
        self.unwritten.push_back((now, bytes));
        self.fill(now, random);
    }

    fn fill(&mut self, now: Instant, random: &mut Random) {
        while let Some((sent, bytes)) = self.unwritten.front_mut() {
            let room = self.capacity - self.inside;
            let length = usize::try_from(random.below(80)).expect("small") + 1;
            let (sent, piece) = (*sent, bytes.split_to(length.min(bytes.len()).min(room)));
            if bytes.is_empty() {
                self.unwritten.pop_front();
            }
            if piece.is_empty() {
                return;
            }
            self.inside += piece.len();
            self.taken += piece.len();
            let earliest = self.pieces.back().map_or(now, |piece| piece.arrives);
            let arrives = earliest.max(now + random.time(LATENCY));
            self.pieces.push_back(Piece { sent, arrives, bytes: piece });
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
        let Piece { bytes, .. } = self.pieces.pop_front()?;
        self.inside -= bytes.len();
        self.fill(now, random);
        Some(bytes)
    }

    /// The time of the next arrival.
    pub fn next(&self) -> Option<Instant> {
        self.pieces.front().map(|piece| self.stalled_until.map_or(piece.arrives, |until| until.max(piece.arrives)))
    }

    /// The time when the oldest bytes were sent that the reader has not read.
    pub fn unread_since(&self) -> Option<Instant> {
        self.pieces.front().map(|piece| piece.sent)
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
        let written = self.pieces.drain(..).map(|piece| piece.bytes);
        written.chain(self.unwritten.drain(..).map(|(_, bytes)| bytes)).collect()
    }

    /// Discards all bytes.
    pub fn cut(&mut self) {
        *self = Self::new(self.capacity);
    }
}
