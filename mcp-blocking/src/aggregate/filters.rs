//! Changes the filters of the servers of a running aggregate, from another thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_intermediary::relay::Filter;

use super::aggregate_loop::Input;

/// Changes the filters of the servers of a running [`AggregateProxy`](super::AggregateProxy), from another thread.
#[derive(Clone)]
pub struct AggregateFilters {
    changed: Arc<ChangedFilters>,
    inbox: SyncSender<Input>,
}

/// Filters that the loop has not applied yet, by the names of their servers.
#[derive(Default)]
pub(super) struct ChangedFilters {
    filters: Mutex<BTreeMap<Box<str>, Filter>>,
    are_any: AtomicBool,
}

impl ChangedFilters {
    /// Takes what the loop has to apply before its next input.
    pub(super) fn take(&self) -> BTreeMap<Box<str>, Filter> {
        if self.are_any.swap(false, Ordering::AcqRel) {
            std::mem::take(&mut *self.filters.lock().unwrap_or_else(PoisonError::into_inner))
        } else {
            BTreeMap::new()
        }
    }
}

impl AggregateFilters {
    pub(super) const fn new(changed: Arc<ChangedFilters>, inbox: SyncSender<Input>) -> Self {
        Self { changed, inbox }
    }

    /// Applies these filters to all that the client sends after this call, by the names of the servers.
    ///
    /// # Example
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use mcp_blocking::AggregateProxy;
    /// use mcp_blocking::intermediary::aggregate::Config;
    /// use mcp_blocking::intermediary::relay::{Filter, Rule};
    /// use mcp_blocking::proto::spec::Primitive;
    ///
    /// let proxy = AggregateProxy::new(Config::new("all", "1.0.0"));
    /// let mut filter = Filter::new();
    /// filter.add(Rule::deny(Primitive::Tool, "delete_*")?);
    /// proxy.filters().set(&BTreeMap::from([("files".into(), filter)]));
    /// # Ok::<(), mcp_blocking::proto::UsageError>(())
    /// ```
    pub fn set(&self, filters: &BTreeMap<Box<str>, Filter>) {
        let mut changed = self.changed.filters.lock().unwrap_or_else(PoisonError::into_inner);
        changed.extend(filters.iter().map(|(name, filter)| (name.clone(), filter.clone())));
        self.changed.are_any.store(true, Ordering::Release);
        drop(changed);
        // If the channel is full, the loop takes them before its next input anyway.
        let _ = self.inbox.try_send(Input::Woken);
    }
}

mcp_application::opaque_debug!(AggregateFilters);
