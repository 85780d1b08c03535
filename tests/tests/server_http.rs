//! The server over HTTP: RULES 5 and 7, and the rows OR, SE, RP and HT of the catalogue that apply to it.

use std::time::Duration;

use mcp_proto::client::{Call, CloseReason, Outcome};
use mcp_proto::server::{
    Access, Config, Event, ExchangeKey, Http, HttpConfig, LoggingLevel, Progress, Scope, Server, TwoEndpoints,
};
use mcp_proto::{ErrorObject, Failed, Fault, Json, Notification, RequestKey, UsageError};
use mcp_testkit::asked::{Asked, Sent, initialize};
use mcp_testkit::site::Site;
use tests::admission::{self, PING, Row};

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
        let mut site = Site::new();
        let id = site.session(version);
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "SE5");
        let (key, ticket) = site.call(&id, "7", r#"{"name":"n"}"#);
        assert_eq!(site.server.request_head(&ticket).unwrap().uri.path(), "/mcp");
        assert_eq!(site.take(key).code(), 0);
        site.respond(ticket, r#"{"content":[],"n":1.0}"#);
        let sent = site.take(key);
        assert_eq!((sent.code(), sent.is_over, sent.is_stream), (200, true, false));
        assert_eq!(sent.headers["content-type"], "application/json");
        assert_eq!(sent.text(), r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"n":1.0}}"#);
        // DELETE succeeds with any 2xx, and requests with the id get 404 afterwards (SH-S-45).
        assert!(site.answer(&Asked::new("DELETE", "").in_session(&id)).code() / 100 == 2);
        for method in ["POST", "GET", "DELETE"] {
            assert_eq!(site.answer(&Asked::new(method, PING).in_session(&id)).code(), 404, "SE3");
        }
        let events = site.events();
        assert!(matches!(events.last(), Some(Event::Closed { reason: CloseReason::Peer, .. })), "{events:?}");
    }
}

#[test]
fn the_ladder_answers_each_wrong_request_as_the_table_says() {
    let mut site = Site::with(admission::configure);
    let id = site.session("2025-11-25");
    let post = || Asked::post(PING).in_session(&id);
    for Row { name, asked, status, code } in admission::rows(&id) {
        let sent = site.answer(&asked);
        assert_eq!(sent.code(), status, "{name}: {}", sent.text());
        assert!(sent.is_over && sent.text().contains(&format!("\"code\":{code}")), "{name}: {}", sent.text());
    }
    assert_eq!(site.answer(&post()).code(), 200, "the session is as it was");
    let put = site.answer(&Asked::new("PUT", PING));
    assert_eq!(put.headers["allow"], "GET, POST, DELETE");
    for accept in ["*/*", "application/*, text/*"] {
        assert_eq!(site.answer(&post().with("accept", accept)).code(), 200, "OR5");
    }
    for version in VERSIONS {
        assert_eq!(site.answer(&post().with("mcp-protocol-version", version)).code(), 200);
    }
}

#[test]
fn or6_a_message_may_be_as_long_as_the_limit() {
    let mut site = Site::with(admission::configure);
    let id = site.session("2025-11-25");
    for (length, status) in [(1000, 200), (1001, 413)] {
        let body = format!("{PING}{}", " ".repeat(length - PING.len()));
        let asked = Asked::post(body).in_session(&id).with("content-length", &length.to_string());
        assert_eq!(site.answer(&asked).code(), status, "{length}");
    }
}

#[test]
fn a_method_that_is_not_allowed_is_told_which_are() {
    for (get_stream, delete, allowed) in [
        (true, true, "GET, POST, DELETE"),
        (true, false, "GET, POST"),
        (false, true, "POST, DELETE"),
        (false, false, "POST"),
    ] {
        let mut site = Site::with(|http, _| (http.get_stream, http.delete) = (get_stream, delete));
        let id = site.session("2025-11-25");
        for (method, is_allowed) in [("PUT", false), ("GET", get_stream), ("DELETE", delete)] {
            let key = site.ask(&Asked::new(method, "").in_session(&id));
            let sent = site.take(key);
            assert_eq!(sent.code() != 405, is_allowed, "{method} of {allowed}");
            assert!(is_allowed || sent.headers["allow"] == allowed, "{method} of {allowed}");
        }
    }
}

#[test]
fn hs_01_the_older_stream_is_where_it_was_put() {
    // The stream has a path of its own or shares that of the endpoint, and its sessions count against the limit.
    let two = |stream: &str| Some(TwoEndpoints { stream: stream.into(), messages: "/messages".into() });
    let mut site = Site::with(|http, _| (http.two_endpoints, http.max_sessions) = (two("/sse"), 1));
    assert_eq!(site.answer(&Asked::post(PING).at("/sse")).headers["allow"], "GET");
    assert_eq!(site.answer(&Asked::get().at("/sse").with("accept", "application/json")).code(), 406);
    let opened = site.begin(&Asked::get().at("/sse"));
    assert!(site.take(opened).text().starts_with("event: endpoint\ndata: /messages?sessionId="));
    let full = site.answer(&Asked::get().at("/sse"));
    assert_eq!(full.code(), 503);
    site.server.handle_disconnect(opened, site.now);
    let opened = site.begin(&Asked::get().at("/sse"));
    assert_eq!(site.take(opened).code(), 200, "there is room again");
    let mut site = Site::with(|http, _| http.two_endpoints = two("/mcp"));
    let id = site.session("2025-11-25");
    let own = site.begin(&Asked::get().in_session(&id));
    assert!(!site.take(own).text().contains("endpoint"), "it is the stream of the session");
}

