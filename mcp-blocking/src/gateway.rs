//! Serves clients over HTTP by processes of servers that speak on their stdin and stdout, or by remote servers.
//!
//! Each server has a machine, on its own thread, and paths of its own at one listening socket. Each process has the threads
//! that read and write its streams; it is started and stopped beside the thread of the machine, because both may take long.
//!
//! | file | what it does |
//! |---|---|
//! | `backend` | how a process is started, and its end |
//! | `driver` | the thread that owns the machine of a server |
//! | `status` | counts what happens, for other threads |
//! | `stopper` | stops a gateway from another thread |

mod backend;
mod driver;
mod status;
mod stopper;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use bytes::Bytes;
use driver::{Driver, Input};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use mcp_application::{Authenticated, ConnectionTimeouts};
use mcp_intermediary::gateway;
use mcp_intermediary::gateway::{BackendKey, Event};
use mcp_intermediary::relay::Pins;
use mcp_proto::auth::Challenge;
use mcp_proto::server::HttpConfig;
use mcp_proto::{UsageError, escape_text};
use stopper::StopOnPanic;

pub use backend::Backend;
pub use status::{GatewayStatus, ServerStatus};
pub use stopper::GatewayStopper;

use crate::inbox::Inbox;
use crate::server::Listener;
use crate::server::authenticate::Authenticate;
use crate::server::connection::Destination;
use crate::server::connections::HttpConnections;
use crate::server::http_exchanges::{Arrived, log_refusal};
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
    pages: Option<Box<AnswerToHead>>,
    refuse: Option<Box<AnswerToHead>>,
    /// The maximum number of connections at one time, for all servers together, as
    /// [`HttpService::max_connections`](crate::HttpService::max_connections). Each open stream of a client needs one, and a
    /// thread. Streams take at most half of them, divided equally among the servers. Default 512.
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
}

