//! The connections that are open, and which of them makes room for another one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::server::{Holder, PeerKey, Shares};
use tokio::sync::Notify;

use crate::clock::now;

/// All connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    /// A connection is in use from the head of a request to the end of its response.
    shares: Shares<u64>,
    evictions: BTreeMap<u64, Arc<Notify>>,
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<Connections>,
    key: u64,
    eviction: Arc<Notify>,
}

impl Connections {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, state: Mutex::new(State { next: 0, shares: Shares::new(), evictions: BTreeMap::new() }) }
    }

    /// M4: at the limit, a connection without a request is closed; `None` if there is none.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let (mut state, holder) = (self.state(), Holder::Peer(PeerKey::from(peer)));
        if state.shares.len() >= self.most {
            let evicted = state.shares.to_evict(&holder, Duration::ZERO, now()).next()?;
            state.shares.remove(evicted);
            if let Some(eviction) = state.evictions.remove(&evicted) {
                eviction.notify_one();
            }
        }
        let (key, eviction) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.shares.insert(key, holder);
        state.shares.set_unused(key, now());
        state.evictions.insert(key, Arc::clone(&eviction));
        Some(Slot { connections: Arc::clone(self), key, eviction })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// A request is being answered.
    pub(super) fn is_used(&self) {
        self.connections.state().shares.set_used(self.key);
    }

    /// The next request is waited for.
    pub(super) fn is_unused(&self) {
        self.connections.state().shares.set_unused(self.key, now());
    }

    /// Waits until the connection has to make room.
    pub(super) async fn evicted(&self) {
        self.eviction.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.shares.remove(self.key);
        state.evictions.remove(&self.key);
    }
}
