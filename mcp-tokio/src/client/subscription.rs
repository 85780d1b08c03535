//! Changes that a client has subscribed to.

use std::sync::Arc;

use mcp_proto::client::{Outcome, SubscriptionKey};
use mcp_proto::{Failed, Json, Notification};
use tokio::sync::mpsc;

use super::Error;

/// Changes that the server tells of, as [`Client::listen`](super::Client::listen) asked. Dropping it ends that.
#[derive(Debug)]
#[must_use = "what nobody listens to is ended"]
pub struct Subscription {
    pub(super) key: SubscriptionKey,
    pub(super) server: Arc<str>,
    pub(super) events: mpsc::Receiver<SubscriptionEvent>,
    pub(super) unlisten: mpsc::UnboundedSender<SubscriptionKey>,
}

/// What becomes of a subscription.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change {
    /// The server tells of this from now on: the object `notifications` of its acknowledgement.
    Listening(Json),
    /// Something has changed.
    Notified(Notification),
    /// The subscription broke off, and is opened again. What changes meanwhile is not events: read again what matters.
    Interrupted(Failed),
    /// It has ended: with a result if the server ended it in good order. Nothing follows.
    Ended(Result<Json, Error>),
}

/// A change, before it is known whom an error is told.
#[derive(Debug)]
pub(super) enum SubscriptionEvent {
    Listening(Json),
    Notified(Notification),
    Interrupted(Failed),
    Ended(Outcome),
}

impl Subscription {
    /// The next change; `None` after the end. Changes that were not taken in time are missed.
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
