//! What a server is told before it serves.

use std::time::Duration;

use crate::client::Forwarding;
use crate::error::UsageError;
use crate::json::Json;
use crate::limits::Limits;
use crate::version::{Era, ProtocolVersion};

/// How a server behaves. The fields may be set one by one.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
/// use mcp_proto::server::Config;
///
/// let mut config = Config::new("my-tools", "1.0.0").with_capabilities(Json::parse(r#"{"tools":{}}"#)?);
/// config.instructions = Some("Ask for nothing else.".into());
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// `serverInfo` of the answer to `initialize` (LC-07).
    pub server_info: Json,
    /// `capabilities` of the answer to `initialize`. With `logging`, the machine answers `logging/setLevel` itself.
    pub capabilities: Json,
    /// `instructions` of the answer to `initialize`.
    pub instructions: Option<Box<str>>,
    /// The revisions that are served; the newest is offered to clients that ask for another (LC-05). Default: all that
    /// begin with `initialize`.
    pub versions: Vec<ProtocolVersion>,
    /// What the client may make this server hold.
    pub limits: Limits,
    /// How long the client may take to answer a request of this side. Default 60 s.
    pub request_timeout: Duration,
    /// How long it may take at most, however much progress is made (TO-03). Default 10 min.
    pub max_timeout: Duration,
    /// How long requests in flight are still answered after the client's stream has ended (FR15). Default 5 s.
    pub drain_timeout: Duration,
    /// Who deals with the handshake and `ping`. Default [`Forwarding::Own`].
    pub forwarding: Forwarding,
    /// Whether parameters with two members of one name anywhere are refused (JS6): a proxy and a server may read them
    /// differently. Default `true`.
    pub strict_json: bool,
}

impl Config {
    /// A server of that name and version, without capabilities.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        let server_info =
            Json::empty_object().with_member("version", &Json::from(version)).with_member("name", &Json::from(name));
        Self {
            server_info,
            capabilities: Json::empty_object(),
            instructions: None,
            versions: ProtocolVersion::ALL.into_iter().filter(|version| version.rules().era == Era::Legacy).collect(),
            limits: Limits::default(),
            request_timeout: Duration::from_secs(60),
            max_timeout: Duration::from_secs(600),
            drain_timeout: Duration::from_secs(5),
            forwarding: Forwarding::Own,
            strict_json: true,
        }
    }

    /// The same with these capabilities, such as `ServerCapabilities` of the module `model`.
    #[must_use]
    pub fn with_capabilities(self, capabilities: impl Into<Json>) -> Self {
        Self { capabilities: capabilities.into(), ..self }
    }

    pub(crate) fn check(&self) -> Result<(), UsageError> {
        if !self.server_info.is_object() || !self.capabilities.is_object() {
            return Err(UsageError::ParamsNotAnObject);
        }
        if let Some(version) = self.versions.iter().find(|version| version.rules().era != Era::Legacy) {
            return Err(UsageError::NotInRevision { what: "initialize", version: *version });
        }
        self.limits.check()
    }

    pub(crate) fn declares(&self, capability: &str) -> bool {
        self.capabilities.first_member(capability).is_some()
    }

    /// LC-04, LC-05: the revision that is asked for if it is served, else the newest that is.
    pub(crate) fn negotiate(&self, asked: &str) -> ProtocolVersion {
        let asked = ProtocolVersion::from_text(asked).filter(|version| self.versions.contains(version));
        let newest = self.versions.iter().max().copied().unwrap_or(ProtocolVersion::LATEST_LEGACY);
        asked.unwrap_or(newest)
    }

    pub(crate) fn initialize_result(&self, version: ProtocolVersion) -> Json {
        let mut result = Json::empty_object();
        if let Some(instructions) = &self.instructions {
            result = result.with_member("instructions", &Json::from(&**instructions));
        }
        result
            .with_member("serverInfo", &self.server_info)
            .with_member("capabilities", &self.capabilities)
            .with_member("protocolVersion", &Json::from(version.as_str()))
    }
}
