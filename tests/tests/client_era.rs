//! How a client detects the era of a server.

use std::time::Duration;

use mcp_proto::client::{
    Call, Client, CloseReason, DetectedBy, DetectedEra, Event, Http, HttpTransport, Outcome, Unavailable,
};
use mcp_proto::{Era, Failed, Fault, ProtocolVersion};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, broken, initialize_reply};
use mcp_testkit::messages::{DISCOVERED, error, initialize_result, result};

const MODERN: [ProtocolVersion; 1] = [ProtocolVersion::V2026_07_28];

fn error_reply(opened: &Opened, status: u16, code: i64, data: &str) -> Reply {
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"no","data":{data}}}}}"#, opened.id());
    Reply::json(body).with_status(status)
}

#[test]
fn rp1_an_answer_to_a_request_that_still_waits_does_not_end_it() {
    let mut stream = ClientStream::detecting_with(|_| {});
    assert_eq!(stream.lines().len(), 1);
    stream.machine.request(Call::new("tools/list"), stream.now).unwrap();
    for answer in [r#"{"jsonrpc":"2.0","id":2,"result":{]}"#, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#] {
        stream.line(answer);
        assert_eq!(stream.outcomes().0, [], "{answer}");
        assert_eq!(stream.machine.load().waiting, 1);
    }
    stream.line(result("1", DISCOVERED));
    let sent = stream.lines();
    assert!(sent.len() == 1 && sent[0].contains(r#""id":2,"method":"tools/list""#), "{sent:?}");
    stream.line(result("2", r#"{"resultType":"complete","tools":[]}"#));
    assert_eq!(stream.outcomes().0.len(), 1);
    assert_eq!(stream.machine.load().waiting, 0);
}

#[test]
fn er_02_a_server_that_answers_is_modern() {
    let mut harness = HttpClientHarness::detecting_client();
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), DISCOVERED)));
    let events = harness.events();
    let [Event::Connected { version, detected_era, is_downgrade, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*version, ProtocolVersion::V2026_07_28);
    assert_eq!(*detected_era, DetectedEra { era: Era::Modern, by: DetectedBy::Discovered });
    assert!(!is_downgrade);
    assert_eq!(harness.machine.detected_era(), Some(*detected_era));
}

#[test]
fn er_23_to_25_what_no_modern_server_answers_leads_to_initialize() {
    let legacy = r#"{"supported":["2025-06-18","2025-03-26"]}"#;
    for (name, reply, by, offered) in [
        ("404", (|_| Reply::html(404)) as fn(&Opened) -> Reply, DetectedBy::Status { status: 404 }, "2025-11-25"),
        ("405", |_| Reply::status(405), DetectedBy::Status { status: 405 }, "2025-11-25"),
        (
            "400",
            |_| Reply::json(error("null", -32000, "no session")).with_status(400),
            DetectedBy::Error { code: -32000 },
            "2025-11-25",
        ),
        ("-32601", |to| error_reply(to, 404, -32601, "null"), DetectedBy::Error { code: -32601 }, "2025-11-25"),
        ("-32602 with 200", |to| error_reply(to, 200, -32602, "{}"), DetectedBy::Error { code: -32602 }, "2025-11-25"),
        (
            "-32022 without data",
            |to| error_reply(to, 400, -32022, "7"),
            DetectedBy::Error { code: -32022 },
            "2025-11-25",
        ),
        ("a result of another kind", |to| Reply::json(result(&to.id(), "{}")), DetectedBy::OtherAnswer, "2025-11-25"),
        ("202", |_| Reply::status(202), DetectedBy::OtherAnswer, "2025-11-25"),
    ] {
        let mut harness = HttpClientHarness::detecting_client();
        let opened = harness.opened();
        harness.reply(opened.key, &reply(&opened));
        let initialize = harness.opened();
        assert_eq!(initialize.method(), "initialize", "{name}");
        assert_eq!(initialize.param("protocolVersion"), format!("\"{offered}\""), "{name}");
        assert_eq!((initialize.header("mcp-protocol-version"), initialize.header("mcp-method")), ("", ""), "{name}");
        harness.reply(initialize.key, &Reply::json(result(&initialize.id(), &initialize_result(offered))));
        let events = harness.events();
        let connected = DetectedEra { era: Era::Legacy, by };
        assert!(
            events.iter().any(
                |event| matches!(event, Event::Connected { detected_era, is_downgrade: true, .. } if *detected_era == connected)
            ),
            "{name}: {events:?}"
        );
    }
    // If a server lists only legacy versions, the client initializes with the best of them (ER-30, A4).
    for reply in [
        (|to| error_reply(to, 400, -32022, r#"{"supported":["2025-06-18","2025-03-26"]}"#)) as fn(&Opened) -> Reply,
        |to| Reply::json(result(&to.id(), r#"{"supportedVersions":["2025-03-26","2025-06-18"]}"#)),
    ] {
        let mut harness = HttpClientHarness::detecting_client();
        let opened = harness.opened();
        harness.reply(opened.key, &reply(&opened));
        assert_eq!(harness.opened().param("protocolVersion"), "\"2025-06-18\"", "{legacy}");
    }
}

#[test]
fn hm12_er_26_credentials_load_and_the_network_do_not_determine_the_era() {
    for status in [401, 403, 407, 408, 429, 500, 502, 503] {
        let mut harness = HttpClientHarness::detecting_client();
        let opened = harness.opened();
        harness.reply(opened.key, &error_reply(&opened, status, -32601, "{}"));
        assert!(!harness.has_opened(), "{status}");
        let events = harness.events();
        assert!(
            matches!(&events[..], [Event::Unavailable { reason: Unavailable::Failed(Failed::Refused(_)), .. }]),
            "{status}: {events:?}"
        );
        assert_eq!(harness.machine.detected_era(), None);
    }
    let mut harness = HttpClientHarness::detecting_client();
    let opened = harness.opened();
    harness.fail(opened.key, broken());
    assert!(!harness.has_opened());
    let mut harness = HttpClientHarness::detecting_client();
    harness.opened();
    harness.pass(Duration::from_secs(31));
    assert!(!harness.has_opened());
    assert!(matches!(
        &harness.events()[..],
        [Event::Unavailable { reason: Unavailable::Failed(Failed::TimedOut { .. }), .. }]
    ));
    assert_eq!(harness.machine.detected_era(), None);
}

#[test]
fn hm12_a_downgrade_is_reported_and_can_be_forbidden() {
    let empty_400 = |harness: &mut HttpClientHarness<Client<Http>>| {
        let opened = harness.opened();
        assert_eq!(opened.method(), "server/discover");
        harness.reply(opened.key, &Reply::status(400));
    };
    let mut harness = HttpClientHarness::detecting_client();
    empty_400(&mut harness);
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
    assert!(matches!(&harness.events()[..], [Event::Connected { is_downgrade: true, .. }, ..]));
    // A client that accepts no older revision does not fall back, and reports that there is no common version.
    let mut harness = HttpClientHarness::detecting_client_with(|config, _| {
        *config = config.clone().min_version(ProtocolVersion::V2026_07_28);
    });
    empty_400(&mut harness);
    let none = Unavailable::Failed(Failed::NoCommonVersion { supported: [ProtocolVersion::V2026_07_28].into() });
    assert!(matches!(&harness.events()[..], [Event::Unavailable { reason, .. }, ..] if *reason == none));
    assert!(!harness.has_opened());
}

#[test]
fn er_22_an_error_that_only_modern_servers_know_is_no_reason_to_fall_back() {
    for code in [-32020, -32021] {
        let mut harness = HttpClientHarness::detecting_client();
        let opened = harness.opened();
        harness.reply(opened.key, &error_reply(&opened, 400, code, "{}"));
        assert!(!harness.has_opened(), "{code}");
        assert!(matches!(&harness.events()[..], [Event::Unavailable { reason: Unavailable::Error(_), .. }]), "{code}");
    }
    let mut harness = HttpClientHarness::detecting_client();
    for _ in 0..2 {
        let opened = harness.opened();
        assert_eq!(opened.method(), "server/discover");
        harness.reply(opened.key, &error_reply(&opened, 400, -32022, r#"{"supported":["2026-07-28"]}"#));
    }
    assert!(!harness.has_opened());
    assert!(matches!(&harness.events()[..], [Event::Unavailable { reason: Unavailable::Error(_), .. }]));
    let mut harness = HttpClientHarness::detecting_client();
    let opened = harness.opened();
    harness.reply(opened.key, &error_reply(&opened, 400, -32022, r#"{"supported":["2027-07-28"]}"#));
    let events = harness.events();
    assert!(events.contains(&Event::Closed(CloseReason::NoCommonVersion)), "{events:?}");
}

#[test]
fn er_28_a_two_endpoint_server_is_reached_in_three_steps() {
    let mut harness = HttpClientHarness::detecting_client();
    for method in ["server/discover", "initialize"] {
        let opened = harness.opened();
        assert_eq!(opened.method(), method);
        harness.reply(opened.key, &Reply::html(404));
    }
    let stream = harness.opened();
    assert_eq!(stream.line(), "GET /mcp");
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /messages\n\n"));
    let initialize = harness.opened();
    assert_eq!((initialize.line().as_str(), initialize.method().as_str()), ("POST /messages", "initialize"));
}

#[test]
fn er_10_a_modern_only_client_fails_cleanly() {
    let mut harness = HttpClientHarness::client_with(|config, _| config.versions = MODERN.to_vec());
    let opened = harness.opened();
    assert_eq!(opened.method(), "server/discover");
    harness.reply(opened.key, &Reply::html(404));
    let events = harness.events();
    assert_eq!(
        events,
        [
            Event::Unavailable {
                reason: Unavailable::Failed(Failed::NoCommonVersion { supported: MODERN.into() }),
                retry_in: None
            },
            Event::Closed(CloseReason::NoCommonVersion)
        ]
    );
    let mut harness = HttpClientHarness::client_with(|config, http| {
        config.versions = MODERN.to_vec();
        http.transport = HttpTransport::HttpSse;
    });
    assert!(!harness.has_opened());
    assert!(matches!(&harness.events()[..], [Event::Unavailable { .. }, Event::Closed(CloseReason::NoCommonVersion)]));
}

#[test]
fn er_09_a_verdict_that_is_handed_back_saves_the_question() {
    let mut harness =
        HttpClientHarness::detecting_client_with(|config, _| config.known_era = Some(DetectedEra::known(Era::Legacy)));
    assert_eq!(harness.opened().method(), "initialize");
    let mut harness =
        HttpClientHarness::detecting_client_with(|config, _| config.known_era = Some(DetectedEra::known(Era::Modern)));
    assert_eq!(harness.opened().method(), "server/discover");
    // If the configured era is wrong, the client detects the era again (ER-08).
    let mut harness =
        HttpClientHarness::detecting_client_with(|config, _| config.known_era = Some(DetectedEra::known(Era::Legacy)));
    let opened = harness.opened();
    harness.reply(opened.key, &error_reply(&opened, 400, -32022, r#"{"supported":["2026-07-28"]}"#));
    assert_eq!(harness.opened().method(), "server/discover");
}

#[test]
fn requests_that_come_early_are_made_in_the_era_that_is_found() {
    let mut harness = HttpClientHarness::detecting_client();
    let request = harness.machine.request(mcp_proto::client::Call::new("tools/list"), harness.now).unwrap();
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), DISCOVERED)));
    let opened = harness.opened();
    assert!(opened.body().contains("io.modelcontextprotocol/protocolVersion"));
    harness.reply(opened.key, &Reply::json(mcp_testkit::messages::complete(&opened.id())));
    assert!(matches!(harness.outcomes().remove(&request), Some(Outcome::Result(_))));
}

fn only_method(stream: &mut ClientStream) -> String {
    let lines = stream.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0].split("\"method\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

#[test]
fn er_04_and_07_on_a_byte_stream_a_timeout_means_legacy_and_the_probe_is_not_cancelled() {
    let mut stream = ClientStream::detecting_with(|_| {});
    assert_eq!(only_method(&mut stream), "server/discover");
    stream.pass(Duration::from_secs(10));
    assert_eq!(only_method(&mut stream), "initialize");
    stream.line(result("1", DISCOVERED));
    stream.line(result("2", &initialize_result("2025-11-25")));
    let events = stream.events();
    let detected_era = DetectedEra { era: Era::Legacy, by: DetectedBy::Silence };
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Connected { detected_era: found, .. } if *found == detected_era))
    );
    // A client that supports only the modern revision sends `server/discover` too, and fails (ER-10).
    let mut stream = ClientStream::detecting_with(|config| config.versions = MODERN.to_vec());
    stream.pass(Duration::from_secs(31));
    assert_eq!(only_method(&mut stream), "server/discover");
    assert!(matches!(&stream.events()[..], [Event::Unavailable { .. }]));
}

/// A client that has sent `server/discover` and `initialize` as the requests 1 and 2, without an answer in time.
fn unanswered() -> ClientStream {
    unanswered_with(false)
}

/// The same; `reconnect` if it plans another attempt by itself.
fn unanswered_with(reconnect: bool) -> ClientStream {
    let mut stream = ClientStream::detecting_with(|config| config.reconnect = reconnect);
    stream.pass(Duration::from_secs(10 + 30));
    assert_eq!(stream.lines().len(), 2);
    let timed_out = |event: &Event| {
        matches!(event, Event::Unavailable { reason: Unavailable::Failed(Failed::TimedOut { .. }), .. })
    };
    assert!(matches!(&stream.events()[..], [event] if timed_out(event)));
    stream
}

#[test]
fn lc_14_an_initialize_that_is_answered_late_ends_the_plan_of_another_attempt() {
    let mut stream = unanswered_with(true);
    let planned = stream.machine.poll_timeout();
    stream.line(result("2", &initialize_result("2025-11-25")));
    assert!(stream.machine.is_connected() && planned.is_some());
    assert_eq!((stream.machine.load().timers, stream.machine.poll_timeout()), (0, None));
    assert_eq!(only_method(&mut stream), "notifications/initialized");
    stream.pass(Duration::from_secs(3600));
    assert_eq!(stream.lines(), [""; 0]);
}

#[test]
fn er_09_and_11_a_process_that_was_sent_initialize_is_not_asked_for_its_era_again() {
    let mut stream = unanswered();
    stream.machine.request(Call::new("tools/list"), stream.now).unwrap();
    assert_eq!(only_method(&mut stream), "initialize");
    // Unless it refuses as only a modern server does (ER-08).
    stream.line(error("4", -32022, "no"));
    assert_eq!(only_method(&mut stream), "server/discover");
    stream.line(result("5", DISCOVERED));
    assert!(stream.machine.is_connected());
}

#[test]
fn lc_14_an_initialize_that_is_answered_after_its_timeout_opens_the_session() {
    for is_opening in [false, true] {
        let mut stream = unanswered();
        if is_opening {
            stream.machine.request(Call::new("tools/list"), stream.now).unwrap();
            assert_eq!(only_method(&mut stream), "initialize");
        }
        stream.line(error("1", -32601, "no"));
        assert!(!stream.machine.is_connected());
        stream.line(result("2", &initialize_result("2025-11-25")));
        assert!(stream.machine.is_connected(), "opening: {is_opening}");
        let sent = stream.lines();
        assert!(sent[0].contains("notifications/initialized"), "{sent:?}");
        assert_eq!(sent.len(), 1 + usize::from(is_opening), "the call follows: {sent:?}");
        assert_eq!(stream.machine.load().requests_out, usize::from(is_opening), "nothing waits for another answer");
        // The server refuses the `initialize` that it received while it had a session (LC-21).
        stream.line(error("4", -32600, "the session has begun"));
        assert!(stream.machine.is_connected());
        let detected_era = DetectedEra { era: Era::Legacy, by: DetectedBy::Silence };
        assert_eq!(stream.machine.detected_era(), Some(detected_era));
        let connected = |event: &&Event| matches!(event, Event::Connected { is_reconnect: false, .. });
        assert_eq!(stream.events().iter().filter(connected).count(), 1);
    }
}

#[test]
fn an_initialize_that_is_refused_after_its_timeout_changes_nothing() {
    let mut stream = unanswered();
    stream.line(error("2", -32022, "no"));
    assert_eq!(stream.lines(), [] as [String; 0]);
    assert!(matches!(&stream.events()[..], [Event::Faulted(Fault::LateResponse { .. })]));
}

#[test]
fn er_08_a_modern_server_that_answered_too_late_is_probed_once_more() {
    let mut stream = ClientStream::detecting_with(|_| {});
    stream.pass(Duration::from_secs(10));
    stream.lines();
    stream.line(error("2", -32022, "no"));
    assert_eq!(only_method(&mut stream), "server/discover");
    stream.line(result("3", DISCOVERED));
    assert!(stream.machine.is_connected());
}

#[test]
fn er_08_a_process_that_showed_no_era_is_asked_for_it_again() {
    let mut stream = ClientStream::detecting_with(|_| {});
    stream.pass(Duration::from_secs(10));
    stream.lines();
    stream.line(error("2", -32022, "no"));
    assert_eq!(only_method(&mut stream), "server/discover");
    stream.line(error("3", -32601, "no"));
    assert!(matches!(&stream.events()[..], [.., Event::Unavailable { .. }]));
    stream.machine.request(Call::new("tools/list"), stream.now).unwrap();
    assert_eq!(only_method(&mut stream), "server/discover");
}

#[test]
fn a_server_that_refuses_the_revision_that_it_names_has_stated_the_reason_with_the_last_refusal() {
    let mut stream = ClientStream::detecting_with(|_| {});
    let refuse = |stream: &mut ClientStream, id: &str, code: i64, message: &str| stream.line(error(id, code, message));
    assert_eq!(only_method(&mut stream), "server/discover");
    refuse(&mut stream, "1", -32601, "no such method");
    assert_eq!(only_method(&mut stream), "initialize");
    refuse(&mut stream, "2", -32602, "Unsupported protocol version");
    assert_eq!(only_method(&mut stream), "initialize");
    refuse(&mut stream, "3", -32602, "the capabilities are missing");
    assert_eq!(only_method(&mut stream), "server/discover");
    stream.line(result("4", &DISCOVERED.replace("2026-07-28", "2025-03-26")));
    assert_eq!(only_method(&mut stream), "initialize");
    refuse(&mut stream, "5", -32603, "the database is away");
    let events = stream.events();
    assert!(
        matches!(&events[..], [.., Event::Unavailable { reason: Unavailable::Error(error), .. }] if error.code() == -32603),
        "{events:?}"
    );
}

#[test]
fn er_06_a_server_that_exits_when_it_is_probed_is_started_again() {
    // The server exits at once, or after it has answered with an error.
    for answers in [false, true] {
        let mut stream = ClientStream::detecting_with(|_| {});
        assert_eq!(only_method(&mut stream), "server/discover");
        stream.bytes(b"half a li");
        if answers {
            stream.bytes(b"ne\n");
            stream.line(error("1", -32600, "initialize comes first"));
        }
        stream.eof();
        assert_eq!(stream.respawned, 1);
        assert_eq!(only_method(&mut stream), "initialize");
        let id = if answers { "3" } else { "2" };
        stream.line(result(id, &initialize_result("2025-11-25")));
        assert!(stream.machine.is_connected());
        let detected_era = stream.machine.detected_era().unwrap();
        assert_eq!(detected_era, DetectedEra { era: Era::Legacy, by: DetectedBy::Exited });
        stream.eof();
        assert!(stream.machine.is_closed());
    }
    // The server is started again only once, and only if the driver is able to do so.
    for (respawn, respawned) in [(true, 1), (false, 0)] {
        let mut stream = ClientStream::detecting_with(|config| config.respawn = respawn);
        stream.eof();
        stream.eof();
        assert_eq!(stream.respawned, respawned);
        assert!(stream.machine.is_closed());
        assert!(matches!(&stream.events()[..], [.., Event::Unavailable { .. }, Event::Closed(CloseReason::Peer)]));
    }
}
