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
    /// The attempts of the last minute, in order of time.
    attempts: VecDeque<Instant>,
    /// The next attempt. Another one that is made or planned before it replaces it.
    planned: Option<Instant>,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { failures: 0, attempts: VecDeque::new(), planned: None }
    }

    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Records success. Received bytes are not success; only what was requested is (H2).
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Plans the next attempt, and returns how long to wait before it. The server may ask for a longer pause than the
    /// usual one.
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
        self.count_until(now);
        if let Some(first) = self.oldest_of_full_minute(at, limits) {
            at = at.max(first + MINUTE);
        }
        self.planned = Some(at);
        at.saturating_duration_since(now)
    }

    /// Counts an attempt that is made at once, instead of the planned one. Returns `false`, and counts nothing, if there
    /// were too many within a minute.
    pub(crate) fn try_count_attempt(&mut self, limits: &Limits, now: Instant) -> bool {
        self.count_until(now);
        let may = self.oldest_of_full_minute(now, limits).is_none();
        if may {
            self.planned = None;
            self.attempts.push_back(now);
        }
        may
    }

    /// SS7: the oldest attempt of the minute before `at`, if that minute has room for no more attempts.
    fn oldest_of_full_minute(&self, at: Instant, limits: &Limits) -> Option<Instant> {
        let most = usize::try_from(limits.reconnects.max(1)).unwrap_or(usize::MAX);
        let oldest = *self.attempts.get(self.attempts.len().checked_sub(most)?)?;
        Some(oldest).filter(|oldest| *oldest + MINUTE > at)
    }

    /// Counts the planned attempt, if its time has come, and removes those of earlier minutes.
    fn count_until(&mut self, now: Instant) {
        if let Some(planned) = self.planned.take_if(|planned| *planned <= now) {
            self.attempts.push_back(planned);
        }
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
            assert!(backoff.try_count_attempt(&limits, start + minute * MINUTE));
            assert_eq!(backoff.attempts.len(), 1);
        }
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(7));
        for hour in 0..100 {
            backoff.next(None, &limits, &mut jitter, start + hour * 60 * MINUTE);
            assert_eq!(backoff.attempts.len(), 0);
        }
    }

    #[test]
    fn attempts_that_are_a_minute_apart_are_not_of_one_minute() {
        let limits = Limits { reconnects: 1, ..Limits::default() };
        let start = Instant::START;
        for (apart, may) in [(MINUTE, true), (Duration::from_nanos(59_999_999_999), false)] {
            let mut backoff = Backoff::new();
            assert!(backoff.try_count_attempt(&limits, start));
            assert_eq!(backoff.try_count_attempt(&limits, start + apart), may, "{apart:?}");
        }
    }

    #[test]
    fn an_attempt_that_replaces_the_planned_one_counts_once_and_one_that_is_refused_not_at_all() {
        let (limits, start) = (Limits { reconnects: 2, ..Limits::default() }, Instant::START);
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(7));
        let planned = start + backoff.next(None, &limits, &mut jitter, start);
        assert!(backoff.try_count_attempt(&limits, start) && backoff.try_count_attempt(&limits, start));
        assert!((0..100).all(|_| !backoff.try_count_attempt(&limits, planned)));
        let again = planned + backoff.next(None, &limits, &mut jitter, planned);
        assert_eq!(again, start + MINUTE);
        assert!((0..100).all(|_| !backoff.try_count_attempt(&limits, again - Duration::from_nanos(1))));
        assert!(backoff.try_count_attempt(&limits, again));
    }

    #[test]
    fn no_minute_has_more_attempts_than_the_limit_wherever_it_begins() {
        let limits = Limits::default();
        let most = usize::try_from(limits.reconnects).unwrap();
        for on_demand in [false, true] {
            let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(7));
            let (mut now, mut attempts) = (Instant::START, Vec::new());
            for _ in 0..200 {
                backoff.reset();
                let asked = if on_demand { 5 * FIRST } else { Duration::ZERO };
                let planned = now + backoff.next(Some(asked), &limits, &mut jitter, now);
                // Also tries every second, until an attempt is made instead of the planned one or that is due.
                now = loop {
                    now += FIRST;
                    if !on_demand || now >= planned {
                        break planned;
                    }
                    if backoff.try_count_attempt(&limits, now) {
                        break now;
                    }
                };
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
