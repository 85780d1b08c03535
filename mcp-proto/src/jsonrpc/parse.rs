//! Frame to message.
//!
//! The envelope is parsed by hand: a derived `Deserialize` would accept the array `["2.0",1,"ping"]` as a request and
//! `null` as an absent member. Payloads are validated in the same pass, and stay slices of the frame.

use std::ops::Range;

use bytes::Bytes;

use super::recover_id::recover_id;
use super::{ErrorObject, Message, Notification, Request, RequestId, Response};
use crate::json::scan::{Kind, Scanner, Value};
use crate::json::string::unquote;
use crate::json::{Json, JsonError, detach};
use crate::limits::Limits;
use crate::spec::{Method, code};

/// The content of one frame: a message, or a batch of them.
///
/// Rules: JR-31.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A single message.
    Single(Message),
    /// An array of messages, each parsed separately. Whether batches are allowed depends on the revision and is checked
    /// elsewhere.
    ///
    /// Rules: JR-35, JR-38.
    Batch(Vec<Result<Message, ParseError>>),
}

impl Frame {
    /// Reads one frame: a line, the body of a POST, or the data of an SSE event.
    ///
    /// Payloads (`params`, `result`, `error`) share the memory of `text`. For any input, the time is linear in its
    /// length and the stack use is constant.
    ///
    /// # Errors
    ///
    /// [`ParseError`] states what is wrong, the error code for the answer, and which request the frame was about, if
    /// that could be read.
    pub fn parse(text: &Bytes, limits: &Limits) -> Result<Self, ParseError> {
        Self::parse_noting(text, limits, &mut Oddities::default())
    }

    /// As [`parse`](Self::parse). Notes what is odd in the messages.
    pub(crate) fn parse_noting(text: &Bytes, limits: &Limits, oddities: &mut Oddities) -> Result<Self, ParseError> {
        let outcome = Self::read(text, limits, oddities).map_err(|kind| {
            // FR11: with two JSON texts in one frame it is ambiguous which one an id belongs to.
            let two_texts = matches!(kind, ParseErrorKind::Json(JsonError::TrailingText { .. }));
            let subject = if two_texts { Subject::Unknown } else { recover_id(text, limits) };
            ParseError { kind, subject }
        });
        outcome.and_then(|frame| frame)
    }

    /// The outer error is about the text or the batch, the inner one about a single message in valid text.
    fn read(
        text: &Bytes,
        limits: &Limits,
        oddities: &mut Oddities,
    ) -> Result<Result<Self, ParseError>, ParseErrorKind> {
        let mut scanner = Scanner::new(text, limits.depth);
        let outcome = Self::scan(text, &mut scanner, limits, oddities);
        scanner.check_utf8(outcome.is_err())?;
        outcome
    }

    /// As `read`, before the check for UTF-8.
    fn scan(
        text: &Bytes,
        scanner: &mut Scanner<'_>,
        limits: &Limits,
        oddities: &mut Oddities,
    ) -> Result<Result<Self, ParseError>, ParseErrorKind> {
        if scanner.peek_kind()? == Kind::Array {
            let batch = read_batch(text, scanner, limits, oddities)?;
            scanner.end_of_text()?;
            if batch.is_empty() {
                return Err(ParseErrorKind::EmptyBatch);
            }
            return Ok(Ok(Self::Batch(batch)));
        }
        let envelope = Envelope::read(text, scanner)?;
        scanner.end_of_text()?;
        oddities.add(&envelope, text);
        Ok(envelope.judge(text, limits).map(Self::Single))
    }
}

/// What deviates in messages that are read all the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// A response also has a method (RP6).
    pub(crate) repeats_method: bool,
    /// `params` is null instead of absent.
    pub(crate) null_params: bool,
}

impl Oddities {
    fn add(&mut self, envelope: &Envelope, text: &[u8]) {
        self.repeats_method |= envelope.repeats_method(text);
        self.null_params |= envelope.params.as_ref().is_some_and(|params| params.kind == Kind::Null);
    }
}

