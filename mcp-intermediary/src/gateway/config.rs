//! The configuration of a gateway.

use std::time::Duration;

use mcp_proto::server::HttpConfig;

use crate::relay;

/// The configuration of a gateway. Each field may be set separately.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_intermediary::gateway::{Config, Sharing};
///
/// let mut config = Config::default();
/// config.sharing = Sharing::Shared;
/// config.http.session_idle = Duration::from_secs(600);
/// config.relay.limits.backends = 20;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Which sessions use one backend. Default [`Sharing::PerSession`].
    pub sharing: Sharing,
    /// How clients reach the gateway. With [`Sharing::PerSession`], there are never more sessions than
    /// [`Limits::backends`](mcp_proto::Limits::backends).
    pub http: HttpConfig,
    /// The limits, of which `backends` is the maximum number of processes, and the times that apply between clients and
    /// backends. `versions` are the revisions that may be used with backends; `respawn` has no effect. `filter` may have rules
    /// for single principals, and the pins of `pinning` are those of all backends.
    pub relay: relay::Config,
    /// How long a backend that several clients may use is kept without a session or a stateless request, so that the next
    /// one need not wait for its start. Default 60 s.
    pub unused_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sharing: Sharing::PerSession,
            http: HttpConfig::new(),
            relay: relay::Config::default(),
            unused_timeout: Duration::from_secs(60),
        }
    }
}

/// Which clients use one backend. Except with [`Sharing::Shared`], it works for one principal alone, whatever the revisions of
/// clients and server.
///
/// The stateless requests of one principal have one in common, if it is of 2026-07-28, as have those without a principal; if it is
/// of an older revision, they have one where sessions of their clients would share it, and else are refused, so that their
/// clients open sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sharing {
    /// Each has its own, so that the state of a server is that of one client (BR-T-06).
    #[default]
    PerSession,
    /// Those of one principal whose clients have declared the same capabilities. A session without a principal has its own.
    PerPrincipal,
    /// All sessions use one, and all stateless requests one, for clients of one person whose server keeps no state of a client.
    /// The server receives no roots, since those of one client would apply to all, and asks a client only while no other can be
    /// meant. Clients with a principal cannot use its tasks.
    Shared,
}
