//! A server: the same service over stdio, any byte stream, and HTTP.
//!
//! | file | what it does |
//! |---|---|
//! | `commands` | commands of handlers to the driver |
//! | `running` | what a server and its clones share: the configuration, the streams and HTTP services |
//! | `publisher` | publishes changes to clients, from any task |
//! | `service` | the application's service, which handles requests |
//! | `incoming` | a request as its handler receives it |
//! | `requests` | requests in progress: connects the machine and the handlers |
//! | `notices` | notifications and other events for a service |
//! | `stream` | the task of a server on a byte stream |
//! | `replay` | a server whose input is known in full |
//! | `http` | the server as a service of HTTP requests |

mod commands;
#[cfg(feature = "http-server")]
mod http;
mod incoming;
mod notices;
mod publisher;
mod replay;
mod requests;
mod running;
pub(crate) mod service;
mod stream;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_application::InvalidService;
use mcp_proto::Stdio;
use mcp_proto::client::CloseReason;
use mcp_proto::machine::ClientStream;
#[cfg(feature = "http-server")]
use mcp_proto::server::SessionMode;
use mcp_proto::server::{Config, ServerTransport};
use requests::{Commands, Requests};
use running::{Running, drain};
use service::AnyService;
use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "http-server")]
pub(crate) use http::Application;
#[cfg(feature = "http-server")]
pub use http::{HttpBody, HttpService, Listener};
pub use incoming::Incoming;
pub use publisher::ServerPublisher;
pub(crate) use publisher::{Publishers, publish_to_all};
#[cfg(feature = "http-server")]
pub(crate) use requests::Accepted;
#[cfg(feature = "http-server")]
pub(crate) use running::Stage;
pub use service::Service;

use crate::byte_stream::ByteStream;
use crate::operations::{Network, Operations};
use crate::stdio::{Streams, Written};
#[cfg(feature = "http-server")]
use crate::store::{AnyStore, StoreLink};

/// A server: a [`Service`] with its configuration, for any number of clients over any transport.
///
/// # Example: a client and a server in one process
///
/// ```
/// use mcp_tokio::proto::server::Config;
/// use mcp_tokio::proto::{ErrorObject, Json};
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
    /// Why the service cannot be served.
    mistake: Option<InvalidService>,
    service: Arc<dyn AnyService>,
    running: Arc<Running>,
    operations: Operations,
    #[cfg(feature = "http-server")]
    store: Option<Arc<dyn AnyStore>>,
}

impl Server {
    /// Creates a server with this configuration.
    #[must_use]
    pub fn new(mut config: Config, service: impl Service) -> Self {
        let mistake = Service::capabilities(&service).map(|capabilities| config.add_capabilities(&capabilities)).err();
        let server = Self {
            mistake,
            service: Arc::new(service),
            running: Arc::new(Running::new(config)),
            operations: Operations::of_server(),
            #[cfg(feature = "http-server")]
            store: None,
        };
        server.service.created(server.publisher());
        server
    }

