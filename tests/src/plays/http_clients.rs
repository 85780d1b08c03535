//! An HTTP server and its clients.

use std::time::Duration;

use mcp_proto::Json;
use mcp_proto::server::{ExchangeKey, TwoEndpoints};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{self, INITIALIZED};
use mcp_testkit::random::Random;

use super::messages::{LEGACY, MODERN};
use super::stdio_server::Application;
use super::{LONG, STEPS, limits, random_time};

/// The data that clients have received from a server.
struct Clients {
    /// All exchanges, open or not.
    exchanges: Vec<ExchangeKey>,
    sessions: Vec<String>,
    /// Paths to which sessions of the two-endpoint transport post messages.
    places: Vec<String>,
    /// Ids of events that were received.
    events: Vec<String>,
    next: u64,
}

/// Plays an HTTP server.
///
/// # Panics
///
/// The machine is not empty after the server was closed.
pub fn server_http(seed: u64) {
    let mut random = Random::new(seed);
    let mut harness = HttpServerHarness::with(|http, config| {
        config.limits = limits(&mut random);
        config.capabilities =
            Json::parse(r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#).expect("JSON");
        config.reports_ended_requests = true;
        config.reports_subscribe = random.one_in(4);
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        http.replay = *random.pick(&[0, 300, 100_000]);
        http.max_sessions = *random.pick(&[2, 20, 100]);
        http.max_streams = Some(*random.pick(&[1, 3, 100]));
        http.session_idle = *random.pick(&[Duration::from_secs(30), Duration::from_secs(600)]);
        if random.one_in(3) {
            http.evict_after = Duration::from_secs(1);
        }
        if random.one_in(3) {
            http.retry = Some(Duration::from_secs(2));
        }
    });
    let mut clients =
        Clients { exchanges: Vec::new(), sessions: Vec::new(), places: Vec::new(), events: Vec::new(), next: 0 };
    let mut application = Application::default();
    for _ in 0..STEPS {
        match random.below(14) {
            0..=6 => clients.ask(&mut harness, &mut random),
            7 => harness.pass(random_time(&mut random)),
            8 => clients.leave(&mut harness, &mut random),
            9 if random.one_in(5) => harness.is_read = !harness.is_read,
            10 if random.one_in(80) => harness.server.close(harness.now),
            _ => application.act(&mut harness.server, harness.now, &mut random),
        }
        application.read(harness.events());
        while harness.server.poll_subscription().is_some() {}
    }
    harness.server.close(harness.now);
    for exchange in clients.exchanges {
        harness.server.handle_disconnect(exchange, harness.now);
    }
    harness.pass(LONG);
    application.read(harness.events());
    application.check_end();
    assert_eq!(harness.server.load().to_string(), "nothing", "that is left");
}

impl Clients {
    fn ask(&mut self, harness: &mut HttpServerHarness, random: &mut Random) {
        self.next += 1;
        let id = self.next.to_string();
        let session = self.sessions.last().filter(|_| !random.one_in(12)).cloned().unwrap_or_else(|| "none".to_owned());
        let asked = match random.below(16) {
            _ if self.sessions.is_empty() && random.one_in(3) => TestRequest::post(initialize("2025-06-18")),
            0 => TestRequest::post(initialize(random.text(&["2025-11-25", "2025-03-26", "2024-11-05"]))),
            1 => TestRequest::post(INITIALIZED).in_session(&session),
            2 => {
                let stream = TestRequest::get().in_session(&session);
                match self.events.last().filter(|_| random.one_in(2)) {
                    Some(event) => stream.with("last-event-id", event),
                    None => stream,
                }
            }
            3 if random.one_in(3) => TestRequest::new("DELETE", "").in_session(&session),
            4 => TestRequest::get().at("/sse"),
            5 => {
                let place = self.places.last().map_or("/messages?sessionId=none", String::as_str);
                let body = if random.one_in(3) { initialize("2024-11-05") } else { Self::legacy(&id, random) };
                TestRequest::post(body).at(place)
            }
            6 => {
                let body = format!(
                    "[{},{}]",
                    Self::legacy(&id, random),
                    messages::request(&format!("\"b{id}\""), "tools/call", r#"{"name":"x"}"#)
                );
                TestRequest::post(body).in_session(&session)
            }
            7 => {
                let answered = random.below(4).to_string();
                let body = if random.one_in(3) {
                    messages::error(&answered, 7, "no")
                } else {
                    messages::result(&answered, r#"{"roots":[]}"#)
                };
                TestRequest::post(body).in_session(&session)
            }
            8 => {
                let cancelled = self.next.saturating_sub(1 + random.below(3));
                let body = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{cancelled}}}}}"#
                );
                TestRequest::post(body).in_session(&session)
            }
            9..=11 => {
                let (method, members) = random.pick(&MODERN);
                let members = members.replace("STATE", "\"s\"");
                let asked = TestRequest::stateless(&id, method, &members);
                match *method {
                    "tools/call" => asked.with("mcp-name", "x"),
                    "resources/read" => asked.with("mcp-name", "a:b"),
                    _ => asked,
                }
            }
            12 => {
                let asked = TestRequest::post(random.text(&["", "7", "{", "[]", r#"{"jsonrpc":"2.0"}"#]));
                asked.with(
                    random.text(&["accept", "content-type", "origin", "host"]),
                    random.text(&["", "text/html", "a"]),
                )
            }
            _ => TestRequest::post(Self::legacy(&id, random)).in_session(&session),
        };
        let asked = if random.one_in(15) { asked.by("somebody") } else { asked };
        let asked = if random.one_in(2) { asked.from(1) } else { asked };
        let exchange = if random.one_in(10) { harness.begin(&asked) } else { harness.ask(&asked) };
        self.exchanges.push(exchange);
        let Some(sent) = harness.peek(exchange) else { return };
        self.events.extend(sent.ids());
        self.places.extend(sent.data().into_iter().filter(|data| data.starts_with("/messages")));
        if sent.code() == 404 && !random.one_in(4) {
            self.sessions.retain(|known| *known != session);
        }
        if let Some(id) = sent.headers.get("mcp-session-id") {
            self.sessions.push(id.to_str().expect("text").to_owned());
        }
    }

    fn legacy(id: &str, random: &mut Random) -> String {
        let (method, params) = random.pick(&LEGACY);
        messages::request(id, method, params)
    }

    /// A client disconnects, or reads what was sent to it.
    fn leave(&self, harness: &mut HttpServerHarness, random: &mut Random) {
        if self.exchanges.is_empty() {
            return;
        }
        let exchange = *random.pick(&self.exchanges);
        if random.one_in(2) {
            harness.server.handle_disconnect(exchange, harness.now);
        } else {
            harness.server.handle_written(exchange, 100, harness.now);
        }
    }
}
