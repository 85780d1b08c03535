//! One server of an aggregate: its configuration, and whether it is running.

use super::config::ServerConfig;
use super::connection::{Connection, Opener};
use super::subscriptions::Watch;
use crate::gateway::restart::Restart;
use mcp_proto::Instant;
use mcp_proto::Json;
use mcp_proto::Stdio;
use mcp_proto::UsageError;
use mcp_proto::relay::{self, Relay};
use mcp_proto::spec::List;

/// One server of an aggregate.
pub(super) struct Member {
    pub(super) name: Box<str>,
    config: relay::Config,
    pub(super) state: State,
    pub(super) restart: Restart,
    /// The capabilities that it has stated when it was last connected; `None` if it never was.
    pub(super) capabilities: Option<Json>,
    pub(super) instructions: Option<Box<str>>,
    /// It was connected, or could not be.
    pub(super) is_settled: bool,
    /// Its process has exited when it was asked for its revisions (ER-06).
    pub(super) begins_with_initialize: bool,
    pub(super) watch: Watch,
    /// How often it was started.
    starts: u64,
    /// The lists that it did not return in time, and of which the client was notified then.
    pub(super) late: Vec<List>,
}

/// Whether a server is running.
pub(super) enum State {
    Stopped,
    Running(Box<Connection>),
    /// Nothing more is expected of it but its end.
    Stopping,
}

impl Member {
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(super) fn new(server: ServerConfig) -> Result<Self, UsageError> {
        let ServerConfig { name, relay: mut config } = server;
        config.respawn = false;
        Relay::new(Stdio::new(), config.clone())?;
        Ok(Self {
            name,
            config,
            state: State::Stopped,
            restart: Restart::new(),
            capabilities: None,
            instructions: None,
            is_settled: false,
            begins_with_initialize: false,
            watch: Watch::default(),
            starts: 0,
            late: Vec::new(),
        })
    }

    /// Connects to the process that is being started.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(super) fn connect(&mut self, opener: &Opener, now: Instant) -> Result<(), UsageError> {
        self.starts += 1;
        let mut config = self.config.clone();
        if self.begins_with_initialize {
            config.versions.retain(|version| !version.is_stateless());
        }
        self.state = State::Running(Box::new(Connection::new(config, opener, now)?));
        Ok(())
    }

    /// The number that relates calls of this process, and of no other, to their clients; zero if there is no secret.
    pub(super) fn secret_of(&self, secret: u128, server: super::ServerKey) -> u128 {
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

    /// Whether it was started and can be used, or will be soon.
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }
}
