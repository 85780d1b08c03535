//! A simulated byte stream: it splits what is written, and delays each piece.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::Instant;

use crate::random::Random;

/// The maximum length of a piece, in bytes.
const PIECE: u64 = 40;
/// A piece arrives less than these milliseconds after it was written and after the piece before it.
const LATENCY: u64 = 5;

/// One direction of a byte stream: pieces of bytes, each with its arrival time.
///
/// A test connects machines with such streams: it passes on what is due, then advances the time to the next arrival or
/// timer. [`Pair`](crate::pair::Pair) does that for a client and a server.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::Instant;
/// use mcp_testkit::network::ByteStream;
/// use mcp_testkit::random::Random;
///
/// let (mut stream, mut now) = (ByteStream::new(), Instant::START);
/// stream.write(vec![b'x'; 100], now, &mut Random::new(7));
/// let mut received = Vec::new();
/// while let Some(arrival) = stream.next_arrival() {
///     now = arrival.max(now);
///     while let Some(piece) = stream.read(now) {
///         assert!(piece.len() <= 40);
///         received.extend_from_slice(&piece);
///     }
/// }
/// assert_eq!(received, vec![b'x'; 100]);
/// assert!(now < Instant::START + Duration::from_millis(5 * 100));
/// ```
#[derive(Debug, Default)]
pub struct ByteStream {
    pieces: VecDeque<(Instant, Bytes)>,
}

impl ByteStream {
    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes bytes, which arrive later, in pieces of 1 to 40 bytes.
    pub fn write(&mut self, bytes: impl Into<Bytes>, now: Instant, random: &mut Random) {
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            let length = usize::try_from(random.below(PIECE)).unwrap_or(0) + 1;
            let piece = bytes.split_to(length.min(bytes.len()));
            let earliest = self.pieces.back().map_or(now, |(at, _)| *at).max(now);
            self.pieces.push_back((earliest + Duration::from_millis(random.below(LATENCY)), piece));
        }
    }

    /// The next piece that has arrived.
    pub fn read(&mut self, now: Instant) -> Option<Bytes> {
        if self.next_arrival()? > now {
            return None;
        }
        self.pieces.pop_front().map(|(_, bytes)| bytes)
    }

    /// When the next piece arrives; `None` if there is none.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.pieces.front().map(|(at, _)| *at)
    }
}
