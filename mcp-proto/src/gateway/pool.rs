//! Which backend a client uses, and when one is started, stopped, and started again after a failure.

use super::backend::Running;
use super::{Action, Backend, BackendKey, Event, Gateway, Sharing, Timer, requests};
use mcp_proto::ErrorObject;
use mcp_proto::Instant;
use mcp_proto::Json;
use mcp_proto::Method;
use mcp_proto::Ticket;
use mcp_proto::client::CloseReason;
use mcp_proto::server::Principal;
use mcp_proto::spec::code;

/// The clients that may use one backend.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// All sessions.
    Sessions,
    /// Those of this principal with these capabilities.
    SessionsOf(Principal, Box<str>),
    /// All stateless requests.
    Requests,
    /// The stateless requests of this principal, or of all, with these capabilities.
    RequestsOf(Option<Principal>, Box<str>),
}

/// A stateless request, or one that opens a session, for which there is no backend yet.
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    method: Method,
    params: Option<Json>,
}

impl Gateway {
    /// Handles a stateless request, or a request of a session that has no backend.
    pub(super) fn open(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let is_stateless = ticket.key().session().is_none();
        let group = self.group(&ticket);
        let existing = group.as_ref().and_then(|group| self.by_group.get(group)).copied();
        let waiting = Waiting { ticket, method, params };
        if is_stateless && group.is_none() {
            let error = requests::unsupported(&self.server.config().versions);
            // A server may always answer that a revision is not supported.
            let _ = self.server.respond(waiting.ticket, Err(error), now);
        } else if !is_stateless && waiting.method != Method::INITIALIZE {
            self.refuse(waiting.ticket, "the session has ended", now);
        } else if let Some(backend) = existing {
            self.use_backend(backend, waiting, now);
        } else {
            // If others wait, it is for the end of a backend, and looking at all of them again would not help.
            let is_first = self.waiting.is_empty();
            self.waiting.push(waiting);
            if is_first {
                self.start_waiting(now);
            }
        }
    }

    /// The clients with which the client of this request may share a backend; `None` if there are none.
    fn group(&self, ticket: &Ticket) -> Option<Group> {
        let is_stateless = ticket.key().session().is_none();
        if is_stateless && self.serves_stateless != Some(false) {
            return Some(Group::Requests);
        }
        let context = self.server.context(ticket)?;
        let capabilities = || context.client_capabilities.to_text().into();
        match (self.sharing, is_stateless) {
            (Sharing::PerSession, _) => None,
            (Sharing::PerPrincipal, true) => Some(Group::RequestsOf(Some(context.principal?), capabilities())),
            (Sharing::PerPrincipal, false) => Some(Group::SessionsOf(context.principal?, capabilities())),
            (Sharing::Shared, true) => Some(Group::RequestsOf(None, capabilities())),
            (Sharing::Shared, false) => Some(Group::Sessions),
        }
    }

    /// Finds or starts backends for the requests that wait, as far as there may be more.
    pub(super) fn start_waiting(&mut self, now: Instant) {
        for waiting in std::mem::take(&mut self.waiting) {
            let group = self.group(&waiting.ticket);
            let existing = group.as_ref().and_then(|group| self.by_group.get(group)).copied();
            let has_room = self.backends.len() < self.config.limits.backends;
            if let Some(backend) = existing {
                self.use_backend(backend, waiting, now);
            } else if let (true, Some(pause)) = (has_room, self.restart.pause(now)) {
                let seconds = pause.as_secs() + 1;
                let text = format!("the server has failed to start; the next attempt may be made in {seconds} s");
                self.refuse(waiting.ticket, &text, now);
            } else if has_room {
                self.start(group, waiting, now);
            } else if self.has_ending_backend() || self.end_unused(now) {
                self.waiting.push(waiting);
            } else {
                self.refuse(waiting.ticket, "too many processes are in use; try again later", now);
            }
        }
    }

    /// Whether a backend is ending, so that there will be room.
    fn has_ending_backend(&self) -> bool {
        self.backends.values().any(|backend| match backend {
            Backend::Stopping => true,
            Backend::Running(running) => running.upstream.client.is_closed(),
        })
    }

