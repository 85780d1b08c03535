//! HTTP exchanges, each in a task of its own.
//!
//! The machine limits their number (`Limits::exchanges`). Parts of bodies are queued in one bounded channel, which is
//! read while the machine has room; a task that finds it full stops reading. The queue holds at most [`WAITING`] parts,
//! plus one for each exchange, of [`PART`] bytes each.
//!
//! | file | what it does |
//! |---|---|
//! | `fetch` | requests whose responses are read in full: those of a sign-in, and that for a server's card |
//! | `outgoing` | the body of a request, which reports when it is read |
//! | `settings` | headers and HTTP clients that change while proxies use them |
//! | `failure` | conversion of the HTTP library's errors for the machine |

mod failure;
pub(crate) mod fetch;
mod outgoing;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use failure::{failure, in_words};
use http::Request;
use http::response::Parts;
use mcp_application::{CONNECT_TIMEOUT, ProxyExceptions};
use mcp_auth::Cryptography as _;
use mcp_proto::auth::ProofClaims;
use mcp_proto::client::{ExchangeKey, Failure, HttpAction, HttpConfig};
use mcp_proto::machine::{HandleResponses, Received};
use outgoing::Outgoing;
use reqwest::redirect;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument;

use settings::Changes;
pub(crate) use settings::Current;
pub use settings::HttpSettings;

use crate::clock::{now, unix_time};
use crate::link::{Feed, Link};
use crate::platform::over_local_socket;
use crate::signing::AwsLc;

/// The capacity of the channel from exchanges to the machine.
const WAITING: usize = 32;
/// The maximum bytes of a queued part of a body. The HTTP library may read more at a time, up to some 400 KiB.
const PART: usize = 64 * 1024;

/// Options of the HTTP client: how long connecting may take, and the client of `reqwest` with its certificates and
/// proxies.
///
/// # Certificates
///
/// The certificate authorities of the operating system are trusted. A client with other authorities, for example by
/// [`reqwest::ClientBuilder::tls_certs_only`], is passed to [`HttpOptions::client`].
///
/// # HTTP proxies
///
/// By default, the environment sets the proxy: `HTTPS_PROXY` for servers at `https` URLs, `HTTP_PROXY` for `http`,
/// `ALL_PROXY` for both. The hosts listed in `NO_PROXY`
/// ([`ProxyExceptions`]) are reached directly, and so are servers on this machine.
/// [`HttpOptions::no_proxy`] sets none, [`HttpOptions::client`] another one.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_tokio::{HttpOptions, reqwest};
///
/// let mut options = HttpOptions::new();
/// options.connect_timeout = Duration::from_secs(3);
/// let own = reqwest::Client::builder().proxy(reqwest::Proxy::all("http://127.0.0.1:3128").unwrap());
/// let options = options.client(own);
/// ```
#[non_exhaustive]
pub struct HttpOptions {
    /// How long connecting may take, name resolution and TLS included. Default 10 s.
    pub connect_timeout: Duration,
    /// The header `User-Agent` of every request.
    pub user_agent: String,
    is_direct: bool,
    /// The Unix socket of the server.
    socket: Option<PathBuf>,
    /// `None` for one with the default configuration.
    client: Option<reqwest::ClientBuilder>,
}

impl HttpOptions {
    /// Creates options that trust the certificate authorities of the operating system, and use the proxies from the
    /// environment, except for servers on this machine.
    #[must_use]
    pub fn new() -> Self {
        let user_agent = concat!("mcp-tokio/", env!("CARGO_PKG_VERSION")).to_owned();
        Self { connect_timeout: CONNECT_TIMEOUT, user_agent, is_direct: false, socket: None, client: None }
    }

    /// Reaches servers without an HTTP proxy, whatever the environment sets.
    pub fn no_proxy(&mut self) {
        self.is_direct = true;
    }

