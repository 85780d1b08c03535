//! Message to frame.

use bytes::Bytes;

use super::{ErrorObject, Message, Notification, Request, RequestId, Response};
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
        let payload = self.payload();
        let mut frame = self.head(unreadable_id, payload.map_or(0, Json::len) + END.len());
        if let Some(payload) = payload {
            extend_on_one_line(&mut frame, payload.as_bytes());
        }
        frame.extend_from_slice(END);
        frame.into()
    }

    /// Its parameters, its result or its error.
    fn payload(&self) -> Option<&Json> {
        match self {
            Self::Request(Request { params, .. }) | Self::Notification(Notification { params, .. }) => params.as_ref(),
            Self::Response(Response::Result { result, .. }) => Some(result),
            Self::Response(Response::Error { error, .. }) => Some(error.as_json()),
        }
    }

    /// Bytes of its parameters, its result or its error.
    pub(crate) fn payload_len(&self) -> usize {
        self.payload().map_or(0, Json::len)
    }

    /// The error that stands in the place of an answer for which there is no room (M3).
    pub(crate) fn overloaded(self) -> Self {
        match self {
            Self::Response(Response::Result { id, .. } | Response::Error { id: Some(id), .. }) => {
                Self::Response(Response::Error { id: Some(id), error: ErrorObject::overloaded() })
            }
            Self::Request(_) | Self::Notification(_) | Self::Response(_) => self,
        }
    }

    /// Hands the message as one line with its LF to `write`, in pieces: a large payload is shared, not copied.
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

    /// Everything before the payload, with room for so many bytes after it.
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
        // As large as the frame will be, unless there is something to escape.
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
    // What was copied just now is still in the nearest cache when it is searched.
    for piece in text.chunks(16 * 1024) {
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
