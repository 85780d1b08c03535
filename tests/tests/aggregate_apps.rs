//! Pages of MCP Apps behind an aggregate: each tool has the page of its own server, whatever others list.

use std::time::Duration;

use mcp_intermediary::aggregate::{Event, Prefix};
use mcp_intermediary::relay::{Filter, Rule};
use mcp_proto::spec::Primitive;
use mcp_proto::{Json, Method, ProtocolVersion};
use serde_json::{Value, json};
use tests::aggregate::{AggregateHarness, Offer, names};

const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];
/// The revisions of a client and of its servers.
const ERAS: [(&[ProtocolVersion], &[ProtocolVersion]); 4] =
    [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN)];
/// How long the client waits for one server.
const WAIT: Duration = Duration::from_secs(5);
/// The page of the tool `balance` of the server `bank`.
const PAGE: &str = "ui://bank/view";

/// The two forms of a link to a page.
fn links(uri: &str) -> [Value; 2] {
    [json!({ "ui": { "resourceUri": uri, "visibility": ["model", "app"] } }), json!({ "ui/resourceUri": uri })]
}

fn tool(name: &str, meta: &Value) -> String {
    json!({ "name": name, "inputSchema": { "type": "object" }, "_meta": meta }).to_string()
}

/// A server whose tool `balance` is linked to a page that it does not list.
fn bank(versions: &[ProtocolVersion], link: &Value) -> Offer {
    let mut bank = Offer::new(versions, &[]);
    bank.definitions = vec![tool("balance", link)];
    bank.unlisted = vec![PAGE.into()];
    bank
}

/// The servers that could supply the page, because they list it, have a template for it, or answer about anything.
fn others(versions: &[ProtocolVersion]) -> [Offer; 3] {
    let mut others = [(); 3].map(|()| Offer::new(versions, &["other"]));
    others[0].resources = vec![PAGE.into()];
    others[1].templates = vec!["ui://bank/{page}".into()];
    others[2].unlisted = vec![PAGE.into()];
    others
}

/// How often a server was asked for a resource.
fn reads_of(harness: &AggregateHarness, server: usize, uri: &str) -> usize {
    let requests = harness.servers[server].requests.iter();
    requests.filter(|(method, params)| method == "resources/read" && params.contains(&format!("\"{uri}\""))).count()
}

/// The server that a page is read at, with its answer.
fn read(harness: &mut AggregateHarness, uri: &str) -> Result<String, String> {
    let read = harness.ask("resources/read", &json!({ "uri": uri }).to_string())?;
    let read: Value = serde_json::from_str(&read).expect("JSON");
    Ok(read["contents"][0]["text"].as_str().expect("a text").to_owned())
}

/// Makes a request that may wait for a server that is late; returns the result, or the text of the error.
fn ask(harness: &mut AggregateHarness, method: &str, params: &Value) -> Result<String, String> {
    let request = harness.request(method, &params.to_string());
    harness.pass(WAIT);
    harness.outcome(request).expect("it waits no longer")
}

/// Makes each request that a client can make about a page; returns the results, or the texts of the errors.
fn ask_about_page(harness: &mut AggregateHarness, client: &[ProtocolVersion]) -> Vec<Result<String, String>> {
    let reference =
        json!({ "ref": { "type": "ref/resource", "uri": PAGE }, "argument": { "name": "n", "value": "v" } });
    let mut outcomes = vec![ask(harness, "completion/complete", &reference)];
    if client == LEGACY {
        outcomes.push(ask(harness, "resources/subscribe", &json!({ "uri": PAGE })));
    }
    outcomes.push(ask(harness, "resources/read", &json!({ "uri": PAGE })));
    outcomes
}

/// Subscribes to changes of a resource without a session; returns whether that was acknowledged.
fn listens(harness: &mut AggregateHarness, uri: &str) -> bool {
    let filter = Json::parse(json!({ "resourceSubscriptions": [uri] }).to_string()).expect("JSON");
    harness.client.listen(filter, harness.now).expect("a subscription");
    harness.settle();
    harness.pass(WAIT);
    harness.listening.last().expect("an acknowledgement").contains(uri)
}

/// Whether the process of a server has received anything about the page.
fn was_asked(harness: &AggregateHarness, server: usize) -> bool {
    String::from_utf8_lossy(&harness.servers[server].received).contains(PAGE)
}

