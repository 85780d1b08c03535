//! Lists of servers of an aggregate that are valid for some time.

use std::time::Duration;

use mcp_intermediary::relay::{Filter, Rule};
use mcp_proto::spec::{CacheScope, Primitive};
use mcp_proto::{Method, ProtocolVersion};
use serde_json::Value;
use tests::aggregate::{AggregateHarness, Offer};

const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];
const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
const SECOND: Duration = Duration::from_secs(1);

/// An aggregate of servers `a` and `b` whose lists are valid for these times.
fn two(seconds: [u64; 2], scope: CacheScope, is_shared: bool) -> AggregateHarness {
    let [a, b] = seconds.map(|seconds| {
        let mut offer = Offer::new(MODERN, &["x", "y", "z"]);
        offer.page = 2;
        offer.resources = vec![format!("{seconds}:1")];
        (offer.cache_ttl, offer.cache_scope) = (Duration::from_secs(seconds), scope);
        offer
    });
    AggregateHarness::with(MODERN, &[("a", a), ("b", b)], |config| config.is_shared = is_shared)
}

/// How often each server was asked for a list since the last call.
fn take_lists(harness: &mut AggregateHarness, list: &str) -> [usize; 2] {
    [0, 1].map(|server: usize| {
        let requests = std::mem::take(&mut harness.servers[server].requests);
        requests.iter().filter(|(method, _)| method == list).count()
    })
}

/// The time for which an answer says that it is valid, and who may keep it.
fn cache_of(list: &str) -> (u64, String) {
    let list: Value = serde_json::from_str(list).expect("JSON");
    (list["ttlMs"].as_u64().expect("a number"), list["cacheScope"].as_str().expect("a text").to_owned())
}

#[test]
fn md_k_03_a_list_is_not_requested_again_while_it_is_valid() {
    for list in LISTS {
        let mut harness = two([60, 20], CacheScope::Public, false);
        let pages = if list == "tools/list" { 2 } else { 1 };
        let first = harness.ask(list, "{}").expect("a list");
        assert_eq!(
            (cache_of(&first), take_lists(&mut harness, list)),
            ((20_000, "public".into()), [pages; 2]),
            "{list}"
        );
        harness.pass(19 * SECOND);
        let again = harness.ask(list, "{}").expect("a list");
        assert_eq!((cache_of(&again).0, take_lists(&mut harness, list)), (1000, [0, 0]), "{list}");
        let without_ttl = |list: &str| list.split("\"ttlMs\"").next().map(str::to_owned);
        assert_eq!(without_ttl(&again), without_ttl(&first), "the items are the same");
        harness.pass(SECOND);
        let later = harness.ask(list, "{}").expect("a list");
        // The list of the first server is still valid, for 40 s.
        assert_eq!((cache_of(&later).0, take_lists(&mut harness, list)), (20_000, [0, pages]), "{list}");
        assert_eq!(harness.call("a__x", "{}"), Ok("a x {}".into()));
    }
}

#[test]
fn md_k_03_a_change_ends_the_time_of_the_lists_that_it_concerns() {
    for (list, changed) in [
        ("tools/list", Method::TOOLS_LIST_CHANGED),
        ("prompts/list", Method::PROMPTS_LIST_CHANGED),
        ("resources/list", Method::RESOURCES_LIST_CHANGED),
        ("resources/templates/list", Method::RESOURCES_LIST_CHANGED),
    ] {
        let mut harness = two([60, 60], CacheScope::Private, false);
        let ask = |harness: &mut AggregateHarness| {
            // What is requested in the moment of a change is not kept.
            harness.pass(Duration::from_millis(1));
            harness.ask(list, "{}").expect("a list");
            take_lists(harness, list).map(|count| count > 0)
        };
        assert_eq!(ask(&mut harness), [true, true]);
        harness.publish(1, &changed, "{}");
        assert_eq!(ask(&mut harness), [false, true], "{list}");
        assert_eq!(ask(&mut harness), [false, false], "{list}");
        for other in [Method::TOOLS_LIST_CHANGED, Method::PROMPTS_LIST_CHANGED, Method::RESOURCES_LIST_CHANGED] {
            if other != changed {
                harness.publish(0, &other, "{}");
            }
        }
        assert_eq!(ask(&mut harness), [false, false], "{list}: other lists have changed");
        harness.exit(0);
        harness.pass(2 * SECOND);
        assert_eq!(ask(&mut harness), [true, false], "{list}: another process");
        // What was requested before a change may be older than it.
        harness.publish(1, &changed, "{}");
        harness.servers[1].offer.silent_for = vec![list];
        let request = harness.request(list, "{}");
        harness.publish(1, &changed, "{}");
        harness.answer_all(1);
        harness.outcome(request).expect("an outcome").expect("a list");
        take_lists(&mut harness, list);
        assert_eq!(ask(&mut harness), [false, true], "{list}: it was requested before");
    }
}

