//! Shares of a limited number of things, so that one client cannot hold all of them.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::principal::Principal;
use crate::Instant;

/// Identifies where a request comes from, such as an IP address. All clients with the same key share the limits of one
/// client.
///
/// # Example: the clients of one IPv6 network count as one
///
/// ```
/// use std::net::IpAddr;
///
/// use mcp_proto::server::PeerKey;
///
/// let key = |text: &str| PeerKey::from(text.parse::<IpAddr>().unwrap());
/// assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:2"));
/// assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
/// assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
/// assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(Box<[u8]>);

impl PeerKey {
    /// Creates a key from these bytes, such as a client's address in a header that a reverse proxy adds.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

/// An IPv4 address, or the first 64 bits of an IPv6 address, because one host has a whole such network.
impl From<IpAddr> for PeerKey {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::new(&address.octets()),
            IpAddr::V6(address) => Self::new(&(address.to_bits() >> 64).to_be_bytes()),
        }
    }
}

/// Does not show the address.
impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey")
    }
}

/// The client that holds something: a principal if it was authenticated, else an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// An authenticated client.
    Principal(Principal),
    /// All clients with the same address.
    Peer(PeerKey),
    /// All clients with neither a principal nor an address.
    Unknown,
}

impl Holder {
    /// The holder for a client with this principal and this address.
    #[must_use]
    pub fn new(principal: Option<&Principal>, peer: Option<&PeerKey>) -> Self {
        match (principal, peer) {
            (Some(principal), _) => Self::Principal(principal.clone()),
            (None, Some(peer)) => Self::Peer(peer.clone()),
            (None, None) => Self::Unknown,
        }
    }
}

/// A set of things whose number is limited, such as connections. Each has a holder and, while it is unused, the time
/// since then.
///
/// When the caller's limit is reached, [`Shares::to_evict`] returns what can be removed for a new one. Memory: some 200
/// bytes for each thing and each holder. Each call takes logarithmic time.
///
/// # Example: a client with one connection takes the place of one that has many
///
/// ```
/// use std::net::IpAddr;
/// use std::time::Duration;
///
/// use mcp_proto::Instant;
/// use mcp_proto::server::{Holder, PeerKey, Shares};
///
/// let holder = |text: &str| Holder::Peer(PeerKey::from(text.parse::<IpAddr>().unwrap()));
/// let (now, minute) = (Instant::START, Duration::from_secs(60));
/// let mut shares = Shares::new();
/// for connection in 0..3 {
///     shares.insert(connection, holder("192.0.2.1"));
///     shares.set_unused(connection, now);
/// }
/// shares.set_used(0);
/// assert_eq!(shares.to_evict(&holder("192.0.2.2"), minute, now).next(), Some(1));
/// assert_eq!(shares.to_evict(&holder("192.0.2.1"), minute, now).next(), None);
/// assert_eq!(shares.to_evict(&holder("192.0.2.1"), minute, now + minute).next(), Some(1));
/// ```
#[derive(Clone)]
pub struct Shares<K> {
    things: BTreeMap<K, Thing>,
    holders: BTreeMap<Holder, Held<K>>,
    /// The holders with at least one unused thing, ordered by the number of things that they hold.
    ranking: BTreeSet<(usize, Holder)>,
    unused: BTreeSet<(Instant, K)>,
}

#[derive(Clone)]
struct Thing {
    holder: Holder,
    unused_since: Option<Instant>,
}

#[derive(Clone)]
struct Held<K> {
    count: usize,
    unused: BTreeSet<(Instant, K)>,
}

impl<K: Ord + Copy> Default for Shares<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Copy> Shares<K> {
    /// Creates a set in which nothing is held.
    #[must_use]
    pub const fn new() -> Self {
        Self { things: BTreeMap::new(), holders: BTreeMap::new(), ranking: BTreeSet::new(), unused: BTreeSet::new() }
    }

