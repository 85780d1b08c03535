//! The connections that are open, and which of them makes room for another one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::server::{Holder, PeerKey, Shares};

/// Threads beyond the limit that answer further connections with 503.
const RESERVE: usize = 32;

/// All connections.
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
    streams: BTreeMap<u64, Arc<TcpStream>>,
    threads: usize,
}

/// What becomes of a new connection.
#[derive(Debug)]
pub(super) enum Admission {
    /// It is served.
    Served(Slot),
    /// It is answered with 503, on a thread of its own.
    Refused(Slot),
    /// There is not even a thread for that.
    Overflow,
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<Connections>,
    key: u64,
}

impl Connections {
    pub(super) const fn new(most: usize) -> Self {
        let state = State { next: 0, shares: Shares::new(), streams: BTreeMap::new(), threads: 0 };
        Self { most, state: Mutex::new(state) }
    }

    /// M4: at the limit, a connection without a request is closed, or else the new one is refused.
    pub(super) fn admit(self: &Arc<Self>, stream: &Arc<TcpStream>, peer: IpAddr) -> Admission {
        let (mut state, now) = (self.state(), Instant::now());
        if state.threads >= self.most.saturating_add(RESERVE) {
            return Admission::Overflow;
        }
        let key = state.next;
        state.next += 1;
        state.threads += 1;
        let slot = Slot { connections: Arc::clone(self), key };
        let holder = Holder::Peer(PeerKey::from(peer));
        if state.shares.len() >= self.most {
            let unused = state.shares.to_evict(&holder, Duration::ZERO, now).next();
            let Some(evicted) = unused else { return Admission::Refused(slot) };
            state.shares.remove(evicted);
            if let Some(stream) = state.streams.remove(&evicted) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        state.shares.insert(key, holder);
        state.shares.set_unused(key, now);
        state.streams.insert(key, Arc::clone(stream));
        Admission::Served(slot)
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
        self.connections.state().shares.set_unused(self.key, Instant::now());
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.threads -= 1;
        state.shares.remove(self.key);
        state.streams.remove(&self.key);
    }
}
