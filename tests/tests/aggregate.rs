//! An aggregate between a client and servers of any revisions.

use std::time::Duration;

use mcp_intermediary::aggregate::{Action, Aggregate, Config, Event};
use mcp_intermediary::relay;
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{Instant, Method, Output, ProcessEnd, ProtocolVersion, StartFailure, StdioAction, UsageError};
use mcp_testkit::http_exchange::modern;
use mcp_testkit::messages::{initialize, request, result};
use tests::aggregate::{AggregateHarness, Offer, names};

const OLD: &[ProtocolVersion] = &[ProtocolVersion::V2025_06_18];
const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];

/// The revisions of a client and of three servers.
const ERAS: &[(&[ProtocolVersion], [&[ProtocolVersion]; 3])] = &[
    (LEGACY, [LEGACY, LEGACY, OLD]),
    (LEGACY, [MODERN, LEGACY, MODERN]),
    (OLD, [MODERN, LEGACY, OLD]),
    (MODERN, [MODERN, MODERN, MODERN]),
    (MODERN, [LEGACY, MODERN, OLD]),
    (MODERN, [LEGACY, LEGACY, LEGACY]),
];

/// How often a server was asked for a resource.
fn reads_of(harness: &AggregateHarness, server: usize, uri: &str) -> usize {
    let requests = harness.servers[server].requests.iter();
    requests.filter(|(method, params)| method == "resources/read" && params.contains(&format!("\"{uri}\""))).count()
}

/// A client, and three servers `a`, `b` and `c` with these tools.
fn three(eras: &(&[ProtocolVersion], [&[ProtocolVersion]; 3]), tools: &[&str]) -> AggregateHarness {
    let (client, servers) = eras;
    let [a, b, c] = servers.map(|versions| Offer::new(versions, tools));
    AggregateHarness::new(client, &[("a", a), ("b", b), ("c", c)])
}