    /// Sets the store of the sessions over HTTP, for [`SessionMode::Stored`](mcp_proto::server::SessionMode::Stored). Clones
    /// that were made before do not have it.
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn store(mut self, store: impl crate::store::Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Serves the process that started this one over stdin and stdout, until stdin is closed. Nothing else may be
    /// written to stdout meanwhile.
    ///
    /// Returns why the connection has ended. After the end of stdin, pending requests have [`Config::drain_timeout`] to
    /// be answered, by default 5 s; then the client has 5 s to read the last messages.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if the configuration or the service is invalid, [`io::ErrorKind::TimedOut`] if the
    /// client does not read the last messages in time, and the system's error if a thread could not be started.
    ///
    /// Rules: ST-04.
    pub async fn serve_stdio(&self) -> io::Result<CloseReason> {
        let machine = self.machine(Stdio::new())?;
        let Streams { read, write, written } = Streams::open()?;
        self.serve_until_written(machine, read, write, Some(written)).await
    }

    /// Serves one client on a byte stream, until the client closes it. Dropping the future ends the connection, too.
    ///
    /// Returns why the connection has ended. After the end of the input, pending requests have
    /// [`Config::drain_timeout`] to be answered, by default 5 s; then the client has 5 s to read the last messages.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if the configuration or the service is invalid, [`io::ErrorKind::TimedOut`] if the
    /// client does not read the last messages in time.
    pub async fn serve_stream(
        &self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<CloseReason> {
        let machine = self.machine(Stdio::new())?;
        self.serve_until_written(machine, read, write, None).await
    }

    pub(crate) async fn serve_until_written(
        &self,
        machine: mcp_proto::Server<Stdio>,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        written: Option<Written>,
    ) -> io::Result<CloseReason> {
        // Only what is written to stdout is waited for.
        let network = if written.is_some() { Network::Pipe } else { Network::Unknown };
        let (requests, commands) = self.requests(network);
        // Without reading ahead, the end of the input of a client that reads nothing would not be detected.
        let client = ByteStream::new(ClientStream, read, write).reading_ahead();
        stream::serve(machine, requests, commands, client, written).await
    }

    /// The compiler names the feature that is missing.
    #[cfg(not(feature = "http-server"))]
    #[doc(hidden)]
    pub fn http(&self, _: impl crate::missing_feature::NeedsFeatureHttpServer) -> Result<Self, InvalidService> {
        Ok(self.clone())
    }

    /// Creates the service of HTTP requests, which can accept connections itself or be part of a router.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] if the configuration or the service is invalid, also if sessions are to be stored
    /// and there is no [`Server::store`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[cfg(feature = "http-server")]
    pub fn http(&self, http: mcp_proto::server::HttpConfig) -> Result<HttpService, InvalidService> {
        let stored = if let SessionMode::Stored(stored) = &http.sessions {
            Some((Arc::clone(self.store.as_ref().ok_or(mcp_proto::UsageError::NoStore)?), stored.clone()))
        } else {
            None
        };
        let machine = self.machine(mcp_proto::server::Http::new(http))?;
        let (requests, commands) = self.requests(Network::Http);
        let (stage, publisher) = (requests.stage(), requests.publisher());
        let store = stored.map(|(store, stored)| StoreLink::start(store, &stored));
        Ok(HttpService::start(http::Handlers::new(machine, requests, commands, store), stage, publisher))
    }

    /// Returns a handle that publishes changes to all clients of this server and of its clones, over all transports.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_tokio::model::{ServerCapabilities, ToolsCapability};
    /// use mcp_tokio::proto::server::{Config, HttpConfig};
    /// use mcp_tokio::proto::{ErrorObject, Json, Notification};
    /// use mcp_tokio::{Incoming, Server};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
    /// let capabilities = ServerCapabilities::new().tools(ToolsCapability::new().list_changed(true));
    /// let server = Server::new(Config::new("my-tools", "1.0.0").capabilities(capabilities), serve);
    /// let publisher = server.publisher();
    /// let service = server.http(HttpConfig::new())?;
    /// // For example in the task that watches a directory:
    /// publisher.publish(Notification::new("notifications/tools/list_changed")).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        ServerPublisher::of_all(&self.running)
    }

    /// Stops everything over which this server and its clones are served now, once the requests in progress are
    /// answered. Requests that are not answered after `timeout` are cancelled; returns their number. New requests are
    /// refused meanwhile ([`mcp_proto::Server::drain`]).
    ///
    /// [`Server::serve_stdio`], [`Server::serve_stream`] and [`HttpService::serve`] return after that, when the last
    /// messages were read. Wait for that before the process ends.
    ///
    /// # Example: a process that stops at a signal
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_tokio::proto::client::CloseReason;
    /// use mcp_tokio::proto::server::Config;
    /// use mcp_tokio::proto::{ErrorObject, Json};
    /// use mcp_tokio::{Incoming, Server};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
    /// let server = Server::new(Config::new("my-tools", "1.0.0"), serve);
    /// let (stream, _client) = tokio::io::duplex(1024);
    /// let (read, write) = tokio::io::split(stream);
    /// let stopping = async {
    ///     // For example after `tokio::signal::ctrl_c().await`:
    ///     server.shutdown(Duration::from_secs(30)).await
    /// };
    /// let (served, cancelled) = tokio::join!(server.serve_stream(read, write), stopping);
    /// assert_eq!((served?, cancelled), (CloseReason::Local, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, timeout: Duration) -> usize {
        drain(&self.running, timeout).await
    }

    fn requests(&self, network: Network) -> (Requests, Commands) {
        Requests::new(Arc::clone(&self.service), &self.running, self.operations.over(network))
    }

    pub(crate) fn machine<T: ServerTransport>(&self, transport: T) -> Result<mcp_proto::Server<T>, InvalidService> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        Ok(mcp_proto::Server::new(transport, self.running.config().clone())?)
    }
}

mcp_application::opaque_debug!(Server, server => config: server.running.config());
