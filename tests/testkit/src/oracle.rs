//! Naive decoders, written to be obviously correct rather than fast. The real decoders are compared with them.

use mcp_proto::line;
use mcp_proto::sse::{self, End};

/// The lines of a whole stream, as [`line::Decoder`] should return them, and whether the stream ended within a line.
pub fn lines(stream: &[u8], limit: usize) -> (Vec<Result<Vec<u8>, line::TooLong>>, bool) {
    let mut pieces: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
    let unfinished = pieces.pop().unwrap_or_default();
    let mut lines = Vec::new();
    for (number, piece) in pieces.into_iter().enumerate() {
        let content = piece.strip_suffix(b"\r").unwrap_or(piece);
        if content.len() > limit {
            lines.push(Err(too_long(piece, limit)));
            continue;
        }
        let content = if number == 0 { content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content) } else { content };
        if !content.iter().all(|byte| b" \t\r".contains(byte)) {
            lines.push(Ok(content.to_vec()));
        }
    }
    let waits_for_lf = unfinished.len() == limit + 1 && unfinished.ends_with(b"\r");
    let is_too_long = unfinished.len() > limit && !waits_for_lf;
    if is_too_long {
        lines.push(Err(too_long(unfinished, limit)));
    }
    (lines, !is_too_long && !unfinished.iter().all(|byte| b" \t\r".contains(byte)))
}

fn too_long(line: &[u8], limit: usize) -> line::TooLong {
    line::TooLong { limit, start: line[..line.len().min(limit).min(1024)].to_vec().into() }
}

/// An item of a stream of server-sent events, in plain types for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    /// A dispatched event.
    Event {
        /// Its type.
        name: String,
        /// Its data.
        data: Vec<u8>,
        /// The last event id after it; empty for none.
        id: String,
    },
    /// A block without data that changed the last event id.
    Cursor(String),
    /// A reconnection time in milliseconds.
    Retry(u128),
    /// A comment.
    Comment,
}

impl From<sse::Item<'_>> for SseItem {
    fn from(item: sse::Item<'_>) -> Self {
        let text = |id: Option<sse::EventId>| id.map(|id| id.as_str().to_owned()).unwrap_or_default();
        match item {
            sse::Item::Event(event) => {
                Self::Event { name: event.name.as_str().to_owned(), data: event.data.to_vec(), id: text(event.id) }
            }
            sse::Item::Cursor(id) => Self::Cursor(text(id)),
            sse::Item::Retry(after) => Self::Retry(after.as_millis()),
            sse::Item::Comment => Self::Comment,
        }
    }
}

/// The items of a whole stream of server-sent events, following WHATWG HTML 9.2.5 and 9.2.6 literally, without limits.
pub fn sse(stream: &[u8]) -> (Vec<SseItem>, End) {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut items = Vec::new();
    let mut name = String::new();
    let mut data: Option<Vec<u8>> = None;
    let mut id: Option<String> = None;
    let mut cursor = String::new();
    let mut line = Vec::new();
    let mut bytes = stream.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\n' && byte != b'\r' {
            line.push(byte);
            continue;
        }
        if byte == b'\r' && bytes.peek() == Some(&b'\n') {
            bytes.next();
        }
        let line = std::mem::take(&mut line);
        if line.is_empty() {
            let moved = id.take();
            if let Some(id) = &moved {
                cursor.clone_from(id);
            }
            let name = std::mem::take(&mut name);
            if let Some(data) = data.take() {
                let name = if name.is_empty() { "message".to_owned() } else { name };
                items.push(SseItem::Event { name, data, id: cursor.clone() });
            } else if moved.is_some() {
                items.push(SseItem::Cursor(cursor.clone()));
            }
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (field, value) = match colon {
            Some(0) => {
                items.push(SseItem::Comment);
                continue;
            }
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (&line[..], &[][..]),
        };
        let text = String::from_utf8_lossy(value);
        match field {
            b"event" => name = text.into_owned(),
            b"data" => match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            },
            b"id" if !value.contains(&0) => id = Some(text.into_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                items.push(SseItem::Retry(text.parse().unwrap_or(u64::MAX).into()));
            }
            _ => {}
        }
    }
    let clean = line.is_empty() && data.is_none() && name.is_empty() && id.is_none();
    (items, if clean { End::Clean } else { End::InsideEvent })
}
