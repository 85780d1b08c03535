//! One process of the server, and what joins it to its client.

use crate::relay::{Config, Joined, Link, Upstream};
use mcp_proto::Instant;
use mcp_proto::SessionKey;
use mcp_proto::Stdio;
use mcp_proto::UsageError;
use mcp_proto::client;
use mcp_proto::server::{Http, Server};

/// A backend that was started and is not being stopped.
pub(super) struct Running {
    pub(super) upstream: Upstream<Stdio>,
    pub(super) link: Link,
    /// The session that it serves.
    pub(super) session: SessionKey,
    /// It has answered `initialize` or `server/discover`.
    pub(super) is_usable: bool,
    /// Its process has ended.
    pub(super) has_stopped: bool,
}

impl Running {
    /// The state of a new backend for this session.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(super) fn new(config: &Config, client: client::Config, session: SessionKey) -> Result<Self, UsageError> {
        Ok(Self {
            upstream: Upstream::new(Stdio::new(), config.redelivery, client)?,
            link: Link::over_http(config),
            session,
            is_usable: false,
            has_stopped: false,
        })
    }

    /// The backend with the machine that its client is connected to.
    pub(super) fn join<'b>(&'b mut self, server: &'b mut Server<Http>) -> Joined<'b, Http, Stdio> {
        self.link.join(server, self.session, &mut self.upstream)
    }

    /// When the timers of the backend are due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [self.link.poll_timeout(), self.upstream.client.poll_timeout()].into_iter().flatten().min()
    }
}
