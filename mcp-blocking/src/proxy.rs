//! Drives a relay between a client on a pair of byte streams and a server over HTTP or in a child process.
//!
//! | file | what it does |
//! |---|---|
//! | `proxy_loop` | connects the two sides; the same code for HTTP and for child processes |
//! | `input_lock` | a lock with a queue of input, which the thread that holds it passes in |

mod input_lock;
mod proxy_loop;

use std::fmt;
use std::io::{self, Read, Write};
use std::process::Command;
use std::sync::Arc;

use mcp_intermediary::Observer;
use mcp_intermediary::relay::{Config, Relay};
use mcp_proto::client::{CloseReason, ExchangeKey, Http, HttpConfig};
use mcp_proto::{Stdio, UsageError};
use proxy_loop::{Authorizing, Input, ProxyLoop};

use crate::child::{Child, FromChild, Process};
use crate::http_client::{FromWorker, HttpOptions, HttpSettings, Pool};
use crate::sign_in::Authorization;
use crate::stdio::{MayBlock, Output, Pipe};

/// A proxy between a client on a pair of byte streams and a server over HTTP or in a child process. The two sides may
/// use different protocol revisions.
///
/// # Example: a proxy on this process's stdin and stdout
///
/// ```no_run
/// use mcp_blocking::{HttpOptions, Proxy};
/// use mcp_blocking::proto::client::HttpConfig;
/// use mcp_blocking::intermediary::relay::Config;
///
/// let http = HttpConfig::new("https://example.com/mcp").unwrap();
/// let proxy = Proxy::http(http, HttpOptions::new(), Config::default()).unwrap();
/// proxy.run_on_stdio(()).unwrap();
/// ```
pub struct Proxy(Upstream);

/// The server's side of a proxy that is not running yet.
enum Upstream {
    Http {
        settings: HttpSettings,
        config: Box<Config>,
        authorization: Option<Box<Authorization>>,
        proxy_loop: ProxyLoop<Http, Pool<Input<(ExchangeKey, FromWorker)>>>,
    },
    Child {
        relay: Box<Relay<Stdio>>,
        command: Command,
        process: Process,
        proxy_loop: ProxyLoop<Stdio, Child<Input<FromChild>>>,
    },
}

