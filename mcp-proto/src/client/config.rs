//! The configuration of a client, and the calls that it makes.

use std::time::Duration;

use super::detected_era::DetectedEra;
use crate::codec::json::Json;
use crate::error::UsageError;
use crate::limits::Limits;
use crate::spec::Method;
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
    /// `clientInfo` of `initialize`, or of every request (LC-02, RULES 8.1).
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
    /// offered (LC-03).
    pub versions: Vec<ProtocolVersion>,
    /// The server's era, if it is known already. Default `None`.
    pub known_era: Option<DetectedEra>,
    /// Limits on what the server can make this client hold.
    pub limits: Limits,
    /// How long an answer may take if the [`Call`] sets no timeout (TO-01). Default 60 s.
    pub request_timeout: Duration,
    /// The maximum time for an answer, whatever progress is made (TO-03). Default 10 min.
    pub max_timeout: Duration,
    /// The timeout of `initialize`, and of `server/discover` where [`discover_timeout`](Self::discover_timeout) does
    /// not apply. Default 30 s.
    pub initialize_timeout: Duration,
    /// How long a server on a byte stream may take to answer `server/discover` before it counts as one that begins with
    /// `initialize` (ER-04). Default 10 s.
    pub discover_timeout: Duration,
    /// Whether the driver can restart a server that has exited, when
    /// [`StdioAction::Respawn`](crate::StdioAction::Respawn) requests it (ER-06). Default `false`.
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
        self.limits.check()
    }

    pub(super) fn newest(&self) -> Option<ProtocolVersion> {
        self.versions.iter().max().copied()
    }
}

/// A request to be made with [`Client::request`](crate::Client::request), or by a server with
/// [`Server::request`](crate::Server::request).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::Json;
/// use mcp_proto::client::Call;
///
/// let call = Call::new("tools/call")
///     .params(Json::parse(r#"{"name":"echo","arguments":{"text":"hi"}}"#)?)
///     .timeout(Duration::from_secs(5))
///     .with_progress();
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub(crate) method: Method,
    pub(crate) params: Option<Json>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) progress: bool,
    pub(crate) is_unchanged: bool,
}

impl Call {
    /// A request without parameters.
    #[must_use]
    pub fn new(method: impl Into<Method>) -> Self {
        Self { method: method.into(), params: None, timeout: None, progress: false, is_unchanged: false }
    }

    /// The method of the request.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// Sets the parameters. The machine may add members to them, such as `_meta`, and sends all others unchanged.
    #[must_use]
    pub fn params(mut self, params: impl Into<Json>) -> Self {
        self.params = Some(params.into());
        self
    }

    /// Sets the timeout of this request, which replaces the configured one.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Requests progress: a token is added to the parameters, unless they have one already (PR-01).
    #[must_use]
    pub const fn with_progress(mut self) -> Self {
        self.progress = true;
        self
    }

    /// Passes the request through: a client sends the parameters as they are, and reports the answer as it was
    /// received. This has no effect on a request of a server.
    ///
    /// The client adds no `_meta` to the parameters and does not check that they are an object. It does not interpret
    /// the result or error: a modern `input_required` result and an error about an unsupported revision are outcomes of
    /// the request. On a connection of the modern era, `subscriptions/listen` is a request like any other in this case.
    /// This is for an application that forwards the requests of another client, which supplies all this and reads the
    /// answers itself.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::{Call, Client, Config, Opening};
    /// use mcp_proto::{Instant, Json, Output, ProtocolVersion, Stdio, StdioAction};
    ///
    /// let now = Instant::START;
    /// let mut config = Config::new("my-gateway", "1.0.0");
    /// config.versions = vec![ProtocolVersion::V2026_07_28];
    /// let mut client = Client::new(Stdio::new(), config)?;
    /// client.connect_with(Opening::Discover(Json::parse("{}").unwrap()), now)?;
    /// client.poll_output();
    /// client.handle_bytes(
    ///     br#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#,
    ///     now,
    /// );
    /// client.handle_bytes(b"\n", now);
    /// client.poll_output(); // `Event::Connected`
    ///
    /// client.request(Call::new("tools/list").params(Json::parse(r#"{"_meta":{"a":1}}"#).unwrap()).unchanged(), now)?;
    /// let Some(Output::Action(StdioAction::Write(line))) = client.poll_output() else { panic!() };
    /// assert_eq!(&line[..], b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{\"_meta\":{\"a\":1}}}\n");
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    #[must_use]
    pub const fn unchanged(mut self) -> Self {
        self.is_unchanged = true;
        self
    }
}
