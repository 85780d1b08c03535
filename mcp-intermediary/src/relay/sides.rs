//! The two sides of a relay, and what every way of joining them does: answer, ask, notify and report.

use std::collections::VecDeque;
use std::time::Duration;

use mcp_proto::client::{Call, Client, ClientTransport};
use mcp_proto::server::{self, Principal, Server, ServerTransport};
use mcp_proto::{
    ErrorObject, Excerpt, Failed, Instant, Json, Limits, Method, Notification, RequestKey, SessionKey, Ticket, code,
};

use super::Event;
use super::in_flight::{InFlight, ToServer};
use super::owner::Owner;
use super::possibly_open::PossiblyOpen;
use super::upstream::Upstream;

/// How the client of a link is connected, and whether it is alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// On a byte stream. The server has no other clients.
    Stream,
    /// Over HTTP, where each request has its exchange. The server has no other clients.
    Session,
    /// Over HTTP, and the server has other clients.
    SharingSession,
    /// There are many clients over HTTP, whose requests belong to no session.
    Requests,
}

impl Connection {
    /// Whether the server has several clients.
    pub(super) const fn is_shared(self) -> bool {
        match self {
            Self::Stream | Self::Session => false,
            Self::SharingSession | Self::Requests => true,
        }
    }
}

/// The machines of both sides, the requests in flight between them, and the queue of events, borrowed while an input is
/// handled.
pub(super) struct Sides<'l, S: ServerTransport, T: ClientTransport> {
    /// The machine that faces the client, and perhaps other clients.
    pub(super) server: &'l mut Server<S>,
    /// The client's session; `None` for stateless requests.
    pub(super) session: Option<SessionKey>,
    /// The machine that faces the server.
    pub(super) client: &'l mut Client<T>,
    pub(super) owner: &'l Owner,
    pub(super) in_flight: &'l mut InFlight,
    pub(super) possibly_open: &'l mut PossiblyOpen,
    pub(super) limits: &'l Limits,
    /// The time for requests, if it differs from that of the configuration.
    pub(super) request_timeout: &'l mut Option<Duration>,
    /// Where a person signs in.
    pub(super) sign_in_url: Option<&'l str>,
    /// How the client is connected.
    pub(super) connection: Connection,
    pub(super) out: &'l mut Reports,
}

/// The events of a link that were not taken yet, in the order in which they were caused.
#[derive(Debug, Default)]
pub(super) struct Reports(VecDeque<Event>);

impl Reports {
    pub(super) fn report(&mut self, event: Event) {
        self.0.push_back(event);
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

impl<'l, S: ServerTransport, T: ClientTransport> Sides<'l, S, T> {
    pub(super) fn new(
        server: &'l mut Server<S>,
        session: Option<SessionKey>,
        upstream: &'l mut Upstream<T>,
        connection: Connection,
    ) -> Self {
        let Upstream {
            client,
            owner,
            in_flight,
            possibly_open,
            limits,
            request_timeout,
            sign_in_url,
            reports: out,
            held_lists: _,
        } = upstream;
        Self {
            server,
            session,
            client,
            owner,
            in_flight,
            possibly_open,
            limits,
            request_timeout,
            sign_in_url: sign_in_url.as_deref(),
            connection,
            out,
        }
    }

    /// A request of a client has ended without an answer of the server, which may still work on it.
    pub(super) fn ended_unanswered(
        &mut self,
        request: RequestKey,
        session: Option<SessionKey>,
        method: Method,
        now: Instant,
    ) {
        // With one client, what the server still sends about the call can reach no other client.
        if self.connection.is_shared() {
            self.possibly_open.insert(request, session, method, now);
        }
    }

    /// The scope for a message of the server that belongs to no known request: the session, but over HTTP the exchange of
    /// its only open request, because the client may have no other stream (BR-T-06). `None` if there is no session.
    pub(super) fn scope_of_session(&self) -> Option<server::Scope> {
        let session = self.session?;
        if self.connection != Connection::Stream {
            let own = |ticket: &&Ticket| ticket.key().session() == Some(session);
            let mut open = self.in_flight.all_to_server().map(|(_, forwarded)| &forwarded.ticket).filter(own);
            if let (Some(only), None) = (open.next(), open.next()) {
                return Some(only.into());
            }
        }
        Some(session.into())
    }

    /// Whether calls that have ended may still be open at the server. A message that names no call may then belong to
    /// one of them.
    pub(super) fn has_possibly_open(&mut self, now: Instant) -> bool {
        self.possibly_open.update(|request| self.client.is_answered_late(request), now);
        self.possibly_open.has_unknown() || self.possibly_open.calls().next().is_some()
    }

    /// The request of a log message that names none: the only open request whose client wants log messages (BR-M-08).
    /// If several clients share a legacy server, which logs for all of its requests, no other request at all may be
    /// open.
    pub(super) fn sole_cause_of_log(&mut self, is_legacy_server: bool, now: Instant) -> Option<&ToServer> {
        if self.has_possibly_open(now) {
            return None;
        }
        let (server, logs_for_all) = (&*self.server, is_legacy_server && self.connection.is_shared());
        let wants = |forwarded: &ToServer| {
            server.context(&forwarded.ticket).is_some_and(|context| context.logging_level.is_some())
        };
        let all = self.in_flight.all_to_server().map(|(_, forwarded)| forwarded);
        let mut causes = all.filter(|forwarded| logs_for_all || wants(forwarded));
        causes.next().filter(|_| causes.next().is_none()).filter(|forwarded| wants(forwarded))
    }

    /// Whether this many bytes may be held in addition to those of requests without an outcome (M1).
    /// `parked` returns the bytes that parked calls hold.
    pub(super) fn holds(&self, bytes: usize, parked: impl FnOnce() -> usize) -> bool {
        self.limits.holds(bytes, || self.in_flight.bytes() + parked())
    }

    /// Whether a request of the client is stateless.
    pub(super) fn is_stateless(&self, ticket: &Ticket) -> bool {
        self.server.context(ticket).is_some_and(|context| context.version.is_stateless())
    }

    /// The principal of the client that has made a request.
    pub(super) fn principal(&self, ticket: &Ticket) -> Option<Principal> {
        self.server.context(ticket)?.principal
    }

    pub(super) fn respond(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        // A relay may forward any error code, since the server chose it.
        let _ = self.server.respond(ticket, answer, now);
    }

    /// Forwards a request of the server to the client. Without a scope, it is refused.
    pub(super) fn ask_client(
        &mut self,
        scope: Option<server::Scope>,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        let Some(scope) = scope else {
            let text = "it is not known which client is asked";
            return self.client.answer(ticket, Err(ErrorObject::new(code::METHOD_NOT_FOUND, text)), now);
        };
        let call = call(method.clone(), params);
        match self.server.request(scope, call, now) {
            Ok(request) => self.in_flight.insert_to_client(request, ticket, method),
            Err(error) => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, &error.to_string());
                self.client.answer(ticket, Err(error), now);
            }
        }
    }

