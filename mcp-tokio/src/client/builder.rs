//! The configuration of a client, before it connects.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "http-client")]
use mcp_proto::Limits;
use mcp_proto::client::{self as proto, ClientTransport, Config, HttpTransport};
use mcp_proto::machine::ServerStream;
use mcp_proto::{Json, ProtocolVersion, Stdio, UsageError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, Span};

use super::driver::Driver;
use super::handler::AnyHandler;
use super::{Client, Error, Handler};
use crate::byte_stream::ByteStream;
use crate::child;
#[cfg(feature = "http-client")]
use crate::http_client::{Exchanges, Http};
use crate::link::Feed;

/// The capacity of the channel for commands to the task.
const COMMANDS: usize = 64;

/// Configures a [`Client`] and connects it.
///
/// It connects over a byte stream or to a child process. [`Builder::http`] converts it into a builder for a server over
/// HTTP, which has a URL and headers instead.
#[must_use = "a client that is not connected does nothing"]
pub struct Builder<T = Stdio> {
    config: Config,
    handler: Arc<dyn AnyHandler>,
    transport: T,
    log_stderr: bool,
}

impl<T> Builder<T> {
    /// Sets the name and the version of the application that are sent to the server.
    pub fn name(mut self, name: &str, version: &str) -> Self {
        self.config.client_info = Config::new(name, version).client_info;
        self
    }

    /// Declares what the server may request, as the object `capabilities` of `initialize`.
    pub fn capabilities(mut self, capabilities: impl Into<Json>) -> Self {
        self.config.capabilities = capabilities.into();
        self
    }