    /// Reaches the server by HTTP/1.1 over the Unix socket at this path, whatever the host and port of its URL are: use
    /// `http://localhost/mcp`, since servers usually accept only requests for their own machine. Authorization servers are
    /// reached over the network.
    ///
    /// On systems without Unix sockets, connecting fails.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_tokio::{Client, HttpOptions};
    ///
    /// # async fn example() -> Result<(), mcp_tokio::Error> {
    /// let mut options = HttpOptions::new();
    /// options.unix_socket("/run/user/1000/mcp.sock");
    /// let client = Client::builder().http("http://localhost/mcp")?.http_options(options).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unix_socket(&mut self, path: impl Into<PathBuf>) {
        self.socket = Some(path.into());
    }

    /// Uses this HTTP client, for example for its certificates, proxies and name resolution. The other options are not
    /// applied to it.
    ///
    /// Redirects, retries, `Referer` and decompression are disabled in it, because the machine decides about them. A
    /// timeout for whole responses would also end streams: use
    /// [`Builder::request_timeout`](crate::Builder::request_timeout) instead.
    ///
    /// For the TLS of the platform (`SChannel`, Secure Transport, OpenSSL) in place of rustls, whose certificates are those of
    /// the platform in any case, depend on `reqwest` with its feature `native-tls`, and set
    /// `reqwest::Client::builder().tls_backend_native()`.
    ///
    /// Requests to authorization servers are not sent with it, because its headers are for this server:
    /// [`Authorization::http_options`](crate::sign_in::Authorization::http_options) sets another one for these.
    #[must_use]
    pub fn client(mut self, client: reqwest::ClientBuilder) -> Self {
        self.client = Some(client);
        self
    }

    /// The options for other servers, without the socket and the HTTP client that were set: they are for one server.
    pub(crate) fn for_other_servers(&self) -> Self {
        let Self { connect_timeout, ref user_agent, is_direct, socket: _, client: _ } = *self;
        Self { connect_timeout, user_agent: user_agent.clone(), is_direct, socket: None, client: None }
    }

    /// The HTTP client with the default configuration, for servers that are reached directly or for others.
    fn default_client(&self, is_direct: bool) -> Result<reqwest::ClientBuilder, HttpClientError> {
        // Another crate may enable a feature of reqwest that changes its default.
        let client = reqwest::Client::builder().tls_backend_rustls();
        let client = client.user_agent(&*self.user_agent).connect_timeout(self.connect_timeout);
        match &self.socket {
            // The socket has no proxy, and requests over it would still have its password.
            Some(path) => over_local_socket(client.no_proxy(), path)
                .ok_or_else(|| HttpClientError("there are no Unix sockets on this system".to_owned())),
            None if self.is_direct || is_direct => Ok(client.no_proxy()),
            None => Ok(client),
        }
    }
}

/// Whether a server is reached directly although the environment may set a proxy: one on this machine, or one that
/// `NO_PROXY` lists.
pub(crate) fn is_direct(server: &HttpConfig) -> bool {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let listed = variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default();
    server.is_loopback() || ProxyExceptions::parse(&listed).contain_server_of(&server.uri())
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Omits the HTTP client, whose headers and proxies may contain credentials.
impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions").field("connect_timeout", &self.connect_timeout).finish_non_exhaustive()
    }
}

/// Disables everything that would interfere with the decisions of a machine.
fn without_interference(client: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    client
        // The machine decides which redirects are followed (invariant 8).
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        // Bodies are not decompressed, so that the machine detects one that was compressed without being requested
        // (HT10).
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
}

/// The HTTP client for a server.
#[derive(Clone)]
struct ServerClient {
    client: reqwest::Client,
    /// The Unix socket of the server.
    socket: Option<Arc<Path>>,
}

fn client_for(mut options: HttpOptions, server: &HttpConfig) -> Result<ServerClient, HttpClientError> {
    let socket = options.socket.as_deref().filter(|_| options.client.is_none()).map(Arc::from);
    let client = options.client.take().map_or_else(|| options.default_client(is_direct(server)), Ok)?;
    let client = without_interference(client).build().map_err(|error| HttpClientError(in_words(&error)))?;
    Ok(ServerClient { client, socket })
}

/// The exchanges of one connection.
pub(crate) struct Exchanges {
    client: ServerClient,
    /// Where the headers and the HTTP client change.
    changes: Option<Changes>,
    /// Dropping this aborts all of them.
    tasks: JoinSet<()>,
    open: BTreeMap<ExchangeKey, AbortHandle>,
    hand_in: mpsc::Sender<(ExchangeKey, Received<Bytes>)>,
    received: mpsc::Receiver<(ExchangeKey, Received<Bytes>)>,
}

/// Why an HTTP client cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub(crate) struct HttpClientError(String);

impl Exchanges {
    pub(crate) fn new(options: HttpOptions, config: &HttpConfig) -> Result<Self, HttpClientError> {
        Ok(Self::with_client(client_for(options, config)?, None))
    }

    /// The exchanges of a machine with the headers of these settings, whose changes it uses.
    pub(crate) fn following(changes: Changes) -> Self {
        Self::with_client(changes.current().client, Some(changes))
    }

    fn with_client(client: ServerClient, changes: Option<Changes>) -> Self {
        let (hand_in, received) = mpsc::channel(WAITING);
        Self { client, changes, tasks: JoinSet::new(), open: BTreeMap::new(), hand_in, received }
    }

