//! The states of a server between two inputs: what was refused or handled again leaves it as it was.

use std::time::Duration;

use mcp_proto::server::{Config, Event, Requesters, Server, SessionMode};
use mcp_proto::{Fault, Instant, InvalidLimit, Json, Method, Stdio, UsageError};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{initialize, request, result};

const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
const OPENED: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

fn passing_through() -> ServerStream {
    ServerStream::of(Server::pass_through(Stdio::new(), Config::new("proxy", "1")).expect("a configuration"))
}

/// Configurations that are invalid.
fn invalid() -> Vec<(Config, UsageError)> {
    let with = |change: fn(&mut Config)| {
        let mut config = Config::new("s", "1");
        change(&mut config);
        config
    };
    vec![
        (with(|config| config.capabilities = Json::from(7)), UsageError::NotAnObject { what: "capabilities" }),
        (with(|config| config.server_info = Json::from(7)), UsageError::NotAnObject { what: "server_info" }),
        (with(|config| config.limits.depth = 0), InvalidLimit { field: "depth", largest: 1024 }.into()),
    ]
}

#[test]
fn a_server_that_is_to_serve_as_an_invalid_configuration_says_goes_on_passing_through() {
    for (config, error) in invalid() {
        let mut stream = passing_through();
        assert_eq!(stream.machine.serve(config.clone()), Err(error.clone()));
        assert_eq!(stream.machine.serve_session(stream.machine.session(), config.clone()), Err(error.clone()));
        assert_eq!(stream.machine.serve_requests(Requesters::All, config.clone()), Err(error.clone()));
        stream.line(initialize("1", "2025-06-18"));
        assert_eq!(stream.requested().len(), 1, "{error:?}");
        assert_eq!(stream.machine.serve(Config::new("s", "1")), Ok(()), "it did not serve");

        let mut harness = HttpServerHarness::passing_through(|_, _| {});
        let opening = harness.ask(&TestRequest::post(mcp_testkit::http_exchange::initialize("2025-06-18")));
        let ticket = harness.ticket();
        let session = ticket.key().session().expect("a session");
        assert_eq!(harness.server.serve_session(session, config.clone()), Err(error.clone()));
        assert_eq!(harness.server.serve_requests(Requesters::All, config), Err(error));
        harness.respond(ticket, OPENED);
        assert_eq!(harness.take(opening).code(), 200);
        assert_eq!(harness.server.serve_session(session, Config::new("s", "1")), Ok(()));
    }
}

#[test]
fn a_session_is_opened_once_by_the_request_that_was_handled_again_last() {
    for is_again in [false, true] {
        let mut stream = passing_through();
        stream.line(initialize("1", "2025-06-18"));
        let mut opening = stream.requested().pop().expect("a request");
        stream.line(request("2", "tools/list", "{}"));
        let other = stream.requested().pop().expect("a request");
        // Handled again, it is reported anew, and the session is being opened as before.
        stream.machine.handle_again(other, Method::PROMPTS_LIST, None, stream.now);
        let other = stream.requested().pop().expect("a request");
        stream.line(initialize("3", "2025-06-18"));
        assert!(stream.lines().concat().contains(r#""id":3,"error""#), "a second one is refused");
        if is_again {
            let params = json(r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#);
            stream.machine.handle_again(opening, Method::INITIALIZE, Some(params), stream.now);
            opening = stream.requested().pop().expect("a request");
        }
        stream.line(PING);
        assert_eq!(stream.lines(), [result("\"p\"", "{}")], "it is answered at once, because there is no session yet");
        stream.machine.respond(opening, Ok(json(OPENED)), stream.now).expect("an answer");
        stream.machine.respond(other, Ok(json(r#"{"prompts":[]}"#)), stream.now).expect("an answer");
        let answers = [result("1", OPENED), result("2", r#"{"prompts":[]}"#)];
        assert_eq!(stream.lines(), answers);
        stream.line(PING);
        assert_eq!(
            (stream.requested().len(), stream.lines().len()),
            (1, 0),
            "the application answers it in the session"
        );
    }
    // After the end, nothing is handled again.
    let mut stream = passing_through();
    stream.line(initialize("1", "2025-06-18"));
    let opening = stream.requested().pop().expect("a request");
    stream.machine.close(stream.now);
    stream.lines();
    stream.machine.handle_again(opening, Method::INITIALIZE, None, stream.now);
    stream.line(PING);
    assert_eq!((stream.requested().len(), stream.lines().len()), (0, 0));
}

#[test]
fn what_a_client_has_stated_is_known_for_its_later_requests_although_they_are_passed_through() {
    let capabilities = r#"{"roots":{"listChanged":true},"sampling":{}}"#;
    let mut stream = passing_through();
    stream.line(initialize("1", "2025-06-18").replace(r#"{"roots":{}}"#, capabilities));
    let ticket = stream.requested().pop().expect("a request");
    stream.machine.respond(ticket, Ok(json(OPENED)), stream.now).expect("an answer");
    stream.line(request("2", "tools/list", "{}"));
    let ticket = stream.requested().pop().expect("a request");
    let context = stream.machine.context(&ticket).expect("it is open");
    assert_eq!(context.client_capabilities, json(capabilities));
    let info = context.client_info.as_ref().expect("a client");
    assert!(info.first_member("name").is_some(), "{info:?}");
    assert!(context.accepts(&Method::ROOTS_LIST, &Json::empty_object()));
    assert!(!context.accepts(&Method::ELICITATION_CREATE, &Json::empty_object()));
}

#[test]
fn jr_11_a_request_with_the_method_of_a_notification_is_refused_with_and_without_sessions() {
    for has_sessions in [true, false] {
        for method in ["notifications/initialized", "notifications/cancelled", "notifications/message"] {
            let mut harness = HttpServerHarness::with(|http, _| {
                if !has_sessions {
                    http.sessions = SessionMode::None;
                }
            });
            let mut asked = TestRequest::post(request("7", method, "{}"));
            if has_sessions {
                let id = harness.session("2025-11-25");
                asked = asked.in_session(&id);
            }
            harness.events();
            let refused = harness.answer(&asked).text();
            assert!(refused.contains(r#""id":7,"error":{"code":-32601"#), "{has_sessions} {method}: {refused}");
            let events = harness.events();
            let is_meant = |event: &Event| matches!(event, Event::Faulted(Fault::UnexpectedRequest { method: named }) if named.as_str() == method);
            assert!(events.len() == 1 && is_meant(&events[0]), "{has_sessions} {method}: {events:?}");
        }
    }
}

#[test]
fn a_restored_session_is_looked_at_after_the_time_that_it_may_be_unused() {
    let idle = Duration::from_secs(100);
    let server = || HttpServerHarness::with(|http, _| http.session_idle = idle);
    let mut first = server();
    let id = first.session("2025-11-25");
    let key = first.last_session();
    let snapshot = first.server.snapshot(key).expect("a session");
    let mut second = server();
    second.now = Instant::START + Duration::from_secs(1000);
    second.server.restore(&snapshot, second.now).expect("it is restored");
    assert_eq!(second.server.poll_timeout(), Some(second.now + idle));
    second.pass(Duration::from_secs(99));
    assert_eq!(second.answer(&TestRequest::post(PING).in_session(&id)).code(), 200);
    second.pass(Duration::from_secs(101));
    assert_eq!(second.answer(&TestRequest::post(PING).in_session(&id)).code(), 404);
}
