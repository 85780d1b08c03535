//! Shares of what there is a limited number of, so that one client cannot hold all of it.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::http::Principal;
use crate::Instant;
use crate::conversation::deadlines::after;

/// Where a request comes from, as far as shares are concerned: clients of one key share what one client may hold.
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
    /// A key of these bytes, such as the address that a proxy in front of the server names.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

/// An IPv4 address, or the first 64 bits of an IPv6 address: one host is given that many.
impl From<IpAddr> for PeerKey {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::new(&address.octets()),
            IpAddr::V6(address) => Self::new(&(address.to_bits() >> 64).to_be_bytes()),
        }
    }
}

/// Shows that there is one.
impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey")
    }
}

/// Who holds something: a principal if one is known, else an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A client that was authenticated.
    Principal(Principal),
    /// All clients with one address.
    Peer(PeerKey),
    /// All clients of which nothing is known.
    Unknown,
}

impl Holder {
    /// The holder of what a client with this principal and this address holds.
    #[must_use]
    pub fn new(principal: Option<&Principal>, peer: Option<&PeerKey>) -> Self {
        match (principal, peer) {
            (Some(principal), _) => Self::Principal(principal.clone()),
            (None, Some(peer)) => Self::Peer(peer.clone()),
            (None, None) => Self::Unknown,
        }
    }
}

/// Things of which there is a limited number, who holds each, and since when each is unused.
///
/// When the limit is reached, [`Shares::to_evict`] names what makes room for another one. Memory: some 200 bytes for
/// each thing and each holder. Each call takes logarithmic time.
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
/// let (now, minute) = (Instant::now(), Duration::from_secs(60));
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
    /// Holders of something that is unused, by how much they hold.
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
    /// Nothing is held.
    #[must_use]
    pub const fn new() -> Self {
        Self { things: BTreeMap::new(), holders: BTreeMap::new(), ranking: BTreeSet::new(), unused: BTreeSet::new() }
    }

    /// How many things are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.things.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// A thing is held from now on. It is in use until [`Shares::set_unused`].
    pub fn insert(&mut self, key: K, holder: Holder) {
        self.remove(key);
        self.change(&holder, |held| held.count += 1);
        self.things.insert(key, Thing { holder, unused_since: None });
    }

    /// A thing is no longer held; who held it.
    pub fn remove(&mut self, key: K) -> Option<Holder> {
        self.set_used(key);
        let Thing { holder, .. } = self.things.remove(&key)?;
        self.change(&holder, |held| held.count -= 1);
        Some(holder)
    }

    /// A thing is in use from now on.
    pub fn set_used(&mut self, key: K) {
        let Some(thing) = self.things.get_mut(&key) else { return };
        let Some(since) = thing.unused_since.take() else { return };
        let holder = thing.holder.clone();
        self.unused.remove(&(since, key));
        self.change(&holder, |held| {
            held.unused.remove(&(since, key));
        });
    }

    /// A thing is not in use, and was in use last at this time.
    pub fn set_unused(&mut self, key: K, since: Instant) {
        self.set_used(key);
        let Some(thing) = self.things.get_mut(&key) else { return };
        thing.unused_since = Some(since);
        let holder = thing.holder.clone();
        self.unused.insert((since, key));
        self.change(&holder, |held| {
            held.unused.insert((since, key));
        });
    }

    /// What may be taken away so that this holder gets one, the best first: of the holder that holds most, if that is
    /// more than this one would have then, what was unused for longest; after that what was unused for `long`, whoever
    /// holds it.
    pub fn to_evict(&self, newcomer: &Holder, long: Duration, now: Instant) -> impl Iterator<Item = K> {
        let own = self.holders.get(newcomer).map_or(0, |held| held.count);
        let most = self.ranking.last().filter(|(count, holder)| holder != newcomer && *count > own + 1);
        let of_most = most.and_then(|(_, holder)| self.holders.get(holder)).into_iter().flat_map(|held| &held.unused);
        let of_all = self.unused.iter().take_while(move |(since, _)| after(*since, long) <= now);
        of_most.chain(of_all).map(|(_, key)| *key)
    }

    fn change(&mut self, holder: &Holder, change: impl FnOnce(&mut Held<K>)) {
        let held = self.holders.entry(holder.clone()).or_insert(Held { count: 0, unused: BTreeSet::new() });
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
