//! A queue of subscription changes for the service, which handles them one at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::server::SubscriptionChange;

use super::Service;
use super::commands::{Command, Commands};
use super::publisher::ServerPublisher;

/// The changes that the service has not handled.
#[derive(Debug)]
pub(super) struct Subscriptions {
    commands: Commands,
    publisher: ServerPublisher,
    changes: Mutex<VecDeque<SubscriptionChange>>,
    /// Held while the service handles changes, so that only one thread does so at a time.
    turn: Mutex<()>,
}

impl Subscriptions {
    pub(super) fn new(commands: Commands) -> Arc<Self> {
        let publisher = ServerPublisher::new(commands.clone());
        Arc::new(Self { commands, publisher, changes: Mutex::default(), turn: Mutex::default() })
    }

    /// Adds changes. Returns whether any are queued.
    pub(super) fn extend(&self, changes: impl Iterator<Item = SubscriptionChange>) -> bool {
        let mut waiting = self.changes();
        waiting.extend(changes);
        !waiting.is_empty()
    }

    /// Passes the queued changes to the service, then notifies the driver.
    pub(super) fn report(&self, service: &dyn Service) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(change) = self.next() {
            let handled = catch_unwind(AssertUnwindSafe(|| match change {
                SubscriptionChange::Subscribed(uri) => service.subscribed(uri, self.publisher.clone()),
                SubscriptionChange::Unsubscribed(uri) => service.unsubscribed(uri),
            }));
            if handled.is_err() {
                log::error!("the handler of a subscription panicked");
            }
        }
        drop(turn);
        let _ = self.commands.send(Command::Reported);
    }

    fn next(&self) -> Option<SubscriptionChange> {
        self.changes().pop_front()
    }

    fn changes(&self) -> MutexGuard<'_, VecDeque<SubscriptionChange>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
