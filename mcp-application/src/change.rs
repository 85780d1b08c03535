//! Events of a subscription.

use mcp_proto::{Failed, Json, Notification};

use super::Error;

/// An event of a subscription.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change {
    /// The server reports these changes from now on: the object `notifications` of its acknowledgement.
    Listening(Json),
    /// Something has changed.
    Notified(Notification),
    /// The subscription was interrupted, and is opened again. Changes in the meantime cause no events, so the
    /// application should read the lists and resources again.
    Interrupted(Failed),
    /// This number of changes was dropped because the application did not receive them in time, so it should read the
    /// lists and resources again.
    Missed(u64),
    /// The subscription has ended: with a result if the server ended it normally. Nothing follows.
    ///
    /// Rules: MD-L-09.
    Ended(Result<Json, Error>),
}

impl Change {
    /// The size of its payload in bytes, for a queue with a limit.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Listening(filter) => filter.len(),
            Self::Notified(notification) => notification.params.as_ref().map_or(0, Json::len),
            Self::Interrupted(_) | Self::Missed(_) | Self::Ended(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_weighs_what_it_holds() {
        let json = Json::parse(r#"{"a":1}"#).unwrap();
        for (change, weight) in [
            (Change::Listening(json.clone()), 7),
            (Change::Notified(Notification::with_params("m", json.clone())), 7),
            (Change::Notified(Notification::new("m")), 0),
            (Change::Interrupted(Failed::Closed), 0),
            (Change::Ended(Ok(json)), 0),
        ] {
            assert_eq!(change.weight(), weight, "{change:?}");
        }
    }
}