    /// Forwards a notification of the server to the client. Without a scope, it is dropped.
    pub(super) fn notify_client(
        &mut self,
        scope: impl Into<Option<server::Scope>>,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        let Some(scope) = scope.into() else { return };
        let notification = Notification { method: method.clone(), params };
        if let Err(error) = self.server.notify(scope, notification, now) {
            self.out.report(Event::NotPassed { method, error });
        }
    }

    /// Publishes a change to the client of the session if it has subscribed to it.
    pub(super) fn publish_to_session(&mut self, notification: Notification, now: Instant) {
        let method = notification.method.clone();
        let Some(session) = self.session else { return };
        if let Err(error) = self.server.publish_to(session, notification, now) {
            self.out.report(Event::NotPassed { method, error });
        }
    }

    /// Publishes a change to each client that has subscribed to it.
    pub(super) fn publish(&mut self, notification: Notification, now: Instant) {
        let method = notification.method.clone();
        if let Err(error) = self.server.publish(notification, now) {
            self.out.report(Event::NotPassed { method, error });
        }
    }

    /// Reports a request that got no answer, and returns the error for the client.
    pub(super) fn report_failure(&mut self, reason: Failed) -> ErrorObject {
        let error = self.error_for(&reason);
        self.out.report(Event::Failed(reason));
        error
    }

    /// The error for the client whose request has failed.
    pub(super) fn error_for(&self, reason: &Failed) -> ErrorObject {
        error_for(self.client, self.sign_in_url, reason)
    }
}

/// Converts a failure into an error for the client. Its data marks it as an error of the relay, not of the server (JR-50).
pub(super) fn error_for<T: ClientTransport>(
    client: &Client<T>,
    sign_in_url: Option<&str>,
    reason: &Failed,
) -> ErrorObject {
    let mut data = Json::empty_object();
    if let Some(status) = reason.status() {
        data = data.with_member("status", &Json::from(i64::from(status.as_u16())));
    }
    if let Failed::Refused(refusal) | Failed::NotAuthorized { refusal, .. } = reason {
        let shown: Vec<_> = refusal.challenges().collect();
        let shown: Vec<_> = shown.iter().map(Excerpt::as_str).collect();
        if !shown.is_empty() {
            // One header with all challenges has the same meaning as several (RFC 9110, section 5.3).
            data = data.with_member("challenge", &Json::from(shown.join(", ").as_str()));
        }
    }
    let data = data.with_member("failure", &Json::from(reason.name()));
    let data = data.with_member("source", &Json::from("relay"));
    let mut text = reason.describe(&client.peer());
    if let (Failed::TimedOut { .. }, Some(url)) = (reason, sign_in_url) {
        text = format!("{text}; a person must sign in first: open {url}");
    }
    ErrorObject::with_data(code::INTERNAL_ERROR, &text, &data)
}

/// A call with these parameters, if there are any.
pub(super) fn call(method: Method, params: Option<Json>) -> Call {
    match params {
        Some(params) => Call::new(method).params(params),
        None => Call::new(method),
    }
}
