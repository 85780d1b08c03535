//! The sessions of a client over HTTP: how one is opened and ended, what becomes of a lost one, what is set in the next one, and the
//! cookies of each.

use std::time::Duration;

use mcp_intermediary::relay;
use mcp_proto::client::{
    Call, Client, Config, DetectedEra, Event, Failure, Http, HttpConfig, NotRestored, Opening, Outcome, Unavailable,
};
use mcp_proto::{Era, Failed, Instant, Json, Method, ProtocolVersion};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, URL, initialize_reply};
use mcp_testkit::messages::{DISCOVERED, INITIALIZED, error, event, request, result};

type HttpClient = HttpClientHarness<Client<Http>>;

type Relay = HttpClientHarness<mcp_intermediary::Relay>;

#[test]
fn br_t_07_a_session_is_replaced_by_one_of_its_revision_alone_whether_it_was_confirmed_or_not() {
    let versions = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28];
    for (is_confirmed, version) in
        [false, true].into_iter().flat_map(|is_confirmed| versions.map(|version| (is_confirmed, version)))
    {
        let name = format!("{is_confirmed} {version:?}");
        let mut config = Config::new("c", "1");
        (config.versions, config.reconnect) = (ProtocolVersion::ALL.to_vec(), true);
        let http = HttpConfig::new(URL).expect("a URL");
        let mut client = Client::new(Http::new(http), config).expect("a configuration");
        let opening = Json::parse(r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#).expect("JSON");
        // The application confirms the session itself.
        client.connect_with(Opening::Initialize(opening), Instant::START).expect("it was not connected");
        let mut harness = HttpClientHarness::new(client);
        let initialize = harness.opened();
        harness.reply(initialize.key, &initialize_reply(&initialize, "2025-11-25", Some("session-1")));
        if is_confirmed {
            harness.machine.confirm(None, harness.now).expect("it is connected");
            let confirmation = harness.opened();
            harness.reply(confirmation.key, &Reply::status(202));
            let stream = harness.opened();
            harness.reply(stream.key, &Reply::status(405));
        }
        let request = harness.machine.request(Call::new("tools/list"), harness.now).expect("it is connected");
        harness.pass(Duration::from_secs(10));
        let sent = harness.opened();
        assert_eq!((sent.method().as_str(), sent.header("mcp-session-id")), ("tools/list", "session-1"));
        harness.events();

        harness.reply(sent.key, &Reply::status(404));
        let initialize = harness.opened();
        assert_eq!(initialize.method(), "initialize");
        if version == ProtocolVersion::V2026_07_28 {
            let data = r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#;
            let only_modern = format!(r#"{{"code":-32022,"message":"no","data":{data}}}"#);
            let refused = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{only_modern}}}"#, initialize.id());
            harness.reply(initialize.key, &Reply::json(refused));
            let discover = harness.opened();
            assert_eq!(discover.method(), "server/discover");
            harness.reply(discover.key, &Reply::json(result(&discover.id(), DISCOVERED)));
        } else {
            harness.reply(initialize.key, &initialize_reply(&initialize, version.as_str(), Some("session-2")));
        }
        let events = harness.events();
        let is_changed = |reason: &Failed| *reason == Failed::VersionChanged { version };
        if version == ProtocolVersion::V2025_11_25 {
            assert!(events.iter().any(|event| matches!(event, Event::Connected { .. })), "{name}: {events:?}");
            continue;
        }
        let [
            Event::SessionLost,
            Event::Unavailable { reason: Unavailable::Failed(reason), .. },
            Event::Responded { request: ended, outcome: Outcome::Failed(failed) },
        ] = &events[..]
        else {
            panic!("{name}: {events:?}")
        };
        assert!(is_changed(reason) && is_changed(failed) && *ended == request, "{name}: {events:?}");
        assert!(!harness.machine.is_connected(), "{name}");
    }
}

/// Opens a session whose first response sets a cookie, and returns the cookies of the next request.
fn cookies_after_opening(change: impl FnOnce(&mut HttpConfig)) -> (HttpClient, String) {
    let mut harness = HttpClient::client_with(|_, http| change(http));
    let opened = harness.opened();
    assert_eq!(opened.header("cookie"), if opened.header("x-own").is_empty() { "" } else { "own=1" });
    let reply = initialize_reply(&opened, "2025-11-25", Some("session-1"));
    harness.reply(opened.key, &reply.header("set-cookie", "lb=backend-1; Path=/; HttpOnly"));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    let stream = harness.opened();
    let cookies = stream.header("cookie").to_owned();
    assert_eq!(confirmation.header("cookie"), cookies);
    harness.reply(stream.key, &Reply::status(405));
    harness.events();
    (harness, cookies)
}

#[test]
fn the_cookie_of_a_load_balancer_is_sent_with_every_request_of_the_session() {
    let (mut harness, cookies) = cookies_after_opening(|_| {});
    assert_eq!(cookies, "lb=backend-1");
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("cookie"), "lb=backend-1");
    // A later response replaces it.
    let reply = Reply::json(result(&opened.id(), r#"{"tools":[]}"#)).header("set-cookie", "lb=backend-2; Path=/");
    harness.reply(opened.key, &reply);
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("cookie"), "lb=backend-2");
    // The next session may be at another instance.
    harness.reply(opened.key, &Reply::status(404));
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.header("cookie")), ("initialize", ""));
}

