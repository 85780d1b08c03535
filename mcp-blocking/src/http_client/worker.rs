//! A thread that performs one exchange at a time.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request};
use mcp_proto::client::{ExchangeKey, Failure};
use ureq::{Agent, Proxy, SendBody, Timeout};

use super::FromWorker;
use super::address_cache::AddressCache;
use super::chunk::{Buffers, CHUNK, Chunk};
use super::connection::Unsent;
use super::local_server::not_reached;
use super::options::HttpOptions;
use crate::backpressure::Backpressure;
use crate::inbox::Inbox;

/// Stack size of a worker's thread, in bytes.
const STACK: usize = 256 * 1024;

/// A request for a worker.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) exchange: ExchangeKey,
    pub(super) request: Request<Bytes>,
    pub(super) sent: Arc<AtomicBool>,
    pub(super) aborted: Arc<AtomicBool>,
}

/// The driver's end of a worker thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: SyncSender<Job>,
    current: Arc<Mutex<Current>>,
    options: Arc<HttpOptions>,
}

/// The agent of a worker.
#[derive(Debug)]
struct Current {
    agent: Agent,
    has_tls: bool,
}

impl Current {
    fn new(options: &HttpOptions, cache: &AddressCache, has_tls: bool) -> Self {
        Self { agent: options.agent(cache, has_tls), has_tls }
    }
}

impl Worker {
    pub(super) fn spawn<I: From<(ExchangeKey, FromWorker)> + Send + 'static>(
        options: &Arc<HttpOptions>,
        cache: &AddressCache,
        inbox: Arc<dyn Inbox<I>>,
        backpressure: Arc<Backpressure>,
    ) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(1);
        let current = Arc::new(Mutex::new(Current::new(options, cache, false)));
        let (thread_current, thread_options, thread_cache) = (Arc::clone(&current), Arc::clone(options), cache.clone());
        thread::Builder::new()
            .name("mcp-http".to_owned())
            .stack_size(STACK)
            .spawn(move || run(&queue, &thread_current, &thread_options, &thread_cache, &*inbox, &backpressure))?;
        Ok(Self { jobs, current, options: Arc::clone(options) })
    }

    /// Whether its connections are made with these options.
    pub(super) fn has_options(&self, options: &Arc<HttpOptions>) -> bool {
        Arc::ptr_eq(&self.options, options)
    }

    pub(super) fn start(&self, job: Job) {
        // The thread takes one job at a time. It runs until this end of the channel is dropped or the inbox is closed.
        let _ = self.jobs.send(job);
    }

    /// Closes the connection that the worker is using, and gives the worker a new agent for its next job.
    pub(super) fn abort(&self, options: &HttpOptions, cache: &AddressCache) {
        replace(&self.current, options, cache);
    }
}

/// Gives a worker a new agent, and closes the connection of the old one.
fn replace(current: &Mutex<Current>, options: &HttpOptions, cache: &AddressCache) {
    let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
    let next = Current::new(options, cache, current.has_tls);
    let replaced = std::mem::replace(&mut *current, next);
    drop(current);
    replaced.agent.shutdown();
}

/// The agent of a worker for a request. It is replaced if it has none for TLS, as after a redirect.
fn agent_for(request: &Request<Bytes>, current: &Mutex<Current>, options: &HttpOptions, cache: &AddressCache) -> Agent {
    let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
    if !current.has_tls && options.needs_tls(request.uri()) {
        *current = Current::new(options, cache, true);
    }
    current.agent.clone()
}

fn run<I: From<(ExchangeKey, FromWorker)>>(
    queue: &Receiver<Job>,
    current: &Mutex<Current>,
    options: &HttpOptions,
    cache: &AddressCache,
    inbox: &dyn Inbox<I>,
    backpressure: &Backpressure,
) {
    let mut buffers = Buffers::new();
    while let Ok(Job { exchange, request, sent, aborted }) = queue.recv() {
        let agent = agent_for(&request, current, options, cache);
        let hand_in = |received| inbox.send(I::from((exchange, received)));
        let wait = || backpressure.wait_unless(&aborted);
        let last = if aborted.load(Ordering::Acquire) {
            // The exchange has no connection yet that the abort could close. The pool waits only for the end of the
            // exchange.
            Some(FromWorker::Failed(Failure::Broken { detail: "aborted".into() }))
        } else {
            // Without a last message, the pool would consider this worker busy forever.
            catch_unwind(AssertUnwindSafe(|| carry(&agent, request, &sent, &mut buffers, &wait, &hand_in)))
                .unwrap_or_else(|_| {
                    log::error!("an exchange panicked");
                    replace(current, options, cache);
                    Some(FromWorker::Failed(Failure::Broken { detail: "the HTTP client panicked".into() }))
                })
        };
        drop(agent);
        if matches!(last, Some(FromWorker::Failed(Failure::Unreachable { .. }))) {
            cache.forget();
        }
        if last.is_some_and(|last| !hand_in(last)) {
            return;
        }
    }
}

