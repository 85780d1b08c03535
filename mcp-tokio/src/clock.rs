//! The time, as the machines are told it.

use std::pin::Pin;

use mcp_proto::Instant;
use tokio::time::{Sleep, sleep_until};

/// The time of the runtime, which tests may stop.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What wakes a task when its machine wants to be called.
///
/// Machines do not mind being called early, and most deadlines move before they come: so one that moves away is not set
/// anew until it has passed.
#[derive(Debug)]
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    set: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(sleep_until(tokio::time::Instant::now())), set: None }
    }

    /// Waits until then or somewhat less, if there is a then. The future may be dropped.
    pub(crate) async fn wait(&mut self, due: Option<Instant>) {
        let Some(due) = due else { return std::future::pending().await };
        if self.set.is_none_or(|set| due < set) {
            self.sleep.as_mut().reset(due.into());
            self.set = Some(due);
        }
        self.sleep.as_mut().await;
        self.set = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// The time passes only while nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn an_alarm_goes_off_at_the_earliest_deadline_since_it_last_did() {
        let start = now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let mut alarm = Alarm::new();
        for (waits, goes_off) in [
            // One that moves closer, or away: the second is seen when the first has passed.
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
}
