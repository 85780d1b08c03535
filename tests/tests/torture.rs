//! Recorded sessions that end at every byte, or arrive in two pieces with every split.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::client::{Call, Event, Outcome};
use mcp_proto::sse::{Decoder, Item};
use mcp_proto::{Frame, Json, Limits, Message, server};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::chunks::each_cut;
use mcp_testkit::http_client::{HttpClientHarness, Reply, broken};
use mcp_testkit::http1::{self, HttpMessage};
use tests::vectors::{Capture, Side};

/// The number of bytes of a recorded stream that are tested: what follows is similar.
const ENOUGH: usize = 6000;

/// A server that receives these pieces and then answers every request, and the lines that it writes.
fn served(pieces: &[&[u8]]) -> (ServerStream, Vec<String>) {
    let mut server = ServerStream::server();
    for piece in pieces {
        server.bytes(piece);
    }
    let (mut open, mut cancelled) = (Vec::new(), BTreeSet::new());
    for event in server.events() {
        match event {
            server::Event::Requested { ticket, .. } => open.push(ticket),
            server::Event::Cancelled { ticket, .. } => drop(cancelled.insert(ticket)),
            _ => {}
        }
    }
    for ticket in open {
        assert_eq!(server.machine.context(&ticket).is_none(), cancelled.contains(&ticket.key()));
        server.machine.respond(ticket, Ok(Json::empty_object()), server.now).expect("a result");
    }
    let lines = server.lines();
    (server, lines)
}

fn stdio_streams(side: Side) -> Vec<(String, Vec<u8>)> {
    Capture::all("stdio-")
        .into_iter()
        .map(|capture| {
            let mut stream = capture.stream(capture.connections()[0], side);
            stream.truncate(ENOUGH);
            (capture.name, stream)
        })
        .collect()
}

#[test]
fn b8_a_recorded_client_is_served_alike_in_every_two_pieces() {
    for (name, stream) in stdio_streams(Side::Client) {
        let whole = served(&[&stream]).1;
        for at in 1..stream.len() {
            let (first, second) = stream.split_at(at);
            assert_eq!(served(&[first, second]).1, whole, "{name} at {at}");
        }
    }
}

#[test]
fn b9_a_recorded_client_that_disconnects_at_any_byte_leaves_nothing_open() {
    for (name, stream) in stdio_streams(Side::Client) {
        for at in 0..=stream.len() {
            let (mut server, lines) = served(&[&stream[..at]]);
            let lines_and_rest = stream[..at].split(|byte| *byte == b'\n').count();
            assert!(lines.len() < lines_and_rest, "{name} at {at}: {lines:?}");
            server.eof();
            assert!(server.machine.is_closed() && server.is_write_closed, "{name} at {at}");
            assert_eq!(
                (server.machine.requests_in_flight(), server.machine.poll_timeout()),
                (0, None),
                "{name} at {at}"
            );
        }
    }
}

/// Hands these pieces, and then the end, to a client with requests under the ids of the recording; returns its events.
fn received(pieces: &[&[u8]], is_modern: bool) -> Vec<String> {
    let mut client = if is_modern { ClientStream::modern_with(|_| {}) } else { ClientStream::connected() };
    let mut waiting: BTreeSet<_> = (0..12)
        .map(|_| client.machine.request(Call::new("tools/call").with_progress(), client.now).expect("a request"))
        .collect();
    for piece in pieces {
        client.bytes(piece);
    }
    client.eof();
    let mut seen = Vec::new();
    for event in client.events() {
        seen.push(format!("{event:?}"));
        if let Event::Responded { request, .. } = event {
            assert!(waiting.remove(&request), "{request:?} ended twice");
        }
    }
    assert!(waiting.is_empty(), "{waiting:?} never ended");
    assert!(client.machine.is_closed());
    seen
}

#[test]
fn b8_b9_a_recorded_server_that_ends_at_any_byte_leaves_no_request_pending() {
    for (name, stream) in stdio_streams(Side::Server) {
        let is_modern = name.contains("modern") || name.contains("2026");
        let whole = received(&[&stream], is_modern);
        for at in 0..stream.len() {
            let (first, second) = stream.split_at(at);
            assert_eq!(received(&[first, second], is_modern), whole, "{name} at {at}");
            received(&[first], is_modern);
        }
    }
}

