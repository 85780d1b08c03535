//! What a client over HTTP does when a server refuses a message: what it says to a person, how it finds out that a session
//! is lost, and when it offers an older revision.

use mcp_proto::client::{Client, Event, Http, HttpTransport, Outcome, Unavailable};
use mcp_proto::{Failed, Notification, ProtocolVersion, Quirk};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, initialize_reply};
use mcp_testkit::messages::{INITIALIZED, error, initialize_result, result};

type Harness = HttpClientHarness<Client<Http>>;

fn failed(outcome: &Outcome) -> &Failed {
    let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
    failed
}

/// The text of the failure of a call that gets this reply.
fn text_of(reply: &Reply) -> String {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.call("tools/call", "{}");
    harness.reply(opened.key, reply);
    failed(&harness.outcome()).describe("the server")
}

#[test]
fn a_refusal_says_what_the_body_says() {
    for (status, content_type, body, expected) in [
        (
            400,
            "application/json",
            r#"{"message":"Tool not enabled for this plan"}"#,
            "the server answered 400 Bad Request; its explanation is \"Tool not enabled for this plan\"",
        ),
        (
            429,
            "application/json; charset=utf-8",
            r#"{"error":{"message":"Rate limit of 60 a minute"}}"#,
            "the server answered 429 Too Many Requests; its explanation is \"Rate limit of 60 a minute\"",
        ),
        (
            403,
            "application/problem+json",
            r#"{"title":"Out of credit","detail":"Balance is 30"}"#,
            "the server answered 403 Forbidden; these credentials are not allowed to do that; its explanation is \"Out of \
             credit: Balance is 30\"",
        ),
        (
            401,
            "application/json",
            r#"{"error":"invalid_token","error_description":"It has expired"}"#,
            "the server answered 401 Unauthorized; it requires credentials, or other ones; its explanation is \
             \"invalid_token: It has expired\"",
        ),
        (
            422,
            "application/json",
            r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
            "the server answered 422 Unprocessable Entity; its explanation is \"field required\"",
        ),
        (
            500,
            "text/plain",
            "boom\n\u{1b}[31m\u{202e}red",
            "the server answered 500 Internal Server Error; its explanation is \"boom \\u{1b}[31m\\u{202e}red\"",
        ),
        (
            502,
            "text/html",
            "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>",
            "the server answered 502 Bad Gateway; its explanation is \"502 Bad Gateway\"",
        ),
        (503, "image/png", "\u{0}\u{1}", "the server answered 503 Service Unavailable with a body of another type"),
    ] {
        let reply = Reply::status(status).content_type(content_type).body(body);
        assert_eq!(text_of(&reply), expected);
    }
    let long = text_of(&Reply::status(500).content_type("text/plain").body("word ".repeat(50_000)));
    assert!(long.contains("\"word word") && long.len() < 400, "{long}");
    // The body of a success is a payload.
    let text = text_of(&Reply::status(200).content_type("text/plain").body("my secret payload"));
    assert!(!text.contains("payload"), "{text}");
}

#[test]
fn a_refusal_does_not_repeat_what_the_client_keeps_secret() {
    let mut harness = HttpClientHarness::<Client<Http>>::client_with(|_, http| {
        *http = mcp_proto::client::HttpConfig::new("http://server.example/mcp?key=querysecret&v=1").unwrap();
        http.header("Authorization", "Bearer headersecret").unwrap();
        http.header("X-Api-Key", "keysecret").unwrap();
        http.header("X-Other-Key", "keysecret-longer").unwrap();
    });
    let opened = harness.opened();
    let reply = initialize_reply(&opened, "2025-11-25", Some("session-secret"));
    harness.reply(opened.key, &reply.header("set-cookie", "lb=cookiesecret"));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(405));
    harness.events();
    let (_, opened) = harness.call("tools/call", "{}");
    // Of a secret that contains another one, no part is shown.
    let body = "rejected headersecret, keysecret, keysecret-longer, querysecret of session-secret, cookiesecret; v 1";
    harness.reply(opened.key, &Reply::status(403).content_type("text/plain").body(body));
    let outcome = harness.outcome();
    let text = failed(&outcome).describe("the server");
    assert!(text.ends_with("\"rejected […], […], […], […] of […], […]; v 1\""), "{text}");
    assert!(!format!("{outcome:?}").contains("rejected"), "{outcome:?}");
}

