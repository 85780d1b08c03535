//! Tests for mutants that no other test detects: each test fails if the behaviour in its name is broken.

use std::time::Duration;

use mcp_proto::client::{Call, Client, Event, Http, HttpTransport, Outcome};
use mcp_proto::server::{InputRequired, Scope, TwoEndpoints};
use mcp_proto::{ErrorObject, Failed, Fault, Json, Method, Notification, Quirk, UsageError, server};
use mcp_testkit::bad_requests::PING;
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, initialize_reply};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{DISCOVERED, INITIALIZED, event, initialize_result, request, result};

type HttpClient = HttpClientHarness<Client<Http>>;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

const CONTENT: &str = r#"{"content":[]}"#;
const SECOND: Duration = Duration::from_secs(1);

fn opened(harness: &mut HttpClient) -> Vec<Opened> {
    std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect()
}

/// Answers a client of revision 2025-11-25 until it opens the GET stream of the server.
fn connect(harness: &mut HttpClient) {
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
}

// ---- the client

fn asking_client() -> ClientStream {
    ClientStream::connected_with(|config| config.capabilities = json(r#"{"roots":{}}"#))
}

#[test]
fn the_deadline_of_a_call_runs_again_once_the_server_has_its_answer() {
    for is_taken_back in [false, true] {
        let mut client = asking_client();
        let (call, _) = client.request("tools/call");
        client.pass(30 * SECOND);
        client.line(request("\"q\"", "roots/list", "{}"));
        // The call does not time out while the application has a request of the server to answer.
        client.pass(120 * SECOND);
        let (outcomes, events) = client.outcomes();
        assert!(outcomes.is_empty(), "{outcomes:?}");
        let ticket = events.into_iter().find_map(|event| match event {
            Event::Requested { ticket, .. } => Some(ticket),
            _ => None,
        });
        let ticket = ticket.expect("the server asks");
        if is_taken_back {
            client.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#);
        } else {
            client.machine.answer(ticket, Ok(json("{}")), client.now);
        }
        client.pass(59 * SECOND);
        assert!(client.outcomes().0.is_empty(), "it has its whole time again");
        client.pass(2 * SECOND);
        let (outcomes, _) = client.outcomes();
        let after = 60 * SECOND;
        assert_eq!(outcomes, [(call, Outcome::Failed(Failed::TimedOut { after }))], "taken back: {is_taken_back}");
    }
}

#[test]
fn a_session_id_is_not_kept_where_the_revision_has_no_sessions() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&mcp_testkit::messages::initialize("\"i\"", "2025-11-25"));
    let first = harness.opened();
    let only_modern = format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32022,"message":"no","data":{{"supported":["2026-07-28"],"requested":"2025-11-25"}}}}}}"#,
        first.id()
    );
    // The responses contain a session id, although the negotiated revision has no sessions.
    harness.reply(first.key, &Reply::json(only_modern).header("mcp-session-id", "session-1"));
    let discover = harness.opened();
    assert_eq!((discover.method().as_str(), discover.header("mcp-session-id")), ("server/discover", ""));
    harness.reply(discover.key, &Reply::json(result(&discover.id(), DISCOVERED)).header("mcp-session-id", "session-2"));
    assert_eq!(harness.lines().len(), 1);
    for id in ["1", "2"] {
        let call = harness.call(id, "tools/list");
        assert_eq!(call.header("mcp-session-id"), "");
        let listed = r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}"#;
        harness.reply(call.key, &Reply::json(result(&call.id(), listed)).header("mcp-session-id", "session-3"));
    }
    // Without a session, a 404 is a refusal, and the relay has no session to end.
    let call = harness.call("3", "tools/list");
    harness.reply(call.key, &Reply::status(404));
    harness.machine.handle_eof(harness.now);
    assert!(!harness.has_opened());
}

