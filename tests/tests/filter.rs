//! What clients may use of a server behind a relay or a gateway.

use mcp_intermediary::relay::{Config, Filter, Rule};
use mcp_proto::server::Principal;
use mcp_proto::spec::Primitive;
use mcp_proto::{Era, Json};
use mcp_testkit::http_exchange::{META, TestRequest};
use mcp_testkit::messages::{request, result};
use proptest::prelude::*;
use tests::gateway::{GatewayHarness, id_of};
use tests::relay_pair::RelayPair;

const TOOL: Primitive = Primitive::Tool;
const PROMPT: Primitive = Primitive::Prompt;
const RESOURCE: Primitive = Primitive::Resource;

/// Denies the tool `shell`, the prompt `shell` and all resources of `secret:`.
fn denying() -> Filter {
    let mut filter = Filter::new();
    for (primitive, pattern) in [(TOOL, "shell"), (PROMPT, "shell"), (RESOURCE, "secret:*")] {
        filter.add(Rule::deny(primitive, pattern).expect("a pattern"));
    }
    filter
}

/// Allows what [`denying`] does not deny, as far as the tests use it.
fn allowing() -> Filter {
    let mut filter = Filter::new();
    for (primitive, pattern) in [(TOOL, "e*o"), (PROMPT, "review"), (RESOURCE, "note:?*"), (RESOURCE, "note://{id}")] {
        filter.add(Rule::allow(primitive, pattern).expect("a pattern"));
    }
    filter
}

/// Pairs of all eras and transports, each with both filters.
fn pairs() -> Vec<RelayPair> {
    let with = |filter: fn() -> Filter| RelayPair::all(move |config: &mut Config| config.filter = filter());
    with(denying).into_iter().chain(with(allowing)).collect()
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("JSON")
}

/// The member of the result in a line; empty if it has none.
fn of_result(line: &str, member: &str) -> String {
    let result = json(line).first_member("result").expect("a result");
    result.first_member(member).map(|value| value.to_text().into_owned()).unwrap_or_default()
}

fn error_of(line: &str) -> (i64, String) {
    let error = json(line).first_member("error").unwrap_or_else(|| panic!("an error: {line}"));
    let [code, message] = error.first_members(["code", "message"]);
    let code = code.expect("a code").to_text().parse().expect("a number");
    (code, message.expect("a text").as_string().expect("a text").into_owned())
}

