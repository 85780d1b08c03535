//! An HTTP server and its clients under a virtual clock.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::server::{Config, Event, ExchangeKey, Http, HttpAction, HttpConfig, RequestInfo, Server};
use mcp_proto::store::StoreAction;
use mcp_proto::{Instant, Json, Output, SessionKey, Ticket};

use crate::http_exchange::{TestRequest, TestResponse, initialize};
use crate::transcript;

/// The server, its responses, and its events.
#[derive(Debug)]
pub struct HttpServerHarness {
    /// The machine.
    pub server: Server<Http>,
    /// The current virtual time.
    pub now: Instant,
    /// What was sent to clients.
    pub responses: Responses,
    events: Vec<Event>,
    /// What the server asks of the store that it shares with others, in order.
    pub store_actions: Vec<StoreAction>,
    /// How many nonces were drawn. Instances of one server begin with different numbers.
    pub drawn: u64,
    /// Whether requests come through a router that has checked their paths.
    pub is_routed: bool,
    /// Whether the nonces, which should be random, are constant (CL4).
    pub is_constant: bool,
    /// Whether clients read what is sent to them.
    pub is_read: bool,
}

/// The responses of a server to its clients, collected from its actions.
#[derive(Debug, Default)]
pub struct Responses {
    sent: BTreeMap<ExchangeKey, TestResponse>,
    /// Exchanges for which the server sent `100 Continue`.
    pub continued: Vec<ExchangeKey>,
    /// Exchanges that the server has aborted.
    pub aborted: Vec<ExchangeKey>,
}

impl Responses {
    /// Carries out an action. Returns the number of bytes that were sent on an exchange.
    pub fn act(&mut self, action: HttpAction) -> Option<(ExchangeKey, usize)> {
        match action {
            HttpAction::Respond { exchange, response } => {
                let sent = self.open(exchange);
                assert!(sent.status.is_none(), "two responses");
                let (head, body) = response.into_parts();
                *sent = TestResponse {
                    status: Some(head.status),
                    headers: head.headers,
                    body: body.to_vec(),
                    is_over: true,
                    is_stream: false,
                };
                Some((exchange, body.len()))
            }
            HttpAction::Stream { exchange, head } => {
                let sent = self.open(exchange);
                assert!(sent.status.is_none(), "two responses");
                let head = head.into_parts().0;
                (sent.status, sent.headers, sent.is_stream) = (Some(head.status), head.headers, true);
                None
            }
            HttpAction::Write { exchange, chunk } => {
                self.open(exchange).body.extend_from_slice(&chunk);
                Some((exchange, chunk.len()))
            }
            HttpAction::Continue { exchange } => {
                self.continued.push(exchange);
                None
            }
            HttpAction::Finish { exchange } => {
                self.open(exchange).is_over = true;
                None
            }
            // An abort may follow the end of a response that the client did not read.
            HttpAction::Abort { exchange } => {
                assert!(!self.aborted.contains(&exchange), "aborted twice");
                self.sent.entry(exchange).or_default().is_over = true;
                self.aborted.push(exchange);
                None
            }
            action => panic!("{action:?} is new"),
        }
    }

    /// Takes what has been sent on an exchange since the last call.
    pub fn take(&mut self, exchange: ExchangeKey) -> TestResponse {
        self.sent.remove(&exchange).unwrap_or_default()
    }

    /// What has been sent on an exchange since it was last taken.
    pub fn peek(&self, exchange: ExchangeKey) -> Option<&TestResponse> {
        self.sent.get(&exchange)
    }

    /// The response so far on an exchange to which the server sends more; panics if the response is complete.
    fn open(&mut self, exchange: ExchangeKey) -> &mut TestResponse {
        let sent = self.sent.entry(exchange).or_default();
        assert!(!sent.is_over, "something came after the end of a response");
        sent
    }
}