/// Why a frame, or an element of a batch, is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// Which request the frame was about, if that could be read.
    pub subject: Subject,
}

impl ParseError {
    /// The JSON-RPC error code for the answer.
    #[must_use]
    pub const fn code(&self) -> i64 {
        if let ParseErrorKind::Json(error) = &self.kind {
            // JS1: a text that is nested too deep may still be valid JSON.
            return if matches!(error, JsonError::TooDeep { .. }) { code::INVALID_REQUEST } else { code::PARSE_ERROR };
        }
        if matches!(self.kind, ParseErrorKind::ParamsNotStructured) {
            return code::INVALID_PARAMS;
        }
        code::INVALID_REQUEST
    }
}

/// Which request a malformed frame was about. Only requests may be answered: a peer could mistake an error in reply to
/// a malformed *response* for the answer to a request of its own with the same id.
///
/// Rules: P6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A request with this id, to be answered with an error.
    Request(RequestId),
    /// A response to the request with this id, which therefore fails.
    Response(RequestId),
    /// A message with this id that cannot be classified.
    Either(RequestId),
    /// A notification, which is never answered.
    Notification,
    /// The id could not be read: the answer, if there is one, has none.
    Unknown,
}

/// What is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text is not acceptable JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The text is a number, a string, `true`, `false` or `null`, or an array inside a batch.
    ///
    /// Rules: JS11.
    #[error("not a JSON-RPC message: not an object")]
    NotAnObject,
    /// The member `jsonrpc` is not the string `2.0`.
    ///
    /// Rules: JR-01.
    #[error("not a JSON-RPC message: the member 'jsonrpc' must be \"2.0\"")]
    NotVersion2,
    /// A member of the envelope occurs twice.
    ///
    /// Rules: JS5.
    #[error("not a JSON-RPC message: two members '{member}'")]
    DuplicateMember {
        /// Its name.
        member: &'static str,
    },
    /// The id is neither a string nor an integer of 64 bits.
    ///
    /// Rules: JR-03.
    #[error("not a JSON-RPC message: the id must be a string or an integer")]
    InvalidId,
    /// The id is longer than the limit.
    ///
    /// Rules: JS9.
    #[error("not a JSON-RPC message: the id is longer than {limit} bytes")]
    IdTooLong {
        /// `Limits::id`.
        limit: usize,
    },
    /// The method is not a string, or contains an unpaired surrogate.
    ///
    /// Rules: JS4.
    #[error("not a JSON-RPC message: the method must be a string")]
    InvalidMethod,
    /// The method is longer than the limit.
    #[error("not a JSON-RPC message: the method is longer than {limit} bytes")]
    MethodTooLong {
        /// `Limits::method`.
        limit: usize,
    },
    /// `params` is a number, a string, `true` or `false`.
    ///
    /// Rules: JR-12.
    #[error("invalid params: they must be an object")]
    ParamsNotStructured,
    /// Both a method and a result or error, where the result or error is null or there is no id.
    ///
    /// Rules: RP6.
    #[error("not a JSON-RPC message: both a method and a result or error")]
    RequestAndResponse,
    /// Neither a method nor a result nor an error.
    #[error("not a JSON-RPC message: no method, no result and no error")]
    NeitherRequestNorResponse,
    /// Both a result and an error.
    ///
    /// Rules: JR-08.
    #[error("not a JSON-RPC message: both a result and an error")]
    ResultAndError,
    /// A result without an id.
    #[error("not a JSON-RPC message: a result without an id")]
    ResultWithoutId,
    /// The error is not an object with an integer code and a string message.
    ///
    /// Rules: JR-10.
    #[error("not a JSON-RPC message: an error needs an integer code and a string message")]
    InvalidError,
    /// A batch without messages.
    ///
    /// Rules: JR-35.
    #[error("an empty batch")]
    EmptyBatch,
    /// A batch with more messages than the limit.
    ///
    /// Rules: RP8.
    #[error("a batch of more than {limit} messages")]
    BatchTooLarge {
        /// `Limits::batch`.
        limit: usize,
    },
}