    /// Sets the handler for the server's notifications and requests.
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Sets how long an answer may take.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// Sets the revisions that may be used. If 2026-07-28 is among them, the client first detects the era of the
    /// server. Otherwise the connection begins with `initialize`, which is the default.
    ///
    /// # Example: every revision
    ///
    /// ```
    /// use mcp_proto::ProtocolVersion;
    ///
    /// let builder = mcp_tokio::Client::builder().versions(ProtocolVersion::ALL.iter().copied());
    /// ```
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        self.config.versions = versions.into_iter().collect();
        self
    }

    /// Changes the configuration of the machine, for settings without a method of their own.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        let mut config = Config::new("mcp-tokio", env!("CARGO_PKG_VERSION"));
        // A `RandomState` contains random keys from the operating system.
        config.seed = RandomState::new().build_hasher().finish();
        Self { config, handler: Arc::new(()), transport: Stdio::new(), log_stderr: false }
    }

    /// Selects a server over HTTP. The client detects which of the two HTTP transports the server has.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the URL is invalid.
    #[cfg(feature = "http-client")]
    pub fn http(self, url: &str) -> Result<Builder<Http>, Error> {
        let Self { mut config, handler, log_stderr, .. } = self;
        config.reconnect = true;
        Ok(Builder { config, handler, transport: Http::new(url)?, log_stderr })
    }

    /// Logs the stderr of a child process, line by line, as [`tracing`] events of the target `mcp_tokio::stderr`. Long
    /// lines are truncated.
    pub fn log_stderr(mut self) -> Self {
        self.log_stderr = true;
        self
    }

    /// Connects over a pair of byte streams, and waits until the server has answered.
    ///
    /// Any byte stream is possible (ST-23): a socket, one half of [`tokio::io::duplex`] with a server in the same
    /// process at the other, or, for a program that was started by its server, this process's own stdin and stdout.
    ///
    /// # Example: own stdio
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), mcp_tokio::Error> {
    /// let client = mcp_tokio::Client::builder().connect(tokio::io::stdin(), tokio::io::stdout()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer, [`Error::Usage`]
    /// if the configuration is invalid.
    pub async fn connect(
        self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Client, Error> {
        let span = tracing::info_span!("mcp_client");
        let link = ByteStream::new(ServerStream, read, write);
        self.connect_with(link, |_| None, "the server".to_owned(), span).await
    }

    /// Starts a server as a child process, and connects over its stdin and stdout. It inherits the stderr of this
    /// process, unless the command sets another or [`Builder::log_stderr`] was called.
    ///
    /// At the end its stdin is closed. A server that still runs after two seconds receives SIGTERM, and is killed after
    /// two more (ST-17, ST-18). On Unix it leads its own process group, and signals are sent to the whole group: Ctrl-C
    /// in a terminal does not reach it, but its stdin is closed when this process ends. On other systems it is killed
    /// after the first two seconds, and processes that it has started itself are not.
    ///
    /// A server that exits when its era is detected is restarted once (ER-06).
    ///
    /// The server is ended in the background when the last clone of the client is dropped, and killed if the runtime
    /// ends before that is done; [`Client::close`] waits for its exit.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if it could not be started, [`Error::Exited`] if it exited before it answered, otherwise those
    /// of [`Builder::connect`].
    pub async fn spawn(mut self, mut command: Command) -> Result<Client, Error> {
        let span = tracing::info_span!("mcp_client", program = ?command.as_std().get_program());
        let log_stderr = self.log_stderr;
        self.config.respawn = true;
        let link = span.in_scope(|| ByteStream::start(ServerStream, move || child::start(&mut command, log_stderr)));
        let link = link.map_err(Error::Start)?;
        self.connect_with(link, |_| None, "the server".to_owned(), span).await
    }
}

#[cfg(feature = "http-client")]
impl Builder<Http> {
    /// Adds a header to every request to the server's origin. Requests to other origins do not get it.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the protocol sets that header itself, or if it contains characters that are invalid in a
    /// header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        self.transport.config.header(name, value)?;
        Ok(self)
    }

    /// Adds a bearer token to every request.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the token contains characters that are invalid in a header.
    pub fn bearer(self, token: &str) -> Result<Self, Error> {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Sets how many requests may be open at the server at one time. Default 48. A request beyond that waits, within
    /// its timeout, and a warning is logged.
    ///
    /// This sets [`Limits::exchanges`]. Each exchange has a buffer, and may have a connection of its own.
    pub fn max_requests(mut self, count: usize) -> Self {
        self.config.limits.exchanges = Limits::exchanges_for(count);
        self
    }

    /// Changes the configuration of the transport, for settings without a method of their own.
    pub fn configure_http(mut self, change: impl FnOnce(&mut proto::HttpConfig)) -> Self {
        change(&mut self.transport.config);
        self
    }

    /// Uses this HTTP client, for example for its certificates, proxies and name resolution.
    ///
    /// Redirects, retries, `Referer` and decompression are disabled in it, because the machine decides about them. A
    /// timeout for whole responses would also end streams: use [`Builder::request_timeout`] instead.
    pub fn http_client(mut self, client: reqwest::ClientBuilder) -> Self {
        self.transport.client = client;
        self
    }

    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer, [`Error::Usage`]
    /// if the configuration is invalid, [`Error::HttpClient`] if the HTTP client cannot be built.
    pub async fn connect(self) -> Result<Client, Error> {
        let Self { config, handler, transport: Http { config: http, client }, log_stderr } = self;
        let server = http.server();
        let span = tracing::info_span!("mcp_client", server);
        let link = Exchanges::new(client).map_err(Error::HttpClient)?;
        let transport = proto::Http::new(http);
        let builder = Builder { config, handler, transport, log_stderr };
        let transport = |machine: &proto::Client<_>| Some(machine.http_transport());
        builder.connect_with(link, transport, format!("the server at {server}"), span).await
    }
}

impl<T: ClientTransport<Action: Send> + Send + 'static> Builder<T> {
    async fn connect_with(
        self,
        link: impl Feed<proto::Client<T>, Action = T::Action>,
        http_transport: fn(&proto::Client<T>) -> Option<HttpTransport>,
        server: String,
        span: Span,
    ) -> Result<Client, Error> {
        let server: Arc<str> = Arc::from(server);
        let machine = proto::Client::new(self.transport, self.config)?;
        let (commands, inputs) = mpsc::channel(COMMANDS);
        let (connected, answer) = oneshot::channel();
        let (cancel, cancelled) = mpsc::unbounded_channel();
        let driver =
            Driver::new(machine, link, self.handler, Arc::clone(&server), http_transport, connected, cancelled);
        tokio::spawn(driver.run(inputs).instrument(span));
        match answer.await.map_err(|_| UsageError::Closed)? {
            Ok(greeting) => {
                Ok(Client { commands, cancel, next_call: Arc::default(), server, greeting: greeting.into() })
            }
            Err(refused) => Err(Error::not_connected(refused, &server)),
        }
    }
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}
