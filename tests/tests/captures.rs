//! Recorded traffic between real clients and servers: as it was, in two pieces with every split, and ended at every byte.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::client::{Call, Event, Outcome};
use mcp_proto::sse::{Decoder, Item};
use mcp_proto::{Frame, Json, Limits, Message, server};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::chunks::{cut, each_cut};
use mcp_testkit::http_client::{HttpClientHarness, Reply, broken};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::http1::{self, HttpMessage};
use serde_json::Value;
use tests::vectors::{Capture, Side};

/// The data of the events of a body that is fed in pieces of `size` bytes.
fn events(body: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new(1 << 24, 1024);
    let mut events = Vec::new();
    for mut piece in cut(body, &[size]) {
        while let Some(item) = decoder.decode(&mut piece) {
            if let Item::Event(event) = item.unwrap() {
                events.push(event.data.to_vec());
            }
        }
    }
    events
}

fn responses(capture: &Capture) -> Vec<HttpMessage> {
    let connections = capture.connections();
    connections.iter().flat_map(|number| http1::read_all(&capture.stream(*number, Side::Server))).collect()
}

#[test]
fn every_recorded_answer_is_read_the_same_in_any_pieces() {
    let (mut messages, mut streams, mut bodies) = (0, 0, 0);
    for capture in Capture::all("server-").into_iter().chain(Capture::all("client-")) {
        for response in responses(&capture) {
            let content_type = response.header("content-type").to_ascii_lowercase();
            let texts = if content_type.starts_with("text/event-stream") {
                streams += 1;
                let whole = events(&response.body, usize::MAX);
                assert_eq!(events(&response.body, 1), whole, "{}", capture.name);
                assert_eq!(events(&response.body, 7), whole, "{}", capture.name);
                whole
            } else if content_type.starts_with("application/json") && response.status() == 200 && response.is_complete {
                bodies += 1;
                vec![response.body]
            } else {
                continue;
            };
            for text in texts {
                // Priming events and endpoints are not messages.
                if text.is_empty() || text.starts_with(b"/") || text.starts_with(b"http") {
                    continue;
                }
                let frame = Frame::parse(&Bytes::from(text), &Limits::default());
                assert!(frame.is_ok(), "{}: {frame:?}", capture.name);
                messages += 1;
            }
        }
    }
    assert!(messages > 400 && streams > 200 && bodies > 50, "{messages} messages, {streams} streams, {bodies} bodies");
}

#[test]
fn every_recorded_request_is_a_message_or_deliberately_invalid() {
    let mut messages = 0;
    for capture in Capture::all("client-") {
        for number in capture.connections() {
            for request in http1::read_all(&capture.stream(number, Side::Client)) {
                if request.line.starts_with("POST") && request.is_complete && !request.line.contains("/token") {
                    let frame = Frame::parse(&Bytes::from(request.body), &Limits::default());
                    assert!(frame.is_ok(), "{}: {} {frame:?}", capture.name, request.line);
                    messages += 1;
                }
            }
        }
    }
    assert!(messages > 150, "{messages}");
}

#[test]
fn a_server_machine_serves_what_recorded_clients_of_the_newest_revision_asked() {
    let names = ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"];
    let mut served = 0;
    for capture in Capture::all("client-") {
        let mut http_server = HttpServerHarness::with(|_, config| {
            let capabilities = r#"{"tools":{"listChanged":true},"prompts":{},"resources":{},"completions":{}}"#;
            config.capabilities = Json::parse(capabilities).unwrap();
        });
        for number in capture.connections() {
            for request in http1::read_all(&capture.stream(number, Side::Client)) {
                let is_modern = request.header("mcp-protocol-version") == "2026-07-28";
                // The two-endpoint transport has none of these headers.
                if !is_modern
                    || !request.line.starts_with("POST")
                    || request.line.contains("/messages")
                    || !request.is_complete
                {
                    continue;
                }
                let asked = names.iter().fold(TestRequest::post(request.body.clone()), |asked, name| {
                    let value = request.header(name);
                    if value.is_empty() { asked.without(name) } else { asked.with(name, value) }
                });
                let key = http_server.ask(&asked);
                let what = format!("{}: {}", capture.name, String::from_utf8_lossy(&request.body));
                for event in http_server.events() {
                    match event {
                        server::Event::Requested { ticket, .. } => http_server.respond(ticket, "{}"),
                        event => panic!("{event:?} for {what}"),
                    }
                }
                let sent = http_server.take(key);
                let expected = if what.contains("\"id\":") { 200 } else { 202 };
                assert_eq!(sent.code(), expected, "{what}: {}", sent.text());
                served += 1;
            }
        }
    }
    assert!(served > 40, "{served}");
}

