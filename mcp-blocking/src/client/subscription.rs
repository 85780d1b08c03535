//! Changes that a client has subscribed to.

use mcp_proto::client::{Outcome, SubscriptionKey};
use mcp_proto::{Failed, Json, Notification};

use super::Error;
use super::driver::{Commands, Input};
use crate::bounded::{Next, Receiver};

/// Changes that the server reports for one [`Client::listen`](super::Client::listen), until the subscription ends.
/// Dropping it ends the subscription.
///
/// At most 256 changes are queued, of at most 4 MiB together. Further ones are dropped, and [`Change::Missed`] counts
/// them.
#[derive(Debug)]
#[must_use = "what nobody listens to is ended"]
pub struct Subscription {
    pub(super) key: SubscriptionKey,
    pub(super) server: String,
    pub(super) events: Receiver<SubscriptionEvent>,
    pub(super) commands: Commands,
}

/// An event of a subscription.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change {
    /// The server reports these changes from now on: the object `notifications` of its acknowledgement.
    Listening(Json),
    /// Something has changed.
    Notified(Notification),
    /// The subscription was interrupted, and is opened again. Changes in the meantime cause no events: read again what
    /// matters.
    Interrupted(Failed),
    /// This number of changes was dropped because the queue was full: read again what matters.
    Missed(u64),
    /// The subscription has ended: with a result if the server ended it in good order. Nothing follows.
    Ended(Result<Json, Error>),
}

/// An event as the driver sends it: without the name of the server, which [`Change`] adds to errors.
#[derive(Debug)]
pub(super) enum SubscriptionEvent {
    Listening(Json),
    Notified(Notification),
    Interrupted(Failed),
    Ended(Outcome),
}

/// Iterates over the changes; `next` waits for the next one.
impl Iterator for Subscription {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        let event = match self.events.recv()? {
            Next::Entry(event) => event,
            Next::Missed(count) => return Some(Change::Missed(count)),
        };
        Some(match event {
            SubscriptionEvent::Listening(filter) => Change::Listening(filter),
            SubscriptionEvent::Notified(notification) => Change::Notified(notification),
            SubscriptionEvent::Interrupted(reason) => Change::Interrupted(reason),
            SubscriptionEvent::Ended(Outcome::Result(result)) => Change::Ended(Ok(result)),
            SubscriptionEvent::Ended(Outcome::Error(error)) => Change::Ended(Err(Error::Server(error))),
            SubscriptionEvent::Ended(Outcome::Failed(reason)) => {
                Change::Ended(Err(Error::Failed { server: self.server.clone(), reason }))
            }
        })
    }
}

impl SubscriptionEvent {
    /// The size of its parameters in bytes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Listening(filter) => filter.len(),
            Self::Notified(notification) => notification.params.as_ref().map_or(0, Json::len),
            Self::Interrupted(_) | Self::Ended(_) => 0,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.commands.send(Input::Unlisten(self.key));
    }
}
