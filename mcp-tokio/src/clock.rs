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
