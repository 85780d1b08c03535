//! A relay between a client and a server of any two eras (RULES section 13).

use std::time::Duration;

use mcp_intermediary::relay::Event;
use mcp_proto::client::NotRestored;
use mcp_proto::{Era, Failed, Json, Method, ProtocolVersion};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, initialize_reply};
use mcp_testkit::messages::{INITIALIZED, error, event, initialize, progress_notification, request, result};
use tests::relay_pair::RelayPair;

type Relay = HttpClientHarness<mcp_intermediary::Relay>;

const FORM: &str = r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

/// The `_meta` of a modern client with these capabilities; `more` is further members.
fn meta(capabilities: &str, more: &str) -> String {
    format!(
        r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities},"io.modelcontextprotocol/clientInfo":{{"name":"editor","version":"1.0"}}{more}}}"#
    )
}

/// Parameters of a modern client's request: these members and the client's `_meta`.
fn modern(members: &str) -> String {
    modern_with(members, r#"{"elicitation":{},"sampling":{},"roots":{}}"#, "")
}

fn modern_with(members: &str, capabilities: &str, more: &str) -> String {
    format!(r#"{{{members}"_meta":{}}}"#, meta(capabilities, more))
}

fn discovered(capabilities: &str) -> String {
    format!(
        r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities},"instructions":"Do!","ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"new","version":"2"}}}}}}"#
    )
}

/// The answer of a server that supports no revision but 2026-07-28.
fn only_modern(opened: &Opened) -> Reply {
    let data = r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#;
    let error = format!(r#"{{"code":-32022,"message":"no","data":{data}}}"#);
    Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, opened.id())).with_status(400)
}

fn initialized(opened: &Opened, capabilities: &str) -> Reply {
    let result_text = format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"old","version":"1"}},"instructions":"Do!"}}"#
    );
    Reply::json(result(&opened.id(), &result_text)).header("mcp-session-id", "session-1")
}

