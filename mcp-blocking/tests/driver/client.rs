//! Tests of the blocking client over real sockets.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_blocking::{Builder, Change, Client, Error, Handler, HttpOptions, HttpServer, Observation};
use mcp_proto::client::{Call, DetectedBy, DetectedEra, HttpTransport, Unavailable};
use mcp_proto::{Era, ErrorObject, Failed, Json, Limits, Method, Notification, ProtocolVersion};
use mcp_testkit::bad_answers::BAD_ANSWERS;
use mcp_testkit::bad_handshakes::BAD_HANDSHAKES;
use mcp_testkit::bad_servers::BAD_SERVERS;
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::late_answers::{LATE_ANSWERS, PATIENCE};
use mcp_testkit::loopback_server::{Connection, LoopbackServer, PostedMessage, echo_server, mcp_server, modern_server};
use mcp_testkit::messages::{
    DISCOVERED, complete, error, event, initialize_result, progress_notification, request, result,
};
use mcp_testkit::modern_answers::{CAPABILITIES, FOUND, MODERN_ANSWERS, NEXT, ROOTS};
use tests::closing_server::{REQUESTS, closing_server, count};
use tests::urls::{ACCEPTED_URLS, REFUSED_URLS};

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

fn connect(server: &LoopbackServer) -> Client {
    tests::deadline::set();
    legacy_client().http(&server.url()).unwrap().connect().unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn failure(outcome: Result<Json, Error>) -> Failed {
    match outcome {
        Err(Error::Failed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_url_that_has_no_one_reading_is_refused() {
    for (url, text) in REFUSED_URLS {
        let error = legacy_client().http(url).err().unwrap_or_else(|| panic!("{url}"));
        assert!(error.to_string().contains(text), "{url:?}: {error}");
    }
    for (url, _) in ACCEPTED_URLS {
        assert!(legacy_client().http(url).is_ok(), "{url}");
    }
    let server = echo_server();
    drop(legacy_client().http(&format!("{}/münchen?q=ö", server.url())).unwrap().connect().unwrap());
    assert!(server.requests().iter().all(|request| request.line.contains("/mcp/m%C3%BCnchen?q=%C3%B6 ")));
}

#[test]
fn many_threads_call_at_once_and_each_gets_its_own_answer() {
    let server = echo_server();
    let client = connect(&server);
    let threads: Vec<_> = (0..16)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || {
                for round in 0..50 {
                    let params = json(&format!(r#"{{"number":{number},"round":{round}.0}}"#));
                    assert_eq!(client.request("tools/call", Some(params.clone())).unwrap(), params);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // Connections are kept alive and reused: at most as many as there were calls at one time, and a few more.
    assert!(server.connections() <= 20, "{}", server.connections());
}

#[test]
fn one_call_after_the_other_uses_one_connection() {
    let server = echo_server();
    let client = connect(&server);
    for _ in 0..50 {
        client.request("tools/call", None).unwrap();
    }
    assert!(server.connections() <= 2, "{}", server.connections());
    drop(client);
    let delete = server.wait_for("DELETE /mcp");
    assert_eq!(delete.header("mcp-session-id"), "the-session");
}

#[test]
fn a_slow_call_delays_no_other() {
    let (finish, finished) = channel::<()>();
    let finished = Mutex::new(finished);
    let server = LoopbackServer::start(mcp_server(move |asked, connection| {
        if asked.params.contains("slow") {
            finished.lock().unwrap().recv().unwrap();
        }
        connection.json(result(&asked.id, "{}"))
    }));
    let client = connect(&server);
    let slow = client.call(Call::new("tools/call").params(json(r#"{"slow":true}"#))).unwrap();
    for _ in 0..10 {
        client.request("tools/call", None).unwrap();
    }
    finish.send(()).unwrap();
    slow.wait().unwrap();
}

#[test]
fn progress_arrives_while_waiting_and_a_cancelled_call_ends_at_once() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        if asked.params.contains("forever") {
            return connection.hang();
        }
        for step in 1..=3 {
            connection.chunk(event(&progress_notification(&asked.id, step)))?;
        }
        connection.chunk(event(&result(&asked.id, "{}")))?;
        connection.finish()
    }));
    let client = connect(&server);
    let mut steps = Vec::new();
    let call = client.call(Call::new("tools/call").with_progress()).unwrap();
    call.wait_with(|params| steps.push(params.member("progress").unwrap().unwrap())).unwrap();
    assert_eq!(steps, [json("1"), json("2"), json("3")]);

    let call = client.call(Call::new("tools/call").params(json(r#"{"forever":1}"#))).unwrap();
    server.wait(|server| server.requests().iter().any(|request| request.body.ends_with(b"}}")).then_some(())).unwrap();
    call.cancel();
    assert_eq!(failure(call.wait()), Failed::Cancelled);
    server
        .wait(|server| {
            let cancelled = |body: &[u8]| body.windows(23).any(|text| text == b"notifications/cancelled");
            server.requests().iter().any(|request| cancelled(&request.body)).then_some(())
        })
        .expect("the server received the cancellation");
}

#[test]
fn aborting_closes_the_connection_of_a_server_that_is_silent() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        if asked.params.contains("silent") {
            return connection.hang();
        }
        connection.begin_events()?;
        connection.chunk(": working\n\n")?;
        connection.hang()
    }));
    for params in [r#"{"silent":1}"#, "{}"] {
        let client = connect(&server);
        let call = client.call(Call::new("tools/call").params(json(params))).unwrap();
        server.wait(|server| server.asked().iter().any(|asked| asked.method == "tools/call").then_some(())).unwrap();
        let closed = server.closed_connections();
        // Dropping the client aborts the call in flight; nothing else ends it within minutes.
        let closing = thread::spawn(move || drop(client));
        server.wait(|server| (server.closed_connections() > closed).then_some(())).expect(params);
        assert_eq!(failure(call.wait()), Failed::Closed);
        closing.join().unwrap();
    }
}

#[test]
fn progress_is_returned_until_the_outcome_which_is_returned_afterwards() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        connection.chunk(event(&progress_notification(&asked.id, 1)))?;
        connection.chunk(event(&result(&asked.id, "{}")))?;
        connection.finish()
    }));
    let client = connect(&server);
    let mut call = client.call(Call::new("tools/call").with_progress()).unwrap();
    assert_eq!(call.progress().unwrap().member("progress").unwrap(), Some(1.into()));
    assert_eq!((call.progress(), call.progress()), (None, None));
    assert_eq!(call.wait().unwrap(), json("{}"));
}

#[cfg(unix)]
#[test]
fn a_client_on_a_byte_stream_uses_its_server_until_it_is_closed() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let serve = |incoming: &mcp_blocking::Incoming| Ok(Json::from(incoming.method().as_str()));
        let config = mcp_proto::server::Config::new("s", "1");
        mcp_blocking::Server::new(config, serve).serve_stream(theirs.try_clone().unwrap(), theirs)
    });
    let socket = ours.try_clone().unwrap();
    let client = legacy_client().stream(ours.try_clone().unwrap(), ours).connect().unwrap();
    assert_eq!(client.request("hello", None).unwrap(), Json::from("hello"));
    assert_eq!(client.transport(), None);
    let other = client.clone();
    // What is sent last is written before the stream is closed.
    client.notify(Notification::new("notifications/x")).unwrap();
    client.close();
    assert!(matches!(other.request("hello", None), Err(Error::Usage(mcp_proto::UsageError::Closed))));
    other.close();
    drop((client, other));
    // The two halves are one socket, which stays open while a thread reads from it.
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(server.join().unwrap().unwrap(), mcp_proto::client::CloseReason::Peer);
}

