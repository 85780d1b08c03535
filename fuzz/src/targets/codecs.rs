//! The codecs, each compared with another implementation on the same input.

use bytes::Bytes;
use mcp_proto::{Frame, Json, Limits, Message, line, sse};
use mcp_testkit::chunks::cut;
use mcp_testkit::oracle::{self, SseItem};
use serde_json::value::RawValue;

use crate::script::Script;

/// Line framing: a naive reader gives the same lines, and the result does not depend on how the input is cut.
///
/// The first two bytes choose the limit and the size of the pieces.
pub fn line(data: &[u8]) {
    let [limit, piece, stream @ ..] = data else { return };
    let limit = usize::from(*limit) + 1;
    let run = |pieces: &[&[u8]]| {
        let mut decoder = line::Decoder::new(limit);
        let mut lines = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(line) = decoder.decode(&mut piece) {
                lines.push(line.map(|line| line.to_vec()));
            }
            assert!(piece.is_empty());
        }
        (lines, decoder.finish().is_err())
    };
    let whole = run(&[stream]);
    assert_eq!(whole, oracle::lines(stream, limit));
    assert_eq!(run(&cut(stream, &[usize::from(*piece) + 1])), whole);
    assert_eq!(run(&cut(stream, &[1])), whole);
    for line in whole.0.iter().flatten() {
        assert!(line.len() <= limit && !line.contains(&b'\n'));
    }
}

/// Server-sent events: a naive reader that follows the standard literally gives the same events; neither the result nor
/// the effect of a limit depends on how the input is cut; and what was read can be written and read again.
///
/// The first two bytes choose the limit and the size of the pieces.
pub fn sse(data: &[u8]) {
    let [limit, piece, stream @ ..] = data else { return };
    let run = |pieces: &[&[u8]], limit: usize| {
        let mut decoder = sse::Decoder::new(limit, limit);
        let mut items = Vec::new();
        let mut failed = false;
        for mut piece in pieces.iter().copied() {
            while let Some(item) = decoder.decode(&mut piece) {
                assert!(!failed, "an item after the end");
                match item {
                    Ok(item) => items.push(SseItem::from(item)),
                    Err(_) => failed = true,
                }
            }
            assert!(piece.is_empty());
        }
        (items, failed, decoder.finish())
    };
    let pieces = cut(stream, &[usize::from(*piece) + 1]);
    let (items, failed, end) = run(&[stream], usize::MAX >> 2);
    assert!(!failed);
    assert_eq!((&items, end), (&oracle::sse(stream).0, oracle::sse(stream).1));
    assert_eq!(run(&pieces, usize::MAX >> 2), (items.clone(), false, end));
    let limit = usize::from(*limit) + 1;
    let (bounded, failed, _) = run(&[stream], limit);
    let (bounded_in_pieces, failed_in_pieces, _) = run(&pieces, limit);
    assert_eq!((&bounded, failed), (&bounded_in_pieces, failed_in_pieces));
    let (lines, unfinished) = lines(stream);
    assert!(failed || !is_over(&lines, limit), "an event of more than {limit} bytes was accepted");
    let lines = [lines, vec![unfinished]].concat();
    assert!(!failed || is_over(&lines, limit), "an event of {limit} bytes or fewer was refused");
    round_trip(&items);
}

/// The lines of a stream of events, and the unfinished line after them.
fn lines(stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut lines = Vec::new();
    let mut rest = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    while let Some(end) = rest.iter().position(|byte| b"\r\n".contains(byte)) {
        lines.push(&rest[..end]);
        let next = end + if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[next..];
    }
    (lines, rest)
}

/// Whether the field values of one event, with one byte between two data lines, are longer than the limit in total.
fn is_over(lines: &[&[u8]], limit: usize) -> bool {
    let (mut size, mut has_data) = (0, false);
    for line in lines {
        if line.is_empty() {
            (size, has_data) = (0, false);
            continue;
        }
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (*line, &[][..]),
        };
        if [&b"data"[..], b"event", b"id", b"retry"].contains(&name) {
            size += value.len() + usize::from(name == b"data" && has_data);
            has_data |= name == b"data";
        }
        if size > limit {
            return true;
        }
    }
    false
}

