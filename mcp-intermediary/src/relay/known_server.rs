//! What a server has stated about itself, stored for its next start.

use mcp_proto::spec::meta::SERVER_INFO;
use mcp_proto::{Json, ProtocolVersion};

use super::convert;

/// What a server has stated about itself earlier: the result of `initialize` or `server/discover`, as
/// [`Event::Connected`](super::Event::Connected) reports it.
///
/// # Example
///
/// ```
/// use mcp_intermediary::relay::KnownServer;
/// use mcp_proto::{Json, ProtocolVersion};
///
/// let result = Json::parse(r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#).unwrap();
/// let server = KnownServer::new(ProtocolVersion::V2025_11_25, result);
/// assert_eq!(KnownServer::parse(server.to_text().as_bytes()), Some(server));
/// assert_eq!(KnownServer::parse(b"{}"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownServer {
    version: ProtocolVersion,
    result: Json,
}

impl KnownServer {
    /// A server that has answered in this revision with this result.
    #[must_use]
    pub const fn new(version: ProtocolVersion, result: Json) -> Self {
        Self { version, result }
    }

    /// The text under which it can be stored.
    #[must_use]
    pub fn to_text(&self) -> String {
        let stored = Json::empty_object().with_member("result", &self.result);
        stored.with_member("version", &Json::from(self.version.as_str())).to_text().into_owned()
    }

    /// Reads a stored text; `None` if it is not one.
    #[must_use]
    pub fn parse(stored: &[u8]) -> Option<Self> {
        let stored = Json::parse(stored.to_vec()).ok()?;
        let [version, result] = stored.first_members(["version", "result"]);
        let version = ProtocolVersion::from_text(&version?.as_string()?)?;
        Some(Self { version, result: result.filter(Json::is_object)? })
    }

    /// The result of `initialize` that the server would give to a legacy client that has asked for this revision.
    pub(super) fn to_legacy(&self, asked: &Json) -> Json {
        if !self.version.is_stateless() {
            return self.result.clone();
        }
        let [capabilities, instructions, meta] = self.result.first_members(["capabilities", "instructions", "_meta"]);
        let capabilities = capabilities.filter(Json::is_object).unwrap_or(Json::empty_object());
        let server_info = meta.and_then(|meta| meta.first_member(SERVER_INFO)).filter(Json::is_object);
        let mut result = Json::empty_object().with_member("protocolVersion", asked);
        result = result.with_member("capabilities", &capabilities.without_members(&["extensions"]));
        result = result.with_member("serverInfo", &server_info.unwrap_or_else(convert::unknown));
        match instructions {
            Some(instructions) => result.with_member("instructions", &instructions),
            None => result,
        }
    }
}
