//! Sessions of a gateway that share a process.

use std::time::Duration;

use mcp_intermediary::gateway::{BackendKey, Event, Sharing};
use mcp_intermediary::relay;
use mcp_proto::server::{ExchangeKey, Principal};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{INITIALIZED, initialize_with, request, result};
use tests::gateway::{GatewayHarness, id_of};

/// The capabilities of the process.
const CAPABILITIES: &str = r#"{"logging":{},"resources":{"subscribe":true},"tools":{"listChanged":true}}"#;

fn gateway(sharing: Sharing) -> GatewayHarness {
    GatewayHarness::with(|config| {
        config.sharing = sharing;
        config.unused_timeout = Duration::from_secs(10);
    })
}

/// A request to open a session, with these capabilities of the client.
fn opening(version: &str, capabilities: &str) -> TestRequest {
    TestRequest::post(initialize_with("0", version, capabilities))
}

/// The process answers `initialize`.
fn initialized(gateway: &mut GatewayHarness, process: BackendKey) -> String {
    let line = gateway.lines(process).concat();
    let opened = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{CAPABILITIES}}}"#);
    gateway.reply(process, &result(id_of(&line), &opened));
    line
}

/// The id of the session that was opened on an exchange; its client confirms it.
fn confirmed(gateway: &mut GatewayHarness, exchange: ExchangeKey) -> String {
    let opened = gateway.responses.take(exchange);
    assert_eq!(opened.code(), 200, "{}", opened.text());
    let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
    assert_eq!(gateway.answer(&TestRequest::post(INITIALIZED).in_session(&id)).code(), 202);
    id
}

/// Sessions of clients with these capabilities that share a process, which has received their `initialize` already.
fn sharing<const N: usize>(capabilities: [&str; N]) -> (GatewayHarness, BackendKey, [String; N]) {
    let mut gateway = gateway(Sharing::Shared);
    let exchanges = capabilities.map(|capabilities| gateway.ask(&opening("2025-11-25", capabilities)));
    let process = gateway.last_started();
    initialized(&mut gateway, process);
    let ids = exchanges.map(|exchange| confirmed(&mut gateway, exchange));
    gateway.lines(process);
    (gateway, process, ids)
}

/// Sends a request in a session; returns its exchange and the id with which the process has received it.
fn asked(
    gateway: &mut GatewayHarness,
    id: &str,
    process: BackendKey,
    method: &str,
    params: &str,
) -> (ExchangeKey, String) {
    let exchange = gateway.ask(&TestRequest::post(request("7", method, params)).in_session(id));
    let line = gateway.lines(process).concat();
    (exchange, if line.is_empty() { line } else { id_of(&line).to_owned() })
}

/// Streams for messages that belong to no request.
fn streams<const N: usize>(gateway: &mut GatewayHarness, ids: &[String; N]) -> [ExchangeKey; N] {
    ids.each_ref().map(|id| gateway.ask(&TestRequest::get().in_session(id)))
}

