//! Sessions in a store: everything that one instance of a server does for a session, several do that share the store.

use std::time::Duration;

use mcp_proto::client::Call;
use mcp_proto::server::{ChangeNotification, Event, Outcome, Principal, Progress};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::store::{MemoryStore, StoreAction};
use mcp_proto::{InstanceId, Instant, Json, Notification, SessionKey};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::messages::request;
use tests::instances::{Instances, delete, get, ping, resume, set_level};

/// How long a session may be unused.
const IDLE: Duration = Duration::from_secs(30 * 60);
const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn subscribe(session: &str, method: &str, uri: &str) -> TestRequest {
    let method = format!("resources/{method}");
    TestRequest::post(request("9", &method, &format!(r#"{{"uri":"{uri}"}}"#))).in_session(session)
}

fn session_of(instances: &mut Instances, at: usize) -> SessionKey {
    instances.servers[at].last_session()
}

fn changed(name: &str) -> Notification {
    Notification::new(name)
}

#[test]
fn every_message_of_a_session_can_arrive_at_another_instance() {
    for version in VERSIONS {
        let mut instances = Instances::new(5);
        let id = instances.session(0, 1, version);
        let (exchange, ticket) = instances.call(2, &id, "7", r#"{"name":"t"}"#);
        assert_eq!(instances.servers[2].server.context(&ticket).unwrap().version.as_str(), version);
        instances.respond(2, ticket, r#"{"content":[]}"#);
        assert_eq!(instances.take(2, exchange).text(), r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#);
        assert_eq!(instances.answer(3, &ping(&id)).code(), 200);
        assert_eq!(instances.answer(4, &delete(&id)).code(), 204);
        for at in 0..5 {
            assert_eq!((instances.answer(at, &ping(&id)).code(), instances.servers[at].server.sessions()), (404, 0));
        }
        assert_eq!(instances.store.sessions(), 0);
    }
}

#[test]
fn sh_s_40_a_client_receives_its_session_id_when_the_record_is_written() {
    let mut instances = Instances::new(1);
    let opening = TestRequest::post(mcp_testkit::http_exchange::initialize("2025-11-25"));
    let exchange = instances.servers[0].ask(&opening);
    assert_eq!(instances.servers[0].take(exchange).code(), 0);
    assert!(matches!(instances.servers[0].store_actions[..], [StoreAction::Save { expected: 0, .. }]));
    instances.settle();
    assert_eq!(instances.take(0, exchange).code(), 200);
    // A client that does not wait has no session.
    let exchange = instances.servers[0].ask(&opening);
    instances.disconnect(0, exchange);
    assert_eq!((instances.servers[0].server.sessions(), instances.take(0, exchange).code()), (1, 0));
}

#[test]
fn what_a_client_sets_is_in_force_at_every_instance_when_it_is_answered() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 1, "2025-11-25");
    for at in 0..3 {
        assert_eq!(instances.answer(at, &ping(&id)).code(), 200);
    }
    for (at, level) in [(0, "error"), (1, "debug"), (2, "warning")] {
        assert_eq!(instances.answer(at, &set_level(&id, level)).code(), 200);
        for other in 0..3 {
            instances.answer(other, &ping(&id));
            let session = session_of(&mut instances, other);
            let expected = LoggingLevel::from_text(level);
            assert_eq!(instances.servers[other].server.logging_level(session), expected, "{at} {other}");
        }
    }
    // The response is sent after the record is written, or not at all.
    let exchange = instances.servers[0].ask(&set_level(&id, "info"));
    instances.settle();
    assert_eq!(instances.take(0, exchange).code(), 200);
    instances.servers[1].ask(&ping(&id));
    instances.settle();
    instances.is_reachable = false;
    assert_eq!(instances.answer(1, &set_level(&id, "debug")).code(), 503);
    instances.is_reachable = true;
    instances.answer(1, &ping(&id));
    let session = session_of(&mut instances, 1);
    assert_eq!(instances.servers[1].server.logging_level(session), Some(LoggingLevel::Info));
}

#[test]
fn changes_of_one_session_at_two_instances_are_both_kept() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 1, "2025-11-25");
    for at in 0..3 {
        assert_eq!(instances.answer(at, &ping(&id)).code(), 200);
    }
    // Both read the same record before one of them writes.
    let asked = [set_level(&id, "error"), subscribe(&id, "subscribe", "file:///a")];
    let exchanges = [0, 1].map(|at: usize| instances.servers[at].ask(&asked[at]));
    instances.settle();
    for (at, exchange) in exchanges.into_iter().enumerate() {
        assert_eq!(instances.take(at, exchange).code(), 200, "{at}");
    }
    instances.answer(2, &ping(&id));
    let session = session_of(&mut instances, 2);
    assert_eq!(instances.servers[2].server.logging_level(session), Some(LoggingLevel::Error));
    assert_eq!(instances.servers[2].server.load().subscriptions, 1);
    assert_eq!(instances.answer(0, &subscribe(&id, "unsubscribe", "file:///a")).code(), 200);
    instances.answer(2, &ping(&id));
    assert_eq!(instances.servers[2].server.load().subscriptions, 0);
}

#[test]
fn se4_a_session_of_another_principal_is_unknown_at_every_instance() {
    let mut instances = Instances::new(2);
    let id = instances.open_by(0, "2025-11-25", Some("ada"));
    for (request, code) in [(ping(&id), 404), (ping(&id).by("eve"), 404), (ping(&id).by("ada"), 200)] {
        for at in 0..2 {
            assert_eq!(instances.answer(at, &request).code(), code, "{at}");
        }
    }
    assert_eq!(instances.answer(1, &delete(&id).by("eve")).code(), 404);
    assert_eq!(instances.answer(0, &ping(&id).by("ada")).code(), 200);
    // What another principal asks for does not end what is open of the session.
    let get = TestRequest::get().in_session(&id).by("ada");
    let stream = instances.ask(0, &get);
    instances.answer(0, &ping(&id).by("eve"));
    assert!(!instances.take(0, stream).is_over);
}

#[test]
fn a_change_of_a_session_that_ends_elsewhere_is_refused() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 1, "2025-11-25");
    let (exchange, _) = instances.ask_and_hold(0, &set_level(&id, "error"));
    assert_eq!(instances.answer(1, &delete(&id)).code(), 204);
    assert_eq!(instances.take(0, exchange).code(), 404);
}

