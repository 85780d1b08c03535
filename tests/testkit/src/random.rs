//! Pseudo-random numbers. The same seed gives the same numbers.

use std::time::Duration;

/// A small generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// `true` with a probability of one in `times`.
    pub const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these choices.
    pub fn pick<'c, C>(&mut self, choices: &'c [C]) -> &'c C {
        let count = u64::try_from(choices.len()).expect("few choices");
        &choices[usize::try_from(self.below(count)).expect("few choices")]
    }

    /// One of these texts.
    pub fn text(&mut self, choices: &[&'static str]) -> &'static str {
        let choice: &&'static str = self.pick(choices);
        choice
    }

    /// A time below `bound`.
    pub fn time(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(bound.as_micros()).expect("no such long time").max(1)))
    }
}

/// The source of random choices: a seed, or the bytes of a fuzzer.
#[derive(Debug, Clone)]
pub enum Choices<'d> {
    /// Choices without end.
    Seed(Random),
    /// Choices until the bytes are used up; after that, always the first option.
    Bytes(&'d [u8]),
}

impl Choices<'_> {
    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        match self {
            Self::Seed(random) => random.below(limit),
            Self::Bytes(bytes) => {
                let mut number = 0;
                for _ in 0..if limit > 256 { 2 } else { 1 } {
                    let Some((first, rest)) = bytes.split_first() else { break };
                    number = number << 8 | u64::from(*first);
                    *bytes = rest;
                }
                number % limit
            }
        }
    }

    /// One of the options; `None` if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(from.len().max(1) as u64);
        from.get(usize::try_from(at).unwrap())
    }

    /// Whether the bytes are used up.
    pub const fn are_used_up(&self) -> bool {
        matches!(self, Self::Bytes([]))
    }
}