#[test]
fn lc_17_a_ping_is_answered_at_once_while_the_servers_start() {
    let mut config = Config::new("all", "1");
    for name in ["a", "b"] {
        config = config.server(name, relay::Config::default());
    }
    let mut aggregate = Aggregate::new(config).unwrap();
    for line in [initialize("0", "2025-11-25"), request("\"p\"", "ping", "{}")] {
        aggregate.handle_bytes(format!("{line}\n").as_bytes(), Instant::START);
    }
    let mut written = String::new();
    while let Some(output) = aggregate.poll_output() {
        if let Output::Action(Action::Client(StdioAction::Write(bytes))) = output {
            written.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
    assert_eq!(written.trim_end(), result("\"p\"", "{}"), "no server has answered");
}

#[test]
fn requests_that_wait_for_the_servers_to_start_count_as_load() {
    let config = Config::new("all", "1").server("a", relay::Config::default());
    let mut aggregate = Aggregate::new(config).unwrap();
    let waiting = ["1", "2", "3"].map(|id| {
        let line = format!("{}\n", modern(id, "tools/list", ""));
        aggregate.handle_bytes(line.as_bytes(), Instant::START);
        aggregate.load().waiting
    });
    assert_eq!([waiting[1] - waiting[0], waiting[2] - waiting[1]], [1, 1], "{waiting:?}");
}

#[test]
fn a_call_reaches_the_server_in_whose_list_the_tool_is() {
    for eras in ERAS {
        let mut harness = three(eras, &["x", "y"]);
        assert_eq!(harness.tools(), ["a__x", "a__y", "b__x", "b__y", "c__x", "c__y"], "{eras:?}");
        for (server, name) in ["a", "b", "c"].into_iter().enumerate() {
            let arguments = r#"{"n":1.0,"u":"\u00e9"}"#;
            let answer = harness.call(&format!("{name}__y"), arguments);
            assert_eq!(answer, Ok(format!("{name} y {arguments}")), "{eras:?}");
            let calls = harness.servers.iter().map(|server| server.called().len()).collect::<Vec<_>>();
            assert!(calls.iter().enumerate().all(|(at, calls)| *calls == usize::from(at <= server)), "{calls:?}");
        }
        for unknown in ["x", "d__x", "__x", ""] {
            let error = harness.call(unknown, "{}").expect_err("no server has it");
            assert!(error.starts_with("-32602 invalid params: no server has a tool"), "{error}");
        }
        assert_eq!(harness.servers[0].called().len(), 1, "no server was asked");
    }
}

#[test]
fn prompts_resources_and_completions_reach_the_server_that_has_them() {
    for eras in ERAS {
        let (client, servers) = eras;
        let mut offers = servers.map(|versions| Offer::new(versions, &[]));
        offers[0].resources = vec!["x:1".into(), "x:2".into()];
        offers[1].resources = vec!["x:2".into(), "x:3".into()];
        offers[2].templates = vec!["y:{id}".into()];
        let [a, b, c] = offers;
        let mut harness = AggregateHarness::new(client, &[("a", a), ("b", b), ("c", c)]);
        let list = harness.ask("prompts/list", "{}").expect("a list");
        assert_eq!(names(&list, "prompts", "name"), ["a__p", "b__p", "c__p"]);
        let prompt = harness.ask("prompts/get", r#"{"name":"b__p"}"#).expect("a prompt");
        assert!(prompt.contains(r#""text":"b p""#), "{prompt}");

        let list = harness.ask("resources/list", "{}").expect("a list");
        assert_eq!(names(&list, "resources", "uri"), ["x:1", "x:2", "x:3"], "the first server has x:2");
        let list = harness.ask("resources/templates/list", "{}").expect("a list");
        assert_eq!(names(&list, "resourceTemplates", "uriTemplate"), ["y:{id}"]);
        for (uri, owner) in [("x:1", "a"), ("x:2", "a"), ("x:3", "b"), ("y:7", "c")] {
            let reads = |harness: &AggregateHarness| (0..3).map(|at| reads_of(harness, at, uri)).sum::<usize>();
            let before = reads(&harness);
            let read = harness.ask("resources/read", &format!(r#"{{"uri":"{uri}"}}"#)).expect("a resource");
            assert!(read.contains(&format!(r#""text":"{owner}""#)), "{uri}: {read}");
            let after = reads(&harness);
            assert_eq!(after, before + 1, "one server is asked for {uri}");
        }
        let error = harness.ask("resources/read", r#"{"uri":"z:1"}"#).expect_err("no server has it");
        assert!(error.starts_with("-32602") || error.starts_with("-32002"), "{error}");

        for (reference, owner) in
            [(r#"{"type":"ref/prompt","name":"b__p"}"#, "b"), (r#"{"type":"ref/resource","uri":"y:{id}"}"#, "c")]
        {
            let params = format!(r#"{{"ref":{reference},"argument":{{"name":"n","value":"v"}}}}"#);
            let completed = harness.ask("completion/complete", &params).expect("a completion");
            assert!(completed.contains(&format!(r#""values":["{owner}"]"#)), "{completed}");
        }
    }
}

#[test]
fn a_resource_that_no_server_has_listed_is_requested_from_one_after_the_other() {
    for eras in ERAS {
        let (client, servers) = eras;
        let mut offers = servers.map(|versions| Offer::new(versions, &[]));
        offers[1].unlisted = vec!["x:1".into()];
        let [a, b, c] = offers;
        let mut harness = AggregateHarness::new(client, &[("a", a), ("b", b), ("c", c)]);
        for reads in [[1, 1, 0], [1, 2, 0]] {
            let read = harness.ask("resources/read", r#"{"uri":"x:1"}"#).expect("a resource");
            assert!(read.contains(r#""text":"b""#), "{read}");
            assert_eq!([0, 1, 2].map(|at: usize| reads_of(&harness, at, "x:1")), reads, "then it is known");
        }
    }
}

#[test]
fn requests_of_a_server_during_a_call_reach_the_client_and_their_answers_the_server() {
    for eras in ERAS {
        let mut harness = three(eras, &["ask"]);
        let idle = harness.aggregate.load();
        for name in ["b", "a", "c"] {
            assert_eq!(harness.call(&format!("{name}__ask"), "{}"), Ok(format!("{name} true")), "{eras:?}");
        }
        assert_eq!(harness.asked.len(), 3, "{eras:?}");
        assert_eq!(harness.aggregate.load(), idle, "{eras:?}");
    }
}

#[test]
fn progress_and_log_messages_of_a_call_reach_the_client() {
    for eras in ERAS {
        let mut harness = three(eras, &["progress", "log"]);
        assert_eq!(harness.call("c__progress", "{}"), Ok("c progress".into()));
        assert!(matches!(&harness.progress[..], [(_, one)] if one.contains("0.5")), "{:?} {eras:?}", harness.progress);
        if eras.0 != MODERN {
            assert_eq!(harness.call("b__log", "{}"), Ok("b log".into()));
            assert_eq!(harness.take_notified(&Method::MESSAGE), 1, "{eras:?}");
        }
    }
}

#[test]
fn a_cancelled_call_is_cancelled_at_its_server() {
    for eras in ERAS {
        let mut harness = three(eras, &["slow"]);
        let idle = harness.aggregate.load();
        let call = harness.request("tools/call", r#"{"name":"b__slow"}"#);
        harness.client.cancel(call, None, harness.now);
        harness.settle();
        assert_eq!([0, 1, 2].map(|at: usize| harness.servers[at].cancelled), [0, 1, 0], "{eras:?}");
        assert_eq!(harness.aggregate.load(), idle, "{eras:?}");
    }
}

#[test]
fn changes_of_any_server_reach_the_client() {
    for eras in ERAS {
        let (client, servers) = eras;
        let mut offers = servers.map(|versions| Offer::new(versions, &["x"]));
        offers[1].resources = vec!["x:1".into()];
        let [a, b, c] = offers;
        let mut harness = AggregateHarness::new(client, &[("a", a), ("b", b), ("c", c)]);
        harness.ask("resources/list", "{}").expect("a list");
        if *client == MODERN {
            let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}"#;
            let filter = mcp_proto::Json::parse(filter).expect("JSON");
            harness.client.listen(filter, harness.now).expect("a subscription");
            harness.settle();
        } else {
            harness.ask("resources/subscribe", r#"{"uri":"x:1"}"#).expect("a subscription");
        }
        harness.notified.clear();
        harness.publish(2, &Method::TOOLS_LIST_CHANGED, "{}");
        assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1, "{eras:?}");
        harness.publish(1, &Method::RESOURCES_UPDATED, r#"{"uri":"x:1"}"#);
        assert_eq!(harness.take_notified(&Method::RESOURCES_UPDATED), 1, "{eras:?}");
        harness.publish(0, &Method::RESOURCES_UPDATED, r#"{"uri":"x:1"}"#);
        assert_eq!(harness.take_notified(&Method::RESOURCES_UPDATED), 0, "{eras:?}");

        // The subscription is made again at the server that was started again.
        harness.exit(1);
        harness.pass(Duration::from_secs(2));
        assert!(harness.take_notified(&Method::TOOLS_LIST_CHANGED) >= 1, "{eras:?}");
        harness.publish(1, &Method::RESOURCES_UPDATED, r#"{"uri":"x:1"}"#);
        assert_eq!(harness.take_notified(&Method::RESOURCES_UPDATED), 1, "{eras:?}");
    }
}

#[test]
fn settings_and_roots_of_a_session_reach_all_servers() {
    let mut harness = three(&ERAS[0], &["x"]);
    harness.ask("logging/setLevel", r#"{"level":"error"}"#).expect("a level");
    for server in 0..3 {
        harness.log(server, LoggingLevel::Info, "quiet");
        harness.log(server, LoggingLevel::Critical, "loud");
    }
    assert_eq!(harness.take_notified(&Method::MESSAGE), 3, "the servers have the level");
    harness.exit(0);
    harness.pass(Duration::from_secs(2));
    harness.log(0, LoggingLevel::Info, "quiet");
    assert_eq!(harness.take_notified(&Method::MESSAGE), 0, "it was set again");

    let changed = mcp_proto::Notification::new(Method::ROOTS_LIST_CHANGED);
    harness.client.notify(changed, harness.now).expect("a notification");
    harness.settle();
    for server in &harness.servers {
        assert_eq!(server.notifications, ["notifications/roots/list_changed"]);
    }
    for server in [2, 1] {
        harness.ask_client(server, "roots/list", "{}");
    }
    assert_eq!([0, 1, 2].map(|at: usize| harness.servers[at].answers.len()), [0, 1, 1]);
}

#[test]
fn a_subscription_that_a_server_refuses_after_its_restart_is_reported() {
    let mut offer = Offer::new(LEGACY, &[]);
    offer.resources = vec!["x:1".into()];
    let mut harness = AggregateHarness::new(LEGACY, &[("a", offer)]);
    harness.ask("resources/subscribe", r#"{"uri":"x:1"}"#).expect("a subscription");
    harness.servers[0].offer.capabilities = r#"{"resources":{}}"#;
    harness.exit(0);
    harness.pass(Duration::from_secs(1));
    let reported = harness.events.iter().filter(|event| {
        let Event::Server { event: relay::Event::NotInEffect { method, .. }, .. } = event else { return false };
        *method == Method::RESOURCES_SUBSCRIBE
    });
    assert_eq!(reported.count(), 1, "{:?}", harness.events);
}

#[test]
fn the_aggregate_states_the_capabilities_and_instructions_of_all_servers() {
    for eras in ERAS {
        let (client, servers) = eras;
        let mut offers = servers.map(|versions| Offer::new(versions, &[]));
        offers[0].capabilities = r#"{"tools":{}}"#;
        offers[1].capabilities = r#"{"prompts":{}}"#;
        offers[2].capabilities = r#"{"resources":{"subscribe":true},"experimental":{"x":{}}}"#;
        let [a, b, c] = offers;
        let harness = AggregateHarness::new(client, &[("a", a), ("b", b), ("c", c)]);
        let opened = harness.opened.expect("it is open").to_text().into_owned();
        for expected in [
            r##""instructions":"# a\n\nUse a.\n\n# b\n\nUse b.\n\n# c\n\nUse c.""##,
            r#""tools":{"listChanged":true}"#,
            r#""prompts":{"listChanged":true}"#,
            r#""subscribe":true"#,
            r#"{"version":"1.0.0","name":"all"}"#,
        ] {
            let expected_too = r#"{"name":"all","version":"1.0.0"}"#;
            let is_there = opened.contains(expected) || (expected.contains("all") && opened.contains(expected_too));
            assert!(is_there, "{expected} in {opened}");
        }
        for unexpected in ["completions", "logging", "experimental"] {
            assert!(!opened.contains(unexpected), "{unexpected} in {opened}");
        }
    }
}

#[test]
fn the_aggregate_states_the_tasks_of_a_server_without_their_list() {
    let [a, mut b] = [0, 1].map(|_| Offer::new(LEGACY, &[]));
    b.capabilities = r#"{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#;
    let harness = AggregateHarness::new(LEGACY, &[("a", a), ("b", b)]);
    let opened = harness.opened.expect("it is open").to_text().into_owned();
    assert!(opened.contains(r#""tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}"#), "{opened}");
}

#[test]
fn lists_have_the_pages_of_all_servers_and_what_is_too_much_follows_under_a_cursor() {
    for eras in ERAS {
        let (client, servers) = eras;
        let tools: Vec<_> = (0..7).map(|number| format!("t{number:040}")).collect();
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        let mut offers = servers.map(|versions| Offer::new(versions, &tools));
        for offer in &mut offers {
            offer.page = 3;
        }
        let expected: Vec<_> =
            ["a", "b", "c"].iter().flat_map(|name| tools.iter().map(move |tool| format!("{name}__{tool}"))).collect();
        let [a, b, c] = offers;
        let servers = [("a", a), ("b", b), ("c", c)];
        let mut harness = AggregateHarness::new(client, &servers);
        assert_eq!(harness.tools(), expected, "{eras:?}");

        // With a small limit, each answer has at least a page of one server.
        let mut harness = AggregateHarness::with(client, &servers, |config| config.relay.limits.message = 4096);
        let (mut found, mut cursor, mut rounds) = (Vec::new(), String::new(), 0);
        loop {
            rounds += 1;
            let params = if cursor.is_empty() { "{}".to_owned() } else { format!(r#"{{"cursor":"{cursor}"}}"#) };
            let list = harness.ask("tools/list", &params).expect("a list");
            found.extend(names(&list, "tools", "name"));
            cursor = tests::aggregate::member(&list, "nextCursor");
            if cursor.is_empty() {
                break;
            }
            for altered in [format!("{cursor}0"), cursor.replace(".a.", ".b.") + "x", "x".to_owned()] {
                let error = harness.ask("tools/list", &format!(r#"{{"cursor":"{altered}"}}"#)).expect_err("altered");
                assert!(error.starts_with("-32602"), "{error}");
            }
            let error = harness.ask("prompts/list", &format!(r#"{{"cursor":"{cursor}"}}"#));
            assert!(error.is_err_and(|error| error.starts_with("-32602")), "a cursor of another list");
        }
        found.sort();
        assert_eq!(found, expected, "each tool once: {eras:?}");
        assert!(rounds > 2, "{rounds}");
        assert_eq!(harness.aggregate.load().waiting, 0);
    }
}

#[test]
fn a_server_that_exits_fails_its_calls_once_and_is_started_again() {
    for eras in ERAS {
        let mut harness = three(eras, &["slow", "exit", "x"]);
        let of_a = harness.request("tools/call", r#"{"name":"a__slow"}"#);
        let of_b = harness.request("tools/call", r#"{"name":"b__slow"}"#);
        let error = harness.call("b__exit", "{}").expect_err("it has exited");
        assert!(error.starts_with("-32603 the server 'b'"), "{error}");
        let error = harness.outcome(of_b).expect("an outcome").expect_err("it has exited");
        assert!(error.starts_with("-32603 the server 'b'"), "{error}");
        assert_eq!(harness.outcome(of_a), None, "another server continues");
        let error = harness.call("b__x", "{}").expect_err("it is not running");
        assert_eq!(error, "-32603 the server 'b' is not running; it is started again in 2 s");
        assert_eq!(harness.tools().len(), 6, "its tools are left out");

        harness.notified.clear();
        harness.pass(Duration::from_secs(2));
        assert_eq!(harness.servers[1].starts, 2);
        if eras.0 != MODERN {
            assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1, "{eras:?}");
        }
        assert_eq!(harness.call("b__x", "{}"), Ok("b x {}".into()));
        harness.answer_slow(0);
        assert_eq!(harness.outcome(of_a).map(|answer| answer.is_ok()), Some(true));
        harness.close();
        assert!(harness.is_closed());
        assert_eq!(harness.aggregate.load().requests_in, 0);
    }
}

#[test]
fn how_the_process_of_a_server_has_ended_is_in_the_errors_of_its_calls() {
    for eras in ERAS {
        for (end, text) in
            [(ProcessEnd::Code(3), "exited with code 3"), (ProcessEnd::Signal(9), "was ended by signal 9 (SIGKILL)")]
        {
            let mut harness = three(eras, &["slow"]);
            let call = harness.request("tools/call", r#"{"name":"b__slow"}"#);
            harness.exit_as(1, Some(end));
            let error = harness.outcome(call).expect("an outcome").expect_err("it has exited");
            assert!(error.starts_with("-32603 the server 'b'") && error.contains(text), "{error}");
            let error = harness.call("b__slow", "{}").expect_err("it is not running");
            assert_eq!(error, format!("-32603 the server 'b' {text}; it is started again in 2 s"));
            harness.pass(Duration::from_secs(2));
            assert_eq!(harness.servers[1].starts, 2, "{eras:?}");
        }
    }
}

#[test]
fn why_the_process_of_a_server_could_not_be_started_is_in_the_errors_of_its_calls() {
    for (client, versions) in [(LEGACY, LEGACY), (MODERN, MODERN)] {
        let servers = ["a", "b"].map(|name| (name, Offer::new(versions, &["x"])));
        let mut harness = AggregateHarness::new(client, &servers);
        harness.servers[1].offer.is_missing = true;
        harness.exit_as(1, Some(ProcessEnd::Code(1)));
        harness.pass(Duration::from_secs(1));
        let error = harness.call("b__x", "{}").expect_err("it is not running");
        let expected = "-32603 the server 'b' could not be started: its command was not found; it is started again in";
        assert!(error.starts_with(expected), "{error}");
        harness.servers[1].offer.is_missing = false;
        harness.pass(Duration::from_secs(30));
        assert_eq!(harness.call("b__x", "{}"), Ok("b x {}".into()));
    }
}

#[test]
fn an_aggregate_with_more_servers_than_its_limit_is_refused() {
    for (limit, is_refused) in [(1, true), (2, false)] {
        let mut config = Config::new("all", "1");
        config.relay.limits.backends = limit;
        for name in ["a", "b"] {
            config = config.server(name, relay::Config::default());
        }
        let refused = Aggregate::new(config).err();
        assert_eq!(refused, is_refused.then_some(UsageError::TooManyServers { limit }));
    }
}

#[test]
fn a_request_about_a_task_without_its_id_is_refused() {
    let mut harness = three(&ERAS[0], &["x"]);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let error = harness.ask(method, "{}").expect_err("no id");
        assert_eq!(error, "-32602 invalid params: taskId must be a string", "{method}");
    }
}

#[test]
fn the_error_of_a_server_for_a_page_that_is_not_there_any_more_reaches_the_client() {
    for (client, versions) in [(LEGACY, LEGACY), (MODERN, MODERN)] {
        let tools: Vec<_> = (0..60).map(|number| format!("t{number:040}")).collect();
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        let mut offer = Offer::new(versions, &tools);
        offer.page = 3;
        let mut harness = AggregateHarness::with(client, &[("a", offer)], |config| config.relay.limits.message = 4096);
        let list = harness.ask("tools/list", "{}").expect("a list");
        let cursor = tests::aggregate::member(&list, "nextCursor");
        assert!(!cursor.is_empty());
        harness.servers[0].offer.tools.truncate(1);
        let error = harness.ask("tools/list", &format!(r#"{{"cursor":"{cursor}"}}"#));
        assert_eq!(error, Err("-32602 invalid params: there is no such page".into()));
    }
}

#[test]
fn a_page_that_cannot_be_requested_because_too_many_requests_are_open_is_an_error() {
    for (client, versions) in [(LEGACY, LEGACY), (MODERN, MODERN)] {
        let mut offer = Offer::new(versions, &["slow", "x", "y"]);
        (offer.page, offer.description) = (1, 1000);
        let mut harness = AggregateHarness::with(client, &[("a", offer)], |config| {
            config.relay.limits.message = 4096;
            config.servers[0].relay.limits.requests_out = 2;
        });
        let list = harness.ask("tools/list", "{}").expect("a list");
        let cursor = tests::aggregate::member(&list, "nextCursor");
        assert!(!cursor.is_empty());
        for _ in 0..2 {
            harness.request("tools/call", r#"{"name":"a__slow","arguments":{}}"#);
        }
        let error = harness.ask("tools/list", &format!(r#"{{"cursor":"{cursor}"}}"#)).expect_err("no page");
        assert!(error.starts_with("-32603 the server 'a': "), "{error}");
    }
}

#[test]
fn the_end_is_reported_if_no_server_runs_when_the_client_disconnects() {
    let mut offer = Offer::new(LEGACY, &["x"]);
    offer.is_broken = true;
    let mut harness = AggregateHarness::new(LEGACY, &[("a", offer)]);
    assert!(!harness.is_running(0));
    harness.client.close(harness.now);
    harness.settle();
    assert!(harness.is_closed());
}

#[test]
fn the_end_is_reported_if_a_server_could_not_be_started_after_the_client_disconnected() {
    let now = Instant::START;
    let mut aggregate = Aggregate::new(Config::new("all", "1").server("a", relay::Config::default())).unwrap();
    aggregate.handle_bytes(format!("{}\n", initialize("0", "2025-11-25")).as_bytes(), now);
    let mut started = None;
    while let Some(output) = aggregate.poll_output() {
        if let Output::Action(Action::Start { server }) = output {
            started = Some(server);
        }
    }
    aggregate.close(now);
    let is_end = |output: &Output<Action, Event>| matches!(output, Output::Event(Event::Closed(_)));
    assert!(!std::iter::from_fn(|| aggregate.poll_output()).any(|output| is_end(&output)), "it may still start");
    aggregate.handle_not_started(started.expect("a server"), StartFailure::NotFound, now);
    assert!(std::iter::from_fn(|| aggregate.poll_output()).any(|output| is_end(&output)));
    assert_eq!(aggregate.running(), 0);
}

#[test]
fn a_server_that_was_usable_for_a_minute_is_started_again_after_the_first_pause() {
    let mut harness = three(&ERAS[0], &["x"]);
    let mut pauses = Vec::new();
    for usable in [0, 0, 59, 60, 0] {
        harness.pass(Duration::from_secs(usable));
        harness.events.clear();
        harness.exit(0);
        let failed = harness.events.iter().find_map(|event| match event {
            Event::ServerFailed { retry_in, .. } => Some(*retry_in),
            _ => None,
        });
        let pause = failed.expect("it has failed");
        pauses.push(pause.as_secs());
        harness.pass(pause);
        assert!(harness.is_usable(0), "after {pause:?}");
    }
    assert_eq!(pauses, [1, 2, 4, 1, 2]);
}

#[test]
fn a_server_that_cannot_be_started_is_tried_again_with_growing_pauses() {
    for (client, versions) in [(LEGACY, LEGACY), (MODERN, LEGACY), (MODERN, MODERN)] {
        let mut broken = Offer::new(versions, &["x"]);
        broken.is_broken = true;
        let mut harness = AggregateHarness::new(client, &[("a", Offer::new(versions, &["x"])), ("b", broken)]);
        assert_eq!(harness.tools(), ["a__x"], "the client does not wait for the broken one");
        let error = harness.call("b__x", "{}").expect_err("it is broken");
        assert!(error.starts_with("-32603 the server 'b' is not running; it is started again in"), "{error}");
        harness.pass(Duration::from_secs(64));
        let pauses = harness.events.iter().filter_map(|event| match event {
            Event::ServerFailed { retry_in, .. } => Some(retry_in.as_secs()),
            _ => None,
        });
        let pauses: Vec<_> = pauses.collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30], "{client:?} {versions:?}");
        harness.servers[1].offer.is_broken = false;
        harness.notified.clear();
        harness.pass(Duration::from_secs(30));
        if client == LEGACY {
            assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), 1);
        }
        assert_eq!(harness.tools(), ["a__x", "b__x"]);
    }
}

#[test]
fn a_server_that_exits_when_it_is_asked_for_its_revisions_is_started_again_at_once() {
    let mut offer = Offer::new(LEGACY, &["x"]);
    offer.exits_on_discover = true;
    let mut harness = AggregateHarness::new(MODERN, &[("a", offer), ("b", Offer::new(MODERN, &["x"]))]);
    harness.pass(Duration::ZERO);
    assert_eq!(harness.tools(), ["a__x", "b__x"]);
    assert_eq!(harness.servers[0].starts, 2);
}

#[test]
fn a_slow_server_is_left_out_and_announced_when_it_has_answered() {
    for (client, versions) in [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, MODERN)] {
        let mut silent = Offer::new(versions, &["x"]);
        silent.is_silent = true;
        let mut harness = AggregateHarness::new(client, &[("a", Offer::new(versions, &["x"])), ("b", silent)]);
        assert!(harness.opened.is_none(), "the client waits for the slow one");
        harness.pass(Duration::from_secs(10));
        let opened = harness.opened.clone().expect("it waits no longer").to_text().into_owned();
        assert!(opened.contains("logging"), "the slow one may have all capabilities: {opened}");
        let list = harness.request("tools/list", "{}");
        harness.pass(Duration::from_secs(10));
        assert_eq!(
            harness.outcome(list).map(|list| names(&list.expect("a list"), "tools", "name")),
            Some(vec!["a__x".into()])
        );
        harness.notified.clear();
        harness.speak(1);
        if client == LEGACY {
            assert!(harness.take_notified(&Method::TOOLS_LIST_CHANGED) >= 1, "{versions:?}");
        }
        assert_eq!(harness.tools(), ["a__x", "b__x"], "{client:?} {versions:?}");

        // A list that is late is announced once, so that a server that is always late causes no endless lists.
        for expected in [1, 0] {
            harness.servers[1].offer.is_silent = true;
            let list = harness.request("tools/list", "{}");
            harness.pass(Duration::from_secs(10));
            assert!(harness.outcome(list).is_some());
            harness.notified.clear();
            harness.speak(1);
            if client == LEGACY {
                assert_eq!(harness.take_notified(&Method::TOOLS_LIST_CHANGED), expected, "{versions:?}");
            }
        }
    }
}

#[test]
fn long_names_are_looked_up() {
    let long = "n".repeat(80);
    for eras in ERAS {
        let (client, servers) = eras;
        let [a, b, c] = servers.map(|versions| Offer::new(versions, &["x", &long]));
        let servers = [("a", a), ("b", b), ("c", c)];
        let mut harness = AggregateHarness::new(client, &servers);
        let tools = harness.tools();
        assert_eq!((&*tools[0], &*tools[2]), ("a__x", "b__x"));
        assert!(tools.iter().all(|tool| tool.len() <= 64), "{tools:?}");
        let owners = ["a", "a", "b", "b", "c", "c"];
        // Another aggregate, whose client has not listed the tools.
        let mut harness = AggregateHarness::new(client, &servers);
        for (at, (tool, owner)) in tools.iter().zip(owners).enumerate().rev() {
            let name = if at % 2 == 0 { "x" } else { &long };
            assert_eq!(harness.call(tool, "{}"), Ok(format!("{owner} {name} {{}}")), "{tool}");
        }
        assert!(harness.call("nothing", "{}").is_err());
    }
}

#[test]
fn the_state_of_a_server_is_returned_to_no_other() {
    let mut harness = three(&ERAS[3], &["ask"]);
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    let call = |harness: &mut AggregateHarness, id: u32, tool: &str, more: &str| {
        harness.received.clear();
        let params = format!(r#"{{"name":"{tool}",{meta}{more}}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        harness.aggregate.handle_bytes(format!("{line}\n").as_bytes(), harness.now);
        harness.settle();
        String::from_utf8(harness.received.clone()).expect("UTF-8")
    };
    let answer = call(&mut harness, 901, "b__ask", "");
    let state = answer.split_once(r#""requestState":""#).expect("a state").1.split('"').next().expect("a state");
    let state = state.to_owned();
    assert!(state.ends_with(".b.of b"), "{state}");
    let input = r#","inputResponses":{"q":{"action":"accept","content":{"name":"Ann"}}}"#;
    let retry = |state: &str| format!(r#"{input},"requestState":"{state}""#);
    for (id, tool, state) in
        [(902, "a__ask", state.clone()), (903, "b__ask", format!("{state}0")), (904, "b__ask", "of b".into())]
    {
        let refused = call(&mut harness, id, tool, &retry(&state));
        assert!(refused.contains("-32602"), "{refused}");
    }
    assert_eq!([0, 1, 2].map(|at: usize| harness.servers[at].called().len()), [0, 1, 0]);
    let answer = call(&mut harness, 905, "b__ask", &retry(&state));
    assert!(answer.contains("b true"), "{answer}");
}

#[test]
fn a_call_that_waits_for_input_can_be_continued_only_with_its_own_state() {
    let states = |secret: u128| {
        let (client, servers) = ERAS[5];
        let [a, b, c] = servers.map(|versions| Offer::new(versions, &["ask"]));
        let servers = [("a", a), ("b", b), ("c", c)];
        let mut harness = AggregateHarness::with(client, &servers, |config| config.secret = secret);
        harness.tools();
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
        [(901, "a"), (902, "b")].map(|(id, server)| {
            harness.received.clear();
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{server}__ask",{meta}}}}}"#
            );
            harness.aggregate.handle_bytes(format!("{line}\n").as_bytes(), harness.now);
            harness.settle();
            let answer = String::from_utf8(harness.received.clone()).expect("UTF-8");
            let state =
                answer.split_once("relay-").unwrap_or_else(|| panic!("{answer}")).1.split('"').next().expect("a state");
            state.to_owned()
        })
    };
    assert_eq!(states(0), ["1", "1"]);
    let [one, two] = states(7).map(|state| state.split_once('-').expect("a secret").1.to_owned());
    assert!(one != two && one.len() == 32, "{one} {two}");
    assert_ne!(states(8)[0].split_once('-').expect("a secret").1, one);
}

#[test]
fn a_process_that_does_not_end_is_not_started_twice() {
    let mut harness = three(&ERAS[0], &["x"]);
    harness.stops_at_once = false;
    // The server closes its output, but its process continues.
    harness.servers[1].offer.is_silent = true;
    let key = harness.server_key(1);
    harness.aggregate.handle_server_eof(key, harness.now);
    harness.settle();
    harness.pass(Duration::from_secs(5));
    assert_eq!(harness.servers[1].starts, 1);
    let error = harness.call("b__x", "{}").expect_err("it is not running");
    assert_eq!(error, "-32603 the server 'b' is not running; it is started again when it has ended");
    harness.servers[1].offer.is_silent = false;
    harness.end_stopping();
    assert_eq!((harness.servers[1].starts, harness.call("b__x", "{}")), (2, Ok("b x {}".into())));
    harness.close();
    assert!(harness.is_closed());
}

#[test]
fn debug_forms_contain_no_payload() {
    let mut harness = three(&ERAS[0], &["slow"]);
    harness.request("tools/call", r#"{"name":"a__slow","arguments":{"key":"secret-7"}}"#);
    let shown = format!("{:?}", harness.aggregate);
    assert!(!shown.contains("secret-7") && shown.contains("running: 3"), "{shown}");
}