#[test]
fn what_was_set_elsewhere_is_in_force_while_a_change_is_written() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 1, "2025-11-25");
    let (asked, save) = instances.ask_and_hold(0, &subscribe(&id, "subscribe", "file:///a"));
    assert_eq!(instances.answer(1, &subscribe(&id, "subscribe", "file:///b")).code(), 200);
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200);
    let subscriptions = |instances: &Instances| instances.servers[0].server.load().subscriptions;
    assert_eq!(subscriptions(&instances), 2, "its own, and the one of the other instance");
    instances.servers[0].store_actions.push(save);
    assert_eq!(instances.take(0, asked).code(), 200);
    assert_eq!(subscriptions(&instances), 2);
    instances.answer(1, &ping(&id));
    assert_eq!(instances.servers[1].server.load().subscriptions, 2);
}

#[test]
fn nothing_is_asked_of_the_store_for_a_request_that_is_refused() {
    let mut instances = Instances::new(1);
    let id = "0123456789abcdef0123456789abcdef";
    let challenge = mcp_proto::auth::Challenge::bearer();
    for (request, code) in [
        (ping(id).with("host", "evil.example"), 403),
        (ping(id).challenged(challenge), 401),
        (ping(id).with("content-type", "text/plain"), 415),
        (ping(id).and("mcp-session-id", id), 404),
        (ping("short"), 404),
        (ping(&id.to_uppercase()), 404),
        (ping(&id.repeat(100)), 404),
        (TestRequest::post(request("1", "ping", "{}")), 400),
    ] {
        let exchange = instances.servers[0].ask(&request);
        assert_eq!(instances.servers[0].take(exchange).code(), code);
        assert_eq!(instances.servers[0].store_actions, [], "{code}");
    }
}

#[test]
fn a_request_waits_for_its_session_with_what_has_arrived_of_its_body() {
    for pieces in [1, 7, 1000] {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        // The body arrives before the record, and after it.
        let exchange = instances.servers[1].ask_in_pieces_of(pieces, &ping(&id));
        assert_eq!(instances.servers[1].take(exchange).code(), 0);
        assert_eq!(instances.take(1, exchange).code(), 200);
        let exchange = instances.servers[1].begin(&ping(&id).with("expect", "100-continue"));
        assert!(instances.servers[1].responses.continued.is_empty(), "it is not known whether it is admitted");
        instances.settle();
        assert_eq!(instances.servers[1].responses.continued, [exchange]);
        let server = &mut instances.servers[1];
        server.server.handle_body(exchange, &ping(&id).body, server.now);
        server.server.handle_end(exchange, server.now);
        assert_eq!(instances.take(1, exchange).code(), 200);
    }
}

