//! The server over real sockets, over a byte stream, and in a router of axum.

#![cfg(all(feature = "http-client", feature = "http-server"))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{io, thread};

use mcp_application::{NOTICE_BYTES, NOTICES};
use mcp_proto::auth::Challenge;
use mcp_proto::client::{Call, CloseReason, Outcome};
use mcp_proto::server::{Config, HttpConfig, InputRequired, Principal, Progress};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, InvalidLimit, Json, Method, Notification, SessionKey, UsageError, code};
use mcp_testkit::bad_lines::BAD_LINES;
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{self, INITIALIZED};
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::{LONG, wait_until};
use mcp_tokio::{
    Authenticated, Builder, Client, Error, Handler, HttpService, Incoming, Server, ServerPublisher, Service, StateKeys,
};
use tests::protected;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, duplex, split};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

tests::wire_tests!(Running::with);

macro_rules! crowded_tests {
    ($($scenario:ident)*) => {
        $(
            #[test]
            fn $scenario() {
                let server = Running::crowded();
                tests::on_the_wire::$scenario(&RawClient::new(&server.address));
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

/// A server on its own runtime, stopped at the end of the test.
struct Running {
    address: String,
    service: HttpService,
    runtime: runtime::Handle,
    thread: Option<thread::JoinHandle<()>>,
}

impl Running {
    /// A server with a low limit on connections.
    fn crowded() -> Self {
        Self::changed(tests::on_the_wire::configure_crowded, |service| {
            service.max_connections = tests::on_the_wire::CONNECTIONS;
            service.head_timeout = tests::on_the_wire::HEAD_TIME;
        })
    }

    fn with(change: impl FnOnce(&mut HttpConfig, &mut Config)) -> Self {
        tests::deadline::set();
        Self::changed(change, |_| {})
    }

    fn changed(
        change: impl FnOnce(&mut HttpConfig, &mut Config),
        change_service: impl FnOnce(&mut HttpService),
    ) -> Self {
        let (mut http, mut config) = (HttpConfig::new(), config());
        change(&mut http, &mut config);
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (listener, service) = runtime.block_on(async {
            let mut service = Server::new(config, serve).http(http).unwrap();
            change_service(&mut service);
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), service)
        });
        let (address, handle) = (listener.local_addr().unwrap().to_string(), runtime.handle().clone());
        let serving = service.clone();
        let thread = thread::spawn(move || {
            runtime.block_on(serving.serve(listener)).unwrap();
        });
        Self { address, service, runtime: handle, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.runtime.block_on(self.service.close());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking(), "the server failed");
    }
}

fn config() -> Config {
    let mut config = Config::new("test", "1");
    config.capabilities = json(r#"{"logging":{},"tools":{}}"#);
    config
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// A client in the same process, and the task of its server.
async fn in_memory(service: impl Service, client: Builder) -> (Client, JoinHandle<io::Result<CloseReason>>) {
    let (ours, theirs) = duplex(1024);
    let serving = tokio::spawn(async move {
        let (read, write) = split(theirs);
        Server::new(config(), service).serve_stream(read, write).await
    });
    let (read, write) = split(ours);
    (client.stream(read, write).connect().await.unwrap(), serving)
}

async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "echo" => Ok(incoming.params().cloned().unwrap_or(Json::empty_object())),
        "nap" => {
            sleep(Duration::from_millis(50)).await;
            Ok(incoming.params().cloned().unwrap_or(Json::empty_object()))
        }
        "pause" => {
            sleep(Duration::from_millis(1500)).await;
            Ok(incoming.params().cloned().unwrap_or(Json::empty_object()))
        }
        "wait" => std::future::pending().await,
        "count" => {
            for step in 1..=3 {
                incoming.progress(Progress { progress: f64::from(step), total: Some(3.0), message: None }).await;
            }
            incoming.log(LoggingLevel::Info, None, json(r#""counted""#)).await.unwrap();
            Ok(json(r#"{"counted":3}"#))
        }
        "ask" => match incoming.ask(Call::new("elicitation/create")).await.unwrap() {
            Outcome::Result(answer) => Ok(answer),
            Outcome::Error(error) => Err(error),
            Outcome::Failed(reason) => Err(ErrorObject::new(code::INTERNAL_ERROR, &reason.to_string())),
        },
        "large" => Ok(Json::from("x".repeat(12_000_000).as_str())),
        "panic" => panic!("a handler may fail"),
        "flood" => {
            let filler = Json::from("x".repeat(100_000).as_str());
            for _ in 0..1000 {
                let params = Json::empty_object().with_member("data", &filler);
                let _ = incoming.notify(Notification::with_params("notifications/message", params)).await;
            }
            Ok(Json::empty_object())
        }
        "change" => {
            incoming.publish(Notification::new("notifications/tools/list_changed")).await.unwrap();
            Ok(Json::empty_object())
        }
        "touch" => {
            let change = Notification { method: Method::RESOURCES_UPDATED, params: incoming.params().cloned() };
            incoming.publish(change).await.unwrap();
            Ok(Json::empty_object())
        }
        "tools/list" => Ok(json(tests::on_the_wire::TOOLS)),
        "tools/call" if incoming.params().is_some_and(|params| params.to_text().contains(r#""name":"who""#)) => {
            let keys = StateKeys::new([8; 32]).earlier([7; 32]);
            let answers = incoming.params().and_then(|params| params.member("inputResponses").unwrap());
            if let (Some(answers), Some("asked")) = (answers, keys.open(&incoming)?.as_deref()) {
                return Ok(answers);
            }
            // The earlier key of a server that has changed its key since.
            let state = StateKeys::new([7; 32]).seal(&incoming, "asked", Duration::from_secs(60));
            Ok(InputRequired::new().ask("who", "elicitation/create", Json::empty_object()).state(&state).into())
        }
        "client" => Ok(incoming.client_info().map_or(Json::empty_object(), Json::from)),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }
}

struct Person;

impl Handler for Person {
    async fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
        assert_eq!(method.as_str(), "elicitation/create");
        Ok(json(r#"{"action":"accept"}"#))
    }
}

#[tokio::test]
async fn a_conversation_between_both_ends_of_this_crate() {
    let builder = legacy_client().capabilities(json(r#"{"elicitation":{}}"#)).handler(Person);
    let (client, serving) = in_memory(serve, builder).await;
    let odd = json(r#"{"a":12345678901234567890,"b":1.0,"c":"\u00e9"}"#);
    assert_eq!(client.request("echo", Some(odd.clone())).await.unwrap(), odd, "byte for byte");
    let mut counting = client.call(Call::new("count").with_progress()).await.unwrap();
    let mut steps = 0;
    while counting.progress().await.is_some() {
        steps += 1;
    }
    assert_eq!((steps, counting.wait().await.unwrap()), (3, json(r#"{"counted":3}"#)));
    assert_eq!(client.request("ask", None).await.unwrap(), json(r#"{"action":"accept"}"#));
    assert!(client.request("client", None).await.unwrap().to_text().contains("mcp-tokio"));
    for (method, code) in [("nothing", code::METHOD_NOT_FOUND), ("panic", code::INTERNAL_ERROR)] {
        let Err(Error::Server(error)) = client.request(method, None).await else { panic!("{method}") };
        assert_eq!(error.code(), code);
    }
    client.close().await;
    assert_eq!(serving.await.unwrap().unwrap(), CloseReason::Peer);
}

/// Reports when the handler that holds it is dropped.
struct Held(Option<oneshot::Sender<()>>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[tokio::test]
async fn bad_lines_are_answered_and_the_next_request_is_served() {
    let echo = |incoming: Incoming| async move { Ok(incoming.params().cloned().unwrap_or(Json::empty_object())) };
    for case in BAD_LINES {
        let (ours, theirs) = duplex(64 * 1024);
        let (read, write) = split(theirs);
        let serving = tokio::spawn(async move { Server::new(config(), echo).serve_stream(read, write).await });
        let (read, mut write) = split(ours);
        let mut lines = BufReader::new(read).lines();
        write
            .write_all((messages::initialize("0", "2025-11-25") + "\n" + INITIALIZED + "\n").as_bytes())
            .await
            .unwrap();
        lines.next_line().await.unwrap().unwrap();
        let writing = tokio::spawn(async move {
            write.write_all(&case.all()).await.unwrap();
            write
        });
        // The input ends only after the last answer: the deadline for requests in flight after its end has its own
        // test.
        let mut answers = Vec::new();
        while answers.len() < case.answers() {
            let line = timeout(Duration::from_secs(120), lines.next_line()).await.expect(case.name);
            answers.push(line.unwrap().expect(case.name));
        }
        writing.await.unwrap().shutdown().await.unwrap();
        while let Some(line) = lines.next_line().await.unwrap() {
            answers.push(line);
        }
        case.judge(answers);
        serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn fr8_fr9_lines_may_come_a_byte_at_a_time_and_an_unfinished_one_is_no_message() {
    let echo = |incoming: Incoming| async move { Ok(incoming.params().cloned().unwrap_or(Json::empty_object())) };
    let (ours, theirs) = duplex(1);
    let (read, write) = split(theirs);
    let serving = tokio::spawn(async move { Server::new(config(), echo).serve_stream(read, write).await });
    let (read, mut write) = split(ours);
    let input =
        [&messages::initialize("0", "2025-11-25"), INITIALIZED, &messages::request("1", "echo", r#"{"é":"😀"}"#), ""];
    let input = input.join("\r\n") + &messages::request("2", "echo", "{}");
    tokio::spawn(async move {
        write.write_all(input.as_bytes()).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let mut answers = String::new();
    BufReader::new(read).read_to_string(&mut answers).await.unwrap();
    let answers: Vec<_> = answers.lines().collect();
    assert_eq!(answers[1..], [messages::result("1", r#"{"é":"😀"}"#)]);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn cx_03_the_handler_of_a_cancelled_call_is_dropped() {
    let (dropped, is_dropped) = oneshot::channel();
    let held = Mutex::new(Some(Held(Some(dropped))));
    let service = move |_: Incoming| {
        let held = held.lock().unwrap().take();
        async move {
            let _held = held;
            std::future::pending().await
        }
    };
    let (client, _) = in_memory(service, legacy_client()).await;
    client.call(Call::new("wait")).await.unwrap().cancel();
    timeout(LONG, is_dropped).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_to_the_client_is_cancelled_when_its_future_is_dropped() {
    struct Slow(Mutex<Option<Held>>);
    impl Handler for Slow {
        async fn requested(&self, _: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            let _held = self.0.lock().unwrap().take();
            std::future::pending().await
        }
    }
    let (dropped, is_dropped) = oneshot::channel();
    let service = async |incoming: Incoming| {
        let asked = timeout(Duration::from_millis(50), incoming.ask(Call::new("elicitation/create"))).await;
        assert!(asked.is_err());
        // The end of the request would also cancel its request to the client.
        std::future::pending().await
    };
    let builder = legacy_client()
        .capabilities(json(r#"{"elicitation":{}}"#))
        .handler(Slow(Mutex::new(Some(Held(Some(dropped))))));
    let (client, _) = in_memory(service, builder).await;
    let call = client.call(Call::new("ask")).await.unwrap();
    timeout(LONG, is_dropped).await.unwrap().unwrap();
    drop(call);
}

/// A service that sends as many notifications as it can, and their number.
fn flooding() -> (impl Service, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let service = move |incoming: Incoming| {
        let count = Arc::clone(&count);
        async move {
            let params = Json::empty_object().with_member("data", &Json::from("x".repeat(10_000).as_str()));
            loop {
                incoming.notify(Notification::with_params("notifications/message", params.clone())).await.unwrap();
                count.fetch_add(1, Ordering::AcqRel);
            }
        }
    };
    (service, sent)
}

/// Waits until nothing more is sent; returns the number.
async fn silence(sent: &AtomicUsize) -> usize {
    let mut seen = usize::MAX;
    while sent.load(Ordering::Acquire) != seen {
        seen = sent.load(Ordering::Acquire);
        sleep(Duration::from_millis(200)).await;
    }
    seen
}

#[tokio::test]
async fn rp10_fr14_a_handler_waits_for_a_client_that_does_not_read() {
    let (service, sent) = flooding();
    let (mut ours, theirs) = duplex(1024);
    tokio::spawn(async move {
        let (read, write) = split(theirs);
        Server::new(config(), service).serve_stream(read, write).await
    });
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"flood"}"#;
    ours.write_all(format!("{}\n{call}\n", initialize("2025-11-25")).as_bytes()).await.unwrap();
    let seen = silence(&sent).await;
    assert!((1..100).contains(&seen), "{seen} notifications wait");
    // Once the client reads, the service continues.
    let mut buffer = vec![0; 100_000];
    for _ in 0..50 {
        ours.read_exact(&mut buffer).await.unwrap();
    }
    assert!(sent.load(Ordering::Acquire) > seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rp10_a_handler_waits_for_a_client_that_does_not_read_its_response() {
    let (service, sent) = flooding();
    let service = Server::new(config(), service).http(HttpConfig::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = RawClient::new(&listener.local_addr().unwrap().to_string());
    let serving = service.clone();
    tokio::spawn(async move { serving.serve(listener).await });
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"flood"}"#;
    let flood = spawn_blocking(move || remote.open(&TestRequest::post(call).in_session(&remote.session("2025-06-18"))));
    let mut flood = flood.await.unwrap();
    let seen = silence(&sent).await;
    // The sockets' own buffers hold several megabytes.
    assert!((1..2000).contains(&seen), "{seen} notifications wait");
    spawn_blocking(move || flood.events(seen + 100)).await.unwrap();
    assert!(sent.load(Ordering::Acquire) > seen);
}

#[tokio::test]
async fn notifications_and_the_end_of_a_session_are_reported_in_order() {
    struct Listening(mpsc::UnboundedSender<String>);
    impl Service for Listening {
        async fn serve(&self, _: Incoming) -> Result<Json, ErrorObject> {
            Ok(Json::empty_object())
        }

        async fn notified(&self, _: SessionKey, notification: Notification) {
            self.0.send(notification.method.to_string()).unwrap();
        }

        async fn ended(&self, _: SessionKey, reason: CloseReason) {
            self.0.send(format!("{reason:?}")).unwrap();
        }
    }
    let (sender, mut events) = mpsc::unbounded_channel();
    let (client, _) = in_memory(Listening(sender), legacy_client()).await;
    for method in ["a", "b"] {
        client.notify(Notification::new(method)).await.unwrap();
    }
    client.close().await;
    for expected in ["a", "b", "Peer"] {
        assert_eq!(timeout(LONG, events.recv()).await.unwrap().unwrap(), expected);
    }
}

/// Reports subscriptions, and publishes one change of each resource. Before each step it waits for a permit.
struct Watching(mpsc::UnboundedSender<String>, Arc<Semaphore>);

impl Service for Watching {
    async fn serve(&self, incoming: Incoming) -> Result<Json, ErrorObject> {
        Err(ErrorObject::method_not_found(incoming.method()))
    }

    async fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
        self.1.acquire().await.unwrap().forget();
        self.0.send(format!("+{uri}")).unwrap();
        let params = Json::empty_object().with_member("uri", &Json::from(&*uri));
        publisher.publish(Notification::with_params(Method::RESOURCES_UPDATED, params)).await.unwrap();
        assert_ne!(&*uri, "a:panics", "a handler may fail");
    }

    async fn unsubscribed(&self, uri: Arc<str>) {
        self.1.acquire().await.unwrap().forget();
        self.0.send(format!("-{uri}")).unwrap();
    }
}

struct Changes(mpsc::UnboundedSender<String>);

impl Handler for Changes {
    async fn notified(&self, change: Notification) {
        self.0.send(change.params.unwrap().to_text().into_owned()).unwrap();
    }
}

fn with_resources() -> Config {
    Config::new("test", "1").capabilities(json(r#"{"resources":{"subscribe":true}}"#))
}

async fn subscribe(client: &Client, verb: &str, uri: &str) {
    let params = Json::empty_object().with_member("uri", &Json::from(uri));
    let answer = client.request(format!("resources/{verb}").as_str(), Some(params)).await.unwrap();
    assert_eq!(answer, Json::empty_object());
}

#[tokio::test]
async fn a_service_receives_the_resources_that_it_has_to_watch() {
    let (report, mut reported) = mpsc::unbounded_channel();
    let (change, mut changed) = mpsc::unbounded_channel();
    let turns = Arc::new(Semaphore::new(0));
    let service = Server::new(with_resources(), Watching(report, Arc::clone(&turns)));
    let (ours, theirs) = duplex(1024);
    let serving = tokio::spawn(async move {
        let (read, write) = split(theirs);
        service.serve_stream(read, write).await
    });
    let (read, write) = split(ours);
    let client = legacy_client().handler(Changes(change)).stream(read, write).connect().await.unwrap();
    let mut next = async || timeout(Duration::from_secs(60), reported.recv()).await.unwrap().unwrap();
    // While the service handles the first subscription, others come and go; only their net changes are reported
    // afterwards.
    subscribe(&client, "subscribe", "a:1").await;
    for _ in 0..300 {
        subscribe(&client, "subscribe", "a:2").await;
        subscribe(&client, "unsubscribe", "a:2").await;
    }
    subscribe(&client, "subscribe", "a:3").await;
    subscribe(&client, "unsubscribe", "a:1").await;
    subscribe(&client, "subscribe", "a:panics").await;
    turns.add_permits(100);
    for expected in ["+a:1", "-a:1", "+a:3", "+a:panics"] {
        assert_eq!(next().await, expected);
    }
    // The client was no longer subscribed to the first resource when its change was published.
    for uri in ["a:3", "a:panics"] {
        let change = timeout(Duration::from_secs(60), changed.recv()).await.unwrap().unwrap();
        assert_eq!(change, format!(r#"{{"uri":"{uri}"}}"#));
    }
    client.close().await;
    for expected in ["-a:3", "-a:panics"] {
        assert_eq!(next().await, expected);
    }
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn over_http_a_service_receives_the_resources_of_all_clients_together() {
    let (report, mut reported) = mpsc::unbounded_channel();
    let service = Server::new(with_resources(), Watching(report, Arc::new(Semaphore::new(100))));
    let service = service.http(HttpConfig::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = service.clone();
    let serving = tokio::spawn(async move { serving.serve(listener).await });
    let mut next = async || timeout(Duration::from_secs(60), reported.recv()).await.unwrap().unwrap();
    let (change, mut changed) = mpsc::unbounded_channel();
    let first = legacy_client().handler(Changes(change)).http(&url).unwrap().connect().await.unwrap();
    let second = legacy_client().http(&url).unwrap().connect().await.unwrap();
    subscribe(&first, "subscribe", "a:1").await;
    assert_eq!(next().await, "+a:1");
    subscribe(&second, "subscribe", "a:1").await;
    subscribe(&second, "subscribe", "a:2").await;
    assert_eq!(next().await, "+a:2");
    second.close().await;
    assert_eq!(next().await, "-a:2");
    // The stream for the server's own messages may have been opened only after the first change.
    let publisher = service.publisher();
    let resource = json(r#"{"uri":"a:1"}"#);
    let notified = timeout(Duration::from_secs(60), async {
        loop {
            let change = Notification::with_params(Method::RESOURCES_UPDATED, resource.clone());
            publisher.publish(change).await.unwrap();
            if let Ok(notified) = timeout(Duration::from_millis(50), changed.recv()).await {
                return notified.unwrap();
            }
        }
    });
    assert_eq!(notified.await.unwrap(), r#"{"uri":"a:1"}"#);
    service.close().await;
    assert_eq!(next().await, "-a:1");
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn over_http_the_end_of_the_service_ends_what_is_subscribed_to() {
    let (report, mut reported) = mpsc::unbounded_channel();
    let service = Server::new(with_resources(), Watching(report, Arc::new(Semaphore::new(100))));
    let mut service = service.http(HttpConfig::new()).unwrap();
    let id = open(&mut service).await;
    let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:1"}}"#;
    call(&mut service, Some(&id), subscribe).await;
    assert_eq!(reported.recv().await.unwrap(), "+a:1");
    drop(service);
    assert_eq!(reported.recv().await.unwrap(), "-a:1");
}

/// The input of such a client may stay open for long.
#[tokio::test(start_paused = true)]
async fn st_a_client_that_stops_reading_is_disconnected() {
    let ((mut input, read), (write, output)) = (duplex(4096), duplex(4096));
    let serving = tokio::spawn(async move { Server::new(config(), serve).serve_stream(read, write).await });
    let call = |id, method| messages::request(id, method, "{}") + "\n";
    input.write_all((initialize("2025-11-25") + "\n" + &call("1", "wait")).as_bytes()).await.unwrap();
    let mut lines = BufReader::new(output).lines();
    lines.next_line().await.unwrap().unwrap();
    drop(lines);
    input.write_all(call("2", "echo").as_bytes()).await.unwrap();
    let ended = tokio::time::Instant::now();
    assert_eq!(serving.await.unwrap().unwrap(), CloseReason::Peer);
    // The limit for answers after the end of the input.
    assert_eq!(ended.elapsed().as_secs(), 5);
}

/// A client of a revision with resumable responses resumes the response to get the answer.
#[tokio::test]
async fn sh_s_12_a_response_that_is_released_ends_before_its_answer() {
    let may_go_on = Arc::new(Semaphore::new(0));
    let allowed = Arc::clone(&may_go_on);
    let service = move |incoming: Incoming| {
        let allowed = Arc::clone(&allowed);
        async move {
            incoming.release();
            allowed.acquire().await.unwrap().forget();
            Ok::<_, ErrorObject>(Json::from("late"))
        }
    };
    let mut http = HttpConfig::new();
    http.retry = Some(Duration::ZERO);
    let mut service = Server::new(config(), service).http(http).unwrap();
    let opened = call(&mut service, None, &initialize("2025-11-25")).await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let first = text(call(&mut service, Some(&id), CALL).await).await;
    assert!(first.contains("retry: ") && !first.contains("late"), "{first}");
    let event = first.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    may_go_on.add_permits(1);
    let get = http::Request::get("/mcp").header("host", "localhost").header("accept", "text/event-stream");
    let get = get.header("mcp-session-id", &id).header("last-event-id", event).body(axum::body::Body::empty()).unwrap();
    let rest = text(tower_service::Service::call(&mut service, get).await.unwrap()).await;
    assert!(rest.contains("late"), "{rest}");
}

/// Time is paused: it advances only when the runtime is idle.
#[tokio::test(start_paused = true)]
async fn st_a_stream_that_ends_in_mid_call_is_still_answered() {
    let (mut ours, theirs) = duplex(4096);
    let (read, write) = split(theirs);
    let serving = tokio::spawn(async move { Server::new(config(), serve).serve_stream(read, write).await });
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"nap","params":{"n":1}}"#;
    ours.write_all(format!("{}\n{call}\n", initialize("2025-11-25")).as_bytes()).await.unwrap();
    ours.shutdown().await.unwrap();
    let mut text = String::new();
    ours.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":1}}\n"), "{text}");
    assert_eq!(serving.await.unwrap().unwrap(), CloseReason::Peer);
}

#[test]
fn a_server_that_is_shut_down_answers_what_is_in_progress() {
    let mut server = Running::with(tests::on_the_wire::configure);
    let (runtime, service) = (server.runtime.clone(), server.service.clone());
    let mut shutting_down = None;
    tests::on_the_wire::a_server_that_is_shut_down_answers_what_is_in_progress(
        &RawClient::new(&server.address),
        || {
            shutting_down = Some(runtime.spawn(async move { service.shutdown(LONG * 10).await }));
        },
    );
    assert_eq!(runtime.block_on(shutting_down.unwrap()).unwrap(), 0);
    let thread = server.thread.take().unwrap();
    wait_until(|| thread.is_finished());
    server.thread = Some(thread);
}

#[test]
fn a_server_that_is_shut_down_cancels_what_takes_too_long() {
    let mut server = Running::with(tests::on_the_wire::configure);
    let (runtime, service) = (server.runtime.clone(), server.service.clone());
    let mut shutting_down = None;
    tests::on_the_wire::a_server_that_is_shut_down_cancels_what_takes_too_long(
        &RawClient::new(&server.address),
        || {
            shutting_down = Some(runtime.spawn(async move { service.shutdown(Duration::from_millis(50)).await }));
        },
    );
    assert_eq!(runtime.block_on(shutting_down.unwrap()).unwrap(), 1);
    let thread = server.thread.take().unwrap();
    wait_until(|| thread.is_finished());
    server.thread = Some(thread);
}

#[tokio::test]
async fn a_server_is_shut_down_and_publishes_over_all_transports_together() {
    struct Noting(mpsc::UnboundedSender<Method>);
    impl Handler for Noting {
        async fn notified(&self, notification: Notification) {
            let _ = self.0.send(notification.method);
        }
    }
    let config = config().capabilities(json(r#"{"tools":{"listChanged":true}}"#));
    let server = Server::new(config, async |incoming: Incoming| {
        sleep(Duration::from_millis(if incoming.method().as_str() == "nap" { 200 } else { 0 })).await;
        Ok(Json::empty_object())
    });
    let publisher = server.publisher();
    let change = || Notification::new("notifications/tools/list_changed");
    assert_eq!(publisher.publish(change()).await, Ok(()), "no client is concerned");
    assert!(matches!(publisher.publish(Notification::new("x")).await, Err(UsageError::NoChange { .. })));
    let (note, mut noted) = mpsc::unbounded_channel();
    let client = || legacy_client().handler(Noting(note.clone()));

    let service = server.http(HttpConfig::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let over_http = tokio::spawn(async move { service.serve(listener).await });
    let mut clients = vec![client().http(&url).unwrap().connect().await.unwrap()];
    let mut serving = vec![over_http];
    for _ in 0..2 {
        let (ours, theirs) = duplex(1024);
        let server = server.clone();
        serving.push(tokio::spawn(async move {
            let (read, write) = split(theirs);
            server.serve_stream(read, write).await
        }));
        let (read, write) = split(ours);
        clients.push(client().stream(read, write).connect().await.unwrap());
    }
    for client in &clients {
        client.request("anything", None).await.unwrap();
    }
    for _ in 0..2 {
        publisher.publish(change()).await.unwrap();
        for _ in &clients {
            assert_eq!(timeout(LONG, noted.recv()).await.unwrap(), Some(Method::TOOLS_LIST_CHANGED));
        }
    }
    // What is in progress is answered, over each transport.
    let mut calls = Vec::new();
    for client in &clients {
        calls.push(client.call(Call::new("nap")).await.unwrap());
    }
    sleep(Duration::from_millis(50)).await;
    assert_eq!(server.shutdown(LONG).await, 0);
    for call in calls {
        assert_eq!(call.wait().await.unwrap(), Json::empty_object());
    }
    for serving in serving {
        assert_eq!(timeout(LONG, serving).await.unwrap().unwrap().unwrap(), CloseReason::Local);
    }
    assert_eq!(publisher.publish(change()).await, Ok(()), "no client is left");
}

/// The server waits neither for what such a client has not read, nor while it writes the last messages to it.
#[tokio::test(start_paused = true)]
async fn changes_are_published_at_once_although_a_client_does_not_read() {
    struct Noting(mpsc::UnboundedSender<Method>);
    impl Handler for Noting {
        async fn notified(&self, notification: Notification) {
            let _ = self.0.send(notification.method);
        }
    }
    let config = config().capabilities(json(r#"{"tools":{"listChanged":true}}"#));
    let server = Server::new(config, async |_: Incoming| Ok(Json::from("x".repeat(1 << 20).as_str())));
    let serve = |end| {
        let server = server.clone();
        tokio::spawn(async move {
            let (read, write) = split(end);
            server.serve_stream(read, write).await
        })
    };
    let (silent, end) = duplex(1024);
    let serving = serve(end);
    let mut silent = BufReader::new(silent);
    for (sent, begin) in [
        (messages::initialize("1", "2025-11-25") + "\n", r#"{"jsonrpc":"2.0","id":1,"result""#),
        (
            format!("{INITIALIZED}\n{}\n", messages::request("2", "tools/call", "{}")),
            r#"{"jsonrpc":"2.0","id":2,"result""#,
        ),
    ] {
        silent.write_all(sent.as_bytes()).await.unwrap();
        let mut received = vec![0; begin.len()];
        silent.read_exact(&mut received).await.unwrap();
        assert_eq!(String::from_utf8(received).unwrap(), begin);
        if begin.contains(":1,") {
            silent.read_line(&mut String::new()).await.unwrap();
        }
    }
    let (note, mut noted) = mpsc::unbounded_channel();
    let (ours, theirs) = duplex(1024);
    serve(theirs);
    let (read, write) = split(ours);
    let _client = legacy_client().handler(Noting(note)).stream(read, write).connect().await.unwrap();
    let publisher = server.publisher();
    for is_ending in [false, true] {
        if is_ending {
            silent.shutdown().await.unwrap();
            sleep(Duration::from_millis(10)).await;
            assert!(!serving.is_finished());
        }
        let began = tokio::time::Instant::now();
        let publishing = publisher.publish(Notification::new(Method::TOOLS_LIST_CHANGED));
        assert_eq!(timeout(LONG, publishing).await, Ok(Ok(())));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(noted.recv().await, Some(Method::TOOLS_LIST_CHANGED));
    }
    assert_eq!(serving.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_publisher_is_closed_when_neither_its_server_nor_a_service_of_it_is_left() {
    let server = Server::new(config().capabilities(json(r#"{"tools":{"listChanged":true}}"#)), serve);
    let publish =
        async |publisher: &ServerPublisher| publisher.publish(Notification::new(Method::TOOLS_LIST_CHANGED)).await;
    let (publisher, service) = (server.publisher(), server.http(HttpConfig::new()).unwrap());
    drop(server);
    assert_eq!(publish(&publisher).await, Ok(()));
    let of_service = service.publisher();
    drop(service);
    timeout(LONG, async {
        while publish(&publisher).await == Ok(()) || publish(&of_service).await == Ok(()) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(
        (publish(&publisher).await, publish(&of_service).await),
        (Err(UsageError::Closed), Err(UsageError::Closed))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_answers_all_requests_and_ends_the_listener() {
    let service = Server::new(config(), serve).http(HttpConfig::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = RawClient::new(&listener.local_addr().unwrap().to_string());
    let serving = service.clone();
    let serving = tokio::spawn(async move { serving.serve(listener).await });
    let waiting = spawn_blocking(move || {
        let id = remote.session("2025-06-18");
        let call = TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"wait"}"#).in_session(&id);
        (0..4).map(|_| remote.open(&call)).collect::<Vec<_>>()
    });
    let waiting = waiting.await.unwrap();
    sleep(Duration::from_millis(100)).await;
    service.close().await;
    serving.await.unwrap().unwrap();
    spawn_blocking(|| {
        for mut conversation in waiting {
            let answer = conversation.until(|sent| sent.is_over);
            assert!(answer.text().contains("the connection was closed"), "{}", answer.text());
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au27_oa_z_02_oa_z_03_a_server_that_demands_tokens_serves_no_client_without_one() {
    let (mut http, mut config) = (HttpConfig::new(), config());
    protected::configure(&mut http, &mut config);
    let whoami = async |incoming: Incoming| Ok::<_, ErrorObject>(protected::whoami(incoming.principal()));
    let service = Server::new(config, whoami).http(http).unwrap().authenticate(|head| {
        let head = head.clone();
        async move {
            // As if the authorization server were asked.
            sleep(Duration::from_millis(1)).await;
            protected::authenticate(&head)
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = RawClient::new(&listener.local_addr().unwrap().to_string());
    tokio::spawn(async move { service.serve(listener).await });
    spawn_blocking(move || protected::its_clients_receive_challenges(&remote)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_authentication_and_layers_find_reaches_the_handler() {
    #[derive(Clone)]
    struct Tenant(&'static str);
    #[derive(Clone)]
    struct Route;
    let serve = async |incoming: Incoming| {
        let tenant = incoming.extensions().get().map_or("none", |Tenant(name)| name);
        let is_routed = incoming.extensions().get::<Route>().is_some();
        let principal = incoming.principal().map_or("unknown", Principal::as_str);
        Ok::<_, ErrorObject>(Json::from(format!("{principal} of {tenant} {is_routed}").as_str()))
    };
    let service = Server::new(config(), serve).http(HttpConfig::new()).unwrap().authenticate(|head| {
        let found = match head.headers.get("authorization").map(http::HeaderValue::as_bytes) {
            Some(b"Bearer ada") => Authenticated::from(Principal::new("ada")).extension(Tenant("a")),
            Some(b"Bearer tenant") => Authenticated::new().extension(Tenant("b")),
            _ => Authenticated::new(),
        };
        async { Ok(found) }
    });
    let router = axum::Router::new().route_service("/mcp", service.clone()).layer(axum::Extension(Route));
    let mut addresses = Vec::new();
    for is_routed in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push((listener.local_addr().unwrap(), is_routed));
        let (service, router) = (service.clone(), router.clone());
        tokio::spawn(async move {
            if is_routed { axum::serve(listener, router).await } else { service.serve(listener).await.map(|_| ()) }
        });
    }
    for (address, is_routed) in addresses {
        for (token, expected) in [("ada", "ada of a"), ("tenant", "unknown of b"), ("", "unknown of none")] {
            let builder = legacy_client().http(&format!("http://{address}/mcp")).unwrap();
            let client = builder.bearer(token).unwrap().connect().await.unwrap();
            let expected = format!("{expected} {is_routed}");
            assert_eq!(client.request("anything", None).await.unwrap(), Json::from(expected.as_str()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se4_se_02_in_a_router_of_axum_sessions_belong_to_the_principal_of_the_router() {
    let whoami = async |incoming: Incoming| {
        Ok::<_, ErrorObject>(Json::from(incoming.principal().map_or("anonymous", Principal::as_str)))
    };
    let principal = |head: &http::request::Parts| {
        let principal = head.extensions.get::<Principal>().cloned();
        async { Ok::<_, Challenge>(principal) }
    };
    let service = Server::new(config(), whoami).http(HttpConfig::new()).unwrap().authenticate(principal);
    let name = async |mut request: axum::extract::Request, next: axum::middleware::Next| {
        if let Some(user) = request.headers().get("x-user").and_then(|user| user.to_str().ok()).map(Principal::new) {
            request.extensions_mut().insert(user);
        }
        next.run(request).await
    };
    let app = axum::Router::new().route_service("/mcp", service).layer(axum::middleware::from_fn(name));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = RawClient::new(&listener.local_addr().unwrap().to_string());
    tokio::spawn(async { axum::serve(listener, app).await });
    spawn_blocking(move || {
        let opened = remote.answer(&TestRequest::post(initialize("2025-06-18")).and("x-user", "ada"));
        let id = opened.headers["mcp-session-id"].to_str().unwrap();
        let call = TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"whoami"}"#).in_session(id);
        assert_eq!(remote.answer(&call.clone().and("x-user", "eve")).code(), 404, "SE4");
        assert_eq!(remote.answer(&call).code(), 404, "SE4");
        assert!(remote.answer(&call.and("x-user", "ada")).text().ends_with(r#""result":"ada"}"#));
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_is_found_wherever_a_router_has_mounted_it() {
    let service = Server::new(config(), serve).http(HttpConfig::new()).unwrap();
    let inner = axum::Router::new().route_service("/deep", service.clone());
    let app = axum::Router::new()
        .route_service("/mcp", service.clone())
        .route_service("/other", service.clone())
        .nest_service("/nested", service.clone())
        .nest("/api", inner)
        .fallback_service(service);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = RawClient::new(&listener.local_addr().unwrap().to_string());
    tokio::spawn(async { axum::serve(listener, app).await });
    spawn_blocking(move || {
        for path in ["/mcp", "/other", "/nested", "/nested/mcp", "/api/deep", "/elsewhere"] {
            assert_eq!(remote.answer(&TestRequest::post(initialize("2025-06-18")).at(path)).code(), 200, "{path}");
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_megabytes_cross_in_both_directions() {
    let (client, _) = in_memory(serve, legacy_client()).await;
    let params = Json::empty_object().with_member("text", &Json::from("x".repeat(10 << 20).as_str()));
    assert_eq!(client.request("echo", Some(params.clone())).await.unwrap(), params);
}

/// The bytes of a client that opens a session and sends this many calls of `echo`, each with a kilobyte.
fn many_calls(count: usize) -> Vec<u8> {
    let text = "x".repeat(1000);
    let calls =
        (1..=count).map(|id| messages::request(&id.to_string(), "echo", &format!(r#"{{"x":"{text}"}}"#)) + "\n");
    [initialize("2025-11-25") + "\n"].into_iter().chain(calls).collect::<String>().into_bytes()
}

#[tokio::test(start_paused = true)]
async fn fr14_a_server_whose_answers_are_not_read_ends_after_its_input() {
    // With the larger number, the server has stopped reading before the input ends.
    for calls in [100, 600] {
        let mut config = config();
        config.limits.queue_bytes = 256 * 1024;
        let (mut ours, theirs) = duplex(1024);
        let serving = tokio::spawn(async move {
            let (read, write) = split(theirs);
            Server::new(config, serve).serve_stream(read, write).await
        });
        ours.write_all(&many_calls(calls)).await.unwrap();
        let ended = tokio::time::Instant::now();
        ours.shutdown().await.unwrap();
        let error = timeout(Duration::from_secs(3600), serving).await.expect("it ends").unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let text = error.to_string();
        let unwritten = text.strip_prefix("the client does not read: ").and_then(|text| text.split(' ').next());
        assert!(unwritten.unwrap().parse::<usize>().unwrap() > 100_000, "{text}");
        // 5 s to answer, and 5 s to write.
        assert!(ended.elapsed() <= Duration::from_secs(11), "{:?}", ended.elapsed());
    }
}

#[tokio::test]
async fn a_server_with_an_invalid_configuration_serves_no_byte_stream() {
    let mut config = config();
    config.limits.message = 0;
    let server = Server::new(config, serve);
    for served in [server.serve_stream(tokio::io::empty(), tokio::io::sink()).await, server.serve_stdio().await] {
        let error = served.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let usage = error.get_ref().and_then(|error| error.downcast_ref::<UsageError>());
        assert!(matches!(usage, Some(UsageError::Limit(InvalidLimit { field: "message", .. }))), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn fr14_rp10_no_more_is_read_of_a_client_that_does_not_read() {
    const CALLS: usize = 5000;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let service = move |incoming: Incoming| {
        counted.fetch_add(1, Ordering::AcqRel);
        async move { Ok(incoming.params().cloned().unwrap_or(Json::empty_object())) }
    };
    let mut config = config();
    config.limits.queue_bytes = 256 * 1024;
    let (ours, theirs) = duplex(1024);
    tokio::spawn(async move {
        let (read, write) = split(theirs);
        Server::new(config, service).serve_stream(read, write).await
    });
    let (mut read, mut write) = split(ours);
    let writing = tokio::spawn(async move { write.write_all(&many_calls(CALLS)).await });
    let seen = silence(&count).await;
    assert!((100..1000).contains(&seen), "{seen} calls were served");
    // Once the client reads, all calls are handled.
    let mut lines = BufReader::new(&mut read).lines();
    for _ in 0..=CALLS {
        lines.next_line().await.unwrap().unwrap();
    }
    writing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_serves_as_many_requests_as_the_limit_of_the_machine_allows() {
    const CALLS: usize = 5000;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let service = move |_: Incoming| {
        counted.fetch_add(1, Ordering::AcqRel);
        std::future::pending()
    };
    let mut config = config();
    config.limits.requests_in = CALLS;
    let (ours, theirs) = duplex(1024);
    tokio::spawn(async move {
        let (read, write) = split(theirs);
        Server::new(config, service).serve_stream(read, write).await
    });
    let (mut read, mut write) = split(ours);
    write.write_all(&many_calls(CALLS)).await.unwrap();
    silence(&count).await;
    assert_eq!(count.load(Ordering::Acquire), CALLS);
    let mut lines = BufReader::new(&mut read).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("protocolVersion"));
    assert!(timeout(Duration::from_millis(100), lines.next_line()).await.is_err(), "none is refused");
}

#[cfg(unix)]
#[test]
fn a_process_whose_stdout_is_not_read_ends_after_its_stdin() {
    use std::io::Write;
    use std::process::Stdio;

    let mut process = tests::examples::example("tokio_server");
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = process.spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    // Answers with a megabyte in total, more than a pipe holds.
    let calls: String = (1..10_000).map(|id| messages::request(&id.to_string(), "tools/list", "{}") + "\n").collect();
    input.write_all((initialize("2025-11-25") + "\n" + &calls).as_bytes()).unwrap();
    drop(input);
    let ended = (0..600).any(|_| {
        thread::sleep(Duration::from_millis(100));
        process.try_wait().unwrap().is_some()
    });
    let _ = process.kill();
    let output = process.wait_with_output().unwrap();
    assert!(ended, "it goes on");
    let errors = String::from_utf8(output.stderr).unwrap();
    let unwritten = errors.split_once("the client does not read: ").unwrap().1.split(' ').next().unwrap();
    let unwritten: usize = unwritten.parse().unwrap();
    assert!((100_000..2_000_000).contains(&unwritten), "{errors}");
}

#[cfg(unix)]
#[test]
fn a_process_on_stdio_answers_to_the_last_byte() {
    use std::io::{Read, Write};
    use std::process::Stdio;

    let mut process =
        tests::examples::example("tokio_server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    let writing = thread::spawn(move || {
        let calls: String = (1..3000).map(|id| messages::request(&id.to_string(), "tools/list", "{}") + "\n").collect();
        input.write_all((initialize("2025-11-25") + "\n" + &calls).as_bytes()).unwrap();
    });
    // Slowly, so that a pipe is still full of data when the last answer is written to it.
    let mut output = process.stdout.take().unwrap();
    let (mut read, mut buffer) = (Vec::new(), [0; 8192]);
    while let length @ 1.. = output.read(&mut buffer).unwrap() {
        read.extend_from_slice(&buffer[..length]);
        thread::sleep(Duration::from_millis(1));
    }
    writing.join().unwrap();
    assert!(process.wait().unwrap().success());
    assert_eq!(String::from_utf8(read).unwrap().lines().count(), 3000);
}

#[test]
fn each_line_of_json_texts_is_answered_and_the_next_one_is_served() {
    tests::json_over_the_wire::each_line_is_answered_and_the_next_one_is_served(tests::examples::example(
        "tokio_server",
    ));
}

/// A directory can be opened, but not read.
#[cfg(unix)]
#[test]
fn a_process_whose_stdin_cannot_be_read_ends() {
    let folder = std::fs::File::open("/").unwrap();
    let mut process = tests::examples::example("tokio_server").stdin(folder).spawn().unwrap();
    let ended = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        process.try_wait().unwrap().is_some()
    });
    let _ = process.kill();
    let _ = process.wait();
    assert!(ended, "it goes on");
}

/// The request as its handler receives it.
#[tokio::test]
async fn a_handler_receives_the_whole_context_of_its_request() {
    let seen = async |incoming: Incoming| {
        let context = incoming.context();
        let about = [
            Json::from(incoming.method().as_str()),
            incoming.params().cloned().unwrap_or(Json::from("none")),
            Json::from(incoming.version().as_str()),
            Json::from(context.version.as_str()),
            incoming.client_capabilities().into(),
            incoming.client_info().map_or(Json::from("anonymous"), Json::from),
            Json::from(incoming.principal().map_or("anonymous", Principal::as_str)),
            Json::from(incoming.headers().get("x-key").map_or("none", |key| key.to_str().unwrap())),
            Json::from(format!("{:?}", incoming.session()).as_str()),
        ];
        let texts: Vec<_> = about.iter().map(Json::to_text).collect();
        Ok::<_, ErrorObject>(json(&format!(r#"{{"seen":[{}]}}"#, texts.join(","))))
    };
    let builder = legacy_client().name("app", "7").capabilities(json(r#"{"roots":{}}"#));
    let (client, _) = in_memory(seen, builder).await;
    let found = client.request("m", Some(json(r#"{"a":1.0}"#))).await.unwrap().to_text().into_owned();
    let begin = r#"{"seen":["m",{"a":1.0},"2025-11-25","2025-11-25",{"roots":{}},{"name":"app","version":"7"},"anonymous","none","#;
    assert!(found.starts_with(begin), "{found}");
    assert!(client.request("m", None).await.unwrap().to_text().contains(r#""none""#));

    let mut service = Server::new(config(), seen).http(HttpConfig::new()).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let id = open(&mut service).await;
        for _ in 0..2 {
            let text = text(call(&mut service, Some(&id), CALL).await).await;
            assert!(text.contains(r#""2025-06-18","2025-06-18""#) && text.contains(r#""anonymous","key","#), "{text}");
            sessions.push(text.split("\"key\",").nth(1).unwrap().to_owned());
        }
    }
    assert!(sessions[0] == sessions[1] && sessions[2] == sessions[3] && sessions[1] != sessions[2], "{sessions:?}");
}

/// Calls the service, like a router.
async fn call(service: &mut HttpService, session: Option<&str>, message: &str) -> http::Response<mcp_tokio::HttpBody> {
    let request = http::Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
    let mut request = request.header("accept", "application/json, text/event-stream").header("x-key", "key");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    let request = request.body(axum::body::Body::from(message.to_owned())).unwrap();
    tower_service::Service::call(service, request).await.unwrap()
}

/// Opens a session; returns its id.
async fn open(service: &mut HttpService) -> String {
    let opened = call(service, None, &initialize("2025-06-18")).await;
    opened.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

async fn text(response: http::Response<mcp_tokio::HttpBody>) -> String {
    let body = axum::body::Body::new(response.into_body());
    String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap()
}

/// A request in a session.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;

/// The handler must wait even for the first notification that its client has not read.
#[tokio::test]
async fn fr14_a_handler_waits_from_the_first_message_that_its_client_has_not_taken() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let service = move |incoming: Incoming| {
        let count = Arc::clone(&count);
        async move {
            for _ in 0..300 {
                let params = Json::empty_object().with_member("data", &Json::from("x".repeat(100_000).as_str()));
                incoming.notify(Notification::with_params("notifications/message", params)).await.unwrap();
                count.fetch_add(1, Ordering::AcqRel);
            }
            Ok::<_, ErrorObject>(Json::empty_object())
        }
    };
    // The notifications have more bytes in total than may be queued at one time.
    let mut config = config();
    config.limits.unwritten = 4 << 20;
    let mut service = Server::new(config, service).http(HttpConfig::new()).unwrap();
    let id = open(&mut service).await;
    let response = call(&mut service, Some(&id), CALL).await;
    assert_eq!(silence(&sent).await, 0);
    let text = text(response).await;
    assert_eq!(sent.load(Ordering::Acquire), 300);
    assert!(text.len() > 30_000_000 && text.contains(r#""id":1,"result":{}"#), "{} bytes", text.len());
}

/// When the last clone of a service is dropped, its sessions end, and its handlers are dropped.
#[tokio::test]
async fn dropping_the_last_clone_of_a_service_ends_its_sessions_and_handlers() {
    struct Ending(mpsc::UnboundedSender<&'static str>, Mutex<Option<Held>>);
    impl Service for Ending {
        async fn serve(&self, _: Incoming) -> Result<Json, ErrorObject> {
            let _held = self.1.lock().unwrap().take();
            self.0.send("begun").unwrap();
            std::future::pending().await
        }

        async fn ended(&self, _: SessionKey, _: CloseReason) {
            self.0.send("ended").unwrap();
        }
    }
    for is_stream in [false, true] {
        let (sender, mut events) = mpsc::unbounded_channel();
        let (dropped, is_dropped) = oneshot::channel();
        let service = Ending(sender, Mutex::new(Some(Held(Some(dropped)))));
        let mut next = async || timeout(LONG, events.recv()).await.unwrap();
        if is_stream {
            let (client, serving) = in_memory(service, legacy_client()).await;
            let call = client.call(Call::new("m")).await.unwrap();
            assert_eq!(next().await, Some("begun"));
            serving.abort();
            timeout(LONG, is_dropped).await.unwrap().unwrap();
            drop(call);
        } else {
            let mut service = Server::new(config(), service).http(HttpConfig::new()).unwrap();
            let id = open(&mut service).await;
            let mut waiting = service.clone();
            let waiting = tokio::spawn(async move { call(&mut waiting, Some(&id), CALL).await });
            assert_eq!(next().await, Some("begun"));
            waiting.abort();
            let _ = waiting.await;
            drop(service);
            assert_eq!(next().await, Some("ended"));
            timeout(LONG, is_dropped).await.unwrap().unwrap();
        }
    }
}

/// The number of notifications is limited while they are queued, not in total.
#[tokio::test]
async fn rp9_every_notification_is_handed_over_unless_too_many_wait() {
    struct Counting(Arc<AtomicUsize>, Arc<Semaphore>);
    impl Service for Counting {
        async fn serve(&self, _: Incoming) -> Result<Json, ErrorObject> {
            Ok(Json::empty_object())
        }

        async fn notified(&self, _: SessionKey, notification: Notification) {
            if notification.method.as_str() == "counted" {
                self.1.acquire().await.unwrap().forget();
                self.0.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
    for (data, sent, queued, sent_again) in [("", 1000, NOTICES, 200), (&"x".repeat(NOTICE_BYTES / 5), 10, 4, 3)] {
        let (count, may_go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (client, _) = in_memory(Counting(Arc::clone(&count), Arc::clone(&may_go_on)), legacy_client()).await;
        let params = Json::empty_object().with_member("data", &Json::from(data));
        let notify = async |times: usize| {
            for _ in 0..times {
                client.notify(Notification::with_params("counted", params.clone())).await.unwrap();
            }
            // When this is answered, the server has received everything before it.
            client.request("m", None).await.unwrap();
        };
        notify(sent).await;
        may_go_on.add_permits(1_000_000);
        let first = silence(&count).await;
        // One is being handled while the others are queued.
        assert!((queued..=queued + 1).contains(&first), "{first} of {sent} with {} bytes", data.len());
        for _ in 0..4 {
            notify(sent_again).await;
            silence(&count).await;
        }
        assert_eq!(silence(&count).await, first + 4 * sent_again);
    }
}

/// A request that arrived before the end of the input is handled exactly once.
#[tokio::test]
async fn st_a_request_that_waits_when_the_input_ends_is_answered_once() {
    let mut config = config();
    config.limits.requests_in = 1;
    let (mut ours, theirs) = duplex(4096);
    let (read, write) = split(theirs);
    let may_go_on = Arc::new(Semaphore::new(0));
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let allowed = Arc::clone(&may_go_on);
    let service = move |_: Incoming| {
        let (allowed, begun) = (Arc::clone(&allowed), begun.clone());
        async move {
            begun.send(()).unwrap();
            allowed.acquire().await.unwrap().forget();
            Ok::<_, ErrorObject>(Json::empty_object())
        }
    };
    let serving = tokio::spawn(async move { Server::new(config, service).serve_stream(read, write).await });
    let call = |id: u8| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n");
    ours.write_all(format!("{}\n{}", initialize("2025-11-25"), call(1)).as_bytes()).await.unwrap();
    has_begun.recv().await.unwrap();
    ours.write_all(call(2).as_bytes()).await.unwrap();
    ours.shutdown().await.unwrap();
    sleep(Duration::from_millis(50)).await;
    may_go_on.add_permits(10);
    let mut text = String::new();
    timeout(LONG, ours.read_to_string(&mut text)).await.unwrap().unwrap();
    for id in [1, 2] {
        assert_eq!(text.matches(&format!("\"id\":{id},")).count(), 1, "{text}");
    }
    assert_eq!(serving.await.unwrap().unwrap(), CloseReason::Peer);
}
