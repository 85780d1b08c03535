//! Tests of what is logged. They are in their own process, because a process has only one logger.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use std::io;
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use log::{LevelFilter, Log, Metadata, Record};
use mcp_blocking::{Backend, Client, Gateway, Handler, Incoming, Router, Server, ServerStopper, Service};
use mcp_intermediary::gateway;
use mcp_model::{JsonObject, Tool};
use mcp_proto::auth::Challenge;
use mcp_proto::client::{Call, CloseReason, Outcome};
use mcp_proto::server::{Config, HttpConfig, Principal};
use mcp_proto::{ErrorObject, Json, Notification};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::loopback_server::{LoopbackServer, PostedMessage, mcp_server};
use mcp_testkit::messages::{event, result};
use mcp_testkit::raw_client::RawClient;

/// Everything that this crate has logged in this process. The HTTP library logs payloads at the level trace.
struct Journal(Mutex<Vec<String>>);

/// The log panics at this text.
const FATAL: &str = "not JSON at byte 0";

static JOURNAL: Journal = Journal(Mutex::new(Vec::new()));

impl Log for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mcp_blocking")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let line = format!("{} {}: {}", record.level(), record.target(), record.args());
        assert!(!line.contains(FATAL), "a logger may fail");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn flush(&self) {}
}

/// Waits for a line with this text.
fn line(text: &str) -> String {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let lines = JOURNAL.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(line) = lines.iter().find(|line| line.contains(text)) {
            return line.clone();
        }
        assert!(Instant::now() < until, "no {text} in {lines:#?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn begin() {
    static ONCE: Once = Once::new();
    tests::deadline::set();
    ONCE.call_once(|| {
        log::set_logger(&JOURNAL).expect("there is no other logger");
        log::set_max_level(LevelFilter::Trace);
    });
}

/// A handler that waits while the test holds the lock.
struct Slow(Arc<Mutex<()>>);

impl Handler for Slow {
    fn notified(&self, _: Notification) {
        drop(self.0.lock());
    }
}

#[test]
fn events_of_a_client_are_logged_without_payloads() {
    begin();
    let is_lost = AtomicBool::new(false);
    let notification = event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"x":"hidden"}}"#);
    let serve = mcp_server(move |asked, connection| {
        connection.begin_events()?;
        connection.chunk(event(r#"{"jsonrpc":"2.0","id":4711,"result":{"x":"hidden"}}"#))?;
        for _ in 0..300 {
            connection.chunk(&*notification)?;
        }
        connection.chunk(event(&result(&asked.id, "{}")))?;
        connection.finish()
    });
    let server = LoopbackServer::start(move |request, connection| match PostedMessage::of(request) {
        Some(asked) if asked.method == "lose" && !is_lost.swap(true, Ordering::SeqCst) => {
            connection.reply("404 Not Found", &[], "")
        }
        _ => serve(request, connection),
    });
    let lock = Arc::new(Mutex::new(()));
    let builder = Client::builder().versions(legacy_versions()).handler(Slow(Arc::clone(&lock)));
    let client = builder.http(&server.url()).unwrap().connect().unwrap();
    let held = lock.lock().unwrap();
    client.request("tools/list", None).unwrap();
    drop(held);
    assert!(line("fault: a response to the unknown request 4711").starts_with("INFO mcp_blocking"));
    assert!(line("notifications were dropped: the handler is too slow").starts_with("WARN mcp_blocking"));
    client.request("lose", None).unwrap();
    assert!(line("the session was lost; it is opened again").starts_with("INFO mcp_blocking"));
    assert!(line("the session was opened again").starts_with("INFO mcp_blocking"));
    client.close();
    let lines = JOURNAL.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(lines.iter().all(|line| !line.contains("hidden")), "{lines:#?}");
}

/// Starts a server that logs to the journal, with its address and a handle that stops it.
fn server() -> (RawClient, ServerStopper, JoinHandle<io::Result<CloseReason>>) {
    server_of(|_: &Incoming| -> Result<Json, ErrorObject> { panic!("a handler may fail") })
}

/// A server with this service.
fn server_of(service: impl Service) -> (RawClient, ServerStopper, JoinHandle<io::Result<CloseReason>>) {
    begin();
    let service = Server::new(Config::new("s", "1"), service).http(HttpConfig::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (remote, stopper) = (RawClient::new(&listener.local_addr().unwrap().to_string()), service.stopper());
    (remote, stopper, thread::spawn(move || service.serve(listener)))
}

/// The driver logs what clients do, and an application's logger may panic.
#[test]
fn a_server_whose_driver_panics_ends_with_an_error() {
    let (remote, _, running) = server();
    let id = remote.session("2025-06-18");
    assert_eq!(remote.answer(&TestRequest::post("?").in_session(&id)).code(), 503);
    let error = running.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("has panicked"), "{error}");
}

#[test]
fn faults_of_clients_and_panics_of_handlers_are_logged_without_payloads() {
    let (remote, stopper, running) = server();
    let id = remote.session("2025-06-18");
    assert_eq!(remote.answer(&TestRequest::post("{\"secret").in_session(&id)).code(), 400);
    assert!(line("a client caused a fault: not JSON at byte ").starts_with("INFO mcp_blocking"));
    let call = TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"secret":1}}"#).in_session(&id);
    assert!(remote.answer(&call).text().contains("-32603"));
    assert!(line("the handler of m panicked").starts_with("ERROR mcp_blocking"));
    stopper.stop();
    running.join().unwrap().unwrap();
    let lines = JOURNAL.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(lines.iter().all(|line| !line.contains("secret") && !line.contains(&id)), "{lines:#?}");
}

