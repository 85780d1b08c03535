//! Keys of sessions and requests, and the right to answer a request.
//!
//! A machine never reuses a local key, and the wire id of an own request is its key, so a late response cannot match a
//! newer request (RP16). Each direction has keys of its own, because the ids of the two sides are independent (JR-06).

use std::num::NonZeroU64;

use crate::codec::jsonrpc::RequestId;

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

/// Identifies a request that this side has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    session: Option<SessionKey>,
    number: u64,
}

impl RequestKey {
    pub(super) const fn new(session: Option<SessionKey>, number: u64) -> Self {
        Self { session, number }
    }

    /// A key of a client.
    #[cfg(test)]
    pub(crate) const fn for_tests(number: u64) -> Self {
        Self::new(None, number)
    }

    /// The session in which a server has made the request; `None` for a request of a client.
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
