//! The sockets of the connections that are open: the machine says which of them makes room for another one.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::Instant;
use mcp_proto::server::{self, Admission, ConnectionKey, PeerKey};

/// Threads beyond the limit that answer further connections with 503.
const RESERVE: usize = 32;

/// All connections, each with what it is closed with when it has to make room.
#[derive(Debug)]
pub(super) struct Connections(Mutex<server::Connections<Arc<TcpStream>>>);

/// What becomes of a new connection.
#[derive(Debug)]
pub(super) enum Admitted {
    /// It is served.
    Served(Slot),
    /// It is answered with 503, on a thread of its own.
    Refused(Slot),
    /// There is not even a thread for that.
    RefusedAtOnce,
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<Connections>,
    key: ConnectionKey,
}

impl Connections {
    pub(super) const fn new(most: usize) -> Self {
        Self(Mutex::new(server::Connections::new(most, RESERVE)))
    }

    pub(super) fn admit(self: &Arc<Self>, stream: &Arc<TcpStream>, peer: &PeerKey) -> Admitted {
        let admission = self.state().admit(peer, Arc::clone(stream), Instant::now());
        let slot = |key| Slot { connections: Arc::clone(self), key };
        match admission {
            Admission::Served { connection, evicted } => {
                if let Some(stream) = evicted {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                Admitted::Served(slot(connection))
            }
            Admission::Refused { connection } => Admitted::Refused(slot(connection)),
            Admission::RefusedAtOnce => Admitted::RefusedAtOnce,
        }
    }

    fn state(&self) -> MutexGuard<'_, server::Connections<Arc<TcpStream>>> {
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
        self.connections.state().set_unused(self.key, Instant::now());
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.state().remove(self.key);
    }
}
