//! One process of the server, and what joins it to its clients.

use mcp_proto::server::{self, Holder, Http, Server};
use mcp_proto::{Failed, Instant, Json, Load, Method, SessionKey, Stdio, Ticket, UsageError, client};

use super::pool::{Group, GroupKind};
use super::requests::Requests;
use super::shared::{Ends, SharedSessions};
use crate::relay::{Config, Link, Owner, Upstream};

/// A backend that was started and is not being stopped.
pub(super) struct RunningBackend {
    pub(super) upstream: Upstream<Stdio>,
    group: Group,
    /// The client whose request was the reason for the start.
    opener: Holder,
    clients: Clients,
    /// The backend has answered `initialize` or `server/discover`.
    pub(super) is_usable: bool,
    /// The process has ended.
    pub(super) has_stopped: bool,
    /// Why the backend cannot be used.
    pub(super) failed: Option<Failed>,
}

/// The clients of a backend.
enum Clients {
    One {
        session: SessionKey,
        link: Link,
    },
    Shared(SharedSessions),
    /// The senders of stateless requests.
    Requests(Requests),
}

impl RunningBackend {
    /// A new backend for the clients of a group, which is started because of a request of `opener`.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(super) fn new(
        group: Group,
        opener: Holder,
        config: &Config,
        client: client::Config,
    ) -> Result<Self, UsageError> {
        // The roots of one client would apply to all, and the tasks of one would be shown to all.
        let is_for_all = group.owner == Owner::Everyone;
        let clients = match (&group.kind, &group.owner) {
            (GroupKind::Session, Owner::Session(session, _)) => {
                Clients::One { session: *session, link: Link::over_http(config) }
            }
            (GroupKind::Session | GroupKind::Sessions(_), _) => Clients::Shared(SharedSessions::new(!is_for_all)),
            (GroupKind::Requests, _) => Clients::Requests(Requests::new(false, config)),
            (GroupKind::LegacyRequests(_), _) => Clients::Requests(Requests::new(true, config)),
        };
        let upstream = Upstream::new(Stdio::new(), group.owner.clone(), config.redelivery, client)?;
        Ok(Self { upstream, group, opener, clients, is_usable: false, has_stopped: false, failed: None })
    }

    /// The clients that may use it.
    pub(super) const fn group(&self) -> &Group {
        &self.group
    }

    /// The client whose request was the reason for the start.
    pub(super) const fn opener(&self) -> &Holder {
        &self.opener
    }

    /// Handles a stateless request, or one that opens a session.
    pub(super) fn open(
        &mut self,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        config: &Config,
        server: &mut Server<Http>,
        now: Instant,
    ) {
        match &mut self.clients {
            Clients::One { session, link } => {
                let opening = server::Event::Requested { ticket, method, params };
                link.join(server, *session, &mut self.upstream).on_server_event(opening, now);
            }
            Clients::Shared(shared) => {
                let params = params.unwrap_or(Json::empty_object());
                let ends = &mut Ends { server, upstream: &mut self.upstream };
                shared.add(ticket, params, config, ends, now);
            }
            Clients::Requests(requests) => {
                let ends = &mut Ends { server, upstream: &mut self.upstream };
                requests.on_request(ticket, method, params, ends, now);
            }
        }
    }

    /// Handles an event of the machine that the clients are connected to, in this session if there is one.
    pub(super) fn on_server_event(
        &mut self,
        session: Option<SessionKey>,
        event: server::Event,
        server: &mut Server<Http>,
        now: Instant,
    ) {
        let upstream = &mut self.upstream;
        match &mut self.clients {
            Clients::One { session, link } => link.join(server, *session, upstream).on_server_event(event, now),
            Clients::Shared(shared) => {
                if let Some(session) = session {
                    shared.on_server_event(session, event, &mut Ends { server, upstream }, now);
                }
            }
            Clients::Requests(requests) => requests.on_server_event(event, &mut Ends { server, upstream }, now),
        }
    }

    /// Handles an event of the machine that faces the backend.
    pub(super) fn on_client_event(&mut self, event: client::Event, server: &mut Server<Http>, now: Instant) {
        let upstream = &mut self.upstream;
        match &mut self.clients {
            Clients::One { session, link } => link.join(server, *session, upstream).on_client_event(event, now),
            Clients::Shared(shared) => shared.on_client_event(event, &mut Ends { server, upstream }, now),
            Clients::Requests(requests) => requests.on_client_event(event, &mut Ends { server, upstream }, now),
        }
    }

    /// Handles all timers that are due.
    pub(super) fn handle_timeout(&mut self, server: &mut Server<Http>, now: Instant) {
        let upstream = &mut self.upstream;
        match &mut self.clients {
            Clients::One { session, link } => link.join(server, *session, upstream).handle_timeout(now),
            Clients::Shared(_) => {}
            Clients::Requests(requests) => requests.handle_timeout(&mut Ends { server, upstream }, now),
        }
        self.upstream.client.handle_timeout(now);
    }

    /// When [`RunningBackend::handle_timeout`] must be called next. The links of sessions that share a backend have no
    /// timers.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let link = match &self.clients {
            Clients::One { link, .. } => link.poll_timeout(),
            Clients::Shared(_) => None,
            Clients::Requests(requests) => requests.poll_timeout(),
        };
        [link, self.upstream.client.poll_timeout()].into_iter().flatten().min()
    }

    /// Sets the number from which the `requestState` of calls that are parked from now on is made.
    pub(super) const fn set_secret(&mut self, secret: u128) {
        if let Clients::Requests(requests) = &mut self.clients {
            requests.set_secret(secret);
        }
    }

    /// Takes the requests that need another backend.
    pub(super) fn take_unserved(&mut self) -> Vec<(Ticket, Method, Option<Json>)> {
        match &mut self.clients {
            Clients::One { .. } | Clients::Shared(_) => Vec::new(),
            Clients::Requests(requests) => requests.take_unserved(),
        }
    }

    pub(super) const fn serves_requests(&self) -> bool {
        matches!(self.clients, Clients::Requests(_))
    }

    /// The session that has this backend alone.
    pub(super) const fn only_session(&self) -> Option<SessionKey> {
        match &self.clients {
            Clients::One { session, .. } => Some(*session),
            Clients::Shared(_) | Clients::Requests(_) => None,
        }
    }

    pub(super) fn sessions(&self) -> Vec<SessionKey> {
        match &self.clients {
            Clients::One { session, .. } => vec![*session],
            Clients::Shared(shared) => shared.sessions().collect(),
            Clients::Requests(_) => Vec::new(),
        }
    }

    /// Whether it is shared, and no client uses it at this time.
    pub(super) fn is_unused(&self) -> bool {
        match &self.clients {
            Clients::One { .. } => false,
            Clients::Shared(shared) => shared.is_unused(),
            Clients::Requests(requests) => requests.is_idle() && self.upstream.is_idle(),
        }
    }

    pub(super) fn load(&self) -> Load {
        let clients = match &self.clients {
            Clients::One { link, .. } => link.load(),
            Clients::Shared(shared) => shared.load(),
            Clients::Requests(requests) => requests.load(),
        };
        clients + self.upstream.load()
    }
}
