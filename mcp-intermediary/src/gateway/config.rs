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
    /// The limits and times that apply between clients and backends; the limit `backends` is the maximum number of
    /// processes. `versions` are the revisions that may be used with backends; `respawn` has no effect. `filter` may
    /// have rules for single principals, and all backends have the pins of `pinning`.
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

/// Which clients use one backend. Except with [`Sharing::Shared`], a backend works for one principal alone, whatever
/// the revisions of clients and server.
///
/// The stateless requests of one principal share one backend if it is of 2026-07-28; so do those without a principal.
/// If the backend is of an older revision, they share it only where sessions of their clients would. Elsewhere they are
/// refused, so that their clients open sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sharing {
    /// Each session has its own backend, so that the state of a server is that of one client.
    ///
    /// Rules: BR-T-06.
    #[default]
    PerSession,
    /// Sessions of one principal use the same backend if their clients have declared the same capabilities. A session
    /// without a principal has its own backend.
    PerPrincipal,
    /// All sessions use one backend, and all stateless requests use one. This is for the clients of one person, if the
    /// server keeps no state of a client. The server receives no roots, since those of one client would apply to all.
    /// It can ask a client only while no other client can be meant. Clients with a principal cannot use the tasks of
    /// the server.
    Shared,
}
