//! A Redis server for tests: on a free port of loopback, with a directory of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::LONG;

use crate::installed::is_installed;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A Redis server, which is ended with the test. It keeps what it has answered, also if it is ended without notice.
#[derive(Debug)]
pub struct RedisServer {
    address: RawClient,
    directory: PathBuf,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server. Where `redis-server` is not installed, writes to stderr that the test is skipped, and returns `None`.
    ///
    /// # Panics
    ///
    /// If there is no program `redis-server`, and the environment variable `MCP_ALL_TESTS` is set.
    pub fn start_if_installed() -> Option<Self> {
        is_installed("redis-server").then(Self::start)
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If there is no program `redis-server`.
    pub fn start() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("mcp-redis-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for temporary files");
        let mut server = Self { address: RawClient::free(), directory, child: None };
        server.start_again();
        server
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address.address())
    }

    /// Ends the server without notice. Connections to it are refused.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the server again, with the data that it had, and waits until it serves.
    pub fn start_again(&mut self) {
        let port = self.address.address().rsplit(':').next().expect("a port").to_owned();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", "always", "--dir"]).arg(&self.directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("redis-server cannot be started ({error}); install the package redis-server or valkey-server");
        });
        self.child = Some(child);
        let until = Instant::now() + LONG;
        while self.ask("PING") != "+PONG" {
            assert!(Instant::now() < until, "redis-server does not answer");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops the process of the server from running, or lets it continue: connections stay open.
    pub fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("a server").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    }

    /// Sends a command on a connection of its own; returns the first line of the answer, or nothing.
    pub fn ask(&self, command: &str) -> String {
        self.ask_for_all(command).lines().next().unwrap_or_default().to_owned()
    }

    /// Sends a command on a connection of its own; returns all lines of the answer.
    pub fn ask_for_all(&self, command: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(self.address.address()) else { return String::new() };
        let mut answer = String::new();
        let asked = stream.set_read_timeout(Some(LONG)).and_then(|()| write!(stream, "{command}\r\nQUIT\r\n"));
        let _ = asked.and_then(|()| stream.read_to_string(&mut answer));
        answer.replace("\r\n", "\n").strip_suffix("+OK\n").unwrap_or_default().trim_end().to_owned()
    }

    /// The names of all keys.
    pub fn keys(&self) -> Vec<String> {
        let all = self.ask_for_all("KEYS *");
        all.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
