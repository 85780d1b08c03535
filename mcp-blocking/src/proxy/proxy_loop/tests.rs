//! Tests of proxies between a client played by the test and a shell that runs a script.

use std::io::Write;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use ::mcp_testkit::messages::{INITIALIZED, initialize, initialize_result, request, result};
use ::mcp_testkit::waiting::{LONG, wait_until};
use mcp_intermediary::relay::{Config, Event};
use mcp_proto::Stdio;

use super::super::{Proxy, Stopper};
use super::*;
use crate::child::{Child, FromChild};

/// An input: the lines that the client writes.
struct Typed {
    lines: Receiver<String>,
    /// Dropped with the input, which the test observes.
    _in_use: Arc<()>,
}

impl Read for Typed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Ok(line) = self.lines.recv() else { return Ok(0) };
        buffer[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

/// An output to the client. Without a sender, it blocks like a client that does not read.
struct Shown(Option<Sender<String>>);

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Some(lines) => lines.send(String::from_utf8(bytes.to_vec()).unwrap()).map_err(io::Error::other)?,
            None => loop {
                thread::park();
            },
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Observer for Noting {
    fn event(&mut self, event: &Event) {
        let name = format!("{event:?}");
        self.0.lock().unwrap().push(name.split([' ', '(', '{']).next().unwrap_or_default().to_owned());
    }

    fn received(&mut self, bytes: &[u8]) {
        self.0.lock().unwrap().push(format!("> {}", String::from_utf8_lossy(bytes).trim()));
    }

    fn written(&mut self, bytes: &[u8]) {
        self.0.lock().unwrap().push(format!("< {}", String::from_utf8_lossy(bytes).trim()));
    }
}

/// A proxy that runs on a thread.
struct Running {
    input: Option<Sender<String>>,
    output: Receiver<String>,
    noted: Noting,
    /// The reference count shows whether the input is still in use.
    in_use: Arc<()>,
    stopper: Stopper,
    thread: JoinHandle<io::Result<CloseReason>>,
}

impl Running {
    fn start(script: &str, is_read: bool, change: impl FnOnce(&mut Config)) -> Self {
        let mut command = Command::new("sh");
        let answer = result("1", &initialize_result("2025-11-25"));
        command.args(["-c", &format!("read -r initialize; echo '{answer}'; {script}")]);
        let mut config = Config::default();
        change(&mut config);
        let proxy = Proxy::child(command, config).unwrap();
        let ((input, lines), (sender, output)) = (channel(), channel());
        let (noted, in_use, stopper) = (Noting::default(), Arc::new(()), proxy.stopper());
        let typed = Typed { lines, _in_use: Arc::clone(&in_use) };
        let (reads, observer) = (Shown(is_read.then_some(sender)), noted.clone());
        let thread = thread::spawn(move || proxy.run(typed, reads, observer));
        Self { input: Some(input), output, noted, in_use, stopper, thread }
    }

    fn write(&self, line: &str) {
        self.input.as_ref().unwrap().send(format!("{line}\n")).unwrap();
    }

    fn connected(script: &str, change: impl FnOnce(&mut Config)) -> Self {
        let running = Self::start(script, true, change);
        running.write(&initialize("0", "2025-11-25"));
        assert!(running.line().starts_with(r#"{"jsonrpc":"2.0","id":0,"result":"#));
        running.write(INITIALIZED);
        running
    }

    fn line(&self) -> String {
        self.output.recv_timeout(LONG).unwrap()
    }

    fn ends(self) -> (io::Result<CloseReason>, Vec<String>) {
        wait_until(|| self.thread.is_finished());
        let outcome = self.thread.join().unwrap();
        (outcome, std::mem::take(&mut *self.noted.0.lock().unwrap()))
    }
}

#[test]
fn an_observer_receives_all_traffic_until_the_client_ends_the_proxy() {
    let mut running = Running::connected(
        "read -r i; read -r c; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}'; cat >/dev/null",
        |_| {},
    );
    running.write(&request("7", "tools/list", "{}"));
    assert_eq!(running.line().trim(), result("7", "{}"));
    running.input = None;
    let (outcome, noted) = running.ends();
    assert_eq!(outcome.unwrap(), CloseReason::Local);
    let seen = |text: &str| noted.iter().position(|note| note.starts_with(text)).unwrap_or_else(|| panic!("{noted:?}"));
    let order = ["> {\"jsonrpc\":\"2.0\",\"id\":0", "Connected", "< {\"jsonrpc\":\"2.0\",\"id\":0"].map(seen);
    assert!(order.is_sorted(), "{noted:?}");
    let order =
        [&format!("> {}", request("7", "tools/list", "{}")), &format!("< {}", result("7", "{}")), "Closed"].map(seen);
    assert!(order.is_sorted() && order[2] == noted.len() - 1, "{noted:?}");
}

#[test]
fn a_proxy_that_is_stopped_reads_no_more() {
    let running = Running::connected("cat >/dev/null", |_| {});
    assert_eq!(Arc::strong_count(&running.in_use), 2);
    running.stopper.stop();
    wait_until(|| running.thread.is_finished());
    // If the reading thread has not ended yet, the next line from the client ends it.
    let _ = running.input.as_ref().unwrap().send("late\n".to_owned());
    wait_until(|| Arc::strong_count(&running.in_use) == 1);
    assert_eq!(running.ends().0.unwrap(), CloseReason::Local);
}

/// Two deadlines exist at a time: that of a request in flight, and a nearer one that is set later.
#[test]
fn a_deadline_that_comes_before_the_next_one_is_kept() {
    let mut running = Running::connected("cat >/dev/null", |config| config.drain_timeout = Duration::from_millis(50));
    running.write(&request("7", "tools/list", "{}"));
    // Longer than the tick after which the thread that handles timeouts checks again.
    thread::sleep(TICK * 5);
    running.input = None;
    assert_eq!(running.ends().0.unwrap(), CloseReason::Local);

    let running = Running::connected("cat >/dev/null", |config| config.request_timeout = Duration::from_millis(50));
    running.write(&request("7", "tools/list", "{}"));
    let line = running.line();
    assert!(line.contains(r#""id":7,"error":"#) && line.contains("50ms"), "{line}");
}

#[test]
fn px3_the_end_of_the_server_ends_the_proxy() {
    let running = Running::connected("read -r i; exit 3", |_| {});
    let (outcome, noted) = running.ends();
    assert!(outcome.unwrap() != CloseReason::Local && noted.last().unwrap() == "Closed", "{noted:?}");
}

/// The unread output does not keep a thread busy either: such a thread would not detect that the proxy is stopped.
#[test]
fn fr14_a_client_that_does_not_read_keeps_no_proxy_from_its_end() {
    let flood =
        "yes '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}'";
    let running = Running::start(flood, false, |_| {});
    running.write(&initialize("0", "2025-11-25"));
    // The server sends more than may be queued.
    let count = || running.noted.0.lock().unwrap().len();
    let mut before = 0;
    wait_until(|| count() > 1000);
    while count() > before {
        before = count();
        thread::sleep(Duration::from_millis(100));
    }
    running.stopper.stop();
    let error = running.ends().0.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(error.to_string().starts_with("the client does not read: "), "{error}");
}

/// A server that reads nothing stops the proxy from reading its client, so the number of queued bytes is bounded.
#[test]
fn fr14_a_client_is_not_read_while_its_server_does_not_read() {
    let running = Running::connected("tail -f /dev/null", |config| config.limits.queue_bytes = 64 * 1024);
    let (count, params) = (20_000, format!(r#"{{"name":"t","arguments":{{"text":"{}"}}}}"#, "x".repeat(1000)));
    for id in 1..=count {
        running.write(&request(&id.to_string(), "tools/call", &params));
    }
    let read = || running.noted.0.lock().unwrap().iter().filter(|note| note.starts_with("> ")).count();
    let mut before = 0;
    wait_until(|| read() > 2);
    while read() > before {
        before = read();
        thread::sleep(Duration::from_millis(100));
    }
    assert!(before < count, "{before} were read");
    running.stopper.stop();
    assert_eq!(running.ends().0.unwrap(), CloseReason::Local);
}

#[test]
fn inputs_beyond_a_limit_wait_for_the_thread_that_holds_the_relay() {
    let proxy_loop = ProxyLoop::<Stdio, Child<Input<FromChild>>>::new();
    let shared = Arc::clone(&proxy_loop.shared);
    let handed_in = Arc::new(Mutex::new(0));
    let mut state = proxy_loop.shared.lock.state();
    proxy_loop.shared.try_send(Input::Client(Happened::Written));
    assert_eq!(proxy_loop.shared.lock.waiting(), 1);
    assert!(!proxy_loop.shared.pass_queued_input(&mut state) && !proxy_loop.shared.lock.has_input());
    let count = Arc::clone(&handed_in);
    let sending = thread::spawn(move || {
        (0..INBOX + 2)
            .map(|_| {
                let is_taken = shared.send(Input::Client(Happened::Written));
                *count.lock().unwrap() += 1;
                is_taken
            })
            .collect::<Vec<_>>()
    });
    wait_until(|| *handed_in.lock().unwrap() == INBOX);
    thread::sleep(Duration::from_millis(50));
    assert_eq!((*handed_in.lock().unwrap(), proxy_loop.shared.lock.waiting()), (INBOX, INBOX + 1));
    drop(state);
    let taken = sending.join().unwrap();
    // There is no relay yet, so the inputs are discarded.
    assert_eq!(taken, [vec![true; INBOX], vec![false; 2]].concat());
    assert!(!proxy_loop.shared.lock.has_input() && proxy_loop.alarms.try_recv().is_err());
    // A relay that is ending accepts inputs, and the thread that handles timeouts is woken, because it may wait for
    // this input.
    *proxy_loop.shared.lock.state() = State::Ending;
    assert!(proxy_loop.shared.send(Input::Client(Happened::Written)));
    proxy_loop.alarms.try_recv().unwrap();
}
