//! Stateless requests whose processes begin with `initialize`.

use std::time::Duration;

use mcp_intermediary::gateway::{BackendKey, Sharing};
use mcp_proto::server::ExchangeKey;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::messages::{request, result};
use tests::gateway::{GatewayHarness, id_of};

const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#;

/// A request with these capabilities of its client; `members` end with a comma.
fn asking(id: &str, method: &str, capabilities: &str, members: &str, meta: &str) -> TestRequest {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let meta = format!(r#"{version},"io.modelcontextprotocol/clientCapabilities":{capabilities}{meta}"#);
    let params = format!(r#"{{{members}"_meta":{{{meta}}}}}"#);
    TestRequest::post(request(id, method, &params)).repeating_headers("2026-07-28", method)
}

/// A call of a client that can be asked.
fn call(id: &str, members: &str) -> TestRequest {
    asking(id, "tools/call", r#"{"elicitation":{}}"#, &format!(r#""name":"a",{members}"#), "").with("mcp-name", "a")
}

/// A gateway that knows that its processes begin with `initialize`, and serves stateless requests by them.
fn gateway(sharing: Sharing) -> GatewayHarness {
    let mut gateway = GatewayHarness::with(|config| {
        config.sharing = sharing;
        config.relay.parking_timeout = Duration::from_secs(300);
    });
    let exchange = gateway.ask(&call("1", "").by("ada"));
    let process = found_to_be_legacy(&mut gateway);
    let line = gateway.lines(process).concat();
    gateway.reply(process, &result(id_of(&line), r#"{"content":[]}"#));
    assert!(gateway.responses.take(exchange).text().contains(r#""content":[]"#));
    gateway
}

/// The process that was started last does not know `server/discover`. The request goes to another one, which answers
/// `initialize`.
fn found_to_be_legacy(gateway: &mut GatewayHarness) -> BackendKey {
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    assert!(line.contains("server/discover"), "{line}");
    let unknown = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"m"}}}}"#, id_of(&line));
    gateway.reply(process, &unknown);
    gateway.reply_to_initialize(process, "2025-11-25");
    assert!(gateway.processes().contains(&(process, true)), "it was the wrong process");
    gateway.stopped(process);
    initialized(gateway)
}

/// The process that was started last answers `initialize`.
fn initialized(gateway: &mut GatewayHarness) -> BackendKey {
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    let expected = r#""params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}"#;
    assert!(line.contains(r#""method":"initialize""#) && line.contains(expected), "{line}");
    let info = r#"{"name":"old","version":"1"}"#;
    let opened = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{CAPABILITIES},"serverInfo":{info}}}"#);
    gateway.reply(process, &result(id_of(&line), &opened));
    let lines = gateway.lines(process);
    assert!(lines[0].contains("notifications/initialized"), "{lines:?}");
    // What was held is sent at once.
    for line in &lines[1..] {
        gateway.put_back(process, line);
    }
    process
}

fn asked(gateway: &mut GatewayHarness, process: BackendKey, asked: &TestRequest) -> (ExchangeKey, String) {
    let exchange = gateway.ask(asked);
    let lines = gateway.lines(process);
    let [line] = &lines[..] else { panic!("{lines:?}: {:?}", gateway.responses.peek(exchange)) };
    (exchange, id_of(line).to_owned())
}

/// A call during which the process asks its client: the state that the client is sent.
fn parked(gateway: &mut GatewayHarness, process: BackendKey, by: &str) -> (String, String) {
    let (exchange, id) = asked(gateway, process, &call("7", "").by(by));
    (state_of(gateway, process, exchange), id)
}

/// The process asks the client of its only call: the state that the client is sent.
fn state_of(gateway: &mut GatewayHarness, process: BackendKey, exchange: ExchangeKey) -> String {
    gateway.reply(process, &request(r#""q""#, "elicitation/create", r#"{"message":"m","requestedSchema":{}}"#));
    let text = gateway.responses.take(exchange).text();
    assert!(text.contains(r#""resultType":"input_required""#), "{text}");
    let state = text.split_once(r#""requestState":""#).expect("a state").1;
    state.split('"').next().expect("a state").to_owned()
}

fn again(state: &str) -> TestRequest {
    let answer = r#""inputResponses":{"1":{"action":"decline"}}"#;
    call("8", &format!(r#"{answer},"requestState":"{state}","#))
}

#[test]
fn br_m_01_stateless_requests_are_served_in_the_revision_of_their_clients() {
    let mut gateway = gateway(Sharing::Shared);
    let process = gateway.last_started();
    // The gateway answers for the process, which it has described without the changes that are not notified.
    let discovered = gateway.answer(&TestRequest::stateless("2", "server/discover", "")).text();
    let described = r#""capabilities":{"tools":{},"resources":{},"logging":{}}"#;
    assert!(discovered.contains(described) && discovered.contains(r#""name":"old""#), "{discovered}");
    assert!(discovered.contains(r#""supportedVersions":["2026-07-28"]"#), "{discovered}");
    let (exchange, id) = asked(&mut gateway, process, &call("7", r#""n":1.0,"#));
    gateway.reply(process, &result(&id, r#"{"n":1e2}"#));
    let answer = gateway.responses.take(exchange).text();
    assert!(answer.contains(r#""n":1e2"#) && answer.contains(r#""resultType":"complete""#), "{answer}");
    let absent = gateway.answer(&TestRequest::stateless("3", "prompts/list", ""));
    assert_eq!((absent.code(), gateway.lines(process).len()), (404, 0));
    let listens = gateway.ask(&TestRequest::stateless(
        "4",
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},"#,
    ));
    let acknowledged = gateway.responses.take(listens).data().concat();
    assert!(acknowledged.contains(r#""notifications":{}"#), "{acknowledged}");
    gateway.reply(process, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert!(gateway.responses.take(listens).data().is_empty() && gateway.lines(process).is_empty());
    assert_eq!(gateway.starts(), 2);
}

#[test]
fn br_m_02_clients_share_a_session_of_a_process_if_they_are_of_one_group() {
    let mut gateway = gateway(Sharing::PerPrincipal);
    let ada = gateway.last_started();
    assert_eq!((gateway.principal(ada), gateway.starts()), (Some("ada"), 2));
    asked(&mut gateway, ada, &call("1", "").by("ada"));
    // What the process of one principal is says nothing about that of another.
    gateway.ask(&call("1", "").by("eve"));
    let eve = found_to_be_legacy(&mut gateway);
    assert_eq!((gateway.principal(eve), gateway.starts()), (Some("eve"), 4));
    gateway.ask(&asking("1", "tools/list", "{}", "", "").by("ada"));
    assert_eq!((gateway.principal(gateway.last_started()), gateway.starts()), (Some("ada"), 5));
}

#[test]
fn br_m_03_a_parked_call_is_continued_only_by_the_client_that_was_sent_its_state() {
    let mut gateway = gateway(Sharing::Shared);
    let process = gateway.last_started();
    let (state, id) = parked(&mut gateway, process, "ada");
    let secret = state.strip_prefix("relay-").and_then(|state| state.split_once('-')).expect("a secret").1;
    assert_eq!(secret.len(), 32, "{state}");
    let key = state.split('-').nth(1).expect("a key");
    for guess in [format!("relay-{key}"), format!("relay-{key}-{}", "0".repeat(32)), format!("{state}0")] {
        let refused = gateway.answer(&again(&guess).by("ada")).text();
        assert!(refused.contains("-32602") && gateway.lines(process).is_empty(), "{guess}: {refused}");
    }
    for other in [again(&state).by("eve"), again(&state)] {
        let refused = gateway.answer(&other).text();
        assert!(refused.contains("-32602") && gateway.lines(process).is_empty(), "the state of another: {refused}");
    }
    let exchange = gateway.ask(&again(&state).by("ada"));
    assert_eq!(gateway.lines(process), [result(r#""q""#, r#"{"action":"decline"}"#)]);
    gateway.reply(process, &result(&id, r#"{"content":[]}"#));
    let answer = gateway.responses.take(exchange).text();
    assert!(answer.contains(r#""id":8"#) && answer.contains(r#""content":[]"#), "{answer}");
    let (other, _) = parked(&mut gateway, process, "eve");
    assert!(!other.ends_with(secret), "each has its own");
}

/// Even if no request of a client has arrived between the questions.
#[test]
fn br_m_03_calls_that_are_parked_at_two_processes_have_different_states() {
    let mut gateway = gateway(Sharing::PerPrincipal);
    let calls = ["ada", "eve"].map(|by| {
        let exchange = gateway.ask(&call("7", "").by(by));
        let process = if by == "ada" { gateway.last_started() } else { found_to_be_legacy(&mut gateway) };
        assert_eq!(gateway.lines(process).len(), 1);
        (process, exchange)
    });
    let states = calls.map(|(process, exchange)| state_of(&mut gateway, process, exchange));
    assert!(states[0] != states[1], "{states:?}");
    for (by, other) in [("ada", &states[1]), ("eve", &states[0])] {
        let refused = gateway.answer(&again(other).by(by)).text();
        assert!(refused.contains("-32602"), "the state of another: {refused}");
    }
    for (by, (process, _), own) in [("ada", calls[0], &states[0]), ("eve", calls[1], &states[1])] {
        gateway.ask(&again(own).by(by));
        assert_eq!(gateway.lines(process), [result(r#""q""#, r#"{"action":"decline"}"#)], "{by}");
    }
}

/// As some servers of older revisions do.
#[test]
fn er_06_a_process_that_exits_on_discovery_is_replaced_by_one_that_begins_with_initialize() {
    for sharing in [Sharing::Shared, Sharing::PerSession] {
        let mut gateway = GatewayHarness::with(|config| config.sharing = sharing);
        let exchange = gateway.ask(&call("1", ""));
        gateway.exit(gateway.last_started());
        if sharing == Sharing::Shared {
            let process = initialized(&mut gateway);
            let line = gateway.lines(process).concat();
            gateway.reply(process, &result(id_of(&line), r#"{"content":[]}"#));
            assert!(gateway.responses.take(exchange).text().contains(r#""content":[]"#));
        } else {
            assert_eq!(gateway.responses.take(exchange).code(), 400);
        }
        // It is no failure of a session.
        gateway.session();
        assert_eq!(gateway.starts(), if sharing == Sharing::Shared { 3 } else { 2 });
    }
}

#[test]
fn a_process_is_kept_for_its_parked_calls() {
    let mut gateway = gateway(Sharing::PerPrincipal);
    let process = gateway.last_started();
    let (state, _) = parked(&mut gateway, process, "ada");
    // The state is of no use to another principal.
    gateway.ask(&again(&state).by("eve"));
    found_to_be_legacy(&mut gateway);
    assert!(gateway.lines(process).is_empty());
    gateway.pass(Duration::from_secs(299));
    assert!(gateway.processes().contains(&(process, false)));
    gateway.pass(Duration::from_secs(1));
    let lines = gateway.lines(process).concat();
    assert!(lines.contains(r#""id":"q","error""#) && lines.contains("notifications/cancelled"), "{lines}");
    gateway.pass(Duration::from_secs(60));
    assert!(gateway.processes().contains(&(process, true)));
    assert!(gateway.is_input_closed(process));
}

#[test]
fn each_request_fails_once_with_its_process_and_a_parked_call_with_it() {
    let mut gateway = gateway(Sharing::Shared);
    let process = gateway.last_started();
    let (state, _) = parked(&mut gateway, process, "ada");
    let (exchange, _) = asked(&mut gateway, process, &call("1", ""));
    gateway.exit(process);
    assert!(gateway.responses.take(exchange).text().contains("-32603"));
    let exchange = gateway.ask(&again(&state).by("ada"));
    initialized(&mut gateway);
    assert!(gateway.responses.take(exchange).text().contains("-32602"), "the new process does not know it");
}

#[test]
fn br_m_08_a_log_message_is_sent_to_the_only_open_request_if_that_wants_it() {
    let mut gateway = gateway(Sharing::Shared);
    let process = gateway.last_started();
    let level = r#","io.modelcontextprotocol/logLevel":"info""#;
    let list = |meta: &str| asking("1", "tools/list", r#"{"elicitation":{}}"#, "", meta);
    let (quiet, id) = asked(&mut gateway, process, &list(""));
    let wanting = gateway.ask(&list(level));
    assert!(gateway.lines(process)[0].contains("logging/setLevel"));
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d"}}"#;
    gateway.reply(process, log);
    assert!(gateway.responses.take(wanting).data().is_empty(), "it can be about the other request");
    gateway.reply(process, &result(&id, "{}"));
    assert!(gateway.responses.take(quiet).is_over);
    gateway.reply(process, log);
    gateway.reply(process, &log.replace("info", "debug"));
    assert_eq!(gateway.responses.take(wanting).data().len(), 1);
}