/// The recorded answers to POST requests as event streams or JSON, with the ids of the requests.
fn recorded_answers() -> Vec<(String, HttpMessage, String)> {
    let mut answers = Vec::new();
    for capture in Capture::all("server-") {
        for number in capture.connections() {
            let requests = http1::read_all(&capture.stream(number, Side::Client));
            let responses = http1::read_all(&capture.stream(number, Side::Server));
            for (request, response) in requests.into_iter().zip(responses) {
                let frame = Frame::parse(&Bytes::from(request.body), &Limits::default());
                let Ok(Frame::Single(Message::Request(asked))) = frame else { continue };
                let has_body = response.status() == 200 && response.is_complete && response.body.len() < ENOUGH;
                if has_body && asked.method.as_str() == "tools/call" {
                    answers.push((capture.name.clone(), response, asked.id.to_string()));
                }
            }
        }
    }
    answers
}

/// The outcome of a call that receives these pieces of a recorded answer.
fn outcome(response: &HttpMessage, id: &str, pieces: &[&[u8]], is_cut: bool) -> Outcome {
    let mut harness = HttpClientHarness::connected_client();
    // The call has the id of the recording, or else one that no answer matches.
    let number: u64 = id.parse().unwrap_or(0);
    let (mut key, mut opened) = harness.request("tools/call");
    while opened.id().parse::<u64>().is_ok_and(|own| own < number) {
        (key, opened) = harness.request("tools/call");
    }
    let reply = Reply::status(200).content_type(response.header("content-type"));
    harness.begin(opened.key, &reply);
    for piece in pieces {
        harness.send(opened.key, piece);
    }
    // Resumptions get no answer either.
    if is_cut {
        harness.fail(opened.key, broken());
        for _ in 0..20 {
            harness.pass(Duration::from_secs(30));
            while harness.has_opened() {
                let resumed = harness.opened();
                harness.reply(resumed.key, &Reply::status(404));
            }
        }
    } else {
        harness.end(opened.key);
        harness.pass(Duration::from_secs(700));
    }
    let mut outcomes = harness.outcomes();
    outcomes.remove(&key).expect("an outcome, and one only")
}

#[test]
fn b8_b9_a_recorded_answer_that_breaks_off_at_any_byte_ends_its_call_once() {
    let answers = recorded_answers();
    let mut seen = BTreeSet::new();
    let mut tortured = 0;
    for (name, response, id) in &answers {
        // Recordings are similar, so each kind of server and answer is tested once.
        let kind =
            (name.split('-').nth(1).unwrap_or_default(), response.header("content-type"), response.body.len() / 300);
        if !seen.insert(kind) || id.parse::<u64>().map_or(true, |id| id > 40) {
            continue;
        }
        tortured += 1;
        let body = &response.body[..];
        let whole = outcome(response, id, &[body], false);
        for at in 0..body.len() {
            let (first, second) = body.split_at(at);
            let cut = outcome(response, id, &[first], true);
            let has_answer = matches!(cut, Outcome::Result(_) | Outcome::Error(_));
            assert!(cut == whole || !has_answer, "{name} at {at}: {cut:?}");
            if at % 7 == 0 {
                assert_eq!(outcome(response, id, &[first, second], false), whole, "{name} at {at}");
            }
        }
    }
    assert!(tortured > 5, "{tortured} of {}", answers.len());
}

#[test]
fn b8_every_recorded_stream_of_events_is_the_same_in_every_two_pieces() {
    let items = |pieces: &[&[u8]]| {
        let mut decoder = Decoder::new(1 << 24, 1024);
        let mut items = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(item) = decoder.decode(&mut piece) {
                items.push(match item.expect("no limit is met") {
                    Item::Event(event) => (event.data.to_vec(), format!("{:?}", event.name)),
                    _ => (Vec::new(), String::new()),
                });
            }
        }
        items
    };
    let mut streams = BTreeSet::new();
    for capture in Capture::all("server-").into_iter().chain(Capture::all("client-")) {
        for number in capture.connections() {
            for response in http1::read_all(&capture.stream(number, Side::Server)) {
                if response.header("content-type").starts_with("text/event-stream") && response.body.len() < ENOUGH {
                    streams.insert(response.body);
                }
            }
        }
    }
    for stream in &streams {
        let whole = items(&[stream]);
        for pieces in each_cut(stream) {
            assert_eq!(items(&pieces), whole);
        }
    }
    assert!(streams.len() > 100, "{}", streams.len());
}
