//! A server that is drained: requests in progress are answered, and no others are served.

use std::time::Duration;

use mcp_proto::client::{Call, CloseReason};
use mcp_proto::server::{Config, Event, HttpConfig, InputRequired, Scope, TwoEndpoints};
use mcp_proto::{Json, Notification};
use mcp_testkit::bad_requests::PING;
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_exchange::{TestRequest, initialize, modern};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{self, INITIALIZED, request, result};

const TIME: Duration = Duration::from_secs(20);
const CANCELLED: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;

fn configure(config: &mut Config) {
    config.capabilities = Json::parse(r#"{"tools":{"listChanged":true}}"#).unwrap();
}

fn with_http(change: impl FnOnce(&mut HttpConfig)) -> HttpServerHarness {
    HttpServerHarness::with(|http, config| {
        change(http);
        configure(config);
    })
}

fn stream() -> ServerStream {
    let mut stream = ServerStream::server_with(configure);
    stream.line(initialize("2025-11-25"));
    stream.line(INITIALIZED);
    stream.lines();
    stream.events();
    stream
}

/// What a drained server reports at last: how many requests were cancelled, and how many sessions were closed.
fn end_of(events: &[Event]) -> Option<(usize, usize)> {
    let at = events.iter().position(|event| matches!(event, Event::Drained { .. }))?;
    let Event::Drained { cancelled } = events[at] else { return None };
    let closed = |event: &&Event| matches!(event, Event::Closed { reason: CloseReason::Local, .. });
    let after = &events[at + 1..];
    assert_eq!(after.iter().filter(|event| matches!(event, Event::Cancelled { .. })).count(), cancelled);
    Some((cancelled, after.iter().filter(closed).count()))
}

#[test]
fn over_http_what_is_in_progress_is_answered_and_what_is_new_is_refused() {
    let mut harness = with_http(|_| {});
    let id = harness.session("2025-11-25");
    let other = harness.session("2025-11-25");
    let opened = harness.begin(&TestRequest::get().in_session(&id));
    let (key, ticket) = harness.call(&id, "1", "{}");
    let listening = harness.ask(&TestRequest::stateless(
        "\"l\"",
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true},"#,
    ));
    assert_eq!(harness.take(listening).data().len(), 1, "it is acknowledged");
    harness.server.drain(TIME, harness.now);

    assert!(harness.take(opened).is_over, "the stream of the session");
    let ended = harness.take(listening);
    assert!(ended.is_over && ended.text().contains(r#""id":"l","result":{"#), "MD-L-09: {}", ended.text());
    let in_session = |body: &str| TestRequest::post(body.to_owned()).in_session(&id);
    let call = request("2", "tools/call", "{}");
    for (name, asked, code, text) in [
        ("a call", in_session(&call), 503, r#""id":2,"error":{"code":-32603"#),
        ("a setting", in_session(&request("3", "logging/setLevel", "{}")), 503, r#""id":3,"error":"#),
        ("a new session", TestRequest::post(initialize("2025-11-25")), 503, r#""error":"#),
        ("a stream", TestRequest::get().in_session(&id), 503, r#""error":"#),
        ("a stateless call", TestRequest::stateless_call("4", "t", ""), 503, r#""id":4,"error":{"code":-32603"#),
        ("a discovery", TestRequest::stateless("5", "server/discover", ""), 503, r#""id":5,"error":"#),
        ("a ping", in_session(PING), 200, r#""result":{}"#),
        ("a notification", in_session(INITIALIZED), 202, ""),
        ("the end of a session", TestRequest::new("DELETE", "").in_session(&other), 204, ""),
    ] {
        let sent = harness.answer(&asked);
        assert!(sent.code() == code && sent.text().contains(text), "{name}: {} {}", sent.code(), sent.text());
        assert_eq!(sent.headers.contains_key("retry-after"), code == 503, "{name}");
    }
    assert_eq!(end_of(&harness.events()), None, "the call is not answered");
    harness.respond(ticket, r#"{"content":[]}"#);
    assert_eq!(harness.take(key).text(), r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    assert_eq!(end_of(&harness.events()), Some((0, 1)));
    assert_eq!(harness.answer(&in_session(PING)).code(), 503);
    harness.pass(TIME * 2);
    assert_eq!(end_of(&harness.events()), None, "it ends once");
}

#[test]
fn fr15_over_a_byte_stream_what_is_in_progress_is_answered_and_what_is_new_is_refused() {
    let mut stream = stream();
    stream.line(request("1", "tools/call", "{}"));
    let ticket = stream.requested().pop().unwrap();
    stream.line(modern("\"l\"", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#));
    stream.lines();
    stream.machine.drain(TIME, stream.now);
    let ended = stream.lines();
    assert!(ended.len() == 1 && ended[0].contains(r#""id":"l","result":{"#), "MD-L-09: {ended:?}");
    for (line, answer) in [
        (request("2", "tools/call", "{}"), r#""id":2,"error":{"code":-32603"#),
        (modern("3", "tools/call", ""), r#""id":3,"error":{"code":-32603"#),
        (request("4", "ping", "{}"), r#""id":4,"result":{}"#),
    ] {
        stream.line(line);
        let lines = stream.lines();
        assert!(lines.len() == 1 && lines[0].contains(answer), "{lines:?}");
    }
    stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).unwrap();
    assert_eq!(stream.lines(), [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
    assert_eq!(end_of(&stream.events()), Some((0, 1)));
    assert!(stream.machine.is_closed());
}

#[test]
fn what_is_not_answered_in_time_is_cancelled_as_by_a_close() {
    let mut harness = with_http(|_| {});
    let id = harness.session("2025-11-25");
    let (key, _) = harness.call(&id, "1", "{}");
    let stateless = harness.ask(&TestRequest::stateless_call("2", "t", ""));
    harness.server.drain(TIME, harness.now);
    harness.pass(TIME.saturating_sub(Duration::from_millis(1)));
    assert_eq!((harness.take(key).code(), end_of(&harness.events())), (0, None));
    harness.pass(Duration::from_millis(1));
    for (key, id) in [(key, 1), (stateless, 2)] {
        let text = harness.take(key).text();
        assert!(text.contains(&format!(r#""id":{id},"error":{{"code":-32603"#)), "{text}");
    }
    assert_eq!(end_of(&harness.events()), Some((2, 1)));

    let mut stream = stream();
    stream.line(request("1", "tools/call", "{}"));
    stream.machine.drain(TIME, stream.now);
    stream.pass(TIME);
    assert!(stream.lines()[0].contains(r#""id":1,"error":{"code":-32603"#));
    assert_eq!(end_of(&stream.events()), Some((1, 1)));
}

#[test]
fn a_server_without_requests_ends_at_once_and_a_close_ends_what_is_drained() {
    let mut harness = with_http(|_| {});
    harness.session("2025-11-25");
    harness.server.drain(TIME, harness.now);
    assert_eq!(end_of(&harness.events()), Some((0, 1)));
    // A second drain reports its end at once.
    harness.server.drain(TIME, harness.now);
    assert_eq!(end_of(&harness.events()), Some((0, 0)));

    let mut stream = stream();
    stream.line(request("1", "tools/call", "{}"));
    stream.machine.drain(TIME, stream.now);
    stream.machine.close(stream.now);
    assert_eq!(end_of(&stream.events()), Some((1, 1)));
    let mut empty = ServerStream::server_with(configure);
    empty.machine.drain(TIME, empty.now);
    assert_eq!(end_of(&empty.events()), Some((0, 1)));
}

/// Opens a session of a client that has roots, and returns its id.
fn session_with_roots(harness: &mut HttpServerHarness) -> String {
    let opened = messages::initialize("0", "2025-11-25");
    let opened = harness.answer(&TestRequest::post(opened));
    let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    harness.answer(&TestRequest::post(INITIALIZED).in_session(&id));
    id
}

#[test]
fn a_server_ends_as_soon_as_the_last_request_has_ended_by_a_timeout() {
    let mut harness = with_http(|_| {});
    let id = session_with_roots(&mut harness);
    let (_, ticket) = harness.call(&id, "1", "{}");
    let required = InputRequired::new().ask("r", "roots/list", Json::empty_object());
    harness.server.require_input(ticket, required, harness.now).unwrap();
    let timeout = Config::new("s", "1").request_timeout;
    harness.server.drain(timeout * 2, harness.now);
    harness.pass(timeout);
    assert_eq!(end_of(&harness.events()), Some((0, 1)));
}

#[test]
fn the_client_of_a_request_in_progress_may_answer_the_server_and_cancel_it() {
    let mut harness = with_http(|_| {});
    let id = session_with_roots(&mut harness);
    let post = |body: &str| TestRequest::post(body.to_owned()).in_session(&id);
    let (key, ticket) = harness.call(&id, "1", "{}");
    harness.server.drain(TIME, harness.now);
    harness.server.request(Scope::Request(ticket.key()), Call::new("roots/list"), harness.now).unwrap();
    let data = harness.take(key).data();
    assert!(data.last().is_some_and(|asked| asked.contains("roots/list")), "{data:?}");
    harness.events();
    let asked = Json::parse(data.last().unwrap().clone()).unwrap().member("id").unwrap().unwrap();
    assert_eq!(harness.answer(&post(&result(&asked.to_text(), r#"{"roots":[]}"#))).code(), 202);
    assert!(harness.events().iter().any(|event| matches!(event, Event::Responded { .. })));
    assert_eq!(harness.answer(&post(CANCELLED)).code(), 202);
    assert_eq!(end_of(&harness.events()), Some((0, 1)));

    let mut stream = stream();
    stream.line(request("1", "tools/call", "{}"));
    stream.machine.drain(TIME, stream.now);
    stream.line(CANCELLED);
    assert_eq!(end_of(&stream.events()), Some((0, 1)));
}

#[test]
fn sh_s_12_an_answer_whose_client_has_disconnected_is_kept_until_it_is_resumed() {
    for is_resumed in [true, false] {
        let mut harness = with_http(|http| http.replay_for = TIME / 2);
        let id = harness.session("2025-11-25");
        let (key, ticket) = harness.call(&id, "1", "{}");
        harness.server.release(&ticket, harness.now);
        let released = harness.take(key);
        assert!(released.is_over && released.ids().len() == 1);
        let opened = harness.begin(&TestRequest::get().in_session(&id));
        let session = harness.last_session();
        harness.server.notify(session, Notification::new("notifications/x"), harness.now).unwrap();
        let of_session = harness.take(opened).ids().pop().unwrap();
        harness.server.drain(TIME, harness.now);
        harness.respond(ticket, r#"{"content":[]}"#);
        assert_eq!(end_of(&harness.events()), None, "the answer waits for its client");
        let resume = |after: &str| TestRequest::get().in_session(&id).with("last-event-id", after);
        assert_eq!(harness.answer(&resume(&of_session)).code(), 503, "no request needs the stream of the session");
        if is_resumed {
            let resumed = harness.answer(&resume(&released.ids()[0]));
            assert!(resumed.is_over && resumed.text().contains(r#""id":1,"result":{"content":[]}"#));
        } else {
            harness.pass((TIME / 2).saturating_sub(Duration::from_millis(1)));
            assert_eq!(end_of(&harness.events()), None);
            harness.pass(Duration::from_millis(1));
        }
        assert_eq!(end_of(&harness.events()), Some((0, 1)), "{is_resumed}");
    }
}

#[test]
fn sh_s_12_an_answer_of_a_session_that_has_ended_does_not_wait_for_its_client() {
    let mut harness = with_http(|_| {});
    let id = harness.session("2025-11-25");
    let (_, ticket) = harness.call(&id, "1", "{}");
    harness.server.release(&ticket, harness.now);
    harness.respond(ticket, r#"{"content":[]}"#);
    assert_eq!(harness.answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
    harness.server.drain(TIME, harness.now);
    assert_eq!(end_of(&harness.events()), Some((0, 0)));
}

#[test]
fn hs_04_a_two_endpoint_session_keeps_its_stream_until_its_requests_are_answered() {
    let two = || Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    let mut harness = with_http(|http| http.two_endpoints = two());
    let opened = harness.begin(&TestRequest::get().at("/sse"));
    let target = harness.take(opened).data().pop().unwrap();
    let post = |body: String| TestRequest::post(body).at(&target);
    harness.answer(&post(initialize("2024-11-05")));
    harness.answer(&post(INITIALIZED.to_owned()));
    harness.answer(&post(request("1", "tools/call", "{}")));
    let ticket = harness.ticket();
    harness.take(opened);
    harness.server.drain(TIME, harness.now);
    assert_eq!(harness.answer(&TestRequest::get().at("/sse")).code(), 503);
    assert_eq!(harness.answer(&post(request("2", "tools/call", "{}"))).code(), 202);
    let refused = harness.take(opened);
    assert!(!refused.is_over && refused.text().contains(r#""id":2,"error":{"code":-32603"#), "{}", refused.text());
    harness.respond(ticket, "{}");
    let answered = harness.take(opened);
    assert!(answered.is_over && answered.text().contains(r#""id":1,"result":{}"#), "{}", answered.text());
    assert_eq!(end_of(&harness.events()), Some((0, 1)));
}

#[test]
fn a_request_whose_body_arrives_after_the_end_is_refused() {
    let mut harness = with_http(|_| {});
    let id = harness.session("2025-11-25");
    for asked in [TestRequest::post(initialize("2025-11-25")), TestRequest::post(PING).in_session(&id)] {
        let key = harness.begin(&asked);
        harness.server.handle_body(key, &asked.body, harness.now);
        harness.server.drain(TIME, harness.now);
        harness.server.handle_end(key, harness.now);
        assert_eq!(harness.take(key).code(), 503);
    }
}
