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