#[test]
fn what_is_denied_is_left_out_of_lists_and_every_other_byte_stays() {
    for (method, member, listed, kept) in [
        (
            "tools/list",
            "tools",
            r#"[{ "name" : "echo", "n":1.0 },{"name":"shell"} , {"description":"\u0065","name":"\u0065o"}]"#,
            r#"[{ "name" : "echo", "n":1.0 },{"description":"\u0065","name":"\u0065o"}]"#,
        ),
        ("tools/list", "tools", r#"[ {"name":"echo"} ]"#, r#"[ {"name":"echo"} ]"#),
        ("tools/list", "tools", r#"[{"name":"\u0073hell"},{"name":"SHELL"}]"#, "[]"),
        // Clients would understand these differently.
        ("tools/list", "tools", r#"[{"name":"echo","name":"shell"},{"name":"echo","NAME":"shell"},{},1]"#, "[]"),
        ("prompts/list", "prompts", r#"[{"name":"shell"},{"name":"review"}]"#, r#"[{"name":"review"}]"#),
        ("resources/list", "resources", r#"[{"uri":"secret:1"},{"uri":"note:1"}]"#, r#"[{"uri":"note:1"}]"#),
        (
            "resources/templates/list",
            "resourceTemplates",
            r#"[{"uriTemplate":"secret:{x}"},{"uriTemplate":"note://{id}"}]"#,
            r#"[{"uriTemplate":"note://{id}"}]"#,
        ),
    ] {
        for mut pair in pairs() {
            pair.ask(method, "");
            pair.answer(&format!(r#""nextCursor":"shell \u0073","{member}":{listed},"x":1.0"#));
            let line = pair.only_line();
            // A conversion between eras writes lists anew.
            let plain = |text: &str| if pair.is_converted() { text.replace(' ', "") } else { text.to_owned() };
            let expected = format!(r#""nextCursor":"shell \u0073","{member}":{kept},"x":1.0"#);
            assert!(plain(&line).contains(&plain(&expected)), "{line} in {}", pair.name());
        }
    }
}

#[test]
fn a_list_that_cannot_be_read_is_an_error() {
    for members in [
        r#""tools":[{"name":"echo"}],"tools":[{"name":"shell"}]"#,
        r#""Tools":[{"name":"shell"}],"tools":[]"#,
        r#""too\u006cs":[],"tools":[{"name":"shell"}]"#,
        r#""tools":{"name":"shell"}"#,
    ] {
        for mut pair in pairs() {
            pair.ask("tools/list", "");
            pair.answer(members);
            let line = pair.only_line();
            assert!(!line.contains("shell") && error_of(&line).0 == -32603, "{line}");
        }
    }
    // Without a list, nothing can be left out.
    for mut pair in pairs() {
        pair.ask("tools/list", "");
        pair.answer(r#""x":1"#);
        assert!(of_result(&pair.only_line(), "x") == "1");
    }
}

/// Requests that name what is denied in every way that a reader could understand: the method, and members of the parameters.
const EVADING: &[(&str, &str)] = &[
    ("tools/call", r#""name":"shell""#),
    ("tools/call", r#""n\u0061me":"\u0073hel\u006C""#),
    ("tools/call", r#""name":"SHELL""#),
    ("tools/call", r#""name":"\u017fhell""#),
    ("tools/call", r#""name":"echo","Name":"shell""#),
    ("tools/call", r#""NAME":"shell","name":"echo""#),
    ("tools/call", r#""NAME":"shell""#),
    ("tools/call", r#""name":["shell"]"#),
    ("tools/call", r#""name":"shell\ud800""#),
    ("tools/call", r#""arguments":{"name":"shell"}"#),
    ("tools/call", r#""name":"shell","task":{"ttl":1}"#),
    ("Tools/Call", r#""name":"shell""#),
    (r"tool\u0073/call", r#""name":"shell""#),
    ("prompts/get", r#""name":"shell""#),
    ("resources/read", r#""uri":"secret:1""#),
    ("resources/read", r#""uri":"s%65cret:1""#),
    ("resources/read", r#""uri":"Secret:1""#),
    ("resources/read", r#""uri":"secret:\u0031""#),
    ("completion/complete", r#""ref":{"type":"ref/prompt","name":"shell"}"#),
    ("completion/complete", r#""ref":{"type":"ref/resource","uri":"secret:{x}"}"#),
    ("completion/complete", r#""ref":{"type":"ref/prompt","name":"review","uri":"secret:1"}"#),
    ("completion/complete", r#""ref":{"type":"ref/prompt","name":"review","Name":"shell"}"#),
    ("completion/complete", r#""Ref":{"type":"ref/prompt","name":"shell"}"#),
];

#[test]
fn tp2_a_request_for_what_is_denied_reaches_no_server_however_it_is_written() {
    for (method, members) in EVADING {
        for mut pair in pairs() {
            pair.ask(method, members);
            let (code, _) = error_of(&pair.only_line());
            assert!(pair.asked().is_empty(), "{method} {members} in {}", pair.name());
            assert!([-32602, -32601, -32002].contains(&code), "{code} for {method} {members}");
        }
    }
}

#[test]
fn tp2_duplicate_members_evade_no_filter_if_a_relay_accepts_them() {
    for (method, members) in [
        ("tools/call", r#""name":"echo","name":"shell""#),
        ("tools/call", r#""name":"shell","na\u006de":"echo""#),
        ("resources/read", r#""uri":"note:1","uri":"secret:1""#),
        ("completion/complete", r#""ref":{"name":"review"},"ref":{"name":"shell"}"#),
        ("completion/complete", r#""ref":{"name":"review","name":"shell"}"#),
    ] {
        let change = |config: &mut Config| {
            config.filter = denying();
            config.strict_json = false;
        };
        for mut pair in RelayPair::all(change) {
            pair.ask(method, members);
            assert_eq!(error_of(&pair.only_line()).0, -32602, "{method} {members}");
            assert!(pair.asked().is_empty(), "{}", pair.name());
        }
    }
}

#[test]
fn the_answer_is_that_of_a_server_which_does_not_have_it() {
    for mut pair in pairs() {
        let not_found = if pair.client_era() == Era::Legacy { -32002 } else { -32602 };
        for (method, members, code, text) in [
            ("tools/call", r#""name":"shell""#, -32602, "unknown tool: it is not available here"),
            ("prompts/get", r#""name":"shell""#, -32602, "unknown prompt: it is not available here"),
            ("resources/read", r#""uri":"secret:1""#, not_found, "resource not found: it is not available here"),
        ] {
            pair.ask(method, members);
            let line = pair.only_line();
            assert_eq!(error_of(&line), (code, text.to_owned()), "{}", pair.name());
            assert_eq!(line.contains(r#""data":{"uri":"secret:1"}"#), method == "resources/read", "{line}");
        }
    }
}

#[test]
fn what_is_allowed_reaches_the_server_as_it_is() {
    for (method, members) in [
        ("tools/call", r#""name":"\u0065cho","arguments":{"name":"shell","n":1.0}"#),
        ("prompts/get", r#""name":"review","arguments":{ "a" : "shell"}"#),
        ("resources/read", r#""uri":"note:\u0031""#),
        (
            "completion/complete",
            r#""ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"shell","value":""}"#,
        ),
        ("completion/complete", r#""ref":{"type":"ref/resource","uri":"note://{id}"}"#),
        ("tools/list", r#""cursor":"shell""#),
        ("x/shell", r#""name":"shell""#),
    ] {
        for mut pair in pairs() {
            pair.ask(method, members);
            let asked = pair.asked();
            let [(asked_method, params)] = &asked[..] else { panic!("{asked:?} in {}", pair.name()) };
            assert_eq!(asked_method, method);
            assert!(params.to_text().contains(members), "{}", params.to_text());
            pair.answer(r#""x":1.0"#);
            assert_eq!(of_result(&pair.only_line(), "x"), "1.0");
        }
    }
}

#[test]
fn a_batch_is_filtered_one_by_one() {
    for is_http in [true, false] {
        let mut pair = RelayPair::open(Era::Legacy, Era::Legacy, is_http, |config| {
            config.filter = denying();
            config.versions.retain(|version| version.rules().batches);
        });
        let calls = ["echo", "shell"].map(|name| request("7", "tools/call", &format!(r#"{{"name":"{name}"}}"#)));
        pair.line(&format!("[{},{}]", calls[0], calls[1].replace(":7,", ":8,")));
        let names: Vec<_> = pair.asked().iter().map(|(_, params)| params.to_text().into_owned()).collect();
        assert!(!names.concat().contains("shell"), "{names:?}");
    }
}

#[test]
fn br_l_04_br_m_09_no_one_subscribes_to_what_is_denied() {
    for mut pair in pairs() {
        if pair.client_era() == Era::Legacy {
            for (method, uri) in [("resources/subscribe", "secret:1"), ("resources/unsubscribe", "secret:1")] {
                pair.ask(method, &format!(r#""uri":"{uri}""#));
                assert_eq!(error_of(&pair.only_line()).0, -32002, "{}", pair.name());
            }
            pair.ask("resources/subscribe", r#""uri":"note:1""#);
        } else {
            let filter = r#""notifications":{"resourceSubscriptions":["secret:1", "note:1","\u0073ecret:2",1]}"#;
            pair.ask("subscriptions/listen", &filter.replace(",1]", "]"));
        }
        let asked = pair.asked();
        let params: Vec<_> = asked.iter().map(|(_, params)| params.to_text()).collect();
        let text = params.concat();
        assert!(text.contains("note:1") && !text.contains("ecret:"), "{text} in {}", pair.name());
    }
    // A subscription without anything stays one.
    for is_http in [true, false] {
        let mut pair = RelayPair::open(Era::Modern, Era::Modern, is_http, |config| config.filter = denying());
        let filter = r#""notifications":{"toolsListChanged":true, "resourceSubscriptions":["secret:1"]}"#;
        pair.ask("subscriptions/listen", filter);
        let params = pair.asked()[0].1.to_text().into_owned();
        assert!(params.contains(r#"{"toolsListChanged":true, "resourceSubscriptions":[]}"#), "{params}");
    }
}

#[test]
fn the_acknowledgement_has_no_denied_resource() {
    for is_http in [true, false] {
        let mut pair = RelayPair::open(Era::Modern, Era::Legacy, is_http, |config| config.filter = denying());
        pair.ask("subscriptions/listen", r#""notifications":{"resourceSubscriptions":["secret:1","note:1"]}"#);
        assert_eq!(pair.asked().len(), 1);
        pair.answer("");
        let line = pair.only_line();
        assert!(line.contains("acknowledged") && line.contains(r#"["note:1"]"#), "{line}");
    }
}

#[test]
fn a_change_of_a_denied_resource_is_not_delivered() {
    for server in [Era::Legacy, Era::Modern] {
        for is_http in [true, false] {
            let mut pair = RelayPair::open(server, server, is_http, |config| config.filter = denying());
            let subscription = if server == Era::Modern {
                pair.ask("subscriptions/listen", r#""notifications":{"resourceSubscriptions":["note:1"]}"#);
                r#","_meta":{"io.modelcontextprotocol/subscriptionId":ID}"#.to_owned()
            } else {
                pair.ask("tools/call", r#""name":"echo""#);
                String::new()
            };
            pair.begin_stream();
            let subscription = subscription.replace("ID", &pair.id_of_oldest());
            for uri in
                [r#""uri":"secret:1""#, r#""uri":"\u0053ecret:1""#, r#""uri":"note:1","URI":"secret:1""#, r#""x":1"#]
            {
                pair.notify("notifications/resources/updated", &format!("{uri}{subscription}"));
            }
            assert_eq!(pair.received(), [""; 0], "{}", pair.name());
            pair.notify("notifications/resources/updated", &format!(r#""uri":"note:1"{subscription}"#));
            assert!(pair.only_line().contains(r#""uri":"note:1""#));
        }
    }
}

// ---- the gateway

fn rule(filter: &mut Filter, rule: Result<Rule, mcp_proto::UsageError>) {
    filter.add(rule.expect("a pattern"));
}

/// A gateway with the filter [`denying`], and with rules for the principal `ada`, who may use only `e*` and not `note:2`.
fn gateway(sharing: mcp_intermediary::gateway::Sharing) -> GatewayHarness {
    GatewayHarness::with(|config| {
        config.sharing = sharing;
        let filter = &mut config.relay.filter;
        *filter = denying();
        let ada = || Principal::new("ada");
        rule(filter, Rule::allow(TOOL, "e*").map(|rule| rule.for_principal(ada())));
        rule(filter, Rule::deny(RESOURCE, "note:2").map(|rule| rule.for_principal(ada())));
    })
}

const LISTED: &str = r#"{"tools":[{"name":"echo"},{"name":"shell"},{"name":"sum"}]}"#;

#[test]
fn a_gateway_filters_by_principal_in_every_kind_of_sharing() {
    use mcp_intermediary::gateway::Sharing;
    for sharing in [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared] {
        let mut gateway = gateway(sharing);
        let mut sessions = Vec::new();
        for principal in ["ada", "bob"] {
            let exchange =
                gateway.ask(&TestRequest::post(mcp_testkit::http_exchange::initialize("2025-11-25")).by(principal));
            let process = gateway.last_started();
            let line = gateway.lines(process).concat();
            if !line.is_empty() {
                let opened =
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"tools":{}}}"#;
                gateway.reply(process, &result(id_of(&line), opened));
            }
            let opened = gateway.responses.take(exchange);
            let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
            gateway.answer(&TestRequest::post(mcp_testkit::messages::INITIALIZED).by(principal).in_session(&id));
            gateway.lines(process);
            sessions.push((principal, id, process));
        }
        for (principal, id, process) in sessions {
            let is_ada = principal == "ada";
            let mut ask = |method: &str, params: &str| {
                let exchange =
                    gateway.ask(&TestRequest::post(request("7", method, params)).by(principal).in_session(&id));
                let line = gateway.lines(process).concat();
                if !line.is_empty() {
                    let answer = if method == "tools/list" { LISTED } else { "{}" };
                    gateway.reply(process, &result(id_of(&line), answer));
                }
                (!line.is_empty(), gateway.responses.take(exchange).text())
            };
            let listed =
                if is_ada { r#"{"tools":[{"name":"echo"}]}"# } else { r#"{"tools":[{"name":"echo"},{"name":"sum"}]}"# };
            assert_eq!(ask("tools/list", "{}"), (true, result("7", listed)), "{principal}, {sharing:?}");
            for (method, params, is_asked) in [
                ("tools/call", r#"{"name":"echo"}"#, true),
                ("tools/call", r#"{"name":"sum"}"#, !is_ada),
                ("tools/call", r#"{"name":"shell"}"#, false),
                ("resources/subscribe", r#"{"uri":"note:1"}"#, true),
                ("resources/subscribe", r#"{"uri":"note:2"}"#, !is_ada),
                ("resources/subscribe", r#"{"uri":"secret:1"}"#, false),
            ] {
                let (was_asked, answer) = ask(method, params);
                // A process that is shared is asked once for each resource.
                let is_asked = is_asked && !(sharing == Sharing::Shared && !is_ada && params.contains("note:1"));
                assert_eq!(was_asked, is_asked, "{method} {params} of {principal}, {sharing:?}");
                let is_refused = params.contains("secret")
                    || params.contains("shell")
                    || is_ada && (params.contains("sum") || params.contains("note:2"));
                assert_eq!(answer.contains("not available here"), is_refused, "{answer}");
            }
        }
    }
}

#[test]
fn stateless_requests_are_filtered_and_start_no_process() {
    let mut gateway = gateway(mcp_intermediary::gateway::Sharing::Shared);
    let call = |principal: &str, tool: &str| TestRequest::stateless_call("7", tool, "").by(principal);
    for (principal, tool) in [("ada", "shell"), ("bob", "shell"), ("ada", "sum")] {
        let answer = gateway.answer(&call(principal, tool)).text();
        assert!(answer.contains("-32602") && answer.contains("not available here"), "{answer}");
        assert_eq!(gateway.starts(), 0);
    }
    let opening = gateway.ask(&TestRequest::stateless("1", "server/discover", "").by("bob"));
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    gateway.reply(
        process,
        &result(
            id_of(&line),
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
        ),
    );
    gateway.responses.take(opening);
    for (principal, kept) in [("ada", r#"[{"name":"echo"}]"#), ("bob", r#"[{"name":"echo"},{"name":"sum"}]"#)] {
        let exchange = gateway.ask(&TestRequest::stateless("7", "tools/list", "").by(principal));
        let line = gateway.lines(process).concat();
        assert!(line.contains(META), "{line}");
        gateway.reply(process, &result(id_of(&line), LISTED));
        assert_eq!(gateway.responses.take(exchange).text(), result("7", &format!(r#"{{"tools":{kept}}}"#)));
        let listen = r#""notifications":{"resourceSubscriptions":["secret:1","note:1","note:2"]},"#;
        gateway.ask(&TestRequest::stateless("8", "subscriptions/listen", listen).by(principal));
        let line = gateway.lines(process).concat();
        let uris = if principal == "ada" { r#"["note:1"]"# } else { r#"["note:1","note:2"]"# };
        assert!(line.contains(&format!(r#""resourceSubscriptions":{uris}"#)), "{line}");
    }
}

#[test]
fn a_process_of_one_session_notifies_it_of_no_resource_that_its_principal_may_not_use() {
    let mut gateway = gateway(mcp_intermediary::gateway::Sharing::PerSession);
    for (principal, delivered) in [("ada", 1), ("bob", 2)] {
        let (id, process) = gateway.session_of("2025-11-25", Some(principal));
        let stream = gateway.ask(&TestRequest::get().by(principal).in_session(&id));
        for uri in ["note:1", "note:2", "secret:1"] {
            let params = format!(r#"{{"uri":"{uri}"}}"#);
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{params}}}"#);
            gateway.reply(process, &line);
        }
        let sent = gateway.responses.take(stream).data();
        let sent: Vec<_> = sent.iter().filter(|data| data.contains("resources/updated")).collect();
        assert_eq!(sent.len(), delivered, "{sent:?} to {principal}");
    }
}

// ---- patterns

/// Matches by trying every length for each `*`.
fn matches_naively(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skipped| matches_naively(rest, &text[skipped..])),
        Some(('?', rest)) => !text.is_empty() && matches_naively(rest, &text[1..]),
        Some((symbol, rest)) => text.first() == Some(symbol) && matches_naively(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn a_pattern_matches_what_a_naive_matcher_matches(pattern in "[ab?*]{1,9}", text in "[abc]{0,12}") {
        let [symbols, characters]: [Vec<char>; 2] = [pattern.chars().collect(), text.chars().collect()];
        let mut filter = Filter::new();
        filter.add(Rule::allow(TOOL, &pattern).expect("a pattern"));
        prop_assert_eq!(filter.allows(TOOL, &text, None), matches_naively(&symbols, &characters));
        let mut filter = Filter::new();
        filter.add(Rule::deny(TOOL, &pattern).expect("a pattern"));
        prop_assert_eq!(filter.allows(TOOL, &text.to_uppercase(), None), !matches_naively(&symbols, &characters));
    }

    #[test]
    fn a_filter_accepts_any_name_and_any_pattern(pattern in "\\PC{1,20}", name in any::<String>()) {
        for primitive in [TOOL, PROMPT, RESOURCE] {
            for rule in [Rule::allow(primitive, &pattern), Rule::deny(primitive, &pattern)] {
                let mut filter = Filter::new();
                match rule {
                    Ok(rule) => filter.add(rule),
                    // It can match no URI in canonical form.
                    Err(error) => prop_assert_eq!(primitive, RESOURCE, "{}", error),
                }
                let _ = filter.allows(primitive, &name, None);
                let _ = filter.allows_template(&name, None);
            }
        }
    }
}

/// What a relay forwards to a server, and what to a client, is never what is denied: names from an alphabet in which many are.
#[test]
fn no_denied_name_passes_in_either_direction() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    let pieces = proptest::collection::vec(prop_oneof!["s", "\\\\u0073", "S", "hell", "echo", "\\\\u0068ell"], 1..4);
    runner
        .run(&(pieces, 0..8_usize), |(pieces, pair)| {
            let name = pieces.concat();
            let eras = [Era::Legacy, Era::Modern];
            let mut pair =
                RelayPair::open(eras[pair % 2], eras[pair / 2 % 2], pair / 4 == 1, |config| config.filter = denying());
            let plain = json(&format!("\"{name}\"")).as_string().expect("text").to_lowercase();
            pair.ask("tools/call", &format!(r#""name":"{name}""#));
            prop_assert_eq!(pair.asked().is_empty(), plain == "shell");
            if plain != "shell" {
                pair.answer("");
            }
            pair.received();
            pair.ask("tools/list", "");
            pair.answer(&format!(r#""tools":[{{"name":"{name}"}}]"#));
            prop_assert_eq!(of_result(&pair.only_line(), "tools") == "[]", plain == "shell");
            Ok(())
        })
        .expect("the invariant");
}
