//! The relay when sessions or connections are lost, when the server is not there yet, and when the client leaves.

use std::time::Duration;

use mcp_intermediary::relay::Event;
use mcp_proto::client::{CloseReason, Failure};
use mcp_proto::{Failed, Quirk};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, broken, initialize_reply};
use mcp_testkit::messages::{DISCOVERED, INITIALIZED, error, event, initialize, initialize_result, request, result};
use tests::closing_server::REQUESTS;

type Relay = HttpClientHarness<mcp_intermediary::Relay>;

/// Answers while the relay opens the session again, which the client does not see.
fn reopen(harness: &mut Relay, session: &str) {
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.header("mcp-session-id")), ("initialize", ""));
    assert!(opened.body().contains(r#""clientInfo":{"name":"editor","version":"1.0"}"#), "the client's own parameters");
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some(session)));
    let opened = harness.opened();
    assert_eq!((opened.body(), opened.header("mcp-session-id")), (INITIALIZED, session));
    harness.reply(opened.key, &Reply::status(202));
    let stream = take_stream(harness);
    harness.reply(stream.key, &Reply::status(405));
}

/// A relay that has opened a session, and has asked for the stream of the server.
fn asked_for_stream() -> (Relay, Opened) {
    let mut harness = HttpClientHarness::relay();
    harness.initialize("2025-11-25", Some("session-1"));
    harness.line(INITIALIZED);
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    let stream = take_stream(&mut harness);
    (harness, stream)
}

fn take_stream(harness: &mut Relay) -> Opened {
    let opened = harness.opened();
    assert_eq!(opened.line(), "GET /mcp");
    opened
}

fn failed_with(line: &str, id: &str, failure: &str) -> bool {
    line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"#))
        && line.contains(&format!(r#""failure":"{failure}""#))
}

#[test]
fn a_lost_session_is_opened_once_and_only_what_was_refused_is_sent_again() {
    let mut harness = HttpClientHarness::connected_relay();
    let in_flight = harness.call("1", "tools/call");
    harness.begin(in_flight.key, &Reply::events(": working\n\n"));
    let refused = harness.call("2", "tools/call");
    let also_in_flight = harness.call("3", "tools/call");
    harness.reply(refused.key, &Reply::status(404));

    // Every other call in flight fails at once, and its exchange is aborted.
    let lines = harness.lines();
    assert_eq!(lines.len(), 2);
    assert!(failed_with(&lines[0], "1", "session_lost") && failed_with(&lines[1], "3", "session_lost"), "{lines:?}");
    assert!(harness.is_aborted(in_flight.key) && harness.is_aborted(also_in_flight.key));

    // A call that is made meanwhile waits, and opens no second session.
    harness.line(&request("4", "tools/list", "{}"));
    reopen(&mut harness, "session-2");
    let (again, new) = (harness.opened(), harness.opened());
    assert_eq!((again.body(), again.header("mcp-session-id")), (refused.body(), "session-2"));
    assert_eq!(new.method(), "tools/list");
    harness.reply(again.key, &Reply::json(result(&again.id(), r#"{"content":[]}"#)));
    harness.reply(new.key, &Reply::json(result(&new.id(), "{}")));
    // The client receives its answers, and nothing about the session.
    assert_eq!(harness.lines(), [result("2", r#"{"content":[]}"#), result("4", "{}")]);
    assert!(!harness.has_opened());
    assert!(harness.events().iter().any(|event| matches!(event, Event::Connected { is_reconnect: true, .. })));
}

#[test]
fn a_call_is_sent_again_once_and_not_for_ever() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::status(404));
    reopen(&mut harness, "session-2");
    let call = harness.opened();
    harness.reply(call.key, &Reply::status(404));
    let lines = harness.lines();
    assert!(failed_with(&lines[0], "1", "refused"), "{lines:?}");
}

#[test]
fn several_refusals_of_one_session_cause_one_session() {
    let mut harness = HttpClientHarness::connected_relay();
    // A notification that was refused is sent again too.
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let notification = harness.opened();
    let call = harness.call("1", "tools/call");
    harness.reply(notification.key, &Reply::status(404));
    // The call in flight failed at once, and its late refusal changes nothing.
    assert_eq!(harness.lines().len(), 1);
    assert!(harness.is_aborted(call.key));
    reopen(&mut harness, "session-2");
    let again = harness.opened();
    assert_eq!(again.method(), "notifications/roots/list_changed");
    assert!(!harness.has_opened());
}

#[test]
fn a_late_refusal_by_the_old_session_costs_nothing_in_the_new_one() {
    const TELLS: [&str; 3] = ["notifications/a", "notifications/b", "notifications/c"];
    let mut harness = HttpClientHarness::connected_relay();
    let [first, early, late] = TELLS.map(|method| {
        harness.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
        harness.opened()
    });
    harness.reply(first.key, &Reply::status(404));
    // A message that is refused while the new session is opened waits for it.
    let opened = harness.opened();
    harness.reply(early.key, &Reply::status(404));
    assert!(!harness.has_opened());
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
    let opened = harness.opened();
    assert_eq!(opened.body(), INITIALIZED);
    harness.reply(opened.key, &Reply::status(202));
    let stream = take_stream(&mut harness);
    harness.reply(stream.key, &Reply::status(405));
    assert_eq!([harness.opened().method(), harness.opened().method()], TELLS[..2]);
    // A message that is refused later is sent again at once, and the new session stays.
    harness.reply(late.key, &Reply::status(404));
    let again = harness.opened();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), (TELLS[2], "session-2"));
    assert!(!harness.has_opened());
    let lost = harness.events().iter().filter(|event| matches!(event, Event::SessionLost)).count();
    assert_eq!(lost, 1);
}

#[test]
fn a_session_lost_as_400_is_a_lost_session_too() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
    harness.reply(call.key, &Reply::json(body).with_status(400));
    assert!(harness.events().contains(&Event::QuirkObserved(Quirk::SessionLostWithOtherStatus)));
    reopen(&mut harness, "session-2");
    assert_eq!(harness.opened().body(), call.body());

    // An error about the request itself is the answer to that request.
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::json(error(&call.id(), -32602, "unknown session in arguments")).with_status(400));
    assert_eq!(harness.lines(), [error("1", -32602, "unknown session in arguments")]);
}

#[test]
fn without_a_session_404_is_no_lost_session() {
    let mut harness = HttpClientHarness::relay();
    harness.initialize("2025-11-25", None);
    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::status(404));
    assert!(failed_with(&harness.lines()[0], "1", "refused"));
    assert!(!harness.has_opened());
}

#[test]
fn br_t_07_a_server_that_came_back_with_another_revision_is_refused() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::status(404));
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-06-18", Some("session-2")));
    let lines = harness.lines();
    assert!(failed_with(&lines[0], "1", "version_changed") && lines[0].contains("2025-06-18"), "{lines:?}");
}

