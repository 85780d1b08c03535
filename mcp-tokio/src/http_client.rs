//! HTTP exchanges, each in a task of its own.
//!
//! There are no more of them than the machine allows (`Limits::exchanges`). Parts of bodies wait in one bounded channel,
//! which is emptied while the machine has room, so a task that finds it full reads no further. What waits is at most
//! [`WAITING`] parts and one for each exchange, of [`PART`] bytes.
//!
//! | file | what it does |
//! |---|---|
//! | `outgoing` | the body of a request, which notices when it is taken |
//! | `failure` | errors of the HTTP library in the machine's words |

mod failure;
mod outgoing;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::response::Parts;
use mcp_proto::client::{Client, ExchangeKey, Failure, HttpAction, HttpConfig, HttpTransport};
use mcp_proto::{UsageError, client as proto};
use reqwest::redirect;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument;

use crate::client::link::Link;
use crate::clock::now;
use failure::failure;
use outgoing::Outgoing;

pub(crate) use failure::in_words;

/// Things that wait to be handed in.
const WAITING: usize = 32;
/// Bytes of a body that wait as one part. The HTTP library may read more at a time, up to some 400 KiB.
const PART: usize = 64 * 1024;
/// How long connecting may take, name and TLS included, unless the caller's client says otherwise.
const CONNECT: Duration = Duration::from_secs(10);

/// A server over HTTP, and the means to reach it.
pub struct Http {
    pub(crate) config: HttpConfig,
    pub(crate) client: reqwest::ClientBuilder,
}

impl Http {
    pub(crate) fn new(url: &str) -> Result<Self, UsageError> {
        let user_agent = concat!("mcp-tokio/", env!("CARGO_PKG_VERSION"));
        let config = HttpConfig::new(url)?;
        let client = reqwest::Client::builder().user_agent(user_agent).connect_timeout(CONNECT);
        // A proxy that the environment names is not for this machine's own servers.
        let client = if config.is_loopback() { client.no_proxy() } else { client };
        Ok(Self { config, client })
    }
}

/// Headers and proxies of the HTTP client may hold credentials.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("server", &self.config.server()).finish_non_exhaustive()
    }
}

/// The exchanges of one connection.
pub(crate) struct Exchanges {
    client: reqwest::Client,
    /// All of them are aborted when this is dropped.
    tasks: JoinSet<()>,
    open: BTreeMap<ExchangeKey, AbortHandle>,
    hand_in: mpsc::Sender<(ExchangeKey, Received)>,
    received: mpsc::Receiver<(ExchangeKey, Received)>,
}

/// What came of an exchange.
enum Received {
    /// The request was written.
    Sent,
    Head(Box<Parts>),
    Body(Bytes),
    /// The body has ended.
    End,
    /// There is no response, or it broke off.
    Failed(Failure),
}

impl Exchanges {
    /// Makes the client one that does what the machine says and nothing else.
    pub(crate) fn new(client: reqwest::ClientBuilder) -> Result<Self, reqwest::Error> {
        let client = client
            // Invariant 8: what is redirected, and where to, is the machine's to say.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            // HT10: a body that was compressed against our will is seen as such.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .build()?;
        let (hand_in, received) = mpsc::channel(WAITING);
        Ok(Self { client, tasks: JoinSet::new(), open: BTreeMap::new(), hand_in, received })
    }

    fn open(&mut self, exchange: ExchangeKey, request: Request<Bytes>) {
        tracing::trace!(?exchange, method = %request.method(), bytes = request.body().len(), "an exchange begins");
        let hand_in = HandIn { exchange, to: self.hand_in.clone() };
        let task = self.tasks.spawn(carry(self.client.clone(), request, hand_in).in_current_span());
        self.open.insert(exchange, task);
    }

    fn feed(&mut self, machine: &mut Client<proto::Http>, exchange: ExchangeKey, received: Received) {
        // After `Abort`, nothing more of an exchange is handed in.
        if !self.open.contains_key(&exchange) {
            return;
        }
        match received {
            Received::Sent => machine.handle_sent(exchange, now()),
            Received::Head(head) => {
                tracing::trace!(?exchange, status = head.status.as_u16(), "an exchange is answered");
                machine.handle_response(exchange, &head, now());
            }
            Received::Body(part) => machine.handle_body(exchange, &part, now()),
            Received::End => {
                self.open.remove(&exchange);
                machine.handle_end(exchange, now());
            }
            Received::Failed(failure) => {
                self.open.remove(&exchange);
                tracing::debug!(?exchange, ?failure, "an exchange failed");
                machine.handle_failure(exchange, failure, now());
            }
        }
    }
}

impl Link for Exchanges {
    type Transport = proto::Http;

    fn act(&mut self, action: HttpAction) {
        match action {
            HttpAction::Open { exchange, request } => self.open(exchange, request),
            HttpAction::Abort { exchange } => {
                if let Some(task) = self.open.remove(&exchange) {
                    // The connection is closed with it.
                    task.abort();
                }
            }
            _ => {}
        }
    }