/// Performs one exchange, and returns the last message about it; `None` if the inbox is closed.
fn carry(
    agent: &Agent,
    request: Request<Bytes>,
    sent: &AtomicBool,
    buffers: &mut Buffers,
    wait: &impl Fn(),
    hand_in: &impl Fn(FromWorker) -> bool,
) -> Option<FromWorker> {
    let has_body = request.method() == Method::POST;
    let is_https = request.uri().scheme_str() == Some("https");
    let (mut parts, bytes) = request.into_parts();
    if has_body {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    }
    let mut body = Outgoing { bytes, is_begun: false, sent };
    let response = if has_body {
        agent.run(Request::from_parts(parts, SendBody::from_reader(&mut body)))
    } else {
        agent.run(Request::from_parts(parts, ()))
    };
    let response = match response {
        Ok(response) => response,
        Err(error) => {
            let proxy = agent.config().proxy();
            let is_begun = body.is_begun && !Unsent::is_reason(&error);
            return Some(FromWorker::Failed(failure(&error, has_body.then_some(is_begun), is_https, proxy)));
        }
    };
    let (head, body) = response.into_parts();
    // For an empty body, `ureq` does not report the length, so the header is read.
    let is_empty = head.headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0");
    let is_short = is_empty || body.content_length().is_some_and(|length| length <= CHUNK as u64);
    let head = Box::new(head);
    let mut reader = body.into_reader();
    if is_short {
        // The whole body fits into one buffer, so one message is sent instead of three.
        let mut body = if is_empty { Chunk::empty() } else { buffers.take() };
        return Some(match read_full(&mut reader, &mut body) {
            Ok(()) => FromWorker::Head { head, body, is_whole: true },
            Err(error) => {
                if !hand_in(FromWorker::Head { head, body: Chunk::empty(), is_whole: false }) {
                    return None;
                }
                FromWorker::Failed(Failure::exchanging(&error))
            }
        });
    }
    if !hand_in(FromWorker::Head { head, body: Chunk::empty(), is_whole: false }) {
        return None;
    }
    loop {
        wait();
        let mut chunk = buffers.take();
        match reader.read(chunk.room()) {
            Ok(0) => return Some(FromWorker::End),
            Ok(length) => {
                chunk.grow(length);
                if !hand_in(FromWorker::Body(chunk)) {
                    return None;
                }
            }
            // `ErrorKind::Interrupted` does not occur here: the socket retries the read.
            Err(error) => return Some(FromWorker::Failed(Failure::exchanging(&error))),
        }
    }
}

fn read_full(reader: &mut impl Read, body: &mut Chunk) -> io::Result<()> {
    loop {
        match reader.read(body.room())? {
            0 => return Ok(()),
            length => body.grow(length),
        }
    }
}

/// The body of a request. It records whether any of it was read: if not, the server cannot have processed the request.
struct Outgoing<'s> {
    bytes: Bytes,
    is_begun: bool,
    sent: &'s AtomicBool,
}

impl Read for Outgoing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_begun = true;
        let part = self.bytes.split_to(self.bytes.len().min(buffer.len()));
        if let Some(space) = buffer.get_mut(..part.len()) {
            space.copy_from_slice(&part);
        }
        if self.bytes.is_empty() {
            self.sent.store(true, Ordering::Release);
        }
        Ok(part.len())
    }
}