#[test]
fn a_filter_that_was_changed_applies_to_lists_that_are_kept() {
    let mut harness = two([60, 60], CacheScope::Public, false);
    let listed = |harness: &mut AggregateHarness| {
        let list = harness.ask("tools/list", "{}").expect("a list");
        ["a__x", "a__y", "b__x"].map(|name| list.contains(&format!("\"{name}\"")))
    };
    assert_eq!(listed(&mut harness), [true; 3]);
    for (denied, expected) in [("x", [false, true, true]), ("y", [true, false, true])] {
        let mut filter = Filter::new();
        filter.add(Rule::deny(Primitive::Tool, denied).expect("a pattern"));
        let server = harness.aggregate.server_named("a").expect("a server");
        harness.aggregate.set_filter(server, filter, harness.now);
        harness.settle();
        assert_eq!(listed(&mut harness), expected, "without {denied}");
    }
}

/// What a server has returned late is kept, and would have passed the earlier filter.
#[test]
fn a_list_that_a_server_was_late_with_passes_the_filter_of_its_time() {
    let offers = [("a", Offer::new(LEGACY, &["x"])), ("b", Offer::new(LEGACY, &["x", "y"]))];
    let mut harness = AggregateHarness::with(LEGACY, &offers, |_| {});
    harness.servers[1].offer.silent_for.push("tools/list");
    let (found, _) = harness.read_to_end("tools/list", Duration::from_secs(10));
    assert_eq!(found, ["a__x"]);
    harness.answer_all(1);
    let mut filter = Filter::new();
    filter.add(Rule::deny(Primitive::Tool, "x").expect("a pattern"));
    let server = harness.aggregate.server_named("b").expect("a server");
    harness.aggregate.set_filter(server, filter, harness.now);
    harness.settle();
    let (found, _) = harness.read_to_end("tools/list", Duration::from_secs(10));
    assert_eq!(found, ["a__x", "b__y"]);
}

#[test]
fn md_k_02_only_public_lists_are_kept_for_several_clients() {
    for (scope, is_shared, is_kept) in [
        (CacheScope::Private, false, true),
        (CacheScope::Public, false, true),
        (CacheScope::Private, true, false),
        (CacheScope::Public, true, true),
    ] {
        let mut harness = two([60, 60], scope, is_shared);
        harness.ask("prompts/list", "{}").expect("a list");
        take_lists(&mut harness, "prompts/list");
        harness.ask("prompts/list", "{}").expect("a list");
        let asked = usize::from(!is_kept);
        assert_eq!(take_lists(&mut harness, "prompts/list"), [asked; 2], "{scope:?}, shared {is_shared}");
    }
}

#[test]
fn md_k_02_a_list_with_parameters_is_not_that_without() {
    let mut harness = two([60, 60], CacheScope::Public, false);
    harness.ask("prompts/list", "{}").expect("a list");
    for (params, asked) in [(r#"{"x":1}"#, 1), (r#"{"_meta":{"a.example/b":1}}"#, 0)] {
        take_lists(&mut harness, "prompts/list");
        harness.ask("prompts/list", params).expect("a list");
        assert_eq!(take_lists(&mut harness, "prompts/list"), [asked; 2], "{params}");
    }
}

#[test]
fn what_is_kept_counts_as_load_and_is_dropped_with_the_client() {
    let mut harness = two([60, 0], CacheScope::Public, false);
    let idle = harness.aggregate.load().held;
    harness.ask("tools/list", "{}").expect("a list");
    let held = harness.aggregate.load().held;
    assert!(held > idle, "the pages of the first server");
    take_lists(&mut harness, "tools/list");
    harness.ask("tools/list", "{}").expect("a list");
    assert_eq!(take_lists(&mut harness, "tools/list"), [0, 2], "a list without a time is requested each time");
    assert_eq!(harness.aggregate.load().held, held);
    harness.close();
    assert!(harness.aggregate.load().held < held);
}

#[test]
fn the_list_of_a_server_without_such_times_is_requested_each_time() {
    let [a, b] = ["x", "y"].map(|tool| Offer::new(LEGACY, &[tool]));
    let mut harness = AggregateHarness::new(MODERN, &[("a", a), ("b", b)]);
    for _ in 0..2 {
        let list = harness.ask("tools/list", "{}").expect("a list");
        assert_eq!(cache_of(&list), (0, "private".into()));
        assert_eq!(take_lists(&mut harness, "tools/list"), [1, 1]);
    }
}