struct Listener {
    reports: Sender<String>,
}

impl Handler for Listener {
    fn notified(&self, notification: Notification) {
        self.reports.send(format!("notified {}", notification.method)).unwrap();
    }

    fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        self.reports.send(format!("requested {method}")).unwrap();
        Ok(params.unwrap_or(Json::empty_object()))
    }

    fn observed(&self, observation: Observation) {
        self.reports.send(format!("observed {observation:?}")).unwrap();
    }
}

fn listening(server: &LoopbackServer) -> (Client, Receiver<String>) {
    let (reports, received) = channel();
    let client = legacy_client()
        .http(&server.url())
        .unwrap()
        .capabilities(json(r#"{"elicitation":{}}"#))
        .handler(Listener { reports })
        .connect()
        .unwrap();
    (client, received)
}

#[test]
fn the_handler_receives_notifications_and_answers_requests() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        connection.chunk(event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#))?;
        connection.chunk(event(&request("\"q\"", "elicitation/create", r#"{"message":"?"}"#)))?;
        thread::sleep(Duration::from_millis(200));
        connection.chunk(event(&result(&asked.id, r#"{"content":[]}"#)))?;
        connection.finish()
    }));
    let (client, received) = listening(&server);
    client.request("tools/call", None).unwrap();
    drop(client);
    // A request and a notification are handled on two threads.
    let received: BTreeSet<_> = received.iter().collect();
    assert_eq!(received, ["notified notifications/message", "requested elicitation/create"].map(str::to_owned).into());
    let answers: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.body.starts_with(br#"{"jsonrpc":"2.0","id":"q""#))
        .collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].body, result("\"q\"", r#"{"message":"?"}"#).into_bytes());
}

#[test]
fn an_unreachable_server_is_a_readable_error() {
    let outcome = legacy_client().http("http://127.0.0.1:1/mcp?key=secret").unwrap().connect();
    let text = outcome.unwrap_err().to_string();
    assert_eq!(
        text,
        "the server at http://127.0.0.1:1/mcp cannot be reached: nothing listens there (connection refused)"
    );
    let outcome = legacy_client().http("http://no-such-host.invalid/mcp").unwrap().connect();
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .starts_with("the server at http://no-such-host.invalid/mcp cannot be reached: ")
    );
    assert!(matches!(legacy_client().http("no url"), Err(Error::Usage(_))));
}

#[test]
fn bad_answers_are_outcomes_at_once_and_the_next_call_succeeds() {
    for case in BAD_ANSWERS {
        let server = case.server();
        let client = connect(&server);
        let started = Instant::now();
        let outcome = client.request("tools/call", None);
        assert!(started.elapsed() < Duration::from_secs(10), "{}", case.name);
        case.judge(outcome);
        assert_eq!(client.request("tools/list", None).unwrap(), json("{}"), "{}", case.name);
    }
}

#[test]
fn late_answers_fail_in_time_and_the_next_call_succeeds() {
    thread::scope(|scope| {
        for case in LATE_ANSWERS {
            scope.spawn(|| {
                let server = case.server();
                let client =
                    legacy_client().http(&server.url()).unwrap().request_timeout(PATIENCE.0).connect().unwrap();
                let outcome = client.request("tools/call", None);
                case.judge(outcome);
                assert_eq!(client.request("tools/list", None).unwrap(), json("{}"), "{}", case.name);
            });
        }
    });
}

#[test]
fn bad_handshakes_are_readable_errors_or_are_tolerated() {
    for case in BAD_HANDSHAKES {
        let server = (case.server)();
        let outcome = legacy_client().http(&server.url()).unwrap().connect();
        let outcome = outcome.and_then(|client| client.request("tools/call", None));
        case.judge(outcome);
    }
}

struct Roots;

impl Handler for Roots {
    fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
        assert_eq!(method.as_str(), "roots/list");
        Ok(json(ROOTS))
    }
}

#[test]
fn modern_answers_are_outcomes_at_once_and_the_next_call_succeeds() {
    for case in MODERN_ANSWERS {
        let server = case.server();
        let builder =
            legacy_client().http(&server.url()).unwrap().versions([ProtocolVersion::V2026_07_28]).handler(Roots);
        match builder.capabilities(json(CAPABILITIES)).connect() {
            Ok(client) => {
                assert!(case.connects(), "{}", case.name);
                case.judge(client.request(case.method, None));
                assert_eq!(client.request(NEXT, None).unwrap(), json(FOUND), "{}", case.name);
            }
            Err(error) => case.judge(Err(error)),
        }
    }
}

#[test]
fn bad_lines_of_a_child_are_outcomes_at_once_and_the_next_call_succeeds() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-lines-blocking");
    std::fs::create_dir_all(&folder).unwrap();
    for (number, case) in BAD_SERVERS.iter().enumerate() {
        let file = folder.join(number.to_string());
        std::fs::write(&file, case.bytes()).unwrap();
        let opened = result("1", &initialize_result("2025-11-25"));
        let mut server = tests::examples::example("scripted_server");
        server.args(["read", "say", &opened, "at", "\"id\":2,", "print"]).arg(file);
        server.args(["at", "\"id\":3,", "say", &result("3", "{}"), "drain"]);
        let legacy = |config: &mut mcp_proto::client::Config| config.versions = vec![ProtocolVersion::V2025_11_25];
        let client = legacy_client().child(server).configure(legacy).connect().unwrap();
        let outcome = client.request("tools/call", None);
        case.judge(outcome);
        assert_eq!(client.request("tools/list", None).unwrap(), json("{}"), "{}", case.name);
    }
}

#[test]
fn sp_interim_responses_and_lower_case_chunks_are_part_of_http() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.raw("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")?;
        connection.raw(
            "HTTP/1.1 200 OK\r\nContent-Type: Application/JSON; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let body = result(&asked.id, "{}");
        for byte in body.bytes() {
            connection.chunk([byte])?;
        }
        connection.raw("0\r\ntrailer: x\r\n\r\n")
    }));
    let client = connect(&server);
    for _ in 0..3 {
        client.request("tools/call", None).unwrap();
    }
}

