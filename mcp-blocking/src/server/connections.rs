//! The sockets of the open connections. The machine decides which of them is closed to make room for another one.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::server::{self, Admission, ConnectionKey, PeerKey};

use crate::clock;

/// Connections beyond the limit that get a thread which answers them with 503.
const RESERVE: usize = 32;

/// All connections, each with its socket, through which it is closed to make room.
#[derive(Debug)]
pub(super) struct Connections(Mutex<server::Connections<Arc<TcpStream>>>);

/// How a new connection is handled.
#[derive(Debug)]
pub(super) enum Admitted {
    /// It is served.
    Served(Slot),
    /// It is answered with 503, on its own thread.
    Refused(Slot),
    /// The threads that answer with 503 are in use too.
    RefusedAtOnce,
}

/// The place of one connection. Dropping it frees the place.
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
        let admission = self.state().admit(peer, Arc::clone(stream), clock::now());
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
    /// Records that a request is being answered.
    pub(super) fn is_used(&self) {
        self.connections.state().set_used(self.key);
    }

    /// Records that the connection waits for its next request.
    pub(super) fn is_unused(&self) {
        self.connections.state().set_unused(self.key, clock::now());
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.state().remove(self.key);
    }
}
