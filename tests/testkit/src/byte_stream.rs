//! A machine on a byte stream, with the test as its peer.

use std::time::Duration;

use mcp_proto::client::{self, Call, Client, Outcome};
use mcp_proto::server::{self, Server};
use mcp_proto::{Instant, Output, ProtocolVersion, RequestKey, Stdio, StdioAction};

use crate::http_client::legacy_client;
use crate::messages::{DISCOVERED, INITIALIZED, initialize, initialize_result, result};
use crate::transcript;

/// A machine and its output.
#[derive(Debug)]
pub struct ByteStreamHarness<M, E> {
    /// The machine.
    pub machine: M,
    /// The current virtual time.
    pub now: Instant,
    events: Vec<E>,
    written: Vec<u8>,
    /// Whether the machine has closed its outgoing stream.
    pub is_write_closed: bool,
    /// Whether the peer reads what the machine writes.
    pub is_read: bool,
    /// The number of times that the machine has requested a new server process.
    pub respawned: usize,
}

/// A server, whose client is the test.
pub type ServerStream = ByteStreamHarness<Server<Stdio>, server::Event>;
/// A client, whose server is the test.
pub type ClientStream = ByteStreamHarness<Client<Stdio>, client::Event>;

macro_rules! stream {
    ($stream:ty, $event:ty) => {
        impl $stream {
            /// Passes bytes to the machine.
            pub fn bytes(&mut self, bytes: &[u8]) {
                self.machine.handle_bytes(bytes, self.now);
                self.drain();
            }

            /// Passes a line to the machine.
            pub fn line(&mut self, line: impl AsRef<[u8]>) {
                self.bytes(line.as_ref());
                self.bytes(b"\n");
            }

            /// Ends the incoming stream.
            pub fn eof(&mut self) {
                self.machine.handle_eof(self.now);
                self.drain();
            }

            /// Takes all output.
            pub fn drain(&mut self) {
                while let Some(output) = transcript::added(self.now, "machine", self.machine.poll_output()) {
                    match output {
                        Output::Action(StdioAction::Write(bytes)) => {
                            assert!(!self.is_write_closed, "written after the stream was closed");
                            self.written.extend_from_slice(&bytes);
                            if self.is_read {
                                self.machine.handle_written(bytes.len(), self.now);
                            }
                        }
                        Output::Action(StdioAction::Respawn) => {
                            // The new process does not receive what was written to the old one.
                            self.written.clear();
                            self.respawned += 1;
                        }
                        Output::Action(_) => self.is_write_closed = true,
                        Output::Event(event) => self.events.push(event),
                    }
                }
                let can = [("wanting input", self.machine.wants_input())];
                transcript::add_state(self.now, "machine", self.machine.poll_timeout(), || self.machine.load(), &can);
            }

            /// Lines that the machine has written since the last call.
            pub fn lines(&mut self) -> Vec<String> {
                self.drain();
                let text = String::from_utf8(std::mem::take(&mut self.written)).expect("lines are UTF-8");
                assert!(text.is_empty() || text.ends_with('\n'), "an unfinished line: {text}");
                text.lines().map(str::to_owned).collect()
            }

            /// Events since the last call.
            pub fn events(&mut self) -> Vec<$event> {
                self.drain();
                std::mem::take(&mut self.events)
            }

            /// Advances the time, and fires each timer at its time.
            pub fn pass(&mut self, time: Duration) {
                let until = self.now + time;
                self.drain();
                while let Some(at) = self.machine.poll_timeout().filter(|at| *at <= until) {
                    self.now = self.now.max(at);
                    self.machine.handle_timeout(self.now);
                    self.drain();
                }
                self.now = until;
            }
        }
    };
}

stream!(ServerStream, server::Event);
stream!(ClientStream, client::Event);

impl<M, E> ByteStreamHarness<M, E> {
    /// A harness for this machine, with the test as its peer.
    pub fn of(machine: M) -> Self {
        let now = Instant::after_start(Duration::from_secs(3600));
        transcript::begin(now);
        Self {
            machine,
            now,
            events: Vec::new(),
            written: Vec::new(),
            is_write_closed: false,
            is_read: true,
            respawned: 0,
        }
    }
}

