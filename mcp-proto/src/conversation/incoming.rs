//! Requests of the peer that are not answered yet.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::{SessionKey, Ticket, TicketKey};
use crate::jsonrpc::RequestId;

/// Requests of the peer that are not answered yet. Several may have the same id, so requests are identified by key
/// (C1).
#[derive(Debug)]
pub(crate) struct Incoming<T> {
    session: Option<SessionKey>,
    next: u64,
    open: BTreeMap<TicketKey, OpenRequest<T>>,
    /// Bytes that all of them hold (M3).
    bytes: usize,
    by_id: BTreeMap<RequestId, BTreeSet<TicketKey>>,
}

/// A request of the peer.
#[derive(Debug)]
struct OpenRequest<T> {
    id: RequestId,
    about: T,
    bytes: usize,
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
        self.insert_as(TicketKey::new(self.session, number), id, about, bytes)
    }

    /// Adds a request with this key, which no other request has had.
    pub(crate) fn insert_as(&mut self, key: TicketKey, id: RequestId, about: T, bytes: usize) -> Ticket {
        self.by_id.entry(id.clone()).or_default().insert(key);
        self.bytes += bytes;
        self.open.insert(key, OpenRequest { id, about, bytes });
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
        let OpenRequest { id, about, bytes } = self.open.remove(&key)?;
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

    /// What is stored for each request.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.open.values().map(|asked| &asked.about)
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
