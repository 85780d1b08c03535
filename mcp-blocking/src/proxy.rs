//! Drives a relay: a client on a pair of byte streams, a server over HTTP or in a process of its own.
//!
//! | file | what it does |
//! |---|---|
//! | `proxy_loop` | what joins the two sides, which is the same whatever carries the messages to the server |
//! | `stdout` | standard output, made for large messages |

mod proxy_loop;
mod stdout;

use std::fmt;
use std::io::{self, Read, Write};
use std::process::Command;
use std::sync::Arc;

use mcp_proto::client::{CloseReason, ExchangeKey, Http, HttpConfig};
use mcp_proto::relay::{Config, Event, Relay};
use mcp_proto::{Stdio, UsageError};

use crate::child::{Child, FromChild, Process};
use crate::http_client::{HttpOptions, Pool, Received};
use crate::stdio::{Output, Unknown};
use proxy_loop::{Input, ProxyLoop};

/// Watches what a proxy does. Any of its threads may call it, one at a time.
pub trait Observer {
    /// The relay tells something.
    fn event(&mut self, event: &Event);
    /// Bytes came from the client.
    fn received(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }
    /// Bytes go to the client.
    fn written(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }
}

/// A proxy between a client on byte streams and a server, over HTTP or in a process of its own.
///
/// # Example: a proxy on this process's stdin and stdout
///
/// ```no_run
/// use mcp_blocking::{HttpOptions, Observer, Proxy};
/// use mcp_proto::client::HttpConfig;
/// use mcp_proto::relay::{Config, Event};
///
/// struct Silent;
///
/// impl Observer for Silent {
///     fn event(&mut self, _: &Event) {}
/// }
///
/// let http = HttpConfig::new("https://example.com/mcp").unwrap();
/// let proxy = Proxy::http(http, HttpOptions::new(), Config::default()).unwrap();
/// proxy.run_on_stdio(Silent).unwrap();
/// ```
#[derive(Debug)]
pub struct Proxy(Upstream);

/// The server's side of a proxy that does not run yet.
#[derive(Debug)]
enum Upstream {
    Http {
        relay: Box<Relay<Http>>,
        options: HttpOptions,
        proxy_loop: ProxyLoop<Http, Pool<Input<(ExchangeKey, Received)>>>,
    },
    Child {
        relay: Box<Relay<Stdio>>,
        command: Command,
        process: Process,
        proxy_loop: ProxyLoop<Stdio, Child<Input<FromChild>>>,
    },
}

impl Proxy {
    /// A proxy to a server over HTTP.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    pub fn http(http: HttpConfig, options: HttpOptions, mut config: Config) -> Result<Self, UsageError> {
        // One thread carries one exchange.
        config.limits.exchanges = options.max_workers;
        let relay = Box::new(Relay::new(Http::new(http), config)?);
        Ok(Self(Upstream::Http { relay, options, proxy_loop: ProxyLoop::new() }))
    }

    /// A proxy to a server that [`Proxy::run`] starts as a child process, over its stdin and stdout. Its stderr is this
    /// process's, unless the command says otherwise.
    ///
    /// At the end its stdin is closed; a server that goes on is asked to end with SIGTERM after two seconds, and killed
    /// after two more, sooner where [`Stopper::stop`] was called (ST-17, ST-18). On Unix it leads a process group of its
    /// own, which is signalled as a whole: Ctrl-C in a terminal does not reach it, but it sees that its stdin is closed
    /// when this process ends. Elsewhere it is killed after the first two seconds, and what it has started itself is not.
    ///
    /// A process that has left the group, as a daemon or a browser does with `setsid`, goes on. It is not looked for: to
    /// find it, this process would have to adopt all orphans of its descendants, those of its application's other children
    /// included, and it could not tell a drain from a program that was meant to stay.
    ///
    /// A server that ends when it is asked which era it belongs to is started once more (ER-06).
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    ///
    /// # Example
    ///
    /// ```
    /// use std::process::Command;
    /// use mcp_blocking::{Observer, Proxy};
    /// use mcp_proto::relay::{Config, Event};
    ///
    /// struct Silent;
    ///
    /// impl Observer for Silent {
    ///     fn event(&mut self, _: &Event) {}
    /// }
    ///
    /// let proxy = Proxy::child(Command::new("/no/such/server"), Config::default()).unwrap();
    /// let error = proxy.run(std::io::empty(), std::io::sink(), Silent).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot start `/no/such/server`: "));
    /// ```
    pub fn child(command: Command, mut config: Config) -> Result<Self, UsageError> {
        config.respawn = true;
        let relay = Box::new(Relay::new(Stdio::new(), config)?);
        Ok(Self(Upstream::Child { relay, command, process: Process::default(), proxy_loop: ProxyLoop::new() }))
    }

    /// A way to end this proxy.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        match &self.0 {
            Upstream::Http { proxy_loop, .. } => Stopper { stop: proxy_loop.stop(), process: Process::default() },
            Upstream::Child { proxy_loop, process, .. } => {
                Stopper { stop: proxy_loop.stop(), process: process.clone() }
            }
        }
    }

    /// Runs until the client has gone, the proxy is stopped, or the server has ended; returns why.
    ///
    /// A side that does not read delays no end. Once the client has closed `input`, requests in flight have
    /// [`Config::drain_timeout`], ending a session has [`HttpConfig::close_timeout`], and ending a process has the times of
    /// [`Proxy::child`]; the client then has 5 seconds from the end of the session to take the rest of `output`, or 1 second
    /// after [`Stopper::stop`]. The threads that read `input` and write `output` end with their streams.
    ///
    /// # Errors
    ///
    /// The server could not be started, or a thread. [`io::ErrorKind::TimedOut`] if the client did not take all of `output`.
    pub fn run(
        self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        observer: impl Observer + Send + 'static,
    ) -> io::Result<CloseReason> {
        self.join(input, Unknown(output), observer)
    }

    /// The same on this process's stdin and stdout.
    ///
    /// # Errors
    ///
    /// As [`Proxy::run`].
    pub fn run_on_stdio(self, observer: impl Observer + Send + 'static) -> io::Result<CloseReason> {
        self.join(io::stdin(), stdout::open()?, observer)
    }

    fn join(
        self,
        input: impl Read + Send + 'static,
        output: impl Output + 'static,
        observer: impl Observer + Send + 'static,
    ) -> io::Result<CloseReason> {
        match self.0 {
            Upstream::Http { relay, options, proxy_loop } => {
                let start = |inbox, backpressure| Ok(Pool::new(options, inbox, backpressure));
                proxy_loop.run(*relay, start, input, output, observer)
            }
            Upstream::Child { relay, command, process, proxy_loop } => {
                let start = |inbox, backpressure| Child::start(command, process, inbox, backpressure);
                proxy_loop.run(*relay, start, input, output, observer)
            }
        }
    }
}

/// Ends a proxy from another thread, such as one that waits for signals.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<dyn Fn() + Send + Sync>,
    process: Process,
}

impl Stopper {
    /// Ends the proxy: the client gets an error for every request that it still waits for, the session is ended. Returns at
    /// once.
    pub fn stop(&self) {
        (self.stop)();
    }

    /// Kills the server's process and what it has started, if there is one, so that nothing is left behind by a program
    /// that ends at once.
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopper").finish_non_exhaustive()
    }
}