/// Converts the error of a failed request for the machine.
///
/// For a request with a body, `is_begun` states whether any of the body was passed to the connection; it is `None` for
/// a request without a body, which may be sent twice anyway. With a proxy, all connections are made to the proxy, which
/// connects to the server once it has accepted `CONNECT`.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is ureq's, whose own text is used for all other errors")]
fn failure(error: &ureq::Error, is_begun: Option<bool>, is_https: bool, proxy: Option<&Proxy>) -> Failure {
    let not_connected = |failure| of_connection(failure, proxy, "cannot be reached");
    match error {
        ureq::Error::HostNotFound => not_connected(Failure::unknown_host()),
        ureq::Error::Timeout(Timeout::Resolve) => not_connected(Failure::lookup_timed_out()),
        ureq::Error::Timeout(Timeout::Connect) => not_connected(Failure::connect_timed_out()),
        ureq::Error::ConnectProxyFailed(reason) => refused_by_proxy(proxy, reason),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::not_sendable(),
        ureq::Error::Tls(reason) => Failure::tls(reason),
        ureq::Error::Rustls(error) => Failure::tls(&error.to_string()),
        ureq::Error::LargeResponseHeader(_, limit) => Failure::large_head(Some(*limit)),
        ureq::Error::Protocol(_) => Failure::not_http(is_https),
        ureq::Error::Io(error) if not_reached(error).is_some() => {
            Failure::Unreachable { detail: error.to_string().into() }
        }
        ureq::Error::Io(error) if is_begun != Some(true) => {
            let what = if is_about_connecting(error) { "cannot be reached" } else { "was used" };
            of_connection(Failure::connecting(error), proxy, what)
        }
        ureq::Error::Io(error) => Failure::exchanging(error),
        error if is_begun == Some(false) => not_connected(Failure::Unreachable { detail: error.to_string().into() }),
        error => Failure::Broken { detail: error.to_string().into() },
    }
}

/// Whether only the first connection can fail with this error. With a proxy, that is the connection to the proxy.
fn is_about_connecting(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::ConnectionRefused | E::HostUnreachable | E::NetworkUnreachable | E::NetworkDown)
        || Failure::connecting(error) == Failure::unknown_host()
}

/// The failure of a connection, with the proxy as its subject if there is one.
fn of_connection(failure: Failure, proxy: Option<&Proxy>, what: &str) -> Failure {
    match failure {
        Failure::Unreachable { detail } => Failure::Unreachable { detail: of_proxy(proxy, what, &detail).into() },
        other @ (Failure::Hopeless { .. } | Failure::Broken { .. } | _) => other,
    }
}

/// The detail of a failure, with the proxy as its subject if there is one.
fn of_proxy(proxy: Option<&Proxy>, what: &str, detail: &str) -> String {
    match proxy {
        Some(proxy) => format!("the HTTP proxy {}:{} {what}: {detail}", proxy.host(), proxy.port()),
        None => detail.to_owned(),
    }
}

