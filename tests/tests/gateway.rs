//! The gateway: when it starts and stops processes, what each client receives of its own, and what is reported of each process.

use std::time::Duration;

use mcp_intermediary::gateway::{BackendKey, Event, Gateway, Sharing};
use mcp_intermediary::relay;
use mcp_proto::auth::Challenge;
use mcp_proto::client::CloseReason;
use mcp_proto::server::{ExchangeKey, RequestInfo, TwoEndpoints};
use mcp_proto::{Failed, Json, Method, ProcessEnd, Quirk, StartFailure, UsageError};
use mcp_testkit::http_exchange::{TestRequest, initialize, modern};
use mcp_testkit::messages::{INITIALIZED, request, result};
use tests::gateway::{GatewayHarness, id_of};

fn call(id: &str, params: &str) -> TestRequest {
    TestRequest::post(request(id, "tools/call", params))
}

/// Makes a call in a session; returns its exchange, and the line that the process has received.
fn called(gateway: &mut GatewayHarness, session: &str, process: BackendKey, params: &str) -> (ExchangeKey, String) {
    let exchange = gateway.ask(&call("7", params).in_session(session));
    let lines = gateway.lines(process);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    (exchange, line.clone())
}

#[test]
fn br_t_06_each_session_has_a_process_of_its_own() {
    let mut gateway = GatewayHarness::new();
    let sessions = [gateway.session_of("2025-11-25", Some("ada")), gateway.session_of("2025-06-18", None)];
    assert_eq!((gateway.starts(), gateway.gateway.sessions(), gateway.gateway.backends()), (2, 2, 2));
    assert_eq!(sessions.each_ref().map(|(_, process)| gateway.principal(*process)), [Some("ada"), None]);
    // Equal ids and tokens, and payloads that only the original bytes represent.
    let mut calls = Vec::new();
    for (at, (id, process)) in sessions.iter().enumerate() {
        let params = format!(r#"{{"name":"a","of":{at},"n":1.0, "_meta":{{"progressToken":"t"}}}}"#);
        let asked = call("7", &params).in_session(id);
        let exchange = gateway.ask(&if at == 0 { asked.by("ada") } else { asked });
        let lines = gateway.lines(*process);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.contains(&format!(r#""of":{at},"n":1.0, "#)), "{line}");
        calls.push((exchange, *process, id_of(line).to_owned()));
    }
    for (at, (exchange, process, id)) in calls.into_iter().enumerate().rev() {
        gateway.reply(process, &result(&id, &format!(r#"{{"of":{at},"n":1e2}}"#)));
        let answer = gateway.responses.take(exchange);
        assert_eq!((answer.code(), answer.text()), (200, result("7", &format!(r#"{{"of":{at},"n":1e2}}"#))));
    }
}

/// A process costs more than a request, so that a client which may not use the gateway must not cause one.
#[test]
fn a_request_that_is_refused_starts_no_process() {
    let open = || TestRequest::post(initialize("2025-11-25"));
    let unknown_revision = modern("1", "tools/list", "").replace("2026-07-28", "2099-01-01");
    for (name, asked, code) in [
        ("a host that is not served", open().with("host", "evil.example"), 403),
        ("a page of another origin", open().with("origin", "https://evil.example"), 403),
        ("another path", open().at("/other"), 404),
        ("no token", open().challenged(Challenge::bearer()), 401),
        ("another type of content", open().with("content-type", "text/plain"), 415),
        ("an answer that the client does not read", open().with("accept", "application/json"), 406),
        ("a length beyond the limit", open().with("content-length", "99999999"), 413),
        ("no JSON", TestRequest::post("{"), 400),
        ("no session", call("1", "{}"), 400),
        ("an unknown session", call("1", "{}").in_session("unknown"), 404),
        ("an unknown revision", call("1", "{}").in_session("x").with("mcp-protocol-version", "1999-01-01"), 404),
        ("a batch", TestRequest::post(format!("[{}]", initialize("2025-11-25"))), 400),
        ("a notification", TestRequest::post(INITIALIZED), 400),
        ("no requested revision", TestRequest::post(request("1", "initialize", "{}")), 400),
        ("headers of another method", TestRequest::stateless("1", "tools/list", "").with("mcp-method", "ping"), 400),
        ("a removed method", TestRequest::stateless("1", "ping", ""), 404),
        (
            "an unknown revision of the modern era",
            TestRequest::post(unknown_revision).repeating_headers("2026-07-28", "tools/list"),
            400,
        ),
        ("a stream without a session", TestRequest::get(), 400),
        ("the end of an unknown session", TestRequest::new("DELETE", "").in_session("unknown"), 404),
    ] {
        let mut gateway = GatewayHarness::new();
        let refused = gateway.answer(&asked);
        assert_eq!(refused.code(), code, "{name}: {}", refused.text());
        assert_eq!((gateway.starts(), gateway.gateway.sessions()), (0, 0), "{name}");
    }
}

#[test]
fn a_request_that_its_head_excludes_is_refused_before_its_body_arrives() {
    let mut gateway = GatewayHarness::new();
    let head = TestRequest::post(initialize("2025-11-25")).with("host", "evil.example").head();
    let exchange = gateway.gateway.handle_request(head, RequestInfo::new([7; 32]), gateway.now);
    gateway.settle();
    assert_eq!(gateway.responses.take(exchange).code(), 403);
}

#[test]
fn a_process_is_stopped_with_its_session() {
    let delete = |gateway: &mut GatewayHarness, id: &str| {
        assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(id)).code(), 204);
    };
    let expire = |gateway: &mut GatewayHarness, _: &str| gateway.pass(Duration::from_secs(31 * 60));
    let close = |gateway: &mut GatewayHarness, _: &str| {
        gateway.gateway.close(gateway.now);
        gateway.settle();
    };
    let drain = |gateway: &mut GatewayHarness, _: &str| {
        gateway.gateway.drain(Duration::from_secs(5), gateway.now);
        gateway.settle();
        assert!(gateway.events().contains(&Event::Drained { cancelled: 0 }));
    };
    for (name, end) in [
        ("DELETE", delete as fn(&mut GatewayHarness, &str)),
        ("no request for long", expire),
        ("close", close),
        ("drain", drain),
    ] {
        let mut gateway = GatewayHarness::new();
        let (id, process) = gateway.session();
        end(&mut gateway, &id);
        assert!(gateway.is_input_closed(process), "{name}");
        assert_eq!(gateway.processes(), [(process, true)], "{name}");
        gateway.stopped(process);
        assert_eq!((gateway.gateway.backends(), gateway.gateway.sessions()), (0, 0), "{name}");
        assert_eq!(gateway.gateway.load().to_string(), "nothing", "{name}");
        assert_eq!(gateway.gateway.poll_timeout(), None, "{name}");
    }
}

/// No client has the id of such a session, which would keep its process until it expires.
#[test]
fn a_process_is_stopped_whose_client_does_not_wait_for_its_session() {
    let mut gateway = GatewayHarness::new();
    let exchange = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    let process = gateway.last_started();
    gateway.disconnect(exchange);
    assert_eq!((gateway.processes(), gateway.gateway.sessions()), (vec![(process, true)], 0));
    let pause = |event: &Event| matches!(event, Event::NotStarted { .. });
    assert!(!gateway.events().iter().any(pause), "the process has not failed");
}

#[test]
fn each_open_request_has_one_outcome_at_whatever_byte_the_process_exits() {
    let answer = result("ID", r#"{"content":[]}"#);
    for length in 0..=answer.len() {
        for is_eof_reported in [true, false] {
            let mut gateway = GatewayHarness::new();
            let (id, process) = gateway.session();
            let (first, line) = called(&mut gateway, &id, process, r#"{"name":"a"}"#);
            let (second, _) = called(&mut gateway, &id, process, r#"{"name":"b"}"#);
            let written = format!("{}\n", answer.replace("ID", id_of(&line)));
            let cut = length.min(written.len());
            gateway.write(process, &written.as_bytes()[..cut]);
            if is_eof_reported {
                gateway.exit(process);
            } else {
                gateway.stopped(process);
            }
            let [first, second] = [first, second].map(|exchange| gateway.responses.take(exchange));
            let is_answered = first.text().contains("content");
            assert_eq!(is_answered, cut == written.len(), "{cut}: {}", first.text());
            assert!(is_answered || first.text().contains(r#""error""#), "{cut}: {}", first.text());
            assert!(second.text().contains(r#""error""#) && second.is_over, "{cut}: {}", second.text());
            // The session has ended, which a client understands as a reason to open another one.
            assert_eq!(gateway.answer(&call("8", "{}").in_session(&id)).code(), 404);
            assert_eq!((gateway.gateway.backends(), gateway.starts()), (0, 1));
            gateway.session();
            assert_eq!(gateway.starts(), 2);
        }
    }
}

#[test]
fn there_are_no_more_processes_than_allowed_and_one_that_is_being_stopped_counts() {
    let mut gateway = GatewayHarness::with(|config| config.relay.limits.backends = 2);
    let (first, oldest) = gateway.session();
    gateway.pass(Duration::from_secs(1));
    let (second, _) = gateway.session();
    // Both were used a moment ago.
    assert_eq!(gateway.answer(&TestRequest::post(initialize("2025-11-25"))).code(), 503);
    gateway.pass(Duration::from_secs(61));
    let exchange = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    assert_eq!((gateway.starts(), gateway.gateway.load().waiting), (2, 1), "it waits for the end of the oldest");
    assert_eq!(gateway.answer(&call("8", "{}").in_session(&first)).code(), 404);
    gateway.stopped(oldest);
    assert_eq!((gateway.starts(), gateway.gateway.load().waiting), (3, 0));
    let process = gateway.last_started();
    gateway.reply_to_initialize(process, "2025-11-25");
    assert_eq!(gateway.responses.take(exchange).code(), 200);

    // One that does not wait for it starts none.
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&second)).code(), 204);
    let exchange = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    gateway.disconnect(exchange);
    let stopping = gateway.processes().into_iter().find(|(_, is_stopping)| *is_stopping).expect("the second").0;
    gateway.stopped(stopping);
    assert_eq!((gateway.starts(), gateway.gateway.load().waiting), (3, 0));
}

/// Supergateway #139: a client waited for a minute for a process that had exited at once.
#[test]
fn a_server_that_exits_at_once_is_reported_at_once_and_started_again_after_growing_pauses() {
    let mut gateway = GatewayHarness::new();
    let open = |gateway: &mut GatewayHarness| gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    let moment = Duration::from_millis(1);
    for (start, seconds) in [(1, 1), (2, 2), (3, 4)] {
        let waits = open(&mut gateway);
        assert_eq!(gateway.starts(), start);
        gateway.exit(gateway.last_started());
        let refused = gateway.responses.take(waits);
        assert!(refused.is_over && refused.text().contains("-32603"), "{}", refused.text());
        let retry_in = Duration::from_secs(seconds);
        assert!(gateway.events().contains(&Event::NotStarted { reason: Failed::Closed, retry_in }), "{seconds}");
        gateway.pass(retry_in.saturating_sub(moment));
        let waits = open(&mut gateway);
        let refused = gateway.responses.take(waits);
        assert!(refused.text().contains("failed to start") && refused.text().contains("1 s"), "{}", refused.text());
        assert_eq!((gateway.starts(), gateway.gateway.sessions()), (start, 0));
        gateway.pass(moment);
    }
    // A process that answers ends the pauses.
    let (_, process) = gateway.session();
    gateway.exit(process);
    gateway.session();
    assert_eq!(gateway.starts(), 5);
}

#[test]
fn why_a_process_could_not_be_used_is_in_the_errors_of_its_clients_and_of_those_that_come_during_the_pause() {
    let exited = || Failed::ProcessEnded { end: ProcessEnd::Code(1), opening: Some(Method::INITIALIZE) };
    let not_started = || Failed::NotStarted(StartFailure::NotFound);
    for (reason, name) in [(exited(), "process_ended"), (not_started(), "not_started")] {
        let mut gateway = GatewayHarness::new();
        let open = |gateway: &mut GatewayHarness| gateway.ask(&TestRequest::post(initialize("2025-11-25")));
        let waits = open(&mut gateway);
        match reason {
            Failed::NotStarted(failure) => gateway.not_started(gateway.last_started(), failure),
            _ => gateway.end_process(gateway.last_started(), ProcessEnd::Code(1)),
        }
        assert!(gateway.processes().is_empty(), "nothing is left of it");
        let refused = gateway.responses.take(waits).text();
        let words = reason.describe("the server");
        assert!(refused.contains(&words) && refused.contains(name), "{refused}");
        let retry_in = Duration::from_secs(1);
        assert!(gateway.events().contains(&Event::NotStarted { reason, retry_in }));
        let waits = open(&mut gateway);
        let refused = gateway.responses.take(waits).text();
        assert!(refused.contains(&format!("{words}; the next attempt may be made in")), "{refused}");
    }
}

#[test]
fn a_call_states_how_the_process_has_ended_and_the_next_session_has_another_one() {
    let mut gateway = GatewayHarness::new();
    let (session, process) = gateway.session();
    let waits = gateway.ask(&TestRequest::post(request("7", "tools/list", "{}")).in_session(&session));
    gateway.end_process(process, ProcessEnd::Signal(9));
    let failed = gateway.responses.take(waits).text();
    assert!(failed.contains("the server was ended by signal 9 (SIGKILL)"), "{failed}");
    assert_ne!(gateway.session().1, process);
}

#[test]
fn a_server_that_does_not_answer_is_stopped_and_its_client_is_answered() {
    let mut gateway = GatewayHarness::new();
    let waits = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    let process = gateway.last_started();
    gateway.pass(Duration::from_secs(31));
    assert!(gateway.responses.take(waits).text().contains("-32603"));
    assert_eq!(gateway.processes(), [(process, true)]);
    assert!(gateway.events().iter().any(|event| matches!(event, Event::NotStarted { .. })));
}

#[test]
fn an_error_of_the_server_to_initialize_is_passed_on_and_ends_its_process() {
    let mut gateway = GatewayHarness::new();
    let waits = gateway.ask(&TestRequest::post(initialize("2025-11-25")));
    let process = gateway.last_started();
    gateway.lines(process);
    gateway.reply(process, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"no licence"}}"#);
    let refused = gateway.responses.take(waits);
    assert!(refused.text().contains("no licence") && !refused.headers.contains_key("mcp-session-id"));
    assert_eq!((gateway.processes(), gateway.gateway.sessions()), (vec![(process, true)], 0));
    // It is the answer of a server that works.
    gateway.session();
}

#[test]
fn br_t_06_what_belongs_to_no_request_is_sent_with_the_only_open_one_else_on_the_stream_of_the_session() {
    let mut gateway = GatewayHarness::new();
    let (id, process) = gateway.session();
    let stream = gateway.ask(&TestRequest::get().in_session(&id));
    let ask = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d"}}"#;
    for open in 0..3 {
        let calls: Vec<_> = (0..open).map(|_| called(&mut gateway, &id, process, r#"{"name":"a"}"#)).collect();
        gateway.reply(process, log);
        gateway.reply(process, ask);
        let mut counts = vec![gateway.responses.take(stream).data().len()];
        counts.extend(calls.iter().map(|(call, _)| gateway.responses.take(*call).data().len()));
        assert_eq!(counts, [vec![2], vec![0, 2], vec![2, 0, 0]][open], "{open}");
        for (_, line) in &calls {
            gateway.reply(process, &result(id_of(line), "{}"));
        }
        gateway.lines(process);
    }
    // The client's answer has the id that the gateway has given to the request.
    gateway.reply(process, &ask.replace(r#""q""#, "5"));
    let asked = gateway.responses.take(stream).data();
    let answer = result(id_of(&asked[0]), r#"{"roots":[]}"#);
    assert_eq!(gateway.answer(&TestRequest::post(answer).in_session(&id)).code(), 202);
    assert_eq!(gateway.lines(process), [result("5", r#"{"roots":[]}"#)]);
}

/// claude.ai declares roots and answers no request for them (anthropics/claude-ai-mcp#708).
#[test]
fn a_client_that_never_answers_a_request_holds_up_neither_its_calls_nor_its_process() {
    let mut gateway = GatewayHarness::new();
    let (id, process) = gateway.session();
    let (waiting, line) = called(&mut gateway, &id, process, r#"{"name":"a"}"#);
    gateway.reply(process, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    assert!(gateway.responses.take(waiting).data().concat().contains(r#""method":"roots/list""#));
    let (other, other_line) = called(&mut gateway, &id, process, r#"{"name":"b"}"#);
    gateway.reply(process, &result(id_of(&other_line), "{}"));
    assert!(gateway.responses.take(other).is_over);
    // A person may take long to answer, but not for ever.
    gateway.pass(relay::Config::default().max_timeout + Duration::from_secs(1));
    let lines = gateway.lines(process);
    let answers: Vec<_> = lines.iter().filter(|line| line.contains(r#""id":"q""#)).collect();
    assert!(matches!(&answers[..], [answer] if answer.contains(r#""error":"#)), "{lines:?}");
    gateway.reply(process, &result(id_of(&line), "{}"));
    assert!(gateway.responses.take(waiting).is_over);
}

/// The transport of 2024-11-05, whose sessions begin with a stream.
#[test]
fn hs_01_a_two_endpoint_session_has_a_process_from_its_initialize_on() {
    let mut gateway = GatewayHarness::with(|config| {
        config.http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let stream = gateway.ask(&TestRequest::get().at("/sse"));
    assert_eq!(gateway.starts(), 0);
    let endpoint = gateway.responses.take(stream).data().concat();
    assert_eq!(gateway.answer(&TestRequest::post(initialize("2024-11-05")).at(&endpoint)).code(), 202);
    let process = gateway.last_started();
    gateway.reply_to_initialize(process, "2024-11-05");
    assert!(gateway.responses.take(stream).data().concat().contains(r#""protocolVersion":"2024-11-05""#));
    assert_eq!(gateway.answer(&call("7", "{}").at(&endpoint)).code(), 202);
    let line = gateway.lines(process).concat();
    gateway.reply(process, &result(id_of(&line), "{}"));
    assert_eq!(gateway.responses.take(stream).data(), [result("7", "{}")]);
    gateway.disconnect(stream);
    assert_eq!(gateway.processes(), [(process, true)]);
}

#[test]
fn lc_17_a_ping_is_answered_at_once_while_a_process_starts() {
    for (sharing, starts) in [(Sharing::PerSession, 2), (Sharing::Shared, 1)] {
        let mut gateway = GatewayHarness::with(|config| {
            config.sharing = sharing;
            config.http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        });
        for _ in 0..2 {
            let stream = gateway.ask(&TestRequest::get().at("/sse"));
            let endpoint = gateway.responses.take(stream).data().concat();
            assert_eq!(gateway.answer(&TestRequest::post(initialize("2024-11-05")).at(&endpoint)).code(), 202);
            let ping = request("\"p\"", "ping", "{}");
            assert_eq!(gateway.answer(&TestRequest::post(ping).at(&endpoint)).code(), 202);
            assert_eq!(gateway.responses.take(stream).data(), [result("\"p\"", "{}")], "{sharing:?}");
        }
        assert_eq!(gateway.starts(), starts, "{sharing:?}");
    }
}

/// Supergateway #160: a half-open connection kept its process for ever.
#[test]
fn a_stream_that_is_not_read_keeps_no_process() {
    let mut gateway = GatewayHarness::new();
    let (id, process) = gateway.session();
    gateway.ask(&TestRequest::get().in_session(&id));
    gateway.pass(Duration::from_secs(2 * 60 * 60));
    assert_eq!(gateway.processes(), [(process, false)], "its client reads the comments on the stream");
    gateway.is_read = false;
    gateway.pass(Duration::from_secs(32 * 60));
    assert_eq!(gateway.processes(), [(process, true)]);
}

#[test]
fn a_cancellation_reaches_the_process_with_the_id_that_it_knows() {
    let mut gateway = GatewayHarness::new();
    let (id, process) = gateway.session();
    let (exchange, line) = called(&mut gateway, &id, process, r#"{"name":"a"}"#);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"r"}}"#;
    assert_eq!(gateway.answer(&TestRequest::post(cancel).in_session(&id)).code(), 202);
    let expected = cancel.replace('7', id_of(&line));
    assert_eq!(gateway.lines(process), [expected]);
    assert!(gateway.responses.take(exchange).is_over);
    // A client that only disconnects can come back for the answer (SH-S-16).
    let (exchange, _) = called(&mut gateway, &id, process, r#"{"name":"b"}"#);
    gateway.disconnect(exchange);
    assert_eq!(gateway.lines(process), Vec::<String>::new());
}

/// A server of 2026-07-28 alone, and clients that begin with `initialize`.
#[test]
fn br_l_01_sessions_of_a_server_without_sessions_have_processes_of_their_own_too() {
    let mut gateway = GatewayHarness::new();
    let mut sessions = Vec::new();
    for tools in ["one", "two"] {
        let opening = gateway.ask(&TestRequest::post(initialize("2025-06-18")));
        let process = gateway.last_started();
        let line = gateway.lines(process).concat();
        let data = r#"{"supported":["2026-07-28"],"requested":"2025-06-18"}"#;
        let refusal = format!(r#"{{"code":-32022,"message":"unsupported","data":{data}}}"#);
        gateway.reply(process, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{refusal}}}"#, id_of(&line)));
        let line = gateway.lines(process).concat();
        assert!(line.contains("server/discover"), "{line}");
        let discovered = format!(
            r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"{tools}":{{}}}}}}"#
        );
        gateway.reply(process, &result(id_of(&line), &discovered));
        let opened = gateway.responses.take(opening);
        assert!(opened.text().contains(r#""protocolVersion":"2025-06-18""#), "{}", opened.text());
        assert!(opened.text().contains(&format!(r#""capabilities":{{"{tools}":{{}}}}"#)), "{}", opened.text());
        let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
        assert_eq!(gateway.answer(&TestRequest::post(INITIALIZED).in_session(&id)).code(), 202);
        sessions.push((id, process));
    }
    let bridged = |event: &Event| matches!(event, Event::Backend { event: relay::Event::Bridging { .. }, .. });
    assert_eq!(gateway.events().iter().filter(|event| bridged(event)).count(), 2);
    for (id, process) in &sessions {
        let (exchange, line) = called(&mut gateway, id, *process, r#"{"name":"a"}"#);
        assert!(line.contains("io.modelcontextprotocol/protocolVersion"), "{line}");
        let answer = result(id_of(&line), r#"{"resultType":"complete","content":[]}"#);
        gateway.reply(*process, &answer);
        assert_eq!(gateway.responses.take(exchange).text(), result("7", r#"{"content":[]}"#));
        assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(id)).code(), 204);
        gateway.stopped(*process);
    }
    assert_eq!(gateway.gateway.load().to_string(), "nothing");
}

#[test]
fn what_comes_of_a_process_that_is_stopped_or_unknown_has_no_effect() {
    let mut gateway = GatewayHarness::new();
    let (id, process) = gateway.session();
    assert_eq!(gateway.answer(&TestRequest::new("DELETE", "").in_session(&id)).code(), 204);
    gateway.events();
    for _ in 0..2 {
        gateway.reply(process, r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#);
        gateway.gateway.handle_backend_written(process, 1, gateway.now);
        gateway.gateway.handle_backend_eof(process, gateway.now);
        assert!(gateway.gateway.wants_backend_bytes(process));
        gateway.gateway.handle_stopped(process, gateway.now);
        assert!(gateway.gateway.poll_output().is_none());
    }
}

#[test]
fn a_configuration_without_backends_is_refused() {
    let mut config = mcp_intermediary::gateway::Config::default();
    config.relay.limits.backends = 0;
    assert!(Gateway::new(config).is_err());
    let mut config = mcp_intermediary::gateway::Config::default();
    config.relay.versions.clear();
    assert!(Gateway::new(config).is_err(), "no process could be used");
}

#[test]
fn a_gateway_shows_neither_payloads_nor_ids() {
    let mut gateway = GatewayHarness::new();
    let (id, process) = gateway.session_of("2025-11-25", Some("ada"));
    let secret = Json::from("secret").to_text().into_owned();
    gateway.ask(&call("7", &format!(r#"{{"name":{secret}}}"#)).in_session(&id).by("ada"));
    assert!(gateway.lines(process).concat().contains("secret"));
    let events = gateway.events();
    let shown = format!("{:?} {events:?}", gateway.gateway);
    for hidden in ["secret", &id, "ada"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
}

const SHARINGS: [Sharing; 3] = [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared];

/// A gateway, a process that it has started for a session, and the session's id.
fn opened(sharing: Sharing) -> (GatewayHarness, BackendKey, String) {
    let mut gateway = GatewayHarness::with(|config| config.sharing = sharing);
    let (id, process) = gateway.session_of("2025-11-25", Some("ada"));
    gateway.events();
    (gateway, process, id)
}

/// What was reported of a process since the last call.
fn reported(gateway: &mut GatewayHarness, of: BackendKey) -> Vec<relay::Event> {
    let events = gateway.events().into_iter();
    events
        .filter_map(
            |event| if let Event::Backend { backend, event } = event { (backend == of).then_some(event) } else { None },
        )
        .collect()
}

#[test]
fn a_quirk_of_a_process_is_reported_once_in_every_mode_of_sharing() {
    for sharing in SHARINGS {
        let (mut gateway, process, id) = opened(sharing);
        for call in ["7", "8"] {
            let exchange = gateway
                .ask(&TestRequest::post(request(call, "tools/call", r#"{"name":"t"}"#)).in_session(&id).by("ada"));
            let line = gateway.lines(process).concat();
            gateway.reply(process, &result(id_of(&line), r#"{"text":"no content here"}"#));
            assert!(gateway.responses.take(exchange).text().contains("no content here"));
            let events = reported(&mut gateway, process);
            let expected = vec![relay::Event::QuirkObserved(Quirk::ToolResultWithoutContent); usize::from(call == "7")];
            assert_eq!(events, expected, "{sharing:?} {call}");
        }
    }
}

#[test]
fn the_end_of_a_process_is_reported_once_in_every_mode_of_sharing() {
    for sharing in SHARINGS {
        for end in [None, Some(ProcessEnd::Code(3))] {
            let (mut gateway, process, _) = opened(sharing);
            match end {
                None => gateway.exit(process),
                Some(end) => gateway.end_process(process, end),
            }
            let events = reported(&mut gateway, process);
            let closed = events
                .iter()
                .filter_map(|event| if let relay::Event::Closed(reason) = event { Some(*reason) } else { None });
            let expected = end.map_or(CloseReason::Peer, CloseReason::ProcessEnded);
            assert_eq!(closed.collect::<Vec<_>>(), [expected], "{sharing:?} {events:?}");
        }
    }
}

#[test]
fn a_process_that_cannot_be_told_that_its_session_is_confirmed_is_reported() {
    for sharing in [Sharing::PerPrincipal, Sharing::Shared] {
        let mut gateway = GatewayHarness::with(|config| config.sharing = sharing);
        gateway.ask(&TestRequest::post(initialize("2025-11-25")).by("ada"));
        let process = gateway.last_started();
        let line = gateway.lines(process).concat();
        let opened = result(id_of(&line), r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#);
        // It writes more at once than is queued, so that its connection is ended before the session is confirmed.
        let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"x/y\",\"params\":{}}\n";
        gateway.write(process, format!("{opened}\n{}", notification.repeat(20_000)).as_bytes());
        assert!(!gateway.lines(process).contains(&INITIALIZED.to_owned()), "{sharing:?}");
        let events = reported(&mut gateway, process);
        let error = UsageError::Closed;
        let expected = [
            relay::Event::NotPassed { method: Method::INITIALIZED, error },
            relay::Event::Closed(CloseReason::Overflow),
        ];
        for expected in expected {
            let count = events.iter().filter(|event| **event == expected).count();
            assert_eq!(count, 1, "{sharing:?} {expected:?} in {events:?}");
        }
    }
}