#[test]
fn sh_c_08_requests_of_the_old_session_to_the_client_are_cancelled() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.begin(call.key, &Reply::events(event(&request("5", "sampling/createMessage", "{}"))));
    let refused = harness.call("2", "tools/call");
    harness.reply(refused.key, &Reply::status(404));
    let lines = harness.lines();
    assert!(
        lines.iter().any(|line| line.contains("notifications/cancelled") && line.contains(r#""requestId":1"#)),
        "{lines:?}"
    );
    // The client's late answer is not forwarded.
    harness.line(&result("1", "{}"));
    reopen(&mut harness, "session-2");
    assert_eq!(harness.opened().body(), refused.body());
    assert!(!harness.has_opened());
}

#[test]
fn a_stream_of_the_server_that_ends_with_the_session_opens_a_new_one() {
    for status in [404, 410] {
        let (mut harness, stream) = asked_for_stream();
        harness.begin(stream.key, &Reply::events("id: 7\ndata:\n\n"));
        harness.fail(stream.key, broken());
        harness.pass(Duration::from_secs(2));
        let stream = take_stream(&mut harness);
        assert_eq!(stream.header("last-event-id"), "7");
        // The server restarts and no longer has the session.
        harness.refuse(stream.key);
        harness.pass(Duration::from_secs(5));
        let stream = take_stream(&mut harness);
        harness.reply(stream.key, &Reply::status(status));
        let opened = harness.opened();
        assert_eq!(opened.method(), "initialize");
        harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(202));
        let stream = take_stream(&mut harness);
        // The stream of the new session has no cursor of the old one.
        assert_eq!(stream.header("last-event-id"), "");
    }
}

#[test]
fn a_404_to_the_stream_of_the_server_alone_is_no_lost_session() {
    let (mut harness, stream) = asked_for_stream();
    harness.reply(stream.key, &Reply::html(404));
    assert!(!harness.has_opened());
    assert!(harness.events().contains(&Event::QuirkObserved(Quirk::GetNotFound)));
}

