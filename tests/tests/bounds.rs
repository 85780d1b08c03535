//! What a machine holds for a peer that does not read or does not answer is bounded (K1), and all of that together as well (M3).
//! Each refused peer receives the reason, and everything else continues: small messages get through while large ones fill the
//! room. What a relay keeps for a modern client at a legacy server is bounded, too.

use std::time::Duration;

use mcp_intermediary::relay::{self, Action, Relay};
use mcp_proto::client::{self, Call, Client, CloseReason, ExchangeKey, Http, Outcome};
use mcp_proto::server::{self, Event, InputRequired};
use mcp_proto::{
    Era, Failed, Fault, Instant, Json, Limits, Method, NoInput, Notification, Output, RequestKey, Stdio, StdioAction,
    Ticket, UsageError,
};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, initialize_reply};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, event, initialize, initialize_result, request, result};
use tests::relay_pair::RelayPair;

const MEGABYTE: usize = 1 << 20;

/// `Limits::held` in these tests: four messages of a megabyte.
const HELD: usize = 4 * MEGABYTE;

const CHUNK: usize = 64 * 1024;

static TEXT: [u8; CHUNK] = [b'x'; CHUNK];

static BLANKS: [u8; CHUNK] = [b' '; CHUNK];

fn text(length: usize) -> Json {
    Json::empty_object().with_member("x", &Json::from("x".repeat(length).as_str()))
}

fn no_room() -> Outcome {
    Outcome::Failed(Failed::NoRoom { limit: HELD })
}

// ---- a client whose server begins many answers and ends none

type Opening = fn() -> Reply;

type Rest = fn(&str) -> String;

type End = fn(&mut HttpClientHarness<Client<Http>>, RequestKey, ExchangeKey);

/// The kind of an answer of a megabyte, its beginning and its end.
const ANSWERS: [(&str, Opening, Rest); 2] = [
    ("JSON", || Reply::json("{\"x\":\""), |id| format!("\",\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}")),
    (
        "events",
        || Reply::events("data: {\"x\":\""),
        |id| format!("\",\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n\n"),
    ),
];

fn client() -> HttpClientHarness<Client<Http>> {
    HttpClientHarness::connected_client_with(|config, _| config.limits.held = HELD)
}

fn calls(harness: &mut HttpClientHarness<Client<Http>>, count: usize) -> Vec<(RequestKey, Opened)> {
    (0..count).map(|_| harness.request("tools/list")).collect()
}

#[test]
fn answers_that_arrive_at_a_client_are_bounded_in_sum() {
    for (what, begins, rest) in ANSWERS {
        let mut harness = client();
        let calls = calls(&mut harness, 40);
        for (_, opened) in &calls {
            harness.begin(opened.key, &begins());
        }
        let mut outcomes = std::collections::BTreeMap::new();
        for _ in 0..MEGABYTE / CHUNK - 1 {
            for (_, opened) in &calls {
                if !harness.is_aborted(opened.key) {
                    harness.send(opened.key, &TEXT);
                }
            }
            outcomes.append(&mut harness.outcomes());
        }
        assert!(outcomes.values().all(|outcome| *outcome == no_room()), "{what}: {outcomes:?}");
        let failed = |(request, _): &&(RequestKey, Opened)| outcomes.contains_key(request);
        let (failed, arriving): (Vec<_>, Vec<_>) = calls.iter().partition(failed);
        assert_eq!(arriving.len(), 4, "{what}: four of a megabyte fit");
        assert!(failed.iter().all(|(_, opened)| harness.is_aborted(opened.key)), "{what}");
        // A small answer gets through, and so do those that had room.
        let (small, opened) = harness.request("tools/list");
        harness.reply(opened.key, &Reply::json(result(&opened.id(), "{}")));
        assert!(matches!(harness.outcomes().remove(&small), Some(Outcome::Result(_))), "{what}");
        for (request, opened) in arriving {
            harness.send(opened.key, rest(&opened.id()).as_bytes());
            harness.end(opened.key);
            let outcome = harness.outcomes().remove(request);
            assert!(matches!(outcome, Some(Outcome::Result(_))), "{what}: {outcome:?}");
        }
        // Then there is room for other answers, even for a single one that is larger than the limit.
        for length in [HELD / 4, 2 * HELD] {
            let (request, opened) = harness.request("tools/list");
            harness.begin(opened.key, &begins());
            for _ in 0..length / CHUNK {
                harness.send(opened.key, &TEXT);
            }
            harness.send(opened.key, rest(&opened.id()).as_bytes());
            harness.end(opened.key);
            let outcome = harness.outcomes().remove(&request);
            assert!(matches!(outcome, Some(Outcome::Result(_))), "{what}: {outcome:?}");
        }
    }
}

#[test]
fn answers_that_break_off_leave_room_for_others() {
    for (what, begins, _) in ANSWERS {
        let mut harness = client();
        let fill = |harness: &mut HttpClientHarness<Client<Http>>| -> Vec<(RequestKey, ExchangeKey)> {
            let calls = calls(harness, 5);
            for (_, opened) in &calls {
                harness.begin(opened.key, &begins());
                for _ in 0..MEGABYTE / CHUNK - 1 {
                    harness.send(opened.key, &TEXT);
                }
            }
            calls.into_iter().map(|(request, opened)| (request, opened.key)).collect()
        };
        let ends: [End; 4] = [
            |harness, _, exchange| harness.fail(exchange, mcp_testkit::http_client::broken()),
            |harness, _, exchange| harness.end(exchange),
            |harness, request, _| harness.machine.cancel(request, None, harness.now),
            |harness, _, _| harness.pass(Duration::from_secs(3600)),
        ];
        for (number, end) in ends.into_iter().enumerate() {
            let begun = fill(&mut harness);
            let outcomes = harness.outcomes();
            assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [(begun[4].0, no_room())], "{what}, {number}");
            for (request, exchange) in &begun[..4] {
                end(&mut harness, *request, *exchange);
            }
            // The body of a cancelled request is still read for a short time.
            harness.pass(Duration::from_secs(60));
            assert_eq!(harness.outcomes().len(), 4, "{what}, {number}");
            while harness.has_opened() {
                let opened = harness.opened();
                harness.reply(opened.key, &Reply::status(202));
            }
        }
    }
}

#[test]
fn the_stream_of_the_server_is_opened_again_if_an_event_found_no_room() {
    let mut harness = HttpClientHarness::client_with(|config, _| config.limits.held = HELD);
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    let stream = harness.opened();
    assert_eq!(stream.line(), "GET /mcp");
    harness.begin(stream.key, &Reply::events("data: "));
    let calls = calls(&mut harness, 4);
    for (_, opened) in &calls {
        harness.begin(opened.key, &Reply::json("{"));
        for _ in 0..MEGABYTE / CHUNK {
            harness.send(opened.key, &BLANKS[1..]);
        }
    }
    harness.send(stream.key, &TEXT);
    assert!(harness.is_aborted(stream.key));
    assert!(harness.outcomes().is_empty());
    harness.pass(Duration::from_secs(2));
    let again = harness.opened();
    assert_eq!(again.line(), "GET /mcp");
    harness.begin(again.key, &Reply::events(event(&request("7", "ping", "{}"))));
    assert_eq!(harness.opened().body(), result("7", "{}"));
}

// ---- a client whose server sends requests