    fn open(&mut self, exchange: ExchangeKey, mut request: Request<Bytes>, proof: Option<&ProofClaims>) {
        match proof.map(|claims| AwsLc::proof_header(claims, unix_time())) {
            Some(Some(proof)) => {
                request.headers_mut().insert("dpop", proof);
            }
            // The server refuses the request.
            Some(None) => tracing::error!("the key to which the access token is bound cannot sign"),
            None => {}
        }

        tracing::trace!(?exchange, method = %request.method(), bytes = request.body().len(), "an exchange begins");
        let hand_in = HandIn { exchange, to: self.hand_in.clone() };
        let task = self.tasks.spawn(carry(self.client.clone(), request, hand_in).in_current_span());
        self.open.insert(exchange, task);
    }

    fn pass(&mut self, machine: &mut impl HandleResponses, exchange: ExchangeKey, received: Received<Bytes>) {
        // The end of an aborted exchange is nothing to log.
        if !self.open.contains_key(&exchange) {
            return;
        }
        match &received {
            Received::Head(head) => {
                tracing::trace!(?exchange, status = head.status.as_u16(), "an exchange is answered");
            }
            Received::Failed(failure) => tracing::debug!(?exchange, ?failure, "an exchange failed"),
            Received::Sent | Received::Body(_) | Received::End => {}
        }
        if received.is_last() {
            self.open.remove(&exchange);
        }
        machine.handle_received(exchange, received, now());
    }
}

impl Link for Exchanges {
    type Action = HttpAction;
    type Received = (ExchangeKey, Received<Bytes>);

    fn act(&mut self, action: HttpAction) {
        match action {
            HttpAction::Open { exchange, request, proof } => self.open(exchange, request, proof.as_ref()),
            HttpAction::Abort { exchange } => {
                if let Some(task) = self.open.remove(&exchange) {
                    // This also closes the connection.
                    task.abort();
                }
            }
            _ => {}
        }
    }

    async fn receive(&mut self, wants_input: bool) -> (ExchangeKey, Received<Bytes>) {
        if wants_input {
            // The struct holds a sender itself, so the channel is never closed.
            if let Some(received) = self.received.recv().await {
                return received;
            }
        }
        std::future::pending().await
    }

    async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

impl<M: HandleResponses> Feed<M> for Exchanges {
    fn catch_up(&mut self, machine: &mut M) {
        if let Some(current) = self.changes.as_mut().and_then(Changes::take) {
            // The settings have compared the headers with the earlier ones.
            let _ = machine.set_headers(&current.http);
            self.client = current.client;
        }
    }

    fn wants_input(&self, machine: &M) -> bool {
        machine.wants_body()
    }

    fn feed(&mut self, machine: &mut M, (exchange, received): (ExchangeKey, Received<Bytes>)) {
        self.pass(machine, exchange, received);
        // Queued parts are passed on together, but no more than this, so that other events are not starved.
        for _ in 0..WAITING {
            let next = if machine.wants_body() { self.received.try_recv().ok() } else { None };
            let Some((exchange, received)) = next else { break };
            self.pass(machine, exchange, received);
        }
        while self.tasks.try_join_next().is_some() {}
    }
}

/// Passes on what the task of an exchange receives, and waits while there is no room.
struct HandIn {
    exchange: ExchangeKey,
    to: mpsc::Sender<(ExchangeKey, Received<Bytes>)>,
}

impl HandIn {
    async fn hand_in(&self, received: Received<Bytes>) {
        // If the receiver is closed, this task is about to be aborted.
        let _ = self.to.send((self.exchange, received)).await;
    }
}

async fn carry(client: ServerClient, request: Request<Bytes>, hand_in: HandIn) {
    let end = exchange(&client, request, &hand_in).await;
    hand_in.hand_in(end.into()).await;
}

async fn exchange(client: &ServerClient, request: Request<Bytes>, hand_in: &HandIn) -> Result<(), Failure> {
    let has_body = !request.body().is_empty();
    let (taken, mut is_taken) = oneshot::channel();
    let request = request
        .map(|body| if has_body { reqwest::Body::wrap(Outgoing::new(body, taken)) } else { reqwest::Body::default() });
    let request = reqwest::Request::try_from(request).map_err(|_| Failure::not_sendable())?;
    let mut response = pin!(client.client.execute(request));
    let mut is_begun = !has_body;
    let response = tokio::select! {
        biased;
        response = &mut response => response,
        Ok(()) = &mut is_taken, if has_body => {
            is_begun = true;
            hand_in.hand_in(Received::Sent).await;
            response.await
        }
    };
    // The body may have been read at the moment in which the response failed.
    is_begun = is_begun || is_taken.try_recv().is_ok();
    let mut response = response.map_err(|error| failure(&error, is_begun, client.socket.as_deref()))?;
    hand_in.hand_in(Received::Head(head(&mut response))).await;
    while let Some(mut body) = response.chunk().await.map_err(|error| failure(&error, true, None))? {
        while !body.is_empty() {
            let part = body.split_to(body.len().min(PART));
            hand_in.hand_in(Received::Body(part)).await;
        }
    }
    Ok(())
}

fn head(response: &mut reqwest::Response) -> Parts {
    let (mut head, ()) = http::Response::new(()).into_parts();
    head.status = response.status();
    head.version = response.version();
    head.headers = std::mem::take(response.headers_mut());
    head
}

#[cfg(test)]
mod tests {
    use mcp_proto::client::{self as proto, Client};

