//! What the handler of a client receives without answering it.

use super::Observation;
use crate::codec::json::Json;
use crate::codec::jsonrpc::Notification;
use crate::error::Fault;

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
            Self::Notified(notification) => notification.params.as_ref().map_or(0, Json::len),
            Self::Observed(observation) => observation.weight(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::NotRestored;

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
            (Notice::Observed(Observation::Reconnected), 0),
            (Notice::dropped(3), 0),
        ] {
            assert_eq!(notice.weight(), weight, "{notice:?}");
        }
    }
}
