//! A client and a server on byte streams: rows FR, JS, RP, SE and CL of the catalogue of bad input, the handshake, and deadlines.

use std::time::Duration;

use mcp_proto::client::{Call, Client, CloseReason, Event as ClientEvent, Outcome, Unavailable};
use mcp_proto::server::{Event as ServerEvent, Scope};
use mcp_proto::{ErrorObject, Failed, Fault, InvalidResponse, Json, Limits, Notification, Quirk, Stdio, UsageError};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::chunks::each_cut;
use mcp_testkit::http_client::legacy_client;
use mcp_testkit::messages::{INITIALIZED, error, initialize, initialize_result, request, result};

const NOTHING: [&str; 0] = [];
const SECOND: Duration = Duration::from_secs(1);

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn client_faults(events: &[ClientEvent]) -> Vec<&Fault> {
    events.iter().filter_map(|event| if let ClientEvent::Faulted(fault) = event { Some(fault) } else { None }).collect()
}

fn server_faults(events: &[ServerEvent]) -> Vec<&Fault> {
    events.iter().filter_map(|event| if let ServerEvent::Faulted(fault) = event { Some(fault) } else { None }).collect()
}

/// Answers each request that the server reports with the parameters of the request.
fn echo(stream: &mut ServerStream) {
    for event in stream.events() {
        if let ServerEvent::Requested { ticket, params, .. } = event {
            stream.machine.respond(ticket, Ok(params.unwrap_or(Json::empty_object())), stream.now).unwrap();
        }
    }
}

// ---- FR: line framing

