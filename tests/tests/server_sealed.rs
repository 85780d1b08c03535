//! Sessions whose ids contain their state: every instance of a server with the same keys serves them.

use std::time::Duration;

use mcp_proto::client::Call;
use mcp_proto::server::{
    CloseReason, Config, Event, HmacKey, Http, HttpConfig, SealedSessions, Server, SessionMode, StateKeys, TwoEndpoints,
};
use mcp_proto::{Fault, InvalidLimit, Json, ProtocolVersion, UsageError};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::{HttpServerHarness, nonce};
use mcp_testkit::messages::{INITIALIZED, initialize_with, request};
use proptest::prelude::*;

const LIFETIME: Duration = Duration::from_secs(3600);
const DECLARED: &str = r#"{"tools":{},"logging":{},"resources":{"subscribe":true}}"#;

fn sealed(key: u8) -> SealedSessions {
    SealedSessions::new(StateKeys::new(HmacKey::new([key; 32]))).lifetime(LIFETIME)
}

/// One instance of the server; each has a number.
fn instance(number: u64) -> HttpServerHarness {
    instance_with(number, |_, _| {})
}

fn instance_with(number: u64, change: impl FnOnce(&mut HttpConfig, &mut Config)) -> HttpServerHarness {
    let mut harness = HttpServerHarness::with(|http, config| {
        http.sessions = SessionMode::Sealed(sealed(7));
        config.capabilities = Json::parse(DECLARED).unwrap();
        change(http, config);
    });
    harness.drawn = number * 1_000_000;
    harness
}

fn opening(version: &str, capabilities: &str) -> TestRequest {
    TestRequest::post(initialize_with("0", version, capabilities))
}

/// Opens a session with these capabilities of the client; it is not confirmed yet.
fn open(server: &mut HttpServerHarness, version: &str, capabilities: &str) -> String {
    let opened = server.answer(&opening(version, capabilities));
    assert_eq!(opened.code(), 200, "{}", opened.text());
    opened.headers["mcp-session-id"].to_str().unwrap().to_owned()
}

fn ping(session: &str) -> TestRequest {
    TestRequest::post(request("1", "ping", "{}")).in_session(session)
}

