//! What is logged. These tests run in a separate process: `tracing` caches for all threads whether a call site is
//! enabled, and would ask the subscriber of another test's thread.

#![cfg(all(unix, feature = "http-client"))]
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::future::pending;
use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use mcp_model::{JsonObject, Tool};
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json, Notification, TraceContext};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::loopback_server::echo_server;
use mcp_testkit::messages::{initialize_result, result};
use mcp_testkit::waiting::LONG;
use mcp_tokio::{Builder, Client, Handler, Incoming, Router, Server};
use tokio::io::{duplex, split};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level};
use tracing_subscriber::fmt::format::FmtSpan;

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

/// Everything that this thread has logged since this was created.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<u8>>>);

impl Journal {
    /// Records until the guard is dropped.
    fn begin() -> (Self, DefaultGuard) {
        // With a single subscriber, `tracing` asks only that of the first thread; with more, it asks all of them.
        static OTHERS: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [(); 2].map(|()| Dispatch::new(NoSubscriber::new())));
        LazyLock::force(&OTHERS);
        let journal = Self::default();
        let writer = journal.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone())
            .finish();
        (journal, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn stderr_is_logged_line_by_line_if_that_is_wanted() {
    let (journal, _guard) = Journal::begin();
    let answer = result("1", &initialize_result("2025-11-25"));
    let output = "echo one >&2; head -c 9999 /dev/zero | tr '\\0' x >&2; echo >&2; echo three >&2";
    let script = format!("read -r request; echo '{answer}'; {output}; cat >/dev/null");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let client = legacy_client().child(command).log_stderr().connect().await.unwrap();
    let logged = timeout(LONG, async {
        while !journal.text().contains("mcp_tokio::stderr: three\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    logged.await.unwrap();
    let text = journal.text();
    let lines: Vec<_> = text.lines().filter_map(|line| line.split("mcp_tokio::stderr: ").nth(1)).collect();
    assert_eq!(lines, ["one", &format!("{} …", "x".repeat(1024)), "three"]);
    assert!(text.contains("mcp_client{program=\"sh\"}"), "{text}");
    client.close().await;
    let text = journal.text();
    assert!(text.contains("the server has ended") && !text.contains("it is asked to end"), "{text}");
}

#[tokio::test]
async fn the_log_contains_what_happened_and_no_secret() {
    let (journal, _guard) = Journal::begin();
    let server = echo_server();
    let builder = legacy_client().http(&format!("{}?key=secret-1", server.url())).unwrap();
    let client = builder.bearer("secret-2").unwrap().connect().await.unwrap();
    let arguments = Json::parse(r#"{"name":"echo","arguments":{"text":"secret-3"}}"#.to_owned()).unwrap();
    client.request("tools/call", Some(arguments)).await.unwrap();
    client.close().await;
    let text = journal.text();
    let span = format!("mcp_client{{server=\"{}\"}}", server.url());
    for expected in [
        &format!("{span}: mcp_tokio::client::driver: connected version=2025-11-25 transport=Streamable HTTP"),
        "mcp_request{otel.kind=\"client\" otel.name=\"tools/call\" mcp.method.name=\"tools/call\" ",
        "gen_ai.operation.name=\"execute_tool\" gen_ai.tool.name=\"echo\" network.transport=\"tcp\" ",
        "network.protocol.name=\"http\" jsonrpc.request.id=2 mcp.protocol.version=\"2025-11-25\" ",
        "otel.name=\"tools/call echo\" outcome=\"result\" duration=",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let ours: Vec<_> = text.lines().filter(|line| line.contains("mcp_tokio")).collect();
    assert!(!ours.iter().any(|line| line.contains("secret") || line.contains("the-session")), "{ours:#?}");
}

#[tokio::test]
async fn an_unexpected_end_and_a_slow_handler_are_logged_as_warnings() {
    use tokio::io::AsyncWriteExt;

    struct Stuck;
    impl Handler for Stuck {
        async fn notified(&self, _: Notification) {
            pending::<()>().await;
        }
    }
    const UNASKED: &str = "the connection has ended without having been closed here reason=Peer";
    const BEHIND: &str =
        "WARN mcp_client: mcp_tokio::client::driver: a notification was dropped: the handler is too slow";
    let (journal, _guard) = Journal::begin();
    let mut before = 0;
    for (is_closed, count) in [(true, 0), (false, 0), (true, 300)] {
        let (ours, mut theirs) = duplex(1 << 16);
        let (read, write) = split(ours);
        let answer = result("1", &initialize_result("2025-11-25"));
        let notifications = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n".repeat(count);
        theirs.write_all(format!("{answer}\n{notifications}").as_bytes()).await.unwrap();
        let client = legacy_client().handler(Stuck).stream(read, write).connect().await.unwrap();
        client.notify(Notification::new("notifications/y")).await.unwrap();
        if is_closed {
            client.close().await;
        } else {
            drop(theirs);
            while client.notify(Notification::new("notifications/y")).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let text = journal.text().split_off(before);
        before += text.len();
        assert_eq!((text.contains(UNASKED), text.contains(BEHIND)), (!is_closed, !notifications.is_empty()), "{text}");
    }
}

/// The names are documented as stable.
#[tokio::test]
async fn the_span_of_a_request_of_a_server_has_its_fields() {
    let (journal, _guard) = Journal::begin();
    let (ours, theirs) = duplex(1 << 16);
    let serve = async |incoming: Incoming| match incoming.method().as_str() {
        "panic" => panic!("a handler may fail"),
        "wait" => pending().await,
        "fail" => Err(ErrorObject::method_not_found(incoming.method())),
        _ => Ok(Json::from("secret")),
    };
    let serving = tokio::spawn(async move {
        let (read, write) = split(theirs);
        Server::new(Config::new("s", "1"), serve).serve_stream(read, write).await
    });
    let (read, write) = split(ours);
    let client = legacy_client().stream(read, write).connect().await.unwrap();
    client.request("succeed", Some(Json::parse(r#"{"a":"secret"}"#.to_owned()).unwrap())).await.unwrap();
    let trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").with_baggage("b=secret");
    let call = Call::new("fail").trace_context(&trace);
    assert!(client.call(call).await.unwrap().wait().await.is_err());
    assert!(client.request("panic", None).await.is_err());
    let waiting = client.call(Call::new("wait")).await.unwrap();
    assert_eq!(client.request("last", None).await.unwrap(), Json::from("secret"));
    drop(waiting);
    client.close().await;
    serving.await.unwrap().unwrap();
    let text = journal.text();
    let closed: Vec<_> =
        text.lines().filter(|line| line.contains("mcp_server_request{") && line.contains("close")).collect();
    let failed = |error: &str| format!("otel.status_code=\"error\" error.type=\"{error}\"");
    let answered = |code: &str| format!("{} rpc.response.status_code={code}", failed(code));
    let trace = " traceparent=\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"";
    for (method, id, trace, outcome, error) in [
        ("succeed", 2, "", "result", String::new()),
        ("fail", 3, trace, "error", answered("-32601")),
        ("panic", 4, "", "panicked", answered("-32603")),
        ("wait", 5, "", "cancelled", failed("cancelled")),
    ] {
        let begins =
            format!("mcp_server_request{{otel.kind=\"server\" otel.name=\"_OTHER\" mcp.method.name=\"{method}\" ");
        let middle = format!("mcp.protocol.version=\"2025-11-25\" mcp.session.id=1 jsonrpc.request.id={id}{trace}");
        let ends = format!(" outcome=\"{outcome}\" duration=");
        let is_it = |line: &&&str| [&begins, &middle, &ends, &error].iter().all(|part| line.contains(*part));
        assert_eq!(closed.iter().filter(is_it).count(), 1, "{method}: {text}");
    }
    assert!(!text.lines().any(|line| line.contains("mcp_") && line.contains("secret")), "{text}");
}

#[tokio::test]
async fn faults_of_clients_are_logged() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (journal, _guard) = Journal::begin();
    let (mut ours, theirs) = duplex(1 << 16);
    let (read, write) = split(theirs);
    let serve = async |_: Incoming| Ok(Json::empty_object());
    let serving =
        tokio::spawn(async move { Server::new(Config::new("s", "1"), serve).serve_stream(read, write).await });
    let opening = mcp_testkit::messages::initialize("1", "2025-11-25");
    ours.write_all(format!("{opening}\n{{\"secret\n").as_bytes()).await.unwrap();
    ours.shutdown().await.unwrap();
    ours.read_to_end(&mut Vec::new()).await.unwrap();
    serving.await.unwrap().unwrap();
    let text = journal.text();
    assert!(text.contains("a client caused a fault fault=not JSON at byte ") && !text.contains("secret"), "{text}");
    assert!(text.contains("a session was opened") && text.contains("a session has ended"), "{text}");
}

#[cfg(feature = "http-server")]
#[tokio::test]
async fn a_server_that_is_stopped_warns_of_cancelled_requests_if_there_are_any() {
    for requests in [0, 1] {
        let (journal, _guard) = Journal::begin();
        let (started, mut has_started) = mpsc::unbounded_channel();
        let server = Server::new(Config::new("s", "1"), move |_: Incoming| {
            started.send(()).unwrap();
            pending::<Result<Json, ErrorObject>>()
        });
        let client = legacy_client().in_memory(&server).connect().await.unwrap();
        let calls: Vec<_> = (0..requests)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.request("wait", None).await })
            })
            .collect();
        for _ in 0..requests {
            timeout(LONG, has_started.recv()).await.unwrap().unwrap();
        }
        assert_eq!(timeout(LONG, server.shutdown(Duration::from_millis(1))).await.unwrap(), requests);
        let text = journal.text();
        let warnings =
            text.lines().filter(|line| line.contains("requests were cancelled, because the server is being"));
        assert_eq!(warnings.count(), requests, "{text}");
        for call in calls {
            timeout(LONG, call).await.unwrap().unwrap().unwrap_err();
        }
    }
}

#[tokio::test]
async fn a_refused_request_is_logged_with_the_reason_and_without_its_words() {
    use http::Request;
    use mcp_proto::server::HttpConfig;
    use tower_service::Service;

    let (journal, _guard) = Journal::begin();
    let serve = async |_: Incoming| Ok::<_, ErrorObject>(Json::from(""));
    let mut service = Server::new(Config::new("s", "1"), serve).http(HttpConfig::new()).unwrap();
    for (name, value, reason) in [
        ("host", "secret.example", "403 Forbidden: the Host of the request is not"),
        ("origin", "https://secret", "403 Forbidden: the Origin of the request is"),
        ("mcp-session-id", "secret", "404 Not Found: there is no such session"),
    ] {
        let mut request = Request::post("/mcp").body(String::from("{}")).unwrap();
        for (name, value) in
            [("host", "localhost"), ("accept", "*/*"), ("content-type", "application/json"), (name, value)]
        {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        service.call(request).await.unwrap();
        let expected = format!("INFO mcp_tokio::server::http::driver: refused a request with {reason}");
        assert!(journal.text().contains(&expected), "{}", journal.text());
    }
    assert!(!journal.text().contains("secret"), "{}", journal.text());
}

#[cfg(feature = "http-server")]
#[tokio::test]
async fn a_store_that_fails_is_logged_once_and_so_is_that_it_works_again() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::Request;
    use mcp_proto::InstanceId;
    use mcp_proto::server::{HttpConfig, SessionMode, StoredSessions};
    use mcp_proto::store::{StoreAction, StoreResult};
    use mcp_tokio::store::{InMemory, Messages, Store};
    use tower_service::Service;

    struct Failing(Arc<AtomicBool>, InMemory);

    impl Store for Failing {
        async fn carry_out(&self, from: InstanceId, action: StoreAction) -> StoreResult {
            if self.0.load(Ordering::Relaxed) { StoreResult::Failed } else { self.1.carry_out(from, action).await }
        }

        async fn register(&self, instance: InstanceId) {
            self.1.register(instance).await;
        }

        async fn attend(&self, instance: InstanceId, messages: Messages) {
            self.1.attend(instance, messages).await;
        }
    }

    let (journal, _guard) = Journal::begin();
    let fails = Arc::new(AtomicBool::new(false));
    let serve = async |_: Incoming| Ok::<_, ErrorObject>(Json::from(""));
    let server = Server::new(Config::new("s", "1"), serve).store(Failing(Arc::clone(&fails), InMemory::new()));
    let mut config = HttpConfig::new();
    config.sessions = SessionMode::Stored(StoredSessions::new(InstanceId::new(1)));
    let mut service = server.http(config).unwrap();
    for (is_failing, code) in [(false, 200), (true, 503), (true, 503), (false, 200), (false, 200)] {
        fails.store(is_failing, Ordering::Relaxed);
        let request = Request::post("/mcp").header("host", "localhost").header("accept", "*/*");
        let request = request.header("content-type", "application/json");
        let request = request.body(mcp_testkit::messages::initialize("1", "2025-11-25")).unwrap();
        assert_eq!(service.call(request).await.unwrap().status(), code);
    }
    let text = journal.text();
    for once in ["the store does not carry out actions", "the store carries out actions again"] {
        assert_eq!(text.matches(once).count(), 1, "{text}");
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_server_that_does_not_answer_is_logged() {
    use std::net::{Ipv4Addr, TcpListener};

    use mcp_proto::InstanceId;
    use mcp_proto::store::{StoreAction, StoreKey, StoreResult};
    use mcp_tokio::store::{Redis, Store};

    let (journal, _guard) = Journal::begin();
    // The system accepts connections to it, and no program answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("redis://{}/", silent.local_addr().unwrap());
    let store = Redis::open(&url).unwrap().timeout(Duration::from_millis(50));
    let instance = InstanceId::new(1);
    let find = StoreAction::Find { key: StoreKey::new(1), instance };
    assert_eq!(store.carry_out(instance, find).await, StoreResult::Failed);
    let text = journal.text();
    assert!(text.contains("WARN mcp_tokio::store::redis: Redis does not answer"), "{text}");
}

#[tokio::test]
async fn errors_that_the_peer_does_not_receive_are_logged() {
    let (journal, _guard) = Journal::begin();
    let router = Router::new().hide_errors();
    let router = router.tool_with_schema(&Tool::without_arguments("t"), |_: JsonObject, _| async {
        Err::<(), _>(io::Error::other("disk 7").into())
    });
    let router = router.fallback(async |incoming: Incoming| match incoming.ask(Call::new("roots/list")).await {
        Ok(Outcome::Error(error)) => Err(error),
        other => panic!("{other:?}"),
    });
    let server = Server::new(Config::new("tests", "1"), router);
    let builder = legacy_client().on_list_roots(async || Err(io::Error::other("disk 8").into()));
    let client = builder.in_memory(&server).connect().await.unwrap();
    client.call_tool("t", ()).await.unwrap();
    client.request("example/ask", None).await.unwrap_err();
    client.close().await;
    let text = journal.text();
    for expected in [
        "a function has failed request=\"tools/call t\" error=\"disk 7\"",
        "the function for a request of the server has failed request=ListRoots error=\"disk 8\"",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}
