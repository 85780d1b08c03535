//! The sessions of a client over HTTP: how one is opened and ended, what becomes of a lost one, what is set in the next one, and the
//! cookies of each.

use std::time::Duration;

use mcp_proto::client::{Call, Client, Config, Event, Http, HttpConfig, Opening, Outcome, Unavailable};
use mcp_proto::{Failed, Instant, Json, ProtocolVersion};
use mcp_testkit::http_client::{HttpClientHarness, Reply, URL, initialize_reply};
use mcp_testkit::messages::{DISCOVERED, result};

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

type Harness = HttpClientHarness<Client<Http>>;

/// Opens a session whose first response sets a cookie, and returns the cookies of the next request.
fn cookies_after_opening(change: impl FnOnce(&mut HttpConfig)) -> (Harness, String) {
    let mut harness = Harness::client_with(|_, http| change(http));
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
    let mut harness = Harness::detecting_client();
    let opened = harness.opened();
    let reply = Reply::json(result(&opened.id(), DISCOVERED)).header("set-cookie", "lb=backend-1; Path=/");
    harness.reply(opened.key, &reply);
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("cookie"), "");
}