#[test]
fn a_server_that_is_down_is_reported_and_tried_again_later() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("1", "2025-11-25"));
    // A request that was certainly not delivered is sent again for a while.
    let mut attempts = 0;
    let lines = loop {
        if harness.has_opened() {
            let opened = harness.opened();
            attempts += 1;
            harness.refuse(opened.key);
        }
        let lines = harness.lines();
        if !lines.is_empty() {
            break lines;
        }
        harness.pass(Duration::from_millis(50));
    };
    assert_eq!(attempts, 4);
    assert!(failed_with(&lines[0], "1", "unreachable"), "{lines:?}");
    assert!(lines[0].contains("the server at http://server.example/mcp cannot be reached: connection refused"));

    // The client's request has failed, but the relay still connects in the background.
    harness.pass(Duration::from_secs(3));
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    assert_eq!(harness.lines(), [] as [&str; 0]);
    // The client tries again, and is answered at once.
    harness.line(&initialize("2", "2025-11-25"));
    assert_eq!(harness.lines(), [result("2", &initialize_result("2025-11-25"))]);
    assert!(!harness.has_opened());
    harness.confirm();
}

#[test]
fn an_initialize_with_other_parameters_does_not_get_the_prepared_answer() {
    let mut harness = HttpClientHarness::relay_with(|config, _| config.redelivery = Duration::ZERO);
    harness.line(&initialize("1", "2025-11-25"));
    let opened = harness.opened();
    harness.refuse(opened.key);
    harness.lines();
    harness.pass(Duration::from_secs(3));
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    harness.line(&initialize("2", "2025-06-18"));
    // The unused session is ended, and a new one is opened.
    let (delete, opened) = (harness.opened(), harness.opened());
    assert_eq!((delete.line().as_str(), delete.header("mcp-session-id")), ("DELETE /mcp", "session-1"));
    assert!(opened.body().contains("2025-06-18"));
    harness.reply(opened.key, &initialize_reply(&opened, "2025-06-18", None));
    assert_eq!(harness.lines(), [result("2", &initialize_result("2025-06-18"))]);
}

#[test]
fn an_initialize_that_the_server_refuses_is_answered_with_its_error() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("1", "2025-11-25"));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(error(&opened.id(), -32602, "Invalid params")));
    // The server may be of the other era; once that is ruled out, the first answer is forwarded.
    let opened = harness.opened();
    assert_eq!(opened.method(), "server/discover");
    harness.reply(opened.key, &Reply::json(error(&opened.id(), -32601, "Method not found")));
    assert_eq!(harness.lines(), [error("1", -32602, "Invalid params")]);
    harness.pass(Duration::from_secs(600));
    assert!(!harness.has_opened(), "an answer is an answer");
    // The client may try another revision.
    harness.line(&initialize("2", "2025-03-26"));
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-03-26", None));
    assert_eq!(harness.lines(), [result("2", &initialize_result("2025-03-26"))]);
}

