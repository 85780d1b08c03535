//! Tests with peers that stop reading or never read: every request has one outcome in time, and every proxy ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::Json;
use mcp_testkit::loopback_server::{LoopbackServer, PostedMessage, mcp_server};
use mcp_testkit::messages::{INITIALIZED, event, initialize, request, result};
use tests::parallel::{case, run_all};
use tests::unread_pipes::{Life, MORE_THAN_A_PIPE, MORE_THAN_A_SOCKET, Reading, params};

use crate::editor::command;

/// A limit for documented timeouts of a few seconds, on a busy machine. The defects that these tests cover blocked
/// forever.
const PATIENCE: Duration = Duration::from_secs(80);
/// The number of bytes that are read of a stream before the reader stops.
const HALF: usize = 70_000;
/// The number of requests of a test.
const REQUESTS: usize = 20;

/// How a proxy is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client closes stdin.
    Input,
    /// One SIGTERM.
    Signal,
    /// A second SIGTERM while the first is being handled.
    Signals,
}

impl End {
    const ALL: [Self; 3] = [Self::Input, Self::Signal, Self::Signals];
}

/// A proxy, and its streams.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Streams that are open but not read.
    _held: [Option<Box<dyn Read + Send>>; 2],
}

impl Running {
    /// Starts a proxy whose streams are read like this; with `None`, all lines are read.
    fn start(command: &mut Command, stdout: Option<Reading>, stderr: Option<Reading>) -> (Self, Receiver<String>) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if stderr.is_some() {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().expect("the proxy starts");
        let (lines, read) = channel();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().and_then(|stream| consume(stream, stdout, &lines));
        let stderr = child.stderr.take().and_then(|stream| consume(stream, stderr, &lines));
        (Self { child, stdin, _held: [stdout, stderr] }, read)
    }

    /// Writes lines without waiting for the proxy to take them.
    fn write(&mut self, lines: Vec<String>) -> thread::JoinHandle<ChildStdin> {
        let mut stdin = self.stdin.take().expect("stdin is open");
        thread::spawn(move || {
            // A proxy that has ended does not read the rest.
            let _ = lines.into_iter().try_for_each(|line| writeln!(stdin, "{line}"));
            stdin
        })
    }

