//! Servers of an aggregate that are slow, silent, endless or hostile: what they do costs the others nothing, and reaches no
//! call of others.

use std::time::Duration;

use mcp_intermediary::aggregate::Event;
use mcp_proto::{Json, Method, Notification, ProtocolVersion};
use tests::aggregate::{AggregateHarness, Offer, names};

const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];
/// The revisions of a client and of its servers.
const ERAS: [(&[ProtocolVersion], &[ProtocolVersion]); 4] =
    [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN)];
/// How long the client waits for one server.
const WAIT: Duration = Duration::from_secs(5);
/// Longer than the time between two notifications of changes of one list.
const INTERVAL: Duration = Duration::from_secs(2);

/// Subscribes to changes of the list of tools, if the client is one that has to.
fn watch_tools(harness: &mut AggregateHarness, client: &[ProtocolVersion]) {
    if client == MODERN {
        let filter = Json::parse(r#"{"toolsListChanged":true}"#).expect("JSON");
        harness.client.listen(filter, harness.now).expect("a subscription");
        harness.settle();
    }
}

/// The names of the tools, which must be listed without a wait.
fn tools_at_once(harness: &mut AggregateHarness) -> Vec<String> {
    let (tools, longest) = harness.read_to_end("tools/list", WAIT * 2);
    assert_eq!(longest, Duration::ZERO, "the list waits");
    tools
}

/// How often such an event was reported.
fn count(harness: &AggregateHarness, is_meant: impl Fn(&Event) -> bool) -> usize {
    harness.events.iter().filter(|event| is_meant(event)).count()
}

fn is_late(event: &Event, of: usize, for_method: &Method) -> bool {
    matches!(event, Event::Late { server, method } if server.index() == of && method == for_method)
}

#[test]
fn a_list_without_end_hides_no_tools_of_other_servers() {
    for ((client, versions), message) in ERAS.into_iter().zip([4096, 16 << 20, 16 << 20, 4096]) {
        let mut endless = Offer::new(versions, &[]);
        endless.is_endless = true;
        let [b, c] = [30, 2].map(|count| {
            let tools: Vec<_> = (0..count).map(|number| format!("t{number}")).collect();
            let tools: Vec<_> = tools.iter().map(String::as_str).collect();
            let mut offer = Offer::new(versions, &tools);
            offer.page = 4;
            offer
        });
        let servers = [("a", endless), ("b", b), ("c", c)];
        let mut harness = AggregateHarness::with(client, &servers, |config| config.relay.limits.message = message);
        let first = harness.ask("tools/list", "{}").expect("a list");
        let first = names(&first, "tools", "name");
        assert!(first.contains(&"b__t0".to_owned()) && first.contains(&"c__t1".to_owned()), "{first:?}");

        let mut tools = tools_at_once(&mut harness);
        let of_endless = tools.iter().filter(|tool| tool.starts_with("a__")).count();
        assert_eq!(of_endless, 1024, "{client:?} {versions:?}");
        tools.retain(|tool| !tool.starts_with("a__"));
        assert_eq!(tools.len(), 32, "each tool of the others once: {tools:?}");
        assert!((0..30).all(|number| tools.contains(&format!("b__t{number}"))), "{tools:?}");
        let too_long = count(
            &harness,
            |event| matches!(event, Event::ListTooLong { server, method } if server.index() == 0 && *method == Method::TOOLS_LIST),
        );
        assert_eq!(too_long, 1, "it is named");
        assert_eq!(harness.aggregate.load().held, AggregateHarness::new(client, &servers).aggregate.load().held);
    }
}

#[test]
fn large_pages_of_one_server_do_not_displace_those_of_others() {
    for (client, versions) in ERAS {
        let tools: Vec<_> = (0..6).map(|number| format!("t{number}")).collect();
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        let [mut a, mut b] = [Offer::new(versions, &tools), Offer::new(versions, &tools)];
        (a.page, a.description, b.page) = (1, 3000, 2);
        let servers = [("a", a), ("b", b)];
        let mut harness = AggregateHarness::with(client, &servers, |config| config.relay.limits.message = 4096);
        let first = harness.ask("tools/list", "{}").expect("a list");
        assert_eq!(names(&first, "tools", "name"), ["a__t0"], "one page is larger than an answer should be");
        let cursor = tests::aggregate::member(&first, "nextCursor");
        let second = harness.ask("tools/list", &format!(r#"{{"cursor":"{cursor}"}}"#)).expect("a list");
        assert!(names(&second, "tools", "name").contains(&"b__t0".to_owned()), "{second}");
        let mut all = tools_at_once(&mut harness);
        all.sort();
        let expected = ["a", "b"].iter().flat_map(|name| tools.iter().map(move |tool| format!("{name}__{tool}")));
        assert_eq!(all, expected.collect::<Vec<_>>(), "{client:?} {versions:?}");
    }
}

#[test]
fn a_server_that_hangs_at_its_start_costs_one_wait_and_is_announced_when_it_is_there() {
    for (client, versions) in ERAS {
        let mut silent = Offer::new(versions, &["x"]);
        silent.is_silent = true;
        let servers = [("a", Offer::new(versions, &["x"])), ("b", silent), ("c", Offer::new(versions, &["x"]))];
        let mut harness = AggregateHarness::new(client, &servers);
        assert!(harness.opened.is_none(), "the client waits for the slow one");
        harness.pass(WAIT);
        assert!(harness.opened.is_some(), "it waits no longer");
        assert_eq!(count(&harness, |event| is_late(event, 1, &Method::INITIALIZE)), 1, "{:?}", harness.events);
        for _ in 0..3 {
            assert_eq!(tools_at_once(&mut harness), ["a__x", "c__x"]);
            for list in ["prompts/list", "resources/list", "resources/templates/list"] {
                assert_eq!(harness.read_to_end(list, WAIT).1, Duration::ZERO, "{list}");
            }
        }
        watch_tools(&mut harness, client);
        let call = harness.request("tools/call", r#"{"name":"b__x","arguments":{}}"#);
        harness.pass(Duration::from_secs(20));
        assert_eq!(harness.outcome(call), None, "a call waits for a server that is starting");
        harness.notified.clear();
        harness.speak(1);
        harness.pass(INTERVAL);
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1, "{client:?} {versions:?}");
        assert!(harness.outcome(call).is_some_and(|outcome| outcome.is_ok_and(|result| result.contains("b x {}"))));
        assert_eq!(tools_at_once(&mut harness), ["a__x", "b__x", "c__x"]);
    }
}

#[test]
fn the_client_does_not_wait_for_a_server_that_was_late_in_an_earlier_aggregate() {
    for (client, versions) in ERAS {
        let mut silent = Offer::new(versions, &["x"]);
        silent.is_silent = true;
        let servers = [("a", Offer::new(versions, &["x"])), ("b", silent)];
        let late = vec![Method::INITIALIZE, Method::PROMPTS_LIST];
        let mut harness = AggregateHarness::with(client, &servers, |config| config.servers[1].late.clone_from(&late));
        assert!(harness.opened.is_some(), "it does not wait");
        assert_eq!(tools_at_once(&mut harness), ["a__x"]);
        harness.speak(1);
        harness.pass(INTERVAL);
        assert_eq!(tools_at_once(&mut harness), ["a__x", "b__x"]);
        let in_time = |harness: &AggregateHarness, of: &Method| {
            count(harness, |event| matches!(event, Event::InTime { method, .. } if method == of))
        };
        assert_eq!(in_time(&harness, &Method::INITIALIZE), 1);
        harness.ask("prompts/list", "{}").expect("a list");
        assert_eq!(in_time(&harness, &Method::PROMPTS_LIST), 1, "it was in time");

        // Without any other server, the client waits for it.
        let mut silent = Offer::new(versions, &["x"]);
        silent.is_silent = true;
        let servers = [("b", silent)];
        let mut harness = AggregateHarness::with(client, &servers, |config| config.servers[0].late.clone_from(&late));
        assert!(harness.opened.is_none());
        harness.speak(0);
        assert!(harness.opened.is_some());
    }
}

#[test]
fn a_server_that_hangs_at_one_list_delays_no_other_and_only_once() {
    for (client, versions) in ERAS {
        let mut hanging = Offer::new(versions, &["x"]);
        hanging.silent_for = vec!["tools/list"];
        let servers = [("a", Offer::new(versions, &["x"])), ("b", hanging)];
        let mut harness = AggregateHarness::new(client, &servers);
        watch_tools(&mut harness, client);
        assert_eq!(harness.read_to_end("tools/list", WAIT * 2), (vec!["a__x".into()], WAIT), "{client:?} {versions:?}");
        assert_eq!(count(&harness, |event| is_late(event, 1, &Method::TOOLS_LIST)), 1);
        for _ in 0..3 {
            assert_eq!(tools_at_once(&mut harness), ["a__x"]);
            let (prompts, longest) = harness.read_to_end("prompts/list", WAIT);
            assert_eq!((prompts.len(), longest), (2, Duration::ZERO));
        }
        let requests = harness.servers[1].requests.iter().filter(|(method, _)| method == "tools/list").count();
        assert_eq!(requests, 1, "one request is open at a time");
        assert_eq!(harness.call("b__x", "{}"), Ok("b x {}".into()), "its tools can be called");

        harness.pass(INTERVAL);
        harness.notified.clear();
        harness.answer_all(1);
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1, "{client:?} {versions:?}");
        assert_eq!(tools_at_once(&mut harness), ["a__x", "b__x"]);
        assert_eq!(count(&harness, |event| matches!(event, Event::InTime { .. })), 1, "it was in time again");
        harness.pass(INTERVAL);
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 0, "nothing has changed");
        harness.servers[1].offer.tools.push("y".into());
        assert_eq!(tools_at_once(&mut harness), ["a__x", "b__x", "b__y"], "the server is asked");
    }
}

#[test]
fn the_list_of_a_server_that_is_always_late_is_kept_and_follows_the_server() {
    for (client, versions) in ERAS {
        let mut slow = Offer::new(versions, &["x", "y", "z"]);
        (slow.silent_for, slow.page) = (vec!["tools/list"], 2);
        let servers = [("a", Offer::new(versions, &["x"])), ("b", slow)];
        let mut harness = AggregateHarness::new(client, &servers);
        watch_tools(&mut harness, client);
        harness.read_to_end("tools/list", WAIT * 2);
        let answer_late = |harness: &mut AggregateHarness| {
            for _ in 0..2 {
                harness.pass(WAIT + Duration::from_secs(1));
                harness.answer_all(1);
                harness.servers[1].offer.silent_for = vec!["tools/list"];
            }
            harness.pass(WAIT + Duration::from_secs(1));
            harness.take_notified(&Method::TOOLS_LIST_CHANGED)
        };
        // The second page is answered late, too.
        assert_eq!(answer_late(&mut harness), 1);
        let all = ["a__x", "b__x", "b__y", "b__z"];
        assert_eq!(tools_at_once(&mut harness), all, "{client:?} {versions:?}");
        assert_eq!(answer_late(&mut harness), 0, "the list is the same");
        harness.servers[1].offer.tools.pop();
        assert_eq!(tools_at_once(&mut harness), all, "the new one is not known yet");
        assert_eq!(answer_late(&mut harness), 1, "the list has changed");
        assert_eq!(tools_at_once(&mut harness), all[..3]);
        let held = harness.aggregate.load().held;
        harness.exit(1);
        harness.pass(Duration::from_secs(40));
        assert!(harness.aggregate.load().held < held, "what an earlier process has returned is dropped");
    }
}

#[test]
fn lists_that_were_late_are_dropped_with_the_client() {
    for (client, versions) in ERAS {
        let mut slow = Offer::new(versions, &["x"]);
        slow.silent_for = vec!["tools/list"];
        let mut harness = AggregateHarness::new(client, &[("a", Offer::new(versions, &[])), ("b", slow)]);
        harness.read_to_end("tools/list", WAIT * 2);
        harness.pass(WAIT + INTERVAL);
        harness.answer_all(1);
        assert!(harness.aggregate.load().held > 0, "{client:?} {versions:?}: its list is kept");
        harness.close();
        assert_eq!(harness.aggregate.load().held, 0, "{client:?} {versions:?}");
    }
}

#[test]
fn a_list_that_could_not_be_read_is_requested_again_after_a_pause() {
    for (client, versions) in ERAS {
        let mut hanging = Offer::new(versions, &["x"]);
        hanging.silent_for = vec!["tools/list"];
        let servers = [("a", Offer::new(versions, &["x"])), ("b", hanging)];
        let mut harness = AggregateHarness::new(client, &servers);
        watch_tools(&mut harness, client);
        harness.read_to_end("tools/list", WAIT * 2);
        // The request of the list times out, and its answer would be late.
        harness.pass(Duration::from_secs(120));
        harness.servers[1].offer.silent_for.clear();
        harness.notified.clear();
        harness.pass(Duration::from_secs(400));
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1, "{client:?} {versions:?}");
        assert_eq!(tools_at_once(&mut harness), ["a__x", "b__x"]);
    }
}

