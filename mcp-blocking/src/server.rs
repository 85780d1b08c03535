//! Blocking servers: over HTTP on `std::net`, and on a byte stream.
//!
//! One thread owns the machine, each connection has a thread unless its response is a stream that is silent, and requests are
//! handled on a pool of threads. The number of connections and the size of the pool are bounded.
//!
//! | file | what it does |
//! |---|---|
//! | `commands` | commands of handlers and of the application to the driver |
//! | `authenticate` | the application's check of credentials |
//! | `listener` | accepts connections |
//! | `connections` | how many connections are served at one time, each on a thread |
//! | `http1` | parses and writes HTTP/1.1 |
//! | `connection` | requests and responses of one connection |
//! | `response_channel` | passes one response from the driver to a connection |
//! | `reply_queue` | the queue in which it is passed |
//! | `driver` | the thread that owns the machine |
//! | `http_exchanges` | passes the requests of connections to the machine, and its responses to the connections |
//! | `stream` | a server on a byte stream |
//! | `replay` | a server whose input is known in full |
//! | `handlers` | the threads on which requests are handled |
//! | `subscriptions` | a queue of subscription changes for the service |
//! | `running` | what a server and its clones share: the configuration, the streams and HTTP services |
//! | `publisher` | publishes changes to clients, from any thread |
//! | `service` | the application's service, which handles requests |
//! | `incoming` | a request as its handler receives it |

pub(crate) mod authenticate;
mod commands;
pub(crate) mod connection;
pub(crate) mod connections;
mod driver;
mod handlers;
pub(crate) mod http1;
pub(crate) mod http_exchanges;
mod incoming;
pub(crate) mod listener;
mod publisher;
mod replay;
mod reply_queue;
mod response_channel;
mod running;
mod service;
mod stream;
mod subscriptions;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use std::{fmt, thread};

use authenticate::Authenticate;
use commands::{Command, Commands, Input};
use connection::{Destination, Routed};
use connections::HttpConnections;
use driver::Driver;
use handlers::Handlers;
use http::request::Parts;
use http_exchanges::{Arrived, HttpExchanges};
use listener::Accepting;
use mcp_application::{Authenticated, ConnectionTimeouts, InvalidService};
use mcp_proto::UsageError;
use mcp_proto::auth::Challenge;
use mcp_proto::client::CloseReason;
use mcp_proto::server::{Config, Http, HttpConfig, SessionMode};
use publisher::Running;
use running::{Registration, shutdown};

pub use incoming::Incoming;
pub use listener::Listener;
pub use publisher::ServerPublisher;
pub(crate) use publisher::{Publishers, publish_to_all};
pub use service::Service;
pub use stream::StreamService;

use crate::inbox::Inbox;

/// The capacity of the channel to the driver. A thread that finds it full waits.
const INPUTS: usize = 64;
/// The default of the maximum number of threads on which requests are handled.
const MAX_HANDLERS: usize = 32;

/// A server: a [`Service`] with its configuration, for any number of clients over any transport.
///
/// # Example: a tool, served to clients on this machine
///
/// ```no_run
/// use std::net::TcpListener;
///
/// use mcp_blocking::{Incoming, Server};
/// use mcp_blocking::proto::server::{Config, HttpConfig};
/// use mcp_blocking::proto::{ErrorObject, Json};
///
/// fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
///     let text = match incoming.method().as_str() {
///         "tools/list" => r#"{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}"#,
///         "tools/call" => r#"{"content":[{"type":"text","text":"Hello!"}]}"#,
///         _ => return Err(ErrorObject::method_not_found(incoming.method())),
///     };
///     Ok(Json::parse(text).expect("JSON"))
/// }
///
/// let config = Config::new("my-tools", "1.0.0").capabilities(Json::parse(r#"{"tools":{}}"#)?);
/// let listener = TcpListener::bind("127.0.0.1:3000")?;
/// println!("http://{}/mcp", listener.local_addr()?);
/// Server::new(config, serve).http(HttpConfig::new())?.serve(listener)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server {
    /// Why the service cannot be served.
    mistake: Option<InvalidService>,
    service: Arc<dyn Service>,
    running: Arc<Running>,
}

