//! How one client is joined to the server that it uses.
//!
//! The machine that the client is connected to may have other clients, and so may the one that faces the server. A link
//! owns neither: the relay or the gateway passes both in with each input ([`Link::join`]).

use std::time::Duration;

use mcp_proto::client::{ClientTransport, SubscriptionKey};
use mcp_proto::server::{Server, ServerTransport, SubscriptionChange};
use mcp_proto::spec::List;
use mcp_proto::{Instant, Json, Load, Method, Notification, ProtocolVersion, SessionKey, Ticket, TicketKey};

use super::known_server::KnownServer;
use super::legacy_client::LegacyClient;
use super::modern_client::ModernClient;
use super::policy::Policy;
use super::sides::{Connection, Sides};
use super::upstream::Upstream;
use super::{Config, convert};

/// How long a request waits for the server at most after `initialize` was answered in its place. Clients give up after a
/// minute.
const WAIT: Duration = Duration::from_secs(50);

/// How one client is joined to the server that it uses.
pub(crate) struct Link {
    path: Path,
    /// The revisions that may be used with the server.
    versions: Vec<ProtocolVersion>,
    /// How long a parked call waits for its retry.
    parking_timeout: Duration,
    cold_start: ColdStart,
    connection: Connection,
    /// The server is known to begin with `initialize`.
    is_legacy_server: bool,
}

/// How a link joins the two sides.
#[derive(Debug)]
pub(super) enum Path {
    /// The eras are not known yet.
    Opening(Opening),
    /// Both sides are of the same era.
    PassThrough {
        /// The `server/discover` result of a modern server.
        discovered: Option<Json>,
    },
    /// The client is legacy, the server modern.
    LegacyClient(LegacyClient),
    /// The client is modern, the server legacy.
    ModernClient(ModernClient),
}

/// A link together with the machines of both sides.
pub(crate) struct Joined<'l, S: ServerTransport, T: ClientTransport> {
    pub(super) sides: Sides<'l, S, T>,
    pub(super) path: &'l mut Path,
    pub(super) versions: &'l [ProtocolVersion],
    pub(super) parking_timeout: Duration,
    pub(super) cold_start: &'l mut ColdStart,
    pub(super) is_legacy_server: bool,
}

/// The state of the opening.
#[derive(Debug)]
pub(super) enum Opening {
    /// The client has sent nothing.
    Awaited,
    /// The client's `initialize` was sent to the server.
    Sent { ticket: Ticket, params: Json },
    /// A person signs in, and the client's `initialize` was answered in the place of the server.
    Answered(EarlyAnswer),
    /// The opening failed and the client received an error. The connection is retried in the background.
    Failed { params: Json },
    /// The retry in the background succeeded. If the client sends `initialize` again, this is the answer.
    Prepared { params: Json, version: ProtocolVersion, result: Json },
    /// The client is modern. Its requests are held until the era of the server is known.
    Discovering { asked: Json, held: Vec<HeldRequest> },
}

/// A request of the client that is held.
#[derive(Debug)]
pub(super) struct HeldRequest {
    pub(super) ticket: Ticket,
    pub(super) method: Method,
    pub(super) params: Option<Json>,
}

impl Opening {
    /// The requests that are held until the era of the server is known.
    pub(super) fn load(&self) -> Load {
        let mut load = Load::default();
        let Self::Discovering { held, .. } = self else { return load };
        load.waiting = held.len();
        load.held = held.iter().filter_map(|held| held.params.as_ref()).map(Json::len).sum();
        load
    }

    /// The client has cancelled a request, which may be held.
    pub(super) fn on_cancelled(&mut self, ticket: TicketKey) {
        if let Self::Discovering { held, .. } = self {
            held.retain(|held| held.ticket.key() != ticket);
        }
    }
}

/// The state of the cold start.
#[derive(Debug)]
pub(super) struct ColdStart {
    pub(super) known: Option<KnownServer>,
    pub(super) answer_after: Duration,
    /// How long a request waits for the server after such an answer.
    pub(super) wait: Duration,
    /// When the client's `initialize` is answered in the place of the server.
    pub(super) answer_at: Option<Instant>,
    /// The client has declared that it opens URLs (`elicitation.url`).
    pub(super) opens_urls: bool,
    /// The client accepts requests.
    pub(super) is_initialized: bool,
    /// The URL that the client is to open once it accepts requests.
    pub(super) url: Option<Box<str>>,
}

/// An answer to `initialize` in the place of the server.
#[derive(Debug)]
pub(super) struct EarlyAnswer {
    /// The capabilities that the client was given.
    pub(super) capabilities: Json,
    /// `notifications/initialized`, once the client has sent it.
    pub(super) initialized: Option<Notification>,
}

impl ColdStart {
    pub(super) fn new(config: &Config) -> Self {
        let wait = WAIT.min(config.request_timeout);
        Self {
            known: config.opening.clone(),
            answer_after: config.answer_after,
            wait,
            answer_at: None,
            opens_urls: false,
            is_initialized: false,
            url: None,
        }
    }

    /// The client has sent `initialize` with these parameters.
    pub(super) fn on_initialize(&mut self, params: &Json) {
        let declared = params.first_member("capabilities").and_then(|own| own.first_member("elicitation"));
        self.opens_urls = declared.and_then(|elicitation| elicitation.first_member("url")).is_some();
        self.is_initialized = false;
    }

