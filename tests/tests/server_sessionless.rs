//! A server that opens no sessions for clients of revisions up to 2025-11-25: each POST is served by itself.

use mcp_proto::client::Call;
use mcp_proto::server::{Config, Event, HttpConfig, InputRequired, Progress, Scope, SessionMode, TwoEndpoints};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Json, Notification, ProtocolVersion, UsageError};
use mcp_testkit::bad_requests::PING;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, request};

fn harness() -> HttpServerHarness {
    with(|_, _| {})
}

fn with(change: impl FnOnce(&mut HttpConfig, &mut Config)) -> HttpServerHarness {
    HttpServerHarness::with(|http, config| {
        http.sessions = SessionMode::None;
        config.capabilities = Json::parse(r#"{"tools":{},"logging":{},"resources":{"subscribe":true}}"#).unwrap();
        change(http, config);
    })
}

fn call() -> TestRequest {
    TestRequest::post(request("1", "tools/call", r#"{"_meta":{"progressToken":"t"}}"#))
}

#[test]
fn sh_s_40_initialize_is_answered_without_a_session_id() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut harness = harness();
        let opened = harness.answer(&TestRequest::post(initialize(version)));
        assert!(opened.code() == 200 && !opened.headers.contains_key("mcp-session-id"));
        assert!(opened.text().contains(&format!(r#""protocolVersion":"{version}""#)), "{}", opened.text());
        assert!(!opened.text().contains("resultType"));
        assert_eq!(harness.answer(&TestRequest::post(INITIALIZED)).code(), 202);
        let key = harness.ask(&call());
        let ticket = harness.ticket();
        assert_eq!(ticket.key().session(), None);
        harness.respond(ticket, r#"{"content":[],"n":1.0}"#);
        let sent = harness.take(key);
        assert_eq!((sent.code(), sent.is_over, sent.is_stream), (200, true, false));
        assert_eq!(sent.text(), r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":1.0}}"#);
        assert_eq!((harness.server.sessions(), harness.server.load().exchanges), (0, 0));
        assert_eq!(harness.events(), [], "no session is reported");
    }
}

#[test]
fn er_43_what_only_sessions_have_is_not_declared() {
    let mut harness = with(|_, config| {
        let declared =
            r#"{"resources":{"subscribe":true,"x":1,"listChanged":true},"tools":{"listChanged":true},"x":2}"#;
        config.capabilities = Json::parse(declared).unwrap();
    });
    let opened = harness.answer(&TestRequest::post(initialize("2025-11-25")));
    let text = opened.text();
    assert!(text.contains(r#""capabilities":{"resources":{"x":1},"tools":{},"x":2}"#), "{text}");
    // A client of 2026-07-28 subscribes without a session.
    let discovered = harness.answer(&TestRequest::stateless("1", "server/discover", ""));
    assert!(discovered.text().contains(r#""tools":{"listChanged":true}"#), "{}", discovered.text());
}

#[test]
fn er_43_what_only_sessions_have_is_refused() {
    let mut harness = harness();
    for (name, asked, code, text) in [
        ("a stream", TestRequest::get(), 405, ""),
        ("the end of a session", TestRequest::new("DELETE", ""), 405, ""),
        ("a ping", TestRequest::post(PING), 200, r#""result":{}"#),
        ("an old session", TestRequest::post(PING).in_session("0123"), 200, r#""result":{}"#),
        ("a notification", TestRequest::post(INITIALIZED), 202, ""),
        ("a response", TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 400, "has made no request"),
        ("a batch", TestRequest::post(format!("[{PING}]")), 400, "one message at a time"),
        ("a level", TestRequest::post(request("1", "logging/setLevel", r#"{"level":"info"}"#)), 200, "-32601"),
        ("a subscription", TestRequest::post(request("1", "resources/subscribe", r#"{"uri":"a:b"}"#)), 200, "-32601"),
        ("no revision", TestRequest::post(request("1", "initialize", "{}")), 400, "-32602"),
        ("parameters", TestRequest::post(request("1", "tools/call", "[]")), 400, "-32602"),
        ("no JSON", TestRequest::post("{"), 400, "-32700"),
        ("a wrong revision", TestRequest::post(PING).with("mcp-protocol-version", "1999-01-01"), 400, "-32600"),
        ("a stateless request", TestRequest::stateless("1", "server/discover", ""), 200, "supportedVersions"),
        ("no Accept", TestRequest::post(PING).with("accept", "text/html"), 406, ""),
    ] {
        let sent = harness.answer(&asked);
        assert!(sent.code() == code && sent.text().contains(text), "{name}: {} {}", sent.code(), sent.text());
        assert!(code != 405 || sent.headers["allow"] == "POST", "{name}");
    }
    assert_eq!(harness.events(), []);
}

#[test]
fn a_request_has_the_revision_of_its_header_and_otherwise_the_one_to_assume() {
    let new = "2025-11-25";
    for (versions, header, expected) in [
        (None, None, "2025-03-26"),
        (None, Some("2025-06-18"), "2025-06-18"),
        (None, Some(new), new),
        (Some(["2025-06-18", new]), None, new),
    ] {
        let mut harness = with(|_, config| {
            if let Some(versions) = versions {
                config.versions = versions.map(|version| ProtocolVersion::from_text(version).unwrap()).into();
            }
        });
        let asked = header.map_or(call(), |header| call().with("mcp-protocol-version", header));
        harness.ask(&asked.by("ada"));
        let ticket = harness.ticket();
        let context = harness.server.context(&ticket).unwrap();
        assert_eq!(context.version.as_str(), expected, "{header:?}");
        assert_eq!(context.principal.unwrap().as_str(), "ada");
        assert_eq!(context.client_capabilities, Json::empty_object());
    }
}

#[test]
fn messages_before_the_answer_are_events_of_its_own_response() {
    let mut harness = harness();
    let key = harness.ask(&call());
    let ticket = harness.ticket();
    harness.server.progress(&ticket, &Progress { progress: 1.0, total: None, message: None }, harness.now);
    harness.server.log(&ticket, LoggingLevel::Debug, None, &Json::from("x"), harness.now).unwrap();
    harness.server.release(&ticket, harness.now);
    harness.respond(ticket, "{}");
    let sent = harness.take(key);
    let data = sent.data();
    assert!(sent.is_over && sent.is_stream && sent.ids().is_empty(), "it cannot be resumed");
    assert_eq!((data.len(), data[2].as_str()), (3, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    // An error of the application has the status of a session.
    let key = harness.ask(&call());
    let ticket = harness.ticket();
    harness.server.respond(ticket, Err(ErrorObject::method_not_found(&"x".into())), harness.now).unwrap();
    assert_eq!(harness.take(key).code(), 200);
}

#[test]
fn a_client_without_a_session_is_sent_no_requests() {
    let mut harness = harness();
    let key = harness.ask(&call());
    let ticket = harness.ticket();
    let asked = harness.server.request(Scope::Request(ticket.key()), Call::new("roots/list"), harness.now);
    assert_eq!(asked, Err(UsageError::NotConnected));
    let roots = InputRequired::new().ask("who", "roots/list", Json::empty_object());
    harness.server.require_input(ticket, roots, harness.now).unwrap();
    let text = harness.take(key).text();
    assert!(
        text.contains(r#"has not declared that it can give it: roots"}],"isError":true"#),
        "it has stated none: {text}"
    );
    let key = harness.ask(&call());
    let ticket = harness.ticket();
    harness.server.require_input(ticket, InputRequired::new().state("s"), harness.now).unwrap();
    assert!(harness.take(key).text().contains(r#""code":-32603"#), "nor can it retry");
    let change = Notification::new("notifications/tools/list_changed");
    assert!(harness.server.publish(change, harness.now).is_err(), "not declared");
}

/// Up to 2025-11-25, the end of a connection cancels nothing.
#[test]
fn sh_s_16_a_client_that_goes_has_not_cancelled() {
    let mut harness = harness();
    let key = harness.ask(&call());
    let ticket = harness.ticket();
    harness.server.handle_disconnect(key, harness.now);
    assert!(!harness.events().iter().any(|event| matches!(event, Event::Cancelled { .. })));
    harness.respond(ticket, "{}");
    assert_eq!((harness.take(key).code(), harness.server.requests_in_flight()), (0, 0));
}

#[test]
fn the_two_endpoint_transport_keeps_its_sessions() {
    let two = || Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    let mut harness = with(|http, _| http.two_endpoints = two());
    let opened = harness.begin(&TestRequest::get().at("/sse"));
    let target = harness.take(opened).data().pop().unwrap();
    assert_eq!(harness.answer(&TestRequest::post(initialize("2024-11-05")).at(&target)).code(), 202);
    assert!(harness.take(opened).text().contains(r#""protocolVersion":"2024-11-05""#));
    assert_eq!(harness.server.sessions(), 1);
}

#[test]
fn a_server_without_sessions_can_be_drained() {
    let mut harness = harness();
    let key = harness.ask(&call());
    let ticket = harness.ticket();
    harness.server.drain(std::time::Duration::from_secs(20), harness.now);
    let refused = harness.answer(&call());
    assert!(refused.code() == 503 && refused.text().contains(r#""id":1,"error":{"code":-32603"#));
    assert_eq!(harness.answer(&TestRequest::post(PING)).code(), 200);
    harness.respond(ticket, "{}");
    assert_eq!(harness.take(key).code(), 200);
    assert_eq!(harness.events(), [Event::Drained { cancelled: 0 }]);
}
