//! The configuration of a relay.

use std::time::Duration;

use mcp_proto::{Limits, ProtocolVersion, client, server};

use super::filter::Filter;
use super::known_server::KnownServer;
use super::pinning::Pinning;

/// The configuration of a relay. Each field may be set separately.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_intermediary::relay::Config;
///
/// let mut config = Config::default();
/// config.request_timeout = Duration::from_secs(60);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The revisions that may be used with the server. Default: all. The client may use any revision.
    pub versions: Vec<ProtocolVersion>,
    /// The limits on what the relay holds for each side.
    pub limits: Limits,
    /// How long the server may take to answer a request. Progress extends this time, up to `max_timeout`. Default 5
    /// min.
    ///
    /// Rules: TO-01.
    pub request_timeout: Duration,
    /// How long any answer may take in total, progress included. Default 1 h.
    ///
    /// Rules: TO-03.
    pub max_timeout: Duration,
    /// How long the server may take to answer `initialize`. Default 30 s.
    pub initialize_timeout: Duration,
    /// How long requests in flight may still be answered after the client has closed its stream. Default 5 s.
    ///
    /// Rules: FR15.
    pub drain_timeout: Duration,
    /// How long the relay tries again to deliver a message that was certainly not delivered, before the client receives
    /// an error. It replaces [`HttpConfig::redelivery`](mcp_proto::client::HttpConfig::redelivery). Default 2 s.
    pub redelivery: Duration,
    /// How long a call stays open at a legacy server while the relay waits for the modern client's retry with the
    /// required input. Default 10 min.
    ///
    /// Rules: BR-M-03.
    pub parking_timeout: Duration,
    /// Whether the driver can restart a server on a byte stream that has exited, when
    /// [`StdioAction::Respawn`](mcp_proto::StdioAction::Respawn) requests it. Default `false`.
    ///
    /// Rules: ER-06.
    pub respawn: bool,
    /// Whether parameters with a duplicate member name are refused. Default `true`.
    ///
    /// Rules: JS6.
    pub strict_json: bool,
    /// Whether each request of a client is reported when it has ended, for a log. Default `false`.
    pub reports_ended_requests: bool,
    /// Which tools, prompts and resources clients may use. Default: all.
    pub filter: Filter,
    /// How tools are compared with their definitions at their first use. Default `None`: they are not.
    pub pinning: Option<Pinning>,
    /// What the server has stated about itself earlier: the answer to the client's `initialize` while a person signs in.
    /// Default `None`: the answer promises every list, and that changes are notified.
    ///
    /// Rules: OA-G-07.
    pub opening: Option<KnownServer>,
    /// How long the client's `initialize` waits for a person to sign in, before it is answered in the place of the server.
    /// Default 15 s.
    ///
    /// Rules: OA-G-07.
    pub answer_after: Duration,
    /// The seed of the random variation of pauses. Relays should have different seeds, so that they do not all connect
    /// again at the same moment. Default 0.
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
            reports_ended_requests: false,
            filter: Filter::new(),
            pinning: None,
            opening: None,
            answer_after: Duration::from_secs(15),
            seed: 0,
        }
    }
}

impl Config {
    /// The configurations of the two machines of a relay, or of those of a gateway.
    pub(crate) fn split(self) -> (server::Config, client::Config) {
        let mut server = server::Config::new("", "");
        // Clients of any published revision are bridged, and those of a draft if the server may have it.
        let drafts = self.versions.iter().filter(|version| !ProtocolVersion::ALL.contains(version));
        server.versions.extend(drafts);
        server.limits = self.limits.clone();
        // While the client is only slow, the driver stops reading the server, and no notification that was already read
        // is dropped.
        server.limits.unwritten = server.limits.unwritten.saturating_add(server.limits.message).min(1 << 30);
        // A person may have to answer the server's requests (TO-04).
        server.request_timeout = self.max_timeout;
        server.max_timeout = self.max_timeout;
        server.drain_timeout = self.drain_timeout;
        server.strict_json = self.strict_json;
        server.reports_ended_requests = self.reports_ended_requests;
        let mut client = client::Config::new("", "");
        client.versions = self.versions;
        client.respawn = self.respawn;
        client.limits = self.limits;
        // While the server is only slow, the driver stops reading the client, and nothing that was already read is
        // refused.
        client.limits.unwritten = client.limits.unwritten.saturating_add(client.limits.message).min(1 << 30);
        client.request_timeout = self.request_timeout;
        client.max_timeout = self.max_timeout;
        client.initialize_timeout = self.initialize_timeout;
        client.reconnect = true;
        client.reports_all_requests = true;
        client.seed = self.seed;
        (server, client)
    }
}
