//! The editor that uses the proxy.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::Json;
use mcp_testkit::messages::{INITIALIZED, initialize, initialize_result, request, result};
use mcp_testkit::waiting::LONG;

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) lines: Receiver<String>,
    pub(crate) stderr: Receiver<String>,
    /// The responses to requests of these methods while an outcome is awaited.
    pub(crate) answers: Vec<(&'static str, &'static str)>,
}

/// Lines of a stream, read by a dedicated thread.
pub(crate) fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

pub(crate) fn command(args: &[&str]) -> Command {
    tests::deadline::set();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-proxy"));
    command.args(args);
    for name in
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"]
    {
        command.env_remove(name);
    }
    // No test touches the tokens of the user who runs it, or opens a browser.
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proxy-home");
    command.env("MCP_PROXY_HOME", home).env("MCP_PROXY_NONINTERACTIVE", "1").stdin(Stdio::null());
    command
}

impl Proxy {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(command(args))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let (mut proxy, stdout) = Self::spawn_unread(&mut command);
        proxy.lines = lines(stdout);
        proxy
    }

    /// Starts a proxy whose stdout is not read yet.
    pub(crate) fn spawn_unread(command: &mut Command) -> (Self, ChildStdout) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // Another process that is being started may still have the file open to which the program was copied.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(Duration::from_millis(10)),
                started => break started.expect("the proxy starts"),
            }
        };
        let stdout = child.stdout.take().expect("a pipe");
        let stderr = lines(child.stderr.take().expect("a pipe"));
        let stdin = child.stdin.take();
        (Self { child, stdin, lines: channel().1, stderr, answers: Vec::new() }, stdout)
    }

    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the proxy reads");
    }

    /// Writes a line, unless the proxy has ended.
    pub(crate) fn try_write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        let _ = stdin.write_all(format!("{line}\n").as_bytes());
    }

    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(LONG).unwrap_or_else(|error| {
            let written = std::iter::from_fn(|| self.stderr.recv_timeout(Duration::from_millis(200)).ok());
            panic!("a line: {error}; on stderr: {:?}", written.collect::<Vec<_>>())
        })
    }

    /// Sends a request whose id is its method, and waits for its outcome.
    pub(crate) fn call(&mut self, method: &str) -> Result<Json, String> {
        let id = format!("\"{method}\"");
        self.write(&request(&id, method, "{}"));
        self.outcome(&id)
    }

    /// Waits for the outcome of a request, and skips other messages; panics at the outcome of another request.
    fn outcome(&mut self, id: &str) -> Result<Json, String> {
        loop {
            let line = Json::parse(self.line()).expect("a message");
            let member = |name| line.member(name).expect("no name twice");
            let method = member("method").map(|method| method.to_text().trim_matches('"').to_owned());
            let known = self.answers.iter().find(|(known, _)| method.as_deref() == Some(*known)).copied();
            if let (Some(asked), Some((_, answer))) = (member("id"), known) {
                self.write(&result(&asked.to_text(), answer));
                continue;
            }
            match (member("id"), member("result"), member("error")) {
                (Some(found), Some(result), None) if found.to_text() == id => return Ok(result),
                (Some(found), None, Some(error)) if found.to_text() == id => return Err(error.to_text().into_owned()),
                (_, None, None) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next line of stderr: from the log, or from the server.
    pub(crate) fn error(&self) -> String {
        self.stderr.recv_timeout(LONG).expect("a line on stderr")
    }

    /// The remaining lines of stderr: from the log, the server and the processes that it has started. Returns once all
    /// of them have ended.
    pub(crate) fn errors(&self) -> Vec<String> {
        let ended = Instant::now() + LONG;
        let next = || match self.stderr.recv_timeout(ended.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("a process lives"),
        };
        std::iter::from_fn(next).collect()
    }

    /// Sends `initialize`, and waits for the outcome.
    pub(crate) fn open(&mut self) -> Result<Json, String> {
        self.write(&initialize("0", "2025-11-25"));
        self.outcome("0")
    }

    pub(crate) fn initialize(&mut self) {
        self.write(&initialize("0", "2025-11-25"));
        assert_eq!(self.line(), result("0", &initialize_result("2025-11-25")));
        self.write(INITIALIZED);
    }

    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for the proxy to exit. Returns its exit status, and how long it took.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return (status, started.elapsed());
            }
            assert!(started.elapsed() < LONG, "the proxy does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// The peak memory of the proxy, in KiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a process");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
