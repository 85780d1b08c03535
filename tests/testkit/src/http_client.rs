//! An HTTP machine in a test without sockets: the test acts as the server and advances the time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use mcp_intermediary::relay;
use mcp_intermediary::relay::{Action, Relay};
use mcp_proto::auth::ProofClaims;
use mcp_proto::client::{self, Client, Config, ExchangeKey, Failure, Http, HttpAction, HttpConfig, Outcome};
use mcp_proto::{Instant, Json, Load, Output, ProtocolVersion, RequestKey, StdioAction};

use crate::messages::{DISCOVERED, INITIALIZED, initialize, initialize_result, request, result};
use crate::transcript;

/// The URL of the server of a [`HttpClientHarness`].
pub const URL: &str = "http://server.example/mcp";

/// An output of a client or a relay, in a common form.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most steps open an exchange")]
pub enum Step<E> {
    /// Opens an exchange, with the claims of a proof if the request needs one.
    Open(ExchangeKey, Request<Bytes>, Option<ProofClaims>),
    /// Aborts an exchange.
    Abort(ExchangeKey),
    /// Writes bytes to the client of a relay.
    Write(Bytes),
    /// Closes the stream to the client of a relay.
    CloseWrite,
    /// Reports an event.
    Event(E),
}

/// A machine that makes HTTP requests.
pub trait Machine {
    /// The events that it reports.
    type Event;
    /// The next output.
    fn step(&mut self, now: Instant) -> Option<Step<Self::Event>>;
    /// See `Client::handle_sent`.
    fn sent(&mut self, exchange: ExchangeKey, now: Instant);
    /// See `Client::handle_response`.
    fn head(&mut self, exchange: ExchangeKey, head: &Parts, now: Instant);
    /// See `Client::handle_body`.
    fn body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant);
    /// See `Client::handle_end`.
    fn end(&mut self, exchange: ExchangeKey, now: Instant);
    /// See `Client::handle_failure`.
    fn fail(&mut self, exchange: ExchangeKey, failure: Failure, now: Instant);
    /// See `Relay::handle_written`.
    fn written(&mut self, bytes: usize, now: Instant);
    /// See `Client::handle_timeout`.
    fn timeout(&mut self, now: Instant);
    /// See `Client::poll_timeout`.
    fn next_timeout(&self) -> Option<Instant>;
    /// See `Client::load`.
    fn load(&self) -> Load;
}

macro_rules! machine {
    ($machine:ty, $event:ty, $written:expr, { $($actions:tt)* }) => {
        impl Machine for $machine {
            type Event = $event;
            fn step(&mut self, now: Instant) -> Option<Step<$event>> {
                Some(match transcript::added(now, "machine", self.poll_output())? {
                    Output::Event(event) => Step::Event(event),
                    $($actions)*
                    Output::Action(other) => panic!("the tests do not know {other:?}"),
                })
            }
            fn sent(&mut self, exchange: ExchangeKey, now: Instant) {
                self.handle_sent(exchange, now);
            }
            fn head(&mut self, exchange: ExchangeKey, head: &Parts, now: Instant) {
                self.handle_response(exchange, head, now);
            }
            fn body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
                self.handle_body(exchange, chunk, now);
            }
            fn end(&mut self, exchange: ExchangeKey, now: Instant) {
                self.handle_end(exchange, now);
            }
            fn fail(&mut self, exchange: ExchangeKey, failure: Failure, now: Instant) {
                self.handle_failure(exchange, failure, now);
            }
            fn written(&mut self, bytes: usize, now: Instant) {
                $written(self, bytes, now);
            }
            fn timeout(&mut self, now: Instant) {
                self.handle_timeout(now);
            }
            fn next_timeout(&self) -> Option<Instant> {
                self.poll_timeout()
            }
            fn load(&self) -> Load {
                self.load()
            }
        }
    };
}

