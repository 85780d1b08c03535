//! The two correlation tables: own requests that the peer has not answered, and the peer's that are not answered yet.
//!
//! A machine never reuses a local key, and the wire id of an own request is its key, so a late response cannot match a
//! newer request (RP16). Each direction has its own table, because the ids of the two sides are independent (JR-06).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

use crate::Instant;
use crate::codec::json::Json;
use crate::codec::jsonrpc::RequestId;
use crate::spec::meta::stamp;

/// Identifies a session of a server. On a byte stream, a server has one; over HTTP, it has many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(NonZeroU64);

impl SessionKey {
    /// The key of a server's first session.
    pub(crate) const FIRST: Self = Self(NonZeroU64::MIN);

    /// The key of the session that is opened after this one.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Identifies one of this side's own requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    session: Option<SessionKey>,
    number: u64,
}

impl RequestKey {
    pub(super) const fn new(session: Option<SessionKey>, number: u64) -> Self {
        Self { session, number }
    }

    /// The session in which a server made it; `None` for a request of a client.
    #[must_use]
    pub const fn session(self) -> Option<SessionKey> {
        self.session
    }

    /// The request's id on the wire.
    pub(crate) fn to_wire(self) -> RequestId {
        // Counting up from one, no session lives long enough to reach the bound.
        RequestId::from(i64::try_from(self.number).unwrap_or(i64::MAX))
    }

    pub(crate) fn from_wire(id: &RequestId, session: Option<SessionKey>) -> Option<Self> {
        let number = id.as_i64().and_then(|number| u64::try_from(number).ok())?;
        Some(Self { session, number })
    }
}

/// An own request without a response yet.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) timeout: Duration,
    /// TO-03: progress may extend the deadline up to this time.
    pub(crate) latest: Instant,
    pub(crate) token: Option<RequestId>,
    /// The peer's request that caused this one.
    pub(crate) during: Option<TicketKey>,
}

/// How an incoming response is classified by its id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The response to this open request.
    Open(RequestKey),
    /// The request was cancelled or timed out.
    Late,
    /// There was no such request, or it was answered before.
    Unknown,
}

/// Own requests, their progress tokens, and the ones that were given up but may still be answered.
#[derive(Debug)]
pub(crate) struct Pending {
    session: Option<SessionKey>,
    next: u64,
    open: BTreeMap<RequestKey, PendingRequest>,
    by_token: BTreeMap<RequestId, RequestKey>,
    given_up: BTreeSet<RequestKey>,
    given_up_order: VecDeque<RequestKey>,
    tombstones: usize,
}

impl Pending {
    pub(crate) const fn new(session: Option<SessionKey>, tombstones: usize) -> Self {
        Self {
            session,
            // Some peers treat an id of 0 as no id.
            next: 1,
            open: BTreeMap::new(),
            by_token: BTreeMap::new(),
            given_up: BTreeSet::new(),
            given_up_order: VecDeque::new(),
            tombstones,
        }
    }

    pub(crate) const fn next_key(&self) -> RequestKey {
        RequestKey { session: self.session, number: self.next }
    }

    /// Reserves a key for a request that is stored in another table.
    pub(crate) const fn reserve(&mut self) -> RequestKey {
        let key = self.next_key();
        self.next += 1;
        key
    }

    /// Adds a progress token to the parameters of the next request, unless they have one already (PR-01).
    pub(crate) fn with_progress_token(&self, params: Option<Json>) -> Option<Json> {
        if progress_token(params.as_ref()).is_some() {
            return params;
        }
        let token = self.next_key().to_wire().to_json();
        Some(stamp(&params.unwrap_or(Json::empty_object()), &[("progressToken", &token)]))
    }

    pub(crate) fn insert(&mut self, waiting: PendingRequest) -> RequestKey {
        let key = self.reserve();
        if let Some(token) = &waiting.token {
            self.by_token.insert(token.clone(), key);
        }
        self.open.insert(key, waiting);
        key
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn get(&self, key: RequestKey) -> Option<&PendingRequest> {
        self.open.get(&key)
    }

    /// Finds the request that a response with this id answers. The id must match exactly, in type and value (C8).
    pub(crate) fn find(&self, id: &RequestId) -> Match {
        match RequestKey::from_wire(id, self.session) {
            Some(key) if self.open.contains_key(&key) => Match::Open(key),
            Some(key) if self.given_up.contains(&key) => Match::Late,
            Some(_) | None => Match::Unknown,
        }
    }

    pub(crate) fn find_token(&self, token: &RequestId) -> Option<RequestKey> {
        self.by_token.get(token).copied()
    }

    /// Removes a request because it was answered or has failed.
    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<PendingRequest> {
        let waiting = self.open.remove(&key)?;
        if let Some(token) = &waiting.token {
            if self.by_token.get(token) == Some(&key) {
                self.by_token.remove(token);
            }
        }
        Some(waiting)
    }

    /// Removes a request whose response may still arrive.
    pub(crate) fn give_up(&mut self, key: RequestKey) -> Option<PendingRequest> {
        let waiting = self.remove(key)?;
        self.remember_cancelled(key);
        Some(waiting)
    }

    /// Stores the key of a request whose response may still arrive.
    pub(crate) fn remember_cancelled(&mut self, key: RequestKey) {
        self.given_up.insert(key);
        self.given_up_order.push_back(key);
        if self.given_up_order.len() > self.tombstones {
            if let Some(oldest) = self.given_up_order.pop_front() {
                self.given_up.remove(&oldest);
            }
        }
    }

    pub(crate) fn keys(&self) -> Vec<RequestKey> {
        self.open.keys().copied().collect()
    }
}

/// Reads `_meta.progressToken` of a request's parameters (PR-01).
pub(crate) fn progress_token(params: Option<&Json>) -> Option<RequestId> {
    let token = params?.first_member("_meta")?.first_member("progressToken")?;
    RequestId::from_json_text(token.as_bytes())
}

/// Identifies a request of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketKey {
    session: Option<SessionKey>,
    number: u64,
}