fn read_batch(
    text: &Bytes,
    scanner: &mut Scanner<'_>,
    limits: &Limits,
    oddities: &mut Oddities,
) -> Result<Vec<Result<Message, ParseError>>, ParseErrorKind> {
    let mut messages = Vec::new();
    let mut more = scanner.enter()?;
    while more {
        if messages.len() == limits.batch {
            return Err(ParseErrorKind::BatchTooLarge { limit: limits.batch });
        }
        let envelope = Envelope::read(text, scanner)?;
        oddities.add(&envelope, text);
        messages.push(envelope.judge(text, limits));
        more = scanner.next_element(b']')?;
    }
    Ok(messages)
}

/// The members of a JSON-RPC message, before validation.
#[derive(Default)]
struct Envelope {
    is_object: bool,
    duplicate: Option<&'static str>,
    jsonrpc: Option<Value>,
    id: Option<Value>,
    method: Option<Value>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<Value>,
}

impl Envelope {
    fn read(text: &[u8], scanner: &mut Scanner<'_>) -> Result<Self, ParseErrorKind> {
        let mut envelope = Self::default();
        if scanner.peek_kind()? != Kind::Object {
            scanner.value()?;
            return Ok(envelope);
        }
        envelope.is_object = true;
        let mut more = scanner.enter()?;
        while more {
            let key = scanner.key()?;
            let value = scanner.value()?;
            more = scanner.next_element(b'}')?;
            if key.escaped {
                envelope.put(&key.name(text).unwrap_or_default(), value);
            } else {
                envelope.put(text.get(key.span).unwrap_or_default(), value);
            }
        }
        Ok(envelope)
    }

    #[inline]
    fn put(&mut self, name: &[u8], value: Value) {
        // JS7: unknown names are ignored, and names are case-sensitive.
        let (member, slot) = match name {
            b"jsonrpc" => ("jsonrpc", &mut self.jsonrpc),
            b"id" => ("id", &mut self.id),
            b"method" => ("method", &mut self.method),
            b"params" => ("params", &mut self.params),
            b"result" => ("result", &mut self.result),
            b"error" => ("error", &mut self.error),
            _ => return,
        };
        if slot.replace(value).is_some() {
            self.duplicate = Some(member);
        }
    }

    fn judge(&self, text: &Bytes, limits: &Limits) -> Result<Message, ParseError> {
        if !self.is_object {
            return Err(ParseError { kind: ParseErrorKind::NotAnObject, subject: Subject::Unknown });
        }
        self.build(text, limits).map_err(|kind| ParseError { kind, subject: self.subject(text, limits) })
    }

    fn subject(&self, text: &[u8], limits: &Limits) -> Subject {
        let id = self.id.as_ref().and_then(|id| read_id(text, id, limits).ok());
        let has_answer = self.result.is_some() || self.error.is_some();
        if self.id.is_none() && self.method.is_some() && !has_answer {
            return Subject::Notification;
        }
        let Some(id) = id.filter(|_| self.duplicate != Some("id")) else { return Subject::Unknown };
        match (self.method.is_some(), has_answer) {
            _ if self.repeats_method(text) => Subject::Response(id),
            // RP6: a message with a method and a null result or error is not a response, and is answered.
            (true, _) => Subject::Request(id),
            (false, true) => Subject::Response(id),
            // A line of a log may have an id of its own.
            (false, false) if self.jsonrpc.is_none() => Subject::Unknown,
            (false, false) => Subject::Either(id),
        }
    }

    /// RP6: whether this is a response that repeats the method of its request. No request has a result or an error, so
    /// the message cannot be executed. With a null id, it would not be known what the message answers.
    fn repeats_method(&self, text: &[u8]) -> bool {
        let is_given = |member: &Option<Value>| member.as_ref().is_some_and(|value| value.text(text) != b"null");
        self.method.is_some() && is_given(&self.id) && (is_given(&self.result) || is_given(&self.error))
    }

