//! A server that passes through: it reports every request and answers none by itself, until it serves.

use mcp_proto::client::Call;
use mcp_proto::server::{Config, Event, LoggingLevel, Server, SubscriptionChange};
use mcp_proto::{Instant, Json, Method, Notification, Output, RequestId, Stdio, StdioAction, Ticket, UsageError};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_exchange::{initialize, modern};
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
    let ping = only(line(&mut server, &request("1", "ping", "{}")));
    assert!(line(&mut server, INITIALIZED).others.is_empty());
    server.respond(ping, Ok(json("{}")), Instant::START).expect("any result may be passed");
    assert!(seen(&mut server).others.is_empty());
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
    let config = Config::new("gateway", "2").with_capabilities(json(r#"{"logging":{}}"#));
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
    let mut config = Config::new("proxy", "1").with_capabilities(json(r#"{"resources":{"subscribe":true}}"#));
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
