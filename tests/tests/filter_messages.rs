//! A request reaches a server only as a request whose method and parameters every reader reads alike.

use mcp_intermediary::gateway::Sharing;
use mcp_intermediary::relay::{Config, Event, Filter, Rule, Side};
use mcp_proto::server::Principal;
use mcp_proto::spec::Primitive;
use mcp_proto::{Era, Fault, Json, Method, Notification, ProtocolVersion};
use mcp_testkit::http_exchange::{META, TestRequest};
use mcp_testkit::messages::request;
use tests::aggregate::{AggregateHarness, Offer};
use tests::gateway::GatewayHarness;
use tests::relay_pair::RelayPair;

/// Denies what is named `shell`, and all resources of `secret:`.
fn denying() -> Filter {
    let mut filter = Filter::new();
    for (primitive, pattern) in
        [(Primitive::Tool, "shell"), (Primitive::Prompt, "shell"), (Primitive::Resource, "secret:*")]
    {
        filter.add(Rule::deny(primitive, pattern).expect("a pattern"));
    }
    filter
}

/// The methods of all requests of the specification, in every revision and both directions.
fn requests() -> impl Iterator<Item = &'static Method> {
    Method::ALL.iter().filter(|method| method.is_request())
}

fn notifications() -> impl Iterator<Item = &'static Method> {
    Method::ALL.iter().filter(|method| method.is_notification())
}

