//! Behaviour of the client and the relay regarding sessions, exchanges and eras, beyond the rows of the catalogue.

use std::time::Duration;

use mcp_intermediary::relay;
use mcp_proto::client::{Call, Client, Event, Failure, Http, NotRestored, Opening, Outcome};
use mcp_proto::{Failed, Fault, Json, Method, Notification};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, initialize_reply};
use mcp_testkit::messages::{INITIALIZED, error, event, progress_notification, request, result};
use tests::closing_server::REQUESTS;

type HttpClient = HttpClientHarness<Client<Http>>;
type Relay = HttpClientHarness<mcp_intermediary::Relay>;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

/// Makes a request that the server answers with an empty result.
fn set(harness: &mut HttpClient, method: &str, params: &str) {
    let (_, opened) = harness.call(method, params);
    assert_eq!(opened.body(), request(&opened.id(), method, params));
    harness.reply(opened.key, &Reply::json(result(&opened.id(), "{}")));
    assert!(matches!(harness.outcome(), Outcome::Result(_)));
}

/// Refuses this request with a 404, so that the session is lost, and opens the next session. Returns the exchanges that
/// were opened after its confirmation; the GET stream of the server is the one with an empty body.
fn next_session<M: mcp_testkit::http_client::Machine>(
    harness: &mut HttpClientHarness<M>,
    refused: &Opened,
    session: &str,
) -> Vec<Opened> {
    harness.reply(refused.key, &Reply::status(404));
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some(session)));
    let opened = harness.opened();
    assert_eq!((opened.body(), opened.header("mcp-session-id")), (INITIALIZED, session));
    harness.reply(opened.key, &Reply::status(202));
    std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect()
}

