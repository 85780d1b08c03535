//! Changes that a client has subscribed to.

use mcp_application::Change;
use mcp_proto::client::SubscriptionKey;
use tokio::sync::mpsc;

use crate::bounded::{Entry, Receiver};

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
    pub(super) unlisten: mpsc::UnboundedSender<SubscriptionKey>,
}

impl Subscription {
    /// Returns the next change; `None` after the end.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }
}

impl Entry for Change {
    fn weight(&self) -> usize {
        Self::weight(self)
    }

    fn missed(count: u64) -> Self {
        Self::Missed(count)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.unlisten.send(self.key);
    }
}