/// The single line that the client has received.
fn line(harness: &mut Relay) -> String {
    let mut lines = harness.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

fn member(line: &str, path: &[&str]) -> Option<String> {
    let mut value = json(line);
    for name in path {
        value = value.member(name).expect("unique")?;
    }
    Some(value.to_text().into_owned())
}

// ---- the same era

/// A relay between a modern client and a modern server.
fn modern_pair() -> Relay {
    let mut harness = HttpClientHarness::relay();
    harness.line(&request("\"d\"", "server/discover", &modern("")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered(r#"{"tools":{}}"#))));
    assert_eq!(harness.lines(), [result("\"d\"", &discovered(r#"{"tools":{}}"#))]);
    harness.events();
    harness
}

#[test]
fn br_t_09_a_modern_pair_is_joined_with_the_opening_request_of_the_client() {
    let mut harness = HttpClientHarness::relay();
    let params = modern("");
    harness.line(&request("\"d\"", "server/discover", &params));
    let opened = harness.opened();
    assert_eq!(opened.body(), request("1", "server/discover", &params));
    assert_eq!(opened.header("mcp-protocol-version"), "2026-07-28");
    let answer = discovered(r#"{ "tools" : {} }"#);
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &answer)));
    assert_eq!(harness.lines(), [result("\"d\"", &answer)]);
    // The relay makes no round trip of its own and forwards each request unchanged.
    let params = modern_with(r#""name":"t","arguments":{"x": 1.0},"#, "{}", r#","progressToken":"p""#);
    harness.line(&request("7", "tools/call", &params));
    let opened = harness.opened();
    assert_eq!(opened.body(), request("2", "tools/call", &params));
    assert_eq!((opened.header("mcp-method"), opened.header("mcp-name")), ("tools/call", "t"));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
    let answer = r#"{"resultType":"complete", "content":[]}"#;
    harness.reply(opened.key, &Reply::events(event(progress) + &event(&result("2", answer))));
    assert_eq!(harness.lines(), [progress.to_owned(), result("7", answer)]);
    assert!(!harness.has_opened());
}

#[test]
fn br_t_09_in_a_modern_pair_input_and_errors_are_the_clients_own_business() {
    let mut harness = modern_pair();
    let required = format!(
        r#"{{"resultType":"input_required","inputRequests":{{"a":{{"method":"elicitation/create","params":{FORM}}}}},"requestState":"s"}}"#
    );
    for (answer, status) in [
        (result("ID", &required), 200),
        (r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"m","data":{"supported":[]}}}"#.to_owned(), 400),
        (error("ID", -32021, "m"), 400),
        (error("ID", -32602, "m"), 400),
        (error("ID", -32601, "m"), 404),
    ] {
        harness.line(&request("\"x\"", "tools/call", &modern(r#""name":"t","#)));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::json(answer.replace("ID", &opened.id())).with_status(status));
        assert_eq!(harness.lines(), [answer.replace("ID", "\"x\"")]);
    }
    assert!(!harness.has_opened());
}

#[test]
fn br_t_04_a_subscription_is_known_to_each_side_by_its_own_id() {
    let mut harness = modern_pair();
    let listen = modern(r#""notifications":{"toolsListChanged":true},"#);
    harness.line(&request("\"sub\"", "subscriptions/listen", &listen));
    let opened = harness.opened();
    assert_eq!(opened.param("notifications"), r#"{"toolsListChanged":true}"#);
    let change = |method: &str, id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"x":1.0}}}}"#
        )
    };
    harness.begin(opened.key, &Reply::events(""));
    for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
        harness.send(opened.key, event(&change(method, &opened.id())).as_bytes());
        assert_eq!(harness.lines(), [change(method, "\"sub\"")]);
    }
    // A subscription has no deadline as long as comments keep its stream alive (MD-L-13).
    for _ in 0..48 * 60 {
        harness.pass(Duration::from_secs(30));
        harness.send(opened.key, b":\n\n");
    }
    assert!(harness.lines().is_empty());
    harness.send(opened.key, event(&change("notifications/tools/list_changed", &opened.id())).as_bytes());
    assert_eq!(harness.lines(), [change("notifications/tools/list_changed", "\"sub\"")]);
    let end = |id: &str| {
        result(id, &format!(r#"{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#))
    };
    harness.send(opened.key, event(&end(&opened.id())).as_bytes());
    assert_eq!(harness.lines(), [end("\"sub\"")]);
}

#[test]
fn px2_ids_tokens_and_subscriptions_of_two_clients_are_distinguished() {
    // Each client has its own relay, and each relay its own ids, so equal ids of two clients are never confused.
    let mut worlds = [modern_pair(), modern_pair()];
    let call = modern_with(r#""name":"t","#, "{}", r#","progressToken":1"#);
    let listen = modern(r#""notifications":{},"#);
    let opened: Vec<_> = worlds
        .iter_mut()
        .map(|harness| {
            harness.line(&request("1", "tools/call", &call));
            harness.line(&request("\"1\"", "subscriptions/listen", &listen));
            (harness.opened(), harness.opened())
        })
        .collect();
    for (number, (harness, (call, listen))) in worlds.iter_mut().zip(&opened).enumerate() {
        let own = format!(r#"{{"resultType":"complete","of":{number}}}"#);
        harness.reply(call.key, &Reply::json(result(&call.id(), &own)));
        assert_eq!(harness.lines(), [result("1", &own)]);
        harness.reply(listen.key, &Reply::events(change("notifications/tools/list_changed", "", &listen.id())));
        let lines = harness.lines();
        assert!(lines[0].contains(r#"subscriptionId":"1""#), "{lines:?}");
    }
}

#[test]
fn br_t_02_a_client_that_cancels_or_disconnects_closes_the_exchange() {
    let mut harness = modern_pair();
    harness.line(&request("1", "tools/call", &modern(r#""name":"t","#)));
    harness.line(&request("2", "subscriptions/listen", &modern(r#""notifications":{},"#)));
    let (call, listen) = (harness.opened(), harness.opened());
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert!(harness.is_aborted(call.key) && harness.lines().is_empty());
    harness.machine.handle_eof(harness.now);
    assert!(harness.is_aborted(listen.key));
    assert!(line(&mut harness).contains(r#""id":2,"result":{"#));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Closed(_))));
}

#[test]
fn for_a_modern_client_that_does_not_discover_the_relay_does() {
    let mut harness = HttpClientHarness::relay();
    let params = modern_with("", "{}", r#","progressToken":1"#);
    harness.line(&request("1", "tools/list", &params));
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.param("_meta")), ("server/discover", meta("{}", "")));
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered("{}"))));
    let opened = harness.opened();
    assert_eq!(opened.body(), request("2", "tools/list", &params));
}

#[test]
fn md_v_01_an_unknown_revision_is_refused_with_the_supported_ones() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&request("1", "server/discover", &modern("").replace("2026-07-28", "2099-01-01")));
    let refused = line(&mut harness);
    assert_eq!(member(&refused, &["error", "code"]).as_deref(), Some("-32022"));
    assert!(refused.contains(r#""supported":["2026-07-28""#) && !harness.has_opened(), "{refused}");
}

#[test]
fn er_26_a_failure_that_does_not_determine_the_era_is_reported_and_tried_again() {
    let mut harness = HttpClientHarness::relay();
    for status in [401, 403, 429, 500, 503] {
        harness.line(&request("1", "server/discover", &modern("")));
        let opened = harness.opened();
        assert_eq!(opened.method(), "server/discover");
        harness.reply(opened.key, &Reply::status(status));
        let reply = line(&mut harness);
        assert_eq!(member(&reply, &["error", "data", "status"]), Some(status.to_string()), "{reply}");
        assert!(!harness.has_opened());
    }
}

// ---- a legacy client and a modern server

#[test]
fn an_initialize_behind_a_failed_discovery_reaches_the_server() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&request("1", "tools/list", &modern("")));
    let opened = harness.opened();
    assert_eq!(opened.method(), "server/discover");
    harness.reply(opened.key, &Reply::status(302).header("location", "/elsewhere"));
    assert!(line(&mut harness).contains(r#""failure":"redirected""#));
    harness.line(&initialize("2", "2025-11-25"));
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    harness.reply(opened.key, &initialized(&opened, "{}"));
    assert!(line(&mut harness).starts_with(r#"{"jsonrpc":"2.0","id":2,"result":"#));
}

/// A legacy client of this revision, connected to a modern server with these capabilities, after its handshake.
fn legacy_client(version: &str, client: &str, server: &str) -> Relay {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("\"i\"", version).replace(r#"{"roots":{}}"#, client));
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    harness.reply(opened.key, &only_modern(&opened));
    let opened = harness.opened();
    assert_eq!(opened.method(), "server/discover");
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered(server))));
    let reply = line(&mut harness);
    assert_eq!(member(&reply, &["result", "protocolVersion"]), Some(format!("\"{version}\"")), "{reply}");
    harness.line(INITIALIZED);
    assert!(harness.lines().is_empty());
    harness
}

#[test]
fn br_l_01_the_relay_is_a_legacy_server_for_a_modern_one() {
    let server = r#"{"tools":{"listChanged":false},"extensions":{"x/y":{}}}"#;
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("\"i\"", "2025-06-18"));
    let opened = harness.opened();
    harness.reply(opened.key, &only_modern(&opened));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered(server))));
    let reply = line(&mut harness);
    assert_eq!(member(&reply, &["id"]).as_deref(), Some("\"i\""));
    for (name, value) in [
        ("protocolVersion", "\"2025-06-18\""),
        ("capabilities", r#"{"tools":{"listChanged":false}}"#),
        ("serverInfo", r#"{"name":"new","version":"2"}"#),
        ("instructions", "\"Do!\""),
    ] {
        assert_eq!(member(&reply, &["result", name]).as_deref(), Some(value), "{reply}");
    }
    let bridging = Event::Bridging { client: Era::Legacy, server: Era::Modern };
    assert!(harness.events().contains(&bridging));
    // The relay answers a ping itself, and does not forward the confirmation of the handshake (BR-L-03).
    harness.line(INITIALIZED);
    harness.line(&request("2", "ping", "{}"));
    assert_eq!(harness.lines(), [result("2", "{}")]);
    assert!(!harness.has_opened());
}

#[test]
fn er_42_a_server_that_refuses_without_naming_its_revisions_is_probed() {
    for refusals in [
        // The relay tries the two-endpoint transport in between.
        vec![Reply::html(404), Reply::status(405)],
        vec![Reply::status(400), Reply::status(404)],
        vec![Reply::json(error("1", -32602, "no _meta")).with_status(400)],
        vec![Reply::json(error("1", -32601, "no such method")).with_status(404)],
    ] {
        let mut harness = HttpClientHarness::relay();
        harness.line(&initialize("1", "2025-11-25"));
        for refusal in &refusals {
            let opened = harness.opened();
            harness.reply(opened.key, refusal);
        }
        let opened = harness.opened();
        assert_eq!(opened.method(), "server/discover", "{refusals:?}");
        harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered("{}"))));
        assert!(line(&mut harness).contains("\"serverInfo\""));
    }
}

#[test]
fn br_l_02_what_the_client_is_and_can_do_goes_with_each_of_its_requests() {
    let client = r#"{"roots":{"listChanged":true},"elicitation":{},"tasks":{}}"#;
    let mut harness = legacy_client("2025-06-18", client, r#"{"tools":{},"logging":{}}"#);
    harness.line(&request("1", "tools/call", r#"{"name":"t","arguments":{"n":1.0},"_meta":{"progressToken":5}}"#));
    let opened = harness.opened();
    assert_eq!((opened.header("mcp-method"), opened.header("mcp-name")), ("tools/call", "t"));
    assert_eq!(opened.header("mcp-session-id"), "");
    assert_eq!(opened.param("arguments"), r#"{"n":1.0}"#);
    let meta = opened.param("_meta");
    for (name, value) in [
        ("io.modelcontextprotocol/protocolVersion", "\"2026-07-28\""),
        ("io.modelcontextprotocol/clientCapabilities", r#"{"roots":{},"elicitation":{}}"#),
        ("io.modelcontextprotocol/clientInfo", r#"{"name":"editor","version":"1.0"}"#),
        ("progressToken", "5"),
    ] {
        assert_eq!(member(&meta, &[name]).as_deref(), Some(value), "{meta}");
    }
    assert_eq!(member(&meta, &["io.modelcontextprotocol/logLevel"]), None);
    // The relay itself stores the log level (BR-L-03).
    harness.line(&request("2", "logging/setLevel", r#"{"level":"warning"}"#));
    assert_eq!(harness.lines(), [result("2", "{}")]);
    harness.line(&request("3", "tools/list", "{}"));
    assert_eq!(
        member(&harness.opened().param("_meta"), &["io.modelcontextprotocol/logLevel"]).as_deref(),
        Some("\"warning\"")
    );
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    assert!(!harness.has_opened());
}

#[test]
fn br_l_08_br_l_09_answers_have_the_legacy_form_for_a_legacy_client() {
    let mut harness = legacy_client("2025-11-25", "{}", r#"{"tools":{},"resources":{}}"#);
    for (method, params, answer, expected) in [
        (
            "tools/call",
            r#"{"name":"t"}"#,
            result(
                "ID",
                r#"{"resultType":"complete","content":[{"type":"text","text":"\u00e9"}],"structuredContent":7}"#,
            ),
            result("1", r#"{"content":[{"type":"text","text":"\u00e9"}]}"#),
        ),
        (
            "resources/read",
            r#"{"uri":"a:b"}"#,
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"m","data":{"uri":"a:b"}}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m","data":{"uri":"a:b"}}}"#.to_owned(),
        ),
        ("tools/call", r#"{"name":"t"}"#, error("ID", -32021, "m"), error("1", -32600, "m")),
        ("tools/call", r#"{"name":"t"}"#, error("ID", 7, "m"), error("1", 7, "m")),
    ] {
        harness.line(&request("1", method, params));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::json(answer.replace("ID", &opened.id())));
        assert_eq!(harness.lines(), [expected]);
    }
}

fn input_required(opened: &Opened, key: &str, method: &str, params: &str) -> Reply {
    let required = format!(
        r#"{{"resultType":"input_required","inputRequests":{{"{key}":{{"method":"{method}","params":{params}}}}},"requestState":"state of {key}"}}"#
    );
    Reply::json(result(&opened.id(), &required))
}

#[test]
fn br_l_05_input_that_a_call_requires_is_requested_from_a_legacy_client() {
    let client = r#"{"elicitation":{"form":{},"url":{}}}"#;
    let mut harness = legacy_client("2025-11-25", client, r#"{"tools":{}}"#);
    let call = r#"{"name":"t","_meta":{"progressToken":"p"}}"#;
    harness.line(&request("1", "tools/call", call));
    let opened = harness.opened();
    let progress = |value: &str| progress_notification("\"p\"", value);
    let required = format!(
        r#"{{"resultType":"input_required","inputRequests":{{"who":{{"method":"elicitation/create","params":{FORM}}}}},"requestState":"s"}}"#
    );
    harness.reply(opened.key, &Reply::events(event(&progress("0.5")) + &event(&result(&opened.id(), &required))));
    let lines = harness.lines();
    assert_eq!(lines[0], progress("0.5"));
    assert_eq!(member(&lines[1], &["params"]).as_deref(), Some(FORM));
    assert_eq!(member(&lines[1], &["method"]).as_deref(), Some("\"elicitation/create\""));
    let id = member(&lines[1], &["id"]).expect("a request");
    harness.line(&result(&id, r#"{"action":"accept","content":{"n":1.0}}"#));
    let again = harness.opened();
    assert_ne!(again.id(), opened.id());
    assert_eq!(again.param("inputResponses"), r#"{"who":{"action":"accept","content":{"n":1.0}}}"#);
    assert_eq!(again.param("requestState"), "\"s\"");
    // The server restarts its progress, so lower values are not forwarded (BR-L-12).
    let events = event(&progress("0.25")) + &event(&progress("0.75"));
    harness.begin(again.key, &Reply::events(events));
    assert_eq!(harness.lines(), [progress("0.75")]);
    // The relay creates the ids of URL elicitations (BR-L-07).
    let url = r#"{"mode":"url","url":"https://example.com","message":"m"}"#;
    let visit = format!(r#"{{"method":"elicitation/create","params":{url}}}"#);
    let required =
        format!(r#"{{"resultType":"input_required","inputRequests":{{"u":{visit},"v":{visit}}},"requestState":"t"}}"#);
    harness.send(again.key, event(&result(&again.id(), &required)).as_bytes());
    let asked = harness.lines();
    let [one, other] = [0, 1].map(|at| member(&asked[at], &["params", "elicitationId"]).expect("an id"));
    assert_ne!(one, other);
    // A failed elicitation counts as cancelled by the user (BR-L-06).
    for asked in asked {
        harness.line(&error(&member(&asked, &["id"]).expect("a request"), -32603, "no window"));
    }
    let again = harness.opened();
    assert_eq!(again.param("inputResponses"), r#"{"u":{"action":"cancel"},"v":{"action":"cancel"}}"#);
    harness.reply(again.key, &Reply::json(result(&again.id(), r#"{"resultType":"complete","content":[]}"#)));
    assert_eq!(harness.lines(), [result("1", r#"{"content":[]}"#)]);
}

#[test]
fn br_l_06_a_call_whose_client_provides_no_input_fails_and_is_not_repeated() {
    let mut harness = legacy_client("2025-11-25", r#"{"sampling":{}}"#, r#"{"tools":{},"prompts":{}}"#);
    for (method, expected) in [("tools/call", r#""isError":true"#), ("prompts/get", r#""error":{"code":-32603"#)] {
        harness.line(&request("1", method, r#"{"name":"t"}"#));
        let opened = harness.opened();
        let params = r#"{"messages":[],"maxTokens":5}"#;
        harness.reply(opened.key, &input_required(&opened, "s", "sampling/createMessage", params));
        let asked = line(&mut harness);
        harness.line(&error(&member(&asked, &["id"]).expect("a request"), -1, "refused by the user"));
        let reply = line(&mut harness);
        assert!(reply.contains(expected) && reply.contains(r#""id":1,"#), "{reply}");
        assert!(!harness.has_opened());
    }
    // The client is not asked for input that it has not declared (MD-I-04).
    harness.line(&request("1", "tools/call", r#"{"name":"t"}"#));
    let opened = harness.opened();
    harness.reply(opened.key, &input_required(&opened, "e", "elicitation/create", FORM));
    assert!(line(&mut harness).contains(r#""isError":true"#));
}

#[test]
fn br_l_11_a_cancelled_call_is_closed_together_with_its_requests_for_input() {
    let mut harness = legacy_client("2025-11-25", r#"{"elicitation":{}}"#, r#"{"tools":{}}"#);
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    harness.line(&request("1", "tools/call", r#"{"name":"t"}"#));
    let opened = harness.opened();
    harness.line(cancelled);
    assert!(harness.is_aborted(opened.key) && harness.lines().is_empty());
    harness.line(&request("1", "tools/call", r#"{"name":"t"}"#));
    let opened = harness.opened();
    harness.reply(opened.key, &input_required(&opened, "e", "elicitation/create", FORM));
    let asked = line(&mut harness);
    harness.line(cancelled);
    let notification = line(&mut harness);
    assert_eq!(member(&notification, &["method"]).as_deref(), Some("\"notifications/cancelled\""));
    assert_eq!(member(&notification, &["params", "requestId"]), member(&asked, &["id"]));
    harness.line(&result(&member(&asked, &["id"]).expect("a request"), r#"{"action":"accept"}"#));
    assert!(!harness.has_opened());
}

/// A notification of the server that belongs to a subscription.
fn change(method: &str, members: &str, id: &str) -> String {
    event(&format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{members}"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
    ))
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

#[test]
fn br_l_04_one_subscription_carries_what_the_client_has_subscribed_to() {
    let server = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true}}"#;
    let mut harness = legacy_client("2025-11-25", "{}", server);
    let first = harness.opened();
    assert_eq!(first.method(), "subscriptions/listen");
    assert_eq!(first.param("notifications"), r#"{"toolsListChanged":true}"#);
    let filter = r#""notifications":{"toolsListChanged":true},"#;
    harness.begin(first.key, &Reply::events(change(ACKNOWLEDGED, filter, &first.id())));
    harness.send(first.key, change("notifications/tools/list_changed", "", &first.id()).as_bytes());
    assert_eq!(harness.lines(), [r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#]);

    // A filter cannot be changed: another subscription replaces the first, which ends when the new one is acknowledged.
    harness.line(&request("5", "resources/subscribe", r#"{"uri":"a:b"}"#));
    let second = harness.opened();
    assert_eq!(second.param("notifications"), r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#);
    assert!(!harness.is_aborted(first.key) && harness.lines().is_empty());
    let filter = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},"#;
    harness.begin(second.key, &Reply::events(change(ACKNOWLEDGED, filter, &second.id())));
    assert_eq!(harness.lines(), [result("5", "{}")]);
    assert!(harness.is_aborted(first.key));
    harness.send(second.key, change("notifications/resources/updated", r#""uri":"a:b","#, &second.id()).as_bytes());
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#;
    assert_eq!(harness.lines(), [updated]);

    // The changes during a gap are unknown, so the relay reports everything as changed.
    harness.end(second.key);
    harness.pass(Duration::from_secs(60));
    let third = harness.opened();
    harness.begin(third.key, &Reply::events(change(ACKNOWLEDGED, filter, &third.id())));
    let lines = harness.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("tools/list_changed") && lines[1] == updated, "{lines:?}");

    harness.line(&request("6", "resources/unsubscribe", r#"{"uri":"a:b"}"#));
    assert_eq!(harness.lines(), [result("6", "{}")]);
    assert_eq!(harness.opened().param("notifications"), r#"{"toolsListChanged":true}"#);
}

#[test]
fn br_l_04_a_subscription_that_the_server_ends_is_opened_again_with_the_next_request() {
    let mut harness = legacy_client("2025-11-25", "{}", r#"{"tools":{"listChanged":true}}"#);
    let acknowledge = |harness: &mut Relay, opened: &Opened| {
        assert_eq!(opened.param("notifications"), r#"{"toolsListChanged":true}"#);
        let acknowledged = change(ACKNOWLEDGED, r#""notifications":{"toolsListChanged":true},"#, &opened.id());
        harness.begin(opened.key, &Reply::events(acknowledged));
    };
    let first = harness.opened();
    acknowledge(&mut harness, &first);
    harness.events();
    harness.send(first.key, event(&result(&first.id(), r#"{"resultType":"complete"}"#)).as_bytes());
    let not_in_effect = |event: &Event| {
        let reason = NotRestored::Failed(Failed::EndedByServer);
        *event == Event::NotInEffect { method: Method::SUBSCRIPTIONS_LISTEN, reason }
    };
    assert!(harness.events().iter().any(not_in_effect));
    harness.pass(Duration::from_secs(60));
    assert!(!harness.has_opened());

    harness.line(&request("5", "tools/list", "{}"));
    let (second, call) = (harness.opened(), harness.opened());
    assert_eq!(call.method(), "tools/list");
    acknowledge(&mut harness, &second);
    assert!(line(&mut harness).contains("tools/list_changed"), "changes may have been missed");

    // A server that refuses the subscription is not asked again.
    harness.send(second.key, event(&result(&second.id(), r#"{"resultType":"complete"}"#)).as_bytes());
    harness.line(&request("6", "tools/list", "{}"));
    let (third, _) = (harness.opened(), harness.opened());
    harness.reply(third.key, &Reply::json(error(&third.id(), -32601, "no such method")).with_status(404));
    harness.line(&request("7", "tools/list", "{}"));
    assert_eq!(harness.opened().method(), "tools/list");
}

#[test]
fn br_l_04_a_subscription_that_the_server_does_not_honour_is_refused() {
    let mut harness = legacy_client("2025-11-25", "{}", r#"{"resources":{"subscribe":true}}"#);
    harness.line(&request("5", "resources/subscribe", r#"{"uri":"a:b"}"#));
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(change(ACKNOWLEDGED, r#""notifications":{},"#, &opened.id())));
    assert_eq!(member(&line(&mut harness), &["error", "code"]).as_deref(), Some("-32602"));
    harness.line(&request("6", "resources/subscribe", r#"{"uri":"c:d"}"#));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(error(&opened.id(), -32601, "no such method")).with_status(404));
    assert_eq!(member(&line(&mut harness), &["error", "code"]).as_deref(), Some("-32601"));
}

fn cancelled(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

#[test]
fn br_l_04_a_subscription_that_is_given_up_before_its_acknowledgement_is_not_made() {
    let subscribe = |id, uri| request(id, "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#));
    let unsubscribe = |id, uri| request(id, "resources/unsubscribe", &format!(r#"{{"uri":"{uri}"}}"#));
    let acknowledge = |harness: &mut Relay, opened: &Opened| {
        let filter = format!(r#""notifications":{},"#, opened.param("notifications"));
        harness.begin(opened.key, &Reply::events(change(ACKNOWLEDGED, &filter, &opened.id())));
    };
    for is_cancelled in [true, false] {
        let give_up = |id| if is_cancelled { cancelled(id) } else { unsubscribe("9", "a:b") };
        let answers = |harness: &mut Relay, answered: &[&str]| {
            let also: &[&str] = if is_cancelled { &[] } else { answered };
            assert_eq!(harness.lines(), also.iter().map(|id| result(id, "{}")).collect::<Vec<_>>());
        };
        // Alone.
        let mut harness = legacy_client("2025-11-25", "{}", r#"{"resources":{"subscribe":true}}"#);
        harness.line(&subscribe("5", "a:b"));
        let first = harness.opened();
        harness.line(&give_up("5"));
        assert!(harness.is_aborted(first.key) && !harness.has_opened(), "cancelled: {is_cancelled}");
        answers(&mut harness, &["5", "9"]);
        // With another one, which is made.
        harness.line(&subscribe("6", "a:b"));
        harness.line(&subscribe("7", "c:d"));
        harness.line(&give_up("6"));
        answers(&mut harness, &["6", "9"]);
        let opened = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).last().unwrap();
        assert_eq!(opened.param("notifications"), r#"{"resourceSubscriptions":["c:d"]}"#);
        acknowledge(&mut harness, &opened);
        assert_eq!(harness.lines(), [result("7", "{}")]);
    }
    // What the client has subscribed to before, or with another request, stays.
    let mut harness = legacy_client("2025-11-25", "{}", r#"{"resources":{"subscribe":true}}"#);
    harness.line(&subscribe("5", "a:b"));
    harness.line(&subscribe("6", "a:b"));
    harness.line(&cancelled("5"));
    let opened = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).last().unwrap();
    acknowledge(&mut harness, &opened);
    assert_eq!(harness.lines(), [result("6", "{}")]);
    harness.line(&subscribe("7", "a:b"));
    harness.line(&cancelled("7"));
    harness.line(&subscribe("8", "c:d"));
    let opened = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).last().unwrap();
    assert_eq!(opened.param("notifications"), r#"{"resourceSubscriptions":["a:b","c:d"]}"#);
}

#[test]
fn md_l_14_what_a_client_subscribes_to_is_bounded() {
    let mut harness = legacy_client("2025-11-25", "{}", r#"{"resources":{"subscribe":true}}"#);
    for number in 0..513 {
        harness.line(&request("5", "resources/subscribe", &format!(r#"{{"uri":"a:{number}"}}"#)));
    }
    // Each subscription replaced the one before, which was not acknowledged yet.
    let reply = line(&mut harness);
    let message = member(&reply, &["error", "message"]);
    assert!(message.is_some_and(|message| message.starts_with("\"too many subscriptions at one time")));
    let mut last = harness.opened();
    while harness.has_opened() {
        last = harness.opened();
    }
    let filter = Json::parse(last.param("notifications")).expect("JSON");
    assert_eq!(filter.member("resourceSubscriptions").unwrap().unwrap().elements().count(), 512);
}

// ---- a modern client and a legacy server

const CAPABLE: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{}}"#;

/// A modern client, connected to a legacy server that keeps its GET stream open.
fn modern_client() -> (Relay, Opened) {
    modern_client_of(HttpClientHarness::relay())
}

/// The same, with room for four open messages of a megabyte.
fn modern_client_with_little_room() -> (Relay, Opened) {
    modern_client_of(HttpClientHarness::relay_with(|config, _| config.limits.held = 4 << 20))
}

fn modern_client_of(mut harness: Relay) -> (Relay, Opened) {
    harness.line(&request("\"d\"", "server/discover", &modern("")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(error(&opened.id(), -32000, "no session")).with_status(400));
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    harness.reply(opened.key, &initialized(&opened, CAPABLE));
    let opened = harness.opened();
    assert_eq!(opened.body(), INITIALIZED);
    harness.reply(opened.key, &Reply::status(202));
    let stream = harness.opened();
    assert_eq!(stream.line(), "GET /mcp");
    harness.begin(stream.key, &Reply::events(""));
    let reply = line(&mut harness);
    assert!(reply.contains("supportedVersions"), "{reply}");
    harness.events();
    (harness, stream)
}

#[test]
fn br_m_01_the_relay_is_a_modern_server_for_a_legacy_one() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&request("\"d\"", "server/discover", &modern("")));
    harness.line(&request("2", "tools/list", &modern("")));
    let opened = harness.opened();
    assert!(!harness.has_opened(), "what is asked waits until it is known of whom");
    harness.reply(opened.key, &Reply::status(404));
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.param("protocolVersion")), ("initialize", "\"2025-11-25\"".into()));
    assert_eq!(opened.param("capabilities"), r#"{"elicitation":{},"sampling":{},"roots":{}}"#);
    assert_eq!(opened.param("clientInfo"), r#"{"name":"editor","version":"1.0"}"#);
    harness.reply(opened.key, &initialized(&opened, CAPABLE));
    let reply = line(&mut harness);
    for (name, value) in [
        ("supportedVersions", r#"["2026-07-28"]"#),
        ("capabilities", r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#),
        ("instructions", "\"Do!\""),
        ("resultType", "\"complete\""),
        ("ttlMs", "0"),
        ("cacheScope", "\"private\""),
        ("_meta", r#"{"io.modelcontextprotocol/serverInfo":{"name":"old","version":"1"}}"#),
    ] {
        assert_eq!(member(&reply, &["result", name]).as_deref(), Some(value), "{reply}");
    }
    assert!(harness.events().contains(&Event::Bridging { client: Era::Modern, server: Era::Legacy }));
    let opened = harness.opened();
    assert_eq!(opened.body(), INITIALIZED);
    harness.reply(opened.key, &Reply::status(202));
    let mut opened = harness.opened();
    if opened.line() == "GET /mcp" {
        harness.reply(opened.key, &Reply::status(405));
        opened = harness.opened();
    }
    assert_eq!((opened.method().as_str(), opened.header("mcp-session-id")), ("tools/list", "session-1"));
    assert_eq!(opened.body(), request(&opened.id(), "tools/list", "{}"));
    let tools = r#"{"tools":[{"name":"a","execution":{"taskSupport":"required"},"inputSchema":{"x":1.0}}]}"#;
    harness.reply(opened.key, &Reply::json(result(&opened.id(), tools)));
    let reply = line(&mut harness);
    assert_eq!(member(&reply, &["result", "tools"]).as_deref(), Some(r#"[{"name":"a","inputSchema":{"x":1.0}}]"#));
    assert_eq!(member(&reply, &["result", "ttlMs"]).as_deref(), Some("0"));
    // The relay itself checks the admission of requests (RULES 8.4).
    for (method, params, code) in [
        ("tools/list", "{}".to_owned(), "-32602"),
        ("ping", modern(""), "-32601"),
        ("resources/subscribe", modern(r#""uri":"a:b","#), "-32601"),
        ("prompts/list", modern(""), "-32601"),
        ("tools/list", modern("").replace("2026-07-28", "2027-01-01"), "-32022"),
        ("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#.to_owned(), "-32022"),
    ] {
        harness.line(&request("3", method, &params));
        assert_eq!(member(&line(&mut harness), &["error", "code"]).as_deref(), Some(code), "{method}");
    }
    assert!(!harness.has_opened());
}

/// A request that the server sends during a call.
fn question(id: &str, method: &str, params: &str) -> String {
    event(&request(id, method, params))
}

#[test]
fn br_m_03_a_call_whose_server_requires_input_is_parked_until_the_client_repeats_it() {
    let (mut harness, _stream) = modern_client();
    let call = |more: &str, token: &str| {
        modern_with(
            &format!(r#""name":"t","arguments":{{}},{more}"#),
            r#"{"elicitation":{}}"#,
            &format!(r#","progressToken":{token}"#),
        )
    };
    harness.line(&request("1", "tools/call", &call("", "1")));
    let opened = harness.opened();
    assert_eq!(opened.param("_meta"), r#"{"progressToken":1}"#);
    let asked = format!(r#"{{"mode":"form","elicitationId":"x",{}"#, &FORM[1..]);
    harness.begin(opened.key, &Reply::events(question("\"q\"", "elicitation/create", &asked)));
    let reply = line(&mut harness);
    assert_eq!(member(&reply, &["id"]).as_deref(), Some("1"));
    assert_eq!(member(&reply, &["result", "resultType"]).as_deref(), Some("\"input_required\""));
    let state = member(&reply, &["result", "requestState"]).expect("a state");
    let question_of = |reply: &str| member(reply, &["result", "inputRequests", "1", "params"]);
    assert_eq!(question_of(&reply), Some(format!(r#"{{"mode":"form",{}"#, &FORM[1..])));

    // Without an answer, the relay returns the question again; a state is invalid for another tool, or if it is
    // unknown.
    harness.line(&request("2", "tools/call", &call(&format!(r#""requestState":{state},"#), "2")));
    assert_eq!(question_of(&line(&mut harness)), question_of(&reply));
    for (name, state) in [("u", &*state), ("t", "\"relay-99\""), ("t", "\"x\""), ("t", "7")] {
        let other =
            call(&format!(r#""requestState":{state},"#), "2").replace(r#""name":"t""#, &format!(r#""name":"{name}""#));
        harness.line(&request("3", "tools/call", &other));
        assert_eq!(member(&line(&mut harness), &["error", "code"]).as_deref(), Some("-32602"));
    }
    assert!(!harness.has_opened());

    // The call was not cancelled meanwhile, and for the server it is still the same call (BR-M-04).
    let answer = r#"{"action":"accept","content":{"n":1.0}}"#;
    let answered = call(&format!(r#""inputResponses":{{"1":{answer}}},"requestState":{state},"#), "\"new\"");
    harness.line(&request("4", "tools/call", &answered));
    let reply = harness.opened();
    assert_eq!(reply.body(), result("\"q\"", answer));
    harness.reply(reply.key, &Reply::status(202));
    let progress = |token: &str| progress_notification(token, 1);
    harness.send(opened.key, event(&progress("1")).as_bytes());
    assert_eq!(harness.lines(), [progress("\"new\"")]);
    harness.send(opened.key, event(&result(&opened.id(), r#"{"content":[]}"#)).as_bytes());
    let reply = line(&mut harness);
    assert_eq!(member(&reply, &["id"]).as_deref(), Some("4"));
    assert_eq!(member(&reply, &["result", "content"]).as_deref(), Some("[]"));
    assert_eq!(member(&reply, &["result", "resultType"]).as_deref(), Some("\"complete\""));
}

#[test]
fn requests_of_a_legacy_server_about_parked_calls_are_bounded_in_sum() {
    let (mut harness, _stream) = modern_client_with_little_room();
    harness.line(&request("\"a\"", "tools/call", &modern(r#""name":"t","arguments":{},"#)));
    let call = harness.opened();
    harness.begin(call.key, &Reply::events(""));
    let large =
        format!(r#"{{"message":"{}","requestedSchema":{{"type":"object","properties":{{}}}}}}"#, "x".repeat(15 << 16));
    let mut refused = 0;
    for id in 100..120 {
        harness.send(call.key, question(&id.to_string(), "elicitation/create", &large).as_bytes());
        while harness.has_opened() {
            let answer = harness.opened();
            assert!(answer.body().contains(r#""error":{"code":-32603"#), "{}", answer.body());
            refused += 1;
            harness.reply(answer.key, &Reply::status(202));
        }
    }
    assert_eq!(refused, 16, "four of 1 MB are kept in 4 MiB, the others are refused at once");
    // Small questions still find room, and do not end the call.
    harness.send(call.key, question("200", "elicitation/create", FORM).as_bytes());
    assert!(!harness.has_opened());
}

#[test]
fn requests_and_results_that_a_relay_keeps_are_bounded_in_sum() {
    let (mut harness, _stream) = modern_client_with_little_room();
    let large = "x".repeat(15 << 16);
    for id in 0..6 {
        harness.line(&request(
            &id.to_string(),
            "tools/call",
            &modern(&format!(r#""name":"t","arguments":{{"x":"{large}"}},"#)),
        ));
    }
    let lines = harness.lines();
    assert_eq!(lines.len(), 2, "four of 1 MB are kept in 4 MiB");
    assert!(lines.iter().all(|line| line.contains(r#""error":{"code":-32603"#)));
    // After their outcomes, there is room again.
    for _ in 0..4 {
        let call = harness.opened();
        harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    }
    assert_eq!(harness.lines().len(), 4);
    harness.line(&request("9", "tools/call", &modern(&format!(r#""name":"t","arguments":{{"x":"{large}"}},"#))));
    assert!(harness.has_opened() && harness.lines().is_empty());
}

#[test]
fn br_m_03_what_happens_to_a_parked_call_is_known_when_the_client_calls_again() {
    let (mut harness, _stream) = modern_client();
    let call = modern(r#""name":"t","#);
    let retry = |reply: &str, answers: &str| {
        let state = member(reply, &["result", "requestState"]).expect("a state");
        modern(&format!(r#""name":"t","inputResponses":{answers},"requestState":{state},"#))
    };
    // The server asks again while the call is parked.
    harness.line(&request("1", "tools/call", &call));
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(question("1", "elicitation/create", FORM)));
    let reply = line(&mut harness);
    harness.send(opened.key, question("2", "sampling/createMessage", r#"{"messages":[]}"#).as_bytes());
    assert!(harness.lines().is_empty());
    harness.line(&request("2", "tools/call", &retry(&reply, r#"{"1":{"action":"decline"}}"#)));
    assert_eq!(harness.opened().body(), result("1", r#"{"action":"decline"}"#));
    let reply = line(&mut harness);
    assert_eq!(member(&reply, &["result", "inputRequests", "1"]), None);
    assert_eq!(
        member(&reply, &["result", "inputRequests", "2", "method"]).as_deref(),
        Some("\"sampling/createMessage\"")
    );
    // The server sends its result without waiting for the second answer.
    harness.send(opened.key, event(&result(&opened.id(), r#"{"content":[]}"#)).as_bytes());
    assert!(harness.lines().is_empty());
    harness.line(&request("3", "tools/call", &retry(&reply, r#"{"2":{"role":"assistant"}}"#)));
    let reply = line(&mut harness);
    assert_eq!((member(&reply, &["id"]).as_deref(), reply.contains("\"content\":[]")), (Some("3"), true), "{reply}");
    assert!(!harness.has_opened());
}

#[test]
fn br_m_03_a_parked_call_ends_when_its_client_does_not_come_back() {
    let mut harness = HttpClientHarness::relay_with(|config, _| config.parking_timeout = Duration::from_secs(60));
    harness.line(&request("\"d\"", "server/discover", &modern("")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(404));
    let opened = harness.opened();
    harness.reply(opened.key, &initialized(&opened, CAPABLE));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    let stream = harness.opened();
    harness.reply(stream.key, &Reply::status(405));
    harness.lines();
    harness.line(&request("1", "tools/call", &modern(r#""name":"t","#)));
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(question("\"q\"", "elicitation/create", FORM)));
    let reply = line(&mut harness);
    harness.pass(Duration::from_secs(61));
    let (answer, cancelled) = (harness.opened(), harness.opened());
    assert!(answer.body().contains(r#""id":"q","error":"#), "{}", answer.body());
    assert_eq!((cancelled.method().as_str(), cancelled.param("requestId")), ("notifications/cancelled", opened.id()));
    let state = member(&reply, &["result", "requestState"]).expect("a state");
    harness.line(&request("2", "tools/call", &modern(&format!(r#""name":"t","requestState":{state},"#))));
    assert_eq!(member(&line(&mut harness), &["error", "code"]).as_deref(), Some("-32602"));
}

#[test]
fn br_m_05_a_question_that_belongs_to_no_call_is_refused() {
    let (mut harness, stream) = modern_client();
    let refused = |harness: &mut Relay| {
        let opened = harness.opened();
        let code = member(opened.body(), &["error", "code"]);
        harness.reply(opened.key, &Reply::status(202));
        code.as_deref() == Some("-32601")
    };
    // A question is refused without a call, during a request of another method, and if the call declares no capability
    // for it.
    harness.send(stream.key, question("1", "elicitation/create", FORM).as_bytes());
    assert!(refused(&mut harness));
    harness.line(&request("1", "tools/list", &modern("")));
    let list = harness.opened();
    harness.begin(list.key, &Reply::events(question("2", "elicitation/create", FORM)));
    assert!(refused(&mut harness));
    harness.line(&request("2", "tools/call", &modern_with(r#""name":"t","#, r#"{"sampling":{}}"#, "")));
    let call = harness.opened();
    harness.begin(call.key, &Reply::events(question("3", "elicitation/create", FORM)));
    assert!(refused(&mut harness));
    harness.send(call.key, question("4", "roots/list", "{}").as_bytes());
    assert!(refused(&mut harness));
    assert!(harness.lines().is_empty());
    // The relay answers a ping of the server itself (BR-M-07).
    harness.send(call.key, question("5", "ping", "{}").as_bytes());
    assert_eq!(harness.opened().body(), result("5", "{}"));
    // If there is a single call, a question on the session's stream belongs to that call.
    harness.send(stream.key, question("6", "sampling/createMessage", r#"{"messages":[]}"#).as_bytes());
    assert_eq!(member(&line(&mut harness), &["result", "resultType"]).as_deref(), Some("\"input_required\""));
}

#[test]
fn br_m_10_urls_that_must_be_visited_first_are_required_and_the_call_is_made_again() {
    let (mut harness, _stream) = modern_client();
    let call = |more: &str| modern_with(&format!(r#""name":"t",{more}"#), r#"{"elicitation":{"url":{}}}"#, "");
    harness.line(&request("1", "tools/call", &call("")));
    let opened = harness.opened();
    let url = r#"{"mode":"url","elicitationId":"e","url":"https://example.com/","message":"m"}"#;
    let refusal = |opened: &Opened| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32042,"message":"m","data":{{"elicitations":[{url}]}}}}}}"#,
            opened.id()
        )
    };
    harness.reply(opened.key, &Reply::json(refusal(&opened)));
    let reply = line(&mut harness);
    assert_eq!(
        member(&reply, &["result", "inputRequests", "1", "params"]).as_deref(),
        Some(r#"{"mode":"url","url":"https://example.com/","message":"m"}"#)
    );
    // The server may refuse the same call again.
    let mut state = member(&reply, &["result", "requestState"]).expect("a state");
    for round in 2..5 {
        let retry = call(&format!(r#""inputResponses":{{"1":{{"action":"accept"}}}},"requestState":{state},"#));
        harness.line(&request(&round.to_string(), "tools/call", &retry));
        let opened = harness.opened();
        assert_eq!(opened.body(), request(&opened.id(), "tools/call", r#"{"name":"t"}"#), "{round}");
        if round == 4 {
            harness.reply(opened.key, &Reply::json(result(&opened.id(), r#"{"content":[]}"#)));
            assert!(line(&mut harness).starts_with(r#"{"jsonrpc":"2.0","id":4,"result":{"#));
        } else {
            harness.reply(opened.key, &Reply::json(refusal(&opened)));
            state = member(&line(&mut harness), &["result", "requestState"]).expect("a state");
        }
    }
}

#[test]
fn br_m_10_codes_of_the_legacy_era_do_not_reach_a_modern_client() {
    let (mut harness, _stream) = modern_client();
    for (code, expected) in [(-32002, -32602), (-32042, -32603), (-32020, -32603), (-32601, -32601), (5, 5)] {
        harness.line(&request("1", "resources/read", &modern(r#""uri":"a:b","#)));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::json(error(&opened.id(), code, "m")));
        assert_eq!(harness.lines(), [error("1", expected, "m")]);
    }
}

#[test]
fn br_m_08_log_messages_belong_to_the_request_that_asked_for_them() {
    let (mut harness, stream) = modern_client();
    let log = |level: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1}}}}"#)
    };
    let wanting =
        |level: &str| modern_with(r#""name":"t","#, "{}", &format!(r#","io.modelcontextprotocol/logLevel":"{level}""#));
    harness.line(&request("1", "tools/call", &wanting("warning")));
    let (level, call) = (harness.opened(), harness.opened());
    assert_eq!((level.method().as_str(), level.param("level")), ("logging/setLevel", "\"warning\"".into()));
    assert!(call.param("_meta").is_empty(), "{}", call.param("_meta"));
    harness.reply(level.key, &Reply::json(result(&level.id(), "{}")));
    harness.begin(call.key, &Reply::events(event(&log("info")) + &event(&log("error"))));
    assert_eq!(harness.lines(), [log("error")]);
    // Messages on the session's stream go to the only request that wants log messages.
    harness.send(stream.key, event(&log("alert")).as_bytes());
    assert_eq!(harness.lines(), [log("alert")]);
    harness.line(&request("2", "tools/call", &wanting("debug")));
    let (level, _second) = (harness.opened(), harness.opened());
    assert_eq!(level.param("level"), "\"debug\"");
    harness.send(stream.key, event(&log("alert")).as_bytes());
    assert!(harness.lines().is_empty());
    // A request for fewer messages does not change the server's level.
    harness.line(&request("3", "tools/call", &wanting("error")));
    assert_eq!(harness.opened().method(), "tools/call");
}

#[test]
fn br_m_09_what_is_listened_to_is_subscribed_to_once() {
    let (mut harness, stream) = modern_client();
    let listen =
        |uris: &str| modern(&format!(r#""notifications":{{"toolsListChanged":true,"resourceSubscriptions":{uris}}},"#));
    harness.line(&request("\"l\"", "subscriptions/listen", &listen(r#"["a:b"]"#)));
    let subscribed = harness.opened();
    assert_eq!((subscribed.method().as_str(), subscribed.param("uri")), ("resources/subscribe", "\"a:b\"".into()));
    assert!(harness.lines().is_empty(), "what is acknowledged is in effect");
    harness.reply(subscribed.key, &Reply::json(result(&subscribed.id(), "{}")));
    let reply = line(&mut harness);
    assert!(reply.contains(ACKNOWLEDGED) && reply.contains(r#""resourceSubscriptions":["a:b"]"#), "{reply}");
    harness.line(&request("2", "subscriptions/listen", &listen(r#"["a:b"]"#)));
    assert!(line(&mut harness).contains(ACKNOWLEDGED) && !harness.has_opened());
    let notify = |method: &str, params: &str| {
        event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#))
    };
    for (method, params) in [("tools/list_changed", "{}"), ("resources/updated", r#"{"uri":"a:b"}"#)] {
        harness.send(stream.key, notify(method, params).as_bytes());
        let lines = harness.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains(method)));
        assert!(lines.iter().any(|line| line.contains(r#"subscriptionId":"l""#)));
        assert!(lines.iter().any(|line| line.contains(r#"subscriptionId":2"#)));
    }
    let cancel =
        |id: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    harness.line(&cancel("\"l\""));
    assert!(!harness.has_opened());
    harness.line(&cancel("2"));
    assert_eq!(harness.opened().method(), "resources/unsubscribe");
}

#[test]
fn br_m_09_a_resource_that_the_server_refuses_to_watch_is_left_out_of_the_acknowledgement() {
    let (mut harness, stream) = modern_client();
    let listen = |uris: &str| modern(&format!(r#""notifications":{{"resourceSubscriptions":{uris}}},"#));
    harness.line(&request("1", "subscriptions/listen", &listen(r#"["a:b","c:d"]"#)));
    harness.line(&request("2", "subscriptions/listen", &listen(r#"["c:d"]"#)));
    let (first, second) = (harness.opened(), harness.opened());
    assert_eq!((first.param("uri"), second.param("uri")), ("\"a:b\"".into(), "\"c:d\"".into()));
    harness.reply(first.key, &Reply::json(error(&first.id(), -32602, "no")));
    assert!(harness.lines().is_empty(), "the other one is not answered");
    let update = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"c:d"}}"#;
    harness.send(stream.key, event(update).as_bytes());
    assert!(harness.lines().is_empty(), "MD-L-02: the acknowledgement is the first message");
    harness.reply(second.key, &Reply::json(result(&second.id(), "{}")));
    let lines = harness.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(ACKNOWLEDGED)), "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(r#""resourceSubscriptions":["c:d"]"#)), "{lines:?}");
    harness.send(stream.key, event(update).as_bytes());
    assert_eq!(harness.lines().len(), 2);
    assert!(!harness.has_opened(), "what was refused is not taken back");
}

#[test]
fn a_session_that_was_opened_again_gets_the_settings_of_the_old_one() {
    let (mut harness, stream) = modern_client();
    harness.line(&request(
        "1",
        "subscriptions/listen",
        &modern(r#""notifications":{"resourceSubscriptions":["a:b"]},"#),
    ));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), "{}")));
    harness.lines();
    harness.line(&request("2", "tools/list", &modern("")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(404));
    let again = harness.opened();
    assert_eq!(
        (again.method().as_str(), again.param("clientInfo")),
        ("initialize", r#"{"name":"editor","version":"1.0"}"#.into())
    );
    harness.reply(again.key, &initialized(&again, CAPABLE));
    let confirmed = harness.opened();
    harness.reply(confirmed.key, &Reply::status(202));
    let mut methods: Vec<_> =
        (0..3).map(|_| harness.opened()).map(|opened| (opened.line(), opened.body().to_owned())).collect();
    methods.sort();
    assert_eq!(methods[0].0, "GET /mcp");
    assert!(methods[1..].iter().any(|(_, body)| body.contains("resources/subscribe")), "{methods:?}");
    assert!(methods[1..].iter().any(|(_, body)| body.contains("tools/list")), "{methods:?}");
    assert!(harness.is_aborted(stream.key));
}

#[test]
fn a_client_that_does_not_wait_for_its_discovery_is_a_legacy_client() {
    for server_is_modern in [false, true] {
        let mut harness = HttpClientHarness::relay();
        harness.line(&request("\"d\"", "server/discover", &modern("")));
        let opened = harness.opened();
        harness.line(&initialize("2", "2025-11-25"));
        assert!(!harness.has_opened());
        if server_is_modern {
            harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered("{}"))));
            let lines = harness.lines();
            assert_eq!(lines.len(), 2);
            assert!(lines[1].contains(r#""id":2,"result":{"protocolVersion":"2025-11-25""#), "{lines:?}");
            harness.line(INITIALIZED);
            harness.line(&request("3", "tools/list", "{}"));
            assert!(harness.opened().param("_meta").contains("clientCapabilities"));
            // A client that began with `initialize` cannot continue with modern requests.
            harness.line(&request("4", "tools/list", &modern("")));
            assert_eq!(member(&line(&mut harness), &["error", "code"]).as_deref(), Some("-32600"));
        } else {
            harness.reply(opened.key, &Reply::status(404));
            let opened = harness.opened();
            harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
            let lines = harness.lines();
            assert_eq!(member(&lines[0], &["error", "code"]).as_deref(), Some("-32600"), "{lines:?}");
            assert!(lines[1].contains(r#""id":2,"result":{"protocolVersion":"2025-11-25""#), "{lines:?}");
            harness.line(INITIALIZED);
            assert_eq!(harness.opened().body(), INITIALIZED);
        }
    }
}

// ---- the revisions that the relay may use with the server

#[test]
fn only_the_allowed_revisions_are_used() {
    let with = |versions: &'static [ProtocolVersion]| {
        HttpClientHarness::relay_with(|config, _| config.versions = versions.to_vec())
    };
    // Only a modern revision: the relay does not try whether the server is a legacy one.
    let mut harness = with(&[ProtocolVersion::V2026_07_28]);
    harness.line(&initialize("1", "2025-11-25"));
    let opened = harness.opened();
    assert_eq!(opened.method(), "server/discover");
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered("{}"))));
    assert!(line(&mut harness).contains(r#""protocolVersion":"2025-11-25""#));
    // Only a legacy revision: the relay does not try whether the server is a modern one.
    let mut harness = with(&[ProtocolVersion::V2025_11_25]);
    harness.line(&request("1", "server/discover", &modern("")));
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    // Only one revision: the relay offers it although the client offers another.
    let mut harness = with(&[ProtocolVersion::V2025_03_26]);
    harness.line(&initialize("1", "2025-11-25"));
    let opened = harness.opened();
    assert_eq!(opened.param("protocolVersion"), "\"2025-03-26\"");
    harness.reply(opened.key, &initialize_reply(&opened, "2025-03-26", None));
    assert!(line(&mut harness).contains(r#""protocolVersion":"2025-03-26""#));
}

// ---- roots of a modern client

const ROOTS: &str = r#"{"roots":[{"uri":"file:///home"}]}"#;

/// Members of a request that answer the required inputs in `reply`, each of which must be for the client's roots.
fn with_roots(reply: &str, questions: usize) -> String {
    assert_eq!(reply.matches(r#""method":"roots/list""#).count(), questions, "{reply}");
    let state = member(reply, &["result", "requestState"]).expect("a state");
    let answers: Vec<_> = (1..=questions).map(|key| format!(r#""{key}":{ROOTS}"#)).collect();
    format!(r#""requestState":{state},"inputResponses":{{{}}},"#, answers.join(","))
}

#[test]
fn roots_requested_outside_of_calls_are_requested_with_the_next_call() {
    let (mut harness, stream) = modern_client();
    for id in ["\"r1\"", "\"r2\"", "\"r3\""] {
        harness.send(stream.key, event(&request(id, "roots/list", "{}")).as_bytes());
    }
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r2"}}"#;
    harness.send(stream.key, event(cancelled).as_bytes());
    assert!(
        !harness.has_opened() && harness.lines().is_empty(),
        "nothing is answered, and the client receives no request"
    );
    // Other requests, and calls of a client that has declared no roots, are forwarded unchanged.
    harness.line(&request("1", "tools/list", &modern("")));
    assert_eq!(harness.opened().method(), "tools/list");
    harness.line(&request("2", "tools/call", &modern_with(r#""name":"t","arguments":{},"#, "{}", "")));
    let call = harness.opened();
    assert_eq!(call.method(), "tools/call");
    harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    harness.lines();
    harness.line(&request("3", "tools/call", &modern(r#""name":"t","arguments":{"x": 1.0},"#)));
    assert!(!harness.has_opened(), "the server sees the call once the roots are there");
    let reply = line(&mut harness);
    assert!(reply.contains(r#""resultType":"input_required""#), "{reply}");
    let answers = with_roots(&reply, 2);
    harness.line(&request("4", "tools/call", &modern(&format!(r#""name":"t","arguments":{{"x": 1.0}},{answers}"#))));
    let mut opened: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    let call = opened.pop().expect("the call");
    let answered: Vec<_> = opened.iter().map(Opened::body).collect();
    assert_eq!(answered, [result("\"r1\"", ROOTS), result("\"r3\"", ROOTS)]);
    assert_eq!((call.method().as_str(), call.param("arguments")), ("tools/call", r#"{"x": 1.0}"#.into()));
    harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    assert!(line(&mut harness).contains(r#""id":4"#));
    // The next call contains no question.
    harness.line(&request("5", "tools/call", &modern(r#""name":"t","arguments":{},"#)));
    assert_eq!(harness.opened().method(), "tools/call");
}

#[test]
fn any_of_several_calls_carries_a_question_for_roots() {
    let (mut harness, stream) = modern_client();
    let calls: Vec<_> = ["1", "2"]
        .map(|id| {
            harness.line(&request(id, "tools/call", &modern(r#""name":"t","arguments":{},"#)));
            harness.opened()
        })
        .into();
    harness.send(stream.key, event(&request("\"r\"", "roots/list", "{}")).as_bytes());
    let reply = line(&mut harness);
    assert!(reply.contains(r#""id":1,"#), "{reply}");
    let answers = with_roots(&reply, 1);
    harness.line(&request("3", "tools/call", &modern(&format!(r#""name":"t","arguments":{{}},{answers}"#))));
    assert_eq!(harness.opened().body(), result("\"r\"", ROOTS));
    for (call, id) in calls.iter().zip(["3", "2"]) {
        harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
        assert!(line(&mut harness).contains(&format!(r#""id":{id},"#)));
    }
    // Any other question belongs to one call, and it is unknown to which, so it is refused.
    let calls = ["4", "5"].map(|id| {
        harness.line(&request(id, "tools/call", &modern(r#""name":"t","arguments":{},"#)));
        harness.opened()
    });
    harness.send(stream.key, event(&request("\"e\"", "elicitation/create", FORM)).as_bytes());
    assert!(harness.opened().body().contains("-32601"));
    drop(calls);
}

#[test]
fn questions_for_roots_that_wait_are_bounded() {
    let (mut harness, stream) = modern_client();
    for id in 0..9 {
        harness.send(stream.key, event(&request(&id.to_string(), "roots/list", "{}")).as_bytes());
    }
    let refused = harness.opened();
    assert!(refused.body().contains(r#""id":8,"error":{"code":-32601"#), "{}", refused.body());
    assert!(!harness.has_opened());
    harness.line(&request("1", "tools/call", &modern(r#""name":"t","arguments":{},"#)));
    with_roots(&line(&mut harness), 8);
    // The client does not retry: the relay answers each question with an error and drops the call.
    harness.pass(Duration::from_secs(601));
    let answers: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert_eq!(answers.iter().filter(|answer| answer.body().contains("did not answer in time")).count(), 8);
}

#[test]
fn requests_for_roots_end_with_their_session() {
    let (mut harness, stream) = modern_client();
    harness.send(stream.key, event(&request("\"r\"", "roots/list", "{}")).as_bytes());
    reopen_bridge(&mut harness);
    while harness.has_opened() {
        harness.opened();
    }
    harness.line(&request("3", "tools/call", &modern(r#""name":"t","arguments":{},"#)));
    assert_eq!(harness.opened().method(), "tools/call");
}

/// Loses the session with a legacy server at a request with id 2, which stays open, and opens the session again.
fn reopen_bridge(harness: &mut Relay) {
    harness.line(&request("2", "tools/list", &modern("")));
    let refused = harness.opened();
    harness.reply(refused.key, &Reply::status(404));
    let again = harness.opened();
    harness.reply(again.key, &initialized(&again, CAPABLE));
    let confirmed = harness.opened();
    harness.reply(confirmed.key, &Reply::status(202));
}

#[test]
fn what_a_bridge_sets_itself_is_set_in_the_next_session_or_reported() {
    let (mut harness, _) = modern_client();
    let listen = r#""notifications":{"resourceSubscriptions":["a:b"]},"#;
    harness.line(&request("1", "subscriptions/listen", &modern(listen)));
    // The session is lost before the server answers this request.
    assert_eq!(harness.opened().method(), "resources/subscribe");
    reopen_bridge(&mut harness);
    let mut subscribed: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    subscribed.retain(|opened| opened.method() == "resources/subscribe");
    assert_eq!(subscribed.len(), 1);
    assert_eq!(subscribed[0].param("uri"), "\"a:b\"");
    harness.events();
    harness.reply(subscribed[0].key, &Reply::json(error(&subscribed[0].id(), -32601, "no")));
    let events = harness.events();
    assert!(
        matches!(&events[..], [Event::NotInEffect { method, .. }] if method.as_str() == "resources/subscribe"),
        "{events:?}"
    );
}

#[test]
fn a_request_that_a_legacy_server_has_cancelled_is_not_passed_on() {
    let (mut harness, _) = modern_client();
    harness.line(&request("1", "tools/call", &modern(r#""name":"t","arguments":{},"#)));
    let call = harness.opened();
    harness.begin(call.key, &Reply::events(event(&request("\"q1\"", "elicitation/create", FORM))));
    let reply = line(&mut harness);
    let state = member(&reply, &["result", "requestState"]).expect("a state");
    harness.send(call.key, event(&request("\"q2\"", "elicitation/create", FORM)).as_bytes());
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q2"}}"#;
    harness.send(call.key, event(cancelled).as_bytes());
    let answers = format!(r#""requestState":{state},"inputResponses":{{"1":{{"action":"decline"}}}},"#);
    harness.line(&request("2", "tools/call", &modern(&format!(r#""name":"t","arguments":{{}},{answers}"#))));
    assert_eq!(harness.opened().body(), result("\"q1\"", r#"{"action":"decline"}"#));
    assert!(harness.lines().is_empty(), "nothing more is asked");
}

#[test]
fn md_l_14_the_names_that_a_client_subscribes_to_are_bounded_in_bytes() {
    let mut harness = legacy_client("2025-11-25", "{}", r#"{"resources":{"subscribe":true}}"#);
    for number in 0..5 {
        let uri = format!("a:{number}{}", "x".repeat(8 * 1024 - 3));
        harness.line(&request("5", "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#)));
        assert_eq!(harness.lines().iter().any(|line| line.contains("too many subscriptions")), number == 4, "{number}");
    }
}

#[test]
fn rp6_a_message_with_a_method_and_a_result_never_reaches_the_server_as_a_request() {
    for mut pair in RelayPair::all(|_| {}) {
        pair.line(r#"{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"t"},"result":{}}"#);
        pair.line(r#"{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"t"},"result":null}"#);
        assert_eq!(pair.asked(), [], "{}", pair.name());
        let lines = pair.received();
        assert!(matches!(&lines[..], [line] if line.contains(r#""id":99,"error":{"code":-32600"#)), "{lines:?}");
    }
}