#[test]
fn a_late_refusal_does_not_repeat_the_id_of_the_session_before() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, first) = harness.call("tools/call", "{}");
    let notification = Notification::new("notifications/roots/list_changed");
    harness.machine.notify(notification, harness.now).unwrap();
    let late = harness.opened();
    harness.reply(first.key, &Reply::status(404));
    harness.events();
    harness.reply(late.key, &Reply::status(418).content_type("text/plain").body("what is session-1?"));
    let texts: Vec<_> = harness
        .events()
        .into_iter()
        .filter_map(|event| if let Event::Faulted(fault) = event { Some(fault.to_string()) } else { None })
        .collect();
    assert!(texts.len() == 1 && texts[0].contains("what is […]?"), "{texts:?}");
}

#[test]
fn a_stream_of_two_endpoints_that_is_refused_says_why() {
    let mut harness = HttpClientHarness::<Client<Http>>::client_with(|_, http| http.transport = HttpTransport::HttpSse);
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(400).content_type("text/plain").body("no such tenant"));
    let events = harness.events();
    let [Event::Unavailable { reason: Unavailable::Failed(reason), .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        reason.describe("the server"),
        "the server answered 400 Bad Request; its explanation is \"no such tenant\""
    );
    let mut harness = HttpClientHarness::<Client<Http>>::client_with(|_, http| http.transport = HttpTransport::HttpSse);
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json("{}"));
    let events = harness.events();
    let [Event::Unavailable { reason: Unavailable::Failed(reason), .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        reason.describe("the server"),
        "the server answered GET with JSON instead of a stream of events; is the path right?"
    );
}

/// Answers while the client opens the session again.
fn reopen(harness: &mut Harness, session: &str) {
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.header("mcp-session-id")), ("initialize", ""));
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some(session)));
    let opened = harness.opened();
    assert_eq!((opened.body(), opened.header("mcp-session-id")), (INITIALIZED, session));
    harness.reply(opened.key, &Reply::status(202));
    let stream = harness.opened();
    harness.reply(stream.key, &Reply::status(405));
}

