//! Sessions in a store, whose instance or whose client stops in the middle of a stream.

use std::time::Duration;

use mcp_proto::Notification;
use mcp_proto::server::Progress;
use mcp_proto::store::StoreAction;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use tests::instances::{Instances, get, ping, resume};

const WITH_PROGRESS: &str = r#"{"name":"t","_meta":{"progressToken":1}}"#;

/// Progress on the open call at an instance; what is asked of the store then is not carried out.
fn progress(instances: &mut Instances, at: usize, ticket: &mcp_proto::Ticket, value: f64) {
    let server = &mut instances.servers[at];
    server.server.progress(ticket, &Progress::new(value), server.now);
    server.settle();
}

#[test]
fn events_that_wait_behind_others_when_their_instance_is_stopped_are_stored_for_the_client_to_read_elsewhere() {
    for queued in 0..3 {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let (call, ticket) = instances.call(0, &id, "7", WITH_PROGRESS);
        progress(&mut instances, 0, &ticket, 1.0);
        let begun = instances.take(0, call).ids().pop().expect("an event");
        // One that is being stored, and others behind it.
        for number in 0..=queued {
            progress(&mut instances, 0, &ticket, f64::from(number + 2));
        }
        let appending = instances.servers[0].store_actions.iter();
        assert_eq!(appending.filter(|action| matches!(action, StoreAction::Append { .. })).count(), 1);
        let now = instances.servers[0].now;
        instances.servers[0].server.close(now);
        instances.settle();
        let resumed = instances.ask(1, &resume(&id, &begun));
        instances.pass(Duration::from_secs(30));
        let text = instances.take(1, resumed).text();
        for number in 0..=queued {
            let expected = format!(r#""progress":{}"#, number + 2);
            assert_eq!(text.matches(&expected).count(), 1, "{queued}: {expected} in {text}");
        }
        assert_eq!(text.matches(r#""id":7"#).count(), 1, "and one answer: {text}");
    }
}

#[test]
fn without_replay_no_event_has_an_id() {
    for (instances, has_ids) in [(Instances::with(1, |http, _| http.replay = 0), false), (Instances::new(1), true)] {
        let mut instances = instances;
        let id = instances.session(0, 0, "2025-06-18");
        let stream = instances.ask(0, &get(&id));
        let now = instances.servers[0].now;
        let change = Notification::new("notifications/tools/list_changed");
        instances.servers[0].server.publish(change, now).expect("it is declared");
        instances.settle();
        let (call, ticket) = instances.call(0, &id, "7", WITH_PROGRESS);
        progress(&mut instances, 0, &ticket, 1.0);
        instances.respond(0, ticket, r#"{"content":[]}"#);
        for (exchange, event) in [(stream, "list_changed"), (call, r#""progress":1"#)] {
            let sent = instances.take(0, exchange);
            assert!(sent.text().contains(event), "{}", sent.text());
            assert_eq!(!sent.ids().is_empty(), has_ids, "{}", sent.text());
        }
    }
}

#[test]
fn a_session_that_is_being_opened_is_not_ended_by_a_request_with_its_id() {
    let mut instances = Instances::new(1);
    let server = &mut instances.servers[0];
    let opening = server.ask(&TestRequest::post(initialize("2025-11-25")));
    server.settle();
    let saves = std::mem::take(&mut server.store_actions);
    let [StoreAction::Save { session, .. }] = &saves[..] else { panic!("{saves:?}") };
    let id = session.to_string();
    // No client has it.
    instances.answer(0, &ping(&id));
    instances.servers[0].store_actions.extend(saves);
    instances.settle();
    assert_eq!(instances.take(0, opening).code(), 200);
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200);
}

#[test]
fn a_stream_is_read_on_when_its_client_has_taken_most_of_it_and_looked_at_again_if_not() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (call, ticket) = instances.call(0, &id, "7", WITH_PROGRESS);
    progress(&mut instances, 0, &ticket, 1.0);
    let begun = instances.take(0, call).ids().pop().expect("an event");
    instances.servers[1].is_read = false;
    let resumed = instances.ask(1, &resume(&id, &begun));
    let long = "m".repeat(300 * 1024);
    let report = |instances: &mut Instances, value: f64| {
        let mut progress = Progress::new(value);
        progress.message = Some(long.as_str().into());
        let server = &mut instances.servers[0];
        server.server.progress(&ticket, &progress, server.now);
        instances.settle();
    };
    let events = |instances: &mut Instances| {
        instances.servers[1].peek(resumed).map_or(0, |sent| sent.text().matches(r#""progress":"#).count())
    };
    report(&mut instances, 2.0);
    assert_eq!(events(&mut instances), 1);
    report(&mut instances, 3.0);
    assert_eq!(events(&mut instances), 1, "its client has not taken the first");
    // The client takes it.
    let sent = instances.servers[1].peek(resumed).expect("a stream").body.len();
    let server = &mut instances.servers[1];
    server.server.handle_written(resumed, sent, server.now);
    instances.pass(Duration::from_millis(1));
    assert_eq!(events(&mut instances), 2);
    report(&mut instances, 4.0);
    assert_eq!(events(&mut instances), 2);
    instances.pass(Duration::from_secs(4));
    assert_eq!(events(&mut instances), 2);
    // Nothing was reported for a while.
    instances.pass(Duration::from_secs(1));
    assert_eq!(events(&mut instances), 3);
}
