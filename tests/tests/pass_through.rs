//! A client whose application forwards the messages of another client, with the public API only.

use mcp_proto::client::{Call, Client, Config, Event, Opening, Outcome, Scope};
use mcp_proto::{Failed, Fault, Instant, Json, NoInput, Notification, ProtocolVersion, Stdio, UsageError};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::messages::{DISCOVERED, INITIALIZED, error, initialize_result, request, result};

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

fn client(change: impl FnOnce(&mut Config)) -> ClientStream {
    let mut config = Config::new("gateway", "1");
    config.versions = ProtocolVersion::ALL.to_vec();
    change(&mut config);
    ClientStream::of(Client::new(Stdio::new(), config).expect("a configuration"))
}

/// A client that is connected to a server of 2026-07-28 with the application's own `server/discover`.
fn modern(change: impl FnOnce(&mut Config)) -> ClientStream {
    let mut stream = client(change);
    stream.machine.connect_with(Opening::Discover(json(r#"{"_meta":{"a":1}}"#)), stream.now).unwrap();
    assert_eq!(stream.lines(), [request("1", "server/discover", r#"{"_meta":{"a":1}}"#)]);
    stream.line(result("1", DISCOVERED));
    assert!(matches!(stream.events()[..], [Event::Connected { is_downgrade: false, .. }]));
    stream
}

/// A client whose application's `initialize` was answered.
fn legacy(change: impl FnOnce(&mut Config)) -> ClientStream {
    let mut stream = client(change);
    let params = r#"{"protocolVersion":"2025-06-18","mine":1.0}"#;
    stream.machine.connect_with(Opening::Initialize(json(params)), stream.now).unwrap();
    assert_eq!(stream.lines(), [request("1", "initialize", params)]);
    stream.line(result("1", &initialize_result("2025-06-18")));
    assert!(matches!(stream.events()[..], [Event::Connected { .. }]));
    stream
}

fn outcomes(stream: &mut ClientStream) -> Vec<Outcome> {
    let outcome = |event| if let Event::Responded { outcome, .. } = event { Some(outcome) } else { None };
    stream.events().into_iter().filter_map(outcome).collect()
}

#[test]
fn an_unchanged_call_is_sent_as_it_is_and_its_answer_is_reported_as_received() {
    let mut stream = modern(|_| {});
    let input = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#;
    for (id, params, answer) in [
        (2, r#"{"name":"t"}"#, result("2", input)),
        (3, r#"{"name":"t","_meta":{}}"#, result("3", r#"{"resultType":"other"}"#)),
        (4, "[1.0]", error("4", -32022, "no")),
    ] {
        let call = Call::new("tools/call").params(json(params)).unchanged();
        stream.machine.request(call, stream.now).unwrap();
        assert_eq!(stream.lines(), [request(&id.to_string(), "tools/call", params)]);
        stream.line(&answer);
        let outcomes = outcomes(&mut stream);
        match &outcomes[..] {
            [Outcome::Result(result)] => {
                assert!(answer.contains(std::str::from_utf8(result.as_bytes()).unwrap()), "{answer}");
            }
            [Outcome::Error(error)] => assert_eq!(error.code(), -32022),
            _ => panic!("{outcomes:?}"),
        }
    }
    // Without `unchanged`, the client sets `_meta`, and interprets the answer.
    stream.machine.request(Call::new("tools/call").params(json(r#"{"name":"t"}"#)), stream.now).unwrap();
    assert!(stream.lines()[0].contains("io.modelcontextprotocol/protocolVersion"));
    stream.line(result("5", input));
    assert_eq!(outcomes(&mut stream), [Outcome::Failed(Failed::NoInput { reason: NoInput::NotDeclared })]);
    let wrong = stream.machine.request(Call::new("tools/call").params(json("[]")), stream.now);
    assert_eq!(wrong, Err(UsageError::NotAnObject { what: "the value of params" }));
}

#[test]
fn md_l_04_what_is_about_an_unchanged_subscription_is_reported_with_its_request() {
    let mut stream = modern(|_| {});
    let call = || Call::new("subscriptions/listen").params(json(r#"{"notifications":{}}"#));
    assert!(matches!(stream.machine.request(call(), stream.now), Err(UsageError::ReservedMethod { .. })));
    let listen = stream.machine.request(call().unchanged(), stream.now).unwrap();
    let other = stream.machine.request(Call::new("tools/list").unchanged(), stream.now).unwrap();
    assert_eq!(stream.lines().len(), 2);
    let about = |id| format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#);
    for (id, scope) in [("2", Scope::Request(listen)), ("3", Scope::Connection), ("4", Scope::Connection)] {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{}}}"#, about(id));
        stream.line(line);
        let events = stream.events();
        assert!(matches!(&events[..], [Event::Notified { scope: is, .. }] if *is == scope), "{id}: {events:?}");
    }
    assert_ne!(listen, other);
    // A session has no such request.
    let mut stream = legacy(|_| {});
    let refused = stream.machine.request(call().unchanged(), stream.now);
    assert!(matches!(refused, Err(UsageError::ReservedMethod { .. })), "{refused:?}");
}

#[test]
fn lc_08_a_session_that_the_application_has_opened_is_confirmed_by_the_application() {
    let mut stream = legacy(|_| {});
    assert_eq!(stream.lines(), [""; 0]);
    stream.machine.confirm(None, stream.now).unwrap();
    assert_eq!(stream.lines(), [INITIALIZED]);
    assert_eq!(stream.machine.confirm(None, stream.now), Err(UsageError::AlreadyConnected));
    // A client that opens the session itself also confirms it.
    let mut stream = client(|config| config.versions = vec![ProtocolVersion::V2025_06_18]);
    stream.machine.connect(stream.now).unwrap();
    stream.lines();
    stream.line(result("1", &initialize_result("2025-06-18")));
    assert_eq!(stream.lines(), [INITIALIZED]);
}

#[test]
fn lc_17_and_19_every_request_of_the_server_is_reported_where_the_application_forwards_them() {
    for reports_all_requests in [false, true] {
        let mut stream = legacy(|config| config.reports_all_requests = reports_all_requests);
        for (method, answer) in [
            ("ping", r#"{"jsonrpc":"2.0","id":"a","result":{}}"#),
            (
                "roots/list",
                r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"the client did not declare this capability"}}"#,
            ),
        ] {
            stream.line(request("\"a\"", method, "{}"));
            let mut events = stream.events();
            if reports_all_requests {
                let Some(Event::Requested { ticket, method: reported, .. }) = events.pop() else { panic!("{method}") };
                assert_eq!(reported.as_str(), method);
                assert!(events.is_empty() && stream.lines().is_empty());
                stream.machine.answer(ticket, Ok(json("{}")), stream.now);
                assert_eq!(stream.lines().len(), 1);
            } else {
                assert_eq!(stream.lines(), [answer]);
                assert!(matches!(events[..], [] | [Event::Faulted(Fault::UnexpectedRequest { .. })]), "{events:?}");
            }
        }
        // The same holds for notifications to the server.
        let sent = stream.machine.notify(Notification::with_params("notifications/x", json("[]")), stream.now);
        assert_eq!(sent.is_ok(), reports_all_requests);
    }
}

#[test]
fn lc_17_a_session_that_the_client_opens_itself_is_its_own() {
    let mut stream = client(|config| config.reports_all_requests = true);
    stream.machine.connect_with(Opening::Discover(json("{}")), stream.now).unwrap();
    stream.line(error("1", -32601, "no"));
    stream.line(result("2", &initialize_result("2025-06-18")));
    stream.lines();
    stream.line(request("\"a\"", "ping", "{}"));
    assert_eq!(stream.lines(), [result("\"a\"", "{}")]);
    stream.machine.confirm(None, stream.now).unwrap();
    assert_eq!(stream.lines(), [INITIALIZED]);
}

#[test]
fn a_client_states_the_identity_that_it_was_given_last() {
    let mut stream = client(|_| {});
    let (info, none) = (json(r#"{"name":"editor","version":"7"}"#), json("{}"));
    for (info, capabilities) in [(json("1"), none.clone()), (info.clone(), json("[]"))] {
        let refused = stream.machine.identify(info, capabilities);
        assert!(matches!(refused, Err(UsageError::NotAnObject { .. })), "{refused:?}");
    }
    stream.machine.identify(info, json(r#"{"roots":{}}"#)).unwrap();
    stream.machine.connect(stream.now).unwrap();
    let stated = r#""io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"editor","version":"7"}"#;
    assert!(stream.lines()[0].contains(stated));
    stream.line(result("1", DISCOVERED));
    // From now on, it acts for another one.
    stream.machine.identify(json(r#"{"name":"other"}"#), none).unwrap();
    stream.machine.request(Call::new("tools/list"), stream.now).unwrap();
    let stated =
        r#""io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"other"}"#;
    assert!(stream.lines()[0].contains(stated));
}

#[test]
fn what_waits_for_a_server_that_does_not_read_is_counted() {
    let mut client = client(|_| {}).machine;
    client.connect(Instant::START).unwrap();
    while client.poll_output().is_some() {}
    let before = client.backlog();
    let params = json(r#"{"name":"t"}"#);
    client.request(Call::new("tools/call").params(params.clone()), Instant::START).unwrap();
    let after = client.backlog();
    assert_eq!((after.bytes - before.bytes, after.messages), (params.len(), before.messages));
    assert_eq!(client.peer(), "the server");
}
