//! Tests of the pool, with a server that responds according to the path of the request.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use ::mcp_testkit::http_client::HttpClientHarness;
use ::mcp_testkit::loopback_server::LoopbackServer;
use ::mcp_testkit::waiting::{LONG, wait_until};
use http::StatusCode;
use mcp_proto::UsageError;
use mcp_proto::client::HttpConfig;

use super::*;
use crate::clock;

/// A machine that records what is reported to it, and the headers that are set.
#[derive(Debug, Default)]
struct Reported(Vec<(ExchangeKey, String)>, Vec<String>);

impl Reported {
    fn note(&mut self, exchange: ExchangeKey, text: impl Into<String>) {
        self.0.push((exchange, text.into()));
    }

    fn of(&self, exchange: ExchangeKey) -> Vec<&str> {
        self.0.iter().filter(|(reported, _)| *reported == exchange).map(|(_, text)| text.as_str()).collect()
    }
}

impl HandleResponses for Reported {
    fn handle_sent(&mut self, exchange: ExchangeKey, _: Instant) {
        self.note(exchange, "sent");
    }

    fn handle_response(&mut self, exchange: ExchangeKey, head: &Parts, _: Instant) {
        assert_eq!(head.status, StatusCode::OK);
        self.note(exchange, "head");
    }

    /// Consecutive parts of a body are recorded as one.
    fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], _: Instant) {
        let so_far = match self.0.last() {
            Some((last, text)) if *last == exchange => text.strip_prefix("body ").and_then(|text| text.parse().ok()),
            _ => None,
        };
        if so_far.is_some() {
            self.0.pop();
        }
        self.note(exchange, format!("body {}", so_far.unwrap_or(0) + chunk.len()));
    }

    fn handle_end(&mut self, exchange: ExchangeKey, _: Instant) {
        self.note(exchange, "end");
    }

    fn handle_failure(&mut self, exchange: ExchangeKey, failure: Failure, _: Instant) {
        let (Failure::Broken { .. } | Failure::Closed { .. }) = failure else { panic!("{failure:?}") };
        self.note(exchange, "failed");
    }

    fn set_headers(&mut self, from: &HttpConfig) -> Result<(), UsageError> {
        self.1.push(from.server());
        Ok(())
    }

    fn wants_body(&self) -> bool {
        true
    }
}

type Fed = (ExchangeKey, FromWorker);

/// A pool, its server, and what was reported of the exchanges.
struct Pooled {
    pool: Pool<Fed>,
    backpressure: Arc<Backpressure>,
    reported: Reported,
    inputs: Receiver<Fed>,
    server: LoopbackServer,
    keys: Vec<ExchangeKey>,
}

/// A body that is read in several parts.
const LONG_BODY: usize = 3 * chunk::CHUNK;

impl Pooled {
    fn new(max_workers: usize) -> Self {
        Self::with(HttpOptions::new(), max_workers, |inbox| Arc::new(inbox))
    }

    fn with(
        options: HttpOptions,
        max_workers: usize,
        inbox_of: impl FnOnce(SyncSender<Fed>) -> Arc<dyn Inbox<Fed>>,
    ) -> Self {
        let server = LoopbackServer::start(|request, connection| {
            let path = request.line.split(' ').nth(1).unwrap_or_default();
            match path {
                "/hang" => connection.hang(),
                "/empty" => connection.reply("200 OK", &[], ""),
                "/long" => connection.reply("200 OK", &[], "x".repeat(LONG_BODY)),
                "/chunked" => {
                    connection.raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
                }
                "/broken" => connection.raw("HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nhello"),
                "/endless" => {
                    connection.raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
                    loop {
                        connection.raw("5\r\nhello\r\n")?;
                    }
                }
                _ => connection.reply("200 OK", &[], "hello"),
            }?;
            if path == "/broken" { Err(std::io::ErrorKind::Other.into()) } else { Ok(()) }
        });
        let ((inbox, inputs), backpressure) = (sync_channel(64), Arc::new(Backpressure::new()));
        let pool = Pool::new(options, max_workers, inbox_of(inbox), Arc::clone(&backpressure));
        let mut client = HttpClientHarness::connected_client();
        let keys = (0..4).map(|_| client.call("tools/call", "{}").1.key).collect();
        Self { pool, backpressure, reported: Reported::default(), inputs, server, keys }
    }

