//! The configuration of a server.

use std::time::Duration;

use crate::error::UsageError;
use crate::json::Json;
use crate::limits::Limits;
use crate::server::setters::setters;
use crate::spec::{CacheScope, ProtocolVersion, capability};

/// The configuration of a server. Each field may be set as such, or by the method of its name.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
/// use mcp_proto::server::Config;
///
/// let config = Config::new("my-tools", "1.0.0")
///     .capabilities(Json::parse(r#"{"tools":{}}"#)?)
///     .instructions("Ask for nothing else.");
/// assert_eq!(config.instructions.as_deref(), Some("Ask for nothing else."));
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Config {
    /// `serverInfo` of the answer to `initialize`, and of every result since 2026-07-28.
    ///
    /// Rules: LC-07.
    pub server_info: Json,
    /// Whether results since 2026-07-28 contain `server_info` in `_meta`. Default `true`.
    ///
    /// Rules: RULES 8.1.
    pub names_itself: bool,
    /// `capabilities` of the answers to `initialize` and `server/discover`. With `logging`, the machine answers
    /// `logging/setLevel` itself, and with `resources.subscribe`, `resources/subscribe` and `resources/unsubscribe`
    /// ([`Server::poll_subscription`](super::Server::poll_subscription)).
    pub capabilities: Json,
    /// Whether `resources/subscribe` and `resources/unsubscribe` are reported as
    /// [`Event::Requested`](super::Event::Requested) instead, for an application that refuses some of them. They take
    /// effect when they are answered with a result. Default `false`.
    pub reports_subscribe: bool,
    /// Whether each request that was reported as [`Event::Requested`](super::Event::Requested) is reported once more when
    /// it has ended, as [`Event::RequestEnded`](super::Event::RequestEnded). Default `false`.
    pub reports_ended_requests: bool,
    /// Whether a `subscriptions/listen` that names resources is acknowledged only by
    /// [`Server::acknowledge_listens`](super::Server::acknowledge_listens), for a proxy. It must first subscribe to
    /// them at another server, because an acknowledged filter is in effect. Default `false`.
    ///
    /// Rules: MD-L-02.
    pub manual_acknowledgement: bool,
    /// `instructions` of the answers to `initialize` and `server/discover`.
    pub instructions: Option<Box<str>>,
    /// The served revisions, of one era or of both. The newest one with `initialize` is offered to clients that request
    /// another one. Default: all.
    ///
    /// Rules: ER-40, LC-05.
    pub versions: Vec<ProtocolVersion>,
    /// How long clients may cache lists and resources, unless a result has its own `ttlMs`. Default zero: not at all.
    ///
    /// Rules: MD-K-01.
    pub cache_ttl: Duration,
    /// Who may use the cached results, unless a result has its own `cacheScope`. Default [`CacheScope::Private`].
    pub cache_scope: CacheScope,
    /// Limits on what clients can make this server store.
    pub limits: Limits,
    /// How long the client may take to answer a request of this server. Default 60 s.
    pub request_timeout: Duration,
    /// The maximum time for an answer of the client, whatever progress is made. Default 10 min.
    ///
    /// Rules: TO-03.
    pub max_timeout: Duration,
    /// How long requests in flight may still be answered after the client's stream has ended. Default 5 s.
    ///
    /// Rules: FR15.
    pub drain_timeout: Duration,
    /// Whether parameters with duplicate keys at any depth are refused, because a proxy and a server may read them
    /// differently. Default `true`.
    ///
    /// Rules: JS6.
    pub strict_json: bool,
}

setters! { Config:
    server_info(impl Into<Json>),
    names_itself(bool),
    capabilities(impl Into<Json>),
    reports_subscribe(bool),
    reports_ended_requests(bool),
    manual_acknowledgement(bool),
    instructions(impl Into<Box<str>>) => Some,
    versions(impl Into<Vec<ProtocolVersion>>),
    cache_ttl(Duration),
    cache_scope(CacheScope),
    limits(Limits),
    request_timeout(Duration),
    max_timeout(Duration),
    drain_timeout(Duration),
    strict_json(bool),
}