#[test]
fn sh_s_52_a_stream_is_resumed_at_any_instance_and_ends_with_the_answer() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 1, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t","_meta":{"progressToken":1}}"#);
    let progress = |instances: &mut Instances, value: u32| {
        let server = &mut instances.servers[0];
        server.server.progress(&ticket, &Progress::new(f64::from(value)), server.now);
        instances.settle();
    };
    progress(&mut instances, 1);
    progress(&mut instances, 2);
    let sent = instances.take(0, exchange);
    assert_eq!((sent.ids().len(), sent.data().len()), (3, 2), "a priming event, and two with data");
    for (at, after) in sent.ids().iter().enumerate() {
        for resumed_at in 0..3 {
            let resumed = instances.answer(resumed_at, &resume(&id, after));
            assert_eq!(resumed.data(), sent.data()[at..], "{at} {resumed_at}");
        }
    }
    // The rest reaches the client at the instance where it has come last.
    let resumed = instances.ask(2, &resume(&id, sent.ids().last().unwrap()));
    progress(&mut instances, 3);
    instances.respond(0, ticket, "{}");
    let rest = instances.take(2, resumed);
    assert!(rest.is_over && rest.data().len() == 2 && rest.data()[1].contains(r#""id":7"#), "{rest:?}");
    assert!(instances.take(0, exchange).data().is_empty(), "the client has left this connection");
    let again = instances.answer(1, &resume(&id, &rest.ids()[0]));
    assert!(again.is_over && again.data() == rest.data()[1..]);
}

#[test]
fn a_replay_is_complete_or_refused() {
    let mut instances = Instances::with(2, |http, _| http.replay = 300);
    let id = instances.session(0, 1, "2025-11-25");
    let other = instances.session(1, 0, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t","_meta":{"progressToken":1}}"#);
    for value in 1..6 {
        let server = &mut instances.servers[0];
        server.server.progress(&ticket, &Progress::new(f64::from(value)), server.now);
    }
    let sent = instances.take(0, exchange);
    let (ids, data) = (sent.ids(), sent.data());
    let mut codes = Vec::new();
    for (at, after) in ids.iter().enumerate() {
        let exchange = instances.ask(1, &resume(&id, after));
        let resumed = instances.take(1, exchange);
        instances.disconnect(1, exchange);
        codes.push(resumed.code());
        if resumed.code() == 200 {
            assert_eq!(resumed.data(), data[at..]);
        }
        assert_eq!(instances.answer(1, &resume(&other, after)).code(), 400, "an event of another session");
    }
    assert!(codes.is_sorted_by(|a, b| a >= b) && codes.contains(&400) && codes.contains(&200), "{codes:?}");
    let unknown = ids.last().unwrap().replace("-5", "-6");
    assert_eq!(instances.answer(1, &resume(&id, &unknown)).code(), 400);
    assert_eq!(instances.answer(1, &resume(&id, "feed-1")).code(), 400);
    instances.respond(0, ticket, "{}");
    instances.pass(Duration::from_secs(3600));
    assert_eq!(instances.answer(1, &resume(&id, ids.last().unwrap())).code(), 404, "the session has expired");
}

#[test]
fn the_answer_to_a_request_of_the_server_reaches_the_instance_that_has_sent_it() {
    for version in VERSIONS {
        let mut instances = Instances::new(3);
        let id = instances.session(0, 1, version);
        let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t"}"#);
        let (_exchange, held) = instances.call(1, &id, "8", r#"{"name":"t"}"#);
        let now = instances.servers[0].now;
        let call = Call::new("roots/list").with_progress();
        let key = instances.servers[0].server.request(&ticket, call, now).unwrap();
        let own = instances.servers[1].server.request(&held, Call::new("roots/list"), now).unwrap();
        let asked = Json::parse(instances.take(0, exchange).data().pop().unwrap()).unwrap();
        let wire = asked.first_member("id").unwrap().to_text().into_owned();
        assert_ne!(wire, "1", "{own:?} has another id");
        let progress = format!(r#"{{"progressToken":{wire},"progress":1}}"#);
        for message in [
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{progress}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{{"roots":[]}}}}"#),
        ] {
            assert_eq!(instances.answer(2, &TestRequest::post(message).in_session(&id)).code(), 202);
        }
        let events = instances.servers[0].events();
        assert!(events.iter().any(|event| matches!(event, Event::Progressed { request, .. } if *request == key)));
        let outcome = events.iter().find_map(|event| match event {
            Event::Responded { request, outcome } if *request == key => Some(outcome),
            _ => None,
        });
        assert!(matches!(outcome, Some(Outcome::Result(_))), "{events:?}");
        let faults = |event: &Event| matches!(event, Event::Faulted(_) | Event::Responded { .. });
        assert!(!instances.servers[1..].iter_mut().any(|server| server.events().iter().any(faults)));
    }
}

/// An array of this many levels.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn what_is_no_json_is_refused_at_every_instance() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    for at in 0..2 {
        assert_eq!(instances.answer(at, &TestRequest::post("{").in_session(&id)).code(), 400, "{at}");
    }
}

#[test]
fn a_message_of_one_instance_reaches_the_stream_at_another_one_at_once() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let stream = instances.ask(1, &get(&id));
    assert_eq!(instances.take(1, stream).code(), 200);
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200, "it reads where the stream is");
    let session = session_of(&mut instances, 0);
    let server = &mut instances.servers[0];
    server.server.notify(session, changed("notifications/x"), server.now).unwrap();
    assert_eq!(instances.take(1, stream).data().len(), 1);
}