/// What the tools of the aggregate state in `_meta`.
fn metas(harness: &mut AggregateHarness) -> Vec<Value> {
    let list: Value = serde_json::from_str(&harness.ask("tools/list", "{}").expect("a list")).expect("JSON");
    let tools = list["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["_meta"].clone()).collect()
}

#[test]
fn the_page_of_a_tool_is_read_at_its_server_whatever_others_list() {
    for (client, versions) in ERAS {
        for link in links(PAGE) {
            for other in others(versions) {
                for (is_first, is_listed) in [(true, true), (true, false), (false, true), (false, false)] {
                    let mut servers = vec![("bank", bank(versions, &link)), ("other", other.clone())];
                    if !is_first {
                        servers.reverse();
                    }
                    let mut harness = AggregateHarness::new(client, &servers);
                    harness.settle();
                    harness.ask("resources/list", "{}").expect("a list");
                    if is_listed {
                        harness.ask("tools/list", "{}").expect("a list");
                    }
                    let context = format!("{client:?} {versions:?} {link} {is_first} {is_listed}");
                    assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("bank"), "{context}");
                    assert_eq!(reads_of(&harness, usize::from(is_first), PAGE), 0, "{context}");
                }
            }
        }
    }
}

#[test]
fn a_page_to_which_no_tool_is_linked_is_read_only_at_a_server_that_lists_it() {
    for (client, versions) in ERAS {
        let [lists, has_template, has_any] = others(versions);
        for (other, expected) in [(lists, Some("other")), (has_template, Some("other")), (has_any, None)] {
            let mut harness = AggregateHarness::new(client, &[("a", Offer::new(versions, &["x"])), ("other", other)]);
            assert_eq!(read(&mut harness, PAGE).ok().as_deref(), expected, "{client:?} {versions:?}");
            let asked = usize::from(expected.is_some());
            assert_eq!([0, 1].map(|server| reads_of(&harness, server, PAGE)), [0, asked], "{client:?} {versions:?}");
        }
    }
}

/// Why the tools of the owner of a page are not known.
#[derive(Debug, Clone, Copy)]
enum Unknown {
    StartsLate,
    IsMissing,
    Exits,
    StartsAgain,
    ListsLate,
    HasChanged,
}

const UNKNOWN: [Unknown; 6] = [
    Unknown::StartsLate,
    Unknown::IsMissing,
    Unknown::Exits,
    Unknown::StartsAgain,
    Unknown::ListsLate,
    Unknown::HasChanged,
];

/// An aggregate of a bank whose tools are not known, and another server.
fn with_unknown_bank(
    client: &[ProtocolVersion],
    versions: &[ProtocolVersion],
    unknown: Unknown,
    other: &Offer,
    is_lazy: bool,
) -> AggregateHarness {
    let [link, _] = links(PAGE);
    let mut bank = bank(versions, &link);
    match unknown {
        Unknown::StartsLate => bank.is_silent = true,
        Unknown::IsMissing | Unknown::StartsAgain => bank.is_missing = true,
        Unknown::Exits => bank.is_broken = true,
        Unknown::ListsLate => bank.silent_for = vec!["tools/list"],
        Unknown::HasChanged => bank.definitions.clear(),
    }
    let servers = [("bank", bank), ("other", other.clone())];
    let mut harness = AggregateHarness::with(client, &servers, |config| config.lazy_tools = is_lazy.then(Filter::new));
    match unknown {
        Unknown::StartsAgain => {
            let offer = &mut harness.servers[0].offer;
            (offer.is_missing, offer.is_silent) = (false, true);
            harness.pass(Duration::from_secs(10));
            assert!(harness.is_running(0) && !harness.is_usable(0));
        }
        Unknown::HasChanged => {
            harness.ask("tools/list", "{}").expect("a list");
            let offer = &mut harness.servers[0].offer;
            (offer.definitions, offer.silent_for) = (vec![tool("balance", &link)], vec!["tools/list"]);
            harness.publish(0, &Method::TOOLS_LIST_CHANGED, "{}");
        }
        Unknown::StartsLate | Unknown::IsMissing | Unknown::Exits | Unknown::ListsLate => harness.pass(WAIT),
    }
    harness
}