impl Server {
    /// Creates a server with this configuration.
    #[must_use]
    pub fn new(mut config: Config, service: impl Service) -> Self {
        let mistake = service.capabilities().map(|capabilities| config.add_capabilities(&capabilities)).err();
        let server = Self { mistake, service: Arc::new(service), running: Arc::new(Running::new(config)) };
        server.service.created(server.publisher());
        server
    }

    /// Serves the process that started this one over stdin and stdout, until stdin is closed. Nothing else may be
    /// written to stdout meanwhile. See [`StreamService::serve_stdio`].
    ///
    /// # Errors
    ///
    /// As for [`StreamService::serve`], and [`io::ErrorKind::InvalidInput`] if the configuration or the service is invalid.
    ///
    /// Rules: ST-04.
    pub fn serve_stdio(&self) -> io::Result<CloseReason> {
        self.stream()?.serve_stdio()
    }

    /// Serves one client on a pair of byte streams, until the client closes them. See [`StreamService::serve`].
    ///
    /// # Errors
    ///
    /// As for [`StreamService::serve`], and [`io::ErrorKind::InvalidInput`] if the configuration or the service is invalid.
    pub fn serve_stream(
        &self,
        read: impl Read + Send + 'static,
        write: impl Write + Send + 'static,
    ) -> io::Result<CloseReason> {
        self.stream()?.serve(read, write)
    }

    /// Creates the server of one client on a byte stream, which does not run yet.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] if the configuration or the service is invalid.
    pub fn stream(&self) -> Result<StreamService, InvalidService> {
        Ok(StreamService::new(self.config()?, Arc::clone(&self.service), &self.running)?)
    }

    /// Creates the server of clients over HTTP, which does not run yet.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] if the configuration or the service is invalid, also if sessions are to be
    /// stored.
    pub fn http(&self, http: HttpConfig) -> Result<HttpService, InvalidService> {
        Ok(HttpService::new(self.config()?, http, Arc::clone(&self.service), &self.running)?)
    }

    /// Returns a handle that publishes changes to all clients of this server and of its clones, over all transports.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_blocking::{Incoming, Server};
    /// use mcp_blocking::model::{ServerCapabilities, ToolsCapability};
    /// use mcp_blocking::proto::server::{Config, HttpConfig};
    /// use mcp_blocking::proto::{Json, Notification};
    ///
    /// let capabilities = ServerCapabilities::new().tools(ToolsCapability::new().list_changed(true));
    /// let config = Config::new("my-tools", "1.0.0").capabilities(capabilities);
    /// let server = Server::new(config, |incoming: &Incoming| Ok(Json::from(incoming.method().as_str())));
    /// let publisher = server.publisher();
    /// let service = server.http(HttpConfig::new())?;
    /// // For example on the thread that watches a directory:
    /// publisher.publish(Notification::new("notifications/tools/list_changed"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        ServerPublisher::of_all(&self.running)
    }

    /// Stops everything over which this server and its clones are served now, as [`ServerStopper::shutdown`] does.
    pub fn shutdown(&self, timeout: Duration) {
        shutdown(&self.running, timeout);
    }

    /// The configuration, unless the service cannot be served.
    pub(crate) fn config(&self) -> Result<Config, InvalidService> {
        self.mistake.clone().map_or_else(|| Ok(self.running.config().clone()), Err)
    }
}

mcp_application::opaque_debug!(Server, server => config: server.running.config());