#[test]
fn cookies_can_be_turned_off_and_a_configured_header_replaces_them() {
    let (_, cookies) = cookies_after_opening(|http| http.cookies = false);
    assert_eq!(cookies, "");
    let (_, cookies) = cookies_after_opening(|http| {
        http.header("X-Own", "1").unwrap();
        http.header("Cookie", "own=1").unwrap();
    });
    assert_eq!(cookies, "own=1");
}

#[test]
fn a_revision_without_sessions_has_no_cookies() {
    let mut harness = HttpClient::detecting_client();
    let opened = harness.opened();
    let reply = Reply::json(result(&opened.id(), DISCOVERED)).header("set-cookie", "lb=backend-1; Path=/");
    harness.reply(opened.key, &reply);
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("cookie"), "");
}

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

#[test]
fn nothing_is_sent_without_a_session_when_it_is_lost_before_it_was_confirmed() {
    let mut harness = HttpClientHarness::client();
    let opening = harness.opened();
    harness.reply(opening.key, &initialize_reply(&opening, "2025-11-25", Some("one")));
    let confirmation = harness.opened();
    assert_eq!(confirmation.body(), INITIALIZED);
    let request = harness.machine.request(mcp_proto::client::Call::new("tools/call"), harness.now).unwrap();
    harness.drain();
    harness.reply(confirmation.key, &Reply::status(404));

    // The client opens another session before it sends anything else.
    let opening = harness.opened();
    assert_eq!((opening.method().as_str(), opening.header("mcp-session-id")), ("initialize", ""));
    assert!(!harness.has_opened());
    harness.reply(opening.key, &initialize_reply(&opening, "2025-11-25", Some("two")));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    let stream = harness.opened();
    harness.reply(stream.key, &Reply::status(405));
    let call = harness.opened();
    assert_eq!((call.method().as_str(), call.header("mcp-session-id")), ("tools/call", "two"));
    harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    assert!(matches!(harness.outcomes().remove(&request), Some(Outcome::Result(_))));
}

#[test]
fn br_t_07_a_session_is_not_opened_again_in_another_revision_or_era() {
    let discovered = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}"#;
    for is_other_era in [false, true] {
        let mut harness = HttpClientHarness::connected_client_with(|config, _| {
            config.versions = ProtocolVersion::ALL.to_vec();
            config.known_era = Some(DetectedEra::known(Era::Legacy));
        });
        let (_, call) = harness.request("tools/call");
        harness.reply(call.key, &Reply::status(404));
        let opening = harness.opened();
        assert_eq!(opening.method(), "initialize");
        let version = if is_other_era {
            harness.reply(opening.key, &Reply::json(error(&opening.id(), -32601, "no such method")));
            let opening = harness.opened();
            assert_eq!(opening.method(), "server/discover");
            harness.reply(opening.key, &Reply::json(result(&opening.id(), discovered)));
            ProtocolVersion::V2026_07_28
        } else {
            harness.reply(opening.key, &initialize_reply(&opening, "2025-03-26", Some("two")));
            ProtocolVersion::V2025_03_26
        };
        let expected = Unavailable::Failed(Failed::VersionChanged { version });
        let reasons: Vec<_> = harness
            .events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Unavailable { reason, retry_in } => Some((reason, retry_in)),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, [(expected, None)], "other era: {is_other_era}");
        assert!(!harness.has_opened());
    }
}

fn opened(harness: &mut HttpClient) -> Vec<Opened> {
    std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect()
}

#[test]
fn answers_to_a_lost_session_are_not_sent_in_the_next() {
    let mut harness = HttpClientHarness::connected_client_with(|config, http| {
        config.capabilities = json(r#"{"roots":{}}"#);
        http.redelivery = Duration::from_secs(20);
    });
    let (_, call) = harness.request("tools/call");
    harness.begin(call.key, &Reply::events(event(&request("5", "roots/list", "{}"))));
    let ticket = harness.events().into_iter().find_map(|event| match event {
        Event::Requested { ticket, .. } => Some(ticket),
        _ => None,
    });
    harness.machine.answer(ticket.expect("the server asks"), Ok(json(r#"{"roots":[]}"#)), harness.now);
    let answer = harness.opened();
    // The answer was not delivered, and waits to be sent again when the session is lost.
    harness.refuse(answer.key);
    let (_, ping) = harness.request("ping");
    harness.reply(ping.key, &Reply::status(404));
    let again = harness.opened();
    harness.reply(again.key, &initialize_reply(&again, "2025-11-25", Some("session-2")));
    let confirmed = harness.opened();
    harness.reply(confirmed.key, &Reply::status(202));
    harness.pass(Duration::from_secs(20));
    let later = opened(&mut harness);
    assert!(later.iter().any(|opened| opened.method() == "ping"));
    assert!(!later.iter().any(|opened| opened.body().contains("roots")), "{later:?}");
}

#[test]
fn the_id_of_a_session_is_marked_as_a_secret_in_every_request() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/list");
    let id = &opened.request.headers()["mcp-session-id"];
    assert!(id.is_sensitive());
    assert_eq!(id, "session-1");
}