#[test]
fn every_message_of_a_session_can_arrive_at_another_instance() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut instances: Vec<_> = (0..5).map(instance).collect();
        let id = open(&mut instances[0], version, r#"{"roots":{}}"#);
        assert_eq!(instances[1].answer(&TestRequest::post(INITIALIZED).in_session(&id)).code(), 202);
        let (exchange, ticket) = instances[2].call(&id, "7", r#"{"name":"t"}"#);
        let context = instances[2].server.context(&ticket).unwrap();
        assert_eq!(context.version.as_str(), version);
        assert_eq!(context.client_capabilities.to_text(), r#"{"roots":{}}"#);
        assert_eq!(context.client_info.unwrap().to_text(), r#"{"name":"c","version":"1"}"#);
        // Its client has confirmed it, or could not have sent this.
        let (session, now) = (instances[2].last_session(), instances[2].now);
        assert!(instances[2].server.request(session, Call::new("roots/list"), now).is_ok());
        instances[2].respond(ticket, r#"{"content":[]}"#);
        assert_eq!(instances[2].take(exchange).text(), r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#);
        let stream = instances[3].ask(&TestRequest::get().in_session(&id));
        assert_eq!(instances[3].take(stream).code(), 200);
        assert_eq!(instances[4].answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
        let versions = instances.iter_mut().map(|instance| {
            let events = instance.events();
            events.iter().find_map(|event| match event {
                Event::Connected { version, .. } | Event::Restored { version, .. } => Some(version.as_str()),
                _ => None,
            })
        });
        assert_eq!(versions.collect::<Vec<_>>(), [Some(version); 5]);
    }
}

#[test]
fn se_02_a_sealed_session_is_continued_only_for_its_principal_within_its_time_by_instances_that_can() {
    let ada = |request: TestRequest| request.by("ada");
    let mut first = instance(0);
    let opened = first.answer(&ada(opening("2025-06-18", "{}")));
    let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let mut altered = id.clone();
    altered.replace_range(40..41, if &id[40..41] == "A" { "B" } else { "A" });
    let late = LIFETIME + Duration::from_secs(1);
    let just = LIFETIME.saturating_sub(Duration::from_secs(1));
    let as_it_is: fn(&mut HttpConfig, &mut Config) = |_, _| {};
    for (why, change, request, after, status) in [
        ("it is its principal", as_it_is, ada(ping(&id)), Duration::ZERO, 200),
        ("it has not expired", as_it_is, ada(ping(&id)), just, 200),
        ("it has expired", as_it_is, ada(ping(&id)), late, 404),
        ("another principal", as_it_is, ping(&id).by("eve"), Duration::ZERO, 404),
        ("no principal", as_it_is, ping(&id), Duration::ZERO, 404),
        ("it is altered", as_it_is, ada(ping(&altered)), Duration::ZERO, 404),
        ("it is no id at all", as_it_is, ada(ping("0123456789abcdef")), Duration::ZERO, 404),
        ("other keys", |http, _| http.sessions = SessionMode::Sealed(sealed(8)), ada(ping(&id)), Duration::ZERO, 404),
        ("no keys", |http, _| http.sessions = SessionMode::InMemory, ada(ping(&id)), Duration::ZERO, 404),
        (
            "a revision that is not served there",
            |_, config| config.versions = [ProtocolVersion::V2025_11_25].into(),
            ada(ping(&id)),
            Duration::ZERO,
            404,
        ),
        (
            "a key that is no longer the current one",
            |http, _| {
                let keys = StateKeys::new(HmacKey::new([9; 32])).earlier(HmacKey::new([7; 32]));
                http.sessions = SessionMode::Sealed(SealedSessions::new(keys));
            },
            ada(ping(&id)),
            Duration::ZERO,
            200,
        ),
    ] {
        let mut other = instance_with(1, change);
        other.pass(after);
        assert_eq!(other.answer(&request).code(), status, "{why}");
        assert_eq!(other.server.sessions(), usize::from(status == 200), "{why}");
    }
}

#[test]
fn the_random_bytes_of_a_session_whose_id_contains_its_state_are_no_id_of_it() {
    let random = |server: &HttpServerHarness| -> String {
        let bytes = *nonce(server.drawn).first_chunk().expect("16 bytes");
        format!("{:032x}", u128::from_be_bytes(bytes))
    };
    let mut in_memory = HttpServerHarness::new();
    assert_eq!(open(&mut in_memory, "2025-11-25", "{}"), random(&in_memory), "other ids consist of these bytes");
    let mut server = instance(0);
    let id = open(&mut server, "2025-11-25", "{}");
    let bytes = random(&server);
    assert_eq!(server.answer(&ping(&bytes)).code(), 404);
    assert_eq!(server.answer(&ping(&id)).code(), 200);
}

#[test]
fn a_refused_request_continues_no_session() {
    let mut first = instance(0);
    let id = open(&mut first, "2025-06-18", "{}");
    let challenge = mcp_proto::auth::Challenge::bearer();
    for (request, status) in [
        (ping(&id).with("host", "evil.example"), 403),
        (ping(&id).challenged(challenge), 401),
        (ping(&id).with("content-type", "text/plain"), 415),
        (ping(&id).and("mcp-session-id", &id), 404),
        (ping(&id).at("/other"), 404),
    ] {
        let mut other = instance(1);
        assert_eq!((other.answer(&request).code(), other.server.sessions()), (status, 0));
    }
}

#[test]
fn sh_s_43_a_session_that_was_ended_is_unknown_to_the_instance_that_ended_it() {
    let mut instances = [0, 1].map(instance);
    let id = open(&mut instances[0], "2025-06-18", "{}");
    assert_eq!(instances[0].answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
    let codes = instances.each_mut().map(|instance| instance.answer(&ping(&id)).code());
    assert_eq!(codes, [404, 200], "documented: the others do not know it");
    let session = instances[1].last_session();
    let now = instances[1].now;
    instances[1].server.end(session, now);
    assert_eq!(instances[1].answer(&ping(&id)).code(), 404);
}

#[test]
fn se6_a_session_that_was_ended_for_lack_of_use_continues() {
    let mut server = instance_with(0, |http, _| http.max_sessions = 1);
    let idle = HttpConfig::new().session_idle;
    let id = open(&mut server, "2025-06-18", r#"{"sampling":{}}"#);
    server.pass(idle + Duration::from_secs(1));
    assert_eq!(server.server.sessions(), 0);
    assert_eq!(server.answer(&ping(&id)).code(), 200);
    server.pass(Duration::from_secs(61));
    let other = open(&mut server, "2025-06-18", "{}");
    assert_eq!(server.server.sessions(), 1);
    // Nothing in use is ended for one that continues.
    let stream = server.ask(&TestRequest::get().in_session(&other));
    assert_eq!(server.answer(&ping(&id)).code(), 503);
    server.server.handle_disconnect(stream, server.now);
    server.pass(Duration::from_secs(61));
    assert_eq!(server.answer(&ping(&id)).code(), 200);
    let closed: Vec<_> = server.events().into_iter().filter(|event| matches!(event, Event::Closed { .. })).collect();
    let is_expired = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Expired, .. });
    assert!(closed.len() == 3 && closed.iter().all(is_expired), "{closed:?}");
}

#[test]
fn what_only_one_instance_knows_is_refused_by_the_others() {
    let mut instances = [0, 1].map(instance);
    let id = open(&mut instances[0], "2025-11-25", r#"{"roots":{}}"#);
    assert_eq!(instances[0].answer(&TestRequest::post(INITIALIZED).in_session(&id)).code(), 202);
    let (exchange, ticket) = instances[0].call(&id, "1", r#"{"name":"t"}"#);
    let session = ticket.key().session().unwrap();
    let now = instances[0].now;
    let asked = instances[0].server.request(&ticket, Call::new("roots/list"), now);
    asked.unwrap();
    let sent = instances[0].take(exchange);
    // The answer to a request of the server has to arrive where it was sent, and is that of no other instance.
    let (_, other) = instances[1].call(&id, "2", r#"{"name":"t"}"#);
    instances[1].server.request(&other, Call::new("roots/list"), now).unwrap();
    let wire = Json::parse(sent.data().pop().unwrap()).unwrap().first_member("id").unwrap();
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, wire.to_text());
    let answer = TestRequest::post(answer).in_session(&id);
    assert_eq!(instances[1].answer(&answer).code(), 202);
    let faults = instances[1].events();
    assert!(faults.iter().any(|event| matches!(event, Event::Faulted(Fault::UnknownResponse { .. }))), "{faults:?}");
    // A replay is complete or refused.
    let resumption = TestRequest::get().in_session(&id).with("last-event-id", sent.ids().last().unwrap());
    assert_eq!(instances[1].answer(&resumption).code(), 400);
    instances[0].server.handle_disconnect(exchange, now);
    let resumed = instances[0].ask(&resumption);
    assert_eq!(instances[0].take(resumed).code(), 200);
    assert!(instances[0].server.context(&ticket).is_some() && session == instances[0].last_session());
}

#[test]
fn hs_02_a_two_endpoint_session_belongs_to_its_stream() {
    let mut instances = [0, 1].map(|number| {
        instance_with(number, |http, _| {
            http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        })
    });
    let stream = instances[0].ask(&TestRequest::get().at("/sse"));
    let place = instances[0].take(stream).data().remove(0);
    let opening = TestRequest::post(initialize("2024-11-05")).at(&place);
    assert_eq!(instances.each_mut().map(|instance| instance.answer(&opening).code()), [202, 404]);
    let id = place.split_once('=').unwrap().1.to_owned();
    assert_eq!(id.len(), 32, "it contains nothing");
    assert_eq!(instances[0].answer(&TestRequest::post(INITIALIZED).at(&place)).code(), 202, "and remains");
}

#[test]
fn a_server_that_passes_through_cannot_have_sealed_sessions() {
    let mut http = HttpConfig::new();
    http.sessions = SessionMode::Sealed(sealed(7));
    let refused = Server::pass_through(Http::new(http.clone()), Config::new("s", "1"));
    assert_eq!(refused.err(), Some(UsageError::SealedSessions));
    http.sessions = SessionMode::Sealed(sealed(7).lifetime(Duration::ZERO));
    let refused = Server::new(Http::new(http), Config::new("s", "1"));
    assert!(matches!(refused.err(), Some(UsageError::Limit(InvalidLimit { field: "lifetime", .. }))));
}

/// What a client does next in its session.
#[derive(Debug, Clone)]
enum Step {
    Call(String),
    Ping,
    UnknownMethod,
    Notify,
    Batch,
    Get,
    BadJson,
    OtherVersion,
}

impl Step {
    fn request(&self, id: &str) -> TestRequest {
        let request = match self {
            Self::Call(name) => TestRequest::post(request("5", "tools/call", &format!(r#"{{"name":"{name}"}}"#))),
            Self::Ping => TestRequest::post(request("\"p\"", "ping", "{}")),
            Self::UnknownMethod => TestRequest::post(request("6", "initialize", "{}")),
            Self::Notify => TestRequest::post(INITIALIZED),
            Self::Batch => TestRequest::post(format!("[{}]", request("8", "ping", "{}"))),
            Self::Get => TestRequest::get().with("accept", "application/json"),
            Self::BadJson => TestRequest::post("{"),
            Self::OtherVersion => {
                TestRequest::post(request("9", "ping", "{}")).with("mcp-protocol-version", "2030-01-01")
            }
        };
        request.in_session(id)
    }
}

/// What a server answers; calls are answered with their number in the session.
fn answered(server: &mut HttpServerHarness, request: &TestRequest, number: usize) -> (u16, String) {
    let exchange = server.ask(request);
    for event in server.events() {
        if let Event::Requested { ticket, .. } = event {
            let result = Ok(Json::parse(format!("[{number}]")).unwrap());
            server.server.respond(ticket, result, server.now).unwrap();
        }
    }
    let sent = server.take(exchange);
    (sent.code(), sent.text())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => "[a-z]{1,8}".prop_map(Step::Call),
        1 => Just(Step::Ping),
        1 => Just(Step::UnknownMethod),
        1 => Just(Step::Notify),
        1 => Just(Step::Batch),
        1 => Just(Step::Get),
        1 => Just(Step::BadJson),
        1 => Just(Step::OtherVersion),
    ]
}

proptest! {
    /// Requests of one session, each at an instance chosen at random after a time chosen at random, are answered as by one
    /// server that has all of them.
    #[test]
    fn several_instances_answer_as_one(
        version in prop::sample::select(vec!["2025-03-26", "2025-06-18", "2025-11-25"]),
        steps in prop::collection::vec((step(), 0..3_usize, 0..3000_u64), 1..20),
    ) {
        let mut alone = instance_with(9, |http, _| http.session_idle = Duration::from_secs(1_000_000));
        let mut instances = [0, 1, 2].map(instance);
        let ids = [open(&mut alone, version, "{}"), open(&mut instances[0], version, "{}")];
        let mut age = 0;
        for (number, (step, at, pause)) in steps.iter().enumerate() {
            // Within the lifetime.
            age += *pause;
            if age + 1 >= LIFETIME.as_secs() {
                break;
            }
            for server in instances.iter_mut().chain([&mut alone]) {
                server.pass(Duration::from_secs(*pause));
            }
            let expected = answered(&mut alone, &step.request(&ids[0]), number);
            let actual = answered(&mut instances[*at], &step.request(&ids[1]), number);
            prop_assert_eq!(actual, expected, "{:?}", step);
        }
    }
}