#[test]
fn rp16_a_lost_session_is_opened_again_and_the_refused_call_succeeds() {
    let lost = AtomicUsize::new(0);
    let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, r#"{"content":[]}"#)));
    let server = LoopbackServer::start(move |request, connection| {
        let is_call = request.body.windows(10).any(|text| text == b"tools/call");
        if is_call && lost.fetch_add(1, Ordering::SeqCst) == 1 {
            return connection.reply("404 Not Found", &[], "");
        }
        serve(request, connection)
    });
    let (client, received) = listening(&server);
    for _ in 0..3 {
        client.request("tools/call", None).unwrap();
    }
    drop(client);
    let observed: Vec<_> = received.iter().collect();
    assert!(observed.len() == 2 && observed[0] == "observed SessionLost", "{observed:?}");
    assert!(observed[1].starts_with("observed Reconnected"), "{observed:?}");
    let asked = server.asked();
    assert_eq!(asked.iter().filter(|asked| asked.method == "initialize").count(), 2);
    let ids: BTreeSet<_> = asked.iter().map(|asked| &asked.id).collect();
    assert_eq!(ids.len(), asked.len() - 1, "only what was refused has the id of another: {asked:?}");
}

#[test]
fn a_handler_may_use_the_client_and_a_flood_of_events_blocks_no_call() {
    struct Chatty {
        client: Mutex<Receiver<Client>>,
        counts: Sender<usize>,
        count: AtomicUsize,
    }
    impl Handler for Chatty {
        fn notified(&self, _: Notification) {
            let count = self.count.fetch_add(1, Ordering::SeqCst);
            if count == 0 {
                let client = self.client.lock().unwrap().recv().unwrap();
                client.request("tools/list", None).unwrap();
            }
            let _ = self.counts.send(count + 1);
        }
    }
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        if asked.method == "tools/list" {
            return connection.json(result(&asked.id, "{}"));
        }
        connection.begin_events()?;
        let notifications = event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).repeat(100);
        for _ in 0..200 {
            connection.chunk(&notifications)?;
        }
        connection.chunk(event(&result(&asked.id, r#"{"content":[]}"#)))?;
        connection.finish()
    }));
    let (give, client) = channel();
    let (counts, count) = channel();
    let handler = Chatty { client: Mutex::new(client), counts, count: AtomicUsize::new(0) };
    let own = legacy_client().http(&server.url()).unwrap().handler(handler).connect().unwrap();
    let call = own.call(Call::new("tools/call")).unwrap();
    thread::sleep(Duration::from_millis(200));
    give.send(own.clone()).unwrap();
    call.wait().unwrap();
    drop(own);
    assert!(count.iter().count() >= 256);
}

