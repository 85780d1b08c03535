//! Servers that answer the handshake and then do not read what is written to them, as child processes and on sockets.
//!
//! Every driver with a client runs the table: each [`Reading`] with each way in which a client can end its calls.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mcp_proto::Json;
use mcp_testkit::http1;
use mcp_testkit::loopback_server::PostedMessage;
use mcp_testkit::messages::{initialize_result, result};

/// Bytes of parameters that exceed any pipe (64 KiB on Linux), but not `Limits::queue_bytes`.
pub const MORE_THAN_A_PIPE: usize = 1 << 20;
/// Bytes of parameters that exceed the buffers of both ends of a loopback socket.
pub const MORE_THAN_A_SOCKET: usize = 12 << 20;
/// Bytes that a server reads with [`Reading::Halfway`].
const HALF: usize = 70_000;
/// The time limit for events that should happen soon.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much a server reads after the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Nothing.
    Never,
    /// One byte each second.
    ByteASecond,
    /// The beginning of the next message or request. It writes the beginning of a response, and nothing more.
    Halfway,
    /// Nothing: it closes its stdin, or every new connection, and does not exit.
    Closed,
    /// Nothing, and it writes requests without end. For child processes only.
    Flooding,
}

impl Reading {
    /// The behaviours of a server in a child process.
    pub const OF_CHILDREN: [Self; 5] = [Self::Never, Self::ByteASecond, Self::Halfway, Self::Closed, Self::Flooding];
    /// The behaviours of a server on a socket.
    pub const OF_SOCKETS: [Self; 4] = [Self::Never, Self::ByteASecond, Self::Halfway, Self::Closed];

    /// A server of revision 2025-11-25 for `sh`, which starts another process. Only SIGTERM ends both. It expects
    /// `initialize` to have the id 1.
    pub fn child(self) -> Command {
        Self::script(match self {
            Self::Never => "sleep 1000",
            Self::ByteASecond => "while :; do dd bs=1 count=1 <&3 >/dev/null 2>&1; sleep 1; done",
            Self::Halfway => "head -c $1 <&3 >/dev/null; printf '{\"jsonrpc\":\"2.0\",'; sleep 1000",
            Self::Closed => "exec 3<&-; sleep 1000",
            Self::Flooding => "yes '{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}'; sleep 1000",
        })
    }

    /// Like [`child`](Self::child), but its stdout ends one second after the handshake, while its processes continue.
    ///
    /// # Panics
    ///
    /// For a server that floods.
    pub fn child_whose_output_ends(self) -> Command {
        Self::script(match self {
            Self::Never => "sleep 1; exec >&-; sleep 1000",
            Self::ByteASecond => {
                "(while :; do dd bs=1 count=1 <&3 2>&1; sleep 1; done) >/dev/null & sleep 1; exec >&-; wait"
            }
            Self::Halfway => {
                "head -c $1 <&3 >/dev/null & sleep 1; printf '{\"jsonrpc\":\"2.0\",'; exec >&-; sleep 1000"
            }
            Self::Closed => "exec 3<&-; sleep 1; exec >&-; sleep 1000",
            Self::Flooding => panic!("the output of a flood has no end"),
        })
    }

    fn script(after: &str) -> Command {
        // A background process of a script has no stdin, so it is passed as descriptor 3.
        let script = format!(
            "exec 3<&0 </dev/null; read -r initialize <&3; echo \"$0\"; read -r initialized <&3; \
             sleep 1000 >/dev/null 3<&- & {after}"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script, &result("1", &initialize_result("2025-11-25")), &HALF.to_string()]);
        command
    }

    /// A server of revision 2025-11-25 over HTTP.
    pub fn server(self) -> UnreadServer {
        UnreadServer::start(self)
    }
}

