//! The configuration of an aggregate.

use std::fmt;
use std::time::Duration;

use mcp_proto::{Json, Method, UsageError};

use crate::relay;
use crate::relay::Filter;

/// The configuration of an aggregate. Each field may be set separately.
///
/// # Example
///
/// ```
/// use mcp_intermediary::aggregate::{Config, Prefix};
/// use mcp_intermediary::relay;
///
/// let mut config = Config::new("my-tools", "1.0.0")
///     .server("files", relay::Config::default())
///     .server("mail", relay::Config::default());
/// assert_eq!(config.servers[1].prefix, Prefix::ServerName, "its tools are called `mail__NAME`");
/// config.servers[0].prefix = Prefix::Off;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The servers, in the order of their items in lists. There are at most
    /// [`Limits::backends`](mcp_proto::Limits::backends).
    pub servers: Vec<ServerConfig>,
    /// Clients see `search_tools` and `call_tool` in the place of the tools, and of these only the ones whose names this
    /// filter allows, and those that only pages of MCP Apps call. These, and others that are not for a language model, are
    /// neither found nor called with the two tools. A call of any other tool by its name works, too. Default `None`: all
    /// tools are listed.
    pub lazy_tools: Option<Filter>,
    /// `serverInfo` of the aggregate: an object.
    pub server_info: Json,
    /// The limits and times that apply to the client, and the limits on what the aggregate holds itself.
    pub relay: relay::Config,
    /// How long the client waits for one server, when all are opened and when lists are composed. The items of a server that
    /// has not answered are left out, and the client is notified when there are some. From then on, it does not wait for
    /// this server until that was in time again. Default 5 s.
    pub server_timeout: Duration,
    /// Whether several clients use the connection, such as that of a gateway with
    /// [`Sharing::Shared`](crate::gateway::Sharing::Shared). A message that a server sends outside of a call is then
    /// passed on only if it cannot belong to a call that has ended without an answer. Default `false`.
    pub is_shared: bool,
    /// A random number that clients do not know. It is necessary if the client is a gateway that passes requests of
    /// several clients on: only the client that was asked for input can then continue the call. Default 0: there is one
    /// client.
    pub secret: u128,
}

/// One server of an aggregate.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The name of the server. The names of its tools and prompts are made from it, and errors contain it.
    pub name: Box<str>,
    /// The limits and times that apply to the server, the revisions that may be used with it, and what else a relay to
    /// this server alone would have. `respawn` has no effect: the aggregate starts servers itself.
    pub relay: relay::Config,
    /// The requests that the server did not answer in time in an earlier aggregate ([`Event::Late`](super::Event::Late)):
    /// the client does not wait for it again.
    pub late: Vec<Method>,
    /// What the names of its tools and prompts begin with. Default [`Prefix::ServerName`].
    pub prefix: Prefix,
}

impl ServerConfig {
    pub(super) fn new(name: &str, relay: relay::Config) -> Self {
        Self { name: name.into(), relay, late: Vec::new(), prefix: Prefix::ServerName }
    }
}

/// What the names of the tools and prompts of a server begin with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Prefix {
    /// The name of the server, without characters that names of tools must not have: `SERVER__NAME`.
    #[default]
    ServerName,
    /// This text: `TEXT__NAME`. It has 1 to 24 ASCII letters, digits, hyphens and underscores, of which no two follow each
    /// other, and does not end with one.
    Text(Box<str>),
    /// Nothing: `NAME`. A name that several servers without a prefix list belongs to the first of them in
    /// [`Config::servers`], and is left out of the lists of the others; so is a name that begins with the prefix of another
    /// server. Until all earlier servers without a prefix have listed theirs, the names are those of
    /// [`Prefix::ServerName`].
    Off,
}

/// Omits the secret.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("servers", &self.servers)
            .field("lazy_tools", &self.lazy_tools)
            .field("server_info", &self.server_info)
            .field("relay", &self.relay)
            .field("server_timeout", &self.server_timeout)
            .field("is_shared", &self.is_shared)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// An aggregate with this name and version, without servers.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        let server_info = Json::empty_object().with_members(&[("name", &name.into()), ("version", &version.into())]);
        Self {
            servers: Vec::new(),
            lazy_tools: None,
            server_info,
            relay: relay::Config::default(),
            server_timeout: Duration::from_secs(5),
            is_shared: false,
            secret: 0,
        }
    }

    /// Adds a server.
    #[must_use]
    pub fn server(mut self, name: &str, relay: relay::Config) -> Self {
        self.servers.push(ServerConfig::new(name, relay));
        self
    }

    /// Checks what only an aggregate requires.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        let limit = self.relay.limits.backends;
        if self.servers.len() > limit {
            return Err(UsageError::TooManyServers { limit });
        }
        Ok(())
    }
}
