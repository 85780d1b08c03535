//! A peer that does not read: what a machine stores for it is bounded, and everything else continues (classes 1 and 2).

use std::time::Duration;

use mcp_intermediary::relay;
use mcp_intermediary::relay::{Action, Relay};
use mcp_proto::client::{self, Call, CloseReason, Outcome};
use mcp_proto::server::{self, InputRequired};
use mcp_proto::{Failed, Fault, Instant, Json, Limits, Method, Notification, Output, RequestKey, Stdio, StdioAction};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::http_client::HttpClientHarness;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, initialize, initialize_result, request, result};

const SECOND: Duration = Duration::from_secs(1);

fn text(length: usize) -> Json {
    Json::empty_object().with_member("x", &Json::from("x".repeat(length).as_str()))
}

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