/// `reason` ends with the proxy's status code, written twice, or contains none.
fn refused_by_proxy(proxy: Option<&Proxy>, reason: &str) -> Failure {
    let status = reason.rsplit('/').next().filter(|status| status.bytes().all(|byte| byte.is_ascii_digit()));
    let detail = match status {
        Some("407") => "it requires a user name and a password, as in http://user:password@host:port".to_owned(),
        Some(status) => format!("it answered CONNECT with status {status}"),
        None => "it did not answer CONNECT".to_owned(),
    };
    Failure::Unreachable { detail: of_proxy(proxy, "did not connect to the server", &detail).into() }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use ureq::tls::RootCerts;

    use super::*;

    #[test]
    fn a_worker_gets_an_agent_for_tls_with_the_first_request_that_needs_it_and_keeps_it() {
        let (options, cache) = (HttpOptions::new(), AddressCache::default());
        let current = Mutex::new(Current::new(&options, &cache, false));
        let authorities = |url: &str| {
            let request = Request::get(url).body(Bytes::new()).unwrap();
            let agent = agent_for(&request, &current, &options, &cache);
            let RootCerts::Specific(trusted) = agent.config().tls_config().root_certs() else { panic!("certificates") };
            trusted.len()
        };
        assert_eq!(authorities("http://server.invalid/"), 0);
        assert!(authorities("https://server.invalid/") > 0);
        assert!(authorities("http://server.invalid/") > 0);
        replace(&current, &options, &cache);
        assert!(authorities("http://server.invalid/") > 0, "after an exchange was aborted, too");
    }

    #[test]
    fn what_a_failed_request_means_depends_on_what_was_sent_and_where_it_broke() {
        use ureq::Error as E;

        let unreachable = |detail: &str| Failure::Unreachable { detail: detail.into() };
        let broken = |detail: &str| Failure::Broken { detail: detail.into() };
        let io = |kind: ErrorKind| E::Io(kind.into());
        let refused = || io(ErrorKind::ConnectionRefused);
        let words = |kind: ErrorKind| {
            let (Failure::Broken { detail } | Failure::Closed { detail }) = Failure::exchanging(&kind.into()) else {
                panic!("{kind}")
            };
            detail.into_string()
        };
        let (refusal, reset) = (words(ErrorKind::ConnectionRefused), words(ErrorKind::ConnectionReset));
        let sending = Timeout::SendRequest;
        for (error, is_begun, expected) in [
            (E::HostNotFound, Some(false), Failure::unknown_host()),
            (E::Timeout(Timeout::Resolve), None, Failure::lookup_timed_out()),
            (E::Timeout(Timeout::Connect), Some(false), Failure::connect_timed_out()),
            (E::BadUri("x".to_owned()), Some(false), Failure::not_sendable()),
            (E::Tls("no TLS"), Some(false), Failure::tls("no TLS")),
            (E::LargeResponseHeader(5, 4), Some(true), broken("its headers are larger than 4 bytes")),
            (refused(), Some(false), unreachable(&refusal)),
            (refused(), None, unreachable(&refusal)),
            (refused(), Some(true), broken(&refusal)),
            (io(ErrorKind::ConnectionReset), Some(false), unreachable(&reset)),
            (io(ErrorKind::ConnectionReset), None, unreachable(&reset)),
            (io(ErrorKind::ConnectionReset), Some(true), Failure::Closed { detail: reset.as_str().into() }),
            (E::Timeout(sending), Some(false), unreachable(&E::Timeout(sending).to_string())),
            (E::Timeout(sending), Some(true), broken(&E::Timeout(sending).to_string())),
            (E::Timeout(sending), None, broken(&E::Timeout(sending).to_string())),
        ] {
            assert_eq!(failure(&error, is_begun, false, None), expected, "{error:?}, {is_begun:?}");
        }
        assert!(matches!(failure(&io(ErrorKind::InvalidData), Some(false), false, None), Failure::Hopeless { .. }));
        assert!(matches!(failure(&io(ErrorKind::InvalidData), Some(true), false, None), Failure::Broken { .. }));

        let proxy = Proxy::new("http://user:secret@proxy.example:3128").unwrap();
        let lookup = || {
            let unix = io::Error::other("failed to lookup address information: x");
            if cfg!(windows) { io::Error::from_raw_os_error(11_001) } else { unix }
        };
        for (error, expected) in [
            (E::HostNotFound, "cannot be reached: its name cannot be looked up; is it spelled right?".to_owned()),
            (refused(), format!("cannot be reached: {refusal}")),
            (E::Io(lookup()), format!("cannot be reached: {}", detail_of(&failure(&E::Io(lookup()), None, false, None)))),
            (io(ErrorKind::ConnectionReset), format!("was used: {reset}")),
            (E::ConnectProxyFailed("x".to_owned()), "did not connect to the server: it did not answer CONNECT".to_owned()),
            (
                E::ConnectProxyFailed("status 502/502".to_owned()),
                "did not connect to the server: it answered CONNECT with status 502".to_owned(),
            ),
            (
                E::ConnectProxyFailed("status 407/407".to_owned()),
                "did not connect to the server: it requires a user name and a password, as in http://user:password@host:port"
                    .to_owned(),
            ),
        ] {
            let expected = format!("the HTTP proxy proxy.example:3128 {expected}");
            assert_eq!(failure(&error, Some(false), false, Some(&proxy)), unreachable(&expected), "{error:?}");
        }
    }

    fn detail_of(failure: &Failure) -> &str {
        let Failure::Unreachable { detail } = failure else { panic!("{failure:?}") };
        detail
    }

    #[test]
    fn the_body_of_a_request_notes_when_it_is_begun_and_when_it_is_taken() {
        let sent = AtomicBool::new(false);
        let mut body = Outgoing { bytes: Bytes::from_static(b"abcde"), is_begun: false, sent: &sent };
        let mut buffer = [0; 3];
        assert_eq!((body.read(&mut buffer).unwrap(), buffer), (3, *b"abc"));
        assert!(body.is_begun && !sent.load(Ordering::Acquire));
        assert_eq!((body.read(&mut buffer).unwrap(), &buffer[..2]), (2, &b"de"[..]));
        assert!(sent.load(Ordering::Acquire));
        assert_eq!(body.read(&mut buffer).unwrap(), 0);
    }
}