    fn signal(&self) {
        let status = Command::new("kill").args(["-s", "TERM", &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Ends the proxy, and returns how it ended.
    fn end(mut self, how: End, writing: thread::JoinHandle<ChildStdin>) -> ExitStatus {
        match how {
            End::Input => drop(thread::spawn(move || drop(writing.join()))),
            End::Signal => self.signal(),
            End::Signals => {
                self.signal();
                // Two signals count as one if the second arrives before the first is handled.
                thread::sleep(Duration::from_millis(300));
                self.signal();
            }
        }
        self.wait()
    }

    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < until, "the proxy does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a stream on a dedicated thread, or returns it if it is not to be read.
fn consume(
    mut stream: impl Read + Send + 'static,
    reading: Option<Reading>,
    lines: &Sender<String>,
) -> Option<Box<dyn Read + Send>> {
    let lines = lines.clone();
    match reading {
        None => drop(thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        })),
        Some(Reading::Never | Reading::Flooding) => return Some(Box::new(stream)),
        Some(Reading::ByteASecond) => drop(thread::spawn(move || {
            while stream.read(&mut [0]).is_ok_and(|length| length > 0) {
                thread::sleep(Duration::from_secs(1));
            }
        })),
        Some(Reading::Halfway) => drop(thread::spawn(move || {
            let _ = stream.read_exact(&mut vec![0; HALF]);
            thread::sleep(PATIENCE * 2);
            drop(stream);
        })),
        Some(Reading::Closed) => drop(stream),
    }
    None
}

/// The messages that open a session, followed by `calls` calls with parameters of `bytes` bytes.
fn conversation(calls: usize, bytes: usize) -> Vec<String> {
    let params = params(bytes).to_text().into_owned();
    let opening = [initialize("0", "2025-11-25"), INITIALIZED.to_owned()];
    opening.into_iter().chain((1..=calls).map(|id| request(&id.to_string(), "tools/call", &params))).collect()
}

/// A server that sends `stray` responses without a request before each of its answers, and results of `bytes` bytes.
fn wordy_server(stray: usize, bytes: usize) -> LoopbackServer {
    LoopbackServer::start(mcp_server(move |asked, connection| {
        connection.begin_events()?;
        let stray = event(&result("\"stray\"", "{}")).repeat(stray);
        connection.chunk(stray + &event(&result(&asked.id, &format!("\"{}\"", "x".repeat(bytes)))))?;
        connection.finish()
    }))
}

/// Waits until the server has received this number of calls.
fn wait_for_calls(server: &LoopbackServer, calls: usize) {
    let is_call = |asked: &PostedMessage| asked.method == "tools/call";
    let count = |server: &LoopbackServer| server.asked().into_iter().filter(is_call).count();
    server.wait(|server| (count(server) >= calls).then_some(())).expect("the calls arrive");
    // Time for the server's output to fill the buffers. If it is too short, the test proves less, but does not fail.
    thread::sleep(Duration::from_secs(1));
}

fn assert_status(status: ExitStatus, expected: &[i32]) {
    assert!(status.code().is_some_and(|code| expected.contains(&code)), "{status}, not {expected:?}");
}

#[test]
fn a_proxy_ends_whatever_its_client_does_not_read() {
    let mut cases = Vec::new();
    for reading in Reading::OF_SOCKETS {
        for how in End::ALL {
            cases.push(case(format!("stdout {reading:?}, {how:?}"), move || {
                let server = wordy_server(0, 6 * MORE_THAN_A_PIPE);
                let mut command = command(&["--log-level", "error", "--drain-timeout", "60", &server.url()]);
                let life = Life::of(&mut command);
                let (mut proxy, _) = Running::start(&mut command, Some(reading), None);
                drop(command);
                let writing = proxy.write(conversation(2, 1));
                // If its stdout is closed, the proxy ends by itself.
                if reading == Reading::Closed {
                    server.wait_for("POST");
                } else {
                    wait_for_calls(&server, 2);
                }
                let status = proxy.end(how, writing);
                assert_status(
                    status,
                    match (reading, how) {
                        (Reading::Closed, End::Input | End::Signal) => &[0],
                        // Requests in flight are answered first, so more than a pipe holds remains to be written.
                        (_, End::Input) => &[1],
                        // What the server has sent by then may fit into the pipe.
                        (_, End::Signal) => &[0, 1],
                        (_, End::Signals) => &[0, 1, 130],
                    },
                );
                let log = life.ends();
                assert_eq!(log.contains("the client does not read: "), status.code() == Some(1), "{log}");
            }));
            cases.push(case(format!("stderr {reading:?}, {how:?}"), move || {
                let server = wordy_server(3000, 1);
                let mut command = command(&[&server.url()]);
                let (mut proxy, lines) = Running::start(&mut command, None, Some(reading));
                let writing = proxy.write(conversation(3, 1));
                // Logging three thousand faults per call delays no response.
                let answers: Vec<_> = (0..4).map(|_| lines.recv_timeout(PATIENCE).expect("an answer")).collect();
                assert!(answers.iter().all(|line| line.contains(r#""result":"#)));
                let status = proxy.end(how, writing);
                assert_status(status, if how == End::Signals { &[0, 130] } else { &[0] });
            }));
        }
    }
    run_all(cases);
}

/// The outcomes of requests by id. A second outcome for an id panics.
#[derive(Default)]
struct Outcomes(BTreeMap<String, String>);

impl Outcomes {
    fn add(&mut self, line: String) {
        let line = Json::parse(line).expect("a message");
        let member = |name| line.member(name).expect("no name twice");
        let outcome = member("result").or(member("error")).map(|outcome| outcome.to_text().into_owned());
        if let (Some(id), Some(outcome)) = (member("id"), outcome) {
            assert!(self.0.insert(id.to_text().into_owned(), outcome).is_none(), "two outcomes");
        }
    }
}

#[test]
fn every_request_has_one_outcome_whatever_the_server_does_not_read() {
    let mut cases = Vec::new();
    for how in End::ALL {
        for reading in Reading::OF_CHILDREN {
            cases.push(case(format!("child {reading:?}, {how:?}"), move || {
                let server = reading.child();
                let mut command = command(&["--request-timeout", "3", "--protocol", "2025-11-25", "--"]);
                command.arg(server.get_program()).args(server.get_args());
                // If the server closes its stdin, the proxy ends with it. While a server waits for the client's
                // responses, request timeouts are paused (TO-04).
                let answers = !matches!(reading, Reading::Closed | Reading::Flooding);
                ends_before(command, REQUESTS, MORE_THAN_A_PIPE, how, answers);
            }));
        }
        for reading in Reading::OF_SOCKETS {
            cases.push(case(format!("socket {reading:?}, {how:?}"), move || {
                let server = reading.server();
                let options = ["--request-timeout", "3", "--protocol", "2025-11-25", &server.url()];
                ends_before(command(&options), 3, MORE_THAN_A_SOCKET, how, true);
            }));
        }
    }
    run_all(cases);
}

/// Sends more than any buffer holds, then checks that the proxy ends with all processes that it has started. With
/// `answers`, every call has its outcome before.
fn ends_before(mut command: Command, calls: usize, bytes: usize, how: End, answers: bool) {
    let life = Life::of(&mut command);
    let (mut proxy, lines) = Running::start(&mut command, None, None);
    drop(command);
    let writing = proxy.write(conversation(calls, bytes));
    let mut outcomes = Outcomes::default();
    while outcomes.0.len() < if answers { calls + 1 } else { 1 } {
        outcomes.add(lines.recv_timeout(PATIENCE).expect("a line, while outcomes are missing"));
    }
    let status = proxy.end(how, writing);
    assert_status(status, if how == End::Signals { &[0, 1, 130] } else { &[0, 1] });
    life.ends();
    for line in &lines {
        outcomes.add(line);
    }
    for (id, outcome) in &outcomes.0 {
        assert_eq!(outcome.contains(r#""message":"#), id != "\"0\"" && id != "0", "{id}: {outcome}");
    }
    if how == End::Input && status.success() {
        assert_eq!(outcomes.0.len(), calls + 1);
    }
}

#[test]
fn a_command_whose_output_has_no_reader_reports_no_error() {
    let unused = "http://127.0.0.1:1/mcp";
    for arguments in [&["demo"][..], &["--check", unused], &["whoami", unused], &["--help"], &["serve", "--help"]] {
        let (stdout, reader) = UnixStream::pair().expect("a pair of sockets");
        drop(reader);
        let output = command(arguments).stdout(OwnedFd::from(stdout)).output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}