#[test]
fn what_is_as_deep_as_the_limits_allow_reaches_other_instances() {
    for depth in [128, 1000] {
        let mut instances = Instances::with(2, |_, config| config.limits.depth = 1000);
        // The parameters, the client and its capabilities are levels too.
        let deep = format!(r#""capabilities":{{"experimental":{{"x":{}}}}}"#, nested(depth - 4));
        let opening = mcp_testkit::http_exchange::initialize("2025-11-25").replace(r#""capabilities":{}"#, &deep);
        let opened = instances.answer(0, &TestRequest::post(opening));
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t"}"#);
        let now = instances.servers[0].now;
        instances.servers[0].server.request(&ticket, Call::new("roots/list"), now).unwrap();
        let asked = Json::parse(instances.take(0, exchange).data().pop().unwrap()).unwrap();
        let wire = asked.first_member("id").unwrap().to_text().into_owned();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{{"x":{}}}}}"#, nested(depth - 2));
        assert_eq!(instances.answer(1, &TestRequest::post(answer).in_session(&id)).code(), 202, "{depth}");
        let is_answered = |event: &Event| matches!(event, Event::Responded { outcome: Outcome::Result(_), .. });
        assert!(instances.servers[0].events().iter().any(is_answered), "{depth}");
        let params = Json::parse_within(format!(r#"{{"x":{}}}"#, nested(depth - 2)), depth).unwrap();
        let now = instances.servers[0].now;
        let change = Notification::with_params("notifications/tools/list_changed", params);
        let stream = instances.ask(1, &TestRequest::get().in_session(&id));
        instances.servers[0].server.publish(change, now).unwrap();
        assert_eq!(instances.take(1, stream).data().len(), 1, "{depth}");
    }
}

#[test]
fn a_session_that_returns_to_an_instance_has_no_request_with_an_earlier_id() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t"}"#);
        let now = instances.servers[0].now;
        instances.servers[0].server.request(&ticket, Call::new("roots/list"), now).unwrap();
        let asked = Json::parse(instances.take(0, exchange).data().pop().unwrap()).unwrap();
        ids.push(asked.first_member("id").unwrap().to_text().into_owned());
        instances.respond(0, ticket, "{}");
        instances.disconnect(0, exchange);
        // It is not in memory any more, and still in the store.
        let session = session_of(&mut instances, 0);
        instances.pass(IDLE.saturating_sub(Duration::from_secs(1)));
        instances.answer(1, &ping(&id));
        instances.pass(Duration::from_secs(2));
        assert_eq!(instances.servers[0].server.version(session), None);
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn cx_03_a_cancellation_reaches_the_instance_that_serves_the_request() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 1, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t"}"#);
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(instances.answer(2, &TestRequest::post(cancelled).in_session(&id)).code(), 202);
    let events = instances.servers[0].events();
    assert!(events.iter().any(|event| matches!(event, Event::Cancelled { ticket: key, .. } if *key == ticket.key())));
    assert_eq!(instances.take(0, exchange).code(), 202);
}

#[test]
fn a_change_that_one_instance_publishes_reaches_the_clients_of_all() {
    let mut instances = Instances::new(3);
    let ids = [0, 1, 2].map(|at| instances.session(at, 0, "2025-11-25"));
    // Each client has its stream at the instance after the one that has opened its session.
    let streams = [0, 1, 2].map(|at| instances.ask((at + 1) % 3, &TestRequest::get().in_session(&ids[at])));
    assert_eq!(instances.answer(2, &subscribe(&ids[1], "subscribe", "file:///a")).code(), 200);
    let listen = TestRequest::stateless("1", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#);
    let listening = instances.ask(2, &listen);
    assert_eq!(instances.take(2, listening).data().len(), 1, "it is acknowledged");
    let now = instances.servers[0].now;
    instances.servers[0].server.publish(changed("notifications/tools/list_changed"), now).unwrap();
    let updated =
        Notification::with_params("notifications/resources/updated", Json::parse(r#"{"uri":"file:///a"}"#).unwrap());
    instances.servers[1].server.publish(updated, now).unwrap();
    let received = [0, 1, 2].map(|at| instances.take((at + 1) % 3, streams[at]).data().len());
    assert_eq!(received, [1, 2, 1], "each change once");
    assert_eq!(instances.take(2, listening).data().len(), 1);
}

#[test]
fn se_10_a_change_for_one_principal_reaches_only_its_subscriptions_at_every_instance() {
    const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    const PRINCIPALS: [Option<&str>; 3] = [Some("ada"), Some("eve"), None];
    let by = |asked: &TestRequest, principal: Option<&str>| match principal {
        Some(principal) => asked.clone().by(principal),
        None => asked.clone(),
    };
    let mut instances = Instances::with(2, |_, config| {
        let declared = format!(r#"{{"tools":{{"listChanged":true}},"resources":{{"subscribe":true}},{}"#, &TASKS[1..]);
        config.capabilities = Json::parse(declared).unwrap();
    });
    let filter = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"],"taskIds":["t"]},"#;
    let mut listen = TestRequest::stateless("1", "subscriptions/listen", filter);
    let text = std::str::from_utf8(&listen.body).unwrap();
    listen.body = text.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{TASKS}"#)).into();
    let places: Vec<_> = [0, 1].into_iter().flat_map(|at| PRINCIPALS.map(|principal| (at, principal))).collect();
    let mut streams = Vec::new();
    for (at, principal) in &places {
        let listening = instances.ask(*at, &by(&listen, *principal));
        assert!(instances.take(*at, listening).text().contains(r#""taskIds":["t"]"#), "it is acknowledged");
        let session = instances.open_by(*at, "2025-11-25", *principal);
        let subscribed = by(&subscribe(&session, "subscribe", "file:///a"), *principal);
        assert_eq!(instances.answer(*at, &subscribed).code(), 200);
        let get = instances.ask(*at, &by(&get(&session), *principal));
        assert_eq!(instances.take(*at, get).code(), 200);
        streams.push((listening, get));
    }
    let received = |instances: &mut Instances| {
        let each = places.iter().zip(&streams);
        let counted = each.map(|((at, _), (listening, get))| {
            [listening, get].map(|stream| instances.take(*at, *stream).data().len())
        });
        counted.collect::<Vec<_>>()
    };
    for (method, params) in [
        ("notifications/tools/list_changed", "{}"),
        ("notifications/resources/updated", r#"{"uri":"file:///a"}"#),
        ("notifications/tasks", r#"{"taskId":"t"}"#),
    ] {
        let change = Notification::with_params(method, Json::parse(params).unwrap());
        let now = instances.servers[0].now;
        for (at, owner) in &places {
            let owned = ChangeNotification::for_principal(change.clone(), owner.map(Principal::new).as_ref());
            instances.servers[*at].server.publish(owned, now).unwrap();
            let expected: Vec<_> = places.iter().map(|(_, principal)| [usize::from(principal == owner), 0]).collect();
            assert_eq!(received(&mut instances), expected, "{method} for {owner:?}, published at {at}");
        }
        // A session cannot ask for a task of this form.
        let to_session = usize::from(method != "notifications/tasks");
        for at in 0..2 {
            instances.servers[at].server.publish(change.clone(), now).unwrap();
            assert_eq!(received(&mut instances), [[1, to_session]; 6], "{method} for all, published at {at}");
        }
    }
}

#[test]
fn a_subscription_is_in_force_at_once_at_the_instance_with_the_stream() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 1, "2025-11-25");
    let stream = instances.ask(2, &TestRequest::get().in_session(&id));
    let publish = |instances: &mut Instances, at: usize| {
        let uri = Json::parse(r#"{"uri":"file:///a"}"#).unwrap();
        let now = instances.servers[at].now;
        let updated = Notification::with_params("notifications/resources/updated", uri);
        instances.servers[at].server.publish(updated, now).unwrap();
        instances.take(2, stream).data().len()
    };
    for (method, expected) in [("subscribe", [1, 1, 1]), ("unsubscribe", [0, 0, 0]), ("subscribe", [1, 1, 1])] {
        assert_eq!(instances.answer(0, &subscribe(&id, method, "file:///a")).code(), 200);
        assert_eq!([1, 2, 0].map(|at| publish(&mut instances, at)), expected, "{method}");
    }
}

#[test]
fn what_is_published_while_no_stream_is_open_waits_for_the_next_one() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 1, "2025-11-25");
    let publish = |instances: &mut Instances, at: usize| {
        let now = instances.servers[at].now;
        instances.servers[at].server.publish(changed("notifications/tools/list_changed"), now).unwrap();
        instances.settle();
    };
    publish(&mut instances, 2);
    let stream = instances.ask(1, &TestRequest::get().in_session(&id));
    let first = instances.take(1, stream);
    assert_eq!(first.data().len(), 1);
    instances.disconnect(1, stream);
    publish(&mut instances, 0);
    publish(&mut instances, 2);
    // Not again what was sent before.
    let stream = instances.ask(2, &TestRequest::get().in_session(&id));
    assert_eq!(instances.take(2, stream).data().len(), 2);
    instances.disconnect(2, stream);
    let resumed = instances.ask(0, &resume(&id, &first.ids()[0]));
    assert_eq!(instances.take(0, resumed).data().len(), 2);
}

#[test]
fn a_session_has_one_get_stream_among_all_instances() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 1, "2025-11-25");
    let get = TestRequest::get().in_session(&id);
    let stream = instances.ask(1, &get);
    assert_eq!([0, 1, 2].map(|at| instances.answer(at, &get).code()), [409; 3]);
    // A client that resumes has lost its connection, even if that instance has not noticed.
    let now = instances.servers[0].now;
    instances.servers[0].server.publish(changed("notifications/tools/list_changed"), now).unwrap();
    let last = instances.take(1, stream).ids().pop().unwrap();
    let resumed = instances.ask(2, &resume(&id, &last));
    assert_eq!(instances.take(2, resumed).code(), 200);
    assert!(instances.take(1, stream).is_over);
    instances.servers[0].server.publish(changed("notifications/tools/list_changed"), now).unwrap();
    assert_eq!((instances.take(1, stream).data().len(), instances.take(2, resumed).data().len()), (0, 1));
    instances.disconnect(2, resumed);
    let stream = instances.ask(0, &get);
    assert_eq!(instances.take(0, stream).code(), 200);
    // The stream of an instance that has ended is none.
    instances.kill(0);
    let stream = instances.ask(1, &get);
    assert_eq!(instances.take(1, stream).code(), 200);
}

#[test]
fn an_answer_that_is_stored_outlives_its_instance() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 1, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t","_meta":{"progressToken":1}}"#);
    let server = &mut instances.servers[0];
    server.server.progress(&ticket, &Progress::new(1.0), server.now);
    let sent = instances.take(0, exchange);
    instances.disconnect(0, exchange);
    instances.respond(0, ticket, r#"{"content":[]}"#);
    instances.kill(0);
    let resumed = instances.answer(1, &resume(&id, sent.ids().last().unwrap()));
    assert!(
        resumed.is_over && resumed.data() == [r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#],
        "{resumed:?}"
    );
}

#[test]
fn a_stream_whose_events_could_not_be_stored_ends_with_an_error_for_a_client_that_resumes_it() {
    for at in 0..2 {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t","_meta":{"progressToken":1}}"#);
        let progress = |instances: &mut Instances, value| {
            let server = &mut instances.servers[0];
            server.server.progress(&ticket, &Progress::new(value), server.now);
            instances.settle();
        };
        progress(&mut instances, 1.0);
        let last = instances.take(0, exchange).ids().pop().unwrap();
        instances.disconnect(0, exchange);
        progress(&mut instances, 2.0);
        progress(&mut instances, 3.0);
        instances.is_reachable = false;
        // The store does not receive that the stream is incomplete, either.
        progress(&mut instances, 4.0);
        instances.is_reachable = true;
        let resumed = instances.ask(at, &resume(&id, &last));
        let sent = instances.take(at, resumed);
        assert!(sent.is_over && sent.data().len() == 3 && sent.data()[2].contains("the answer is lost"), "{sent:?}");
        let again = instances.answer(1, &resume(&id, &last));
        assert_eq!((again.is_over, again.data()), (true, sent.data()));
    }
}

#[test]
fn a_call_of_an_instance_that_has_ended_gets_one_error() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut instances = Instances::new(3);
        let id = instances.session(0, 1, version);
        let (exchange, ticket) = instances.call(0, &id, "\"x\"", r#"{"name":"t","_meta":{"progressToken":1}}"#);
        let server = &mut instances.servers[0];
        server.server.progress(&ticket, &Progress::new(1.0), server.now);
        let last = instances.take(0, exchange).ids().pop().unwrap();
        // One client comes before the end, and one after it.
        let before = instances.ask(1, &resume(&id, &last));
        instances.kill(0);
        instances.pass(Duration::from_secs(20));
        let error = r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"the answer is lost: the instance of the server that was answering has ended, or could not store it"}}"#;
        let sent = instances.take(1, before);
        assert!(sent.is_over && sent.data() == [error], "{sent:?}");
        let after = instances.answer(2, &resume(&id, &last));
        assert!(after.is_over && after.data() == [error], "{after:?}");
    }
}

#[test]
fn a_store_that_cannot_be_reached_is_a_503_and_no_lost_session() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 1, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t","_meta":{"progressToken":1}}"#);
    instances.is_reachable = false;
    let opening = TestRequest::post(mcp_testkit::http_exchange::initialize("2025-11-25"));
    let get = TestRequest::get().in_session(&id);
    for request in [ping(&id), opening, delete(&id), get, resume(&id, "0000000000000001-1")] {
        for at in 0..2 {
            let refused = instances.answer(at, &request);
            assert_eq!((refused.code(), refused.headers.contains_key("retry-after")), (503, true));
        }
    }
    // A client that is connected receives its answer all the same, and nothing of it can be resumed.
    let server = &mut instances.servers[0];
    server.server.progress(&ticket, &Progress::new(1.0), server.now);
    instances.respond(0, ticket, "{}");
    let sent = instances.take(0, exchange);
    assert!(sent.is_over && sent.data().len() == 2, "{sent:?}");
    instances.is_reachable = true;
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
    assert_eq!(instances.answer(1, &resume(&id, &sent.ids()[0])).code(), 400);
}

#[test]
fn the_streams_of_a_session_end_when_it_is_ended_at_any_instance() {
    for at in 0..3 {
        let mut instances = Instances::new(3);
        let id = instances.session(0, 1, "2025-11-25");
        let (call, ticket) = instances.call(1, &id, "7", r#"{"name":"t","_meta":{"progressToken":1}}"#);
        let server = &mut instances.servers[1];
        server.server.progress(&ticket, &Progress::new(1.0), server.now);
        let begun = instances.take(1, call).ids().remove(0);
        let streams = [instances.ask(0, &TestRequest::get().in_session(&id)), instances.ask(0, &resume(&id, &begun))];
        for stream in streams {
            let sent = instances.take(0, stream);
            assert_eq!((sent.code(), sent.is_over), (200, false));
        }
        assert_eq!(instances.answer(at, &delete(&id)).code(), 204);
        for stream in streams {
            assert!(instances.take(0, stream).is_over, "{at}");
        }
        instances.pass(Duration::from_secs(60));
        for at in 0..3 {
            assert_eq!(instances.servers[at].server.load().to_string(), "nothing");
        }
    }
}

#[test]
fn a_request_that_waits_for_the_store_when_its_session_ends_elsewhere_is_answered_with_404() {
    for with_event in [false, true] {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let stream = instances.ask(1, &TestRequest::get().in_session(&id));
        let now = instances.servers[1].now;
        instances.servers[1].server.publish(changed("notifications/tools/list_changed"), now).unwrap();
        let after = instances.take(1, stream).ids().pop().unwrap();
        instances.disconnect(1, stream);
        let get = TestRequest::get().in_session(&id);
        let (waiting, held) = instances.ask_and_hold(0, &if with_event { resume(&id, &after) } else { get });
        assert!(matches!(held, StoreAction::Read { .. } | StoreAction::Save { .. }), "{held:?}");
        assert_eq!(instances.answer(1, &delete(&id)).code(), 204);
        assert_eq!(instances.take(0, waiting).code(), 404, "{with_event}");
    }
}

#[test]
fn a_store_that_does_not_answer_counts_as_one_that_cannot_be_reached() {
    let mut instances = Instances::new(1);
    let id = instances.session(0, 0, "2025-11-25");
    let server = &mut instances.servers[0];
    let exchange = server.ask(&ping(&id));
    server.pass(Duration::from_millis(4_999));
    assert_eq!(server.take(exchange).code(), 0);
    server.pass(Duration::from_millis(1));
    assert_eq!(server.take(exchange).code(), 503);
    // What it answers later has no effect.
    instances.settle();
    assert_eq!(instances.take(0, exchange).code(), 0);
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200);
}

#[test]
fn the_events_of_a_session_do_not_expire_before_it() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let publish = |instances: &mut Instances| {
        let now = instances.servers[0].now;
        instances.servers[0].server.publish(changed("notifications/tools/list_changed"), now).unwrap();
        instances.settle();
    };
    let stream = instances.ask(0, &TestRequest::get().in_session(&id));
    publish(&mut instances);
    let last = instances.take(0, stream).ids().pop().unwrap();
    instances.disconnect(0, stream);
    for _ in 0..4 {
        instances.pass(IDLE * 2 / 3);
        assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
    }
    instances.answer(0, &ping(&id));
    publish(&mut instances);
    let resumed = instances.ask(1, &resume(&id, &last));
    let sent = instances.take(1, resumed);
    assert_eq!((sent.code(), sent.data().len()), (200, 1), "{sent:?}");
    assert!(sent.ids()[0].ends_with("-2"), "{sent:?}");
}