#[test]
fn a_refused_request_is_logged_with_the_reason_and_without_its_words() {
    let (remote, stopper, running) = server();
    let ask = |request: TestRequest| remote.answer(&request.in_session("secret"));
    for (request, status, reason) in [
        (TestRequest::post("{}").with("host", "secret.example"), 403, "403 Forbidden: the Host of the request is not"),
        (TestRequest::post("{}").with("origin", "https://secret"), 403, "403 Forbidden: the Origin of the request is"),
        (TestRequest::post("{}"), 404, "404 Not Found: there is no such session"),
    ] {
        assert_eq!(ask(request).code(), status);
        assert!(line(&format!("refused a request with {reason}")).starts_with("INFO mcp_blocking"));
    }
    stopper.stop();
    running.join().unwrap().unwrap();
    let lines = JOURNAL.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(lines.iter().all(|line| !line.contains("secret")), "{lines:#?}");
}

#[test]
fn a_request_that_a_gateway_refuses_for_all_its_servers_is_logged() {
    begin();
    let backend = Backend::command(|_| Command::new("/no/such/program"));
    let gateway = Gateway::new().server(gateway::Config::default(), backend).unwrap();
    let gateway = gateway.authenticate(|_| Err::<Principal, _>(Challenge::bearer()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (remote, stopper) = (RawClient::new(&listener.local_addr().unwrap().to_string()), gateway.stopper());
    let running = thread::spawn(move || gateway.serve(listener));
    // No server has this path.
    assert_eq!(remote.answer(&TestRequest::new("GET", "").at("/")).code(), 401);
    let text = "refused a request with 401 Unauthorized: this server demands a token";
    assert!(line(text).starts_with("INFO mcp_blocking"));
    stopper.stop();
    running.join().unwrap().unwrap();
}

#[test]
fn a_server_that_is_stopped_warns_of_cancelled_requests_if_there_are_any() {
    let warnings = || {
        let lines = JOURNAL.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lines.iter().filter(|line| line.contains("requests were cancelled, because")).count()
    };
    let (remote, stopper, running) = server();
    remote.session("2025-06-18");
    stopper.shutdown(Duration::from_secs(10));
    running.join().unwrap().unwrap();
    assert_eq!(warnings(), 0);

    let (started, has_started) = channel();
    let (remote, stopper, running) = server_of(move |incoming: &Incoming| {
        started.send(()).unwrap();
        while !incoming.is_cancelled() {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Json::empty_object())
    });
    let _waiting = remote.open(&TestRequest::stateless("1", "wait", ""));
    has_started.recv().unwrap();
    stopper.shutdown(Duration::from_millis(1));
    running.join().unwrap().unwrap();
    assert!(line("requests were cancelled, because the server is being stopped: 1").starts_with("WARN mcp_blocking"));
    assert_eq!(warnings(), 1);
}

#[test]
fn errors_that_the_peer_does_not_receive_are_logged() {
    begin();
    let router = Router::new().hide_errors();
    let router = router.tool_with_schema(&Tool::without_arguments("t"), |_: JsonObject, _| {
        Err::<(), _>(io::Error::other("disk 7").into())
    });
    let router = router.fallback(|incoming: &Incoming| match incoming.ask(Call::new("roots/list")) {
        Ok(Outcome::Error(error)) => Err(error),
        other => panic!("{other:?}"),
    });
    let server = Server::new(Config::new("tests", "1"), router);
    let builder = Client::builder().versions(legacy_versions());
    let builder = builder.on_list_roots(|| Err(io::Error::other("disk 8").into()));
    let client = builder.in_memory(&server).connect().unwrap();
    client.call_tool("t", ()).unwrap();
    client.request("example/ask", None).unwrap_err();
    client.close();
    assert!(line("the function for tools/call t has failed: disk 7").starts_with("ERROR mcp_blocking"));
    assert!(line("of the server (ListRoots) has failed: disk 8").starts_with("ERROR mcp_blocking"));
}
