//! Snapshots: sessions as values, which another server continues.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::Instant;
use crate::conversation::keys::SessionKey;
use crate::error::UsageError;
use crate::server::Server;
use crate::server::http::sessions::session::Session;
use crate::server::http::{Http, HttpTimer, SessionMode};
use crate::server::principal::Principal;
use crate::server::shares::Holder;
use crate::server::snapshot::{Kept, SessionState};
use crate::server::transport::{Inbound, ServerTimer};

/// A session as a value: its id, and its state between two messages. The bytes contain the revision, what the client
/// has stated about itself, its principal, log level and subscriptions, and no time of a clock.
///
/// A snapshot contains neither unanswered requests of either side nor events for replay: a client that resumes a stream
/// receives 400.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The id of the session, which is a secret.
    pub id: Arc<str>,
    /// The state, which a server of this or a later version reads.
    pub bytes: Bytes,
}

impl Snapshot {
    /// A snapshot that was stored.
    #[must_use]
    pub const fn new(id: Arc<str>, bytes: Bytes) -> Self {
        Self { id, bytes }
    }
}

/// Shows neither the id nor the state.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Server<Http> {
    /// The session as a value; `None` if there is no such session, if its client has not sent
    /// `notifications/initialized`, or if it is one of the two-endpoint transport.
    ///
    /// # Example: another server continues a session
    ///
    /// ```
    /// use mcp_proto::server::{Config, Event, Http, HttpAction, HttpConfig, RequestInfo, Server, SessionMode};
    /// use mcp_proto::{Instant, Output};
    ///
    /// let now = Instant::START;
    /// let new = || Server::new(Http::new(HttpConfig::new()), Config::new("my-tools", "1.0.0"));
    /// let post = |session: &str, body: &str| {
    ///     let head = http::Request::post("/mcp")
    ///         .header("host", "localhost")
    ///         .header("accept", "application/json, text/event-stream")
    ///         .header("content-type", "application/json");
    ///     let head = if session.is_empty() { head } else { head.header("mcp-session-id", session) };
    ///     (head.body(()).unwrap().into_parts().0, body.as_bytes().to_vec())
    /// };
    /// let ask = |server: &mut Server<Http>, session: &str, body: &str| {
    ///     let (head, body) = post(session, body);
    ///     let exchange = server.handle_request(head, RequestInfo::new([7; 32]), now);
    ///     server.handle_body(exchange, &body, now);
    ///     server.handle_end(exchange, now);
    ///     std::iter::from_fn(|| server.poll_output()).collect::<Vec<_>>()
    /// };
    ///
    /// let mut first = new()?;
    /// let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    /// let outputs = ask(&mut first, "", initialize);
    /// let [Output::Action(HttpAction::Respond { response, .. }), Output::Event(Event::Connected { session, .. })] = &outputs[..]
    /// else {
    ///     panic!()
    /// };
    /// let id = response.headers()["mcp-session-id"].to_str()?.to_owned();
    /// ask(&mut first, &id, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    /// let snapshot = first.snapshot(*session).unwrap();
    ///
    /// let mut second = new()?;
    /// second.restore(&snapshot, now)?;
    /// let outputs = ask(&mut second, &id, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    /// assert!(matches!(&outputs[1], Output::Action(HttpAction::Respond { response, .. }) if response.status() == 200));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self, session: SessionKey) -> Option<Snapshot> {
        let found = self.transport.sessions.get(session).filter(|session| !session.is_two_endpoint())?;
        let own = self.sessions.get(&session)?;
        let kept = Kept {
            principal: found.principal.as_ref().map(|principal| principal.as_str().into()),
            get_stream: found.get_stream.tag(),
            place: None,
            next_request: own.next_request(),
            next_event: found.get_stream.next(),
        };
        let state = SessionState { kept: Some(kept), ..own.state()? };
        Some(Snapshot::new(Arc::clone(&found.id), state.to_text().to_bytes()))
    }

    /// Continues a session of another server, or of this one before a restart. [`Event::Restored`] follows. Its
    /// requests are served as those of the original would be; the original must not serve any more.
    ///
    /// [`Event::Restored`]: crate::server::Event::Restored
    ///
    /// # Errors
    ///
    /// [`UsageError::UnreadableSnapshot`], [`UsageError::SessionExists`], [`UsageError::TooManySessions`], and
    /// [`UsageError::NotInMemory`] if sessions are not [`SessionMode::InMemory`].
    pub fn restore(&mut self, snapshot: &Snapshot, now: Instant) -> Result<SessionKey, UsageError> {
        let http = &mut self.transport;
        if !matches!(http.config.sessions, SessionMode::InMemory) {
            return Err(UsageError::NotInMemory);
        }
        let state = SessionState::read(snapshot.bytes.to_vec()).ok_or(UsageError::UnreadableSnapshot)?;
        let kept = state.kept.as_ref().filter(|_| http.versions.contains(state.version));
        let kept = kept.ok_or(UsageError::UnreadableSnapshot)?;
        let limit = http.config.max_sessions;
        if http.sessions.len() >= limit {
            return Err(UsageError::TooManySessions { limit });
        }
        let principal = kept.principal.as_deref().map(Principal::new);
        let holder = Holder::new(principal.as_ref(), None);
        let mut session = Session::new(Arc::clone(&snapshot.id), principal, kept.get_stream, now);
        session.version = Some(state.version);
        session.get_stream.continue_at(kept.next_event);
        let session = http.sessions.insert(session, holder, now).ok_or(UsageError::SessionExists)?;
        let expires = now + http.config.session_idle;
        self.timers.set(ServerTimer::Transport(HttpTimer::Idle(session)), expires);
        self.on_inbound(Inbound::Restored { session, state }, now);
        Ok(session)
    }
}