#[test]
fn a_message_that_the_server_begins_to_refuse_is_not_unaccepted_as_well() {
    let mut harness = HttpClientHarness::connected_client();
    harness.machine.notify(mcp_proto::Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
    let sent = harness.opened();
    harness.begin(sent.key, &Reply::status(500).content_type("text/plain").body("it "));
    harness.pass(31 * SECOND);
    assert_eq!(harness.events(), [], "the time to accept it is over, but the server has begun to answer");
    assert!(!harness.is_aborted(sent.key));
    harness.send(sent.key, b"is broken");
    harness.end(sent.key);
    let refused = |event: &Event| matches!(event, Event::Faulted(Fault::NotAccepted { reason: Failed::Refused(refusal) }) if refusal.status == 500);
    let events = harness.events();
    assert!(events.len() == 1 && refused(&events[0]), "{events:?}");
    // For comparison, a server that does not respond at all.
    harness.machine.notify(mcp_proto::Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
    let sent = harness.opened();
    harness.pass(31 * SECOND);
    let reason = Failed::TimedOut { after: 30 * SECOND };
    assert_eq!(harness.events(), [Event::Faulted(Fault::NotAccepted { reason })]);
    assert!(harness.is_aborted(sent.key));
}

/// A call whose stream ended after an event with an id, and which waits to be resumed.
fn pausing() -> (HttpClient, mcp_proto::RequestKey, Opened) {
    let mut harness = HttpClientHarness::connected_client();
    let (request, call) = harness.request("tools/call");
    harness.begin(call.key, &Reply::events("id: 7\ndata:\n\n"));
    harness.end(call.key);
    assert!(harness.events().is_empty() && !harness.has_opened());
    (harness, request, call)
}

#[test]
fn a_call_that_is_cancelled_while_its_stream_waits_to_be_resumed_is_taken_back() {
    let (mut harness, request, call) = pausing();
    harness.machine.cancel(request, Some("enough"), harness.now);
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::Cancelled));
    let notice = harness.opened();
    assert_eq!(notice.method(), "notifications/cancelled");
    assert_eq!((notice.param("requestId"), notice.param("reason")), (call.id(), "\"enough\"".into()));
    harness.reply(notice.key, &Reply::status(202));
    harness.pass(60 * SECOND);
    assert!(!harness.has_opened(), "the stream is not opened again");
    assert_eq!(harness.machine.poll_timeout(), None, "nothing is left behind");
    // The exchange of the call is free again.
    let mut count = 0;
    for _ in 0..60 {
        harness.machine.request(Call::new("tools/call"), harness.now).unwrap();
        count += opened(&mut harness).len();
    }
    assert_eq!(count, 48);
}

#[test]
fn a_stream_whose_resumption_is_answered_with_5xx_is_tried_again() {
    for status in [500, 502, 503, 408, 429] {
        let (mut harness, _, call) = pausing();
        harness.pass(5 * SECOND);
        let resumed = harness.opened();
        assert_eq!((resumed.line().as_str(), resumed.header("last-event-id")), ("GET /mcp", "7"));
        harness.reply(resumed.key, &Reply::status(status));
        assert!(harness.events().is_empty(), "{status}");
        harness.pass(10 * SECOND);
        let resumed = harness.opened();
        assert_eq!(resumed.header("last-event-id"), "7", "{status}");
        harness.reply(resumed.key, &Reply::events(event(&result(&call.id(), CONTENT))));
        assert!(matches!(harness.outcome(), Outcome::Result(_)), "{status}");
    }
    // The number of attempts is limited, and a 400 ends the call at once.
    let (mut harness, ..) = pausing();
    let mut attempts = 0;
    let outcome = loop {
        harness.pass(8 * SECOND);
        for resumed in opened(&mut harness) {
            attempts += 1;
            harness.reply(resumed.key, &Reply::status(503));
        }
        if let Some((_, outcome)) = harness.outcomes().pop_first() {
            break outcome;
        }
    };
    assert!(matches!(outcome, Outcome::Failed(Failed::Refused(refusal)) if refusal.status == 503));
    assert_eq!(attempts, 3);
    let (mut harness, ..) = pausing();
    harness.pass(5 * SECOND);
    let resumed = harness.opened();
    harness.reply(resumed.key, &Reply::status(400));
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded));
}