/// The servers that could supply the page, and one that has it as a template.
fn others_and_one_with_a_template(versions: &[ProtocolVersion]) -> Vec<Offer> {
    let mut is_template = Offer::new(versions, &["other"]);
    is_template.templates = vec![PAGE.into()];
    others(versions).into_iter().chain([is_template]).collect()
}

#[test]
fn a_page_is_requested_of_no_server_while_one_has_not_listed_its_tools() {
    for (client, versions) in ERAS {
        for unknown in UNKNOWN {
            for (number, other) in others_and_one_with_a_template(versions).iter().enumerate() {
                for (is_lazy, is_listed) in [(false, false), (false, true), (true, false), (true, true)] {
                    let context = format!("{client:?} {versions:?} {unknown:?} {number} {is_lazy} {is_listed}");
                    let mut harness = with_unknown_bank(client, versions, unknown, other, is_lazy);
                    if is_listed {
                        for list in ["tools/list", "resources/list", "resources/templates/list"] {
                            ask(&mut harness, list, &json!({})).expect("a list");
                        }
                    }
                    for outcome in ask_about_page(&mut harness, client) {
                        let error = outcome.expect_err(&context);
                        assert!(error.contains("the server 'bank' has not listed"), "{context}: {error}");
                    }
                    if client == MODERN {
                        assert!(!listens(&mut harness, PAGE), "{context}");
                    }
                    assert!(!was_asked(&harness, 1), "{context}");
                    let offer = &mut harness.servers[0].offer;
                    (offer.is_missing, offer.is_broken) = (false, false);
                    harness.speak(0);
                    harness.answer_all(0);
                    harness.pass(Duration::from_secs(60));
                    for outcome in ask_about_page(&mut harness, client) {
                        assert!(!outcome.expect(&context).contains("other"), "{context}");
                    }
                    if client == MODERN {
                        assert!(listens(&mut harness, PAGE), "{context}");
                    }
                    assert!(was_asked(&harness, 0) && !was_asked(&harness, 1), "{context}");
                }
            }
        }
    }
}

#[test]
fn a_known_page_and_other_resources_do_not_depend_on_a_server_that_has_not_listed_its_tools() {
    for (client, versions) in ERAS {
        let [link, _] = links(PAGE);
        let mut bank = bank(versions, &link);
        bank.resources = vec!["x:1".into()];
        let mut missing = Offer::new(versions, &["x"]);
        missing.is_missing = true;
        let mut harness = AggregateHarness::new(client, &[("missing", missing), ("bank", bank)]);
        for outcome in ask_about_page(&mut harness, client) {
            outcome.unwrap_or_else(|error| panic!("{client:?} {versions:?}: {error}"));
        }
        for uri in [PAGE, "x:1"] {
            assert_eq!(read(&mut harness, uri).as_deref(), Ok("bank"), "{client:?} {versions:?}");
            assert!(client == LEGACY || listens(&mut harness, uri), "{client:?} {versions:?} {uri}");
        }
    }
}

#[test]
fn a_page_is_requested_of_no_server_while_the_tools_of_one_were_read_only_in_part() {
    for (client, versions) in ERAS {
        for other in others(versions) {
            let mut bank = bank(versions, &links(PAGE)[0]);
            (bank.tools, bank.page) = ((0..300).map(|number| format!("t{number}")).collect(), 1);
            let mut harness = AggregateHarness::new(client, &[("bank", bank), ("other", other)]);
            for outcome in ask_about_page(&mut harness, client) {
                let error = outcome.expect_err("there is a tool that is not known");
                assert!(error.contains("the server 'bank' has not listed what it has"), "{error}");
            }
            assert_eq!(reads_of(&harness, 1, PAGE), 0, "{client:?} {versions:?}");
            harness.read_to_end("tools/list", WAIT);
            assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("bank"), "{client:?} {versions:?}");
        }
    }
}

