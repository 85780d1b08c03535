//! A server: the same service over stdio, any byte stream, and HTTP.
//!
//! | file | what it does |
//! |---|---|
//! | `commands` | commands of handlers to the driver |
//! | `service` | the application's service, which handles requests |
//! | `incoming` | a request as its handler receives it |
//! | `requests` | requests in progress: connects the machine and the handlers |
//! | `notices` | notifications and other events for a service |
//! | `stream` | the task of a server on a byte stream |
//! | `http` | the server as a service of HTTP requests |
//! | `http/driver` | the task that owns the machine of an HTTP server |
//! | `http/body` | bodies of responses |
//! | `http/listener` | accepts the connections of a server |
//! | `http/connection` | one connection |

mod commands;
#[cfg(feature = "http-server")]
mod http;
mod incoming;
mod notices;
mod requests;
mod service;
mod stream;

use std::fmt;
use std::sync::Arc;

use mcp_proto::client::CloseReason;
use mcp_proto::server::Config;
use mcp_proto::{Stdio, UsageError};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lines::FLUSH;
use crate::stdio::Streams;
use requests::Requests;
use service::AnyService;

#[cfg(feature = "http-server")]
pub use http::{HttpBody, HttpService};
pub use incoming::{Incoming, ServerPublisher};
pub use service::Service;

/// A server: a [`Service`] with its configuration, for any number of clients over any transport.
///
/// # Example: a client and a server in one process
///
/// ```
/// use mcp_proto::server::Config;
/// use mcp_proto::{ErrorObject, Json};
/// use mcp_tokio::{Client, Incoming, Server};
///
/// async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
///     Ok(Json::from(incoming.method().as_str()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_tokio::Error> {
/// let (ours, theirs) = tokio::io::duplex(64 * 1024);
/// tokio::spawn(async move {
///     let (read, write) = tokio::io::split(theirs);
///     Server::new(Config::new("my-tools", "1.0.0"), serve).serve_stream(read, write).await
/// });
/// let (read, write) = tokio::io::split(ours);
/// let client = Client::builder().stream(read, write).connect().await?;
/// assert_eq!(client.request("hello", None).await?, Json::from("hello"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server {
    config: Config,
    service: Arc<dyn AnyService>,
}

impl Server {
    /// Creates a server with this configuration.
    #[must_use]
    pub fn new(config: Config, service: impl Service) -> Self {
        Self { config, service: Arc::new(service) }
    }

    /// Serves the process that started this one over stdin and stdout, until stdin is closed. Nothing else may be
    /// written to stdout meanwhile (ST-04).
    ///
    /// Returns why the connection has ended. After the end of stdin, pending requests have [`Config::drain_timeout`] to
    /// be answered, by default 5 s; then the client has 2 s to read the last messages.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub async fn serve_stdio(&self) -> Result<CloseReason, UsageError> {
        let streams = match Streams::open() {
            Ok(streams) => streams,
            Err(error) => {
                tracing::error!(%error, "no thread for stdin and stdout could be started");
                return Ok(CloseReason::Local);
            }
        };
        let reason = self.serve_stream(streams.read, streams.write).await?;
        let _ = tokio::time::timeout(FLUSH, streams.written).await;
        Ok(reason)
    }

    /// Serves one client on a byte stream, until the client closes it. Dropping the future ends the connection, too.
    ///
    /// Returns why the connection has ended. After the end of the input, pending requests have
    /// [`Config::drain_timeout`] to be answered, by default 5 s; then the client has 1 s to read the last messages.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub async fn serve_stream(
        &self,
        read: impl AsyncRead + Unpin,
        write: impl AsyncWrite + Unpin,
    ) -> Result<CloseReason, UsageError> {
        let machine = mcp_proto::Server::new(Stdio::new(), self.config.clone())?;
        let (requests, commands) = Requests::new(Arc::clone(&self.service));
        Ok(stream::serve(machine, requests, commands, read, write).await)
    }

    /// Creates the service of HTTP requests, which can accept connections itself or be part of a router.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[cfg(feature = "http-server")]
    pub fn http(&self, http: mcp_proto::server::HttpConfig) -> Result<HttpService, UsageError> {
        let machine = mcp_proto::Server::new(mcp_proto::server::Http::new(http), self.config.clone())?;
        let (requests, commands) = Requests::new(Arc::clone(&self.service));
        Ok(HttpService::start(machine, requests, commands))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}