/// A message without an id, with parameters that name something of each kind.
fn without_id(method: &str, meta: &str) -> String {
    let params = format!(r#""name":"shell","uri":"secret:1","ref":{{"type":"ref/prompt","name":"shell"}}{meta}"#);
    format!(r#"{{"jsonrpc":"2.0","method":{},"params":{{{params}}}}}"#, Json::from(method).to_text())
}

#[test]
fn a_request_of_a_client_without_an_id_reaches_no_server() {
    for filter in [Filter::new(), denying()] {
        for mut pair in RelayPair::all(|config: &mut Config| config.filter = filter.clone()) {
            let meta = if pair.client_era() == Era::Modern { format!(r#","_meta":{{{META}}}"#) } else { String::new() };
            for method in requests() {
                pair.line(&without_id(method.as_str(), &meta));
                let name = pair.name();
                assert_eq!(pair.notified(), [""; 0], "{method} in {name}");
                assert!(pair.asked().is_empty() && pair.received().is_empty(), "{method} in {name}");
                let events = pair.events();
                let is_reported = matches!(
                    &events[..],
                    [Event::Faulted { side: Side::Client, fault: Fault::MissingId { method: reported } }]
                        if reported == method
                );
                assert!(is_reported, "{events:?} for {method} in {name}");
            }
            // The connection continues, and other methods are notifications of extensions.
            pair.line(&without_id("x/extension", &meta));
            let passed = pair.notified();
            let is_passed = pair.client_era() == Era::Legacy && !pair.is_converted();
            assert!(!is_passed || passed == ["x/extension"], "{passed:?} in {}", pair.name());
            pair.ask("tools/call", r#""name":"echo""#);
            assert_eq!(pair.asked().len(), 1, "{}", pair.name());
        }
    }
}

#[test]
fn a_request_of_a_server_without_an_id_reaches_no_client() {
    for mut pair in RelayPair::all(|_| {}) {
        pair.ask("tools/call", r#""name":"echo""#);
        pair.begin_stream();
        for method in requests() {
            pair.notify(method.as_str(), r#""messages":[],"message":"m""#);
            assert_eq!(pair.received(), [""; 0], "{method} in {}", pair.name());
            let events = pair.events();
            let is_reported = |event: &Event| matches!(event, Event::Faulted { side: Side::Server, fault: Fault::MissingId { method: reported } } if reported == method);
            assert!(events.iter().any(is_reported), "{events:?} for {method} in {}", pair.name());
        }
    }
}

#[test]
fn a_notification_with_an_id_is_answered_with_an_error_and_not_passed_on() {
    for mut pair in RelayPair::all(|_| {}) {
        for method in notifications() {
            pair.ask(method.as_str(), r#""requestId":1,"progressToken":1,"progress":1,"uri":"secret:1""#);
            let line = pair.only_line();
            assert!(line.contains(r#""code":-32601"#), "{line} for {method} in {}", pair.name());
            assert!(pair.asked().is_empty() && pair.notified().is_empty(), "{method} in {}", pair.name());
        }
        pair.ask("tools/call", r#""name":"echo""#);
        pair.begin_stream();
        for method in notifications() {
            pair.server_line(&request("9", method.as_str(), r#"{"requestId":1,"progressToken":1,"progress":1}"#));
            assert_eq!(pair.received(), [""; 0], "{method} in {}", pair.name());
        }
    }
}

#[test]
fn a_gateway_passes_no_request_without_an_id_on() {
    for sharing in [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared] {
        let mut gateway = GatewayHarness::with(|config| {
            config.sharing = sharing;
            config.relay.filter = denying();
        });
        let (id, process) = gateway.session_of("2025-11-25", Some("ada"));
        for method in requests() {
            let exchange = gateway.ask(&TestRequest::post(without_id(method.as_str(), "")).by("ada").in_session(&id));
            assert_eq!(gateway.responses.take(exchange).code(), 202);
            assert_eq!(gateway.lines(process), [""; 0], "{method} in {sharing:?}");
            let meta = format!(r#","_meta":{{{META}}}"#);
            let stateless = TestRequest::post(without_id(method.as_str(), &meta))
                .repeating_headers("2026-07-28", method.as_str())
                .by("ada");
            gateway.ask(&stateless);
            assert_eq!((gateway.lines(process), gateway.starts()), (Vec::new(), 1), "{method} in {sharing:?}");
        }
    }
}

#[test]
fn an_element_of_a_batch_without_an_id_is_not_passed_on() {
    for is_http in [true, false] {
        let mut pair = RelayPair::open(Era::Legacy, Era::Legacy, is_http, |config| {
            config.filter = denying();
            config.versions.retain(|version| version.rules().batches);
        });
        let call = request("7", "tools/call", r#"{"name":"echo"}"#);
        pair.line(&format!("[{},{},{call}]", without_id("tools/call", ""), without_id("resources/read", "")));
        assert_eq!((pair.notified(), pair.asked().len()), (Vec::new(), 1));
    }
}

#[test]
fn an_aggregate_passes_no_request_without_an_id_on() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let offer = || Offer::new(ProtocolVersion::ALL, &["echo"]);
        let mut harness = AggregateHarness::new(&[version], &[("a", offer()), ("b", offer())]);
        for method in requests().filter(|method| !method.facts().is_reserved) {
            let params = Json::parse(r#"{"name":"a-echo","uri":"secret:1"}"#.to_owned()).expect("JSON");
            let notification = Notification::with_params(method.clone(), params);
            harness.client.notify(notification, harness.now).expect("it is connected");
            harness.settle();
            for server in &harness.servers {
                let received = (server.notifications.contains(&method.as_str().to_owned()), server.faults);
                assert_eq!(received, (false, 0), "{method} in {version}");
            }
        }
    }
}

#[test]
fn a_method_that_some_reader_takes_for_another_one_reaches_no_server() {
    let methods = [
        "Tools/Call",
        "TOOLS/CALL",
        "tools/call ",
        " tools/call",
        "tools/call\n",
        "\ttools/call",
        "tools/ call",
        "tools/call\0",
        "tools/call\u{a0}",
        "resources/Read",
        "resources/read ",
        "Resources/Subscribe",
        "prompts/GET",
        "completion/complete\r",
        "tool\u{17f}/call",
        "tools/list ",
        "Tools/List",
        "resources/LIST",
    ];
    for mut pair in RelayPair::all(|config: &mut Config| config.filter = denying()) {
        let name = pair.name();
        for method in methods {
            let method_text = Json::from(method).to_text().into_owned();
            let meta = if pair.client_era() == Era::Modern { format!(r#","_meta":{{{META}}}"#) } else { String::new() };
            pair.line(&without_id(method, &meta));
            assert_eq!(pair.notified(), [""; 0], "{method:?} without an id in {name}");
            let with_id = without_id(method, &meta).replacen('{', r#"{"id":9,"#, 1);
            assert!(with_id.contains(&method_text));
            pair.line(&with_id);
            assert!(pair.asked().is_empty(), "{method:?} in {name}");
            assert!(pair.only_line().contains(r#""error""#), "{method:?} in {name}");
        }
        // Escapes of JSON spell the same method.
        for escaped in [r"tools\/call", r"\u0074ools/call", r"tools\u002fcall"] {
            let line = without_id("METHOD", "").replace("METHOD", escaped);
            pair.line(&line);
            assert_eq!(pair.notified(), [""; 0], "{escaped} in {name}");
        }
    }
}

#[test]
fn parameters_that_some_reader_reads_by_position_or_twice_reach_no_server() {
    for is_strict in [true, false] {
        let change = |config: &mut Config| {
            config.filter = denying();
            config.strict_json = is_strict;
        };
        for (method, params) in [
            ("tools/call", r#"["shell"]"#),
            ("tools/call", r#"[{"name":"shell"}]"#),
            ("resources/read", r#"["secret:1"]"#),
            ("resources/subscribe", r#"["secret:1"]"#),
            ("completion/complete", r#"[{"type":"ref/prompt","name":"shell"}]"#),
            ("completion/complete", r#"{"ref":["ref/prompt","shell"]}"#),
            ("completion/complete", r#"{"ref":"secret:1"}"#),
            ("completion/complete", r#"{"ref":{"type":"ref/prompt","title":"shell"}}"#),
            ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"a","name":"shell"}}"#),
            ("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"a:{x}","uri":"secret:{x}"}}"#),
            ("tools/call", r#"{"name":"echo","name":"shell"}"#),
            ("tools/call", r#"{"name":"shell","name":"echo"}"#),
            ("tools/call", r#"{"name":"echo","nam\u0065":"shell"}"#),
            ("tools/call", r#"{"name":"echo","NAME":"shell"}"#),
            ("prompts/get", r#"{"name":"a","name":"shell"}"#),
            ("resources/read", r#"{"uri":"ok:1","uri":"secret:1"}"#),
            ("resources/read", r#"{"uri":"ok:1","Uri":"secret:1"}"#),
        ] {
            for is_http in [true, false] {
                let mut pair = RelayPair::open(Era::Legacy, Era::Legacy, is_http, change);
                pair.line(&request("9", method, params));
                assert!(pair.asked().is_empty(), "{method} {params}");
                assert!(pair.only_line().contains(r#""code":-32602"#), "{method} {params}");
            }
        }
        for (method, params) in [
            ("subscriptions/listen", r#""notifications":[{"resourceSubscriptions":["secret:1"]}]"#),
            ("subscriptions/listen", r#""notifications":{"resourceSubscriptions":{"0":"secret:1"}}"#),
            ("subscriptions/listen", r#""notifications":{},"notifications":{"resourceSubscriptions":["secret:1"]}"#),
            (
                "subscriptions/listen",
                r#""notifications":{"resourceSubscriptions":[],"resourceSubscriptions":["secret:1"]}"#,
            ),
            ("subscriptions/listen", r#""notifications":{"ResourceSubscriptions":["secret:1"]}"#),
        ] {
            for is_http in [true, false] {
                let mut pair = RelayPair::open(Era::Modern, Era::Modern, is_http, change);
                pair.ask(method, params);
                assert!(pair.asked().is_empty(), "{method} {params}");
                assert!(pair.only_line().contains(r#""code":-32602"#), "{method} {params}");
            }
        }
    }
}

#[test]
fn headers_that_name_something_else_than_the_body_let_nothing_pass() {
    let mut gateway = GatewayHarness::with(|config| {
        config.relay.filter = denying();
        let rule = Rule::allow(Primitive::Tool, "echo").expect("a pattern");
        config.relay.filter.add(rule.for_principal(Principal::new("ada")));
    });
    for (tool, header) in [("shell", "echo"), ("shell", "shell"), ("shell", "=?base64?ZWNobw==?="), ("echo", "shell")] {
        let answer =
            gateway.answer(&TestRequest::stateless_call("7", tool, "").with("mcp-name", header).by("ada")).text();
        assert!(answer.contains(r#""error""#), "{tool} {header}: {answer}");
        assert_eq!(gateway.starts(), 0, "{tool} {header}");
    }
}
