//! The server over HTTP: RULES 5 and 7, and the rows OR, SE, RP and HT of the catalogue that apply to it.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::client::{Call, CloseReason, Outcome};
use mcp_proto::server::{Access, Config, Event, ExchangeKey, Http, HttpConfig, Progress, Scope, Server, TwoEndpoints};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Failed, Fault, Json, Notification, ProtocolVersion, RequestKey, UsageError};
use mcp_testkit::bad_requests::{self, PING, Row};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, request, result};

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn progress(step: f64) -> Progress {
    Progress { progress: step, total: None, message: None }
}

fn with_progress() -> &'static str {
    r#"{"_meta":{"progressToken":"t"}}"#
}

#[test]
fn a_session_is_opened_used_and_ended_in_every_revision() {
    for version in VERSIONS {
        let mut harness = HttpServerHarness::new();
        let id = harness.session(version);
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "SE5");
        let (key, ticket) = harness.call(&id, "7", r#"{"name":"n"}"#);
        assert_eq!(harness.server.request_head(&ticket).unwrap().uri.path(), "/mcp");
        assert_eq!(harness.take(key).code(), 0);
        harness.respond(ticket, r#"{"content":[],"n":1.0}"#);
        let sent = harness.take(key);
        assert_eq!((sent.code(), sent.is_over, sent.is_stream), (200, true, false));
        assert_eq!(sent.headers["content-type"], "application/json");
        assert_eq!(sent.text(), r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"n":1.0}}"#);
        // DELETE succeeds with any 2xx, and requests with the id get 404 afterwards (SH-S-45).
        assert!(harness.answer(&TestRequest::new("DELETE", "").in_session(&id)).code() / 100 == 2);
        for method in ["POST", "GET", "DELETE"] {
            assert_eq!(harness.answer(&TestRequest::new(method, PING).in_session(&id)).code(), 404, "SE3");
        }
        let events = harness.events();
        assert!(matches!(events.last(), Some(Event::Closed { reason: CloseReason::Peer, .. })), "{events:?}");
    }
}

#[test]
fn admission_answers_each_wrong_request_as_its_table_states() {
    let mut harness = HttpServerHarness::with(bad_requests::configure);
    let id = harness.session("2025-11-25");
    let post = || TestRequest::post(PING).in_session(&id);
    for Row { name, asked, status, code } in bad_requests::rows(&id) {
        let sent = harness.answer(&asked);
        assert_eq!(sent.code(), status, "{name}: {}", sent.text());
        assert!(sent.is_over && sent.text().contains(&format!("\"code\":{code}")), "{name}: {}", sent.text());
    }
    assert_eq!(harness.answer(&post()).code(), 200, "the session is as it was");
    let put = harness.answer(&TestRequest::new("PUT", PING));
    assert_eq!(put.headers["allow"], "GET, POST, DELETE");
    for accept in ["*/*", "application/*, text/*"] {
        assert_eq!(harness.answer(&post().with("accept", accept)).code(), 200, "OR5");
    }
    for version in VERSIONS {
        assert_eq!(harness.answer(&post().with("mcp-protocol-version", version)).code(), 200);
    }
}

/// An HTTP library may pass requests on that it has read itself, such as one with the coding `chunked` twice.
#[test]
fn or7_codings_of_a_body_are_refused_by_the_machine_too() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-11-25");
    let post = || TestRequest::post(PING).in_session(&id);
    for (name, codings, status) in [
        ("transfer-encoding", &["chunked"][..], 200),
        ("transfer-encoding", &["Chunked"], 200),
        ("transfer-encoding", &["deflate, chunked"], 501),
        ("transfer-encoding", &["chunked", "chunked"], 501),
        ("transfer-encoding", &["identity"], 501),
        ("content-encoding", &["identity"], 200),
        ("content-encoding", &["gzip"], 415),
        ("content-encoding", &["identity", "br"], 415),
        ("content-encoding", &["\u{e9}"], 415),
    ] {
        let request = codings.iter().fold(post(), |request, coding| request.and(name, coding));
        let sent = harness.answer(&request);
        assert_eq!(sent.code(), status, "{name} {codings:?}");
        assert_eq!(sent.headers.contains_key("connection"), status == 501, "{name} {codings:?}");
        assert_eq!(sent.headers.contains_key("accept-encoding"), status == 415, "{name} {codings:?}");
    }
}

#[test]
fn or6_a_message_may_be_as_long_as_the_limit() {
    let mut harness = HttpServerHarness::with(bad_requests::configure);
    let id = harness.session("2025-11-25");
    for (length, status) in [(1000, 200), (1001, 413)] {
        let body = format!("{PING}{}", " ".repeat(length - PING.len()));
        let asked = TestRequest::post(body).in_session(&id).with("content-length", &length.to_string());
        assert_eq!(harness.answer(&asked).code(), status, "{length}");
    }
}

#[test]
fn a_method_that_is_not_allowed_is_answered_with_the_allowed_ones() {
    for (get_stream, delete, allowed) in [
        (true, true, "GET, POST, DELETE"),
        (true, false, "GET, POST"),
        (false, true, "POST, DELETE"),
        (false, false, "POST"),
    ] {
        let mut harness = HttpServerHarness::with(|http, _| (http.get_stream, http.delete) = (get_stream, delete));
        let id = harness.session("2025-11-25");
        for (method, is_allowed) in [("PUT", false), ("GET", get_stream), ("DELETE", delete)] {
            let key = harness.ask(&TestRequest::new(method, "").in_session(&id));
            let sent = harness.take(key);
            assert_eq!(sent.code() != 405, is_allowed, "{method} of {allowed}");
            assert!(is_allowed || sent.headers["allow"] == allowed, "{method} of {allowed}");
        }
    }
}

#[test]
fn hs_01_the_older_stream_is_where_it_was_put() {
    // The stream has a path of its own or shares that of the endpoint, and its sessions count against the limit.
    let two = |stream: &str| Some(TwoEndpoints { stream: stream.into(), messages: "/messages".into() });
    let mut harness = HttpServerHarness::with(|http, _| (http.two_endpoints, http.max_sessions) = (two("/sse"), 1));
    assert_eq!(harness.answer(&TestRequest::post(PING).at("/sse")).headers["allow"], "GET");
    assert_eq!(harness.answer(&TestRequest::get().at("/sse").with("accept", "application/json")).code(), 406);
    let opened = harness.begin(&TestRequest::get().at("/sse"));
    assert!(harness.take(opened).text().starts_with("event: endpoint\ndata: /messages?sessionId="));
    let full = harness.answer(&TestRequest::get().at("/sse"));
    assert_eq!(full.code(), 503);
    harness.server.handle_disconnect(opened, harness.now);
    let opened = harness.begin(&TestRequest::get().at("/sse"));
    assert_eq!(harness.take(opened).code(), 200, "there is room again");
    let mut harness = HttpServerHarness::with(|http, _| http.two_endpoints = two("/mcp"));
    let id = harness.session("2025-11-25");
    let own = harness.begin(&TestRequest::get().in_session(&id));
    assert!(!harness.take(own).text().contains("endpoint"), "it is the stream of the session");
}

