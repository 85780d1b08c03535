//! How much stack the machines use: none for nesting (JS1), and none for each of many messages.

use std::time::Instant;

use mcp_proto::{Frame, JsonError, Limits, ParseErrorKind};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::messages::{error, event, request};

/// The drivers run machines on threads with small stacks: 256 KiB in `mcp-blocking`.
const DRIVER_STACK: usize = 256 * 1024;

#[test]
fn rp10_requests_of_a_server_in_one_chunk_take_no_stack_each() {
    let run = || {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/list");
        harness.begin(opened.key, &Reply::events(""));
        let asked = event(&request("1", "ping", "{}"));
        harness.send(opened.key, asked.repeat((1 << 20) / asked.len()).as_bytes());
    };
    std::thread::Builder::new().stack_size(DRIVER_STACK).spawn(run).expect("a thread").join().expect("it ends");
}

const DEEP: usize = 1_000_000;

const STACK: usize = 64 * 1024;

#[test]
fn b13_js1_a_million_levels_are_answered_with_the_id_on_a_stack_of_64_kib() {
    let line = request("7", "tools/call", &format!(r#"{{"x":{}{}}}"#, "[".repeat(DEEP), "]".repeat(DEEP))) + "\n";
    let small = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let mut stream = ServerStream::ready("2025-11-25");
        let start = Instant::now();
        for chunk in line.as_bytes().chunks(64 * 1024) {
            stream.machine.handle_bytes(chunk, stream.now);
        }
        println!("b13: answered after {} us", start.elapsed().as_micros());
        assert_eq!(stream.lines(), [error("7", -32600, "JSON nested deeper than 128")]);
    });
    small.expect("a thread").join().expect("it does not end early");
}

#[test]
fn js1_the_deepest_limit_needs_no_more_stack() {
    // The message and its parameters are two of the levels.
    let nested =
        |levels: usize| request("1", "m", &format!(r#"{{"x":{}{}}}"#, "[".repeat(levels - 2), "]".repeat(levels - 2)));
    let small = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let mut limits = Limits::default();
        limits.depth = 1024;
        assert!(Frame::parse(&nested(1024).into(), &limits).is_ok());
        let deeper = Frame::parse(&nested(1025).into(), &limits).expect_err("one level too many");
        assert_eq!(deeper.kind, ParseErrorKind::Json(JsonError::TooDeep { limit: 1024 }));
    });
    small.expect("a thread").join().expect("it does not end early");
}
