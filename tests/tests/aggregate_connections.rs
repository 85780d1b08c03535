//! What an aggregate does between a client and servers that do not read, do not go on, or refuse: each has an effect at
//! once, and none on the limits of the others.

use std::time::Duration;

use mcp_intermediary::aggregate::{Action, Event};
use mcp_proto::{Fault, Json, Output, ProtocolVersion, StdioAction};
use mcp_testkit::messages::{error, request, result};
use tests::aggregate::{AggregateHarness, Offer, member, names};
use tests::gateway::id_of;

const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];
/// The revisions of a client and of its servers.
const ERAS: [(&[ProtocolVersion], &[ProtocolVersion]); 4] =
    [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN)];

/// The last line with this text that a server has received.
fn last_received(harness: &AggregateHarness, server: usize, text: &str) -> String {
    let received = String::from_utf8_lossy(&harness.servers[server].received).into_owned();
    received.lines().rfind(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text} in {received}")).to_owned()
}

/// The number of whole lines.
fn lines_in(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).matches('\n').count()
}

/// The outputs of the aggregate, which are not carried out: the bytes for the client, those for the servers, and the events.
fn outputs(harness: &mut AggregateHarness) -> (Vec<u8>, Vec<u8>, Vec<Event>) {
    let (mut to_client, mut to_servers, mut events) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(output) = harness.aggregate.poll_output() {
        match output {
            Output::Action(Action::Client(StdioAction::Write(bytes))) => to_client.extend_from_slice(&bytes),
            Output::Action(Action::Server { action: StdioAction::Write(bytes), .. }) => {
                to_servers.extend_from_slice(&bytes);
            }
            Output::Action(action) => panic!("{action:?} is not expected"),
            Output::Event(event) => events.push(event),
        }
    }
    (to_client, to_servers, events)
}

#[test]
fn notifications_that_a_client_did_not_read_are_counted_as_soon_as_it_reads_again() {
    let servers = [("a", Offer::new(LEGACY, &["x"]))];
    let mut harness = AggregateHarness::with(LEGACY, &servers, |config| {
        (config.relay.limits.message, config.relay.limits.unwritten) = (4096, 4096);
    });
    let server = harness.server_key(0);
    let data = "d".repeat(1000);
    let line =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":"{data}"}}}}"#);
    let sent = 30;
    harness.aggregate.handle_server_bytes(server, format!("{line}\n").repeat(sent).as_bytes(), harness.now);
    let (to_client, _, events) = outputs(&mut harness);
    let passed = lines_in(&to_client);
    assert!(passed > 0 && passed < sent && events.is_empty(), "{passed} {events:?}");
    harness.aggregate.handle_written(to_client.len(), harness.now);
    let (_, _, events) = outputs(&mut harness);
    let lost = u64::try_from(sent - passed).expect("a small number");
    assert!(matches!(events[..], [Event::Faulted(Fault::NotWritten { count })] if count == lost), "{lost}: {events:?}");
}

#[test]
fn the_limits_of_the_configuration_hold_for_each_connection() {
    // A method that is longer than the default limit.
    let method = format!("x/{}", "m".repeat(300));
    let line = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{}}}}"#);
    for (client, versions) in ERAS {
        for limit in [256, 512] {
            let servers = [("a", Offer::new(versions, &["x"]))];
            let mut harness = AggregateHarness::with(client, &servers, |config| {
                config.relay.limits.method = limit;
                config.servers[0].relay.limits.method = limit;
            });
            // A modern client is notified of what it has asked for alone.
            let is_passed = limit == 512 && client == LEGACY;
            harness.inject(0, &line);
            let received = String::from_utf8_lossy(&harness.received).contains(&method);
            assert_eq!(received, is_passed, "{client:?} {versions:?} {limit}");
        }
    }
}

