//! The configuration of a client, and how it connects.

mod functions;
mod in_memory;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use mcp_application::{CallHooks, Error, ProgressBytes};
use mcp_proto::client::{self as proto, ClientTransport, Config, HttpTransport};
use mcp_proto::machine::ServerStream;
use mcp_proto::{Stdio, UsageError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, Span};

pub use in_memory::InMemoryServer;

use super::driver::Driver;
use super::handler::AnyHandler;
use super::tool_task::TaskInputs;
use super::typed_handler::{TypedHandler, TypedHandlers};
use super::{Client, Handler};
use crate::authorize::Authorize;
use crate::byte_stream::ByteStream;
use crate::child;
#[cfg(feature = "http-client")]
use crate::http_client::fetch::fetch_from_server;
#[cfg(feature = "http-client")]
use crate::http_client::{Exchanges, HttpClientError, HttpOptions};
use crate::link::Feed;
use crate::operations::{Network, Operations};
#[cfg(feature = "http-client")]
use crate::sign_in::Authorization;

/// The capacity of the channel for commands to the task.
const COMMANDS: usize = 64;

/// Configures a [`Client`] and connects it.
///
/// First a server is selected: [`Builder::http`], [`Builder::child`], [`Builder::stream`] or [`Builder::in_memory`]. The
/// result has further options of that kind of server, and a method `connect`.
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
/// use mcp_tokio::Client;
///
/// # async fn example() -> Result<(), mcp_tokio::Error> {
/// let client = Client::builder()
///     .name("my-app", "1.0.0")
///     .request_timeout(Duration::from_secs(20))
///     .http("https://example.com/mcp")?
///     .bearer("secret")?
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a client that is not connected does nothing"]
pub struct Builder<S = ()> {
    config: Config,
    handler: Arc<dyn AnyHandler>,
    typed: TypedHandlers,
    hooks: CallHooks,
    server: S,
}

/// What a client calls of its application.
struct Callbacks {
    handler: Arc<dyn AnyHandler>,
    hooks: CallHooks,
}

/// A server over HTTP, as selected by [`Builder::http`].
#[cfg(feature = "http-client")]
pub struct HttpServer {
    http: proto::HttpConfig,
    options: HttpOptions,
    authorization: Option<Authorization>,
}

/// Omits headers, which may contain credentials.
#[cfg(feature = "http-client")]
impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("server", &self.http.server())
            .field("options", &self.options)
            .field("authorization", &self.authorization)
            .finish()
    }
}

/// A server in a child process, as selected by [`Builder::child`].
pub struct ChildServer {
    command: Command,
    log_stderr: bool,
}

/// Omits the arguments and the environment, which may contain credentials.
impl fmt::Debug for ChildServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildServer").field("program", &self.command.as_std().get_program()).finish_non_exhaustive()
    }
}

/// A server at the other end of a pair of byte streams, as selected by [`Builder::stream`].
pub struct StreamServer {
    read: Box<dyn AsyncRead + Send + Unpin>,
    write: Box<dyn AsyncWrite + Send + Unpin>,
}

mcp_application::opaque_debug!(StreamServer);

impl<S> Builder<S> {
    mcp_application::client_builder_methods! { driver: "mcp_tokio" }

    /// The configuration with the capabilities that the functions need, and one handler that calls them.
    fn into_parts(self) -> (Config, Callbacks, S) {
        let Self { mut config, handler: rest, mut typed, hooks, server } = self;
        config.capabilities = typed.declare_in(&config.capabilities);
        (config, Callbacks { handler: Arc::new(TypedHandler { typed, rest }), hooks }, server)
    }

    fn with_server<N>(self, server: N) -> Builder<N> {
        Builder { config: self.config, handler: self.handler, typed: self.typed, hooks: self.hooks, server }
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        let mut config = Config::new("mcp-tokio", env!("CARGO_PKG_VERSION"));
        // A `RandomState` contains random keys from the operating system.
        config.seed = RandomState::new().build_hasher().finish();
        Self { config, handler: Arc::new(()), typed: TypedHandlers::new(), hooks: CallHooks::default(), server: () }
    }

    /// Selects a server over HTTP. The client detects which of the two HTTP transports the server has.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the URL cannot be used.
    #[cfg(feature = "http-client")]
    pub fn http(mut self, url: &str) -> Result<Builder<HttpServer>, Error> {
        self.config.reconnect = true;
        let http = proto::HttpConfig::new(url)?;
        let server = HttpServer { http, options: HttpOptions::new(), authorization: None };
        Ok(self.with_server(server))
    }

    /// The compiler names the feature that is missing.
    #[cfg(not(feature = "http-client"))]
    #[doc(hidden)]
    pub fn http(self, _: impl crate::missing_feature::NeedsFeatureHttpClient) -> Result<Self, Error> {
        Ok(self)
    }

    /// Selects a server that is started as a child process, over its stdin and stdout. The child inherits this
    /// process's stderr, unless the command sets another or [`Builder::log_stderr`] was called.
    ///
    /// At the end, the server's stdin is closed. A server that still runs after two seconds receives SIGTERM, and is
    /// killed after two more. On Unix, the server has its own process group, and signals are sent to the whole group:
    /// Ctrl-C in a terminal does not reach it, but its stdin is closed when this process ends. On other platforms it is
    /// killed after the first two seconds, and processes that it has started are not.
    ///
    /// A server that exits while its era is being detected is started once more.
    ///
    /// The server is ended in the background when the last clone of the client is dropped, and killed if the runtime
    /// ends before that is done; [`Client::close`] waits for its exit.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_tokio::{Client, Error};
    /// use tokio::process::Command;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let builder = Client::builder().name("my-app", "1.0.0");
    /// let outcome = builder.child(Command::new("/no/such/server")).connect().await;
    /// assert!(matches!(outcome, Err(Error::Start(_))));
    /// # }
    /// ```
    ///
    /// Rules: ST-17, ST-18, ER-06.
    pub fn child(mut self, command: Command) -> Builder<ChildServer> {
        self.config.respawn = true;
        self.with_server(ChildServer { command, log_stderr: false })
    }