#[test]
fn a_page_to_which_no_tool_is_linked_depends_on_no_server_whose_tools_are_known() {
    for (client, versions) in ERAS {
        let mut is_template = Offer::new(versions, &["other"]);
        (is_template.templates, is_template.resources) = (vec![PAGE.into()], vec![PAGE.into()]);
        let mut has_none = Offer::new(versions, &[]);
        has_none.capabilities = r#"{"resources":{}}"#;
        let servers = [("listed", Offer::new(versions, &["x"])), ("none", has_none), ("other", is_template)];
        let mut harness = AggregateHarness::new(client, &servers);
        let asserts = |harness: &mut AggregateHarness| {
            for outcome in ask_about_page(harness, client) {
                outcome.unwrap_or_else(|error| panic!("{client:?} {versions:?}: {error}"));
            }
            assert_eq!(read(harness, PAGE).as_deref(), Ok("other"), "{client:?} {versions:?}");
        };
        asserts(&mut harness);
        // Servers whose tools were read, and one that is known to have none, do not run any more.
        for server in [0, 1] {
            harness.servers[server].offer.is_broken = true;
            harness.exit(server);
        }
        asserts(&mut harness);
        if client == MODERN {
            assert!(listens(&mut harness, PAGE), "{versions:?}");
        }
        assert!(was_asked(&harness, 2), "{client:?} {versions:?}");
    }
}

#[test]
fn a_tool_is_listed_without_a_link_to_the_page_of_another_server() {
    for (client, versions) in ERAS {
        let [one, other] = links(PAGE);
        let mut other = bank(versions, &other);
        other.definitions.push(tool("both", &json!({ "ui/resourceUri": "ui://own", "ui": { "resourceUri": PAGE } })));
        other.definitions.push(tool("own", &json!({ "ui": { "resourceUri": "ui://own" } })));
        let servers = [("a", bank(versions, &one)), ("b", other)];
        let mut harness = AggregateHarness::new(client, &servers);
        for _ in 0..2 {
            let own = json!({ "ui": { "resourceUri": "ui://own" } });
            assert_eq!(
                metas(&mut harness),
                [one.clone(), json!({}), json!({ "ui": {} }), own],
                "{client:?} {versions:?}"
            );
            assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("a"), "{client:?} {versions:?}");
            let same = |event: &&Event| matches!(event, Event::SamePage { owner, other } if (owner.index(), other.index()) == (0, 1));
            assert_eq!(harness.events.iter().filter(same).count(), 1, "both are named once");
        }
        harness.servers[0].offer.definitions.clear();
        harness.ask("tools/list", "{}").expect("a list");
        let [_, link] = links(PAGE);
        assert_eq!(metas(&mut harness).first(), Some(&link), "the tool of the other one has the page now");
        assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("b"), "{client:?} {versions:?}");
    }
}

#[test]
fn a_server_that_links_later_to_the_page_of_another_one_does_not_take_it() {
    for (client, versions) in ERAS {
        let [link, _] = links(PAGE);
        let mut evil = others(versions)[2].clone();
        let mut harness = AggregateHarness::new(client, &[("evil", evil.clone()), ("bank", bank(versions, &link))]);
        assert_eq!(metas(&mut harness), [Value::Null, link.clone()]);
        evil.definitions = vec![tool("show", &link)];
        harness.servers[0].offer = evil;
        harness.publish(0, &Method::TOOLS_LIST_CHANGED, "{}");
        // Neither does it while its owner is started again.
        harness.exit(1);
        assert!(read(&mut harness, PAGE).is_err(), "{client:?} {versions:?}");
        harness.pass(Duration::from_secs(40));
        assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("bank"), "{client:?} {versions:?}");
        assert_eq!(metas(&mut harness), [Value::Null, json!({ "ui": { "visibility": ["model", "app"] } }), link]);
        assert_eq!(reads_of(&harness, 0, PAGE), 0, "{client:?} {versions:?}");
    }
}

#[test]
fn a_link_that_a_server_adds_later_counts_before_the_lists_of_others() {
    for (client, is_restarted) in [(LEGACY, false), (LEGACY, true), (MODERN, false), (MODERN, true)] {
        let [lists, ..] = others(LEGACY);
        let mut harness = AggregateHarness::new(client, &[("a", lists), ("bank", Offer::new(LEGACY, &["x"]))]);
        harness.ask("tools/list", "{}").expect("a list");
        assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("a"));
        let [link, _] = links(PAGE);
        harness.servers[1].offer = bank(LEGACY, &link);
        if is_restarted {
            harness.exit(1);
            harness.pass(Duration::from_secs(40));
        } else {
            harness.publish(1, &Method::TOOLS_LIST_CHANGED, "{}");
        }
        assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("bank"), "{client:?} {is_restarted}");
    }
}

