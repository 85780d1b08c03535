//! The time, which drivers pass in.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A moment: the time since a start that the driver chose, such as that of its process.
///
/// Machines receive it with every input and return it from `poll_timeout`. They only compare moments, so that any start
/// is possible, as long as it is the same for all calls of one machine. `std::time::Instant` is not used, because it
/// does not work on every platform (`wasm32-unknown-unknown`), and a simulation cannot create one. Arithmetic never
/// panics: a result outside of the range becomes [`Instant::START`] or [`Instant::MAX`].
///
/// # Example: a driver's clock
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::Instant;
///
/// let start = std::time::Instant::now();
/// let now = || Instant::after_start(start.elapsed());
///
/// let timeout = now() + Duration::from_secs(60);
/// assert!(timeout.saturating_duration_since(now()) > Duration::from_secs(59));
/// assert_eq!(now().saturating_duration_since(timeout), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The start that the driver chose.
    pub const START: Self = Self(Duration::ZERO);

    /// The last moment that can be represented; a sum beyond it becomes this moment.
    pub const MAX: Self = Self(Duration::MAX);

    /// The moment at which this much time has passed since the start.
    #[must_use]
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time from the start to this moment.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The last moment up to this one that is a multiple of `step` after the start; this moment if `step` is zero.
    #[must_use]
    pub(crate) fn rounded_down(self, step: Duration) -> Self {
        let beyond = self.0.as_nanos().checked_rem(step.as_nanos()).unwrap_or(0);
        self - Duration::from_nanos(u64::try_from(beyond).unwrap_or(0))
    }

    /// The time from `earlier` to this moment; zero if this moment is the earlier one.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_ends_at_the_first_and_the_last_moment() {
        let second = Duration::from_secs(1);
        let now = Instant::after_start(second);
        assert_eq!((now + second - second, (now + second) - now), (now, second));
        assert_eq!((now - second, now - 2 * second), (Instant::START, Instant::START));
        assert_eq!(now - (now + second), Duration::ZERO);
        let mut last = Instant::MAX - second;
        last += 2 * second;
        assert_eq!(last, Instant::MAX);
        assert!(Instant::START < now && now < now + Duration::from_nanos(1) && now < Instant::MAX);
    }

    #[test]
    fn a_moment_is_rounded_to_a_multiple_of_the_step() {
        let after = |millis| Instant::after_start(Duration::from_millis(millis));
        for (moment, step, expected) in [(0, 7, 0), (6, 7, 0), (7, 7, 7), (22, 7, 21), (22, 0, 22)] {
            assert_eq!(after(moment).rounded_down(Duration::from_millis(step)), after(expected), "{moment} {step}");
        }
        assert!(Instant::MAX.rounded_down(Duration::from_secs(1)) > after(u64::MAX));
    }
}
