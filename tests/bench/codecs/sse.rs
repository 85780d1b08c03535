//! Decoding of server-sent events, compared with other decoders over the same bytes in the same chunks.
//!
//! `cargo bench --bench sse` prints the table. With `-- once DECODER INPUT CHUNK` it decodes once and prints the size
//! of the input, so that the instructions can be counted (`tests/bench/instructions/per_byte`).

mod side_by_side;

use std::convert::Infallible;
use std::env;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{Stream, stream};
use mcp_proto::sse::{Decoder, Item};
use side_by_side::{Contender, contest, with_warm_memory};
use sse_stream::SseByteStream;

const LIMIT: usize = 1 << 30;
/// Single data lines of this many MiB. The time per byte must not grow with the length.
const LONG_LINES: [&str; 4] = ["line1", "line4", "line16", "line64"];

/// The stream with this name.
fn input(name: &str) -> Bytes {
    let stream = match name {
        "small" => {
            let event =
                format!("event: message\nid: 1234\ndata: {{\"jsonrpc\":\"2.0\",\"pad\":\"{}\"}}\n\n", "x".repeat(42));
            assert_eq!(event.len(), 100);
            event.repeat(40_000)
        }
        "bare" => format!("data: {}\n\n", "x".repeat(92)).repeat(40_000),
        "result" => format!("event: message\ndata: {}\n\n", "x".repeat(2000)).repeat(2_000),
        "pings" => ":\n\n".repeat(1_000_000),
        "comments" => ": keep-alive\n\n".repeat(300_000),
        "lines" => format!("{}\n", "data: forty bytes of a longer text, a line\n".repeat(100)).repeat(1000),
        "block" => format!("{}\n", format!("data: {}\n", "x".repeat(64)).repeat(60_000)),
        line => {
            let megabytes: usize = line.strip_prefix("line").and_then(|size| size.parse().ok()).expect("a known input");
            format!("data: {}\n\n", "x".repeat(megabytes << 20))
        }
    };
    stream.into()
}

fn mcp_proto(input: &Bytes, chunk: usize, check_utf8: bool) -> usize {
    let mut decoder = Decoder::new(LIMIT, 1024);
    let mut found = 0;
    for mut chunk in input.chunks(chunk) {
        while let Some(item) = decoder.decode(&mut chunk) {
            if let Item::Event(event) = item.expect("no limit is met") {
                if check_utf8 {
                    assert!(std::str::from_utf8(&event.data).is_ok());
                }
                found += event.data.len();
            }
        }
    }
    found
}

fn chunks(input: &Bytes, size: usize) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let input = input.clone();
    stream::iter((0..input.len()).step_by(size).map(move |start| Ok(input.slice(start..input.len().min(start + size)))))
}

/// Sums the sizes of the items of a stream that is never pending.
fn drain<S: Stream>(stream: S, size: impl Fn(S::Item) -> usize) -> usize {
    let mut stream = pin!(stream);
    let mut context = Context::from_waker(Waker::noop());
    let mut found = 0;
    while let Poll::Ready(Some(item)) = stream.as_mut().poll_next(&mut context) {
        found += size(item);
    }
    found
}

fn sse_stream(input: &Bytes, chunk: usize) -> usize {
    drain(SseByteStream::new(chunks(input, chunk)), |sse| sse.expect("valid").data.map_or(0, |data| data.len()))
}

fn eventsource_stream(input: &Bytes, chunk: usize) -> usize {
    drain(chunks(input, chunk).eventsource(), |event| event.expect("valid").data.len())
}

fn newlines(input: &Bytes, chunk: usize) -> usize {
    input.chunks(chunk).map(|chunk| memchr::memchr_iter(b'\n', chunk).count()).sum()
}

fn copied(input: &Bytes, chunk: usize) -> usize {
    let mut buffer = Vec::with_capacity(input.len());
    for chunk in input.chunks(chunk) {
        buffer.extend_from_slice(std::hint::black_box(chunk));
    }
    buffer.len()
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [once, decoder, name, chunk] = &arguments[..] {
        assert_eq!(once, "once");
        let (input, chunk) = (input(name), chunk.parse().expect("a number"));
        let found = match decoder.as_str() {
            "mcp-proto" => mcp_proto(&input, chunk, false),
            "mcp-proto+utf8" => mcp_proto(&input, chunk, true),
            "sse-stream" => sse_stream(&input, chunk),
            "eventsource-stream" => eventsource_stream(&input, chunk),
            "memchr" => newlines(&input, chunk),
            "memcpy" => copied(&input, chunk),
            "nothing" => input.len(),
            _ => panic!("no such decoder"),
        };
        assert!(found > 0 || name == "comments" || name == "pings");
        println!("{}", input.len());
        return;
    }

    with_warm_memory();
    println!("Server-sent events, MB/s; in brackets: how many times as fast as it mcp-proto is\n");
    for name in ["small", "bare", "result", "pings", "comments", "lines", "block"].iter().chain(&LONG_LINES).copied() {
        let input = &input(name);
        for chunk in [1, 64, 1448, 16 << 10, usize::MAX].map(|chunk| chunk.min(input.len())) {
            let expected = sse_stream(input, chunk);
            assert_eq!(mcp_proto(input, chunk, false), expected, "{name}");
            let mut contenders = vec![
                Contender::new("mcp-proto", move || mcp_proto(input, chunk, false)),
                Contender::new("with UTF-8 check", move || mcp_proto(input, chunk, true)),
                Contender::new("sse-stream", move || sse_stream(input, chunk)),
                Contender::new("memchr", move || newlines(input, chunk)),
            ];
            // Quadratic in the size of a chunk or line: 1 s for a line of 2 MB in chunks of 1448 bytes.
            if chunk <= 16 << 10 && !LONG_LINES.contains(&name) {
                assert_eq!(eventsource_stream(input, chunk), expected, "{name}");
                contenders.insert(3, Contender::new("eventsource-stream", move || eventsource_stream(input, chunk)));
            }
            let title = if chunk == input.len() { format!("{name} whole") } else { format!("{name} in {chunk} B") };
            contest(&title, Some(input.len()), contenders);
        }
    }
}
