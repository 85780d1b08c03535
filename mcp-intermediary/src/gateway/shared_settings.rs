//! Settings of the session of a legacy backend that its clients share: the log level, and the resources that they have
//! subscribed to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Http, Server};
use mcp_proto::spec::{LoggingLevel, SettingChange};
use mcp_proto::{ErrorObject, Instant, Json, Method, RequestKey, SessionKey, Stdio, Ticket, TicketKey, code};

use super::shared::Ends;
use crate::relay::{Upstream, Watched};

/// The settings of all sessions of a backend.
pub(super) struct SharedSettings {
    has_levels: bool,
    has_subscriptions: bool,
    /// The level that each session has set.
    levels: BTreeMap<SessionKey, LoggingLevel>,
    /// The level that the backend was given.
    level: Option<LoggingLevel>,
    /// The resources that each session has subscribed to.
    watched: BTreeMap<SessionKey, Watched>,
    resources: BTreeMap<Arc<str>, Resource>,
    /// Subscriptions that the backend has not answered.
    open: BTreeMap<RequestKey, Arc<str>>,
}

/// A resource that at least one session has subscribed to, or wants to.
#[derive(Default)]
struct Resource {
    sessions: BTreeSet<SessionKey>,
    /// Requests of sessions that wait for the answer of the backend.
    waiting: Vec<Ticket>,
    is_pending: bool,
}

impl SharedSettings {
    pub(super) const fn new() -> Self {
        Self {
            has_levels: false,
            has_subscriptions: false,
            levels: BTreeMap::new(),
            level: None,
            watched: BTreeMap::new(),
            resources: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// The backend has these capabilities.
    pub(super) fn on_opened(&mut self, capabilities: &Json) {
        self.has_levels = capabilities.first_member("logging").is_some();
        let flag = capabilities.first_member("resources").and_then(|resources| resources.first_member("subscribe"));
        self.has_subscriptions = flag.is_some_and(|flag| flag.as_bytes() == b"true");
    }

    /// The level of a session, if it has set one.
    pub(super) fn level(&self, session: SessionKey) -> Option<LoggingLevel> {
        self.levels.get(&session).copied()
    }

    /// The sessions that have subscribed to a resource.
    pub(super) fn subscribers(&self, uri: &str) -> Vec<SessionKey> {
        self.resources.get(uri).map(|resource| resource.sessions.iter().copied().collect()).unwrap_or_default()
    }

    /// A client changes a setting of its session.
    pub(super) fn on_request(
        &mut self,
        change: SettingChange,
        ticket: Ticket,
        params: Option<&Json>,
        ends: &mut Ends<'_>,
        now: Instant,
    ) {
        let Some(session) = ticket.key().session() else { return };
        let answer = if change == SettingChange::LogLevel {
            self.set_level(session, params, ends.upstream, now)
        } else if change == SettingChange::Unsubscribe {
            uri_of(params).map(|uri| {
                self.end_waiting(session, &uri, ends.server, now);
                self.unsubscribe(session, &uri, ends.upstream, now);
                Json::empty_object()
            })
        } else {
            match uri_of(params).and_then(|uri| self.check(session, uri)) {
                Ok(uri) => return self.subscribe(session, uri, ticket, ends, now),
                Err(error) => Err(error),
            }
        };
        respond(ends.server, ticket, answer, now);
    }

    /// Sets the most verbose level of all sessions; what a session has not asked for is not sent to it.
    fn set_level(
        &mut self,
        session: SessionKey,
        params: Option<&Json>,
        upstream: &mut Upstream<Stdio>,
        now: Instant,
    ) -> Result<Json, ErrorObject> {
        if !self.has_levels {
            return Err(ErrorObject::method_not_found(&Method::LOGGING_SET_LEVEL));
        }
        let level = params.and_then(|params| params.first_member("level"));
        let level = level.as_ref().and_then(Json::as_string).and_then(|level| LoggingLevel::from_text(&level));
        self.levels.insert(session, level.ok_or_else(|| ErrorObject::invalid_params("level is none of the eight"))?);
        self.pass_level(upstream, now);
        Ok(Json::empty_object())
    }

    fn pass_level(&mut self, upstream: &mut Upstream<Stdio>, now: Instant) {
        let Some(lowest) = self.levels.values().min().copied() else { return };
        if self.level.replace(lowest) != Some(lowest) {
            let params = Json::empty_object().with_member("level", &Json::from(lowest.as_str()));
            // Without it, the sessions receive the messages of the level before.
            let _ = upstream.client.request(Call::new(Method::LOGGING_SET_LEVEL).params(params), now);
        }
    }

    /// Checks whether a session may subscribe to one more resource.
    fn check(&mut self, session: SessionKey, uri: Arc<str>) -> Result<Arc<str>, ErrorObject> {
        if !self.has_subscriptions {
            return Err(ErrorObject::method_not_found(&Method::RESOURCES_SUBSCRIBE));
        }
        let has_room = self.watched.entry(session).or_default().has_room_for(&uri);
        if has_room { Ok(uri) } else { Err(ErrorObject::too_many_subscriptions()) }
    }

    /// Subscribes at the backend once for all sessions.
    fn subscribe(&mut self, session: SessionKey, uri: Arc<str>, ticket: Ticket, ends: &mut Ends<'_>, now: Instant) {
        let resource = self.resources.entry(Arc::clone(&uri)).or_default();
        let is_first = !resource.is_pending && resource.sessions.is_empty();
        if !is_first && !resource.is_pending {
            resource.sessions.insert(session);
            self.watched.entry(session).or_default().insert(uri);
            return respond(ends.server, ticket, Ok(Json::empty_object()), now);
        }
        resource.is_pending = true;
        resource.waiting.push(ticket);
        if !is_first {
            return;
        }
        match ends.upstream.client.request(call(Method::RESOURCES_SUBSCRIBE, &uri), now) {
            Ok(request) => {
                self.open.insert(request, uri);
            }
            Err(error) => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, &error.to_string());
                self.end_pending(&uri, &Err(error), ends.server, now);
            }
        }
    }

