//! Blocking servers: over HTTP on `std::net`, and on a byte stream.
//!
//! One thread owns the machine, each connection has a thread, and requests are handled on a pool of threads. The number
//! of connections and the size of the pool are bounded.
//!
//! | file | what it does |
//! |---|---|
//! | `commands` | commands of handlers and of the application to the driver |
//! | `http1` | parses and writes HTTP/1.1 |
//! | `connection` | requests and responses of one connection |
//! | `driver` | the thread that owns the machine |
//! | `http_exchanges` | passes the requests of connections to the machine, and its responses to the connections |
//! | `stdio` | a server on a byte stream |
//! | `handlers` | the threads on which requests are handled |
//! | `subscriptions` | a queue of subscription changes for the service |
//! | `service` | the application's service, which handles requests |
//! | `incoming` | a request as its handler receives it |

mod commands;
mod connection;
mod driver;
mod handlers;
mod http1;
mod http_exchanges;
mod incoming;
mod service;
mod stdio;
mod subscriptions;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::UsageError;
use mcp_proto::driver::{Admitted, ConnectionTimeouts, SharedConnections, may_accept_later};
use mcp_proto::server::{Config, Http, HttpConfig, PeerKey};

use commands::{Command, Commands, Input};
use connection::{Connection, close, refuse_at_once};
use driver::Driver;
use handlers::Handlers;
use http_exchanges::{Arrived, HttpExchanges};

use crate::clock;

pub use incoming::{Incoming, ServerPublisher};
pub use service::Service;
pub use stdio::{StdioServer, StdioServerStopper};

/// How long the last responses may take to be written when a server is stopped.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections beyond the limit that get a thread which answers them with 503.
const MAX_REFUSED: usize = 32;
/// Stack size of a connection's thread, in bytes.
const STACK: usize = 256 * 1024;

