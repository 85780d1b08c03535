//! A gateway in the process of the test, for what no option of the command line sets.

use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use mcp_blocking::{Backend, Gateway, GatewayObserver, GatewayStatus, GatewayStopper, ServerStatus};
use mcp_intermediary::gateway::{BackendKey, Config};
use mcp_proto::client::CloseReason;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::messages::{initialize_result, request, result};
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::wait_until;

/// A gateway with one server.
pub(crate) struct InProcess {
    pub(crate) raw: RawClient,
    pub(crate) stopper: GatewayStopper,
    status: GatewayStatus,
    thread: JoinHandle<std::io::Result<CloseReason>>,
}

impl InProcess {
    pub(crate) fn start(config: Config, backend: Backend) -> Self {
        tests::deadline::set();
        let gateway = Gateway::new().server(config, backend).unwrap();
        let (stopper, status) = (gateway.stopper(), gateway.status());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let raw = RawClient::new(&listener.local_addr().unwrap().to_string());
        let thread = thread::spawn(move || gateway.serve(listener));
        Self { raw, stopper, status, thread }
    }

    pub(crate) fn counts(&self) -> ServerStatus {
        self.status.servers().remove(0)
    }

    /// Stops the gateway, and waits for its end.
    pub(crate) fn end(self) {
        self.stopper.stop();
        assert_eq!(self.ended().unwrap(), CloseReason::Local);
    }

    /// Waits for the end of the gateway.
    fn ended(self) -> std::io::Result<CloseReason> {
        wait_until(|| self.thread.is_finished());
        self.thread.join().unwrap()
    }
}

/// Keeps what goes to processes and what comes from them, and panics at the name of a method.
#[derive(Clone, Default)]
struct Observer(Arc<Mutex<[Vec<u8>; 2]>>);

impl GatewayObserver for Observer {
    fn received(&mut self, _: BackendKey, bytes: &[u8]) {
        self.0.lock().unwrap()[0].extend_from_slice(bytes);
    }

    fn written(&mut self, _: BackendKey, bytes: &[u8]) {
        assert!(!String::from_utf8_lossy(bytes).contains("own/fatal"), "an observer may fail");
        self.0.lock().unwrap()[1].extend_from_slice(bytes);
    }
}

/// A gateway whose process answers each request with an empty result, after `initialize`.
fn observed() -> (InProcess, Observer) {
    let observer = Observer::default();
    let answer = result("1", &initialize_result("2025-11-25"));
    let backend = Backend::command(move |_| {
        let mut command = Command::new("sh");
        command.args(["-c", "read -r first; echo \"$0\"; while read -r line; do :; done", &answer]);
        command
    });
    (InProcess::start(Config::default(), backend.observer(observer.clone())), observer)
}

#[test]
fn an_observer_of_a_gateway_sees_what_its_processes_are_sent_and_what_they_send() {
    let (gateway, observer) = observed();
    gateway.raw.session("2025-11-25");
    gateway.end();
    let [received, written] = std::mem::take(&mut *observer.0.lock().unwrap());
    let (received, written) = (String::from_utf8(received).unwrap(), String::from_utf8(written).unwrap());
    assert_eq!(received, format!("{}\n", result("1", &initialize_result("2025-11-25"))));
    assert!(written.starts_with('{') && written.contains(r#""method":"initialize""#), "{written}");
}

#[test]
fn only_the_one_server_of_a_gateway_may_be_at_every_path() {
    let everywhere = || {
        let mut config = Config::default();
        config.http.path = None;
        config
    };
    let backend = || Backend::command(|_| Command::new("cat"));
    let serve = |gateway: Gateway| {
        gateway.stopper().stop();
        gateway.serve(TcpListener::bind("127.0.0.1:0").unwrap())
    };
    serve(Gateway::new().server(everywhere(), backend()).unwrap()).unwrap();
    let two = Gateway::new().server(Config::default(), backend()).unwrap().server(everywhere(), backend()).unwrap();
    let error = serve(two).unwrap_err();
    assert_eq!(error.to_string(), "a server without a path cannot be one of several");
}

#[test]
fn what_a_process_has_read_does_not_count_as_unread() {
    const BYTES: usize = 20_000;
    let script = r#"read -r first; echo "$0"; read -r confirmed
        while read -r call; do id=${call#*'"id":'}; echo '{"jsonrpc":"2.0","id":'"${id%%,*}"',"result":{}}'; done"#;
    let opened = result("1", &initialize_result("2025-11-25"));
    let mut config = Config::default();
    (config.relay.limits.message, config.relay.limits.unwritten) = (2 * BYTES, 3 * BYTES);
    let gateway = InProcess::start(
        config,
        Backend::command(move |_| {
            let mut command = Command::new("sh");
            command.args(["-c", script, &opened]);
            command
        }),
    );
    let session = gateway.raw.session("2025-11-25");
    for id in 1..=9 {
        let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(BYTES));
        let call = request(&id.to_string(), "own/read", &params);
        let answer = gateway.raw.answer(&TestRequest::post(call).in_session(&session)).text();
        assert!(answer.contains(r#""result":{}"#), "{id}: {answer}");
    }
    gateway.end();
}

#[test]
fn a_gateway_whose_driver_panics_ends_with_an_error() {
    let (gateway, _) = observed();
    let id = gateway.raw.session("2025-11-25");
    let request = TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"own/fatal"}"#).in_session(&id);
    assert_eq!(gateway.raw.answer(&request).code(), 503);
    let error = gateway.ended().unwrap_err();
    assert!(error.to_string().contains("has panicked"), "{error}");
}
