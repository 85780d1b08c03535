//! Defects that the simulation has found, each reduced to the few steps that show it.

use std::time::Duration;

use mcp_proto::client::{DetectedEra, Event, Outcome, Unavailable};
use mcp_proto::{Era, Failed, ProtocolVersion};
use mcp_testkit::http_client::{HttpClientHarness, Reply, initialize_reply};
use mcp_testkit::messages::{INITIALIZED, error, result};

#[test]
fn a_cancellation_is_sent_although_its_request_was_never_reported_as_sent() {
    let mut harness = HttpClientHarness::connected_client();
    let (request, call) = harness.request("tools/call");
    harness.machine.cancel(request, None, harness.now);
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::Cancelled));
    assert!(!harness.has_opened(), "BR-T-08: it may not overtake its request");
    // The server has not begun to answer when the exchange is aborted, but it may have received the request.
    harness.pass(Duration::from_secs(6));
    assert!(harness.is_aborted(call.key));
    let notice = harness.opened();
    assert_eq!((notice.method(), notice.param("requestId")), ("notifications/cancelled".into(), call.id()));
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