    fn open(&mut self, exchange: ExchangeKey, path: &str, body: Option<&'static [u8]>) {
        let url = format!("http://{}{path}", self.server.authority);
        let request = if body.is_some() { Request::post(url) } else { Request::get(url) };
        let request = request.body(Bytes::from_static(body.unwrap_or_default())).unwrap();
        self.pool.act(HttpAction::Open { exchange, request, proof: None });
    }

    fn abort(&mut self, exchange: ExchangeKey) {
        self.pool.act(HttpAction::Abort { exchange });
    }

    /// Feeds the next received input to the pool.
    fn step(&mut self) {
        let fed = self.inputs.recv_timeout(LONG).unwrap_or_else(|error| panic!("{error}: {:?}", self.reported));
        self.pool.feed(&mut self.reported, fed, clock::now());
    }

    fn catch_up(&mut self) {
        self.pool.catch_up(&mut self.reported, clock::now());
    }

    fn max_wait(&self) -> Duration {
        <Pool<Fed> as Link>::max_wait(&self.pool, false, clock::now())
    }

    /// The numbers of idle workers, busy workers and waiting requests.
    fn counts(&self) -> (usize, usize, usize) {
        assert_eq!(self.pool.workers, self.pool.idle.len() + self.pool.busy.len());
        (self.pool.idle.len(), self.pool.busy.len(), self.pool.waiting.len())
    }

    /// Waits until a request was passed to its connection.
    fn is_sent(&self, exchange: ExchangeKey) {
        wait_until(|| self.pool.busy[&exchange].sent.load(Ordering::Acquire));
    }
}

#[test]
fn events_of_an_exchange_are_reported_in_order() {
    let mut harness = Pooled::new(1);
    let key = harness.keys[0];
    let long = format!("body {LONG_BODY}");
    for (path, expected) in [
        ("/short", &["head", "body 5", "end"][..]),
        ("/empty", &["head", "end"]),
        ("/long", &["head", &long, "end"]),
        ("/chunked", &["head", "body 5", "end"]),
        ("/broken", &["head", "failed"]),
        ("/short", &["head", "body 5", "end"]),
    ] {
        for body in [None, Some(&b"{}"[..])] {
            harness.open(key, path, body);
            let mut steps = 0;
            while !harness.pool.busy.is_empty() {
                harness.step();
                steps += 1;
            }
            assert_eq!(harness.reported.of(key), expected, "{path}");
            let is_short = ["/short", "/empty"].contains(&path);
            assert_eq!(steps == 1, is_short, "what fits is handed in at once: {path}");
            assert_eq!(harness.counts(), (1, 0, 0));
            harness.reported.0.clear();
        }
    }
    for request in harness.server.requests() {
        assert_eq!(request.header("content-length"), if request.line.starts_with("POST") { "2" } else { "" });
        assert!(request.header("user-agent").starts_with("mcp-blocking/"));
    }
}

/// The worker may not have begun when its request is aborted, and then has no connection that could be closed.
#[test]
fn a_request_that_is_aborted_before_its_worker_begins_is_not_sent() {
    for _ in 0..50 {
        let mut harness = Pooled::new(1);
        let key = harness.keys[0];
        harness.open(key, "/hang", None);
        harness.abort(key);
        while harness.counts() != (1, 0, 0) {
            harness.step();
        }
        assert_eq!(harness.reported.of(key), [] as [&str; 0]);
    }
}

