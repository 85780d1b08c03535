//! Serves clients over HTTP by processes of servers that speak on their stdin and stdout, or by remote servers.
//!
//! Each server has a machine, on its own thread, and paths of its own at one listening socket. Each process has the threads
//! that read and write its streams; it is started and stopped beside the thread of the machine, because both may take long.
//!
//! | file | what it does |
//! |---|---|
//! | `backend` | how a process is started, and its end |
//! | `driver` | the thread that owns the machine of a server |
//! | `routes` | which server answers a request |
//! | `reloader` | changes what is served, from another thread |
//! | `status` | counts what happens, for other threads |
//! | `stopper` | stops a gateway from another thread |

mod backend;
mod driver;
mod reloader;
mod routes;
mod status;
mod stopper;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use bytes::Bytes;
use driver::Input;
use http::Response;
use http::request::Parts;
use mcp_application::{Authenticated, ConnectionTimeouts};
use mcp_intermediary::gateway;
use mcp_intermediary::gateway::{BackendKey, Event};
use mcp_intermediary::relay::Pins;
use mcp_proto::UsageError;
use mcp_proto::auth::Challenge;
use mcp_proto::client::CloseReason;
use reloader::Running;
use status::Counters;

pub use backend::Backend;
pub use reloader::GatewayReloader;
pub use status::{GatewayStatus, ServerStatus};
pub use stopper::GatewayStopper;

use crate::server::Listener;
use crate::server::authenticate::Authenticate;
use crate::server::connections::HttpConnections;
use crate::server::listener::Accepting;

/// The capacity of the channel to a driver. A thread that finds it full waits.
const INPUTS: usize = 64;
/// How often a gateway that ends when it is not used counts its connections.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Receives what a gateway reports about one of its servers, on the thread that serves it: for a log or a record.
pub trait GatewayObserver: Send {
    /// Something has happened.
    fn event(&mut self, event: &Event) {
        let _ = event;
    }

    /// Stores new pins beside those of other processes, and returns all; `None` if they are not stored.
    fn store_pins(&mut self, pins: &Pins) -> Option<Pins> {
        let _ = pins;
        None
    }

    /// Bytes were received from a process.
    fn received(&mut self, backend: BackendKey, bytes: &[u8]) {
        let _ = (backend, bytes);
    }

    /// Bytes are about to be written to a process.
    fn written(&mut self, backend: BackendKey, bytes: &[u8]) {
        let _ = (backend, bytes);
    }
}

/// An observer that ignores everything.
impl GatewayObserver for () {}

type AnswerToHead = dyn Fn(&Parts) -> Option<Response<Bytes>> + Send + Sync;

/// Serves clients over HTTP by processes of servers that speak on their stdin and stdout, or by remote servers.
///
/// A process is started when a client opens a session, after all checks of its request, and ends with the session;
/// [`gateway::Sharing`] decides which sessions share one. Clients and servers may use different protocol revisions.
///
/// # Example: a server over stdio, for clients on this machine
///
/// ```no_run
/// use std::net::TcpListener;
/// use std::process::Command;
///
/// use mcp_blocking::{Backend, Gateway};
/// use mcp_blocking::intermediary::gateway::Config;
///
/// let backend = Backend::command(|_| Command::new("my-server"));
/// let gateway = Gateway::new().server(Config::default(), backend)?;
/// gateway.serve(TcpListener::bind("127.0.0.1:3000")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Example: two servers, at `/files/mcp` and `/search/mcp`
///
/// ```
/// use std::net::TcpListener;
/// use std::process::Command;
///
/// use mcp_blocking::{Backend, Gateway};
/// use mcp_blocking::intermediary::gateway::{Config, Sharing};
///
/// let mut gateway = Gateway::new();
/// for name in ["files", "search"] {
///     let mut config = Config::default();
///     config.sharing = Sharing::Shared;
///     config.http.path = Some(format!("/{name}/mcp").into());
///     gateway = gateway.server(config, Backend::command(move |_| Command::new(name)))?;
/// }
/// let (stopper, status) = (gateway.stopper(), gateway.status());
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let running = std::thread::spawn(move || gateway.serve(listener));
/// assert_eq!(status.servers().len(), 2);
/// stopper.stop();
/// running.join().expect("it does not panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gateway {
    servers: Vec<Served>,
    authenticate: Authenticate,
    pages: Option<Arc<AnswerToHead>>,
    refuse: Option<Arc<AnswerToHead>>,
    /// The maximum number of connections at one time, for all servers together, as
    /// [`HttpService::max_connections`](crate::HttpService::max_connections). Each open stream of a client needs one, and a
    /// thread only while it is not silent. Streams take at most half of them, divided equally among the servers. Default 512.
    pub max_connections: usize,
    /// How long the head of a request may take, from its first byte on. After that, the request is answered with 408.
    /// Default 10 s.
    pub head_timeout: Duration,
    /// How long a connection may be idle before it is closed. Default 60 s.
    pub idle_timeout: Duration,
    /// Ends the gateway once there was no connection for this time. Default never.
    pub leave_after: Option<Duration>,
    status: GatewayStatus,
    stopper: GatewayStopper,
    running: Arc<Running>,
}