    fn build(&self, text: &Bytes, limits: &Limits) -> Result<Message, ParseErrorKind> {
        if let Some(member) = self.duplicate {
            return Err(ParseErrorKind::DuplicateMember { member });
        }
        if !self.jsonrpc.as_ref().is_some_and(|version| is_version_2(version.text(text))) {
            return Err(ParseErrorKind::NotVersion2);
        }
        let share = |value: &Value| Json::from_valid_text(cut(text, value.span.clone()));
        let Some(method) = self.method.as_ref().filter(|_| !self.repeats_method(text)) else {
            return match (&self.result, &self.error, &self.id) {
                (Some(_), Some(_), _) => Err(ParseErrorKind::ResultAndError),
                (None, None, _) => Err(ParseErrorKind::NeitherRequestNorResponse),
                (Some(_), None, None) => Err(ParseErrorKind::ResultWithoutId),
                (Some(result), None, Some(id)) => {
                    let id = read_id(text, id, limits)?;
                    Ok(Response::Result { id, result: share(result) }.into())
                }
                (None, Some(error), id) => {
                    // JR-09: an absent id and `null` both mean that the request could not be read.
                    let id = match id {
                        None | Some(Value { kind: Kind::Null, .. }) => None,
                        Some(id) => Some(read_id(text, id, limits)?),
                    };
                    let error = ErrorObject::from_json(share(error)).ok_or(ParseErrorKind::InvalidError)?;
                    Ok(Response::Error { id, error }.into())
                }
            };
        };
        if self.result.is_some() || self.error.is_some() {
            return Err(ParseErrorKind::RequestAndResponse);
        }
        // P7: a message with `"id":null` is an invalid request, not a notification.
        let id = self.id.as_ref().map(|id| read_id(text, id, limits)).transpose()?;
        let method = read_method(method.text(text), limits)?;
        let params = match &self.params {
            // Some clients send null for absent parameters, which is no other request.
            None | Some(Value { kind: Kind::Null, .. }) => None,
            Some(value) if matches!(value.kind, Kind::Object | Kind::Array) => Some(share(value)),
            Some(_) => return Err(ParseErrorKind::ParamsNotStructured),
        };
        Ok(match id {
            Some(id) => Request { id, method, params }.into(),
            None => Notification { method, params }.into(),
        })
    }
}

/// A slice of a frame, which shares its memory unless the slice is much smaller.
fn cut(text: &Bytes, span: Range<usize>) -> Bytes {
    detach(text.slice(span), text.len())
}

/// Any escaping of the string is accepted.
fn is_version_2(text: &[u8]) -> bool {
    text == b"\"2.0\"" || unquote(text).as_deref() == Some("2.0")
}

fn read_id(text: &[u8], value: &Value, limits: &Limits) -> Result<RequestId, ParseErrorKind> {
    if value.kind == Kind::String && value.span.len() > limits.id {
        return Err(ParseErrorKind::IdTooLong { limit: limits.id });
    }
    RequestId::from_json_text(value.text(text)).ok_or(ParseErrorKind::InvalidId)
}

fn read_method(text: &[u8], limits: &Limits) -> Result<Method, ParseErrorKind> {
    let too_long = ParseErrorKind::MethodTooLong { limit: limits.method };
    if let Some(method) = Method::known_in_json(text) {
        return if method.as_str().len() > limits.method { Err(too_long) } else { Ok(method) };
    }
    let name = unquote(text).ok_or(ParseErrorKind::InvalidMethod)?;
    if name.len() > limits.method { Err(too_long) } else { Ok(Method::from(name.as_ref())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_may_be_as_long_as_the_limit_whether_it_is_known_or_not() {
        for method in ["tools/list", "tools/lisp", "tools\\/list", "tools\\/lisp", "\\u0074ools/list"] {
            for (limit, is_taken) in [(9, false), (10, true), (11, true)] {
                let limits = Limits { method: limit, ..Limits::default() };
                let read = read_method(format!("\"{method}\"").as_bytes(), &limits);
                assert_eq!(read.is_ok(), is_taken, "{method} {limit}");
                assert!(is_taken || read == Err(ParseErrorKind::MethodTooLong { limit }), "{method} {limit}");
            }
        }
    }
}
