//! Events to bytes.
//!
//! The output parses back to the input in all known decoders: lines end with LF, and each field has a colon and one
//! space (EV-24).

use std::time::Duration;

use super::{EventId, EventName};

/// Appends an event. Its data is split at CR, LF and CRLF, since a data line cannot contain them; compact JSON has
/// none.
///
/// # Example
///
/// ```
/// use mcp_proto::sse::{EventId, EventName, encode_event};
///
/// let mut out = Vec::new();
/// encode_event(&EventName::MESSAGE, b"{}", EventId::new("4").as_ref(), &mut out);
/// assert_eq!(out, b"event: message\nid: 4\ndata: {}\n\n");
/// ```
pub fn encode_event(name: &EventName, data: &[u8], id: Option<&EventId>, out: &mut Vec<u8>) {
    field("event", name.as_str().as_bytes(), out);
    if let Some(id) = id {
        field("id", id.as_str().as_bytes(), out);
    }
    let mut rest = data;
    while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
        let Some((line, after)) = rest.split_at_checked(end) else { break };
        field("data", line, out);
        rest = after.strip_prefix(b"\r\n").or(after.get(1..)).unwrap_or_default();
    }
    field("data", rest, out);
    out.push(b'\n');
}

/// Appends an event with an id and empty data, which sets the client's cursor and contains no message.
///
/// Rules: SH-S-53.
pub fn encode_cursor(id: &EventId, out: &mut Vec<u8>) {
    field("id", id.as_str().as_bytes(), out);
    field("data", b"", out);
    out.push(b'\n');
}

/// Appends the time to wait before reconnecting, in whole milliseconds.
pub fn encode_retry(after: Duration, out: &mut Vec<u8>) {
    field("retry", after.as_millis().to_string().as_bytes(), out);
    out.push(b'\n');
}

/// Appends an empty comment, which clients ignore; it prevents that a proxy closes an idle connection.
pub fn encode_comment(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n\n");
}

fn field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.push(b'\n');
}
