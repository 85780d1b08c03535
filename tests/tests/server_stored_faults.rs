//! Sessions in a store at awkward moments: streams that move while messages are late or lost, a store that fails between
//! two steps, events larger than a replay, and instances and clients that stop in the middle of a stream.

use std::time::Duration;

use mcp_proto::server::{Config, Event, ExchangeKey, HttpConfig, Progress};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::store::{Record, StoreAction, StoreResult, StoredEvents};
use mcp_proto::{ErrorObject, Json, Notification};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::messages::request;
use tests::instances::{Instances, delete, get, ping, resume, set_level};

/// A call that reports progress, so that its response is a stream.
const WITH_PROGRESS: &str = r#"{"name":"t","_meta":{"progressToken":1}}"#;

/// How long a session may be unused.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// A batch of 2025-03-26 that sets the log level, and calls such a tool.
const SETTING_AND_CALL: &str = r#"[{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1}}}]"#;

fn publish(instances: &mut Instances, at: usize) {
    let now = instances.servers[at].now;
    instances.servers[at].server.publish(Notification::new("notifications/tools/list_changed"), now).unwrap();
    instances.settle();
}

/// A call at the first instance whose response has become a stream; returns the id of its last event, too.
fn streaming_call(instances: &mut Instances, session: &str) -> (ExchangeKey, mcp_proto::Ticket, String) {
    let (exchange, ticket) = instances.call(0, session, "7", WITH_PROGRESS);
    let server = &mut instances.servers[0];
    server.server.progress(&ticket, &Progress::new(1.0), server.now);
    let last = instances.take(0, exchange).ids().pop().unwrap();
    (exchange, ticket, last)
}

/// The GET stream of a session at the first instance, and the id of the event that it has received.
fn opened_stream(instances: &mut Instances, session: &str) -> (ExchangeKey, String) {
    let stream = instances.ask(0, &get(session));
    publish(instances, 0);
    let last = instances.take(0, stream).ids().pop().unwrap();
    (stream, last)
}

/// Carries out what the instances ask of the store, but for the actions that `holds` returns, with the instance.
fn settle_holding(instances: &mut Instances, holds: fn(&StoreAction) -> bool) -> Vec<(usize, StoreAction)> {
    let mut held = Vec::new();
    let mut is_quiet = false;
    while !is_quiet {
        is_quiet = true;
        for at in 0..instances.servers.len() {
            let id = instances.id(at);
            let server = &mut instances.servers[at];
            server.settle();
            for action in std::mem::take(&mut server.store_actions) {
                is_quiet = false;
                if holds(&action) {
                    held.push((at, action));
                    continue;
                }
                let result = instances.store.carry_out(id, &action, server.now);
                if let (Some(key), Some(result)) = (action.key(), result) {
                    server.server.handle_stored(key, result, server.now);
                }
            }
        }
    }
    held
}

/// Carries out the next actions that an instance asks of the store, at most this many.
fn carry_out_next(instances: &mut Instances, at: usize, count: usize) {
    let id = instances.id(at);
    for _ in 0..count {
        let server = &mut instances.servers[at];
        server.settle();
        if server.store_actions.is_empty() {
            return;
        }
        let action = server.store_actions.remove(0);
        let result = instances.store.carry_out(id, &action, server.now);
        if let (Some(key), Some(result)) = (action.key(), result) {
            server.server.handle_stored(key, result, server.now);
        }
    }
}

const fn is_message(action: &StoreAction) -> bool {
    matches!(action, StoreAction::Send { .. })
}

fn level_at(instances: &mut Instances, at: usize) -> Option<LoggingLevel> {
    let session = instances.servers[at].last_session();
    instances.servers[at].server.logging_level(session)
}

#[test]
fn an_answer_larger_than_a_replay_reaches_a_client_that_has_resumed_and_is_connected() {
    for at in 0..2 {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let (exchange, ticket, last) = streaming_call(&mut instances, &id);
        instances.disconnect(0, exchange);
        let resumed = instances.ask(at, &resume(&id, &last));
        assert_eq!(instances.take(at, resumed).code(), 200);
        instances.respond(0, ticket, &format!(r#"{{"content":"{}"}}"#, "x".repeat(300 * 1024)));
        instances.pass(Duration::from_secs(60));
        let sent = instances.take(at, resumed);
        assert_eq!((sent.is_over, sent.data().len()), (true, 1), "{at}");
    }
}

#[test]
fn a_batch_that_sets_something_is_answered_when_its_session_is_ended_meanwhile() {
    for at in 0..2 {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-03-26");
        assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
        let exchange = instances.ask(0, &TestRequest::post(SETTING_AND_CALL).in_session(&id));
        assert_eq!(instances.take(0, exchange).code(), 0);
        assert_eq!(instances.answer(at, &delete(&id)).code(), 204);
        let sent = instances.take(0, exchange);
        assert!(sent.is_over && sent.code() == 200, "{at}: {sent:?}");
        instances.pass(Duration::from_secs(60));
        assert_eq!(instances.servers[0].server.load().to_string(), "nothing", "{at}");
    }
}

#[test]
fn what_waits_for_the_store_when_its_instance_is_stopped_is_refused_with_503() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (exchange, ticket, last) = streaming_call(&mut instances, &id);
    instances.disconnect(0, exchange);
    instances.respond(0, ticket, "{}");
    for (asked, closes) in [(resume(&id, &last), false), (resume(&id, &last), true), (set_level(&id, "error"), true)] {
        let (waiting, held) = instances.ask_and_hold(1, &asked);
        let server = &mut instances.servers[1];
        if closes {
            server.server.close(server.now);
        } else {
            server.server.drain(Duration::from_secs(10), server.now);
        }
        let sent = instances.take(1, waiting);
        assert_eq!(sent.code(), 503, "{held:?}");
        instances.kill(1);
        assert_eq!(instances.answer(1, &ping(&id)).code(), 200, "the session goes on");
    }
}

#[test]
fn a_late_message_about_a_stream_that_has_moved_ends_no_later_one() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 0, "2025-11-25");
    let (_, last) = opened_stream(&mut instances, &id);
    let moved = instances.servers[1].ask(&resume(&id, &last));
    let mut held = settle_holding(&mut instances, is_message);
    assert_eq!((instances.servers[1].take(moved).code(), held.len()), (200, 1), "{held:?}");
    let server = &mut instances.servers[1];
    server.server.handle_disconnect(moved, server.now);
    held.extend(settle_holding(&mut instances, is_message));
    let back = instances.servers[0].ask(&resume(&id, &last));
    held.extend(settle_holding(&mut instances, is_message));
    assert_eq!(instances.servers[0].take(back).code(), 200);
    for (at, action) in held {
        let (from, now) = (instances.id(at), instances.servers[at].now);
        instances.store.carry_out(from, &action, now);
    }
    instances.settle();
    publish(&mut instances, 2);
    let sent = instances.take(0, back);
    assert_eq!((sent.is_over, sent.data().len()), (false, 1));
}