#[test]
fn a_refusal_whose_body_breaks_off_is_the_outcome() {
    for status in [400, 403, 500, 503] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, call) = harness.request("tools/call");
        let refusal = Reply::status(status).content_type("application/json").body("{\"jsonrpc\":");
        harness.begin(call.key, &refusal);
        assert!(harness.outcomes().is_empty(), "the body may state the reason");
        harness.fail(call.key, mcp_testkit::http_client::broken());
        let outcome = harness.outcome();
        let is_refused = |outcome: &Outcome| matches!(outcome, Outcome::Failed(Failed::Refused(refusal)) if refusal.status == status);
        assert!(is_refused(&outcome), "{status}: {outcome:?}");
    }
}

#[test]
fn a_redirected_resumption_is_read_no_longer_than_its_request_needs() {
    let (mut harness, ..) = pausing();
    harness.pass(5 * SECOND);
    let resumed = harness.opened();
    harness.reply(resumed.key, &Reply::status(307).header("location", "/elsewhere"));
    let redirected = harness.opened();
    assert_eq!((redirected.line().as_str(), redirected.header("last-event-id")), ("GET /elsewhere", "7"));
    harness.pass(60 * SECOND);
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::TimedOut { .. })));
    harness.pass(5 * SECOND);
    assert!(harness.is_aborted(redirected.key));
}

#[test]
fn answers_to_a_lost_session_are_not_sent_in_the_next() {
    let mut harness = HttpClientHarness::connected_client_with(|config, http| {
        config.capabilities = json(r#"{"roots":{}}"#);
        http.redelivery = 20 * SECOND;
    });
    let (_, call) = harness.request("tools/call");
    harness.begin(call.key, &Reply::events(event(&request("5", "roots/list", "{}"))));
    let ticket = harness.events().into_iter().find_map(|event| match event {
        Event::Requested { ticket, .. } => Some(ticket),
        _ => None,
    });
    harness.machine.answer(ticket.expect("the server asks"), Ok(json(r#"{"roots":[]}"#)), harness.now);
    let answer = harness.opened();
    // The answer was not delivered, and waits to be sent again when the session is lost.
    harness.refuse(answer.key);
    let (_, ping) = harness.request("ping");
    harness.reply(ping.key, &Reply::status(404));
    let again = harness.opened();
    harness.reply(again.key, &initialize_reply(&again, "2025-11-25", Some("session-2")));
    let confirmed = harness.opened();
    harness.reply(confirmed.key, &Reply::status(202));
    harness.pass(20 * SECOND);
    let later = opened(&mut harness);
    assert!(later.iter().any(|opened| opened.method() == "ping"));
    assert!(!later.iter().any(|opened| opened.body().contains("roots")), "{later:?}");
}

#[test]
fn a_cancellation_takes_back_every_question_with_its_id() {
    let mut client = asking_client();
    client.line(request("5", "roots/list", "{}"));
    client.line(request("5", "roots/list", "{}"));
    let asked = client.events().into_iter().filter(|event| matches!(event, Event::Requested { .. })).count();
    assert_eq!(asked, 2);
    client.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    let taken_back = client.events().into_iter().filter(|event| matches!(event, Event::RequestCancelled { .. }));
    assert_eq!(taken_back.count(), 2);
}

#[test]
fn a_request_that_was_cancelled_before_it_was_sent_never_reaches_the_server() {
    let mut client = ClientStream::client();
    client.machine.connect(client.now).unwrap();
    let request = client.machine.request(Call::new("tools/call"), client.now).unwrap();
    client.machine.cancel(request, None, client.now);
    assert_eq!(client.outcomes().0, [(request, Outcome::Failed(Failed::Cancelled))]);
    client.line(result("1", &initialize_result("2025-11-25")));
    client.pass(120 * SECOND);
    let lines = client.lines();
    assert!(lines.len() == 2 && !lines.iter().any(|line| line.contains("cancelled")), "{lines:?}");
}

#[test]
fn a_two_endpoint_server_cannot_answer_what_was_not_sent() {
    let mut harness = HttpClientHarness::client_with(|config, http| {
        config.limits.exchanges = 3;
        http.transport = HttpTransport::HttpSse;
    });
    let stream = harness.opened();
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /messages\n\n"));
    let first = harness.opened();
    harness.reply(first.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&first.id(), &initialize_result("2024-11-05"))).as_bytes());
    let confirmed = harness.opened();
    harness.reply(confirmed.key, &Reply::status(202));
    let requests: Vec<_> =
        (0..3).map(|_| harness.machine.request(Call::new("tools/call"), harness.now).unwrap()).collect();
    let sent = opened(&mut harness);
    assert_eq!(sent.len(), 2, "one waits");
    harness.events();
    let unsent = sent[1].id().parse::<i64>().unwrap() + 1;
    harness.send(stream.key, event(&result(&unsent.to_string(), CONTENT)).as_bytes());
    assert!(matches!(&harness.events()[..], [Event::Faulted(Fault::UnknownResponse { .. })]));
    harness.reply(sent[0].key, &Reply::status(202));
    let last = harness.opened();
    assert_eq!(last.id(), unsent.to_string());
    harness.reply(last.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&unsent.to_string(), CONTENT)).as_bytes());
    assert_eq!(harness.outcomes().keys().collect::<Vec<_>>(), [&requests[2]]);
}

