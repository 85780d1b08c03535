//! Instances of a server that share a store in memory, under a virtual clock.

use std::time::Duration;

use mcp_proto::server::{Config, ExchangeKey, HttpConfig, SessionMode, StoredSessions};
use mcp_proto::store::{MemoryStore, StoreAction, StoreResult};
use mcp_proto::{InstanceId, Json, Ticket};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, request};

/// Instances of a server that share a store.
pub struct Instances {
    /// The instances.
    pub servers: Vec<HttpServerHarness>,
    /// Their store.
    pub store: MemoryStore,
    /// Whether the store answers. If not, every action fails.
    pub is_reachable: bool,
    ids: Vec<InstanceId>,
    change: fn(&mut HttpConfig, &mut Config),
    started: u64,
}

impl Instances {
    /// This many instances.
    pub fn new(count: usize) -> Self {
        Self::with(count, |_, _| {})
    }

    /// This many instances with a changed configuration.
    pub fn with(count: usize, change: fn(&mut HttpConfig, &mut Config)) -> Self {
        let (servers, ids) = (Vec::new(), Vec::new());
        let mut instances = Self { servers, store: MemoryStore::new(), is_reachable: true, ids, change, started: 0 };
        for _ in 0..count {
            let (id, server) = instances.start();
            instances.ids.push(id);
            instances.servers.push(server);
        }
        instances
    }

    fn start(&mut self) -> (InstanceId, HttpServerHarness) {
        self.started += 1;
        let id = InstanceId::new(0xa000 + self.started);
        let mut server = HttpServerHarness::with(|http, config| {
            http.sessions = SessionMode::Stored(StoredSessions::new(id));
            let declared = r#"{"logging":{},"tools":{"listChanged":true},"resources":{"subscribe":true}}"#;
            config.capabilities = Json::parse(declared).expect("JSON");
            (self.change)(http, config);
        });
        server.drawn = self.started * 1_000_000;
        self.store.register(id);
        (id, server)
    }

    /// An instance ends without notice, and another one is started in its place.
    pub fn kill(&mut self, at: usize) {
        let now = self.servers[at].now;
        self.store.unregister(self.ids[at]);
        let (id, mut server) = self.start();
        server.now = now;
        (self.ids[at], self.servers[at]) = (id, server);
        self.settle();
    }

    /// The id of an instance.
    pub fn id(&self, at: usize) -> InstanceId {
        self.ids[at]
    }

    /// Carries out what the instances ask of the store, until they ask nothing more.
    pub fn settle(&mut self) {
        let mut is_quiet = false;
        while !is_quiet {
            is_quiet = true;
            for (server, id) in self.servers.iter_mut().zip(&self.ids) {
                server.settle();
                for action in std::mem::take(&mut server.store_actions) {
                    is_quiet = false;
                    let result = if self.is_reachable {
                        self.store.carry_out(*id, &action, server.now)
                    } else {
                        Some(StoreResult::Failed)
                    };
                    if let (Some(key), Some(result)) = (action.key(), result) {
                        server.server.handle_stored(key, result, server.now);
                    }
                }
                while let Some(message) = self.store.poll_message(*id).filter(|_| self.is_reachable) {
                    is_quiet = false;
                    server.server.handle_message(&message, server.now);
                }
            }
        }
    }

    /// Passes a whole request to an instance.
    pub fn ask(&mut self, at: usize, asked: &TestRequest) -> ExchangeKey {
        let exchange = self.servers[at].ask(asked);
        self.settle();
        exchange
    }

    /// Passes a whole request to an instance, which reads the record of the session. What it asks of the store then is
    /// returned, and not carried out.
    pub fn ask_and_hold(&mut self, at: usize, asked: &TestRequest) -> (ExchangeKey, StoreAction) {
        let (id, server) = (self.ids[at], &mut self.servers[at]);
        let exchange = server.ask(asked);
        let load = server.store_actions.remove(0);
        let record = self.store.carry_out(id, &load, server.now).expect("an answer");
        server.server.handle_stored(load.key().expect("a key"), record, server.now);
        server.settle();
        let held = server.store_actions.remove(0);
        assert!(server.store_actions.is_empty(), "{held:?}");
        (exchange, held)
    }

    /// Passes a whole request to an instance; returns what it sends at once.
    pub fn answer(&mut self, at: usize, asked: &TestRequest) -> TestResponse {
        let exchange = self.ask(at, asked);
        self.take(at, exchange)
    }

    /// Takes what an instance has sent on an exchange since the last call.
    pub fn take(&mut self, at: usize, exchange: ExchangeKey) -> TestResponse {
        self.settle();
        self.servers[at].take(exchange)
    }

    /// Opens a session at an instance, without confirming it; returns its id.
    pub fn open(&mut self, at: usize, version: &str) -> String {
        self.open_by(at, version, None)
    }

    /// Opens a session of a principal at an instance, without confirming it; returns its id.
    pub fn open_by(&mut self, at: usize, version: &str, principal: Option<&str>) -> String {
        let request = TestRequest::post(initialize(version));
        let opened = self.answer(at, &principal.map_or(request.clone(), |principal| request.by(principal)));
        assert_eq!(opened.code(), 200, "{}", opened.text());
        opened.headers["mcp-session-id"].to_str().expect("text").to_owned()
    }

    /// Opens a session at an instance, and confirms it at another one.
    pub fn session(&mut self, at: usize, confirmed_at: usize, version: &str) -> String {
        let id = self.open(at, version);
        let confirmed = self.answer(confirmed_at, &TestRequest::post(INITIALIZED).in_session(&id));
        assert_eq!(confirmed.code(), 202);
        id
    }

    /// Makes a call in a session at an instance; returns its exchange and its ticket.
    pub fn call(&mut self, at: usize, session: &str, id: &str, params: &str) -> (ExchangeKey, Ticket) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        let exchange = self.ask(at, &TestRequest::post(body).in_session(session));
        (exchange, self.servers[at].ticket())
    }

    /// Answers a request that an instance has received.
    pub fn respond(&mut self, at: usize, ticket: Ticket, result: &str) {
        self.servers[at].respond(ticket, result);
        self.settle();
    }

    /// The client has disconnected from an exchange of an instance.
    pub fn disconnect(&mut self, at: usize, exchange: ExchangeKey) {
        let server = &mut self.servers[at];
        server.server.handle_disconnect(exchange, server.now);
        self.settle();
    }

    /// Advances the time of all instances, in steps of a second.
    pub fn pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(Duration::from_secs(1));
            left -= step;
            for server in &mut self.servers {
                server.pass(step);
            }
            self.settle();
        }
    }
}

/// A `ping` in this session.
pub fn ping(session: &str) -> TestRequest {
    TestRequest::post(request("1", "ping", "{}")).in_session(session)
}

/// The end of this session.
pub fn delete(session: &str) -> TestRequest {
    TestRequest::new("DELETE", "").in_session(session)
}

/// A GET that asks for the stream of this session.
pub fn get(session: &str) -> TestRequest {
    TestRequest::get().in_session(session)
}

/// A GET that resumes a stream of this session after this event.
pub fn resume(session: &str, after: &str) -> TestRequest {
    get(session).with("last-event-id", after)
}

/// A request that sets the log level of this session.
pub fn set_level(session: &str, level: &str) -> TestRequest {
    TestRequest::post(request("8", "logging/setLevel", &format!(r#"{{"level":"{level}"}}"#))).in_session(session)
}