/// Parameters of a tool call with this many bytes.
pub fn params(bytes: usize) -> Json {
    Json::parse(format!(r#"{{"name":"t","arguments":{{"x":"{}"}}}}"#, "x".repeat(bytes))).expect("JSON")
}

/// An HTTP server that answers each request of the handshake on a separate connection, and then reads only as much as
/// [`Reading`] specifies.
#[derive(Debug)]
pub struct UnreadServer {
    authority: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    reading: Reading,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether `notifications/initialized` was answered.
    is_initialized: bool,
    /// The number of connections since then.
    connections: usize,
    /// The open connections among them.
    open: Vec<TcpStream>,
    has_ended: bool,
}

impl UnreadServer {
    fn start(reading: Reading) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let authority = listener.local_addr().expect("its address").to_string();
        let shared = Arc::new(Shared { reading, state: Mutex::default(), changed: Condvar::new() });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&serving);
                if shared.state().has_ended {
                    return;
                }
                // A client that disconnects does not fail the test.
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { authority, shared }
    }

    /// The URL of the endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.authority)
    }

    /// Waits until this many connections were made after the handshake.
    ///
    /// # Panics
    ///
    /// If they are not made within 60 s.
    pub fn wait_for_connections(&self, count: usize) {
        let state = self.shared.state();
        let waiting = self.shared.changed.wait_timeout_while(state, PATIENCE, |state| state.connections < count);
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        assert!(state.connections >= count, "{} connections of {count}", state.connections);
    }

    /// Closes every connection and the port.
    pub fn end(&self) {
        let mut state = self.shared.state();
        state.has_ended = true;
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        // The thread that accepts connections ends at its next connection.
        drop(TcpStream::connect(&self.authority));
    }
}

impl Drop for UnreadServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut state = self.state();
        if !state.is_initialized {
            drop(state);
            return self.answer(stream);
        }
        // The connection may have been accepted just before the end.
        if state.has_ended {
            return Ok(());
        }
        state.connections += 1;
        state.open.push(stream.try_clone()?);
        drop(state);
        self.changed.notify_all();
        self.read(stream)
    }

    /// Answers one request of the handshake.
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut bytes = Vec::new();
        let request = loop {
            if let Some(request) = http1::read(&mut &bytes[..]).filter(|request| request.is_complete) {
                break request;
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                length => bytes.extend_from_slice(&buffer[..length]),
            }
        };
        let asked = PostedMessage::of(&request).filter(|_| request.line.starts_with("POST"));
        let (status, body) = match asked.as_ref().map(|asked| asked.method.as_str()) {
            Some("initialize") => {
                ("200 OK\r\nmcp-session-id: the-session", result("1", &initialize_result("2025-11-25")))
            }
            Some(_) => ("202 Accepted", String::new()),
            None => ("405 Method Not Allowed", String::new()),
        };
        // The flag is set before the response, because the next request may follow it at once.
        self.state().is_initialized |= asked.is_some_and(|asked| asked.method == "notifications/initialized");
        let fields = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
        stream.write_all(format!("HTTP/1.1 {status}\r\n{fields}\r\n\r\n{body}").as_bytes())
    }

    fn read(&self, mut stream: TcpStream) -> io::Result<()> {
        match self.reading {
            Reading::Never | Reading::Flooding => {}
            Reading::ByteASecond => {
                // After a shutdown, bytes that arrived before it can still be read.
                while stream.read(&mut [0])? > 0 && !self.state().has_ended {
                    thread::sleep(Duration::from_secs(1));
                }
            }
            Reading::Halfway => {
                // A request that is shorter than the buffer is read until the timeout.
                stream.set_read_timeout(Some(Duration::from_secs(1)))?;
                let mut buffer = vec![0; HALF];
                let _ = stream.read_exact(&mut buffer);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
                stream.write_all(format!("{head}{{\"jsonrpc\":").as_bytes())?;
            }
            Reading::Closed => stream.shutdown(Shutdown::Both)?,
        }
        Ok(())
    }
}

/// Detects whether processes of a command live: they share their stderr, whose read end is stored here.
#[cfg(unix)]
#[derive(Debug)]
pub struct Life(std::os::unix::net::UnixStream);

#[cfg(unix)]
impl Life {
    /// Watches the processes that this command starts. Their end is detected only after the command itself is dropped.
    pub fn of(command: &mut Command) -> Self {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        command.stderr(std::process::Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        Self(ours)
    }

    /// Waits until the last process has exited; returns what the processes wrote.
    ///
    /// # Panics
    ///
    /// If a process still runs after 60 s.
    pub fn ends(mut self) -> String {
        self.0.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut text = String::new();
        self.0.read_to_string(&mut text).expect("a process that was started lives");
        text
    }

    /// Whether a process still runs. Does not wait.
    pub fn goes_on(&mut self) -> bool {
        self.0.set_nonblocking(true).expect("a socket");
        let mut buffer = [0; 1024];
        let goes_on = loop {
            match self.0.read(&mut buffer) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        self.0.set_nonblocking(false).expect("a socket");
        goes_on
    }
}
