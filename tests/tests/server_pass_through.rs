//! A server that passes through: it reports every request and answers none by itself, until it serves.

use mcp_proto::client::Call;
use mcp_proto::server::{Config, Event, ExchangeKey, Server, SubscriptionChange};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{
    ErrorObject, Instant, Json, Method, Notification, Output, ProtocolVersion, RequestId, Stdio, StdioAction, Ticket,
    UsageError,
};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize, modern};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, request, result};

/// What the machine has put out since the last call.
#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    requested: Vec<(Ticket, Method, Option<Json>)>,
    others: Vec<Event>,
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

fn server() -> Server<Stdio> {
    Server::pass_through(Stdio::new(), Config::new("proxy", "1")).expect("a configuration")
}

fn line(server: &mut Server<Stdio>, line: &str) -> Seen {
    server.handle_bytes(line.as_bytes(), Instant::START);
    server.handle_bytes(b"\n", Instant::START);
    seen(server)
}

fn seen(server: &mut Server<Stdio>) -> Seen {
    let (mut seen, mut written) = (Seen::default(), Vec::new());
    while let Some(output) = server.poll_output() {
        match output {
            Output::Action(StdioAction::Write(bytes)) => written.extend_from_slice(&bytes),
            Output::Action(_) => {}
            Output::Event(Event::Requested { ticket, method, params }) => seen.requested.push((ticket, method, params)),
            Output::Event(event) => seen.others.push(event),
        }
    }
    seen.lines = String::from_utf8(written).expect("lines are UTF-8").lines().map(str::to_owned).collect();
    seen
}

/// The ticket of the one request that was reported; nothing was written.
fn only(seen: Seen) -> Ticket {
    assert_eq!((seen.lines.len(), seen.requested.len()), (0, 1), "{:?}", seen.lines);
    let [(ticket, ..)] = <[_; 1]>::try_from(seen.requested).expect("one request");
    ticket
}

