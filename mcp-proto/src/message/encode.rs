//! Message to frame.

use bytes::Bytes;

use super::{Message, Notification, Request, RequestId, Response};
use crate::json::Json;
use crate::json::string::quote_into;

/// Payloads from this size on are handed on as they are instead of being copied into the frame.
const SHARED_FROM: usize = 16 * 1024;

/// How the id of an error is written when no request could be read (A28): the schemas before 2025-11-25 want `null`,
/// the later ones allow only its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadableId {
    /// `"id":null`
    Null,
    /// No member `id`.
    Omitted,
}

impl Message {
    /// The message as one line of JSON, without line end.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.to_bytes_with(UnreadableId::Null)
    }

    /// As [`Message::to_bytes`], with the choice of how an unreadable id is written.
    #[must_use]
    pub fn to_bytes_with(&self, unreadable_id: UnreadableId) -> Bytes {
        let parts = self.parts(unreadable_id);
        let payload = parts.payload.as_ref().map_or(0, Json::len);
        let mut frame = parts.head;
        frame.reserve_exact(payload + 1);
        if let Some(payload) = &parts.payload {
            extend_on_one_line(&mut frame, payload.as_bytes());
        }
        frame.push(b'}');
        frame.into()
    }

    /// Bytes of its parameters, its result or its error.
    pub(crate) fn payload_len(&self) -> usize {
        let payload = match self {
            Self::Request(Request { params, .. }) | Self::Notification(Notification { params, .. }) => params.as_ref(),
            Self::Response(Response::Result { result, .. }) => Some(result),
            Self::Response(Response::Error { error, .. }) => Some(error.as_json()),
        };
        payload.map_or(0, Json::len)
    }

    /// Hands the message as one line with its LF to `write`, in pieces: a large payload is shared, not copied.
    pub(crate) fn write_line(&self, unreadable_id: UnreadableId, mut write: impl FnMut(Bytes)) {
        let parts = self.parts(unreadable_id);
        match parts.payload {
            Some(payload) if payload.len() >= SHARED_FROM => {
                write(parts.head.into());
                write(on_one_line(&payload));
                write(Bytes::from_static(b"}\n"));
            }
            Some(_) | None => {
                let mut line = parts.head;
                line.reserve_exact(parts.payload.as_ref().map_or(0, Json::len) + 2);
                if let Some(payload) = &parts.payload {
                    extend_on_one_line(&mut line, payload.as_bytes());
                }
                line.extend_from_slice(b"}\n");
                write(line.into());
            }
        }
    }

    fn parts(&self, unreadable_id: UnreadableId) -> Parts {
        let mut head = Vec::with_capacity(64);
        head.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
        let payload = match self {
            Self::Request(Request { id, method, params }) => {
                write_id(&mut head, id);
                write_method(&mut head, method.as_str());
                params.as_ref().map(|params| ("params", params))
            }
            Self::Notification(Notification { method, params }) => {
                write_method(&mut head, method.as_str());
                params.as_ref().map(|params| ("params", params))
            }
            Self::Response(Response::Result { id, result }) => {
                write_id(&mut head, id);
                Some(("result", result))
            }
            Self::Response(Response::Error { id, error }) => {
                match (id, unreadable_id) {
                    (Some(id), _) => write_id(&mut head, id),
                    (None, UnreadableId::Null) => head.extend_from_slice(b",\"id\":null"),
                    (None, UnreadableId::Omitted) => {}
                }
                Some(("error", error.as_json()))
            }
        };
        if let Some((name, _)) = payload {
            head.extend_from_slice(b",\"");
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b"\":");
        }
        Parts { head, payload: payload.map(|(_, payload)| payload.clone()) }
    }
}

struct Parts {
    /// Everything before the payload.
    head: Vec<u8>,
    payload: Option<Json>,
}

fn write_id(head: &mut Vec<u8>, id: &RequestId) {
    head.extend_from_slice(b",\"id\":");
    id.encode_into(head);
}

fn write_method(head: &mut Vec<u8>, method: &str) {
    head.extend_from_slice(b",\"method\":");
    quote_into(head, method);
}

/// FR13, ST-02: a frame is one line. In valid JSON a raw line end is white space, so a blank says the same.
fn on_one_line(payload: &Json) -> Bytes {
    let text = payload.to_bytes();
    if memchr::memchr2(b'\n', b'\r', &text).is_none() {
        return text;
    }
    let mut line = Vec::with_capacity(text.len());
    extend_on_one_line(&mut line, &text);
    line.into()
}

fn extend_on_one_line(line: &mut Vec<u8>, text: &[u8]) {
    let start = line.len();
    line.extend_from_slice(text);
    let mut at = start;
    while let Some(found) = line.get(at..).and_then(|rest| memchr::memchr2(b'\n', b'\r', rest)) {
        at += found;
        if let Some(byte) = line.get_mut(at) {
            *byte = b' ';
        }
    }
}