#[test]
fn requests_wait_for_a_worker_and_those_that_are_aborted_do_not() {
    let mut harness = Pooled::new(2);
    let [first, second, third, last] = harness.keys[..] else { panic!("four keys") };
    harness.open(first, "/hang", Some(b"{}"));
    harness.open(second, "/hang", None);
    harness.open(third, "/short", None);
    harness.open(last, "/short", Some(b"{}"));
    assert_eq!(harness.counts(), (0, 2, 2));
    harness.abort(third);
    assert_eq!(harness.counts(), (0, 2, 1));
    assert_eq!(harness.pool.waiting[0].exchange, last);
    harness.server.wait_for("POST /hang");
    harness.abort(first);
    // The worker of `first` takes the waiting request.
    while !harness.reported.of(last).contains(&"end") {
        harness.step();
    }
    assert_eq!(
        (harness.reported.of(first), harness.reported.of(third)),
        (vec![], vec![]),
        "nothing is reported of what was aborted"
    );
    assert_eq!(harness.reported.of(last), ["head", "body 5", "end"]);
    assert_eq!(harness.counts(), (1, 1, 0));
    // The idle worker is used, and no third one is started.
    harness.open(third, "/short", None);
    assert_eq!(harness.counts(), (0, 2, 0));
    harness.abort(second);
    while harness.counts() != (2, 0, 0) {
        harness.step();
    }
    assert_eq!((harness.reported.of(second), harness.reported.of(third)), (vec![], vec!["head", "body 5", "end"]));
}

#[test]
fn a_request_that_was_sent_is_reported_once() {
    let mut harness = Pooled::new(4);
    let [first, second, third, last] = harness.keys[..] else { panic!("four keys") };
    assert_eq!(harness.max_wait(), Duration::MAX);
    // A request without a body is not reported as sent.
    harness.open(first, "/hang", None);
    harness.server.wait_for("GET /hang");
    harness.catch_up();
    assert_eq!((harness.reported.of(first), harness.max_wait()), (vec![], Duration::MAX));

    harness.open(second, "/hang", Some(b"{}"));
    assert_eq!(harness.max_wait(), UNSENT);
    harness.is_sent(second);
    assert_eq!((harness.reported.of(second), harness.max_wait()), (vec![], UNSENT));
    harness.catch_up();
    harness.catch_up();
    assert_eq!((harness.reported.of(second), harness.max_wait()), (vec!["sent"], Duration::MAX));

    // Nothing is reported of an aborted exchange.
    harness.open(third, "/hang", Some(b"{}"));
    harness.is_sent(third);
    harness.abort(third);
    harness.catch_up();
    assert_eq!((harness.reported.of(third), harness.max_wait()), (vec![], Duration::MAX));

    // A response implies that the request was sent.
    harness.open(last, "/endless", Some(b"{}"));
    while harness.reported.of(last).is_empty() {
        harness.step();
    }
    harness.catch_up();
    assert_eq!((harness.reported.of(last)[0], harness.max_wait()), ("head", Duration::MAX));
    assert!(!harness.reported.of(last).contains(&"sent"));
}

#[test]
fn a_request_that_was_not_sent_is_not_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut harness = Pooled::new(1);
    let key = harness.keys[0];
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // More than the buffers of both ends of a connection can hold.
    let request = Request::post(url).body(Bytes::from(vec![b'x'; 64 << 20])).unwrap();
    harness.pool.act(HttpAction::Open { exchange: key, request, proof: None });
    let _connection = listener.accept().unwrap();
    thread::sleep(Duration::from_millis(50));
    harness.catch_up();
    assert_eq!((harness.reported.of(key), harness.max_wait()), (vec![], UNSENT));
    harness.abort(key);
    while harness.counts() != (1, 0, 0) {
        harness.step();
    }
    assert_eq!(harness.reported.of(key), [] as [&str; 0]);
}

/// Includes a worker that waits at closed backpressure.
#[test]
fn fr14_bodies_are_read_without_backpressure_until_they_end_or_are_aborted() {
    for is_aborted in [true, false] {
        let mut harness = Pooled::new(1);
        let key = harness.keys[0];
        harness.backpressure.set(false);
        harness.open(key, "/endless", None);
        harness.step();
        assert_eq!(harness.reported.of(key), ["head"]);
        assert!(harness.inputs.recv_timeout(Duration::from_millis(50)).is_err(), "the backpressure is closed");
        if is_aborted {
            harness.abort(key);
            while harness.counts() != (1, 0, 0) {
                harness.step();
            }
            assert_eq!(harness.reported.of(key), ["head"]);
            // Only that worker was released.
            let (done, waits) = channel();
            let backpressure = Arc::clone(&harness.backpressure);
            thread::spawn(move || {
                backpressure.wait();
                done.send(()).unwrap();
            });
            assert!(waits.recv_timeout(Duration::from_millis(50)).is_err());
            harness.backpressure.set(true);
        } else {
            harness.pool.end(&mut |_| panic!("there is nothing to wait for"));
            harness.step();
            assert!(harness.reported.of(key)[1].starts_with("body "));
        }
    }
}