#[test]
fn a_server_machine_serves_the_recorded_stdio_clients() {
    for capture in Capture::all("stdio-") {
        let stream = capture.stream(capture.connections()[0], Side::Client);
        let asked: Vec<_> = stream
            .split(|&byte| byte == b'\n')
            .filter_map(|line| match Frame::parse(&Bytes::copy_from_slice(line), &Limits::default()) {
                Ok(Frame::Single(Message::Request(request))) => Some(request.id.to_string()),
                _ => None,
            })
            .collect();
        let mut server = ServerStream::server();
        for record in capture.records.iter().filter(|record| record.side == Side::Client) {
            server.bytes(&record.bytes);
            for ticket in server.requested() {
                server.machine.respond(ticket, Ok(mcp_proto::Json::empty_object()), server.now).unwrap();
            }
        }
        let lines = server.lines();
        for id in asked {
            let answers = lines.iter().filter(|line| line.contains(&format!(r#""id":{id},"#))).count();
            assert_eq!(answers, 1, "{}: {id} in {lines:?}", capture.name);
        }
    }
}

/// A copy of a message: `to` is the id of a response, and replaces `from` as the id of the subscription.
fn with_id(text: &[u8], from: &Value, to: &Value) -> Value {
    let mut message: Value = serde_json::from_slice(text).expect("a recorded message");
    if message.get("method").is_none() {
        message["id"] = to.clone();
    }
    for holder in ["params", "result"] {
        let pointer = format!("/{holder}/_meta/io.modelcontextprotocol~1subscriptionId");
        if let Some(id) = message.pointer_mut(&pointer).filter(|id| *id == from) {
            *id = to.clone();
        }
    }
    message
}

#[test]
fn br_t_01_recorded_conversations_of_the_newest_revision_cross_a_relay_unchanged() {
    let mut crossed = 0;
    'captures: for capture in Capture::all("server-").into_iter().chain(Capture::all("client-")) {
        let mut harness = HttpClientHarness::relay();
        for number in capture.connections() {
            let requests = http1::read_all(&capture.stream(number, Side::Client));
            let responses = http1::read_all(&capture.stream(number, Side::Server));
            for (request, response) in requests.iter().zip(&responses) {
                let Ok(asked) = serde_json::from_slice::<Value>(&request.body) else { continue };
                let is_modern = asked
                    .pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion")
                    .is_some_and(|version| version == "2026-07-28");
                let is_events = response.header("content-type").starts_with("text/event-stream");
                let answer: Option<Value> = serde_json::from_slice(&response.body).ok();
                let code = answer.as_ref().and_then(|answer| answer.pointer("/error/code")).and_then(Value::as_i64);
                if asked["method"] == "server/discover" && code.is_some() {
                    // The server does not support this revision, so the rest of the recording does not apply.
                    continue 'captures;
                }
                // An exchange that was refused for a wrong header (-32020) is skipped: the relay sends the right one.
                if !is_modern || asked.get("id").is_none() || code == Some(-32020) || (answer.is_none() && !is_events) {
                    continue;
                }
                harness.line(&asked.to_string());
                let mut opened = harness.opened();
                if opened.method() == "server/discover" && asked["method"] != "server/discover" {
                    harness.reply(
                        opened.key,
                        &Reply::json(mcp_testkit::messages::result(&opened.id(), mcp_testkit::messages::DISCOVERED)),
                    );
                    opened = harness.opened();
                }
                let what = format!("{}: {asked}", capture.name);
                for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
                    let recorded = request.header(name);
                    assert!(recorded.is_empty() || opened.header(name) == recorded, "{name} of {what}");
                }
                let sent: Value = serde_json::from_str(opened.body()).expect("a message");
                assert_eq!(sent["params"], asked["params"], "{what}");
                let texts = if is_events { events(&response.body, usize::MAX) } else { vec![response.body.clone()] };
                // Priming events are not messages.
                let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
                let mut expected = Vec::new();
                let mut body = String::new();
                for text in &texts {
                    expected.push(serde_json::from_slice::<Value>(text).expect("a recorded message"));
                    body += &mcp_testkit::messages::event(&with_id(text, &asked["id"], &sent["id"]).to_string());
                }
                if is_events {
                    harness.begin(opened.key, &Reply::events(body));
                } else {
                    let only = with_id(&texts[0], &asked["id"], &sent["id"]).to_string();
                    harness.reply(opened.key, &Reply::json(only).with_status(response.status()));
                }
                let lines = harness.lines();
                let lines: Vec<Value> =
                    lines.iter().map(|line| serde_json::from_str(line).expect("a message")).collect();
                if asked["method"] == "tools/list" {
                    // The relay removes invalid tools from the result (MD-P-05).
                    assert_eq!((lines.len(), &lines[0]["id"]), (1, &asked["id"]), "{what}");
                } else {
                    assert_eq!(lines, expected, "{what}");
                }
                crossed += 1;
            }
        }
    }
    assert!(crossed > 60, "{crossed}");
}

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
    let mut tried = 0;
    for (name, response, id) in &answers {
        // Recordings are similar, so each kind of server and answer is tested once.
        let kind =
            (name.split('-').nth(1).unwrap_or_default(), response.header("content-type"), response.body.len() / 300);
        if !seen.insert(kind) || id.parse::<u64>().map_or(true, |id| id > 40) {
            continue;
        }
        tried += 1;
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
    assert!(tried > 5, "{tried} of {}", answers.len());
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