impl ServerStream {
    /// A server that has received nothing yet.
    pub fn server() -> Self {
        Self::server_with(|_| {})
    }

    /// Like [`server`](Self::server), with a changed configuration.
    pub fn server_with(change: impl FnOnce(&mut server::Config)) -> Self {
        let mut config = server::Config::new("s", "1");
        change(&mut config);
        Self::of(Server::new(Stdio::new(), config).expect("a configuration"))
    }

    /// A server after the handshake in this revision.
    pub fn ready(version: &str) -> Self {
        Self::ready_with(version, |_| {})
    }

    /// Like [`ready`](Self::ready), with a changed configuration.
    pub fn ready_with(version: &str, change: impl FnOnce(&mut server::Config)) -> Self {
        let mut stream = Self::server_with(change);
        stream.line(initialize("\"init\"", version));
        stream.line(INITIALIZED);
        assert_eq!(stream.lines().len(), 1);
        stream.events();
        stream
    }

    /// The tickets of the requests among the events since the last call.
    pub fn requested(&mut self) -> Vec<mcp_proto::Ticket> {
        self.events()
            .into_iter()
            .filter_map(|event| if let server::Event::Requested { ticket, .. } = event { Some(ticket) } else { None })
            .collect()
    }
}

impl ClientStream {
    /// A client that has not begun the handshake.
    pub fn client() -> Self {
        Self::of(Client::new(Stdio::new(), legacy_client("c")).expect("a configuration"))
    }

    /// A client after the handshake in 2025-11-25.
    pub fn connected() -> Self {
        Self::connected_with(|_| {})
    }

    /// Like [`connected`](Self::connected), with a changed configuration.
    pub fn connected_with(change: impl FnOnce(&mut client::Config)) -> Self {
        let mut config = legacy_client("c");
        change(&mut config);
        let mut stream = Self::of(Client::new(Stdio::new(), config).expect("a configuration"));
        stream.machine.connect(stream.now).expect("a fresh client");
        assert_eq!(stream.lines().len(), 1);
        stream.line(result("1", &initialize_result("2025-11-25")));
        assert_eq!(stream.lines(), [INITIALIZED]);
        stream.events();
        stream
    }

    /// A client that may use every revision, and has just sent `server/discover`.
    pub fn detecting_with(change: impl FnOnce(&mut client::Config)) -> Self {
        let mut config = client::Config::new("c", "1");
        config.versions = ProtocolVersion::ALL.to_vec();
        config.respawn = true;
        change(&mut config);
        let mut stream = Self::of(Client::new(Stdio::new(), config).expect("a configuration"));
        stream.machine.connect(stream.now).expect("a fresh client");
        stream
    }

    /// A client that is connected to a server of 2026-07-28.
    pub fn modern_with(change: impl FnOnce(&mut client::Config)) -> Self {
        let mut stream = Self::detecting_with(change);
        assert_eq!(stream.lines().len(), 1);
        stream.line(result("1", DISCOVERED));
        assert!(stream.machine.is_connected());
        stream.events();
        stream
    }

    /// Makes a request; returns its key and its id on the wire.
    pub fn request(&mut self, method: &str) -> (RequestKey, String) {
        let key = self.machine.request(Call::new(method), self.now).expect("an accepted request");
        let lines = self.lines();
        let line = lines.last().expect("a request was written");
        let id = line.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("an id");
        (key, id.to_owned())
    }

    /// The outcomes among the events since the last call, and all other events.
    pub fn outcomes(&mut self) -> (Vec<(RequestKey, Outcome)>, Vec<client::Event>) {
        let mut outcomes = Vec::new();
        let mut others = Vec::new();
        for event in self.events() {
            match event {
                client::Event::Responded { request, outcome } => outcomes.push((request, outcome)),
                event => others.push(event),
            }
        }
        (outcomes, others)
    }
}
