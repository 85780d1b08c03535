//! Passes actions to the store, and their results to what waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Instant;
use crate::server::http::sessions::stored::pending::Pending;
use crate::server::http::sessions::stored::reader::Reader;
use crate::server::http::sessions::stored::task_requests::TaskRequest;
use crate::server::http::{ExchangeKey, Http, HttpAction, HttpTimer, Output};
use crate::store::{StoreAction, StoreKey, StoreResult};

/// All that waits for the store.
#[derive(Default)]
pub(crate) struct StoreWork {
    next: u64,
    pending: BTreeMap<StoreKey, Pending>,
    /// The streams that are read from the store.
    pub(crate) readers: BTreeMap<ExchangeKey, Reader>,
    /// The requests about tasks of other instances that are not passed on yet.
    pub(crate) task_requests: BTreeMap<ExchangeKey, TaskRequest>,
    /// Bytes of these requests, and of events that are not stored yet.
    pub(crate) queued: usize,
    /// The ended sessions whose records are being removed, by the key of the action.
    pub(crate) ending: BTreeMap<StoreKey, Arc<str>>,
    /// The ended sessions, each with the time until which the removal of its record is tried.
    pub(crate) ended: BTreeMap<Arc<str>, Instant>,
}

impl StoreWork {
    /// Whether something is being written, or another instance answers a request.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.values().any(|pending| match pending {
            Pending::Save(_)
            | Pending::Reload(_)
            | Pending::Forget(..)
            | Pending::End
            | Pending::LastAppend
            | Pending::Append(..)
            | Pending::AppendMessage(..)
            | Pending::AppendErrors(_)
            | Pending::TaskInstance(_)
            | Pending::TaskAnswer(_) => true,
            Pending::LookUp(_) | Pending::Touch(_) | Pending::Holder(_) | Pending::Read(_) | Pending::Producer(_) => {
                false
            }
        })
    }
}

impl Http {
    /// Passes an action to the driver, and waits for its result.
    pub(crate) fn ask_store(
        &mut self,
        pending: Pending,
        output: &mut Output<'_>,
        action: impl FnOnce(StoreKey) -> StoreAction,
    ) {
        let Some(stored) = self.config.stored() else { return };
        let at = output.now + stored.timeout;
        let key = StoreKey(self.store.next);
        self.store.next += 1;
        self.store.pending.insert(key, pending);
        output.set_timer(HttpTimer::Store(key), at);
        output.out.act(HttpAction::Store(action(key)));
    }

    /// The store has answered, or has not answered in time.
    pub(crate) fn on_stored(&mut self, key: StoreKey, result: StoreResult, output: &mut Output<'_>) {
        let Some(pending) = self.store.pending.remove(&key) else { return };
        output.clear_timer(HttpTimer::Store(key));
        match pending {
            Pending::LookUp(exchange) => self.on_looked_up(exchange, result, output),
            Pending::Touch(session) => self.on_touched(session, result, output),
            Pending::Save(session) => self.on_saved(session, &result, output),
            Pending::Reload(session) => self.on_reloaded(session, result, output),
            Pending::Forget(session, exchange) => self.on_forgotten(session, exchange, &result, output),
            Pending::End => self.on_record_ended(key, &result, output),
            Pending::LastAppend => {}
            Pending::Holder(exchange) => self.on_holder_found(exchange, &result, output),
            Pending::Append(session, of) => self.on_appended(session, of, &result, output),
            Pending::AppendMessage(session, bytes) => {
                self.store.queued = self.store.queued.saturating_sub(bytes);
                self.on_message_appended(session, &result, output);
            }
            Pending::AppendErrors(exchange) => self.read(exchange, output),
            Pending::Read(exchange) => self.on_read(exchange, result, output),
            Pending::Producer(exchange) => self.on_producer_found(exchange, &result, output),
            Pending::TaskInstance(exchange) => self.on_task_instance_found(exchange, &result, output),
            Pending::TaskAnswer(exchange) => self.on_no_task_answer(exchange, output),
        }
    }

    /// The exchange that waits for the answer of another instance.
    pub(crate) fn take_task_answer(&mut self, key: StoreKey, output: &mut Output<'_>) -> Option<ExchangeKey> {
        let Some(Pending::TaskAnswer(exchange)) = self.store.pending.get(&key).copied() else { return None };
        self.store.pending.remove(&key);
        output.clear_timer(HttpTimer::Store(key));
        Some(exchange)
    }
}
