//! The open sessions of a server at one moment, for a driver that replaces the server by another one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use crate::server::Server;
use crate::server::http::Http;
use crate::server::http::exchange::head;
use crate::server::http::sessions::named_session::message_session_id;
use crate::spec::header::SESSION_ID;

/// The sessions of a server that were open at one moment. With it, a driver that replaces a server passes the requests of
/// these sessions to the earlier server until that is drained, and all others to the later one.
#[derive(Clone, Default)]
pub struct OpenSessions(BTreeSet<Arc<str>>);

impl OpenSessions {
    /// Whether the request with this head names one of the sessions, whoever has sent it.
    ///
    /// # Example
    ///
    /// ```
    /// use http::Request;
    /// use mcp_proto::server::OpenSessions;
    ///
    /// let (head, ()) = Request::get("/mcp").header("mcp-session-id", "x").body(()).unwrap().into_parts();
    /// assert!(!OpenSessions::default().are_named_by(&head));
    /// ```
    #[must_use]
    pub fn are_named_by(&self, head: &Parts) -> bool {
        let named = head::single(&head.headers, &SESSION_ID).ok().flatten().or_else(|| message_session_id(head));
        named.is_some_and(|id| self.0.contains(id))
    }
}

/// Shows only their number, because their ids are secret.
impl fmt::Debug for OpenSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenSessions").field(&self.0.len()).finish()
    }
}

impl Server<Http> {
    /// The sessions that are open.
    #[must_use]
    pub fn open_sessions(&self) -> OpenSessions {
        OpenSessions(self.transport.sessions.ids().cloned().collect())
    }
}
