//! Drives a relay between a client on a pair of byte streams and a server over HTTP or in a child process.

use std::sync::Arc;
use std::{fmt, io};

use mcp_application::{PROXY_FLUSH_TIMEOUT, STORED_TOKEN_TIMEOUT, URGENT_PROXY_FLUSH_TIMEOUT};
use mcp_intermediary::relay::{Action, Config, Relay};
use mcp_intermediary::{ObservedOutput, Observer, poll_observed};
use mcp_proto::client::{ClientTransport, CloseReason};
#[cfg(feature = "http-client")]
use mcp_proto::client::{Http, HttpConfig};
use mcp_proto::machine::{ClientStream, ServerStream};
use mcp_proto::{Stdio, UsageError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::Instrument;

use crate::authorize::Authorize;
use crate::byte_stream::{ByteStream, FromStream};
use crate::child;
use crate::clock::{Alarm, now};
#[cfg(feature = "http-client")]
use crate::http_client::{Current, Exchanges, HttpOptions, HttpSettings};
use crate::link::{Feed, Link};
#[cfg(feature = "http-client")]
use crate::sign_in::Authorization;
use crate::stdio::{Streams, Written};

/// A proxy between a client on a pair of byte streams and a server over HTTP or in a child process. The two sides may
/// use different protocol revisions.
///
/// # Example: a proxy on this process's stdin and stdout
///
/// ```no_run
/// use mcp_tokio::proto::client::HttpConfig;
/// use mcp_tokio::intermediary::relay::Config;
/// use mcp_tokio::{HttpOptions, Proxy};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let http = HttpConfig::new("https://example.com/mcp")?;
/// let proxy = Proxy::http(http, HttpOptions::new(), Config::default())?;
/// proxy.run_on_stdio(()).await?;
/// # Ok(())
/// # }
/// ```
pub struct Proxy {
    upstream: Upstream,
    is_stopped: Arc<watch::Sender<bool>>,
}

/// The server's side of a proxy that is not running yet.
enum Upstream {
    #[cfg(feature = "http-client")]
    Http(Box<HttpUpstream>),
    Child(Box<(Relay<Stdio>, Command)>),
}

#[cfg(feature = "http-client")]
struct HttpUpstream {
    source: HttpSource,
    config: Config,
    authorization: Option<Authorization>,
}

/// How the server is reached.
#[cfg(feature = "http-client")]
enum HttpSource {
    Fixed(Box<(HttpConfig, HttpOptions)>),
    Changing(HttpSettings),
}

impl Proxy {
    /// Creates a proxy to a server over HTTP.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    #[cfg(feature = "http-client")]
    pub fn http(http: HttpConfig, options: HttpOptions, config: Config) -> Result<Self, UsageError> {
        Relay::new(Http::new(http.clone()), config.clone())?;
        let source = HttpSource::Fixed(Box::new((http, options)));
        Ok(Self::new(Upstream::Http(Box::new(HttpUpstream { source, config, authorization: None }))))
    }

    /// Creates a proxy to the server of these settings, whose changes it uses while it runs, from its next request on.
    ///
    /// # Errors
    ///
    /// As for [`Proxy::http`].
    #[cfg(feature = "http-client")]
    pub fn http_with(settings: &HttpSettings, config: Config) -> Result<Self, UsageError> {
        Relay::new(Http::new(settings.http()), config.clone())?;
        let source = HttpSource::Changing(settings.clone());
        Ok(Self::new(Upstream::Http(Box::new(HttpUpstream { source, config, authorization: None }))))
    }

    /// Signs in when the server demands it, and sends the tokens with every request. Messages of the client wait
    /// meanwhile. It has no effect if the server runs in a child process, or if `http` has an `Authorization` header.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_tokio::proto::client::HttpConfig;
    /// use mcp_tokio::intermediary::relay::Config;
    /// use mcp_tokio::sign_in::{Authorization, FileStore};
    /// use mcp_tokio::{HttpOptions, Proxy};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let url = "https://example.com/mcp";
    /// let authorization = Authorization::new(url, "my-proxy")?
    ///     .store(FileStore::new(".tokens".as_ref()))
    ///     .open_url(|url| eprintln!("Open {url} to sign in."));
    /// let proxy = Proxy::http(HttpConfig::new(url)?, HttpOptions::new(), Config::default())?;
    /// proxy.authorization(authorization).run_on_stdio(()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Rules: OA-T-01, OA-T-06.
    #[cfg(feature = "http-client")]
    #[must_use]
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        if let Upstream::Http(server) = &mut self.upstream {
            server.authorization = Some(authorization);
        }
        self
    }

    /// Creates a proxy to a server that [`Proxy::run`] starts as a child process, over its stdin and stdout. The child
    /// inherits this process's stderr, unless the command sets another. It is ended as
    /// [`Builder::child`](crate::Builder::child) ends it.
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
    /// use mcp_tokio::intermediary::relay::Config;
    /// use mcp_tokio::Proxy;
    /// use tokio::process::Command;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let proxy = Proxy::child(Command::new("/no/such/server"), Config::default()).unwrap();
    /// let error = proxy.run(tokio::io::empty(), tokio::io::sink(), ()).await.unwrap_err();
    /// assert!(error.to_string().starts_with("cannot start `/no/such/server`: "));
    /// # }
    /// ```
    ///
    /// Rules: ER-06.
    pub fn child(command: Command, mut config: Config) -> Result<Self, UsageError> {
        config.respawn = true;
        let relay = Relay::new(Stdio::new(), config)?;
        Ok(Self::new(Upstream::Child(Box::new((relay, command)))))
    }

    fn new(upstream: Upstream) -> Self {
        Self { upstream, is_stopped: Arc::new(watch::Sender::new(false)) }
    }

    /// Returns a handle that stops this proxy.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { is_stopped: Arc::clone(&self.is_stopped) }
    }

    /// Runs until the client has closed its side, the proxy is stopped, or the server has ended; returns the reason.
    /// Dropping the future ends the proxy at once, and kills the server's process.
    ///
    /// A side that does not read cannot delay the end without limit. Once the client has closed `input`, requests in
    /// flight have [`Config::drain_timeout`], ending a session has `HttpConfig::close_timeout`, and ending a process
    /// takes at most the times of [`Builder::child`](crate::Builder::child). The client then has 5 seconds from the end
    /// of the session to read the rest of `output`, or 1 second after [`Stopper::stop`].
    ///
    /// # Errors
    ///
    /// If the server could not be started, or the HTTP client could not be set up. [`io::ErrorKind::TimedOut`] if the
    /// client did not read all of `output` in time.
    pub async fn run(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        observer: impl Observer + Send,
    ) -> io::Result<CloseReason> {
        self.run_until_written(input, output, None, observer).await
    }

    /// Like [`Proxy::run`], on this process's stdin and stdout, each of which has a thread of its own.
    ///
    /// # Errors
    ///
    /// As for [`Proxy::run`].
    pub async fn run_on_stdio(self, observer: impl Observer + Send) -> io::Result<CloseReason> {
        let Streams { read, write, written } = Streams::open()?;
        self.run_until_written(read, write, Some(written), observer).await
    }

    /// Runs the proxy. `written` reports what has left the process, if `output` is stdout.
    async fn run_until_written(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        written: Option<Written>,
        observer: impl Observer + Send,
    ) -> io::Result<CloseReason> {
        let client = ByteStream::new(ClientStream, input, output);
        let is_stopped = self.is_stopped.subscribe();
        match self.upstream {
            #[cfg(feature = "http-client")]
            Upstream::Http(server) => {
                let HttpUpstream { source, config, authorization } = *server;
                let settings = match source {
                    HttpSource::Fixed(fixed) => HttpSettings::build(fixed.0, fixed.1).map_err(io::Error::other)?,
                    HttpSource::Changing(settings) => settings,
                };
                let changes = settings.changes();
                let Current { mut http, for_other_servers, .. } = changes.current();
                http.managed_authorization |= authorization.is_some();
                let span = tracing::info_span!("mcp_proxy", server = http.server());
                let name: Arc<str> = format!("the server at {}", http.server()).into();
                let start = |authorization: Authorization| authorization.start_for_client(&for_other_servers, name);
                let authorize = span.in_scope(|| authorization.map(start).transpose()).map_err(io::Error::other)?;
                let link = Exchanges::following(changes);
                let relay = Relay::new(Http::new(http), config).map_err(io::Error::other)?;
                let running = Running { relay, link, authorize, client, observer, is_stopped };
                Box::pin(running.run(written).instrument(span)).await
            }
            Upstream::Child(server) => {
                let (relay, mut command) = *server;
                let span = tracing::info_span!("mcp_proxy", program = ?command.as_std().get_program());
                let start = move || child::start(&mut command, false);
                let link = span.in_scope(|| ByteStream::start(ServerStream, start))?;
                let running = Running { relay, link, authorize: (), client, observer, is_stopped };
                Box::pin(running.run(written).instrument(span)).await
            }
        }
    }
}