machine!(Client<Http>, client::Event, |_: &mut Self, _, _| (), {
    Output::Action(HttpAction::Open { exchange, request, proof }) => Step::Open(exchange, request, proof),
    Output::Action(HttpAction::Abort { exchange }) => Step::Abort(exchange),
});
machine!(Relay, relay::Event, Relay::handle_written, {
    Output::Action(Action::Server(HttpAction::Open { exchange, request, proof })) => {
        Step::Open(exchange, request, proof)
    },
    Output::Action(Action::Server(HttpAction::Abort { exchange })) => Step::Abort(exchange),
    Output::Action(Action::Client(StdioAction::Write(bytes))) => Step::Write(bytes),
    Output::Action(Action::Client(StdioAction::CloseWrite)) => Step::CloseWrite,
});

/// A machine, its exchanges, and the virtual time.
#[derive(Debug)]
pub struct HttpClientHarness<M: Machine> {
    /// The machine.
    pub machine: M,
    /// The current virtual time.
    pub now: Instant,
    /// Exchanges that were opened and not yet returned by [`opened`](Self::opened).
    opened: VecDeque<Opened>,
    /// Exchanges that are open.
    open: BTreeSet<ExchangeKey>,
    aborted: BTreeSet<ExchangeKey>,
    events: VecDeque<M::Event>,
    written: Vec<u8>,
    /// Whether the machine has closed the stream to the client.
    pub is_write_closed: bool,
    /// The size of the pieces in which bodies arrive; `None` for a single piece.
    pub piece: Option<usize>,
}

/// An exchange that the machine opened.
#[derive(Debug)]
pub struct Opened {
    /// The key of the exchange.
    pub key: ExchangeKey,
    /// The HTTP request.
    pub request: Request<Bytes>,
    /// The claims of the proof that it needs.
    pub proof: Option<ProofClaims>,
}

impl Opened {
    /// Method and path, such as `POST /mcp`.
    pub fn line(&self) -> String {
        let path = self.request.uri().path_and_query().map_or("/", |path| path.as_str());
        format!("{} {path}", self.request.method())
    }

    /// The value of a header, or the empty string.
    pub fn header(&self, name: &str) -> &str {
        self.request.headers().get(name).map_or("", |value| value.to_str().expect("a visible header"))
    }

    /// The JSON text of a member of the parameters, or the empty string.
    pub fn param(&self, name: &str) -> String {
        let params = Json::parse(self.member("params")).expect("bodies have parameters");
        params.member(name).expect("unique members").map(|value| value.to_text().into_owned()).unwrap_or_default()
    }

    /// The body as text.
    pub fn body(&self) -> &str {
        std::str::from_utf8(self.request.body()).expect("bodies are UTF-8")
    }

    /// The JSON-RPC id in the body, as JSON text.
    pub fn id(&self) -> String {
        self.member("id")
    }

    /// The method in the body.
    pub fn method(&self) -> String {
        self.member("method").trim_matches('"').to_owned()
    }

    fn member(&self, name: &str) -> String {
        if self.request.body().is_empty() {
            return String::new();
        }
        let json = Json::parse(self.request.body().clone()).expect("bodies are JSON");
        json.member(name).expect("unique members").map(|value| value.to_text().into_owned()).unwrap_or_default()
    }
}

/// A response of the server.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    /// A response without a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// 200 with a JSON body.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::status(200).content_type("application/json").body(body)
    }

    /// 200 with a stream of events.
    pub fn events(body: impl Into<Vec<u8>>) -> Self {
        Self::status(200).content_type("text/event-stream").body(body)
    }

    /// A response with an HTML page.
    pub fn html(status: u16) -> Self {
        Self::status(status).content_type("text/html; charset=utf-8").body("<!DOCTYPE html>\n<p>Cannot POST /mcp")
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a content type.
    #[must_use]
    pub fn content_type(self, value: &str) -> Self {
        self.header("content-type", value)
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The head and the body.
    pub fn parts(&self) -> (Parts, Vec<u8>) {
        (self.head(), self.body.clone())
    }

    fn head(&self) -> Parts {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
        }
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = StatusCode::from_u16(self.status).expect("a status");
        parts.headers = headers;
        parts
    }
}

