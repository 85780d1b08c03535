//! A gateway: serves clients over HTTP by processes of a server that speaks on a byte stream.
//!
//! | file | what it does |
//! |---|---|
//! | `backend` | the kinds of backends, and how each is started |
//! | `task` | the task of one backend: its stream, and the end of its process |
//! | `backends` | connects the machine and these tasks |
//! | `monitor` | what a gateway holds, for the application |

mod backend;
mod backends;
mod monitor;
mod task;

use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use backends::Backends;
use mcp_intermediary::gateway::Config;
use mcp_proto::UsageError;
use mcp_proto::server::Principal;

pub use backend::Backend;
pub use monitor::{GatewayMonitor, GatewayStatus};

use crate::server::HttpService;

/// Starts a backend for a client.
type Start = dyn Fn(Option<Principal>) -> Starting + Send + Sync;
type Starting = Pin<Box<dyn Future<Output = io::Result<Backend>> + Send>>;

/// Serves clients over HTTP by a server that speaks on a byte stream, such as one that is made for stdio. By default, each
/// session has a process of its own; [`Config::sharing`] changes that. Clients and server may use different protocol
/// revisions.
///
/// # Example: a server for stdio, over HTTP
///
/// ```no_run
/// use mcp_tokio::intermediary::gateway::Config;
/// use mcp_tokio::{Backend, Gateway};
/// use tokio::net::TcpListener;
/// use tokio::process::Command;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let gateway = Gateway::new(Config::default(), async |_| {
///     let mut command = Command::new("npx");
///     command.args(["-y", "@modelcontextprotocol/server-everything"]);
///     Ok(Backend::child(command))
/// });
/// gateway.http()?.serve(TcpListener::bind("127.0.0.1:3000").await?).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Example: each authenticated client has its own environment
///
/// ```
/// use http::header::AUTHORIZATION;
/// use mcp_tokio::proto::auth::Challenge;
/// use mcp_tokio::intermediary::gateway::{Config, Sharing};
/// use mcp_tokio::proto::server::Principal;
/// use mcp_tokio::{Backend, Gateway};
/// use tokio::process::Command;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_tokio::proto::UsageError> {
/// let mut config = Config::default();
/// config.sharing = Sharing::PerPrincipal;
/// config.relay.limits.backends = 20;
/// let gateway = Gateway::new(config, async |principal: Option<Principal>| {
///     let mut command = Command::new("my-server");
///     command.envs(principal.map(|principal| ("MY_USER", principal.as_str().to_owned())));
///     Ok(Backend::child(command))
/// });
/// let service = gateway.http()?.authenticate(|head| {
///     let is_ada = head.headers.get(AUTHORIZATION).is_some_and(|value| value == "Bearer the-token-of-ada");
///     async move { if is_ada { Ok(Principal::new("ada")) } else { Err(Challenge::bearer()) } }
/// });
/// let app: axum::Router = axum::Router::new().route_service("/mcp", service.clone());
/// assert_eq!(service.monitor().status().await.unwrap().backends, 0, "no client has opened a session");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gateway {
    config: Config,
    start: Arc<Start>,
    log_stderr: bool,
}

impl Gateway {
    /// Creates a gateway. `start` returns a new backend for a client, with the principal of the client if there is only one
    /// and it is known. An error is logged, and the client receives one.
    ///
    /// The future of `start` is dropped if the client ends before, or after [`initialize_timeout`].
    ///
    /// [`initialize_timeout`]: mcp_intermediary::relay::Config::initialize_timeout
    pub fn new<R>(config: Config, start: impl Fn(Option<Principal>) -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = io::Result<Backend>> + Send + 'static,
    {
        Self { config, start: Arc::new(move |principal| Box::pin(start(principal))), log_stderr: false }
    }

    /// Logs the stderr of child processes: each line as an event of level info with the target `mcp_tokio::stderr`, in the
    /// span of its backend. Without this, they inherit the stderr of this process, unless their command sets another.
    #[must_use]
    pub fn log_stderr(mut self) -> Self {
        self.log_stderr = true;
        self
    }

    /// Creates the service of HTTP requests, which can accept connections itself or be part of a router. Each call creates
    /// a gateway with sessions and backends of its own.
    ///
    /// [`HttpService::shutdown`] and [`HttpService::close`] return when all backends have ended. If all clones of the
    /// service are dropped, backends are ended in the background, and killed if the runtime ends before that is done.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn http(self) -> Result<HttpService<GatewayMonitor>, UsageError> {
        let machine = mcp_intermediary::gateway::Gateway::new(self.config)?;
        let backends = Backends::new(machine, self.start, self.log_stderr);
        let (stage, monitor) = (backends.stage(), backends.monitor());
        Ok(HttpService::start(backends, stage, monitor))
    }
}

/// Omits the function that starts backends, which may contain credentials.
impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("sharing", &self.config.sharing)
            .field("log_stderr", &self.log_stderr)
            .finish_non_exhaustive()
    }
}