/// A server over HTTP, made by [`Server::http`]. Requests from web pages of other origins and for other hosts are refused
/// unless [`mcp_proto::server::Access`] allows them.
pub struct HttpService {
    /// Publishers check changes against it until the server runs.
    config: Arc<Config>,
    http: HttpConfig,
    service: Arc<dyn Service>,
    authenticate: Authenticate,
    /// The maximum number of connections at one time. For one more, an idle connection is closed: of the address with
    /// the most connections, the one that has been idle for longest. If none is idle, the new connection is answered
    /// with 503. Streams that clients opened by GET take at most half of the connections, or fewer with
    /// [`HttpConfig::max_streams`], and subscriptions at most a quarter, or fewer with `Limits::subscriptions`.
    /// Default 256.
    pub max_connections: usize,
    /// How long the head of a request may take, from its first byte on. After that, the request is answered with 408.
    /// Default 10 s.
    pub head_timeout: Duration,
    /// How long a connection may be idle before it is closed. Default 60 s.
    pub idle_timeout: Duration,
    /// The maximum number of threads on which requests are handled. A handler that waits until its client has read more
    /// occupies one. Default 32.
    pub max_handlers: usize,
    inbox: SyncSender<Input<Arrived>>,
    inputs: Receiver<Input<Arrived>>,
    stopper: ServerStopper,
    registration: Registration,
}

impl HttpService {
    fn new(
        config: Config,
        http: HttpConfig,
        service: Arc<dyn Service>,
        running: &Arc<Running>,
    ) -> Result<Self, UsageError> {
        if matches!(http.sessions, SessionMode::Stored(_)) {
            return Err(UsageError::NoStore);
        }
        // The machine itself depends on `max_connections`, which may change until the server runs.
        mcp_proto::Server::new(Http::new(http.clone()), config.clone())?;
        let (inbox, inputs) = sync_channel(INPUTS);
        let (timeouts, stopper) = (ConnectionTimeouts::default(), ServerStopper::new(Commands::to(inbox.clone())));
        let config = Arc::new(config);
        let publisher = ServerPublisher::of_unserved(Commands::to(inbox.clone()), &config);
        let registration = Registration::new(running, publisher, stopper.clone());
        Ok(Self {
            config,
            http,
            service,
            authenticate: Authenticate::default(),
            max_connections: 256,
            head_timeout: timeouts.head,
            idle_timeout: timeouts.idle,
            max_handlers: MAX_HANDLERS,
            inbox,
            inputs,
            stopper,
            registration,
        })
    }

    /// Sets the function that decides who sent a request, from its head: it returns a
    /// [`Principal`](mcp_proto::server::Principal), to which sessions then belong, or the challenge with which the
    /// request is refused. If it returns `None`, the request is served for an unknown sender. Without this function,
    /// all requests are. With [`Authenticated`], it also returns values that the handler of the request receives
    /// ([`IncomingRequest::extensions`](mcp_application::IncomingRequest::extensions)).
    ///
    /// The function checks that a token was issued for this server
    /// ([`ProtectedResource::resource`](mcp_proto::auth::ProtectedResource::resource)) by its authorization server, and
    /// has not expired, and it never passes the token on. It runs for each request, on the thread of the connection,
    /// before the rest of the body is read. If it panics, the connection is closed without a response.
    ///
    /// # Example
    ///
    /// ```
    /// use http::header::AUTHORIZATION;
    /// use mcp_blocking::{Incoming, Server};
    /// use mcp_blocking::proto::auth::{Challenge, ProtectedResource};
    /// use mcp_blocking::proto::server::{Config, HttpConfig, Principal};
    /// use mcp_blocking::proto::Json;
    ///
    /// let resource = ProtectedResource::new("http://127.0.0.1:3000/mcp")?;
    /// let http = HttpConfig::new().protected_resource(resource.authorization_server("https://auth.example.com")?);
    /// let serve = |incoming: &Incoming| Ok(Json::from(incoming.principal().map_or("", Principal::as_str)));
    /// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(http)?.authenticate(|head| {
    ///     match head.headers.get(AUTHORIZATION).map(|value| value.as_bytes()) {
    ///         None => Err(Challenge::bearer().with("scope", "tools:call")),
    ///         Some(b"Bearer the-token-of-ada") => Ok(Principal::new("ada").with_subject("ada").with_scopes("tools:call")),
    ///         Some(_) => Err(Challenge::bearer().with("error", "invalid_token")),
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Rules: SE-02, OA-Z-02, OA-Z-03.
    #[must_use]
    pub fn authenticate<P>(mut self, check: impl Fn(&Parts) -> Result<P, Challenge> + Send + Sync + 'static) -> Self
    where
        P: Into<Authenticated>,
    {
        self.authenticate = Authenticate::new(check);
        self
    }

    /// Returns a handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> ServerStopper {
        self.stopper.clone()
    }

