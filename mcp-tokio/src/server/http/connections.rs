//! The open connections of a listener. The machine decides which one is closed to make room for another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::server::{self, Admission, ConnectionKey, PeerKey};
use tokio::sync::Notify;

use crate::clock::now;

/// The number of connections beyond the limit that are answered with 503 at one time.
const REFUSALS: usize = 64;

/// All connections of one listener, each with the notifier that closes it if it has to make room.
#[derive(Debug)]
pub(super) struct Connections(Mutex<server::Connections<Arc<Notify>>>);

/// The decision about a new connection.
#[derive(Debug)]
pub(super) enum Admitted {
    /// It is served.
    Served(Slot),
    /// It is answered with 503, in a task of its own.
    Refused(Slot),
    /// It is answered with 503 without a task, because there are too many of those.
    RefusedAtOnce,
}

/// The entry of a connection, which is removed when this is dropped.
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
    /// The connection begins to answer a request.
    pub(super) fn is_used(&self) {
        self.connections.state().set_used(self.key);
    }

    /// The connection becomes idle.
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