    /// Answers the requests of a session for a subscription that the session ends before the backend has answered.
    fn end_waiting(&mut self, session: SessionKey, uri: &str, server: &mut Server<Http>, now: Instant) {
        let Some(resource) = self.resources.get_mut(uri) else { return };
        let waiting = std::mem::take(&mut resource.waiting).into_iter();
        let (ended, waiting): (Vec<_>, _) = waiting.partition(|ticket| ticket.key().session() == Some(session));
        resource.waiting = waiting;
        for ticket in ended {
            respond(server, ticket, Ok(Json::empty_object()), now);
        }
    }

    fn unsubscribe(&mut self, session: SessionKey, uri: &str, upstream: &mut Upstream<Stdio>, now: Instant) {
        if let Some(watched) = self.watched.get_mut(&session) {
            watched.remove(uri);
        }
        if let Some(resource) = self.resources.get_mut(uri) {
            resource.sessions.remove(&session);
        }
        self.drop_unused(uri, upstream, now);
    }

    /// Unsubscribes at the backend if no session needs the resource any more.
    fn drop_unused(&mut self, uri: &str, upstream: &mut Upstream<Stdio>, now: Instant) {
        let resource = self.resources.get(uri);
        if resource.is_some_and(|resource| !resource.is_pending && resource.sessions.is_empty()) {
            self.resources.remove(uri);
            // Without it, notifications arrive that no session receives.
            let _ = upstream.client.request(call(Method::RESOURCES_UNSUBSCRIBE, uri), now);
        }
    }

    /// The backend has answered a request of the gateway's own.
    pub(super) fn on_outcome(&mut self, request: RequestKey, outcome: Outcome, ends: &mut Ends<'_>, now: Instant) {
        let Some(uri) = self.open.remove(&request) else { return };
        let answer = match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(error),
            Outcome::Failed(reason) => Err(ends.upstream.error_for(&reason)),
        };
        self.end_pending(&uri, &answer, ends.server, now);
        self.drop_unused(&uri, ends.upstream, now);
    }

    /// Answers all sessions that wait for a subscription.
    fn end_pending(
        &mut self,
        uri: &Arc<str>,
        answer: &Result<Json, ErrorObject>,
        server: &mut Server<Http>,
        now: Instant,
    ) {
        let Some(resource) = self.resources.get_mut(uri) else { return };
        resource.is_pending = false;
        let waiting = std::mem::take(&mut resource.waiting);
        for session in waiting.iter().filter_map(|ticket| ticket.key().session()).filter(|_| answer.is_ok()) {
            resource.sessions.insert(session);
            self.watched.entry(session).or_default().insert(Arc::clone(uri));
        }
        if answer.is_err() {
            self.resources.remove(uri);
        }
        for ticket in waiting {
            respond(server, ticket, answer.clone(), now);
        }
    }

    /// A client has cancelled a request.
    pub(super) fn on_cancelled(&mut self, ticket: TicketKey) {
        for resource in self.resources.values_mut() {
            resource.waiting.retain(|waiting| waiting.key() != ticket);
        }
    }

    /// A session has ended.
    pub(super) fn remove(&mut self, session: SessionKey, upstream: &mut Upstream<Stdio>, now: Instant) {
        for resource in self.resources.values_mut() {
            resource.waiting.retain(|waiting| waiting.key().session() != Some(session));
        }
        let watched = self.watched.remove(&session).unwrap_or_default();
        for uri in watched.iter() {
            self.unsubscribe(session, uri, upstream, now);
        }
        if self.levels.remove(&session).is_some() {
            self.pass_level(upstream, now);
        }
    }
}

fn uri_of(params: Option<&Json>) -> Result<Arc<str>, ErrorObject> {
    let uri = params.and_then(|params| params.first_member("uri"));
    let uri = uri.as_ref().and_then(Json::as_string).map(|uri| Arc::from(&*uri));
    uri.ok_or_else(|| ErrorObject::invalid_params("uri must be a string"))
}

fn call(method: Method, uri: &str) -> Call {
    Call::new(method).params(Json::empty_object().with_member("uri", &Json::from(uri)))
}

fn respond(server: &mut Server<Http>, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
    // Any error code may be passed on, since the backend chose it.
    let _ = server.respond(ticket, answer, now);
}