/// A name, and the reply to a message.
type Form = (&'static str, fn(&Opened) -> Reply);

/// The forms in which servers state that a session is lost.
fn lost_forms() -> Vec<Form> {
    fn text(status: u16, body: &str) -> Reply {
        Reply::status(status).content_type("text/plain; charset=utf-8").body(body)
    }
    fn without_id(status: u16, code: i64, message: &str) -> Reply {
        let body = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"{message}"}}}}"#);
        Reply::json(body).with_status(status)
    }
    vec![
        ("404", |_| Reply::status(404)),
        ("404 with JSON-RPC", |_| without_id(404, -32_001, "Session not found")),
        ("404 with the id", |to| Reply::json(error(&to.id(), -32_001, "Session not found")).with_status(404)),
        ("410", |_| Reply::status(410)),
        ("400 with JSON-RPC", |_| without_id(400, -32_000, "Bad Request: No valid session ID provided")),
        ("400 with the id", |to| Reply::json(error(&to.id(), -32_001, "Session not found")).with_status(400)),
        ("400 with text", |_| text(400, "Invalid session ID")),
        ("400 after a restart", |_| without_id(400, -32_000, "Bad Request: Server not initialized")),
        ("400 with another error", |_| Reply::json(r#"{"error":"Invalid session ID"}"#).with_status(400)),
        ("400 with problem details", |_| {
            let body = r#"{"title":"Bad Request","detail":"Unknown session"}"#;
            Reply::status(400).content_type("application/problem+json").body(body)
        }),
        ("401 without a challenge", |_| text(401, "Unauthorized: Session not found")),
        ("403", |_| text(403, "session expired")),
        ("422", |_| text(422, "Unprocessable Entity: Unexpected message, expect initialize request")),
        ("200 with the id", |to| Reply::json(error(&to.id(), -32_001, "Session not found"))),
        ("200 without an id", |_| without_id(200, -32_600, "Invalid session")),
        ("200 without an id, with another code", |_| without_id(200, -32_000, "Session not found")),
    ]
}

#[test]
fn a16_a_session_lost_in_any_form_is_opened_again_once_and_the_message_is_sent_again() {
    for is_managed in [false, true] {
        for (name, reply) in lost_forms() {
            let mut harness =
                HttpClientHarness::connected_client_with(|_, http| http.managed_authorization = is_managed);
            let (call, opened) = harness.call("tools/call", r#"{"name":"pay"}"#);
            harness.reply(opened.key, &reply(&opened));
            let events = harness.events();
            let is_quirk = events.contains(&Event::QuirkObserved(Quirk::SessionLostWithOtherStatus));
            assert_eq!(is_quirk, !name.starts_with("404"), "{name}");
            assert!(events.contains(&Event::SessionLost), "{name}: {events:?}");
            reopen(&mut harness, "session-2");
            let again = harness.opened();
            assert_eq!((again.body(), again.header("mcp-session-id")), (opened.body(), "session-2"), "{name}");
            harness.reply(again.key, &Reply::json(result(&again.id(), "{}")));
            assert!(matches!(harness.outcomes().get(&call), Some(Outcome::Result(_))), "{name}");

            // In the next session, the same refusal is the outcome.
            let (call, opened) = harness.call("tools/call", r#"{"name":"pay"}"#);
            harness.reply(opened.key, &reply(&opened));
            reopen(&mut harness, "session-3");
            let again = harness.opened();
            harness.reply(again.key, &reply(&again));
            assert!(matches!(harness.outcomes().get(&call), Some(Outcome::Failed(_))), "{name}");
            let next = harness.opened();
            assert_eq!(next.method(), "initialize", "{name}: the session is opened, and the call is not sent again");
        }
    }
}

#[test]
fn a_notification_that_the_lost_session_refuses_late_is_sent_in_the_next_one_at_once() {
    let mut harness = HttpClientHarness::connected_client();
    harness.machine.notify(Notification::new("notifications/x"), harness.now).unwrap();
    let notification = harness.opened();
    let (_, call) = harness.call("tools/call", "{}");
    harness.reply(call.key, &Reply::status(404));
    reopen(&mut harness, "session-2");
    assert_eq!(harness.opened().method(), "tools/call");
    harness.reply(notification.key, &Reply::status(404));
    let again = harness.opened();
    assert_eq!((again.body(), again.header("mcp-session-id")), (notification.body(), "session-2"));
}

#[test]
fn a16_a_call_that_may_have_been_executed_is_not_sent_again() {
    let reply = Reply::status(500).content_type("text/plain").body("Error: session not found");
    for (method, params, is_repeated) in [("tools/call", r#"{"name":"pay"}"#, false), ("tools/list", "{}", true)] {
        let mut harness = HttpClientHarness::connected_client();
        let (call, opened) = harness.call(method, params);
        harness.reply(opened.key, &reply);
        let outcomes = harness.outcomes();
        assert_eq!(outcomes.contains_key(&call), !is_repeated, "{method}");
        if let Some(outcome) = outcomes.get(&call) {
            assert!(failed(outcome).to_string().contains("session not found"), "{outcome:?}");
        }
        reopen(&mut harness, "session-2");
        assert_eq!(harness.has_opened(), is_repeated, "{method}");
    }
}

#[test]
fn a16_a_refusal_that_is_about_the_message_does_not_cost_the_session() {
    let forms: [fn(&Opened) -> Reply; 10] = [
        // It is the answer to another request.
        |_| Reply::json(error("99", -32_001, "session not found")),
        // Nothing states that the request was not executed.
        |_| Reply::json(error("null", -32_603, "session not found")),
        |to| Reply::json(error(&to.id(), -32_602, "unknown session in arguments")).with_status(400),
        |to| Reply::json(error(&to.id(), -32_602, "session not found")),
        |to| Reply::json(error(&to.id(), -32_001, "Request timed out")),
        |to| Reply::json(error(&to.id(), -32_601, "Method not found")).with_status(404),
        |_| Reply::status(429).content_type("text/plain").body("too many sessions: session expired"),
        |_| Reply::status(422).content_type("application/json").body(r#"{"detail":"field required"}"#),
        |_| Reply::status(403).content_type("text/plain").body("Forbidden"),
        |_| Reply::status(400),
    ];
    for (position, reply) in forms.into_iter().enumerate() {
        let mut harness = HttpClientHarness::connected_client();
        let (call, opened) = harness.call("tools/call", "{}");
        harness.reply(opened.key, &reply(&opened));
        assert!(harness.outcomes().contains_key(&call), "{position}");
        assert!(!harness.has_opened(), "{position}");
    }
    // Without a session, there is none to lose.
    let mut harness = HttpClientHarness::<Client<Http>>::client();
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(405));
    let forms: [fn(&Opened) -> Reply; 2] = [
        |_| Reply::status(400).content_type("text/plain").body("Invalid session ID"),
        |to| Reply::json(error(&to.id(), -32_001, "session not found")),
    ];
    for reply in forms {
        let (call, opened) = harness.call("tools/call", "{}");
        harness.reply(opened.key, &reply(&opened));
        assert!(harness.outcomes().contains_key(&call));
        assert!(!harness.has_opened());
    }
}

#[test]
fn credentials_that_are_demanded_after_all_are_asked_for() {
    // The body of a 401 without a challenge is read first, because it may be about the session.
    for body in ["Unauthorized", &"x".repeat(70_000)] {
        let mut harness = HttpClientHarness::connected_client_with(|_, http| http.managed_authorization = true);
        let (call, opened) = harness.call("tools/call", "{}");
        harness.reply(opened.key, &Reply::status(401).content_type("text/html").body(body));
        let events = harness.events();
        assert!(events.iter().any(|event| matches!(event, Event::Challenged(_))), "{events:?}");
        assert!(!events.iter().any(|event| matches!(event, Event::Responded { request, .. } if *request == call)));
    }
}

#[test]
fn a_401_with_a_challenge_is_about_credentials_whatever_its_body_says() {
    let mut harness = HttpClientHarness::connected_client_with(|_, http| http.managed_authorization = true);
    let (_, opened) = harness.call("tools/call", "{}");
    let reply = Reply::status(401).header("www-authenticate", "Bearer").content_type("text/plain");
    harness.reply(opened.key, &reply.body("Unauthorized: Session not found"));
    let events = harness.events();
    assert!(events.iter().any(|event| matches!(event, Event::Challenged(_))), "{events:?}");
    assert!(!events.contains(&Event::SessionLost), "{events:?}");
}

#[test]
fn lc_05_an_older_revision_is_offered_to_a_server_that_refuses_a_newer_one() {
    fn refusals(opened: &Opened) -> Vec<(Reply, &'static str)> {
        let data = r#"{"supported":["2024-11-05","2025-03-26"],"requested":"2025-11-25"}"#;
        let id = opened.id();
        vec![
            (
                Reply::json(error("null", -32_000, "Bad Request: Unsupported protocol version")).with_status(400),
                "2025-06-18",
            ),
            (Reply::json(r#"{"error":"Unsupported MCP version"}"#).with_status(400), "2025-06-18"),
            (Reply::status(400).content_type("text/plain").body("unknown protocolVersion"), "2025-06-18"),
            (Reply::json(error(&id, -32_602, "Unsupported protocol version")), "2025-06-18"),
            // That it repeats the revision that it refuses does not mean that it supports it.
            (Reply::json(error(&id, -32_602, "Unsupported protocol version: 2025-11-25")), "2025-06-18"),
            (Reply::json(error(&id, -32_600, "Unsupported version")), "2025-06-18"),
            (
                Reply::status(400)
                    .content_type("text/plain")
                    .body("bad MCP-Protocol-Version: 2025-11-25, not 2025-03-26"),
                "2025-03-26",
            ),
            (
                Reply::json(error(&id, -32_602, "Unsupported protocol version (supported: 2025-03-26, 2024-11-05)")),
                "2025-03-26",
            ),
            (
                Reply::json(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no","data":{data}}}}}"#
                )),
                "2025-03-26",
            ),
        ]
    }
    for position in 0..9 {
        let mut harness = HttpClientHarness::<Client<Http>>::client();
        let opened = harness.opened();
        let (reply, expected) = refusals(&opened).swap_remove(position);
        harness.reply(opened.key, &reply);
        let again = harness.opened();
        assert_eq!(
            (again.method().as_str(), again.param("protocolVersion")),
            ("initialize", format!("\"{expected}\""))
        );
        harness.reply(again.key, &Reply::json(result(&again.id(), &initialize_result(expected))));
        let events = harness.events();
        assert!(events.contains(&Event::QuirkObserved(Quirk::VersionRefused)), "{events:?}");
        let version = ProtocolVersion::from_text(expected).unwrap();
        assert!(events.iter().any(|event| matches!(event, Event::Connected { version: v, .. } if *v == version)));
    }
}

#[test]
fn lc_05_each_revision_is_offered_once_and_the_first_refusal_is_the_outcome() {
    let mut harness = HttpClientHarness::<Client<Http>>::client();
    let mut offered = Vec::new();
    while harness.has_opened() {
        let opened = harness.opened();
        offered.push(opened.param("protocolVersion"));
        let message = format!("Unsupported protocol version, attempt {}", offered.len());
        harness.reply(opened.key, &Reply::json(error("null", -32_000, &message)).with_status(400));
        assert!(offered.len() < 10);
    }
    assert_eq!(offered, ["\"2025-11-25\"", "\"2025-06-18\"", "\"2025-03-26\"", "\"2024-11-05\""]);
    let events = harness.events();
    let [Event::QuirkObserved(_), Event::Unavailable { reason: Unavailable::Error(reason), .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(reason.message().ends_with("attempt 1"), "{reason:?}");

    // On a byte stream, too.
    let mut stream = ClientStream::detecting_with(|config| {
        config.versions = mcp_testkit::http_client::legacy_versions().collect();
    });
    let lines = stream.lines();
    assert!(lines[0].contains(r#""protocolVersion":"2025-11-25""#), "{lines:?}");
    stream.line(error("1", -32_602, "Unsupported protocol version"));
    let lines = stream.lines();
    assert!(lines[0].contains(r#""protocolVersion":"2025-06-18""#), "{lines:?}");
}