#[test]
fn lc_05_a_server_that_refuses_the_revision_of_the_client_is_offered_an_older_one() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("1", "2025-11-25"));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(error(&opened.id(), -32602, "Unsupported protocol version")));
    let again = harness.opened();
    assert_eq!(again.body(), opened.body().replace("2025-11-25", "2025-06-18").replace(r#""id":1"#, r#""id":2"#));
    harness.reply(again.key, &initialize_reply(&again, "2025-06-18", None));
    assert_eq!(harness.lines(), [result("1", &initialize_result("2025-06-18"))]);
}

#[test]
fn a_call_while_the_server_is_restarted_waits_and_succeeds() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.refuse(call.key);
    assert_eq!(harness.lines(), [] as [&str; 0]);
    harness.pass(Duration::from_millis(300));
    let call = harness.opened();
    harness.refuse(call.key);
    harness.pass(Duration::from_millis(600));
    // The server is back and no longer has the session.
    let call = harness.opened();
    harness.reply(call.key, &Reply::status(404));
    reopen(&mut harness, "session-2");
    let call = harness.opened();
    harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    assert_eq!(harness.lines(), [result("1", r#"{"content":[]}"#)]);
}

#[test]
fn what_may_have_been_delivered_is_never_sent_again() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.fail(call.key, broken());
    let lines = harness.lines();
    assert!(failed_with(&lines[0], "1", "broken"), "{lines:?}");
    harness.pass(Duration::from_secs(600));
    assert!(!harness.has_opened());
}

#[test]
fn attempts_to_reach_a_server_that_is_down_are_bounded_however_many_calls_are_made() {
    let mut harness = HttpClientHarness::connected_relay_with(|config, _| config.redelivery = Duration::ZERO);
    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::status(404));
    let opened = harness.opened();
    harness.refuse(opened.key);
    assert!(failed_with(&harness.lines()[0], "1", "unreachable"));
    // Each call causes an attempt within the budget, and each call gets its answer.
    let mut attempts = 0;
    for id in 0..100 {
        harness.line(&request(&id.to_string(), "tools/call", "{}"));
        while harness.has_opened() {
            let opened = harness.opened();
            attempts += 1;
            harness.refuse(opened.key);
        }
        let lines = harness.lines();
        assert_eq!(lines.len(), 1);
        assert!(failed_with(&lines[0], &id.to_string(), "unreachable"), "{lines:?}");
    }
    assert!(attempts <= 10, "{attempts}");
}

#[test]
fn fr15_after_the_end_of_stdin_requests_are_finished_and_the_session_is_ended() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.machine.handle_eof(harness.now);
    assert!(!harness.has_opened());
    harness.pass(Duration::from_secs(4));
    harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    assert_eq!(harness.lines(), [result("1", r#"{"content":[]}"#)]);
    assert!(harness.is_write_closed);
    let delete = harness.opened();
    assert_eq!((delete.line().as_str(), delete.header("mcp-session-id")), ("DELETE /mcp", "session-1"));
    assert_eq!(delete.header("mcp-protocol-version"), "2025-11-25");
    harness.reply(delete.key, &Reply::status(200));
    assert_eq!(harness.events().last(), Some(&Event::Closed(CloseReason::Local)));
}

#[test]
fn px5_fr15_requests_that_take_too_long_are_answered_and_taken_back() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.begin(call.key, &Reply::events(": working\n\n"));
    harness.machine.handle_eof(harness.now);
    harness.pass(Duration::from_secs(5));
    let lines = harness.lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(r#""id":1,"error":"#), "{lines:?}");
    let notice = harness.opened();
    assert_eq!(notice.method(), "notifications/cancelled");
    harness.reply(notice.key, &Reply::status(202));
    let delete = harness.opened();
    // A server that does not answer the DELETE delays the end by a bounded time only (H6).
    harness.pass(Duration::from_secs(3));
    assert!(harness.is_aborted(delete.key));
    assert!(matches!(harness.events().last(), Some(Event::Closed(_))));
}

#[test]
fn stopping_answers_everybody_and_ends_the_session() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.begin(call.key, &Reply::events(": working\n\n"));
    harness.machine.close(harness.now);
    assert!(harness.lines()[0].contains(r#""id":1,"error":"#));
    let notice = harness.opened();
    harness.reply(notice.key, &Reply::status(202));
    let delete = harness.opened();
    harness.reply(delete.key, &Reply::status(405));
    assert!(matches!(harness.events().last(), Some(Event::Closed(_))));
    // No action, event or line follows `Closed`, whatever is handed in (CL3).
    harness.line(&request("2", "tools/list", "{}"));
    harness.machine.handle_eof(harness.now);
    harness.machine.close(harness.now);
    harness.pass(Duration::from_secs(1000));
    assert!(!harness.has_opened() && harness.events().is_empty() && harness.lines().is_empty());
}

#[test]
fn a_notification_on_its_way_is_delivered_before_the_session_ends() {
    let mut harness = HttpClientHarness::connected_relay();
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let notification = harness.opened();
    harness.machine.handle_eof(harness.now);
    assert!(!harness.has_opened());
    harness.reply(notification.key, &Reply::status(202));
    assert_eq!(harness.opened().line(), "DELETE /mcp");
}

#[test]
fn without_a_session_there_is_nothing_to_end() {
    let mut harness = HttpClientHarness::relay();
    harness.initialize("2025-11-25", None);
    harness.machine.handle_eof(harness.now);
    assert!(!harness.has_opened());
    assert!(matches!(harness.events().last(), Some(Event::Closed(_))));
    // The same holds before the first message.
    let mut harness = HttpClientHarness::relay();
    harness.machine.handle_eof(harness.now);
    assert!(matches!(harness.events().last(), Some(Event::Closed(_))));
}

#[test]
fn a_client_that_leaves_while_the_server_is_down_is_let_go() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("1", "2025-11-25"));
    let opened = harness.opened();
    harness.refuse(opened.key);
    harness.machine.handle_eof(harness.now);
    harness.pass(Duration::from_secs(10));
    while harness.has_opened() {
        let opened = harness.opened();
        harness.refuse(opened.key);
        harness.pass(Duration::from_secs(10));
    }
    let lines = harness.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(matches!(harness.events().last(), Some(Event::Closed(_))));
}

#[test]
fn two_endpoints_the_end_of_the_stream_is_the_end_of_the_session() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("\"i\"", "2024-11-05"));
    let post = harness.opened();
    harness.reply(post.key, &Reply::status(405));
    let stream = harness.opened();
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /m?s=1\n\n"));
    let post = harness.opened();
    harness.reply(post.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&post.id(), &initialize_result("2024-11-05"))).as_bytes());
    harness.line(INITIALIZED);
    let post = harness.opened();
    harness.reply(post.key, &Reply::status(202));
    harness.lines();

    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::status(202));
    harness.end(stream.key);
    assert!(failed_with(&harness.lines()[0], "1", "session_lost"));
    // The next session is opened with the same parameters, over the transport that was detected.
    let stream = harness.opened();
    assert_eq!(stream.line(), "GET /mcp");
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /m?s=2\n\n"));
    let post = harness.opened();
    assert_eq!((post.line().as_str(), post.method().as_str()), ("POST /m?s=2", "initialize"));
    harness.reply(post.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&post.id(), &initialize_result("2024-11-05"))).as_bytes());
    let post = harness.opened();
    assert_eq!(post.body(), INITIALIZED);
    harness.reply(post.key, &Reply::status(202));
    let call = harness.call("2", "tools/call");
    assert_eq!(call.line(), "POST /m?s=2");
    // A 404 to a POST at this transport is about the session, too.
    harness.reply(call.key, &Reply::status(404));
    assert_eq!(harness.opened().line(), "GET /mcp");
}

