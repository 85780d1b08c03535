//! Tests of the blocking server over real sockets: with the blocking client, and with bytes that no client would send.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mcp_blocking::{
    Authenticated, Builder, Change, Client, Error, Handler, Incoming, Server, ServerPublisher, Service,
};
use mcp_proto::client::{Call, CloseReason, Outcome};
use mcp_proto::server::{Config, HttpConfig, Principal, Progress, TwoEndpoints};
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, ProtocolVersion, SessionKey, UsageError, code};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::{LONG, wait_until};
use tests::protected;

use crate::running::{Running, json};

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    Client::builder().versions(legacy_versions())
}

impl Running {
    fn client(&self) -> Client {
        legacy_client().http(&self.url).unwrap().connect().unwrap()
    }

    /// Sends the bytes unchanged, and reads until the server closes the connection.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

tests::wire_tests!(Running::with);

macro_rules! crowded_tests {
    ($($scenario:ident)*) => {
        $(
            #[test]
            fn $scenario() {
                let server = Running::crowded();
                tests::on_the_wire::$scenario(&mcp_testkit::raw_client::RawClient::new(&server.address));
            }
        )*
    };
}

crowded_tests! {
    connections_without_requests_make_room
    streams_that_are_held_block_no_other_client
    with_all_connections_in_use_clients_are_refused_with_a_status
    connections_beyond_all_limits_are_refused_with_a_status
    a_head_that_never_ends_is_answered_with_408
    b16_a_refused_client_may_continue_writing_for_a_moment
}

#[test]
fn a_whole_conversation_between_both_ends_of_this_crate() {
    struct Person;
    impl Handler for Person {
        fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            assert_eq!(method.as_str(), "elicitation/create");
            Ok(json(r#"{"action":"accept"}"#))
        }
    }
    let server = Running::new();
    let builder =
        legacy_client().http(&server.url).unwrap().capabilities(json(r#"{"elicitation":{}}"#)).handler(Person);
    let client = builder.connect().unwrap();
    assert_eq!(client.version().as_str(), "2025-11-25");
    let odd = json(r#"{"a":12345678901234567890,"b":1.0,"c":"\u00e9"}"#);
    assert_eq!(client.request("echo", Some(odd.clone())).unwrap(), odd, "byte for byte");
    let call = Call::new("count").with_progress();
    let mut steps = Vec::new();
    let result = client.call(call).unwrap().wait_with(|params| steps.push(params.to_text().into_owned())).unwrap();
    assert_eq!((result, steps.len()), (json(r#"{"counted":3}"#), 3), "{steps:?}");
    assert_eq!(client.request("ask", None).unwrap(), json(r#"{"action":"accept"}"#));
    let Err(Error::Server(error)) = client.request("nothing", None) else { panic!() };
    assert_eq!(error.code(), code::METHOD_NOT_FOUND);
}

#[test]
fn au27_oa_z_02_oa_z_03_a_server_that_demands_tokens_serves_no_client_without_one() {
    let (mut http, mut config) = (HttpConfig::new(), Config::new("test", "1"));
    protected::configure(&mut http, &mut config);
    let whoami = |incoming: &Incoming| Ok(protected::whoami(incoming.principal()));
    let service = Server::new(config, whoami).http(http).unwrap().authenticate(protected::authenticate);
    let server = Running::of(service);
    protected::its_clients_receive_challenges(&RawClient::new(&server.address));
}

#[test]
fn a_server_that_is_shut_down_answers_what_is_in_progress() {
    let mut server = Running::with(tests::on_the_wire::configure);
    let stopper = server.stopper.clone();
    tests::on_the_wire::a_server_that_is_shut_down_answers_what_is_in_progress(
        &RawClient::new(&server.address),
        || {
            stopper.shutdown(LONG * 10);
        },
    );
    let thread = server.thread.take().unwrap();
    wait_until(|| thread.is_finished());
    server.thread = Some(thread);
}

#[test]
fn a_server_that_is_shut_down_cancels_what_takes_too_long() {
    let mut server = Running::with(tests::on_the_wire::configure);
    let stopper = server.stopper.clone();
    tests::on_the_wire::a_server_that_is_shut_down_cancels_what_takes_too_long(
        &RawClient::new(&server.address),
        || {
            stopper.shutdown(Duration::from_millis(50));
        },
    );
    let thread = server.thread.take().unwrap();
    wait_until(|| thread.is_finished());
    server.thread = Some(thread);
}

#[test]
fn a_server_is_shut_down_and_publishes_over_all_transports_together() {
    struct Noting(SyncSender<Method>);
    impl Handler for Noting {
        fn notified(&self, notification: Notification) {
            self.0.send(notification.method).unwrap();
        }
    }
    let config = || Config::new("test", "1").capabilities(json(r#"{"tools":{"listChanged":true}}"#));
    let server = Server::new(config(), |_: &Incoming| Ok(Json::empty_object()));
    let publisher = server.publisher();
    let change = || Notification::new("notifications/tools/list_changed");
    assert_eq!(publisher.publish(change()), Ok(()), "no client is concerned");
    assert!(matches!(publisher.publish(Notification::new("x")), Err(UsageError::NoChange { .. })));
    // One that does not run yet delays nothing.
    let _unserved = server.stream().unwrap();
    let running = [(); 2].map(|()| Running::of(server.http(HttpConfig::new()).unwrap()));
    let (note, noted) = sync_channel(8);
    let clients = running.each_ref().map(|server| {
        let client = legacy_client().http(&server.url).unwrap().handler(Noting(note.clone())).connect().unwrap();
        client.request("anything", None).unwrap();
        client
    });
    for _ in 0..2 {
        publisher.publish(change()).unwrap();
        for _ in &clients {
            assert_eq!(noted.recv_timeout(LONG).unwrap(), Method::TOOLS_LIST_CHANGED);
        }
    }
    server.shutdown(LONG);
    for server in &running {
        wait_until(|| server.thread.as_ref().is_some_and(thread::JoinHandle::is_finished));
    }
    assert_eq!(publisher.publish(change()), Ok(()), "no client is left");
}

#[test]
fn a_publisher_is_closed_when_neither_its_server_nor_a_service_of_it_is_left() {
    let config = || Config::new("test", "1").capabilities(json(r#"{"tools":{"listChanged":true}}"#));
    let serve = |_: &Incoming| Ok(Json::empty_object());
    let change = || Notification::new("notifications/tools/list_changed");
    for is_stream in [true, false] {
        let server = Server::new(config(), serve);
        let publisher = server.publisher();
        let stream = is_stream.then(|| server.stream().unwrap());
        let http = (!is_stream).then(|| server.http(HttpConfig::new()).unwrap());
        drop(server);
        assert_eq!(publisher.publish(change()), Ok(()), "one is left");
        drop((stream, http));
        assert_eq!(publisher.publish(change()), Err(UsageError::Closed));
    }
}

#[test]
fn what_authentication_finds_reaches_the_handler() {
    #[derive(Clone)]
    struct Tenant(&'static str);
    let serve = |incoming: &Incoming| {
        let tenant = incoming.extensions().get().map_or("none", |Tenant(name)| name);
        Ok(Json::from(format!("{} of {tenant}", incoming.principal().map_or("unknown", Principal::as_str)).as_str()))
    };
    let service = Server::new(Config::new("test", "1"), serve).http(HttpConfig::new()).unwrap().authenticate(|head| {
        Ok(match head.headers.get("authorization").map(http::HeaderValue::as_bytes) {
            Some(b"Bearer ada") => Authenticated::from(Principal::new("ada")).extension(Tenant("a")),
            Some(b"Bearer tenant") => Authenticated::new().extension(Tenant("b")),
            _ => Authenticated::new(),
        })
    });
    let server = Running::of(service);
    for (token, expected) in [("ada", "ada of a"), ("tenant", "unknown of b"), ("", "unknown of none")] {
        let client = legacy_client().http(&server.url).unwrap().bearer(token).unwrap().connect().unwrap();
        assert_eq!(client.request("anything", None).unwrap(), Json::from(expected));
    }
}

#[test]
fn slow_calls_delay_no_others_and_can_be_cancelled() {
    let server = Running::new();
    let client = server.client();
    let slow = client.call(Call::new("wait")).unwrap();
    let callers: Vec<_> = (0..8)
        .map(|n| {
            let client = client.clone();
            thread::spawn(move || {
                for _ in 0..20 {
                    let params = json(&format!(r#"{{"n":{n}}}"#));
                    assert_eq!(client.request("echo", Some(params.clone())).unwrap(), params);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    slow.cancel();
    assert!(matches!(slow.wait(), Err(Error::Failed { .. })));
}

#[test]
fn a_handler_whose_request_is_cancelled_waits_for_no_answer_of_the_client() {
    struct Silent(SyncSender<()>, Mutex<Receiver<()>>);
    impl Handler for Silent {
        fn requested(&self, _: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            self.0.send(()).unwrap();
            // Blocks until the test is over.
            let _ = self.1.lock().unwrap().recv();
            Ok(Json::empty_object())
        }
    }
    let (outcome, outcomes) = sync_channel(1);
    let ask_twice = move |incoming: &Incoming| {
        outcome.send(incoming.ask(Call::new("elicitation/create"))).unwrap();
        outcome.send(incoming.ask(Call::new("elicitation/create"))).unwrap();
        Ok(Json::empty_object())
    };
    let mut service = Server::new(Config::new("test", "1"), ask_twice).http(HttpConfig::new()).unwrap();
    service.max_handlers = 1;
    let server = Running::of(service);
    let (ask, asked) = sync_channel(8);
    let (end, ended) = sync_channel::<()>(0);
    let client = legacy_client()
        .http(&server.url)
        .unwrap()
        .capabilities(json(r#"{"elicitation":{}}"#))
        .handler(Silent(ask, Mutex::new(ended)))
        .connect()
        .unwrap();
    let call = client.call(Call::new("ask")).unwrap();
    asked.recv().unwrap();
    call.cancel();
    for which in ["the one that was under way", "the one after that"] {
        assert_eq!(outcomes.recv().unwrap(), Ok(Outcome::Failed(Failed::Cancelled)), "{which}");
    }
    drop(end);
}

#[test]
fn both_transports_are_served_at_one_time() {
    let server = Running::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let old = legacy_client().http(&format!("http://{}/sse", server.address)).unwrap().connect().unwrap();
    let new = server.client();
    assert_eq!(old.transport(), Some(mcp_proto::client::HttpTransport::HttpSse));
    assert_eq!(old.request("echo", Some(json(r#"{"old":1}"#))).unwrap(), json(r#"{"old":1}"#));
    assert_eq!(new.request("echo", Some(json(r#"{"new":1}"#))).unwrap(), json(r#"{"new":1}"#));
}

#[test]
fn ten_megabytes_cross_in_both_directions() {
    let server = Running::new();
    let client = server.client();
    let params = Json::from_serialize(&std::collections::BTreeMap::from([("text", "x".repeat(10 << 20))])).unwrap();
    assert_eq!(client.request("echo", Some(params.clone())).unwrap(), params);
}

#[test]
fn or_rows_hold_on_the_wire_too() {
    let server = Running::with(|_, config| config.limits.message = 100_000);
    let head = "accept: */*\r\ncontent-type: application/json\r\n";
    for (name, bytes, status) in [
        ("nonsense", "hello\r\n\r\n".to_owned(), 400),
        ("TLS", "\u{16}\u{3}\u{1}\r\n\r\n".to_owned(), 400),
        ("no host", format!("POST /mcp HTTP/1.1\r\n{head}content-length: 2\r\n\r\n{{}}"), 403),
        ("another host", format!("POST /mcp HTTP/1.1\r\nhost: evil\r\n{head}content-length: 2\r\n\r\n{{}}"), 403),
        (
            "two lengths",
            format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{head}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"
            ),
            400,
        ),
        (
            "length and chunks",
            format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n"
            ),
            400,
        ),
        (
            "another coding",
            format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{head}transfer-encoding: gzip\r\n\r\n"),
            501,
        ),
        (
            "too large a head",
            format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(40_000)),
            431,
        ),
        (
            "a length over the limit",
            format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{head}content-length: 1000000\r\n\r\n"),
            413,
        ),
        (
            "a body over the limit",
            format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{head}transfer-encoding: chunked\r\n\r\n30d40\r\n{}",
                "x".repeat(200_000)
            ),
            413,
        ),
        (
            "broken chunks",
            format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{head}transfer-encoding: chunked\r\n\r\nxyz\r\n"),
            400,
        ),
        ("no JSON", format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{head}content-length: 1\r\n\r\n{{"), 400),
        ("another path", "GET / HTTP/1.0\r\nhost: localhost\r\n\r\n".to_owned(), 404),
        (
            "an upgrade",
            "GET /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n".to_owned(),
            400,
        ),
    ] {
        let answer = server.raw(bytes.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
    }
    assert!(server.client().request("echo", None).is_ok(), "the server lives");
}

#[test]
fn stopping_answers_pending_requests() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (ready, begun) = (Arc::new(Barrier::new(2)), Arc::clone(&calls));
    let reached = Arc::clone(&ready);
    let server = Running::serving(Config::new("s", "1"), move |incoming: &Incoming| {
        begun.fetch_add(1, Ordering::Relaxed);
        reached.wait();
        while !incoming.is_cancelled() {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Json::empty_object())
    });
    let client = server.client();
    let waiting = client.call(Call::new("wait")).unwrap();
    ready.wait();
    server.stopper.stop();
    let Err(Error::Server(error)) = waiting.wait() else { panic!() };
    assert!(error.message().contains("closed"), "{}", error.message());
    let stopped = Instant::now();
    drop(server);
    assert!(stopped.elapsed() < Duration::from_secs(5));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// Opens a session of 2025-03-26 without the client, and returns its id.
fn open_session(server: &Running) -> String {
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let opened = server.raw(post("", body).as_bytes());
    opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned()
}

/// A POST for its own connection.
fn post(fields: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\nconnection: close\r\n{fields}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn rp10_calls_that_wait_for_one_thread_are_all_served() {
    const CALLS: usize = 2500;
    let mut config = Config::new("test", "1");
    (config.limits.batch, config.limits.requests_in) = (CALLS, CALLS);
    let serve = |_: &Incoming| {
        thread::sleep(Duration::from_micros(100));
        Ok(Json::empty_object())
    };
    let mut service = Server::new(config, serve).http(HttpConfig::new()).unwrap();
    service.max_handlers = 1;
    let server = Running::of(service);
    let session = RawClient::new(&server.address).session("2025-03-26");
    let calls: Vec<_> = (0..CALLS).map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#)).collect();
    let batch = TestRequest::post(format!("[{}]", calls.join(","))).in_session(&session);
    let answer = RawClient::new(&server.address).answer(&batch).text();
    assert_eq!(answer.matches(r#""result":{}"#).count(), CALLS);
}

#[test]
fn rfc_9110_9_3_2_the_answer_to_head_has_no_body() {
    let server = Running::new();
    let answers = server.raw(
        b"HEAD /mcp HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    );
    let (head, rest) = answers.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    assert!(rest.starts_with("HTTP/1.1 404 "), "what follows would be taken for a response: {rest}");
}

#[test]
fn a_client_that_reads_is_not_disconnected() {
    let server = Running::new();
    let client = server.client();
    for _ in 0..5 {
        // The client may drop progress notifications (RP9), but it delivers the result.
        let result = client.call(Call::new("burst").with_progress()).unwrap().wait_with(|_| {});
        assert_eq!(result.ok(), Some(json("{}")));
    }
}

#[test]
fn the_server_returns_when_the_last_answers_are_written() {
    for _ in 0..20 {
        let (ready, reached) = (Arc::new(Barrier::new(9)), Arc::new(AtomicUsize::new(0)));
        let (barrier, begun) = (Arc::clone(&ready), Arc::clone(&reached));
        let server = Running::serving(Config::new("s", "1"), move |incoming: &Incoming| {
            begun.fetch_add(1, Ordering::Relaxed);
            barrier.wait();
            while !incoming.is_cancelled() {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(Json::empty_object())
        });
        let session = open_session(&server);
        let call = post(&format!("mcp-session-id: {session}\r\n"), r#"{"jsonrpc":"2.0","id":1,"method":"wait"}"#);
        let streams: Vec<_> = (0..8)
            .map(|_| {
                let mut stream = TcpStream::connect(&server.address).unwrap();
                stream.write_all(call.as_bytes()).unwrap();
                stream
            })
            .collect();
        ready.wait();
        drop(server);
        // The process may end here, and its connections with it.
        for stream in streams {
            stream.set_nonblocking(true).unwrap();
            let found = stream.peek(&mut [0; 8]);
            assert_eq!(found.ok(), Some(8), "not written when the server returned");
        }
        assert_eq!(reached.load(Ordering::Relaxed), 8);
    }
}

/// A server with one handler thread, whose calls block until they may end. Returns the count of calls begun, and the
/// flag that lets them end.
fn waiting(calls: usize) -> (Running, Arc<AtomicUsize>, Arc<AtomicBool>) {
    let (begun, may_end) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, ends) = (Arc::clone(&begun), Arc::clone(&may_end));
    let mut config = Config::new("s", "1");
    config.limits.requests_in_total = calls;
    let serve = move |_: &Incoming| {
        count.fetch_add(1, Ordering::AcqRel);
        while !ends.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Json::empty_object())
    };
    let mut service = Server::new(config, serve).http(HttpConfig::new()).unwrap();
    service.max_handlers = 1;
    (Running::of(service), begun, may_end)
}

#[test]
fn calls_of_disconnected_clients_are_not_run() {
    const CALLS: usize = 40;
    let (server, begun, may_end) = waiting(CALLS);
    let remote = RawClient::new(&server.address);
    let call = TestRequest::stateless("1", "call", "");
    // The first call runs and blocks; the others are queued for the thread.
    let first = remote.open(&call);
    while begun.load(Ordering::Acquire) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let gone: Vec<_> = (1..CALLS).map(|_| remote.open(&call)).collect();
    // Time for the calls to arrive.
    thread::sleep(Duration::from_secs(1));
    drop(gone);
    // Connections check twice a second whether their clients are gone.
    thread::sleep(Duration::from_secs(4));
    let honest: Vec<_> = (0..CALLS / 2).map(|_| remote.open(&call)).collect();
    thread::sleep(Duration::from_millis(500));
    may_end.store(true, Ordering::Release);
    for mut client in honest.into_iter().chain([first]) {
        assert_eq!(client.until(|sent| sent.is_over).code(), 200);
    }
    let begun = begun.load(Ordering::Acquire);
    assert!((1 + CALLS / 2..1 + CALLS / 2 + CALLS / 4).contains(&begun), "{begun} calls were run");
}

#[test]
fn fr14_rp10_what_waits_for_a_client_that_does_not_read_is_bounded() {
    let is_over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_over);
    let serve = move |incoming: &Incoming| {
        let text = "x".repeat(100_000);
        for step in 1..=1000 {
            let message = Some(text.as_str().into());
            incoming.progress(Progress { progress: f64::from(step), total: None, message });
        }
        // Once this returns, all earlier inputs have reached the machine.
        let _ = incoming.notify(Notification::new("notifications/message"));
        ended.store(true, Ordering::Release);
        Ok(Json::empty_object())
    };
    let mut http = HttpConfig::new();
    http.unread_timeout = Duration::from_secs(1);
    let server = Running::of(Server::new(Config::new("s", "1"), serve).http(http).unwrap());
    let remote = RawClient::new(&server.address);
    let session = remote.session("2025-06-18");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"flood","params":{"_meta":{"progressToken":1}}}"#;
    let mut unread = remote.open(&TestRequest::post(call).in_session(&session));
    while !is_over.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(10));
    }
    let waited = unread.count_rest();
    assert!(waited < 60_000_000, "{waited} bytes of 100 MB waited");
    assert!(waited > 10_000, "it was served");
}

/// Reports each subscription change once the test allows it, and publishes one change of each resource.
struct Watching(SyncSender<String>, Mutex<Receiver<()>>);

impl Service for Watching {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        Err(ErrorObject::method_not_found(incoming.method()))
    }

    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
        let _ = self.1.lock().unwrap().recv();
        self.0.send(format!("+{uri}")).unwrap();
        let params = Json::empty_object().with_member("uri", &Json::from(&*uri));
        publisher.publish(Notification::with_params(Method::RESOURCES_UPDATED, params)).unwrap();
        assert_ne!(&*uri, "a:panics", "a handler may fail");
    }

    fn unsubscribed(&self, uri: Arc<str>) {
        let _ = self.1.lock().unwrap().recv();
        self.0.send(format!("-{uri}")).unwrap();
    }
}

#[test]
fn a_service_receives_the_resources_that_it_has_to_watch() {
    let config = Config::new("s", "1").capabilities(json(r#"{"resources":{"subscribe":true}}"#));
    let (report, reported) = sync_channel(1000);
    let (turn, turns) = sync_channel(1000);
    let server = Running::serving(config, Watching(report, Mutex::new(turns)));
    let next = || reported.recv_timeout(Duration::from_secs(60)).unwrap();
    let subscribe = |client: &Client, verb: &str, uri: &str| {
        let params = Json::empty_object().with_member("uri", &Json::from(uri));
        assert_eq!(client.request(format!("resources/{verb}").as_str(), Some(params)).unwrap(), Json::empty_object());
    };
    let (client, other) = (server.client(), server.client());
    // While the service handles the first subscription, others begin and end; only the remaining ones are reported
    // then.
    subscribe(&client, "subscribe", "a:1");
    for _ in 0..300 {
        subscribe(&client, "subscribe", "a:2");
        subscribe(&client, "unsubscribe", "a:2");
    }
    for client in [&client, &other] {
        subscribe(client, "subscribe", "a:3");
    }
    subscribe(&client, "unsubscribe", "a:1");
    subscribe(&client, "subscribe", "a:panics");
    for _ in 0..100 {
        turn.send(()).unwrap();
    }
    for expected in ["+a:1", "-a:1", "+a:3", "+a:panics"] {
        assert_eq!(next(), expected);
    }
    drop(client);
    assert_eq!(next(), "-a:panics");
    subscribe(&other, "subscribe", "a:4");
    assert_eq!(next(), "+a:4");
    drop(server);
    for expected in ["-a:3", "-a:4"] {
        assert_eq!(next(), expected);
    }
}

#[test]
fn a_change_that_is_published_while_no_server_runs_is_checked_at_once() {
    let config = Config::new("s", "1").capabilities(json(r#"{"tools":{"listChanged":true}}"#));
    let server = Server::new(config, |_: &Incoming| Ok(Json::empty_object()));
    let (http, stream) = (server.http(HttpConfig::new()).unwrap(), server.stream().unwrap());
    let publishers = [http.publisher(), stream.publisher()];
    let all = |method: &str| {
        let publish = |publisher: &ServerPublisher| publisher.publish(Notification::new(method));
        publishers.each_ref().map(publish)
    };
    assert_eq!(all("notifications/tools/list_changed"), [Ok(()), Ok(())]);
    for outcome in all("notifications/prompts/list_changed") {
        assert!(matches!(outcome, Err(UsageError::NotDeclared { .. })), "{outcome:?}");
    }
    for outcome in all("notifications/x") {
        assert!(matches!(outcome, Err(UsageError::NoChange { .. })), "{outcome:?}");
    }
    let running = Running::of(http);
    let client = Client::builder().http(&running.url).unwrap().connect().unwrap();
    let mut changes = client.listen(json(r#"{"toolsListChanged":true}"#)).unwrap();
    assert!(matches!(changes.next(), Some(Change::Listening(_))));
    publishers[0].publish(Notification::new("notifications/tools/list_changed")).unwrap();
    assert!(matches!(changes.next(), Some(Change::Notified(_))));
    drop((changes, client, running, stream));
    let closed = UsageError::Closed;
    assert_eq!(all("notifications/tools/list_changed"), [Err(closed.clone()), Err(closed)]);
}

#[test]
fn a_request_behind_the_end_of_the_server_is_refused_with_a_status() {
    let server = Running::new();
    let mut client = RawClient::new(&server.address).connect();
    client.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(client.until(|sent| sent.is_over).code(), 404);
    drop(server);
    client.write(b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let answers = client.rest();
    let (_, last) = answers.rsplit_once("HTTP/1.1 ").unwrap();
    assert!(last.starts_with("503 ") && last.contains("retry-after: 5\r\n"), "{answers}");
}

#[test]
fn what_is_held_open_leaves_room_for_requests() {
    let capabilities = json(r#"{"tools":{"listChanged":true}}"#);
    let config = Config::new("s", "1").capabilities(capabilities);
    let serve = |_: &Incoming| Ok(Json::empty_object());
    let mut service = Server::new(config, serve).http(HttpConfig::new()).unwrap();
    service.max_connections = 8;
    let running = Running::of(service);
    let builder = legacy_client().http(&running.url).unwrap().versions([ProtocolVersion::V2026_07_28]);
    let client = builder.connect().unwrap();
    let mut listening: Vec<_> = (0..3).map(|_| client.listen(json(r#"{"toolsListChanged":true}"#)).unwrap()).collect();
    let firsts: Vec<_> = listening.iter_mut().map(|changes| changes.next().unwrap()).collect();
    let open = firsts.iter().filter(|change| matches!(change, Change::Listening(_))).count();
    assert_eq!(open, 2, "a quarter of the connections: {firsts:?}");
    drop((listening, client));
    let remote = RawClient::new(&running.address);
    // One after the other: a connection whose request was not read yet may have to make room for the next one.
    let open = || {
        let mut stream = remote.open(&TestRequest::get().in_session(&remote.session("2025-06-18")));
        (stream.until(|sent| sent.code() != 0).code(), stream)
    };
    let (codes, _streams): (Vec<_>, Vec<_>) = std::iter::repeat_with(open).take(6).unzip();
    assert_eq!(codes.iter().filter(|code| **code == 200).count(), 4, "half of the connections: {codes:?}");
}

/// Nothing is lost or cut off for a client that reads slowly, however large the total is.
#[test]
fn fr14_a_client_that_reads_is_sent_more_than_may_wait() {
    let mut config = Config::new("s", "1");
    config.limits.unwritten = 2 << 20;
    let running = Running::serving(config, |incoming: &Incoming| {
        let text = "x".repeat(100_000);
        for step in 1..=640 {
            let message = Some(text.as_str().into());
            incoming.progress(Progress { progress: step.into(), total: None, message });
        }
        Ok(Json::empty_object())
    });
    let remote = RawClient::new(&running.address);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}"#;
    let call = TestRequest::post(call).in_session(&remote.session("2025-06-18"));
    let mut slow = remote.open(&call);
    thread::sleep(Duration::from_millis(500));
    let text = slow.rest_slowly();
    assert_eq!(text.matches("notifications/progress").count(), 640);
    assert!(text.contains(r#""id":1,"result":{}"#));
}

/// Reports notifications and the ends of sessions.
struct Noting(Sender<String>);

impl Service for Noting {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        Err(ErrorObject::method_not_found(incoming.method()))
    }

    fn notified(&self, _: SessionKey, notification: Notification) {
        let _ = self.0.send(notification.method.to_string());
    }

    fn ended(&self, _: SessionKey, reason: CloseReason) {
        let _ = self.0.send(format!("{reason:?}"));
    }
}

#[test]
fn a_service_receives_notifications_and_the_end_of_each_session() {
    let (sender, events) = channel();
    let running = Running::serving(Config::new("s", "1"), Noting(sender));
    let client =
        legacy_client().http(&running.url).unwrap().versions([ProtocolVersion::V2025_06_18]).connect().unwrap();
    // The response shows that the server has received `notifications/initialized`, before which it ignores
    // notifications.
    client.request("m", None).unwrap_err();
    client.notify(Notification::new("notifications/x")).unwrap();
    let until = |end: &str| events.iter().find(|text| text == end).unwrap();
    until("notifications/x");
    assert!(client.notify(Notification::new("notifications/initialized")).is_err());
    drop(client);
    until("Peer");
}

/// If the revision supports it, a client fetches a late answer on another connection.
#[test]
fn a_call_that_is_released_holds_no_connection_open() {
    let (end, may_end) = channel::<()>();
    let may_end = Mutex::new(may_end);
    let running = Running::serving(Config::new("s", "1"), move |incoming: &Incoming| {
        incoming.release();
        let _ = may_end.lock().unwrap().recv_timeout(Duration::from_secs(20));
        Ok(Json::empty_object())
    });
    let remote = RawClient::new(&running.address);
    let call = TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#).in_session(&remote.session("2025-11-25"));
    let released = remote.open(&call).until(|sent| sent.is_over);
    assert!(!released.text().contains("result") && !released.ids().is_empty(), "{}", released.text());
    end.send(()).unwrap();
}