#[test]
fn a_listed_resource_is_read_at_its_server_whatever_templates_others_have() {
    for (client, versions) in ERAS {
        for is_listed_by_client in [false, true] {
            let [mut a, mut b, mut c] = [0, 1, 2].map(|_| Offer::new(versions, &[]));
            a.templates = vec!["{+any}".into()];
            b.resources = vec!["x:1".into()];
            c.templates = vec!["x:{id}".into()];
            let mut harness = AggregateHarness::new(client, &[("a", a), ("b", b), ("c", c)]);
            if is_listed_by_client {
                harness.ask("resources/list", "{}").expect("a list");
            }
            for (uri, owner, server) in [("x:1", "b", 1), ("x:2", "c", 2)] {
                let read = harness.ask("resources/read", &format!(r#"{{"uri":"{uri}"}}"#)).expect("a resource");
                assert!(read.contains(&format!(r#""text":"{owner}""#)), "{client:?} {versions:?}: {read}");
                let reads: Vec<_> = (0..3).map(|at| reads_of(&harness, at, uri)).collect();
                assert_eq!((reads.iter().sum::<usize>(), reads[server]), (1, 1), "{uri}");
            }
        }
    }
}

/// Tools have other names at the aggregate, and their pages the same URIs.
#[test]
fn the_page_to_which_a_tool_is_linked_is_read_at_the_server_of_the_tool() {
    for (client, versions) in ERAS {
        for is_listed in [true, false] {
            let offers = ["a", "b"].map(|name| {
                let mut offer = Offer::new(versions, &[]);
                let ui =
                    format!(r#""_meta":{{"ui":{{"resourceUri":"ui://{name}/view","visibility":["model","app"]}}}}"#);
                offer.definitions = vec![format!(r#"{{"name":"show","inputSchema":{{"type":"object"}},{ui}}}"#)];
                let resources = if is_listed { &mut offer.resources } else { &mut offer.unlisted };
                *resources = vec![format!("ui://{name}/view")];
                offer
            });
            let [a, b] = offers;
            let mut harness = AggregateHarness::new(client, &[("a", a), ("b", b)]);
            let tools = harness.ask("tools/list", "{}").expect("a list");
            assert_eq!(names(&tools, "tools", "name"), ["a__show", "b__show"]);
            for (at, name) in ["a", "b"].into_iter().enumerate() {
                let uri = format!("ui://{name}/view");
                assert!(
                    tools.contains(&format!(r#"{{"resourceUri":"{uri}","visibility":["model","app"]}}"#)),
                    "{tools}"
                );
                let read = harness.ask("resources/read", &format!(r#"{{"uri":"{uri}"}}"#)).expect("a page");
                assert!(read.contains(&format!(r#""text":"{name}""#)), "{client:?} {versions:?}: {read}");
                assert_eq!(reads_of(&harness, at, &uri), 1);
                if is_listed {
                    assert_eq!(reads_of(&harness, 1 - at, &uri), 0);
                }
            }
        }
    }
}

/// How often a server was asked for a resource.
fn reads_of(harness: &AggregateHarness, server: usize, uri: &str) -> usize {
    let requests = harness.servers[server].requests.iter();
    requests.filter(|(method, params)| method == "resources/read" && params.contains(&format!("\"{uri}\""))).count()
}

#[test]
fn the_lists_of_a_server_are_read_again_after_they_have_changed_to_find_a_resource() {
    let servers = ["a", "b"].map(|name| (name, Offer::new(LEGACY, &[])));
    let mut harness = AggregateHarness::new(LEGACY, &servers);
    for list in ["resources/list", "resources/templates/list"] {
        harness.ask(list, "{}").expect("a list");
    }
    harness.servers[1].offer.resources = vec!["x:1".into()];
    harness.publish(1, &Method::RESOURCES_LIST_CHANGED, "{}");
    harness.ask("resources/read", r#"{"uri":"x:1"}"#).expect("a resource");
    assert_eq!([reads_of(&harness, 0, "x:1"), reads_of(&harness, 1, "x:1")], [0, 1]);
}

#[test]
fn a_server_that_lists_the_resource_of_another_later_does_not_receive_its_reads() {
    for (client, versions) in ERAS {
        let [a, mut b] = [0, 1].map(|_| Offer::new(versions, &[]));
        b.resources = vec!["x:1".into()];
        let mut harness = AggregateHarness::new(client, &[("a", a), ("b", b)]);
        harness.ask("resources/list", "{}").expect("a list");
        harness.servers[0].offer.resources = vec!["x:1".into()];
        harness.servers[0].offer.templates = vec!["x:1".into()];
        for _ in 0..2 {
            let list = harness.ask("resources/list", "{}").expect("a list");
            assert_eq!(names(&list, "resources", "uri"), ["x:1"]);
            harness.ask("resources/templates/list", "{}").expect("a list");
            // A change of the owner's list, or its end, hands nothing over.
            if versions == LEGACY {
                harness.publish(1, &Method::RESOURCES_LIST_CHANGED, "{}");
            }
            harness.exit(1);
            harness.pass(Duration::from_secs(40));
            harness.ask("resources/read", r#"{"uri":"x:1"}"#).expect("a resource");
        }
        assert_eq!((reads_of(&harness, 0, "x:1"), reads_of(&harness, 1, "x:1")), (0, 2), "{client:?} {versions:?}");
        let same = count(
            &harness,
            |event| matches!(event, Event::SameResource { owner, other } if (owner.index(), other.index()) == (1, 0)),
        );
        assert_eq!(same, 1, "both are named once");
        harness.servers[1].offer.resources.clear();
        harness.ask("resources/list", "{}").expect("a list");
        harness.ask("resources/read", r#"{"uri":"x:1"}"#).expect("a resource");
        assert_eq!(reads_of(&harness, 0, "x:1"), 1, "its owner lists it no more");
    }
}

#[test]
fn a_server_cannot_state_that_the_resource_of_another_has_changed() {
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}"#;
    let [a, mut b] = [0, 1].map(|_| Offer::new(LEGACY, &[]));
    b.resources = vec!["x:1".into()];
    let mut harness = AggregateHarness::new(LEGACY, &[("a", a), ("b", b)]);
    harness.ask("resources/list", "{}").expect("a list");
    harness.ask("resources/subscribe", r#"{"uri":"x:1"}"#).expect("a subscription");
    for (server, expected) in [(0, 0), (1, 1)] {
        harness.inject(server, updated);
        assert_eq!(harness.take_notified(&Method::RESOURCES_UPDATED), expected, "of {server}");
    }
}

#[test]
fn many_changes_of_a_list_reach_the_client_as_few() {
    for (client, versions) in [(LEGACY, LEGACY), (MODERN, LEGACY)] {
        let servers = ["a", "b"].map(|name| (name, Offer::new(versions, &["x"])));
        let mut harness = AggregateHarness::new(client, &servers);
        watch_tools(&mut harness, client);
        for _ in 0..5 {
            for _ in 0..200 {
                harness.inject(0, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
            }
            harness.pass(Duration::from_millis(200));
        }
        assert!(harness.take_notified(&Method::TOOLS_LIST_CHANGED) <= 2, "{client:?}");
        harness.pass(INTERVAL);
        assert!(harness.take_notified(&Method::TOOLS_LIST_CHANGED) <= 1);
        harness.publish(1, &Method::TOOLS_LIST_CHANGED, "{}");
        harness.pass(INTERVAL);
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1, "that of another server");
        // The last of several is not lost.
        for _ in 0..2 {
            harness.publish(1, &Method::TOOLS_LIST_CHANGED, "{}");
        }
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1);
        harness.pass(INTERVAL);
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1);
    }
}

#[test]
fn a_server_that_hangs_delays_the_acknowledgement_of_subscriptions_once() {
    let mut silent = Offer::new(MODERN, &[]);
    silent.is_silent = true;
    let mut of_resource = Offer::new(MODERN, &["x"]);
    of_resource.unlisted = vec!["x:1".into()];
    let servers = [("a", of_resource), ("b", silent), ("c", Offer::new(MODERN, &["x"]))];
    let mut harness = AggregateHarness::new(MODERN, &servers);
    harness.pass(WAIT);
    let listen = |harness: &mut AggregateHarness| {
        let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}"#;
        harness.client.listen(Json::parse(filter).expect("JSON"), harness.now).expect("a subscription");
        harness.settle();
    };
    listen(&mut harness);
    assert_eq!(harness.listening.len(), 1, "the start of the server is known to be late");
    harness.publish(0, &Method::RESOURCES_UPDATED, r#"{"uri":"x:1"}"#);
    assert_eq!(harness.take_notified(&Method::RESOURCES_UPDATED), 1);

    // A server that was connected, and does not acknowledge.
    harness.servers[2].offer.is_silent = true;
    let filter = Json::parse(r#"{"resourceSubscriptions":["x:2"]}"#).expect("JSON");
    harness.client.listen(filter, harness.now).expect("a subscription");
    harness.settle();
    assert_eq!(harness.listening.len(), 1, "it may acknowledge in time");
    harness.pass(WAIT);
    assert_eq!(harness.listening.len(), 2);
    let filter = Json::parse(r#"{"resourceSubscriptions":["x:3"]}"#).expect("JSON");
    harness.client.listen(filter, harness.now).expect("a subscription");
    harness.settle();
    assert_eq!(harness.listening.len(), 3, "it was late");
}

#[test]
fn a_replaced_subscription_is_ended_at_each_server() {
    let [mut a, mut b] = [0, 1].map(|_| Offer::new(MODERN, &["x"]));
    (a.resources, b.resources) = (vec!["x:1".into()], vec!["x:2".into()]);
    let mut harness = AggregateHarness::new(MODERN, &[("a", a), ("b", b)]);
    harness.ask("resources/list", "{}").expect("a list");
    for uri in ["x:1", "x:2", "x:1"] {
        let filter = format!(r#"{{"toolsListChanged":true,"resourceSubscriptions":["{uri}"]}}"#);
        harness.client.listen(Json::parse(filter).expect("JSON"), harness.now).expect("a subscription");
        harness.settle();
        assert_eq!([harness.subscriptions_at(0), harness.subscriptions_at(1)], [1, 1], "{uri}");
    }
    for (server, uri) in [(0, "x:1"), (1, "x:2")] {
        harness.publish(server, &Method::RESOURCES_UPDATED, &format!(r#"{{"uri":"{uri}"}}"#));
        assert!(harness.take_notified(&Method::RESOURCES_UPDATED) >= 1, "{uri}");
    }
}

/// A question of a server with this message, with an id and a progress token that other servers use too.
fn question(message: &str) -> String {
    question_with_id("q", message)
}

fn question_with_id(id: &str, message: &str) -> String {
    let params = format!(
        r#"{{"_meta":{{"progressToken":7}},"message":"{message}","requestedSchema":{{"type":"object","properties":{{}}}}}}"#
    );
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"elicitation/create","params":{params}}}"#)
}

/// What was written to a server since this was called last.
fn take_received(harness: &mut AggregateHarness, server: usize) -> String {
    String::from_utf8(std::mem::take(&mut harness.servers[server].received)).expect("UTF-8")
}

#[test]
fn answers_and_progress_of_the_client_reach_the_server_that_has_asked_with_its_own_id_and_token() {
    let servers = ["a", "b"].map(|name| (name, Offer::new(LEGACY, &[])));
    let mut harness = AggregateHarness::new(LEGACY, &servers);
    harness.answers_at_once = false;
    for (server, name) in [(0, "of a"), (1, "of b")] {
        harness.inject(server, &question(name));
        take_received(&mut harness, server);
    }
    let questions = std::mem::take(&mut harness.questions);
    let tokens: Vec<_> = questions
        .iter()
        .map(|(_, params)| {
            let params = Json::parse(params.clone()).expect("JSON");
            params.first_member("_meta").and_then(|meta| meta.first_member("progressToken")).expect("a token")
        })
        .collect();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
    for (server, token) in tokens.iter().enumerate() {
        let params = Json::parse(r#"{"progress":0.5}"#).expect("JSON").with_member("progressToken", token);
        harness.client.notify(Notification::with_params(Method::PROGRESS, params), harness.now).expect("open");
        harness.settle();
        let received = take_received(&mut harness, server);
        assert!(received.contains("notifications/progress") && received.contains(r#""progressToken":7"#), "{received}");
        assert_eq!(take_received(&mut harness, 1 - server), "");
    }
    for (server, (ticket, params)) in questions.into_iter().enumerate() {
        let answer = Json::parse(r#"{"action":"decline"}"#).expect("JSON");
        harness.client.answer(ticket, Ok(answer), harness.now);
        harness.settle();
        let received = take_received(&mut harness, server);
        assert!(received.contains(r#""id":"q""#) && received.contains("decline"), "{params}: {received}");
        assert_eq!(take_received(&mut harness, 1 - server), "");
    }
}

/// Two servers, each of which has asked questions with these ids, and a client that has not answered.
fn with_questions(ids: &[&str]) -> AggregateHarness {
    let servers = ["a", "b"].map(|name| (name, Offer::new(LEGACY, &[])));
    let mut harness = AggregateHarness::new(LEGACY, &servers);
    harness.answers_at_once = false;
    for (server, name) in [(0, "of a"), (1, "of b")] {
        for id in ids {
            harness.inject(server, &question_with_id(id, name));
        }
    }
    harness
}

#[test]
fn the_question_of_a_server_that_has_ended_is_cancelled_at_the_client() {
    let mut harness = with_questions(&["q", "r", "s"]);
    harness.exit(0);
    assert_eq!((harness.withdrawn, harness.questions.len()), (3, 3));
    assert!(harness.questions.iter().all(|(_, params)| params.contains("of b")), "{:?}", harness.questions);
}

#[test]
fn a_question_that_its_server_takes_back_is_cancelled_at_the_client() {
    let mut harness = with_questions(&["q"]);
    let cancelled =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"not needed"}}"#;
    // A second notification is about no request.
    for _ in 0..2 {
        harness.inject(0, cancelled);
        assert_eq!(harness.withdrawn, 1);
        assert!(matches!(&harness.questions[..], [(_, params)] if params.contains("of b")), "{:?}", harness.questions);
    }
    assert!(String::from_utf8_lossy(&harness.received).contains("not needed"));
    take_received(&mut harness, 0);
    let (ticket, _) = harness.questions.remove(0);
    harness.client.answer(ticket, Ok(Json::parse(r#"{"action":"decline"}"#).expect("JSON")), harness.now);
    harness.settle();
    assert_eq!(take_received(&mut harness, 0), "", "the answer is for the other server");
    assert!(take_received(&mut harness, 1).contains("decline"));
}

#[test]
fn a_cancelled_list_is_cancelled_at_each_server() {
    for (client, versions) in ERAS {
        let servers = ["a", "b"].map(|name| {
            let mut offer = Offer::new(versions, &["x"]);
            offer.silent_for = vec!["tools/list"];
            (name, offer)
        });
        let mut harness = AggregateHarness::new(client, &servers);
        let idle = harness.aggregate.load();
        let list = harness.request("tools/list", "{}");
        harness.client.cancel(list, None, harness.now);
        harness.settle();
        assert_eq!([0, 1].map(|at: usize| harness.servers[at].cancelled), [1, 1], "{client:?} {versions:?}");
        assert_eq!(harness.aggregate.load(), idle, "{client:?} {versions:?}");
    }
}

#[test]
fn what_a_server_sends_about_an_ended_call_reaches_no_other_client_of_a_shared_aggregate() {
    /// How the first call ends for its client.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum End {
        Cancelled,
        TimedOut,
        Answered,
    }
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"of a"}}"#;
    for is_shared in [true, false] {
        for end in [End::Cancelled, End::TimedOut, End::Answered] {
            let servers = ["a", "b"].map(|name| (name, Offer::new(LEGACY, &["slow"])));
            let mut harness = AggregateHarness::with(LEGACY, &servers, |config| config.is_shared = is_shared);
            let first = harness.request("tools/call", r#"{"name":"a__slow","arguments":{}}"#);
            match end {
                End::Cancelled => {
                    harness.client.cancel(first, None, harness.now);
                    harness.settle();
                }
                End::TimedOut => harness.pass(Duration::from_secs(70)),
                End::Answered => harness.answer_slow(0),
            }
            assert!(harness.outcome(first).is_some(), "{end:?}");
            let other = harness.request("tools/call", r#"{"name":"b__slow","arguments":{}}"#);
            harness.inject(0, &question("of a"));
            harness.inject(0, log);
            let passed = (harness.asked.len(), harness.take_notified(&Method::MESSAGE));
            let expected = if is_shared { (0, 0) } else { (1, 1) };
            assert_eq!(passed, expected, "no call is open at the server: {end:?} {is_shared}");

            let another = harness.request("tools/call", r#"{"name":"a__slow","arguments":{}}"#);
            harness.inject(0, &question("of a").replace("\"q\"", "\"r\""));
            harness.inject(0, log);
            let passed = (harness.asked.len() - passed.0, harness.take_notified(&Method::MESSAGE));
            let expected = if is_shared && end != End::Answered { (0, 0) } else { (1, 1) };
            assert_eq!(passed, expected, "a call is open that may be meant: {end:?} {is_shared}");
            let received = take_received(&mut harness, 0);
            assert!(received.contains(r#""id":"r""#), "the server has an answer: {received}");
            for (server, call) in [(1, other), (0, another)] {
                harness.answer_slow(server);
                assert!(harness.outcome(call).is_some_and(|outcome| outcome.is_ok()));
            }
        }
    }
}