#[test]
fn a_request_that_was_cancelled_is_not_sent_to_where_a_redirect_leads() {
    let mut harness = HttpClientHarness::connected_client();
    let (request, call) = harness.request("tools/call");
    harness.machine.handle_sent(call.key, harness.now);
    harness.machine.cancel(request, None, harness.now);
    let notice = harness.opened();
    assert_eq!(notice.method(), "notifications/cancelled");
    harness.begin(call.key, &Reply::status(307).header("location", "/other"));
    assert!(!harness.has_opened());
}

// ---- the relay

#[test]
fn lc_14_a_relay_does_not_let_initialize_be_cancelled() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&mcp_testkit::messages::initialize("\"i\"", "2025-11-25"));
    let sent = harness.opened();
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}"#);
    assert!(!harness.has_opened() && !harness.is_aborted(sent.key));
    harness.reply(sent.key, &initialize_reply(&sent, "2025-11-25", Some("session-1")));
    assert_eq!(harness.lines(), [result("\"i\"", &initialize_result("2025-11-25"))]);
    harness.confirm();
}

#[test]
fn a_question_that_the_client_of_a_relay_never_answers_is_answered_by_the_relay() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.pass(10 * SECOND);
    harness.begin(call.key, &Reply::events(event(&request("5", "sampling/createMessage", "{}"))));
    assert_eq!(harness.lines().len(), 1);
    // An occasional comment keeps the stream alive.
    let mut answers = Vec::new();
    for _ in 0..40 {
        harness.pass(100 * SECOND);
        if !harness.is_aborted(call.key) {
            harness.send(call.key, b":\n\n");
        }
        while harness.has_opened() {
            let opened = harness.opened();
            harness.reply(opened.key, &Reply::status(202));
            answers.push(opened.body().to_owned());
        }
    }
    let answered = |body: &String| body.contains(r#""id":5,"error":{"code":-32603"#);
    assert_eq!(answers.iter().filter(|body| answered(body)).count(), 1, "{answers:?}");
}

// ---- the server

const CALL: &str = r#"{"_meta":{"progressToken":"t"}}"#;

