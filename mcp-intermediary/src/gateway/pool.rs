//! Which backend a client uses, and when one is started, stopped, and started again after a failure.

use mcp_proto::client::CloseReason;
use mcp_proto::server::Holder;
use mcp_proto::{ErrorObject, Failed, Instant, Json, Method, Ticket, code};

use super::backend::RunningBackend;
use super::{Action, Backend, BackendKey, Event, Gateway, GatewayTimer, Peer, Sharing, requests};
use crate::relay::{Owner, derived_secret};
use crate::restart::Restart;

/// The clients that may use one backend: some of those of its owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) owner: Owner,
    pub(super) kind: GroupKind,
}

/// How the clients of a group use their backend.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupKind {
    /// One session alone.
    Session,
    /// Sessions whose clients have declared these capabilities; without any, all sessions.
    Sessions(Option<Box<str>>),
    /// Stateless requests. The backend is not known to begin with `initialize`.
    Requests,
    /// Stateless requests with these capabilities, which a backend that begins with `initialize` receives once.
    LegacyRequests(Box<str>),
}

/// A stateless request, or one that opens a session, for which there is no backend yet.
pub(super) struct WaitingRequest {
    pub(super) ticket: Ticket,
    method: Method,
    params: Option<Json>,
}

/// The pause of one client.
pub(super) struct Pause {
    restart: Restart,
    /// Why the last backend could not be used.
    reason: Failed,
}

impl Pause {
    /// The error for the client; `None` if the pause is over.
    fn text(&self, now: Instant) -> Option<String> {
        let seconds = self.restart.pause(now)?.as_secs() + 1;
        let reason = if self.reason == Failed::Closed {
            "the server has failed to start".to_owned()
        } else {
            self.reason.describe("the server")
        };
        Some(format!("{reason}; the next attempt may be made in {seconds} s"))
    }
}