#[test]
fn questions_that_are_not_answered_are_bounded_in_sum() {
    let mut stream = ClientStream::connected_with(|config| {
        config.limits.held = HELD;
        config.capabilities = Json::parse(r#"{"sampling":{}}"#).expect("JSON");
    });
    let asked = |id: usize, length: usize| {
        request(&id.to_string(), "sampling/createMessage", &format!(r#"{{"x":"{}"}}"#, "x".repeat(length)))
    };
    for round in 0..2 {
        let mut tickets = Vec::new();
        for id in 0..10 {
            stream.line(asked(id, MEGABYTE - 100));
        }
        stream.line(asked(10, 1000));
        for event in stream.events() {
            if let client::Event::Requested { ticket, .. } = event {
                tickets.push(ticket);
            }
        }
        assert_eq!(tickets.len(), 5, "round {round}: four large ones and the small one");
        let refused = stream.lines();
        assert_eq!(refused.len(), 6);
        assert!(refused.iter().all(|line| line.contains(r#""code":-32603"#)), "{refused:?}");
        for ticket in tickets {
            stream.machine.answer(ticket, Ok(Json::empty_object()), stream.now);
        }
        assert_eq!(stream.lines().len(), 5);
    }
}

#[test]
fn answers_that_a_server_does_not_take_are_bounded_in_sum() {
    let mut stream = ClientStream::connected_with(|config| {
        config.limits.held = HELD;
        config.capabilities = Json::parse(r#"{"sampling":{}}"#).expect("JSON");
    });
    stream.is_read = false;
    for id in 0..20 {
        stream.line(request(&id.to_string(), "sampling/createMessage", "{}"));
    }
    let (_, events) = stream.outcomes();
    for event in events {
        if let client::Event::Requested { ticket, .. } = event {
            stream.machine.answer(ticket, Ok(text(MEGABYTE - 100)), stream.now);
        }
    }
    let lines = stream.lines();
    assert_eq!(lines.iter().filter(|line| line.contains(r#""result""#)).count(), 4);
    assert_eq!(lines.iter().filter(|line| line.contains(r#""code":-32603"#)).count(), 16);
}

#[test]
fn answers_that_a_server_over_http_does_not_take_are_bounded_in_sum() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| {
        config.limits.held = HELD;
        config.capabilities = Json::parse(r#"{"sampling":{}}"#).expect("JSON");
    });
    let (_, opened) = harness.request("tools/list");
    let asked: String = (0..100).map(|id| event(&request(&id.to_string(), "sampling/createMessage", "{}"))).collect();
    harness.begin(opened.key, &Reply::events(asked));
    let mut answered = 0;
    for event in harness.events() {
        if let client::Event::Requested { ticket, .. } = event {
            harness.machine.answer(ticket, Ok(text(MEGABYTE - 100)), harness.now);
            answered += 1;
        }
    }
    assert_eq!(answered, 100);
    let (mut results, mut errors) = (0, 0);
    while harness.has_opened() {
        let opened = harness.opened();
        results += usize::from(opened.body().contains(r#""result""#));
        errors += usize::from(opened.body().contains(r#""code":-32603"#));
    }
    // The others are errors, some of which wait for an exchange.
    assert_eq!(results, 4);
    assert!(errors > 40, "{errors}");
}

#[test]
fn a_confirmation_that_was_refused_with_its_session_takes_no_room_from_answers() {
    let mut harness = HttpClientHarness::client_with(|config, _| {
        config.limits.held = HELD;
        config.capabilities = Json::parse(r#"{"sampling":{}}"#).expect("JSON");
    });
    for status in [404, 202] {
        let opening = harness.opened();
        harness.reply(opening.key, &initialize_reply(&opening, "2025-11-25", Some("session")));
        let confirmation = harness.opened();
        assert_eq!(confirmation.body(), INITIALIZED);
        harness.reply(confirmation.key, &Reply::status(status));
    }
    let stream = harness.opened();
    harness.begin(stream.key, &Reply::events(event(&request("5", "sampling/createMessage", "{}"))));
    let asked = harness.events().pop();
    let Some(client::Event::Requested { ticket, .. }) = asked else { panic!("{asked:?}") };
    // A single answer may be larger than the limit.
    harness.machine.answer(ticket, Ok(text(2 * HELD)), harness.now);
    let answer = harness.opened();
    assert!(answer.body().contains(r#""result""#), "{}", &answer.body()[..200]);
}

#[test]
fn what_modern_calls_are_asked_for_is_bounded_in_sum() {
    let mut stream = ClientStream::modern_with(|config| {
        config.limits.held = HELD;
        config.capabilities = Json::parse(r#"{"sampling":{}}"#).expect("JSON");
    });
    let input_request = |length: usize| {
        let params = format!(r#"{{"x":"{}"}}"#, "x".repeat(length));
        let input_request = format!(r#"{{"method":"sampling/createMessage","params":{params}}}"#);
        format!(r#"{{"resultType":"input_required","inputRequests":{{"a":{input_request}}}}}"#)
    };
    for round in 0..2 {
        for _ in 0..10 {
            let (_, id) = stream.request("tools/call");
            stream.line(result(&id, &input_request(MEGABYTE - 200)));
        }
        let (outcomes, events) = stream.outcomes();
        let refused = |(_, outcome): &(RequestKey, Outcome)| {
            *outcome == Outcome::Failed(Failed::NoInput { reason: NoInput::TooLarge { limit: HELD } })
        };
        assert_eq!(outcomes.len(), 6, "round {round}: {outcomes:?}");
        assert!(outcomes.iter().all(refused), "{outcomes:?}");
        for event in events {
            if let client::Event::Requested { ticket, .. } = event {
                stream.machine.answer(ticket, Ok(Json::empty_object()), stream.now);
            }
        }
        for line in stream.lines().into_iter().filter(|line| line.contains("inputResponses")) {
            let id = line.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("an id");
            stream.line(result(id, mcp_testkit::messages::COMPLETE));
        }
        assert_eq!(stream.outcomes().0.len(), 4);
    }
}

#[test]
fn the_input_of_modern_calls_is_bounded_in_sum_until_they_are_made_again() {
    let mut stream = ClientStream::modern_with(|config| {
        config.limits.held = HELD;
        config.capabilities = Json::parse(r#"{"sampling":{},"roots":{}}"#).expect("JSON");
    });
    // Each call needs two inputs, one of which the application gives.
    let input_request =
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}}"#;
    let (mut waiting, mut failed) = (Vec::new(), 0);
    for _ in 0..10 {
        let (_, id) = stream.request("tools/call");
        stream.line(result(&id, input_request));
        let mut tickets = stream.events().into_iter().filter_map(|event| match event {
            client::Event::Requested { ticket, .. } => Some(ticket),
            _ => None,
        });
        let (first, second) = (tickets.next().expect("a"), tickets.next().expect("b"));
        stream.machine.answer(first, Ok(text(MEGABYTE - 100)), stream.now);
        waiting.push(second);
        failed += stream.outcomes().0.len();
    }
    assert_eq!(failed, 6);
    stream.lines();
    for second in waiting {
        stream.machine.answer(second, Ok(Json::empty_object()), stream.now);
    }
    assert_eq!(stream.lines().len(), 4, "four are made again");
    // Input that was sent is no longer stored.
    let (_, id) = stream.request("tools/call");
    stream.line(result(&id, input_request));
    for event in stream.events() {
        if let client::Event::Requested { ticket, .. } = event {
            stream.machine.answer(ticket, Ok(text(2 * MEGABYTE - 100)), stream.now);
        }
    }
    assert_eq!(stream.lines().len(), 1);
}

// ---- a server on a byte stream

#[test]
fn requests_that_are_not_answered_are_bounded_in_sum() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.held = HELD);
    for round in 0..2 {
        for id in 0..10 {
            stream.line(request(
                &id.to_string(),
                "tools/call",
                &format!(r#"{{"x":"{}"}}"#, "x".repeat(MEGABYTE - 100)),
            ));
        }
        stream.line(request("10", "tools/call", &format!(r#"{{"x":"{}"}}"#, "x".repeat(10_000))));
        let tickets = stream.requested();
        assert_eq!(tickets.len(), 5, "round {round}: four large ones and the small one");
        let refused = stream.lines();
        assert_eq!(refused.len(), 6);
        assert!(refused.iter().all(|line| line.contains(r#""code":-32603"#)), "{refused:?}");
        for ticket in tickets {
            stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).expect("an answer");
        }
        assert_eq!(stream.lines().len(), 5);
    }
}

#[test]
fn answers_that_a_client_does_not_take_are_bounded_in_sum() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.held = HELD);
    stream.is_read = false;
    for id in 0..20 {
        stream.line(request(&id.to_string(), "tools/call", "{}"));
    }
    let mut tickets = stream.requested();
    let small = tickets.pop().expect("the last");
    for ticket in tickets {
        stream.machine.respond(ticket, Ok(text(MEGABYTE - 100)), stream.now).expect("an answer");
    }
    stream.machine.respond(small, Ok(text(1000)), stream.now).expect("an answer");
    let lines = stream.lines();
    assert_eq!(lines.len(), 20, "each has one answer");
    assert_eq!(lines.iter().filter(|line| line.contains(r#""result""#)).count(), 5);
    assert!(lines[19].contains(r#""result""#), "the small one is among them");
    // Once the client has read, there is room again.
    stream.machine.handle_written(usize::MAX, stream.now);
    stream.line(request("20", "tools/call", "{}"));
    let ticket = stream.requested().pop().expect("a request");
    stream.machine.respond(ticket, Ok(text(MEGABYTE)), stream.now).expect("an answer");
    assert!(stream.lines()[0].contains(r#""result""#));
}

/// Sends a batch of ten calls and answers those that are handed up, each with 10 kB, except the last, whose ticket goes
/// to `left`. Returns how many were answered.
fn answer_all_but_one(stream: &mut ServerStream, left: &mut Vec<Ticket>) -> usize {
    let calls: Vec<_> = (0..10).map(|id| request(&id.to_string(), "tools/call", "{}")).collect();
    stream.line(format!("[{}]", calls.join(",")));
    let mut tickets = stream.requested();
    left.extend(tickets.pop());
    let answered = tickets.len();
    for ticket in tickets {
        stream.machine.respond(ticket, Ok(text(10_000)), stream.now).expect("an answer");
    }
    answered
}

#[test]
fn answers_that_wait_for_their_batches_count_among_the_requests() {
    let mut stream = ServerStream::ready_with("2025-03-26", |config| {
        config.limits.requests_in = 50;
        config.limits.held = HELD;
    });
    // All calls of each batch but one are answered, with small answers.
    let mut left = Vec::new();
    let mut answered = 0;
    for _ in 0..20 {
        answered += answer_all_but_one(&mut stream, &mut left);
    }
    assert!(answered <= 50, "{answered} answers of 10 kB wait");
    for ticket in left {
        stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).expect("an answer");
    }
    let answers: usize = stream.lines().iter().map(|line| line.matches(r#""id""#).count()).sum();
    assert_eq!(answers, 200, "each has one answer");
    stream.line(format!("[{}]", request("1", "tools/call", "{}")));
    assert_eq!(stream.requested().len(), 1);
}

#[test]
fn small_answers_of_many_batches_are_bounded_in_sum() {
    let mut stream = ServerStream::ready_with("2025-03-26", |config| config.limits.held = HELD);
    let mut left = Vec::new();
    for _ in 0..100 {
        answer_all_but_one(&mut stream, &mut left);
    }
    for ticket in left {
        stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).expect("an answer");
    }
    let lines = stream.lines();
    let kept: usize = lines.iter().map(|line| line.matches(r#""x":"#).count()).sum();
    assert!((400..420).contains(&kept), "{kept} answers of 10 kB waited");
    assert_eq!(lines.iter().map(|line| line.matches(r#""id""#).count()).sum::<usize>(), 1000);
}

// ---- a server over HTTP

fn http_server() -> HttpServerHarness {
    site_with(|_, _| {})
}

fn site_with(change: impl FnOnce(&mut server::HttpConfig, &mut server::Config)) -> HttpServerHarness {
    HttpServerHarness::with(|http, config| {
        config.limits.held = HELD;
        config.capabilities = Json::parse(r#"{"logging":{},"tools":{}}"#).expect("JSON");
        change(http, config);
    })
}

fn ask(http_server: &mut HttpServerHarness, asked: &TestRequest) -> server::ExchangeKey {
    http_server.ask_in_pieces_of(CHUNK, asked)
}

fn large_call(id: usize) -> String {
    request(&id.to_string(), "tools/call", &format!(r#"{{"name":"t","x":"{}"}}"#, "x".repeat(MEGABYTE - 200)))
}

#[test]
fn small_bodies_arrive_while_large_ones_take_all_room() {
    let mut http_server = http_server();
    let id = http_server.session("2025-11-25");
    let large: Vec<_> = (0..5).map(|_| http_server.begin(&TestRequest::post("").in_session(&id))).collect();
    for _ in 0..MEGABYTE / CHUNK {
        for key in &large {
            http_server.server.handle_body(*key, &BLANKS, http_server.now);
        }
    }
    let refused: Vec<_> = large.iter().filter(|key| http_server.peek(**key).is_some_and(|sent| sent.is_over)).collect();
    assert_eq!(refused.len(), 1, "four of a megabyte fit");
    let (key, ticket) = http_server.call(&id, "1", r#"{"name":"t"}"#);
    http_server.respond(ticket, "{}");
    assert_eq!(http_server.take(key).code(), 200);
    // Only the request with the large body is refused.
    let key = ask(&mut http_server, &TestRequest::post(large_call(2)).in_session(&id));
    let sent = http_server.take(key);
    assert_eq!((sent.code(), sent.headers["retry-after"].as_bytes()), (503, &b"5"[..]));
}

#[test]
fn requests_of_all_sessions_that_are_not_answered_are_bounded_in_sum() {
    let mut http_server = http_server();
    let ids: Vec<_> = (0..10).map(|_| http_server.session("2025-11-25")).collect();
    http_server.events();
    for round in 0..2 {
        let keys: Vec<_> =
            ids.iter().map(|id| ask(&mut http_server, &TestRequest::post(large_call(1)).in_session(id))).collect();
        let tickets: Vec<_> = requested(&mut http_server);
        assert_eq!(tickets.len(), 4, "round {round}");
        let refused = keys.iter().filter(|key| http_server.peek(**key).is_some_and(|sent| sent.is_over));
        let refused: Vec<_> = refused.copied().collect();
        assert_eq!(refused.len(), 6);
        for key in refused {
            let sent = http_server.take(key);
            assert_eq!((sent.code(), sent.headers["retry-after"].as_bytes()), (503, &b"5"[..]));
        }
        // Small requests still find room.
        for id in &ids {
            let (key, ticket) = http_server.call(id, "2", &text(10_000).to_text());
            http_server.respond(ticket, "{}");
            assert_eq!(http_server.take(key).code(), 200);
        }
        for ticket in tickets {
            http_server.respond(ticket, "{}");
        }
    }
}

fn requested(http_server: &mut HttpServerHarness) -> Vec<Ticket> {
    let ticket = |event| if let Event::Requested { ticket, .. } = event { Some(ticket) } else { None };
    http_server.events().into_iter().filter_map(ticket).collect()
}

#[test]
fn requests_that_stand_alone_are_bounded_in_sum_and_refused_with_503() {
    let mut http_server = site_with(|_, config| config.versions = mcp_proto::ProtocolVersion::ALL.to_vec());
    let padding = format!(r#""x":"{}","#, "x".repeat(MEGABYTE - 500));
    let call = |id: usize| TestRequest::stateless_call(&id.to_string(), "t", &padding);
    let large: Vec<_> = (0..5).map(|id| ask(&mut http_server, &call(id))).collect();
    let tickets = requested(&mut http_server);
    assert_eq!(tickets.len(), 4);
    let sent = http_server.take(large[4]);
    assert_eq!((sent.code(), sent.headers["retry-after"].as_bytes()), (503, &b"5"[..]));
    // A call whose client disconnects makes room for others; small ones find room in any case.
    let key = http_server.ask(&TestRequest::stateless_call("8", "t", ""));
    let ticket = http_server.ticket();
    http_server.respond(ticket, "{}");
    assert_eq!(http_server.take(key).code(), 200);
    http_server.server.handle_disconnect(large[0], http_server.now);
    ask(&mut http_server, &call(9));
    assert_eq!(requested(&mut http_server).len(), 1);
}

#[test]
fn what_parked_calls_were_given_is_bounded_in_sum() {
    const THINGS: usize = 40;
    let mut http_server = http_server();
    let able = mcp_testkit::messages::initialize("0", "2025-11-25");
    let mut calls = Vec::new();
    for number in 0..10 {
        let id = http_server.answer(&TestRequest::post(able.clone())).headers["mcp-session-id"]
            .to_str()
            .expect("text")
            .to_owned();
        http_server.answer(&TestRequest::post(mcp_testkit::messages::INITIALIZED).in_session(&id));
        let (key, ticket) = http_server.call(&id, "1", r#"{"name":"t"}"#);
        let names = (0..THINGS).map(|name| name.to_string());
        let required = names.fold(InputRequired::new(), |it, name| it.ask(&name, "roots/list", Json::empty_object()));
        http_server.server.require_input(ticket, required, http_server.now).expect("input");
        // All inputs but one are given, and each is small.
        let asked = http_server.take(key).data();
        let of =
            |line: &String| line.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).map(str::to_owned);
        let mut asked: Vec<_> = asked.iter().map(|line| of(line).expect("an id")).collect();
        assert_eq!(asked.len(), THINGS);
        let last = asked.pop().expect("an id");
        for asked in asked {
            ask(&mut http_server, &TestRequest::post(result(&asked, &text(15_000).to_text())).in_session(&id));
        }
        let is_refused = http_server.peek(key).is_some_and(|sent| sent.is_over);
        assert_eq!(is_refused, number >= 7, "call {number}");
        if is_refused {
            assert!(http_server.take(key).text().contains("the server is overloaded"), "call {number}");
        }
        calls.push((id, last));
    }
    http_server.events();
    for (id, last) in &calls {
        http_server.answer(&TestRequest::post(result(last, "{}")).in_session(id));
    }
    assert_eq!(requested(&mut http_server).len(), 7, "the others go on");
}

/// Makes a call and answers it with about this many bytes; returns its exchange.
fn answered(http_server: &mut HttpServerHarness, id: &str, length: usize) -> server::ExchangeKey {
    let (key, ticket) = http_server.call(id, "1", r#"{"name":"t"}"#);
    http_server.respond(ticket, &text(length).to_text());
    key
}

fn is_refused(http_server: &mut HttpServerHarness, key: server::ExchangeKey) -> bool {
    let sent = http_server.peek(key).expect("an answer");
    assert_eq!((sent.code(), sent.is_over), (200, true));
    sent.text().contains(r#""code":-32603"#)
}

#[test]
fn answers_that_clients_of_a_site_do_not_take_are_bounded_in_sum() {
    let mut http_server = http_server();
    let id = http_server.session("2025-11-25");
    http_server.is_read = false;
    let keys: Vec<_> = (0..10).map(|_| answered(&mut http_server, &id, MEGABYTE - 10_000)).collect();
    let refused: Vec<_> = keys.iter().map(|key| is_refused(&mut http_server, *key)).collect();
    assert_eq!(refused, [false, false, false, false, true, true, true, true, true, true]);
    let small = answered(&mut http_server, &id, 10_000);
    assert!(!is_refused(&mut http_server, small));
    // When a client reads its answer or disconnects, there is room for another.
    http_server.server.handle_written(keys[0], MEGABYTE, http_server.now);
    let next = answered(&mut http_server, &id, MEGABYTE - 10_000);
    assert!(!is_refused(&mut http_server, next));
    http_server.server.handle_disconnect(keys[1], http_server.now);
    let next = answered(&mut http_server, &id, MEGABYTE - 10_000);
    assert!(!is_refused(&mut http_server, next));
    let next = answered(&mut http_server, &id, MEGABYTE - 10_000);
    assert!(is_refused(&mut http_server, next));
    assert!(http_server.responses.aborted.is_empty());
}

#[test]
fn what_was_not_taken_for_ten_seconds_makes_room_for_others() {
    let mut http_server = http_server();
    let id = http_server.session("2025-11-25");
    http_server.is_read = false;
    let first = answered(&mut http_server, &id, MEGABYTE);
    http_server.pass(Duration::from_secs(1));
    let others: Vec<_> = (0..3).map(|_| answered(&mut http_server, &id, MEGABYTE - 10_000)).collect();
    http_server.pass(Duration::from_millis(8900));
    let next = answered(&mut http_server, &id, MEGABYTE - 10_000);
    assert!(is_refused(&mut http_server, next) && http_server.responses.aborted.is_empty(), "it has waited for less");
    // A client that reads its answer slowly is treated as one that does not read.
    http_server.server.handle_written(first, 1000, http_server.now);
    http_server.pass(Duration::from_millis(100));
    let next = answered(&mut http_server, &id, MEGABYTE - 10_000);
    assert!(!is_refused(&mut http_server, next));
    assert_eq!(http_server.responses.aborted, [first]);
    // A response is not aborted so soon unless its room is needed.
    http_server.pass(Duration::from_secs(10));
    let small = answered(&mut http_server, &id, 10_000);
    assert!(!is_refused(&mut http_server, small));
    assert_eq!(http_server.responses.aborted, [first]);
    let large = answered(&mut http_server, &id, 2 * MEGABYTE);
    assert!(!is_refused(&mut http_server, large));
    assert_eq!(http_server.responses.aborted[1..], others[..2]);
}

#[test]
fn a_response_of_which_nothing_is_taken_is_aborted() {
    let mut http_server = site_with(|http, _| http.unread_timeout = Duration::from_secs(20));
    let id = http_server.session("2025-11-25");
    http_server.is_read = false;
    let deaf = answered(&mut http_server, &id, 100);
    let slow = answered(&mut http_server, &id, 100_000);
    let fast = answered(&mut http_server, &id, 100_000);
    http_server.server.handle_written(fast, usize::MAX, http_server.now);
    http_server.pass(Duration::from_millis(19_900));
    assert!(http_server.responses.aborted.is_empty());
    http_server.server.handle_written(slow, 1, http_server.now);
    http_server.pass(Duration::from_millis(200));
    assert_eq!(http_server.responses.aborted, [deaf]);
    http_server.pass(Duration::from_millis(19_600));
    assert_eq!(http_server.responses.aborted, [deaf]);
    http_server.pass(Duration::from_millis(200));
    assert_eq!(http_server.responses.aborted, [deaf, slow]);
    // Late reports about an aborted exchange have no effect.
    http_server.server.handle_written(slow, 1, http_server.now);
    http_server.server.handle_disconnect(slow, http_server.now);
    http_server.pass(Duration::from_secs(100));
    assert_eq!(http_server.responses.aborted.len(), 2);
}

#[test]
fn the_call_of_a_stream_that_is_not_taken_goes_on_or_is_cancelled() {
    let log = |length| {
        let params = text(length).with_member("level", &Json::from("info")).with_member("data", &Json::from("x"));
        Notification::with_params("notifications/message", params)
    };
    let mut http_server = site_with(|_, config| config.versions = mcp_proto::ProtocolVersion::ALL.to_vec());
    let id = http_server.session("2025-11-25");
    http_server.is_read = false;
    let (key, ticket) = http_server.call(&id, "1", r#"{"name":"t"}"#);
    http_server.server.notify(&ticket, log(20_000), http_server.now).expect("a notification");
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug"},"#;
    let alone = http_server.ask(
        &TestRequest::post(request("2", "tools/call", &format!(r#"{{{meta}"name":"t"}}"#)))
            .repeating_headers("2026-07-28", "tools/call")
            .with("mcp-name", "t"),
    );
    let lone = http_server.ticket();
    http_server.server.notify(&lone, log(20_000), http_server.now).expect("a notification");
    http_server.events();
    http_server.pass(Duration::from_secs(31));
    assert_eq!(http_server.responses.aborted, [key, alone]);
    let cancelled = http_server.events();
    assert!(matches!(&cancelled[..], [Event::Cancelled { ticket, .. }] if *ticket == lone.key()), "{cancelled:?}");
    // In a session, the call continues, and the client may come back for its result (SH-S-16).
    http_server.respond(ticket, "{}");
    assert!(!http_server.take(key).text().contains("result"));
}

#[test]
fn large_notifications_for_which_there_is_no_room_are_dropped_and_counted() {
    let mut http_server = site_with(|http, _| http.unread_timeout = Duration::from_secs(3600));
    let id = http_server.session("2025-11-25");
    let session = http_server.last_session();
    let stream = http_server.ask(&TestRequest::get().in_session(&id));
    http_server.take(stream);
    http_server.is_read = false;
    let unread: Vec<_> = (0..4).map(|_| answered(&mut http_server, &id, MEGABYTE - 10_000)).collect();
    let log = |length| {
        let params = text(length).with_member("level", &Json::from("info")).with_member("data", &Json::from("x"));
        Notification::with_params("notifications/message", params)
    };
    for length in [100_000, 100_000, 1000] {
        http_server.server.notify(session, log(length), http_server.now).expect("a notification");
    }
    let sent = http_server.take(stream);
    assert!(!sent.is_over && sent.data().len() == 1 && sent.body.len() < 2000);
    http_server.events();
    http_server.server.handle_written(unread[0], usize::MAX, http_server.now);
    let events = http_server.events();
    assert!(matches!(events[..], [Event::Faulted(Fault::NotWritten { count: 2 })]), "{events:?}");
    http_server.server.notify(session, log(100_000), http_server.now).expect("a notification");
    assert!(http_server.take(stream).body.len() > 100_000);
}

#[test]
fn results_of_batches_and_streams_that_find_no_room_become_errors() {
    let mut http_server = http_server();
    let id = http_server.session("2025-03-26");
    http_server.is_read = false;
    for _ in 0..4 {
        answered(&mut http_server, &id, MEGABYTE - 10_000);
    }
    http_server.events();
    let batch = format!("[{},{}]", request("1", "tools/call", "{}"), request("2", "tools/call", "{}"));
    let key = http_server.ask(&TestRequest::post(batch).in_session(&id));
    for ticket in requested(&mut http_server) {
        http_server.respond(ticket, &text(30_000).to_text());
    }
    let sent = http_server.take(key);
    assert!(sent.is_over && sent.text().matches(r#""code":-32603"#).count() == 2, "{} bytes", sent.body.len());
    let (key, ticket) = http_server.call(&id, "3", r#"{"name":"t"}"#);
    let notification =
        Notification::with_params("notifications/message", Json::parse(r#"{"level":"info","data":1}"#).expect("JSON"));
    http_server.server.notify(&ticket, notification, http_server.now).expect("a notification");
    http_server.respond(ticket, &text(100_000).to_text());
    let sent = http_server.take(key);
    assert!(sent.is_stream && sent.is_over && sent.data()[1].contains(r#""code":-32603"#), "{:?}", sent.data());
}

#[test]
fn ends_of_sessions_leave_nothing_behind() {
    let mut http_server = http_server();
    for round in 0..3 {
        let ids: Vec<_> = (0..4).map(|_| http_server.session("2025-03-26")).collect();
        for id in &ids {
            ask(&mut http_server, &TestRequest::post(large_call(1)).in_session(id));
        }
        assert_eq!(requested(&mut http_server).len(), 4, "round {round}");
        for id in &ids {
            let key = http_server.ask(&TestRequest::new("DELETE", "").in_session(id));
            assert_eq!(http_server.take(key).code(), 204);
        }
        http_server.events();
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn call(length: usize) -> Call {
    Call::new("tools/call").params(text(length)).timeout(2 * SECOND)
}

/// A client whose server has stopped reading.
fn before_a_server_that_reads_nothing(change: impl FnOnce(&mut client::Config)) -> ClientStream {
    let mut stream = ClientStream::connected_with(change);
    stream.is_read = false;
    stream
}

fn failures(stream: &mut ClientStream) -> Vec<(RequestKey, Failed)> {
    let failed = |(request, outcome)| match outcome {
        Outcome::Failed(reason) => (request, reason),
        outcome => panic!("{outcome:?}"),
    };
    stream.outcomes().0.into_iter().map(failed).collect()
}

#[test]
fn requests_fail_at_once_or_at_their_timeout_while_the_server_reads_nothing() {
    let limit = Limits::default().unwritten;
    let mut stream = before_a_server_that_reads_nothing(|_| {});
    let mut request = |length| stream.machine.request(call(length), stream.now).expect("an accepted request");
    let [first, second, third] = [request(15 << 20), request(15 << 20), request(100)];
    assert_eq!(failures(&mut stream), [(second, Failed::QueueFull { limit })], "no more of 15 MB is taken");
    stream.pass(3 * SECOND);
    let timed_out = Failed::TimedOut { after: 2 * SECOND };
    assert_eq!(failures(&mut stream), [(first, timed_out.clone()), (third, timed_out)]);
    let last = stream.machine.request(call(100), stream.now).expect("an accepted request");
    stream.machine.close(stream.now);
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes, [(last, Outcome::Failed(Failed::Closed))]);
    assert_eq!(others, [client::Event::Closed(CloseReason::Local)]);
}

#[test]
fn one_request_of_any_size_is_taken_and_room_comes_back_as_bytes_are_written() {
    for limit in [1, 1000, 100_000] {
        let mut stream = before_a_server_that_reads_nothing(|config| config.limits.unwritten = limit);
        let request = |stream: &mut ClientStream| {
            let key = stream.machine.request(call(2000), stream.now).expect("an accepted request");
            let refused = failures(stream).iter().any(|failed| *failed == (key, Failed::QueueFull { limit }));
            (!refused).then(|| stream.lines().concat().len() + 1)
        };
        let mut unwritten = 0;
        while let Some(bytes) = request(&mut stream) {
            unwritten += bytes;
            assert!(unwritten <= limit.max(bytes) + 200, "{unwritten} bytes are held where {limit} may be");
        }
        assert!(unwritten > 2000);
        // A partial write leaves the rest counted as unwritten.
        for part in [unwritten / 2, unwritten - unwritten / 2] {
            assert!(request(&mut stream).is_none(), "{limit}");
            stream.machine.handle_written(part, stream.now);
            if limit > 10_000 {
                break;
            }
        }
        assert!(request(&mut stream).is_some(), "{limit}: there is room again");
    }
}

#[test]
fn requests_that_wait_for_the_handshake_are_bounded_too() {
    let limit = Limits::default().unwritten;
    let mut stream = ClientStream::client();
    stream.machine.connect(stream.now).expect("a fresh client");
    stream.drain();
    stream.is_read = false;
    for _ in 0..5 {
        stream.machine.request(call(5 << 20), stream.now).expect("an accepted request");
    }
    let refused = failures(&mut stream);
    assert_eq!(refused.len(), 2, "three of 5 MB fit into 16: {refused:?}");
    assert!(refused.iter().all(|(_, reason)| *reason == Failed::QueueFull { limit }));
    stream.is_read = true;
    stream.line(result("1", &initialize_result("2025-11-25")));
    assert_eq!(stream.lines().iter().filter(|line| line.contains("tools/call")).count(), 3);
}

#[test]
fn notifications_that_find_no_room_are_dropped_and_counted() {
    let notification = || Notification::with_params("notifications/roots/list_changed", text(1000));
    let count = |faults: Vec<Fault>| match faults.as_slice() {
        [Fault::NotWritten { count }] => *count,
        faults => panic!("{faults:?}"),
    };
    let mut stream = before_a_server_that_reads_nothing(|config| config.limits.unwritten = 10_000);
    for _ in 0..50 {
        stream.machine.notify(notification(), stream.now).expect("an accepted notification");
    }
    let written = stream.lines();
    assert_eq!(written.len(), 9);
    assert_eq!(stream.events(), []);
    stream.machine.handle_written(written.concat().len() + written.len(), stream.now);
    let faults = stream.events().into_iter().filter_map(|event| match event {
        client::Event::Faulted(fault) => Some(fault),
        _ => None,
    });
    assert_eq!(count(faults.collect()), 41);

    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.unwritten = 10_000);
    stream.is_read = false;
    for _ in 0..50 {
        let session = stream.machine.session();
        stream.machine.notify(session, notification(), stream.now).expect("an accepted notification");
    }
    let written = stream.lines();
    assert_eq!(written.len(), 9);
    stream.machine.handle_written(written.concat().len() + written.len(), stream.now);
    let faults = stream.events().into_iter().filter_map(|event| match event {
        server::Event::Faulted(fault) => Some(fault),
        _ => None,
    });
    assert_eq!(count(faults.collect()), 41);
}

#[test]
fn requests_of_the_server_fail_at_once_when_its_client_reads_nothing() {
    let limit = Limits::default().unwritten;
    let mut stream = ServerStream::ready("2025-11-25");
    stream.is_read = false;
    let session = stream.machine.session();
    let keys: Vec<_> =
        (0..3).map(|_| stream.machine.request(session, call(15 << 20), stream.now).expect("a request")).collect();
    let full = |key| server::Event::Responded { request: key, outcome: Outcome::Failed(Failed::QueueFull { limit }) };
    assert_eq!(stream.events(), [full(keys[1]), full(keys[2])]);
    stream.machine.close(stream.now);
    let events = stream.events();
    assert!(matches!(events.as_slice(), [server::Event::Responded { .. }, server::Event::Closed { .. }]), "{events:?}");
}

#[test]
fn a_call_whose_client_does_not_read_requests_ends_at_once() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.unwritten = 600);
    stream.is_read = false;
    stream.line(request("1", "tools/call", "{}"));
    let ticket = stream.requested().remove(0);
    let asked = |key: &str, length| InputRequired::new().ask(key, "roots/list", text(length));
    // The application's own request fills the limit, so neither of the required inputs can be requested.
    stream.machine.request(&ticket, call(700), stream.now).unwrap();
    let required = asked("a", 700).ask("b", "roots/list", text(700));
    stream.machine.require_input(ticket, required, stream.now).unwrap();
    let outcomes = stream.events().into_iter().filter(|event| matches!(event, server::Event::Responded { .. }));
    assert_eq!(outcomes.count(), 1, "what the machine asks is its own business");
    stream.is_read = true;
    let lines = stream.lines();
    assert!(lines.iter().any(|line| line.contains(r#""id":1,"error":{"code":-32603"#)), "{lines:?}");
    assert_eq!(stream.machine.requests_in_flight(), 0);
}

#[test]
fn reading_stops_for_answers_that_are_not_read_and_never_for_requests() {
    let mut stream = before_a_server_that_reads_nothing(|config| config.limits.queue_bytes = 10_000);
    stream.machine.request(call(100_000), stream.now).expect("an accepted request");
    stream.drain();
    assert!(stream.machine.wants_input(), "a server that does one thing at a time may be writing");
    let mut pings = 0;
    while stream.machine.wants_input() {
        stream.line(request("7", "ping", "{}"));
        pings += 1;
        assert!(pings < 1000, "the answers are without bound");
    }
    assert!(pings > 100);
    let written: usize = stream.lines().iter().map(|line| line.len() + 1).sum();
    stream.machine.handle_written(written, stream.now);
    assert!(stream.machine.wants_input());

    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.queue_bytes = 10_000);
    stream.is_read = false;
    while stream.machine.wants_input() {
        stream.line(request("7", "ping", "{}"));
    }
    stream.machine.handle_written(usize::MAX, stream.now);
    assert!(stream.machine.wants_input());
}

#[test]
fn a_new_process_begins_with_nothing_unwritten() {
    let limit = Limits::default().unwritten;
    let mut stream = ClientStream::detecting_with(|_| {});
    stream.is_read = false;
    stream.drain();
    for _ in 0..2 {
        stream.machine.request(call(10 << 20), stream.now).expect("an accepted request");
    }
    assert_eq!(failures(&mut stream).len(), 1);
    stream.eof();
    assert_eq!(stream.respawned, 1);
    stream.line(result("4", &initialize_result("2025-11-25")));
    assert_eq!(stream.lines().iter().filter(|line| line.contains("tools/call")).count(), 1);
    // The first call was written to the new process; bytes for the old process do not count.
    stream.machine.request(call(10 << 20), stream.now).expect("an accepted request");
    let (outcomes, _) = stream.outcomes();
    assert!(matches!(outcomes.as_slice(), [(_, Outcome::Failed(Failed::QueueFull { limit: full }))] if *full == limit));
    stream.machine.handle_written(11 << 20, stream.now);
    stream.machine.request(call(10 << 20), stream.now).expect("an accepted request");
    assert_eq!(stream.outcomes().0, []);
}

/// A relay over byte streams, with what it writes to its client and how many bytes it has written to its server.
struct Joined {
    relay: Relay<Stdio>,
    now: Instant,
    lines: String,
    events: Vec<relay::Event>,
    to_server: usize,
}

impl Joined {
    fn new() -> Self {
        let now = Instant::START;
        let mut config = relay::Config::default();
        config.request_timeout = 3 * SECOND;
        let relay = Relay::new(Stdio::new(), config).expect("a configuration");
        let mut joined = Self { relay, now, lines: String::new(), events: Vec::new(), to_server: 0 };
        joined.line(&initialize("0", "2025-11-25"));
        joined.relay.handle_server_bytes((result("1", &initialize_result("2025-11-25")) + "\n").as_bytes(), now);
        joined.line(INITIALIZED);
        joined.lines.clear();
        joined
    }

    fn line(&mut self, line: &str) {
        self.relay.handle_bytes(line.as_bytes(), self.now);
        self.relay.handle_bytes(b"\n", self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.relay.poll_output() {
            match output {
                Output::Action(Action::Client(StdioAction::Write(bytes))) => {
                    self.lines.push_str(std::str::from_utf8(&bytes).expect("text"));
                    self.relay.handle_written(bytes.len(), self.now);
                }
                Output::Action(Action::Server(StdioAction::Write(bytes))) => self.to_server += bytes.len(),
                Output::Action(_) => {}
                Output::Event(event) => self.events.push(event),
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.relay.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.relay.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    fn answered(&self, id: usize) -> usize {
        self.lines.lines().filter(|line| line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#))).count()
    }
}

#[test]
fn a_relay_answers_every_request_while_its_server_reads_nothing() {
    const CALLS: usize = 299;
    let mut joined = Joined::new();
    let (begin, params) = (joined.now, format!(r#"{{"x":"{}"}}"#, "x".repeat(150_000)));
    for id in 1..=CALLS {
        while !joined.relay.wants_bytes() {
            joined.pass(SECOND / 10);
            assert!(joined.now < begin + 4 * SECOND, "reading stops at request {id}");
        }
        joined.line(&request(&id.to_string(), "tools/call", &params));
    }
    let at_once = (1..=CALLS).filter(|id| joined.answered(*id) == 1).count();
    assert!((1..150).contains(&at_once), "32 MiB wait, what comes then fails at once: {at_once}");
    assert!(joined.to_server < (32 << 20) + 200_000);
    let refused = joined.lines.lines().last().expect("an answer").to_owned();
    assert!(refused.contains("the server does not read") && refused.contains("queue_full"), "{refused}");
    joined.pass(4 * SECOND);
    assert!((1..=CALLS).all(|id| joined.answered(id) == 1), "each has one answer");
    joined.relay.close(joined.now);
    joined.drain();
    assert!(joined.events.contains(&relay::Event::Closed(CloseReason::Local)), "{:?}", joined.events);
}

#[test]
fn a_slow_server_holds_its_client_up_and_loses_no_request() {
    // Many messages, and a few near the largest size, with the number of bytes that the driver reads ahead of the
    // machine.
    for (count, size, ahead) in [(300, 150_000, 4 << 20), (4, 15 << 20, 4_usize << 20)] {
        let mut joined = Joined::new();
        let lines: String = (1..=count)
            .map(|id| request(&id.to_string(), "tools/call", &format!(r#"{{"x":"{}"}}"#, "x".repeat(size))) + "\n")
            .collect();
        let (mut taken, mut may_read) = (0, ahead);
        for chunk in lines.as_bytes().chunks(64 * 1024) {
            // The server reads 100 KB per second.
            while may_read == 0 && !joined.relay.wants_bytes() {
                joined.pass(SECOND);
                let bytes = (joined.to_server - taken).min(100_000);
                taken += bytes;
                joined.relay.handle_server_written(bytes, joined.now);
            }
            may_read = if joined.relay.wants_bytes() { ahead } else { may_read.saturating_sub(chunk.len()) };
            joined.relay.handle_bytes(chunk, joined.now);
            joined.drain();
            assert!(joined.to_server - taken < 32 << 20, "what waits is bounded by not reading");
        }
        assert!(!joined.lines.contains("queue_full"), "{size}");
    }
}

#[test]
fn a_relay_stops_reading_its_server_while_its_client_reads_nothing_and_ends_at_once() {
    let mut joined = Joined::new();
    let notifications = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{}"}}}}"#,
        "x".repeat(1000)
    ) + "\n";
    let mut bytes = 0;
    while joined.relay.wants_body() {
        joined.relay.handle_server_bytes(notifications.as_bytes(), joined.now);
        while let Some(output) = joined.relay.poll_output() {
            if let Output::Action(Action::Client(StdioAction::Write(written))) = output {
                bytes += written.len();
            }
        }
        assert!(bytes < 6 << 20, "what waits for the client is without bound");
    }
    assert!(bytes >= 4 << 20);
    joined.relay.close(joined.now);
    joined.drain();
    assert!(joined.events.contains(&relay::Event::Closed(CloseReason::Local)));
}

#[test]
fn a_relay_to_a_server_over_http_that_answers_nothing_answers_every_request() {
    let mut harness = HttpClientHarness::connected_relay_with(|config, _| config.request_timeout = 3 * SECOND);
    let params = format!(r#"{{"x":"{}"}}"#, "x".repeat(150_000));
    for id in 1..=300 {
        // The relay itself answers a request that waits for the server when its timeout ends.
        let begin = harness.now;
        while !harness.machine.wants_bytes() {
            harness.pass(SECOND / 10);
            assert!(harness.now <= begin + 5 * SECOND, "reading stops at request {id}");
        }
        harness.line(&request(&id.to_string(), "tools/call", &params));
    }
    harness.pass(4 * SECOND);
    assert_eq!(harness.lines().len(), 300, "each has one answer");
}

fn log_message(length: usize) -> Notification {
    let params = text(length).with_member("level", &Json::from("info")).with_member("data", &Json::from("x"));
    Notification::with_params(Method::MESSAGE, params)
}

#[test]
fn a_stream_whose_client_takes_nothing_is_aborted_by_the_machine() {
    let mut http_server = HttpServerHarness::with(|_, config| {
        config.limits.unwritten = 100_000;
        config.capabilities = Json::parse(r#"{"logging":{},"tools":{}}"#).expect("JSON");
    });
    let id = http_server.session("2025-11-25");
    let slow = http_server.ask(&TestRequest::get().in_session(&id));
    let session = http_server.last_session();
    http_server.is_read = false;
    let mut count = 0;
    while http_server.responses.aborted.is_empty() {
        http_server.server.notify(session, log_message(1000), http_server.now).expect("a notification");
        http_server.pass(Duration::ZERO);
        count += 1;
        assert!(count < 1000, "what waits is without bound");
    }
    assert!(count > 80 && http_server.responses.aborted == [slow]);
    assert!(http_server.take(slow).body.len() <= 100_000);
    // The session continues, and its client may open the stream again.
    http_server.is_read = true;
    let key = http_server.ask(&TestRequest::get().in_session(&id));
    http_server.server.notify(session, log_message(10), http_server.now).expect("a notification");
    assert!(http_server.take(key).text().contains("xxxxxxxxxx"));

    // A client that reads its stream is not aborted, nor is one that reads a large message late.
    for _ in 0..1000 {
        http_server.server.notify(session, log_message(1000), http_server.now).expect("a notification");
        http_server.pass(Duration::ZERO);
        http_server.take(key);
    }
    http_server.is_read = false;
    http_server.server.notify(session, log_message(500_000), http_server.now).expect("a notification");
    http_server.pass(Duration::ZERO);
    assert!(http_server.take(key).body.len() > 500_000);
    http_server.server.handle_written(key, 600_000, http_server.now);
    http_server.server.notify(session, log_message(500_000), http_server.now).expect("a notification");
    http_server.pass(Duration::ZERO);
    assert!(http_server.take(key).body.len() > 500_000);
    assert_eq!(http_server.responses.aborted, [slow]);
}

#[test]
fn an_answer_that_finds_no_room_breaks_its_stream_off_instead_of_ending_it() {
    let mut http_server = HttpServerHarness::with(|_, config| {
        config.limits.unwritten = 10_000;
        config.capabilities = Json::parse(r#"{"logging":{},"tools":{}}"#).expect("JSON");
    });
    let id = http_server.session("2025-11-25");
    let (key, ticket) = http_server.call(&id, "1", r#"{"name":"t"}"#);
    http_server.is_read = false;
    http_server.server.notify(&ticket, log_message(9000), http_server.now).expect("a notification");
    assert!(http_server.peek(key).is_some_and(|sent| !sent.is_over && sent.body.len() > 9000));
    http_server.respond(ticket, &format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(9000)));
    http_server.pass(Duration::ZERO);
    assert_eq!(http_server.responses.aborted, [key]);
    assert!(http_server.take(key).body.len() < 10_000);
}

#[test]
fn bodies_that_arrive_are_bounded_in_sum_and_refused_with_503() {
    let mut http_server = HttpServerHarness::with(|_, config| config.limits.held = 4 << 20);
    let chunk = vec![b' '; 4 * 1024];
    let keys: Vec<_> = (0..60).map(|_| http_server.begin(&TestRequest::post(""))).collect();
    for _ in 0..(15 << 16) / chunk.len() {
        for key in &keys {
            http_server.server.handle_body(*key, &chunk, http_server.now);
        }
    }
    let refused: Vec<_> =
        keys.iter().filter(|key| http_server.peek(**key).is_some_and(|sent| sent.is_over)).copied().collect();
    assert!((50..57).contains(&refused.len()), "four of 1 MB fit into 4 MiB: {}", refused.len());
    for key in refused {
        let sent = http_server.take(key);
        assert_eq!((sent.code(), sent.headers["retry-after"].as_bytes()), (503, &b"5"[..]));
    }
    for key in keys {
        http_server.server.handle_disconnect(key, http_server.now);
    }
    // All room that the bodies took is free again.
    let key = http_server.begin(&TestRequest::post(""));
    for _ in 0..(15 << 16) / chunk.len() {
        http_server.server.handle_body(key, &chunk, http_server.now);
    }
    assert!(http_server.peek(key).is_none());
}

#[test]
fn answers_that_wait_for_the_others_of_their_batch_are_bounded_in_sum() {
    let mut stream = ServerStream::ready_with("2025-03-26", |config| {
        config.limits.held = 4 << 20;
        config.capabilities = Json::parse(r#"{"tools":{}}"#).expect("JSON");
    });
    for _ in 0..2 {
        let calls: Vec<_> = (0..100).map(|id| request(&id.to_string(), "tools/call", r#"{"name":"t"}"#)).collect();
        stream.line(format!("[{}]", calls.join(",")));
        for ticket in stream.requested() {
            stream.machine.respond(ticket, Ok(text(4 << 16)), stream.now).expect("an answer");
        }
        let lines = stream.lines();
        assert_eq!(lines.len(), 1);
        assert!((60 << 16..66 << 16).contains(&lines[0].len()), "{}", lines[0].len());
        // Each call has its answer, which is an error for most; the next batch has the same room.
        assert_eq!(lines[0].matches(r#""result""#).count(), 15);
        assert_eq!(lines[0].matches(r#""code":-32603"#).count(), 85);
    }
}

/// The bytes of names in setting requests that may be open.
const REQUEST_BYTES: usize = 1024 * 1024;

/// The bytes of names that one subscription may have.
const NAMES: usize = 32 * 1024;

/// The members of `_meta` of a client with roots.
const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}"#;

fn cancelled(question: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"r{question}"}}}}"#)
}

#[test]
fn calls_wait_for_roots_up_to_the_number_of_requests_and_others_are_passed_on() {
    for limit in 1..4 {
        let change = |config: &mut relay::Config| config.limits.requests_in = limit;
        let mut pair = RelayPair::open_as(META, Era::Modern, Era::Legacy, false, change);
        for call in 1..=limit + 1 {
            pair.server_line(&request(&format!("\"r{call}\""), "roots/list", "{}"));
            assert!(pair.received().is_empty(), "no request reaches the client by itself");
            pair.ask("tools/call", r#""name":"t","arguments":{}"#);
            if call <= limit {
                let required = pair.only_line();
                assert!(required.contains(r#""resultType":"input_required""#), "{call} of {limit}: {required}");
                assert!(pair.asked().is_empty());
                // There is room for the next question.
                pair.server_line(&cancelled(call));
            } else {
                assert_eq!(pair.asked().len(), 1, "{call} of {limit}");
                pair.answer(r#""content":[]"#);
                assert!(pair.only_line().contains(r#""content":[]"#));
            }
        }
    }
}

#[test]
fn a_subscription_whose_request_would_exceed_the_bound_is_not_acknowledged() {
    let mut pair = RelayPair::open(Era::Modern, Era::Legacy, false, |_| {});
    // The first fill the bound; the server answers none.
    let lengths = [NAMES; REQUEST_BYTES / NAMES].into_iter().chain([1, NAMES]);
    let mut open = 0;
    for (number, length) in lengths.enumerate() {
        let uri = if length == 1 { "u".to_owned() } else { format!("{number:02}{}", "u".repeat(length - 2)) };
        let before = pair.asked().len();
        pair.events();
        pair.ask("subscriptions/listen", &format!(r#""notifications":{{"resourceSubscriptions":["{uri}"]}}"#));
        open += length;
        let is_sent = open <= REQUEST_BYTES;
        assert_eq!(pair.asked().len() - before, usize::from(is_sent), "{number}");
        let refused = pair.events().into_iter().filter(|event| {
            let is_limit = |error: &UsageError| matches!(error, UsageError::TooManyRequests { .. });
            matches!(event, relay::Event::NotPassed { method, error } if *method == Method::RESOURCES_SUBSCRIBE && is_limit(error))
        });
        assert_eq!(refused.count(), usize::from(!is_sent), "{number}");
        // It is acknowledged at once if nothing is awaited.
        let received = pair.received();
        let acknowledged = received.iter().filter(|line| line.contains("acknowledged")).count();
        assert_eq!(acknowledged, usize::from(!is_sent), "{number}: {received:?}");
    }
    // There is room again for as much as was answered.
    pair.answer("");
    for is_sent in [true, false] {
        let before = pair.asked().len();
        let uri = format!("{is_sent}{}", "v".repeat(NAMES - 5));
        pair.ask("subscriptions/listen", &format!(r#""notifications":{{"resourceSubscriptions":["{uri}"]}}"#));
        assert_eq!(pair.asked().len() - before, usize::from(is_sent));
    }
}