#[test]
fn a_stream_whose_move_was_not_reported_ends_when_its_instance_reads_the_record() {
    let mut instances = Instances::new(3);
    let id = instances.session(0, 0, "2025-11-25");
    let (stream, seen) = opened_stream(&mut instances, &id);
    let resumed = instances.servers[1].ask(&resume(&id, &seen));
    let lost = settle_holding(&mut instances, is_message);
    assert_eq!((instances.take(1, resumed).code(), lost.len()), (200, 1));
    assert_eq!(instances.answer(0, &ping(&id)).code(), 200);
    publish(&mut instances, 2);
    instances.pass(Duration::from_secs(20));
    let [old, new] = [(0, stream), (1, resumed)].map(|(at, exchange)| instances.take(at, exchange));
    assert_eq!((old.is_over, old.data().len(), new.is_over, new.data().len()), (true, 0, false, 1));
}

#[test]
fn a_stream_that_closes_while_the_store_fails_can_be_opened_at_another_instance() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let stream = instances.ask(0, &get(&id));
    assert_eq!(instances.take(0, stream).code(), 200);
    instances.is_reachable = false;
    instances.disconnect(0, stream);
    instances.is_reachable = true;
    instances.pass(Duration::from_secs(5 * 60));
    let stream = instances.ask(1, &get(&id));
    assert_eq!(instances.take(1, stream).code(), 200);
}

#[test]
fn what_is_sent_is_not_sent_again_if_a_change_was_being_written_when_the_stream_closed() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (stream, _) = opened_stream(&mut instances, &id);
    let (asked, save) = instances.ask_and_hold(0, &set_level(&id, "error"));
    let server = &mut instances.servers[0];
    server.server.handle_disconnect(stream, server.now);
    server.settle();
    server.store_actions.insert(0, save);
    assert_eq!(instances.take(0, asked).code(), 200);
    let stream = instances.ask(1, &get(&id));
    let again = instances.take(1, stream);
    assert_eq!((again.code(), again.data().len()), (200, 0));
}

#[test]
fn what_is_sent_is_not_sent_again_if_it_was_sent_at_another_instance_while_the_stream_was_being_opened() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (again, claim) = instances.ask_and_hold(1, &get(&id));
    let (stream, _) = opened_stream(&mut instances, &id);
    instances.disconnect(0, stream);
    publish(&mut instances, 0);
    instances.servers[1].store_actions.insert(0, claim);
    let again = instances.take(1, again);
    assert_eq!((again.code(), again.data().len()), (200, 1), "only what was published since");
    // The record, too, states what was sent.
    let stream = instances.ask(0, &resume(&id, again.ids().last().unwrap()));
    instances.disconnect(0, stream);
    let stream = instances.ask(1, &get(&id));
    assert_eq!(instances.take(1, stream).data().len(), 0);
}

#[test]
fn what_is_sent_is_not_sent_again_while_it_is_written_again_that_the_stream_has_closed() {
    for (fails, steps) in [false, true].into_iter().flat_map(|fails| (0..8).map(move |steps| (fails, steps))) {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let (stream, _) = opened_stream(&mut instances, &id);
        if fails {
            instances.is_reachable = false;
            instances.disconnect(0, stream);
            instances.is_reachable = true;
        }
        // The first instance does not receive that there is a new record.
        let asked = instances.servers[1].ask(&set_level(&id, "error"));
        settle_holding(&mut instances, is_message);
        assert_eq!(instances.servers[1].take(asked).code(), 200);
        let server = &mut instances.servers[0];
        server.server.handle_disconnect(stream, server.now);
        carry_out_next(&mut instances, 0, steps);
        let again = instances.ask(0, &get(&id));
        let again = instances.take(0, again);
        assert_eq!((again.code(), again.data().len()), (200, 0), "{fails} {steps}");
    }
}