fn opened() -> Server<Stdio> {
    let mut server = server();
    let ticket = only(line(&mut server, &initialize("2025-06-18")));
    let answer = json(r#"{"protocolVersion":"2025-06-18","any":"member"}"#);
    server.respond(ticket, Ok(answer), Instant::START).expect("any result may be passed");
    assert_eq!(seen(&mut server).lines, [result("0", r#"{"protocolVersion":"2025-06-18","any":"member"}"#)]);
    server
}

#[test]
fn passing_through_reports_what_a_server_would_answer() {
    let mut server = opened();
    for method in ["ping", "logging/setLevel", "resources/subscribe", "server/discover"] {
        let ticket = only(line(&mut server, &request(r#""a""#, method, r#"{"uri":"a:b"}"#)));
        assert_eq!(server.request_id(&ticket), Some(&RequestId::from("a")));
        let answer = r#"{"resultType":"input_required"}"#;
        server.respond(ticket, Ok(json(answer)), Instant::START).expect("any result may be passed");
        assert_eq!(seen(&mut server).lines, [result(r#""a""#, answer)], "{method}");
    }
    let confirmed = line(&mut server, INITIALIZED).others;
    assert!(matches!(&confirmed[..], [Event::Notified { method, .. }] if *method == Method::INITIALIZED));
}

#[test]
fn an_early_confirmation_takes_effect_with_the_answer_to_initialize_and_no_other() {
    let mut server = server();
    let initialize = only(line(&mut server, &initialize("2025-06-18")));
    assert!(line(&mut server, INITIALIZED).others.is_empty());
    let ping = line(&mut server, &request("1", "ping", "{}"));
    assert_eq!((ping.lines, ping.others.len()), (vec![result("1", "{}")], 0), "it is answered at once");
    server.respond(initialize, Ok(json(r#"{"protocolVersion":"2025-06-18"}"#)), Instant::START).expect("a result");
    let confirmed = seen(&mut server).others;
    assert!(
        matches!(&confirmed[..], [Event::Notified { method, .. }] if *method == Method::INITIALIZED),
        "{confirmed:?}"
    );
}

#[test]
fn passing_through_changes_no_result_of_a_stateless_request() {
    let mut server = server();
    let ticket = only(line(&mut server, &modern("1", "server/discover", "")));
    assert_eq!(ticket.key().session(), None);
    server.respond(ticket, Ok(json("{}")), Instant::START).expect("any result may be passed");
    assert_eq!(seen(&mut server).lines, [result("1", "{}")]);
}

#[test]
fn a_request_is_handled_again_as_if_it_had_arrived_after_the_server_began_to_serve() {
    let mut server = server();
    let ticket = only(line(&mut server, &initialize("2025-06-18")));
    // The client confirms before it is answered, and the confirmation counts with the answer.
    assert!(line(&mut server, INITIALIZED).others.is_empty());
    let config = Config::new("gateway", "2").capabilities(json(r#"{"logging":{}}"#));
    server.serve(config).expect("a configuration");
    let again = Config::new("gateway", "2");
    assert_eq!(server.serve(again), Err(UsageError::AlreadyServing));
    server.handle_again(ticket, Method::INITIALIZE, Some(json(r#"{"protocolVersion":"2025-03-26"}"#)), Instant::START);
    let seen = seen(&mut server);
    let [answer] = &seen.lines[..] else { panic!("{:?}", seen.lines) };
    assert!(answer.contains(r#""protocolVersion":"2025-03-26""#) && answer.contains(r#""name":"gateway""#), "{answer}");
    assert!(matches!(&seen.others[..], [Event::Connected { .. }, Event::Ready { .. }]), "{:?}", seen.others);
    assert_eq!(server.requests_in_flight(), 0);

    let session = server.session();
    assert_eq!(server.logging_level(session), None);
    let set = line(&mut server, &request("5", "logging/setLevel", r#"{"level":"error"}"#));
    assert_eq!((set.lines, set.requested.len()), (vec![result("5", "{}")], 0), "the server answers by itself");
    assert_eq!(server.logging_level(session), Some(LoggingLevel::Error));
}

#[test]
fn a_server_that_serves_from_the_start_does_not_change_its_configuration() {
    let mut server = Server::new(Stdio::new(), Config::new("s", "1")).expect("a configuration");
    assert_eq!(server.serve(Config::new("another", "1")), Err(UsageError::AlreadyServing));
    assert!(server.config().server_info.to_text().contains(r#""name":"s""#));
}

#[test]
fn room_ends_before_the_limit_for_a_client_that_reads_nothing() {
    let mut config = Config::new("proxy", "1");
    config.limits.unwritten = 1000;
    let mut server = Server::pass_through(Stdio::new(), config).expect("a configuration");
    let ticket = only(line(&mut server, &initialize("2025-06-18")));
    assert!(server.has_room());
    let text = "x".repeat(600);
    let answer = json(&format!(r#"{{"protocolVersion":"2025-06-18","instructions":"{text}"}}"#));
    server.respond(ticket, Ok(answer), Instant::START).expect("an answer");
    assert!(!server.has_room());
    let written: usize = seen(&mut server).lines.iter().map(|line| line.len() + 1).sum();
    server.handle_written(written - 400, Instant::START);
    assert!(server.has_room());
}

#[test]
fn a_subscription_is_acknowledged_by_the_application_with_the_resources_that_it_can_observe() {
    let mut config = Config::new("proxy", "1").capabilities(json(r#"{"resources":{"subscribe":true}}"#));
    config.manual_acknowledgement = true;
    let mut server = Server::new(Stdio::new(), config).expect("a configuration");
    let filter = r#""notifications":{"resourceSubscriptions":["a:1","a:2"]},"#;
    assert!(line(&mut server, &modern("1", "subscriptions/listen", filter)).lines.is_empty());
    assert!(server.poll_unacknowledged() && !server.poll_unacknowledged());
    let changes: Vec<_> = std::iter::from_fn(|| server.poll_subscription()).collect();
    assert_eq!(changes, ["a:1", "a:2"].map(|uri| SubscriptionChange::Subscribed(uri.into())));

    let updated = |uri: &str| {
        Notification::with_params(
            "notifications/resources/updated",
            Json::empty_object().with_member("uri", &uri.into()),
        )
    };
    server.publish(updated("a:1"), Instant::START).expect("it is declared");
    server.exclude_resource("a:2", Instant::START);
    server.acknowledge_listens(|uri| uri == "a:1", Instant::START);
    assert!(seen(&mut server).lines.is_empty(), "one is pending");
    server.acknowledge_listens(|_| false, Instant::START);
    let [acknowledged] = &seen(&mut server).lines[..] else { panic!("it is acknowledged once") };
    assert!(acknowledged.contains(r#"{"resourceSubscriptions":["a:1"]}"#), "{acknowledged}");
    server.acknowledge_listens(|_| false, Instant::START);
    for (uri, lines) in [("a:1", 1), ("a:2", 0)] {
        server.publish(updated(uri), Instant::START).expect("it is declared");
        assert_eq!(seen(&mut server).lines.len(), lines, "{uri}");
    }
}

#[test]
fn a_context_accepts_the_requests_for_input_that_the_client_has_declared() {
    let mut server = server();
    let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{},"elicitation":{}}}}"#;
    let ticket = only(line(&mut server, &request("1", "tools/call", meta)));
    let context = server.context(&ticket).expect("it is open");
    for (method, params, accepts) in [
        ("roots/list", "{}", true),
        ("elicitation/create", "{}", true),
        ("elicitation/create", r#"{"mode":"url"}"#, false),
        ("sampling/createMessage", "{}", false),
        ("ping", "{}", false),
        ("tools/call", "{}", false),
    ] {
        assert_eq!(context.accepts(&method.into(), &json(params)), accepts, "{method} {params}");
    }
}

#[test]
fn only_a_server_that_passes_through_sends_parameters_that_are_not_objects() {
    let array = || json("[]");
    for (mut server, is_passing) in [(opened(), true), (ServerStream::ready("2025-06-18").machine, false)] {
        let (session, now) = (server.session(), Instant::START);
        for method in ["initialize", "notifications/initialized", "notifications/cancelled"] {
            let refused = server.notify(session, Notification::new(method), now);
            let is_reserved = matches!(refused, Err(UsageError::ReservedMethod { .. }));
            assert_eq!(is_reserved, !is_passing || method == "notifications/cancelled", "{refused:?}");
            if !is_passing {
                let refused = server.request(session, Call::new(method), now);
                assert!(matches!(refused, Err(UsageError::ReservedMethod { .. })), "{refused:?}");
            }
        }
        let expected = if is_passing { Ok(()) } else { Err(UsageError::NotAnObject { what: "the value of params" }) };
        let asked = server.request(session, Call::new("roots/list").params(array()), now).map(drop);
        assert_eq!(asked, expected);
        let notified = server.notify(session, Notification::with_params("notifications/x", array()), now);
        assert_eq!(notified, expected);
    }
}

#[test]
fn jr_35_a_request_of_a_batch_that_is_handled_again_is_answered_with_the_others() {
    let mut server = server();
    let ticket = only(line(&mut server, &initialize("2025-03-26")));
    server.handle_again(ticket, Method::INITIALIZE, None, Instant::START);
    let ticket = seen(&mut server).requested.remove(0).0;
    let answer = json(r#"{"protocolVersion":"2025-03-26"}"#);
    server.respond(ticket, Ok(answer), Instant::START).expect("any result may be passed");
    line(&mut server, INITIALIZED);
    let requests = [request("1", "tools/list", "{}"), request("2", "ping", "{}")].join(",");
    let [(first, method, params), (second, ..)] =
        <[_; 2]>::try_from(line(&mut server, &format!("[{requests}]")).requested).expect("two requests");
    server.handle_again(first, method, params, Instant::START);
    let first = seen(&mut server).requested.remove(0).0;
    server.respond(first, Ok(json("{}")), Instant::START).expect("a result");
    server.respond(second, Ok(json("{}")), Instant::START).expect("a result");
    assert_eq!(seen(&mut server).lines, [format!("[{},{}]", result("1", "{}"), result("2", "{}"))]);
}

/// A server over HTTP that passes through, with the ticket of the `initialize` on an exchange.
fn opening_over_http() -> (HttpServerHarness, ExchangeKey, Ticket) {
    let mut server = HttpServerHarness::passing_through(|_, _| {});
    let exchange = server.ask(&TestRequest::post(initialize("2025-06-18")));
    assert_eq!(server.peek(exchange).map(TestResponse::code), None, "it is not answered yet");
    let ticket = server.ticket();
    (server, exchange, ticket)
}

#[test]
fn br_t_06_over_http_the_application_opens_each_session() {
    let (mut server, exchange, ticket) = opening_over_http();
    let session = ticket.key().session().expect("it opens a session");
    server.respond(ticket, r#"{"protocolVersion":"2025-06-18","any":"member"}"#);
    let opened = server.take(exchange);
    assert_eq!(
        (opened.code(), opened.text()),
        (200, result("0", r#"{"protocolVersion":"2025-06-18","any":"member"}"#))
    );
    assert_eq!(server.server.version(session).map(ProtocolVersion::as_str), Some("2025-06-18"));
    let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
    for method in ["ping", "logging/setLevel", "resources/subscribe"] {
        let exchange = server.ask(&TestRequest::post(request("7", method, "{}")).in_session(&id));
        let ticket = server.ticket();
        server.respond(ticket, r#"{"a":1.0}"#);
        assert_eq!(server.take(exchange).text(), result("7", r#"{"a":1.0}"#), "{method}");
    }
    assert_eq!(server.answer(&TestRequest::post(INITIALIZED).in_session(&id)).code(), 202);
    let confirmed = server.events();
    assert!(matches!(&confirmed[..], [Event::Notified { method, .. }] if *method == Method::INITIALIZED));
}

/// A session of which no client has the id would exist until it expires.
#[test]
fn over_http_a_session_ends_whose_initialize_fails_or_whose_client_does_not_wait_for_it() {
    for is_answered in [true, false] {
        let (mut server, exchange, ticket) = opening_over_http();
        let session = ticket.key().session().expect("it opens a session");
        if is_answered {
            let error = ErrorObject::new(-32603, "there is no server");
            server.server.respond(ticket, Err(error), server.now).expect("any error may be passed");
            let refused = server.take(exchange);
            assert_eq!((refused.code(), refused.headers.get("mcp-session-id")), (200, None), "{}", refused.text());
        } else {
            server.server.handle_disconnect(exchange, server.now);
        }
        let events = server.events();
        let is_end = |event: &Event| matches!(event, Event::Closed { session: ended, .. } if *ended == session);
        assert!(events.last().is_some_and(is_end), "{events:?}");
        assert_eq!((server.server.sessions(), server.server.load().sessions), (0, 0));
    }
}

#[test]
fn over_http_the_application_does_not_receive_an_initialize_that_no_server_accepts() {
    let large = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{{"x":"{}"}}}}"#, "a".repeat(17_000));
    for params in ["{}", "[]", r#"{"protocolVersion":7}"#, &large] {
        let mut server = HttpServerHarness::passing_through(|_, _| {});
        let refused = server.answer(&TestRequest::post(request("1", "initialize", params)));
        assert!(refused.text().contains("-32602"), "{params}: {}", refused.text());
        assert_eq!((server.events().len(), server.server.sessions()), (0, 0), "{params}");
    }
}

/// Otherwise, each further session of one server would be described as the first.
#[test]
fn over_http_each_session_that_is_served_has_its_own_description() {
    let (mut server, exchange, ticket) = opening_over_http();
    let session = ticket.key().session().expect("it opens a session");
    let config = Config::new("bridge", "2").capabilities(json(r#"{"logging":{}}"#));
    server.server.serve_session(session, config.clone()).expect("a configuration");
    assert_eq!(server.server.serve_session(session, config.clone()), Err(UsageError::AlreadyServing));
    let params = Some(json(r#"{"protocolVersion":"2025-03-26"}"#));
    server.server.handle_again(ticket, Method::INITIALIZE, params, server.now);
    let opened = server.take(exchange);
    assert!(opened.text().contains(r#""name":"bridge""#), "{}", opened.text());
    let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
    let level = request("2", "logging/setLevel", r#"{"level":"error"}"#);
    assert_eq!(server.answer(&TestRequest::post(level).in_session(&id)).text(), result("2", "{}"));
    assert_eq!(server.server.logging_level(session), Some(LoggingLevel::Error));

    let other = server.ask(&TestRequest::post(initialize("2025-06-18")));
    let ticket = server.ticket();
    assert_ne!(ticket.key().session(), Some(session), "the application is asked about another session");
    server.server.end(session, server.now);
    assert_eq!(server.server.serve_session(session, config), Err(UsageError::Closed));
    server.respond(ticket, r#"{"protocolVersion":"2025-06-18"}"#);
    assert_eq!(server.take(other).code(), 200);
}

/// What is sent to a session belongs to it alone.
#[test]
fn over_http_a_change_can_be_published_to_one_session() {
    let mut server = HttpServerHarness::with(|_, config| {
        config.capabilities = json(r#"{"tools":{"listChanged":true}}"#);
    });
    let ids = [server.session("2025-06-18"), server.session("2025-06-18")];
    let session = server.last_session();
    let streams = ids.map(|id| server.ask(&TestRequest::get().in_session(&id)));
    let change = Notification::new(Method::TOOLS_LIST_CHANGED);
    server.server.publish_to(session, change.clone(), server.now).expect("it is declared");
    assert_eq!(streams.map(|stream| server.take(stream).data().len()), [0, 1]);
    server.server.end(session, server.now);
    assert_eq!(server.server.publish_to(session, change, server.now), Err(UsageError::Closed));
}

/// The server behind a gateway on a byte stream does not receive the headers (BR-T-04).
#[test]
fn br_t_04_over_http_a_stateless_request_is_admitted_by_its_headers_before_it_is_passed_through() {
    let mut server = HttpServerHarness::passing_through(|_, _| {});
    for (name, value, code) in [("mcp-method", "tools/list", -32020), ("mcp-name", "another", -32020)] {
        let refused = server.answer(&TestRequest::stateless_call("1", "mine", "").with(name, value));
        assert!(refused.code() == 400 && refused.text().contains(&code.to_string()), "{name}: {}", refused.text());
    }
    assert!(server.events().is_empty());
    let exchange = server.ask(&TestRequest::stateless("2", "server/discover", ""));
    let ticket = server.ticket();
    assert_eq!(ticket.key().session(), None);
    server.respond(ticket, r#"{"any":"result"}"#);
    assert_eq!(server.take(exchange).text(), result("2", r#"{"any":"result"}"#));
    let exchange = server.ask(&TestRequest::stateless_call("3", "mine", r#""x":1,"#));
    let ticket = server.ticket();
    server.server.handle_disconnect(exchange, server.now);
    assert!(matches!(&server.events()[..], [Event::Cancelled { ticket: cancelled, .. }] if *cancelled == ticket.key()));
}