#[test]
fn a_session_in_use_that_the_store_could_not_keep_is_kept_with_the_next_try() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    instances.ask(0, &TestRequest::get().in_session(&id));
    instances.pass((IDLE / 2).saturating_sub(Duration::from_secs(1)));
    instances.is_reachable = false;
    instances.pass(Duration::from_secs(10));
    instances.is_reachable = true;
    instances.pass(IDLE / 2);
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
}

#[test]
fn se6_a_session_is_kept_while_it_is_used_anywhere() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let idle = Duration::from_secs(30 * 60);
    for _ in 0..4 {
        instances.pass(idle.saturating_sub(Duration::from_secs(60)));
        assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
    }
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200);
    // An open stream and a request that is being served are use, too.
    let stream = instances.ask(0, &TestRequest::get().in_session(&id));
    instances.pass(idle * 3);
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
    instances.disconnect(0, stream);
    let (exchange, ticket) = instances.call(1, &id, "7", r#"{"name":"t"}"#);
    instances.pass(idle * 3);
    instances.respond(1, ticket, "{}");
    assert_eq!(instances.take(1, exchange).code(), 200);
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200);
    instances.pass(idle + Duration::from_secs(1));
    assert_eq!((instances.answer(0, &ping(&id)).code(), instances.store.sessions()), (404, 0));
    assert_eq!(instances.servers[0].server.sessions() + instances.servers[1].server.sessions(), 0);
}