#[test]
fn c1_two_posts_of_one_session_with_one_id_each_get_their_own_answer() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-11-25");
    let other = harness.session("2025-11-25");
    let (first, first_ticket) = harness.call(&id, "1", r#"{"n":1}"#);
    let (second, second_ticket) = harness.call(&id, "1", r#"{"n":2}"#);
    let (third, third_ticket) = harness.call(&other, "1", r#"{"n":3}"#);
    harness.respond(second_ticket, r#"{"n":2}"#);
    harness.respond(third_ticket, r#"{"n":3}"#);
    harness.respond(first_ticket, r#"{"n":1}"#);
    for (key, n) in [(first, 1), (second, 2), (third, 3)] {
        assert_eq!(harness.take(key).text(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"n":{n}}}}}"#));
    }
}

#[test]
fn sh_s_21_an_answer_becomes_a_stream_when_something_must_precede_it() {
    for (version, primes) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let mut harness = HttpServerHarness::with(|http, _| http.retry = Some(Duration::from_secs(2)));
        let id = harness.session(version);
        let (key, ticket) = harness.call(&id, "1", with_progress());
        let (silent, silent_ticket) = harness.call(&id, "2", "{}");
        harness.server.progress(&ticket, &progress(1.0), harness.now);
        harness.server.progress(&silent_ticket, &progress(1.0), harness.now);
        let scope = Scope::from(&ticket);
        harness.server.notify(scope, Notification::new("notifications/message"), harness.now).unwrap();
        harness.respond(ticket, r#"{"done":true}"#);
        let sent = harness.take(key);
        assert_eq!((sent.code(), sent.is_stream, sent.is_over), (200, true, true));
        assert_eq!(sent.headers["content-type"], "text/event-stream");
        assert_eq!(sent.headers["x-accel-buffering"], "no");
        assert_eq!(
            sent.data(),
            [
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1.0}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"done":true}}"#,
            ]
        );
        // Older clients fail at an event without data, so they get no priming event (SH-S-54).
        assert_eq!(sent.text().starts_with("retry: 2000\n\nid: "), primes, "{}", sent.text());
        assert_eq!(sent.ids().len(), 3 + usize::from(primes));
        harness.respond(silent_ticket, "{}");
        assert!(!harness.take(silent).is_stream, "a request without a progress token gets no progress");
    }
}

