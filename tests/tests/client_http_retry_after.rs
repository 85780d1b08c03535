//! A client whose server is busy: 429 and 503 with `Retry-After` are waited for, within the timeout of the request.

use std::time::Duration;

use mcp_intermediary::relay;
use mcp_proto::client::{Call, Client, Event, Http, Outcome, Unavailable};
use mcp_proto::{Failed, Fault, Json, Notification, RequestKey};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, initialize_reply};
use mcp_testkit::messages::{error, result};

type HttpClient = HttpClientHarness<Client<Http>>;

const SECOND: Duration = Duration::from_secs(1);
const CONTENT: &str = r#"{"content":[]}"#;

fn busy(status: u16, after: &str) -> Reply {
    Reply::status(status).header("retry-after", after)
}

/// The request and the pause of each time that a request was postponed.
fn postponed(events: &[Event]) -> Vec<(Option<RequestKey>, Duration)> {
    let read = |event: &Event| match event {
        Event::Postponed { request, retry_in, .. } => Some((*request, *retry_in)),
        _ => None,
    };
    events.iter().filter_map(read).collect()
}

/// Lets the time pass that the server asked for: nothing may be sent before. Returns what is sent then.
fn sent_after(harness: &mut HttpClient, asked: Duration) -> Opened {
    harness.pass(asked.saturating_sub(Duration::from_millis(1)));
    assert!(!harness.has_opened(), "it was sent too early");
    // A tenth is added at random, so that clients do not come back at the same time.
    harness.pass(asked / 10 + Duration::from_millis(1));
    harness.opened()
}

fn refused(outcome: &Outcome) -> Option<(u16, Option<Duration>)> {
    let Outcome::Failed(Failed::Refused(refusal)) = outcome else { return None };
    Some((refusal.status.as_u16(), refusal.retry_after))
}

