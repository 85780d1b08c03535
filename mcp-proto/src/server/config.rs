//! What a server is told before it serves.

use std::time::Duration;

use super::era::CacheScope;
use crate::client::Forwarding;
use crate::codec::json::Json;
use crate::error::UsageError;
use crate::limits::Limits;
use crate::spec::{Era, ProtocolVersion};

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
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Config {
    /// `serverInfo` of the answer to `initialize` (LC-07), and of every result since 2026-07-28.
    pub server_info: Json,
    /// Whether results say who the server is (RULES 8.1). Default `true`.
    pub names_itself: bool,
    /// `capabilities` of the answers to `initialize` and `server/discover`. With `logging`, the machine answers
    /// `logging/setLevel` itself, and with `resources.subscribe`, `resources/subscribe` and `resources/unsubscribe`
    /// ([`Server::poll_subscription`](super::Server::poll_subscription)).
    pub capabilities: Json,
    /// Whether `resources/subscribe` and `resources/unsubscribe` come as [`Event::Requested`](super::Event::Requested)
    /// instead, for an application that refuses some: they take effect when they are answered with a result. Default `false`.
    pub hands_up_subscribe: bool,
    /// Whether a `subscriptions/listen` that names resources is acknowledged only when the relay says so: what is
    /// acknowledged is in effect, and the server behind the relay has to be asked first (BR-M-09).
    pub(crate) holds_acknowledgements: bool,
    /// `instructions` of the answers to `initialize` and `server/discover`.
    pub instructions: Option<Box<str>>,
    /// The revisions that are served, of one era or of both (ER-40). The newest that begins with `initialize` is offered
    /// to clients that ask for another (LC-05). Default: all.
    pub versions: Vec<ProtocolVersion>,
    /// How long clients may keep lists and resources, unless a result says so itself with `ttlMs` (MD-K-01). Default: not
    /// at all.
    pub cache_ttl: Duration,
    /// Who may keep them, unless a result says so itself with `cacheScope`. Default [`CacheScope::Private`].
    pub cache_scope: CacheScope,
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
            names_itself: true,
            capabilities: Json::empty_object(),
            hands_up_subscribe: false,
            holds_acknowledgements: false,
            instructions: None,
            versions: ProtocolVersion::ALL.into(),
            cache_ttl: Duration::ZERO,
            cache_scope: CacheScope::Private,
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
        self.limits.check()
    }

    /// Whether any revision of this era is served. Without a single one, the newest of the legacy era is.
    pub(crate) fn serves(&self, era: Era) -> bool {
        match era {
            Era::Modern => self.versions.iter().any(|version| version.rules().era == Era::Modern),
            Era::Legacy => {
                self.versions.is_empty() || self.versions.iter().any(|version| version.rules().era == Era::Legacy)
            }
        }
    }

    pub(crate) fn declares(&self, capability: &str) -> bool {
        self.capabilities.first_member(capability).is_some()
    }

    /// Whether a capability is declared with this flag, as `subscribe` of `resources` is.
    pub(crate) fn declares_flag(&self, capability: &str, flag: &str) -> bool {
        let flag = self.capabilities.first_member(capability).and_then(|capability| capability.first_member(flag));
        flag.is_some_and(|flag| flag.as_bytes() == b"true")
    }

    /// LC-04, LC-05: the revision that is asked for if it is served, else the newest that is. ER-46: never one of the
    /// other era.
    pub(crate) fn negotiate(&self, asked: &str) -> ProtocolVersion {
        let legacy = || self.versions.iter().copied().filter(|version| version.rules().era == Era::Legacy);
        let asked = ProtocolVersion::from_text(asked).filter(|asked| legacy().any(|version| version == *asked));
        let newest = legacy().max().unwrap_or(ProtocolVersion::LATEST_LEGACY);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_is_refused_when_the_server_is_made() {
        let text = || Json::from("text");
        for change in [
            |config: &mut Config, json| config.server_info = json,
            |config: &mut Config, json| config.capabilities = json,
        ] {
            let mut config = Config::new("s", "1");
            assert_eq!(config.check(), Ok(()));
            change(&mut config, text());
            assert_eq!(config.check(), Err(UsageError::ParamsNotAnObject));
        }
    }
}
