//! The pauses between starts of a server that exits, for gateways and aggregates.

use std::time::Duration;

use mcp_proto::Instant;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause that doubling leads to.
const LONGEST: Duration = Duration::from_secs(30);

/// Whether backends may be started: not for a while after one has failed. The pause doubles with each further failure.
#[derive(Debug)]
pub(crate) struct Restart {
    pause: Duration,
    /// Until when none is started.
    until: Option<Instant>,
}

impl Restart {
    pub(crate) const fn new() -> Self {
        Self { pause: FIRST, until: None }
    }

    /// The rest of the pause; `None` if a backend may be started.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        self.until.filter(|until| *until > now).map(|until| until.saturating_duration_since(now))
    }

    /// A backend has become usable.
    pub(crate) const fn on_success(&mut self) {
        *self = Self::new();
    }

    /// A backend has failed before it became usable. Returns the pause; `None` if another backend has failed in the same
    /// attempt, whose pause is not over.
    pub(crate) fn on_failure(&mut self, now: Instant) -> Option<Duration> {
        if self.pause(now).is_some() {
            return None;
        }
        let pause = self.pause;
        self.until = Some(now + pause);
        self.pause = (pause * 2).min(LONGEST);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit_and_begins_anew_after_a_success() {
        let mut restart = Restart::new();
        let mut now = Instant::START;
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let pause = Duration::from_secs(seconds);
            assert_eq!((restart.pause(now), restart.on_failure(now)), (None, Some(pause)));
            assert_eq!((restart.pause(now), restart.on_failure(now)), (Some(pause), None), "one pause at a time");
            let last = now + pause - Duration::from_nanos(1);
            assert_eq!(restart.pause(last), Some(Duration::from_nanos(1)));
            now += pause;
        }
        restart.on_success();
        assert_eq!((restart.pause(now), restart.on_failure(now)), (None, Some(FIRST)));
        restart.on_success();
        assert_eq!(restart.pause(now), None);
    }
}
