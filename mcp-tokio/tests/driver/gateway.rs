//! The gateway: clients over HTTP, and servers in child processes, in memory, and behind a proxy.

#![cfg(all(unix, feature = "http-client", feature = "http-server"))]

use std::future::{Future, pending, poll_fn};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body::Body as _;
use mcp_intermediary::gateway::{Config, Sharing};
use mcp_intermediary::relay;
use mcp_proto::auth::Challenge;
use mcp_proto::client::{Call, CloseReason, HttpConfig};
use mcp_proto::server::{PeerKey, Principal, TwoEndpoints};
use mcp_proto::{ErrorObject, Failed, Json, Load, ProtocolVersion, server};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{self, INITIALIZED, initialize_result, request, result};
use mcp_testkit::raw_client::RawClient;
use mcp_tokio::{
    Backend, Client, Error, Gateway, GatewayMonitor, GatewayStatus, HttpOptions, HttpService, Incoming, Proxy, Server,
};
use tests::ending_servers::{ENDINGS, Ending, QUEUE, UNREAD};
use tests::unread_pipes::{Life, MORE_THAN_A_PIPE, Reading, params};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

/// Many times the limits of the gateway: the machine that runs the test may be slow.
const BOUND: Duration = Duration::from_secs(60);

async fn in_time<T>(what: &str, ends: impl Future<Output = T>) -> T {
    timeout(BOUND, ends).await.unwrap_or_else(|_| panic!("{what} does not end"))
}

/// A server for `sh` in revision 2025-11-25, whose tools return its process id and the variable `WHO`.
fn server() -> Command {
    server_after("")
}

/// The same that runs a script before each answer.
fn server_after(script: &str) -> Command {
    let answer = "id=${line##*'\"id\":'}; id=${id%%,*}; case \"$line\" in \
         *'\"method\":\"initialize\"'*) answer='\"result\":'$0;; \
         *'\"method\":\"tools/call\"'*) answer='\"result\":{\"content\":[],\"by\":\"'$$' '$WHO'\"}';; \
         *'\"id\":'*) answer='\"error\":{\"code\":-32601,\"message\":\"method not found\"}';; \
         *) continue;; esac; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\\n' \"$id\" \"$answer\"";
    let mut command = shell(&format!("while read -r line; do {script}{answer}; done"));
    command.arg(initialize_result("2025-11-25"));
    command
}

