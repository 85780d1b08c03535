//! Connections of a listening server, and which of them is closed for a new one (M4).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::shares::{Holder, PeerKey, Shares};
use crate::Instant;

/// Identifies a connection of [`Connections`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey(u64);

/// What the driver does with a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission<H> {
    /// Serve it.
    Served {
        /// Its key.
        connection: ConnectionKey,
        /// The handle of the connection that must be closed for it. [`Connections::remove`] must still be called for
        /// that connection after it has ended.
        evicted: Option<H>,
    },
    /// Read its request and answer with [`too_many_connections`](super::too_many_connections), because all connections
    /// are in use.
    Refused {
        /// Its key.
        connection: ConnectionKey,
    },
    /// Send the same answer without waiting for a request, and close it, because the limit of connections that are
    /// being refused is reached, too.
    RefusedAtOnce,
}

/// The connections of a listening server, with a limit, and a rule that determines which one is closed for a new one.
///
/// At the limit, a connection that waits for a request is closed: one of the holder with the most connections, if that
/// holder has more than the new one would then have; else one of any holder. Among several, the one that has waited for
/// longest is closed. If all are in use, the new one is refused. `H` is the handle with which the driver closes a
/// connection. Memory: some 300 bytes for each connection, plus its handle. Each call takes logarithmic time.
///
/// # Example: two connections at one time, and one more that is refused
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::server::{Admission, Connections, PeerKey};
///
/// let (now, peer) = (Instant::START, PeerKey::new(&[1]));
/// let mut connections = Connections::new(2, 1);
/// let Admission::Served { connection: a, evicted: None } = connections.admit(&peer, "a", now) else { panic!() };
/// let Admission::Served { connection: b, evicted: None } = connections.admit(&peer, "b", now) else { panic!() };
/// connections.set_used(a);
/// let Admission::Served { connection: c, evicted } = connections.admit(&peer, "c", now) else { panic!() };
/// assert_eq!(evicted, Some("b"), "it waited for a request");
/// connections.remove(b);
/// connections.set_used(c);
/// let Admission::Refused { connection: d } = connections.admit(&peer, "d", now) else { panic!() };
/// assert_eq!(connections.admit(&peer, "e", now), Admission::RefusedAtOnce);
/// connections.remove(d);
/// connections.remove(c);
/// connections.remove(a);
/// assert!(connections.is_empty());
/// assert!(matches!(connections.admit(&peer, "f", now), Admission::Served { evicted: None, .. }));
/// ```
pub struct Connections<H> {
    most: usize,
    most_refused: usize,
    next: u64,
    /// All connections that were not removed. Those that are served have a handle; the others are refused or must
    /// close.
    open: BTreeMap<ConnectionKey, Option<H>>,
    /// The served connections. One is in use from the head of a request to the end of its response.
    served: Shares<ConnectionKey>,
}

impl<H> Connections<H> {
    /// Creates an empty set. At most `most` connections are served at one time, and at most `most_refused` more may be
    /// open while they are refused or closed.
    #[must_use]
    pub const fn new(most: usize, most_refused: usize) -> Self {
        Self { most, most_refused, next: 0, open: BTreeMap::new(), served: Shares::new() }
    }

    /// Whether no connection is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// A client with this address has connected. The driver receives `handle` back, as `evicted`, when the connection
    /// must be closed for another one.
    pub fn admit(&mut self, peer: &PeerKey, handle: H, now: Instant) -> Admission<H> {
        if self.open.len() >= self.most.saturating_add(self.most_refused) {
            return Admission::RefusedAtOnce;
        }
        let (connection, holder) = (ConnectionKey(self.next), Holder::new(None, Some(peer)));
        self.next += 1;
        let mut evicted = None;
        if self.served.len() >= self.most {
            let Some(longest) = self.served.to_evict(&holder, Duration::ZERO, now).next() else {
                self.open.insert(connection, None);
                return Admission::Refused { connection };
            };
            self.served.remove(longest);
            evicted = self.open.get_mut(&longest).and_then(Option::take);
        }
        self.open.insert(connection, Some(handle));
        self.served.insert(connection, holder);
        self.served.set_unused(connection, now);
        Admission::Served { connection, evicted }
    }

    /// The head of a request has arrived: the connection is not closed for another one until its response has ended.
    pub fn set_used(&mut self, connection: ConnectionKey) {
        self.served.set_used(connection);
    }

    /// A response has ended: the connection waits for the next request.
    pub fn set_unused(&mut self, connection: ConnectionKey, now: Instant) {
        self.served.set_unused(connection, now);
    }

    /// A connection has ended.
    pub fn remove(&mut self, connection: ConnectionKey) {
        self.open.remove(&connection);
        self.served.remove(connection);
    }
}

/// Shows only counts.
impl<H> fmt::Debug for Connections<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, served) = (self.open.len(), self.served.len());
        f.debug_struct("Connections").field("open", &open).field("served", &served).finish_non_exhaustive()
    }
}
