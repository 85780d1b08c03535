//! Message to frame.

use bytes::Bytes;

use super::{ErrorObject, Message, Notification, Request, RequestId, Response};
use crate::json::Json;
use crate::json::string::quote_into;
use crate::spec::{ProtocolVersion, UnreadableId};

/// Payloads of at least this many bytes are shared instead of copied into the frame.
const SHARED_FROM: usize = 16 * 1024;

/// A payload is copied and searched in pieces of this many bytes, so that each piece is still in the L1 cache when
/// searched.
const PIECE: usize = 16 * 1024;

impl Message {
    /// The message as one line of JSON, without a line terminator.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.to_bytes_with(UnreadableId::Null)
    }

    /// As [`Message::to_bytes`], as a peer of this revision reads it: an error whose request id could not be read has
    /// `"id":null` before 2025-11-25, and no member `id` since then.
    ///
    /// Rules: A28.
    #[must_use]
    pub fn to_bytes_for(&self, version: ProtocolVersion) -> Bytes {
        self.to_bytes_with(version.rules().unreadable_id)
    }

    pub(crate) fn to_bytes_with(&self, unreadable_id: UnreadableId) -> Bytes {
        let payload = self.payload();
        let mut frame = self.head(unreadable_id, payload.map_or(0, Json::len) + END.len());
        if let Some(payload) = payload {
            extend_on_one_line(&mut frame, payload.as_bytes());
        }
        frame.extend_from_slice(END);
        frame.into()
    }

    /// The message's parameters, result or error.
    fn payload(&self) -> Option<&Json> {
        match self {
            Self::Request(Request { params, .. }) | Self::Notification(Notification { params, .. }) => params.as_ref(),
            Self::Response(Response::Result { result, .. }) => Some(result),
            Self::Response(Response::Error { error, .. }) => Some(error.as_json()),
        }
    }

    /// Length of the parameters, result or error in bytes.
    pub(crate) fn payload_len(&self) -> usize {
        self.payload().map_or(0, Json::len)
    }

    /// Replaces a response for which there is no room by an error; other messages are unchanged (M3).
    pub(crate) fn overloaded(self) -> Self {
        match self {
            Self::Response(Response::Result { id, .. } | Response::Error { id: Some(id), .. }) => {
                Self::Response(Response::Error { id: Some(id), error: ErrorObject::overloaded() })
            }
            Self::Request(_) | Self::Notification(_) | Self::Response(_) => self,
        }
    }

    /// Passes the message as one line with its LF to `write`, in pieces: a large payload is shared, not copied.
    pub(crate) fn write_line(&self, unreadable_id: UnreadableId, mut write: impl FnMut(Bytes)) {
        match self.payload() {
            Some(payload) if payload.len() >= SHARED_FROM => {
                write(self.head(unreadable_id, 0).into());
                write(on_one_line(payload));
                write(Bytes::from_static(END_OF_LINE));
            }
            payload => {
                let mut line = self.head(unreadable_id, payload.map_or(0, Json::len) + END_OF_LINE.len());
                if let Some(payload) = payload {
                    extend_on_one_line(&mut line, payload.as_bytes());
                }
                line.extend_from_slice(END_OF_LINE);
                write(line.into());
            }
        }
    }

    /// Everything before the payload, with capacity for `room` bytes after it.
    fn head(&self, unreadable_id: UnreadableId, room: usize) -> Vec<u8> {
        let params = |params: &Option<Json>| params.is_some().then_some(PARAMS);
        let null_id = (unreadable_id == UnreadableId::Null).then_some(None);
        // The id may be `null`.
        let (id, method, payload) = match self {
            Self::Request(Request { id, method, params: sent }) => (Some(Some(id)), Some(method), params(sent)),
            Self::Notification(Notification { method, params: sent }) => (None, Some(method), params(sent)),
            Self::Response(Response::Result { id, .. }) => (Some(Some(id)), None, Some(RESULT)),
            Self::Response(Response::Error { id, .. }) => (id.as_ref().map(Some).or(null_id), None, Some(ERROR)),
        };
        let id_len = id.map_or(0, |id| ID.len() + id.map_or(NULL.len(), RequestId::encoded_len));
        let method_len = method.map_or(0, |method| METHOD.len() + method.as_str().len() + 2);
        let payload_len = payload.map_or(0, <[u8]>::len);
        // Exactly the length of the frame, unless something must be escaped.
        let mut head = Vec::with_capacity(START.len() + id_len + method_len + payload_len + room);
        head.extend_from_slice(START);
        if let Some(id) = id {
            head.extend_from_slice(ID);
            match id {
                Some(id) => id.encode_into(&mut head),
                None => head.extend_from_slice(NULL),
            }
        }
        if let Some(method) = method {
            head.extend_from_slice(METHOD);
            quote_into(&mut head, method.as_str());
        }
        head.extend_from_slice(payload.unwrap_or_default());
        head
    }
}

