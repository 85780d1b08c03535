//! A backend that serves several sessions.
//!
//! The machine that faces the backend gives each request an id and a progress token of its own, so that those of the
//! sessions do not collide. What belongs to a request goes to the session of that request. The rest depends on what it is:
//!
//! | message of a legacy backend | goes to |
//! |---|---|
//! | the list of tools, prompts or resources has changed | all sessions |
//! | a resource has changed | the sessions that have subscribed to it |
//! | a request for input | the session whose calls alone may have caused it, or without calls the only session; else it is refused (BR-M-05) |
//! | a log message, or another notification | the session whose requests alone may have caused it, or without requests the only session; else it is dropped (BR-T-05) |
//!
//! A call that has ended for its client without an answer may still cause such messages, also if its session has ended.
//!
//! A session of a modern backend has its own subscription to changes, so that nothing but log messages is shared.

use std::collections::BTreeMap;

use mcp_proto::client::{self, Unavailable};
use mcp_proto::server::{Context, Http, Server};
use mcp_proto::spec::{Change, LoggingLevel};
use mcp_proto::{
    ErrorObject, Instant, Json, Load, Method, Notification, ProtocolVersion, SessionKey, Stdio, Ticket, code, server,
};

use super::shared_settings::SharedSettings;
use super::tasks::without_tasks;
use crate::relay::{self, Joined, Link, Origin, Owner, Upstream};

/// The sessions of a backend that serves several.
pub(super) struct SharedSessions {
    sessions: BTreeMap<SessionKey, Member>,
    /// Requests that open sessions, until the backend can be used.
    waiting: Vec<(Ticket, Json)>,
    /// The backend was sent `initialize`, and has not answered it.
    is_opening: bool,
    /// The revision and the result with which the backend was opened.
    opened: Option<(ProtocolVersion, Json)>,
    /// Whether the backend may ask for roots.
    has_roots: bool,
    settings: SharedSettings,
}

/// One of the sessions.
struct Member {
    link: Link,
    /// What its client has declared.
    context: Context,
}

/// The two sides that a session joins: the machine that faces the clients, and the backend.
pub(super) struct Ends<'e> {
    pub(super) server: &'e mut Server<Http>,
    pub(super) upstream: &'e mut Upstream<Stdio>,
}

