//! The server in revision 2026-07-28, over both transports: each request is independent of all others.

use std::time::Duration;

use mcp_proto::client::Call;
use mcp_proto::server::{ChangeNotification, Config, Event, InputRequired, Principal, Progress, Scope};
use mcp_proto::spec::{CacheScope, LoggingLevel};
use mcp_proto::{Era, ErrorObject, Json, Method, Notification, ProtocolVersion, Ticket, UsageError};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_exchange::{META, TestRequest, TestResponse, initialize, modern};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{self, initialize_with};

const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{}}"#;

const SERVER: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

fn configure(config: &mut Config) {
    config.capabilities = json(CAPABILITIES);
}

fn harness() -> HttpServerHarness {
    HttpServerHarness::with(|_, config| configure(config))
}

fn stream() -> ServerStream {
    ServerStream::server_with(configure)
}

/// A call of a client with these capabilities.
fn call_with(capabilities: &str, members: &str) -> String {
    let meta = META.replace("Capabilities\":{}", &format!("Capabilities\":{capabilities}"));
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a",{members}"_meta":{{{meta}}}}}}}"#)
}

fn post_call(body: String) -> TestRequest {
    TestRequest::post(body).repeating_headers("2026-07-28", "tools/call").with("mcp-name", "a")
}

fn requested(events: Vec<Event>) -> (Ticket, Method, Option<Json>) {
    let mut found = events.into_iter().filter_map(|event| match event {
        Event::Requested { ticket, method, params } => Some((ticket, method, params)),
        _ => None,
    });
    let request = found.next().expect("a request");
    assert!(found.next().is_none(), "one request");
    request
}

fn result(sent: &TestResponse) -> Json {
    json(sent.data().last().unwrap_or(&sent.text())).member("result").unwrap().expect("a result")
}

#[test]
fn md_v_04_discovery_is_answered_by_the_machine_on_both_transports() {
    let expected = format!(
        r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private",{SERVER},"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{CAPABILITIES},"instructions":"Be kind."}}"#
    );
    let config = |config: &mut Config| {
        configure(config);
        config.instructions = Some("Be kind.".into());
    };
    let mut harness = HttpServerHarness::with(|_, c| config(c));
    let sent = harness.answer(&TestRequest::stateless("\"d\"", "server/discover", ""));
    let answer = format!(r#"{{"jsonrpc":"2.0","id":"d","result":{expected}}}"#);
    assert_eq!((sent.code(), sent.text().as_str(), sent.is_stream), (200, answer.as_str(), false));
    assert!(!sent.headers.contains_key("mcp-session-id"), "SH-S-59");
    let mut stream = ServerStream::server_with(config);
    stream.line(modern("\"d\"", "server/discover", ""));
    assert_eq!(stream.lines(), [answer]);
    assert!(harness.events().is_empty() && stream.events().is_empty());
}