#[test]
fn c1_two_posts_of_one_session_with_one_id_each_get_their_own_answer() {
    let mut site = Site::new();
    let id = site.session("2025-11-25");
    let other = site.session("2025-11-25");
    let (first, first_ticket) = site.call(&id, "1", r#"{"n":1}"#);
    let (second, second_ticket) = site.call(&id, "1", r#"{"n":2}"#);
    let (third, third_ticket) = site.call(&other, "1", r#"{"n":3}"#);
    site.respond(second_ticket, r#"{"n":2}"#);
    site.respond(third_ticket, r#"{"n":3}"#);
    site.respond(first_ticket, r#"{"n":1}"#);
    for (key, n) in [(first, 1), (second, 2), (third, 3)] {
        assert_eq!(site.take(key).text(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"n":{n}}}}}"#));
    }
}

#[test]
fn sh_s_21_an_answer_becomes_a_stream_when_something_must_precede_it() {
    for (version, primes) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let mut site = Site::with(|http, _| http.retry = Some(Duration::from_secs(2)));
        let id = site.session(version);
        let (key, ticket) = site.call(&id, "1", with_progress());
        let (silent, silent_ticket) = site.call(&id, "2", "{}");
        site.server.progress(&ticket, &progress(1.0), site.now);
        site.server.progress(&silent_ticket, &progress(1.0), site.now);
        let scope = Scope::from(&ticket);
        site.server.notify(scope, Notification::new("notifications/message"), site.now).unwrap();
        site.respond(ticket, r#"{"done":true}"#);
        let sent = site.take(key);
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
        site.respond(silent_ticket, "{}");
        assert!(!site.take(silent).is_stream, "who asked for no progress gets none");
    }
}

#[test]
fn sh_s_13_what_is_asked_because_of_a_request_travels_with_it() {
    let mut site = Site::new();
    let id = site.session("2025-06-18");
    let (key, ticket) = site.call(&id, "1", "{}");
    let asked = site.server.request(Scope::from(&ticket), Call::new("elicitation/create"), site.now).unwrap();
    assert_eq!(site.take(key).data(), [r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#]);
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#;
    let stranger = site.session("2025-06-18");
    assert_eq!(site.answer(&Asked::post(answer).in_session(&stranger)).code(), 202);
    assert!(!site.events().iter().any(|event| matches!(event, Event::Responded { .. })), "another session's answer");
    assert_eq!(site.answer(&Asked::post(answer).in_session(&id)).code(), 202);
    let events = site.events();
    assert!(
        matches!(&events[..], [Event::Responded { request, outcome: Outcome::Result(_) }] if *request == asked),
        "{events:?}"
    );
    site.respond(ticket, "{}");
    assert!(site.take(key).is_over);
}

#[test]
fn what_is_asked_because_of_a_request_ends_with_it() {
    let cancelled = |events: &[Event], asked: RequestKey| {
        let of_it = |event: &&Event| matches!(event, Event::Responded { request, .. } if *request == asked);
        let told: Vec<_> = events.iter().filter(of_it).collect();
        matches!(told[..], [Event::Responded { outcome: Outcome::Failed(Failed::Cancelled), .. }])
    };
    let gives_up = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    for by_client in [true, false] {
        let mut site = Site::new();
        let id = site.session("2025-06-18");
        let (key, ticket) = site.call(&id, "1", "{}");
        let during = Scope::from(&ticket);
        let asked = site.server.request(during, Call::new("elicitation/create"), site.now).unwrap();
        if by_client {
            site.answer(&Asked::post(gives_up).in_session(&id));
        } else {
            site.respond(ticket, "{}");
        }
        assert!(cancelled(&site.events(), asked), "by the client: {by_client}");
        let sent = site.take(key);
        assert_eq!(sent.data().get(1).map(String::as_str), Some(gives_up), "on the stream of the request");
        assert!(sent.is_over);
        // What the handler sends after that reaches no one.
        let late = site.server.request(during, Call::new("elicitation/create"), site.now).unwrap();
        assert!(cancelled(&site.events(), late));
        site.server.notify(during, Notification::new("late"), site.now).unwrap();
        let own = site.begin(&Asked::new("GET", "").in_session(&id));
        assert_eq!(site.take(own).data(), [""; 0], "nor on the session's own stream");
    }
}

#[test]
fn the_sessions_own_stream_carries_what_belongs_to_no_request() {
    let mut site = Site::new();
    let id = site.session("2025-11-25");
    let session = site.last_session();
    // A notification that is sent before the client opens the stream is not lost.
    site.server.notify(session, Notification::new("early"), site.now).unwrap();
    let key = site.begin(&Asked::new("GET", "").in_session(&id));
    site.server.notify(session, Notification::new("later"), site.now).unwrap();
    let sent = site.take(key);
    assert!(sent.is_stream && !sent.is_over);
    assert_eq!(sent.data(), [r#"{"jsonrpc":"2.0","method":"early"}"#, r#"{"jsonrpc":"2.0","method":"later"}"#]);
    // A second GET stream of a session gets 409 (SE7, row 32).
    assert_eq!(site.answer(&Asked::new("GET", "").in_session(&id)).code(), 409);
    site.server.handle_disconnect(key, site.now);
    site.server.notify(session, Notification::new("unheard"), site.now).unwrap();
    let key = site.begin(&Asked::new("GET", "").in_session(&id));
    assert_eq!(site.take(key).data(), [r#"{"jsonrpc":"2.0","method":"unheard"}"#]);
    // Comments keep a silent stream alive.
    site.pass(Duration::from_secs(31));
    assert_eq!(site.take(key).text(), ":\n\n:\n\n");
    site.server.end(session, site.now);
    assert!(site.take(key).is_over);
    let site_without = &mut Site::with(|http, _| http.get_stream = false);
    let id = site_without.session("2025-11-25");
    assert_eq!(site_without.answer(&Asked::new("GET", "").in_session(&id)).code(), 405, "row 30");
}

#[test]
fn sh_s_52_a_broken_stream_is_gone_on_with_where_it_broke() {
    let mut site = Site::new();
    let id = site.session("2025-11-25");
    let (key, ticket) = site.call(&id, "1", with_progress());
    let (_, other) = site.call(&id, "2", with_progress());
    for step in [1.0, 2.0] {
        site.server.progress(&ticket, &progress(step), site.now);
        site.server.progress(&other, &progress(step * 10.0), site.now);
    }
    let ids = site.take(key).ids();
    site.server.handle_disconnect(key, site.now);
    assert!(!site.events().iter().any(|event| matches!(event, Event::Cancelled { .. })), "SH-S-16");
    site.server.progress(&ticket, &progress(3.0), site.now);
    // The client resumes after the first of two events, and a third was sent while it was disconnected.
    let resumed = site.begin(&Asked::new("GET", "").in_session(&id).with("last-event-id", &ids[1]));
    let data = site.take(resumed).data();
    assert_eq!(data.len(), 2, "{data:?}");
    assert!(data[0].contains("2.0") && data[1].contains("3.0"), "nothing of another stream: {data:?}");
    site.server.handle_disconnect(resumed, site.now);
    site.respond(ticket, r#"{"late":true}"#);
    let resumed = site.begin(&Asked::new("GET", "").in_session(&id).with("last-event-id", &ids[2]));
    let sent = site.take(resumed);
    assert!(sent.is_over && sent.data().last().unwrap().contains("late"), "SH-S-57");
    // An event id of one session is invalid in another (SE8, SE13).
    let stranger = site.session("2025-11-25");
    assert_eq!(site.answer(&Asked::new("GET", "").in_session(&stranger).with("last-event-id", &ids[0])).code(), 400);
    // The events are kept for a limited time.
    site.pass(Duration::from_secs(121));
    assert_eq!(site.answer(&Asked::new("GET", "").in_session(&id).with("last-event-id", &ids[2])).code(), 400);
}

#[test]
fn sh_s_55_a_client_may_be_sent_away_and_come_back_for_its_answer() {
    for (version, goes) in [("2025-06-18", false), ("2025-11-25", true)] {
        let mut site = Site::with(|http, _| http.retry = Some(Duration::from_millis(500)));
        let id = site.session(version);
        let (key, ticket) = site.call(&id, "1", "{}");
        site.server.release(&ticket, site.now);
        let sent = site.take(key);
        assert_eq!((sent.is_over, sent.text().starts_with("retry: 500\n\nid: ")), (goes, goes), "{version}");
        site.respond(ticket, r#"{"late":true}"#);
        if goes {
            let back = site.begin(&Asked::new("GET", "").in_session(&id).with("last-event-id", &sent.ids()[0]));
            let sent = site.take(back);
            assert!(sent.is_over && sent.data() == [r#"{"jsonrpc":"2.0","id":1,"result":{"late":true}}"#]);
        } else {
            assert_eq!(site.take(key).code(), 200);
        }
    }
}

#[test]
fn se9_what_is_kept_for_replay_is_bounded() {
    let mut site = Site::with(|http, _| http.replay = 1000);
    let id = site.session("2025-11-25");
    let (key, ticket) = site.call(&id, "1", with_progress());
    for step in 1..100 {
        site.server.progress(&ticket, &progress(f64::from(step)), site.now);
    }
    let ids = site.take(key).ids();
    site.server.handle_disconnect(key, site.now);
    let resume = |id: &str, after: &str| Asked::new("GET", "").in_session(id).with("last-event-id", after);
    assert_eq!(site.answer(&resume(&id, &ids[0])).code(), 400, "what is gone is not passed over in silence");
    let resumed = site.begin(&resume(&id, ids.last().unwrap()));
    assert_eq!(site.take(resumed).code(), 200);
    // Without room for replay, events have no ids, and a stream cannot be resumed.
    let mut site = Site::with(|http, _| http.replay = 0);
    let id = site.session("2025-11-25");
    let (key, ticket) = site.call(&id, "1", with_progress());
    site.server.progress(&ticket, &progress(1.0), site.now);
    assert!(site.take(key).ids().is_empty());
}

/// A number of bytes that none of these sessions fills.
const PLENTY: usize = 1 << 20;

/// The size of each event that was sent.
fn sizes(sent: &Sent) -> Vec<usize> {
    sent.text().split_inclusive("\n\n").map(str::len).collect()
}

/// A site that keeps this many bytes of events for replay, and the id of a session.
fn remembering(replay: usize) -> (Site, String) {
    let mut site = Site::with(|http, _| http.replay = replay);
    let id = site.session("2025-11-25");
    (site, id)
}

/// What was sent on an exchange; its client disconnects.
fn leave(site: &mut Site, key: ExchangeKey) -> Sent {
    let sent = site.take(key);
    site.server.handle_disconnect(key, site.now);
    sent
}

/// Whether a client can resume after this event.
fn resumes(site: &mut Site, session: &str, after: &str) -> bool {
    let key = site.begin(&Asked::get().in_session(session).with("last-event-id", after));
    leave(site, key).code() == 200
}

#[test]
fn se9_answered_requests_are_forgotten_first_and_no_more_of_them_than_need_be() {
    // Progress of a call before and after another call is answered.
    let play = |replay: usize| {
        let (mut site, id) = remembering(replay);
        let [(running, ticket), (answered, other)] = ["1", "2"].map(|call| site.call(&id, call, with_progress()));
        site.server.progress(&ticket, &progress(1.0), site.now);
        site.server.progress(&other, &progress(1.0), site.now);
        site.respond(other, "{}");
        site.server.progress(&ticket, &progress(2.0), site.now);
        let [running, answered] = [running, answered].map(|key| leave(&mut site, key));
        (site, id, running, answered)
    };
    // The first event of each stream is the priming event, which is not kept.
    let (_, _, running, answered) = play(PLENTY);
    let total = [running, answered].iter().flat_map(|sent| sizes(sent).split_off(1)).sum::<usize>();
    let (mut site, id, running, answered) = play(total);
    assert!(resumes(&mut site, &id, &running.ids()[0]) && resumes(&mut site, &id, &answered.ids()[0]));
    let (mut site, id, running, answered) = play(total - 1);
    assert!(resumes(&mut site, &id, &running.ids()[0]), "it is not answered yet");
    assert!(!resumes(&mut site, &id, &answered.ids()[0]) && resumes(&mut site, &id, &answered.ids()[1]));
}

#[test]
fn se9_what_the_session_tells_is_forgotten_before_what_its_requests_wait_for() {
    // Two notifications that belong to no request, and two progress notifications of a call.
    let play = |replay: usize| {
        let (mut site, id) = remembering(replay);
        let session = site.last_session();
        let own = site.begin(&Asked::get().in_session(&id));
        for _ in 0..2 {
            site.server.notify(session, Notification::new("a"), site.now).unwrap();
        }
        let (running, ticket) = site.call(&id, "1", with_progress());
        for step in [1.0, 2.0] {
            site.server.progress(&ticket, &progress(step), site.now);
        }
        let [own, running] = [own, running].map(|key| leave(&mut site, key));
        (site, id, own, running)
    };
    let (_, _, own, running) = play(PLENTY);
    let (told, step) = (*sizes(&own).last().unwrap(), *sizes(&running).last().unwrap());
    // It is enough to forget one of the notifications; with one byte less, both are forgotten.
    for (replay, second) in [(2 * step + told, true), (2 * step + told - 1, false)] {
        let (mut site, id, own, running) = play(replay);
        let [.., first, last] = &own.ids()[..] else { panic!("{own:?}") };
        assert!(resumes(&mut site, &id, last));
        assert_eq!(resumes(&mut site, &id, first), second);
        assert!(resumes(&mut site, &id, &running.ids()[0]));
    }
}

#[test]
fn se9_as_many_of_the_newest_events_are_kept_as_there_is_room_for() {
    let play = |site: &mut Site, id: &str, steps: u8| {
        let (key, ticket) = site.call(id, "1", with_progress());
        for step in 1..=steps {
            site.server.progress(&ticket, &progress(f64::from(step)), site.now);
        }
        (leave(site, key), ticket)
    };
    let (mut site, id) = remembering(PLENTY);
    let step = *sizes(&play(&mut site, &id, 1).0).last().unwrap();
    let (mut site, id) = remembering(2 * step);
    let ids = play(&mut site, &id, 4).0.ids();
    assert_eq!(
        ids.iter().map(|after| resumes(&mut site, &id, after)).collect::<Vec<_>>(),
        [false, false, true, true, true]
    );
    // Events that are forgotten for their age make room as well.
    let (mut site, id) = remembering(2 * step);
    let (_, ticket) = play(&mut site, &id, 1);
    site.respond(ticket, "{}");
    site.pass(Duration::from_secs(121));
    let ids = play(&mut site, &id, 2).0.ids();
    assert!(resumes(&mut site, &id, &ids[0]));
}

#[test]
fn cx_03_a_cancelled_call_is_not_answered_and_its_exchange_ends() {
    let mut site = Site::new();
    let id = site.session("2025-06-18");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let (quiet, quiet_ticket) = site.call(&id, "1", "{}");
    let (loud, loud_ticket) = site.call(&id, "1", with_progress());
    site.server.progress(&loud_ticket, &progress(1.0), site.now);
    let other = site.session("2025-06-18");
    let (foreign, foreign_ticket) = site.call(&other, "1", "{}");
    assert_eq!(site.answer(&Asked::post(cancel).in_session(&id)).code(), 202);
    let cancelled = site.events().iter().filter(|event| matches!(event, Event::Cancelled { .. })).count();
    assert_eq!(cancelled, 2, "RP4: both, since nobody knows which is meant; and none of another session");
    let (quiet, loud) = (site.take(quiet), site.take(loud));
    assert_eq!((quiet.code(), quiet.text().as_str()), (202, ""));
    assert!(loud.is_over && loud.data().len() == 1);
    site.respond(quiet_ticket, "{}");
    site.respond(loud_ticket, "{}");
    site.respond(foreign_ticket, "{}");
    assert_eq!(site.take(foreign).code(), 200);
}

#[test]
fn jr_35_a_batch_of_2025_03_26_is_answered_with_one_array() {
    let mut site = Site::new();
    let id = site.session("2025-03-26");
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},7,{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let key = site.ask(&Asked::post(batch).in_session(&id));
    let ticket = site.ticket();
    assert_eq!(site.take(key).code(), 0);
    site.respond(ticket, r#"{"a":1}"#);
    let sent = site.take(key);
    assert_eq!(sent.code(), 200);
    let answers: Vec<serde_json::Value> = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(answers.len(), 3, "{}", sent.text());
    let silent = r#"[{"jsonrpc":"2.0","method":"n"}]"#;
    assert_eq!(site.answer(&Asked::post(silent).in_session(&id)).code(), 202, "SH-S-07");
    assert_eq!(site.answer(&Asked::post("[]").in_session(&id)).code(), 400);
}

#[test]
fn hs_01_the_two_endpoints_of_2024_11_05_are_served_beside_the_new_one() {
    let mut site = Site::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let stream = site.begin(&Asked::new("GET", "").at("/sse"));
    let sent = site.take(stream);
    assert!(sent.text().starts_with("event: endpoint\ndata: /messages?sessionId="), "HS-02: {}", sent.text());
    let place = sent.data().remove(0);
    let say = |site: &mut Site, body: &str| site.answer(&Asked::post(body.to_owned()).at(&place)).code();
    assert_eq!(say(&mut site, &initialize("2024-11-05")), 202);
    let answers = site.take(stream).data();
    assert!(answers.len() == 1 && answers[0].contains(r#""protocolVersion":"2024-11-05""#), "HS-04: {answers:?}");
    assert_eq!(say(&mut site, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), 202);
    assert_eq!(say(&mut site, r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#), 202);
    let ticket = site.ticket();
    site.respond(ticket, r#"{"x":1}"#);
    let sent = site.take(stream);
    assert_eq!(sent.data(), [r#"{"jsonrpc":"2.0","id":"a","result":{"x":1}}"#]);
    assert!(sent.ids().is_empty(), "HS-10: nothing to resume");
    assert_eq!(say(&mut site, "{"), 400);
    site.session("2025-11-25");
    // The end of the stream ends the session (HS-10).
    site.server.handle_disconnect(stream, site.now);
    assert_eq!(say(&mut site, PING), 404);
    let gone = site.events().iter().filter(|event| matches!(event, Event::Closed { .. })).count();
    assert_eq!((gone, site.server.sessions()), (1, 1));
}

#[test]
fn se4_a_session_belongs_to_the_principal_that_opened_it() {
    let mut site = Site::new();
    let id = site.session_of("2025-11-25", Some("alice"));
    let own = site.answer(&Asked::post(PING).in_session(&id).by("alice"));
    assert_eq!(own.code(), 200);
    let unknown = site.answer(&Asked::post(PING).in_session("unknown").by("bob"));
    for method in ["POST", "GET", "DELETE"] {
        for asked in [Asked::new(method, PING).in_session(&id).by("bob"), Asked::new(method, PING).in_session(&id)] {
            let sent = site.answer(&asked);
            assert_eq!((sent.code(), sent.text()), (404, unknown.text()), "as if it were not there");
        }
    }
    assert_eq!(site.answer(&Asked::post(PING).in_session(&id).by("alice")).code(), 200);
}

#[test]
fn cl4_with_nothing_random_no_two_sessions_are_one() {
    let mut site = Site::new();
    site.is_constant = true;
    let first = site.answer(&Asked::post(initialize("2025-11-25")));
    let second = site.answer(&Asked::post(initialize("2025-11-25")));
    assert_eq!((first.code(), second.code() / 100), (200, 5), "{}", second.text());
    assert!(!second.headers.contains_key("mcp-session-id"));
    assert_eq!(site.server.sessions(), 1);
}

#[test]
fn se10_a_session_whose_client_never_heard_of_it_expires_by_itself() {
    let mut site = Site::new();
    let key = site.ask(&Asked::post(initialize("2025-11-25")));
    site.server.handle_disconnect(key, site.now);
    // The client opens another session.
    let id = site.session("2025-11-25");
    assert_eq!(site.server.sessions(), 2);
    for _ in 0..3 {
        site.pass(Duration::from_secs(20 * 60));
        assert_eq!(site.answer(&Asked::post(PING).in_session(&id)).code(), 200);
    }
    assert_eq!(site.server.sessions(), 1);
}

#[test]
fn se13_events_of_a_session_are_for_its_principal_alone() {
    let mut site = Site::new();
    let id = site.session_of("2025-11-25", Some("alice"));
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#, with_progress());
    let key = site.ask(&Asked::post(call).in_session(&id).by("alice"));
    let ticket = site.ticket();
    site.server.progress(&ticket, &progress(1.0), site.now);
    site.server.handle_disconnect(key, site.now);
    let begun = site.take(key).ids();
    site.respond(ticket, r#"{"secret":1}"#);
    let other = site.session_of("2025-11-25", Some("mallory"));
    for asked in [
        Asked::get().in_session(&id).with("last-event-id", &begun[0]).by("mallory"),
        Asked::get().in_session(&other).with("last-event-id", &begun[0]).by("mallory"),
        Asked::get().in_session(&id).with("last-event-id", &begun[0]),
    ] {
        let sent = site.answer(&asked);
        assert!(sent.code() / 100 == 4 && !sent.text().contains("secret"), "{}", sent.text());
    }
    let resumed = site.answer(&Asked::get().in_session(&id).with("last-event-id", &begun[0]).by("alice"));
    assert!(resumed.text().contains("secret"), "{}", resumed.text());
}

#[test]
fn se1_before_initialize_is_answered_only_a_ping_is() {
    let mut site = Site::new();
    let opened = site.answer(&Asked::post(initialize("2025-11-25")));
    let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let session = site.last_session();
    assert_eq!(site.answer(&Asked::post(PING).in_session(&id)).code(), 200);
    // The server sends the client no request before the handshake is confirmed (LC-10).
    assert_eq!(site.server.request(session, Call::new("roots/list"), site.now), Err(UsageError::NotConnected));
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
    ] {
        let sent = site.answer(&Asked::post(body));
        assert_eq!(sent.code(), 400, "{}", sent.text());
        assert!(!sent.headers.contains_key("mcp-session-id"));
    }
    assert_eq!(site.server.sessions(), 1, "what did not come about is none");
    // A session id that the client proposes is not accepted (SE5).
    assert_eq!(site.answer(&Asked::post(initialize("2025-11-25")).in_session("mine")).code(), 404);
}

#[test]
fn se6_sessions_are_bounded_and_expire() {
    let mut site = Site::with(|http, _| http.max_sessions = 3);
    let ids: Vec<_> = (0..3).map(|_| site.session("2025-11-25")).collect();
    let refused = site.answer(&Asked::post(initialize("2025-11-25")));
    assert_eq!(refused.code(), 503);
    assert!(refused.headers.contains_key("retry-after"));
    // One session is used, one has a stream, and one is unused and expires.
    let stream = site.begin(&Asked::new("GET", "").in_session(&ids[1]));
    site.pass(Duration::from_secs(29 * 60));
    assert_eq!(site.answer(&Asked::post(PING).in_session(&ids[0])).code(), 200);
    site.pass(Duration::from_secs(2 * 60));
    assert_eq!(site.server.sessions(), 2);
    site.pass(Duration::from_secs(30 * 60));
    assert_eq!(site.server.sessions(), 1);
    site.server.handle_disconnect(stream, site.now);
    site.pass(Duration::from_secs(61 * 60));
    assert_eq!(site.server.sessions(), 0);
    let expired = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Expired, .. });
    assert_eq!(site.events().iter().filter(|event| expired(event)).count(), 3);
    assert_eq!(site.server.poll_timeout(), None, "nothing is left behind");
    assert_eq!(site.answer(&Asked::post(PING).in_session(&ids[0])).code(), 404);
}

#[test]
fn defect_b21_a_request_that_a_router_matched_is_served_at_any_path() {
    let ask = |target: &str, is_routed| {
        let mut site = Site::with(|http, _| {
            http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        });
        site.is_routed = is_routed;
        site.answer(&Asked::post(initialize("2025-11-25")).at(target)).code()
    };
    for (target, routed, other) in [("/mcp", 200, 200), ("/", 200, 404), ("/tools/mcp", 200, 404), ("/sse", 405, 405)] {
        assert_eq!((ask(target, true), ask(target, false)), (routed, other), "{target}");
    }
}

#[test]
fn or6_a_half_sent_request_ends_by_its_deadline() {
    let mut site = Site::new();
    let key = site.begin(&Asked::post(""));
    site.server.handle_body(key, b"{\"jsonrpc\":", site.now);
    site.pass(Duration::from_secs(31));
    assert_eq!(site.take(key).code(), 408);
    // Late bytes are a race, and have no effect.
    site.server.handle_body(key, b"\"2.0\"}", site.now);
    site.server.handle_end(key, site.now);
    site.server.handle_disconnect(key, site.now);
    assert_eq!(site.take(key).code(), 0);
}

#[test]
fn closing_answers_everybody() {
    let mut site = Site::new();
    let id = site.session("2025-06-18");
    let session = site.last_session();
    let (key, ticket) = site.call(&id, "1", "{}");
    let (streamed, streamed_ticket) = site.call(&id, "2", with_progress());
    site.server.progress(&streamed_ticket, &progress(1.0), site.now);
    let own = site.begin(&Asked::new("GET", "").in_session(&id));
    let asked = site.server.request(session, Call::new("roots/list"), site.now).unwrap();
    let half = site.begin(&Asked::post("").in_session(&id));
    site.server.close(site.now);
    let (sent, streamed, own) = (site.take(key), site.take(streamed), site.take(own));
    assert!(sent.is_over && sent.text().contains("the connection was closed"), "{}", sent.text());
    assert!(streamed.is_over && streamed.data().last().unwrap().contains("the connection was closed"));
    assert!(own.is_over);
    let events = site.events();
    assert!(events.contains(&Event::Responded { request: asked, outcome: Outcome::Failed(Failed::Closed) }));
    site.server.handle_body(half, PING.as_bytes(), site.now);
    site.server.handle_end(half, site.now);
    assert_eq!(site.take(half).code(), 404);
    assert_eq!(site.answer(&Asked::post(initialize("2025-11-25"))).code(), 503);
    site.respond(ticket, "{}");
    assert!(site.events().is_empty());
}

#[test]
fn rp15_errors_of_handlers_are_answers_like_any_other() {
    let mut site = Site::new();
    let id = site.session("2025-11-25");
    let (key, ticket) = site.call(&id, "1", "{}");
    let error = ErrorObject::with_data(-32602, "no such tool", &Json::parse(r#"{"n":1.0}"#).unwrap());
    site.server.respond(ticket, Err(error), site.now).unwrap();
    let sent = site.take(key);
    assert_eq!(sent.code(), 200, "row 28");
    assert!(sent.text().contains(r#""code":-32602,"message":"no such tool","data":{"n":1.0}"#), "{}", sent.text());
    // A malformed response fails the request that it answers, and is refused (RP5).
    let session = site.last_session();
    let asked = site.server.request(session, Call::new("roots/list"), site.now).unwrap();
    let broken = r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#;
    assert_eq!(site.answer(&Asked::post(broken).in_session(&id)).code(), 400);
    let failed =
        |event: &Event| matches!(event, Event::Responded { request, outcome: Outcome::Failed(_) } if *request == asked);
    assert!(site.events().iter().any(failed));
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
        let mut site = Site::with(|http, _| http.access = access);
        let asked = Asked::post(initialize("2025-11-25")).with("host", host).with("origin", origin);
        assert_eq!(site.answer(&asked).code(), status, "{host} {origin}");
    }
}

#[test]
fn no_session_is_opened_once_the_server_is_closed() {
    let mut site = Site::new();
    let half = site.begin(&Asked::post(""));
    site.server.handle_body(half, initialize("2025-11-25").as_bytes(), site.now);
    site.server.close(site.now);
    site.server.handle_end(half, site.now);
    assert_eq!(site.take(half).code(), 503);
    assert_eq!((site.server.sessions(), site.server.poll_timeout()), (0, None));
}

#[test]
fn sh_s_48_a_session_is_used_at_the_endpoint_that_it_was_opened_at() {
    let mut site = Site::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let id = site.session("2025-11-25");
    let own = site.begin(&Asked::new("GET", "").in_session(&id));
    assert_eq!(site.answer(&Asked::post(PING).at(&format!("/messages?sessionId={id}"))).code(), 404);
    assert_eq!(site.take(own).data(), [""; 0], "no answer on a stream of another kind");
    let old = site.begin(&Asked::new("GET", "").at("/sse"));
    let place = site.take(old).data().remove(0);
    let id = place.split_once('=').unwrap().1;
    // If the session took this `initialize`, it would be dropped as invalid while its stream stays open.
    let refused = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    assert_eq!(site.answer(&Asked::post(refused).in_session(id)).code(), 404);
    site.server.close(site.now);
    assert!(site.take(old).is_over);
}

#[test]
fn se6_a_session_in_which_things_are_told_is_not_idle() {
    let mut site = Site::new();
    let id = site.session("2025-11-25");
    for _ in 0..5 {
        site.pass(Duration::from_secs(20 * 60));
        let told = Asked::post(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).in_session(&id);
        assert_eq!(site.answer(&told).code(), 202);
    }
}

#[test]
fn se9_streams_of_which_nothing_is_kept_are_forgotten() {
    let mut site = Site::with(|http, _| http.replay = 1000);
    let id = site.session("2025-11-25");
    let mut sizes = Vec::new();
    for round in 0..1000 {
        let (key, ticket) = site.call(&id, "1", with_progress());
        site.server.progress(&ticket, &progress(1.0), site.now);
        site.respond(ticket, "{}");
        assert!(site.take(key).is_over);
        if round % 100 == 99 {
            sizes.push(format!("{:?}", site.server).len());
        }
    }
    assert!(sizes.iter().all(|size| *size < sizes[0] * 2), "neither memory nor the time of a call may grow: {sizes:?}");
}

#[test]
fn sh_s_55_a_client_that_came_back_may_be_sent_away_again() {
    let mut site = Site::new();
    let id = site.session("2025-11-25");
    let (key, ticket) = site.call(&id, "1", "{}");
    site.server.release(&ticket, site.now);
    let cursor = site.take(key).ids().remove(0);
    for _ in 0..2 {
        let back = site.begin(&Asked::new("GET", "").in_session(&id).with("last-event-id", &cursor));
        site.server.release(&ticket, site.now);
        assert!(site.take(back).is_over);
    }
    site.respond(ticket, "{}");
    let sent = site.answer(&Asked::new("GET", "").in_session(&id).with("last-event-id", &cursor));
    assert!(sent.is_over && sent.data().len() == 1);
}

#[test]
fn cl5_a_pause_of_no_time_between_comments_is_refused() {
    let mut http = HttpConfig::new();
    http.keep_alive = Duration::ZERO;
    assert!(Server::new(Http::new(http), Config::new("s", "1")).is_err(), "or handling a timeout would never end");
}

#[test]
fn lc_20_a_client_chooses_its_log_messages() {
    let mut site = Site::with(|_, config| config.capabilities = Json::parse(r#"{"logging":{}}"#).unwrap());
    let id = site.session("2025-06-18");
    let session = site.last_session();
    let own = site.begin(&Asked::new("GET", "").in_session(&id));
    let said = |site: &mut Site| {
        for level in LoggingLevel::ALL {
            site.server.log(session, level, Some("disk"), &Json::from("full"), site.now).unwrap();
        }
        site.take(own).data()
    };
    assert_eq!(said(&mut site).len(), 8, "until it has chosen, it gets everything");
    let choose = |level: &str| {
        Asked::post(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{{"level":{level}}}}}"#))
            .in_session(&id)
    };
    let chosen = site.answer(&choose("\"alert\""));
    assert_eq!((chosen.code(), chosen.text().as_str()), (200, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","logger":"disk","data":"full"}}"#;
    assert_eq!(said(&mut site), [message, &message.replace("alert", "emergency")]);
    for level in ["\"ALERT\"", "3", "null"] {
        let refused = site.answer(&choose(level));
        assert_eq!(refused.code(), 200);
        assert!(refused.text().contains("-32602"), "{}", refused.text());
    }
    assert_eq!(said(&mut site).len(), 2, "a wrong level changes nothing");
    assert!(site.events().iter().all(|event| !matches!(event, Event::Requested { .. })), "the machine answers");
    // Without the capability, the request goes to the application, and nothing can be logged.
    let mut site = Site::new();
    let id = site.session("2025-06-18");
    let session = site.last_session();
    let refused = site.server.log(session, LoggingLevel::Info, None, &Json::from(""), site.now);
    assert_eq!(refused, Err(UsageError::NotDeclared { capability: "logging" }));
    site.ask(&choose("\"alert\"").in_session(&id));
    assert!(site.events().iter().any(|event| matches!(event, Event::Requested { .. })));
}

#[test]
fn se6_what_a_session_remembers_of_its_client_is_bounded() {
    let text = |size: usize| format!(r#"{{"x":"{}"}}"#, "x".repeat(size));
    let opening = |capabilities: &str, info: &str| {
        let said = format!(r#""capabilities":{capabilities},"clientInfo":{info}"#);
        initialize("2025-11-25").replace(r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}"#, &said)
    };
    let mut site = Site::new();
    let refused = site.answer(&Asked::post(opening(&text(20_000), "{}")));
    assert!(refused.text().contains("-32602"), "{}", refused.text());
    assert_eq!(site.server.sessions(), 0);
    for (info, remembered) in [(text(10), true), (text(20_000), false)] {
        let opened = site.answer(&Asked::post(opening(&text(10_000), &info)));
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        site.answer(&Asked::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).in_session(&id));
        let (_, ticket) = site.call(&id, "1", r#"{"name":"t"}"#);
        let context = site.server.context(&ticket).expect("an open request");
        assert_eq!(context.client_capabilities.to_text(), text(10_000));
        assert_eq!(context.client_info.map(|info| info.to_text().into_owned()), remembered.then_some(info));
        site.respond(ticket, "{}");
    }
}

#[test]
fn se6_what_a_session_subscribes_to_is_bounded() {
    let mut site = Site::with(|_, config| {
        config.capabilities = Json::parse(r#"{"resources":{"subscribe":true}}"#).unwrap();
    });
    let id = site.session("2025-11-25");
    for uri in
        ["a:1".to_owned(), format!("a:{}", "x".repeat(32 * 1024 - 10)), "a:2".to_owned(), "a:too much".to_owned()]
    {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#);
        let sent = site.answer(&Asked::post(body).in_session(&id));
        assert_eq!((sent.code(), sent.text().contains("-32603")), (200, uri == "a:too much"));
    }
    let stream = site.ask(&Asked::get().in_session(&id));
    for uri in ["a:1", "a:2", "a:too much"] {
        let params = Json::parse(format!(r#"{{"uri":"{uri}"}}"#)).unwrap();
        site.server.publish(Notification::with_params("notifications/resources/updated", params), site.now).unwrap();
    }
    assert_eq!(site.take(stream).data().len(), 2);
}

#[test]
fn defect_b12_rp10_requests_of_all_clients_have_one_limit() {
    let mut site = Site::with(|_, config| {
        config.capabilities = Json::parse(r#"{"tools":{}}"#).unwrap();
        (config.limits.requests_in, config.limits.requests_in_total) = (3, 4);
    });
    let [first, second] = [site.session("2025-03-26"), site.session("2025-11-25")];
    let refused = |sent: &Sent| {
        assert!(sent.text().contains(r#""id":1,"error":{"code":-32603,"message":"too much is"#), "{}", sent.text());
        assert_eq!((sent.code(), sent.headers["retry-after"].as_bytes()), (503, &b"5"[..]));
    };
    let call = |id: &str| Asked::post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).in_session(id);
    let limits = |site: &mut Site| {
        let limit =
            |event| if let Event::Faulted(Fault::TooManyRequests { limit }) = event { Some(limit) } else { None };
        site.events().into_iter().filter_map(limit).collect::<Vec<_>>()
    };
    // Three requests of one session, and one of another client.
    let batch = Asked::post(r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#);
    let open = [site.ask(&batch.in_session(&first)), site.ask(&call(&first))];
    refused(&site.answer(&call(&first)));
    let (_, ticket) = site.call(&second, "1", "{}");
    refused(&site.answer(&call(&second)));
    refused(&site.answer(&Asked::stateless_call("1", "a", "")));
    assert_eq!(site.server.requests_in_flight(), 4);
    assert_eq!(limits(&mut site), [3, 4, 4]);
    // What the machine answers itself needs no room.
    for (session, asked) in [(Some(&first), PING.to_owned()), (None, initialize("2025-11-25"))] {
        let asked = session.iter().fold(Asked::post(asked), |asked, id| asked.in_session(id));
        assert_eq!(site.answer(&asked).code(), 200);
    }
    assert_eq!(site.answer(&Asked::stateless("1", "server/discover", "")).code(), 200);
    // The end of a request makes room for another, whether it is answered, cancelled, abandoned or ends with its
    // session.
    site.respond(ticket, "{}");
    let alone = site.ask(&Asked::stateless_call("1", "a", ""));
    refused(&site.answer(&call(&second)));
    site.server.handle_disconnect(alone, site.now);
    let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(site.answer(&Asked::post(taken_back).in_session(&first)).code(), 202);
    assert_eq!(site.server.requests_in_flight(), 2);
    for _ in 0..2 {
        site.ask(&call(&second));
    }
    refused(&site.answer(&call(&second)));
    assert!(site.answer(&Asked::new("DELETE", "").in_session(&first)).code() / 100 == 2);
    assert!(open.into_iter().all(|key| site.take(key).is_over));
    assert_eq!(site.server.requests_in_flight(), 2);
    site.ask(&call(&second));
    site.server.close(site.now);
    assert_eq!(site.server.requests_in_flight(), 0);
}