/// A server over HTTP, with a listening socket that is bound already.
///
/// # Example: a tool, served to clients on this machine
///
/// ```no_run
/// use mcp_blocking::{Incoming, Server};
/// use mcp_proto::server::Config;
/// use mcp_proto::{ErrorObject, Json, code};
///
/// fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
///     let text = match incoming.method().as_str() {
///         "tools/list" => r#"{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}"#,
///         "tools/call" => r#"{"content":[{"type":"text","text":"Hello!"}]}"#,
///         _ => return Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
///     };
///     Ok(Json::parse(text).expect("JSON"))
/// }
///
/// let mut config = Config::new("my-tools", "1.0.0");
/// config.capabilities = Json::parse(r#"{"tools":{}}"#)?;
/// let server = Server::bind("127.0.0.1:3000", config)?;
/// println!("http://{}/mcp", server.address());
/// server.run(serve)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    config: Config,
    http: HttpConfig,
    /// The maximum number of connections at one time. For one more, an idle connection is closed: of the address with
    /// the most connections, the one that has been idle for longest. If none is idle, the new connection is answered
    /// with 503. Streams that clients opened by GET take at most half of the connections, whatever
    /// [`HttpConfig::max_streams`] is, and subscriptions at most a quarter, whatever `Limits::subscriptions` is.
    /// Default 256.
    pub max_connections: usize,
    /// How long the head of a request may take, from its first byte on. After that, the request is answered with 408.
    /// Default 10 s.
    pub head_timeout: Duration,
    /// How long a connection may be idle before it is closed. Default 60 s.
    pub idle_timeout: Duration,
    /// The maximum number of threads on which requests are handled. Default 32.
    pub max_handlers: usize,
    inbox: SyncSender<Input<Arrived>>,
    inputs: std::sync::mpsc::Receiver<Input<Arrived>>,
    is_stopped: Arc<AtomicBool>,
}

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub struct ServerStopper {
    commands: Commands,
    is_stopped: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Server {
    /// Listens on this address. The endpoint is `/mcp`. Only requests for hosts and from origins of this machine are
    /// accepted; [`mcp_proto::server::Access`] allows others.
    ///
    /// # Errors
    ///
    /// The I/O error of binding a socket to the address.
    pub fn bind(address: impl ToSocketAddrs, config: Config) -> io::Result<Self> {
        Self::bind_with(address, config, HttpConfig::new())
    }

    /// Listens on this address, with `http` as the configuration of HTTP.
    ///
    /// # Errors
    ///
    /// The I/O error of binding a socket to the address.
    pub fn bind_with(address: impl ToSocketAddrs, config: Config, http: HttpConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (inbox, inputs) = sync_channel(256);
        let timeouts = ConnectionTimeouts::default();
        Ok(Self {
            listener,
            address,
            config,
            http,
            max_connections: 256,
            head_timeout: timeouts.head,
            idle_timeout: timeouts.idle,
            max_handlers: 32,
            inbox,
            inputs,
            is_stopped: Arc::new(AtomicBool::new(false)),
        })
    }

    /// The local address of the listening socket.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> ServerStopper {
        ServerStopper {
            commands: Commands::to(self.inbox.clone()),
            is_stopped: Arc::clone(&self.is_stopped),
            address: self.address,
        }
    }

    /// Returns a handle that publishes changes to clients while the server runs.
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        ServerPublisher { commands: Commands::to(self.inbox.clone()) }
    }

    /// Serves until the server is stopped. [`ServerStopper::stop`] stops it.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, if a thread could not be started, or if no connections can be accepted any
    /// more.
    pub fn run(self, service: impl Service) -> io::Result<()> {
        let Self { listener, mut config, mut http, max_connections, max_handlers, inbox, inputs, is_stopped, .. } =
            self;
        let timeouts = ConnectionTimeouts { head: self.head_timeout, idle: self.idle_timeout };
        // Streams and subscriptions that clients hold open must leave connections free for requests (M4).
        http.max_streams = http.max_streams.min(max_connections.div_ceil(2));
        config.limits.subscriptions = config.limits.subscriptions.min(max_connections.div_ceil(4));
        let machine = mcp_proto::Server::new(Http::new(http), config).map_err(unusable)?;
        let driver = Driver::new(
            machine,
            HttpExchanges::default(),
            Commands::to(inbox.clone()),
            Handlers::new(max_handlers),
            Arc::new(service),
        );
        let driver = thread::Builder::new().name("mcp-server".to_owned()).spawn(move || driver.run(&inputs))?;
        let connections = SharedConnections::new(max_connections, MAX_REFUSED, clock::now);
        let answering = Arc::new(AtomicUsize::new(0));
        loop {
            let accepted = listener.accept();
            if is_stopped.load(Ordering::Acquire) {
                break;
            }
            match accepted {
                Ok((stream, peer)) => serve(Arc::new(stream), peer.ip(), &connections, timeouts, &inbox, &answering),
                Err(error) if may_accept_later(&error) => {
                    log::warn!("a connection could not be accepted: {error}");
                    // With no file descriptor left, the next attempt fails too until a connection ends.
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error),
            }
        }
        let _ = driver.join();
        // The connections may still be writing the last responses, and the process may end when this returns.
        let until = Instant::now() + FLUSH_TIMEOUT;
        while answering.load(Ordering::Acquire) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ServerStopper {
    /// Stops the server: pending requests are answered with an error, later ones with 503; then [`Server::run`]
    /// returns.
    pub fn stop(&self) {
        if !self.is_stopped.swap(true, Ordering::AcqRel) {
            let _ = self.commands.send(Command::Stop);
            // The accept loop checks for the end only after an accepted connection, which this provides.
            let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        }
    }
}

fn unusable(error: UsageError) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

fn serve(
    stream: Arc<TcpStream>,
    peer: IpAddr,
    connections: &SharedConnections<Arc<TcpStream>>,
    timeouts: ConnectionTimeouts,
    inbox: &SyncSender<Input<Arrived>>,
    answering: &Arc<AtomicUsize>,
) {
    let peer = PeerKey::from(peer);
    let (slot, is_served) = match connections.admit(&peer, Arc::clone(&stream)) {
        Admitted::Served { slot, evicted } => {
            if let Some(evicted) = evicted {
                close(&evicted);
            }
            (slot, true)
        }
        Admitted::Refused(slot) => (slot, false),
        Admitted::RefusedAtOnce => {
            log::warn!("there are too many connections; another one was refused");
            let _ = stream.set_nonblocking(true).and_then(|()| refuse_at_once(&stream));
            return;
        }
    };
    if !is_served {
        log::warn!("all connections are in use; another one was refused");
    }
    let (inbox, answering) = (inbox.clone(), Arc::clone(answering));
    let spawned = thread::Builder::new().name("mcp-connection".to_owned()).stack_size(STACK).spawn(move || {
        let connection = Connection::new(stream, slot, peer, timeouts, inbox, answering);
        let run = if is_served { Connection::run } else { Connection::refuse_all };
        if let Err(error) = connection.and_then(run) {
            log::debug!("a connection ended: {error}");
        }
    });
    if let Err(error) = spawned {
        log::warn!("cannot start another thread: {error}");
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::Json;

    use super::*;

    /// A server that is stopped waits only for responses that are being written.
    #[test]
    fn a_server_without_requests_ends_at_once() {
        let server = Server::bind("127.0.0.1:0", Config::new("s", "1")).unwrap();
        let stopper = server.stopper();
        let running = thread::spawn(move || server.run(|_: &Incoming| Ok(Json::empty_object())));
        // This connection is served and closed.
        let mut idle = TcpStream::connect(stopper.address).unwrap();
        io::Write::write_all(&mut idle, b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        io::Read::read_to_end(&mut idle, &mut Vec::new()).unwrap();
        let began = Instant::now();
        stopper.stop();
        stopper.stop();
        running.join().unwrap().unwrap();
        assert!(began.elapsed() < FLUSH_TIMEOUT / 2, "{:?}", began.elapsed());
    }
}