const START: &[u8] = b"{\"jsonrpc\":\"2.0\"";
const ID: &[u8] = b",\"id\":";
const NULL: &[u8] = b"null";
const METHOD: &[u8] = b",\"method\":";
const PARAMS: &[u8] = b",\"params\":";
const RESULT: &[u8] = b",\"result\":";
const ERROR: &[u8] = b",\"error\":";
const END: &[u8] = b"}";
const END_OF_LINE: &[u8] = b"}\n";

/// A frame is one line (FR13, ST-02). In valid JSON a raw CR or LF is white space, so a space is equivalent.
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
    for piece in text.chunks(PIECE) {
        let mut at = line.len();
        line.extend_from_slice(piece);
        while let Some(found) = line.get(at..).and_then(|rest| memchr::memchr2(b'\n', b'\r', rest)) {
            at += found;
            if let Some(byte) = line.get_mut(at) {
                *byte = b' ';
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Method;

    /// Frames of each kind whose text needs no escapes.
    fn messages() -> Vec<Message> {
        let json = |text: &str| Json::parse(text.to_owned()).expect("JSON");
        let ids = [0, 7, 10, -1, -10, i64::MAX, i64::MIN].map(RequestId::from);
        let mut messages: Vec<Message> = ids
            .into_iter()
            .chain([RequestId::from(""), RequestId::from("a request")])
            .flat_map(|id| {
                let method = Method::from("tools/call");
                [None, Some(json("{}")), Some(json(r#"{"name":"a"}"#))]
                    .map(move |params| Message::Request(Request { id: id.clone(), method: method.clone(), params }))
            })
            .collect();
        messages.push(Message::Notification(Notification::new(Method::INITIALIZED)));
        messages.push(Message::Notification(Notification::with_params(Method::PROGRESS, json(r#"{"progress":1}"#))));
        messages.push(Message::Response(Response::Result { id: RequestId::from(1), result: json("{}") }));
        for id in [None, Some(RequestId::from("x"))] {
            messages.push(Message::Response(Response::Error { id, error: ErrorObject::overloaded() }));
        }
        messages
    }

    #[test]
    fn a_frame_is_written_into_exactly_the_room_that_it_takes() {
        for message in messages() {
            for unreadable_id in [UnreadableId::Null, UnreadableId::Omitted] {
                let frame = Vec::from(message.to_bytes_with(unreadable_id));
                assert_eq!(frame.capacity(), frame.len(), "{}", String::from_utf8_lossy(&frame));
                let mut lines = Vec::new();
                message.write_line(unreadable_id, |piece| lines.push(piece));
                let line = Vec::from(lines.pop().expect("a line"));
                assert_eq!(line.capacity(), line.len(), "{}", String::from_utf8_lossy(&line));
                assert_eq!(line.strip_suffix(b"\n"), Some(frame.as_slice()));
                assert!(lines.is_empty(), "one piece for what is small");
            }
        }
    }

    #[test]
    fn fr13_st_02_line_ends_in_payloads_of_any_size_become_blanks() {
        for size in [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let text = format!("[{}\r\n1]", "\n".repeat(size));
            let result = Json::parse(text).expect("JSON");
            let message = Message::Response(Response::Result { id: RequestId::from(1), result });
            let wanted = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{}1]}}", " ".repeat(size + 2));
            assert!(message.to_bytes() == wanted, "{size} line ends");
            let mut line = Vec::new();
            message.write_line(UnreadableId::Null, |piece| line.extend_from_slice(&piece));
            assert!(line == format!("{wanted}\n").as_bytes(), "{size} line ends");
        }
    }
}