#[test]
fn an_instance_that_is_stopped_leaves_its_sessions_to_the_others() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let stream = instances.ask(0, &TestRequest::get().in_session(&id));
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t","_meta":{"progressToken":1}}"#);
    let server = &mut instances.servers[0];
    server.server.progress(&ticket, &Progress::new(1.0), server.now);
    let sent = instances.take(0, exchange);
    let server = &mut instances.servers[0];
    server.server.drain(Duration::from_secs(10), server.now);
    instances.settle();
    assert!(instances.take(0, stream).is_over);
    let stream = instances.ask(1, &TestRequest::get().in_session(&id));
    assert_eq!(instances.take(1, stream).code(), 200);
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200, "a ping is answered");
    instances.disconnect(0, exchange);
    instances.respond(0, ticket, "{}");
    assert!(instances.servers[0].events().iter().any(|event| matches!(event, Event::Drained { cancelled: 0 })));
    assert_eq!(instances.answer(0, &ping(&id)).code(), 503);
    let resumed = instances.answer(1, &resume(&id, sent.ids().last().unwrap()));
    assert!(resumed.is_over && resumed.data().len() == 1, "{resumed:?}");
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
}

#[test]
fn a_request_that_an_application_ends_a_session_for_ends_it_everywhere() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 1, "2025-11-25");
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
    let session = session_of(&mut instances, 0);
    let now = instances.servers[0].now;
    instances.servers[0].server.end(session, now);
    instances.settle();
    assert_eq!([0, 1].map(|at| instances.servers[at].server.sessions()), [0, 0]);
    assert_eq!([0, 1].map(|at| instances.answer(at, &ping(&id)).code()), [404, 404]);
}