fn round_trip(items: &[SseItem]) {
    let mut stream = Vec::new();
    let mut expected = Vec::new();
    for item in items {
        let SseItem::Event { name, data, id } = item else { continue };
        let (Some(event_name), event_id) = (sse::EventName::new(name), sse::EventId::new(id)) else { continue };
        sse::encode_event(&event_name, data, event_id.as_ref(), &mut stream);
        expected.push((name, data));
    }
    let (items, end) = oracle::sse(&stream);
    assert_eq!(end, sse::End::Clean);
    let read: Vec<_> = items
        .iter()
        .map(|item| match item {
            SseItem::Event { name, data, .. } => (name, data),
            other => panic!("{other:?} was not written"),
        })
        .collect();
    assert_eq!(read, expected);
}

/// Messages: `serde_json` accepts the same texts as JSON, payloads are slices of their frame, and what was read can be
/// written and read again without a difference.
pub fn message(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    let limits = Limits::default();
    let theirs = serde_json::from_slice::<&RawValue>(data);
    match Json::parse_within(frame.clone(), 1024) {
        Ok(ours) => assert_eq!(theirs.expect("serde_json accepts it too").get().as_bytes(), ours.as_bytes()),
        Err(mcp_proto::JsonError::TooDeep { .. }) => {}
        Err(error) => assert!(theirs.is_err(), "{error}"),
    }
    match Frame::parse(&frame, &limits) {
        Ok(Frame::Single(message)) => written_again(&message, &frame, &limits),
        Ok(Frame::Batch(items)) => {
            assert!(!items.is_empty() && items.len() <= limits.batch);
            for message in items.iter().flatten() {
                written_again(message, &frame, &limits);
            }
        }
        Err(error) => assert!([-32700, -32600, -32602].contains(&error.code())),
    }
}

fn written_again(message: &Message, frame: &Bytes, limits: &Limits) {
    let payload = match message {
        Message::Request(request) => request.params.as_ref(),
        Message::Notification(notification) => notification.params.as_ref(),
        Message::Response(mcp_proto::Response::Result { result, .. }) => Some(result),
        Message::Response(mcp_proto::Response::Error { error, .. }) => Some(error.as_json()),
    };
    if let Some(payload) = payload {
        // A payload shares the memory of its frame, unless that would keep much more memory than the payload needs.
        let is_shared = frame.as_ptr_range().contains(&payload.as_bytes().as_ptr());
        assert_eq!(is_shared, frame.len() <= payload.len() + payload.len() / 4 + 1024);
    }
    let line = message.to_bytes();
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    let Ok(Frame::Single(again)) = Frame::parse(&line, limits) else { panic!("what was written cannot be read") };
    assert_eq!(again.to_bytes(), line);
}

/// Reading and setting members of an object: `serde_json` reads the same members before and after, and all other bytes
/// are unchanged.
///
/// The input is a name, a value, and the object.
pub fn splice(data: &[u8]) {
    let mut script = Script(data);
    let Some(name) = script.text().and_then(|name| std::str::from_utf8(name).ok()) else { return };
    let Some(value) = script.text().and_then(|value| Json::parse(value.to_vec()).ok()) else { return };
    let Ok(object) = Json::parse(script.0.to_vec()) else { return };
    let after = object.with_member(name, &value);
    let read = |json: &Json| serde_json::from_slice::<serde_json::Value>(json.as_bytes()).ok();
    let (Some(before), Some(expected)) = (read(&object), read(&value)) else { return };
    if !object.as_bytes().starts_with(b"{") {
        return assert_eq!(after, object);
    }
    // `serde_json` reads an object with a member name that it reserves as another kind of value.
    let serde_json::Value::Object(mut members) = before else { return };
    let Ok(found) = object.member(name) else { return };
    assert_eq!(found.as_ref().and_then(read), members.get(name).cloned());
    assert_eq!(after.member(name), Ok(Some(value.clone())));
    // Of two other members with the same name, an implementation may use either. `serde_json` reads both texts alike.
    let text = String::from_utf8_lossy(object.as_bytes());
    members.insert(name.to_owned(), expected);
    if let Some(serde_json::Value::Object(changed)) = read(&after) {
        assert_eq!(changed, members);
    }
    match found {
        Some(old) => {
            let at = old.as_bytes().as_ptr() as usize - object.as_bytes().as_ptr() as usize;
            assert!(after.as_bytes().starts_with(&object.as_bytes()[..at]));
            assert!(after.as_bytes().ends_with(&object.as_bytes()[at + old.len()..]));
        }
        None => assert!(after.to_text().ends_with(&text[1..])),
    }
}