/// A server for `sh` that answers `initialize`, and then runs the script.
fn after_initialize(script: &str) -> Command {
    let answer = result("1", &initialize_result("2025-11-25"));
    shell(&format!("read -r request; echo '{answer}'; {script}"))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The processes that were started, each of which is watched.
#[derive(Clone, Default)]
struct Lives(Arc<Mutex<Vec<Life>>>);

impl Lives {
    /// A child process that is watched.
    fn watched(&self, mut command: Command) -> Backend {
        self.0.lock().unwrap().push(Life::of(command.as_std_mut()));
        Backend::child(command)
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Waits until all processes have ended.
    async fn end(self) {
        let lives = std::mem::take(&mut *self.0.lock().unwrap());
        for life in lives {
            spawn_blocking(|| life.ends()).await.unwrap();
        }
    }
}

/// A gateway on a port of loopback.
struct Serving {
    service: HttpService<GatewayMonitor>,
    url: String,
    listening: JoinHandle<io::Result<CloseReason>>,
}

impl Serving {
    async fn start(gateway: Gateway) -> Self {
        tests::deadline::set();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        // A token is the name of its principal.
        let service = gateway.http().unwrap().authenticate(|head| {
            let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
            let principal = token.map(|token| Principal::new(token.trim_start_matches("Bearer ")));
            async move { Ok::<_, Challenge>(principal) }
        });
        let served = service.clone();
        Self { service, url, listening: tokio::spawn(async move { served.serve(listener).await }) }
    }

    async fn connect(&self, version: ProtocolVersion, token: Option<&str>) -> Result<Client, Error> {
        let builder = Client::builder().versions([version]).http(&self.url).unwrap();
        let builder = if let Some(token) = token { builder.bearer(token).unwrap() } else { builder };
        in_time("connecting", Box::pin(builder.connect())).await
    }

    /// A client that sends requests of any form.
    fn raw(&self) -> RawClient {
        RawClient::new(self.url.trim_start_matches("http://").trim_end_matches("/mcp"))
    }

    async fn status(&self) -> GatewayStatus {
        self.service.monitor().status().await.unwrap()
    }

    /// Waits until the number of backends is this.
    async fn until_backends(&self, count: usize) {
        self.until(|status| status.backends == count).await;
    }

    /// Waits until the gateway holds this.
    async fn until(&self, is_so: impl Fn(&GatewayStatus) -> bool) {
        let until = async {
            while !is_so(&self.status().await) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        in_time("waiting for a gateway", until).await;
    }

    /// Stops the gateway; returns the number of cancelled requests.
    async fn shut_down(self, given: Duration) -> usize {
        let cancelled = in_time("the shutdown", self.service.shutdown(given)).await;
        in_time("serving", self.listening).await.unwrap().unwrap();
        cancelled
    }
}

/// Calls the tool of [`server`]; returns the text of its answer.
async fn called(client: &Client) -> String {
    let result = in_time("a call", client.request("tools/call", Some(params(1)))).await.unwrap();
    result.first_member("by").unwrap().as_string().unwrap().into_owned()
}

#[tokio::test]
async fn a_server_that_writes_many_lines_of_log_to_its_stdout_is_served() {
    for sharing in [Sharing::PerSession, Sharing::Shared] {
        let mut config = Config::default();
        config.sharing = sharing;
        let gateway = Gateway::new(config, |_| async {
            let log = "case \"$line\" in *tools/call*) yes 'INFO request served' | head -n 5000 ;; esac; ";
            Ok(Backend::child(server_after(log)))
        });
        let serving = Serving::start(gateway).await;
        let client = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap();
        let by = called(&client).await;
        for _ in 0..3 {
            assert_eq!(called(&client).await, by, "{sharing:?}");
        }
        client.close().await;
        serving.shut_down(BOUND).await;
    }
}

#[tokio::test]
async fn br_t_06_sharing_decides_which_clients_have_a_process_in_common() {
    for (sharing, version, expected) in [
        (Sharing::PerSession, ProtocolVersion::LATEST_LEGACY, [0, 1, 2, 3]),
        (Sharing::PerPrincipal, ProtocolVersion::LATEST_LEGACY, [0, 0, 2, 3]),
        (Sharing::PerPrincipal, ProtocolVersion::LATEST, [0, 0, 2, usize::MAX]),
        (Sharing::Shared, ProtocolVersion::LATEST_LEGACY, [0, 0, 0, 0]),
        (Sharing::Shared, ProtocolVersion::LATEST, [0, 0, 0, 0]),
    ] {
        let what = format!("{sharing:?}, {version}");
        let mut config = Config::default();
        config.sharing = sharing;
        let lives = Lives::default();
        let watching = lives.clone();
        let gateway = Gateway::new(config, move |principal| {
            let mut command = server();
            command.env("WHO", principal.as_ref().map_or("unknown", Principal::as_str));
            let backend = watching.watched(command);
            async { Ok(backend) }
        });
        let serving = Serving::start(gateway).await;
        let mut clients = Vec::new();
        let mut by = Vec::new();
        for (at, token) in [Some("ada"), Some("ada"), Some("bob"), None].into_iter().enumerate() {
            let client = serving.connect(version, token).await;
            if expected[at] == usize::MAX {
                // Without a principal, no client shares a process, and no session has one.
                let outcome = match &client {
                    Ok(client) => client.request("tools/call", Some(params(1))).await.err(),
                    Err(_) => None,
                };
                let refusal = format!("{:?} {:?}", client.err(), outcome);
                assert!(refusal.contains("NoCommonVersion"), "{what}: {refusal}");
                by.push(String::new());
                continue;
            }
            let client = client.unwrap();
            let answer = called(&client).await;
            let who = if sharing == Sharing::Shared { "unknown" } else { token.unwrap_or("unknown") };
            assert!(answer.ends_with(&format!(" {who}")), "{what}: {answer}");
            by.push(answer);
            clients.push(client);
        }
        let firsts: Vec<_> = by.iter().map(|it| by.iter().position(|other| other == it).unwrap()).collect();
        let expected = expected.map(|at| if at == usize::MAX { 3 } else { at });
        assert_eq!(firsts, expected, "{what}: {by:?}");
        for client in clients {
            client.close().await;
        }
        assert_eq!(serving.shut_down(BOUND).await, 0, "{what}");
        lives.end().await;
    }
}

/// A process that cannot be used is an error for its client, and no other client is concerned.
#[tokio::test]
async fn a_process_that_dies_is_an_error_for_its_own_client_only() {
    for (when, command) in [
        ("it does not exist", Command::new("/no/such/program")),
        ("at once", shell("exit 3")),
        ("in `initialize`", shell("read -r request; exit 0")),
        ("in the middle of its answer", shell("read -r request; printf '{\"jsonrpc\":\"2.0\",'; exit 0")),
        ("after `initialize`", after_initialize("exit 0")),
        ("after `notifications/initialized`", after_initialize("read -r initialized; exit 0")),
        ("during a call", after_initialize("read -r initialized; read -r call; kill -9 $$")),
        ("during a call, and another process goes on", {
            after_initialize("read -r initialized; read -r call; sleep 1000 >/dev/null & exit 0")
        }),
    ] {
        let lives = Lives::default();
        let (watching, first) = (lives.clone(), Arc::new(Mutex::new(Some(command))));
        let gateway = Gateway::new(Config::default(), move |principal: Option<Principal>| {
            let command =
                if principal.is_some() { server() } else { first.lock().unwrap().take().unwrap_or_else(server) };
            let backend = watching.watched(command);
            async { Ok(backend) }
        });
        let serving = Serving::start(gateway).await;
        let other = serving.connect(ProtocolVersion::LATEST_LEGACY, Some("other")).await.unwrap();
        let before = called(&other).await;
        let failed = match serving.connect(ProtocolVersion::LATEST_LEGACY, None).await {
            Ok(client) => {
                let failed = in_time(when, client.request("tools/call", Some(params(1)))).await.err();
                // Its session has ended. The client opens another one, which gets another process.
                if failed.is_some() {
                    called(&client).await;
                }
                client.close().await;
                failed
            }
            Err(error) => Some(error),
        };
        // The session may have ended before the call, which then begins with a new one.
        assert!(failed.is_some() || when.starts_with("after"), "{when}");
        assert_eq!(called(&other).await, before, "{when}");
        serving.until_backends(1).await;
        assert_eq!(serving.status().await.sessions, 1, "{when}");
        other.close().await;
        serving.shut_down(BOUND).await;
        lives.end().await;
    }
}

/// The function of the application that starts a backend may fail in each way.
#[tokio::test]
async fn a_backend_that_is_never_started_is_an_error_for_its_client() {
    for what in ["an error", "a panic", "no end"] {
        let mut config = Config::default();
        config.relay.initialize_timeout = Duration::from_millis(50);
        let gateway = Gateway::new(config, move |_| async move {
            match what {
                "an error" => Err(io::Error::other("there is no server")),
                "a panic" => panic!("there is no server"),
                _ => pending().await,
            }
        });
        let serving = Serving::start(gateway).await;
        let failed = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap_err();
        assert!(!failed.to_string().contains("there is no server"), "{what}: {failed}");
        serving.until_backends(0).await;
        assert_eq!(serving.status().await.load, Load::default(), "{what}");
        serving.shut_down(BOUND).await;
    }
}

/// A process that does not read, or writes without end, delays no other.
#[tokio::test]
async fn a_process_that_does_not_read_delays_no_other() {
    let lives = Lives::default();
    let (watching, mut next) = (lives.clone(), Reading::OF_CHILDREN.into_iter());
    let mut config = Config::default();
    config.relay.request_timeout = Duration::from_secs(2);
    config.relay.max_timeout = Duration::from_secs(2);
    let readings = Arc::new(Mutex::new(move || next.next()));
    let gateway = Gateway::new(config, move |principal: Option<Principal>| {
        let reading = if principal.is_some() { None } else { (readings.lock().unwrap())() };
        let backend = watching.watched(reading.map_or_else(server, |reading| reading.child().into()));
        async { Ok(backend) }
    });
    let serving = Serving::start(gateway).await;
    let other = serving.connect(ProtocolVersion::LATEST_LEGACY, Some("other")).await.unwrap();
    let mut stuck = Vec::new();
    for reading in Reading::OF_CHILDREN {
        let client = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap();
        stuck.push(tokio::spawn(async move {
            let outcome = client.request("tools/call", Some(params(MORE_THAN_A_PIPE))).await;
            assert!(outcome.is_err(), "{reading:?}: {outcome:?}");
            // If the process has ended, another one answers.
            let _ = client.request("tools/call", Some(params(10))).await;
            client
        }));
    }
    let before = called(&other).await;
    let mut clients = Vec::new();
    for stuck in stuck {
        clients.push(in_time("a call that is not read", stuck).await.unwrap());
        assert_eq!(called(&other).await, before);
    }
    other.close().await;
    drop(clients);
    serving.shut_down(Duration::from_secs(1)).await;
    lives.end().await;
}

#[tokio::test]
async fn a_shutdown_answers_the_calls_in_progress_and_leaves_no_process() {
    for is_shared in [false, true] {
        let lives = Lives::default();
        let watching = lives.clone();
        let mut config = Config::default();
        config.sharing = if is_shared { Sharing::Shared } else { Sharing::PerSession };
        let gateway = Gateway::new(config, move |_| {
            // It leaves a process behind, which only a signal to the group reaches.
            let script = "(trap '' TERM; exec sleep 1000 <&- >&-) & read -r initialized; read -r call; sleep 0.2; \
                          echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[],\"by\":\"x\"}}'; cat >/dev/null";
            let backend = watching.watched(after_initialize(script));
            async { Ok(backend) }
        });
        let serving = Serving::start(gateway).await;
        let client = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap();
        let idle = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap();
        assert_eq!(serving.status().await.backends, if is_shared { 1 } else { 2 });
        let calling = tokio::spawn(async move { called(&client).await });
        while serving.status().await.load.requests_in == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let service = serving.service.clone();
        assert_eq!(serving.shut_down(BOUND).await, 0);
        assert_eq!(calling.await.unwrap(), "x");
        assert_eq!(service.monitor().status().await.unwrap().backends, 0);
        drop(idle);
        lives.end().await;
    }
}

#[tokio::test]
async fn processes_end_with_the_last_clone_of_the_service() {
    let lives = Lives::default();
    let watching = lives.clone();
    let gateway = Gateway::new(Config::default(), move |_| {
        let backend = watching.watched(server());
        async { Ok(backend) }
    });
    let mut service = gateway.http().unwrap();
    let opened = ask(&mut service, &TestRequest::post(initialize("2025-11-25"))).await;
    assert_eq!((opened.status, lives.count()), (200, 1));
    drop(service);
    lives.end().await;
}

/// A response that was read to its end.
struct Answer {
    status: u16,
    session: Option<String>,
    text: String,
}

/// Passes a request to the service, and reads the response.
async fn ask(service: &mut HttpService<GatewayMonitor>, asked: &TestRequest) -> Answer {
    let mut request = http::Request::from_parts(asked.head(), axum::body::Body::from(asked.body.clone()));
    if let Some(peer) = &asked.peer {
        request.extensions_mut().insert(PeerKey::clone(peer));
    }
    let answer = in_time("a request", service.call(request)).await.unwrap();
    let session = answer.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let (status, mut body, mut text) = (answer.status().as_u16(), answer.into_body(), Vec::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    Answer { status, session, text: String::from_utf8(text).unwrap() }
}

/// A server in this process; `alive` counts those that run.
fn in_memory(alive: &Arc<AtomicUsize>) -> Backend {
    let serve = async |incoming: Incoming| match incoming.method().as_str() {
        "tools/call" => Ok(Json::parse(r#"{"content":[],"by":"memory"}"#).unwrap()),
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    };
    let (near, far) = duplex(1024);
    let capabilities = Json::parse(r#"{"tools":{},"logging":{}}"#).unwrap();
    let server = Server::new(server::Config::new("memory", "1").capabilities(capabilities), serve);
    let alive = Arc::clone(alive);
    alive.fetch_add(1, Ordering::SeqCst);
    tokio::spawn(async move {
        let (read, write) = split(far);
        let _ = server.serve_stream(read, write).await;
        alive.fetch_sub(1, Ordering::SeqCst);
    });
    let (read, write) = split(near);
    Backend::stream(read, write)
}

/// Clients that never end their sessions, such as editors that are killed (SE6). At the limit, the session that is unused
/// for longest ends for a new one, if it may.
#[tokio::test]
async fn se6_10_000_sessions_that_are_never_ended_stay_within_the_limits() {
    const LIMIT: usize = 20;
    for (is_evicted, sessions) in [(true, 10_000), (false, LIMIT)] {
        let (alive, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (starting, highest) = (Arc::clone(&alive), Arc::clone(&most));
        let mut config = Config::default();
        config.relay.limits.backends = LIMIT;
        if is_evicted {
            config.http.evict_after = Duration::ZERO;
        }
        let gateway = Gateway::new(config, move |_| {
            let backend = in_memory(&starting);
            highest.fetch_max(starting.load(Ordering::SeqCst), Ordering::SeqCst);
            async { Ok(backend) }
        });
        let mut service = gateway.http().unwrap();
        let monitor = service.monitor();
        let mut opened = 0;
        for at in 0..10_000_u32 {
            let answer = ask(&mut service, &TestRequest::post(initialize("2025-11-25"))).await;
            assert!(answer.status == 200 || answer.status == 503, "{}: {}", answer.status, answer.text);
            if let Some(session) = answer.session {
                opened += 1;
                let confirmed = TestRequest::post(INITIALIZED).in_session(&session);
                assert_eq!(ask(&mut service, &confirmed).await.status, 202);
                if at % 10 == 0 {
                    let call = TestRequest::post(request("1", "tools/call", r#"{"name":"t"}"#)).in_session(&session);
                    let called = ask(&mut service, &call).await;
                    assert!(called.text.contains("memory"), "{}: {}", called.status, called.text);
                }
            }
            let status = monitor.status().await.unwrap();
            let Load { requests_in, requests_out, exchanges, waiting, held, unwritten, timers, .. } = status.load;
            assert!(status.backends <= LIMIT && status.sessions <= LIMIT, "{at}: {status:?}");
            let few = [requests_in, requests_out, exchanges, waiting].iter().all(|count| *count <= LIMIT);
            assert!(few && held + unwritten <= LIMIT * 1024 && timers <= 10 * LIMIT, "{at}: {status:?}");
        }
        assert_eq!(opened, sessions);
        assert_eq!(most.load(Ordering::SeqCst), LIMIT);
        in_time("the close", service.close()).await;
        let status = monitor.status().await.unwrap();
        assert_eq!((status.backends, status.load), (0, Load::default()));
        while alive.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The other end of a backend, which a test reads and writes.
struct Played {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Played {
    /// A gateway whose backends the test plays.
    fn gateway(config: Config) -> (Gateway, mpsc::UnboundedReceiver<Self>) {
        let (started, playing) = mpsc::unbounded_channel();
        let gateway = Gateway::new(config, move |_| {
            let (near, far) = duplex(1024);
            let (read, write) = split(far);
            let _ = started.send(Self { lines: BufReader::new(read).lines(), write });
            let (read, write) = split(near);
            async { Ok(Backend::stream(read, write)) }
        });
        (gateway, playing)
    }

    /// The next line; `None` if the stream has ended.
    async fn line(&mut self) -> Option<Json> {
        let line = in_time("a line", self.lines.next_line()).await.unwrap()?;
        Some(Json::parse(line).unwrap())
    }

    /// The id and the parameters of the next message, which must have this method.
    async fn asked(&mut self, method: &str) -> (String, Json) {
        let line = self.line().await.unwrap();
        assert_eq!(line.first_member("method").unwrap().as_string().unwrap(), method, "{}", line.to_text());
        let id = line.first_member("id").map_or_else(String::new, |id| id.to_text().into_owned());
        (id, line.first_member("params").unwrap_or(Json::empty_object()))
    }

    async fn write(&mut self, message: &str) {
        in_time("a write", self.write.write_all(format!("{message}\n").as_bytes())).await.unwrap();
    }

    /// Answers `initialize`, and the detection before it if there is one.
    async fn open(&mut self) {
        loop {
            let line = self.line().await.unwrap();
            let method = line.first_member("method").unwrap().as_string().unwrap().into_owned();
            let Some(id) = line.first_member("id").map(|id| id.to_text().into_owned()) else { return };
            let is_known = method == "initialize";
            let answer = result(&id, &initialize_result("2025-11-25"));
            self.write(&if is_known { answer } else { messages::error(&id, -32601, "method not found") }).await;
        }
    }
}

/// A request of revision 2025-11-25 continues without its connection (SH-S-30), one of 2026-07-28 is cancelled (BR-T-04).
#[tokio::test]
async fn a_client_that_disconnects_during_a_call_leaves_no_call_behind() {
    let (gateway, mut started) = Played::gateway(Config::default());
    let serving = Serving::start(gateway).await;
    let raw = serving.raw();
    let (legacy, modern) = (raw.clone(), raw);
    let opening = spawn_blocking(move || (legacy.session("2025-11-25"), legacy));
    let mut first = started.recv().await.unwrap();
    first.open().await;
    let (session, legacy) = opening.await.unwrap();
    let call = TestRequest::post(request("7", "tools/call", r#"{"name":"t"}"#)).in_session(&session);
    let calling = spawn_blocking(move || (legacy.open(&call), legacy));
    let (id, _) = first.asked("tools/call").await;
    let (connection, legacy) = calling.await.unwrap();
    drop(connection);
    // The process may still answer, and its session can be used.
    first.write(&result(&id, "{}")).await;
    let ping = TestRequest::post(request("8", "resources/list", "{}")).in_session(&session);
    let asking = spawn_blocking(move || legacy.answer(&ping));
    let (id, _) = first.asked("resources/list").await;
    first.write(&result(&id, r#"{"resources":[]}"#)).await;
    assert_eq!(asking.await.unwrap().code(), 200);

    let call = TestRequest::stateless_call("7", "t", "");
    let calling = spawn_blocking(move || modern.open(&call));
    let mut second = started.recv().await.unwrap();
    let (id, _) = second.asked("server/discover").await;
    let supported = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"ttlMs":0,"cacheScope":"private"}"#;
    second.write(&result(&id, supported)).await;
    let (id, _) = second.asked("tools/call").await;
    drop(calling.await.unwrap());
    let (_, cancelled) = second.asked("notifications/cancelled").await;
    assert_eq!(cancelled.first_member("requestId").unwrap().to_text(), id);
    serving.shut_down(BOUND).await;
    // Both streams end.
    for mut played in [first, second] {
        while played.line().await.is_some() {}
    }
}

/// Messages that a client does not read are dropped at a limit, and delay neither the process nor other clients (M3).
#[tokio::test]
async fn a_client_that_does_not_read_delays_nobody() {
    let mut config = Config::default();
    config.relay.limits.unwritten = 256 * 1024;
    config.relay.limits.message = 64 * 1024;
    let (gateway, mut started) = Played::gateway(config);
    let serving = Serving::start(gateway).await;
    let raw = serving.raw();
    let opening = spawn_blocking(move || (raw.session("2025-11-25"), raw));
    let mut process = started.recv().await.unwrap();
    process.open().await;
    let (session, raw) = opening.await.unwrap();
    let listening = TestRequest::get().in_session(&session);
    let (stream, raw) = spawn_blocking(move || (raw.open(&listening), raw)).await.unwrap();
    let data = "x".repeat(32 * 1024);
    let message =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":"{data}"}}}}"#);
    for _ in 0..1000 {
        process.write(&message).await;
        let status = serving.status().await;
        assert!(status.load.unwritten + status.load.replay <= 2 << 20, "{status:?}");
    }
    let ping = TestRequest::post(request("8", "resources/list", "{}")).in_session(&session);
    let asking = spawn_blocking(move || raw.answer(&ping));
    let (id, _) = process.asked("resources/list").await;
    process.write(&result(&id, r#"{"resources":[]}"#)).await;
    assert_eq!(asking.await.unwrap().code(), 200);
    drop(stream);
    serving.shut_down(BOUND).await;
}

/// A backend that sends requests without reading the answers is not read, until it reads them (H5).
#[tokio::test]
async fn h5_a_backend_that_reads_no_answers_is_read_again_once_it_reads_them() {
    const PINGS: usize = 100_000;
    const QUEUE: usize = 64 * 1024;
    let mut config = Config::default();
    config.relay.limits.queue_bytes = QUEUE;
    config.relay.limits.requests_in = 1;
    let (gateway, mut started) = Played::gateway(config);
    let serving = Serving::start(gateway).await;
    let raw = serving.raw();
    let opening = spawn_blocking(move || raw.session("2025-11-25"));
    let mut process = started.recv().await.unwrap();
    process.open().await;
    opening.await.unwrap();
    let Played { mut lines, mut write } = process;
    let writing = tokio::spawn(async move {
        for id in 0..PINGS {
            let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
            write.write_all(ping.as_bytes()).await.unwrap();
        }
        write
    });
    let mut unwritten = 0;
    while unwritten < QUEUE {
        unwritten = serving.status().await.load.unwritten;
    }
    // A chunk of 64 KiB more was read before.
    for _ in 0..1000 {
        unwritten = serving.status().await.load.unwritten;
        assert!(unwritten <= 3 * QUEUE, "{unwritten}");
    }
    assert!(!writing.is_finished());
    // The first one waits for the client. Further ones exceed the limit, and are answered with errors.
    for id in 1..PINGS {
        let line = in_time("an answer", lines.next_line()).await.unwrap().unwrap();
        assert!(line.contains(&format!(r#""id":{id},"#)), "{id}: {line}");
    }
    let write = writing.await.unwrap();
    serving.shut_down(BOUND).await;
    drop((lines, write));
}

/// Together, the messages exceed the limit on what waits to be written.
#[tokio::test]
async fn what_a_backend_has_read_does_not_count_as_unwritten() {
    let mut config = Config::default();
    config.relay.limits.unwritten = 64 * 1024;
    config.relay.limits.message = 64 * 1024;
    let gateway = Gateway::new(config, |_| async { Ok(in_memory(&Arc::default())) });
    let serving = Serving::start(gateway).await;
    for version in [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST] {
        let client = serving.connect(version, None).await.unwrap();
        for _ in 0..20 {
            let outcome = in_time("a call", client.request("tools/call", Some(params(32 * 1024)))).await;
            assert!(outcome.is_ok(), "{version}: {outcome:?}");
        }
        client.close().await;
    }
    serving.shut_down(BOUND).await;
}

/// A remote server behind the gateway, which is another gateway: each session has one there, which ends with it.
#[tokio::test]
async fn a_remote_server_is_reached_by_a_proxy_in_this_process() {
    let remote = Serving::start(Gateway::new(Config::default(), |_| async { Ok(in_memory(&Arc::default())) })).await;
    for version in [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST] {
        let url = remote.url.clone();
        let gateway = Gateway::new(Config::default(), move |_| {
            let http = HttpConfig::new(&url).unwrap();
            let proxy = Proxy::http(http, HttpOptions::new(), relay::Config::default()).unwrap();
            async { Ok(Backend::proxy(proxy)) }
        });
        let serving = Serving::start(gateway).await;
        let client = serving.connect(version, None).await.unwrap();
        assert_eq!((client.version(), called(&client).await.as_str()), (version, "memory"));
        assert_eq!(remote.status().await.sessions, usize::from(!version.is_stateless()));
        in_time("the shutdown", serving.service.shutdown(BOUND)).await;
        assert_eq!(remote.status().await.sessions, 0, "{version}");
    }
    remote.shut_down(BOUND).await;
}

/// Each call has its outcome, which states how the process has ended, and the next session has another process.
async fn notices_the_end(sharing: Sharing, ending: Ending, in_flight: bool) {
    let mut config = Config::default();
    config.sharing = sharing;
    let gateway = Gateway::new(config, move |_| {
        let mut command = Command::new("sh");
        command.args(ending.arguments()).stderr(std::process::Stdio::null());
        async { Ok(Backend::child(command)) }
    });
    let serving = Serving::start(gateway).await;
    let connect = async || serving.connect(ProtocolVersion::LATEST_LEGACY, Some("ada")).await.unwrap();
    let client = connect().await;
    let waiting = if in_flight { Some(client.call(Call::new("wait")).await.unwrap()) } else { None };
    let (pids, stranger) = ending.split(Ending::pids(&client.request("end", None).await.unwrap()));
    // It has an outcome: the client opens another session if the process has ended already.
    let next = client.request("pid", None).await;
    let is_stated = |error: &Error| {
        let is_lost = matches!(error, Error::Failed { reason: Failed::SessionLost, .. });
        is_lost || error.to_string().contains(&format!("the server {}", ending.text))
    };
    assert!(next.as_ref().err().is_none_or(is_stated), "{next:?}");
    if let Some(waiting) = waiting {
        let failed = waiting.wait().await.unwrap_err();
        assert!(is_stated(&failed), "{failed}");
    }
    client.close().await;
    if next.is_err() {
        // The client may have opened another session, which it has ended. A process that others may use is kept.
        let kept = usize::from(sharing != Sharing::PerSession);
        serving.until(|status| status.sessions == 0 && status.backends <= kept).await;
    }
    // A process may answer for a moment although the one that has started it has ended.
    loop {
        let again = connect().await;
        let others = again.request("pid", None).await;
        again.close().await;
        match others.as_ref().map(Ending::pids) {
            Ok(others) if !pids.contains(&others[0]) => break,
            others => assert!(ending.is_wrapped(), "{others:?}"),
        }
    }
    let signal = |pid: u32, signal: &str| {
        let mut kill = std::process::Command::new("kill");
        kill.args([signal, &pid.to_string()]).stderr(std::process::Stdio::null()).status().unwrap().success()
    };
    while pids.iter().any(|pid| signal(*pid, "-0")) {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(stranger.is_none_or(|stranger| signal(stranger, "-9")));
    serving.shut_down(BOUND).await;
}

#[tokio::test]
async fn the_end_of_a_process_is_noticed_whatever_becomes_of_its_streams() {
    let sharings = [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared];
    // Some of them keep a processor busy, so that only those of one ending run at one time.
    for ending in ENDINGS {
        let cases = sharings.into_iter().flat_map(|sharing| [true, false].map(|in_flight| (sharing, in_flight)));
        let running = cases.map(|(sharing, in_flight)| {
            let name = format!("{sharing:?}: {}, a call in flight: {in_flight}", ending.name);
            (name, tokio::spawn(timeout(BOUND, notices_the_end(sharing, ending, in_flight))))
        });
        for (name, running) in running.collect::<Vec<_>>() {
            running.await.expect(&name).expect(&name);
        }
    }
}

#[tokio::test]
async fn what_a_server_has_written_last_reaches_the_client_of_a_gateway_that_had_stopped_reading() {
    for sharing in [Sharing::PerSession, Sharing::Shared] {
        let mut config = Config::default();
        config.sharing = sharing;
        config.relay.limits.queue_bytes = QUEUE;
        // The clients do not answer, and the errors for the others are not read either.
        config.relay.limits.requests_in = 1;
        let gateway = Gateway::new(config, |_| {
            let mut command = Command::new("sh");
            command.args(UNREAD.arguments()).stderr(std::process::Stdio::null());
            async { Ok(Backend::child(command)) }
        });
        let serving = Serving::start(gateway).await;
        let client = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap();
        let answer = in_time("the last call", client.request("end", None)).await.unwrap();
        assert_eq!(Ending::pids(&answer).len(), 2, "{sharing:?}");
        client.close().await;
        serving.shut_down(BOUND).await;
    }
}

/// Reports that it was dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn the_start_of_a_backend_is_given_up_with_its_client_and_with_the_gateway() {
    for is_shut_down in [false, true] {
        let (began, mut begins) = mpsc::unbounded_channel();
        let (dropped, mut is_dropped) = mpsc::unbounded_channel();
        let mut config = Config::default();
        config.http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        let gateway = Gateway::new(config, move |_| {
            let (began, dropped) = (began.clone(), Dropped(dropped.clone()));
            async move {
                let _dropped = dropped;
                let _ = began.send(());
                pending().await
            }
        });
        let serving = Serving::start(gateway).await;
        let raw = serving.raw();
        // In the older transport, a client ends its session by leaving its stream.
        let opening = spawn_blocking(move || {
            let mut stream = raw.open(&TestRequest::get().at("/sse"));
            let endpoint = stream.events(1).remove(0);
            assert_eq!(raw.answer(&TestRequest::post(initialize("2024-11-05")).at(&endpoint)).code(), 202);
            stream
        });
        let stream = in_time("opening", opening).await.unwrap();
        in_time("the start", begins.recv()).await.unwrap();
        assert_eq!(serving.status().await.backends, 1);
        if !is_shut_down {
            drop(stream);
            serving.until_backends(0).await;
        }
        serving.shut_down(Duration::ZERO).await;
        in_time("the end of the start", is_dropped.recv()).await.unwrap();
    }
}

#[tokio::test]
async fn a_gateway_that_is_shut_down_closes_idle_connections_while_calls_go_on() {
    let may_answer = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("may-answer-{}", std::process::id()));
    let script = format!(
        "case \"$line\" in *tools/call*) until [ -e '{}' ]; do sleep 0.02; done;; esac; ",
        may_answer.display()
    );
    let gateway = Gateway::new(Config::default(), move |_| {
        let server = server_after(&script);
        async { Ok(Backend::child(server)) }
    });
    let serving = Serving::start(gateway).await;
    let client = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap();
    let calling = tokio::spawn(async move { called(&client).await });
    serving.until(|status| status.load.requests_in == 1).await;
    let raw = serving.raw();
    let idle = spawn_blocking(move || {
        let mut idle = raw.connect();
        idle.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(idle.until(|sent| sent.is_over).code(), 404);
        idle
    });
    let mut idle = in_time("a request", idle).await.unwrap();
    let shutting_down = tokio::spawn(serving.shut_down(BOUND * 2));
    in_time("the idle connection", spawn_blocking(move || idle.rest())).await.unwrap();
    assert!(!calling.is_finished() && !shutting_down.is_finished(), "the call goes on");
    std::fs::write(&may_answer, "").unwrap();
    assert!(!in_time("the call", calling).await.unwrap().is_empty());
    assert_eq!(in_time("the shutdown", shutting_down).await.unwrap(), 0);
    std::fs::remove_file(may_answer).unwrap();
}

#[tokio::test]
async fn why_a_process_could_not_be_started_is_in_the_error_of_its_client() {
    let gateway = Gateway::new(Config::default(), |_| async { Ok(Backend::child(Command::new("/no/such/server"))) });
    let serving = Serving::start(gateway).await;
    for _ in 0..2 {
        let refused = serving.connect(ProtocolVersion::LATEST_LEGACY, None).await.unwrap_err().to_string();
        assert!(refused.contains("the server could not be started: its command was not found"), "{refused}");
        assert!(!refused.contains("/no/such"), "{refused}");
    }
    serving.until_backends(0).await;
    serving.shut_down(BOUND).await;
}
