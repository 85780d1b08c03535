//! The configuration of a client, and how it connects.

mod functions;
mod in_memory;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::{fmt, io, thread};

use mcp_application::{CallHooks, Error};
use mcp_auth::SignInOutcome;
use mcp_proto::client::{self as proto, ClientTransport, Config, Http, HttpConfig, HttpTransport};
use mcp_proto::{Instant, Stdio, UsageError};

pub use in_memory::InMemoryServer;

use super::commands::{Commands, DriverInput, Input};
use super::driver::{Driver, State};
use super::handlers::Handlers;
use super::tool_task::TaskInputs;
use super::typed_handler::{TypedHandler, TypedHandlers};
use super::{Client, Handler, Shared};
use crate::backpressure::Backpressure;
use crate::child::{Child, INBOX, Process};
use crate::http_client::fetch::fetch_from_server;
use crate::http_client::{HttpOptions, Pool};
use crate::inbox::Inbox;
use crate::link::Feed;
use crate::sign_in::Authorization;

/// Configures a [`Client`] and connects it.
///
/// First a server is selected: [`Builder::http`], [`Builder::child`], [`Builder::stream`] or [`Builder::in_memory`]. The
/// result has further options of that kind of server, and a method `connect`.
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
/// use mcp_blocking::Client;
///
/// let client = Client::builder()
///     .name("my-app", "1.0.0")
///     .request_timeout(Duration::from_secs(20))
///     .http("https://example.com/mcp")?
///     .bearer("secret")?
///     .connect()?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
#[must_use = "a client that is not connected does nothing"]
pub struct Builder<S = ()> {
    config: Config,
    handler: Arc<dyn Handler>,
    typed: TypedHandlers,
    hooks: CallHooks,
    server: S,
}

/// A server over HTTP, as selected by [`Builder::http`].
#[derive(Debug)]
pub struct HttpServer {
    http: HttpConfig,
    options: HttpOptions,
    authorization: Option<Authorization>,
}

/// A server in a child process, as selected by [`Builder::child`].
pub struct ChildServer {
    command: Command,
    process: Process,
}

/// Omits the arguments and the environment, which may contain credentials.
impl fmt::Debug for ChildServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildServer").field("program", &self.command.get_program()).finish_non_exhaustive()
    }
}

/// Ends the process of a server, for a program that handles signals: the server has its own process group, so that
/// Ctrl-C in a terminal does not reach it.
#[derive(Clone)]
pub struct ServerProcess(Process);

impl ServerProcess {
    /// Kills the server's process and the processes that it has started, if there are any, and prevents the client from
    /// starting it again, for a program that exits immediately afterwards.
    pub fn kill(&self) {
        self.0.kill_finally();
    }
}

mcp_application::opaque_debug!(ServerProcess);

/// A server at the other end of a pair of byte streams, as selected by [`Builder::stream`].
pub struct StreamServer {
    read: Box<dyn Read + Send>,
    write: Box<dyn Write + Send>,
}

mcp_application::opaque_debug!(StreamServer);

impl<S> Builder<S> {
    mcp_application::client_builder_methods! { driver: "mcp_blocking" }

    /// The configuration with the capabilities that the functions need.
    fn machine_config(&mut self) -> Config {
        let mut config = self.config.clone();
        config.capabilities = self.typed.declare_in(&config.capabilities);
        config
    }

    fn with_server<N>(self, server: N) -> Builder<N> {
        Builder { config: self.config, handler: self.handler, typed: self.typed, hooks: self.hooks, server }
    }

    fn connect_with<T, L>(
        self,
        machine: proto::Client<T>,
        start: impl FnOnce(Arc<dyn Inbox<DriverInput<L::Received>>>, Arc<Backpressure>, S) -> io::Result<L>,
        http_transport: fn(&proto::Client<T>) -> Option<HttpTransport>,
        authorize: fn(&mut proto::Client<T>, SignInOutcome, Instant),
        authorization: Option<(Authorization, HttpOptions)>,
        server: &str,
    ) -> Result<Client, Error>
    where
        T: ClientTransport<Action: Send> + Send + 'static,
        L: Feed<proto::Client<T>, Action = T::Action, Received: Send + 'static> + Send + 'static,
    {
        let no_thread = |error: io::Error| Error::SetUp(format!("cannot start a thread: {error}").into());
        let (inbox, inputs) = sync_channel(INBOX);
        let (connected, answer) = sync_channel(1);
        let (commands, backpressure) = (Commands::to(inbox.clone()), Arc::new(Backpressure::new()));
        let link = start(Arc::new(inbox), Arc::clone(&backpressure), self.server).map_err(Error::Start)?;
        let (server, connected, mut state) = (Arc::<str>::from(server), Some(connected), State::default());
        if let Some((authorization, options)) = authorization {
            let commands = commands.clone();
            let report = move |event| {
                // The client may have ended.
                let _ = commands.send(Input::SignIn(event));
            };
            state.sign_in = Some(authorization.start(options, report).map_err(no_thread)?);
        }
        let server_name = Arc::clone(&server);
        let handler: Arc<dyn Handler> = Arc::new(TypedHandler { typed: self.typed, rest: self.handler });
        let input = TaskInputs::new(Arc::downgrade(&handler), machine.capabilities().clone());
        let driver =
            Driver { machine, link, backpressure, connected, http_transport, authorize, server: server_name, state };
        let handlers = Handlers::start(handler, commands.clone()).map_err(no_thread)?;
        let driver = thread::Builder::new()
            .name("mcp-client".to_owned())
            .spawn(move || driver.run(&inputs, &handlers))
            .map_err(no_thread)?;
        match answer.recv().map_err(|_| UsageError::Closed)? {
            Ok(connected) => {
                Ok(Client { shared: Arc::new(Shared::new(commands, driver, server, connected, input, self.hooks)) })
            }
            Err(refused) => Err(refused.into_error(&server)),
        }
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        let mut config = Config::new("mcp-blocking", env!("CARGO_PKG_VERSION"));
        // The standard library seeds its hash maps with random keys from the operating system.
        config.seed = RandomState::new().build_hasher().finish();
        Self { config, handler: Arc::new(()), typed: TypedHandlers::new(), hooks: CallHooks::default(), server: () }
    }