    async fn turn(&mut self, machine: &mut Client<proto::Http>) {
        if !machine.wants_input() {
            return std::future::pending().await;
        }
        // This holds a sender itself, so the channel is never closed.
        let Some((exchange, received)) = self.received.recv().await else { return };
        self.feed(machine, exchange, received);
        // What waits is taken at once, but not so much that nothing else gets its turn.
        for _ in 0..WAITING {
            let next = if machine.wants_input() { self.received.try_recv().ok() } else { None };
            let Some((exchange, received)) = next else { break };
            self.feed(machine, exchange, received);
        }
        while self.tasks.try_join_next().is_some() {}
    }

    fn http_transport(machine: &Client<proto::Http>) -> Option<HttpTransport> {
        Some(machine.http_transport())
    }

    async fn end(mut self) -> Option<ExitStatus> {
        self.tasks.shutdown().await;
        None
    }
}

/// Where an exchange's task hands in what it receives. It waits while there is no room.
struct HandIn {
    exchange: ExchangeKey,
    to: mpsc::Sender<(ExchangeKey, Received)>,
}

impl HandIn {
    async fn hand_in(&self, received: Received) {
        // Nobody takes it: then this task is about to be aborted.
        let _ = self.to.send((self.exchange, received)).await;
    }
}

async fn carry(client: reqwest::Client, request: Request<Bytes>, hand_in: HandIn) {
    let last = match exchange(&client, request, &hand_in).await {
        Ok(()) => Received::End,
        Err(failure) => Received::Failed(failure),
    };
    hand_in.hand_in(last).await;
}

async fn exchange(client: &reqwest::Client, request: Request<Bytes>, hand_in: &HandIn) -> Result<(), Failure> {
    let has_body = !request.body().is_empty();
    let (taken, mut is_taken) = oneshot::channel();
    let request = request
        .map(|body| if has_body { reqwest::Body::wrap(Outgoing::new(body, taken)) } else { reqwest::Body::default() });
    let request = reqwest::Request::try_from(request)
        .map_err(|_| Failure::Hopeless { detail: "its URL cannot be used".into() })?;
    let mut response = pin!(client.execute(request));
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
    // It may have been taken in the moment in which the response failed.
    is_begun = is_begun || is_taken.try_recv().is_ok();
    let mut response = response.map_err(|error| failure(&error, is_begun))?;
    hand_in.hand_in(Received::Head(Box::new(head(&mut response)))).await;
    while let Some(mut body) = response.chunk().await.map_err(|error| failure(&error, true))? {
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
    use super::*;

    #[test]
    fn defect_x2_the_debug_form_of_a_server_has_no_secret() {
        let mut http = Http::new("http://127.0.0.1:1/mcp?key=marked-secret").unwrap();
        http.config.header("Authorization", "Bearer marked-secret").unwrap();
        let proxy = reqwest::Proxy::all("http://marked-secret:marked-secret@127.0.0.1:1").unwrap();
        let cookie = [(http::header::COOKIE, http::HeaderValue::from_static("marked-secret"))];
        http.client =
            http.client.proxy(proxy).default_headers(cookie.into_iter().collect()).user_agent("marked-secret");
        let form = format!("{http:?} {http:#?}");
        assert!(form.contains("http://127.0.0.1:1/mcp") && !form.contains("marked-secret"), "{form}");
    }

    /// A machine that has made its first request, and the exchanges with it.
    fn connecting(url: &str) -> (Client<proto::Http>, Exchanges, ExchangeKey) {
        let http = Http::new(url).unwrap();
        let mut machine = Client::new(proto::Http::new(http.config), proto::Config::new("t", "1")).unwrap();
        machine.connect(now()).unwrap();
        let mut exchanges = Exchanges::new(http.client).unwrap();
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
            exchanges.feed(&mut machine, exchange, Received::Sent);
            assert_eq!(exchanges.open.len(), 1);
            exchanges.feed(&mut machine, exchange, last);
            assert!(exchanges.open.is_empty());
            while machine.poll_output().is_some() {}
            // Nothing more of it is handed in.
            exchanges.feed(&mut machine, exchange, failed());
            assert!(machine.poll_output().is_none());
        }
        let (mut machine, mut exchanges, exchange) = connecting("http://127.0.0.1:1/mcp");
        exchanges.act(HttpAction::Abort { exchange });
        assert!(exchanges.open.is_empty());
        exchanges.feed(&mut machine, exchange, failed());
        assert!(machine.poll_output().is_none());
    }

    #[tokio::test]
    async fn the_tasks_of_all_exchanges_have_ended_with_the_connection() {
        let (_, exchanges, exchange) = connecting("http://127.0.0.1:1/mcp");
        let task = exchanges.open[&exchange].clone();
        assert!(!task.is_finished());
        assert_eq!(exchanges.end().await, None);
        assert!(task.is_finished());
    }

    /// Whether anything of a request may have left decides about whether it is repeated.
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
            carry(client.clone(), request, HandIn { exchange, to }).await;
            let mut all = Vec::new();
            while let Some((_, received)) = received.recv().await {
                all.push(received);
            }
            let failure = all.pop();
            assert!(matches!(&failure, Some(Received::Failed(Failure::Broken { .. }))), "{body:?}");
            assert_eq!((all.len(), all.iter().all(|told| matches!(told, Received::Sent))), (body.len() / 4, true));
        }
    }
}
