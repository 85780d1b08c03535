//! Proxies over real pipes, sockets and processes.

#![cfg(all(unix, feature = "http-client"))]

use std::io::{BufRead, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_intermediary::relay::{Config, Event};
use mcp_proto::ProcessEnd;
use mcp_proto::client::{CloseReason, HttpConfig};
use mcp_testkit::loopback_server::{LoopbackServer, PostedMessage, echo_server, mcp_server};
use mcp_testkit::messages::{INITIALIZED, event, initialize, initialize_result, request, result};
use mcp_testkit::waiting::wait_until;
use mcp_tokio::{HttpOptions, HttpSettings, Observer, Proxy, Stopper};
use tests::examples::example;
use tests::unread_pipes::{Life, MORE_THAN_A_PIPE};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Several times what any step may take on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

async fn in_time<T>(what: &str, ends: impl Future<Output = T>) -> T {
    timeout(BOUND, ends).await.unwrap_or_else(|_| panic!("{what} does not end"))
}

/// A proxy in a task, with the test as its client.
struct Running {
    lines: BufReader<OwnedReadHalf>,
    write: Option<OwnedWriteHalf>,
    stopper: Stopper,
    proxy: JoinHandle<std::io::Result<CloseReason>>,
}

impl Running {
    fn start(proxy: Proxy, observer: impl Observer + Send + 'static) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (read, write) = theirs.into_split();
        let stopper = proxy.stopper();
        let proxy = tokio::spawn(proxy.run(read, write, observer));
        let (read, write) = ours.into_split();
        Self { lines: BufReader::new(read), write: Some(write), stopper, proxy }
    }

    fn http(server: &LoopbackServer) -> Self {
        let http = HttpConfig::new(&server.url()).unwrap();
        Self::start(Proxy::http(http, HttpOptions::new(), config()).unwrap(), ())
    }

    async fn write(&mut self, line: &str) {
        let write = self.write.as_mut().unwrap();
        in_time(line, write.write_all(format!("{line}\n").as_bytes())).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        in_time("a line", self.lines.read_line(&mut line)).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Opens a session.
    async fn open(&mut self) {
        self.write(&initialize("\"i\"", "2025-11-25")).await;
        assert_eq!(self.line().await, result("\"i\"", &initialize_result("2025-11-25")));
        self.write(INITIALIZED).await;
    }

    /// Waits until the proxy has ended. Returns its outcome, and what was left to read.
    async fn ends(mut self) -> (std::io::Result<CloseReason>, String) {
        let outcome = in_time("the proxy", self.proxy).await.unwrap();
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).await.unwrap();
        (outcome, rest)
    }
}

fn config() -> Config {
    tests::deadline::set();
    let mut config = Config::default();
    config.redelivery = Duration::from_millis(10);
    config
}

fn shell(script: &str) -> tokio::process::Command {
    tests::deadline::set();
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Records the first word of each event, and how many bytes it has seen in each direction.
struct Recording(std::sync::mpsc::Sender<String>);

impl Observer for Recording {
    fn event(&mut self, event: &Event) {
        let event = format!("{event:?}");
        let _ = self.0.send(event.split(&['(', ' '][..]).next().unwrap_or_default().to_owned());
    }

    fn received(&mut self, bytes: &[u8]) {
        let _ = self.0.send(format!("received {}", String::from_utf8_lossy(bytes).trim_end()));
    }

    fn written(&mut self, bytes: &[u8]) {
        let _ = self.0.send(format!("written {}", String::from_utf8_lossy(bytes).trim_end()));
    }
}

#[tokio::test]
async fn a_dialogue_passes_through_a_proxy_to_a_server_over_http() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        connection.chunk(event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1.0}}"#))?;
        connection.chunk(event(&result(&asked.id, r#"{"big":12345678901234567890}"#)))?;
        connection.finish()
    }));
    let mut running = Running::http(&server);
    running.open().await;
    running.write(&request("\"c\"", "tools/call", r#"{"name":"t"}"#)).await;
    assert_eq!(running.line().await, r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1.0}}"#);
    assert_eq!(running.line().await, result("\"c\"", r#"{"big":12345678901234567890}"#));
    drop(running.write.take());
    let (outcome, rest) = running.ends().await;
    assert_eq!((outcome.unwrap(), rest.as_str()), (CloseReason::Local, ""));
    assert!(server.requests().iter().any(|request| request.line.starts_with("DELETE ")), "the session is ended");
}

#[tokio::test]
async fn proxies_that_run_use_changed_headers_and_options_from_their_next_request_on() {
    let server = echo_server();
    let with = |key: &str, agent: &str| {
        let mut http = HttpConfig::new(&server.url()).unwrap();
        http.header("X-Key", key).unwrap();
        let mut options = HttpOptions::new();
        options.user_agent = agent.to_owned();
        (http, options)
    };
    let (http, options) = with("key-1", "agent-1");
    let settings = HttpSettings::new(http, options).unwrap();
    let mut proxies = Vec::new();
    for _ in 0..2 {
        let mut running = Running::start(Proxy::http_with(&settings, config()).unwrap(), ());
        running.open().await;
        proxies.push(running);
    }
    let mut seen = 0;
    for round in 1..=3 {
        let (key, agent) = (format!("key-{round}"), format!("agent-{round}"));
        if round > 1 {
            let (http, options) = with(&key, &agent);
            settings.set(&http, options).unwrap();
        }
        for running in &mut proxies {
            running.write(&request("\"c\"", "x/echo", r#"{"a":1}"#)).await;
            assert_eq!(running.line().await, result("\"c\"", r#"{"a":1}"#));
        }
        let requests = server.requests();
        assert!(requests.len() >= seen + 2);
        for request in &requests[seen..] {
            assert_eq!((request.header("x-key"), request.header("user-agent")), (&*key, &*agent), "{}", request.line);
        }
        // Requests for streams may arrive later.
        wait_until(|| server.requests().iter().filter(|request| request.line.starts_with("GET ")).count() == 2);
        seen = server.requests().len();
    }
    let (http, _) = with("key-3", "");
    let mut other = HttpConfig::new(&server.url()).unwrap();
    other.header("Authorization", "Bearer x").unwrap();
    assert!(settings.set(&other, HttpOptions::new()).is_err());
    let (_, last) = with("", "agent-4");
    settings.set(&http, last).unwrap();
    // The last change counts although nothing could make another one.
    drop(settings);
    for mut running in proxies {
        drop(running.write.take());
        assert_eq!(running.ends().await.0.unwrap(), CloseReason::Local);
    }
    let ended = server.requests();
    let ended: Vec<_> = ended.iter().filter(|request| request.line.starts_with("DELETE ")).collect();
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|end| (end.header("x-key"), end.header("user-agent")) == ("key-3", "agent-4")));
}

#[tokio::test]
async fn a_dialogue_passes_through_a_proxy_to_a_server_in_a_child_process() {
    let (seen, events) = std::sync::mpsc::channel();
    let script =
        "read -r i; echo \"$0\"; read -r n; read -r c; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}'; cat >&2";
    let mut command = shell(script);
    command.arg(result("1", &initialize_result("2025-11-25")));
    let mut config = config();
    config.versions = vec![mcp_proto::ProtocolVersion::V2025_11_25];
    let mut running = Running::start(Proxy::child(command, config).unwrap(), Recording(seen));
    running.open().await;
    running.write(&request("7", "tools/call", "{}")).await;
    assert_eq!(running.line().await, result("7", "{}"));
    drop(running.write.take());
    let (outcome, rest) = running.ends().await;
    assert_eq!((outcome.unwrap(), rest.as_str()), (CloseReason::Local, ""));
    let seen: Vec<_> = events.iter().collect();
    let position = |start: &str| {
        let found = seen.iter().position(|text| text.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start:?} in {seen:#?}"))
    };
    let order = ["received {", "Connected", "written {", "ClientGone", "Closed"].map(position);
    assert!(order.is_sorted(), "{seen:#?}");
}

#[tokio::test]
async fn a_client_of_a_server_that_cannot_be_reached_gets_errors_and_the_proxy_goes_on() {
    let http = HttpConfig::new("http://127.0.0.1:1/mcp").unwrap();
    let mut running = Running::start(Proxy::http(http, HttpOptions::new(), config()).unwrap(), ());
    for id in ["1", "2"] {
        running.write(&initialize(id, "2025-11-25")).await;
        let answer = running.line().await;
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":"#)), "{answer}");
        assert!(answer.contains("nothing listens there"), "{answer}");
    }
    drop(running.write.take());
    assert_eq!(running.ends().await.0.unwrap(), CloseReason::Local);
}

#[tokio::test]
async fn a_proxy_ends_with_the_process_of_its_server() {
    let mut command = shell("read -r i; echo \"$0\"; read -r n; read -r c");
    command.arg(result("1", &initialize_result("2025-11-25")));
    let mut config = config();
    config.versions = vec![mcp_proto::ProtocolVersion::V2025_11_25];
    let mut running = Running::start(Proxy::child(command, config).unwrap(), ());
    running.open().await;
    running.write(&request("7", "tools/call", "{}")).await;
    let answer = running.line().await;
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":"#), "{answer}");
    assert_eq!(running.ends().await.0.unwrap(), CloseReason::ProcessEnded(ProcessEnd::Code(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_proxy_answers_pending_requests_and_ends_the_session() {
    let server = LoopbackServer::start(mcp_server(|_, connection| connection.hang()));
    let mut running = Running::http(&server);
    running.open().await;
    running.write(&request("7", "tools/call", "{}")).await;
    let is_call = |asked: &PostedMessage| asked.method == "tools/call";
    let calls = || server.asked().into_iter().filter(is_call).count();
    tokio::task::block_in_place(|| wait_until(|| calls() == 1));
    running.stopper.stop();
    let answer = running.line().await;
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":"#), "{answer}");
    let (outcome, rest) = running.ends().await;
    assert_eq!((outcome.unwrap(), rest.as_str()), (CloseReason::Local, ""));
    assert!(server.requests().iter().any(|request| request.line.starts_with("DELETE ")), "the session is ended");
}

/// The client reads nothing: the proxy stops reading the server, and ends in time all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_whose_client_does_not_read_stops_reading_and_ends_in_time() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = LoopbackServer::start(mcp_server(move |asked, connection| {
        connection.begin_events()?;
        let params = format!(r#"{{"level":"info","data":"{}"}}"#, "x".repeat(1 << 20));
        let notification = event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#));
        // Far more than all limits and buffers hold.
        while count.fetch_add(1, Ordering::SeqCst) < 400 {
            connection.chunk(&notification)?;
        }
        connection.chunk(event(&result(&asked.id, "{}")))
    }));
    let mut running = Running::http(&server);
    running.open().await;
    running.write(&request("7", "tools/call", "{}")).await;
    // The flood stops when the client's stream and the queues in front of it are full.
    let mut before = 0;
    while before == 0 || before < sent.load(Ordering::SeqCst) {
        before = sent.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert!(before < 200, "{before} MiB were read");
    let began = Instant::now();
    running.stopper.stop();
    let outcome = in_time("the proxy", running.proxy).await.unwrap();
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
    assert!(began.elapsed() < BOUND / 2);
}

/// A proxy in a process of its own.
struct OwnProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: std::io::BufReader<ChildStdout>,
}

impl OwnProcess {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, stdin, lines: std::io::BufReader::new(stdout) }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Closes stdin, and waits for the end. Returns whether the process succeeded.
    fn ends(&mut self) -> bool {
        drop(self.stdin.take());
        let until = Instant::now() + BOUND;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < until, "the proxy does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_proxy_on_stdio_writes_to_the_last_byte() {
    let text = "x".repeat(6 * MORE_THAN_A_PIPE);
    let answer = format!(r#"{{"text":"{text}"}}"#);
    let server = {
        let answer = answer.clone();
        LoopbackServer::start(mcp_server(move |asked, connection| connection.json(result(&asked.id, &answer))))
    };
    let mut proxy = OwnProcess::start(example("tokio_proxy").arg(server.url()));
    proxy.write(&initialize("1", "2025-11-25"));
    assert_eq!(proxy.line(), result("1", &initialize_result("2025-11-25")));
    proxy.write(INITIALIZED);
    proxy.write(&request("2", "tools/call", "{}"));
    // The end of stdin comes before the answer.
    drop(proxy.stdin.take());
    assert_eq!(proxy.line(), result("2", &answer));
    let mut rest = String::new();
    proxy.lines.read_to_string(&mut rest).unwrap();
    assert!(proxy.ends() && rest.is_empty(), "{rest}");
}

#[test]
fn a_proxy_on_stdio_whose_stdout_is_not_read_ends_with_its_server() {
    let script = format!(
        "read -r i; echo '{}'; read -r n; read -r c; head -c {} /dev/zero | tr '\\0' x; echo; sleep 1000",
        result("1", &initialize_result("2025-11-25")),
        8 << 20,
    );
    let mut command = example("tokio_proxy");
    command.args(["sh", "-c", &script]);
    let mut life = Life::of(&mut command);
    let mut proxy = OwnProcess::start(&mut command);
    drop(command);
    proxy.write(&initialize("1", "2025-11-25"));
    proxy.line();
    proxy.write(INITIALIZED);
    proxy.write(&request("2", "tools/call", "{}"));
    std::thread::sleep(Duration::from_millis(300));
    assert!(life.goes_on());
    proxy.ends();
    life.ends();
}