#[test]
fn a_stream_that_is_resumed_while_the_old_one_is_open_ends_the_old_one() {
    let mut http_server = HttpServerHarness::new();
    let id = http_server.session("2025-11-25");
    let (old, ticket) = http_server.call(&id, "1", CALL);
    let step = |step| server::Progress { progress: step, total: None, message: None };
    http_server.server.progress(&ticket, &step(1.0), http_server.now);
    let sent = http_server.take(old);
    assert!(!sent.is_over);
    let ids = sent.ids();
    let new = http_server.begin(&TestRequest::get().in_session(&id).with("last-event-id", &ids[0]));
    assert!(http_server.take(old).is_over, "two connections do not carry one stream");
    http_server.server.progress(&ticket, &step(2.0), http_server.now);
    assert_eq!(http_server.take(new).data().len(), 2);
    assert!(http_server.peek(old).is_none(), "nothing more is written to it");
    // A disconnect of the old connection changes nothing.
    http_server.server.handle_disconnect(old, http_server.now);
    http_server.respond(ticket, "{}");
    let sent = http_server.take(new);
    assert!(sent.is_over && sent.data().last().unwrap().contains(r#""result":{}"#));
}

#[test]
fn a_session_in_which_a_request_runs_does_not_expire() {
    let mut http_server = HttpServerHarness::new();
    let id = http_server.session("2025-11-25");
    let (key, ticket) = http_server.call(&id, "1", CALL);
    http_server.server.handle_disconnect(key, http_server.now);
    http_server.pass(Duration::from_secs(3 * 3600));
    assert_eq!(http_server.server.sessions(), 1, "its handler still works, although no client is connected");
    http_server.respond(ticket, "{}");
    assert_eq!(http_server.answer(&TestRequest::post(PING).in_session(&id)).code(), 200);
    http_server.pass(Duration::from_secs(2 * 3600));
    assert_eq!(http_server.server.sessions(), 0, "and now it is idle");
}

/// A server with the two endpoints of the first revision beside the Streamable HTTP endpoint.
fn site_of_two_endpoints() -> HttpServerHarness {
    let two = TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() };
    HttpServerHarness::with(|http, _| http.two_endpoints = Some(two))
}

/// Opens a session of the first revision; returns its stream and the path to which its client sends POST requests.
fn open_two_endpoint_session(http_server: &mut HttpServerHarness) -> (server::ExchangeKey, String) {
    let stream = http_server.begin(&TestRequest::get().at("/sse"));
    let text = http_server.take(stream).text();
    let messages = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("an endpoint");
    (stream, messages.to_owned())
}

#[test]
fn or4_a_message_for_a_session_of_the_first_revision_is_json() {
    let mut http_server = site_of_two_endpoints();
    let (_, messages) = open_two_endpoint_session(&mut http_server);
    for (kind, status) in [("text/plain", 415), ("application/json", 202)] {
        let asked = TestRequest::post(initialize("2024-11-05")).at(&messages).with("content-type", kind);
        assert_eq!(http_server.answer(&asked).code(), status, "{kind}");
    }
}

#[test]
fn hs_07_what_is_no_json_for_a_session_of_the_first_revision_is_refused_and_reported() {
    let mut http_server = site_of_two_endpoints();
    let (_, messages) = open_two_endpoint_session(&mut http_server);
    assert_eq!(http_server.answer(&TestRequest::post(initialize("2024-11-05")).at(&messages)).code(), 202);
    http_server.events();
    assert_eq!(http_server.answer(&TestRequest::post("{").at(&messages)).code(), 400);
    let events = http_server.events();
    assert!(matches!(events[..], [server::Event::Faulted(Fault::Parse(_))]), "{events:?}");
}

#[test]
fn hs_07_a_batch_for_a_session_of_the_first_revision_is_refused_on_its_stream() {
    let mut http_server = site_of_two_endpoints();
    let (stream, messages) = open_two_endpoint_session(&mut http_server);
    for body in [
        initialize("2024-11-05"),
        INITIALIZED.into(),
        format!("[{},{}]", request("7", "ping", "{}"), request("8", "ping", "{}")),
    ] {
        assert_eq!(http_server.answer(&TestRequest::post(body).at(&messages)).code(), 202);
    }
    let text = http_server.take(stream).text();
    assert!(
        text.contains("a batch, which this revision does not allow") && !text.contains(&result("7", "{}")),
        "{text}"
    );
}

#[test]
fn a_page_of_another_origin_neither_ends_a_session_nor_posts_to_the_older_endpoint() {
    let mut http_server = site_of_two_endpoints();
    let id = http_server.session("2025-11-25");
    let (stream, messages) = open_two_endpoint_session(&mut http_server);
    for (asked, status) in [
        (TestRequest::new("DELETE", "").in_session(&id), 204),
        (TestRequest::post(initialize("2024-11-05")).at(&messages), 202),
    ] {
        let sessions = http_server.server.sessions();
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            assert_eq!(http_server.answer(&asked.clone().with("origin", origin)).code(), 403, "{origin}");
        }
        assert_eq!(
            (http_server.server.sessions(), http_server.peek(stream).is_none()),
            (sessions, true),
            "nothing has happened"
        );
        assert_eq!(http_server.answer(&asked.with("origin", "http://localhost:3000")).code(), status);
    }
    assert_eq!(http_server.server.sessions(), 1);
    assert!(http_server.take(stream).text().contains("protocolVersion"));
}