impl<M: Machine> HttpClientHarness<M> {
    /// A harness at the initial time, with this machine.
    pub fn new(machine: M) -> Self {
        let now = Instant::START;
        transcript::begin(now);
        Self {
            machine,
            now,
            opened: VecDeque::new(),
            open: BTreeSet::new(),
            aborted: BTreeSet::new(),
            events: VecDeque::new(),
            written: Vec::new(),
            is_write_closed: false,
            piece: None,
        }
    }

    /// Takes all output, and checks that its actions are valid.
    pub fn drain(&mut self) {
        for _ in 0..1_000_000 {
            match self.machine.step(self.now) {
                None => {
                    transcript::add_state(
                        self.now,
                        "machine",
                        self.machine.next_timeout(),
                        || self.machine.load(),
                        &[],
                    );
                    return;
                }
                Some(Step::Open(key, request, proof)) => {
                    assert!(self.open.insert(key), "{key:?} was opened twice");
                    assert!(!self.aborted.contains(&key), "{key:?} was opened after it was aborted");
                    assert_eq!(request.uri().authority().map(http::uri::Authority::as_str), Some("server.example"));
                    self.opened.push_back(Opened { key, request, proof });
                }
                Some(Step::Abort(key)) => {
                    assert!(self.open.remove(&key), "{key:?} was aborted and is not open");
                    self.aborted.insert(key);
                }
                Some(Step::Write(bytes)) => {
                    assert!(!self.is_write_closed, "written after the stream was closed");
                    self.written.extend_from_slice(&bytes);
                    self.machine.written(bytes.len(), self.now);
                }
                Some(Step::CloseWrite) => self.is_write_closed = true,
                Some(Step::Event(event)) => self.events.push_back(event),
            }
        }
        panic!("the machine never stops writing");
    }

    /// The next exchange that the machine has opened.
    pub fn opened(&mut self) -> Opened {
        self.drain();
        self.opened.pop_front().expect("an exchange was opened")
    }

    /// Whether an exchange was opened that [`opened`](Self::opened) has not returned.
    pub fn has_opened(&mut self) -> bool {
        self.drain();
        !self.opened.is_empty()
    }

    /// Whether an exchange is open, which means that neither side has ended it.
    pub fn is_open(&mut self, key: ExchangeKey) -> bool {
        self.drain();
        self.open.contains(&key)
    }

    /// Whether the machine has aborted an exchange.
    pub fn is_aborted(&mut self, key: ExchangeKey) -> bool {
        self.drain();
        self.aborted.contains(&key)
    }

    /// Events since the last call.
    pub fn events(&mut self) -> Vec<M::Event> {
        self.drain();
        self.events.drain(..).collect()
    }

    /// Sends a complete response.
    pub fn reply(&mut self, key: ExchangeKey, reply: &Reply) {
        self.begin(key, reply);
        self.end(key);
    }

    /// Sends the head and the first part of the body, and leaves the exchange open.
    pub fn begin(&mut self, key: ExchangeKey, reply: &Reply) {
        self.machine.sent(key, self.now);
        self.machine.head(key, &reply.head(), self.now);
        self.send(key, &reply.body);
    }

    /// Sends more of the body.
    pub fn send(&mut self, key: ExchangeKey, bytes: &[u8]) {
        for piece in bytes.chunks(self.piece.unwrap_or(usize::MAX)) {
            self.machine.body(key, piece, self.now);
            self.drain();
        }
        self.drain();
    }

    /// Ends the body.
    pub fn end(&mut self, key: ExchangeKey) {
        self.open.remove(&key);
        self.machine.end(key, self.now);
        self.drain();
    }

    /// Fails the exchange.
    pub fn fail(&mut self, key: ExchangeKey, failure: Failure) {
        self.open.remove(&key);
        self.machine.fail(key, failure, self.now);
        self.drain();
    }