    /// The number of things.
    #[must_use]
    pub fn len(&self) -> usize {
        self.things.len()
    }

    /// Whether there are no things.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// Adds a thing with its holder. It is in use until [`Shares::set_unused`].
    pub fn insert(&mut self, key: K, holder: Holder) {
        self.remove(key);
        self.change(&holder, |held| held.count += 1);
        self.things.insert(key, Thing { holder, unused_since: None });
    }

    /// Removes a thing and returns its holder.
    pub fn remove(&mut self, key: K) -> Option<Holder> {
        self.set_used(key);
        let Thing { holder, .. } = self.things.remove(&key)?;
        self.change(&holder, |held| held.count -= 1);
        Some(holder)
    }

    /// Marks a thing as in use.
    pub fn set_used(&mut self, key: K) {
        let Some(thing) = self.things.get_mut(&key) else { return };
        let Some(since) = thing.unused_since.take() else { return };
        let holder = thing.holder.clone();
        self.unused.remove(&(since, key));
        self.change(&holder, |held| {
            held.unused.remove(&(since, key));
        });
    }

    /// Marks a thing as unused since this time.
    pub fn set_unused(&mut self, key: K, since: Instant) {
        let Some(thing) = self.things.get_mut(&key) else { return };
        let before = thing.unused_since.replace(since);
        if before == Some(since) {
            return;
        }
        let holder = thing.holder.clone();
        if let Some(before) = before {
            self.unused.remove(&(before, key));
        }
        self.unused.insert((since, key));
        self.change(&holder, |held| {
            if let Some(before) = before {
                held.unused.remove(&(before, key));
            }
            held.unused.insert((since, key));
        });
    }

    /// The things that may be removed so that `newcomer` can get a new one, in the order of preference: the unused
    /// things of the holder with the most, if it has more than `newcomer` would then have; after them the things of any
    /// holder that are unused for at least `long`. Within both, the one unused for longest comes first.
    pub fn to_evict(&self, newcomer: &Holder, long: Duration, now: Instant) -> impl Iterator<Item = K> {
        let own = self.holders.get(newcomer).map_or(0, |held| held.count);
        let most = self.ranking.last().filter(|(count, holder)| holder != newcomer && *count > own + 1);
        let of_most = most.and_then(|(_, holder)| self.holders.get(holder)).into_iter().flat_map(|held| &held.unused);
        let of_all = self.unused.iter().take_while(move |(since, _)| *since + long <= now);
        of_most.chain(of_all).map(|(_, key)| *key)
    }

    fn change(&mut self, holder: &Holder, change: impl FnOnce(&mut Held<K>)) {
        let held = match self.holders.get_mut(holder) {
            Some(held) => held,
            None => self.holders.entry(holder.clone()).or_insert(Held { count: 0, unused: BTreeSet::new() }),
        };
        let before = (held.count, !held.unused.is_empty());
        change(held);
        let after = (held.count, !held.unused.is_empty());
        if after.0 == 0 {
            self.holders.remove(holder);
        }
        if before == after {
            return;
        }
        if before.1 {
            self.ranking.remove(&(before.0, holder.clone()));
        }
        if after.1 {
            self.ranking.insert((after.0, holder.clone()));
        }
    }
}

impl<K> fmt::Debug for Shares<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (things, holders) = (self.things.len(), self.holders.len());
        f.debug_struct("Shares").field("things", &things).field("holders", &holders).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_a_holder_that_holds_nothing_any_more() {
        let mut shares = Shares::new();
        for thing in 0..100_u32 {
            let holder = Holder::Principal(Principal::new(&thing.to_string()));
            shares.insert(thing, holder);
            if thing % 2 == 0 {
                shares.set_unused(thing, Instant::START);
            }
            shares.remove(thing);
        }
        let Shares { things, holders, ranking, unused } = shares;
        assert_eq!((things.len(), holders.len(), ranking.len(), unused.len()), (0, 0, 0, 0));
    }
}