#[test]
fn the_list_of_resources_has_the_page_of_the_tool_and_is_announced_when_it_is_known() {
    for (client, versions) in ERAS {
        let [lists, ..] = others(versions);
        let [link, _] = links(PAGE);
        let mut bank = bank(versions, &link);
        (bank.resources, bank.unlisted) = (vec![PAGE.into(), "x:bank".into()], Vec::new());
        let mut harness = AggregateHarness::new(client, &[("a", lists), ("bank", bank)]);
        if client == MODERN {
            let filter = Json::parse(r#"{"resourcesListChanged":true}"#).expect("JSON");
            harness.client.listen(filter, harness.now).expect("a subscription");
            harness.settle();
        }
        harness.pass(Duration::from_secs(2));
        harness.take_notified(&Method::RESOURCES_LIST_CHANGED);
        harness.ask("resources/list", "{}").expect("a list");
        for announced in [1, 0] {
            harness.ask("tools/list", "{}").expect("a list");
            harness.pass(Duration::from_secs(2));
            assert_eq!(harness.take_notified(&Method::RESOURCES_LIST_CHANGED), announced, "{client:?} {versions:?}");
            // Only the server of the tool has it in its list, which may state what the page is permitted.
            harness.servers[0].offer.resources.push("x:a".into());
            let list = harness.ask("resources/list", "{}").expect("a list");
            let listed = names(&list, "resources", "uri");
            assert_eq!(listed.iter().filter(|uri| *uri == PAGE).count(), 1, "{listed:?}");
            assert_eq!(listed.last().map(String::as_str), Some("x:bank"));
            assert_eq!(listed.iter().rev().nth(1).map(String::as_str), Some(PAGE), "{listed:?}");
        }
    }
}

#[test]
fn a_tool_that_a_filter_hides_or_a_name_of_another_server_has_no_page() {
    for (client, versions) in ERAS {
        let [link, _] = links(PAGE);
        let mut hidden = bank(versions, &link);
        hidden.definitions = vec![tool("hidden", &link), tool("b__named", &link)];
        let servers = [("a", hidden), ("b", bank(versions, &link))];
        let mut deny = Filter::new();
        deny.add(Rule::deny(Primitive::Tool, "hidden").expect("a pattern"));
        let mut harness = AggregateHarness::with(client, &servers, |config| {
            config.servers[0].relay.filter = deny;
            config.servers[0].prefix = Prefix::Off;
        });
        assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("b"), "{client:?} {versions:?}");
        assert_eq!(metas(&mut harness), [link]);
        // The tool that had the page is hidden now.
        let mut filters = [Filter::new(), Filter::new()];
        filters[1].add(Rule::deny(Primitive::Tool, "*").expect("a pattern"));
        for (server, filter) in filters.into_iter().enumerate() {
            harness.aggregate.set_filter(harness.server_key(server), filter, harness.now);
        }
        harness.settle();
        metas(&mut harness);
        assert_eq!(read(&mut harness, PAGE).as_deref(), Ok("a"), "{client:?} {versions:?}");
    }
}

#[test]
fn only_the_server_of_a_page_states_that_it_has_changed() {
    for (client, versions) in ERAS {
        let [lists, ..] = others(versions);
        let [link, _] = links(PAGE);
        let mut harness = AggregateHarness::new(client, &[("a", lists), ("bank", bank(versions, &link))]);
        harness.ask("resources/list", "{}").expect("a list");
        harness.ask("tools/list", "{}").expect("a list");
        let uri = json!({ "uri": PAGE }).to_string();
        if client == MODERN {
            let filter = Json::parse(json!({ "resourceSubscriptions": [PAGE] }).to_string()).expect("JSON");
            harness.client.listen(filter, harness.now).expect("a subscription");
            harness.settle();
        } else {
            harness.ask("resources/subscribe", &uri).expect("a subscription");
        }
        harness.publish(0, &Method::RESOURCES_UPDATED, &uri);
        assert_eq!(harness.take_notified(&Method::RESOURCES_UPDATED), 0, "{client:?} {versions:?}");
        harness.publish(1, &Method::RESOURCES_UPDATED, &uri);
        assert_eq!(harness.take_notified(&Method::RESOURCES_UPDATED), 1, "{client:?} {versions:?}");
    }
}