/// A server that does not run yet.
struct Served {
    config: gateway::Config,
    backend: Backend,
    counters: Arc<Counters>,
    /// It takes the place of one that runs.
    is_kept: bool,
    inbox: SyncSender<Input>,
    inputs: Receiver<Input>,
}

impl Gateway {
    /// Creates a gateway without a server.
    #[must_use]
    pub fn new() -> Self {
        let timeouts = ConnectionTimeouts::default();
        Self {
            servers: Vec::new(),
            authenticate: Authenticate::default(),
            pages: None,
            refuse: None,
            max_connections: 512,
            head_timeout: timeouts.head,
            idle_timeout: timeouts.idle,
            leave_after: None,
            status: GatewayStatus::default(),
            stopper: GatewayStopper::default(),
            running: Arc::default(),
        }
    }

    /// Adds a server, at the paths of `config.http`.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn server(self, config: gateway::Config, backend: Backend) -> Result<Self, UsageError> {
        self.with_server(config, backend, false)
    }

    /// Adds a server that keeps its processes and sessions, if this gateway is served in the place of one that has a server
    /// at the same path ([`GatewayReloader::reload`]). The observer of that server is kept, and so are the fields of
    /// `config` except `relay.filter` and, in `http`, `access`, `cors` and `protected_resource`.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn kept_server(self, config: gateway::Config, backend: Backend) -> Result<Self, UsageError> {
        self.with_server(config, backend, true)
    }

    fn with_server(mut self, config: gateway::Config, backend: Backend, is_kept: bool) -> Result<Self, UsageError> {
        // The machine itself depends on `max_connections`, which may change until the gateway runs.
        mcp_intermediary::Gateway::new(config.clone())?;
        let (inbox, inputs) = sync_channel(INPUTS);
        let counters = self.status.add(config.http.path.as_deref().unwrap_or_default());
        self.servers.push(Served { config, backend, counters, is_kept, inbox, inputs });
        Ok(self)
    }

    /// Sets the function that decides who sent a request, from its head, for all servers. See
    /// [`HttpService::authenticate`](crate::HttpService::authenticate).
    #[must_use]
    pub fn authenticate<P>(mut self, check: impl Fn(&Parts) -> Result<P, Challenge> + Send + Sync + 'static) -> Self
    where
        P: Into<Authenticated>,
    {
        self.authenticate = Authenticate::new(check);
        self
    }

    /// Sets the function that answers requests at paths that no server has, such as those of a health check. It does not
    /// see their bodies, and they are not authenticated. If it returns `None`, the request is answered with 404. Clients that
    /// may use the servers receive their paths with it.
    ///
    /// # Example
    ///
    /// ```
    /// use http::Response;
    /// use mcp_blocking::Gateway;
    ///
    /// let gateway = Gateway::new();
    /// let status = gateway.status();
    /// let gateway = gateway.pages(move |head| {
    ///     let sessions: usize = status.servers().iter().map(|server| server.sessions).sum();
    ///     (head.uri.path() == "/health").then(|| Response::new(sessions.to_string().into()))
    /// });
    /// ```
    #[must_use]
    pub fn pages(mut self, answer: impl Fn(&Parts) -> Option<Response<Bytes>> + Send + Sync + 'static) -> Self {
        self.pages = Some(Arc::new(answer));
        self
    }

    /// Sets the function that may refuse a request for a server, for example while the application cannot record what it
    /// serves. It does not see the body, and is called before the request is authenticated.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// use http::{Response, StatusCode};
    /// use mcp_blocking::Gateway;
    ///
    /// let is_paused = Arc::new(AtomicBool::new(false));
    /// let paused = Arc::clone(&is_paused);
    /// let gateway = Gateway::new().refuse(move |_| {
    ///     let mut response = Response::new("maintenance".into());
    ///     *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    ///     paused.load(Ordering::Relaxed).then_some(response)
    /// });
    /// ```
    #[must_use]
    pub fn refuse(mut self, check: impl Fn(&Parts) -> Option<Response<Bytes>> + Send + Sync + 'static) -> Self {
        self.refuse = Some(Arc::new(check));
        self
    }

    /// Returns a handle that counts sessions, processes and requests.
    #[must_use]
    pub fn status(&self) -> GatewayStatus {
        self.status.clone()
    }

    /// Returns a handle that changes what the gateway serves while it runs.
    #[must_use]
    pub fn reloader(&self) -> GatewayReloader {
        self.running.set_reloadable();
        GatewayReloader(Arc::clone(&self.running))
    }

    /// Returns a handle that stops the gateway.
    #[must_use]
    pub fn stopper(&self) -> GatewayStopper {
        self.stopper.clone()
    }

    /// Serves the connections of this socket, a [`TcpListener`](std::net::TcpListener) or on Unix a `UnixListener`, until
    /// the gateway is stopped and all processes have ended. Returns [`CloseReason::Local`], as for
    /// [`HttpService::serve`](crate::HttpService::serve).
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if there is no server, or two have the same path. If a thread could not be started,
    /// if no connections can be accepted any more, or if the thread of a server has panicked.
    pub fn serve(self, listener: impl Into<Listener>) -> io::Result<CloseReason> {
        routes::check_paths(self.servers.iter().map(|served| &served.config.http))?;
        let (listener, closer) = Accepting::new(listener.into())?;
        let (running, stopper) = (Arc::clone(&self.running), self.stopper.clone());
        let timeouts = ConnectionTimeouts { head: self.head_timeout, idle: self.idle_timeout };
        let (max_connections, leave_after) = (self.max_connections, self.leave_after);
        let stack = self.authenticate.stack_of(running.is_reloadable());
        // The loop ends with the last server.
        if let Err(error) = running.begin(self, &Arc::new(closer())) {
            stopper.stop();
            return running.join().and(Err(error));
        }
        let routes = Arc::clone(&running);
        let route = move |head: &Parts| routes.routes().destination(head);
        let connections = HttpConnections::new(max_connections, timeouts, stack, route, stopper.is_stopping());
        // Dropping `_serving` ends the watching thread.
        let (_serving, ended) = sync_channel(0);
        let watching = leave_after.map(|time| {
            let (are_none, stopper) = (connections.are_none(), stopper.clone());
            let watch = move || stop_when_unused(&are_none, time, &stopper, &ended);
            thread::Builder::new().name("mcp-leave".to_owned()).spawn(watch)
        });
        let mut outcome = watching.transpose().and_then(|_| connections.serve(listener));
        // After an error of the listener, the servers still run.
        if outcome.is_err() {
            stopper.stop();
        }
        outcome = running.join().and(outcome);
        connections.flush();
        outcome.map(|()| CloseReason::Local)
    }
}

/// Stops a gateway once it had no connection for this time.
fn stop_when_unused(
    are_none: &dyn Fn() -> bool,
    time: Duration,
    stopper: &GatewayStopper,
    ended: &Receiver<Infallible>,
) {
    let mut unused_since = None;
    while ended.recv_timeout(CHECK_INTERVAL.min(time)) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        if !are_none() {
            unused_since = None;
        } else if now.saturating_duration_since(*unused_since.get_or_insert(now)) >= time {
            log::info!("no client was connected for {:.0} s; the gateway ends", time.as_secs_f64());
            return stopper.stop();
        }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows only counts, because commands may contain secrets.
impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}
