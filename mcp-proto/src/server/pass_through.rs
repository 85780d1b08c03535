//! A server that reports every request of its client, the handshake included, and answers none by itself, until the
//! application calls [`Server::serve`].

use super::Server;
use super::config::{Config, Handling};
use super::served_requests::Requesters;
use super::session::{Phase, Source};
use super::transport::ServerTransport;
use crate::Instant;
use crate::conversation::keys::{SessionKey, Ticket, TicketKey};
use crate::error::UsageError;
use crate::json::Json;
use crate::jsonrpc::{Message, Request};
use crate::spec::Method;
use crate::transport::Stdio;

/// A server that passes requests through to the application, for a proxy or a gateway that joins a client to a server.
///
/// The machine still does what depends on this connection alone: it decodes and encodes messages, matches responses,
/// cancellations and progress to their requests, keeps the limits, and refuses what no server could accept, such as a
/// request before `initialize`. It answers `ping` only before `initialize`.
///
/// Over HTTP, it also admits requests as a server that answers them does: by host, origin, credentials, headers and
/// revision. A session whose `initialize` is answered with an error has never begun for its client, and ends.
impl<T: ServerTransport> Server<T> {
    /// Creates a server that reports every request of its client as [`Event::Requested`](super::Event::Requested), the
    /// handshake included, and sends each answer of the application unchanged. `notifications/initialized` is reported
    /// as [`Event::Notified`](super::Event::Notified).
    ///
    /// The result with which the application answers `initialize` opens the session, in the revision that it contains.
    /// A request with the `_meta` of 2026-07-28 that arrives before `initialize` is stateless; later, it is a request
    /// of the session like any other; over HTTP, it is always stateless. Of the configuration, only the limits, the times, `versions` (the revisions of
    /// stateless requests) and `strict_json` have an effect before [`Server::serve`].
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    ///
    /// # Example: the application answers `initialize`
    ///
    /// ```
    /// use mcp_proto::server::{Config, Event, Server};
    /// use mcp_proto::{Instant, Json, Method, Output, ProtocolVersion, Stdio};
    ///
    /// let now = Instant::START;
    /// let mut server = Server::pass_through(Stdio::new(), Config::new("my-proxy", "1.0.0"))?;
    /// let initialize = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    /// server.handle_bytes(initialize, now);
    /// server.handle_bytes(b"\n", now);
    /// let Some(Output::Event(Event::Requested { ticket, method, .. })) = server.poll_output() else { panic!() };
    /// assert_eq!(method, Method::INITIALIZE);
    /// server.respond(ticket, Ok(Json::parse(r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#)?), now)?;
    /// assert_eq!(server.version(server.session()).map(ProtocolVersion::as_str), Some("2025-06-18"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pass_through(transport: T, config: Config) -> Result<Self, UsageError> {
        config.check()?;
        Self::with_handling(transport, Handling::PassThrough(config))
    }

    /// From now on, the machine answers the requests of the protocol in this session by itself, as `config` describes,
    /// but passes through those of other sessions. The application calls this once for a session, when it has to answer
    /// instead of the server to which it forwards. On a byte stream, which has one session, this includes stateless
    /// requests.
    ///
    /// Requests that were reported before stay open; [`Server::handle_again`] handles one as if it had just arrived.
    /// The limits remain those with which the server was created.
    ///
    /// # Errors
    ///
    /// [`UsageError::AlreadyServing`] if the server does not pass through in this session, [`UsageError::Closed`] if the
    /// session has ended, and [`UsageError`] if the configuration is invalid. Then nothing has changed.
    pub fn serve_session(&mut self, session: SessionKey, config: Config) -> Result<(), UsageError> {
        config.check()?;
        let is_served = self.served_sessions.contains_key(&session);
        let Handling::PassThrough(before) = &self.handling else { return Err(UsageError::AlreadyServing) };
        if is_served {
            return Err(UsageError::AlreadyServing);
        }
        let limits = before.limits.clone();
        let handling = Handling::Serving(Config { limits, ..config });
        if T::IS_ONE_CONNECTION {
            self.handling = handling;
        } else if self.sessions.contains_key(&session) {
            self.served_sessions.insert(session, handling);
        } else {
            return Err(UsageError::Closed);
        }
        Ok(())
    }

    /// From now on, the machine answers the stateless protocol requests of these clients by itself, as `config`
    /// describes, and completes the results of their other requests. A setting for one principal has precedence over
    /// the setting for all. Otherwise, this works like [`Server::serve_session`]; on a byte stream, which has one
    /// client, it is the same.
    ///
    /// # Errors
    ///
    /// [`UsageError::AlreadyServing`] if the server does not pass these requests through, and [`UsageError`] if the
    /// configuration is invalid. Then nothing has changed.
    pub fn serve_requests(&mut self, requesters: Requesters, config: Config) -> Result<(), UsageError> {
        config.check()?;
        let Handling::PassThrough(before) = &self.handling else { return Err(UsageError::AlreadyServing) };
        if self.served_requests.contains(&requesters) {
            return Err(UsageError::AlreadyServing);
        }
        let limits = before.limits.clone();
        let handling = Handling::Serving(Config { limits, ..config });
        if T::IS_ONE_CONNECTION {
            self.handling = handling;
        } else {
            self.served_requests.insert(requesters, handling);
        }
        Ok(())
    }

    /// Undoes [`Server::serve_requests`] for these clients: their requests are passed through again. Requests and
    /// subscriptions that are open stay open.
    pub fn pass_requests_through(&mut self, requesters: &Requesters) {
        self.served_requests.remove(requesters);
    }

    /// Handles an open request as if it had just arrived, with this method and these parameters. Its ticket is
    /// consumed; if the request has to be answered by the application, [`Event::Requested`](super::Event::Requested)
    /// follows with a new one. If the client has cancelled it, this does nothing.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub fn handle_again(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let ticket = ticket.key();
        self.usage.reported.renew(ticket);
        self.handle_renewed(ticket, method, params, now);
        self.usage.reported.renewed();
    }

    fn handle_renewed(&mut self, ticket: TicketKey, method: Method, params: Option<Json>, now: Instant) {
        let of_session = ticket.session();
        let (is_of_session, key) = (of_session.is_some(), of_session.unwrap_or(SessionKey::FIRST));
        let (sessions, stateless, shared) = &mut self.split_for(of_session, now);
        let session = sessions.get_mut(&key);
        let (id, source) = if is_of_session {
            let Some(session) = session else { return };
            let Some((id, request)) = session.end_request(ticket, shared) else { return };
            session.give_up_asked(&request, shared);
            if request.opens_session {
                session.phase = Phase::Awaiting;
            }
            (id, request.source)
        } else {
            let Some((id, request)) = stateless.end_request(ticket, shared) else { return };
            if !T::IS_ONE_CONNECTION {
                let again = Request { id, method, params };
                return stateless.on_admitted(again, *request.context, request.reply_to, None, shared);
            }
            (id, Source::default())
        };
        self.on_message(key, Message::Request(Request { id, method, params }), source, now);
        self.end_unopened(is_of_session.then_some(key), now);
        let (session, _, shared) = &mut self.split_at(key, now);
        if let Some(session) = session {
            session.take_early_confirmation(shared);
            if let Some(batch) = source.batch {
                // The batch waits for the answer to the new request instead.
                session.settle_batch(batch, None, source.reply_to, shared);
            }
        }
    }
}