#[test]
fn fr1_fr3_an_endless_line_costs_itself_and_its_neighbours_are_served() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.message = 1024);
    let mut chunk = format!("{}\n", request("1", "a", "{}")).into_bytes();
    chunk.extend_from_slice(br#"{"jsonrpc":"2.0","id":"long","method":"b","params":{"x":""#);
    chunk.extend(std::iter::repeat_n(b'x', 1 << 20));
    stream.bytes(&chunk);
    for _ in 0..100 {
        stream.bytes(&vec![b'x'; 1 << 16]);
    }
    stream.line(r#""}}"#);
    stream.line(request("2", "c", "{}"));
    let events = stream.events();
    assert_eq!(server_faults(&events), [&Fault::LineTooLong { limit: 1024 }]);
    assert_eq!(events.iter().filter(|event| matches!(event, ServerEvent::Requested { .. })).count(), 2);
    // The id is readable, so the request is answered (P6).
    assert_eq!(stream.lines(), [error("\"long\"", -32600, "a line longer than 1024 bytes was skipped")]);
}

#[test]
fn fr1_a_response_over_the_limit_fails_its_request_at_once() {
    let mut stream = ClientStream::connected_with(|config| config.limits.message = 1024);
    let (key, id) = stream.request("tools/list");
    stream.line(result(&id, &format!("\"{}\"", "x".repeat(2000))));
    let (outcomes, _) = stream.outcomes();
    assert_eq!(outcomes, [(key, Outcome::Failed(Failed::TooLarge { limit: 1024 }))]);
}

#[test]
fn fr2_the_limit_counts_the_line_without_its_end() {
    let line = initialize("0", "2025-11-25");
    for (end, served) in [("\n", true), ("\r\n", true), (" \n", false)] {
        let mut stream = ServerStream::server_with(|config| config.limits.message = line.len());
        stream.bytes(format!("{line}{end}").as_bytes());
        let connected = stream.events().iter().any(|event| matches!(event, ServerEvent::Connected { .. }));
        assert_eq!(connected, served, "{end:?}");
    }
}

#[test]
fn fr4_fr5_line_ends_blanks_and_the_byte_order_mark() {
    let mut stream = ServerStream::server();
    stream.bytes(b"\xef\xbb\xbf\r\n");
    stream.bytes(format!("  \n\n{}\r\n", initialize("0", "2025-11-25")).as_bytes());
    stream.bytes(b"{\"jsonrpc\":\r\"2.0\",\"id\":1,\r\"method\":\"ping\"}\r\n");
    assert_eq!(stream.lines()[1..], [result("1", "{}")]);
    assert!(server_faults(&stream.events()).is_empty());
    // After the start of the stream, a byte order mark is invalid JSON.
    stream.bytes(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n");
    assert_eq!(server_faults(&stream.events()).len(), 1);
}

#[test]
fn fr6_a_raw_nul_is_no_json_and_an_escaped_one_passes() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\0\"}}");
    assert!(stream.lines()[0].contains(r#""id":1,"error":{"code":-32700"#));
    stream.line("\0");
    assert!(stream.lines()[0].starts_with(r#"{"jsonrpc":"2.0","error":{"code":-32700"#));
    stream.line(request("2", "m", r#"{"a":"\u0000"}"#));
    stream.events();
    assert_eq!(stream.lines(), NOTHING);
}

#[test]
fn fr7_bytes_that_are_not_utf8_cost_their_line_and_nothing_hangs() {
    let mut stream = ClientStream::connected();
    let (key, id) = stream.request("tools/call");
    // A server prints a log line to the wrong stream: only the application is notified, the server is not.
    stream.line(b"\xff\xfe\x80 log");
    assert_eq!(stream.lines(), NOTHING);
    // A response that contains an invalid byte fails its request at once.
    let mut response = result(&id, "{\"a\":\"?\"}").into_bytes();
    let at = response.iter().position(|byte| *byte == b'?').unwrap();
    response[at] = 0xff;
    stream.line(&response);
    let (outcomes, others) = stream.outcomes();
    assert!(matches!(
        &outcomes[..],
        [(answered, Outcome::Failed(Failed::InvalidResponse { reason: InvalidResponse::Json(_) }))] if *answered == key
    ));
    assert_eq!(client_faults(&others).len(), 2);

    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}");
    stream.line(b"\xff");
    let lines = stream.lines();
    assert!(lines[0].contains(r#""id":7,"error":{"code":-32700"#) && !lines[1].contains("id"), "{lines:?}");
}

#[test]
fn fr8_any_cut_of_a_session_gives_the_same_session() {
    let session = format!(
        "{}\r\n{INITIALIZED}\n{}\n\u{feff}\n{}\nnonsense\n{}\n",
        initialize("\"é\"", "2025-03-26"),
        request("1", "échø", "{\"a\":\"日本\"}"),
        format_args!("[{},{}]", request("2", "x", "{}"), request("3", "y", "{}")),
        request("4", "ping", "{}"),
    );
    let run = |pieces: &[&[u8]]| {
        let mut stream = ServerStream::server();
        for piece in pieces {
            stream.bytes(piece);
        }
        let events = format!("{:?}", stream.events());
        (stream.lines(), events)
    };
    let whole = run(&[session.as_bytes()]);
    for pieces in each_cut(session.as_bytes()) {
        assert_eq!(run(&pieces), whole);
    }
}

#[test]
fn fr9_an_unfinished_line_at_the_end_is_no_message_and_everything_pending_ends() {
    let mut stream = ClientStream::connected();
    let (key, id) = stream.request("tools/call");
    stream.bytes(result(&id, "{}").as_bytes());
    stream.eof();
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes, [(key, Outcome::Failed(Failed::Closed))]);
    assert!(matches!(client_faults(&others)[..], [Fault::Truncated { .. }]));
    assert_eq!(others.last(), Some(&ClientEvent::Closed(CloseReason::Peer)));
    let mut stream = ServerStream::ready("2025-11-25");
    stream.bytes(request("1", "m", "{}").as_bytes());
    stream.eof();
    let events = stream.events();
    assert!(matches!(server_faults(&events)[..], [Fault::Truncated { .. }]), "{events:?}");
}

#[test]
fn fr10_a_server_that_also_logs_to_stdout_is_tolerated() {
    let mut stream = ClientStream::connected();
    let (key, id) = stream.request("tools/call");
    for junk in ["Listening on 3000…", "\u{1b}[32mok\u{1b}[0m", "50%\r100%", "[1,2", "{\"level\":\"info\"}"] {
        stream.line(junk);
    }
    stream.line(result(&id, "{}"));
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes, [(key, Outcome::Result(json("{}")))]);
    assert_eq!(client_faults(&others).len(), 5);
    assert_eq!(stream.lines(), NOTHING);
}

#[test]
fn fr10_a_server_that_writes_no_message_but_many_lines_is_closed_with_the_reason() {
    for line in ["noise", "{\"level\":\"info\"}", "[1,2"] {
        let mut stream = ClientStream::client();
        stream.machine.connect(stream.now).unwrap();
        for _ in 0..1000 {
            stream.line(line);
        }
        assert!(!stream.machine.is_closed(), "{line}");
        stream.line(line);
        let events = stream.events();
        let reason = Unavailable::Failed(Failed::NoMessages { limit: 1000 });
        let unavailable =
            |event: &ClientEvent| matches!(event, ClientEvent::Unavailable { reason: found, .. } if *found == reason);
        assert!(events.iter().any(unavailable), "{events:?}");
        assert_eq!(events.last(), Some(&ClientEvent::Closed(CloseReason::Garbage { limit: 1000 })));
        // The first ten lines, and the numbers 100 and 1,000.
        assert_eq!(client_faults(&events).len(), 12, "{line}");
    }
}

#[test]
fn fr10_a_server_with_messages_may_write_any_number_of_other_lines() {
    for line in ["noise", "{\"level\":\"info\"}", "{\"level\":\"info\",\"id\":\"unknown\"}"] {
        let mut stream = ClientStream::connected();
        let (key, id) = stream.request("tools/call");
        for _ in 0..100_000 {
            stream.line(line);
        }
        stream.line(result(&id, "{}"));
        let (outcomes, others) = stream.outcomes();
        assert_eq!(outcomes, [(key, Outcome::Result(json("{}")))], "{line}");
        // The first ten lines, and the numbers 100 to 100,000.
        assert_eq!(client_faults(&others).len(), 14, "{line}");
        assert_eq!(client_faults(&others).last(), Some(&&Fault::NotMessages { lines: 100_000 }), "{line}");
        assert_eq!(stream.lines(), NOTHING, "{line}");
    }
}

#[test]
fn fr10_malformed_requests_among_many_lines_are_answered() {
    let mut client = ClientStream::connected();
    let mut server = ServerStream::ready("2025-11-25");
    for _ in 0..2000 {
        client.line("noise");
        server.line("noise");
    }
    assert_eq!((client.lines().len(), server.lines().len()), (0, 1000), "of a client, a thousand are answered");
    let malformed = r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":1}"#;
    client.line(malformed);
    server.line(malformed);
    for lines in [client.lines(), server.lines()] {
        assert!(lines.len() == 1 && lines[0].contains(r#""id":7,"error":"#), "{lines:?}");
    }
}

#[test]
fn fr10_occasional_noise_is_tolerated_without_end() {
    let mut stream = ClientStream::connected();
    for _ in 0..100 {
        for _ in 0..500 {
            stream.line("noise");
        }
        stream.pass(Duration::from_secs(60));
        stream.events();
    }
    assert!(!stream.machine.is_closed());
}

#[test]
fn fr11_two_texts_on_one_line_are_answered_without_an_id() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(format!("{}{}", request("1", "a", "{}"), request("2", "b", "{}")));
    let lines = stream.lines();
    assert!(lines.len() == 1 && lines[0].starts_with(r#"{"jsonrpc":"2.0","error":{"code":-32700"#), "{lines:?}");
    assert!(stream.requested().is_empty());
}

#[test]
fn fr12_empty_lines_cost_nothing_and_garbage_lines_not_much() {
    for is_ready in [false, true] {
        let mut stream = if is_ready { ServerStream::ready("2025-11-25") } else { ServerStream::server() };
        stream.bytes(&b"\n".repeat(10_000_000));
        assert!(stream.events().is_empty() && stream.lines().is_empty());
        stream.bytes(&b"x\n".repeat(100_000));
        assert_eq!(stream.lines().len(), 1000);
        let events = stream.events();
        let is_closed =
            matches!(events.last(), Some(ServerEvent::Closed { reason: CloseReason::Garbage { limit: 1000 }, .. }));
        assert_eq!(is_closed, !is_ready, "{events:?}");
        assert_eq!(server_faults(&events).len(), if is_ready { 14 } else { 12 });
    }
}

#[test]
fn fr12_lines_that_are_too_long_are_garbage_too() {
    let long = format!("{}\n", "x".repeat(5000)).into_bytes();
    let bounded = |limits: &mut Limits| (limits.message, limits.garbage) = (4096, 20);
    let mut server = ServerStream::server_with(|config| bounded(&mut config.limits));
    let mut config = legacy_client("c");
    bounded(&mut config.limits);
    let mut client = ClientStream::of(Client::new(Stdio::new(), config).unwrap());
    client.machine.connect(client.now).unwrap();
    for count in 1..=21 {
        server.bytes(&long);
        client.bytes(&long);
        let closed = [
            server
                .events()
                .iter()
                .any(|event| matches!(event, ServerEvent::Closed { reason: CloseReason::Garbage { .. }, .. })),
            client.events().iter().any(|event| matches!(event, ClientEvent::Closed(CloseReason::Garbage { .. }))),
        ];
        assert_eq!(closed, [count == 21; 2], "after {count} lines");
    }
}

#[test]
fn fr13_a_raw_line_end_in_a_payload_never_ends_a_line() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "m", "{}"));
    let ticket = stream.requested().remove(0);
    stream.machine.respond(ticket, Ok(json("{\n\"a\":\r\n1}")), stream.now).unwrap();
    assert_eq!(stream.lines(), [result("1", "{ \"a\":  1}")]);
    stream
        .machine
        .notify(stream.machine.session(), Notification::with_params("n\nn", json("{\n}")), stream.now)
        .unwrap();
    assert_eq!(stream.lines(), [r#"{"jsonrpc":"2.0","method":"n\nn","params":{ }}"#]);
}

#[test]
fn fr14_with_a_peer_that_never_reads_the_machine_accepts_no_more_input() {
    let mut stream = ServerStream::ready("2025-11-25");
    let mut fed = 0;
    while stream.machine.wants_input() {
        stream.machine.handle_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", stream.now);
        fed += 1;
        assert!(fed <= 1024);
    }
    stream.lines();
    assert!(stream.machine.wants_input());
}

#[test]
fn fr15_at_the_end_of_input_requests_are_answered_within_a_bound() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "a", "{}"));
    stream.line(request("2", "b", "{}"));
    let mut tickets = stream.requested();
    stream.eof();
    stream.machine.respond(tickets.remove(0), Ok(json("{}")), stream.now).unwrap();
    assert_eq!(stream.lines(), [result("1", "{}")]);
    assert_eq!(stream.events(), [ServerEvent::InputEnded]);
    stream.pass(Duration::from_secs(5));
    assert_eq!(stream.lines(), [error("2", -32603, "the connection was closed before the answer came")]);
    let events = stream.events();
    assert!(
        matches!(&events[..], [ServerEvent::Cancelled { .. }, ServerEvent::Closed { reason: CloseReason::Peer, .. }]),
        "{events:?}"
    );
    assert!(stream.is_write_closed);
    // The answer comes too late and is not written.
    stream.machine.respond(tickets.remove(0), Ok(json("{}")), stream.now).unwrap();
    assert_eq!(stream.lines(), NOTHING);
}

// ---- JS: JSON

#[test]
fn js1_a_result_that_is_too_deep_fails_its_request() {
    for depth in [200, 1_000_000] {
        let mut stream = ClientStream::connected();
        let (key, id) = stream.request("tools/call");
        stream.line(result(&id, &format!("{}{}", "[".repeat(depth), "]".repeat(depth))));
        let (outcomes, _) = stream.outcomes();
        let reason = InvalidResponse::Json(mcp_proto::JsonError::TooDeep { limit: 128 });
        assert_eq!(outcomes, [(key, Outcome::Failed(Failed::InvalidResponse { reason }))]);
    }
}

#[test]
fn js1_parameters_that_are_too_deep_are_answered_with_the_id() {
    for depth in [129, 10_000, 1_000_000] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(request("9", "m", &format!("{}{}", "[".repeat(depth), "]".repeat(depth))));
        assert_eq!(stream.lines(), [error("9", -32600, "JSON nested deeper than 128")]);
    }
}

#[test]
fn js2_js3_js14_large_and_odd_but_valid_parameters_pass_unchanged() {
    let keys: Vec<_> = (0..100_000).map(|number| format!("\"{number}\":{number}")).collect();
    for params in [
        format!("{{{}}}", keys.join(",")),
        format!("{{\"a\":[{}0]}}", "0,".repeat(100_000)),
        format!("{{\"n\":{}}}", "9".repeat(5000)),
        r#"{"a":1e400,"b":-0,"c":1E+2,"d":0.10}"#.to_owned(),
        format!("{{\"s\":\"{}\"}}", "\\u0041".repeat(1 << 20)),
    ] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(request("1", "m", &params));
        echo(&mut stream);
        assert!(stream.lines() == [result("1", &params)]);
    }
}

#[test]
fn jr_12_parameters_are_an_object_or_null_for_none() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "m", "null"));
    assert_eq!(stream.requested().len(), 1);
    for params in ["[]", "[1]", "1", "\"text\"", "true"] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(request("1", "m", params));
        assert!(stream.lines()[0].starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32"#), "{params}");
        assert!(stream.requested().is_empty(), "{params}");
    }
}