    /// Fails the exchange as if no server listened at the address.
    pub fn refuse(&mut self, key: ExchangeKey) {
        self.fail(key, unreachable());
    }

    /// Advances the time, and fires each timer at its time.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.drain();
        for _ in 0..100_000 {
            match self.machine.next_timeout() {
                Some(at) if at <= until => {
                    self.now = self.now.max(at);
                    self.machine.timeout(self.now);
                    self.drain();
                }
                Some(_) | None => {
                    self.now = until;
                    return;
                }
            }
        }
        panic!("the machine's timers never end");
    }
}

impl HttpClientHarness<Relay> {
    /// A relay to the server at [`URL`].
    pub fn relay() -> Self {
        Self::relay_with(|_, _| {})
    }

    /// A relay with a changed configuration.
    pub fn relay_with(change: impl FnOnce(&mut relay::Config, &mut HttpConfig)) -> Self {
        let mut http = HttpConfig::new(URL).expect("a URL");
        let mut config = relay::Config::default();
        change(&mut config, &mut http);
        Self::new(Relay::new(Http::new(http), config).expect("a configuration"))
    }

    /// Passes a line of the client to the relay.
    pub fn line(&mut self, line: &str) {
        self.machine.handle_bytes(line.as_bytes(), self.now);
        self.machine.handle_bytes(b"\n", self.now);
        self.drain();
    }

    /// The lines that the relay has written to the client since the last call.
    pub fn lines(&mut self) -> Vec<String> {
        self.drain();
        let text = String::from_utf8(std::mem::take(&mut self.written)).expect("lines are UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'), "an unfinished line: {text}");
        text.lines().map(str::to_owned).collect()
    }

    /// Passes `initialize` of the client to the relay, and responds with a session.
    pub fn initialize(&mut self, version: &str, session: Option<&str>) {
        self.line(&initialize("\"init\"", version));
        let opened = self.opened();
        self.reply(opened.key, &initialize_reply(&opened, version, session));
        let lines = self.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(r#""id":"init","result":"#), "{}", lines[0]);
    }

    /// Confirms the session. The server accepts that and offers no GET stream.
    pub fn confirm(&mut self) {
        self.line(INITIALIZED);
        let opened = self.opened();
        assert_eq!(opened.body(), INITIALIZED);
        self.reply(opened.key, &Reply::status(202));
        let opened = self.opened();
        assert_eq!(opened.line(), "GET /mcp");
        self.reply(opened.key, &Reply::status(405));
        assert!(!self.has_opened());
    }

    /// A relay whose client is connected to a server of 2025-11-25 with a session.
    pub fn connected_relay() -> Self {
        Self::connected_relay_with(|_, _| {})
    }

    /// Like [`connected_relay`](Self::connected_relay), with a changed configuration.
    pub fn connected_relay_with(change: impl FnOnce(&mut relay::Config, &mut HttpConfig)) -> Self {
        let mut harness = Self::relay_with(change);
        harness.initialize("2025-11-25", Some("session-1"));
        harness.confirm();
        harness.events();
        harness
    }

    /// Passes a request of the client to the relay; returns the exchange that this opens.
    pub fn call(&mut self, id: &str, method: &str) -> Opened {
        self.line(&request(id, method, "{}"));
        let opened = self.opened();
        assert_eq!(opened.method(), method);
        opened
    }
}

impl HttpClientHarness<Client<Http>> {
    /// A client of the server at [`URL`].
    pub fn client() -> Self {
        Self::client_with(|_, _| {})
    }

    /// A client with a changed configuration.
    pub fn client_with(change: impl FnOnce(&mut Config, &mut HttpConfig)) -> Self {
        let mut http = HttpConfig::new(URL).expect("a URL");
        let mut config = legacy_client("tests");
        change(&mut config, &mut http);
        let mut harness = Self::new(Client::new(Http::new(http), config).expect("a configuration"));
        harness.machine.connect(harness.now).expect("a fresh client");
        harness
    }

    /// A client that is connected to a server of 2025-11-25 with a session and without a GET stream.
    pub fn connected_client() -> Self {
        Self::connected_client_with(|_, _| {})
    }

    /// Like [`connected_client`](Self::connected_client), with a changed configuration.
    pub fn connected_client_with(change: impl FnOnce(&mut Config, &mut HttpConfig)) -> Self {
        let mut harness = Self::client_with(change);
        let opened = harness.opened();
        harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(202));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(405));
        assert!(harness.machine.is_connected());
        harness.events();
        harness
    }

