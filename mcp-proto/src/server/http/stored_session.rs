//! Sessions in a store that the instances of a server share.

use std::time::Duration;

use crate::store::InstanceId;

/// Sessions in a store ([`store`](crate::store)), so that every instance with the same store serves them: requests, streams,
/// resumptions, cancellations, and answers to requests of the server reach a session wherever they arrive, and changes
/// that one instance publishes reach the clients of all.
///
/// Each request of a session begins with reading its record. The response to what changes the record is sent after it was
/// written. Events of streams are stored before they are sent. If the store cannot be reached, requests of sessions are
/// answered with 503 and `Retry-After`.
///
/// # Example
///
/// ```
/// use mcp_proto::server::{HttpConfig, SessionMode, StoredSessions};
/// use mcp_proto::store::InstanceId;
///
/// # let random = 7;
/// let mut http = HttpConfig::new();
/// http.sessions = SessionMode::Stored(StoredSessions::new(InstanceId::new(random)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSessions {
    /// This instance.
    pub instance: InstanceId,
    /// How long the store may take for an action, after which it counts as unreachable. Default 5 s.
    pub timeout: Duration,
}

impl StoredSessions {
    /// The sessions that this instance shares with others.
    #[must_use]
    pub const fn new(instance: InstanceId) -> Self {
        Self { instance, timeout: Duration::from_secs(5) }
    }
}