#[test]
fn sh_s_13_requests_to_the_client_travel_with_the_request_that_they_belong_to() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-06-18");
    let (key, ticket) = harness.call(&id, "1", "{}");
    let asked = harness.server.request(Scope::from(&ticket), Call::new("elicitation/create"), harness.now).unwrap();
    assert_eq!(harness.take(key).data(), [r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#]);
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#;
    let stranger = harness.session("2025-06-18");
    assert_eq!(harness.answer(&TestRequest::post(answer).in_session(&stranger)).code(), 202);
    assert!(!harness.events().iter().any(|event| matches!(event, Event::Responded { .. })), "another session's answer");
    assert_eq!(harness.answer(&TestRequest::post(answer).in_session(&id)).code(), 202);
    let events = harness.events();
    assert!(
        matches!(&events[..], [Event::Responded { request, outcome: Outcome::Result(_) }] if *request == asked),
        "{events:?}"
    );
    harness.respond(ticket, "{}");
    assert!(harness.take(key).is_over);
}

#[test]
fn requests_to_the_client_end_with_the_request_that_they_belong_to() {
    let cancelled = |events: &[Event], asked: RequestKey| {
        let of_it = |event: &&Event| matches!(event, Event::Responded { request, .. } if *request == asked);
        let outcomes: Vec<_> = events.iter().filter(of_it).collect();
        matches!(outcomes[..], [Event::Responded { outcome: Outcome::Failed(Failed::Cancelled), .. }])
    };
    let gives_up = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    for by_client in [true, false] {
        let mut harness = HttpServerHarness::new();
        let id = harness.session("2025-06-18");
        let (key, ticket) = harness.call(&id, "1", "{}");
        let during = Scope::from(&ticket);
        let asked = harness.server.request(during, Call::new("elicitation/create"), harness.now).unwrap();
        if by_client {
            harness.answer(&TestRequest::post(gives_up).in_session(&id));
        } else {
            harness.respond(ticket, "{}");
        }
        assert!(cancelled(&harness.events(), asked), "by the client: {by_client}");
        let sent = harness.take(key);
        assert_eq!(sent.data().get(1).map(String::as_str), Some(gives_up), "on the stream of the request");
        assert!(sent.is_over);
        // What the handler sends after that reaches no one.
        let late = harness.server.request(during, Call::new("elicitation/create"), harness.now).unwrap();
        assert!(cancelled(&harness.events(), late));
        harness.server.notify(during, Notification::new("late"), harness.now).unwrap();
        let own = harness.begin(&TestRequest::new("GET", "").in_session(&id));
        assert_eq!(harness.take(own).data(), [""; 0], "nor on the session's own stream");
    }
}

#[test]
fn the_sessions_own_stream_carries_what_belongs_to_no_request() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-11-25");
    let session = harness.last_session();
    // A notification that is sent before the client opens the stream is not lost.
    harness.server.notify(session, Notification::new("early"), harness.now).unwrap();
    let key = harness.begin(&TestRequest::new("GET", "").in_session(&id));
    harness.server.notify(session, Notification::new("later"), harness.now).unwrap();
    let sent = harness.take(key);
    assert!(sent.is_stream && !sent.is_over);
    assert_eq!(sent.data(), [r#"{"jsonrpc":"2.0","method":"early"}"#, r#"{"jsonrpc":"2.0","method":"later"}"#]);
    // A second GET stream of a session gets 409 (SE7, row 32).
    assert_eq!(harness.answer(&TestRequest::new("GET", "").in_session(&id)).code(), 409);
    harness.server.handle_disconnect(key, harness.now);
    harness.server.notify(session, Notification::new("unheard"), harness.now).unwrap();
    let key = harness.begin(&TestRequest::new("GET", "").in_session(&id));
    assert_eq!(harness.take(key).data(), [r#"{"jsonrpc":"2.0","method":"unheard"}"#]);
    // Comments keep a silent stream alive.
    harness.pass(Duration::from_secs(31));
    assert_eq!(harness.take(key).text(), ":\n\n:\n\n");
    harness.server.end(session, harness.now);
    assert!(harness.take(key).is_over);
    let site_without = &mut HttpServerHarness::with(|http, _| http.get_stream = false);
    let id = site_without.session("2025-11-25");
    assert_eq!(site_without.answer(&TestRequest::new("GET", "").in_session(&id)).code(), 405, "row 30");
}

#[test]
fn sh_s_52_a_broken_stream_is_resumed_where_it_broke() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-11-25");
    let (key, ticket) = harness.call(&id, "1", with_progress());
    let (_, other) = harness.call(&id, "2", with_progress());
    for step in [1.0, 2.0] {
        harness.server.progress(&ticket, &progress(step), harness.now);
        harness.server.progress(&other, &progress(step * 10.0), harness.now);
    }
    let ids = harness.take(key).ids();
    harness.server.handle_disconnect(key, harness.now);
    assert!(!harness.events().iter().any(|event| matches!(event, Event::Cancelled { .. })), "SH-S-16");
    harness.server.progress(&ticket, &progress(3.0), harness.now);
    // The client resumes after the first of two events, and a third was sent while it was disconnected.
    let resumed = harness.begin(&TestRequest::new("GET", "").in_session(&id).with("last-event-id", &ids[1]));
    let data = harness.take(resumed).data();
    assert_eq!(data.len(), 2, "{data:?}");
    assert!(data[0].contains("2.0") && data[1].contains("3.0"), "nothing of another stream: {data:?}");
    harness.server.handle_disconnect(resumed, harness.now);
    harness.respond(ticket, r#"{"late":true}"#);
    let resumed = harness.begin(&TestRequest::new("GET", "").in_session(&id).with("last-event-id", &ids[2]));
    let sent = harness.take(resumed);
    assert!(sent.is_over && sent.data().last().unwrap().contains("late"), "SH-S-57");
    // An event id of one session is invalid in another (SE8, SE13).
    let stranger = harness.session("2025-11-25");
    assert_eq!(
        harness.answer(&TestRequest::new("GET", "").in_session(&stranger).with("last-event-id", &ids[0])).code(),
        400
    );
    // The events are kept for a limited time.
    harness.pass(Duration::from_secs(121));
    assert_eq!(harness.answer(&TestRequest::new("GET", "").in_session(&id).with("last-event-id", &ids[2])).code(), 400);
}

#[test]
fn sh_s_55_a_client_may_be_sent_away_and_come_back_for_its_answer() {
    for (version, goes) in [("2025-06-18", false), ("2025-11-25", true)] {
        let mut harness = HttpServerHarness::with(|http, _| http.retry = Some(Duration::from_millis(500)));
        let id = harness.session(version);
        let (key, ticket) = harness.call(&id, "1", "{}");
        harness.server.release(&ticket, harness.now);
        let sent = harness.take(key);
        assert_eq!((sent.is_over, sent.text().starts_with("retry: 500\n\nid: ")), (goes, goes), "{version}");
        harness.respond(ticket, r#"{"late":true}"#);
        if goes {
            let back =
                harness.begin(&TestRequest::new("GET", "").in_session(&id).with("last-event-id", &sent.ids()[0]));
            let sent = harness.take(back);
            assert!(sent.is_over && sent.data() == [r#"{"jsonrpc":"2.0","id":1,"result":{"late":true}}"#]);
        } else {
            assert_eq!(harness.take(key).code(), 200);
        }
    }
}

#[test]
fn se9_what_is_kept_for_replay_is_bounded() {
    let mut harness = HttpServerHarness::with(|http, _| http.replay = 1000);
    let id = harness.session("2025-11-25");
    let (key, ticket) = harness.call(&id, "1", with_progress());
    for step in 1..100 {
        harness.server.progress(&ticket, &progress(f64::from(step)), harness.now);
    }
    let ids = harness.take(key).ids();
    harness.server.handle_disconnect(key, harness.now);
    let resume = |id: &str, after: &str| TestRequest::new("GET", "").in_session(id).with("last-event-id", after);
    assert_eq!(harness.answer(&resume(&id, &ids[0])).code(), 400, "a resumption that would miss events is refused");
    let resumed = harness.begin(&resume(&id, ids.last().unwrap()));
    assert_eq!(harness.take(resumed).code(), 200);
    // Without room for replay, events have no ids, and a stream cannot be resumed.
    let mut harness = HttpServerHarness::with(|http, _| http.replay = 0);
    let id = harness.session("2025-11-25");
    let (key, ticket) = harness.call(&id, "1", with_progress());
    harness.server.progress(&ticket, &progress(1.0), harness.now);
    assert!(harness.take(key).ids().is_empty());
}

/// A number of bytes that none of these sessions fills.
const PLENTY: usize = 1 << 20;

/// The size of each event that was sent.
fn sizes(sent: &TestResponse) -> Vec<usize> {
    sent.text().split_inclusive("\n\n").map(str::len).collect()
}

/// A harness that keeps this many bytes of events for replay, and the id of a session.
fn remembering(replay: usize) -> (HttpServerHarness, String) {
    let mut harness = HttpServerHarness::with(|http, _| http.replay = replay);
    let id = harness.session("2025-11-25");
    (harness, id)
}

/// What was sent on an exchange; its client disconnects.
fn leave(harness: &mut HttpServerHarness, key: ExchangeKey) -> TestResponse {
    let sent = harness.take(key);
    harness.server.handle_disconnect(key, harness.now);
    sent
}

/// Whether a client can resume after this event.
fn resumes(harness: &mut HttpServerHarness, session: &str, after: &str) -> bool {
    let key = harness.begin(&TestRequest::get().in_session(session).with("last-event-id", after));
    leave(harness, key).code() == 200
}

#[test]
fn se9_answered_requests_are_forgotten_first_and_no_more_of_them_than_need_be() {
    // Progress of a call before and after another call is answered.
    let play = |replay: usize| {
        let (mut harness, id) = remembering(replay);
        let [(running, ticket), (answered, other)] = ["1", "2"].map(|call| harness.call(&id, call, with_progress()));
        harness.server.progress(&ticket, &progress(1.0), harness.now);
        harness.server.progress(&other, &progress(1.0), harness.now);
        harness.respond(other, "{}");
        harness.server.progress(&ticket, &progress(2.0), harness.now);
        let [running, answered] = [running, answered].map(|key| leave(&mut harness, key));
        (harness, id, running, answered)
    };
    // The first event of each stream is the priming event, which is not kept.
    let (_, _, running, answered) = play(PLENTY);
    let total = [running, answered].iter().flat_map(|sent| sizes(sent).split_off(1)).sum::<usize>();
    let (mut harness, id, running, answered) = play(total);
    assert!(resumes(&mut harness, &id, &running.ids()[0]) && resumes(&mut harness, &id, &answered.ids()[0]));
    let (mut harness, id, running, answered) = play(total - 1);
    assert!(resumes(&mut harness, &id, &running.ids()[0]), "it is not answered yet");
    assert!(!resumes(&mut harness, &id, &answered.ids()[0]) && resumes(&mut harness, &id, &answered.ids()[1]));
}

#[test]
fn se9_events_of_the_session_are_evicted_before_those_of_pending_requests() {
    // Two notifications that belong to no request, and two progress notifications of a call.
    let play = |replay: usize| {
        let (mut harness, id) = remembering(replay);
        let session = harness.last_session();
        let own = harness.begin(&TestRequest::get().in_session(&id));
        for _ in 0..2 {
            harness.server.notify(session, Notification::new("a"), harness.now).unwrap();
        }
        let (running, ticket) = harness.call(&id, "1", with_progress());
        for step in [1.0, 2.0] {
            harness.server.progress(&ticket, &progress(step), harness.now);
        }
        let [own, running] = [own, running].map(|key| leave(&mut harness, key));
        (harness, id, own, running)
    };
    let (_, _, own, running) = play(PLENTY);
    let (own_size, step) = (*sizes(&own).last().unwrap(), *sizes(&running).last().unwrap());
    // It is enough to forget one of the notifications; with one byte less, both are forgotten.
    for (replay, second) in [(2 * step + own_size, true), (2 * step + own_size - 1, false)] {
        let (mut harness, id, own, running) = play(replay);
        let [.., first, last] = &own.ids()[..] else { panic!("{own:?}") };
        assert!(resumes(&mut harness, &id, last));
        assert_eq!(resumes(&mut harness, &id, first), second);
        assert!(resumes(&mut harness, &id, &running.ids()[0]));
    }
}

#[test]
fn se9_as_many_of_the_newest_events_are_kept_as_there_is_room_for() {
    let play = |harness: &mut HttpServerHarness, id: &str, steps: u8| {
        let (key, ticket) = harness.call(id, "1", with_progress());
        for step in 1..=steps {
            harness.server.progress(&ticket, &progress(f64::from(step)), harness.now);
        }
        (leave(harness, key), ticket)
    };
    let (mut harness, id) = remembering(PLENTY);
    let step = *sizes(&play(&mut harness, &id, 1).0).last().unwrap();
    let (mut harness, id) = remembering(2 * step);
    let ids = play(&mut harness, &id, 4).0.ids();
    assert_eq!(
        ids.iter().map(|after| resumes(&mut harness, &id, after)).collect::<Vec<_>>(),
        [false, false, true, true, true]
    );
    // Events that are forgotten for their age make room as well.
    let (mut harness, id) = remembering(2 * step);
    let (_, ticket) = play(&mut harness, &id, 1);
    harness.respond(ticket, "{}");
    harness.pass(Duration::from_secs(121));
    let ids = play(&mut harness, &id, 2).0.ids();
    assert!(resumes(&mut harness, &id, &ids[0]));
}

#[test]
fn cx_03_a_cancelled_call_is_not_answered_and_its_exchange_ends() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-06-18");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let (quiet, quiet_ticket) = harness.call(&id, "1", "{}");
    let (loud, loud_ticket) = harness.call(&id, "1", with_progress());
    harness.server.progress(&loud_ticket, &progress(1.0), harness.now);
    let other = harness.session("2025-06-18");
    let (foreign, foreign_ticket) = harness.call(&other, "1", "{}");
    assert_eq!(harness.answer(&TestRequest::post(cancel).in_session(&id)).code(), 202);
    let cancelled = harness.events().iter().filter(|event| matches!(event, Event::Cancelled { .. })).count();
    assert_eq!(cancelled, 2, "RP4: both, since the id means either; and none of another session");
    let (quiet, loud) = (harness.take(quiet), harness.take(loud));
    assert_eq!((quiet.code(), quiet.text().as_str()), (202, ""));
    assert!(loud.is_over && loud.data().len() == 1);
    harness.respond(quiet_ticket, "{}");
    harness.respond(loud_ticket, "{}");
    harness.respond(foreign_ticket, "{}");
    assert_eq!(harness.take(foreign).code(), 200);
}

#[test]
fn jr_35_a_batch_of_2025_03_26_is_answered_with_one_array() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-03-26");
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},7,{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let key = harness.ask(&TestRequest::post(batch).in_session(&id));
    let ticket = harness.ticket();
    assert_eq!(harness.take(key).code(), 0);
    harness.respond(ticket, r#"{"a":1}"#);
    let sent = harness.take(key);
    assert_eq!(sent.code(), 200);
    let answers: Vec<serde_json::Value> = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(answers.len(), 3, "{}", sent.text());
    let silent = r#"[{"jsonrpc":"2.0","method":"n"}]"#;
    assert_eq!(harness.answer(&TestRequest::post(silent).in_session(&id)).code(), 202, "SH-S-07");
    assert_eq!(harness.answer(&TestRequest::post("[]").in_session(&id)).code(), 400);
}

#[test]
fn connections_are_kept_free_for_requests_within_the_limits_that_were_configured() {
    for (connections, subscriptions, expected) in [(100, 1000, 25), (101, 1000, 26), (100, 10, 10), (0, 1000, 0)] {
        let mut config = Config::new("s", "1");
        config.limits.subscriptions = subscriptions;
        let mut server = Server::new(Http::new(HttpConfig::new()), config).unwrap();
        server.limit_to_connections(connections);
        server.limit_to_connections(1000);
        assert_eq!(server.config().limits.subscriptions, expected, "{connections}");
    }
}

#[test]
fn hs_01_the_two_endpoints_of_2024_11_05_are_served_beside_the_new_one() {
    let mut harness = HttpServerHarness::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let stream = harness.begin(&TestRequest::new("GET", "").at("/sse"));
    let sent = harness.take(stream);
    assert!(sent.text().starts_with("event: endpoint\ndata: /messages?sessionId="), "HS-02: {}", sent.text());
    let place = sent.data().remove(0);
    let say = |harness: &mut HttpServerHarness, body: &str| {
        harness.answer(&TestRequest::post(body.to_owned()).at(&place)).code()
    };
    assert_eq!(say(&mut harness, &initialize("2024-11-05")), 202);
    let answers = harness.take(stream).data();
    assert!(answers.len() == 1 && answers[0].contains(r#""protocolVersion":"2024-11-05""#), "HS-04: {answers:?}");
    assert_eq!(say(&mut harness, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), 202);
    assert_eq!(say(&mut harness, r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#), 202);
    let ticket = harness.ticket();
    harness.respond(ticket, r#"{"x":1}"#);
    let sent = harness.take(stream);
    assert_eq!(sent.data(), [r#"{"jsonrpc":"2.0","id":"a","result":{"x":1}}"#]);
    assert!(sent.ids().is_empty(), "HS-10: nothing to resume");
    assert_eq!(say(&mut harness, "{"), 400);
    harness.session("2025-11-25");
    // The end of the stream ends the session (HS-10).
    harness.server.handle_disconnect(stream, harness.now);
    assert_eq!(say(&mut harness, PING), 404);
    let gone = harness.events().iter().filter(|event| matches!(event, Event::Closed { .. })).count();
    assert_eq!((gone, harness.server.sessions()), (1, 1));
}

#[test]
fn hs_02_the_endpoint_event_begins_with_the_public_path_and_requests_without_it_are_served() {
    let mut harness = HttpServerHarness::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        http.public_path = "/v1/tools".into();
    });
    let stream = harness.begin(&TestRequest::new("GET", "").at("/sse/"));
    let place = harness.take(stream).data().remove(0);
    let local = place.strip_prefix("/v1/tools").expect("the public path");
    assert!(local.starts_with("/messages?sessionId="), "{place}");
    assert_eq!(harness.answer(&TestRequest::post(initialize("2024-11-05")).at(local)).code(), 202);
    // A slash at the end of a path makes no other endpoint.
    assert_eq!(harness.answer(&TestRequest::post(initialize("2025-11-25")).at("/mcp/")).code(), 200);
    assert_eq!(harness.answer(&TestRequest::post(initialize("2025-11-25")).at("/mcp//")).code(), 404);
}

#[test]
fn se4_a_session_belongs_to_the_principal_that_opened_it() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session_of("2025-11-25", Some("alice"));
    let own = harness.answer(&TestRequest::post(PING).in_session(&id).by("alice"));
    assert_eq!(own.code(), 200);
    let unknown = harness.answer(&TestRequest::post(PING).in_session("unknown").by("bob"));
    for method in ["POST", "GET", "DELETE"] {
        for asked in
            [TestRequest::new(method, PING).in_session(&id).by("bob"), TestRequest::new(method, PING).in_session(&id)]
        {
            let sent = harness.answer(&asked);
            assert_eq!((sent.code(), sent.text()), (404, unknown.text()), "as if it were not there");
        }
    }
    assert_eq!(harness.answer(&TestRequest::post(PING).in_session(&id).by("alice")).code(), 200);
}

#[test]
fn cl4_with_nothing_random_no_two_sessions_are_one() {
    let mut harness = HttpServerHarness::new();
    harness.is_constant = true;
    let first = harness.answer(&TestRequest::post(initialize("2025-11-25")));
    let second = harness.answer(&TestRequest::post(initialize("2025-11-25")));
    assert_eq!((first.code(), second.code() / 100), (200, 5), "{}", second.text());
    assert!(!second.headers.contains_key("mcp-session-id"));
    assert_eq!(harness.server.sessions(), 1);
}

#[test]
fn se10_a_session_whose_id_never_reached_its_client_expires() {
    let mut harness = HttpServerHarness::new();
    let key = harness.ask(&TestRequest::post(initialize("2025-11-25")));
    harness.server.handle_disconnect(key, harness.now);
    // The client opens another session.
    let id = harness.session("2025-11-25");
    assert_eq!(harness.server.sessions(), 2);
    for _ in 0..3 {
        harness.pass(Duration::from_secs(20 * 60));
        assert_eq!(harness.answer(&TestRequest::post(PING).in_session(&id)).code(), 200);
    }
    assert_eq!(harness.server.sessions(), 1);
}

#[test]
fn se13_events_of_a_session_are_for_its_principal_alone() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session_of("2025-11-25", Some("alice"));
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#, with_progress());
    let key = harness.ask(&TestRequest::post(call).in_session(&id).by("alice"));
    let ticket = harness.ticket();
    harness.server.progress(&ticket, &progress(1.0), harness.now);
    harness.server.handle_disconnect(key, harness.now);
    let begun = harness.take(key).ids();
    harness.respond(ticket, r#"{"secret":1}"#);
    let other = harness.session_of("2025-11-25", Some("mallory"));
    for asked in [
        TestRequest::get().in_session(&id).with("last-event-id", &begun[0]).by("mallory"),
        TestRequest::get().in_session(&other).with("last-event-id", &begun[0]).by("mallory"),
        TestRequest::get().in_session(&id).with("last-event-id", &begun[0]),
    ] {
        let sent = harness.answer(&asked);
        assert!(sent.code() / 100 == 4 && !sent.text().contains("secret"), "{}", sent.text());
    }
    let resumed = harness.answer(&TestRequest::get().in_session(&id).with("last-event-id", &begun[0]).by("alice"));
    assert!(resumed.text().contains("secret"), "{}", resumed.text());
}

#[test]
fn se1_before_initialize_is_answered_only_a_ping_is() {
    let mut harness = HttpServerHarness::new();
    let opened = harness.answer(&TestRequest::post(initialize("2025-11-25")));
    let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let session = harness.last_session();
    assert_eq!(harness.answer(&TestRequest::post(PING).in_session(&id)).code(), 200);
    // The server sends the client no request before the handshake is confirmed (LC-10).
    assert_eq!(harness.server.request(session, Call::new("roots/list"), harness.now), Err(UsageError::NotConnected));
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
    ] {
        let sent = harness.answer(&TestRequest::post(body));
        assert_eq!(sent.code(), 400, "{}", sent.text());
        assert!(!sent.headers.contains_key("mcp-session-id"));
    }
    assert_eq!(harness.server.sessions(), 1, "what did not come about is none");
    // A session id that the client proposes is not accepted (SE5).
    assert_eq!(harness.answer(&TestRequest::post(initialize("2025-11-25")).in_session("mine")).code(), 404);
}

#[test]
fn se6_sessions_are_bounded_and_expire() {
    let mut harness = HttpServerHarness::with(|http, _| http.max_sessions = 3);
    let ids: Vec<_> = (0..3).map(|_| harness.session("2025-11-25")).collect();
    let refused = harness.answer(&TestRequest::post(initialize("2025-11-25")));
    assert_eq!(refused.code(), 503);
    assert!(refused.headers.contains_key("retry-after"));
    // One session is used, one has a stream, and one is unused and expires.
    let stream = harness.begin(&TestRequest::new("GET", "").in_session(&ids[1]));
    harness.pass(Duration::from_secs(29 * 60));
    assert_eq!(harness.answer(&TestRequest::post(PING).in_session(&ids[0])).code(), 200);
    harness.pass(Duration::from_secs(2 * 60));
    assert_eq!(harness.server.sessions(), 2);
    harness.pass(Duration::from_secs(30 * 60));
    assert_eq!(harness.server.sessions(), 1);
    harness.server.handle_disconnect(stream, harness.now);
    harness.pass(Duration::from_secs(61 * 60));
    assert_eq!(harness.server.sessions(), 0);
    let expired = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Expired, .. });
    assert_eq!(harness.events().iter().filter(|event| expired(event)).count(), 3);
    assert_eq!(harness.server.poll_timeout(), None, "nothing is left behind");
    assert_eq!(harness.answer(&TestRequest::post(PING).in_session(&ids[0])).code(), 404);
}

#[test]
fn a_request_that_a_router_matched_is_served_at_any_path() {
    let ask = |target: &str, is_routed| {
        let mut harness = HttpServerHarness::with(|http, _| {
            http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        });
        harness.is_routed = is_routed;
        harness.answer(&TestRequest::post(initialize("2025-11-25")).at(target)).code()
    };
    for (target, routed, other) in [("/mcp", 200, 200), ("/", 200, 404), ("/tools/mcp", 200, 404), ("/sse", 405, 405)] {
        assert_eq!((ask(target, true), ask(target, false)), (routed, other), "{target}");
    }
}

#[test]
fn or6_a_half_sent_request_ends_by_its_deadline() {
    let mut harness = HttpServerHarness::new();
    let key = harness.begin(&TestRequest::post(""));
    harness.server.handle_body(key, b"{\"jsonrpc\":", harness.now);
    harness.pass(Duration::from_secs(31));
    assert_eq!(harness.take(key).code(), 408);
    // Late bytes are a race, and have no effect.
    harness.server.handle_body(key, b"\"2.0\"}", harness.now);
    harness.server.handle_end(key, harness.now);
    harness.server.handle_disconnect(key, harness.now);
    assert_eq!(harness.take(key).code(), 0);
}

#[test]
fn closing_answers_everybody() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-06-18");
    let session = harness.last_session();
    let (key, ticket) = harness.call(&id, "1", "{}");
    let (streamed, streamed_ticket) = harness.call(&id, "2", with_progress());
    harness.server.progress(&streamed_ticket, &progress(1.0), harness.now);
    let own = harness.begin(&TestRequest::new("GET", "").in_session(&id));
    let asked = harness.server.request(session, Call::new("roots/list"), harness.now).unwrap();
    let half = harness.begin(&TestRequest::post("").in_session(&id));
    harness.server.close(harness.now);
    let (sent, streamed, own) = (harness.take(key), harness.take(streamed), harness.take(own));
    assert!(sent.is_over && sent.text().contains("the connection was closed"), "{}", sent.text());
    assert!(streamed.is_over && streamed.data().last().unwrap().contains("the connection was closed"));
    assert!(own.is_over);
    let events = harness.events();
    assert!(events.contains(&Event::Responded { request: asked, outcome: Outcome::Failed(Failed::Closed) }));
    harness.server.handle_body(half, PING.as_bytes(), harness.now);
    harness.server.handle_end(half, harness.now);
    assert_eq!(harness.take(half).code(), 503);
    assert_eq!(harness.answer(&TestRequest::post(initialize("2025-11-25"))).code(), 503);
    harness.respond(ticket, "{}");
    assert!(harness.events().is_empty());
}

#[test]
fn rp15_errors_of_handlers_are_answers_like_any_other() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-11-25");
    let (key, ticket) = harness.call(&id, "1", "{}");
    let error = ErrorObject::with_data(-32602, "no such tool", &Json::parse(r#"{"n":1.0}"#).unwrap());
    harness.server.respond(ticket, Err(error), harness.now).unwrap();
    let sent = harness.take(key);
    assert_eq!(sent.code(), 200, "row 28");
    assert!(sent.text().contains(r#""code":-32602,"message":"no such tool","data":{"n":1.0}"#), "{}", sent.text());
    // A malformed response fails the request that it answers, and is refused (RP5).
    let session = harness.last_session();
    let asked = harness.server.request(session, Call::new("roots/list"), harness.now).unwrap();
    let broken = r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#;
    assert_eq!(harness.answer(&TestRequest::post(broken).in_session(&id)).code(), 400);
    let failed =
        |event: &Event| matches!(event, Event::Responded { request, outcome: Outcome::Failed(_) } if *request == asked);
    assert!(harness.events().iter().any(failed));
}

#[test]
fn access_may_be_listed_or_left_to_others() {
    let listed = Access::Listed { hosts: vec!["mcp.example".into()], origins: vec!["https://app.example".into()] };
    for (access, host, origin, status) in [
        (listed.clone(), "mcp.example", "https://app.example", 200),
        (listed.clone(), "localhost", "https://app.example", 403),
        (listed, "mcp.example", "http://localhost", 403),
        (Access::Anybody, "evil.example", "https://evil.example", 200),
    ] {
        let mut harness = HttpServerHarness::with(|http, _| http.access = access);
        let asked = TestRequest::post(initialize("2025-11-25")).with("host", host).with("origin", origin);
        assert_eq!(harness.answer(&asked).code(), status, "{host} {origin}");
    }
}

#[test]
fn no_session_is_opened_once_the_server_is_closed() {
    let mut harness = HttpServerHarness::new();
    let half = harness.begin(&TestRequest::post(""));
    harness.server.handle_body(half, initialize("2025-11-25").as_bytes(), harness.now);
    harness.server.close(harness.now);
    harness.server.handle_end(half, harness.now);
    assert_eq!(harness.take(half).code(), 503);
    assert_eq!((harness.server.sessions(), harness.server.poll_timeout()), (0, None));
}

#[test]
fn sh_s_48_a_session_is_used_at_the_endpoint_that_it_was_opened_at() {
    let mut harness = HttpServerHarness::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let id = harness.session("2025-11-25");
    let own = harness.begin(&TestRequest::new("GET", "").in_session(&id));
    assert_eq!(harness.answer(&TestRequest::post(PING).at(&format!("/messages?sessionId={id}"))).code(), 404);
    assert_eq!(harness.take(own).data(), [""; 0], "no answer on a stream of another kind");
    let old = harness.begin(&TestRequest::new("GET", "").at("/sse"));
    let place = harness.take(old).data().remove(0);
    let id = place.split_once('=').unwrap().1;
    // If the session took this `initialize`, it would be dropped as invalid while its stream stays open.
    let refused = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    assert_eq!(harness.answer(&TestRequest::post(refused).in_session(id)).code(), 404);
    harness.server.close(harness.now);
    assert!(harness.take(old).is_over);
}

#[test]
fn se6_a_session_in_which_notifications_are_sent_is_not_idle() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-11-25");
    for _ in 0..5 {
        harness.pass(Duration::from_secs(20 * 60));
        let notification =
            TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).in_session(&id);
        assert_eq!(harness.answer(&notification).code(), 202);
    }
}

#[test]
fn se9_streams_of_which_nothing_is_kept_are_forgotten() {
    let mut harness = HttpServerHarness::with(|http, _| http.replay = 1000);
    let id = harness.session("2025-11-25");
    let mut sizes = Vec::new();
    for round in 0..1000 {
        let (key, ticket) = harness.call(&id, "1", with_progress());
        harness.server.progress(&ticket, &progress(1.0), harness.now);
        harness.respond(ticket, "{}");
        assert!(harness.take(key).is_over);
        if round % 100 == 99 {
            sizes.push(format!("{:?}", harness.server).len());
        }
    }
    assert!(sizes.iter().all(|size| *size < sizes[0] * 2), "neither memory nor the time of a call may grow: {sizes:?}");
}

#[test]
fn sh_s_55_a_client_that_came_back_may_be_sent_away_again() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-11-25");
    let (key, ticket) = harness.call(&id, "1", "{}");
    harness.server.release(&ticket, harness.now);
    let cursor = harness.take(key).ids().remove(0);
    for _ in 0..2 {
        let back = harness.begin(&TestRequest::new("GET", "").in_session(&id).with("last-event-id", &cursor));
        harness.server.release(&ticket, harness.now);
        assert!(harness.take(back).is_over);
    }
    harness.respond(ticket, "{}");
    let sent = harness.answer(&TestRequest::new("GET", "").in_session(&id).with("last-event-id", &cursor));
    assert!(sent.is_over && sent.data().len() == 1);
}

#[test]
fn cl5_a_pause_of_no_time_between_comments_is_refused() {
    let mut http = HttpConfig::new();
    http.keep_alive = Duration::ZERO;
    assert!(Server::new(Http::new(http), Config::new("s", "1")).is_err(), "or handling a timeout would never end");
}

#[test]
fn comments_on_streams_that_were_opened_at_different_times_are_due_together_and_never_late() {
    let mut harness = HttpServerHarness::new();
    let mut opened = BTreeMap::new();
    for _ in 0..40 {
        let id = harness.session("2025-11-25");
        let stream = harness.begin(&TestRequest::new("GET", "").in_session(&id));
        harness.take(stream);
        opened.insert(stream, harness.now);
        harness.pass(Duration::from_millis(333));
    }
    let (until, mut wakes) = (harness.now + Duration::from_secs(30), 0);
    while let Some(at) = harness.server.poll_timeout().filter(|at| *at < until) {
        harness.pass(at - harness.now);
        wakes += 1;
        for (stream, last) in &mut opened {
            if harness.take(*stream).text().starts_with(':') {
                *last = harness.now;
            }
            assert!(harness.now - *last <= Duration::from_secs(15));
        }
    }
    assert!((12..=18).contains(&wakes), "{wakes} for 40 streams in twice the pause");
}

#[test]
fn lc_20_a_client_chooses_its_log_messages() {
    let mut harness =
        HttpServerHarness::with(|_, config| config.capabilities = Json::parse(r#"{"logging":{}}"#).unwrap());
    let id = harness.session("2025-06-18");
    let session = harness.last_session();
    let own = harness.begin(&TestRequest::new("GET", "").in_session(&id));
    let logged = |harness: &mut HttpServerHarness| {
        for level in LoggingLevel::ALL.iter().copied() {
            harness.server.log(session, level, Some("disk"), &Json::from("full"), harness.now).unwrap();
        }
        harness.take(own).data()
    };
    assert_eq!(logged(&mut harness).len(), 8, "until it has chosen, it gets everything");
    let choose = |level: &str| {
        TestRequest::post(format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{{"level":{level}}}}}"#
        ))
        .in_session(&id)
    };
    let chosen = harness.answer(&choose("\"alert\""));
    assert_eq!((chosen.code(), chosen.text().as_str()), (200, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","logger":"disk","data":"full"}}"#;
    assert_eq!(logged(&mut harness), [message, &message.replace("alert", "emergency")]);
    for level in ["\"ALERT\"", "3", "null"] {
        let refused = harness.answer(&choose(level));
        assert_eq!(refused.code(), 200);
        assert!(refused.text().contains("-32602"), "{}", refused.text());
    }
    assert_eq!(logged(&mut harness).len(), 2, "a wrong level changes nothing");
    assert!(harness.events().iter().all(|event| !matches!(event, Event::Requested { .. })), "the machine answers");
    // Without the capability, the request goes to the application, and nothing can be logged.
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-06-18");
    let session = harness.last_session();
    let refused = harness.server.log(session, LoggingLevel::Info, None, &Json::from(""), harness.now);
    assert_eq!(refused, Err(UsageError::NotDeclared { capability: "logging" }));
    harness.ask(&choose("\"alert\"").in_session(&id));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Requested { .. })));
}

#[test]
fn se6_what_a_session_remembers_of_its_client_is_bounded() {
    let text = |size: usize| format!(r#"{{"x":"{}"}}"#, "x".repeat(size));
    let opening = |capabilities: &str, info: &str| {
        let members = format!(r#""capabilities":{capabilities},"clientInfo":{info}"#);
        initialize("2025-11-25").replace(r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}"#, &members)
    };
    let mut harness = HttpServerHarness::new();
    let refused = harness.answer(&TestRequest::post(opening(&text(20_000), "{}")));
    assert!(refused.text().contains("-32602"), "{}", refused.text());
    assert_eq!(harness.server.sessions(), 0);
    for (info, remembered) in [(text(10), true), (text(20_000), false)] {
        let opened = harness.answer(&TestRequest::post(opening(&text(10_000), &info)));
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        harness.answer(&TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).in_session(&id));
        let (_, ticket) = harness.call(&id, "1", r#"{"name":"t"}"#);
        let context = harness.server.context(&ticket).expect("an open request");
        assert_eq!(context.client_capabilities.to_text(), text(10_000));
        assert_eq!(context.client_info.map(|info| info.to_text().into_owned()), remembered.then_some(info));
        harness.respond(ticket, "{}");
    }
}

#[test]
fn se6_what_a_session_subscribes_to_is_bounded() {
    let mut harness = HttpServerHarness::with(|_, config| {
        config.capabilities = Json::parse(r#"{"resources":{"subscribe":true}}"#).unwrap();
    });
    let id = harness.session("2025-11-25");
    for uri in
        ["a:1".to_owned(), format!("a:{}", "x".repeat(32 * 1024 - 10)), "a:2".to_owned(), "a:too much".to_owned()]
    {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#);
        let sent = harness.answer(&TestRequest::post(body).in_session(&id));
        assert_eq!((sent.code(), sent.text().contains("-32603")), (200, uri == "a:too much"));
    }
    let stream = harness.ask(&TestRequest::get().in_session(&id));
    for uri in ["a:1", "a:2", "a:too much"] {
        let params = Json::parse(format!(r#"{{"uri":"{uri}"}}"#)).unwrap();
        harness
            .server
            .publish(Notification::with_params("notifications/resources/updated", params), harness.now)
            .unwrap();
    }
    assert_eq!(harness.take(stream).data().len(), 2);
}

#[test]
fn rp10_requests_of_all_clients_have_one_limit() {
    let mut harness = HttpServerHarness::with(|_, config| {
        config.capabilities = Json::parse(r#"{"tools":{}}"#).unwrap();
        (config.limits.requests_in, config.limits.requests_in_total) = (3, 4);
    });
    let [first, second] = [harness.session("2025-03-26"), harness.session("2025-11-25")];
    let refused = |sent: &TestResponse| {
        assert!(
            sent.text().contains(r#""id":1,"error":{"code":-32603,"message":"the server is overloaded"#),
            "{}",
            sent.text()
        );
        assert_eq!((sent.code(), sent.headers["retry-after"].as_bytes()), (503, &b"5"[..]));
    };
    let call = |id: &str| TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).in_session(id);
    let limits = |harness: &mut HttpServerHarness| {
        let limit =
            |event| if let Event::Faulted(Fault::TooManyRequests { limit }) = event { Some(limit) } else { None };
        harness.events().into_iter().filter_map(limit).collect::<Vec<_>>()
    };
    // Three requests of one session, and one of another client.
    let batch = TestRequest::post(r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#);
    let open = [harness.ask(&batch.in_session(&first)), harness.ask(&call(&first))];
    refused(&harness.answer(&call(&first)));
    let (_, ticket) = harness.call(&second, "1", "{}");
    refused(&harness.answer(&call(&second)));
    refused(&harness.answer(&TestRequest::stateless_call("1", "a", "")));
    assert_eq!(harness.server.requests_in_flight(), 4);
    assert_eq!(limits(&mut harness), [3, 4, 4]);
    // What the machine answers itself needs no room.
    for (session, asked) in [(Some(&first), PING.to_owned()), (None, initialize("2025-11-25"))] {
        let asked = session.iter().fold(TestRequest::post(asked), |asked, id| asked.in_session(id));
        assert_eq!(harness.answer(&asked).code(), 200);
    }
    assert_eq!(harness.answer(&TestRequest::stateless("1", "server/discover", "")).code(), 200);
    // The end of a request makes room for another, whether it is answered, cancelled, abandoned or ends with its
    // session.
    harness.respond(ticket, "{}");
    let alone = harness.ask(&TestRequest::stateless_call("1", "a", ""));
    refused(&harness.answer(&call(&second)));
    harness.server.handle_disconnect(alone, harness.now);
    let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(harness.answer(&TestRequest::post(taken_back).in_session(&first)).code(), 202);
    assert_eq!(harness.server.requests_in_flight(), 2);
    for _ in 0..2 {
        harness.ask(&call(&second));
    }
    refused(&harness.answer(&call(&second)));
    assert!(harness.answer(&TestRequest::new("DELETE", "").in_session(&first)).code() / 100 == 2);
    assert!(open.into_iter().all(|key| harness.take(key).is_over));
    assert_eq!(harness.server.requests_in_flight(), 2);
    harness.ask(&call(&second));
    harness.server.close(harness.now);
    assert_eq!(harness.server.requests_in_flight(), 0);
}

#[test]
fn a_server_without_configured_revisions_serves_the_newest_one_that_has_sessions() {
    let mut harness = HttpServerHarness::with(|_, config| config.versions.clear());
    let session = harness.session("2025-11-25");
    let ping = |version| TestRequest::post(PING).in_session(&session).with("mcp-protocol-version", version);
    assert_eq!(harness.answer(&ping("2025-11-25")).code(), 200);
    assert_eq!(harness.answer(&ping("2025-06-18")).code(), 400);
}

#[test]
fn a28_the_revision_of_a_request_determines_how_its_refusal_is_written() {
    for (version, id) in [("2025-06-18", r#""id":null,"#), ("2025-11-25", ""), ("2026-07-28", "")] {
        let mut harness = HttpServerHarness::with(|_, config| {
            config.versions = ProtocolVersion::ALL.into();
            config.limits.message = 1000;
        });
        let session = if version == "2026-07-28" { None } else { Some(harness.session(version)) };
        let in_session = |request: TestRequest| {
            let request = request.with("mcp-protocol-version", version);
            session.iter().fold(request, |request, session| request.in_session(session))
        };
        let post = |body: &str| in_session(TestRequest::post(body.to_owned()));
        let late = harness.begin(&post(""));
        harness.pass(Duration::from_secs(60));
        let long = "x".repeat(1001);
        let mut answers = vec![(408, harness.take(late))];
        for (status, request) in [
            (400, post("{")),
            (415, post("{}").with("content-type", "text/plain")),
            (406, post("{}").with("accept", "text/html")),
            (413, post("{}").with("content-length", "1001")),
            (413, post(&long)),
            (405, in_session(TestRequest::new("PATCH", ""))),
        ] {
            answers.push((status, harness.answer(&request)));
        }
        for (status, answer) in answers {
            let text = answer.text();
            assert_eq!(answer.code(), status, "{version}: {text}");
            assert!(text.starts_with(&format!(r#"{{"jsonrpc":"2.0",{id}"error":"#)), "{version}, {status}: {text}");
        }
    }
}

const CALL: &str = r#"{"_meta":{"progressToken":"t"}}"#;

#[test]
fn a_stream_that_is_resumed_while_the_old_one_is_open_ends_the_old_one() {
    let mut http_server = HttpServerHarness::new();
    let id = http_server.session("2025-11-25");
    let (old, ticket) = http_server.call(&id, "1", CALL);
    let step = |step| Progress { progress: step, total: None, message: None };
    http_server.server.progress(&ticket, &step(1.0), http_server.now);
    let sent = http_server.take(old);
    assert!(!sent.is_over);
    let ids = sent.ids();
    let new = http_server.begin(&TestRequest::get().in_session(&id).with("last-event-id", &ids[0]));
    assert!(http_server.take(old).is_over, "two connections do not carry one stream");
    http_server.server.progress(&ticket, &step(2.0), http_server.now);
    assert_eq!(http_server.take(new).data().len(), 2);
    assert!(http_server.peek(old).is_none(), "nothing more is written to it");
    // A disconnect of the old connection changes nothing.
    http_server.server.handle_disconnect(old, http_server.now);
    http_server.respond(ticket, "{}");
    let sent = http_server.take(new);
    assert!(sent.is_over && sent.data().last().unwrap().contains(r#""result":{}"#));
}

#[test]
fn a_session_in_which_a_request_runs_does_not_expire() {
    let mut http_server = HttpServerHarness::new();
    let id = http_server.session("2025-11-25");
    let (key, ticket) = http_server.call(&id, "1", CALL);
    http_server.server.handle_disconnect(key, http_server.now);
    http_server.pass(Duration::from_secs(3 * 3600));
    assert_eq!(http_server.server.sessions(), 1, "its handler still works, although no client is connected");
    http_server.respond(ticket, "{}");
    assert_eq!(http_server.answer(&TestRequest::post(PING).in_session(&id)).code(), 200);
    http_server.pass(Duration::from_secs(2 * 3600));
    assert_eq!(http_server.server.sessions(), 0, "and now it is idle");
}

/// A server with the two endpoints of the first revision beside the Streamable HTTP endpoint.
fn site_of_two_endpoints() -> HttpServerHarness {
    let two = TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() };
    HttpServerHarness::with(|http, _| http.two_endpoints = Some(two))
}

/// Opens a session of the first revision; returns its stream and the path to which its client sends POST requests.
fn open_two_endpoint_session(http_server: &mut HttpServerHarness) -> (ExchangeKey, String) {
    let stream = http_server.begin(&TestRequest::get().at("/sse"));
    let text = http_server.take(stream).text();
    let messages = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("an endpoint");
    (stream, messages.to_owned())
}

#[test]
fn or4_a_message_for_a_session_of_the_first_revision_is_json() {
    let mut http_server = site_of_two_endpoints();
    let (_, messages) = open_two_endpoint_session(&mut http_server);
    for (kind, status) in [("text/plain", 415), ("application/json", 202)] {
        let asked = TestRequest::post(initialize("2024-11-05")).at(&messages).with("content-type", kind);
        assert_eq!(http_server.answer(&asked).code(), status, "{kind}");
    }
}

#[test]
fn hs_07_what_is_no_json_for_a_session_of_the_first_revision_is_refused_and_reported() {
    let mut http_server = site_of_two_endpoints();
    let (_, messages) = open_two_endpoint_session(&mut http_server);
    assert_eq!(http_server.answer(&TestRequest::post(initialize("2024-11-05")).at(&messages)).code(), 202);
    http_server.events();
    assert_eq!(http_server.answer(&TestRequest::post("{").at(&messages)).code(), 400);
    let events = http_server.events();
    assert!(matches!(events[..], [Event::Faulted(Fault::Parse(_))]), "{events:?}");
}

#[test]
fn hs_07_a_batch_for_a_session_of_the_first_revision_is_refused_on_its_stream() {
    let mut http_server = site_of_two_endpoints();
    let (stream, messages) = open_two_endpoint_session(&mut http_server);
    for body in [
        initialize("2024-11-05"),
        INITIALIZED.into(),
        format!("[{},{}]", request("7", "ping", "{}"), request("8", "ping", "{}")),
    ] {
        assert_eq!(http_server.answer(&TestRequest::post(body).at(&messages)).code(), 202);
    }
    let text = http_server.take(stream).text();
    assert!(
        text.contains("a batch, which this revision does not allow") && !text.contains(&result("7", "{}")),
        "{text}"
    );
}

#[test]
fn a_page_of_another_origin_neither_ends_a_session_nor_posts_to_the_older_endpoint() {
    let mut http_server = site_of_two_endpoints();
    let id = http_server.session("2025-11-25");
    let (stream, messages) = open_two_endpoint_session(&mut http_server);
    for (asked, status) in [
        (TestRequest::new("DELETE", "").in_session(&id), 204),
        (TestRequest::post(initialize("2024-11-05")).at(&messages), 202),
    ] {
        let sessions = http_server.server.sessions();
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            assert_eq!(http_server.answer(&asked.clone().with("origin", origin)).code(), 403, "{origin}");
        }
        assert_eq!(
            (http_server.server.sessions(), http_server.peek(stream).is_none()),
            (sessions, true),
            "nothing has happened"
        );
        assert_eq!(http_server.answer(&asked.with("origin", "http://localhost:3000")).code(), status);
    }
    assert_eq!(http_server.server.sessions(), 1);
    assert!(http_server.take(stream).text().contains("protocolVersion"));
}

#[test]
fn two_revisions_in_the_headers_of_one_request_of_a_session_are_refused() {
    let mut http_server = HttpServerHarness::new();
    let id = http_server.session("2025-11-25");
    for method in ["POST", "GET", "DELETE"] {
        for second in ["2025-11-25", "2025-06-18"] {
            let body = if method == "POST" { PING } else { "" };
            let asked = TestRequest::new(method, body).in_session(&id).with("mcp-protocol-version", "2025-11-25");
            assert_eq!(http_server.answer(&asked.and("mcp-protocol-version", second)).code(), 400, "{method} {second}");
        }
    }
    assert_eq!(
        http_server.answer(&TestRequest::post(PING).in_session(&id).with("mcp-protocol-version", "2025-11-25")).code(),
        200
    );
}

#[test]
fn a_failed_initialize_opens_no_session_and_names_none() {
    let mut http_server = HttpServerHarness::new();
    for params in ["{}", r#"{"protocolVersion":1}"#, r#"{"protocolVersion":"2025-11-25","a":1,"a":2}"#, "[]"] {
        let sent = http_server.answer(&TestRequest::post(request("1", "initialize", params)));
        assert_eq!(sent.code(), 400, "{params}: {}", sent.text());
        assert!(!sent.headers.contains_key("mcp-session-id"), "{params}");
        assert_eq!(http_server.server.sessions(), 0, "{params}");
    }
    http_server.session("2025-11-25");
    assert_eq!(http_server.server.sessions(), 1);
}

#[test]
fn sh_s_56_a_question_outlives_the_stream_that_carried_it() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut http_server = HttpServerHarness::new();
        let id = http_server.session(version);
        let answer = |id: &str| TestRequest::post(result(id, r#"{"action":"accept"}"#));
        // The request was sent on the stream of its call, which breaks before the answer.
        let (key, ticket) = http_server.call(&id, "1", "{}");
        let during = Scope::from(&ticket);
        let asked = http_server.server.request(during, Call::new("elicitation/create"), http_server.now).unwrap();
        assert_eq!(http_server.take(key).data().len(), 1);
        http_server.events();
        http_server.server.handle_disconnect(key, http_server.now);
        assert!(http_server.events().is_empty(), "{version}");
        assert_eq!(http_server.answer(&answer("1").in_session(&id)).code(), 202);
        let answered = |events: &[Event], asked| matches!(events, [Event::Responded { request, outcome: Outcome::Result(_) }] if *request == asked);
        let events = http_server.events();
        assert!(answered(&events, asked), "{version}: {events:?}");
        http_server.respond(ticket, "{}");

        // The client disconnects before it is asked: the request is sent on the session's own stream.
        let (key, ticket) = http_server.call(&id, "2", "{}");
        http_server.server.handle_disconnect(key, http_server.now);
        let during = Scope::from(&ticket);
        let asked = http_server.server.request(during, Call::new("elicitation/create"), http_server.now).unwrap();
        let own = http_server.begin(&TestRequest::get().in_session(&id));
        let data = http_server.take(own).data();
        assert!(data.len() == 1 && data[0].contains("elicitation/create"), "{version}: {data:?}");
        assert_eq!(http_server.answer(&answer("2").in_session(&id)).code(), 202);
        let events = http_server.events();
        assert!(answered(&events, asked), "{version}: {events:?}");
        http_server.respond(ticket, "{}");
        http_server.server.handle_disconnect(own, http_server.now);
    }
}
