//! A byte stream between machines: any splits and joins, and a time for each piece.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::random::Random;

/// One direction.
#[derive(Debug, Default)]
pub struct Pipe {
    pieces: VecDeque<(Instant, Bytes)>,
}

impl Pipe {
    /// Takes bytes to bring them over.
    pub fn send(&mut self, mut bytes: Bytes, now: Instant, random: &mut Random) {
        while !bytes.is_empty() {
            let length = usize::try_from(random.below(80)).expect("small") + 1;
            let piece = bytes.split_to(length.min(bytes.len()));
            let earliest = self.pieces.back().map_or(now, |(at, _)| *at).max(now);
            self.pieces.push_back((earliest + random.time(Duration::from_millis(4)), piece));
        }
    }

    /// What has arrived.
    pub fn due(&mut self, now: Instant) -> Option<Bytes> {
        if self.pieces.front().is_some_and(|(at, _)| *at <= now) {
            self.pieces.pop_front().map(|(_, bytes)| bytes)
        } else {
            None
        }
    }

    /// When something arrives next.
    pub fn next(&self) -> Option<Instant> {
        self.pieces.front().map(|(at, _)| *at)
    }

    /// What is on the way is lost.
    pub fn cut(&mut self) {
        self.pieces.clear();
    }
}
