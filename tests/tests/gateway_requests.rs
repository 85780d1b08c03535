//! Stateless requests of many clients that one process of a gateway serves.

use std::time::Duration;

use mcp_intermediary::gateway::{BackendKey, Sharing};
use mcp_intermediary::relay::{Filter, Rule};
use mcp_proto::server::ExchangeKey;
use mcp_proto::spec::Primitive;
use mcp_testkit::http_exchange::{META, TestRequest, initialize, modern};
use mcp_testkit::messages::{request, result};
use tests::gateway::{GatewayHarness, id_of};

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;

/// A call with these further members of `_meta`.
fn call(id: &str, tool: &str, meta: &str) -> TestRequest {
    let params = format!(r#"{{"name":"{tool}", "n":1.0,"_meta":{{{META}{meta}}}}}"#);
    TestRequest::post(request(id, "tools/call", &params))
        .repeating_headers("2026-07-28", "tools/call")
        .with("mcp-name", tool)
}

fn listen(id: &str) -> TestRequest {
    let filter = r#""notifications":{"toolsListChanged":true},"#;
    TestRequest::stateless(id, "subscriptions/listen", filter)
}

/// A gateway whose process has stated that it is of 2026-07-28.
fn opened() -> (GatewayHarness, BackendKey) {
    opened_with(GatewayHarness::new())
}

fn opened_with(mut gateway: GatewayHarness) -> (GatewayHarness, BackendKey) {
    let exchange = gateway.ask(&TestRequest::stateless("1", "server/discover", ""));
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    assert_eq!(line, modern("1", "server/discover", ""), "the client's own request");
    gateway.reply(process, &result("1", DISCOVERED));
    assert_eq!(gateway.responses.take(exchange).text(), result("1", DISCOVERED));
    (gateway, process)
}

/// Sends a request; returns its exchange and the id with which the process has received it.
fn asked(gateway: &mut GatewayHarness, process: BackendKey, asked: &TestRequest) -> (ExchangeKey, String) {
    let exchange = gateway.ask(asked);
    let lines = gateway.lines(process);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    (exchange, id_of(line).to_owned())
}

#[test]
fn br_t_04_clients_with_equal_ids_and_tokens_share_a_process() {
    let (mut gateway, process) = opened_with(GatewayHarness::with(|config| config.sharing = Sharing::Shared));
    let token = r#","progressToken":"t""#;
    let calls = ["ada", "eve"].map(|principal| {
        let exchange = gateway.ask(&call(r#""x""#, principal, token).by(principal));
        let line = gateway.lines(process).concat();
        assert!(line.contains(r#", "n":1.0,"_meta":"#) && line.contains(META), "{line}");
        let own = line.split_once(r#""progressToken":"#).expect("a token").1;
        (exchange, id_of(&line).to_owned(), own.split('}').next().expect("a token").to_owned())
    });
    assert_ne!(calls[0].1, calls[1].1);
    for (_, id, own) in calls.iter().rev() {
        let progress = format!(r#"{{"progressToken":{own},"progress":1,"of":{id}}}"#);
        gateway
            .reply(process, &format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{progress}}}"#));
        gateway.reply(process, &result(id, &format!(r#"{{"of":{id}, "n":1e2}}"#)));
    }
    for (exchange, id, _) in calls {
        let sent = gateway.responses.take(exchange).data();
        let progress = format!(r#"{{"progressToken":"t","progress":1,"of":{id}}}"#);
        let progress = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{progress}}}"#);
        assert_eq!(sent, [progress, result(r#""x""#, &format!(r#"{{"of":{id}, "n":1e2}}"#))]);
    }
    assert_eq!(gateway.starts(), 1);
}

#[test]
fn requests_wait_until_the_process_has_stated_its_revision() {
    let mut gateway = GatewayHarness::new();
    let exchanges = ["a", "b"].map(|tool| gateway.ask(&call("7", tool, "")));
    let left = gateway.ask(&call("7", "c", ""));
    gateway.disconnect(left);
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    assert!(line.contains("server/discover") && line.contains(META), "{line}");
    gateway.reply(process, &result(id_of(&line), DISCOVERED));
    let lines = gateway.lines(process);
    assert_eq!((lines.len(), gateway.starts()), (2, 1), "{lines:?}");
    for line in &lines {
        gateway.reply(process, &result(id_of(line), "{}"));
    }
    assert_eq!(exchanges.map(|exchange| gateway.responses.take(exchange).text()), [(); 2].map(|()| result("7", "{}")));
}

#[test]
fn br_t_04_the_end_of_an_exchange_cancels_its_request() {
    let (mut gateway, process) = opened();
    let (exchange, id) = asked(&mut gateway, process, &call("7", "a", ""));
    gateway.disconnect(exchange);
    let lines = gateway.lines(process).concat();
    assert!(lines.contains("notifications/cancelled") && lines.contains(&format!(r#""requestId":{id}"#)), "{lines}");
}

#[test]
fn subscriptions_are_notified_of_the_lists_that_another_filter_changes_as_far_as_the_server_has_acknowledged_them() {
    let (mut gateway, process) = opened();
    let acknowledged = |id: &str, lists: &str| {
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        let params = format!(r#"{{"notifications":{{{lists}}},{meta}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{params}}}"#)
    };
    let lists = [
        Some(r#""toolsListChanged":true"#),
        Some(r#""toolsListChanged":true,"promptsListChanged":true"#),
        Some(r#""toolsListChanged":false,"promptsListChanged":true"#),
        Some(""),
        None,
    ];
    let mut exchanges = Vec::new();
    for (number, lists) in lists.into_iter().enumerate() {
        let (exchange, id) = asked(&mut gateway, process, &listen(&format!(r#""c{number}""#)));
        if let Some(lists) = lists {
            gateway.reply(process, &acknowledged(&id, lists));
            assert_eq!(gateway.responses.take(exchange).data(), [acknowledged(&format!(r#""c{number}""#), lists)]);
        }
        exchanges.push(exchange);
    }
    let mut filter = Filter::new();
    filter.add(Rule::deny(Primitive::Tool, "a").unwrap());
    gateway.gateway.set_filter(filter, gateway.now);
    gateway.settle();
    for (number, exchange) in exchanges.iter().enumerate() {
        let id = format!(r#""c{number}""#);
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        let changed = format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{meta}}}}}"#);
        let expected = if number < 2 { vec![changed] } else { Vec::new() };
        assert_eq!(gateway.responses.take(*exchange).data(), expected, "{number}");
    }
    assert!(gateway.lines(process).is_empty(), "the server is not concerned");
}

#[test]
fn br_t_04_each_client_has_its_own_subscription() {
    let (mut gateway, process) = opened_with(GatewayHarness::with(|config| config.relay.limits.subscriptions = 2));
    let listens = [r#""x""#, r#""x""#].map(|id| asked(&mut gateway, process, &listen(id)));
    let refused = gateway.answer(&listen("3"));
    assert!(refused.text().contains("too many subscriptions") && gateway.lines(process).is_empty());
    let notification = |method: &str, id: &str| {
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{meta}}}}}"#)
    };
    for (_, id) in &listens {
        gateway.reply(process, &notification("subscriptions/acknowledged", id));
    }
    gateway.reply(process, &notification("tools/list_changed", &listens[1].1));
    let acknowledged = notification("subscriptions/acknowledged", r#""x""#);
    let changed = notification("tools/list_changed", r#""x""#);
    let sent = listens.each_ref().map(|(exchange, _)| gateway.responses.take(*exchange).data());
    assert_eq!(sent, [vec![acknowledged.clone()], vec![acknowledged, changed]]);
    // A subscription is no reason to end, and one that ends makes room.
    gateway.pass(Duration::from_secs(3600));
    gateway.disconnect(listens[0].0);
    assert!(gateway.lines(process).concat().contains("notifications/cancelled"));
    let (exchange, _) = asked(&mut gateway, process, &listen("4"));
    gateway.exit(process);
    for exchange in [listens[1].0, exchange] {
        let ended = gateway.responses.take(exchange);
        assert!(ended.is_over && ended.text().contains(r#""error""#), "{}", ended.text());
    }
}

#[test]
fn br_t_05_a_log_message_is_sent_only_if_one_request_can_be_meant() {
    let (mut gateway, process) = opened();
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d"}}"#;
    let level = r#","io.modelcontextprotocol/logLevel":"info""#;
    let quiet = asked(&mut gateway, process, &call("1", "a", ""));
    gateway.reply(process, log);
    let first = asked(&mut gateway, process, &call("2", "a", level));
    gateway.reply(process, log);
    let second = asked(&mut gateway, process, &call("3", "a", level));
    gateway.reply(process, log);
    // Nor is anything else sent that belongs to no request.
    gateway.reply(process, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    gateway.reply(process, r#"{"jsonrpc":"2.0","method":"notifications/custom"}"#);
    let counts = [quiet, first, second].map(|(exchange, _)| gateway.responses.take(exchange).data().len());
    assert_eq!(counts, [0, 1, 0]);
}

/// Clients of both eras open a session then, as at a server of that era alone.
#[test]
fn stateless_requests_are_refused_if_processes_begin_with_initialize() {
    let mut gateway = GatewayHarness::new();
    let exchanges = [(); 2].map(|()| gateway.ask(&call("7", "a", "")));
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    let unknown = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"m"}}}}"#, id_of(&line));
    gateway.reply(process, &unknown);
    gateway.reply_to_initialize(process, "2025-11-25");
    let supported =
        r#""data":{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2026-07-28"}"#;
    for exchange in exchanges {
        let refused = gateway.responses.take(exchange);
        assert!(refused.code() == 400 && refused.text().contains(supported), "{}", refused.text());
        assert!(refused.text().contains(r#""id":7,"error":{"code":-32022"#), "{}", refused.text());
    }
    assert_eq!(gateway.processes(), [(process, true)]);
    // Later ones start no process.
    let refused = gateway.answer(&TestRequest::stateless("8", "server/discover", ""));
    assert!(refused.code() == 400 && refused.text().contains(supported), "{}", refused.text());
    assert_eq!(gateway.starts(), 1);
    gateway.stopped(process);
    gateway.session();
}

#[test]
fn a_process_for_stateless_requests_is_kept_for_a_while_after_the_last() {
    let (mut gateway, process) = opened();
    let (exchange, id) = asked(&mut gateway, process, &call("7", "a", ""));
    gateway.pass(Duration::from_secs(120));
    gateway.reply(process, &result(&id, "{}"));
    gateway.responses.take(exchange);
    gateway.pass(Duration::from_secs(59));
    assert_eq!(gateway.processes(), [(process, false)]);
    let (_, id) = asked(&mut gateway, process, &call("8", "a", ""));
    gateway.reply(process, &result(&id, "{}"));
    gateway.pass(Duration::from_secs(59));
    assert_eq!(gateway.processes(), [(process, false)]);
    gateway.pass(Duration::from_secs(1));
    assert_eq!(gateway.processes(), [(process, true)]);
    gateway.stopped(process);
    assert_eq!(gateway.gateway.load().to_string(), "nothing");
    opened_with(gateway);
}

#[test]
fn each_stateless_request_fails_once_with_the_process_and_the_next_one_starts_another() {
    let (mut gateway, process) = opened();
    let (exchange, _) = asked(&mut gateway, process, &call("7", "a", ""));
    gateway.exit(process);
    let failed = gateway.responses.take(exchange);
    assert!(failed.is_over && failed.text().contains("-32603"), "{}", failed.text());
    let waiting = gateway.ask(&call("8", "a", ""));
    assert_eq!(gateway.starts(), 2);
    // Before it can be used, this one exits at once.
    gateway.exit(gateway.last_started());
    assert!(gateway.responses.take(waiting).text().contains("-32603"));
    let refused = gateway.answer(&call("9", "a", ""));
    assert!(refused.text().contains("failed to start"), "{}", refused.text());
    assert_eq!(gateway.starts(), 2);
}

#[test]
fn sessions_and_stateless_requests_have_different_processes() {
    let (mut gateway, requests) = opened_with(GatewayHarness::with(|config| {
        config.sharing = Sharing::Shared;
        config.relay.limits.backends = 2;
    }));
    let (id, sessions) = gateway.session();
    assert_ne!(requests, sessions);
    let exchange = gateway.ask(&TestRequest::post(request("7", "tools/list", "{}")).in_session(&id));
    assert!(gateway.lines(requests).is_empty());
    let line = gateway.lines(sessions).concat();
    gateway.reply(sessions, &result(id_of(&line), "{}"));
    assert_eq!(gateway.responses.take(exchange).text(), result("7", "{}"));
    gateway.gateway.close(gateway.now);
    gateway.settle();
    assert!(gateway.processes().iter().all(|(_, is_stopping)| *is_stopping));
}

#[test]
fn a_stateless_request_does_not_wait_behind_a_session_that_waits_for_room() {
    let (mut gateway, requests) = opened_with(GatewayHarness::with(|config| config.relay.limits.backends = 2));
    let (id, session) = gateway.session();
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
    let opening = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    assert_eq!(gateway.gateway.load().waiting, 1);
    let (exchange, id) = asked(&mut gateway, requests, &call("7", "a", ""));
    gateway.reply(requests, &result(&id, "{}"));
    assert_eq!(gateway.responses.take(exchange).text(), result("7", "{}"));
    gateway.stopped(session);
    gateway.reply_to_initialize(gateway.last_started(), "2025-11-25");
    assert_eq!(gateway.responses.take(opening).code(), 200);
}

/// One that waits for room and whose client leaves needs no process.
#[test]
fn a_stateless_request_waits_for_the_end_of_a_process_that_is_being_stopped() {
    let mut gateway = GatewayHarness::with(|config| config.relay.limits.backends = 1);
    let (id, process) = gateway.session();
    let refused = gateway.answer(&call("1", "a", ""));
    assert!(refused.text().contains("too many processes"), "{}", refused.text());
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
    let [left, waiting] = ["a", "b"].map(|tool| gateway.ask(&call("2", tool, "")));
    gateway.disconnect(left);
    assert_eq!((gateway.starts(), gateway.gateway.load().waiting), (1, 1));
    gateway.stopped(process);
    assert_eq!((gateway.starts(), gateway.responses.peek(waiting).is_none()), (2, true));
    gateway.gateway.close(gateway.now);
    gateway.settle();
    assert!(gateway.responses.take(waiting).is_over);
    let refused = gateway.answer(&TestRequest::post(initialize("2025-11-25")));
    assert_eq!(refused.code(), 503);
}

/// The gateway starts processes itself, so that no driver replaces one (ER-06).
#[test]
fn a_process_that_exits_at_discovery_is_not_restarted_by_the_driver() {
    for respawn in [false, true] {
        let mut gateway = GatewayHarness::with(|config| config.relay.respawn = respawn);
        let exchange = gateway.ask(&TestRequest::stateless("1", "server/discover", ""));
        gateway.exit(gateway.last_started());
        assert!(gateway.responses.take(exchange).text().contains("-32022"), "{respawn}");
        assert_eq!((gateway.starts(), gateway.processes().len()), (1, 0), "{respawn}");
        gateway.session();
    }
}
