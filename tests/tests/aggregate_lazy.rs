//! An aggregate that lists two tools in the place of all: one that searches, and one that calls.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_intermediary::aggregate::Prefix;
use mcp_intermediary::relay::{Filter, Rule};
use mcp_proto::spec::Primitive;
use mcp_proto::{Method, ProtocolVersion};
use serde_json::{Value, json};
use tests::aggregate::{AggregateHarness, Offer};

const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];
/// The revisions of the client and of the servers.
const ERAS: [(&[ProtocolVersion], &[ProtocolVersion]); 4] =
    [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, MODERN), (MODERN, LEGACY)];

/// Real tools, one on each line: server, name, description and names of arguments, separated by tabs.
const TOOLS: &str = include_str!("../vectors/tools.tsv");
/// What a model may look for, and the tools that are meant, separated by a tab.
const QUERIES: &str = include_str!("../vectors/tool-queries.tsv");

/// The filter that keeps tools listed whose names match one of these patterns.
fn listed(patterns: &[&str]) -> Filter {
    let mut filter = Filter::new();
    if patterns.is_empty() {
        filter.add(Rule::deny(Primitive::Tool, "*").expect("a pattern"));
    }
    for pattern in patterns {
        filter.add(Rule::allow(Primitive::Tool, pattern).expect("a pattern"));
    }
    filter
}

fn tool(name: &str, description: &str, arguments: &[&str]) -> String {
    let properties: BTreeMap<_, _> = arguments.iter().map(|name| (*name, json!({ "type": "string" }))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    json!({ "name": name, "description": description, "inputSchema": schema }).to_string()
}

/// An aggregate of servers `a` and `b` with some tools.
fn two(client: &[ProtocolVersion], versions: &[ProtocolVersion], patterns: &[&str]) -> AggregateHarness {
    let mut a = Offer::new(versions, &["slow", "ask", "progress", "exit"]);
    a.definitions = vec![tool("create_issue", "Opens an issue", &["title"]), tool("list_issues", "Lists issues", &[])];
    let mut b = Offer::new(versions, &[]);
    b.definitions = vec![tool("send_mail", "Sends a message", &["recipient"])];
    let mut harness = AggregateHarness::with(client, &[("a", a), ("b", b)], |config| {
        config.lazy_tools = Some(listed(patterns));
    });
    harness.settle();
    harness
}

/// The structured result of a search, whose text is the same.
fn search(harness: &mut AggregateHarness, arguments: &Value) -> Value {
    let params = json!({ "name": "search_tools", "arguments": arguments }).to_string();
    let result: Value = serde_json::from_str(&harness.ask("tools/call", &params).expect("a result")).expect("JSON");
    let text = result["content"][0]["text"].as_str().expect("a text");
    let structured = result["structuredContent"].clone();
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), structured);
    structured
}

