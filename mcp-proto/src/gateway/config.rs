//! The configuration of a gateway.

use crate::relay;
use mcp_proto::server::HttpConfig;

/// The configuration of a gateway. Each field may be set separately.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::gateway::Config;
///
/// let mut config = Config::default();
/// config.http.session_idle = Duration::from_secs(600);
/// config.relay.limits.backends = 20;
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// How clients reach the gateway. There are never more sessions than
    /// [`Limits::backends`](mcp_proto::Limits::backends), because each has a backend of its own.
    pub http: HttpConfig,
    /// The limits, of which `backends` is the maximum number of processes, and the times that apply between clients and
    /// backends. `versions` are the revisions that may be used with backends.
    pub relay: relay::Config,
}
