//! The relay when sessions or connections are lost, when the server is not there yet, and when the client leaves.

use std::time::Duration;

use mcp_proto::client::CloseReason;
use mcp_proto::relay::Event;
use mcp_proto::{Failed, Quirk};
use mcp_testkit::world::{
    INITIALIZED, Opened, Reply, World, broken, error, event, initialize, initialize_reply, initialize_result, request,
    result,
};

type Relay = World<mcp_proto::Relay>;

/// Answers while the relay opens the session again, which the client does not see.
fn reopen(world: &mut Relay, session: &str) {
    let opened = world.opened();
    assert_eq!((opened.method().as_str(), opened.header("mcp-session-id")), ("initialize", ""));
    assert!(opened.body().contains(r#""clientInfo":{"name":"editor","version":"1.0"}"#), "the client's own parameters");
    world.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some(session)));
    let opened = world.opened();
    assert_eq!((opened.body(), opened.header("mcp-session-id")), (INITIALIZED, session));
    world.reply(opened.key, &Reply::status(202));
    let stream = take_stream(world);
    world.reply(stream.key, &Reply::status(405));
}

fn take_stream(world: &mut Relay) -> Opened {
    let opened = world.opened();
    assert_eq!(opened.line(), "GET /mcp");
    opened
}

fn failed_with(line: &str, id: &str, failure: &str) -> bool {
    line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"#))
        && line.contains(&format!(r#""failure":"{failure}""#))
}

#[test]
fn a_lost_session_is_opened_once_and_only_what_was_refused_is_sent_again() {
    let mut world = World::connected_relay();
    let in_flight = world.call("1", "tools/call");
    world.begin(in_flight.key, &Reply::events(": working\n\n"));
    let refused = world.call("2", "tools/call");
    let also_in_flight = world.call("3", "tools/call");
    world.reply(refused.key, &Reply::status(404));

    // Every other call in flight fails at once, and its exchange is aborted.
    let lines = world.lines();
    assert_eq!(lines.len(), 2);
    assert!(failed_with(&lines[0], "1", "session_lost") && failed_with(&lines[1], "3", "session_lost"), "{lines:?}");
    assert!(world.is_aborted(in_flight.key) && world.is_aborted(also_in_flight.key));

    // A call that is made meanwhile waits, and opens no second session.
    world.line(&request("4", "tools/list", "{}"));
    reopen(&mut world, "session-2");
    let (again, new) = (world.opened(), world.opened());
    assert_eq!((again.body(), again.header("mcp-session-id")), (refused.body(), "session-2"));
    assert_eq!(new.method(), "tools/list");
    world.reply(again.key, &Reply::json(result(&again.id(), r#"{"content":[]}"#)));
    world.reply(new.key, &Reply::json(result(&new.id(), "{}")));
    // The client receives its answers, and nothing about the session.
    assert_eq!(world.lines(), [result("2", r#"{"content":[]}"#), result("4", "{}")]);
    assert!(!world.has_opened());
    assert!(world.events().iter().any(|event| matches!(event, Event::Connected { is_reconnect: true, .. })));
}

#[test]
fn a_call_is_sent_again_once_and_not_for_ever() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.reply(call.key, &Reply::status(404));
    reopen(&mut world, "session-2");
    let call = world.opened();
    world.reply(call.key, &Reply::status(404));
    let lines = world.lines();
    assert!(failed_with(&lines[0], "1", "session_lost"), "{lines:?}");
}

#[test]
fn several_refusals_of_one_session_cause_one_session() {
    let mut world = World::connected_relay();
    // A notification that was refused is sent again too.
    world.line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let told = world.opened();
    let call = world.call("1", "tools/call");
    world.reply(told.key, &Reply::status(404));
    // The call in flight failed at once, and its late refusal changes nothing.
    assert_eq!(world.lines().len(), 1);
    assert!(world.is_aborted(call.key));
    reopen(&mut world, "session-2");
    let again = world.opened();
    assert_eq!(again.method(), "notifications/roots/list_changed");
    assert!(!world.has_opened());
}

#[test]
fn a_late_refusal_by_the_old_session_costs_nothing_in_the_new_one() {
    const TELLS: [&str; 3] = ["notifications/a", "notifications/b", "notifications/c"];
    let mut world = World::connected_relay();
    let [first, early, late] = TELLS.map(|method| {
        world.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
        world.opened()
    });
    world.reply(first.key, &Reply::status(404));
    // A message that is refused while the new session is opened waits for it.
    let opened = world.opened();
    world.reply(early.key, &Reply::status(404));
    assert!(!world.has_opened());
    world.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
    let opened = world.opened();
    assert_eq!(opened.body(), INITIALIZED);
    world.reply(opened.key, &Reply::status(202));
    let stream = take_stream(&mut world);
    world.reply(stream.key, &Reply::status(405));
    assert_eq!([world.opened().method(), world.opened().method()], TELLS[..2]);
    // A message that is refused later is sent again at once, and the new session stays.
    world.reply(late.key, &Reply::status(404));
    let again = world.opened();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), (TELLS[2], "session-2"));
    assert!(!world.has_opened());
    let lost = world.events().iter().filter(|event| matches!(event, Event::SessionLost)).count();
    assert_eq!(lost, 1);
}

#[test]
fn a_session_lost_as_400_is_a_lost_session_too() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
    world.reply(call.key, &Reply::json(body).with_status(400));
    assert!(world.events().contains(&Event::QuirkMet(Quirk::SessionLostAsBadRequest)));
    reopen(&mut world, "session-2");
    assert_eq!(world.opened().body(), call.body());

    // An error about the request itself is the answer to that request.
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.reply(call.key, &Reply::json(error(&call.id(), -32602, "unknown session in arguments")).with_status(400));
    assert_eq!(world.lines(), [error("1", -32602, "unknown session in arguments")]);
}

#[test]
fn without_a_session_404_is_no_lost_session() {
    let mut world = World::relay();
    world.initialize("2025-11-25", None);
    let call = world.call("1", "tools/call");
    world.reply(call.key, &Reply::status(404));
    assert!(failed_with(&world.lines()[0], "1", "refused"));
    assert!(!world.has_opened());
}

#[test]
fn br_t_07_a_server_that_came_back_with_another_revision_is_refused() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.reply(call.key, &Reply::status(404));
    let opened = world.opened();
    world.reply(opened.key, &initialize_reply(&opened, "2025-06-18", Some("session-2")));
    let lines = world.lines();
    assert!(failed_with(&lines[0], "1", "version_changed") && lines[0].contains("2025-06-18"), "{lines:?}");
}

#[test]
fn sh_c_08_what_the_old_session_asked_of_the_client_is_taken_back() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.begin(call.key, &Reply::events(event(&request("5", "sampling/createMessage", "{}"))));
    let refused = world.call("2", "tools/call");
    world.reply(refused.key, &Reply::status(404));
    let lines = world.lines();
    assert!(
        lines.iter().any(|line| line.contains("notifications/cancelled") && line.contains(r#""requestId":1"#)),
        "{lines:?}"
    );
    // The client's late answer is not forwarded.
    world.line(&result("1", "{}"));
    reopen(&mut world, "session-2");
    assert_eq!(world.opened().body(), refused.body());
    assert!(!world.has_opened());
}

#[test]
fn a_stream_of_the_server_that_ends_with_the_session_opens_a_new_one() {
    let mut world = World::relay();
    world.initialize("2025-11-25", Some("session-1"));
    world.line(INITIALIZED);
    let opened = world.opened();
    world.reply(opened.key, &Reply::status(202));
    let stream = take_stream(&mut world);
    world.begin(stream.key, &Reply::events("id: 7\ndata:\n\n"));
    world.fail(stream.key, broken());
    world.pass(Duration::from_secs(2));
    let stream = take_stream(&mut world);
    assert_eq!(stream.header("last-event-id"), "7");
    // The server restarts and no longer has the session.
    world.refuse(stream.key);
    world.pass(Duration::from_secs(5));
    let stream = take_stream(&mut world);
    world.reply(stream.key, &Reply::status(404));
    let opened = world.opened();
    assert_eq!(opened.method(), "initialize");
    world.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
    let opened = world.opened();
    world.reply(opened.key, &Reply::status(202));
    let stream = take_stream(&mut world);
    // The stream of the new session has no cursor of the old one.
    assert_eq!(stream.header("last-event-id"), "");
}

#[test]
fn a_404_to_the_stream_of_the_server_alone_is_no_lost_session() {
    let mut world = World::relay();
    world.initialize("2025-11-25", Some("session-1"));
    world.line(INITIALIZED);
    let opened = world.opened();
    world.reply(opened.key, &Reply::status(202));
    let stream = take_stream(&mut world);
    world.reply(stream.key, &Reply::html(404));
    assert!(!world.has_opened());
    assert!(world.events().contains(&Event::QuirkMet(Quirk::GetNotFound)));
}

#[test]
fn a_server_that_is_down_is_told_about_and_tried_again_behind() {
    let mut world = World::relay();
    world.line(&initialize("1", "2025-11-25"));
    // A request that was certainly not delivered is sent again for a while.
    let mut attempts = 0;
    let lines = loop {
        if world.has_opened() {
            let opened = world.opened();
            attempts += 1;
            world.refuse(opened.key);
        }
        let lines = world.lines();
        if !lines.is_empty() {
            break lines;
        }
        world.pass(Duration::from_millis(50));
    };
    assert_eq!(attempts, 4);
    assert!(failed_with(&lines[0], "1", "unreachable"), "{lines:?}");
    assert!(lines[0].contains("the server at http://server.example/mcp cannot be reached: connection refused"));

    // The client's request has failed, but the relay still connects in the background.
    world.pass(Duration::from_secs(3));
    let opened = world.opened();
    assert_eq!(opened.method(), "initialize");
    world.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    assert_eq!(world.lines(), [] as [&str; 0]);
    // The client tries again, and is answered at once.
    world.line(&initialize("2", "2025-11-25"));
    assert_eq!(world.lines(), [result("2", &initialize_result("2025-11-25"))]);
    assert!(!world.has_opened());
    world.confirm();
}

#[test]
fn an_initialize_with_other_parameters_does_not_get_the_prepared_answer() {
    let mut world = World::relay_with(|config, _| config.redelivery = Duration::ZERO);
    world.line(&initialize("1", "2025-11-25"));
    let opened = world.opened();
    world.refuse(opened.key);
    world.lines();
    world.pass(Duration::from_secs(3));
    let opened = world.opened();
    world.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    world.line(&initialize("2", "2025-06-18"));
    // The unused session is ended, and a new one is opened.
    let (delete, opened) = (world.opened(), world.opened());
    assert_eq!((delete.line().as_str(), delete.header("mcp-session-id")), ("DELETE /mcp", "session-1"));
    assert!(opened.body().contains("2025-06-18"));
    world.reply(opened.key, &initialize_reply(&opened, "2025-06-18", None));
    assert_eq!(world.lines(), [result("2", &initialize_result("2025-06-18"))]);
}

#[test]
fn an_initialize_that_the_server_refuses_is_answered_with_its_error() {
    let mut world = World::relay();
    world.line(&initialize("1", "2025-11-25"));
    let opened = world.opened();
    world.reply(opened.key, &Reply::json(error(&opened.id(), -32602, "Unsupported protocol version")));
    // The server may be of the other era; once that is ruled out, the first answer is forwarded.
    let opened = world.opened();
    assert_eq!(opened.method(), "server/discover");
    world.reply(opened.key, &Reply::json(error(&opened.id(), -32601, "Method not found")));
    assert_eq!(world.lines(), [error("1", -32602, "Unsupported protocol version")]);
    world.pass(Duration::from_secs(600));
    assert!(!world.has_opened(), "an answer is an answer");
    // The client may try another revision.
    world.line(&initialize("2", "2025-03-26"));
    let opened = world.opened();
    world.reply(opened.key, &initialize_reply(&opened, "2025-03-26", None));
    assert_eq!(world.lines(), [result("2", &initialize_result("2025-03-26"))]);
}

#[test]
fn a_call_while_the_server_is_restarted_waits_and_succeeds() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.refuse(call.key);
    assert_eq!(world.lines(), [] as [&str; 0]);
    world.pass(Duration::from_millis(300));
    let call = world.opened();
    world.refuse(call.key);
    world.pass(Duration::from_millis(600));
    // The server is back and no longer has the session.
    let call = world.opened();
    world.reply(call.key, &Reply::status(404));
    reopen(&mut world, "session-2");
    let call = world.opened();
    world.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    assert_eq!(world.lines(), [result("1", r#"{"content":[]}"#)]);
}

#[test]
fn what_may_have_been_delivered_is_never_sent_again() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.fail(call.key, broken());
    let lines = world.lines();
    assert!(failed_with(&lines[0], "1", "broken"), "{lines:?}");
    world.pass(Duration::from_secs(600));
    assert!(!world.has_opened());
}

#[test]
fn a_down_server_is_not_stormed_however_many_calls_come() {
    let mut world = World::connected_relay_with(|config, _| config.redelivery = Duration::ZERO);
    let call = world.call("1", "tools/call");
    world.reply(call.key, &Reply::status(404));
    let opened = world.opened();
    world.refuse(opened.key);
    assert!(failed_with(&world.lines()[0], "1", "unreachable"));
    // Each call causes an attempt within the budget, and each call gets its answer.
    let mut attempts = 0;
    for id in 0..100 {
        world.line(&request(&id.to_string(), "tools/call", "{}"));
        while world.has_opened() {
            let opened = world.opened();
            attempts += 1;
            world.refuse(opened.key);
        }
        let lines = world.lines();
        assert_eq!(lines.len(), 1);
        assert!(failed_with(&lines[0], &id.to_string(), "unreachable"), "{lines:?}");
    }
    assert!(attempts <= 10, "{attempts}");
}

#[test]
fn fr15_after_the_end_of_stdin_requests_are_finished_and_the_session_is_ended() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.machine.handle_eof(world.now);
    assert!(!world.has_opened());
    world.pass(Duration::from_secs(4));
    world.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    assert_eq!(world.lines(), [result("1", r#"{"content":[]}"#)]);
    assert!(world.is_write_closed);
    let delete = world.opened();
    assert_eq!((delete.line().as_str(), delete.header("mcp-session-id")), ("DELETE /mcp", "session-1"));
    assert_eq!(delete.header("mcp-protocol-version"), "2025-11-25");
    world.reply(delete.key, &Reply::status(200));
    assert_eq!(world.events().last(), Some(&Event::Closed(CloseReason::Local)));
}

#[test]
fn px5_fr15_requests_that_take_too_long_are_answered_and_taken_back() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.begin(call.key, &Reply::events(": working\n\n"));
    world.machine.handle_eof(world.now);
    world.pass(Duration::from_secs(5));
    let lines = world.lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(r#""id":1,"error":"#), "{lines:?}");
    let notice = world.opened();
    assert_eq!(notice.method(), "notifications/cancelled");
    world.reply(notice.key, &Reply::status(202));
    let delete = world.opened();
    // A server that does not answer the DELETE delays the end by a bounded time only (H6).
    world.pass(Duration::from_secs(3));
    assert!(world.is_aborted(delete.key));
    assert!(matches!(world.events().last(), Some(Event::Closed(_))));
}

#[test]
fn stopping_answers_everybody_and_ends_the_session() {
    let mut world = World::connected_relay();
    let call = world.call("1", "tools/call");
    world.begin(call.key, &Reply::events(": working\n\n"));
    world.machine.close(world.now);
    assert!(world.lines()[0].contains(r#""id":1,"error":"#));
    let notice = world.opened();
    world.reply(notice.key, &Reply::status(202));
    let delete = world.opened();
    world.reply(delete.key, &Reply::status(405));
    assert!(matches!(world.events().last(), Some(Event::Closed(_))));
    // No action, event or line follows `Closed`, whatever is handed in (CL3).
    world.line(&request("2", "tools/list", "{}"));
    world.machine.handle_eof(world.now);
    world.machine.close(world.now);
    world.pass(Duration::from_secs(1000));
    assert!(!world.has_opened() && world.events().is_empty() && world.lines().is_empty());
}

#[test]
fn a_notification_on_its_way_is_delivered_before_the_session_ends() {
    let mut world = World::connected_relay();
    world.line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let told = world.opened();
    world.machine.handle_eof(world.now);
    assert!(!world.has_opened());
    world.reply(told.key, &Reply::status(202));
    assert_eq!(world.opened().line(), "DELETE /mcp");
}

#[test]
fn without_a_session_there_is_nothing_to_end() {
    let mut world = World::relay();
    world.initialize("2025-11-25", None);
    world.machine.handle_eof(world.now);
    assert!(!world.has_opened());
    assert!(matches!(world.events().last(), Some(Event::Closed(_))));
    // The same holds before the first message.
    let mut world = World::relay();
    world.machine.handle_eof(world.now);
    assert!(matches!(world.events().last(), Some(Event::Closed(_))));
}

#[test]
fn a_client_that_leaves_while_the_server_is_down_is_let_go() {
    let mut world = World::relay();
    world.line(&initialize("1", "2025-11-25"));
    let opened = world.opened();
    world.refuse(opened.key);
    world.machine.handle_eof(world.now);
    world.pass(Duration::from_secs(10));
    while world.has_opened() {
        let opened = world.opened();
        world.refuse(opened.key);
        world.pass(Duration::from_secs(10));
    }
    let lines = world.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(matches!(world.events().last(), Some(Event::Closed(_))));
}

#[test]
fn two_endpoints_the_end_of_the_stream_is_the_end_of_the_session() {
    let mut world = World::relay();
    world.line(&initialize("\"i\"", "2024-11-05"));
    let post = world.opened();
    world.reply(post.key, &Reply::status(405));
    let stream = world.opened();
    world.begin(stream.key, &Reply::events("event: endpoint\ndata: /m?s=1\n\n"));
    let post = world.opened();
    world.reply(post.key, &Reply::status(202));
    world.send(stream.key, event(&result(&post.id(), &initialize_result("2024-11-05"))).as_bytes());
    world.line(INITIALIZED);
    let post = world.opened();
    world.reply(post.key, &Reply::status(202));
    world.lines();

    let call = world.call("1", "tools/call");
    world.reply(call.key, &Reply::status(202));
    world.end(stream.key);
    assert!(failed_with(&world.lines()[0], "1", "session_lost"));
    // The next session is opened with the same parameters, over the transport that was detected.
    let stream = world.opened();
    assert_eq!(stream.line(), "GET /mcp");
    world.begin(stream.key, &Reply::events("event: endpoint\ndata: /m?s=2\n\n"));
    let post = world.opened();
    assert_eq!((post.line().as_str(), post.method().as_str()), ("POST /m?s=2", "initialize"));
    world.reply(post.key, &Reply::status(202));
    world.send(stream.key, event(&result(&post.id(), &initialize_result("2024-11-05"))).as_bytes());
    let post = world.opened();
    assert_eq!(post.body(), INITIALIZED);
    world.reply(post.key, &Reply::status(202));
    let call = world.call("2", "tools/call");
    assert_eq!(call.line(), "POST /m?s=2");
    // A 404 to a POST at this transport is about the session, too.
    world.reply(call.key, &Reply::status(404));
    assert_eq!(world.opened().line(), "GET /mcp");
}

#[test]
fn a_timeout_is_told_to_the_client_and_to_the_server() {
    let mut world = World::connected_relay_with(|config, _| config.request_timeout = Duration::from_secs(60));
    let call = world.call("1", "tools/call");
    world.begin(call.key, &Reply::events(": working\n\n"));
    world.pass(Duration::from_secs(60));
    let lines = world.lines();
    assert!(failed_with(&lines[0], "1", "timed_out") && lines[0].contains("did not answer within 60s"), "{lines:?}");
    assert_eq!(world.opened().method(), "notifications/cancelled");
    // The late answer is dropped.
    world.send(call.key, event(&result(&call.id(), "{}")).as_bytes());
    assert_eq!(world.lines(), [] as [&str; 0]);
    assert!(world.events().contains(&Event::Failed(Failed::TimedOut { after: Duration::from_secs(60) })));
}