impl SharedSessions {
    /// A backend without sessions. Without `has_roots`, its client does not declare roots.
    pub(super) const fn new(has_roots: bool) -> Self {
        let settings = SharedSettings::new();
        Self { sessions: BTreeMap::new(), waiting: Vec::new(), is_opening: false, opened: None, has_roots, settings }
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = SessionKey> {
        self.sessions.keys().copied()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn load(&self) -> Load {
        let mut waiting = Load::default();
        waiting.waiting += self.waiting.len();
        self.sessions.values().map(|member| member.link.load()).fold(waiting, |sum, load| sum + load)
    }

    /// Adds a session, whose `initialize` is answered as soon as the backend can be used. Those of the first session open
    /// the backend.
    pub(super) fn add(
        &mut self,
        ticket: Ticket,
        params: Json,
        config: &relay::Config,
        ends: &mut Ends<'_>,
        now: Instant,
    ) {
        let (Some(session), Some(context)) = (ticket.key().session(), ends.server.context(&ticket)) else { return };
        self.sessions.insert(session, Member { link: Link::sharing(config), context });
        if let Some((version, result)) = &self.opened {
            let (version, result) = (*version, result.clone());
            return self.open(ticket, params, version, &result, ends, now);
        }
        if !self.is_opening {
            let unsupported: &[&str] = if self.has_roots { &["tasks"] } else { &["roots", "tasks"] };
            if let Err(error) = ends.upstream.open(&params, unsupported, &config.versions, now) {
                let error = ErrorObject::new(code::INTERNAL_ERROR, &error.to_string());
                return respond(ends, ticket, Err(error), now);
            }
        }
        self.is_opening = true;
        self.waiting.push((ticket, params));
    }

    /// Handles an event of the machine that the clients are connected to.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other event is passed on as it is")]
    pub(super) fn on_server_event(
        &mut self,
        session: SessionKey,
        event: server::Event,
        ends: &mut Ends<'_>,
        now: Instant,
    ) {
        use server::Event as E;
        let is_legacy = self.opened.as_ref().is_some_and(|(version, _)| !version.is_stateless());
        let event = match event {
            E::Requested { ticket, method, params } if is_legacy => match method.facts().changes_setting {
                Some(change) => return self.settings.on_request(change, ticket, params.as_ref(), ends, now),
                None => E::Requested { ticket, method, params },
            },
            // The session with the backend is confirmed, and has other clients.
            E::Notified { method, .. } if is_legacy && !self.forwards(&method) => return,
            E::Cancelled { ticket, params } => {
                self.settings.on_cancelled(ticket);
                E::Cancelled { ticket, params }
            }
            // The backend has other sessions, or may be used by the next one.
            E::Closed { .. } => {
                self.sessions.remove(&session);
                self.waiting.retain(|(ticket, _)| ticket.key().session() != Some(session));
                return self.settings.remove(session, ends.upstream, now);
            }
            event => event,
        };
        if let Some(mut joined) = self.join(session, ends) {
            joined.on_server_event(event, now);
        }
    }

    /// Handles an event of the machine that faces the backend.
    pub(super) fn on_client_event(&mut self, event: client::Event, ends: &mut Ends<'_>, now: Instant) {
        use client::Event as E;
        let session = match &event {
            E::RequestCancelled { ticket, .. } => ends.upstream.session_asked(*ticket),
            E::Responded { request, .. }
            | E::Progressed { request, .. }
            | E::Requested { scope: client::Scope::Request(request), .. }
            | E::Notified { scope: client::Scope::Request(request), .. } => ends.upstream.session_of(*request),
            E::Listening { subscription, .. }
            | E::ListeningEnded { subscription, .. }
            | E::Notified { scope: client::Scope::Subscription(subscription), .. } => {
                let mut all = self.sessions.iter();
                all.find(|(_, member)| member.link.has_subscription(*subscription)).map(|(session, _)| *session)
            }
            E::Requested { scope: client::Scope::Connection, .. } => self.origin(true, ends, now),
            E::Notified { scope: client::Scope::Connection, .. } => self.origin(false, ends, now),
            // No server asks because of a subscription.
            E::Requested { scope: client::Scope::Subscription(_), .. }
            | E::Connected { .. }
            | E::Unavailable { .. }
            | E::SessionLost
            | E::Restored { .. }
            | E::NotRestored { .. }
            | E::ListeningInterrupted { .. }
            | E::RequestWaits { .. }
            | E::Postponed { .. }
            | E::Challenged(_)
            | E::Faulted(_)
            | E::QuirkObserved(_)
            | E::Closed(_) => None,
        };
        match (session, event) {
            (_, E::Connected { version, result, .. }) => self.on_connected(version, &result, ends, now),
            (_, E::Unavailable { reason, retry_in }) => {
                self.is_opening = false;
                let error = match &reason {
                    Unavailable::Error(error) => error.clone(),
                    Unavailable::Failed(reason) => ends.upstream.error_for(reason),
                };
                for (ticket, _) in std::mem::take(&mut self.waiting) {
                    respond(ends, ticket, Err(error.clone()), now);
                }
                ends.upstream.report(relay::Event::Unavailable { reason, retry_in });
            }
            (None, E::Responded { request, outcome }) => self.settings.on_outcome(request, outcome, ends, now),
            (session, E::Requested { ticket, scope, method, params }) => {
                if method == Method::PING {
                    return ends.upstream.client.answer(ticket, Ok(Json::empty_object()), now);
                }
                let asked = params.clone().unwrap_or(Json::empty_object());
                let accepts = |session: &SessionKey| {
                    let is_declared = self.has_roots || method != Method::ROOTS_LIST;
                    let member = self.sessions.get(session);
                    is_declared && member.is_some_and(|member| member.context.accepts(&method, &asked))
                };
                let Some(session) = session.filter(accepts) else {
                    let text = "it is not known which client is asked, or that client has not declared that it can be";
                    let error = ErrorObject::new(code::METHOD_NOT_FOUND, text);
                    return ends.upstream.client.answer(ticket, Err(error), now);
                };
                self.pass(session, E::Requested { ticket, scope, method, params }, ends, now);
            }
            (session, E::Notified { scope: client::Scope::Connection, method, params }) => {
                self.on_notification(session, method, params, ends, now);
            }
            (Some(session), event) => self.pass(session, event, ends, now),
            (None, E::Faulted(fault)) => {
                ends.upstream.report(relay::Event::Faulted { side: relay::Side::Server, fault });
            }
            (None, E::QuirkObserved(quirk)) => ends.upstream.report(relay::Event::QuirkObserved(quirk)),
            (None, E::Closed(reason)) => ends.upstream.report(relay::Event::Closed(reason)),
            // The event belongs to a session that has ended.
            (None, _) => {}
        }
    }

    /// The backend can be used.
    fn on_connected(&mut self, version: ProtocolVersion, result: &Json, ends: &mut Ends<'_>, now: Instant) {
        let opened = relay::Event::Connected { version, result: result.clone(), is_reconnect: false };
        ends.upstream.report(opened);
        self.settings.on_opened(&result.first_member("capabilities").unwrap_or(Json::empty_object()));
        if !version.is_stateless() {
            if let Err(error) = ends.upstream.client.confirm(None, now) {
                ends.upstream.report(relay::Event::NotPassed { method: Method::INITIALIZED, error });
            }
        }
        self.is_opening = false;
        self.opened = Some((version, result.clone()));
        for (ticket, params) in std::mem::take(&mut self.waiting) {
            self.open(ticket, params, version, result, ends, now);
        }
    }

    /// Answers the `initialize` of a session from the result with which the backend was opened.
    fn open(
        &mut self,
        ticket: Ticket,
        params: Json,
        version: ProtocolVersion,
        result: &Json,
        ends: &mut Ends<'_>,
        now: Instant,
    ) {
        let Some(session) = ticket.key().session() else { return };
        let is_withheld = *ends.upstream.owner() == Owner::Everyone && ends.server.principal(session).is_some();
        let result = if is_withheld { &without_tasks(result) } else { result };
        if let Some(mut joined) = self.join(session, ends) {
            joined.open_as_before(ticket, params, version, result, now);
        }
    }

    /// Handles a notification of the backend that belongs to no known request; `session` is the only one that it can be
    /// for.
    fn on_notification(
        &mut self,
        session: Option<SessionKey>,
        method: Method,
        params: Option<Json>,
        ends: &mut Ends<'_>,
        now: Instant,
    ) {
        let member = |name| params.as_ref().and_then(|params| params.first_member(name));
        match method.facts().change {
            Some(Change::List(_)) => {
                for session in self.sessions.keys() {
                    let notification = Notification { method: method.clone(), params: params.clone() };
                    notify(ends, *session, notification, now);
                }
            }
            Some(Change::Resource) => {
                let uri = member("uri");
                let uri = uri.as_ref().and_then(Json::as_string).unwrap_or_default();
                for session in self.settings.subscribers(&uri) {
                    let notification = Notification { method: method.clone(), params: params.clone() };
                    notify(ends, session, notification, now);
                }
            }
            Some(_) => {}
            None => {
                let Some(session) = session else { return };
                let level =
                    member("level").as_ref().and_then(Json::as_string).and_then(|name| LoggingLevel::from_text(&name));
                let lowest = self.settings.level(session).filter(|_| method == Method::MESSAGE);
                if lowest.is_none_or(|lowest| level.is_some_and(|level| level >= lowest)) {
                    let scope = client::Scope::Connection;
                    self.pass(session, client::Event::Notified { scope, method, params }, ends, now);
                }
            }
        }
    }

    fn pass(&mut self, session: SessionKey, event: client::Event, ends: &mut Ends<'_>, now: Instant) {
        if let Some(mut joined) = self.join(session, ends) {
            joined.on_client_event(event, now);
        }
    }

    fn join<'j>(&'j mut self, session: SessionKey, ends: &'j mut Ends<'_>) -> Option<Joined<'j, Http, Stdio>> {
        Some(self.sessions.get_mut(&session)?.link.join(ends.server, session, ends.upstream))
    }

    /// Whether a notification of a client reaches a legacy backend.
    fn forwards(&self, method: &Method) -> bool {
        *method != Method::INITIALIZED && (self.has_roots || *method != Method::ROOTS_LIST_CHANGED)
    }

    /// Finds the session of a message of the backend that names no request. If no call can be the cause, this is the
    /// only session.
    fn origin(&self, takes_input: bool, ends: &mut Ends<'_>, now: Instant) -> Option<SessionKey> {
        match ends.upstream.origin(takes_input, now) {
            Origin::NoCall => self.only_session(),
            Origin::Session(session) => Some(session),
            Origin::Unknown => None,
        }
    }

    fn only_session(&self) -> Option<SessionKey> {
        let mut all = self.sessions.keys();
        all.next().copied().filter(|_| all.next().is_none())
    }
}

fn respond(ends: &mut Ends<'_>, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
    // Any error code may be passed on, since the backend chose it.
    let _ = ends.server.respond(ticket, answer, now);
}

fn notify(ends: &mut Ends<'_>, session: SessionKey, notification: Notification, now: Instant) {
    let method = notification.method.clone();
    if let Err(error) = ends.server.notify(session, notification, now) {
        ends.upstream.report(relay::Event::NotPassed { method, error });
    }
}
