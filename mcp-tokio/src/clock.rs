//! The clock for the machines.

use std::pin::Pin;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use mcp_application::LONGEST_TIMEOUT;
use mcp_proto::Instant;
use tokio::time::{Sleep, sleep_until};

/// A runtime whose time is paused may be behind that of the process, and no moment is before the start.
const BEHIND: Duration = Duration::from_secs(3600);

static START: LazyLock<std::time::Instant> = LazyLock::new(|| {
    let now = std::time::Instant::now();
    now.checked_sub(BEHIND).unwrap_or(now)
});

/// The time of the runtime, which tests may pause.
pub(crate) fn now() -> Instant {
    Instant::after_start(tokio::time::Instant::now().into_std().saturating_duration_since(*START))
}

/// The seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time of the runtime at that moment.
fn of_runtime(at: Instant) -> tokio::time::Instant {
    (*START + at.since_start().min(LONGEST_TIMEOUT)).into()
}

/// A timer that wakes a task when its machine has a timeout.
///
/// Machines may be called early, and most deadlines move before they are reached. A deadline that moves to a later time
/// is therefore set again only after the earlier one has passed.
#[derive(Debug)]
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    set: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(sleep_until(tokio::time::Instant::now())), set: None }
    }

    /// Waits until `due` or an earlier deadline; forever without one. The future may be dropped.
    pub(crate) async fn wait(&mut self, due: Option<Instant>) {
        let Some(due) = due else { return std::future::pending().await };
        if self.set.is_none_or(|set| due < set) {
            self.sleep.as_mut().reset(of_runtime(due));
            self.set = Some(due);
        }
        self.sleep.as_mut().await;
        self.set = None;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn the_time_is_that_of_the_calendar() {
        let year_2020 = 1_577_836_800;
        assert!(unix_time() > year_2020);
    }

    /// Time is paused: it advances only when the runtime is idle.
    #[tokio::test(start_paused = true)]
    async fn an_alarm_goes_off_at_the_earliest_deadline_since_it_last_did() {
        let start = now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let mut alarm = Alarm::new();
        for (waits, goes_off) in [
            // A deadline moves to an earlier time, then to a later one: the later one is set when the earlier has
            // passed.
            (&[at(20), at(10)][..], 10),
            (&[at(20), at(30)][..], 20),
            (&[at(30)][..], 30),
            (&[None, at(50), at(50)][..], 50),
            (&[at(1)][..], 50),
            (&[at(60)][..], 60),
        ] {
            for due in waits {
                if timeout(Duration::from_millis(10), alarm.wait(*due)).await.is_ok() {
                    break;
                }
                assert!(now() < start + Duration::from_secs(goes_off), "{waits:?}");
            }
            if now() < start + Duration::from_secs(goes_off) {
                alarm.wait(*waits.last().unwrap()).await;
            }
            assert_eq!((now() - start).as_secs(), goes_off, "{waits:?}");
        }
        assert!(timeout(Duration::from_secs(1 << 20), alarm.wait(None)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_never_comes_is_waited_for_without_an_overflow() {
        let mut alarm = Alarm::new();
        let never = alarm.wait(Some(Instant::MAX));
        assert!(timeout(Duration::from_secs(1 << 20), never).await.is_err());
    }
}