#[test]
fn a_stream_that_has_moved_stays_where_it_is_when_its_old_connection_closes() {
    for steps in 0..8 {
        let mut instances = Instances::new(3);
        let id = instances.session(0, 0, "2025-11-25");
        let (stream, last) = opened_stream(&mut instances, &id);
        let resumed = instances.servers[1].ask(&resume(&id, &last));
        settle_holding(&mut instances, is_message);
        assert_eq!(instances.servers[1].take(resumed).code(), 200);
        let server = &mut instances.servers[0];
        server.server.handle_disconnect(stream, server.now);
        carry_out_next(&mut instances, 0, steps);
        assert_eq!(instances.answer(2, &get(&id)).code(), 409, "{steps}");
        publish(&mut instances, 2);
        let sent = instances.take(1, resumed);
        assert_eq!((sent.is_over, sent.data().len()), (false, 1), "{steps}");
    }
}

#[test]
fn a_stream_whose_opening_was_refused_although_it_was_stored_can_be_opened_at_another_instance() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (refused, save) = instances.ask_and_hold(0, &get(&id));
    let (at, key) = (instances.id(0), save.key().unwrap());
    let server = &mut instances.servers[0];
    assert_eq!(instances.store.carry_out(at, &save, server.now), Some(StoreResult::Done));
    server.server.handle_stored(key, StoreResult::Failed, server.now);
    assert_eq!(instances.take(0, refused).code(), 503);
    instances.pass(Duration::from_secs(5 * 60));
    let stream = instances.ask(1, &get(&id));
    assert_eq!(instances.take(1, stream).code(), 200);
}

#[test]
fn a_stream_stays_the_only_one_if_its_resumption_is_refused_because_the_store_fails() {
    for is_stored in [false, true] {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let (stream, last) = opened_stream(&mut instances, &id);
        let (refused, read) = instances.ask_and_hold(0, &resume(&id, &last));
        let at = instances.id(0);
        let server = &mut instances.servers[0];
        let found = instances.store.carry_out(at, &read, server.now).unwrap();
        server.server.handle_stored(read.key().unwrap(), found, server.now);
        server.settle();
        let save = server.store_actions.remove(0);
        assert!(matches!(save, StoreAction::Save { .. }), "{save:?}");
        if is_stored {
            instances.store.carry_out(at, &save, server.now);
        }
        server.server.handle_stored(save.key().unwrap(), StoreResult::Failed, server.now);
        assert_eq!(instances.take(0, refused).code(), 503, "{is_stored}");
        instances.pass(Duration::from_secs(5 * 60));
        assert_eq!(instances.answer(1, &get(&id)).code(), 409, "{is_stored}");
        publish(&mut instances, 1);
        let sent = instances.take(0, stream);
        assert_eq!((sent.is_over, sent.data().len()), (false, 1), "{is_stored}");
    }
}

#[test]
fn a_stream_that_is_opened_while_an_earlier_one_is_being_closed_again_stays_the_only_one() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (stream, _) = opened_stream(&mut instances, &id);
    instances.is_reachable = false;
    instances.disconnect(0, stream);
    instances.is_reachable = true;
    // The closing is tried again after a sixteenth of `IDLE`, which is 112.5 s.
    instances.pass(Duration::from_secs(110));
    let (stream, save) = instances.ask_and_hold(0, &get(&id));
    assert!(matches!(save, StoreAction::Save { .. }), "{save:?}");
    instances.pass(Duration::from_secs(3));
    let server = &mut instances.servers[0];
    server.store_actions.insert(0, save);
    instances.settle();
    assert_eq!(instances.take(0, stream).code(), 200);
    instances.pass(Duration::from_secs(5 * 60));
    assert_eq!(instances.answer(1, &get(&id)).code(), 409);
    publish(&mut instances, 1);
    let sent = instances.take(0, stream);
    assert_eq!((sent.is_over, sent.data().len()), (false, 1));
}

#[test]
fn what_is_sent_is_not_sent_again_after_the_instance_with_the_stream_has_ended() {
    let ends: [fn(&mut Instances); 3] = [
        |instances| instances.kill(0),
        |instances| {
            let server = &mut instances.servers[0];
            server.server.drain(Duration::from_secs(10), server.now);
        },
        |instances| {
            let server = &mut instances.servers[0];
            server.server.close(server.now);
            instances.settle();
            instances.kill(0);
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        // Another client asks for the stream before, and is gone after this many steps of the store.
        for steps in [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)] {
            let mut instances = Instances::new(4);
            let id = instances.session(0, 0, "2025-11-25");
            opened_stream(&mut instances, &id);
            end(&mut instances);
            instances.settle();
            if let Some(steps) = steps {
                let gone = instances.servers[1].ask(&get(&id));
                carry_out_next(&mut instances, 1, steps);
                instances.disconnect(1, gone);
            }
            let stream = instances.ask(2, &get(&id));
            let again = instances.take(2, stream);
            assert_eq!((again.code(), again.data().len()), (200, 0), "{number} {steps:?}");
            publish(&mut instances, 3);
            assert_eq!(instances.take(2, stream).data().len(), 1, "{number} {steps:?}");
        }
    }
}

