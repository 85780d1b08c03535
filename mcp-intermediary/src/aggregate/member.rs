//! One server of an aggregate: its configuration, and whether it is running.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::client::SubscriptionKey;
use mcp_proto::{Instant, Json, Method, ProtocolVersion, Stdio, UsageError};

use super::config::ServerConfig;
use super::connection::{Connection, Opener};
use super::event::ServerKey;
use super::fresh::Fresh;
use super::late::Late;
use super::list_kind::ListKind;
use crate::relay;
use crate::relay::{Relay, Watched};
use crate::restart::Restart;

/// One server of an aggregate.
pub(super) struct Member {
    pub(super) name: Box<str>,
    config: relay::Config,
    pub(super) state: MemberState,
    pub(super) restart: Restart,
    /// The capabilities that the server stated at its last connection; `None` if there was none.
    pub(super) capabilities: Option<Json>,
    pub(super) instructions: Option<Box<str>>,
    /// How the last process ended, as a predicate such as "could not be started".
    pub(super) end: Option<Box<str>>,
    /// The server was connected, or could not be.
    pub(super) is_settled: bool,
    /// The process exited when it was asked for its revisions, so the connection begins with `initialize` (ER-06).
    pub(super) begins_with_initialize: bool,
    pub(super) watch: Watch,
    /// How often it was started.
    starts: u64,
    started: Instant,
    /// The server was not connected in time.
    pub(super) is_late: bool,
    /// The lists with which it is late.
    pub(super) late: BTreeMap<ListKind, Late>,
    /// The lists that are still valid.
    pub(super) fresh: BTreeMap<ListKind, Fresh>,
    /// When the server has notified of a change last.
    pub(super) changed: BTreeMap<ListKind, Instant>,
    /// The lists that were already reported as too long.
    pub(super) too_long: BTreeSet<ListKind>,
    /// The servers that were already reported as listing the same resources.
    pub(super) same_as: BTreeSet<ServerKey>,
    /// The servers that were already reported as having names that it lists.
    pub(super) same_names: BTreeSet<(ServerKey, ListKind)>,
    /// The servers that were already reported as having pages that its tools are linked to.
    pub(super) same_pages: BTreeSet<ServerKey>,
    /// The revision that is used with it, once it was connected.
    pub(super) version: Option<ProtocolVersion>,
    /// Until when the server may still work on a call that has ended for the client without an answer.
    pub(super) works_until: Option<Instant>,
}

/// Whether a server is running.
pub(super) enum MemberState {
    Stopped,
    Running(Box<Connection>),
    /// Only the end of the server is awaited.
    Stopping,
}

/// What clients have subscribed to at one server.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) uris: Watched,
    /// The subscription that is in effect.
    pub(super) current: Option<SubscriptionKey>,
    /// The subscription that replaces `current`, until the server has acknowledged it.
    pub(super) next: Option<SubscriptionKey>,
    /// The resources that the server notifies of.
    pub(super) in_effect: BTreeSet<Arc<str>>,
    /// The subscription must be replaced.
    pub(super) is_outdated: bool,
    /// The server has not acknowledged its subscription in time: subscriptions of the client do not wait for it.
    pub(super) is_overdue: bool,
}

impl Watch {
    pub(super) fn uris(&self) -> Vec<Arc<str>> {
        self.uris.iter().cloned().collect()
    }

    /// The client has subscribed to a resource of this server in its session.
    pub(super) fn insert(&mut self, uri: &str) {
        if self.uris.has_room_for(uri) {
            self.uris.insert(uri.into());
        }
    }

    /// Whether the client has subscribed to a resource of this server.
    pub(super) fn contains(&self, uri: &str) -> bool {
        self.uris.contains(uri)
    }

    pub(super) fn remove(&mut self, uri: &str) {
        self.uris.remove(uri);
        self.in_effect.remove(uri);
    }
}

impl Member {
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(super) fn new(server: ServerConfig) -> Result<Self, UsageError> {
        let ServerConfig { name, relay: mut config, late, prefix: _ } = server;
        let of_lists = late.iter().filter_map(ListKind::of);
        config.respawn = false;
        Relay::new(Stdio::new(), config.clone())?;
        Ok(Self {
            name,
            config,
            state: MemberState::Stopped,
            restart: Restart::new(),
            capabilities: None,
            instructions: None,
            end: None,
            is_settled: false,
            begins_with_initialize: false,
            watch: Watch::default(),
            starts: 0,
            started: Instant::START,
            is_late: late.contains(&Method::INITIALIZE),
            late: of_lists.map(|kind| (kind, Late::new())).collect(),
            fresh: BTreeMap::new(),
            changed: BTreeMap::new(),
            too_long: BTreeSet::new(),
            same_as: BTreeSet::new(),
            same_names: BTreeSet::new(),
            same_pages: BTreeSet::new(),
            version: None,
            works_until: None,
        })
    }

    /// Connects to the process that is being started.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(super) fn connect(&mut self, opener: &Opener, now: Instant) -> Result<(), UsageError> {
        self.starts += 1;
        self.started = now;
        let mut config = self.config.clone();
        if self.begins_with_initialize {
            config.versions.retain(|version| !version.is_stateless());
        }
        self.state = MemberState::Running(Box::new(Connection::new(config, opener, now)?));
        Ok(())
    }

    /// Applies another filter, also to processes that are started later.
    pub(super) fn set_filter(&mut self, filter: relay::Filter, now: Instant) {
        self.config.filter = filter.clone();
        if let MemberState::Running(connection) = &mut self.state {
            connection.set_filter(filter, now);
        }
    }

    /// The number that relates calls of this process, and of no other, to their clients; zero if there is no secret.
    pub(super) fn secret_of(&self, secret: u128, server: ServerKey) -> u128 {
        let index = u128::try_from(server.index()).unwrap_or_default();
        if secret == 0 { 0 } else { secret.wrapping_add(index << 64 | u128::from(self.starts)) }
    }

    /// Whether it may begin with `initialize`.
    pub(super) fn may_begin_with_initialize(&self) -> bool {
        self.config.versions.iter().any(|version| !version.is_stateless())
    }

    /// Whether it has a capability, as far as is known.
    pub(super) fn has(&self, capability: &str) -> bool {
        self.capabilities.as_ref().is_none_or(|all| all.first_member(capability).is_some())
    }

    /// Whether it has a capability with this flag, as far as is known.
    pub(super) fn has_flag(&self, capability: &str, flag: &str) -> bool {
        self.capabilities.as_ref().is_none_or(|all| {
            let flag = all.first_member(capability).and_then(|capability| capability.first_member(flag));
            flag.is_some_and(|flag| flag.as_bytes() == b"true")
        })
    }

    /// How long it was started ago.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// A call has ended for the client without its answer.
    pub(super) fn on_unanswered(&mut self, now: Instant) {
        self.works_until = Some(now + self.config.request_timeout);
    }

    /// Forgets what the earlier process has sent, which is not valid any more.
    pub(super) fn forget(&mut self) {
        self.late.values_mut().for_each(Late::forget);
        self.fresh.clear();
        self.too_long.clear();
        self.same_as.clear();
        self.same_names.clear();
        self.same_pages.clear();
        self.works_until = None;
    }

    /// Whether it is connected.
    pub(super) fn is_usable(&self) -> bool {
        match &self.state {
            MemberState::Running(connection) => connection.usable_since.is_some(),
            MemberState::Stopped | MemberState::Stopping => false,
        }
    }

    /// Whether it was started and can be used, or will be soon.
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, MemberState::Running(_))
    }
}
