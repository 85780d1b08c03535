//! The configuration of a client, and how it connects.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::{fmt, io, thread};

use mcp_proto::client::{self as proto, ClientTransport, Config, Http, HttpConfig, HttpTransport, Unavailable};
use mcp_proto::{Failed, Json, ProtocolVersion, Stdio, UsageError};

use super::driver::{Commands, Driver, Mail, Refused, State, start_handler};
use super::{Client, Error, Handler, Shared};
use crate::backpressure::Backpressure;
use crate::child::{Child, INBOX, Process};
use crate::http_client::{HttpOptions, Pool};
use crate::inbox::Inbox;
use crate::link::Feed;

/// Prepares a [`Client`].
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
/// use mcp_blocking::Client;
///
/// let client = Client::builder("https://example.com/mcp")?
///     .name("my-app", "1.0.0")
///     .bearer("secret")?
///     .request_timeout(Duration::from_secs(20))
///     .connect()?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
pub struct Builder<S = HttpServer> {
    config: Config,
    handler: Box<dyn Handler>,
    server: S,
}

/// A server over HTTP, as prepared by [`Client::builder`].
#[derive(Debug)]
pub struct HttpServer {
    http: HttpConfig,
    options: HttpOptions,
}

/// A server in a child process, as prepared by [`Client::child`].
#[derive(Debug)]
pub struct ChildServer {
    command: Command,
}

impl<S> Builder<S> {
    fn new(server: S) -> Self {
        let mut config = Config::new("mcp-blocking", env!("CARGO_PKG_VERSION"));
        // The standard library seeds its hash maps with random keys from the operating system.
        config.seed = RandomState::new().build_hasher().finish();
        Self { config, handler: Box::new(()), server }
    }

    /// Sets the name and version of the application, which are sent to the server as `clientInfo`.
    #[must_use]
    pub fn name(mut self, name: &str, version: &str) -> Self {
        let own = Config::new(name, version);
        self.config.client_info = own.client_info;
        self
    }

    /// Declares what the server may request, as the object `capabilities` of `initialize`.
    #[must_use]
    pub fn capabilities(mut self, capabilities: impl Into<Json>) -> Self {
        self.config.capabilities = capabilities.into();
        self
    }

    /// Sets the handler of the server's notifications and requests.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Sets how long a response may take.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// Sets the protocol revisions that may be used. If 2026-07-28 is among them, the client first detects the era of
    /// the server. Without it, which is the default, the connection begins with `initialize`.
    #[must_use]
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        self.config.versions = versions.into_iter().collect();
        self
    }

    fn connect_with<T, L>(
        self,
        machine: proto::Client<T>,
        start: impl FnOnce(Arc<dyn Inbox<Mail<L::Received>>>, Arc<Backpressure>, S) -> io::Result<L>,
        http_transport: fn(&proto::Client<T>) -> Option<HttpTransport>,
        server: String,
    ) -> Result<Client, Error>
    where
        T: ClientTransport<Action: Send> + Send + 'static,
        L: Feed<proto::Client<T>, Action = T::Action, Received: Send + 'static> + Send + 'static,
    {
        let (inbox, inputs) = sync_channel(INBOX);
        let (connected, answer) = sync_channel(1);
        let (commands, backpressure) = (Commands::to(inbox.clone()), Arc::new(Backpressure::new()));
        let link = start(Arc::new(inbox), Arc::clone(&backpressure), self.server).map_err(Error::Start)?;
        let driver =
            Driver { machine, link, backpressure, connected: Some(connected), http_transport, state: State::default() };
        let events = start_handler(self.handler, commands.clone()).map_err(Error::Thread)?;
        let driver = thread::Builder::new()
            .name("mcp-client".to_owned())
            .spawn(move || driver.run(&inputs, &events))
            .map_err(Error::Thread)?;
        match answer.recv().map_err(|_| UsageError::Closed)? {
            Ok(greeting) => {
                let progress = Arc::default();
                let shared = Shared { commands, driver: Some(driver), server, greeting, progress };
                Ok(Client { shared: Arc::new(shared) })
            }
            Err(Refused { reason, exited }) => Err(match (reason, exited) {
                (Unavailable::Error(error), _) => Error::Server(error),
                (Unavailable::Failed(Failed::Closed), Some(status)) => Error::Exited { status },
                (Unavailable::Failed(reason), _) => Error::Failed { server, reason },
            }),
        }
    }
}

impl Builder {
    pub(super) fn http(url: &str) -> Result<Self, Error> {
        let mut builder = Self::new(HttpServer { http: HttpConfig::new(url)?, options: HttpOptions::new() });
        builder.config.reconnect = true;
        Ok(builder)
    }

    /// Adds a header to every request.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the protocol sets that header itself, or if its characters are not valid in a header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        self.server.http.header(name, value)?;
        Ok(self)
    }

    /// Authorizes every request with a bearer token.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the token has characters that are not valid in a header.
    pub fn bearer(self, token: &str) -> Result<Self, Error> {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Changes any part of the configuration.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config, &mut HttpConfig, &mut HttpOptions)) -> Self {
        change(&mut self.config, &mut self.server.http, &mut self.server.options);
        self
    }

    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer, [`Error::Usage`]
    /// if the configuration is invalid, [`Error::Thread`] if a thread could not be started.
    pub fn connect(mut self) -> Result<Client, Error> {
        self.config.limits.exchanges = self.server.options.max_workers;
        let server = format!("the server at {}", self.server.http.server());
        let machine = proto::Client::new(Http::new(self.server.http.clone()), self.config.clone())?;
        self.connect_with(
            machine,
            |inbox, backpressure, server| Ok(Pool::new(server.options, inbox, backpressure)),
            |machine| Some(machine.http_transport()),
            server,
        )
    }
}

impl Builder<ChildServer> {
    pub(super) fn child(command: Command) -> Self {
        let mut builder = Self::new(ChildServer { command });
        builder.config.respawn = true;
        builder
    }

    /// Changes any part of the configuration.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Starts the server, and waits until it has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if the server could not be started, [`Error::Exited`] if it ended before it answered,
    /// [`Error::Server`] if it answered with an error, [`Error::Failed`] if it did not answer, [`Error::Usage`] if the
    /// configuration is invalid, [`Error::Thread`] if a thread could not be started.
    pub fn connect(self) -> Result<Client, Error> {
        let machine = proto::Client::new(Stdio::new(), self.config.clone())?;
        self.connect_with(
            machine,
            |inbox, backpressure, server| Child::start(server.command, Process::default(), inbox, backpressure),
            |_| None,
            "the server".to_owned(),
        )
    }
}

impl<S: fmt::Debug> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("server", &self.server).finish_non_exhaustive()
    }
}
