//! The connections of a listening server, shared by the threads or tasks that serve them.

#![expect(clippy::disallowed_types, reason = "connections share this among threads; no machine contains it")]

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::Instant;
use mcp_proto::server::{Admission, ConnectionKey, Connections, PeerKey};

/// The [`Connections`] of a listening server, shared by the threads or tasks that serve them. `H` is the handle with
/// which the driver closes a connection to make room for another.
///
/// # Example: a connection is closed for a new one, unless it is answering a request
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_application::{Admitted, SharedConnections};
/// use mcp_proto::server::PeerKey;
///
/// let (connections, peer) = (SharedConnections::new(1, 1, || Instant::START), PeerKey::new(&[1]));
/// let Admitted::Served { slot: a, evicted: None } = connections.admit(&peer, "a") else { panic!() };
/// let Admitted::Served { slot: b, evicted: Some("a") } = connections.admit(&peer, "b") else { panic!() };
/// drop(a); // The driver has closed it.
/// b.set_used();
/// let Admitted::Refused(c) = connections.admit(&peer, "c") else { panic!() };
/// assert!(matches!(connections.admit(&peer, "d"), Admitted::RefusedAtOnce));
/// drop((b, c));
/// assert!(connections.is_empty());
/// assert!(matches!(connections.admit(&peer, "e"), Admitted::Served { evicted: None, .. }));
/// ```
pub struct SharedConnections<H> {
    state: Arc<Mutex<Connections<H>>>,
    now: fn() -> Instant,
}

impl<H> SharedConnections<H> {
    /// Creates an empty set. At most `most` connections are served at one time, and at most `most_refused` more may be
    /// open while they are refused or closed. `now` reads the driver's clock.
    #[must_use]
    pub fn new(most: usize, most_refused: usize, now: fn() -> Instant) -> Self {
        Self { state: Arc::new(Mutex::new(Connections::new(most, most_refused))), now }
    }

    /// Whether no connection is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().is_empty()
    }

    /// Decides whether a new connection from this address is served. The driver receives `handle` back, as `evicted`,
    /// when the connection must be closed for another one.
    pub fn admit(&self, peer: &PeerKey, handle: H) -> Admitted<H> {
        let admission = self.state().admit(peer, handle, (self.now)());
        let slot = |key| ConnectionSlot { connections: self.clone(), key };
        match admission {
            Admission::Served { connection, evicted } => Admitted::Served { slot: slot(connection), evicted },
            Admission::Refused { connection } => Admitted::Refused(slot(connection)),
            Admission::RefusedAtOnce => Admitted::RefusedAtOnce,
        }
    }

    /// No call leaves the state inconsistent, so a panic of another thread does not matter.
    fn state(&self) -> MutexGuard<'_, Connections<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same set of connections.
impl<H> Clone for SharedConnections<H> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), now: self.now }
    }
}

/// Shows only counts.
impl<H> fmt::Debug for SharedConnections<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}

/// What the driver does with a new connection.
#[derive(Debug)]
pub enum Admitted<H> {
    /// Serve it.
    Served {
        /// The place of the connection.
        slot: ConnectionSlot<H>,
        /// The handle of the connection that must be closed for it.
        evicted: Option<H>,
    },
    /// Read its request and answer with [`too_many_connections`](mcp_proto::server::too_many_connections), because all
    /// connections are in use.
    Refused(ConnectionSlot<H>),
    /// Send the same answer without waiting for a request, and close it, because the limit of connections that are
    /// being refused is reached, too.
    RefusedAtOnce,
}

/// The place of one connection. Dropping it frees the place.
#[derive(Debug)]
#[must_use = "dropping it frees the place of the connection"]
pub struct ConnectionSlot<H> {
    connections: SharedConnections<H>,
    key: ConnectionKey,
}

impl<H> ConnectionSlot<H> {
    /// The head of a request has arrived: the connection is not closed for another one until its response has ended.
    pub fn set_used(&self) {
        self.connections.state().set_used(self.key);
    }

    /// A response has ended: the connection waits for the next request.
    pub fn set_unused(&self) {
        self.connections.state().set_unused(self.key, (self.connections.now)());
    }
}

impl<H> Drop for ConnectionSlot<H> {
    fn drop(&mut self) {
        self.connections.state().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_without_a_request_makes_room() {
        let (connections, peer) = (SharedConnections::new(1, 2, || Instant::START), PeerKey::new(&[1]));
        let Admitted::Served { slot, evicted: None } = connections.admit(&peer, 'a') else { panic!("there is room") };
        slot.set_used();
        assert!(matches!(connections.admit(&peer, 'b'), Admitted::Refused(_)));
        slot.set_unused();
        assert!(matches!(connections.admit(&peer, 'c'), Admitted::Served { evicted: Some('a'), .. }));
    }

    #[test]
    fn a_dropped_slot_frees_its_place() {
        let (connections, peer) = (SharedConnections::new(1, 1, || Instant::START), PeerKey::new(&[1]));
        for _ in 0..3 {
            let Admitted::Served { slot: served, evicted: None } = connections.admit(&peer, ()) else {
                panic!("there is room")
            };
            served.set_used();
            let Admitted::Refused(refused) = connections.admit(&peer, ()) else { panic!("a place to refuse it") };
            assert!(matches!(connections.admit(&peer, ()), Admitted::RefusedAtOnce));
            assert_eq!(format!("{connections:?}"), "Connections { open: 2, served: 1, .. }");
            drop((served, refused));
        }
    }
}