#[test]
fn a_message_of_another_instance_is_read_with_care() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 1, "2025-11-25");
    for message in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"k":7}"#,
        r#"{"k":"ended"}"#,
        r#"{"k":"ended","s":"x"}"#,
        r#"{"k":"later","s":"SID"}"#,
        r#"{"k":"moved","s":"SID"}"#,
        r#"{"k":"moved","s":"SID","i":"zz"}"#,
        r#"{"k":"changed","s":"SID","n":"ffffffffffffffff"}"#,
        r#"{"k":"changed","s":"SID","n":"ffffffffffffffff","r":{"f":1}}"#,
        r#"{"k":"watched","s":"SID","t":"0000000000000001"}"#,
        r#"{"k":"added","s":"SID","t":"1"}"#,
        r#"{"k":"posted","s":"SID"}"#,
        r#"{"k":"posted","s":"SID","m":[]}"#,
        r#"{"k":"posted","s":"SID","m":{"jsonrpc":"2.0","id":1,"method":"tools/call"}}"#,
        r#"{"k":"published","m":{"jsonrpc":"2.0","method":"notifications/message"}}"#,
        r#"{"k":"published","m":{"jsonrpc":"2.0","id":1,"method":"ping"}}"#,
    ] {
        let server = &mut instances.servers[0];
        server.server.handle_message(message.replace("SID", &id).as_bytes(), server.now);
        instances.settle();
        let asked = |event: &Event| matches!(event, Event::Requested { .. } | Event::Closed { .. });
        assert!(!instances.servers[0].events().iter().any(asked), "{message}");
        assert_eq!(instances.answer(0, &ping(&id)).code(), 200, "{message}");
    }
}

