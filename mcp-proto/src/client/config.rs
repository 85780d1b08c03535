//! The configuration of a client.

use std::time::Duration;

use super::detected_era::DetectedEra;
use crate::error::UsageError;
use crate::json::Json;
use crate::limits::Limits;
use crate::spec::ProtocolVersion;

/// The configuration of a client. The fields may be set one by one.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::client::Config;
///
/// let mut config = Config::new("my-app", "1.0.0");
/// config.request_timeout = Duration::from_secs(20);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// `clientInfo` of `initialize`, or of every request.
    ///
    /// Rules: LC-02, RULES 8.1.
    pub client_info: Json,
    /// `capabilities` of `initialize`, or of every request. A request of the server that needs a capability which is
    /// not declared here is refused.
    pub capabilities: Json,
    /// The revisions that the client may use. Default: all, as for a server of this crate, so that the newest revision
    /// that both sides support is used.
    ///
    /// If 2026-07-28 is among them together with older ones, the client sends `server/discover` first, to detect which
    /// of them the server supports. To a server of an older revision, that is one more request, and if a server on a
    /// byte stream does not answer it, the client waits for [`discover_timeout`](Self::discover_timeout). With
    /// [`known_era`](Self::known_era), neither occurs. Of the revisions that begin with `initialize`, the newest is
    /// offered.
    ///
    /// Rules: LC-03.
    pub versions: Vec<ProtocolVersion>,
    /// The server's era, if it is known already. Default `None`.
    pub known_era: Option<DetectedEra>,
    /// Limits on what the server can make this client hold.
    pub limits: Limits,
    /// Bytes of results that the client caches for as long as the server allows, since 2026-07-28. A request whose
    /// result is cached is not sent. A change that the server reports ends the caching of what it concerns, so
    /// subscribe to changes with [`Client::listen`](super::Client::listen). Each entry counts 512 bytes more than its
    /// length. Default 0: nothing is cached.
    ///
    /// Rules: RULES 8.8.
    pub cache: usize,
    /// How long an answer may take if the [`Call`](super::Call) sets no timeout. Default 60 s.
    ///
    /// Rules: TO-01.
    pub request_timeout: Duration,
    /// The maximum time for an answer, whatever progress is made. Default 10 min.
    ///
    /// Rules: TO-03.
    pub max_timeout: Duration,
    /// The timeout of `initialize`, and of `server/discover` where [`discover_timeout`](Self::discover_timeout) does
    /// not apply. Default 30 s.
    pub initialize_timeout: Duration,
    /// How long a server on a byte stream may take to answer `server/discover` before it counts as one that begins with
    /// `initialize`. Default 10 s.
    ///
    /// Rules: ER-04.
    pub discover_timeout: Duration,
    /// Whether the driver can restart a server that has exited, when
    /// [`StdioAction::Respawn`](crate::StdioAction::Respawn) requests it. Default `false`.
    ///
    /// Rules: ER-06.
    pub respawn: bool,
    /// Whether the client tries again, with growing pauses, when the connection could not be made or the session could
    /// not be opened again. Default `false`: the application decides.
    pub reconnect: bool,
    /// Whether every request of the server is reported in a session that the application has opened with its own
    /// `initialize` ([`Opening::Initialize`](super::Opening)), for an application that forwards these requests to
    /// another client. Default `false`: the client answers `ping`, and refuses requests whose capability it did not
    /// declare.
    ///
    /// If `true`, the client also sends the parameters of the application without a check that they are an object. In a
    /// session that the client has opened with an `initialize` of its own, it answers or refuses these requests in
    /// either case, because it has stated its own capabilities.
    pub reports_all_requests: bool,
    /// The seed of the random variation of pauses. Clients should have different seeds, so that they do not all connect
    /// again at the same moment. Default 0.
    pub seed: u64,
}

impl Config {
    /// The configuration of a client with this name and version, without capabilities.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        let client_info =
            Json::empty_object().with_member("version", &Json::from(version)).with_member("name", &Json::from(name));
        Self {
            client_info,
            capabilities: Json::empty_object(),
            versions: ProtocolVersion::ALL.into(),
            known_era: None,
            limits: Limits::default(),
            cache: 0,
            request_timeout: Duration::from_secs(60),
            max_timeout: Duration::from_secs(600),
            initialize_timeout: Duration::from_secs(30),
            discover_timeout: Duration::from_secs(10),
            respawn: false,
            reconnect: false,
            reports_all_requests: false,
            seed: 0,
        }
    }

    /// Removes the revisions that are older than this one, so that neither an old server nor an attacker in between can
    /// downgrade the connection to them.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::ProtocolVersion;
    /// use mcp_proto::client::Config;
    ///
    /// let config = Config::new("my-app", "1.0.0").min_version(ProtocolVersion::V2025_06_18);
    /// let newer = [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];
    /// assert_eq!(config.versions, newer);
    /// ```
    #[must_use]
    pub fn min_version(mut self, oldest: ProtocolVersion) -> Self {
        self.versions.retain(|version| *version >= oldest);
        self
    }

    pub(crate) fn check(&self) -> Result<(), UsageError> {
        if self.versions.is_empty() {
            return Err(UsageError::NoVersion);
        }
        Ok(self.limits.check()?)
    }

    pub(super) fn newest(&self) -> Option<ProtocolVersion> {
        self.versions.iter().max().copied()
    }
}
