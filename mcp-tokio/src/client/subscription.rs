//! Changes that a client has subscribed to.

use std::sync::Arc;

use mcp_proto::client::{Outcome, SubscriptionKey};
use mcp_proto::{Failed, Json, Notification};
use tokio::sync::mpsc;

use super::Error;

/// A subscription that [`Client::listen`](super::Client::listen) has opened. Dropping it ends the subscription.
#[derive(Debug)]
#[must_use = "what nobody listens to is ended"]
pub struct Subscription {
    pub(super) key: SubscriptionKey,
    pub(super) server: Arc<str>,
    pub(super) events: mpsc::Receiver<SubscriptionEvent>,
    pub(super) unlisten: mpsc::UnboundedSender<SubscriptionKey>,
}

/// An event of a subscription.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change {
    /// The subscription is open. Contains the object `notifications` of the server's acknowledgement.
    Listening(Json),
    /// A change at the server.
    Notified(Notification),
    /// The subscription was interrupted and is being opened again. Changes in between are not reported: fetch relevant
    /// state again.
    Interrupted(Failed),
    /// The subscription has ended: with a result if the server ended it normally, otherwise with an error. Nothing
    /// follows.
    Ended(Result<Json, Error>),
}

/// An event of a subscription as the task sends it, before errors are converted.
#[derive(Debug)]
pub(super) enum SubscriptionEvent {
    Listening(Json),
    Notified(Notification),
    Interrupted(Failed),
    Ended(Outcome),
}

impl Subscription {
    /// Returns the next change; `None` after the end. Changes that are not received in time are dropped.
    pub async fn next(&mut self) -> Option<Change> {
        Some(match self.events.recv().await? {
            SubscriptionEvent::Listening(filter) => Change::Listening(filter),
            SubscriptionEvent::Notified(notification) => Change::Notified(notification),
            SubscriptionEvent::Interrupted(reason) => Change::Interrupted(reason),
            SubscriptionEvent::Ended(Outcome::Result(result)) => Change::Ended(Ok(result)),
            SubscriptionEvent::Ended(Outcome::Error(error)) => Change::Ended(Err(Error::Server(error))),
            SubscriptionEvent::Ended(Outcome::Failed(reason)) => {
                Change::Ended(Err(Error::failed(&self.server, reason)))
            }
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.unlisten.send(self.key);
    }
}
