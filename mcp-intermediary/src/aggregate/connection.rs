//! One server that is running: a relay to it, and a client of that relay in the revisions of the aggregate's client.
//!
//! The relay converts between the eras, so that the aggregate forwards messages of one era only.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::client::{self, Client, Opening};
use mcp_proto::{
    Instant, Json, Load, Output, ProcessEnd, ProtocolVersion, StartFailure, Stdio, StdioAction, UsageError,
};

use crate::relay;
use crate::relay::Relay;

/// What the client of the aggregate has stated when it opened the connection.
#[derive(Debug, Clone)]
pub(super) enum Opener {
    /// `initialize` with these parameters.
    Session(Json),
    /// A stateless request of this client, with these capabilities.
    Requests { client_info: Json, capabilities: Json },
}

/// A server that is running.
pub(super) struct Connection {
    /// The relay that faces the server.
    relay: Relay<Stdio>,
    /// The client of the relay.
    pub(super) client: Client<Stdio>,
    /// What the relay has not taken yet, because its server is slow. The client counts it as unwritten.
    to_relay: VecDeque<Bytes>,
    /// The client has closed its stream to the relay.
    is_input_ended: bool,
    /// How the process ended, as a predicate such as "could not be started".
    pub(super) end: Option<Box<str>>,
    /// The server's stream has ended.
    pub(super) has_ended: bool,
    /// The process has ended.
    pub(super) has_stopped: bool,
    /// Since when the server can be used.
    pub(super) usable_since: Option<Instant>,
}

/// An output of a running server.
pub(super) enum ConnectionOutput {
    /// An action on the stream of the server.
    Action(StdioAction),
    /// A report of the relay.
    Relay(relay::Event),
    /// An event of the client.
    Client(client::Event),
}

impl Opener {
    pub(super) const fn is_stateless(&self) -> bool {
        matches!(self, Self::Requests { .. })
    }

    /// The revisions of the client's era.
    pub(super) fn versions(&self) -> Vec<ProtocolVersion> {
        let all = ProtocolVersion::ALL.iter().copied();
        all.filter(|version| version.is_stateless() == self.is_stateless()).collect()
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Session(params) => params.len(),
            Self::Requests { client_info, capabilities } => client_info.len() + capabilities.len(),
        }
    }
}

impl Connection {
    /// Connects to a server that was just started.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(super) fn new(config: relay::Config, opener: &Opener, now: Instant) -> Result<Self, UsageError> {
        let mut client = client::Config::new("", "");
        client.versions = opener.versions();
        client.limits = config.limits.clone();
        // A message that the relay does not take at once waits here. The relay bounds the waiting messages.
        client.limits.unwritten = client.limits.unwritten.saturating_add(client.limits.message).min(1 << 30);
        // The relay has the timeouts.
        let longest = config.max_timeout.saturating_mul(2).max(Duration::from_secs(1));
        (client.request_timeout, client.max_timeout, client.initialize_timeout) = (longest, longest, longest);
        client.discover_timeout = longest;
        client.reports_all_requests = true;
        let mut client = Client::new(Stdio::new(), client)?;
        match opener {
            Opener::Session(params) => client.connect_with(Opening::Initialize(params.clone()), now)?,
            Opener::Requests { client_info, capabilities } => {
                client.identify(client_info.clone(), capabilities.clone())?;
                client.connect(now)?;
            }
        }
        Ok(Self {
            relay: Relay::new(Stdio::new(), config)?,
            client,
            to_relay: VecDeque::new(),
            is_input_ended: false,
            has_ended: false,
            end: None,
            has_stopped: false,
            usable_since: None,
        })
    }

    /// Applies another filter.
    pub(super) fn set_filter(&mut self, filter: relay::Filter, now: Instant) {
        self.relay.set_filter(filter, now);
    }

    /// Bytes have arrived from the server.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.relay.handle_server_bytes(bytes, now);
    }

    /// The server's stream has accepted this many more bytes.
    pub(super) fn handle_written(&mut self, bytes: usize, now: Instant) {
        self.relay.handle_server_written(bytes, now);
    }

    /// The server's stream has ended.
    pub(super) fn handle_eof(&mut self, now: Instant) {
        self.has_ended = true;
        self.relay.handle_server_eof(now);
    }

    /// The server's process has ended.
    pub(super) fn handle_process_end(&mut self, end: ProcessEnd, now: Instant) {
        self.has_ended = true;
        self.end = Some(end.to_string().into());
        self.relay.handle_server_process_end(end, now);
    }

    /// The server's process could not be started.
    pub(super) fn handle_not_started(&mut self, failure: StartFailure, now: Instant) {
        self.end = Some(format!("could not be started: {failure}").into());
        self.relay.handle_server_not_started(failure, now);
    }

    /// Handles all timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.relay.handle_timeout(now);
        self.client.handle_timeout(now);
    }

    /// When [`Connection::handle_timeout`] must be called next.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [self.relay.poll_timeout(), self.client.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether more should be read from the server.
    pub(super) fn wants_bytes(&self) -> bool {
        self.relay.wants_body()
    }

    /// Calls that wait for input from now on can be continued only with this number.
    pub(super) const fn set_secret(&mut self, secret: u128) {
        self.relay.set_secret(secret);
    }

    pub(super) fn load(&self) -> Load {
        self.relay.load() + self.client.load()
    }

    /// Passes the outputs of the client and the relay to each other, up to the next one that concerns others.
    pub(super) fn poll_output(&mut self, now: Instant) -> Option<ConnectionOutput> {
        loop {
            if let Some(output) = self.client.poll_output() {
                match output {
                    Output::Action(StdioAction::Write(bytes)) => self.to_relay.push_back(bytes),
                    // There is no process between the client and the relay that could be replaced.
                    Output::Action(_) => self.is_input_ended = true,
                    Output::Event(event) => return Some(ConnectionOutput::Client(event)),
                }
            } else if !self.to_relay.is_empty() && self.relay.wants_bytes() {
                let bytes = self.to_relay.pop_front().unwrap_or_default();
                self.relay.handle_bytes(&bytes, now);
                self.client.handle_written(bytes.len(), now);
            } else if self.is_input_ended && self.to_relay.is_empty() {
                self.is_input_ended = false;
                self.relay.handle_eof(now);
            } else {
                match self.relay.poll_output()? {
                    Output::Action(relay::Action::Client(StdioAction::Write(bytes))) => {
                        self.client.handle_bytes(&bytes, now);
                        self.relay.handle_written(bytes.len(), now);
                    }
                    Output::Action(relay::Action::Client(_)) => self.client.handle_eof(now),
                    Output::Action(relay::Action::Server(action)) => return Some(ConnectionOutput::Action(action)),
                    Output::Event(event) => {
                        // Only this process has pins of the names before they are joined.
                        if let relay::Event::PinsChanged(pins) = &event {
                            self.relay.handle_pins(pins.clone(), now);
                        }
                        return Some(ConnectionOutput::Relay(event));
                    }
                }
            }
        }
    }
}