#[test]
fn a_busy_server_gets_the_request_again_when_it_asked_for_it() {
    for status in [429, 503] {
        for reply in [
            busy(status, "7"),
            busy(status, "7").body("please wait").content_type("text/plain"),
            busy(status, "Sun, 06 Nov 1994 08:49:44 GMT").header("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            let mut harness = HttpClientHarness::connected_client();
            let (key, first) = harness.call("tools/call", r#"{"name":"a","arguments":{}}"#);
            harness.reply(first.key, &reply);
            let events = harness.events();
            let [(Some(request), pause)] = postponed(&events)[..] else { panic!("{status}: {events:?}") };
            assert_eq!((request, events.len()), (key, 1));
            assert!(pause > 7 * SECOND && pause <= 7 * SECOND + SECOND, "{pause:?}");
            let second = sent_after(&mut harness, 7 * SECOND);
            assert_eq!((second.body(), second.line()), (first.body(), first.line()));
            harness.reply(second.key, &Reply::json(result(&second.id(), CONTENT)));
            assert!(matches!(harness.outcome(), Outcome::Result(_)));
            harness.pass(1000 * SECOND);
            assert!(!harness.has_opened());
        }
        // An error of JSON-RPC in the body does not matter: the server has not handled the request.
        let mut harness = HttpClientHarness::connected_client();
        let (_, first) = harness.request("tools/list");
        let reply = Reply::json(error(&first.id(), -32000, "busy")).with_status(status).header("retry-after", "2");
        harness.reply(first.key, &reply);
        assert_eq!(postponed(&harness.events()).len(), 1);
        let second = sent_after(&mut harness, 2 * SECOND);
        harness.reply(second.key, &Reply::json(result(&second.id(), r#"{"tools":[]}"#)));
        assert!(matches!(harness.outcome(), Outcome::Result(_)));
    }
}

#[test]
fn a_refusal_is_the_outcome_at_once_if_it_names_no_time_another_status_or_a_time_after_the_timeout() {
    for (status, after, waited) in [
        (429, None, None),
        (503, None, None),
        (429, Some("soon"), None),
        (429, Some("60"), Some(60)),
        (503, Some("59"), Some(59)),
        (429, Some("99999999999999999999"), Some(300)),
        (500, Some("1"), Some(1)),
        (502, Some("1"), Some(1)),
        (504, Some("1"), Some(1)),
        (403, Some("1"), Some(1)),
        (400, Some("1"), Some(1)),
    ] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/call");
        // A little of the time has passed: the rest of it counts.
        harness.pass(2 * SECOND);
        let reply = after.map_or_else(|| Reply::status(status), |after| busy(status, after));
        harness.reply(opened.key, &reply);
        let outcome = harness.outcome();
        assert_eq!(refused(&outcome), Some((status, waited.map(Duration::from_secs))), "{status} {after:?}");
        if let (Some(waited), Outcome::Failed(reason)) = (waited, &outcome) {
            let text = reason.describe("SERVER");
            assert!(text.ends_with(&format!("it asks to wait {waited}s")), "{text}");
        }
        harness.pass(1000 * SECOND);
        assert!(!harness.has_opened(), "{status} {after:?}");
    }
}

#[test]
fn a_server_that_asks_for_no_pause_is_not_asked_all_the_time() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, mut opened) = harness.request("tools/call");
    let (mut attempts, mut outcome) = (0, None);
    while outcome.is_none() && attempts < 100 {
        harness.reply(opened.key, &busy(503, "0"));
        attempts += 1;
        outcome = harness.outcomes().into_values().next();
        if outcome.is_none() {
            let next = (0..6000).find(|_| {
                harness.pass(SECOND / 100);
                harness.has_opened()
            });
            assert!(next.is_some(), "it is sent again within a minute");
            opened = harness.opened();
        }
    }
    let outcome = outcome.expect("the timeout ends it");
    assert_eq!(refused(&outcome), Some((503, Some(Duration::ZERO))));
    assert!((5..=10).contains(&attempts), "{attempts}");
}

#[test]
fn the_request_that_opens_the_connection_waits_too() {
    let mut harness = HttpClientHarness::client();
    let first = harness.opened();
    harness.reply(first.key, &busy(503, "3"));
    let events = harness.events();
    assert!(matches!(postponed(&events)[..], [(None, _)]), "{events:?}");
    let second = sent_after(&mut harness, 3 * SECOND);
    assert_eq!(second.body(), first.body());
    harness.reply(second.key, &initialize_reply(&second, "2025-11-25", None));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Connected { .. })));

    // A status that says nothing about the era is no reason to ask in the older one.
    let mut harness = HttpClientHarness::detecting_client();
    let first = harness.opened();
    assert_eq!(first.method(), "server/discover");
    harness.reply(first.key, &busy(429, "3"));
    assert_eq!(sent_after(&mut harness, 3 * SECOND).method(), "server/discover");

    // If that takes too long, there is no connection, and the next attempt is as late as the server asked.
    let mut harness = HttpClientHarness::client_with(|config, _| config.reconnect = true);
    let opened = harness.opened();
    harness.reply(opened.key, &busy(429, "40"));
    let events = harness.events();
    let [Event::Unavailable { reason: Unavailable::Failed(Failed::Refused(_)), retry_in: Some(pause) }] = events[..]
    else {
        panic!("{events:?}");
    };
    assert!(pause >= 40 * SECOND, "{pause:?}");
    assert_eq!(sent_after(&mut harness, 40 * SECOND).method(), "initialize");
}

#[test]
fn a_notification_waits_as_long_as_the_server_may_take_to_accept_it() {
    let mut harness = HttpClientHarness::connected_client();
    let notification = Notification { method: "notifications/x".into(), params: None };
    harness.machine.notify(notification, harness.now).expect("it is connected");
    let first = harness.opened();
    harness.reply(first.key, &busy(429, "20"));
    assert_eq!(harness.events(), []);
    let second = sent_after(&mut harness, 20 * SECOND);
    assert_eq!(second.body(), first.body());
    // The 30 s count from the first attempt.
    harness.reply(second.key, &busy(429, "9"));
    let events = harness.events();
    assert!(matches!(&events[..], [Event::Faulted(Fault::NotAccepted { reason: Failed::Refused(_) })]), "{events:?}");
    harness.pass(1000 * SECOND);
    assert!(!harness.has_opened());
}