impl Config {
    /// Creates the configuration of a server with this name and version, without capabilities.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        let server_info =
            Json::empty_object().with_member("version", &Json::from(version)).with_member("name", &Json::from(name));
        Self {
            server_info,
            names_itself: true,
            capabilities: Json::empty_object(),
            reports_subscribe: false,
            reports_ended_requests: false,
            manual_acknowledgement: false,
            instructions: None,
            versions: ProtocolVersion::ALL.into(),
            cache_ttl: Duration::ZERO,
            cache_scope: CacheScope::Private,
            limits: Limits::default(),
            request_timeout: Duration::from_secs(60),
            max_timeout: Duration::from_secs(600),
            drain_timeout: Duration::from_secs(5),
            strict_json: true,
        }
    }

    /// Adds the capabilities that are not declared yet, such as those of the service.
    pub fn add_capabilities(&mut self, capabilities: &Json) {
        self.capabilities = self.capabilities.with_missing_members(capabilities);
    }

    /// Checks that a capability is declared, or an extension, by its name.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if it is not.
    pub fn check_declared(&self, capability: &'static str) -> Result<(), UsageError> {
        if capability::is_declared(&self.capabilities, capability) {
            Ok(())
        } else {
            Err(UsageError::NotDeclared { capability })
        }
    }

    pub(crate) fn check(&self) -> Result<(), UsageError> {
        for (value, what) in [(&self.server_info, "server_info"), (&self.capabilities, "capabilities")] {
            if !value.is_object() {
                return Err(UsageError::NotAnObject { what });
            }
        }
        Ok(self.limits.check()?)
    }

    /// The revisions that are served. If `versions` is empty, this is the newest one that has sessions.
    pub(crate) fn supported(&self) -> &[ProtocolVersion] {
        match &*self.versions {
            [] => &[ProtocolVersion::LATEST_LEGACY],
            versions => versions,
        }
    }

    /// Whether sessions are served, which begin with `initialize`.
    pub(crate) fn serves_sessions(&self) -> bool {
        !self.supported().iter().all(|version| version.is_stateless())
    }

    pub(crate) fn serves_stateless(&self) -> bool {
        self.supported().iter().any(|version| version.is_stateless())
    }

    pub(crate) fn declares(&self, capability: &str) -> bool {
        self.capabilities.first_member(capability).is_some()
    }

    /// Whether a capability is declared with this flag set to true, such as `subscribe` of `resources`.
    pub(crate) fn declares_flag(&self, capability: &str, flag: &str) -> bool {
        let flag = self.capabilities.first_member(capability).and_then(|capability| capability.first_member(flag));
        flag.is_some_and(|flag| flag.as_bytes() == b"true")
    }

    /// The requested revision if it is served (LC-04), else the newest served one (LC-05), never one of the modern era
    /// (ER-46).
    pub(crate) fn negotiate(&self, asked: &str) -> ProtocolVersion {
        let sessions = || self.supported().iter().copied().filter(|version| !version.is_stateless());
        let asked = ProtocolVersion::from_text(asked).filter(|asked| sessions().any(|version| version == *asked));
        let newest = sessions().max().unwrap_or(ProtocolVersion::LATEST_LEGACY);
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

/// Which requests of its clients a server answers by itself.
#[derive(Debug)]
pub(super) enum Handling {
    /// None: all are reported.
    PassThrough(Config),
    /// Those of the protocol.
    Serving(Config),
}

impl Handling {
    pub(super) const fn config(&self) -> &Config {
        match self {
            Self::PassThrough(config) | Self::Serving(config) => config,
        }
    }

    pub(super) const fn config_mut(&mut self) -> &mut Config {
        match self {
            Self::PassThrough(config) | Self::Serving(config) => config,
        }
    }

    /// The configuration of a server that answers the requests of the protocol by itself.
    pub(super) const fn serving(&self) -> Option<&Config> {
        match self {
            Self::PassThrough(_) => None,
            Self::Serving(config) => Some(config),
        }
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
            assert!(matches!(config.check(), Err(UsageError::NotAnObject { .. })));
        }
    }
}