    /// Selects a server at the other end of a pair of byte streams: a socket, one half of [`tokio::io::duplex`] with a
    /// server in the same process at the other, or, for a program that was started by its server, this process's own
    /// stdin and stdout.
    ///
    /// # Example: stdin and stdout of this process
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), mcp_tokio::Error> {
    /// let builder = mcp_tokio::Client::builder();
    /// let client = builder.stream(tokio::io::stdin(), tokio::io::stdout()).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Rules: ST-23.
    pub fn stream(
        self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Builder<StreamServer> {
        self.with_server(StreamServer { read: Box::new(read), write: Box::new(write) })
    }
}

#[cfg(feature = "http-client")]
impl Builder<HttpServer> {
    mcp_application::http_client_builder_methods! {
        driver: "mcp_tokio",
        asynchronous: [async] [.await],
        exchange: "Each exchange has a buffer, and may have a connection of its own.",
        fetch: fetch_from_server
    }

    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer, [`Error::Usage`]
    /// if the configuration is invalid, [`Error::SetUp`] if the HTTP client could not be set up.
    pub async fn connect(self) -> Result<Client, Error> {
        let (config, handler, HttpServer { http, options, authorization }) = self.into_parts();
        let server = http.server();
        let span = tracing::info_span!("mcp_client", server);
        let server: Arc<str> = format!("the server at {server}").into();
        let no_client = |error: HttpClientError| Error::SetUp(error.into());
        let machine = proto::Client::new(proto::Http::new(http.clone()), config)?;
        let start = |authorization: Authorization| authorization.start_for_client(&options, Arc::clone(&server));
        let sign_in = span.in_scope(|| authorization.map(start).transpose()).map_err(no_client)?;
        let link = Exchanges::new(options, &http).map_err(no_client)?;
        let transport = |machine: &proto::Client<_>| Some(machine.http_transport());
        connect(machine, handler, (link, sign_in), transport, server, (span, Network::Http)).await
    }
}

impl Builder<ChildServer> {
    /// Logs the stderr of the server, line by line, as [`tracing`] events of the target `mcp_tokio::stderr`. Long lines
    /// are truncated.
    pub fn log_stderr(mut self) -> Self {
        self.server.log_stderr = true;
        self
    }

    /// Starts the server, and waits until it has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if the server could not be started, [`Error::Server`] if it answered with
    /// an error, [`Error::Failed`] if it did not answer or ended before, [`Error::Usage`] if the
    /// configuration is invalid.
    pub async fn connect(self) -> Result<Client, Error> {
        let (config, handler, ChildServer { mut command, log_stderr }) = self.into_parts();
        let span = tracing::info_span!("mcp_client", program = ?command.as_std().get_program());
        let start = move || child::start(&mut command, log_stderr);
        let link = span.in_scope(|| ByteStream::start(ServerStream, start)).map_err(Error::Start)?;
        let machine = proto::Client::new(Stdio::new(), config)?;
        connect(machine, handler, (link, ()), |_| None, "the server".into(), (span, Network::Pipe)).await
    }
}

impl Builder<StreamServer> {
    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer, [`Error::Usage`]
    /// if the configuration is invalid.
    pub async fn connect(self) -> Result<Client, Error> {
        let (config, handler, StreamServer { read, write }) = self.into_parts();
        let span = tracing::info_span!("mcp_client");
        let machine = proto::Client::new(Stdio::new(), config)?;
        let link = ByteStream::new(ServerStream, read, write);
        connect(machine, handler, (link, ()), |_| None, "the server".into(), (span, Network::Unknown)).await
    }
}

async fn connect<T: ClientTransport<Action: Send> + Send + 'static>(
    machine: proto::Client<T>,
    Callbacks { handler, hooks }: Callbacks,
    link: (impl Feed<proto::Client<T>, Action = T::Action>, impl Authorize<proto::Client<T>>),
    http_transport: fn(&proto::Client<T>) -> Option<HttpTransport>,
    server: Arc<str>,
    (span, network): (Span, Network),
) -> Result<Client, Error> {
    let (commands, inputs) = mpsc::channel(COMMANDS);
    let (connected, answer) = oneshot::channel();
    let (remarks, remarked) = mpsc::unbounded_channel();
    let input = TaskInputs::new(Arc::downgrade(&handler), machine.capabilities().clone());
    let driver = Driver::new(machine, link, handler, Arc::clone(&server), http_transport, connected, remarked);
    tokio::spawn(driver.run(inputs).instrument(span));
    match answer.await.map_err(|_| UsageError::Closed)? {
        Ok(connected) => Ok(Client {
            commands,
            remarks,
            next_call: Arc::default(),
            server,
            connected,
            progress: ProgressBytes::default(),
            hooks,
            input: Arc::new(input),
            operations: Operations::of_client().over(network),
        }),
        Err(refused) => Err(refused.into_error(&server)),
    }
}

mcp_application::opaque_debug!([S: fmt::Debug] Builder[S], builder => server: builder.server);