#[test]
fn calls_wait_for_a_server_that_does_not_read_and_all_are_delivered_when_it_does() {
    let length = 60 * 1024;
    for (client, versions) in ERAS {
        let servers = [("a", Offer::new(versions, &["x"]))];
        let mut harness = AggregateHarness::with(client, &servers, |config| {
            for limits in [&mut config.relay.limits, &mut config.servers[0].relay.limits] {
                (limits.message, limits.unwritten) = (64 * 1024, 64 * 1024);
            }
        });
        harness.tools();
        let server = harness.server_key(0);
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let meta = if client == MODERN {
            format!(r#","_meta":{{{}}}"#, mcp_testkit::http_exchange::META)
        } else {
            String::new()
        };
        for call in ["c1", "c2", "c3"] {
            let mark = format!("{call}-{}", "m".repeat(length));
            let params = format!(r#"{{"name":"a__x","arguments":{{"mark":"{mark}"}}{meta}}}"#);
            let line = request(&format!("\"{call}\""), "tools/call", &params);
            harness.aggregate.handle_bytes(format!("{line}\n").as_bytes(), harness.now);
            let (client, server, _) = outputs(&mut harness);
            to_client.extend(client);
            to_server.extend(server);
        }
        let name = format!("{client:?} {versions:?}");
        assert_eq!(String::from_utf8_lossy(&to_client), "", "no call is refused: {name}");
        assert_eq!(lines_in(&to_server), 1, "{name}");
        for expected in [2, 3] {
            harness.aggregate.handle_server_written(server, length + 1000, harness.now);
            to_server.extend(outputs(&mut harness).1);
            assert_eq!(lines_in(&to_server), expected, "{name}");
        }
    }
}

#[test]
fn a_list_whose_server_does_not_go_on_is_answered_soon_and_continues_where_it_ended() {
    let page = |id: &str, tool: &str, next: &str| {
        result(
            id,
            &format!(
                r#"{{"resultType":"complete","tools":[{{"name":"{tool}","inputSchema":{{"type":"object"}}}}]{next},"ttlMs":0,"cacheScope":"private"}}"#
            ),
        )
    };
    for (client, versions) in ERAS {
        let mut harness =
            AggregateHarness::new(client, &[("a", Offer::new(versions, &[])), ("b", Offer::new(versions, &["y"]))]);
        harness.servers[0].offer.silent_for = vec!["tools/list"];
        let listed = harness.request("tools/list", "{}");
        let asked = last_received(&harness, 0, "tools/list");
        harness.pass(Duration::from_millis(600));
        harness.inject(0, &page(id_of(&asked), "x1", r#","nextCursor":"next""#));
        let more = last_received(&harness, 0, "tools/list");
        assert!(more.contains(r#""cursor":"next""#), "{more}");
        harness.pass(Duration::from_millis(399));
        assert_eq!(harness.outcome(listed), None);
        harness.pass(Duration::from_millis(1));
        let first = harness.outcome(listed).expect("a second is over").expect("a list");
        assert_eq!(names(&first, "tools", "name"), ["a__x1", "b__y"], "{client:?} {versions:?}");
        assert_eq!(harness.servers[0].cancelled, 1, "its next page is not needed now");

        let cursor = member(&first, "nextCursor");
        assert!(!cursor.is_empty(), "there is more");
        let listed = harness.request("tools/list", &format!(r#"{{"cursor":"{cursor}"}}"#));
        let asked = last_received(&harness, 0, "tools/list");
        assert!(asked != more && asked.contains(r#""cursor":"next""#), "{asked}");
        harness.inject(0, &page(id_of(&asked), "x2", ""));
        let second = harness.outcome(listed).expect("all have answered").expect("a list");
        assert_eq!(
            (names(&second, "tools", "name"), member(&second, "nextCursor")),
            (vec!["a__x2".to_owned()], String::new())
        );
    }
}

#[test]
fn a_subscription_is_acknowledged_at_once_without_the_resources_that_a_server_refuses() {
    for is_first in [false, true] {
        let offer = |uri: &str| {
            let mut offer = Offer::new(MODERN, &["x"]);
            offer.resources = vec![uri.to_owned()];
            if is_first {
                // It has no other subscription.
                offer.capabilities = r#"{"tools":{},"resources":{"subscribe":true}}"#;
            }
            offer
        };
        let mut harness = AggregateHarness::new(MODERN, &[("a", offer("file:///a")), ("b", offer("file:///b"))]);
        harness.ask("resources/list", "{}").expect("a list");
        harness.servers[0].offer.is_silent = true;
        let filter = Json::parse(r#"{"resourceSubscriptions":["file:///a","file:///b"]}"#).expect("JSON");
        harness.client.listen(filter, harness.now).expect("a subscription");
        harness.settle();
        assert!(harness.listening.is_empty(), "it waits for a server");
        let asked = last_received(&harness, 0, "subscriptions/listen");
        harness.inject(0, &error(id_of(&asked), -32603, "no"));
        assert_eq!(harness.listening, [r#"{"resourceSubscriptions":["file:///b"]}"#], "{is_first}");
    }
}

#[test]
fn an_answer_with_a_kept_list_takes_nothing_from_what_its_server_has_listed_since() {
    let listed = |asked: &str, uris: &[&str]| {
        let uris: Vec<_> = uris.iter().map(|uri| format!(r#"{{"uri":"{uri}","name":"r"}}"#)).collect();
        result(id_of(asked), &format!(r#"{{"resources":[{}]}}"#, uris.join(",")))
    };
    let [a, mut b] = [0, 1].map(|_| Offer::new(LEGACY, &[]));
    b.silent_for = vec!["resources/list"];
    b.unlisted = vec!["x:2".into()];
    let mut harness = AggregateHarness::new(LEGACY, &[("a", a), ("b", b)]);
    harness.request("resources/list", "{}");
    let first = last_received(&harness, 1, "resources/list");
    harness.pass(Duration::from_secs(4));
    harness.request("resources/read", r#"{"uri":"x:9"}"#);
    let second = last_received(&harness, 1, "resources/list");
    assert!(first != second, "a server that is not known to be late is asked");
    harness.pass(Duration::from_secs(2));
    harness.inject(1, &listed(&first, &["x:1"]));
    harness.inject(1, &listed(&second, &["x:1", "x:2"]));
    let kept = harness.ask("resources/list", "{}").expect("a list");
    assert_eq!(names(&kept, "resources", "uri"), ["x:1"], "it is late, and its next list is not there");
    harness.ask("resources/read", r#"{"uri":"x:2"}"#).expect("a resource");
    let is_read = |server: usize| harness.servers[server].requests.iter().any(|(_, params)| params.contains("x:2"));
    assert_eq!([is_read(0), is_read(1)], [false, true]);
}