impl Proxy {
    /// Creates a proxy to a server over HTTP.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn http(http: HttpConfig, options: HttpOptions, config: Config) -> Result<Self, UsageError> {
        Self::http_with(&HttpSettings::new(http, options), config)
    }

    /// Creates a proxy to the server of these settings, whose changes it uses while it runs, from its next request on.
    ///
    /// # Errors
    ///
    /// As for [`Proxy::http`].
    pub fn http_with(settings: &HttpSettings, config: Config) -> Result<Self, UsageError> {
        Relay::new(Http::new(settings.current().0), config.clone())?;
        let (settings, config) = (settings.clone(), Box::new(config));
        Ok(Self(Upstream::Http { settings, config, authorization: None, proxy_loop: ProxyLoop::new() }))
    }

    /// Signs in when the server demands it, and sends the tokens with every request. Messages of the client wait
    /// meanwhile. It has no effect if the server runs in a child process, or if `http` has an `Authorization` header.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_blocking::sign_in::{Authorization, FileStore};
    /// use mcp_blocking::{HttpOptions, Proxy};
    /// use mcp_blocking::proto::client::HttpConfig;
    /// use mcp_blocking::intermediary::relay::Config;
    ///
    /// let url = "https://example.com/mcp";
    /// let authorization = Authorization::new(url, "my-proxy")?
    ///     .store(FileStore::new(".tokens".as_ref()))
    ///     .open_url(|url| eprintln!("Open {url} to sign in."));
    /// let proxy = Proxy::http(HttpConfig::new(url)?, HttpOptions::new(), Config::default())?;
    /// proxy.authorization(authorization).run_on_stdio(())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Rules: OA-T-01, OA-T-06.
    #[must_use]
    pub fn authorization(mut self, own: Authorization) -> Self {
        if let Upstream::Http { authorization, .. } = &mut self.0 {
            *authorization = Some(Box::new(own));
        }
        self
    }

    /// Creates a proxy to a server that [`Proxy::run`] starts as a child process, over its stdin and stdout. The child
    /// inherits this process's stderr, unless the command sets another.
    ///
    /// At the end, the server's stdin is closed. A server that still runs after two seconds receives SIGTERM, and is
    /// killed after two more; both times are 0.7 s if [`Stopper::stop`] was called. On Unix, the server has its own
    /// process group, and signals are sent to the whole group: Ctrl-C in a terminal does not reach it, but its stdin is
    /// closed when this process ends. On other platforms it is killed after the first of these times, and processes
    /// that it has started are not.
    ///
    /// A process that has left the group with `setsid`, as a daemon or a browser does, keeps running. The proxy does
    /// not search for such processes: it could not distinguish those that were left behind from programs that are meant
    /// to keep running.
    ///
    /// A server that exits while its era is being detected is started once more.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    ///
    /// # Example
    ///
    /// ```
    /// use std::process::Command;
    /// use mcp_blocking::Proxy;
    /// use mcp_blocking::intermediary::relay::Config;
    ///
    /// let proxy = Proxy::child(Command::new("/no/such/server"), Config::default()).unwrap();
    /// let error = proxy.run(std::io::empty(), std::io::sink(), ()).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot start `/no/such/server`: "));
    /// ```
    ///
    /// Rules: ST-17, ST-18, ER-06.
    pub fn child(command: Command, mut config: Config) -> Result<Self, UsageError> {
        config.respawn = true;
        let relay = Box::new(Relay::new(Stdio::new(), config)?);
        Ok(Self(Upstream::Child { relay, command, process: Process::default(), proxy_loop: ProxyLoop::new() }))
    }

    /// Returns a handle that stops this proxy.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        match &self.0 {
            Upstream::Http { proxy_loop, .. } => Stopper { stop: proxy_loop.stop(), process: Process::default() },
            Upstream::Child { proxy_loop, process, .. } => {
                Stopper { stop: proxy_loop.stop(), process: process.clone() }
            }
        }
    }

    /// Runs until the client has closed its side, the proxy is stopped, or the server has ended; returns the reason.
    ///
    /// A side that does not read cannot delay the end without limit. Once the client has closed `input`, requests in
    /// flight have [`Config::drain_timeout`], ending a session has [`HttpConfig::close_timeout`], and ending a process
    /// takes at most the times of [`Proxy::child`]. The client then has 5 seconds from the end of the session to read
    /// the rest of `output`, or 1 second after [`Stopper::stop`]. The threads that read `input` and write `output` end
    /// with their streams.
    ///
    /// # Errors
    ///
    /// If the server or a thread could not be started, or the environment sets an HTTP proxy that cannot be used.
    /// [`io::ErrorKind::TimedOut`] if the client did not read all of `output` in time.
    pub fn run(
        self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        observer: impl Observer + Send + 'static,
    ) -> io::Result<CloseReason> {
        self.join(input, MayBlock(output), observer)
    }

    /// Like [`Proxy::run`], on this process's stdin and stdout.
    ///
    /// # Errors
    ///
    /// As for [`Proxy::run`].
    pub fn run_on_stdio(self, observer: impl Observer + Send + 'static) -> io::Result<CloseReason> {
        self.join(io::stdin(), Pipe::of_stdout()?, observer)
    }

    fn join(
        self,
        input: impl Read + Send + 'static,
        output: impl Output + 'static,
        observer: impl Observer + Send + 'static,
    ) -> io::Result<CloseReason> {
        match self.0 {
            Upstream::Http { settings, config, authorization, proxy_loop } => {
                let (mut http, mut options) = settings.current();
                http.managed_authorization |= authorization.is_some();
                let authorizing = authorization.map(|authorization| Authorizing {
                    authorization: *authorization,
                    // The authorization server may be reached through another proxy, which the environment sets.
                    settings: settings.clone(),
                    server: format!("the server at {}", http.server()),
                    authorize: |relay: &mut Relay<Http>, outcome, now| outcome.pass_to(relay, now),
                });
                options.read_env(&http).map_err(io::Error::other)?;
                let exchanges = config.limits.exchanges;
                let relay = Relay::new(Http::new(http), *config).map_err(io::Error::other)?;
                let start =
                    |inbox, backpressure| Ok(Pool::new(options, exchanges, inbox, backpressure).following(settings));
                proxy_loop.run(relay, start, authorizing, input, output, observer)
            }
            Upstream::Child { relay, command, process, proxy_loop } => {
                let start = |inbox, backpressure| Child::start(command, process, inbox, backpressure);
                proxy_loop.run(*relay, start, None, input, output, observer)
            }
        }
    }
}

/// Omits everything else: the command's arguments and environment may contain credentials.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Upstream::Http { .. } => "http",
            Upstream::Child { .. } => "child",
        };
        f.debug_struct("Proxy").field("upstream", &kind).finish_non_exhaustive()
    }
}

/// Stops a proxy from another thread, such as a thread that waits for signals.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<dyn Fn() + Send + Sync>,
    process: Process,
}

impl Stopper {
    /// Stops the proxy: the client gets an error for every pending request, and the session is ended. Returns without
    /// waiting for the end.
    pub fn stop(&self) {
        (self.stop)();
    }

    /// Kills the server's process and the processes that it has started, if there are any, for a program that exits
    /// immediately afterwards.
    pub fn kill(&self) {
        self.process.kill_finally();
    }
}

mcp_application::opaque_debug!(Stopper);