#[test]
fn a_request_whose_handler_panics_is_answered_and_the_handler_is_called_again() {
    struct Clumsy;
    impl Handler for Clumsy {
        fn notified(&self, _: Notification) {
            panic!("a handler may fail");
        }

        fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            assert_eq!(method.as_str(), "elicitation/create", "a handler may fail");
            Ok(json("{}"))
        }
    }
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        connection.chunk(event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#))?;
        connection.chunk(event(&request("\"first\"", "roots/list", "{}")))?;
        connection.chunk(event(&request("\"second\"", "elicitation/create", "{}")))?;
        connection.hang()?;
        connection.chunk(event(&result(&asked.id, "{}")))
    }));
    let capabilities = json(r#"{"elicitation":{},"roots":{}}"#);
    let client =
        legacy_client().http(&server.url()).unwrap().capabilities(capabilities).handler(Clumsy).connect().unwrap();
    let _call = client.call(Call::new("tools/call")).unwrap();
    let answer = |id: &str| {
        let start = format!(r#"{{"jsonrpc":"2.0","id":"{id}","#);
        let find = |server: &LoopbackServer| {
            let bodies = server.requests().into_iter().map(|request| String::from_utf8(request.body).unwrap());
            bodies.into_iter().find(|body| body.starts_with(&start))
        };
        server.wait(find).unwrap_or_else(|| panic!("no answer to {id}"))
    };
    assert!(answer("first").contains(r#""error":{"code":-32603,"message":"#));
    assert_eq!(answer("second"), result("\"second\"", "{}"));
}

#[test]
fn the_reason_why_there_is_no_connection_is_the_servers_own() {
    struct Watching(Sender<Unavailable>);
    impl Handler for Watching {
        fn observed(&self, observation: Observation) {
            if let Observation::Unavailable(reason) = observation {
                let _ = self.0.send(reason);
            }
        }
    }
    let opened = AtomicUsize::new(0);
    let serve = mcp_server(|_, connection| connection.reply("404 Not Found", &[], ""));
    let server = LoopbackServer::start(move |request, connection| {
        let asked = PostedMessage::of(request).filter(|asked| asked.method == "initialize");
        match asked.filter(|_| opened.fetch_add(1, Ordering::SeqCst) > 0) {
            Some(asked) => connection.json(error(&asked.id, -32_001, "the licence has expired")),
            None => serve(request, connection),
        }
    });
    let (sender, reasons) = channel();
    let client = legacy_client().http(&server.url()).unwrap().handler(Watching(sender)).connect().unwrap();
    client.request("tools/call", None).unwrap_err();
    let reason = reasons.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(
        matches!(&reason, Unavailable::Error(error) if error.code() == -32_001
            && error.message() == "the licence has expired"),
        "{reason:?}"
    );
}

#[test]
fn a_request_that_a_busy_handler_has_no_room_for_is_answered() {
    const REQUESTS: usize = 400;
    struct Busy(Mutex<Receiver<()>>);
    impl Handler for Busy {
        fn requested(&self, _: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            // Blocks until the test is over.
            let _ = self.0.lock().unwrap().recv();
            Ok(json("{}"))
        }
    }
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        for id in 0..REQUESTS {
            connection.chunk(event(&request(&format!("\"q{id}\""), "elicitation/create", "{}")))?;
        }
        connection.hang()?;
        connection.chunk(event(&result(&asked.id, "{}")))
    }));
    let (over, waiting) = channel();
    let client = legacy_client().http(&server.url()).unwrap();
    let client =
        client.capabilities(json(r#"{"elicitation":{}}"#)).handler(Busy(Mutex::new(waiting))).connect().unwrap();
    let _call = client.call(Call::new("tools/call")).unwrap();
    let answers = |server: &LoopbackServer| {
        let is_answer = |body: &[u8]| body.starts_with(br#"{"jsonrpc":"2.0","id":"q"#);
        server.requests().into_iter().filter(|request| is_answer(&request.body)).count()
    };
    // At most 256 requests are handled at one time.
    server
        .wait(|server| (answers(server) >= REQUESTS - 256).then_some(()))
        .expect("answers for what there is no room for");
    drop(over);
    server.wait(|server| (answers(server) == REQUESTS).then_some(())).expect("answers to all");
}

#[test]
fn calls_that_were_cancelled_before_their_exchange_are_not_made() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        if asked.params.contains("forever") { connection.hang() } else { connection.json(result(&asked.id, "{}")) }
    }));
    let builder = legacy_client().configure(|config| config.limits.exchanges = 2).http(&server.url()).unwrap();
    let client = builder.connect().unwrap();
    let call = |text: &str| client.call(Call::new("tools/call").params(json(text))).unwrap();
    let forever: Vec<_> = (0..2).map(|_| call(r#"{"forever":1}"#)).collect();
    let waiting: Vec<_> = (0..10).map(|_| call(r#"{"waiting":1}"#)).collect();
    for call in waiting {
        call.cancel();
        assert_eq!(failure(call.wait()), Failed::Cancelled);
    }
    drop(forever);
    client.request("tools/call", None).unwrap();
    assert!(server.asked().iter().all(|asked| !asked.params.contains("waiting")));
}

/// A server of 2026-07-28 whose subscriptions begin with `listening`, which gets the id of the request.
fn subscribed(
    listening: impl Fn(&str, &mut Connection) -> std::io::Result<()> + Send + Sync + 'static,
) -> LoopbackServer {
    LoopbackServer::start(mcp_server(move |asked, connection| match asked.method.as_str() {
        "server/discover" => connection.json(result(&asked.id, DISCOVERED)),
        "subscriptions/listen" => {
            connection.begin_events()?;
            let params =
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"toolsListChanged":true}}"#;
            let params = params.replace("ID", &asked.id);
            let method = "notifications/subscriptions/acknowledged";
            connection.chunk(event(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)))?;
            listening(&asked.id, connection)
        }
        _ => connection.json(complete(&asked.id)),
    }))
}