/// Bytes in the place of the random ones of a request, other ones for each number.
pub fn nonce(number: u64) -> [u8; 32] {
    let mut nonce = [0; 32];
    for (part, salt) in nonce.chunks_mut(8).zip(1_u64..) {
        part.copy_from_slice(&(number * 8 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    nonce
}

impl HttpServerHarness {
    /// A server with the default configuration.
    pub fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// A server with a changed configuration.
    pub fn with(change: impl FnOnce(&mut HttpConfig, &mut Config)) -> Self {
        let (http, config) = Self::changed(change);
        Self::around(Server::new(http, config).expect("a configuration"))
    }

    /// A server with a changed configuration that passes all requests through.
    pub fn passing_through(change: impl FnOnce(&mut HttpConfig, &mut Config)) -> Self {
        let (http, config) = Self::changed(change);
        Self::around(Server::pass_through(http, config).expect("a configuration"))
    }

    fn changed(change: impl FnOnce(&mut HttpConfig, &mut Config)) -> (Http, Config) {
        let (mut http, mut config) = (HttpConfig::new(), Config::new("s", "1"));
        change(&mut http, &mut config);
        (Http::new(http), config)
    }

    fn around(server: Server<Http>) -> Self {
        let now = Instant::START;
        transcript::begin(now);
        Self {
            server,
            now,
            responses: Responses::default(),
            events: Vec::new(),
            store_actions: Vec::new(),
            drawn: 0,
            is_routed: false,
            is_constant: false,
            is_read: true,
        }
    }

    /// Passes the head of a request to the server.
    pub fn begin(&mut self, asked: &TestRequest) -> ExchangeKey {
        self.drawn += u64::from(!self.is_constant);
        let mut arrival = RequestInfo::new(nonce(self.drawn));
        arrival.authentication.clone_from(&asked.authentication);
        arrival.peer.clone_from(&asked.peer);
        arrival.is_routed = self.is_routed;
        arrival.unix_time = Some(self.unix_time());
        let key = self.server.handle_request(asked.head(), arrival, self.now);
        self.settle();
        key
    }

    /// Passes a whole request to the server, with its body in pieces of 7 bytes.
    pub fn ask(&mut self, asked: &TestRequest) -> ExchangeKey {
        self.ask_in_pieces_of(7, asked)
    }

    /// Passes a whole request to the server, with its body in pieces of this size.
    pub fn ask_in_pieces_of(&mut self, size: usize, asked: &TestRequest) -> ExchangeKey {
        let key = self.begin(asked);
        for piece in asked.body.chunks(size) {
            self.server.handle_body(key, piece, self.now);
        }
        self.server.handle_end(key, self.now);
        self.settle();
        key
    }

    /// Passes a whole request to the server; returns what it sends at once.
    pub fn answer(&mut self, asked: &TestRequest) -> TestResponse {
        let key = self.ask(asked);
        self.take(key)
    }

    /// Takes what has been sent on an exchange since the last call.
    pub fn take(&mut self, key: ExchangeKey) -> TestResponse {
        self.settle();
        self.responses.take(key)
    }

    /// What has been sent on an exchange since it was last taken.
    pub fn peek(&mut self, key: ExchangeKey) -> Option<&TestResponse> {
        self.settle();
        self.responses.peek(key)
    }

    /// Opens and confirms a session; returns its id.
    pub fn session(&mut self, version: &str) -> String {
        self.session_of(version, None)
    }

    /// Opens and confirms a session of a principal; returns its id.
    pub fn session_of(&mut self, version: &str, principal: Option<&str>) -> String {
        let by = |asked: TestRequest| if let Some(principal) = principal { asked.by(principal) } else { asked };
        let opened = self.answer(&by(TestRequest::post(initialize(version))));
        assert_eq!(opened.code(), 200, "{}", opened.text());
        let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
        let confirmed = self.answer(
            &by(TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).in_session(&id),
        );
        assert_eq!(confirmed.code(), 202);
        id
    }

    /// Makes a call in a session; returns its exchange and its ticket.
    pub fn call(&mut self, session: &str, id: &str, params: &str) -> (ExchangeKey, Ticket) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        let key = self.ask(&TestRequest::post(body).in_session(session));
        (key, self.ticket())
    }

    /// The ticket of the latest request.
    pub fn ticket(&mut self) -> Ticket {
        self.settle();
        let at = self.events.iter().rposition(|event| matches!(event, Event::Requested { .. })).expect("a request");
        match self.events.remove(at) {
            Event::Requested { ticket, .. } => ticket,
            _ => unreachable!("that is what was looked for"),
        }
    }

    /// Answers a request.
    pub fn respond(&mut self, ticket: Ticket, result: &str) {
        let result = Json::parse(result.to_owned()).expect("JSON");
        self.server.respond(ticket, Ok(result), self.now).expect("no code to be refused");
        self.settle();
    }

    /// The key of the latest session.
    pub fn last_session(&mut self) -> SessionKey {
        self.settle();
        let key = self.events.iter().rev().find_map(|event| match event {
            Event::Connected { session, .. } | Event::Restored { session, .. } => Some(*session),
            _ => None,
        });
        key.expect("a session")
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        self.settle();
        std::mem::take(&mut self.events)
    }

    /// Advances the time, and fires each timer at its time.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.server.poll_timeout().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.server.handle_timeout(self.now);
            self.settle();
        }
        self.now = until;
    }

    /// Seconds since 1970.
    pub fn unix_time(&self) -> u64 {
        1_800_000_000 + self.now.saturating_duration_since(Instant::START).as_secs()
    }

    /// Collects what the server sends and reports.
    pub fn settle(&mut self) {
        while let Some(output) = transcript::added(self.now, "server", self.server.poll_output()) {
            match output {
                Output::Event(event) => self.events.push(event),
                Output::Action(HttpAction::Store(action)) => self.store_actions.push(action),
                Output::Action(action) => {
                    if let Some((exchange, bytes)) = self.responses.act(action).filter(|_| self.is_read) {
                        self.server.handle_written(exchange, bytes, self.now);
                    }
                }
            }
        }
        let can = [("wanting input", self.server.wants_input())];
        transcript::add_state(self.now, "server", self.server.poll_timeout(), || self.server.load(), &can);
    }
}

impl Default for HttpServerHarness {
    fn default() -> Self {
        Self::new()
    }
}