impl TicketKey {
    /// The session that it belongs to; `None` if it belongs to none: a stateless request to a server, or a request to a
    /// client.
    #[must_use]
    pub const fn session(self) -> Option<SessionKey> {
        self.session
    }

    /// A key for a request of a machine that counts its requests itself.
    pub(crate) const fn new(session: Option<SessionKey>, number: u64) -> Self {
        Self { session, number }
    }

    /// The number of the request, which no other request of the same peer has had.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }
}

/// The right to answer one request of the peer, once.
///
/// Answering consumes the ticket. Do not drop a ticket: the peer would wait for the response until it times out.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the peer waits for an answer"]
pub struct Ticket(TicketKey);

impl Ticket {
    /// The key of the request, to identify it when it is cancelled.
    #[must_use]
    pub const fn key(&self) -> TicketKey {
        self.0
    }
}

/// A request of the peer.
#[derive(Debug)]
struct Asked<T> {
    id: RequestId,
    about: T,
    bytes: usize,
}

/// Requests of the peer that are not answered yet. Several may have the same id, so requests are identified by key
/// (C1).
#[derive(Debug)]
pub(crate) struct Incoming<T> {
    session: Option<SessionKey>,
    next: u64,
    open: BTreeMap<TicketKey, Asked<T>>,
    /// Bytes that all of them hold (M3).
    bytes: usize,
    by_id: BTreeMap<RequestId, BTreeSet<TicketKey>>,
}

impl<T> Incoming<T> {
    pub(crate) const fn new(session: Option<SessionKey>) -> Self {
        Self { session, next: 0, open: BTreeMap::new(), bytes: 0, by_id: BTreeMap::new() }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_in_use(&self, id: &RequestId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Adds a request that holds `bytes` bytes.
    pub(crate) fn insert(&mut self, id: RequestId, about: T, bytes: usize) -> Ticket {
        let number = self.next;
        self.next += 1;
        self.insert_as(TicketKey { session: self.session, number }, id, about, bytes)
    }

    /// Adds a request with this key, which no other request has had.
    pub(crate) fn insert_as(&mut self, key: TicketKey, id: RequestId, about: T, bytes: usize) -> Ticket {
        self.by_id.entry(id.clone()).or_default().insert(key);
        self.bytes += bytes;
        self.open.insert(key, Asked { id, about, bytes });
        Ticket(key)
    }

    /// Changes the number of bytes that a request holds.
    pub(crate) fn set_bytes(&mut self, key: TicketKey, bytes: usize) {
        if let Some(asked) = self.open.get_mut(&key) {
            self.bytes = self.bytes - asked.bytes + bytes;
            asked.bytes = bytes;
        }
    }

    /// Bytes that a request holds.
    pub(crate) fn bytes_of(&self, key: TicketKey) -> usize {
        self.open.get(&key).map_or(0, |asked| asked.bytes)
    }

    /// All unanswered requests with this id.
    pub(crate) fn with_id(&self, id: &RequestId) -> Vec<TicketKey> {
        self.by_id.get(id).into_iter().flatten().copied().collect()
    }

    /// Removes a request because it is answered or must not be answered (CX-03); `None` if it was removed before.
    pub(crate) fn remove(&mut self, key: TicketKey) -> Option<(RequestId, T)> {
        let Asked { id, about, bytes } = self.open.remove(&key)?;
        self.bytes -= bytes;
        if let Some(keys) = self.by_id.get_mut(&id) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_id.remove(&id);
            }
        }
        Some((id, about))
    }

    /// A new ticket for a request that is reported once more after its ticket was consumed.
    pub(crate) fn ticket(&self, key: TicketKey) -> Option<Ticket> {
        self.open.contains_key(&key).then_some(Ticket(key))
    }

    pub(crate) fn id(&self, key: TicketKey) -> Option<&RequestId> {
        self.open.get(&key).map(|asked| &asked.id)
    }

    pub(crate) fn get(&self, key: TicketKey) -> Option<&T> {
        self.open.get(&key).map(|asked| &asked.about)
    }

    pub(crate) fn get_mut(&mut self, key: TicketKey) -> Option<&mut T> {
        self.open.get_mut(&key).map(|asked| &mut asked.about)
    }

    pub(crate) fn keys(&self) -> Vec<TicketKey> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.bytes = 0;
        self.by_id.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_requests_of_the_peer_is_counted_until_they_are_gone() {
        let mut incoming = Incoming::new(None);
        let first = incoming.insert(RequestId::from(1), "first", 10).key();
        let second = incoming.insert(RequestId::from(1), "second", 20).key();
        incoming.set_bytes(second, 25);
        assert_eq!((incoming.bytes(), incoming.bytes_of(second), incoming.len()), (35, 25, 2));
        assert_eq!(incoming.with_id(&RequestId::from(1)), [first, second]);
        assert_eq!(incoming.remove(first), Some((RequestId::from(1), "first")));
        assert_eq!(incoming.remove(first), None);
        assert_eq!((incoming.bytes(), incoming.len(), incoming.is_in_use(&RequestId::from(1))), (25, 1, true));
        incoming.clear();
        assert_eq!((incoming.bytes(), incoming.len(), incoming.is_in_use(&RequestId::from(1))), (0, 0, false));
    }
}