#[test]
fn jr_14_results_are_completed_and_otherwise_stay_as_they_are() {
    for (method, given, expected) in [
        (
            "tools/call",
            r#"{"content":[],"n":1.0}"#,
            format!(r#"{{"resultType":"complete",{SERVER},"content":[],"n":1.0}}"#),
        ),
        (
            "tools/list",
            r#"{"tools":[]}"#,
            format!(r#"{{"resultType":"complete","ttlMs":5000,"cacheScope":"public",{SERVER},"tools":[]}}"#),
        ),
        (
            "resources/read",
            r#"{ "ttlMs": 7, "_meta": {"x": 1}}"#,
            format!(
                r#"{{"resultType":"complete","cacheScope":"public", "ttlMs": 7, "_meta": {},"x": 1}}}}"#,
                SERVER.strip_prefix("\"_meta\":").unwrap().strip_suffix('}').unwrap()
            ),
        ),
        (
            "tools/call",
            r#"{"resultType":"task","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"other"}}}"#,
            r#"{"resultType":"task","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"other"}}}"#.to_owned(),
        ),
    ] {
        let mut stream = ServerStream::server_with(|config| {
            configure(config);
            config.cache_ttl = Duration::from_secs(5);
            config.cache_scope = CacheScope::Public;
        });
        stream.line(modern("1", method, ""));
        let ticket = stream.requested().pop().unwrap();
        stream.machine.respond(ticket, Ok(json(given)), stream.now).unwrap();
        assert_eq!(stream.lines(), [format!(r#"{{"jsonrpc":"2.0","id":1,"result":{expected}}}"#)], "{method}");
    }
    let mut stream = ServerStream::server_with(|config| {
        configure(config);
        config.names_itself = false;
    });
    stream.line(modern("1", "tools/call", ""));
    let ticket = stream.requested().pop().unwrap();
    stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).unwrap();
    assert_eq!(stream.lines(), [r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}"#]);
}

#[test]
fn a3_the_status_is_200_unless_the_specification_names_another() {
    for (code, status) in [(-32601, 404), (-32021, 400), (-32602, 200), (-32603, 200), (7, 200)] {
        let mut harness = harness();
        let key = harness.ask(&TestRequest::stateless_call("1", "a", ""));
        let ticket = harness.ticket();
        harness.server.respond(ticket, Err(ErrorObject::new(code, "no")), harness.now).unwrap();
        assert_eq!(harness.take(key).code(), status, "{code}");
    }
}

#[test]
fn rp15_a_code_that_is_reserved_is_not_sent() {
    for code in [-32002, -32042, -32099] {
        let mut stream = stream();
        stream.line(modern("1", "tools/call", ""));
        let ticket = stream.requested().pop().unwrap();
        let refused = stream.machine.respond(ticket, Err(ErrorObject::new(code, "no")), stream.now);
        assert_eq!(refused, Err(UsageError::ReservedErrorCode { code }));
        assert_eq!(stream.lines(), [r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}"#]);
    }
}

#[test]
fn hm11_clients_with_equal_ids_get_their_own_answers() {
    let mut harness = harness();
    let mut open = Vec::new();
    for name in ["a", "b", "c"] {
        let key = harness.ask(&TestRequest::stateless_call("1", name, ""));
        open.push((key, name, harness.ticket()));
    }
    assert!(harness.events().is_empty(), "equal ids are no fault");
    let keys: Vec<_> = open.iter().map(|(key, name, _)| (*key, *name)).collect();
    for (_, name, ticket) in open.into_iter().rev() {
        harness.respond(ticket, &format!(r#"{{"n":"{name}"}}"#));
    }
    for (key, name) in keys {
        let sent = harness.take(key);
        assert!(sent.is_over && sent.text().contains(&format!(r#""n":"{name}""#)), "{}", sent.text());
    }
}

#[test]
fn hm10_a_disconnect_cancels_and_nothing_more_is_written() {
    let mut harness = harness();
    for streams in [false, true] {
        let key = harness.ask(&TestRequest::stateless("1", "tools/call", r#""name":"a","#).with("mcp-name", "a"));
        let ticket = harness.ticket();
        if streams {
            harness.server.notify(Scope::from(&ticket), Notification::new("x/y"), harness.now).unwrap();
            assert!(harness.take(key).is_stream);
        }
        harness.server.handle_disconnect(key, harness.now);
        assert_eq!(harness.events(), [Event::Cancelled { ticket: ticket.key(), params: None }]);
        assert_eq!(harness.server.requests_in_flight(), 0);
        assert_eq!(harness.server.notify(Scope::from(&ticket), Notification::new("x/y"), harness.now), Ok(()));
        harness.respond(ticket, "{}");
        assert!(harness.take(key).body.is_empty());
        assert_eq!(harness.server.poll_timeout(), None);
    }
}

#[test]
fn cx_10_a_posted_cancellation_is_accepted_and_ignored() {
    let mut harness = harness();
    let key = harness.ask(&TestRequest::stateless_call("1", "a", ""));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(
        harness.answer(&TestRequest::post(cancel).repeating_headers("2026-07-28", "notifications/cancelled")).code(),
        202
    );
    assert_eq!(harness.answer(&TestRequest::post(cancel).repeating_headers("2026-07-28", "x")).code(), 400, "A11");
    assert_eq!(
        harness.answer(&TestRequest::post(cancel).repeating_headers("2026-07-28", "x").without("mcp-method")).code(),
        202,
        "A11"
    );
    let ticket = harness.ticket();
    assert!(harness.events().is_empty());
    harness.respond(ticket, "{}");
    assert_eq!(harness.take(key).code(), 200);
}

#[test]
fn st_15_on_a_stream_a_cancellation_cancels() {
    let mut stream = stream();
    stream.line(modern("1", "tools/call", ""));
    let ticket = stream.requested().pop().unwrap();
    stream.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert!(matches!(&stream.events()[..], [Event::Cancelled { ticket: key, .. }] if *key == ticket.key()));
    stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).unwrap();
    assert!(stream.lines().is_empty(), "ST-16");
}

#[test]
fn sh_s_21_an_answer_becomes_a_stream_without_ids_when_something_precedes_it() {
    let mut harness = harness();
    let body = modern("1", "tools/call", r#""name":"a","#).replace(r#""_meta":{"#, r#""_meta":{"progressToken":"t","#);
    let key = harness.ask(&post_call(body));
    let ticket = harness.ticket();
    harness.server.progress(&ticket, &Progress { progress: 1.0, total: None, message: None }, harness.now);
    harness.pass(Duration::from_secs(16));
    harness.respond(ticket, "{}");
    let sent = harness.take(key);
    assert!(sent.is_stream && sent.is_over && sent.ids().is_empty());
    assert!(sent.text().contains("\n:"), "a comment keeps it alive: {}", sent.text());
    assert_eq!(sent.data().len(), 2);
    assert!(sent.data()[0].contains(r#""progressToken":"t""#) && sent.data()[1].contains("complete"));
}

#[test]
fn md_m_09_a_request_gets_the_log_messages_of_its_level() {
    for (level, wanted) in [(None, &[][..]), (Some("warning"), &["error"][..]), (Some("debug"), &["info", "error"][..])]
    {
        let mut stream = stream();
        let meta = level.map(|level| format!(r#""io.modelcontextprotocol/logLevel":"{level}","#)).unwrap_or_default();
        stream.line(modern("1", "tools/call", "").replace(r#""_meta":{"#, &format!(r#""_meta":{{{meta}"#)));
        let ticket = stream.requested().pop().unwrap();
        for level in [LoggingLevel::Info, LoggingLevel::Error] {
            stream.machine.log(&ticket, level, None, &Json::from("x"), stream.now).unwrap();
        }
        let sneaked = Notification::with_params("notifications/message", json(r#"{"level":"debug","data":1}"#));
        stream.machine.notify(&ticket, sneaked, stream.now).unwrap();
        let lines = stream.lines();
        let levels: Vec<_> =
            ["info", "error"].into_iter().filter(|l| lines.iter().any(|line| line.contains(l))).collect();
        assert_eq!(levels, wanted, "{lines:?}");
        assert_eq!(lines.len(), if level == Some("debug") { 3 } else { wanted.len() });
    }
}

/// Like the answers to `tasks/get`, which have the same contents.
#[test]
fn se_10_the_changes_of_a_task_reach_only_subscriptions_of_its_principal() {
    const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let mut harness = HttpServerHarness::with(|_, config| config.capabilities = json(TASKS));
    let listen = modern("1", "subscriptions/listen", r#""notifications":{"taskIds":["t"]},"#);
    let listen = listen.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{TASKS}"#));
    let listen = TestRequest::post(listen).repeating_headers("2026-07-28", "subscriptions/listen");
    let principals = [Some("ada"), Some("bob"), None];
    let streams = principals.map(|principal| {
        let key = harness.ask(&principal.map_or(listen.clone(), |principal| listen.clone().by(principal)));
        assert!(harness.take(key).text().contains(r#""taskIds":["t"]"#));
        key
    });
    for owner in principals {
        let change = Notification::with_params("notifications/tasks", json(r#"{"taskId":"t"}"#));
        let change = ChangeNotification::for_principal(change, owner.map(Principal::new).as_ref());
        harness.server.publish(change, harness.now).unwrap();
        let received = streams.map(|key| !harness.take(key).data().is_empty());
        assert_eq!(received, principals.map(|principal| principal == owner));
    }
}

#[test]
fn sh_s_15_the_server_sends_no_requests_and_nothing_unrelated() {
    let mut stream = stream();
    stream.line(modern("1", "tools/call", ""));
    let ticket = stream.requested().pop().unwrap();
    let asked = stream.machine.request(&ticket, Call::new("roots/list"), stream.now);
    assert!(matches!(asked, Err(UsageError::NotInRevision { version: ProtocolVersion::V2026_07_28, .. })), "{asked:?}");
    let change = Notification::new("notifications/tools/list_changed");
    let outcome = stream.machine.notify(&ticket, change.clone(), stream.now);
    assert!(matches!(outcome, Err(UsageError::NotInRevision { .. })), "SH-S-14");
    let session = stream.machine.session();
    assert_eq!(stream.machine.notify(session, change, stream.now), Err(UsageError::NotConnected));
    assert!(stream.lines().is_empty());
}

#[test]
fn md_m_04_the_context_of_a_request_is_what_the_request_states() {
    let mut harness = harness();
    let key = harness.ask(&post_call(call_with(r#"{"roots":{}}"#, "")).by("ann"));
    let ticket = harness.ticket();
    let context = harness.server.context(&ticket).unwrap();
    assert_eq!(context.version, ProtocolVersion::V2026_07_28);
    assert_eq!(context.client_capabilities, json(r#"{"roots":{}}"#));
    assert_eq!((context.client_info, context.logging_level), (None, None));
    assert_eq!(context.principal.as_ref().map(Principal::as_str), Some("ann"));
    assert_eq!(harness.server.request_head(&ticket).unwrap().headers["mcp-name"], "a");
    harness.respond(ticket, "{}");
    assert_eq!(harness.take(key).code(), 200);
    let id = harness.session_of("2025-06-18", Some("bob"));
    harness.ask(&TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#).in_session(&id).by("bob"));
    let ticket = harness.ticket();
    let context = harness.server.context(&ticket).unwrap();
    assert_eq!(context.version, ProtocolVersion::V2025_06_18);
    assert_eq!(context.client_info, Some(json(r#"{"name":"c","version":"1"}"#)));
    assert_eq!(context.principal.as_ref().map(Principal::as_str), Some("bob"));
}

#[test]
fn md_m_12_capabilities_are_required_by_mode() {
    for (declared, required, missing) in [
        ("{}", r#"{"roots":{}}"#, Some(r#"{"roots":{}}"#)),
        (r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}}}"#, None),
        (r#"{"elicitation":{}}"#, r#"{"elicitation":{"url":{}}}"#, Some(r#"{"elicitation":{"url":{}}}"#)),
        (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{"url":{}}}"#, None),
        (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{}}"#, Some(r#"{"elicitation":{}}"#)),
        (
            r#"{"sampling":{}}"#,
            r#"{"sampling":{"tools":{}},"roots":{}}"#,
            Some(r#"{"roots":{},"sampling":{"tools":{}}}"#),
        ),
        (r#"{"extensions":{"a/b":{}}}"#, r#"{"extensions":{"a/b":{}}}"#, None),
    ] {
        let mut stream = stream();
        stream.line(call_with(declared, ""));
        let ticket = stream.requested().pop().unwrap();
        let context = stream.machine.context(&ticket).unwrap();
        let found = context.require(&json(required)).err().map(|error| (error.code(), error.data().unwrap()));
        let expected = missing.map(|missing| (-32021, json(&format!(r#"{{"requiredCapabilities":{missing}}}"#))));
        assert_eq!(found, expected, "{declared} {required}");
    }
}

fn name_and_roots() -> InputRequired {
    InputRequired::new()
        .ask("name", "elicitation/create", json(r#"{"message":"Name?"}"#))
        .ask("roots", "roots/list", Json::empty_object())
        .state("s\"1")
}

#[test]
fn md_i_02_what_is_required_is_the_result() {
    let mut harness = harness();
    let key = harness.ask(&post_call(call_with(r#"{"elicitation":{},"roots":{}}"#, "")));
    let ticket = harness.ticket();
    harness.server.require_input(ticket, name_and_roots(), harness.now).unwrap();
    let sent = harness.take(key);
    assert!(sent.is_over, "MD-I-16");
    let expected = format!(
        r#"{{{SERVER},"resultType":"input_required","inputRequests":{{"name":{{"method":"elicitation/create","params":{{"message":"Name?"}}}},"roots":{{"method":"roots/list","params":{{}}}}}},"requestState":"s\"1"}}"#
    );
    assert_eq!(result(&sent).to_text(), expected);
    assert_eq!(harness.server.requests_in_flight(), 0, "MD-I-13");
}

#[test]
fn md_i_04_nothing_is_required_that_the_client_cannot_give() {
    let mut harness = harness();
    // A command and a result have the same outcome.
    for is_result in [false, true] {
        let key = harness.ask(&post_call(call_with(r#"{"elicitation":{"url":{}},"roots":{}}"#, "")));
        let ticket = harness.ticket();
        if is_result {
            harness.server.respond(ticket, Ok(name_and_roots().into()), harness.now).unwrap();
        } else {
            harness.server.require_input(ticket, name_and_roots(), harness.now).unwrap();
        }
        let sent = harness.take(key);
        assert_eq!(sent.code(), 400);
        assert!(
            sent.text().contains(r#""data":{"requiredCapabilities":{"elicitation":{"form":{}}}}"#),
            "{}",
            sent.text()
        );
    }
}

#[test]
fn md_i_01_and_03_input_is_required_where_it_may_be() {
    for (method, required) in [
        ("tools/list", name_and_roots()),
        ("tools/call", InputRequired::new()),
        ("tools/call", InputRequired::new().ask("a", "tools/call", Json::empty_object())),
    ] {
        for is_result in [false, true] {
            let mut stream = stream();
            stream.line(modern("1", method, ""));
            let (ticket, now) = (stream.requested().pop().unwrap(), stream.now);
            let refused = if is_result {
                stream.machine.respond(ticket, Ok(required.clone().into()), now)
            } else {
                stream.machine.require_input(ticket, required.clone(), now)
            };
            assert!(refused.is_err(), "{method}");
            assert!(stream.lines()[0].contains(r#""code":-32603"#), "MR5");
        }
    }
}

#[test]
fn br_l_a_legacy_client_receives_requests_for_input_and_the_handler_is_called_again() {
    let mut stream = ServerStream::server_with(configure);
    stream.line(initialize_with("0", "2025-11-25", r#"{"elicitation":{},"roots":{}}"#));
    stream.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stream.lines();
    stream.events();
    stream.line(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","n":1.0}}"#);
    let ticket = stream.requested().pop().unwrap();
    let key = ticket.key();
    stream.machine.require_input(ticket, name_and_roots(), stream.now).unwrap();
    let lines = stream.lines();
    assert!(lines[0].contains("elicitation/create") && lines[1].contains("roots/list"), "{lines:?}");
    stream.line(r#"{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}"#);
    assert!(stream.events().is_empty(), "not all is there");
    stream.line(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#);
    let (ticket, method, params) = requested(stream.events());
    assert_eq!((ticket.key(), method), (key, Method::TOOLS_CALL));
    assert_eq!(
        params.unwrap().to_text(),
        r#"{"requestState":"s\"1","inputResponses":{"name":{"action":"accept"},"roots":{"roots":[]}},"name":"a","n":1.0}"#
    );
    // After a result with a state alone, the machine hands up the request again after a pause.
    stream.machine.require_input(ticket, InputRequired::new().state("2"), stream.now).unwrap();
    assert!(stream.events().is_empty() && stream.lines().is_empty());
    stream.pass(Duration::from_millis(250));
    let (ticket, _, params) = requested(stream.events());
    assert!(params.unwrap().to_text().starts_with(r#"{"requestState":"2","inputResponses":{},"#));
    stream.machine.respond(ticket, Ok(json(r#"{"content":[]}"#)), stream.now).unwrap();
    assert_eq!(stream.lines(), [r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#]);
    assert_eq!(stream.machine.poll_timeout(), None);
}

#[test]
fn md_i_10_a_legacy_request_ends_without_what_it_needs() {
    for answer in [Some(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#), None] {
        let mut stream = ServerStream::server_with(configure);
        stream.line(initialize_with("0", "2025-11-25", r#"{"roots":{}}"#));
        stream.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        stream.line(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#);
        let ticket = stream.requested().pop().unwrap();
        let required = InputRequired::new().ask("r", "roots/list", Json::empty_object());
        stream.machine.require_input(ticket, required, stream.now).unwrap();
        stream.lines();
        match answer {
            Some(answer) => stream.line(answer),
            None => stream.pass(Duration::from_secs(61)),
        }
        let lines = stream.lines();
        assert!(lines.iter().any(|line| line.contains(r#""id":7,"error":{"code":-32603"#)), "{lines:?}");
        assert!(stream.events().is_empty());
        assert_eq!(stream.machine.requests_in_flight(), 0);
    }
}

#[test]
fn md_i_04_a_client_is_not_asked_for_input_that_it_has_not_declared_and_its_language_model_reads_why() {
    let tool_error = concat!(
        r#"{"content":[{"type":"text","text":"this tool needs input from the client, which has not declared that it can "#,
        r#"give it: elicitation.form, roots"}],"isError":true}"#,
    );
    let undeclared = r#"{"code":-32600,"message":"the request needs a capability that its client has not declared","#;
    for version in ProtocolVersion::ALL.iter().filter(|version| !version.is_stateless()) {
        let mut stream = ServerStream::ready(version.as_str());
        let mut answer = |method: &str| {
            stream.line(format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{}}}}"#));
            let ticket = stream.requested().pop().unwrap();
            stream.machine.require_input(ticket, name_and_roots(), stream.now).unwrap();
            stream.lines().pop().unwrap()
        };
        assert_eq!(answer("tools/call"), format!(r#"{{"jsonrpc":"2.0","id":7,"result":{tool_error}}}"#), "{version}");
        let refused = answer("prompts/get");
        assert!(refused.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":7,"error":{undeclared}"#)), "{refused}");
    }
}

fn listen(id: &str, filter: &str) -> String {
    modern(id, "subscriptions/listen", &format!(r#""notifications":{filter},"#))
}

#[test]
fn md_l_a_subscription_delivers_the_changes_of_its_filter_and_no_others() {
    let mut harness = harness();
    let filters = [
        r#"{"toolsListChanged":true,"promptsListChanged":true}"#,
        r#"{"resourceSubscriptions":["a:b","a:c"],"resourcesListChanged":true}"#,
        "{}",
    ];
    let keys = filters.map(|filter| {
        harness.ask(&TestRequest::post(listen("\"l\"", filter)).repeating_headers("2026-07-28", "subscriptions/listen"))
    });
    let honoured = [r#"{"toolsListChanged":true}"#, r#"{"resourceSubscriptions":["a:b","a:c"]}"#, "{}"];
    for (key, honoured) in keys.into_iter().zip(honoured) {
        let sent = harness.take(key);
        assert!(sent.is_stream && !sent.is_over, "MD-L-08");
        let ack = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":"l"}},"notifications":{honoured}}}}}"#
        );
        assert_eq!(sent.data(), [ack], "MD-L-02");
    }
    harness.server.publish(Notification::new("notifications/tools/list_changed"), harness.now).unwrap();
    for uri in ["a:c", "a:d"] {
        let params = Json::empty_object().with_member("uri", &Json::from(uri));
        harness
            .server
            .publish(Notification::with_params("notifications/resources/updated", params), harness.now)
            .unwrap();
    }
    let notification = |method: &str, params: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":"l"}}{params}}}}}"#
        )
    };
    assert_eq!(harness.take(keys[0]).data(), [notification("tools/list_changed", "")], "MD-L-04");
    assert_eq!(harness.take(keys[1]).data(), [notification("resources/updated", r#","uri":"a:c""#)]);
    assert!(harness.take(keys[2]).body.is_empty(), "MD-L-03");
    harness.pass(Duration::from_secs(16));
    assert!(harness.take(keys[2]).text().starts_with(':'), "MD-L-16");
    assert_eq!((harness.server.subscriptions(), harness.server.requests_in_flight()), (3, 0));
    harness.server.handle_disconnect(keys[0], harness.now);
    assert_eq!(harness.server.subscriptions(), 2);
    harness.server.close(harness.now);
    for key in &keys[1..] {
        let sent = harness.take(*key);
        assert!(sent.is_over && sent.text().contains(r#""resultType":"complete""#), "MD-L-09: {}", sent.text());
        assert!(sent.text().contains(r#""io.modelcontextprotocol/subscriptionId":"l""#));
    }
    assert_eq!((harness.server.subscriptions(), harness.server.poll_timeout()), (0, None));
}

#[test]
fn md_l_on_a_stream_subscriptions_are_distinguished_by_their_ids() {
    let mut stream = stream();
    stream.line(listen("1", r#"{"toolsListChanged":true}"#));
    stream.line(listen("\"1\"", r#"{"toolsListChanged":true}"#));
    assert_eq!(stream.lines().len(), 2);
    stream.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    stream.machine.publish(Notification::new("notifications/tools/list_changed"), stream.now).unwrap();
    let lines = stream.lines();
    assert!(lines.len() == 1 && lines[0].contains(r#"subscriptionId":"1""#), "{lines:?}");
    stream.eof();
    assert!(stream.lines()[0].contains(r#""id":"1","result""#), "MD-L-09");
    assert!(matches!(&stream.events()[..], [Event::InputEnded, Event::Closed { .. }]));
}

#[test]
fn md_l_14_subscriptions_and_filters_are_bounded() {
    let mut harness = HttpServerHarness::with(|_, config| {
        configure(config);
        config.limits.subscriptions = 1;
    });
    let post =
        |filter: &str| TestRequest::post(listen("1", filter)).repeating_headers("2026-07-28", "subscriptions/listen");
    let many: Vec<_> = (0..513).map(|n| format!("\"{n}\"")).collect();
    for filter in [
        format!(r#"{{"resourceSubscriptions":[{}]}}"#, many.join(",")),
        format!(r#"{{"resourceSubscriptions":["{}"]}}"#, "x".repeat(40_000)),
        r#"{"resourceSubscriptions":[1]}"#.to_owned(),
        "[]".to_owned(),
    ] {
        let sent = harness.answer(&post(&filter));
        assert!(sent.code() == 400 && sent.text().contains("-32602"), "{}", sent.text());
    }
    let open = harness.ask(&post("{}"));
    let refused = harness.answer(&post("{}"));
    assert!(refused.code() == 503 && refused.text().contains("-32603"), "{}", refused.text());
    harness.server.handle_disconnect(open, harness.now);
    assert!(harness.answer(&post("{}")).is_stream);
}

#[test]
fn lc_18_a_legacy_session_receives_list_changes_and_updates_of_its_subscriptions() {
    let mut stream = ServerStream::ready_with("2025-11-25", configure);
    let updated = Notification::with_params("notifications/resources/updated", json(r#"{"uri":"a:b"}"#));
    stream.machine.publish(updated.clone(), stream.now).unwrap();
    assert!(stream.lines().is_empty());
    for (method, count) in [("resources/subscribe", 1), ("resources/unsubscribe", 0)] {
        stream.line(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"uri":"a:b"}}}}"#));
        stream.lines();
        stream.machine.publish(updated.clone(), stream.now).unwrap();
        assert_eq!(stream.lines().len(), count, "{method}");
    }
    stream.machine.publish(Notification::new("notifications/tools/list_changed"), stream.now).unwrap();
    assert_eq!(stream.lines(), [r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]);
    let undeclared = Notification::new("notifications/prompts/list_changed");
    assert_eq!(stream.machine.publish(undeclared, stream.now), Err(UsageError::NotDeclared { capability: "prompts" }));
    for no_change in ["notifications/message", "notifications/resources/updated"] {
        let outcome = stream.machine.publish(Notification::new(no_change), stream.now);
        assert!(matches!(outcome, Err(UsageError::NoChange { .. })));
    }
}

#[test]
fn a28_what_is_no_request_is_refused_without_an_id() {
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    for (body, method, code) in [
        (notification, "notifications/x", None),
        (notification, "notifications/y", Some(-32020)),
        ("{", "x", Some(-32700)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "x", Some(-32600)),
        ("[]", "x", Some(-32600)),
    ] {
        let sent = harness().answer(&TestRequest::post(body).repeating_headers("2026-07-28", method));
        let Some(code) = code else {
            assert_eq!((sent.code(), sent.text().as_str()), (202, ""), "{body}");
            continue;
        };
        assert_eq!(sent.code(), 400, "{body}");
        assert!(sent.text().starts_with(&format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"#)), "{}", sent.text());
    }
}

#[test]
fn hm5_headers_that_repeat_arguments_must_match_the_body() {
    let mut harness = harness();
    let list = harness.ask(&TestRequest::stateless("1", "tools/list", ""));
    let ticket = harness.ticket();
    harness.respond(
        ticket,
        r#"{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "page":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Page"}}},
            "dry":{"type":"boolean","x-mcp-header":"Dry"}}}},{"name":"b","inputSchema":{}}]}"#,
    );
    assert_eq!(harness.take(list).code(), 200);
    for (arguments, headers, served) in [
        (r#"{"region":"eu"}"#, vec![("mcp-param-region", "eu")], true),
        (r#"{"region":"eu"}"#, vec![("Mcp-Param-REGION", "\t eu ")], true),
        (r#"{"region":"é"}"#, vec![("mcp-param-region", "=?base64?w6k=?=")], true),
        (r#"{"region":"eu"}"#, vec![("mcp-param-region", "EU")], false),
        (r#"{"region":"eu"}"#, vec![("mcp-param-region", "=?base64?ZXU?=")], false),
        (r#"{"region":"eu"}"#, vec![("mcp-param-region", "eu"), ("mcp-param-region", "eu")], false),
        (r#"{"region":"eu"}"#, vec![], false),
        (r#"{"region":"42"}"#, vec![("mcp-param-region", "42.0")], false),
        (r#"{"region":null}"#, vec![], true),
        (r#"{"region":null}"#, vec![("mcp-param-region", "null")], false),
        (r"{}", vec![("mcp-param-region", "")], false),
        (r#"{"region":""}"#, vec![("mcp-param-region", "")], true),
        (r#"{"page":{"n":42}}"#, vec![("mcp-param-page", "42.0")], true),
        (r#"{"page":{"n":42}}"#, vec![("mcp-param-page", "43")], false),
        (r#"{"dry":true}"#, vec![("mcp-param-dry", "true")], true),
        (r#"{"dry":true}"#, vec![("mcp-param-dry", "True")], false),
        (r"{}", vec![("mcp-param-unknown", "x")], true),
    ] {
        let mut asked = TestRequest::stateless_call("1", "a", &format!(r#""arguments":{arguments},"#));
        for (name, value) in &headers {
            asked = asked.and(name, value);
        }
        let key = harness.ask(&asked);
        if served {
            let ticket = harness.ticket();
            harness.respond(ticket, "{}");
        } else {
            assert!(harness.events().is_empty(), "it does not reach the application");
        }
        let sent = harness.take(key);
        assert_eq!(sent.code(), if served { 200 } else { 400 }, "{arguments} {headers:?}: {}", sent.text());
        assert!(served || sent.text().contains("-32020"));
    }
}

#[test]
fn er_40_one_stream_serves_both_eras() {
    let mut stream = ServerStream::ready_with("2025-11-25", configure);
    stream.line(modern("1", "tools/call", ""));
    stream.line(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#);
    let tickets = stream.requested();
    let versions: Vec<_> = tickets.iter().map(|ticket| stream.machine.context(ticket).unwrap().version).collect();
    assert_eq!(versions, [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25]);
    for ticket in tickets {
        stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).unwrap();
    }
    let lines = stream.lines();
    assert!(lines[0].contains("resultType") && !lines[1].contains("resultType"), "{lines:?}");
}

#[test]
fn er_42_a_server_of_one_era_lists_its_revisions() {
    let only_modern = |config: &mut Config| {
        configure(config);
        config.versions.retain(|version| version.rules().era == Era::Modern);
    };
    let refused = r#""code":-32022,"message":"this revision is not served","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}"#;
    let mut stream = ServerStream::server_with(only_modern);
    stream.line(initialize("2025-11-25"));
    assert!(stream.lines()[0].contains(refused));
    stream.line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert!(stream.lines()[0].contains("-32602"));
    let mut harness = HttpServerHarness::with(|_, config| only_modern(config));
    let sent = harness.answer(&TestRequest::post(initialize("2025-11-25")));
    assert!(sent.code() == 400 && sent.text().contains(refused), "{}", sent.text());
    for method in ["GET", "DELETE"] {
        let sent = harness.answer(&TestRequest::new(method, ""));
        assert_eq!((sent.code(), &sent.headers["allow"]), (405, &http::HeaderValue::from_static("POST")));
    }
    let only_legacy = |config: &mut Config| config.versions.retain(|version| version.rules().era == Era::Legacy);
    let mut stream = ServerStream::server_with(only_legacy);
    stream.line(modern("1", "server/discover", ""));
    assert!(stream.lines()[0].contains("-32601"), "ER-24");
    let mut harness = HttpServerHarness::with(|_, config| only_legacy(config));
    assert_eq!(harness.answer(&TestRequest::stateless("1", "server/discover", "")).code(), 400);
}

#[test]
fn sh_s_59_sessions_and_events_of_earlier_revisions_are_ignored() {
    let mut harness = harness();
    let asked = TestRequest::stateless_call("1", "a", "").with("mcp-session-id", "x").with("last-event-id", "y");
    let key = harness.ask(&asked);
    let ticket = harness.ticket();
    harness.respond(ticket, "{}");
    let sent = harness.take(key);
    assert_eq!(sent.code(), 200);
    assert!(!sent.headers.contains_key("mcp-session-id"));
}

#[test]
fn rp10_requests_that_stand_alone_are_bounded() {
    let mut harness = HttpServerHarness::with(|_, config| {
        configure(config);
        config.limits.requests_in_total = 2;
    });
    let open: Vec<_> = (0..2).map(|_| harness.ask(&TestRequest::stateless_call("1", "a", ""))).collect();
    let refused = harness.answer(&TestRequest::stateless_call("1", "a", ""));
    assert!(refused.code() == 503 && refused.text().contains(r#""id":1,"error":{"code":-32603"#));
    harness.server.handle_disconnect(open[0], harness.now);
    assert_eq!(harness.answer(&TestRequest::stateless_call("1", "a", "")).code(), 0, "it waits");
}

#[test]
fn a_stateless_request_has_no_session() {
    let mut harness = harness();
    let first = harness.ask(&TestRequest::stateless_call("1", "a", ""));
    let ticket = harness.ticket();
    assert_eq!(ticket.key().session(), None);
    harness.respond(ticket, "{}");
    assert_eq!(harness.take(first).code(), 200);
    assert_eq!(harness.answer(&TestRequest::stateless("1", "server/discover", "")).code(), 200);
}

#[test]
fn invariant_1_closing_answers_everybody() {
    let mut harness = harness();
    let key = harness.ask(&TestRequest::stateless_call("1", "a", ""));
    let half = harness.begin(&TestRequest::stateless_call("1", "a", ""));
    let ticket = harness.ticket();
    harness.server.close(harness.now);
    assert!(harness.take(key).text().contains(r#""id":1,"error""#));
    assert_eq!(harness.events(), [Event::Cancelled { ticket: ticket.key(), params: None }]);
    harness.server.handle_end(half, harness.now);
    assert_eq!(harness.take(half).code(), 503);
    assert_eq!(harness.server.poll_timeout(), None);
}

#[test]
fn a_request_may_need_input_as_often_as_the_limit_allows() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.input_rounds = 2);
    stream.line(messages::request("\"c\"", "tools/call", r#"{"name":"t"}"#));
    for round in 1..=3 {
        let ticket = stream.requested().pop().expect("a call");
        let required = InputRequired::new().ask("k", "roots/list", json("{}"));
        stream.machine.require_input(ticket, required, stream.now).unwrap();
        let lines = stream.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0].contains("roots/list"), round <= 2, "round {round}: {lines:?}");
        let id = lines[0].split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
        if round <= 2 {
            stream.line(messages::result(&id, r#"{"roots":[]}"#));
        } else {
            assert!(lines[0].contains(r#""id":"c","error""#), "{lines:?}");
        }
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
