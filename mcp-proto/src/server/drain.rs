//! Stops a server without breaking off the requests that it is serving.
//!
//! ```text
//!              drain                 all are answered, or the time has passed
//!   (serving) ───────▶ (draining) ────────────────────────────────────────────▶ (closed)
//! ```

use std::time::Duration;

use super::transport::{ServerTimer, ServerTransport, TransportNotice};
use super::{Event, Server};
use crate::Instant;

impl<T: ServerTransport> Server<T> {
    /// Stops the server as soon as all unanswered requests are answered, or after this time. [`Event::Drained`] follows,
    /// and the server then closes as after [`Server::close`]. A later call replaces the time.
    ///
    /// Until then, the client of a request that is being served may still cancel it, answer the server, and resume its
    /// stream. Every other request, except `ping`, is refused: over HTTP with 503 and `Retry-After`, on a byte stream with
    /// error -32603. Subscriptions end with their results, and so do the streams that clients opened by GET. An answer
    /// whose client has disconnected is kept until that client resumes the stream.
    ///
    /// # Example: a call is answered, and a later one is refused
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_proto::server::{Config, Event, Server};
    /// use mcp_proto::{Instant, Json, Output, Stdio, StdioAction};
    ///
    /// let now = Instant::START;
    /// let mut server = Server::new(Stdio::new(), Config::new("my-tools", "1.0.0"))?;
    /// for line in [
    ///     r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    ///     r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#,
    /// ] {
    ///     server.handle_bytes(format!("{line}\n").as_bytes(), now);
    /// }
    /// let outputs: Vec<_> = std::iter::from_fn(|| server.poll_output()).collect();
    /// let Some(Output::Event(Event::Requested { ticket, .. })) = outputs.into_iter().last() else { panic!() };
    ///
    /// server.drain(Duration::from_secs(30), now);
    /// server.handle_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n", now);
    /// let Some(Output::Action(StdioAction::Write(refusal))) = server.poll_output() else { panic!() };
    /// assert!(refusal.starts_with(br#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"#));
    ///
    /// server.respond(ticket, Ok(Json::empty_object()), now)?;
    /// assert!(matches!(server.poll_output(), Some(Output::Action(StdioAction::Write(_)))));
    /// assert_eq!(server.poll_output(), Some(Output::Event(Event::Drained { cancelled: 0 })));
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    ///
    /// Rules: MD-L-09, SH-S-12.
    pub fn drain(&mut self, timeout: Duration, now: Instant) {
        self.is_draining = true;
        self.timers.set(ServerTimer::Drain, now + timeout);
        let (_, stateless, shared) = &mut self.split(now);
        stateless.end_listens(shared);
        self.notice(TransportNotice::Draining, now);
        self.settle(now);
    }

    /// Reports the end of what [`Server::drain`] has begun.
    pub(super) fn end_drain(&mut self) {
        if std::mem::take(&mut self.is_draining) {
            self.timers.clear(ServerTimer::Drain);
            self.out.report(Event::Drained { cancelled: self.usage.requests });
        }
    }
}