    /// Returns a handle that publishes changes to clients while the server runs.
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        ServerPublisher::of_unserved(Commands::to(self.inbox.clone()), &self.config)
    }

    /// Serves the connections of this socket, a [`TcpListener`](std::net::TcpListener), on Unix a `UnixListener`, or a
    /// [`PrivatePort`](crate::PrivatePort), until
    /// [`ServerStopper::stop`] stops the server. The endpoint is
    /// [`HttpConfig::path`], by default `/mcp`.
    ///
    /// Returns [`CloseReason::Local`], as only the application ends a service: the type is that of
    /// [`Server::serve_stdio`], where there are other reasons.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if [`HttpService::max_handlers`] is 0. If a thread could not be started, if no
    /// connections can be accepted any more, or if the thread that owns the machine has panicked, for example in the
    /// logger of the application.
    pub fn serve(self, listener: impl Into<Listener>) -> io::Result<CloseReason> {
        let Self { config, http, service, authenticate, max_connections, max_handlers, inbox, inputs, .. } = self;
        let (stopper, _registration) = (self.stopper, self.registration);
        let config = Arc::unwrap_or_clone(config);
        let timeouts = ConnectionTimeouts { head: self.head_timeout, idle: self.idle_timeout };
        let mut machine = mcp_proto::Server::new(Http::new(http), config)?;
        machine.limit_to_connections(max_connections);
        let driver = Driver::new(
            machine,
            HttpExchanges::default(),
            Commands::to(inbox.clone()),
            Handlers::new(max_handlers)?,
            service,
        );
        let (listener, closer) = Accepting::new(listener.into())?;
        let driver = thread::Builder::new().name("mcp-server".to_owned()).spawn(move || {
            // Dropped last: then no connection waits for the driver any more.
            let _closer = closer();
            let inputs = inputs;
            driver.run(&inputs);
        })?;
        let arrivals: Arc<dyn Inbox<Arrived>> = Arc::new(inbox.clone());
        let stack = authenticate.stack_of(false);
        let route = move |_: &Parts| {
            let (driver, authenticate) = (Arc::clone(&arrivals), authenticate.clone());
            Destination::Machine(Routed { driver, authenticate, in_force: None })
        };
        let connections = HttpConnections::new(max_connections, timeouts, stack, route, stopper.is_stopping);
        let outcome = connections.serve(listener);
        // After an error of the listener, the driver still runs.
        let _ = inbox.send(Input::Command(Command::Stop));
        let panicked = || Err(io::Error::other("the thread that owns the machine of the server has panicked"));
        let outcome = driver.join().map_or_else(|_| panicked(), |()| outcome);
        connections.flush();
        outcome.map(|()| CloseReason::Local)
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("config", &self.config).field("http", &self.http).finish_non_exhaustive()
    }
}

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub struct ServerStopper {
    commands: Commands,
    is_stopped: Arc<AtomicBool>,
    /// Connections are closed once they are idle.
    is_stopping: Arc<AtomicBool>,
}

impl ServerStopper {
    fn new(commands: Commands) -> Self {
        Self { commands, is_stopped: Arc::default(), is_stopping: Arc::default() }
    }