#[test]
fn a_change_of_which_it_is_not_known_for_whom_it_is_reaches_no_client() {
    let mut instances = Instances::new(1);
    let filter = r#""notifications":{"toolsListChanged":true},"#;
    let listen = TestRequest::stateless("1", "subscriptions/listen", filter);
    let listening = instances.ask(0, &listen);
    assert_eq!(instances.take(0, listening).data().len(), 1, "it is acknowledged");
    let change = r#""m":{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    for (recipients, expected) in
        [("", 1), (r#""o":true,"#, 1), (r#""o":true,"p":"ada","#, 0), (r#""o":true,"p":7,"#, 0), (r#""p":"ada","#, 0)]
    {
        let server = &mut instances.servers[0];
        let message = format!(r#"{{"k":"published",{recipients}{change}}}"#);
        server.server.handle_message(message.as_bytes(), server.now);
        assert_eq!(instances.take(0, listening).data().len(), expected, "{recipients}");
    }
}

#[test]
fn a_record_of_another_form_is_no_session() {
    let mut instances = Instances::new(1);
    let id = instances.session(0, 0, "2025-11-25");
    let mut store = MemoryStore::new();
    store.register(InstanceId::new(1));
    std::mem::swap(&mut store, &mut instances.store);
    for bytes in ["", "{}", r#"{"f":2,"v":"2025-11-25","g":"0000000000000001"}"#, r#"{"v":"2025-11-25"}"#] {
        let key = instances.servers[0].ask(&ping(&id));
        let actions = std::mem::take(&mut instances.servers[0].store_actions);
        let [StoreAction::Load { key: load, .. }] = actions[..] else { panic!("{actions:?}") };
        let record = mcp_proto::store::Record { version: 99, bytes: bytes.into() };
        let server = &mut instances.servers[0];
        server.server.handle_stored(load, mcp_proto::store::StoreResult::Loaded(Some(record)), Instant::START);
        assert_eq!(server.take(key).code(), 404, "{bytes}");
    }
}

#[test]
fn sh_s_55_a_released_stream_is_resumed_at_another_instance() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 1, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t"}"#);
    let server = &mut instances.servers[0];
    server.server.release(&ticket, server.now);
    let released = instances.take(0, exchange);
    assert!(released.is_over && released.ids().len() == 1 && released.data().is_empty(), "{released:?}");
    let resumed = instances.ask(1, &resume(&id, &released.ids()[0]));
    instances.respond(0, ticket, "{}");
    let sent = instances.take(1, resumed);
    assert!(sent.is_over && sent.data().len() == 1, "{sent:?}");
}
