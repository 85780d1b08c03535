//! Tests of streams that are silent and therefore have no thread. They are in their own process, one at a time, because they count
//! its threads and descriptors.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mcp_blocking::{Incoming, Server, ServerPublisher, ServerStopper};
use mcp_proto::server::{Config, HttpConfig, Progress, TwoEndpoints};
use mcp_proto::{Json, Notification};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::raw_client::{RawClient, RawConnection};
use mcp_testkit::waiting::{LONG, wait_until};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);
/// The parts of a large answer.
const PARTS: u32 = 400;

/// A server that runs until the end of a test.
struct Running {
    raw: RawClient,
    publisher: ServerPublisher,
    stopper: ServerStopper,
    /// The parts that calls have sent.
    sent: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
    _alone: MutexGuard<'static, ()>,
}

impl Running {
    /// A server that writes nothing to its streams by itself.
    fn start(max_connections: usize, change: impl FnOnce(&mut HttpConfig)) -> Self {
        tests::deadline::set();
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let capabilities = Json::parse(r#"{"tools":{"listChanged":true}}"#).unwrap();
        let mut config = Config::new("s", "1").capabilities(capabilities);
        config.limits.unwritten = 2 << 20;
        let mut http = HttpConfig::new();
        http.keep_alive = NEVER;
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        change(&mut http);
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let server = Server::new(config, move |incoming: &Incoming| Ok(serve(incoming, &counted)));
        let mut service = server.http(http).unwrap();
        service.max_connections = max_connections;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let raw = RawClient::new(&listener.local_addr().unwrap().to_string());
        let (publisher, stopper) = (service.publisher(), service.stopper());
        let thread = Some(thread::spawn(move || {
            service.serve(listener).unwrap();
        }));
        Self { raw, publisher, stopper, sent, thread, _alone: alone }
    }

    /// Opens a stream by GET, in a session of its own.
    fn stream(&self) -> RawConnection {
        let mut stream = self.raw.open(&TestRequest::get().in_session(&self.raw.session("2025-06-18")));
        assert_eq!(stream.until(|sent| sent.code() != 0).code(), 200);
        stream
    }

    /// Opens a stream in this session as soon as there is a place for it.
    fn stream_once_possible(&self, session: &str) -> RawConnection {
        let until = Instant::now() + LONG;
        loop {
            let mut stream = self.raw.open(&TestRequest::get().in_session(session));
            let code = stream.until(|sent| sent.code() != 0).code();
            if code == 200 {
                return stream;
            }
            assert!(code == 503 && Instant::now() < until, "{code}");
        }
    }

    fn listen(&self) -> RawConnection {
        let filter = r#""notifications":{"toolsListChanged":true},"#;
        let mut stream = self.raw.open(&TestRequest::stateless("7", "subscriptions/listen", filter));
        assert_eq!(stream.events(1).len(), 1);
        stream
    }

    fn publish(&self) {
        self.publisher.publish(Notification::new("notifications/tools/list_changed")).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// `large` is silent for a moment, and then sends more than the buffers of sockets hold.
fn serve(incoming: &Incoming, sent: &AtomicUsize) -> Json {
    if incoming.method().as_str() == "large" {
        let part = "x".repeat(100_000);
        let progress = |step: u32, message| Progress { progress: step.into(), total: None, message };
        incoming.progress(progress(0, None));
        thread::sleep(Duration::from_millis(500));
        for step in 1..=PARTS {
            if incoming.is_cancelled() {
                break;
            }
            incoming.progress(progress(step, Some(part.as_str().into())));
            sent.fetch_add(1, Ordering::SeqCst);
        }
    }
    Json::empty_object()
}

/// The number of threads with this name, where that can be counted.
fn threads(name: &str) -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Waits until no connection has a thread.
fn wait_for_silence() {
    if cfg!(target_os = "linux") {
        wait_until(|| threads("mcp-connection") == 0);
    } else {
        thread::sleep(Duration::from_millis(500));
    }
}

const CHANGED: &str = r#""method":"notifications/tools/list_changed""#;

#[test]
fn a_stream_that_is_silent_has_no_thread_and_is_sent_its_events() {
    let running = Running::start(64, |_| {});
    let mut old = running.raw.open(&TestRequest::get().at("/sse"));
    assert!(old.events(1)[0].contains("/messages"));
    let (mut first, mut second, mut modern) = (running.stream(), running.stream(), running.listen());
    for round in 1..=3 {
        wait_for_silence();
        running.publish();
        for stream in [&mut first, &mut second] {
            assert!(stream.events(round)[round - 1].contains(CHANGED));
        }
        assert!(modern.events(round + 1)[round].contains(CHANGED));
        assert_eq!(threads("mcp-connection"), 0, "they are written without threads of their own");
    }
    assert!(old.is_silent(), "its session was not opened");
    if cfg!(target_os = "linux") {
        assert_eq!(threads("mcp-streams"), 1);
    }
}

#[test]
fn the_place_of_a_client_that_goes_is_free_at_once() {
    let running = Running::start(4, |_| {});
    let sessions: Vec<_> = (0..6).map(|_| running.raw.session("2025-06-18")).collect();
    let mut held: Vec<_> = sessions[..2].iter().map(|session| running.stream_once_possible(session)).collect();
    for (number, session) in sessions[2..].iter().enumerate() {
        wait_for_silence();
        let refused = running.raw.answer(&TestRequest::get().in_session(session));
        assert_eq!(refused.code(), 503);
        assert!(refused.text().contains("half of max_connections"), "{}", refused.text());
        if number % 2 == 0 {
            // What it has not read resets the connection.
            running.publish();
        }
        drop(held.remove(0));
        held.push(running.stream_once_possible(session));
    }
}

#[test]
fn a_client_that_ends_its_sending_side_is_still_sent_its_events() {
    let running = Running::start(64, |_| {});
    let mut stream = running.stream();
    wait_for_silence();
    stream.end_sending();
    // Only a write shows whether it is gone.
    assert!(stream.read_part().contains(':'), "a comment");
    wait_for_silence();
    running.publish();
    assert!(stream.events(1)[0].contains(CHANGED));
}

#[test]
fn a_client_that_reads_slowly_is_sent_everything_and_no_other_waits_for_it() {
    let running = Running::start(64, |_| {});
    let mut other = running.stream();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"large","params":{"_meta":{"progressToken":1}}}"#;
    let mut slow = running.raw.open(&TestRequest::post(call).in_session(&running.raw.session("2025-06-18")));
    assert_eq!(slow.events(1).len(), 1);
    wait_for_silence();
    wait_until(|| running.sent.load(Ordering::SeqCst) > 0);
    thread::sleep(Duration::from_millis(300));
    let sent = running.sent.load(Ordering::SeqCst);
    assert!(sent < PARTS as usize, "its handler waits");
    running.publish();
    assert!(other.events(1)[0].contains(CHANGED));
    assert_eq!(threads("mcp-connection"), 0);
    let text = slow.rest_slowly();
    assert_eq!(text.matches("notifications/progress").count(), PARTS as usize + 1);
    assert!(text.contains(r#""id":1,"result":{}"#) && text.ends_with("0\r\n\r\n"));
}

#[test]
fn a_client_that_reads_nothing_is_dropped_and_only_so_much_is_kept_for_it() {
    let running = Running::start(64, |http| http.unread_timeout = Duration::from_secs(1));
    let call = TestRequest::stateless("1", "large", "");
    let body = String::from_utf8(call.body.to_vec()).unwrap().replace(r#""_meta":{"#, r#""_meta":{"progressToken":1,"#);
    let call = TestRequest { body: body.into(), ..call };
    let mut unread = running.raw.open(&call);
    assert_eq!(unread.events(1).len(), 1);
    wait_until(|| unread.is_closed());
    wait_for_silence();
    let sent = running.sent.load(Ordering::SeqCst);
    assert!(sent < PARTS as usize, "{sent} of {PARTS} parts");
}

#[test]
fn stopping_the_server_ends_its_streams_in_order() {
    for drains in [true, false] {
        let running = Running::start(64, |_| {});
        let mut streams: Vec<_> = (0..10).map(|_| running.stream()).chain((0..10).map(|_| running.listen())).collect();
        wait_for_silence();
        if drains {
            running.stopper.shutdown(Duration::from_secs(10));
        } else {
            running.stopper.stop();
        }
        for stream in &mut streams {
            let text = stream.rest();
            assert!(text.ends_with("0\r\n\r\n"), "{text}");
        }
        drop(running);
        wait_until(|| threads("mcp-streams") + threads("mcp-connection") == 0);
    }
}

#[test]
fn requests_that_follow_a_stream_on_its_connection_are_served() {
    let running = Running::start(64, |_| {});
    let session = running.raw.session("2025-06-18");
    let mut connection = running.raw.connect();
    let fields = "host: localhost\r\naccept: text/event-stream\r\nmcp-protocol-version: 2025-06-18\r\n";
    connection.write(format!("GET /mcp HTTP/1.1\r\n{fields}mcp-session-id: {session}\r\n\r\n").as_bytes());
    assert_eq!(connection.until(|sent| sent.code() != 0).code(), 200);
    wait_for_silence();
    // It waits for its turn, and needs no thread meanwhile.
    for part in ["GET /first HTTP/1.1\r\nho", "st: localhost\r\n\r\n"] {
        connection.write(part.as_bytes());
        thread::sleep(Duration::from_millis(50));
    }
    wait_for_silence();
    running.publish();
    assert!(connection.events(1)[0].contains(CHANGED));
    assert_eq!(running.raw.answer(&TestRequest::new("DELETE", "").in_session(&session)).code(), 204);
    let mut text = String::new();
    while !text.contains("No MCP") && !text.contains("404") {
        text.push_str(&connection.read_part());
    }
    assert!(text.starts_with("0\r\n\r\nHTTP/1.1 404 "), "{text}");
    connection.write(b"GET /second HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert_eq!(connection.rest().matches("HTTP/1.1 404 ").count(), 2);
}

#[test]
fn of_hundreds_of_streams_nothing_is_left() {
    const OPEN: usize = 20;
    // One more stream is open all the time, so that what is counted first does not depend on when one ends.
    let running = Running::start(2 * (OPEN + 1), |http| http.max_sessions = 1000);
    let _kept = running.stream();
    wait_for_silence();
    let before = descriptors();
    let mut open: Vec<(String, RawConnection)> = Vec::new();
    let mut random = 1_u32;
    let mut pick = move |count: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) as usize % count
    };
    for number in 0..400 {
        if open.len() == OPEN || (!open.is_empty() && pick(3) == 0) {
            let (session, stream) = open.swap_remove(pick(open.len()));
            match pick(4) {
                0 => {}
                1 => running.publish(),
                2 => {
                    stream.end_sending();
                    thread::sleep(Duration::from_millis(2));
                }
                _ => {
                    running.raw.answer(&TestRequest::new("DELETE", "").in_session(&session));
                }
            }
            drop(stream);
        }
        if number % 40 == 0 {
            thread::sleep(Duration::from_millis(150));
        }
        let session = running.raw.session("2025-06-18");
        let stream = running.stream_once_possible(&session);
        open.push((session, stream));
    }
    drop(open);
    wait_for_silence();
    wait_until(|| descriptors() <= before);
    // All places are free.
    let all: Vec<_> = (0..OPEN).map(|_| running.stream_once_possible(&running.raw.session("2025-06-18"))).collect();
    assert_eq!(all.len(), OPEN);
}