impl Server<Stdio> {
    /// From now on, the machine answers the requests of the protocol by itself, as `config` describes. The application
    /// of a server that passes through calls this once, when it has to answer instead of the server to which it
    /// forwards.
    ///
    /// Requests that were reported before stay open; [`Server::handle_again`] handles one as if it had just arrived.
    /// The limits remain those with which the server was created.
    ///
    /// # Errors
    ///
    /// [`UsageError::AlreadyServing`] if the server does not pass through, and [`UsageError`] if the configuration is
    /// invalid. Then nothing has changed.
    ///
    /// # Example: the machine answers the `initialize` that the application has received
    ///
    /// ```
    /// use mcp_proto::server::{Config, Event, Server};
    /// use mcp_proto::{Instant, Output, Stdio, UsageError};
    ///
    /// let now = Instant::START;
    /// let mut server = Server::pass_through(Stdio::new(), Config::new("my-proxy", "1.0.0"))?;
    /// let initialize = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    /// server.handle_bytes(initialize, now);
    /// server.handle_bytes(b"\n", now);
    /// let Some(Output::Event(Event::Requested { ticket, method, params })) = server.poll_output() else { panic!() };
    ///
    /// server.serve(Config::new("my-gateway", "1.0.0"))?;
    /// assert_eq!(server.serve(Config::new("my-gateway", "1.0.0")), Err(UsageError::AlreadyServing));
    /// server.handle_again(ticket, method, params, now);
    /// assert!(matches!(server.poll_output(), Some(Output::Action(_))), "the answer");
    /// assert!(matches!(server.poll_output(), Some(Output::Event(Event::Connected { .. }))));
    /// # Ok::<(), UsageError>(())
    /// ```
    pub fn serve(&mut self, config: Config) -> Result<(), UsageError> {
        self.serve_session(self.session(), config)
    }

    /// Whether the client reads fast enough for more messages to be sent to it. While this is `false`, a proxy should
    /// read nothing more from the server to which it forwards; messages that it has read before are still accepted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        // The rest is for bytes that a driver has already read from the other side.
        let limits = &self.config().limits;
        self.transport.unwritten().bytes() < limits.queue_bytes.min(limits.unwritten / 2)
    }
}
