//! What a relay is told.

use std::time::Duration;

use crate::client::{self, Confirmation, Forwarding};
use crate::limits::Limits;
use crate::server;
use crate::spec::ProtocolVersion;

/// How a relay behaves. The fields may be set one by one.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::relay::Config;
///
/// let mut config = Config::default();
/// config.request_timeout = Duration::from_secs(60);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The revisions that the server may be spoken to in. Default: all. Whatever the client speaks, it is served.
    pub versions: Vec<ProtocolVersion>,
    /// What both sides may make the relay hold.
    pub limits: Limits,
    /// How long the server may take to answer. Progress extends it, up to `max_timeout`. Default 5 min.
    pub request_timeout: Duration,
    /// How long any answer may take at most (TO-03). Default 1 h.
    pub max_timeout: Duration,
    /// How long the server may take to answer `initialize`. Default 30 s.
    pub initialize_timeout: Duration,
    /// How long requests in flight may still be answered once the client has closed its stream (FR15). Default 5 s.
    pub drain_timeout: Duration,
    /// For how long a message that was surely not delivered is tried again before the client hears of it. Default 2 s.
    pub redelivery: Duration,
    /// For how long a call may wait for its client to come back with what its server has asked for, where the server is a
    /// legacy one and the client a modern one (BR-M-03). Default 10 min.
    pub parking_timeout: Duration,
    /// Whether the driver can start a server on a byte stream anew (ER-06). Default `false`.
    pub respawn: bool,
    /// Whether parameters with two members of one name are refused (JS6). Default `true`.
    pub strict_json: bool,
    /// Where the jitter of waiting times begins. Two relays should not have the same.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            versions: ProtocolVersion::ALL.into(),
            limits: Limits::default(),
            request_timeout: Duration::from_secs(300),
            max_timeout: Duration::from_secs(3600),
            initialize_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(5),
            redelivery: Duration::from_secs(2),
            parking_timeout: Duration::from_secs(600),
            respawn: false,
            strict_json: true,
            seed: 0,
        }
    }
}

impl Config {
    /// What the two machines of a relay are told.
    pub(super) fn split(self) -> (server::Config, client::Config) {
        let mut server = server::Config::new("", "");
        server.limits = self.limits.clone();
        // While the client is only slow, not reading the server holds it up, and no notification that was read is dropped.
        server.limits.unwritten = server.limits.unwritten.saturating_add(server.limits.message).min(1 << 30);
        // TO-04: the one who answers may be a person.
        server.request_timeout = self.max_timeout;
        server.max_timeout = self.max_timeout;
        server.drain_timeout = self.drain_timeout;
        server.forwarding = Forwarding::All;
        server.strict_json = self.strict_json;
        let mut client = client::Config::new("", "");
        client.versions = self.versions;
        client.respawn = self.respawn;
        client.limits = self.limits;
        // While the server is only slow, not reading the client holds it up, and nothing that was read is refused.
        client.limits.unwritten = client.limits.unwritten.saturating_add(client.limits.message).min(1 << 30);
        client.request_timeout = self.request_timeout;
        client.max_timeout = self.max_timeout;
        client.initialize_timeout = self.initialize_timeout;
        client.confirmation = Confirmation::Manual;
        client.reconnect = true;
        client.forwarding = Forwarding::All;
        client.seed = self.seed;
        (server, client)
    }
}