#[test]
fn changed_options_are_those_of_new_connections_and_what_is_being_received_goes_on() {
    let mut harness = Pooled::new(2);
    let [stream, first, second, third] = harness.keys[..] else { panic!("four keys") };
    let http = HttpConfig::new("http://127.0.0.1/").unwrap();
    let settings = HttpSettings::new(http.clone(), HttpOptions::new());
    harness.pool = harness.pool.following(settings.clone());
    let use_agent = |harness: &mut Pooled, key, agent: &str| {
        harness.catch_up();
        harness.open(key, "/short", Some(b"{}"));
        while !harness.reported.of(key).contains(&"end") {
            harness.step();
        }
        let requests = harness.server.requests();
        assert!(requests.last().unwrap().header("user-agent").starts_with(agent));
    };
    use_agent(&mut harness, first, "mcp-blocking/");
    harness.open(stream, "/hang", None);
    harness.server.wait_for("GET /hang");
    assert_eq!(harness.counts(), (0, 1, 0), "the same worker");
    assert!(harness.reported.1.is_empty(), "nothing has changed");
    use_agent(&mut harness, second, "mcp-blocking/");

    let mut options = HttpOptions::new();
    options.user_agent = "changed".to_owned();
    settings.set(&http, options).unwrap();
    harness.catch_up();
    harness.catch_up();
    assert_eq!(harness.reported.1, ["http://127.0.0.1/"], "once");
    assert_eq!(harness.counts(), (0, 1, 0), "the idle connection is closed, and the other one is not");
    use_agent(&mut harness, third, "changed");
    harness.abort(stream);
    while harness.counts() != (1, 0, 0) {
        harness.step();
    }
    assert_eq!(harness.reported.of(stream), [] as [&str; 0]);
}

#[test]
fn the_longest_timeouts_are_as_good_as_none() {
    let mut options = HttpOptions::new();
    (options.connect_timeout, options.send_timeout) = (Duration::MAX, Duration::MAX);
    let mut harness = Pooled::with(options, 1, |inbox| Arc::new(inbox));
    let key = harness.keys[0];
    harness.open(key, "/short", Some(b"{}"));
    while !harness.pool.busy.is_empty() {
        harness.step();
    }
    assert_eq!(harness.reported.of(key), ["head", "body 5", "end"]);
}

/// An inbox in which the first message causes a panic.
#[derive(Debug)]
struct PanicsOnce {
    inbox: SyncSender<Fed>,
    has_panicked: AtomicBool,
}

impl Inbox<Fed> for PanicsOnce {
    fn send(&self, input: Fed) -> bool {
        assert!(self.has_panicked.swap(true, Ordering::SeqCst), "the panic of this test");
        Inbox::send(&self.inbox, input)
    }

    fn try_send(&self, input: Fed) {
        Inbox::try_send(&self.inbox, input);
    }
}

#[test]
fn an_exchange_that_panics_has_failed_and_its_worker_continues() {
    let panics_once =
        |inbox| -> Arc<dyn Inbox<Fed>> { Arc::new(PanicsOnce { inbox, has_panicked: AtomicBool::new(false) }) };
    let mut harness = Pooled::with(HttpOptions::new(), 1, panics_once);
    let [first, second, ..] = harness.keys[..] else { panic!("four keys") };
    harness.open(first, "/long", None);
    harness.open(second, "/short", None);
    harness.step();
    assert_eq!(harness.reported.of(first), ["failed"]);
    assert_eq!(harness.counts(), (0, 1, 0));
    harness.step();
    assert_eq!(harness.reported.of(second), ["head", "body 5", "end"]);
    assert_eq!(harness.counts(), (1, 0, 0));
}