#[test]
fn a_process_that_is_shared_is_started_and_opened_once() {
    let mut gateway = gateway(Sharing::Shared);
    // Two sessions wait for it, of clients of different revisions.
    let first = gateway.ask(&opening("2025-06-18", r#"{"roots":{},"sampling":{},"tasks":{}}"#).by("ada"));
    let second = gateway.ask(&opening("2025-11-25", "{}"));
    let process = gateway.last_started();
    assert_eq!((gateway.starts(), gateway.principal(process)), (1, None), "it is not that of one client");
    let line = initialized(&mut gateway, process);
    // The newest revision, and no roots, which would be those of one client.
    assert!(line.contains(r#""protocolVersion":"2025-11-25","capabilities":{"sampling":{}}"#), "{line}");
    let opened = gateway.responses.take(first);
    let expected = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{CAPABILITIES}}}"#);
    assert_eq!(opened.text(), result("0", &expected));
    let second = confirmed(&mut gateway, second);
    // A later session is answered at once, and its confirmation goes no further.
    let third = gateway.ask(&opening("2025-11-25", "{}"));
    let third = confirmed(&mut gateway, third);
    assert_eq!(gateway.lines(process), [INITIALIZED]);
    assert_eq!((gateway.starts(), gateway.gateway.sessions()), (1, 3));

    // Equal ids in several sessions.
    let calls = [&second, &third].map(|id| asked(&mut gateway, id, process, "tools/call", r#"{"n":1.0}"#));
    for (at, (_, id)) in calls.iter().enumerate().rev() {
        gateway.reply(process, &result(id, &format!(r#"{{"at":{at}}}"#)));
    }
    let answers = calls.map(|(exchange, _)| gateway.responses.take(exchange).text());
    assert_eq!(answers, [0, 1].map(|at| result("7", &format!(r#"{{"at":{at}}}"#))));
}

#[test]
fn sessions_that_wait_for_a_process_fail_with_it() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"no licence"}}"#;
    for is_refused in [true, false] {
        let mut gateway = gateway(Sharing::Shared);
        let waiting = [(); 3].map(|()| gateway.ask(&TestRequest::post(initialize("2025-11-25"))));
        let process = gateway.last_started();
        gateway.disconnect(waiting[0]);
        if is_refused {
            gateway.lines(process);
            gateway.reply(process, refusal);
        } else {
            gateway.exit(process);
        }
        for exchange in &waiting[1..] {
            let refused = gateway.responses.take(*exchange);
            assert!(refused.is_over && refused.text().contains(r#""error""#), "{}", refused.text());
            assert_eq!(refused.text().contains("no licence"), is_refused);
        }
        assert_eq!(gateway.gateway.sessions(), 0);
        if is_refused {
            assert_eq!(gateway.processes(), [(process, true)], "the next session has another process");
            gateway.stopped(process);
            gateway.session();
        }
    }
}

#[test]
fn changes_go_to_the_sessions_that_they_concern() {
    let (mut gateway, process, ids) = sharing(["{}", "{}", "{}"]);
    let streams = streams(&mut gateway, &ids);
    let watch = r#"{"uri":"a:b"}"#;
    // Two sessions subscribe, at the process once.
    let (first, id) = asked(&mut gateway, &ids[0], process, "resources/subscribe", watch);
    let (second, none) = asked(&mut gateway, &ids[1], process, "resources/subscribe", watch);
    assert!(none.is_empty() && gateway.responses.peek(first).is_none());
    gateway.reply(process, &result(&id, "{}"));
    assert_eq!(
        [first, second].map(|exchange| gateway.responses.take(exchange).text()),
        [(); 2].map(|()| result("7", "{}"))
    );
    let list = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#;
    let other = updated.replace("a:b", "a:c");
    for line in [list, updated, &other] {
        gateway.reply(process, line);
    }
    let received = streams.map(|stream| gateway.responses.take(stream).data());
    assert_eq!(received, [vec![list, updated], vec![list, updated], vec![list]]);
    // A third one is answered at once, and the last one unsubscribes at the process.
    let (third, none) = asked(&mut gateway, &ids[2], process, "resources/subscribe", watch);
    assert_eq!((gateway.responses.take(third).text(), none.as_str()), (result("7", "{}"), ""));
    let (_, none) = asked(&mut gateway, &ids[0], process, "resources/unsubscribe", watch);
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&ids[1])).code(), 204);
    assert!(none.is_empty() && gateway.lines(process).is_empty());
    gateway.reply(process, updated);
    let received = streams.map(|stream| gateway.responses.take(stream).data().len());
    assert_eq!(received, [0, 0, 1]);
    let (exchange, id) = asked(&mut gateway, &ids[2], process, "resources/unsubscribe", watch);
    assert!(!id.is_empty() && gateway.responses.take(exchange).text() == result("7", "{}"));
}

#[test]
fn a_subscription_that_the_process_refuses_is_refused_to_each_session_and_asked_for_again() {
    let (mut gateway, process, ids) = sharing(["{}", "{}"]);
    for _ in 0..2 {
        let (first, id) = asked(&mut gateway, &ids[0], process, "resources/subscribe", r#"{"uri":"a:b"}"#);
        let (second, _) = asked(&mut gateway, &ids[1], process, "resources/subscribe", r#"{"uri":"a:b"}"#);
        gateway.reply(process, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32002,"message":"m"}}}}"#));
        for exchange in [first, second] {
            assert!(gateway.responses.take(exchange).text().contains("-32002"));
        }
    }
    let (exchange, none) = asked(&mut gateway, &ids[0], process, "resources/subscribe", "{}");
    assert!(none.is_empty() && gateway.responses.take(exchange).text().contains("-32602"));
    // At most 512 for one session (MD-L-14).
    let mut refused = 0;
    for number in 0..513 {
        let params = format!(r#"{{"uri":"a:{number}"}}"#);
        let (exchange, id) = asked(&mut gateway, &ids[0], process, "resources/subscribe", &params);
        if id.is_empty() {
            assert!(gateway.responses.take(exchange).text().contains("too many subscriptions"));
            refused += 1;
        } else {
            gateway.reply(process, &result(&id, "{}"));
        }
    }
    assert_eq!(refused, 1);
}

#[test]
fn the_process_has_the_most_verbose_log_level_and_each_session_its_own() {
    let (mut gateway, process, ids) = sharing(["{}", "{}"]);
    let set = |gateway: &mut GatewayHarness, at: usize, level: &str| {
        let params = format!(r#"{{"level":"{level}"}}"#);
        let exchange = gateway.ask(&TestRequest::post(request("7", "logging/setLevel", &params)).in_session(&ids[at]));
        let answer = gateway.responses.take(exchange).text();
        let lines = gateway.lines(process).concat();
        let passed =
            lines.split_once(r#""level":""#).map(|(_, level)| level.split('"').next().expect("a level").to_owned());
        (answer == result("7", "{}"), passed)
    };
    assert_eq!(set(&mut gateway, 0, "error"), (true, Some("error".to_owned())));
    assert_eq!(set(&mut gateway, 1, "info"), (true, Some("info".to_owned())));
    assert_eq!(set(&mut gateway, 0, "warning"), (true, None));
    assert_eq!(set(&mut gateway, 0, "loud"), (false, None));
    let log = |level: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":"d"}}}}"#)
    };
    let streams = streams(&mut gateway, &ids);
    let levels = |gateway: &mut GatewayHarness| {
        for level in ["info", "warning"] {
            gateway.reply(process, &log(level));
        }
    };
    // It is not known which session they belong to (BR-T-05).
    levels(&mut gateway);
    assert_eq!(streams.map(|stream| gateway.responses.take(stream).data().len()), [0, 0]);
    for (at, count) in [(0, 1), (1, 2)] {
        let (exchange, id) = asked(&mut gateway, &ids[at], process, "tools/list", "{}");
        levels(&mut gateway);
        assert_eq!(gateway.responses.take(exchange).data().len(), count, "{at}");
        gateway.reply(process, &result(&id, "{}"));
    }
    // Without the second session, the level of the first counts, and it is the only one that can be meant.
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&ids[1])).code(), 204);
    assert!(gateway.lines(process).concat().contains(r#""level":"warning""#));
    levels(&mut gateway);
    assert_eq!(gateway.responses.take(streams[0]).data().len(), 1);
}

#[test]
fn br_m_05_a_client_is_asked_only_if_it_is_known_which_one_is_meant_and_it_can_be() {
    let (mut gateway, process, ids) = sharing([r#"{"elicitation":{},"roots":{}}"#, "{}"]);
    let ask = |id: &str| request(id, "elicitation/create", r#"{"message":"m","requestedSchema":{}}"#);
    let answered = |gateway: &mut GatewayHarness, id: &str| {
        gateway.reply(process, &ask(id));
        let lines = gateway.lines(process).concat();
        if lines.is_empty() { None } else { Some(lines.contains("-32601")) }
    };
    gateway.reply(process, &request("5", "ping", "{}"));
    assert_eq!(gateway.lines(process), [result("5", "{}")]);
    // No call, a call of a client that cannot be asked, two calls, and a call of the other one.
    assert_eq!(answered(&mut gateway, "1"), Some(true));
    let (_, second) = asked(&mut gateway, &ids[1], process, "tools/call", "{}");
    assert_eq!(answered(&mut gateway, "2"), Some(true));
    let (exchange, first) = asked(&mut gateway, &ids[0], process, "tools/call", "{}");
    assert_eq!(answered(&mut gateway, "3"), Some(true));
    gateway.reply(process, &result(&second, "{}"));
    assert_eq!(answered(&mut gateway, "4"), None);
    let sent = gateway.responses.take(exchange).data();
    assert!(matches!(&sent[..], [line] if line.contains("elicitation/create")), "{sent:?}");
    let answer = result(id_of(&sent[0]), r#"{"action":"decline"}"#);
    // Another session cannot answer it.
    assert_eq!(gateway.answer(&TestRequest::post(answer.clone()).in_session(&ids[1])).code(), 202);
    assert!(gateway.lines(process).is_empty());
    assert_eq!(gateway.answer(&TestRequest::post(answer).in_session(&ids[0])).code(), 202);
    assert_eq!(gateway.lines(process), [result("4", r#"{"action":"decline"}"#)]);
    // A change of roots, of which the process has received no notification.
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    assert_eq!(gateway.answer(&TestRequest::post(changed).in_session(&ids[0])).code(), 202);
    assert!(gateway.lines(process).is_empty());
    // A request that the process takes back.
    assert_eq!(answered(&mut gateway, "6"), None);
    gateway.reply(process, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}"#);
    let sent = gateway.responses.take(exchange).data();
    assert!(matches!(&sent[..], [_, line] if line.contains("notifications/cancelled")), "{sent:?}");
    // Without the second session, no other can be meant.
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&ids[1])).code(), 204);
    gateway.reply(process, &result(&first, "{}"));
    let stream = gateway.ask(&TestRequest::get().in_session(&ids[0]));
    assert_eq!(answered(&mut gateway, "8"), None);
    assert!(gateway.responses.take(stream).data().concat().contains("elicitation/create"));
}

#[test]
fn a_process_is_opened_once_also_if_the_first_session_does_not_wait() {
    let mut gateway = gateway(Sharing::Shared);
    let first = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    gateway.disconnect(first);
    let second = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    let process = gateway.last_started();
    initialized(&mut gateway, process);
    confirmed(&mut gateway, second);
    assert_eq!((gateway.lines(process), gateway.starts()), (vec![INITIALIZED.to_owned()], 1));
    let not_passed = |event: &Event| matches!(event, Event::Backend { event: relay::Event::NotPassed { .. }, .. });
    assert!(!gateway.events().iter().any(not_passed));
}

#[test]
fn a_subscription_that_is_not_answered_is_not_ended_by_another_session() {
    let (mut gateway, process, ids) = sharing(["{}", "{}"]);
    let (waiting, id) = asked(&mut gateway, &ids[0], process, "resources/subscribe", r#"{"uri":"a:b"}"#);
    let (ended, none) = asked(&mut gateway, &ids[1], process, "resources/unsubscribe", r#"{"uri":"a:b"}"#);
    assert!(none.is_empty() && gateway.responses.take(ended).text() == result("7", "{}"));
    gateway.reply(process, &result(&id, "{}"));
    assert_eq!(gateway.responses.take(waiting).text(), result("7", "{}"));
    assert!(gateway.lines(process).is_empty());
}

/// What ends a request for a subscription that waits for the answer of the process.
#[derive(Debug, Clone, Copy)]
enum Given {
    Cancelled,
    Unsubscribed,
    SessionEnded,
}

#[test]
fn a_subscription_that_is_not_wanted_any_more_when_it_is_answered_is_made_for_the_others_alone() {
    let watch = r#"{"uri":"a:b"}"#;
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    for given in [Given::Cancelled, Given::Unsubscribed, Given::SessionEnded] {
        // The session whose request was passed on, the one that waits with it, or both.
        for given_up in [&[0][..], &[1], &[0, 1]] {
            let (mut gateway, process, ids) = sharing(["{}", "{}"]);
            let streams = streams(&mut gateway, &ids);
            let (first, id) = asked(&mut gateway, &ids[0], process, "resources/subscribe", watch);
            let (second, none) = asked(&mut gateway, &ids[1], process, "resources/subscribe", watch);
            assert!(!id.is_empty() && none.is_empty());
            for at in given_up {
                let asked = match given {
                    Given::Cancelled => TestRequest::post(cancelled),
                    Given::Unsubscribed => TestRequest::post(request("8", "resources/unsubscribe", watch)),
                    Given::SessionEnded => TestRequest::new("DELETE", ""),
                };
                assert!(gateway.answer(&asked.in_session(&ids[*at])).code() < 300);
            }
            assert!(gateway.lines(process).iter().all(|line| !line.contains("unsubscribe")), "it is not answered yet");
            gateway.reply(process, &result(&id, "{}"));
            let ends: Vec<_> = gateway.lines(process).into_iter().filter(|l| l.contains("unsubscribe")).collect();
            assert_eq!(ends.len(), usize::from(given_up.len() == 2), "{given:?} {given_up:?}");
            gateway.reply(process, updated);
            for (at, exchange) in [first, second].into_iter().enumerate() {
                let is_given_up = given_up.contains(&at);
                let received = gateway.responses.take(streams[at]).data();
                assert_eq!(received.len(), usize::from(!is_given_up), "{given:?} {given_up:?}: {received:?}");
                let is_answered = gateway.responses.take(exchange).text() == result("7", "{}");
                let may_be_answered = !is_given_up || matches!(given, Given::Unsubscribed);
                assert_eq!(is_answered, may_be_answered, "{given:?} {given_up:?}");
            }
        }
    }
}

#[test]
fn a_subscription_for_which_no_session_waits_any_more_is_ended_at_the_process() {
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#;
    let watch = r#"{"uri":"a:b"}"#;
    for (is_cancelled, has_other) in [(true, false), (true, true), (false, false), (false, true)] {
        let (mut gateway, process, ids) = sharing(["{}", "{}", "{}"]);
        let streams = streams(&mut gateway, &ids);
        let (_, id) = asked(&mut gateway, &ids[0], process, "resources/subscribe", watch);
        let other = has_other.then(|| asked(&mut gateway, &ids[1], process, "resources/subscribe", watch).0);
        let (ended, code) =
            if is_cancelled { (TestRequest::post(cancelled), 202) } else { (TestRequest::new("DELETE", ""), 204) };
        assert_eq!(gateway.answer(&ended.in_session(&ids[0])).code(), code);
        gateway.lines(process);
        gateway.reply(process, &result(&id, "{}"));
        let lines = gateway.lines(process).concat();
        assert_eq!(lines.contains("resources/unsubscribe"), !has_other, "{lines}");
        if let Some(other) = other {
            assert_eq!(gateway.responses.take(other).text(), result("7", "{}"));
        }
        gateway.reply(process, updated);
        let received = [0, 1, 2].map(|at| gateway.responses.take(streams[at]).data().len());
        assert_eq!(received, [0, usize::from(has_other), 0]);
        // The next session asks the process again, unless one is subscribed.
        let (_, id) = asked(&mut gateway, &ids[2], process, "resources/subscribe", watch);
        assert_eq!(id.is_empty(), has_other);
    }
}

#[test]
fn each_session_fails_once_with_the_process_and_the_next_one_starts_another() {
    let (mut gateway, process, ids) = sharing(["{}", "{}"]);
    let calls = ids.each_ref().map(|id| asked(&mut gateway, id, process, "tools/call", "{}").0);
    gateway.exit(process);
    for exchange in calls {
        let failed = gateway.responses.take(exchange);
        assert!(failed.is_over && failed.text().contains("-32603"), "{}", failed.text());
    }
    for id in &ids {
        let lost = gateway.answer(&TestRequest::post(request("8", "tools/list", "{}")).in_session(id));
        assert_eq!(lost.code(), 404);
    }
    gateway.session();
    assert_eq!(gateway.starts(), 2);
}

#[test]
fn a_process_that_is_shared_is_kept_for_a_while_without_a_session() {
    let (mut gateway, process, [id]) = sharing(["{}"]);
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
    gateway.pass(Duration::from_secs(9));
    let exchange = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    let id = confirmed(&mut gateway, exchange);
    gateway.pass(Duration::from_secs(60));
    assert_eq!((gateway.processes(), gateway.starts()), (vec![(process, false)], 1));
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
    gateway.pass(Duration::from_secs(10));
    assert_eq!(gateway.processes(), [(process, true)]);
    // Its key is not that of the next one.
    gateway.stopped(process);
    gateway.session();
    assert_eq!(gateway.starts(), 2);
    gateway.gateway.close(gateway.now);
    gateway.settle();
    assert!(gateway.processes().iter().all(|(_, is_stopping)| *is_stopping), "at once");
}

#[test]
fn a_process_is_shared_by_the_sessions_of_one_principal_with_equal_capabilities() {
    let mut gateway = gateway(Sharing::PerPrincipal);
    let mut open = |principal: Option<&str>, capabilities: &str| {
        let asked = opening("2025-11-25", capabilities);
        let exchange = gateway.ask(&if let Some(principal) = principal { asked.by(principal) } else { asked });
        let process = gateway.last_started();
        if gateway.responses.peek(exchange).is_none() {
            initialized(&mut gateway, process);
        }
        assert_eq!(gateway.responses.take(exchange).code(), 200);
        (gateway.starts(), gateway.principal(process).map(str::to_owned))
    };
    let ada = Some("ada".to_owned());
    assert_eq!(open(Some("ada"), r#"{"roots":{}}"#), (1, ada.clone()));
    assert_eq!(open(Some("ada"), r#"{"roots":{}}"#), (1, ada.clone()));
    assert_eq!(open(Some("ada"), "{}"), (2, ada));
    assert_eq!(open(Some("eve"), "{}"), (3, Some("eve".to_owned())));
    // It is not known whether two clients without a principal are one.
    assert_eq!(open(None, "{}"), (4, None));
    assert_eq!(open(None, "{}"), (5, None));
}

#[test]
fn a_principal_for_whom_there_is_no_room_is_answered_at_once() {
    let mut gateway = GatewayHarness::with(|config| {
        config.sharing = Sharing::PerPrincipal;
        config.relay.limits.backends = 1;
    });
    let first = gateway.ask(&opening("2025-11-25", "{}").by(Principal::new("ada")));
    let process = gateway.last_started();
    initialized(&mut gateway, process);
    assert_eq!(gateway.responses.take(first).code(), 200);
    let refused = gateway.answer(&opening("2025-11-25", "{}").by("eve"));
    assert!(refused.text().contains("too many processes"), "{}", refused.text());
    let second = gateway.answer(&opening("2025-11-25", "{}").by("ada"));
    assert!(second.headers.contains_key("mcp-session-id"));
    assert_eq!((gateway.starts(), gateway.gateway.sessions()), (1, 2));
}

#[test]
fn at_the_limit_a_process_that_no_client_uses_ends_for_a_new_one() {
    let mut gateway = GatewayHarness::with(|config| {
        config.sharing = Sharing::PerPrincipal;
        config.relay.limits.backends = 2;
    });
    let mut processes = Vec::new();
    let mut ids = Vec::new();
    for principal in ["ada", "bob"] {
        let asked = gateway.ask(&opening("2025-11-25", "{}").by(principal));
        processes.push(gateway.last_started());
        initialized(&mut gateway, processes[processes.len() - 1]);
        let id = gateway.responses.take(asked).headers["mcp-session-id"].to_str().unwrap().to_owned();
        ids.push(id);
    }
    // Both are in use.
    assert!(gateway.answer(&opening("2025-11-25", "{}").by("eve")).text().contains("too many processes"));
    let end = TestRequest::new("DELETE", "").in_session(&ids[0]).by("ada");
    assert_eq!(gateway.answer(&end).code(), 204);
    assert_eq!(gateway.processes(), [(processes[0], false), (processes[1], false)], "it is kept for a while");
    let waiting =
        [gateway.ask(&opening("2025-11-25", "{}").by("eve")), gateway.ask(&opening("2025-11-25", "{}").by("fay"))];
    assert_eq!(gateway.processes(), [(processes[0], true), (processes[1], false)]);
    gateway.stopped(processes[0]);
    let started = gateway.last_started();
    initialized(&mut gateway, started);
    assert_eq!(gateway.responses.take(waiting[0]).code(), 200);
    assert!(gateway.responses.take(waiting[1]).text().contains("too many processes"));
}

/// A modern process has no session that could be shared, and each client has its own subscription.
#[test]
fn br_l_04_sessions_of_a_modern_process_that_they_share_have_their_own_subscriptions() {
    let mut gateway = gateway(Sharing::Shared);
    let exchanges = [(); 2].map(|()| gateway.ask(&TestRequest::post(initialize("2025-06-18"))));
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    let data = r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#;
    let refusal = format!(r#"{{"code":-32022,"message":"unsupported","data":{data}}}"#);
    gateway.reply(process, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{refusal}}}"#, id_of(&line)));
    let line = gateway.lines(process).concat();
    let discovered =
        format!(r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{CAPABILITIES}}}"#);
    gateway.reply(process, &result(id_of(&line), &discovered));
    let ids = exchanges.map(|exchange| confirmed(&mut gateway, exchange));
    let listens: Vec<String> = gateway.lines(process).iter().map(|line| id_of(line).to_owned()).collect();
    assert_eq!(listens.len(), 2);
    let notification = |method: &str, id: &str, members: &str| {
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{members}{meta}}}}}"#)
    };
    for id in &listens {
        let filter = r#""notifications":{"toolsListChanged":true},"#;
        gateway.reply(process, &notification("subscriptions/acknowledged", id, filter));
    }
    let streams = streams(&mut gateway, &ids);
    gateway.reply(process, &notification("tools/list_changed", &listens[1], ""));
    assert_eq!(streams.map(|stream| gateway.responses.take(stream).data().len()), [0, 1]);
    let (exchange, id) = asked(&mut gateway, &ids[0], process, "tools/call", r#"{"name":"a"}"#);
    gateway.reply(process, &result(&id, r#"{"resultType":"complete","content":[]}"#));
    assert_eq!(gateway.responses.take(exchange).text(), result("7", r#"{"content":[]}"#));
    // A level is a part of each request of its session.
    let level = request("8", "logging/setLevel", r#"{"level":"debug"}"#);
    let set = gateway.ask(&TestRequest::post(level).in_session(&ids[0]));
    assert_eq!(gateway.responses.take(set).text(), result("8", "{}"));
    for (id, is_set) in ids.iter().zip([true, false]) {
        gateway.ask(&TestRequest::post(request("9", "tools/call", r#"{"name":"a"}"#)).in_session(id));
        let lines = gateway.lines(process);
        assert_eq!((lines.len(), lines[0].contains(r#"logLevel":"debug""#)), (1, is_set), "{lines:?}");
    }
    // A subscription of a session is a part of its own stream.
    let subscribe = request("10", "resources/subscribe", r#"{"uri":"file:///a"}"#);
    gateway.ask(&TestRequest::post(subscribe).in_session(&ids[0]));
    let lines = gateway.lines(process).concat();
    assert!(lines.contains("subscriptions/listen") && !lines.contains("resources/subscribe"), "{lines}");
    let connected = |event: &Event| matches!(event, Event::Backend { event: relay::Event::Connected { .. }, .. });
    assert_eq!(gateway.events().iter().filter(|event| connected(event)).count(), 1);
}
