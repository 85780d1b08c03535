//! Machines on byte streams whose other end says anything.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mcp_proto::client::{Call, Event, Outcome};
use mcp_proto::{ErrorObject, Failed, Frame, Json, Limits, Message, Response};
use tests::chunks::cut;
use tests::oracle;
use tests::stream::{ClientStream, ServerStream};

use crate::script::Script;

/// The server machine on a byte stream, of both eras at once: what it writes are messages, and each request that could be
/// read has one answer, unless it was taken back.
///
/// The first byte says how the stream begins, the second how it is cut.
pub fn server_stdio(data: &[u8]) {
    let [how, piece, stream @ ..] = data else { return };
    let mut world = if how % 2 == 0 { ServerStream::server() } else { ServerStream::ready("2025-03-26") };
    for bytes in cut(stream, &[usize::from(*piece) + 1]) {
        world.bytes(bytes);
        for (number, ticket) in world.requested().into_iter().enumerate() {
            let answer = if number % 3 == 2 { Err(ErrorObject::new(7, "no")) } else { Ok(Json::empty_object()) };
            world.machine.respond(ticket, answer, world.now).expect("a code that may be used");
        }
        world.drain();
    }
    let was_closed = world.machine.is_closed();
    world.eof();
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    for line in world.lines() {
        match Frame::parse(&line.into(), &Limits::default()).expect("it writes messages") {
            Frame::Single(message) => count(&message, &mut answers),
            Frame::Batch(items) => items.iter().flatten().for_each(|message| count(message, &mut answers)),
        }
    }
    // Where a session was opened before, this is not the beginning of the stream.
    let earlier: &[u8] = if how % 2 == 0 { b"" } else { b"\n" };
    let (lines, _) = oracle::lines(&[earlier, stream].concat(), Limits::default().message);
    let frames = lines.iter().flatten().map(|line| Frame::parse(&Bytes::copy_from_slice(line), &Limits::default()));
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_plain = !was_closed;
    for frame in frames {
        match frame {
            Ok(Frame::Single(Message::Request(request))) => *asked.entry(request.id.to_string()).or_default() += 1,
            Ok(Frame::Single(Message::Notification(notification))) => {
                is_plain &= notification.method.as_str() != "notifications/cancelled";
            }
            // The answer to a batch is for other tests to look at.
            Ok(Frame::Batch(_)) => is_plain = false,
            Ok(Frame::Single(Message::Response(_))) | Err(_) => {}
        }
    }
    for (id, count) in asked.iter().filter(|_| is_plain) {
        assert!(answers.get(id) >= Some(count), "{id} was asked {count} times: {answers:?}");
    }
}

fn count(message: &Message, answers: &mut BTreeMap<String, usize>) {
    let Message::Response(Response::Result { id, .. } | Response::Error { id: Some(id), .. }) = message else { return };
    *answers.entry(id.to_string()).or_default() += 1;
}

/// The client machine on a byte stream: each of its requests ends once, whatever the server says.
///
/// The first byte says which era the server belongs to, the second how the stream is cut.
pub fn client_stdio(data: &[u8]) {
    let [how, piece, stream @ ..] = data else { return };
    let capable = |config: &mut mcp_proto::client::Config| {
        config.capabilities = Json::parse(r#"{"roots":{},"elicitation":{}}"#).expect("JSON");
    };
    let mut world = match how % 3 {
        0 => ClientStream::connected_with(capable),
        1 => ClientStream::modern_with(capable),
        _ => ClientStream::detecting_with(capable),
    };
    let methods = ["tools/call", "tools/list", "prompts/get", "resources/read"];
    let mut waiting: BTreeSet<_> = methods
        .iter()
        .map(|method| world.machine.request(Call::new(*method).with_progress(), world.now).expect("a request"))
        .collect();
    // Where there are none, that is no harm.
    let mut listening: BTreeSet<_> = world.machine.listen(Json::empty_object(), world.now).into_iter().collect();
    let mut script = Script(&data[..2]);
    for bytes in cut(stream, &[usize::from(*piece) + 1]) {
        world.bytes(bytes);
        let events = world.events();
        for event in events {
            match event {
                Event::Requested { ticket, .. } => {
                    let answer = match script.byte() {
                        Some(byte) if byte % 2 == 0 => Err(ErrorObject::new(-1, "no")),
                        _ => Ok(Json::empty_object()),
                    };
                    world.machine.answer(ticket, answer, world.now);
                }
                Event::Responded { request, .. } => assert!(waiting.remove(&request), "{request:?} ended twice"),
                Event::ListeningEnded { subscription, .. } => {
                    assert!(listening.remove(&subscription), "{subscription:?} ended twice");
                }
                _ => {}
            }
        }
        world.drain();
    }
    world.eof();
    world.pass(std::time::Duration::from_secs(1));
    world.eof();
    for event in world.events() {
        match event {
            Event::Responded { request, outcome } => {
                assert!(waiting.remove(&request), "{request:?} ended twice");
                let _ = matches!(outcome, Outcome::Failed(Failed::Closed));
            }
            Event::ListeningEnded { subscription, .. } => {
                assert!(listening.remove(&subscription), "{subscription:?} ended twice");
            }
            _ => {}
        }
    }
    if world.machine.is_closed() {
        assert!(waiting.is_empty() && listening.is_empty(), "{waiting:?} {listening:?} never ended");
    }
    for line in world.lines() {
        assert!(Frame::parse(&line.into(), &Limits::default()).is_ok(), "it writes messages");
    }
}