#[test]
fn of_two_get_streams_that_are_opened_at_the_same_time_at_two_instances_one_is_refused() {
    let steps = (0..6).flat_map(|first| (0..8).map(move |second| (first, second)));
    let cases = steps.flat_map(|steps| [(steps, false), (steps, true)]);
    // The second instance changes a setting, too, before its stream is asked for or after that.
    for (((first, second), has_record), setting) in cases.flat_map(|case| [None, Some(0), Some(1)].map(|at| (case, at)))
    {
        let what = format!("{first} {second} {has_record} {setting:?}");
        let mut instances = Instances::new(3);
        let id = instances.session(0, 0, "2025-11-25");
        if has_record {
            assert_eq!([1, 2].map(|at| instances.answer(at, &ping(&id)).code()), [200; 2]);
        }
        let mut asked = vec![(1, instances.servers[1].ask(&get(&id)))];
        let mut at_second = vec![get(&id)];
        if let Some(index) = setting {
            at_second.insert(index, set_level(&id, "error"));
        }
        asked.extend(at_second.iter().map(|request| (2, instances.servers[2].ask(request))));
        carry_out_next(&mut instances, 1, first);
        carry_out_next(&mut instances, 2, second);
        instances.settle();
        if let Some(index) = setting {
            let (at, exchange) = asked.remove(1 + index);
            assert_eq!(instances.take(at, exchange).code(), 200, "{what}");
        }
        let mut codes: Vec<_> = asked.iter().map(|(at, exchange)| instances.take(*at, *exchange).code()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [200, 409], "{what}");
        publish(&mut instances, 0);
        instances.pass(Duration::from_secs(60));
        let received: Vec<_> = asked.iter().map(|(at, exchange)| instances.take(*at, *exchange).data().len()).collect();
        assert_eq!(received.iter().sum::<usize>(), 1, "{what}: {received:?}");
    }
}

#[test]
fn a_get_stream_whose_client_leaves_before_it_is_opened_ends_no_other_one() {
    for (first, second) in (0..6).flat_map(|first| (0..8).map(move |second| (first, second))) {
        let mut instances = Instances::new(3);
        let id = instances.session(0, 0, "2025-11-25");
        let stays = instances.servers[1].ask(&get(&id));
        let leaves = instances.servers[2].ask(&get(&id));
        carry_out_next(&mut instances, 1, first);
        carry_out_next(&mut instances, 2, second);
        let server = &mut instances.servers[2];
        let is_opened = server.take(leaves).status.is_some();
        server.server.handle_disconnect(leaves, server.now);
        instances.settle();
        let opened = instances.take(1, stays);
        // The other one may have been the first.
        assert!(opened.code() == 200 || opened.code() == 409, "{first} {second}");
        if opened.code() == 200 && !is_opened {
            assert!(!opened.is_over, "{first} {second}");
            publish(&mut instances, 0);
            assert_eq!(instances.take(1, stays).data().len(), 1, "{first} {second}");
        }
    }
}

#[test]
fn a_resumption_that_is_refused_changes_nothing() {
    for at in 0..2 {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let (stream, last) = opened_stream(&mut instances, &id);
        let unknown = format!("{}-100", last.split_once('-').unwrap().0);
        // While the stream is open, and after it.
        assert_eq!(instances.answer(0, &resume(&id, &unknown)).code(), 400);
        assert!(!instances.take(0, stream).is_over);
        instances.disconnect(0, stream);
        publish(&mut instances, 0);
        assert_eq!(instances.answer(1, &resume(&id, &unknown)).code(), 400);
        let stream = instances.ask(at, &get(&id));
        assert_eq!(instances.take(at, stream).data().len(), 1, "{at}");
    }
}

#[test]
fn a_get_stream_whose_first_events_were_removed_goes_on() {
    let mut instances = Instances::with(1, |http, config| {
        http.replay = 300;
        config.limits.message = 300;
    });
    let id = instances.session(0, 0, "2025-11-25");
    for _ in 0..10 {
        publish(&mut instances, 0);
    }
    let stream = instances.ask(0, &get(&id));
    assert_eq!(instances.take(0, stream).data().len(), 0, "a replay is complete or does not begin");
    for _ in 0..2 {
        publish(&mut instances, 0);
        instances.pass(Duration::from_secs(6));
    }
    assert_eq!(instances.take(0, stream).data().len(), 2);
}

#[test]
fn a_stream_that_waits_for_the_store_when_it_moves_or_its_place_is_needed_has_a_response() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (stream, last) = opened_stream(&mut instances, &id);
    instances.disconnect(0, stream);
    let (waiting, _) = instances.ask_and_hold(0, &resume(&id, &last));
    let moved = instances.ask(1, &resume(&id, &last));
    assert_eq!(instances.take(1, moved).code(), 200);
    instances.pass(Duration::from_secs(6));
    assert_eq!(instances.take(0, waiting).code(), 503);

    let mut instances = Instances::with(1, |http, _| http.max_streams = Some(3));
    let ids = [1, 2, 3].map(|_| instances.session(0, 0, "2025-11-25"));
    let other = instances.session(0, 0, "2025-11-25");
    let waiting = ids.each_ref().map(|id| instances.ask_and_hold(0, &get(id).from(1)).0);
    let _ = instances.ask_and_hold(0, &get(&other).from(2));
    let codes = waiting.map(|exchange| instances.servers[0].take(exchange).code());
    assert_eq!(codes.iter().filter(|code| **code == 503).count(), 1, "{codes:?}");
}