fn found(harness: &mut AggregateHarness, query: &str) -> Vec<String> {
    let found = search(harness, &json!({ "query": query }));
    let tools = found["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

fn call(harness: &mut AggregateHarness, name: &str, arguments: &str) -> Result<String, String> {
    harness.call("call_tool", &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#))
}

/// How often each server was asked for its tools.
fn lists(harness: &AggregateHarness) -> Vec<usize> {
    let of_server = |server: &tests::aggregate::TestServer| {
        server.requests.iter().filter(|(method, _)| method == "tools/list").count()
    };
    harness.servers.iter().map(of_server).collect()
}

#[test]
fn two_tools_are_listed_in_the_place_of_all_and_those_that_a_pattern_names() {
    for (client, versions) in ERAS {
        for (patterns, more) in [(&[][..], &[][..]), (&["b__*", "*__list_*"], &["a__list_issues", "b__send_mail"])] {
            let mut harness = two(client, versions, patterns);
            let tools = harness.tools();
            assert_eq!(tools[..2], ["search_tools", "call_tool"], "{client:?} {versions:?}");
            assert_eq!(tools[2..], *more, "{client:?} {versions:?}");
        }
    }
}

#[test]
fn a_search_returns_the_definitions_that_match_best() {
    for (client, versions) in ERAS {
        let mut harness = two(client, versions, &[]);
        assert_eq!(found(&mut harness, "issues"), ["a__list_issues", "a__create_issue"], "{client:?} {versions:?}");
        let result = search(&mut harness, &json!({ "query": "open an issue", "limit": 1 }));
        let schema = json!({ "type": "object", "properties": { "title": { "type": "string" } } });
        let definition = json!({ "name": "a__create_issue", "description": "Opens an issue", "inputSchema": schema });
        assert_eq!(result, json!({ "tools": [definition] }));
        assert_eq!(found(&mut harness, "RECIPIENT"), ["b__send_mail"], "arguments are searched, too");
        assert_eq!(found(&mut harness, "unrelated words"), [""; 0]);
        assert_eq!(lists(&harness), [1, 1], "lists are read once");
        for (arguments, reason) in [
            (json!({}), "query must be a string"),
            (json!({ "query": 7 }), "query must be a string"),
            (json!({ "query": "x", "limit": 0 }), "limit must be a number from 1 to 50"),
            (json!({ "query": "x", "limit": 51 }), "limit must be a number from 1 to 50"),
            (json!({ "query": "x", "limit": "7" }), "limit must be a number from 1 to 50"),
        ] {
            assert_eq!(harness.call("search_tools", &arguments.to_string()).as_deref(), Ok(reason), "{arguments}");
        }
    }
}

#[test]
fn a_call_of_a_tool_that_was_found_is_a_call_of_that_tool() {
    for (client, versions) in ERAS {
        let mut harness = two(client, versions, &[]);
        let idle = harness.aggregate.load();
        let arguments = r#"{"n":1.0,"u":"\u00e9"}"#;
        assert_eq!(call(&mut harness, "a__list_issues", arguments), Ok(format!("a list_issues {arguments}")));
        let without = harness.call("call_tool", r#"{"name":"b__send_mail"}"#);
        assert_eq!(without, Ok("b send_mail {}".into()), "without arguments");
        // Progress, and a question during the call.
        assert_eq!(call(&mut harness, "a__progress", "{}"), Ok("a progress".into()));
        assert!(matches!(&harness.progress[..], [(_, one)] if one.contains("0.5")), "{:?}", harness.progress);
        assert_eq!(call(&mut harness, "a__ask", "{}"), Ok("a true".into()), "{client:?} {versions:?}");
        // Cancellation.
        let params = r#"{"name":"call_tool","arguments":{"name":"a__slow","arguments":{}}}"#;
        let slow = harness.request("tools/call", params);
        harness.client.cancel(slow, None, harness.now);
        harness.settle();
        assert_eq!(harness.servers[0].cancelled, 1, "{client:?} {versions:?}");
        // The end of the server.
        let error = call(&mut harness, "a__exit", "{}").expect_err("it has ended");
        assert!(error.contains("the server 'a'"), "{error}");
        harness.pass(Duration::from_secs(40));
        assert_eq!(harness.aggregate.load().requests_in, idle.requests_in);
        // What is not the name of a tool.
        for (name, reason) in [
            ("a__other", "no server has a tool of this name; search_tools finds the names of tools"),
            ("other", "no server has a tool of this name; search_tools finds the names of tools"),
            ("call_tool", "no server has a tool of this name; search_tools finds the names of tools"),
        ] {
            let params = format!(r#"{{"name":"call_tool","arguments":{{"name":"{name}"}}}}"#);
            let result: Value =
                serde_json::from_str(&harness.ask("tools/call", &params).expect("a result")).expect("JSON");
            assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!(reason)), "{name}");
        }
        let wrong = harness.call("call_tool", r#"{"name":7}"#);
        assert!(wrong.is_ok_and(|text| text.starts_with("name must be a string")));
        let called: Vec<_> = harness.servers[0].called();
        assert!(!called.iter().any(|name| name == "other"), "{called:?}");
    }
}

#[test]
fn a_search_follows_the_lists_of_servers() {
    for (client, versions) in ERAS {
        let mut harness = two(client, versions, &[]);
        assert_eq!(found(&mut harness, "delete"), [""; 0]);
        harness.servers[1].offer.definitions.push(tool("delete_mail", "Removes a message", &[]));
        harness.publish(1, &Method::TOOLS_LIST_CHANGED, "{}");
        assert_eq!(found(&mut harness, "delete"), ["b__delete_mail"], "{client:?} {versions:?}");
        assert_eq!(lists(&harness), [1, 2], "only the list that has changed is read again");
        assert_eq!(call(&mut harness, "b__delete_mail", "{}"), Ok("b delete_mail {}".into()));
        // A server that is not running is not found, and has another list when it is there again.
        harness.servers[1].offer.is_broken = true;
        harness.exit(1);
        assert_eq!(found(&mut harness, "delete mail"), [""; 0], "{client:?} {versions:?}");
        harness.servers[1].offer.is_broken = false;
        harness.servers[1].offer.definitions.remove(0);
        harness.pass(Duration::from_secs(40));
        assert_eq!(found(&mut harness, "mail"), ["b__delete_mail"]);
        let held = harness.aggregate.load().held;
        harness.close();
        assert!(harness.aggregate.load().held < held, "nothing is kept after the end");
    }
}

#[test]
fn a_search_follows_the_filters_of_servers() {
    for (client, versions) in ERAS {
        let mut harness = two(client, versions, &[]);
        let before = found(&mut harness, "mail");
        assert!(before.iter().all(|name| name.starts_with("b__")) && !before.is_empty(), "{before:?}");
        let mut filter = Filter::new();
        filter.add(Rule::deny(Primitive::Tool, "*").expect("a pattern"));
        let server = harness.aggregate.server_named("b").expect("a server");
        for (filter, expected) in [(filter, Vec::new()), (Filter::new(), before.clone())] {
            harness.aggregate.set_filter(server, filter, harness.now);
            harness.settle();
            assert_eq!(found(&mut harness, "mail"), expected, "{client:?} {versions:?}");
        }
    }
}

#[test]
fn a_search_waits_once_for_a_server_that_hangs() {
    for (client, versions) in ERAS {
        let mut harness = two(client, versions, &[]);
        harness.servers[0].offer.silent_for = vec!["tools/list"];
        let params = r#"{"name":"search_tools","arguments":{"query":"mail issue"}}"#;
        let request = harness.request("tools/call", params);
        harness.pass(Duration::from_secs(6));
        let result = harness.outcome(request).expect("it waits no longer").expect("a result");
        assert!(result.contains("b__send_mail") && !result.contains("a__"), "{result}");
        assert_eq!(found(&mut harness, "mail issue"), ["b__send_mail"], "at once");
        harness.answer_all(0);
        assert_eq!(found(&mut harness, "issue").len(), 2, "{client:?} {versions:?}");
        // A search that is cancelled.
        let mut harness = two(client, versions, &[]);
        harness.servers[0].offer.silent_for = vec!["tools/list"];
        let (before, idle) = (harness.servers[0].cancelled, harness.aggregate.load());
        let request = harness.request("tools/call", params);
        assert!(harness.aggregate.load().waiting > idle.waiting);
        harness.client.cancel(request, None, harness.now);
        harness.settle();
        let load = harness.aggregate.load();
        assert_eq!(harness.servers[0].cancelled, before + 1, "{client:?} {versions:?}");
        assert_eq!((load.requests_in, load.waiting), (idle.requests_in, idle.waiting), "{client:?} {versions:?}");
    }
}

/// Who may call a tool is in `_meta.ui.visibility` (SEP-1865).
#[test]
fn tools_that_are_not_for_the_model_are_neither_found_nor_called_for_it_and_those_of_pages_are_listed() {
    for (client, versions) in ERAS {
        let mut a = Offer::new(versions, &[]);
        a.definitions = [
            ("mail_usual", json!({})),
            ("mail_both", json!({ "ui": { "visibility": ["app", "model"] } })),
            ("mail_model", json!({ "ui": { "visibility": ["model"] } })),
            ("mail_page", json!({ "ui": { "visibility": ["app"], "resourceUri": "ui://a" } })),
            ("mail_nobody", json!({ "ui": { "visibility": [] } })),
            ("mail_unreadable", json!({ "ui": { "visibility": "model" } })),
        ]
        .map(|(name, meta)| json!({ "name": name, "inputSchema": { "type": "object" }, "_meta": meta }).to_string())
        .to_vec();
        for patterns in [&[][..], &["*nobody", "*mail_model"]] {
            let mut harness = AggregateHarness::with(client, &[("a", a.clone())], |config| {
                config.lazy_tools = Some(listed(patterns));
            });
            let pages_and_patterns = match patterns {
                [] => vec!["a__mail_page"],
                _ => vec!["a__mail_model", "a__mail_page", "a__mail_nobody"],
            };
            for is_listed in [false, true] {
                let mut names = found(&mut harness, "mail");
                names.sort_unstable();
                assert_eq!(names, ["a__mail_both", "a__mail_model", "a__mail_usual"], "{client:?} {versions:?}");
                for name in ["a__mail_page", "a__mail_nobody", "a__mail_unreadable"] {
                    let result = call(&mut harness, name, "{}").expect("a result");
                    assert!(result.starts_with("no server has a tool of this name"), "{name} {is_listed}: {result}");
                }
                assert_eq!(harness.tools()[2..], pages_and_patterns, "{client:?} {versions:?}");
            }
            assert_eq!(harness.servers[0].called(), [""; 0]);
            assert_eq!(call(&mut harness, "a__mail_both", "{}"), Ok("a mail_both {}".into()));
            // What a page calls, the host calls by its name.
            assert_eq!(harness.call("a__mail_page", "{}"), Ok("a mail_page {}".into()), "{client:?} {versions:?}");
        }
    }
}

/// A call without a search reads the list first.
#[test]
fn a_tool_that_only_pages_call_is_not_called_for_the_model_before_its_list_was_read() {
    for (client, versions) in ERAS {
        let mut a = Offer::new(versions, &[]);
        let meta = json!({ "ui": { "visibility": ["app"] } });
        a.definitions = vec![json!({ "name": "x", "inputSchema": { "type": "object" }, "_meta": meta }).to_string()];
        let mut harness = AggregateHarness::with(client, &[("a", a)], |config| config.lazy_tools = Some(listed(&[])));
        let result = call(&mut harness, "a__x", "{}").expect("a result");
        assert!(result.starts_with("no server has a tool of this name"), "{client:?} {versions:?}: {result}");
        // The tool is for both now.
        harness.servers[0].offer.definitions = vec![tool("x", "", &[])];
        harness.publish(0, &Method::TOOLS_LIST_CHANGED, "{}");
        assert_eq!(call(&mut harness, "a__x", "{}"), Ok("a x {}".into()), "{client:?} {versions:?}");
    }
}

#[test]
fn no_server_has_the_names_of_the_two_tools() {
    let [a, b] = ["a", "b"].map(|_| Offer::new(MODERN, &["search_tools", "call_tool", "x"]));
    let mut harness = AggregateHarness::with(MODERN, &[("a", a), ("b", b)], |config| {
        config.lazy_tools = Some(listed(&["*"]));
        config.servers[0].prefix = Prefix::Off;
    });
    let expected = ["search_tools", "call_tool", "x", "b__search_tools", "b__call_tool", "b__x"];
    assert_eq!(harness.tools(), expected);
    harness.call("search_tools", r#"{"query":"x"}"#).expect("a result");
    assert_eq!(harness.servers[0].called(), [""; 0]);
}

#[test]
fn a_search_finds_what_models_look_for_among_real_tools() {
    let mut servers = BTreeMap::<&str, Vec<String>>::new();
    for line in TOOLS.lines() {
        let [server, name, description, arguments] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let arguments: Vec<_> = arguments.split(',').filter(|name| !name.is_empty()).collect();
        servers.entry(server).or_default().push(tool(name, description, &arguments));
    }
    let count: usize = servers.values().map(Vec::len).sum();
    let offers: Vec<_> = servers
        .into_iter()
        .map(|(name, definitions)| {
            let mut offer = Offer::new(MODERN, &[]);
            offer.definitions = definitions;
            (name, offer)
        })
        .collect();
    let mut harness = AggregateHarness::with(MODERN, &offers, |config| {
        config.lazy_tools = Some(listed(&[]));
        config.relay.limits.backends = 200;
    });
    let (mut first, mut in_five, mut all, mut missed) = (0, 0, 0, Vec::new());
    for line in QUERIES.lines() {
        let (query, expected) = line.split_once('\t').expect("a tool");
        let names = found(&mut harness, query);
        let at = names.iter().position(|name| expected.split('|').any(|tool| tool == name));
        all += 1;
        first += usize::from(at == Some(0));
        in_five += usize::from(at.is_some_and(|at| at < 5));
        if at.is_none_or(|at| at >= 5) {
            missed.push(format!("{query}: {at:?} {names:?}"));
        }
    }
    println!("{count} tools, {all} queries: {first} first, {in_five} among the first five");
    assert!(count >= 500 && all >= 60, "{count} {all}");
    assert!(in_five * 100 >= all * 95 && first * 100 >= all * 80, "{first} and {in_five} of {all}: {missed:#?}");
}
