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
///
/// stream.close(now);
/// assert_eq!(stream.next_arrival(), Some(now));
/// assert!(stream.take_end(now));
/// assert!(!stream.take_end(now), "an end is passed on once");
/// ```
#[derive(Debug, Default)]
pub struct ByteStream {
    pieces: VecDeque<(Instant, Bytes)>,
    end: End,
}

/// The end of a stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The stream is open.
    #[default]
    None,
    /// It arrives at this time, after all pieces.
    At(Instant),
    /// It was taken.
    Taken,
}

impl ByteStream {
    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes bytes, which arrive later, in pieces of 1 to 40 bytes.
    ///
    /// # Panics
    ///
    /// The stream was closed.
    pub fn write(&mut self, bytes: impl Into<Bytes>, now: Instant, random: &mut Random) {
        assert!(self.end == End::None, "written after the stream was closed");
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            let length = usize::try_from(random.below(PIECE)).unwrap_or(0) + 1;
            let piece = bytes.split_to(length.min(bytes.len()));
            let earliest = self.last_arrival(now);
            self.pieces.push_back((earliest + Duration::from_millis(random.below(LATENCY)), piece));
        }
    }

    /// Closes the stream: its end arrives with the last piece, and not before now. A second call does nothing.
    pub fn close(&mut self, now: Instant) {
        if self.end == End::None {
            self.end = End::At(self.last_arrival(now));
        }
    }

    /// The next piece that has arrived.
    pub fn read(&mut self, now: Instant) -> Option<Bytes> {
        if self.next_arrival()? > now {
            return None;
        }
        self.pieces.pop_front().map(|(_, bytes)| bytes)
    }

    /// Whether the end of the stream has arrived, and all pieces have been read; `true` once.
    pub fn take_end(&mut self, now: Instant) -> bool {
        let has_arrived = self.pieces.is_empty() && matches!(self.end, End::At(at) if at <= now);
        if has_arrived {
            self.end = End::Taken;
        }
        has_arrived
    }

    /// When the next piece arrives, or the end that was not taken yet; `None` if there is neither.
    pub fn next_arrival(&self) -> Option<Instant> {
        match (self.pieces.front(), self.end) {
            (Some(&(at, _)), _) | (None, End::At(at)) => Some(at),
            (None, End::None | End::Taken) => None,
        }
    }

    /// When the last piece arrives; `now` if that is later, or if there is none.
    fn last_arrival(&self, now: Instant) -> Instant {
        self.pieces.back().map_or(now, |(at, _)| *at).max(now)
    }
}