/// A server that does not run yet.
struct Served {
    config: gateway::Config,
    backend: Backend,
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
        }
    }

    /// Adds a server, at the paths of `config.http`.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn server(mut self, config: gateway::Config, backend: Backend) -> Result<Self, UsageError> {
        // The machine itself depends on `max_connections`, which may change until the gateway runs.
        mcp_intermediary::Gateway::new(config.clone())?;
        let (inbox, inputs) = sync_channel(INPUTS);
        self.stopper.add(inbox.clone());
        self.status.add(config.http.path.as_deref().unwrap_or_default());
        self.servers.push(Served { config, backend, inbox, inputs });
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
        self.pages = Some(Box::new(answer));
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
        self.refuse = Some(Box::new(check));
        self
    }

    /// Returns a handle that counts sessions, processes and requests.
    #[must_use]
    pub fn status(&self) -> GatewayStatus {
        self.status.clone()
    }

    /// Returns a handle that stops the gateway.
    #[must_use]
    pub fn stopper(&self) -> GatewayStopper {
        self.stopper.clone()
    }

    /// Serves the connections of this socket, a [`TcpListener`](std::net::TcpListener) or on Unix a `UnixListener`, until
    /// the gateway is stopped and all processes have ended.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if there is no server, or two have the same path. If a thread could not be started,
    /// if no connections can be accepted any more, or if the thread of a server has panicked.
    pub fn serve(self, listener: impl Into<Listener>) -> io::Result<()> {
        let Self { servers, authenticate, pages, refuse, max_connections, status, stopper, .. } = self;
        check_paths(&servers)?;
        let (listener, closer) = Accepting::new(listener.into())?;
        let closer = Arc::new(closer());
        let per_server = max_connections.div_ceil(servers.len());
        let (mut routes, mut drivers) = (Vec::new(), Vec::new());
        let mut outcome = Ok(());
        for (index, Served { config, backend, inbox, inputs }) in servers.into_iter().enumerate() {
            let arrivals: Arc<dyn Inbox<Arrived>> = Arc::new(inbox.clone());
            routes.push((config.http.clone(), arrivals, status.server(index)));
            let mut machine = mcp_intermediary::Gateway::new(config)?;
            machine.limit_to_connections(per_server);
            let driver = Driver::new(machine, backend, inbox, stopper.clone(), status.server(index));
            let (closer, on_panic) = (Arc::clone(&closer), StopOnPanic(stopper.clone()));
            let spawned = thread::Builder::new().name("mcp-gateway".to_owned()).spawn(move || {
                // Dropped last: then no connection waits for the driver any more.
                let (_closer, _on_panic, inputs) = (closer, on_panic, inputs);
                driver.run(&inputs);
            });
            match spawned {
                Ok(driver) => drivers.push(driver),
                Err(error) => outcome = Err(error),
            }
        }
        // The loop ends with the last driver.
        drop(closer);
        if outcome.is_ok() {
            let checking = authenticate.clone();
            let route = move |head: &Parts| {
                let path = head.uri.path();
                if let Some((_, inbox, counters)) = routes.iter().find(|(http, ..)| http.serves_path(path)) {
                    let refusal = refuse.as_ref().and_then(|refuse| refuse(head));
                    return refusal.map_or_else(
                        || Destination::Machine(Arc::clone(inbox)),
                        |refusal| {
                            counters.refused(refusal.status());
                            log_refusal(&refusal);
                            Destination::Response(refusal)
                        },
                    );
                }
                let page = pages.as_ref().and_then(|pages| pages(head));
                let servers = routes.iter().map(|(http, ..)| http);
                Destination::Response(page.unwrap_or_else(|| {
                    let response = no_server(servers, head, &checking);
                    log_refusal(&response);
                    response
                }))
            };
            let timeouts = ConnectionTimeouts { head: self.head_timeout, idle: self.idle_timeout };
            let connections =
                HttpConnections::new(max_connections, timeouts, authenticate, route, stopper.is_stopping());
            // Dropping `_serving` ends the watching thread.
            let (_serving, ended) = sync_channel(0);
            let watching = self.leave_after.map(|time| {
                let (are_none, stopper) = (connections.are_none(), stopper.clone());
                let watch = move || stop_when_unused(&are_none, time, &stopper, &ended);
                thread::Builder::new().name("mcp-leave".to_owned()).spawn(watch)
            });
            outcome = watching.transpose().and_then(|_| connections.serve(listener));
            // After an error of the listener, the drivers still run.
            if outcome.is_err() {
                stopper.stop();
            }
            outcome = join(drivers).and(outcome);
            connections.flush();
        } else {
            stopper.stop();
            outcome = join(drivers).and(outcome);
        }
        outcome
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

/// The paths at which clients connect to a server.
fn paths(http: &HttpConfig) -> impl Iterator<Item = &str> {
    let two = http.two_endpoints.iter().flat_map(|two| [&*two.stream, &*two.messages]);
    http.path.as_deref().into_iter().chain(two)
}

fn check_paths(servers: &[Served]) -> io::Result<()> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let mut found = BTreeSet::new();
    for Served { config, .. } in servers {
        for path in paths(&config.http) {
            if !found.insert(path) {
                return invalid(format!("two servers have the path {path}"));
            }
        }
        if config.http.path.is_none() && servers.len() > 1 {
            return invalid("a server without a path cannot be one of several".to_owned());
        }
    }
    if servers.is_empty() {
        return invalid("the gateway has no server".to_owned());
    }
    Ok(())
}

/// The response to a request whose path no server has. Clients that may use the servers receive their paths.
fn no_server<'s>(
    servers: impl Iterator<Item = &'s HttpConfig>,
    head: &Parts,
    authenticate: &Authenticate,
) -> Response<Bytes> {
    let (mut reached, mut forbidden) = (Vec::new(), None);
    for http in servers {
        match http.refusal(head, None) {
            Some(refusal) => forbidden = Some(refusal),
            None => reached.push(http),
        }
    }
    let Some(http) = reached.first() else { return forbidden.unwrap_or_else(|| not_found(None)) };
    match authenticate.check(head) {
        Ok(_) => {
            let paths: BTreeSet<_> = reached.into_iter().flat_map(paths).collect();
            not_found(Some(paths.into_iter().collect::<Vec<_>>().join(", ")))
        }
        // There is something for those with a token.
        Err(challenge) if head.uri.path() == "/" => {
            http.refusal(head, Some(&challenge)).unwrap_or_else(|| not_found(None))
        }
        Err(_) => not_found(None),
    }
}

fn not_found(paths: Option<String>) -> Response<Bytes> {
    let paths = paths.map(|paths| format!(" The paths are: {}", escape_text(&paths, 2000)));
    let text = format!("No MCP server has this path.{}\n", paths.unwrap_or_default());
    let mut response = Response::new(text.into());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Waits for all drivers to end.
fn join(drivers: Vec<thread::JoinHandle<()>>) -> io::Result<()> {
    let mut outcome = Ok(());
    for driver in drivers {
        if driver.join().is_err() {
            outcome = Err(io::Error::other("the thread that owns the machine of a server has panicked"));
        }
    }
    outcome
}
