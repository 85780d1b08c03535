//! How long to wait before the next attempt, without reading a clock or a source of randomness.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Instant;
use crate::limits::Limits;

/// The first pause, unless the server asked for another one.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause that doubling leads to.
const LONGEST: Duration = Duration::from_secs(30);
/// The budget of attempts holds for every window of this length.
const MINUTE: Duration = Duration::from_secs(60);

/// A small generator of pseudo-random numbers, so that clients of a lost server do not reconnect at the same time.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A pseudo-random duration from zero to a tenth of `pause`.
    pub(crate) fn on(&mut self, pause: Duration) -> Duration {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let thousandth = u32::try_from((mixed ^ (mixed >> 31)) % 1000).unwrap_or(0);
        pause / 10_000 * thousandth
    }
}

/// The pauses between attempts at one operation: they grow while attempts fail, and the attempts per minute are
/// limited.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// Attempts since the last successful one.
    failures: u32,
    /// Attempts of the last minute and planned ones, in order of time.
    attempts: VecDeque<Instant>,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { failures: 0, attempts: VecDeque::new() }
    }

    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Records success. Received bytes are not success; only what was requested is (H2).
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Counts an attempt, and returns how long to wait before it. The server may ask for a longer pause than the usual
    /// one.
    pub(crate) fn next(
        &mut self,
        asked: Option<Duration>,
        limits: &Limits,
        jitter: &mut Jitter,
        now: Instant,
    ) -> Duration {
        let doubled = (0..self.failures).fold(FIRST, |pause, _| (pause * 2).min(LONGEST));
        // The pause is at least what the server asked for (SH-C-34), but within the limits (SS7).
        let pause = match asked {
            Some(asked) if self.failures == 0 => asked,
            Some(asked) => asked.max(doubled),
            None => doubled,
        };
        let pause = pause.clamp(limits.min_retry, limits.max_retry);
        self.failures = self.failures.saturating_add(1);
        let mut at = now + (pause + jitter.on(pause));
        self.forget_before(now);
        while let Some(first) = self.oldest_blocking_attempt(at, limits) {
            at = first + MINUTE;
        }
        self.count(at);
        at.saturating_duration_since(now)
    }

    /// Whether an attempt may be made at once; if so, it is counted.
    pub(crate) fn may_try_now(&mut self, limits: &Limits, now: Instant) -> bool {
        self.forget_before(now);
        let may = self.oldest_blocking_attempt(now, limits).is_none();
        if may {
            self.count(now);
        }
        may
    }

    /// SS7: if an attempt at `at` would exceed the budget of some minute, the first of the attempts in its way.
    fn oldest_blocking_attempt(&self, at: Instant, limits: &Limits) -> Option<Instant> {
        let is_near = |attempt: &&Instant| **attempt + MINUTE > at && **attempt < at + MINUTE;
        let mut near = self.attempts.iter().filter(is_near);
        let first = near.next().copied();
        let most = usize::try_from(limits.reconnects.max(1)).unwrap_or(usize::MAX);
        first.filter(|_| 1 + near.count() >= most)
    }

    fn count(&mut self, at: Instant) {
        let place = self.attempts.partition_point(|attempt| *attempt <= at);
        self.attempts.insert(place, at);
    }

    fn forget_before(&mut self, now: Instant) {
        while self.attempts.front().is_some_and(|attempt| *attempt + MINUTE <= now) {
            self.attempts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(asked: Option<Duration>, succeeds: bool, count: usize) -> Vec<Duration> {
        let limits = Limits::default();
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(7));
        let mut now = Instant::START;
        (0..count)
            .map(|_| {
                if succeeds {
                    backoff.reset();
                }
                let pause = backoff.next(asked, &limits, &mut jitter, now);
                now += pause;
                pause
            })
            .collect()
    }

    #[test]
    fn attempts_of_earlier_minutes_are_not_kept() {
        let (limits, mut backoff, start) = (Limits::default(), Backoff::new(), Instant::START);
        for minute in 0..100 {
            assert!(backoff.may_try_now(&limits, start + minute * MINUTE));
            assert_eq!(backoff.attempts.len(), 1);
        }
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(7));
        for hour in 0..100 {
            backoff.next(None, &limits, &mut jitter, start + hour * 60 * MINUTE);
            assert_eq!(backoff.attempts.len(), 1);
        }
    }

    #[test]
    fn attempts_that_are_a_minute_apart_are_not_of_one_minute() {
        let limits = Limits { reconnects: 1, ..Limits::default() };
        let start = Instant::START;
        for (apart, is_in_the_way) in [(MINUTE, false), (Duration::from_nanos(59_999_999_999), true)] {
            let mut backoff = Backoff::new();
            backoff.count(start + apart);
            for at in [start, start + 2 * apart] {
                assert_eq!(backoff.oldest_blocking_attempt(at, &limits).is_some(), is_in_the_way, "{apart:?}");
            }
        }
    }

    #[test]
    fn defect_b11_no_minute_has_more_attempts_than_the_limit_wherever_it_begins() {
        let limits = Limits::default();
        let most = usize::try_from(limits.reconnects).unwrap();
        for on_demand in [false, true] {
            let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(7));
            let (mut now, mut attempts) = (Instant::START, Vec::new());
            for _ in 0..200 {
                backoff.reset();
                let asked = if on_demand { 5 * FIRST } else { Duration::ZERO };
                let planned = now + backoff.next(Some(asked), &limits, &mut jitter, now);
                // Also tries every second, until the planned attempt is due.
                while on_demand && now + FIRST < planned {
                    now += FIRST;
                    if backoff.may_try_now(&limits, now) {
                        attempts.push(now);
                    }
                }
                now = planned;
                attempts.push(now);
            }
            for window in attempts.windows(most + 1) {
                assert!(window[most] - window[0] >= MINUTE, "{on_demand}: {window:?}");
            }
            // And the budget is used up.
            let spent = u64::try_from(attempts.len() / most).unwrap();
            assert!(attempts[attempts.len() - 1] - attempts[0] <= MINUTE * 2 * u32::try_from(spent).unwrap());
        }
    }

    #[test]
    fn b17_no_retry_time_of_the_server_causes_more_than_ten_attempts_a_minute() {
        for asked in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(500)] {
            let pauses = pauses(Some(asked), true, 200);
            for window in pauses.windows(11) {
                assert!(window.iter().skip(1).sum::<Duration>() >= Duration::from_secs(5), "{window:?}");
            }
            // In the long run the budget determines the rate: ten per minute.
            let total: Duration = pauses.iter().sum();
            assert!(total >= Duration::from_secs(60 * (200 - 20) / 10), "{total:?}");
        }
    }

    #[test]
    fn sh_c_34_the_retry_time_of_the_server_is_kept_and_not_much_exceeded() {
        for asked in [500, 3000, 20_000] {
            let asked = Duration::from_millis(asked);
            let pause = pauses(Some(asked), true, 1)[0];
            assert!(pause >= asked && pause <= asked + asked / 10, "{asked:?}: {pause:?}");
        }
        assert!(pauses(Some(Duration::from_secs(u64::MAX)), true, 1)[0] <= Duration::from_secs(330));
    }

    #[test]
    fn sh_c_34_a_retry_time_of_the_server_does_not_keep_pauses_from_growing() {
        let pauses = pauses(Some(FIRST / 2), false, 6);
        let grown = [FIRST / 2, 2 * FIRST, 4 * FIRST, 8 * FIRST, 16 * FIRST, LONGEST];
        for (pause, least) in pauses.iter().zip(grown) {
            assert!(*pause >= least && *pause <= least + least / 10, "{pauses:?}");
        }
    }

    #[test]
    fn pauses_grow_while_nothing_comes_of_them() {
        let pauses = pauses(None, false, 8);
        assert!(pauses[0] >= FIRST && pauses[0] <= FIRST * 11 / 10);
        assert!(pauses.is_sorted() || pauses[5..].iter().all(|pause| *pause >= LONGEST));
        assert!(pauses[7] <= LONGEST * 11 / 10);
    }
}