    /// Selects a server over HTTP. The client detects which of the two HTTP transports the server has.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the URL cannot be used.
    pub fn http(mut self, url: &str) -> Result<Builder<HttpServer>, Error> {
        self.config.reconnect = true;
        let server = HttpServer { http: HttpConfig::new(url)?, options: HttpOptions::new(), authorization: None };
        Ok(self.with_server(server))
    }

    /// Selects a server that is started as a child process, over its stdin and stdout. The child inherits this
    /// process's stderr, unless the command sets another.
    ///
    /// At the end, the server's stdin is closed. A server that still runs after two seconds receives SIGTERM, and is
    /// killed after two more. [`Proxy::child`](crate::Proxy::child) describes which processes are ended. Dropping the
    /// last clone of the client waits for the end.
    ///
    /// A server that exits while its era is being detected is started once more.
    ///
    /// # Example
    ///
    /// ```
    /// use std::process::Command;
    /// use mcp_blocking::{Client, Error};
    ///
    /// let outcome = Client::builder().name("my-app", "1.0.0").child(Command::new("/no/such/server")).connect();
    /// assert!(matches!(outcome, Err(Error::Start(_))));
    /// ```
    ///
    /// Rules: ST-17, ST-18, ER-06.
    pub fn child(mut self, command: Command) -> Builder<ChildServer> {
        self.config.respawn = true;
        self.with_server(ChildServer { command, process: Process::default() })
    }

    /// Selects a server at the other end of a pair of byte streams: a socket, or, for a program that was started by its
    /// server, this process's own stdin and stdout.
    ///
    /// Reading and writing may block; each has its own thread. The thread that reads ends when `read` does.
    ///
    /// # Example: a stream without a server
    ///
    /// ```
    /// use mcp_blocking::{Client, Error};
    ///
    /// let outcome = Client::builder().stream(std::io::empty(), std::io::sink()).connect();
    /// assert!(matches!(outcome, Err(Error::Failed { .. })));
    /// ```
    ///
    /// Rules: ST-23.
    pub fn stream(self, read: impl Read + Send + 'static, write: impl Write + Send + 'static) -> Builder<StreamServer> {
        self.with_server(StreamServer { read: Box::new(read), write: Box::new(write) })
    }
}

impl Builder<HttpServer> {
    mcp_application::http_client_builder_methods! {
        driver: "mcp_blocking",
        asynchronous: [] [],
        exchange: "Each exchange has a thread, a buffer and a connection of its own.",
        fetch: fetch_from_server
    }

    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer, [`Error::Usage`]
    /// if the configuration is invalid, [`Error::SetUp`] if a thread could not be started or the environment sets an
    /// HTTP proxy that cannot be used.
    pub fn connect(mut self) -> Result<Client, Error> {
        let authorization = self.server.authorization.take();
        // The authorization server may be reached through another proxy, which the environment sets.
        let authorization = authorization.map(|authorization| (authorization, self.server.options.clone()));
        let exchanges = self.config.limits.exchanges;
        self.server.options.read_env(&self.server.http).map_err(|error| Error::SetUp(error.into()))?;
        let server = format!("the server at {}", self.server.http.server());
        let machine = proto::Client::new(Http::new(self.server.http.clone()), self.machine_config())?;
        self.connect_with(
            machine,
            |inbox, backpressure, server| Ok(Pool::new(server.options, exchanges, inbox, backpressure)),
            |machine| Some(machine.http_transport()),
            |machine, outcome, now| outcome.pass_to(machine, now),
            authorization,
            &server,
        )
    }
}

impl Builder<ChildServer> {
    /// Returns a handle that kills the server, whether the client is connected or not.
    #[must_use]
    pub fn process(&self) -> ServerProcess {
        ServerProcess(self.server.process.clone())
    }

    /// Starts the server, and waits until it has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if the server could not be started, [`Error::Server`] if it answered with
    /// an error, [`Error::Failed`] if it did not answer or ended before, [`Error::Usage`] if the
    /// configuration is invalid, [`Error::SetUp`] if a thread could not be started.
    pub fn connect(mut self) -> Result<Client, Error> {
        let machine = proto::Client::new(Stdio::new(), self.machine_config())?;
        self.connect_with(
            machine,
            |inbox, backpressure, server| Child::start(server.command, server.process, inbox, backpressure),
            |_| None,
            |_, _, _| {},
            None,
            "the server",
        )
    }
}

impl Builder<StreamServer> {
    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// As for [`Builder::<HttpServer>::connect`], and [`Error::Start`] if a thread that reads or writes could not be
    /// started.
    pub fn connect(mut self) -> Result<Client, Error> {
        let machine = proto::Client::new(Stdio::new(), self.machine_config())?;
        self.connect_with(
            machine,
            |inbox, backpressure, server| Child::over(server.read, server.write, inbox, backpressure),
            |_| None,
            |_, _, _| {},
            None,
            "the server",
        )
    }
}

mcp_application::opaque_debug!([S: fmt::Debug] Builder[S], builder => server: builder.server);
