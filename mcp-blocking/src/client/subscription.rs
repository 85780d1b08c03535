//! Changes that a client has subscribed to.

use mcp_application::Change;
use mcp_proto::client::SubscriptionKey;

use super::commands::{Commands, Input};
use crate::bounded::{Next, Receiver};

/// Changes that the server reports for one [`Client::listen`](super::Client::listen), until the subscription ends.
/// Dropping it ends the subscription.
///
/// At most 256 changes are queued, of at most 4 MiB together. Further ones are dropped, and [`Change::Missed`] counts
/// them.
#[derive(Debug)]
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    pub(super) key: SubscriptionKey,
    pub(super) changes: Receiver<Change>,
    pub(super) commands: Commands,
}

/// Iterates over the changes; `next` waits for the next one.
impl Iterator for Subscription {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        Some(match self.changes.recv()? {
            Next::Entry(change) => change,
            Next::Missed(count) => Change::Missed(count),
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.commands.send(Input::Unlisten(self.key));
    }
}