    /// Ends the backend that no client has used for longest; `false` if all are in use.
    fn end_unused(&mut self, now: Instant) -> bool {
        let unused = |key: &BackendKey| Some((self.timers.get(Timer::Unused(*key))?, *key));
        let Some((_, backend)) = self.backends.keys().filter_map(unused).min() else { return false };
        let Some(Backend::Running(running)) = self.backends.get_mut(&backend) else { return false };
        running.upstream.client.close(now);
        self.timers.clear(Timer::Unused(backend));
        self.active.insert(backend);
        true
    }

    /// Starts a backend for a client, and for others of its group.
    fn start(&mut self, group: Option<Group>, waiting: Waiting, now: Instant) {
        let (backend, client) = (self.next, self.client.clone());
        let session = waiting.ticket.key().session();
        let running = match (&group, session) {
            (None, Some(session)) => Running::of_session(session, &self.config, client),
            (Some(Group::Sessions), _) => Running::shared(false, &self.config, client),
            (Some(Group::SessionsOf(..)), _) => Running::shared(true, &self.config, client),
            (Some(Group::RequestsOf(..)), _) => Running::for_requests(true, &self.config, client),
            (Some(Group::Requests), _) | (None, None) => Running::for_requests(false, &self.config, client),
        };
        let Ok(running) = running else {
            return self.refuse(waiting.ticket, "the configuration is invalid", now);
        };
        let principal = match (&group, session) {
            (Some(Group::SessionsOf(principal, _) | Group::RequestsOf(Some(principal), _)), _) => {
                Some(principal.clone())
            }
            (None, Some(session)) => self.server.principal(session).cloned(),
            (Some(Group::Sessions | Group::Requests | Group::RequestsOf(None, _)) | None, _) => None,
        };
        self.next = backend.next();
        self.out.act(Action::Start { backend, principal });
        self.backends.insert(backend, Backend::Running(Box::new(running)));
        if let Some(group) = group {
            self.by_group.insert(group, backend);
        }
        self.use_backend(backend, waiting, now);
    }

    /// Passes a stateless request, or one that opens a session, to a backend.
    fn use_backend(&mut self, backend: BackendKey, waiting: Waiting, now: Instant) {
        let Some(Backend::Running(running)) = self.backends.get_mut(&backend) else {
            return self.refuse(waiting.ticket, "the process has ended", now);
        };
        let Waiting { ticket, method, params } = waiting;
        if let Some(session) = ticket.key().session() {
            self.by_session.insert(session, backend);
        }
        self.active.insert(backend);
        running.set_secret(self.secret);
        running.open(ticket, method, params, &self.config, &mut self.server, now);
    }

    fn refuse(&mut self, ticket: Ticket, text: &str, now: Instant) {
        let error = ErrorObject::new(code::INTERNAL_ERROR, text);
        // The code is that of an internal error, which may always be sent.
        let _ = self.server.respond(ticket, Err(error), now);
    }

    /// The machine that faces a backend has closed. All requests to it have ended.
    pub(super) fn on_closed(&mut self, backend: BackendKey, reason: CloseReason, now: Instant) {
        self.timers.clear(Timer::Machine(backend));
        self.timers.clear(Timer::Unused(backend));
        self.active.remove(&backend);
        let Some(Backend::Running(mut running)) = self.backends.insert(backend, Backend::Stopping) else { return };
        if !running.has_stopped {
            self.out.act(Action::Stop { backend });
        }
        let has_failed = !running.is_usable && !matches!(reason, CloseReason::Local | CloseReason::NoCommonVersion);
        // Some servers of older revisions exit on a request that they do not know (ER-06).
        if has_failed && self.serves_stateless.is_none() && self.by_group.get(&Group::Requests) == Some(&backend) {
            self.serves_stateless = Some(false);
        } else if has_failed {
            self.on_failure(now);
        }
        self.by_group.retain(|_, key| *key != backend);
        for session in running.sessions() {
            self.by_session.remove(&session);
            self.server.end(session, now);
        }
        for (ticket, method, params) in running.take_unserved() {
            self.open(ticket, method, params, now);
        }
    }

    /// A backend has failed before it could be used.
    pub(super) fn on_failure(&mut self, now: Instant) {
        if let Some(retry_in) = self.restart.on_failure(now) {
            self.out.report(Event::NotStarted { retry_in });
        }
    }
}