    /// Stops the server: pending requests are answered with an error, over HTTP later ones with 503; then
    /// [`HttpService::serve`] or [`StreamService::serve`] returns. If the server does not run yet, it will end at once.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        if !self.is_stopped.swap(true, Ordering::AcqRel) {
            let _ = self.commands.send(Command::Stop);
        }
    }

    /// Stops the server once the requests in progress are answered. Requests that are not answered after `timeout` are
    /// cancelled. Then [`HttpService::serve`] or [`StreamService::serve`] returns, when the last messages were written;
    /// this method does not wait for that. If the server does not run yet, it will end at once.
    ///
    /// Meanwhile, new requests are refused, over HTTP with 503 ([`mcp_proto::Server::drain`]). Connections are still
    /// accepted, because clients may have to answer or cancel something, and are closed once they are idle.
    ///
    /// # Example
    ///
    /// ```
    /// use std::net::TcpListener;
    /// use std::time::Duration;
    ///
    /// use mcp_blocking::{Incoming, Server};
    /// use mcp_blocking::proto::Json;
    /// use mcp_blocking::proto::server::{Config, HttpConfig};
    ///
    /// let serve = |incoming: &Incoming| Ok(Json::from(incoming.method().as_str()));
    /// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(HttpConfig::new())?;
    /// let stopper = service.stopper();
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let running = std::thread::spawn(move || service.serve(listener));
    /// // For example when the process receives SIGTERM:
    /// stopper.shutdown(Duration::from_secs(30));
    /// running.join().expect("it does not panic")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&self, timeout: Duration) {
        self.is_stopping.store(true, Ordering::Release);
        let _ = self.commands.send(Command::Drain(timeout));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use mcp_proto::Json;

    use super::connections::FLUSH_TIMEOUT;
    use super::*;

    /// A server that is stopped waits only for responses that are being written.
    #[test]
    fn a_server_without_requests_ends_at_once() {
        let serve = |_: &Incoming| Ok(Json::empty_object());
        let service = Server::new(Config::new("s", "1"), serve).http(HttpConfig::new()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, stopper) = (listener.local_addr().unwrap(), service.stopper());
        let running = thread::spawn(move || service.serve(listener));
        // This connection is served and closed.
        let mut idle = TcpStream::connect(address).unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        idle.read_to_end(&mut Vec::new()).unwrap();
        let began = Instant::now();
        stopper.stop();
        stopper.stop();
        running.join().unwrap().unwrap();
        assert!(began.elapsed() < FLUSH_TIMEOUT / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn a_server_without_threads_for_requests_is_refused() {
        let server = Server::new(Config::new("s", "1"), |_: &Incoming| Ok(Json::empty_object()));
        let (mut http, mut stream) = (server.http(HttpConfig::new()).unwrap(), server.stream().unwrap());
        (http.max_handlers, stream.max_handlers) = (0, 0);
        let refused = [
            http.serve(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap_err(),
            stream.serve(io::empty(), io::sink()).unwrap_err(),
        ];
        assert_eq!(refused.map(|error| error.kind()), [io::ErrorKind::InvalidInput; 2]);
    }

    #[test]
    fn a_server_with_stored_sessions_is_refused_because_it_has_no_store() {
        let mut http = HttpConfig::new();
        let instance = mcp_proto::InstanceId::new(1);
        http.sessions = SessionMode::Stored(mcp_proto::server::StoredSessions::new(instance));
        let refused = Server::new(Config::new("s", "1"), |_: &Incoming| Ok(Json::empty_object())).http(http);
        assert_eq!(refused.err(), Some(UsageError::NoStore.into()));
    }

    #[cfg(unix)]
    #[test]
    fn a_server_that_can_accept_no_connections_ends_with_the_error() {
        let serve = |_: &Incoming| Ok(Json::empty_object());
        let service = Server::new(Config::new("s", "1"), serve).http(HttpConfig::new()).unwrap();
        let (publisher, stopper) = (service.publisher(), service.stopper());
        // This socket does not listen.
        let socket = TcpStream::connect(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()).unwrap();
        let error = service.serve(TcpListener::from(std::os::fd::OwnedFd::from(socket))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        let change = mcp_proto::Notification::new("notifications/tools/list_changed");
        assert_eq!(publisher.publish(change), Err(UsageError::Closed), "the driver has ended too");
        stopper.stop();
    }
}
