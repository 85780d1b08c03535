//! Floods of many messages, each of which is within its own limit (M3). During each flood, small messages get through.

use mcp_proto::client::{self, Outcome};
use mcp_proto::server::{Event, HttpConfig, InputRequired};
use mcp_proto::{Ceilings, Failed, Intake, Json, Limits, Notification, ProtocolVersion, Ticket};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, event, initialize_with, request, result};

use super::{Account, CHUNK, INTAKE, limits};

/// The number of large messages in each flood.
pub(super) const MANY: usize = 150;
/// The number of bytes of a large message.
pub(super) const LARGE: usize = 1_000_000;

fn large() -> String {
    format!(r#"{{"name":"t","x":"{}"}}"#, "x".repeat(LARGE))
}

fn json(text: impl Into<String>) -> Json {
    Json::parse(text.into()).expect("JSON")
}

/// Limits with room for `MANY` requests.
fn roomy() -> Limits {
    let mut limits = limits();
    (limits.requests_in, limits.requests_out) = (MANY + 10, MANY + 10);
    limits.requests_in_total = limits.requests_in;
    limits
}

pub(super) fn all(account: &mut Account) {
    answers_that_arrive(account);
    what_servers_ask(account);
    servers_on_streams(account);
    requests_over_http(account);
    answers_over_http(account);
}

// ---- clients

fn answers_that_arrive(account: &mut Account) {
    let mut limits = limits();
    limits.exchanges = Limits::exchanges_for(MANY);
    limits.requests_out = 2 * MANY;
    let ceiling = Ceilings::new(&limits, &HttpConfig::new(), INTAKE).client_over_http;
    let connected = || HttpClientHarness::connected_client_with(|config, _| config.limits = limits.clone());
    let chunk = vec![b'x'; CHUNK];
    for (what, reply) in [
        ("JSON bodies", Reply::json("{\"x\":\"")),
        ("events", Reply::events("data: ")),
        ("ids of events", Reply::events("id: ")),
        ("types of events", Reply::events("event: ")),
    ] {
        account.flood("M3", &format!("client over HTTP: {MANY} {what} of the limit that do not end"), ceiling, || {
            let mut harness = connected();
            let calls: Vec<_> = (0..MANY).map(|_| harness.request("tools/list")).collect();
            for (_, opened) in &calls {
                harness.begin(opened.key, &reply);
            }
            for _ in 0..limits.message / CHUNK - 1 {
                for (_, opened) in &calls {
                    harness.machine.handle_body(opened.key, &chunk, harness.now);
                }
            }
            let failed = harness.outcomes();
            let is_refused = |outcome: &Outcome| matches!(outcome, Outcome::Failed(Failed::NoRoom { .. }));
            assert!(failed.len() > MANY / 2 && failed.values().all(is_refused), "{what}");
            let (small, opened) = harness.request("tools/list");
            harness.reply(opened.key, &Reply::json(result(&opened.id(), "{}")));
            assert!(matches!(harness.outcomes().remove(&small), Some(Outcome::Result(_))), "{what}");
        });
    }
    account.flood("M3", "client over HTTP: a long id of an event on one exchange after the other", ceiling, || {
        let mut harness = connected();
        for _ in 0..MANY {
            let (_, opened) = harness.request("tools/list");
            harness.begin(opened.key, &Reply::events("id: "));
            for _ in 0..limits.event / CHUNK - 1 {
                harness.machine.handle_body(opened.key, &chunk, harness.now);
            }
            harness.machine.handle_body(opened.key, b"\ndata: {}\n", harness.now);
        }
        assert!(harness.outcomes().is_empty(), "none is large for long");
    });
}

fn what_servers_ask(account: &mut Account) {
    let limits = roomy();
    let ceilings = Ceilings::new(&limits, &HttpConfig::new(), INTAKE);
    let configure = |config: &mut client::Config| {
        config.limits = limits.clone();
        config.capabilities = json(r#"{"sampling":{},"roots":{}}"#);
    };
    let tickets = |stream: &mut ClientStream| -> Vec<Ticket> {
        let ticket = |event| if let client::Event::Requested { ticket, .. } = event { Some(ticket) } else { None };
        stream.events().into_iter().filter_map(ticket).collect()
    };
    let asked = |id: usize, params: &str| request(&id.to_string(), "sampling/createMessage", params);
    account.flood("M3", "client over stdio: large questions that are not answered", ceilings.client_over_stdio, || {
        let mut stream = ClientStream::connected_with(configure);
        let mut open = Vec::new();
        for id in 0..MANY {
            // The application keeps the events that it has received.
            stream.line(asked(id, &large()));
            open.extend(stream.events());
            stream.lines();
        }
        stream.line(asked(MANY, "{}"));
        assert_eq!(tickets(&mut stream).len(), 1, "a small one is handed up");
    });
    account.flood("M3", "client over stdio: large answers that are not taken", ceilings.client_over_stdio, || {
        let mut stream = ClientStream::connected_with(configure);
        stream.is_read = false;
        for id in 0..=MANY {
            stream.line(asked(id, "{}"));
        }
        let mut unread = Vec::new();
        let mut open = tickets(&mut stream);
        let small = open.pop().expect("the last");
        for ticket in open {
            stream.machine.answer(ticket, Ok(json(large())), stream.now);
            unread.extend(std::iter::from_fn(|| stream.machine.poll_output()));
        }
        stream.machine.answer(small, Ok(json("{}")), stream.now);
        assert_eq!(stream.lines().len(), 1, "a small one goes out");
    });
    account.flood("M3", "client over HTTP: large answers that are not taken", ceilings.client_over_http, || {
        let mut harness = HttpClientHarness::connected_client_with(|config, _| configure(config));
        let (_, opened) = harness.request("tools/list");
        let asked: String = (0..MANY).map(|id| event(&asked(id, "{}"))).collect();
        harness.begin(opened.key, &Reply::events(""));
        for chunk in asked.as_bytes().chunks(512) {
            harness.machine.handle_body(opened.key, chunk, harness.now);
            for event in harness.events() {
                if let client::Event::Requested { ticket, .. } = event {
                    harness.machine.answer(ticket, Ok(json(large())), harness.now);
                }
            }
        }
        assert!(!harness.machine.is_closed());
    });
    let input_request = |params: &str| {
        let input_request = format!(r#"{{"method":"sampling/createMessage","params":{params}}}"#);
        format!(
            r#"{{"resultType":"input_required","inputRequests":{{"a":{input_request},"b":{{"method":"roots/list"}}}}}}"#
        )
    };
    for (what, params, answer) in [("wishes", large(), "{}".to_owned()), ("answers", "{}".to_owned(), large())] {
        account.flood(
            "M3",
            &format!("client over stdio: large {what} of modern calls"),
            ceilings.client_over_stdio,
            || {
                let mut stream = ClientStream::modern_with(configure);
                let mut open = Vec::new();
                for _ in 0..MANY {
                    let (_, id) = stream.request("tools/call");
                    stream.line(result(&id, &input_request(&params)));
                    // The application answers one of the two required inputs, and keeps the event of the other.
                    for event in stream.events() {
                        match event {
                            client::Event::Requested { ticket, method, .. }
                                if method.as_str() == "sampling/createMessage" && answer.len() > 2 =>
                            {
                                stream.machine.answer(ticket, Ok(json(answer.clone())), stream.now);
                            }
                            event => open.push(event),
                        }
                    }
                    stream.lines();
                }
                let (call, id) = stream.request("tools/call");
                stream.line(result(&id, mcp_testkit::messages::COMPLETE));
                let is_it = |(key, outcome): &_| *key == call && matches!(outcome, Outcome::Result(_));
                assert!(stream.outcomes().0.iter().any(is_it));
            },
        );
    }
}

// ---- servers on byte streams

fn servers_on_streams(account: &mut Account) {
    let limits = roomy();
    let ceiling = Ceilings::new(&limits, &HttpConfig::new(), INTAKE).server_over_stdio;
    let ready = |version: &str| ServerStream::ready_with(version, |config| config.limits = limits.clone());
    let echoes = |stream: &mut ServerStream| {
        stream.lines();
        stream.line(request("\"e\"", "tools/call", "{}"));
        let ticket = stream.requested().pop().expect("a request");
        stream.machine.respond(ticket, Ok(json("{}")), stream.now).expect("an answer");
        assert_eq!(stream.lines(), [result("\"e\"", "{}")]);
    };
    account.flood("M3", "server over stdio: large requests that are not answered", ceiling, || {
        let mut stream = ready("2025-11-25");
        let mut open = Vec::new();
        for id in 0..MANY {
            stream.line(request(&id.to_string(), "tools/call", &large()));
            open.extend(stream.events());
            stream.lines();
        }
        echoes(&mut stream);
    });
    account.flood("M3", "server over stdio: large answers that are not taken", ceiling, || {
        let mut stream = ready("2025-11-25");
        stream.is_read = false;
        for id in 0..MANY {
            stream.line(request(&id.to_string(), "tools/call", "{}"));
        }
        let mut unread = Vec::new();
        for ticket in stream.requested() {
            stream.machine.respond(ticket, Ok(json(large())), stream.now).expect("an answer");
            unread.extend(std::iter::from_fn(|| stream.machine.poll_output()));
        }
        echoes(&mut stream);
    });
    account.flood("M3", "server over stdio: a batch of 100 calls with large answers", ceiling, || {
        let mut stream = ready("2025-03-26");
        let calls: Vec<_> = (0..100).map(|id| request(&id.to_string(), "tools/call", "{}")).collect();
        stream.line(format!("[{}]", calls.join(",")));
        for ticket in stream.requested() {
            stream.machine.respond(ticket, Ok(json(large())), stream.now).expect("an answer");
        }
        assert_eq!(stream.lines()[0].matches(r#""id""#).count(), 100, "each has its answer");
        echoes(&mut stream);
    });
    account.flood("M3", "server over stdio: batches of which one call each is not answered", ceiling, || {
        let mut stream = ready("2025-03-26");
        let mut left = Vec::new();
        for _ in 0..MANY {
            let calls: Vec<_> = (0..100).map(|id| request(&id.to_string(), "tools/call", "{}")).collect();
            stream.line(format!("[{}]", calls.join(",")));
            let mut open = stream.requested();
            left.extend(open.pop());
            for ticket in open {
                stream
                    .machine
                    .respond(ticket, Ok(json(format!(r#""{}""#, "x".repeat(16_000)))), stream.now)
                    .expect("an answer");
            }
        }
        for ticket in left {
            stream.machine.respond(ticket, Ok(json("{}")), stream.now).expect("an answer");
            stream.lines();
        }
        echoes(&mut stream);
    });
    account.flood("M3", "server over stdio: what parked calls are given", ceiling, || {
        let mut stream = ServerStream::server_with(|config| config.limits = limits.clone());
        stream.line(initialize_with("0", "2025-11-25", r#"{"roots":{}}"#));
        stream.line(INITIALIZED);
        stream.lines();
        for id in 0..MANY {
            stream.line(request(&format!("\"{id}\""), "tools/call", "{}"));
            let Some(ticket) = stream.requested().pop() else { break };
            let required = InputRequired::new().ask("a", "roots/list", json("{}")).ask("b", "roots/list", json("{}"));
            stream.machine.require_input(ticket, required, stream.now).expect("input");
            let line = stream.lines().into_iter().find(|line| line.contains("roots/list")).expect("a question");
            let asked = line.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("an id").to_owned();
            stream.line(result(&asked, &large()));
        }
        echoes(&mut stream);
    });
}

// ---- servers over HTTP

/// The configuration of a server with sessions of few requests each, which determines its ceiling.
struct Served {
    limits: Limits,
    http: HttpConfig,
    exchanges: usize,
}

impl Served {
    fn new() -> Self {
        let (mut limits, mut http) = (limits(), HttpConfig::new());
        (limits.requests_in, limits.requests_out) = (20, 20);
        limits.requests_in_total = 500;
        http.max_sessions = 25;
        http.replay = 16 * 1024;
        Self { limits, http, exchanges: 2 * MANY }
    }

    fn ceiling(&self) -> usize {
        Ceilings::new(&self.limits, &self.http, Intake { exchanges: self.exchanges, ..INTAKE }).server_over_http
    }

    fn http_server(&self) -> HttpServerHarness {
        HttpServerHarness::with(|http, config| {
            *http = self.http.clone();
            config.limits = self.limits.clone();
            config.capabilities = json(r#"{"tools":{},"logging":{}}"#);
            config.versions = ProtocolVersion::ALL.to_vec();
        })
    }
}

fn sessions(http_server: &mut HttpServerHarness, version: &str) -> Vec<String> {
    let ids = (0..20).map(|_| http_server.session(version)).collect();
    http_server.events();
    ids
}

fn echoes(http_server: &mut HttpServerHarness) {
    let id = http_server.session("2025-11-25");
    let (key, ticket) = http_server.call(&id, "1", "{}");
    http_server.respond(ticket, "{}");
    assert_eq!(http_server.take(key).text(), result("1", "{}"));
}

fn requested(http_server: &mut HttpServerHarness) -> Vec<Ticket> {
    let ticket = |event| if let Event::Requested { ticket, .. } = event { Some(ticket) } else { None };
    http_server.events().into_iter().filter_map(ticket).collect()
}

fn requests_over_http(account: &mut Account) {
    let served = Served::new();
    let chunk = vec![b' '; CHUNK];
    account.flood("M3", "server over HTTP: large bodies that do not end", served.ceiling(), || {
        let mut http_server = served.http_server();
        let ids = sessions(&mut http_server, "2025-11-25");
        let keys: Vec<_> =
            (0..MANY).map(|n| http_server.begin(&TestRequest::post("").in_session(&ids[n % ids.len()]))).collect();
        for _ in 0..served.limits.message / CHUNK {
            for key in &keys {
                http_server.server.handle_body(*key, &chunk, http_server.now);
            }
        }
        let is_refused = |key: &_| http_server.peek(*key).is_some_and(|sent| sent.code() == 503);
        assert!(keys.iter().copied().filter(is_refused).count() > MANY / 2);
        echoes(&mut http_server);
    });
    account.flood("M3", "server over HTTP: large requests in sessions that are not answered", served.ceiling(), || {
        let mut http_server = served.http_server();
        let ids = sessions(&mut http_server, "2025-11-25");
        let mut open = Vec::new();
        for number in 0..MANY {
            let body = request(&number.to_string(), "tools/call", &large());
            let key =
                http_server.ask_in_pieces_of(CHUNK, &TestRequest::post(body).in_session(&ids[number % ids.len()]));
            open.extend(http_server.events());
            http_server.take(key);
        }
        echoes(&mut http_server);
    });
    account.flood(
        "M3",
        "server over HTTP: large requests that stand alone and are not answered",
        served.ceiling(),
        || {
            let mut http_server = served.http_server();
            let mut open = Vec::new();
            for number in 0..MANY {
                let padding = format!(r#""x":"{}","#, "x".repeat(LARGE));
                let key = http_server
                    .ask_in_pieces_of(CHUNK, &TestRequest::stateless_call(&number.to_string(), "t", &padding));
                open.extend(http_server.events());
                http_server.take(key);
            }
            let key = http_server.ask(&TestRequest::stateless_call("7", "t", ""));
            let ticket = http_server.ticket();
            http_server.respond(ticket, r#"{"content":[]}"#);
            assert_eq!(http_server.take(key).code(), 200);
        },
    );
    account.flood("M3", "server over HTTP: batches of which one call each is not answered", served.ceiling(), || {
        let mut http_server = served.http_server();
        let ids = sessions(&mut http_server, "2025-03-26");
        let mut left = Vec::new();
        for number in 0..MANY {
            let calls: Vec<_> = (0..20).map(|id| request(&id.to_string(), "tools/call", "{}")).collect();
            let batch = TestRequest::post(format!("[{}]", calls.join(","))).in_session(&ids[number % ids.len()]);
            let key = http_server.ask_in_pieces_of(CHUNK, &batch);
            let mut open = requested(&mut http_server);
            left.extend(open.pop());
            for ticket in open {
                http_server.respond(ticket, &format!(r#""{}""#, "x".repeat(LARGE / 10)));
            }
            http_server.take(key);
        }
        echoes(&mut http_server);
    });
}

fn answers_over_http(account: &mut Account) {
    let mut served = Served::new();
    served.limits.requests_in = 40;
    let answers = |is_small: bool| if is_small { "x".repeat(100) } else { "x".repeat(LARGE) };
    for is_stream in [false, true] {
        let what = if is_stream { "in streams " } else { "" };
        account.flood(
            "M3",
            &format!("server over HTTP: large answers {what}that are not taken"),
            served.ceiling(),
            || {
                let mut http_server = served.http_server();
                let ids = sessions(&mut http_server, "2025-11-25");
                http_server.is_read = false;
                let mut unread = Vec::new();
                for number in 0..=MANY {
                    let body = request(&number.to_string(), "tools/call", "{}");
                    let key = http_server
                        .ask_in_pieces_of(CHUNK, &TestRequest::post(body).in_session(&ids[number % ids.len()]));
                    let ticket = http_server.ticket();
                    if is_stream {
                        let params = json(r#"{"level":"info","data":1}"#);
                        let notification = Notification::with_params("notifications/message", params);
                        http_server.server.notify(&ticket, notification, http_server.now).expect("a notification");
                    }
                    let is_small = number == MANY;
                    http_server
                        .server
                        .respond(ticket, Ok(Json::from(&*answers(is_small))), http_server.now)
                        .expect("an answer");
                    unread.extend(std::iter::from_fn(|| http_server.server.poll_output()));
                    // An event stream has its head and an event before the answer.
                    if is_small && !is_stream {
                        assert_eq!(
                            http_server.peek(key).map(mcp_testkit::http_exchange::TestResponse::code),
                            None,
                            "it was handed out"
                        );
                    }
                }
                let Some(mcp_proto::Output::Action(last)) = unread.pop() else { panic!("an answer was handed out") };
                assert!(!format!("{last:?}").contains("Abort"));
                drop(unread);
                http_server.is_read = true;
                echoes(&mut http_server);
            },
        );
    }
    let mut served = Served::new();
    served.http.max_sessions = MANY + 1;
    served.http.max_streams = Some(MANY);
    served.http.replay = 1;
    (served.limits.requests_in, served.limits.requests_out) = (1, 1);
    account.flood("M3", "server over HTTP: events of sessions whose streams are not taken", served.ceiling(), || {
        let mut http_server = served.http_server();
        let mut held = Vec::new();
        for _ in 0..MANY {
            let id = http_server.session("2025-11-25");
            held.push((http_server.last_session(), http_server.ask(&TestRequest::get().in_session(&id))));
            http_server.events();
        }
        http_server.is_read = false;
        let mut unread = Vec::new();
        for _ in 0..10 {
            for (session, _) in &held {
                let params = json(format!(r#"{{"level":"info","data":"{}"}}"#, "x".repeat(LARGE / 10)));
                let notification = Notification::with_params("notifications/message", params);
                http_server.server.notify(*session, notification, http_server.now).expect("a notification");
                unread.extend(std::iter::from_fn(|| http_server.server.poll_output()));
            }
        }
        drop(unread);
        http_server.is_read = true;
        echoes(&mut http_server);
    });
}
