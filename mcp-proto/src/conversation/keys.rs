//! Keys of sessions and requests, and the right to answer a request.
//!
//! A machine never reuses a local key, and the wire id of an own request is its key, so a late response cannot match a
//! newer request (RP16). Each direction has keys of its own, because the ids of the two sides are independent (JR-06).

use std::fmt;
use std::num::NonZeroU64;

use crate::jsonrpc::RequestId;

/// Identifies a session of a server. On a byte stream, a server has one; over HTTP, it has many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(NonZeroU64);

impl SessionKey {
    /// The number of the session at its server, for a log. It is no secret, unlike the id of the session.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    /// The key of a server's first session.
    pub(crate) const FIRST: Self = Self(NonZeroU64::MIN);

    /// The key of the session that is opened after this one.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Identifies an instance of a server among all that share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(u64);

impl InstanceId {
    /// An instance with this number, which no other instance has or has had: random, from a secure source, for each
    /// start of the process.
    #[must_use]
    pub const fn new(random: u64) -> Self {
        Self(random)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The number in hexadecimal, in 16 digits.
impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Identifies a request that this side has made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    session: Option<SessionKey>,
    /// The instance that has made the request, if other instances may serve the session, too. No two instances use the
    /// same id.
    instance: Option<InstanceId>,
    number: u64,
}

/// Without an instance if it has none.
impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RequestKey");
        shown.field("session", &self.session);
        if let Some(instance) = &self.instance {
            shown.field("instance", instance);
        }
        shown.field("number", &self.number).finish()
    }
}

impl RequestKey {
    pub(super) const fn new(session: Option<SessionKey>, instance: Option<InstanceId>, number: u64) -> Self {
        Self { session, instance, number }
    }

    /// A key of a client.
    #[cfg(test)]
    pub(crate) const fn for_tests(number: u64) -> Self {
        Self::new(None, None, number)
    }

    /// The session in which a server has made the request; `None` for a request of a client.
    #[must_use]
    pub const fn session(self) -> Option<SessionKey> {
        self.session
    }

    /// The JSON-RPC id with which the request is sent first, for a log. If it is sent again, that has another id.
    #[must_use]
    pub fn id(self) -> RequestId {
        self.to_wire()
    }

    /// The request's id on the wire.
    pub(crate) fn to_wire(self) -> RequestId {
        match self.instance {
            Some(instance) => format!("{instance}-{}", self.number).as_str().into(),
            // Counting up from one, no session lives long enough to reach the bound.
            None => RequestId::from(i64::try_from(self.number).unwrap_or(i64::MAX)),
        }
    }

    pub(crate) fn from_wire(id: &RequestId, session: Option<SessionKey>) -> Option<Self> {
        if let Some(text) = id.as_str() {
            let (instance, number) = text.split_once('-')?;
            let (instance, number) = (u64::from_str_radix(instance, 16).ok()?, number.parse().ok()?);
            let key = Self { session, instance: Some(InstanceId::new(instance)), number };
            // A peer returns ids unchanged, so that other spellings are unknown.
            return (key.to_wire() == *id).then_some(key);
        }
        let number = id.as_i64().and_then(|number| u64::try_from(number).ok())?;
        Some(Self { session, instance: None, number })
    }

    /// The instance that has made the request with this id, if its ids name the instance.
    pub(crate) fn instance_of(id: &RequestId) -> Option<InstanceId> {
        Self::from_wire(id, None)?.instance
    }
}

/// Identifies a request of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketKey {
    session: Option<SessionKey>,
    number: u64,
}

impl TicketKey {
    /// The session to which the request belongs; `None` for a stateless request to a server, and for a request to a
    /// client.
    #[must_use]
    pub const fn session(self) -> Option<SessionKey> {
        self.session
    }

    /// A key for a request of a machine that counts its requests itself.
    pub(crate) const fn new(session: Option<SessionKey>, number: u64) -> Self {
        Self { session, number }
    }

    /// The number of the request. No other request to the same machine has it.
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
pub struct Ticket(pub(super) TicketKey);

impl Ticket {
    /// The key of the request, to identify it when it is cancelled.
    #[must_use]
    pub const fn key(&self) -> TicketKey {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rp16_an_id_on_the_wire_is_that_of_one_key_and_has_one_spelling() {
        let session = Some(SessionKey::FIRST);
        for (instance, number, id) in [
            (None, 1, RequestId::from(1)),
            (Some(0xfeed), 1, RequestId::from("000000000000feed-1")),
            (Some(u64::MAX), 20, RequestId::from("ffffffffffffffff-20")),
        ] {
            let key = RequestKey::new(session, instance.map(InstanceId::new), number);
            assert_eq!((key.to_wire(), RequestKey::from_wire(&id, session)), (id.clone(), Some(key)));
            assert_eq!(RequestKey::instance_of(&id), instance.map(InstanceId::new));
        }
        for id in ["feed-1", "000000000000FEED-1", "000000000000feed-+1", "000000000000feed-01", "feed", "1", "-", ""] {
            assert_eq!(RequestKey::from_wire(&id.into(), session), None, "{id}");
        }
        assert_eq!(RequestKey::from_wire(&RequestId::from(-1), session), None);
    }
}