#[test]
fn a_stream_that_the_store_has_failed_for_is_not_ended_for_its_client_to_resume() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", WITH_PROGRESS);
    instances.is_reachable = false;
    let server = &mut instances.servers[0];
    server.server.progress(&ticket, &Progress::new(1.0), server.now);
    instances.settle();
    instances.is_reachable = true;
    let server = &mut instances.servers[0];
    server.server.release(&ticket, server.now);
    instances.respond(0, ticket, "{}");
    assert!(instances.take(0, exchange).text().contains(r#""id":7"#));
}

#[test]
fn a_stream_that_the_store_has_a_part_of_is_not_resumed() {
    for (is_carried_out, result) in
        [(false, StoreResult::Failed), (true, StoreResult::Failed), (false, StoreResult::Conflict)]
    {
        for is_answered in [false, true] {
            let mut instances = Instances::new(2);
            let id = instances.session(0, 0, "2025-11-25");
            let (exchange, ticket, last) = streaming_call(&mut instances, &id);
            let own = instances.id(0);
            let server = &mut instances.servers[0];
            server.server.progress(&ticket, &Progress::new(2.0), server.now);
            server.settle();
            let append = server.store_actions.remove(0);
            assert!(matches!(append, StoreAction::Append { .. }), "{append:?}");
            if is_carried_out {
                instances.store.carry_out(own, &append, server.now);
            }
            server.server.handle_stored(append.key().unwrap(), result.clone(), server.now);
            instances.settle();
            if is_answered {
                instances.respond(0, ticket, "{}");
            }
            let sent = instances.take(0, exchange);
            assert_eq!((sent.is_over, sent.data().len()), (is_answered, 1 + usize::from(is_answered)), "{sent:?}");
            for at in [1, 0] {
                let refused = instances.answer(at, &resume(&id, &last));
                assert_eq!(refused.code(), 400, "{result:?} {is_carried_out} {is_answered} {at}");
            }
        }
    }
}

#[test]
fn a_setting_that_is_acknowledged_on_a_stream_without_replay_is_stored() {
    let mut instances = Instances::with(2, |http, _| http.replay = 0);
    let id = instances.session(0, 0, "2025-03-26");
    let exchange = instances.ask(0, &TestRequest::post(SETTING_AND_CALL).in_session(&id));
    let ticket = instances.servers[0].ticket();
    let server = &mut instances.servers[0];
    server.server.progress(&ticket, &Progress::new(1.0), server.now);
    instances.respond(0, ticket, "{}");
    let sent = instances.take(0, exchange);
    assert!(sent.is_over && sent.text().contains(r#""id":1,"result""#), "{sent:?}");
    instances.answer(1, &ping(&id));
    assert_eq!(level_at(&mut instances, 1), Some(LoggingLevel::Error));
}

#[test]
fn a_setting_whose_client_has_disconnected_before_the_answer_is_stored() {
    for has_stream in [false, true] {
        for replay in [0, 1 << 20] {
            let change: fn(&mut HttpConfig, &mut Config) =
                if replay == 0 { |http, _| http.replay = 0 } else { |_, _| {} };
            let mut instances = Instances::with(2, change);
            let id = instances.session(0, 0, "2025-03-26");
            let exchange = instances.ask(0, &TestRequest::post(SETTING_AND_CALL).in_session(&id));
            let ticket = instances.servers[0].ticket();
            if has_stream {
                let server = &mut instances.servers[0];
                server.server.progress(&ticket, &Progress::new(1.0), server.now);
                instances.settle();
            }
            instances.disconnect(0, exchange);
            instances.answer(1, &ping(&id));
            assert_eq!(level_at(&mut instances, 1), Some(LoggingLevel::Error), "{has_stream} {replay}");
            instances.respond(0, ticket, "{}");
            assert_eq!(level_at(&mut instances, 0), Some(LoggingLevel::Error), "{has_stream} {replay}");
        }
    }
}

#[test]
fn a_subscription_that_the_application_accepts_after_its_client_has_disconnected_is_stored() {
    let subscribe = |method: &str| request("9", &format!("resources/{method}"), r#"{"uri":"file:///a"}"#);
    let subscriptions = |instances: &mut Instances, id: &str| {
        [0, 1].map(|at| {
            assert_eq!(instances.answer(at, &ping(id)).code(), 200);
            instances.servers[at].server.load().subscriptions
        })
    };
    for (version, is_batch) in [("2025-11-25", false), ("2025-03-26", false), ("2025-03-26", true)] {
        for has_stream in [false, true] {
            for replay in [0, 1 << 20] {
                let change: fn(&mut HttpConfig, &mut Config) = if replay == 0 {
                    |http, config| (http.replay, config.reports_subscribe) = (0, true)
                } else {
                    |_, config| config.reports_subscribe = true
                };
                let mut instances = Instances::with(2, change);
                let id = instances.session(0, 0, version);
                for (method, accepted, expected) in [
                    ("subscribe", false, 0),
                    ("subscribe", true, 1),
                    ("unsubscribe", false, 1),
                    ("unsubscribe", true, 0),
                ] {
                    let text = subscribe(method);
                    let text = if is_batch { format!("[{text}]") } else { text };
                    let exchange = instances.ask(0, &TestRequest::post(text).in_session(&id));
                    let ticket = instances.servers[0].ticket();
                    if has_stream {
                        let server = &mut instances.servers[0];
                        let message = Notification::new("notifications/x");
                        server.server.notify(&ticket, message, server.now).unwrap();
                        instances.settle();
                    }
                    instances.disconnect(0, exchange);
                    let server = &mut instances.servers[0];
                    let answer = if accepted { Ok(Json::empty_object()) } else { Err(ErrorObject::new(-32002, "no")) };
                    server.server.respond(ticket, answer, server.now).unwrap();
                    instances.settle();
                    let found = subscriptions(&mut instances, &id);
                    assert_eq!(found, [expected; 2], "{version} {is_batch} {has_stream} {replay} {method} {accepted}");
                }
            }
        }
    }
}

#[test]
fn settings_that_wait_while_another_instance_writes_are_in_force_when_they_are_answered() {
    let subscribe = |id: &str, uri: &str| {
        TestRequest::post(request("9", "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#))).in_session(id)
    };
    for order in [[0, 1], [1, 0]] {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let asked = [set_level(&id, "error"), subscribe(&id, "file:///a")];
        let (first, save) = instances.ask_and_hold(0, &asked[order[0]]);
        let second = instances.servers[0].ask(&asked[order[1]]);
        carry_out_next(&mut instances, 0, 1);
        assert_eq!(instances.answer(1, &subscribe(&id, "file:///b")).code(), 200);
        let in_force = |instances: &mut Instances, at: usize| {
            (level_at(instances, at), instances.servers[at].server.load().subscriptions)
        };
        let expected = (Some(LoggingLevel::Error), 2);
        assert_eq!(in_force(&mut instances, 0), expected, "{order:?}");
        // The conflict, and the record of the other instance.
        instances.servers[0].store_actions.push(save);
        carry_out_next(&mut instances, 0, 2);
        assert_eq!(in_force(&mut instances, 0), expected, "{order:?}");
        assert!(matches!(instances.servers[0].store_actions[..], [StoreAction::Save { .. }]));
        instances.settle();
        for exchange in [first, second] {
            assert_eq!(instances.take(0, exchange).code(), 200, "{order:?}");
        }
        for at in 0..2 {
            assert_eq!(in_force(&mut instances, at), expected, "{order:?} {at}");
            assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
        }
    }
}

#[test]
fn a_setting_is_in_force_when_it_is_answered_whatever_another_instance_sets_before() {
    for has_stream in [false, true] {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-03-26");
        let exchange = instances.ask(0, &TestRequest::post(SETTING_AND_CALL).in_session(&id));
        let ticket = instances.servers[0].ticket();
        if has_stream {
            let server = &mut instances.servers[0];
            server.server.progress(&ticket, &Progress::new(1.0), server.now);
            instances.settle();
        }
        let subscribed = request("9", "resources/subscribe", r#"{"uri":"file:///b"}"#);
        assert_eq!(instances.answer(1, &TestRequest::post(subscribed).in_session(&id)).code(), 200);
        assert_eq!(instances.answer(0, &ping(&id)).code(), 200);
        assert_eq!(level_at(&mut instances, 0), Some(LoggingLevel::Error), "{has_stream}");
        instances.respond(0, ticket, "{}");
        let sent = instances.take(0, exchange);
        assert!(sent.is_over && sent.text().contains(r#""id":1,"result""#), "{sent:?}");
        assert_eq!(level_at(&mut instances, 0), Some(LoggingLevel::Error), "{has_stream}");
        assert_eq!(instances.servers[0].server.load().subscriptions, 1, "{has_stream}");
        assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
        assert_eq!(level_at(&mut instances, 1), Some(LoggingLevel::Error), "{has_stream}");
    }
}

#[test]
fn settings_that_are_stored_in_another_order_than_they_were_made_are_the_same_at_every_instance() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-03-26");
    let exchange = instances.ask(0, &TestRequest::post(SETTING_AND_CALL).in_session(&id));
    let ticket = instances.servers[0].ticket();
    assert_eq!(instances.answer(0, &set_level(&id, "debug")).code(), 200);
    instances.respond(0, ticket, "{}");
    assert_eq!(instances.take(0, exchange).code(), 200);
    let here = level_at(&mut instances, 0);
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
    assert!(here.is_some() && here == level_at(&mut instances, 1), "{here:?}");
}

#[test]
fn a_log_level_is_in_force_for_a_call_that_another_instance_serves() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    instances.ask(1, &get(&id));
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t"}"#);
    assert_eq!(instances.answer(1, &set_level(&id, "error")).code(), 200);
    let server = &mut instances.servers[0];
    server.server.log(&ticket, LoggingLevel::Debug, None, &Json::from("x"), server.now).unwrap();
    assert!(instances.take(0, exchange).data().is_empty());
}

#[test]
fn a_session_is_kept_for_its_whole_idle_time_after_a_call() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (exchange, ticket) = instances.call(0, &id, "7", r#"{"name":"t"}"#);
    instances.pass(Duration::from_secs(14 * 60));
    instances.respond(0, ticket, "{}");
    assert_eq!(instances.take(0, exchange).code(), 200);
    instances.pass(Duration::from_secs(20 * 60));
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
}

#[test]
fn a_call_that_is_longer_than_the_idle_time_is_resumed_at_another_instance() {
    for (is_connected, has_failed) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut instances = Instances::new(2);
        let id = instances.session(0, 0, "2025-11-25");
        let (exchange, ticket, last) = streaming_call(&mut instances, &id);
        if !is_connected {
            instances.disconnect(0, exchange);
        }
        if has_failed {
            // When it keeps the session and the stream for the first time.
            instances.pass((IDLE / 2).saturating_sub(Duration::from_secs(1)));
            instances.is_reachable = false;
            instances.pass(Duration::from_secs(10));
            instances.is_reachable = true;
        }
        instances.pass(IDLE * 3);
        let resumed = instances.ask(1, &resume(&id, &last));
        assert_eq!(instances.take(1, resumed).code(), 200, "{is_connected} {has_failed}");
        instances.respond(0, ticket, "{}");
        let sent = instances.take(1, resumed);
        assert!(sent.is_over && sent.data().len() == 1, "{is_connected} {has_failed}: {sent:?}");
        assert!(sent.text().contains(r#""id":7,"result""#), "{sent:?}");
    }
}

#[test]
fn a_record_that_was_written_can_be_read() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    for number in 0..8 {
        // Six bytes of JSON for each byte of the name.
        let uri = format!("file:///{number}{}", r"\u0001".repeat(4000));
        let asked = request("9", "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#));
        assert_eq!(instances.answer(0, &TestRequest::post(asked).in_session(&id)).code(), 200, "{number}");
    }
    assert_eq!([0, 1].map(|at| instances.answer(at, &ping(&id)).code()), [200; 2]);
}

#[test]
fn a_session_that_its_application_has_ended_is_ended_although_the_store_has_failed() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    assert_eq!(instances.answer(1, &ping(&id)).code(), 200);
    let session = instances.servers[0].last_session();
    instances.is_reachable = false;
    let server = &mut instances.servers[0];
    server.server.end(session, server.now);
    instances.pass(Duration::from_secs(30));
    instances.is_reachable = true;
    instances.pass(Duration::from_secs(30));
    assert_eq!([0, 1].map(|at| instances.answer(at, &ping(&id)).code()), [404; 2]);
    assert!(instances.servers[1].events().iter().any(|event| matches!(event, Event::Closed { .. })));
}

#[test]
fn a_store_that_is_not_reached_for_the_idle_time_is_not_asked_to_end_a_session_any_more() {
    let mut instances = Instances::new(1);
    instances.session(0, 0, "2025-11-25");
    let session = instances.servers[0].last_session();
    instances.is_reachable = false;
    let server = &mut instances.servers[0];
    server.server.end(session, server.now);
    instances.pass(Duration::from_secs(40 * 60));
    assert_eq!(instances.servers[0].server.poll_timeout(), None);
}

#[test]
fn messages_that_wait_for_the_store_are_counted_and_limited_in_sum() {
    let mut instances = Instances::with(1, |_, config| config.limits.held = 1 << 20);
    instances.session(0, 0, "2025-11-25");
    let session = instances.servers[0].last_session();
    let server = &mut instances.servers[0];
    let params = Json::parse(format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000))).unwrap();
    for _ in 0..100 {
        let message = Notification::with_params("notifications/x", params.clone());
        let _ = server.server.notify(session, message, server.now);
        server.settle();
    }
    let (actions, held) = (server.store_actions.len(), server.server.load().unwritten);
    assert!((5..=11).contains(&actions) && held >= actions * 100_000, "{actions} actions, {held} bytes");
    instances.settle();
    assert_eq!(instances.servers[0].server.load().unwritten, 0);
}

/// What the store answers to an action that was repeated has no effect.
#[test]
fn an_answer_of_the_store_that_comes_twice_is_ignored() {
    let mut instances = Instances::new(1);
    let id = instances.session(0, 0, "2025-11-25");
    let server = &mut instances.servers[0];
    let exchange = server.ask(&ping(&id));
    let load = server.store_actions.remove(0);
    for _ in 0..2 {
        server.server.handle_stored(load.key().unwrap(), StoreResult::Failed, server.now);
    }
    assert_eq!(server.take(exchange).code(), 503);
}

/// Asks an instance, whose store returns this record for the session instead of the real one.
fn ask_with(instances: &mut Instances, asked: &TestRequest, change: impl Fn(&mut Record)) -> TestResponse {
    let id = instances.id(0);
    let server = &mut instances.servers[0];
    let exchange = server.ask(asked);
    let mut is_quiet = false;
    while !is_quiet {
        is_quiet = true;
        for action in std::mem::take(&mut server.store_actions) {
            is_quiet = false;
            let result = match (&action, instances.store.carry_out(id, &action, server.now)) {
                (_, Some(StoreResult::Loaded(Some(mut record)))) => {
                    change(&mut record);
                    Some(StoreResult::Loaded(Some(record)))
                }
                (StoreAction::Save { .. }, Some(_)) => Some(StoreResult::Done),
                (_, result) => result,
            };
            if let (Some(key), Some(result)) = (action.key(), result) {
                server.server.handle_stored(key, result, server.now);
            }
        }
        server.settle();
    }
    server.take(exchange)
}

/// What damages a record.
fn boxed(change: impl Fn(&mut Record) + 'static) -> Box<dyn Fn(&mut Record)> {
    Box::new(change)
}

#[test]
fn a_record_with_numbers_that_no_server_has_written_costs_its_session_and_nothing_else() {
    let replaced = |text: &'static str, by: &'static str| {
        move |record: &mut Record| {
            let old = String::from_utf8(record.bytes.to_vec()).unwrap();
            assert!(old.contains(text), "{old}");
            record.bytes = old.replacen(text, by, 1).into();
        }
    };
    let versions = [0, 1 << 53, u64::MAX - 1, u64::MAX].map(|version| {
        let change = move |record: &mut Record| record.version = version;
        (format!("version {version}"), boxed(change))
    });
    let last = (1 << 53) - 1;
    let changes = [
        ("sent", boxed(replaced(r#""n":0"#, r#""n":18446744073709551615"#))),
        ("next request", boxed(replaced(r#""f":1"#, r#""f":1,"n":18446744073709551615"#))),
        ("next event", boxed(replaced(r#""f":1"#, r#""f":1,"e":9007199254740992"#))),
        ("instance", boxed(replaced(r#""i":"0"#, r#""i":"x"#))),
        ("no state", boxed(|record| record.bytes = "{".into())),
        ("nothing", boxed(|record| record.bytes = "".into())),
    ];
    for (damage, change) in versions.into_iter().chain(changes.map(|(name, change)| (name.to_owned(), change))) {
        for asks in [ping as fn(&str) -> TestRequest, |id| set_level(id, "error"), get] {
            let mut instances = Instances::new(1);
            let (id, other) = (instances.session(0, 0, "2025-11-25"), instances.session(0, 0, "2025-11-25"));
            let refused = ask_with(&mut instances, &asks(&id), &*change);
            assert_eq!(refused.code(), 404, "{damage}: {refused:?}");
            for asked in [ping(&other), set_level(&other, "error")] {
                assert_eq!(instances.answer(0, &asked).code(), 200, "{damage}");
            }
        }
    }
    // The last version that is read.
    let mut instances = Instances::new(1);
    let id = instances.session(0, 0, "2025-11-25");
    for level in ["error", "info"] {
        let set = ask_with(&mut instances, &set_level(&id, level), |record| record.version = last);
        assert_eq!(set.code(), 200);
    }
}

#[test]
fn a_client_that_names_an_event_with_the_highest_number_is_refused() {
    let mut instances = Instances::new(2);
    let id = instances.session(0, 0, "2025-11-25");
    let (_, _, last) = streaming_call(&mut instances, &id);
    let (tag, _) = last.split_once('-').unwrap();
    let (_, event) = opened_stream(&mut instances, &id);
    let (get_tag, _) = event.split_once('-').unwrap();
    for tag in [tag, get_tag] {
        for number in [u64::MAX, u64::MAX - 1, 1 << 53] {
            let refused = instances.answer(1, &resume(&id, &format!("{tag}-{number}")));
            assert_eq!(refused.code(), 400, "{tag}-{number}");
        }
    }
}

#[test]
fn events_that_no_server_can_have_stored_cost_their_stream_and_nothing_else() {
    for (first, text) in [(u64::MAX, &b"{}"[..]), (u64::MAX - 1, b"{}"), ((1 << 53) - 1, b"{}"), (1, b"\xff")] {
        let mut instances = Instances::new(2);
        let (id, other) = (instances.session(0, 0, "2025-11-25"), instances.session(0, 0, "2025-11-25"));
        let (exchange, _, last) = streaming_call(&mut instances, &id);
        instances.disconnect(0, exchange);
        let (resumed, held) = instances.ask_and_hold(1, &resume(&id, &last));
        let server = &mut instances.servers[1];
        let events = StoredEvents { first, events: vec!["{}".into(), text.into()], ..StoredEvents::default() };
        server.server.handle_stored(held.key().unwrap(), StoreResult::Events(Some(events)), server.now);
        assert_eq!(server.take(resumed).code(), 400, "{first}");
        assert_eq!(instances.answer(1, &ping(&other)).code(), 200, "{first}");
        assert_eq!(instances.answer(1, &ping(&id)).code(), 200, "{first}");
    }
}

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

#[test]
fn a_session_whose_id_is_in_the_store_already_is_not_opened() {
    let mut instances = Instances::new(1);
    let server = &mut instances.servers[0];
    let opening = server.ask(&TestRequest::post(initialize("2025-11-25")));
    let saves = std::mem::take(&mut server.store_actions);
    let [StoreAction::Save { key, expected: 0, .. }] = saves[..] else { panic!("{saves:?}") };
    server.server.handle_stored(key, StoreResult::Conflict, server.now);
    server.settle();
    assert_eq!(server.store_actions, [], "the other session is left alone");
    assert_eq!((server.take(opening).code(), server.server.sessions()), (503, 0));
}

#[test]
fn an_abandoned_stream_is_ended_once() {
    let mut instances = Instances::new(1);
    let id = instances.session(0, 0, "2025-11-25");
    let (exchange, ticket, last) = streaming_call(&mut instances, &id);
    instances.disconnect(0, exchange);
    instances.is_reachable = false;
    progress(&mut instances, 0, &ticket, 2.0);
    instances.settle();
    instances.is_reachable = true;
    let resumed = instances.servers[0].ask(&resume(&id, &last));
    let ends = settle_holding(&mut instances, |action| matches!(action, StoreAction::Append { .. }));
    assert_eq!(ends.len(), 1, "{ends:?}");
    instances.servers[0].store_actions.extend(ends.into_iter().map(|(_, action)| action));
    let sent = instances.take(0, resumed);
    assert!(sent.is_over && sent.data().len() == 1, "{sent:?}");
}