#[test]
fn js3_invalid_numbers_are_answered_with_the_id() {
    for number in ["01", "NaN", "Infinity", "0x10", "1.", ".5", "+1", "1e"] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(request("1", "m", &format!("{{\"a\":{number}}}")));
        assert!(stream.lines()[0].contains(r#""id":1,"error":{"code":-32700"#), "{number}");
    }
}

#[test]
fn js4_an_unpaired_surrogate_passes_in_parameters_and_nowhere_else() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "m", r#"{"a":"\ud800"}"#));
    echo(&mut stream);
    assert_eq!(stream.lines(), [result("1", r#"{"a":"\ud800"}"#)]);
    stream.line(request("1", r"\ud800", "{}"));
    assert!(stream.lines()[0].contains("-32600"));
}

#[test]
fn js5_duplicate_members_of_the_envelope_are_never_executed() {
    for (line, answer) in [
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, r#"{"jsonrpc":"2.0","error":{"code":-32600"#),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600"#),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600"#,
        ),
    ] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(line);
        assert!(stream.lines()[0].starts_with(answer), "{line}");
        assert!(stream.requested().is_empty());
    }
}

#[test]
fn js6_duplicate_keys_in_parameters_are_refused_at_any_depth() {
    for params in [
        r#"{"name":"a","name":"b"}"#,
        r#"{"uri":"a","\u0075ri":"b"}"#,
        r#"{"_meta":{"progressToken":1,"progressToken":2}}"#,
        r#"{"arguments":{"deep":[{"x":1,"x":2}]}}"#,
    ] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(request("1", "tools/call", params));
        assert_eq!(stream.lines(), [error("1", -32602, "invalid params: two members of one name")]);
        assert!(stream.requested().is_empty());
        stream.line(format!(r#"{{"jsonrpc":"2.0","method":"n","params":{params}}}"#));
        assert_eq!(server_faults(&stream.events()), [&Fault::DuplicateKey]);
        // `strict_json` can be turned off, and then the parameters are accepted.
        let mut stream = ServerStream::ready_with("2025-11-25", |config| config.strict_json = false);
        stream.line(request("1", "tools/call", params));
        assert_eq!(stream.requested().len(), 1);
    }
}

#[test]
fn js7_js10_js12_js13_what_is_no_request_is_answered_as_far_as_it_can_be() {
    for (line, answer) in [
        (r#"{"jsonrpc":"2.0","id":1,"METHOD":"m"}"#, r#""id":1,"error":{"code":-32600"#),
        (r#"{"jsonrpc":"2.0","id":1,"Method":"m","constructor":1}"#, r#""id":1,"error":{"code":-32600"#),
        (r#"{"id":1,"method":"m"}"#, r#""id":1,"error":{"code":-32600"#),
        (r#"{"jsonrpc":"1.0","id":"a","method":"m"}"#, r#""id":"a","error":{"code":-32600"#),
        (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, r#""id":1,"error":{"code":-32600"#),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":7}"#, r#""id":1,"error":{"code":-32602"#),
        ("42", r#""error":{"code":-32600"#),
        ("{}", r#""error":{"code":-32600"#),
        ("null", r#""error":{"code":-32600"#),
    ] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(line);
        let lines = stream.lines();
        assert!(lines.len() == 1 && lines[0].contains(answer), "{line}: {lines:?}");
        assert_eq!(lines[0].contains("\"id\""), answer.contains("\"id\""), "{line}");
        assert!(stream.requested().is_empty());
    }
    // A notification is never answered (JR-11).
    for line in [r#"{"jsonrpc":"2.0","method":"m","params":7}"#, r#"{"method":"m"}"#] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(line);
        assert_eq!(stream.lines(), Vec::<String>::new(), "{line}");
    }
    let mut stream = ServerStream::ready("2025-11-25");
    for name in ["__proto__", "constructor", "toString", "$serde_json::private::RawValue"] {
        stream.line(request(&format!("\"{name}\""), name, &format!("{{\"{name}\":1}}")));
        echo(&mut stream);
        assert_eq!(stream.lines(), [result(&format!("\"{name}\""), &format!("{{\"{name}\":1}}"))]);
    }
}

#[test]
fn js8_js9_ids_come_back_exactly_or_not_at_all() {
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for (id, valid) in [
        ("1", true),
        ("\"1\"", true),
        ("-1", true),
        ("0", true),
        ("\"\"", true),
        ("9007199254740993", true),
        ("9223372036854775807", true),
        ("\"a\\u0062\"", true),
        ("1.0", false),
        ("1.5", false),
        ("1e3", false),
        ("9223372036854775808", false),
        ("18446744073709551616", false),
        ("true", false),
        ("[]", false),
        ("{}", false),
        ("null", false),
        (long.as_str(), false),
    ] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(request(id, "m", "{}"));
        echo(&mut stream);
        let lines = stream.lines();
        if valid {
            assert_eq!(lines, [result(id, "{}")]);
        } else {
            assert!(lines[0].starts_with(r#"{"jsonrpc":"2.0","error":{"code":-32600"#), "{lines:?}");
        }
    }
}

#[test]
fn js11_a28_the_revision_determines_how_an_unreadable_id_is_written() {
    for (version, id) in [("2024-11-05", true), ("2025-03-26", true), ("2025-06-18", true), ("2025-11-25", false)] {
        let mut stream = ServerStream::ready(version);
        stream.line("nonsense");
        assert_eq!(stream.lines()[0].contains(r#""id":null"#), id, "{version}");
    }
}

#[test]
fn js15_text_in_other_encodings_is_no_json() {
    let utf16: Vec<u8> = request("1", "m", "{}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(&utf16);
    assert!(stream.lines()[0].contains("-32700"));
}

// ---- RP: JSON-RPC behaviour

#[test]
fn rp1_rp2_responses_that_answer_nothing_are_reported_and_change_nothing() {
    let mut stream = ClientStream::connected();
    let (key, id) = stream.request("a");
    for stray in ["77", "\"1\"", "null"] {
        stream.line(result(stray, "{}"));
    }
    stream.line(result(&id, "{\"first\":1}"));
    stream.line(result(&id, "{\"second\":1}"));
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes, [(key, Outcome::Result(json("{\"first\":1}")))]);
    assert_eq!(client_faults(&others).len(), 4);

    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(result("77", "{}"));
    assert!(matches!(server_faults(&stream.events())[..], [Fault::UnknownResponse { .. }]));
    assert_eq!(stream.lines(), NOTHING);
}

#[test]
fn c8_an_id_is_matched_by_type_and_value() {
    let mut stream = ClientStream::connected();
    let (key, id) = stream.request("a");
    for wrong in [format!("\"{id}\""), format!("{id}.0"), format!("{id}e0")] {
        stream.line(result(&wrong, "{}"));
    }
    let (outcomes, others) = stream.outcomes();
    assert!(outcomes.is_empty(), "{others:?}");
    stream.line(result(&id, "{}"));
    assert_eq!(stream.outcomes().0, [(key, Outcome::Result(json("{}")))]);
}

#[test]
fn rp4_two_requests_with_one_id_are_both_answered_and_both_cancelled() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "slow", "{}"));
    stream.line(request("1", "quick", "{}"));
    let events = stream.events();
    assert!(matches!(server_faults(&events)[..], [Fault::DuplicateId { .. }]));
    let mut tickets: Vec<_> = events
        .into_iter()
        .filter_map(|event| if let ServerEvent::Requested { ticket, .. } = event { Some(ticket) } else { None })
        .collect();
    stream.machine.respond(tickets.pop().unwrap(), Ok(json("{\"quick\":1}")), stream.now).unwrap();
    stream.machine.respond(tickets.pop().unwrap(), Ok(json("{\"slow\":1}")), stream.now).unwrap();
    assert_eq!(stream.lines(), [result("1", "{\"quick\":1}"), result("1", "{\"slow\":1}")]);

    stream.line(request("2", "slow", "{}"));
    stream.line(request("2", "slow", "{}"));
    stream.events();
    stream.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    assert_eq!(stream.events().len(), 2);
    assert_eq!(stream.machine.requests_in_flight(), 0);
}

#[test]
fn rp5_a_response_that_is_none_fails_its_request_at_once() {
    for response in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":{"message":"no code"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1.5,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"a":NaN}}"#,
        r#"{"id":ID,"result":{}}"#,
    ] {
        let mut stream = ClientStream::connected();
        let (key, id) = stream.request("a");
        stream.line(response.replace("ID", &id));
        let (outcomes, _) = stream.outcomes();
        assert!(
            matches!(&outcomes[..], [(answered, Outcome::Failed(Failed::InvalidResponse { .. }))] if *answered == key),
            "{response}: {outcomes:?}"
        );
        assert_eq!(stream.lines(), NOTHING, "a response is not answered");
        // The same holds for a response to a request of the server.
        let mut stream = ServerStream::ready("2025-11-25");
        let key = stream.machine.request(stream.machine.session(), Call::new("roots/list"), stream.now).unwrap();
        stream.lines();
        stream.line(response.replace("ID", "1"));
        assert!(stream.events().iter().any(
            |event| matches!(event, ServerEvent::Responded { request, outcome: Outcome::Failed(_) } if *request == key)
        ));
        assert_eq!(stream.lines(), NOTHING);
    }
}

#[test]
fn rp6_a_response_that_repeats_the_method_of_its_request_is_its_response() {
    let failed = Outcome::Error(ErrorObject::new(7, "no"));
    for (members, expected) in [
        (r#""method":"METHOD","result":{"x":1}"#, Outcome::Result(json(r#"{"x":1}"#))),
        (r#""method":"METHOD","params":{"a":1},"result":{"x":1}"#, Outcome::Result(json(r#"{"x":1}"#))),
        (r#""error":{"code":7,"message":"no"},"method":"METHOD""#, failed.clone()),
        (r#""method":7,"result":{"x":1}"#, Outcome::Result(json(r#"{"x":1}"#))),
    ] {
        let response =
            |id: &str, method: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, members.replace("METHOD", method));
        let mut stream = ClientStream::connected();
        let (key, id) = stream.request("a");
        stream.line(response(&id, "a"));
        let (outcomes, others) = stream.outcomes();
        assert_eq!(outcomes, [(key, expected.clone())], "{members}");
        assert_eq!(others, [ClientEvent::QuirkObserved(Quirk::MethodInResponse)], "{members}");
        assert_eq!(stream.lines(), NOTHING, "a response is not answered");
        let mut stream = ServerStream::ready("2025-11-25");
        let key = stream.machine.request(stream.machine.session(), Call::new("roots/list"), stream.now).unwrap();
        stream.lines();
        stream.line(response("1", "roots/list"));
        let events = stream.events();
        let outcome = events.iter().find_map(|event| match event {
            ServerEvent::Responded { request, outcome } if *request == key => Some(outcome),
            _ => None,
        });
        assert_eq!(outcome, Some(&expected), "{members}");
        assert_eq!(stream.lines(), NOTHING, "a response is not answered");
    }
}

#[test]
fn null_in_place_of_parameters_is_reported_once_for_each_line() {
    let with = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#;
    let null = r#"{"jsonrpc":"2.0","method":"notifications/x","params":null}"#;
    let without = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let batch = |messages: [&str; 2]| format!("[{}]", messages.join(","));
    for (line, expected) in [
        (with.to_owned(), 0),
        (without.to_owned(), 0),
        (null.to_owned(), 1),
        (batch([null, null]), 1),
        (batch([null, with]), 1),
        (batch([with, null]), 1),
        (batch([with, without]), 0),
    ] {
        let mut stream = ClientStream::connected();
        stream.line(&line);
        stream.line(without);
        let events = stream.events();
        let found = events.iter().filter(|event| **event == ClientEvent::QuirkObserved(Quirk::NullParams)).count();
        assert_eq!(found, expected, "{line}: {events:?}");
    }
}

#[test]
fn rp6_a_message_with_a_method_and_a_result_is_not_executed() {
    for (members, is_answered) in [
        (r#""result":{}"#, false),
        (r#""error":{"code":1,"message":"x"}"#, false),
        (r#""result":null"#, true),
        (r#""error":null"#, true),
        (r#""result":null,"error":null"#, true),
    ] {
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t"}},{members}}}"#));
        let lines = stream.lines();
        if is_answered {
            assert!(lines[0].contains(r#""id":1,"error":{"code":-32600"#), "{members}: {lines:?}");
        } else {
            assert_eq!(lines, NOTHING, "{members}");
        }
        assert!(stream.requested().is_empty(), "{members}");
    }
}

#[test]
fn rp7_an_error_without_an_id_ends_no_request_on_a_stream() {
    for error in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#,
    ] {
        let mut stream = ClientStream::connected();
        let (key, id) = stream.request("a");
        stream.line(error);
        let (outcomes, others) = stream.outcomes();
        assert!(outcomes.is_empty());
        assert_eq!(client_faults(&others), [&Fault::PeerError { code: -32700 }]);
        stream.line(result(&id, "{}"));
        assert_eq!(stream.outcomes().0, [(key, Outcome::Result(json("{}")))]);
        let mut stream = ServerStream::ready("2025-11-25");
        stream.line(error);
        assert_eq!(server_faults(&stream.events()), [&Fault::PeerError { code: -32700 }]);
    }
}

#[test]
fn rp8_batches_are_served_where_they_exist_and_refused_elsewhere() {
    let one = request("1", "m", "{}");
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut stream = ServerStream::ready(version);
        stream.line(format!("[{one}]"));
        let lines = stream.lines();
        assert!(lines.len() == 1 && lines[0].contains("-32600"), "{version}: {lines:?}");
        assert!(stream.requested().is_empty());
    }
    let many = |count: usize| format!("[{}]", vec![one.as_str(); count].join(","));
    for (batch, answers) in [
        ("[]".to_owned(), Some(1)),
        (many(101), Some(1)),
        (format!("[[{one}]]"), Some(1)),
        (many(3), Some(3)),
        (format!("[{}]", [INITIALIZED; 3].join(",")), None),
        (format!("[{INITIALIZED},{one}]"), Some(1)),
    ] {
        let mut stream = ServerStream::ready("2025-03-26");
        stream.line(&batch);
        echo(&mut stream);
        let lines = stream.lines();
        match answers {
            None => assert_eq!(lines, NOTHING, "{batch:.80}"),
            Some(count) => {
                assert_eq!(lines.len(), 1, "{batch:.80}");
                assert_eq!(lines[0].matches("\"jsonrpc\"").count(), count, "{batch:.80}: {}", lines[0]);
            }
        }
    }
    // `initialize` in a batch is refused (JR-32).
    let mut stream = ServerStream::server();
    stream.line(format!("[{}]", initialize("1", "2025-03-26")));
    assert!(stream.lines()[0].contains("-32600"));
}

#[test]
fn rp9_a_flood_of_notifications_is_bounded_however_it_is_fed() {
    let mut stream = ClientStream::connected();
    let (_, id) = stream.request("a");
    // A driver that respects `wants_input` stops early.
    let log =
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n";
    let mut fed = 0;
    while stream.machine.wants_input() {
        stream.machine.handle_bytes(log, stream.now);
        fed += 1;
    }
    assert!(fed <= 1024, "{fed}");
    // If the driver ignores it, notifications that may be dropped are dropped and counted.
    for _ in 0..100_000 {
        stream.machine.handle_bytes(log, stream.now);
    }
    stream.line(result(&id, "{}"));
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes.len(), 1);
    assert!(others.len() <= 2049, "{}", others.len());
    let dropped: u64 =
        client_faults(&others).iter().map(|fault| if let Fault::Dropped { count } = fault { *count } else { 0 }).sum();
    assert_eq!(usize::try_from(dropped).unwrap() + others.len() - 1, fed + 100_000);
    // Other notifications cannot be dropped: too many of them close the connection.
    for _ in 0..3000 {
        stream.machine.handle_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}\n", stream.now);
    }
    let (_, others) = stream.outcomes();
    assert_eq!(others.last(), Some(&ClientEvent::Closed(CloseReason::Overflow)));
}

#[test]
fn rp10_a_flood_of_requests_is_answered_busy_beyond_the_limit() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.limits.requests_in = 10);
    for id in 0..15 {
        stream.line(request(&id.to_string(), "m", "{}"));
    }
    let lines = stream.lines();
    assert_eq!(lines.len(), 5);
    assert!(lines[0].contains(r#""id":10,"error":{"code":-32603"#), "{lines:?}");
    assert!(!stream.machine.wants_input());
    let mut stream = ClientStream::connected_with(|config| {
        config.limits.requests_in = 10;
        config.capabilities = json(r#"{"roots":{}}"#);
    });
    for id in 0..15 {
        stream.line(request(&id.to_string(), "roots/list", "{}"));
    }
    assert_eq!(stream.lines().len(), 5);
}

#[test]
fn rp11_rp13_a_request_ends_once_and_a_late_answer_is_ignored() {
    let mut stream = ClientStream::connected();
    let (cancelled, id) = stream.request("a");
    stream.machine.cancel(cancelled, Some("no longer"), stream.now);
    let notice = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"no longer"}}}}"#
    );
    assert_eq!(stream.lines(), [notice]);
    stream.line(result(&id, "{}"));
    stream.machine.cancel(cancelled, None, stream.now);
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes, [(cancelled, Outcome::Failed(Failed::Cancelled))]);
    assert!(matches!(client_faults(&others)[..], [Fault::LateResponse { .. }]));

    let (answered, id) = stream.request("b");
    stream.line(result(&id, "{}"));
    stream.machine.cancel(answered, None, stream.now);
    assert_eq!(stream.lines(), NOTHING);

    let (slow, id) = stream.request("c");
    stream.pass(Duration::from_secs(60));
    assert!(stream.lines()[0].contains("notifications/cancelled"));
    stream.line(result(&id, "{}"));
    let (outcomes, _) = stream.outcomes();
    let timed_out = Outcome::Failed(Failed::TimedOut { after: Duration::from_secs(60) });
    assert_eq!(outcomes, [(answered, Outcome::Result(json("{}"))), (slow, timed_out)]);

    // A server ignores cancellations with an unknown id, or an id of another type.
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "m", "{}"));
    let ticket = stream.requested().remove(0);
    for params in [r#"{"requestId":2}"#, r#"{"requestId":"1"}"#, r#"{"requestId":1.0}"#, "{}", "[]"] {
        stream.line(format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#));
    }
    assert!(stream.events().is_empty());
    stream.machine.respond(ticket, Ok(json("{}")), stream.now).unwrap();
    assert_eq!(stream.lines(), [result("1", "{}")]);
}

#[test]
fn rp13_as_many_abandoned_requests_are_remembered_as_the_limit_allows() {
    let mut stream = ClientStream::connected_with(|config| config.limits.tombstones = 2);
    let ids = [(); 3].map(|()| {
        let (request, id) = stream.request("a");
        stream.machine.cancel(request, None, stream.now);
        id
    });
    stream.outcomes();
    let late = ids.map(|id| {
        stream.line(result(&id, "{}"));
        let (_, others) = stream.outcomes();
        match client_faults(&others)[..] {
            [Fault::LateResponse { .. }] => true,
            [Fault::UnknownResponse { .. }] => false,
            ref other => panic!("{other:?}"),
        }
    });
    assert_eq!(late, [false, true, true]);
}

fn progress(token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1.0}}}}"#
    )
}

#[test]
fn rp12_progress_counts_for_requests_of_a_server_as_well() {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| config.max_timeout = Duration::from_secs(200));
    let asked =
        stream.machine.request(stream.machine.session(), Call::new("roots/list").with_progress(), stream.now).unwrap();
    let line = stream.lines().remove(0);
    assert!(line.contains(r#""params":{"_meta":{"progressToken":1}}"#), "{line}");
    for token in ["2", "\"1\"", "null"] {
        stream.line(progress(token));
        assert_eq!(stream.events(), [ServerEvent::Faulted(Fault::UnknownProgressToken)], "{token}");
    }
    for _ in 0..4 {
        stream.pass(Duration::from_secs(49));
        stream.line(progress("1"));
        let events = stream.events();
        assert!(matches!(&events[..], [ServerEvent::Progressed { request, .. }] if *request == asked), "{events:?}");
    }
    stream.pass(Duration::from_secs(4));
    let events = stream.events();
    let timed_out = Outcome::Failed(Failed::TimedOut { after: Duration::from_secs(60) });
    assert_eq!(events, [ServerEvent::Responded { request: asked, outcome: timed_out }], "TO-03: 200 seconds are over");
    stream.line(progress("1"));
    assert_eq!(stream.events(), [ServerEvent::Faulted(Fault::UnknownProgressToken)]);
}

#[test]
fn rp12_progress_counts_for_requests_in_flight_and_up_to_the_hard_maximum() {
    let mut stream = ClientStream::connected_with(|config| config.max_timeout = Duration::from_secs(200));
    let key = stream.machine.request(Call::new("a").with_progress(), stream.now).unwrap();
    let line = stream.lines().remove(0);
    assert!(line.contains(r#""params":{"_meta":{"progressToken":2}}"#), "{line}");
    for token in ["3", "\"2\"", "2.0", "null"] {
        stream.line(progress(token));
    }
    let (outcomes, others) = stream.outcomes();
    assert!(outcomes.is_empty());
    assert_eq!(
        others,
        vec![(); 4].into_iter().map(|()| ClientEvent::Faulted(Fault::UnknownProgressToken)).collect::<Vec<_>>()
    );
    for _ in 0..4 {
        stream.pass(Duration::from_secs(49));
        stream.line(progress("2"));
    }
    let (outcomes, others) = stream.outcomes();
    assert!(outcomes.is_empty() && others.len() == 4);
    stream.pass(Duration::from_secs(4));
    assert_eq!(stream.outcomes().0.len(), 1, "TO-03: 200 seconds are over");
    stream.line(progress("2"));
    assert_eq!(stream.outcomes().1, [ClientEvent::Faulted(Fault::UnknownProgressToken)]);
    let _ = key;
}

#[test]
fn rp12_a_flood_of_progress_is_reduced_to_the_newest_and_what_is_lost_is_counted() {
    // If the parameters are large, not even the newest notification is kept.
    for (padding, count, keeps_newest) in [(0, 100_000, true), (2000, 10_000, false)] {
        let mut stream = ClientStream::connected();
        stream.machine.request(Call::new("a").with_progress(), stream.now).unwrap();
        stream.lines();
        for number in 1..=count {
            let params = format!(r#"{{"progressToken":2,"progress":{number},"message":"{}"}}"#, "x".repeat(padding));
            let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{params}}}\n");
            stream.machine.handle_bytes(line.as_bytes(), stream.now);
        }
        let (_, others) = stream.outcomes();
        let (mut reported, mut dropped, mut newest) = (0, 0, String::new());
        for event in &others {
            match event {
                ClientEvent::Progressed { params, .. } => {
                    reported += 1;
                    newest = params.to_text().into_owned();
                }
                ClientEvent::Faulted(Fault::Dropped { count }) => dropped += count,
                other => panic!("{other:?}"),
            }
        }
        assert!(reported < 2100, "{reported}");
        assert_eq!(reported + dropped, count, "each is reported or counted");
        assert_eq!(newest.contains(&format!(r#""progress":{count},"#)), keeps_newest, "{padding}");
    }
}

#[test]
fn rp14_what_was_not_declared_is_refused() {
    for (method, capability) in
        [("sampling/createMessage", "sampling"), ("roots/list", "roots"), ("elicitation/create", "elicitation")]
    {
        let mut stream = ClientStream::connected();
        stream.line(request("\"s\"", method, "{}"));
        assert!(stream.lines()[0].contains(r#""id":"s","error":{"code":-32601"#));
        let mut stream =
            ClientStream::connected_with(|config| config.capabilities = json(&format!("{{\"{capability}\":{{}}}}")));
        stream.line(request("\"s\"", method, "{}"));
        let (_, mut others) = stream.outcomes();
        let Some(ClientEvent::Requested { ticket, .. }) = others.pop() else { panic!("not asked") };
        stream.machine.answer(ticket, Ok(json("{}")), stream.now);
        assert_eq!(stream.lines(), [result("\"s\"", "{}")]);
    }
}

#[test]
fn rp15_reserved_error_codes_are_refused_and_the_request_is_still_answered() {
    for code in [-32020, -32042, -32099] {
        let mut stream = ServerStream::ready("2025-06-18");
        stream.line(request("1", "m", "{}"));
        let ticket = stream.requested().remove(0);
        let outcome = stream.machine.respond(ticket, Err(ErrorObject::new(code, "mine")), stream.now);
        assert_eq!(outcome, Err(UsageError::ReservedErrorCode { code }));
        assert_eq!(stream.lines(), [error("1", -32603, "internal error")]);
    }
}

#[test]
fn rp16_cl6_ids_are_never_used_twice_and_nothing_grows() {
    let mut stream = ClientStream::connected();
    let mut last = 0;
    for _ in 0..20_000 {
        let (_, id) = stream.request("a");
        let id: i64 = id.parse().unwrap();
        assert!(id > last);
        last = id;
        stream.line(result(&id.to_string(), "{}"));
        stream.events();
    }
    assert_eq!(stream.machine.requests_in_flight(), 0);
    assert_eq!(stream.machine.poll_timeout(), None);
}

// ---- the handshake of a server (RULES 7.3)

#[test]
fn se1_se2_before_initialize_only_it_and_ping_are_served_and_afterwards_it_is_not() {
    let mut stream = ServerStream::server();
    stream.line(request("1", "tools/list", "{}"));
    stream.line(request("2", "ping", "{}"));
    stream.line(request("3", "server/discover", "{}"));
    let lines = stream.lines();
    assert!(lines[0].contains(r#""id":1,"error":{"code":-32600"#));
    assert_eq!(lines[1], result("2", "{}"));
    assert!(lines[2].contains(r#""id":3,"error":{"code":-32601"#));
    stream.line(initialize("4", "2025-06-18"));
    stream.line(initialize("5", "2024-11-05"));
    let lines = stream.lines();
    assert!(lines[0].contains(r#""id":4,"result":{"protocolVersion":"2025-06-18""#));
    assert!(lines[1].contains(r#""id":5,"error":{"code":-32600"#));
    assert_eq!(
        stream.machine.version(stream.machine.session()).map(mcp_proto::ProtocolVersion::as_str),
        Some("2025-06-18")
    );
}

#[test]
fn lc_04_lc_05_the_revision_that_is_asked_for_is_answered_if_it_is_served() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut stream = ServerStream::server();
        stream.line(initialize("1", asked));
        assert!(stream.lines()[0].contains(&format!(r#""protocolVersion":"{answered}""#)), "{asked}");
    }
}

#[test]
fn lc_06_a_client_disconnects_from_a_server_of_an_unknown_revision() {
    for answered in ["1999-01-01", "2026-07-28"] {
        let config = mcp_testkit::http_client::legacy_client("c");
        let mut client = mcp_proto::Client::new(mcp_proto::Stdio::new(), config).unwrap();
        let now = mcp_proto::Instant::START;
        client.connect(now).unwrap();
        let request = client.request(Call::new("tools/list"), now).unwrap();
        let answer = result("1", &mcp_testkit::messages::initialize_result(answered));
        client.handle_bytes(format!("{answer}\n").as_bytes(), now);
        let mut events = Vec::new();
        while let Some(output) = client.poll_output() {
            if let mcp_proto::Output::Event(event) = output {
                events.push(event);
            }
        }
        assert!(events.iter().any(|event| matches!(
            event,
            ClientEvent::Responded { request: ended, outcome: Outcome::Failed(Failed::NoCommonVersion { .. }) }
                if *ended == request
        )));
        assert_eq!(events.last(), Some(&ClientEvent::Closed(CloseReason::NoCommonVersion)));
    }
}

#[test]
fn lc_10_a_client_receives_no_requests_before_it_has_confirmed() {
    let mut stream = ServerStream::server();
    assert_eq!(
        stream.machine.request(stream.machine.session(), Call::new("roots/list"), stream.now),
        Err(UsageError::NotConnected)
    );
    stream.line(initialize("1", "2025-11-25"));
    assert_eq!(
        stream.machine.request(stream.machine.session(), Call::new("roots/list"), stream.now),
        Err(UsageError::NotConnected)
    );
    assert!(stream.machine.request(stream.machine.session(), Call::new("ping"), stream.now).is_ok());
    stream.line(INITIALIZED);
    assert!(stream.machine.request(stream.machine.session(), Call::new("roots/list"), stream.now).is_ok());
}

#[test]
fn pr_02_progress_is_sent_if_requested_and_only_while_it_grows() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "m", r#"{"_meta":{"progressToken":"t\u0041"}}"#));
    stream.line(request("2", "m", "{}"));
    let mut tickets = stream.requested();
    let at = |progress: f64| mcp_proto::server::Progress { progress, total: Some(3.0), message: None };
    // JSON has no NaN and no infinity.
    for progress in [1.0, 1.0, 0.5, f64::INFINITY, 2.5, f64::NAN] {
        stream.machine.progress(&tickets[0], &at(progress), stream.now);
        stream.machine.progress(&tickets[1], &at(progress), stream.now);
    }
    let lines = stream.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        lines[1],
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t\u0041","progress":2.5,"total":3.0}}"#
    );
    let unbounded = mcp_proto::server::Progress { progress: 2.75, total: Some(f64::INFINITY), message: None };
    stream.machine.progress(&tickets[0], &unbounded, stream.now);
    assert_eq!(
        stream.lines()[0],
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t\u0041","progress":2.75}}"#
    );
    let with_text = mcp_proto::server::Progress::new(3.0).total(4.0).message("three \"of\" four");
    stream.machine.progress(&tickets[0], &with_text, stream.now);
    assert_eq!(
        stream.lines()[0],
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t\u0041","progress":3.0,"total":4.0,"message":"three \"of\" four"}}"#
    );
    let ticket = tickets.remove(0);
    let key = ticket.key();
    stream.machine.respond(ticket, Ok(json("{}")), stream.now).unwrap();
    assert!(format!("{key:?}").contains("TicketKey"));
}

// ---- CL: clock, shutdown, misuse

#[test]
fn cl1_cl2_timers_fire_once_whenever_they_are_handled() {
    let mut stream = ClientStream::connected();
    let (key, _) = stream.request("a");
    let due = stream.machine.poll_timeout().unwrap();
    for _ in 0..3 {
        stream.machine.handle_timeout(stream.now);
    }
    assert_eq!(stream.machine.poll_timeout(), Some(due));
    assert!(stream.outcomes().0.is_empty());
    // The timer fires an hour late, and several times at the same instant.
    for _ in 0..3 {
        stream.machine.handle_timeout(due + Duration::from_secs(3600));
    }
    let (outcomes, _) = stream.outcomes();
    assert!(matches!(&outcomes[..], [(timed_out, Outcome::Failed(Failed::TimedOut { .. }))] if *timed_out == key));
    // A clock that goes backwards causes no failure.
    stream.request("b");
    stream.machine.handle_timeout(stream.now - Duration::from_secs(10));
}

#[test]
fn cl3_after_the_end_commands_are_refused_and_input_is_ignored() {
    let mut stream = ClientStream::connected();
    let (key, id) = stream.request("a");
    stream.machine.close(stream.now);
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes, [(key, Outcome::Failed(Failed::Closed))]);
    assert_eq!(others, [ClientEvent::Closed(CloseReason::Local)]);
    stream.line(result(&id, "{}"));
    stream.eof();
    stream.eof();
    stream.machine.close(stream.now);
    stream.pass(Duration::from_secs(1000));
    assert_eq!(stream.machine.request(Call::new("b"), stream.now), Err(UsageError::Closed));
    assert_eq!(stream.machine.notify(Notification::new("n"), stream.now), Err(UsageError::Closed));
    assert_eq!(stream.machine.connect(stream.now), Err(UsageError::Closed));
    stream.machine.cancel(key, None, stream.now);
    assert!(stream.events().is_empty() && stream.lines().is_empty());

    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "m", "{}"));
    let ticket = stream.requested().remove(0);
    let asked = stream.machine.request(stream.machine.session(), Call::new("roots/list"), stream.now).unwrap();
    stream.lines();
    stream.machine.close(stream.now);
    let events = stream.events();
    assert!(events.contains(&ServerEvent::Responded { request: asked, outcome: Outcome::Failed(Failed::Closed) }));
    assert_eq!(stream.lines().len(), 1, "the client gets an answer to its request");
    stream.machine.respond(ticket, Ok(json("{}")), stream.now).unwrap();
    stream.line(request("2", "m", "{}"));
    stream.eof();
    assert_eq!(
        stream.machine.notify(stream.machine.session(), Notification::new("n"), stream.now),
        Err(UsageError::Closed)
    );
    assert!(stream.events().is_empty() && stream.lines().is_empty());
}

#[test]
fn cl5_limits_of_nothing_and_of_everything_are_refused() {
    for change in [
        (|limits: &mut Limits| limits.message = 0) as fn(&mut Limits),
        |limits| limits.message = usize::MAX,
        |limits| limits.depth = 0,
        |limits| limits.depth = 1025,
        |limits| limits.queue = 0,
        |limits| limits.exchanges = 0,
        |limits| limits.event = usize::MAX,
        |limits| limits.min_retry = Duration::from_secs(1000),
    ] {
        let mut config = mcp_proto::client::Config::new("c", "1");
        change(&mut config.limits);
        let outcome = mcp_proto::Client::new(mcp_proto::Stdio::new(), config).map(|_| ());
        assert!(matches!(outcome, Err(UsageError::Limit(_))));
    }
}

#[test]
fn cl3_a_connection_that_ends_before_it_was_established_is_reported_as_unavailable() {
    for close in [false, true] {
        let mut stream = ClientStream::client();
        stream.machine.connect(stream.now).unwrap();
        let request = stream.machine.request(Call::new("tools/list"), stream.now).unwrap();
        assert_eq!(stream.lines().len(), 1);
        if close {
            stream.machine.close(stream.now);
        } else {
            stream.eof();
        }
        let events = stream.events();
        let reported = |wanted: &ClientEvent| events.iter().filter(|event| *event == wanted).count();
        let reason = Unavailable::Failed(Failed::Closed);
        assert_eq!(reported(&ClientEvent::Unavailable { reason, retry_in: None }), 1, "{events:?}");
        assert_eq!(
            reported(&ClientEvent::Responded { request, outcome: Outcome::Failed(Failed::Closed) }),
            1,
            "{events:?}"
        );
        assert!(matches!(events.last(), Some(ClientEvent::Closed(_))), "{events:?}");
    }
}

#[test]
fn cl5_timeouts_without_measure_are_as_good_as_long_ones() {
    let mut client = ClientStream::connected_with(|config| {
        (config.request_timeout, config.max_timeout) = (Duration::MAX, Duration::MAX);
        config.initialize_timeout = Duration::MAX;
    });
    let key = client.machine.request(Call::new("a").timeout(Duration::MAX), client.now).unwrap();
    client.pass(Duration::from_secs(1_000_000));
    assert_eq!(client.machine.requests_in_flight(), 1);
    client.machine.cancel(key, None, client.now);
    let mut server = ServerStream::ready_with("2025-11-25", |config| {
        (config.request_timeout, config.max_timeout) = (Duration::MAX, Duration::MAX);
        config.drain_timeout = Duration::MAX;
    });
    server
        .machine
        .request(server.machine.session(), Call::new("roots/list").timeout(Duration::MAX), server.now)
        .unwrap();
    server.line(request("1", "tools/list", "{}"));
    server.eof();
    server.pass(Duration::from_secs(1_000_000));
    assert_eq!(server.requested().len(), 1);
}

fn asking_client() -> ClientStream {
    ClientStream::connected_with(|config| config.capabilities = json(r#"{"roots":{}}"#))
}

#[test]
fn the_deadline_of_a_call_runs_again_once_the_server_has_its_answer() {
    for is_taken_back in [false, true] {
        let mut client = asking_client();
        let (call, _) = client.request("tools/call");
        client.pass(30 * SECOND);
        client.line(request("\"q\"", "roots/list", "{}"));
        // The call does not time out while the application has a request of the server to answer.
        client.pass(120 * SECOND);
        let (outcomes, events) = client.outcomes();
        assert!(outcomes.is_empty(), "{outcomes:?}");
        let ticket = events.into_iter().find_map(|event| match event {
            ClientEvent::Requested { ticket, .. } => Some(ticket),
            _ => None,
        });
        let ticket = ticket.expect("the server asks");
        if is_taken_back {
            client.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#);
        } else {
            client.machine.answer(ticket, Ok(json("{}")), client.now);
        }
        client.pass(59 * SECOND);
        assert!(client.outcomes().0.is_empty(), "it has its whole time again");
        client.pass(2 * SECOND);
        let (outcomes, _) = client.outcomes();
        let after = 60 * SECOND;
        assert_eq!(outcomes, [(call, Outcome::Failed(Failed::TimedOut { after }))], "taken back: {is_taken_back}");
    }
}

#[test]
fn a_cancellation_takes_back_every_question_with_its_id() {
    let mut client = asking_client();
    client.line(request("5", "roots/list", "{}"));
    client.line(request("5", "roots/list", "{}"));
    let asked = client.events().into_iter().filter(|event| matches!(event, ClientEvent::Requested { .. })).count();
    assert_eq!(asked, 2);
    client.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    let taken_back = client.events().into_iter().filter(|event| matches!(event, ClientEvent::RequestCancelled { .. }));
    assert_eq!(taken_back.count(), 2);
}

#[test]
fn a_request_that_was_cancelled_before_it_was_sent_never_reaches_the_server() {
    let mut client = ClientStream::client();
    client.machine.connect(client.now).unwrap();
    let request = client.machine.request(Call::new("tools/call"), client.now).unwrap();
    client.machine.cancel(request, None, client.now);
    assert_eq!(client.outcomes().0, [(request, Outcome::Failed(Failed::Cancelled))]);
    client.line(result("1", &initialize_result("2025-11-25")));
    client.pass(120 * SECOND);
    let lines = client.lines();
    assert!(lines.len() == 2 && !lines.iter().any(|line| line.contains("cancelled")), "{lines:?}");
}

#[test]
fn questions_fail_at_the_end_of_input_although_a_handler_still_works() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "tools/call", "{}"));
    let ticket = stream.requested().pop().expect("a call");
    let during = Scope::from(&ticket);
    let asked = stream.machine.request(during, Call::new("elicitation/create"), stream.now).unwrap();
    assert_eq!(stream.lines().len(), 1);
    stream.machine.handle_eof(stream.now);
    let events = stream.events();
    let failed = |event: &ServerEvent| matches!(event, ServerEvent::Responded { request, outcome: Outcome::Failed(Failed::Closed) } if *request == asked);
    assert_eq!(events.iter().filter(|event| failed(event)).count(), 1, "it cannot be answered any more: {events:?}");
    assert!(!events.iter().any(|event| matches!(event, ServerEvent::Closed { .. })));
    // The handler continues without the answer, and its response is written.
    let error = ErrorObject::new(-32000, "not asked");
    stream.machine.respond(ticket, Err(error), stream.now).unwrap();
    assert!(stream.lines()[0].contains("not asked"));
    assert!(stream.events().iter().any(|event| matches!(event, ServerEvent::Closed { .. })));
}

#[test]
fn a_notification_whose_parameters_are_no_object_is_not_sent() {
    let mut stream = ClientStream::connected();
    for params in ["[]", "1", "null"] {
        let notification = Notification::with_params("x/y", json(params));
        assert_eq!(
            stream.machine.notify(notification, stream.now),
            Err(UsageError::NotAnObject { what: "the value of params" }),
            "{params}"
        );
    }
    assert!(stream.lines().is_empty());
}

#[test]
fn rp4_a_broken_request_of_the_server_is_answered() {
    let mut stream = ClientStream::connected();
    stream.line(r#"{"jsonrpc":"2.0","id":5,"method":7}"#);
    let lines = stream.lines();
    assert!(lines.len() == 1 && lines[0].starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32600"#), "{lines:?}");
}
