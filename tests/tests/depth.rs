//! Nesting uses no stack (JS1): a thread with a very small stack answers a message of a million levels.

use std::time::Instant;

use mcp_proto::{Frame, JsonError, Limits, ParseErrorKind};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::messages::{error, request};

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