#[test]
fn two_revisions_in_the_headers_of_one_request_of_a_session_are_refused() {
    let mut http_server = HttpServerHarness::new();
    let id = http_server.session("2025-11-25");
    for method in ["POST", "GET", "DELETE"] {
        for second in ["2025-11-25", "2025-06-18"] {
            let body = if method == "POST" { PING } else { "" };
            let asked = TestRequest::new(method, body).in_session(&id).with("mcp-protocol-version", "2025-11-25");
            assert_eq!(http_server.answer(&asked.and("mcp-protocol-version", second)).code(), 400, "{method} {second}");
        }
    }
    assert_eq!(
        http_server.answer(&TestRequest::post(PING).in_session(&id).with("mcp-protocol-version", "2025-11-25")).code(),
        200
    );
}

#[test]
fn a_failed_initialize_opens_no_session_and_names_none() {
    let mut http_server = HttpServerHarness::new();
    for params in ["{}", r#"{"protocolVersion":1}"#, r#"{"protocolVersion":"2025-11-25","a":1,"a":2}"#, "[]"] {
        let sent = http_server.answer(&TestRequest::post(request("1", "initialize", params)));
        assert_eq!(sent.code(), 400, "{params}: {}", sent.text());
        assert!(!sent.headers.contains_key("mcp-session-id"), "{params}");
        assert_eq!(http_server.server.sessions(), 0, "{params}");
    }
    http_server.session("2025-11-25");
    assert_eq!(http_server.server.sessions(), 1);
}

#[test]
fn sh_s_56_a_question_outlives_the_stream_that_carried_it() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut http_server = HttpServerHarness::new();
        let id = http_server.session(version);
        let answer = |id: &str| TestRequest::post(result(id, r#"{"action":"accept"}"#));
        // The request was sent on the stream of its call, which breaks before the answer.
        let (key, ticket) = http_server.call(&id, "1", "{}");
        let during = Scope::from(&ticket);
        let asked = http_server.server.request(during, Call::new("elicitation/create"), http_server.now).unwrap();
        assert_eq!(http_server.take(key).data().len(), 1);
        http_server.events();
        http_server.server.handle_disconnect(key, http_server.now);
        assert!(http_server.events().is_empty(), "{version}");
        assert_eq!(http_server.answer(&answer("1").in_session(&id)).code(), 202);
        let answered = |events: &[server::Event], asked| matches!(events, [server::Event::Responded { request, outcome: Outcome::Result(_) }] if *request == asked);
        let events = http_server.events();
        assert!(answered(&events, asked), "{version}: {events:?}");
        http_server.respond(ticket, "{}");

        // The client disconnects before it is asked: the request is sent on the session's own stream.
        let (key, ticket) = http_server.call(&id, "2", "{}");
        http_server.server.handle_disconnect(key, http_server.now);
        let during = Scope::from(&ticket);
        let asked = http_server.server.request(during, Call::new("elicitation/create"), http_server.now).unwrap();
        let own = http_server.begin(&TestRequest::get().in_session(&id));
        let data = http_server.take(own).data();
        assert!(data.len() == 1 && data[0].contains("elicitation/create"), "{version}: {data:?}");
        assert_eq!(http_server.answer(&answer("2").in_session(&id)).code(), 202);
        let events = http_server.events();
        assert!(answered(&events, asked), "{version}: {events:?}");
        http_server.respond(ticket, "{}");
        http_server.server.handle_disconnect(own, http_server.now);
    }
}

#[test]
fn questions_fail_at_the_end_of_input_although_a_handler_still_works() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "tools/call", "{}"));
    let ticket = stream.requested().pop().expect("a call");
    let during = Scope::from(&ticket);
    let asked = stream.machine.request(during, Call::new("elicitation/create"), stream.now).unwrap();
    assert_eq!(stream.lines().len(), 1);
    stream.machine.handle_eof(stream.now);
    let events = stream.events();
    let failed = |event: &server::Event| matches!(event, server::Event::Responded { request, outcome: Outcome::Failed(Failed::Closed) } if *request == asked);
    assert_eq!(events.iter().filter(|event| failed(event)).count(), 1, "it cannot be answered any more: {events:?}");
    assert!(!events.iter().any(|event| matches!(event, server::Event::Closed { .. })));
    // The handler continues without the answer, and its response is written.
    let error = ErrorObject::new(-32000, "not asked");
    stream.machine.respond(ticket, Err(error), stream.now).unwrap();
    assert!(stream.lines()[0].contains("not asked"));
    assert!(stream.events().iter().any(|event| matches!(event, server::Event::Closed { .. })));
}