    use super::*;

    #[test]
    fn the_debug_form_of_a_server_has_no_secret() {
        let proxy = reqwest::Proxy::all("http://marked-secret:marked-secret@127.0.0.1:1").unwrap();
        let cookie = [(http::header::COOKIE, http::HeaderValue::from_static("marked-secret"))];
        let client = reqwest::Client::builder().proxy(proxy);
        let client = client.default_headers(cookie.into_iter().collect()).user_agent("marked-secret");
        let builder = crate::Client::builder().http("http://127.0.0.1:1/mcp?key=marked-secret").unwrap();
        let builder = builder.header("Authorization", "Bearer marked-secret").unwrap();
        let builder = builder.http_options(HttpOptions::new().client(client));
        let form = format!("{builder:?} {builder:#?}");
        assert!(form.contains("http://127.0.0.1:1/mcp") && !form.contains("marked-secret"), "{form}");
    }

    /// A machine that has sent its first request, and the exchanges with it.
    fn connecting(url: &str) -> (Client<proto::Http>, Exchanges, ExchangeKey) {
        let config = HttpConfig::new(url).unwrap();
        let mut exchanges = Exchanges::new(HttpOptions::new(), &config).unwrap();
        let mut machine = Client::new(proto::Http::new(config), proto::Config::new("t", "1")).unwrap();
        machine.connect(now()).unwrap();
        let mut opened = None;
        while let Some(output) = machine.poll_output() {
            if let mcp_proto::Output::Action(action) = output {
                if let HttpAction::Open { exchange, .. } = &action {
                    opened = Some(*exchange);
                }
                exchanges.act(action);
            }
        }
        (machine, exchanges, opened.unwrap())
    }

    #[tokio::test]
    async fn an_exchange_is_forgotten_when_it_is_over() {
        let failed = || Received::Failed(Failure::Broken { detail: "".into() });
        for last in [Received::End, failed()] {
            let (mut machine, mut exchanges, exchange) = connecting("http://127.0.0.1:1/mcp");
            assert_eq!(exchanges.open.len(), 1);
            exchanges.pass(&mut machine, exchange, Received::Sent);
            assert_eq!(exchanges.open.len(), 1);
            exchanges.pass(&mut machine, exchange, last);
            assert!(exchanges.open.is_empty());
            while machine.poll_output().is_some() {}
            // Nothing more of the exchange is passed on.
            exchanges.pass(&mut machine, exchange, failed());
            assert!(machine.poll_output().is_none());
        }
        let (mut machine, mut exchanges, exchange) = connecting("http://127.0.0.1:1/mcp");
        exchanges.act(HttpAction::Abort { exchange });
        assert!(exchanges.open.is_empty());
        exchanges.pass(&mut machine, exchange, failed());
        assert!(machine.poll_output().is_none());
    }

    #[tokio::test]
    async fn the_tasks_of_all_exchanges_have_ended_with_the_connection() {
        let (_, exchanges, exchange) = connecting("http://127.0.0.1:1/mcp");
        let task = exchanges.open[&exchange].clone();
        assert!(!task.is_finished());
        exchanges.end().await;
        assert!(task.is_finished());
    }

    /// A request may be retried only if nothing of it can have been sent.
    #[tokio::test]
    async fn a_connection_that_is_closed_behind_a_request_is_broken_whether_it_has_a_body_or_not() {
        use std::io::Read;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut bytes = Vec::new();
                while !bytes.ends_with(b"\r\n\r\n") && !bytes.ends_with(b"body") {
                    let mut buffer = [0; 1024];
                    let length = stream.read(&mut buffer).unwrap();
                    bytes.extend_from_slice(&buffer[..length]);
                }
            }
        });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for body in ["", "body"] {
            let (to, mut received) = mpsc::channel(WAITING);
            let (_, _, exchange) = connecting("http://127.0.0.1:1/mcp");
            let request = Request::post(&url).header("content-length", body.len()).body(Bytes::from(body)).unwrap();
            let client = ServerClient { client: client.clone(), socket: None };
            carry(client, request, HandIn { exchange, to }).await;
            let mut all = Vec::new();
            while let Some((_, received)) = received.recv().await {
                all.push(received);
            }
            let failure = all.pop();
            assert!(matches!(&failure, Some(Received::Failed(Failure::Closed { .. }))), "{body:?}");
            assert_eq!(
                (all.len(), all.iter().all(|received| matches!(received, Received::Sent))),
                (body.len() / 4, true)
            );
        }
    }
}
