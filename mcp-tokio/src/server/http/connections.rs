//! The tasks of the connections that are open: the machine says which of them makes room for another one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::server::{self, Admission, ConnectionKey, PeerKey};
use tokio::sync::Notify;

use crate::clock::now;

/// Connections beyond the limit that are answered with 503 at one time.
const REFUSALS: usize = 64;

/// All connections of one listener, each with what it is closed with when it has to make room.
#[derive(Debug)]
pub(super) struct Connections(Mutex<server::Connections<Arc<Notify>>>);

/// What becomes of a new connection.
#[derive(Debug)]
pub(super) enum Admitted {
    /// It is served.
    Served(Slot),
    /// It is answered with 503, in a task of its own.
    Refused(Slot),
    /// There is not even a task for that.
    RefusedAtOnce,
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<Connections>,
    key: ConnectionKey,
    eviction: Arc<Notify>,
}

impl Connections {
    pub(super) const fn new(most: usize) -> Self {
        Self(Mutex::new(server::Connections::new(most, REFUSALS)))
    }

    pub(super) fn admit(self: &Arc<Self>, peer: &PeerKey) -> Admitted {
        let eviction = Arc::new(Notify::new());
        let admission = self.state().admit(peer, Arc::clone(&eviction), now());
        let slot = |key| Slot { connections: Arc::clone(self), key, eviction };
        match admission {
            Admission::Served { connection, evicted } => {
                if let Some(eviction) = evicted {
                    eviction.notify_one();
                }
                Admitted::Served(slot(connection))
            }
            Admission::Refused { connection } => Admitted::Refused(slot(connection)),
            Admission::RefusedAtOnce => Admitted::RefusedAtOnce,
        }
    }

    fn state(&self) -> MutexGuard<'_, server::Connections<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// A request is being answered.
    pub(super) fn is_used(&self) {
        self.connections.state().set_used(self.key);
    }

    /// The next request is waited for.
    pub(super) fn is_unused(&self) {
        self.connections.state().set_unused(self.key, now());
    }

    /// Waits until the connection has to make room.
    pub(super) async fn evicted(&self) {
        self.eviction.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.state().remove(self.key);
    }
}