/// The body of each request without its id; the GET stream of the server is left out.
fn bodies(opened: &[Opened]) -> Vec<String> {
    let text = |opened: &Opened| opened.body().replace(&format!(r#""id":{},"#, opened.id()), "");
    opened.iter().filter(|opened| !opened.body().is_empty()).map(text).collect()
}

const LEVEL: &str = r#"{ "level" : "warning" }"#;
const FIRST: &str = r#"{"uri":"a:1", "_meta":{"progressToken":"p"}}"#;
const SECOND: &str = r#"{"uri":"a:2"}"#;

fn without_id(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

#[test]
fn the_next_session_gets_the_settings_of_the_lost_one_byte_for_byte() {
    let mut harness = HttpClientHarness::connected_client();
    set(&mut harness, "logging/setLevel", r#"{"level":"debug"}"#);
    set(&mut harness, "logging/setLevel", LEVEL);
    set(&mut harness, "resources/subscribe", FIRST);
    set(&mut harness, "resources/subscribe", SECOND);
    set(&mut harness, "resources/subscribe", r#"{"uri":"a:3"}"#);
    set(&mut harness, "resources/unsubscribe", r#"{"uri":"a:3"}"#);
    let (_, refused) = harness.request("resources/subscribe");
    harness.reply(refused.key, &Reply::json(error(&refused.id(), -32602, "no uri")));
    assert_eq!(harness.events().len(), 1);

    for session in ["session-2", "session-3"] {
        let (ping, opened) = harness.request("ping");
        let opened = next_session(&mut harness, &opened, session);
        assert_eq!(
            bodies(&opened),
            [
                r#"{"jsonrpc":"2.0","method":"ping"}"#.to_owned(),
                without_id("logging/setLevel", LEVEL),
                without_id("resources/subscribe", FIRST),
                without_id("resources/subscribe", SECOND),
            ]
        );
        assert_eq!(harness.machine.requests_in_flight(), 1, "only the ping is the application's");
        for opened in opened.iter().filter(|opened| !opened.body().is_empty()) {
            assert_eq!(opened.header("mcp-session-id"), session);
            // No event that the answer causes names a request that the application did not make.
            let progress =
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
            let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}"#;
            let reply = event(progress) + &event(message) + &event(&result(&opened.id(), "{}"));
            harness.reply(opened.key, &Reply::events(reply));
        }
        let mut restored = Vec::new();
        for event in harness.events() {
            match event {
                Event::Restored { subscriptions, log_level } => restored.push((subscriptions, log_level)),
                // Progress for a token that belongs to no open request is a fault.
                Event::SessionLost
                | Event::Connected { .. }
                | Event::Faulted(mcp_proto::Fault::UnknownProgressToken) => {}
                Event::Responded { request, outcome: Outcome::Result(_) } => assert_eq!(request, ping),
                Event::Notified { scope, .. } => {
                    let is_known = matches!(scope, mcp_proto::client::Scope::Connection)
                        || scope == mcp_proto::client::Scope::Request(ping);
                    assert!(is_known, "{scope:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(restored, [(2, true)], "once in {session}");
    }
    assert_eq!(harness.machine.requests_in_flight(), 0);
}

#[test]
fn what_cannot_be_set_again_is_reported_with_the_reason_once() {
    let mut harness = HttpClientHarness::connected_client();
    set(&mut harness, "logging/setLevel", LEVEL);
    set(&mut harness, "resources/subscribe", FIRST);
    set(&mut harness, "resources/subscribe", SECOND);
    let (_, ping) = harness.request("ping");
    let opened = next_session(&mut harness, &ping, "session-2");
    let [_, level, first, second] = bodies(&opened)
        .iter()
        .map(|text| opened.iter().find(|opened| opened.body().ends_with(&text[17..])).expect("it was opened").key)
        .collect::<Vec<_>>()[..]
    else {
        panic!("{opened:?}")
    };
    harness.events();
    harness.reply(level, &Reply::status(403));
    let id = |key| opened.iter().find(|opened| opened.key == key).expect("it was opened").id();
    harness.reply(first, &Reply::json(error(&id(first), -32002, "gone")));
    harness.reply(second, &Reply::json(result(&id(second), "{}")));
    let mut events = harness.events();
    assert_eq!(events.pop(), Some(Event::Restored { subscriptions: 1, log_level: false }));
    let reports: Vec<_> = events
        .into_iter()
        .map(|event| match event {
            Event::NotRestored { method, params, reason } => (method, params, reason),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert_eq!((&reports[0].0, &reports[0].1), (&Method::LOGGING_SET_LEVEL, &Some(json(LEVEL))));
    assert!(matches!(&reports[0].2, NotRestored::Failed(Failed::Refused(refusal)) if refusal.status == 403));
    assert_eq!((&reports[1].0, &reports[1].1), (&Method::RESOURCES_SUBSCRIBE, &Some(json(FIRST))));
    assert!(matches!(&reports[1].2, NotRestored::Error(error) if error.code() == -32002));
    // Settings that could not be restored are not in effect, and are not tried again in the next session.
    let (_, ping) = harness.request("ping");
    let opened = next_session(&mut harness, &ping, "session-3");
    assert_eq!(bodies(&opened)[1..], [without_id("resources/subscribe", SECOND)]);
}

#[test]
fn settings_that_are_remembered_and_restored_at_one_time_are_bounded() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.session_settings = 20 * 400);
    for number in 0..40 {
        set(&mut harness, "resources/subscribe", &format!(r#"{{"uri":"a:{number}"}}"#));
    }
    let (_, ping) = harness.request("ping");
    let mut opened: std::collections::VecDeque<_> = next_session(&mut harness, &ping, "session-2")
        .into_iter()
        .filter(|opened| opened.body().contains("resources/subscribe"))
        .collect();
    assert!(
        harness.events().iter().any(|event| matches!(
            event,
            Event::NotRestored { params: None, reason: NotRestored::NotKept { limit: 8000 }, .. }
        )),
        "the application can see that there are more"
    );
    // A change of a setting waits until all settings are restored; other requests do not wait.
    let unsubscribe = Call::new("resources/unsubscribe").params(json(r#"{"uri":"a:5"}"#));
    harness.machine.request(unsubscribe, harness.now).expect("an accepted request");
    harness.machine.request(Call::new("tools/list"), harness.now).expect("an accepted request");
    let listed = harness.opened();
    assert_eq!(listed.method(), "tools/list");
    let (mut count, mut at_once) = (0, opened.len());
    while let Some(next) = opened.pop_front() {
        assert_eq!(next.method(), "resources/subscribe");
        count += 1;
        harness.reply(next.key, &Reply::json(result(&next.id(), "{}")));
        while harness.has_opened() {
            let next = harness.opened();
            if next.method() == "resources/unsubscribe" {
                assert!(opened.is_empty(), "it was sent before everything was restored");
            } else {
                opened.push_back(next);
            }
        }
        at_once = at_once.max(opened.len());
    }
    assert_eq!(at_once, 8);
    assert!((20..=30).contains(&count), "{count} of 40 fit");
    let restored: Vec<_> =
        harness.events().into_iter().filter(|event| matches!(event, Event::Restored { .. })).collect();
    assert_eq!(restored, [Event::Restored { subscriptions: count, log_level: false }]);
}

#[test]
fn a_session_that_is_lost_while_it_gets_its_settings_begins_again() {
    let mut harness = HttpClientHarness::connected_client();
    set(&mut harness, "resources/subscribe", FIRST);
    set(&mut harness, "resources/subscribe", SECOND);
    let (_, ping) = harness.request("ping");
    let opened = next_session(&mut harness, &ping, "session-2");
    let subscribe = opened.iter().find(|opened| opened.method() == "resources/subscribe").expect("it was opened");
    harness.events();
    let opened = next_session(&mut harness, subscribe, "session-3");
    assert_eq!(
        bodies(&opened),
        [without_id("resources/subscribe", FIRST), without_id("resources/subscribe", SECOND)],
        "each once"
    );
    for opened in opened.iter().filter(|opened| !opened.body().is_empty()) {
        harness.reply(opened.key, &Reply::json(result(&opened.id(), "{}")));
    }
    let events = harness.events();
    assert!(!events.iter().any(|event| matches!(event, Event::NotRestored { .. })));
    assert!(events.contains(&Event::Restored { subscriptions: 2, log_level: false }), "{events:?}");
}

#[test]
fn an_unsubscription_that_the_lost_session_refused_is_not_overtaken() {
    let mut harness = HttpClientHarness::connected_client();
    set(&mut harness, "resources/subscribe", FIRST);
    let (_, unsubscribe) = harness.call("resources/unsubscribe", r#"{"uri":"a:1"}"#);
    let opened = next_session(&mut harness, &unsubscribe, "session-2");
    assert_eq!(bodies(&opened), [without_id("resources/unsubscribe", r#"{"uri":"a:1"}"#)]);
    // The new session of the server refuses the unsubscription, so the subscription is still wanted.
    let unsubscribe = opened.iter().find(|opened| !opened.body().is_empty()).expect("it was opened");
    harness.reply(unsubscribe.key, &Reply::json(error(&unsubscribe.id(), -32602, "not subscribed")));
    assert_eq!(bodies(&[harness.opened()]), [without_id("resources/subscribe", FIRST)]);
}

#[test]
fn the_relay_sets_up_the_next_session_and_the_client_sees_nothing_of_it() {
    let mut harness: Relay = HttpClientHarness::connected_relay();
    for (id, method, params) in
        [("1", "logging/setLevel", LEVEL), ("2", "resources/subscribe", FIRST), ("3", "resources/subscribe", SECOND)]
    {
        harness.line(&request(id, method, params));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::json(result(&opened.id(), "{}")));
    }
    assert_eq!(harness.lines().len(), 3);
    let ping = harness.call("4", "ping");
    let opened = next_session(&mut harness, &ping, "session-2");
    assert_eq!(
        bodies(&opened)[1..],
        [
            without_id("logging/setLevel", LEVEL),
            without_id("resources/subscribe", FIRST),
            without_id("resources/subscribe", SECOND)
        ]
    );
    let mut failing = true;
    for opened in opened.iter().filter(|opened| !opened.body().is_empty()) {
        let is_last = std::mem::replace(&mut failing, false) || opened.method() != "logging/setLevel";
        let reply = if is_last { result(&opened.id(), "{}") } else { error(&opened.id(), -32601, "no") };
        harness.reply(opened.key, &Reply::json(reply));
    }
    assert_eq!(harness.lines(), [result("4", "{}")]);
    let reported: Vec<_> =
        harness.events().into_iter().filter(|event| matches!(event, relay::Event::NotInEffect { .. })).collect();
    assert!(
        matches!(&reported[..], [relay::Event::NotInEffect { method, reason: NotRestored::Error(_) }] if *method == Method::LOGGING_SET_LEVEL),
        "{reported:?}"
    );
}

/// Makes `count` requests; returns those that were sent, while the others wait for an exchange.
fn request_until_one_waits(harness: &mut HttpClient, method: &str, count: usize) -> Vec<Opened> {
    for _ in 0..count {
        harness.machine.request(Call::new(method), harness.now).expect("an accepted request");
    }
    std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect()
}

fn waits(harness: &mut HttpClient) -> Vec<usize> {
    let limit = |event| if let Event::RequestWaits { limit } = event { Some(limit) } else { None };
    harness.events().into_iter().filter_map(limit).collect()
}

#[test]
fn the_first_request_that_waits_for_an_exchange_is_reported_once() {
    for (exchanges, at_once) in [(2, 1), (3, 2), (4, 3), (5, 4), (8, 6), (64, 48), (65, 49), (100, 84)] {
        let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.exchanges = exchanges);
        let mut open = request_until_one_waits(&mut harness, "tools/call", at_once);
        assert_eq!((open.len(), waits(&mut harness)), (at_once, vec![]), "{exchanges}");
        assert_eq!(request_until_one_waits(&mut harness, "tools/call", 2).len(), 0);
        assert_eq!(waits(&mut harness), [at_once], "{exchanges}");
        // Each answer lets the next request be sent, and nothing more is reported.
        for _ in 0..2 {
            let call = open.remove(0);
            harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
            open.push(harness.opened());
            assert!(!harness.has_opened());
        }
        request_until_one_waits(&mut harness, "tools/call", 1);
        assert_eq!(waits(&mut harness), [] as [usize; 0]);
        assert_eq!(mcp_proto::Limits::exchanges_for(at_once), exchanges);
    }
}

#[test]
fn a_relay_reports_that_a_request_waits() {
    let mut harness = HttpClientHarness::connected_relay_with(|config, _| config.limits.exchanges = 2);
    harness.call("1", "tools/call");
    harness.line(&request("2", "tools/call", "{}"));
    assert!(!harness.has_opened());
    assert_eq!(harness.events(), [relay::Event::RequestWaits { limit: 1 }]);
}

#[test]
fn pings_and_answers_get_through_while_calls_take_every_exchange() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| {
        config.limits.exchanges = 8;
        config.capabilities = json(r#"{"roots":{}}"#);
    });
    let calls = request_until_one_waits(&mut harness, "tools/call", 10);
    assert_eq!(calls.len(), 6);
    // Pings may take half of the reserved exchanges; the other half is for messages that are not requests.
    let pings = request_until_one_waits(&mut harness, "ping", 3);
    assert_eq!(pings.len(), 1);
    harness.begin(calls[0].key, &Reply::events(event(&request("5", "roots/list", "{}"))));
    let ticket = harness.events().into_iter().find_map(|event| match event {
        Event::Requested { ticket, .. } => Some(ticket),
        _ => None,
    });
    harness.machine.answer(ticket.expect("the server asks"), Ok(json("{}")), harness.now);
    let answered = harness.opened();
    assert_eq!(answered.body(), result("5", "{}"));
    // All eight exchanges are open.
    assert!(!harness.has_opened());
    harness.reply(answered.key, &Reply::status(202));
    // A ping that is cancelled while it waits is not sent.
    harness.reply(pings[0].key, &Reply::json(result(&pings[0].id(), "{}")));
    let ping = harness.opened();
    assert_eq!(ping.method(), "ping");
    harness.pass(Duration::from_secs(61));
    let later: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert!(later.iter().all(|opened| opened.method() == "notifications/cancelled"), "{later:?}");
}

#[test]
fn streams_that_pause_keep_their_exchanges() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.exchanges = 8);
    let calls = request_until_one_waits(&mut harness, "tools/call", 12);
    assert_eq!(calls.len(), 6);
    for call in &calls {
        harness.begin(call.key, &Reply::events("id: 1\ndata:\n\n"));
        harness.end(call.key);
    }
    assert!(!harness.has_opened(), "the streams will be opened again, and the calls that wait go on waiting");
    harness.pass(Duration::from_secs(5));
    let resumed: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert_eq!(resumed.len(), 6);
    assert!(resumed.iter().all(|opened| opened.line() == "GET /mcp"));
    // Each stream gets all answers, since the test does not match streams to calls: only one answer counts on each.
    let answers: String = calls.iter().map(|call| event(&result(&call.id(), r#"{"content":[]}"#))).collect();
    for (ended, opened) in resumed.iter().enumerate() {
        harness.reply(opened.key, &Reply::events(answers.clone()));
        assert_eq!(harness.outcomes().len(), 1, "after {ended}");
        assert_eq!(harness.opened().method(), "tools/call");
    }
    assert!(!harness.has_opened());
}

#[test]
fn the_stream_of_the_server_takes_no_exchange_from_the_requests() {
    for (exchanges, at_once, is_offered) in [(1, 1, false), (2, 1, true), (3, 2, true), (8, 6, true)] {
        let mut harness = HttpClientHarness::client_with(|config, _| config.limits.exchanges = exchanges);
        let opened = harness.opened();
        harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(202));
        assert_eq!(harness.has_opened(), is_offered, "{exchanges}");
        if is_offered {
            let stream = harness.opened();
            harness.begin(stream.key, &Reply::events("id: 1\ndata:\n\n"));
            assert_eq!(request_until_one_waits(&mut harness, "tools/call", at_once + 1).len(), at_once, "{exchanges}");
            // The stream keeps its exchange while it waits to be opened again.
            harness.end(stream.key);
            assert!(!harness.has_opened(), "{exchanges}");
            harness.pass(Duration::from_secs(5));
            assert_eq!(harness.opened().line(), "GET /mcp");
        } else {
            assert_eq!(request_until_one_waits(&mut harness, "tools/call", 2).len(), 1);
        }
    }
}

#[test]
fn settings_that_ended_take_no_room() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.session_settings = 1000);
    for _ in 0..20 {
        set(&mut harness, "resources/subscribe", FIRST);
        set(&mut harness, "resources/subscribe", FIRST);
        set(&mut harness, "resources/unsubscribe", r#"{"uri":"a:1"}"#);
        let (_, refused) = harness.call("resources/subscribe", FIRST);
        harness.reply(refused.key, &Reply::json(error(&refused.id(), -32602, "no")));
        harness.events();
    }
    set(&mut harness, "resources/subscribe", SECOND);
    let (_, ping) = harness.request("ping");
    let opened = next_session(&mut harness, &ping, "session-2");
    assert_eq!(bodies(&opened)[1..], [without_id("resources/subscribe", SECOND)]);
    assert!(!harness.events().iter().any(|event| matches!(event, Event::NotRestored { .. })));
}

#[test]
fn a_connection_that_is_made_anew_has_no_settings_of_the_last_one() {
    let mut harness = HttpClientHarness::connected_client();
    set(&mut harness, "logging/setLevel", LEVEL);
    let (_, ping) = harness.request("ping");
    harness.reply(ping.key, &Reply::status(404));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(error(&opened.id(), -32603, "not now")));
    let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"tests","version":"1"}}"#;
    let opening = Opening::Initialize(json(params));
    harness.machine.connect_with(opening, harness.now).expect("there is no connection");
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
    harness.machine.confirm(None, harness.now).expect("a session that is not confirmed");
    let opened = harness.opened();
    assert_eq!(opened.body(), INITIALIZED);
    harness.reply(opened.key, &Reply::status(202));
    let opened: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert_eq!(bodies(&opened), [""; 0]);
}

#[test]
fn what_was_to_be_delivered_again_is_tried_once_more_when_the_client_closes() {
    for is_reached in [false, true] {
        let mut harness = HttpClientHarness::connected_client_with(|_, http| http.redelivery = Duration::from_secs(30));
        harness.machine.notify(Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
        let opened = harness.opened();
        harness.refuse(opened.key);
        assert!(!harness.has_opened(), "it waits");
        harness.machine.close(harness.now);
        let again = harness.opened();
        assert_eq!(again.method(), "notifications/roots/list_changed");
        if is_reached {
            harness.reply(again.key, &Reply::status(202));
        } else {
            harness.refuse(again.key);
        }
        assert_eq!(harness.opened().line(), "DELETE /mcp", "the session is ended behind it");
        let reported = harness.events().iter().any(|event| matches!(event, Event::Faulted(Fault::NotAccepted { .. })));
        assert_eq!(reported, !is_reached);
    }
}

#[test]
fn nothing_is_sent_after_the_deadline_for_closing() {
    let mut harness = HttpClientHarness::connected_client_with(|config, http| {
        config.limits.exchanges = 4;
        http.close_timeout = Duration::from_secs(5);
    });
    for _ in 0..10 {
        harness.machine.notify(Notification::new("notifications/x"), harness.now).unwrap();
    }
    let sent: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert!((1..10).contains(&sent.len()), "the others wait for exchanges");
    harness.machine.close(harness.now);
    harness.pass(Duration::from_secs(5));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Closed(_))));
    for opened in &sent {
        harness.fail(opened.key, Failure::Broken { detail: "over".into() });
    }
    harness.pass(Duration::from_secs(60));
    assert!(!harness.has_opened());
}

#[test]
fn the_session_id_of_an_abandoned_initialize_is_not_used() {
    let mut harness = HttpClientHarness::client_with(|config, _| config.reconnect = true);
    let broken = harness.opened();
    harness.fail(broken.key, Failure::Broken { detail: "over".into() });
    harness.pass(Duration::from_secs(2));
    let first = harness.opened();
    assert_eq!(first.method(), "initialize", "the client tries again");
    let params = json(r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#);
    harness.machine.connect_with(Opening::Initialize(params), harness.now).unwrap();
    let second = harness.opened();
    harness.reply(first.key, &initialize_reply(&first, "2025-11-25", Some("abandoned")));
    let ended = harness.opened();
    assert_eq!((ended.line().as_str(), ended.header("mcp-session-id")), ("DELETE /mcp", "abandoned"));
    harness.reply(ended.key, &Reply::status(200));
    harness.reply(second.key, &initialize_reply(&second, "2025-11-25", None));
    harness.machine.confirm(None, harness.now).unwrap();
    assert_eq!(harness.opened().header("mcp-session-id"), "");
}

/// The exchange of `initialize`, for the first session or for the next one.
fn opening(is_first: bool) -> (HttpClient, Opened) {
    let mut harness = if is_first { HttpClientHarness::client() } else { HttpClientHarness::connected_client() };
    if !is_first {
        let (_, refused) = harness.request("ping");
        harness.reply(refused.key, &Reply::status(404));
    }
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    (harness, opened)
}

fn is_closed(harness: &mut HttpClient) -> bool {
    harness.events().iter().any(|event| matches!(event, Event::Closed(_)))
}

#[test]
fn a_session_that_a_closing_client_has_asked_for_is_ended() {
    for is_first in [true, false] {
        for answers_first in [true, false] {
            let (mut harness, opened) = opening(is_first);
            let head = Reply::events("").header("mcp-session-id", "late");
            if answers_first {
                harness.begin(opened.key, &head);
                harness.machine.close(harness.now);
            } else {
                harness.machine.close(harness.now);
                assert!(!harness.has_opened() && !is_closed(&mut harness));
                harness.begin(opened.key, &head);
            }
            let ended = harness.opened();
            assert_eq!((ended.line().as_str(), ended.header("mcp-session-id")), ("DELETE /mcp", "late"));
            assert!(harness.is_aborted(opened.key), "the result is of no use");
            harness.reply(ended.key, &Reply::status(200));
            assert!(is_closed(&mut harness), "{is_first} {answers_first}");
        }
    }
}

#[test]
fn a_client_closes_without_a_session_that_the_server_does_not_open() {
    let replies = [
        Some(Reply::status(503)),
        Some(Reply::status(401)),
        Some(Reply::status(307).header("location", "/other")),
        Some(Reply::json("{}".to_owned())),
        None,
    ];
    for is_first in [true, false] {
        for reply in &replies {
            let (mut harness, opened) = opening(is_first);
            harness.machine.close(harness.now);
            match reply {
                Some(reply) => harness.reply(opened.key, reply),
                None => harness.fail(opened.key, Failure::Broken { detail: "over".into() }),
            }
            assert!(is_closed(&mut harness) && !harness.has_opened(), "{is_first} {reply:?}");
        }
        let (mut harness, opened) = opening(is_first);
        harness.machine.close(harness.now);
        harness.pass(Duration::from_secs(3));
        assert!(harness.is_aborted(opened.key) && is_closed(&mut harness), "a server that does not answer");
    }
}

#[test]
fn requests_while_the_server_is_down_do_not_keep_the_client_from_connecting_again() {
    let mut harness = HttpClientHarness::client_with(|config, _| config.reconnect = true);
    let mut attempts = 0;
    for _ in 0..600 {
        while harness.has_opened() {
            let opened = harness.opened();
            harness.reply(opened.key, &Reply::status(503));
            attempts += 1;
        }
        let _ = harness.machine.request(Call::new("ping"), harness.now);
        harness.pass(Duration::from_secs(1));
    }
    assert!((60..=110).contains(&attempts), "{attempts} attempts in ten minutes, of which each may have ten");
    let seconds = (0..60).take_while(|_| {
        harness.pass(Duration::from_secs(1));
        !harness.has_opened()
    });
    assert!(seconds.count() < 60);
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Connected { .. })));
}

#[test]
fn to_04_time_passes_only_when_the_server_waits_for_no_answer_that_may_be_about_the_request() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| {
        config.capabilities = json(r#"{"roots":{}}"#);
    });
    let timeout = Duration::from_secs(10);
    harness.machine.request(Call::new("tools/call").timeout(timeout).with_progress(), harness.now).unwrap();
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(""));
    let ask = |id: &str| event(&request(id, "roots/list", "{}"));
    harness.send(opened.key, (ask("1") + &ask("2")).as_bytes());
    let mut tickets = Vec::new();
    for seen in harness.events() {
        if let Event::Requested { ticket, .. } = seen {
            tickets.push(ticket);
        }
    }
    let progress = progress_notification(&opened.id(), 1);
    harness.send(opened.key, event(&progress).as_bytes());
    harness.pass(timeout * 2);
    for ticket in tickets {
        let timed_out = |event: &Event| matches!(event, Event::Responded { .. });
        assert!(!harness.events().iter().any(timed_out), "the server waits");
        harness.machine.answer(ticket, Ok(json(r#"{"roots":[]}"#)), harness.now);
        harness.pass(Duration::from_secs(9));
    }
    assert!(harness.is_open(opened.key));
    harness.pass(Duration::from_secs(1));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::TimedOut { .. })));
}

#[test]
fn to_04_a_call_that_is_made_while_a_person_is_asked_has_its_time_after_the_answer() {
    let mut stream = ClientStream::connected_with(|config| config.capabilities = json(r#"{"roots":{}}"#));
    let timeout = Duration::from_secs(10);
    for id in ["1", "2"] {
        stream.line(request(id, "roots/list", "{}"));
    }
    let asked = stream.events();
    stream.machine.request(Call::new("tools/call").timeout(timeout), stream.now).unwrap();
    for event in asked {
        let Event::Requested { ticket, .. } = event else { panic!("{event:?}") };
        stream.pass(timeout * 2);
        assert!(stream.events().is_empty(), "the server waits");
        stream.machine.answer(ticket, Ok(json(r#"{"roots":[]}"#)), stream.now);
    }
    stream.pass(Duration::from_secs(9));
    assert!(stream.events().is_empty());
    stream.pass(Duration::from_secs(1));
    let events = stream.events();
    let failed = Outcome::Failed(Failed::TimedOut { after: timeout });
    assert!(matches!(&events[..], [Event::Responded { outcome, .. }] if *outcome == failed), "{events:?}");
}

#[test]
fn to_04_a_ping_has_its_time_also_while_a_person_is_asked() {
    let mut stream = ClientStream::connected_with(|config| config.capabilities = json(r#"{"roots":{}}"#));
    let timeout = Duration::from_secs(10);
    let ping = |stream: &mut ClientStream| {
        stream.machine.request(Call::new("ping").timeout(timeout), stream.now).unwrap();
    };
    ping(&mut stream);
    stream.line(request("1", "roots/list", "{}"));
    ping(&mut stream);
    assert_eq!(stream.events().len(), 1);
    stream.pass(timeout);
    let events = stream.events();
    let is_late =
        |event: &Event| matches!(event, Event::Responded { outcome: Outcome::Failed(Failed::TimedOut { .. }), .. });
    assert!(events.len() == 2 && events.iter().all(is_late), "{events:?}");
}

#[test]
fn to_04_a_request_of_the_server_does_not_extend_the_time_to_open_a_connection() {
    let mut harness = HttpClientHarness::client();
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(event(&request("1", "roots/list", "{}"))));
    harness.pass(Duration::from_secs(30));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Unavailable { .. })));
}

#[test]
fn jr_20_a_trace_context_is_repeated_in_headers_in_each_era() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = mcp_proto::TraceContext::new(parent).with_tracestate("a=1").with_baggage("b=2");
    for mut harness in [HttpClientHarness::connected_client(), HttpClientHarness::modern_client()] {
        for (call, expected) in [
            (Call::new("tools/list").trace_context(&trace), [parent, "a=1", "b=2"]),
            (Call::new("tools/list"), [""; 3]),
            (Call::new("tools/list").params(json(r#"{"cursor":"traceparent"}"#)), [""; 3]),
        ] {
            harness.machine.request(call, harness.now).unwrap();
            let opened = harness.opened();
            assert_eq!(["traceparent", "tracestate", "baggage"].map(|name| opened.header(name)), expected);
            let is_in_body = opened.body().contains(&format!(r#""traceparent":"{parent}""#));
            assert_eq!(is_in_body, !expected[0].is_empty(), "{}", opened.body());
        }
    }
    // A relay passes it on unchanged.
    let mut relay = HttpClientHarness::connected_relay();
    relay.line(&request("7", "tools/list", &format!(r#"{{"_meta":{{"traceparent":"{parent}"}}}}"#)));
    assert_eq!(relay.opened().header("traceparent"), parent);
}

/// The connection of an idle server may be closed at the moment at which a request arrives.
#[test]
fn a_request_that_only_reads_is_sent_again_once_when_its_connection_was_closed() {
    let closed = || Failure::Closed { detail: "it closed the connection".into() };
    let with_state = [("resources/read", r#"{"uri":"file:///a","requestState":"s"}"#, false)];
    for (method, params, is_repeated) in REQUESTS.into_iter().chain(with_state) {
        let mut harness = HttpClientHarness::connected_client();
        let (_, first) = harness.call(method, params);
        harness.fail(first.key, closed());
        assert_eq!(harness.has_opened(), is_repeated, "{method}");
        if is_repeated {
            let second = harness.opened();
            assert_eq!(second.body(), first.body());
            harness.fail(second.key, closed());
            assert!(!harness.has_opened(), "{method} a third time");
        }
        assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Broken { .. })), "{method}");
        // The answer has begun, or the failure is another one.
        let (_, opened) = harness.call(method, params);
        harness.begin(opened.key, &Reply::events(""));
        harness.fail(opened.key, closed());
        assert!(!harness.has_opened() && harness.outcomes().len() == 1, "{method}");
        let (_, opened) = harness.call(method, params);
        harness.fail(opened.key, Failure::Broken { detail: "silent".into() });
        assert!(!harness.has_opened() && harness.outcomes().len() == 1, "{method}");
    }
}

#[test]
fn a_relay_sends_a_request_that_only_reads_again_when_its_connection_was_closed() {
    for (method, _, is_repeated) in REQUESTS {
        let mut relay = HttpClientHarness::connected_relay();
        let opened = relay.call("7", method);
        relay.fail(opened.key, Failure::Closed { detail: "it closed the connection".into() });
        assert_eq!(relay.has_opened(), is_repeated, "{method}");
        if is_repeated {
            let again = relay.opened();
            relay.reply(again.key, &Reply::json(result(&again.id(), "{}")));
            assert_eq!(relay.lines(), [result("7", "{}")]);
        }
    }
}

#[test]
fn a_relay_whose_client_has_gone_waits_for_answers_for_as_long_as_was_configured() {
    let mut harness = Relay::connected_relay_with(|config, _| config.drain_timeout = Duration::from_secs(2));
    let call = harness.call("1", "tools/call");
    harness.machine.handle_eof(harness.now);
    harness.pass(Duration::from_millis(1900));
    assert!(harness.is_open(call.key) && harness.events().is_empty());
    harness.pass(Duration::from_millis(200));
    assert!(harness.is_aborted(call.key));
    let lines = harness.lines();
    assert!(matches!(&lines[..], [line] if line.contains(r#""id":1"#) && line.contains("error")), "{lines:?}");
}
