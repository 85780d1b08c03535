//! What handlers of clients and services of servers receive without answering it, and how much of it is queued.

use mcp_proto::{Fault, Json, Notification};

use super::Observation;

/// The maximum number of notices that a driver queues for a handler, of changes for a subscription, or of notifications
/// for a service. More are dropped, because the application may be waiting for an answer that arrives after them.
pub const NOTICES: usize = 256;
/// The maximum number of bytes of parameters in such a queue: 4 MiB. An empty queue takes one entry of any size.
pub const NOTICE_BYTES: usize = 4 * 1024 * 1024;

/// What the handler of a client receives without answering it.
#[derive(Debug)]
pub enum Notice {
    /// A notification of the server.
    Notified(Notification),
    /// An event of the client that needs no answer.
    Observed(Observation),
}

impl Notice {
    /// Reports that this number of notices was dropped because the handler did not receive them in time.
    #[must_use]
    pub const fn dropped(count: u64) -> Self {
        Self::Observed(Observation::Faulted(Fault::Dropped { count }))
    }

    /// The size of its parameters in bytes, for a queue with a limit.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Notified(notification) => weight_of(notification),
            Self::Observed(observation) => observation.weight(),
        }
    }
}

/// How much is queued of the notifications for a service, up to [`NOTICES`] and [`NOTICE_BYTES`].
#[derive(Debug, Default)]
pub struct NoticeLoad {
    notifications: usize,
    bytes: usize,
}

impl NoticeLoad {
    /// Counts a notification that is queued. Returns `false` if there is no room, so that it must be dropped instead.
    #[must_use]
    pub fn add(&mut self, notification: &Notification) -> bool {
        let bytes = self.bytes.saturating_add(weight_of(notification));
        let has_room = self.notifications < NOTICES && bytes <= NOTICE_BYTES;
        if has_room || self.notifications == 0 {
            (self.notifications, self.bytes) = (self.notifications + 1, bytes);
            return true;
        }
        false
    }

    /// Counts a notification that was taken from the queue.
    pub fn remove(&mut self, notification: &Notification) {
        self.notifications = self.notifications.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(weight_of(notification));
    }
}

fn weight_of(notification: &Notification) -> usize {
    notification.params.as_ref().map_or(0, Json::len)
}

#[cfg(test)]
mod tests {
    use mcp_proto::client::NotRestored;

    use super::*;

    #[test]
    fn a_notice_weighs_what_it_holds() {
        let json = Json::from("12345678");
        let notified = |params| Notice::Notified(Notification { method: "m".into(), params });
        let observed = |params| {
            let reason = NotRestored::NotKept { limit: 1 };
            Notice::Observed(Observation::NotRestored { method: "m".into(), params, reason })
        };
        for (notice, weight) in [
            (notified(Some(json.clone())), 10),
            (notified(None), 0),
            (observed(Some(json)), 10),
            (observed(None), 0),
            (Notice::Observed(Observation::SessionLost), 0),
            (Notice::dropped(3), 0),
        ] {
            assert_eq!(notice.weight(), weight, "{notice:?}");
        }
    }

    #[test]
    fn queued_notifications_are_bounded_in_number_and_in_bytes() {
        let sized = |bytes: usize| Notification::with_params("n", Json::from("x".repeat(bytes - 2).as_str()));
        let small = Notification::new("n");
        let mut load = NoticeLoad::default();
        assert!((0..NOTICES).all(|_| load.add(&small)) && !load.add(&small));
        load.remove(&small);
        assert!(load.add(&small) && !load.add(&small));

        let mut load = NoticeLoad::default();
        let (half, huge) = (sized(NOTICE_BYTES / 2), sized(2 * NOTICE_BYTES));
        assert!(load.add(&half) && load.add(&half) && !load.add(&sized(2)) && load.add(&small));
        for added in [&half, &half, &small] {
            load.remove(added);
        }
        assert!(load.add(&huge) && !load.add(&small), "an empty queue takes one of any size");
        load.remove(&huge);
        assert!(load.add(&half));
    }
}
