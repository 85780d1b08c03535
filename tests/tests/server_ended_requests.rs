//! What a server reports about each request that has ended, for logs and metrics.

use std::time::Duration;

use mcp_proto::server::{Config, EndedRequest, Event, RequestOutcome, Server};
use mcp_proto::{ErrorObject, Json, Method, Stdio};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, initialize, request};

const OPENING: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn stream() -> ServerStream {
    ServerStream::ready_with("2025-11-25", |config| {
        config.reports_ended_requests = true;
        config.capabilities = Json::parse(r#"{"tools":{},"prompts":{},"resources":{}}"#).unwrap();
    })
}

fn ended(events: Vec<Event>) -> Vec<EndedRequest> {
    let read = |event| if let Event::RequestEnded(ended) = event { Some(*ended) } else { None };
    events.into_iter().filter_map(read).collect()
}

/// The only request that has ended.
fn only(events: Vec<Event>) -> EndedRequest {
    let mut ended = ended(events);
    assert_eq!(ended.len(), 1, "{ended:?}");
    ended.remove(0)
}

fn shown(ended: &EndedRequest) -> Option<&str> {
    ended.target.as_ref().map(mcp_proto::Excerpt::as_str)
}

#[test]
fn a_request_is_described_without_its_payload() {
    let long = "n".repeat(200);
    for (method, params, target) in [
        ("tools/call", r#"{"name":"read_file","arguments":{"path":"secret"}}"#, Some("read_file")),
        ("tools/call", r#"{"name":"a\nb\u001b[31m"}"#, Some("a\\nb\\u{1b}[31m")),
        ("tools/call", &format!(r#"{{"name":"{long}"}}"#), Some(&*format!("{}…", &long[..128]))),
        ("tools/call", r#"{"arguments":{}}"#, None),
        ("prompts/get", r#"{"name":"greet"}"#, Some("greet")),
        ("resources/read", r#"{"uri":"file:///home/ada/secret.txt"}"#, Some("file")),
        ("resources/read", r#"{"uri":"secret"}"#, None),
        ("tools/list", r#"{"cursor":"secret"}"#, None),
        ("x/y", r#"{"name":"secret"}"#, None),
    ] {
        let mut stream = stream();
        stream.line(request("1", method, params));
        let ticket = stream.requested().pop().expect("a request");
        let key = ticket.key();
        stream.now += Duration::from_millis(1500);
        stream.machine.respond(ticket, Ok(Json::parse(r#"{"x":12}"#).unwrap()), stream.now).unwrap();
        let ended = only(stream.events());
        assert_eq!((ended.ticket, ended.method.as_str(), shown(&ended)), (key, method, target));
        assert_eq!((ended.params_bytes, ended.answer_bytes), (params.len(), r#"{"x":12}"#.len()), "{method}");
        assert_eq!(ended.duration, Duration::from_millis(1500));
        assert_eq!((&ended.principal, &ended.trace_id), (&None, &None));
        assert!(!format!("{ended:?}").contains("secret"), "{ended:?}");
    }
}

#[test]
fn the_outcome_says_how_a_request_ended() {
    use RequestOutcome as O;
    let result = |text: &str| Ok(Json::parse(text.to_owned()).unwrap());
    for (answer, outcome, name) in [
        (result("{}"), O::Result, "result"),
        (result(r#"{"isError":false,"content":[]}"#), O::Result, "result"),
        (result(r#"{"content":[],"isError":true}"#), O::ToolError, "tool_error"),
        (Err(ErrorObject::new(-32601, "no")), O::Error(-32601), "error"),
        // Only the machine may use this code, which the client receives as an internal error.
        (Err(ErrorObject::new(-32022, "no")), O::Error(-32603), "error"),
    ] {
        let mut stream = stream();
        stream.line(request("1", "tools/call", r#"{"name":"t"}"#));
        let ticket = stream.requested().pop().expect("a request");
        let _ = stream.machine.respond(ticket, answer, stream.now);
        let line = stream.lines().pop().expect("an answer");
        let ended = only(stream.events());
        assert_eq!((ended.outcome, ended.outcome.name()), (outcome, name));
        if let O::Error(code) = outcome {
            assert!(line.contains(&format!(r#""code":{code}"#)), "{line}");
        }
    }
}

#[test]
fn a_request_without_an_answer_has_ended_once_too() {
    let mut stream = stream();
    stream.line(request("1", "tools/call", r#"{"name":"cancelled"}"#));
    stream.line(request("2", "tools/call", r#"{"name":"open"}"#));
    let mut tickets = stream.requested();
    stream.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let cancelled = only(stream.events());
    assert_eq!((cancelled.outcome, shown(&cancelled)), (RequestOutcome::Cancelled, Some("cancelled")));
    // The late answer is none.
    stream.machine.respond(tickets.remove(0), Ok(Json::empty_object().clone()), stream.now).unwrap();
    assert_eq!(stream.events(), []);
    stream.machine.close(stream.now);
    let open = only(stream.events());
    assert_eq!((open.outcome, open.answer_bytes), (RequestOutcome::Disconnected, 0));
}

#[test]
fn over_http_the_client_and_the_trace_are_named() {
    let mut harness = HttpServerHarness::with(|_, config| {
        config.reports_ended_requests = true;
        config.capabilities = Json::parse(r#"{"tools":{}}"#).unwrap();
    });
    let ada = harness.session_of("2025-11-25", Some("ada"));
    let params = format!(r#"{{"name":"t","_meta":{{"traceparent":"00-{TRACE}-00f067aa0ba902b7-01"}}}}"#);
    let asked = TestRequest::post(request("7", "tools/call", &params)).in_session(&ada).by("ada");
    harness.ask(&asked);
    let ticket = harness.ticket();
    let session = ticket.key().session();
    harness.respond(ticket, "{}");
    let of_session = only(harness.events());
    assert_eq!(of_session.principal.as_ref().map(mcp_proto::server::Principal::as_str), Some("ada"));
    assert_eq!((of_session.trace_id.as_deref(), of_session.ticket.session()), (Some(TRACE), session));
    assert!(session.is_some());

    // Without a session, the end of the exchange ends the request.
    let key = harness.ask(&TestRequest::stateless_call("8", "t", "").by("bob"));
    drop(harness.ticket());
    harness.server.handle_disconnect(key, harness.now);
    let stateless = only(harness.events());
    assert_eq!(stateless.principal.as_ref().map(mcp_proto::server::Principal::as_str), Some("bob"));
    assert_eq!((stateless.outcome, stateless.ticket.session()), (RequestOutcome::Disconnected, None));
}

#[test]
fn nothing_is_reported_that_was_not_asked_for() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "tools/call", r#"{"name":"t"}"#));
    let ticket = stream.requested().pop().expect("a request");
    stream.machine.respond(ticket, Ok(Json::empty_object().clone()), stream.now).unwrap();
    assert_eq!(stream.events(), []);
}

#[test]
fn a_request_that_is_handled_again_ends_once_with_all_of_its_time() {
    let mut config = Config::new("s", "1");
    config.reports_ended_requests = true;
    let mut stream = ServerStream::of(Server::pass_through(Stdio::new(), config.clone()).unwrap());
    stream.line(initialize("1", "2025-11-25"));
    let opening = stream.requested().pop().expect("a request");
    stream.line(request("2", "tools/list", "{}"));
    let first = stream.requested().pop().expect("a request");
    stream.now += Duration::from_secs(2);
    stream.machine.handle_again(first, Method::PROMPTS_LIST, None, stream.now);
    let second = stream.requested().pop().expect("a request");
    stream.now += Duration::from_secs(1);
    stream.machine.respond(second, Ok(Json::empty_object().clone()), stream.now).unwrap();
    let again = only(stream.events());
    assert_eq!((again.method, again.duration), (Method::PROMPTS_LIST, Duration::from_secs(3)));

    // The machine answers it itself, and the time of the next one is its own.
    stream.machine.serve(config).unwrap();
    stream.machine.handle_again(opening, Method::INITIALIZE, Some(Json::parse(OPENING).unwrap()), stream.now);
    stream.line(INITIALIZED);
    stream.events();
    stream.line(request("3", "tools/call", r#"{"name":"t"}"#));
    let ticket = stream.requested().pop().expect("a request");
    stream.machine.respond(ticket, Ok(Json::empty_object().clone()), stream.now).unwrap();
    assert_eq!(only(stream.events()).duration, Duration::ZERO);
}