fn changed(id: &str) -> String {
    let params = format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#);
    event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{params}}}"#))
}

#[test]
fn the_gap_of_a_subscription_that_broke_off_is_reported() {
    let opened = AtomicUsize::new(0);
    let server = subscribed(move |id, connection| {
        if opened.fetch_add(1, Ordering::SeqCst) == 0 {
            // The stream is interrupted.
            connection.close();
            return Ok(());
        }
        connection.chunk(changed(id))?;
        connection.chunk(event(&complete(id)))?;
        connection.finish()
    });
    let client =
        legacy_client().http(&server.url()).unwrap().versions(ProtocolVersion::ALL.iter().copied()).connect().unwrap();
    let changes: Vec<_> = client.listen(json(r#"{"toolsListChanged":true}"#)).unwrap().collect();
    assert!(
        matches!(
            &changes[..],
            [
                Change::Listening(_),
                Change::Interrupted(_),
                Change::Listening(_),
                Change::Notified(_),
                Change::Ended(Ok(_)),
            ]
        ),
        "{changes:?}"
    );
}

#[test]
fn changes_that_are_not_taken_are_counted_and_the_end_is_reported() {
    let server = subscribed(|id, connection| {
        for _ in 0..1000 {
            connection.chunk(changed(id))?;
        }
        connection.chunk(event(&complete(id)))?;
        connection.finish()
    });
    let client =
        legacy_client().http(&server.url()).unwrap().versions(ProtocolVersion::ALL.iter().copied()).connect().unwrap();
    let subscription = client.listen(json(r#"{"toolsListChanged":true}"#)).unwrap();
    let (mut notified, mut missed, mut ended) = (0, 0, 0);
    for change in subscription {
        match change {
            Change::Notified(_) => notified += 1,
            Change::Missed(count) => missed += count,
            Change::Ended(outcome) => ended += usize::from(outcome.is_ok()),
            Change::Listening(_) | Change::Interrupted(_) | _ => {}
        }
    }
    assert_eq!((notified + missed, ended), (1000, 1));
}

#[test]
fn dropping_a_subscription_ends_it() {
    let server = subscribed(|_, connection| connection.hang());
    let client =
        legacy_client().http(&server.url()).unwrap().versions(ProtocolVersion::ALL.iter().copied()).connect().unwrap();
    let mut subscription = client.listen(json(r#"{"toolsListChanged":true}"#)).unwrap();
    assert!(matches!(subscription.next(), Some(Change::Listening(_))));
    let closed = server.closed_connections();
    drop(subscription);
    assert!(server.wait(|server| (server.closed_connections() > closed).then_some(())).is_some());
    client.request("tools/list", None).unwrap();
}

#[cfg(unix)]
#[test]
fn a_child_that_does_not_read_its_answers_is_not_read_without_end() {
    let marker = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flood-was-read");
    let _ = std::fs::remove_file(&marker);
    let answer = result("1", &initialize_result("2025-11-25"));
    // Several times as many requests as responses may be queued.
    let ping = request("7", "ping", "{}");
    let script = format!(
        "read -r i; echo '{answer}'; read -r i; yes '{ping}' | head -c 12000000; touch '{}'; sleep 1000",
        marker.display()
    );
    let mut server = Command::new("sh");
    server.args(["-c", &script]);
    let client = legacy_client().child(server).versions([ProtocolVersion::V2025_11_25]).connect().unwrap();
    let call = Call::new("tools/call").timeout(Duration::from_secs(8));
    assert!(matches!(failure(client.call(call).unwrap().wait()), Failed::TimedOut { .. }));
    assert!(!marker.exists(), "all of the flood was read");
}

#[test]
fn memory_of_a_large_answer_is_given_back_and_a_larger_one_is_refused() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        let size = if asked.params.contains("large") { 20 << 20 } else { 10 << 20 };
        connection.json(result(&asked.id, &format!("\"{}\"", "x".repeat(size))))
    }));
    let client = connect(&server);
    assert_eq!(client.request("tools/call", None).unwrap().len(), (10 << 20) + 2);
    let reason = failure(client.request("tools/call", Some(json(r#"{"large":1}"#))));
    assert_eq!(reason, Failed::TooLarge { limit: 16 << 20 });
    client.request("ping", None).unwrap();
}

#[test]
fn a_server_of_2026_07_28_requires_input_and_reports_changes() {
    let server = modern_server();
    let builder =
        legacy_client().http(&server.url()).unwrap().versions(ProtocolVersion::ALL.iter().copied()).handler(Roots);
    let client = builder.capabilities(json(CAPABILITIES)).connect().unwrap();
    assert_eq!((client.version(), client.detected_era().by), (ProtocolVersion::V2026_07_28, DetectedBy::Discovered));
    client.request("tools/call", Some(json(r#"{"name":"t"}"#))).unwrap();
    let last = server.requests().pop().unwrap();
    assert!(String::from_utf8_lossy(&last.body).contains(r#""inputResponses":{"r":{"roots":[]}}"#));
    let changes: Vec<_> = client.listen(json(r#"{"toolsListChanged":true}"#)).unwrap().collect();
    assert!(
        matches!(&changes[..], [Change::Listening(_), Change::Notified(notified), Change::Ended(Ok(_))]
            if notified.method == Method::TOOLS_LIST_CHANGED),
        "{changes:?}"
    );
    assert!(matches!(client.listen(json("[]")), Err(Error::Usage(_))));
}

#[test]
fn a_server_in_a_process_of_its_own_is_asked_in_either_era() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28] {
        let mut command = tests::examples::example("tools_over_stdio");
        command.args(ProtocolVersion::ALL.iter().map(|version| version.as_str())).stderr(std::process::Stdio::null());
        let client = legacy_client().child(command).versions([version]).handler(()).connect().unwrap();
        assert_eq!((client.version(), client.transport()), (version, None));
        let tools = client.request("tools/list", None).unwrap();
        assert!(tools.to_text().contains(r#""name":"greet""#));
    }
    let outcome = legacy_client().child(Command::new("/no/such/program")).connect();
    assert!(matches!(outcome, Err(Error::Start(_))), "{outcome:?}");
}

#[test]
fn clients_do_not_share_a_seed() {
    let mut seeds = Vec::new();
    for _ in 0..3 {
        let _ = legacy_client().configure(|config| seeds.push(config.seed));
    }
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != 0, "{seeds:?}");
}

#[test]
fn the_server_receives_what_the_builder_was_given() {
    let server = echo_server();
    let builder = legacy_client().http(&server.url()).unwrap().name("app", "7").capabilities(json(r#"{"roots":{}}"#));
    let builder = builder.bearer("token").unwrap().header("X-Key", "key").unwrap();
    let client = builder.versions([ProtocolVersion::V2025_11_25]).connect().unwrap();
    assert_eq!(client.transport(), Some(HttpTransport::StreamableHttp));
    assert_eq!(client.detected_era(), DetectedEra { era: Era::Legacy, by: DetectedBy::Configured });
    drop(client);
    let requests = server.requests();
    let initialize = String::from_utf8_lossy(&requests[0].body).into_owned();
    for part in [
        r#""protocolVersion":"2025-11-25""#,
        r#""capabilities":{"roots":{}}"#,
        r#""clientInfo":{"name":"app","version":"7"}"#,
    ] {
        assert!(initialize.contains(part), "{initialize}");
    }
    for request in requests {
        assert_eq!((request.header("authorization"), request.header("x-key")), ("Bearer token", "key"));
        assert_eq!((request.header("transfer-encoding"), request.header("accept-encoding")), ("", "identity"));
        let length = request.header("content-length");
        assert!(length == request.body.len().to_string() || length.is_empty() && request.body.is_empty(), "{length}");
    }
    assert!(matches!(
        legacy_client().http(&server.url()).unwrap().header("Mcp-Session-Id", "mine"),
        Err(Error::Usage(_))
    ));
}

/// The cancellation is sent because the request was sent, not because the response is given up, an hour later.
#[test]
fn dropping_a_call_cancels_it_at_the_server_at_once() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        if asked.params.contains("forever") { connection.hang() } else { connection.json(result(&asked.id, "{}")) }
    }));
    let builder = legacy_client().http(&server.url()).unwrap();
    let client = builder.configure_http(|http| http.linger = Duration::from_secs(3600)).connect().unwrap();
    let call = client.call(Call::new("tools/call").params(json(r#"{"forever":1}"#))).unwrap();
    let has_seen = |text: &str| {
        let seen = |server: &LoopbackServer| {
            let found =
                |request: &mcp_testkit::http1::HttpMessage| String::from_utf8_lossy(&request.body).contains(text);
            server.requests().iter().any(found).then_some(())
        };
        assert!(server.wait(seen).is_some(), "{text}");
    };
    has_seen("forever");
    client.request("tools/call", None).unwrap();
    drop(call);
    has_seen("notifications/cancelled");
}

/// The client reconnects without a request, and notifies the handler.
#[test]
fn rp16_opening_a_lost_session_again_is_retried() {
    let opened = AtomicUsize::new(0);
    let serve = mcp_server(|_, connection| connection.reply("404 Not Found", &[], ""));
    let server = LoopbackServer::start(move |request, connection| {
        let is_initialize = String::from_utf8_lossy(&request.body).contains(r#""method":"initialize""#);
        if is_initialize && opened.fetch_add(1, Ordering::SeqCst) == 1 {
            return connection.reply("503 Service Unavailable", &[], "");
        }
        serve(request, connection)
    });
    let (client, observed) = observing(legacy_client().http(&server.url()).unwrap());
    assert!(client.request("tools/call", None).is_err());
    let next = || observed.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(next(), Observation::SessionLost);
    assert!(matches!(next(), Observation::Unavailable(_)));
    let Observation::Reconnected { version, result } = next() else { panic!("a new session") };
    assert_eq!((version, result), (client.version(), client.initialize_result()));
}

struct Observing(Sender<Observation>);

impl Handler for Observing {
    fn observed(&self, observation: Observation) {
        let _ = self.0.send(observation);
    }
}

fn observing(builder: Builder<HttpServer>) -> (Client, Receiver<Observation>) {
    let (sender, observed) = channel();
    (builder.handler(Observing(sender)).connect().unwrap(), observed)
}

#[test]
fn requests_beyond_the_limit_wait_and_are_reported_whatever_is_configured_first() {
    type Configure = fn(Builder<HttpServer>) -> Builder<HttpServer>;
    for configure in [
        (|builder| builder.max_requests(3).http_options(HttpOptions::new())) as Configure,
        |builder| builder.http_options(HttpOptions::new()).max_requests(3),
        |builder| builder.configure(|config| config.limits.exchanges = Limits::exchanges_for(3)),
    ] {
        requests_beyond_three_wait(configure);
    }
}

fn requests_beyond_three_wait(configure: impl FnOnce(Builder<HttpServer>) -> Builder<HttpServer>) {
    let server = LoopbackServer::start(mcp_server(|_, connection| connection.hang()));
    let builder = legacy_client().http(&server.url()).unwrap();
    let (client, observed) = observing(configure(builder));
    let count = |server: &LoopbackServer| server.asked().iter().filter(|asked| asked.method == "tools/call").count();
    let mut calls: Vec<_> = (0..3).map(|_| client.call(Call::new("tools/call")).unwrap()).collect();
    assert!(server.wait(|server| (count(server) == 3).then_some(())).is_some());
    let waits = |observation: &Observation| matches!(observation, Observation::RequestWaits { .. });
    calls.push(client.call(Call::new("tools/call")).unwrap());
    assert_eq!(observed.iter().find(waits), Some(Observation::RequestWaits { limit: 3 }));
    client.request("ping", None).unwrap();
    assert_eq!(count(&server), 3);
}

#[test]
fn dropping_a_client_waits_until_the_process_has_ended() {
    let marker = Path::new(env!("CARGO_TARGET_TMPDIR")).join("blocking-has-ended");
    let _ = std::fs::remove_file(&marker);
    let answer = result("1", &initialize_result("2025-11-25"));
    let mut command = tests::examples::example("scripted_server");
    command.args(["read", "say", &answer, "drain", "sleep", "0.3", "create"]).arg(&marker);
    drop(legacy_client().child(command).versions([ProtocolVersion::V2025_11_25]).connect().unwrap());
    assert!(marker.exists());
    std::fs::remove_file(marker).unwrap();
}

/// A server in a child process that has ended, or has closed its stdout, is started once more, if that is possible.
#[cfg(unix)]
#[test]
fn er06_a_server_that_ends_when_it_is_asked_is_started_once_more_or_an_error_at_once() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned();
    let (marker, once) = (folder.join("blocking-was-asked"), folder.join("blocking-starts-once"));
    let _ = std::fs::remove_file(&marker);
    let answer = result("2", &initialize_result("2025-11-25"));
    let mut command = Command::new("sh");
    let script =
        "read -r line; [ -e \"$0\" ] && { echo \"$1\"; cat >/dev/null; exit; }; : >\"$0\"; exec >&-; sleep 1000";
    command.args(["-c", script]).arg(&marker).arg(answer);
    let client = legacy_client().child(command).versions(ProtocolVersion::ALL.iter().copied()).connect().unwrap();
    assert_eq!(client.detected_era(), DetectedEra { era: Era::Legacy, by: DetectedBy::Exited });
    std::fs::remove_file(marker).unwrap();

    std::fs::write(&once, "#!/bin/sh\nrm \"$0\"\nread -r line\n").unwrap();
    std::fs::set_permissions(&once, std::fs::Permissions::from_mode(0o700)).unwrap();
    let outcome = legacy_client().child(Command::new(once)).versions(ProtocolVersion::ALL.iter().copied()).connect();
    let not_started = Failed::NotStarted(mcp_proto::StartFailure::NotFound);
    assert!(matches!(&outcome, Err(Error::Failed { reason, .. }) if *reason == not_started), "{outcome:?}");
}

#[test]
fn a_request_that_only_reads_is_sent_again_once_when_its_connection_was_closed() {
    for (method, params, is_repeated) in REQUESTS {
        for closes_all in [false, true] {
            let server = closing_server(closes_all);
            let client = connect(&server);
            let outcome = client.request(method, Some(json(params)));
            assert_eq!(outcome.is_ok(), is_repeated && !closes_all, "{method}: {outcome:?}");
            assert_eq!(count(&server, method), 1 + usize::from(is_repeated), "{method}");
        }
    }
}
