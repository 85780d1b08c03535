//! A store in the memory of this process.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::InstanceId;
use mcp_proto::store::{MemoryStore, StoreAction, StoreResult};
use tokio::sync::Notify;

use super::{Messages, Store};
use crate::clock::now;

/// A store in the memory of this process, which its clones share.
///
/// The sessions of servers with this store end with the process. There is no bound on their number besides those of the
/// servers.
#[derive(Clone, Default)]
pub struct InMemory {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    store: Mutex<MemoryStore>,
    /// A message was sent.
    sent: Notify,
}

impl Shared {
    fn store(&self) -> MutexGuard<'_, MemoryStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InMemory {
    /// A store without contents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Shows only counts.
impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InMemory").field(&*self.shared.store()).finish()
    }
}

/// Registers an instance until it is dropped.
struct Registration {
    shared: Arc<Shared>,
    instance: InstanceId,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.store().unregister(self.instance);
    }
}

impl Store for InMemory {
    async fn carry_out(&self, from: InstanceId, action: StoreAction) -> StoreResult {
        let result = self.shared.store().carry_out(from, &action, now());
        if matches!(action, StoreAction::Send { .. }) {
            self.shared.sent.notify_waiters();
        }
        result.unwrap_or(StoreResult::Done)
    }

    async fn register(&self, instance: InstanceId) {
        self.shared.store().register(instance);
    }

    async fn attend(&self, instance: InstanceId, messages: Messages) {
        self.shared.store().register(instance);
        let registration = Registration { shared: Arc::clone(&self.shared), instance };
        loop {
            let sent = registration.shared.sent.notified();
            tokio::pin!(sent);
            // A message that is sent between the look at the store and the wait is noticed, too.
            sent.as_mut().enable();
            let message = registration.shared.store().poll_message(instance);
            match message {
                Some(message) => messages.pass(message).await,
                None => sent.await,
            }
        }
    }

    async fn leave(&self, instance: InstanceId) {
        self.shared.store().unregister(instance);
    }
}