#[test]
fn a_quirk_is_reported_once_in_a_connection() {
    let mut harness = HttpClientHarness::connected_client();
    for times in [1, 0] {
        harness.machine.notify(mcp_proto::Notification::new("n"), harness.now).unwrap();
        let sent = harness.opened();
        harness.reply(sent.key, &Reply::status(200));
        let quirk = Event::QuirkObserved(Quirk::NotificationNotAccepted202);
        assert_eq!(harness.events().iter().filter(|event| **event == quirk).count(), times);
    }
}

#[test]
fn a_request_may_need_input_as_often_as_the_limit_allows() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.input_rounds = 2);
    stream.line(request("\"c\"", "tools/call", r#"{"name":"t"}"#));
    for round in 1..=3 {
        let ticket = stream.requested().pop().expect("a call");
        let required = InputRequired::new().ask("k", "roots/list", json("{}"));
        stream.machine.require_input(ticket, required, stream.now).unwrap();
        let lines = stream.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0].contains("roots/list"), round <= 2, "round {round}: {lines:?}");
        let id = lines[0].split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
        if round <= 2 {
            stream.line(result(&id, r#"{"roots":[]}"#));
        } else {
            assert!(lines[0].contains(r#""id":"c","error""#), "{lines:?}");
        }
    }
}

#[test]
fn ht8_an_error_body_over_the_limit_explains_nothing() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.error_body = 200);
    let (request, opened) = harness.request("tools/list");
    let reply = Reply::json(mcp_testkit::messages::error(&opened.id(), -32_602, "m")).with_status(400);
    harness.begin(opened.key, &reply);
    harness.send(opened.key, " ".repeat(200).as_bytes());
    let outcomes = harness.outcomes();
    assert!(matches!(outcomes[&request], Outcome::Failed(Failed::Refused(_))), "{outcomes:?}");
}

#[test]
fn sh_c_15_an_error_that_names_another_request_explains_nothing() {
    for (id, is_explanation) in [("null", true), ("\"server-error\"", true), ("99", false)] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/list");
        harness.reply(opened.key, &Reply::json(mcp_testkit::messages::error(id, -32_602, "m")).with_status(400));
        assert_eq!(matches!(harness.outcome(), Outcome::Error(_)), is_explanation, "{id}");
    }
}

#[test]
fn md_p_12_pages_of_tools_are_fetched_up_to_a_bound() {
    let mut harness = HttpClientHarness::modern_client();
    let (_, opened) = harness.call("tools/call", r#"{"name":"x"}"#);
    harness.reply(opened.key, &Reply::json(mcp_testkit::messages::error(&opened.id(), -32_020, "m")).with_status(400));
    for page in 0..32 {
        let opened = harness.opened();
        assert_eq!(opened.method(), "tools/list", "page {page}");
        let page = r#"{"resultType":"complete","tools":[],"nextCursor":"more"}"#;
        harness.reply(opened.key, &Reply::json(result(&opened.id(), page)));
    }
    assert_eq!(harness.opened().method(), "tools/call", "the call is made again with what is known");
}

#[test]
fn a_stream_that_cannot_be_opened_for_now_is_tried_ten_times_more() {
    let mut harness = HttpClientHarness::client_with(|_, _| {});
    connect(&mut harness);
    let opened = harness.opened();
    assert_eq!(opened.line(), "GET /mcp");
    harness.events();
    harness.reply(opened.key, &Reply::status(503));
    for attempt in 1..=10 {
        assert_eq!(harness.events(), [], "before attempt {attempt}");
        while !harness.has_opened() {
            harness.pass(SECOND);
        }
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(503));
    }
    let events = harness.events();
    assert!(matches!(events[..], [Event::Faulted(Fault::NoServerStream { .. })]), "{events:?}");
    harness.pass(Duration::from_secs(3600));
    assert!(!harness.has_opened());
}