    /// The answer to `initialize` with these parameters.
    pub(super) fn answer(&self, params: &Json) -> Json {
        let newest = || Json::from(ProtocolVersion::LATEST_LEGACY.as_str());
        let asked = params.first_member("protocolVersion").unwrap_or_else(newest);
        if let Some(known) = &self.known {
            return known.to_legacy(&asked);
        }
        let changes = Json::empty_object().with_member("listChanged", &Json::from(true));
        let add = |capabilities: Json, list: &List| capabilities.with_member(list.capability(), &changes);
        let capabilities = List::ALL.iter().fold(Json::empty_object(), add);
        let result = Json::empty_object().with_member("protocolVersion", &asked);
        result.with_member("capabilities", &capabilities).with_member("serverInfo", &convert::unknown())
    }
}

impl EarlyAnswer {
    /// The client has sent `notifications/initialized`.
    pub(super) fn on_initialized(&mut self, params: Option<Json>) {
        self.initialized = Some(Notification { method: Method::INITIALIZED, params });
    }
}

impl Link {
    /// A link of a client that has sent nothing yet. `config` is that of the relay or gateway.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            path: Path::Opening(Opening::Awaited),
            versions: config.versions.clone(),
            parking_timeout: config.parking_timeout,
            cold_start: ColdStart::new(config),
            connection: Connection::Stream,
            is_legacy_server: false,
        }
    }

    /// The same for a client that is connected over HTTP.
    pub(crate) fn over_http(config: &Config) -> Self {
        Self { connection: Connection::Session, ..Self::new(config) }
    }

    /// The same for a client that shares the server with others.
    pub(crate) fn sharing(config: &Config) -> Self {
        Self { connection: Connection::SharingSession, ..Self::new(config) }
    }

    /// The same for the stateless requests of many clients.
    pub(crate) fn for_requests(config: &Config) -> Self {
        Self { connection: Connection::Requests, ..Self::new(config) }
    }

    /// The same if the server is known to begin with `initialize`.
    pub(crate) fn for_requests_to_legacy(config: &Config) -> Self {
        Self { is_legacy_server: true, ..Self::for_requests(config) }
    }

    /// Sets a number that clients do not know, another one after each of their requests. Only the client that receives
    /// a `requestState` made from the number can retry a call that is parked from now on.
    pub(crate) const fn set_secret(&mut self, secret: u128) {
        if let Path::ModernClient(state) = &mut self.path {
            state.set_secret(secret);
        }
    }

    /// Whether a subscription to changes is that of the client.
    pub(crate) fn has_subscription(&self, subscription: SubscriptionKey) -> bool {
        match &self.path {
            Path::LegacyClient(state) => state.has_subscription(subscription),
            Path::Opening(_) | Path::PassThrough { .. } | Path::ModernClient(_) => false,
        }
    }

    /// Joins the link to both machines: `server`, to which the client is connected, in this session if there is one,
    /// and that of `upstream`, which faces the server.
    pub(crate) fn join<'l, S: ServerTransport, T: ClientTransport>(
        &'l mut self,
        server: &'l mut Server<S>,
        session: impl Into<Option<SessionKey>>,
        upstream: &'l mut Upstream<T>,
    ) -> Joined<'l, S, T> {
        Joined {
            sides: Sides::new(server, session.into(), upstream, self.connection),
            path: &mut self.path,
            versions: &self.versions,
            parking_timeout: self.parking_timeout,
            cold_start: &mut self.cold_start,
            is_legacy_server: self.is_legacy_server,
        }
    }

    /// When [`Joined::handle_timeout`] must be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let parked = if let Path::ModernClient(state) = &self.path { state.poll_timeout() } else { None };
        [parked, self.cold_start.answer_at].into_iter().flatten().min()
    }

    /// Whether the client has declared that it opens URLs for the server.
    pub(crate) const fn client_opens_urls(&self) -> bool {
        self.cold_start.opens_urls
    }

    /// What the link holds.
    pub(crate) fn load(&self) -> Load {
        match &self.path {
            Path::Opening(opening) => opening.load(),
            Path::ModernClient(state) => state.load(),
            Path::PassThrough { .. } | Path::LegacyClient(_) => Load::default(),
        }
    }
}

impl<S: ServerTransport, T: ClientTransport> Joined<'_, S, T> {
    /// Handles the timers of the link that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Path::ModernClient(state) = &mut *self.path {
            state.handle_timeout(&mut self.sides, now);
        }
        self.answer_early(now);
    }

    /// Handles one change of the subscriptions of clients, if there is one. Returns whether there was one.
    pub(crate) fn take_subscription(&mut self, policy: Option<&Policy>, now: Instant) -> bool {
        if let Some(change) = self.sides.server.poll_subscription() {
            let denied = match &change {
                SubscriptionChange::Subscribed(uri) if policy.is_some_and(|policy| !policy.allows_resource(uri)) => {
                    Some(uri)
                }
                SubscriptionChange::Subscribed(_) | SubscriptionChange::Unsubscribed(_) => None,
            };
            if let Some(uri) = denied {
                self.sides.server.exclude_resource(uri, now);
            } else if let Path::ModernClient(state) = &mut *self.path {
                state.on_subscription_change(&mut self.sides, change, now);
            }
        } else if self.sides.server.poll_unacknowledged() {
            if let Path::ModernClient(state) = &mut *self.path {
                state.acknowledge_listens(&mut self.sides, now);
            }
        } else {
            return false;
        }
        true
    }
}
