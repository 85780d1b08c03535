//! Ends what clients have open whose credentials were withdrawn.

use super::transport::ServerTransport;
use super::{Principal, Server};
use crate::Instant;
use crate::conversation::outcome::CloseReason;
use crate::spec::Method;

impl<T: ServerTransport> Server<T> {
    /// Ends the sessions and subscriptions of clients whose credentials were withdrawn: those for which `is_withdrawn`
    /// returns `true`. It receives `None` for a client without a principal.
    ///
    /// [`Event::Closed`](super::Event::Closed) follows for each session, whose open requests are answered with errors.
    /// Stateless requests in progress are still answered, because the client was allowed to make them.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{CloseReason, Config, Event, Principal, Server};
    /// use mcp_proto::{Instant, Output, Stdio};
    ///
    /// let now = Instant::START;
    /// let mut server = Server::new(Stdio::new(), Config::new("my-tools", "1.0.0"))?;
    /// let line = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    /// server.handle_bytes(&[&line[..], b"\n"].concat(), now);
    /// while server.poll_output().is_some() {}
    ///
    /// let ada = Principal::new("ada");
    /// server.end_withdrawn(|client| client == Some(&ada), now);
    /// assert!(server.poll_output().is_none(), "the client of this session has no principal");
    /// server.end_withdrawn(|client| client.is_none(), now);
    /// let ended = |output| matches!(output, Output::Event(Event::Closed { reason: CloseReason::Local, .. }));
    /// assert!(std::iter::from_fn(|| server.poll_output()).any(ended));
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    ///
    /// Rules: SE4.
    pub fn end_withdrawn(&mut self, is_withdrawn: impl Fn(Option<&Principal>) -> bool, now: Instant) {
        let sessions: Vec<_> = self.sessions.keys().copied().collect();
        for session in sessions {
            if is_withdrawn(self.principal(session)) {
                self.end_session(session, CloseReason::Local, now);
            }
        }
        let (_, stateless, shared) = &mut self.split(now);
        stateless.end_listens_of(&is_withdrawn, shared);
        // A server that passes subscriptions through has them as requests.
        for ticket in stateless.incoming.keys() {
            let request = stateless.incoming.get(ticket);
            let request = request.filter(|request| request.method == Method::SUBSCRIPTIONS_LISTEN);
            if request.is_some_and(|request| is_withdrawn(request.context.principal.as_ref())) {
                stateless.refuse_open(ticket, shared);
            }
        }
        self.settle(now);
    }
}