/// Omits everything else, which may contain credentials.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.upstream {
            #[cfg(feature = "http-client")]
            Upstream::Http(_) => "http",
            Upstream::Child(_) => "child",
        };
        f.debug_struct("Proxy").field("upstream", &kind).finish_non_exhaustive()
    }
}

/// Stops a proxy from another task, such as a task that waits for signals.
#[derive(Debug, Clone)]
pub struct Stopper {
    is_stopped: Arc<watch::Sender<bool>>,
}

impl Stopper {
    /// Stops the proxy: the client gets an error for every pending request, and the session is ended. Returns without
    /// waiting for the end.
    pub fn stop(&self) {
        self.is_stopped.send_replace(true);
    }
}

/// What has happened to a relay that runs.
enum Happened<O, R> {
    SignIn(O),
    Server(R),
    Client(FromStream),
    Stopped,
    Due,
}

/// A relay, its connection to the server and the streams of its client.
struct Running<T: ClientTransport, L, A, R, W, O> {
    relay: Relay<T>,
    link: L,
    authorize: A,
    client: ByteStream<ClientStream, R, W>,
    observer: O,
    is_stopped: watch::Receiver<bool>,
}

impl<T, L, A, R, W, O> Running<T, L, A, R, W, O>
where
    T: ClientTransport,
    L: Feed<Relay<T>, Action = T::Action>,
    A: Authorize<Relay<T>>,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    O: Observer,
{
    async fn run(mut self, written: Option<Written>) -> io::Result<CloseReason> {
        let (mut alarm, mut is_closing) = (Alarm::new(), false);
        // Until then, the client's first message waits for the stored token.
        let mut held_until = self.authorize.start().then(|| now() + STORED_TOKEN_TIMEOUT);
        let reason = loop {
            if let Some(reason) = self.drain() {
                break reason;
            }
            held_until = held_until.filter(|until| *until > now());
            let Self { relay, link, authorize, client, observer, is_stopped } = &mut self;
            let due = relay.poll_timeout().into_iter().chain(held_until).min();
            let wants_body = link.wants_input(relay);
            let wants_bytes = held_until.is_none() && client.wants_input(relay);
            let happened = tokio::select! {
                outcome = authorize.outcome() => Happened::SignIn(outcome),
                received = link.receive(wants_body) => Happened::Server(received),
                received = client.receive(wants_bytes) => Happened::Client(received),
                () = until_stopped(is_stopped), if !is_closing => Happened::Stopped,
                () = alarm.wait(due) => Happened::Due,
            };
            link.catch_up(relay);
            match happened {
                Happened::SignIn(outcome) => {
                    let has_ended = authorize.apply(relay, outcome);
                    held_until = held_until.filter(|_| !has_ended);
                }
                Happened::Server(received) => link.feed(relay, received),
                Happened::Client(received) => {
                    let is_closed = matches!(received, FromStream::Closed);
                    if let FromStream::Read = received {
                        observer.received(client.unread());
                    }
                    client.feed(relay, received);
                    if is_closed {
                        // The client no longer reads, so there is nothing left to do.
                        relay.close(now());
                    }
                }
                Happened::Stopped => {
                    is_closing = true;
                    relay.close(now());
                }
                Happened::Due => relay.handle_timeout(now()),
            }
        };
        self.end(reason, written).await
    }

    /// Carries out all outputs of the relay. Returns the reason once the relay is closed.
    fn drain(&mut self) -> Option<CloseReason> {
        while let Some(output) = poll_observed(&mut self.relay, &mut self.observer) {
            match output {
                ObservedOutput::Action(Action::Client(action)) => self.client.act(action),
                ObservedOutput::Action(Action::Server(action)) => self.link.act(action),
                ObservedOutput::Closed(reason) => return Some(reason),
                ObservedOutput::Challenged(challenged) => self.authorize.challenged(challenged),
                ObservedOutput::PinsStored(pins) => self.relay.handle_pins(pins, now()),
            }
        }
        None
    }

    /// Ends the connection to the server. Meanwhile, the client may read the last lines.
    async fn end(self, reason: CloseReason, written: Option<Written>) -> io::Result<CloseReason> {
        let Self { link, client, is_stopped, .. } = self;
        if let CloseReason::ProcessEnded(end) = reason {
            tracing::warn!("the server {end}; see its stderr for the reason");
        }
        let ((), flushed) = tokio::join!(link.end(), flush(client, written, is_stopped));
        flushed.map(|()| reason)
    }
}

/// Writes the last lines, unless the client does not read them in time.
async fn flush(
    client: ByteStream<ClientStream, impl Sized, impl AsyncWrite + Send + Unpin + 'static>,
    written: Option<Written>,
    mut is_stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let closed = Instant::now();
    let too_late = async {
        let _ = timeout_at(closed + PROXY_FLUSH_TIMEOUT, until_stopped(&mut is_stopped)).await;
        sleep_until(closed + URGENT_PROXY_FLUSH_TIMEOUT).await;
    };
    client.flush(written, too_late).await
}

async fn until_stopped(is_stopped: &mut watch::Receiver<bool>) {
    // Without a sender, the proxy cannot be stopped any more.
    if is_stopped.wait_for(|is_stopped| *is_stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