    /// A client that may use every revision, and has received nothing from the server yet.
    pub fn detecting_client() -> Self {
        Self::detecting_client_with(|_, _| {})
    }

    /// Like [`detecting_client`](Self::detecting_client), with a changed configuration.
    pub fn detecting_client_with(change: impl FnOnce(&mut Config, &mut HttpConfig)) -> Self {
        Self::client_with(|config, http| {
            config.versions = ProtocolVersion::ALL.to_vec();
            change(config, http);
        })
    }

    /// A client that is connected to a server of 2026-07-28.
    pub fn modern_client() -> Self {
        Self::modern_client_with(|_, _| {})
    }

    /// Like [`modern_client`](Self::modern_client), with a changed configuration.
    pub fn modern_client_with(change: impl FnOnce(&mut Config, &mut HttpConfig)) -> Self {
        let mut harness = Self::detecting_client_with(change);
        let opened = harness.opened();
        assert_eq!(opened.method(), "server/discover");
        harness.reply(opened.key, &Reply::json(result(&opened.id(), DISCOVERED)));
        assert!(harness.machine.is_connected());
        harness.events();
        harness
    }

    /// Makes a request with parameters; returns its key and the exchange that this opens.
    pub fn call(&mut self, method: &str, params: &str) -> (RequestKey, Opened) {
        let call = client::Call::new(method).params(Json::parse(params.to_owned()).expect("JSON"));
        let request = self.machine.request(call, self.now).expect("an accepted request");
        (request, self.opened())
    }

    /// Makes a request; returns its key and the exchange that this opens.
    pub fn request(&mut self, method: &str) -> (RequestKey, Opened) {
        let request = self.machine.request(client::Call::new(method), self.now).expect("an accepted request");
        (request, self.opened())
    }

    /// The outcomes among the events since the last call; each request has at most one.
    pub fn outcomes(&mut self) -> BTreeMap<RequestKey, Outcome> {
        let mut outcomes = BTreeMap::new();
        for event in self.events() {
            if let client::Event::Responded { request, outcome } = event {
                assert!(outcomes.insert(request, outcome).is_none(), "{request:?} has two outcomes");
            }
        }
        outcomes
    }

    /// The only outcome since the last call.
    pub fn outcome(&mut self) -> Outcome {
        let mut outcomes = self.outcomes();
        assert_eq!(outcomes.len(), 1, "{outcomes:?}");
        outcomes.pop_first().expect("one outcome").1
    }
}

/// The configuration of a client that uses only revisions that begin with `initialize`.
pub fn legacy_client(name: &str) -> Config {
    let mut config = Config::new(name, "1");
    config.versions = legacy_versions().collect();
    config
}

/// The revisions that begin with `initialize`.
pub fn legacy_versions() -> impl Iterator<Item = ProtocolVersion> {
    ProtocolVersion::ALL.iter().copied().filter(|version| !version.is_stateless())
}

/// A failure before any byte reached the server.
pub fn unreachable() -> Failure {
    Failure::Unreachable { detail: "connection refused".into() }
}

/// A failure after bytes may have reached the server.
pub fn broken() -> Failure {
    Failure::Broken { detail: "connection reset".into() }
}

/// The response to `initialize`.
pub fn initialize_reply(to: &Opened, version: &str, session: Option<&str>) -> Reply {
    let reply = Reply::json(result(&to.id(), &initialize_result(version)));
    match session {
        Some(session) => reply.header("mcp-session-id", session),
        None => reply,
    }
}