#[test]
fn a_request_that_is_cancelled_while_it_waits_is_not_sent() {
    let mut harness = HttpClientHarness::connected_client();
    let (key, opened) = harness.request("tools/call");
    harness.reply(opened.key, &busy(429, "7"));
    harness.machine.cancel(key, None, harness.now);
    harness.drain();
    harness.pass(1000 * SECOND);
    assert!(!harness.has_opened(), "the server has nothing to cancel");
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Cancelled)));
}

#[test]
fn a_client_that_closes_does_not_wait_for_a_busy_server() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &busy(429, "7"));
    harness.machine.close(harness.now);
    harness.drain();
    assert!(matches!(harness.outcome(), Outcome::Failed(_)));
    assert_eq!(harness.opened().line(), "DELETE /mcp");
    harness.pass(10 * SECOND);
    assert!(!harness.has_opened());

    // What is refused afterwards does not wait either.
    let mut harness = HttpClientHarness::connected_client();
    let notification = Notification { method: "notifications/x".into(), params: None };
    harness.machine.notify(notification, harness.now).expect("it is connected");
    let opened = harness.opened();
    harness.machine.close(harness.now);
    harness.drain();
    harness.reply(opened.key, &busy(429, "1"));
    let events = harness.events();
    assert!(matches!(&events[..], [Event::Faulted(Fault::NotAccepted { .. }), ..]), "{events:?}");
}

#[test]
fn requests_of_the_client_itself_wait_without_a_report() {
    let mut harness = HttpClientHarness::modern_client();
    harness.machine.listen(Json::empty_object().clone(), harness.now).expect("it is connected");
    let first = harness.opened();
    harness.reply(first.key, &busy(503, "5"));
    assert_eq!(harness.events(), []);
    assert_eq!(sent_after(&mut harness, 5 * SECOND).method(), "subscriptions/listen");
}

#[test]
fn who_asked_for_progress_is_told_of_each_wait_before_the_progress_of_the_server() {
    let mut harness = HttpClientHarness::connected_client();
    let call = Call::new("tools/call").params(Json::parse(r#"{"name":"a"}"#).expect("it is JSON")).with_progress();
    harness.machine.request(call, harness.now).expect("it is connected");
    harness.drain();
    let mut seen = Vec::new();
    for wait in ["2", "3", "4"] {
        let opened = harness.opened();
        harness.reply(opened.key, &busy(429, wait));
        for event in harness.events() {
            let Event::Progressed { params, .. } = event else { continue };
            let progress = params.first_member("progress").and_then(|progress| progress.read::<f64>().ok());
            let message = params.first_member("message").and_then(|message| message.read::<String>().ok());
            seen.push((progress.expect("a number"), message.expect("a text")));
        }
        harness.pass(5 * SECOND);
    }
    assert!(
        seen.is_sorted_by(|one, next| one.0 < next.0) && seen.iter().all(|(progress, _)| *progress < 0.0),
        "{seen:?}"
    );
    for ((_, message), wait) in seen.iter().zip([2, 3, 4]) {
        assert_eq!(message, &format!("the server answered 429 Too Many Requests and asked to wait {wait} s"));
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn the_client_of_a_relay_has_progress_with_its_own_token() {
    let mut harness = HttpClientHarness::connected_relay();
    harness
        .line(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"t"}}}"#);
    let first = harness.opened();
    harness.reply(first.key, &busy(429, "6"));
    let lines = harness.lines();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    for part in ["notifications/progress", r#""progressToken":"t""#, r#""progress":-1"#, "asked to wait 6 s"] {
        assert!(line.contains(part), "{line} lacks {part}");
    }
    assert!(harness.events().iter().any(|event| matches!(event, relay::Event::Postponed { .. })));
    harness.pass(7 * SECOND);
    let second = harness.opened();
    harness.reply(second.key, &Reply::json(result(&second.id(), CONTENT)));
    assert_eq!(harness.lines(), [result("5", CONTENT)]);
}