impl Gateway {
    /// Handles a stateless request, or a request of a session that has no backend.
    pub(super) fn open(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        if ticket.key().session().is_some() && method != Method::INITIALIZE {
            return self.refuse(ticket, "the session has ended", now);
        }
        let waiting = WaitingRequest { ticket, method, params };
        let Some(group) = self.group(&waiting.ticket, now) else { return self.refuse_revision(waiting, now) };
        if let Some(backend) = self.by_group.get(&group).copied() {
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

    /// The group of clients that may share a backend with the client of this request; `None` if its revision is not
    /// served.
    ///
    /// Clients are separated by their principal, whatever their revision. Sessions are separated as [`Sharing`] states.
    fn group(&self, ticket: &Ticket, now: Instant) -> Option<Group> {
        let context = self.server.context(ticket)?;
        let capabilities = || Box::from(context.client_capabilities.to_text());
        let principal = context.principal.clone();
        let Some(session) = ticket.key().session() else {
            let owner = match self.sharing {
                Sharing::Shared => Owner::Everyone,
                Sharing::PerSession | Sharing::PerPrincipal => Owner::of_requests(principal),
            };
            let kind = match (self.eras.is_legacy(&owner, now), self.sharing, &owner) {
                (false, _, _) => GroupKind::Requests,
                (true, Sharing::Shared, _) | (true, Sharing::PerPrincipal, Owner::Principal(_)) => {
                    GroupKind::LegacyRequests(capabilities())
                }
                // A legacy backend keeps the state of its client, which several clients would share here.
                (true, Sharing::PerSession | Sharing::PerPrincipal, _) => return None,
            };
            return Some(Group { owner, kind });
        };
        Some(match (self.sharing, principal) {
            (Sharing::Shared, _) => Group { owner: Owner::Everyone, kind: GroupKind::Sessions(None) },
            (Sharing::PerPrincipal, Some(principal)) => {
                Group { owner: Owner::Principal(principal), kind: GroupKind::Sessions(Some(capabilities())) }
            }
            (Sharing::PerPrincipal | Sharing::PerSession, principal) => {
                Group { owner: Owner::Session(session, principal), kind: GroupKind::Session }
            }
        })
    }

    /// Whom a failure to start concerns: the client whose request is the reason for the start.
    fn holder(&self, ticket: &Ticket) -> Holder {
        let peer = self.server.extensions(ticket).and_then(|extensions| extensions.get::<Peer>());
        let principal = self.server.context(ticket).and_then(|context| context.principal);
        Holder::new(principal.as_ref(), peer.and_then(|Peer(peer)| peer.as_ref()))
    }

    /// Finds or starts backends for the requests that wait, as far as there may be more.
    pub(super) fn start_waiting(&mut self, now: Instant) {
        for waiting in std::mem::take(&mut self.waiting) {
            let Some(group) = self.group(&waiting.ticket, now) else {
                self.refuse_revision(waiting, now);
                continue;
            };
            let holder = self.holder(&waiting.ticket);
            let has_room = self.backends.len() < self.config.limits.backends;
            if let Some(backend) = self.by_group.get(&group).copied() {
                self.use_backend(backend, waiting, now);
            } else if let (true, Some(text)) = (has_room, self.pauses.get(&holder).and_then(|own| own.text(now))) {
                self.refuse(waiting.ticket, &text, now);
            } else if has_room {
                self.start(group, holder, waiting, now);
            } else if self.has_ending_backend() || self.end_longest_unused(now) {
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
    fn end_longest_unused(&mut self, now: Instant) -> bool {
        let unused = |key: &BackendKey| Some((self.timers.get(GatewayTimer::Unused(*key))?, *key));
        let Some((_, backend)) = self.backends.keys().filter_map(unused).min() else { return false };
        let Some(Backend::Running(running)) = self.backends.get_mut(&backend) else { return false };
        running.upstream.client.close(now);
        self.timers.clear(GatewayTimer::Unused(backend));
        self.active.insert(backend);
        true
    }

    /// Ends a backend that has no client, at once if the gateway is closed, else when it has had none for a while. Returns
    /// whether it was ended.
    pub(super) fn end_without_clients(&mut self, backend: BackendKey, now: Instant) -> bool {
        let Some(Backend::Running(running)) = self.backends.get_mut(&backend) else { return false };
        let is_unused = running.is_unused();
        // No client will retry a parked call any more.
        if self.is_closed && (is_unused || running.serves_requests()) {
            running.upstream.client.close(now);
            return true;
        }
        if !is_unused {
            self.timers.clear(GatewayTimer::Unused(backend));
        } else if !self.timers.is_set(GatewayTimer::Unused(backend)) {
            self.timers.set(GatewayTimer::Unused(backend), now + self.unused_timeout);
        }
        false
    }

    /// Ends the backends that have no client, and from now on each with its last client.
    pub(super) fn end_all_without_clients(&mut self) {
        self.is_closed = true;
        self.active.extend(self.backends.keys());
    }

    /// Starts a backend for a client, and for others of its group.
    fn start(&mut self, group: Group, holder: Holder, waiting: WaitingRequest, now: Instant) {
        let backend = self.next;
        let principal = group.owner.principal().cloned();
        let Ok(running) = RunningBackend::new(group.clone(), holder, &self.config, self.client.clone()) else {
            return self.refuse(waiting.ticket, "the configuration is invalid", now);
        };
        self.next = backend.next();
        self.out.act(Action::Start { backend, principal });
        self.backends.insert(backend, Backend::Running(Box::new(running)));
        self.by_group.insert(group, backend);
        self.use_backend(backend, waiting, now);
    }

    /// Passes a stateless request, or one that opens a session, to a backend.
    fn use_backend(&mut self, backend: BackendKey, waiting: WaitingRequest, now: Instant) {
        let WaitingRequest { ticket, method, params } = waiting;
        let principal = self.server.context(&ticket).and_then(|context| context.principal);
        let running = match self.backends.get_mut(&backend) {
            Some(Backend::Running(running)) => Some(running),
            Some(Backend::Stopping) | None => None,
        };
        let session = ticket.key().session();
        let own = running.filter(|running| running.upstream.owner().admits(session, principal.as_ref()));
        let Some(running) = own else { return self.refuse(ticket, "the process has ended", now) };
        if let Some(session) = session {
            self.by_session.insert(session, backend);
        }
        self.active.insert(backend);
        running.set_secret(derived_secret(self.secret, backend.number()));
        running.open(ticket, method, params, &self.config, &mut self.server, now);
    }

    /// Refuses a stateless request whose client can open a session.
    fn refuse_revision(&mut self, waiting: WaitingRequest, now: Instant) {
        let error = requests::unsupported(&self.server.config().versions);
        // A server may always answer that a revision is not supported.
        let _ = self.server.respond(waiting.ticket, Err(error), now);
    }

    fn refuse(&mut self, ticket: Ticket, text: &str, now: Instant) {
        let error = ErrorObject::new(code::INTERNAL_ERROR, text);
        // The code of an internal error may always be sent.
        let _ = self.server.respond(ticket, Err(error), now);
    }

    /// The machine that faces a backend has closed. All requests to it have ended.
    pub(super) fn on_closed(&mut self, backend: BackendKey, reason: CloseReason, now: Instant) {
        self.timers.clear(GatewayTimer::Machine(backend));
        self.timers.clear(GatewayTimer::Unused(backend));
        self.active.remove(&backend);
        let Some(Backend::Running(mut running)) = self.backends.insert(backend, Backend::Stopping) else { return };
        if !running.has_stopped {
            self.out.act(Action::Stop { backend });
        }
        let has_failed = !running.is_usable && !matches!(reason, CloseReason::Local | CloseReason::NoCommonVersion);
        let Group { owner, kind } = running.group();
        let has_exited = has_failed && !matches!(reason, CloseReason::NotStarted(_));
        let may_be_legacy = has_exited && *kind == GroupKind::Requests && self.eras.on_exited(owner, now);
        if has_failed && !may_be_legacy {
            let reason = running.failed.take().unwrap_or(Failed::Closed);
            self.on_failure(&running, reason, now);
        }
        self.by_group.retain(|_, key| *key != backend);
        self.serve_requests_no_more(running.group());
        for session in running.sessions() {
            self.by_session.remove(&session);
            self.server.end(session, now);
        }
        for (ticket, method, params) in running.take_unserved() {
            self.open(ticket, method, params, now);
        }
    }

    /// Requests of an owner without a backend of an older revision are not answered in its place any more.
    fn serve_requests_no_more(&mut self, group: &Group) {
        let is_legacy = |group: &Group| matches!(group.kind, GroupKind::LegacyRequests(_));
        let has_other = || self.by_group.keys().any(|other| is_legacy(other) && other.owner == group.owner);
        if is_legacy(group) && !has_other() {
            self.server.pass_requests_through(&group.owner.requesters());
        }
    }

    /// A backend has failed before it could be used, for this reason.
    pub(super) fn on_failure(&mut self, running: &RunningBackend, reason: Failed, now: Instant) {
        self.eras.on_not_opened(&running.group().owner);
        let mut restart = self.pauses.remove(running.opener()).map_or(Restart::new(), |pause| pause.restart);
        if let Some(retry_in) = restart.on_failure(now) {
            self.out.report(Event::NotStarted { reason: reason.clone(), retry_in });
        }
        self.pauses.insert(running.opener().clone(), Pause { restart, reason });
    }
}