#[test]
fn a_timeout_is_reported_to_the_client_and_cancels_at_the_server() {
    let mut harness =
        HttpClientHarness::connected_relay_with(|config, _| config.request_timeout = Duration::from_secs(60));
    let call = harness.call("1", "tools/call");
    harness.begin(call.key, &Reply::events(": working\n\n"));
    harness.pass(Duration::from_secs(60));
    let lines = harness.lines();
    assert!(failed_with(&lines[0], "1", "timed_out") && lines[0].contains("did not answer within 60s"), "{lines:?}");
    assert_eq!(harness.opened().method(), "notifications/cancelled");
    // The late answer is dropped.
    harness.send(call.key, event(&result(&call.id(), "{}")).as_bytes());
    assert_eq!(harness.lines(), [] as [&str; 0]);
    assert!(harness.events().contains(&Event::Failed(Failed::TimedOut { after: Duration::from_secs(60) })));
}

#[test]
fn a_relay_reports_that_a_request_waits() {
    let mut harness = HttpClientHarness::connected_relay_with(|config, _| config.limits.exchanges = 2);
    harness.call("1", "tools/call");
    harness.line(&request("2", "tools/call", "{}"));
    assert!(!harness.has_opened());
    assert_eq!(harness.events(), [Event::RequestWaits { limit: 1 }]);
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

#[test]
fn a_session_id_is_not_kept_where_the_revision_has_no_sessions() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("\"i\"", "2025-11-25"));
    let first = harness.opened();
    let only_modern = format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32022,"message":"no","data":{{"supported":["2026-07-28"],"requested":"2025-11-25"}}}}}}"#,
        first.id()
    );
    // The responses contain a session id, although the negotiated revision has no sessions.
    harness.reply(first.key, &Reply::json(only_modern).header("mcp-session-id", "session-1"));
    let discover = harness.opened();
    assert_eq!((discover.method().as_str(), discover.header("mcp-session-id")), ("server/discover", ""));
    harness.reply(discover.key, &Reply::json(result(&discover.id(), DISCOVERED)).header("mcp-session-id", "session-2"));
    assert_eq!(harness.lines().len(), 1);
    for id in ["1", "2"] {
        let call = harness.call(id, "tools/list");
        assert_eq!(call.header("mcp-session-id"), "");
        let listed = r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}"#;
        harness.reply(call.key, &Reply::json(result(&call.id(), listed)).header("mcp-session-id", "session-3"));
    }
    // Without a session, a 404 is a refusal, and the relay has no session to end.
    let call = harness.call("3", "tools/list");
    harness.reply(call.key, &Reply::status(404));
    harness.machine.handle_eof(harness.now);
    assert!(!harness.has_opened());
}