#[test]
fn ev_19_a_message_in_an_event_of_another_type_is_taken_and_met_as_a_quirk() {
    for (name, quirks) in [("message", 0), ("other", 1)] {
        let mut harness = HttpClientHarness::connected_client();
        let (key, opened) = harness.request("tools/list");
        harness.events();
        let text = format!("event: {name}\ndata: {}\n\n", result(&opened.id(), "{}"));
        harness.reply(opened.key, &Reply::events(text));
        let events = harness.events();
        let met = events.iter().filter(|event| matches!(event, Event::QuirkObserved(Quirk::MessageInOtherEvent)));
        assert_eq!(met.count(), quirks, "{name}");
        assert!(events.iter().any(
            |event| matches!(event, Event::Responded { request, outcome: Outcome::Result(_) } if *request == key)
        ));
    }
}

#[test]
fn a_notification_whose_parameters_are_no_object_is_not_sent() {
    let mut stream = ClientStream::connected();
    for params in ["[]", "1", "null"] {
        let notification = Notification::with_params("x/y", json(params));
        assert_eq!(
            stream.machine.notify(notification, stream.now),
            Err(UsageError::NotAnObject { what: "the value of params" }),
            "{params}"
        );
    }
    assert!(stream.lines().is_empty());
}

#[test]
fn rp4_a_broken_request_of_the_server_is_answered() {
    let mut stream = ClientStream::connected();
    stream.line(r#"{"jsonrpc":"2.0","id":5,"method":7}"#);
    let lines = stream.lines();
    assert!(lines.len() == 1 && lines[0].starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32600"#), "{lines:?}");
}

#[test]
fn methods_are_compared_with_text() {
    for (method, text, other) in [(Method::PING, "ping", "pong"), (Method::from("x/y"), "x/y", "x")] {
        assert!(method == *text && method != *other, "{text}");
    }
}

#[test]
fn le_1_streams_of_the_server_are_redirected_as_often_as_the_limit_allows() {
    for transport in [HttpTransport::StreamableHttp, HttpTransport::HttpSse] {
        let mut harness = HttpClientHarness::client_with(|config, http| {
            config.limits.redirects = 2;
            http.transport = transport;
        });
        if transport == HttpTransport::StreamableHttp {
            connect(&mut harness);
        }
        for (from, to) in [("GET /mcp", "/a"), ("GET /a", "/b")] {
            let opened = harness.opened();
            assert_eq!(opened.line(), from);
            harness.reply(opened.key, &Reply::status(307).header("location", to));
        }
        let opened = harness.opened();
        assert_eq!(opened.line(), "GET /b");
        harness.events();
        harness.reply(opened.key, &Reply::status(307).header("location", "/c"));
        assert!(!harness.has_opened());
        let events = harness.events();
        let is_reported = if transport == HttpTransport::HttpSse {
            matches!(events[..], [Event::Unavailable { .. }, ..])
        } else {
            matches!(events[..], [Event::Faulted(Fault::NoServerStream { .. })])
        };
        assert!(is_reported, "{transport:?}: {events:?}");
    }
}

#[test]
fn lc_18_a_change_is_published_only_where_its_flag_is_declared_and_not_false() {
    for (capabilities, is_declared) in [
        (r#"{"tools":{"listChanged":true}}"#, true),
        (r#"{"tools":{"listChanged":false}}"#, false),
        (r#"{"tools":{}}"#, false),
    ] {
        let mut stream = ServerStream::ready_with("2025-11-25", |config| config.capabilities = json(capabilities));
        let published = stream.machine.publish(Notification::new(Method::TOOLS_LIST_CHANGED), stream.now);
        let refused = Err(UsageError::NotDeclared { capability: "tools" });
        assert_eq!(published, if is_declared { Ok(()) } else { refused }, "{capabilities}");
    }
}

#[test]
fn the_id_of_a_session_is_marked_as_a_secret_in_every_request() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/list");
    let id = &opened.request.headers()["mcp-session-id"];
    assert!(id.is_sensitive());
    assert_eq!(id, "session-1");
}
