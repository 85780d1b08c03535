//! Error responses with an HTTP status, for requests that are refused.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::auth::Challenge;
use crate::jsonrpc::{ErrorObject, Message, ParseError, Response as Answer};
use crate::spec::{UnreadableId, code};

/// The value of `Retry-After` for 503, in seconds.
const RETRY: HeaderValue = HeaderValue::from_static("5");

/// The reason for which a request is refused, and its status from the table of RULES 5.2.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: i64,
    text: Cow<'static, str>,
    /// A header that states what would be accepted, or that the connection ends.
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) const fn new(status: StatusCode, text: &'static str) -> Self {
        Self { status, code: code::INVALID_REQUEST, text: Cow::Borrowed(text), header: None }
    }

    pub(crate) const fn no_session() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "there is no Mcp-Session-Id; a session begins with initialize")
    }

    pub(crate) const fn unknown_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such session; begin a new one with initialize")
    }

    pub(crate) const fn unknown_event() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "the events after this Last-Event-ID are no longer stored")
    }

    pub(crate) const fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large")
    }

    pub(crate) const fn too_many_sessions() -> Self {
        let text = "there are too many sessions at this time: as many as max_sessions allows";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    pub(crate) const fn too_many_streams() -> Self {
        let text = "there are too many streams at this time: half of max_connections, or max_streams if that is less";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// For requests beyond the common limit of stored bytes (M3).
    pub(crate) const fn overloaded() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is overloaded; try again later")
    }

    /// For a request that needs the store, if the store has failed or has not answered in time.
    pub(crate) const fn store_unavailable() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the store of sessions cannot be reached; try again later")
    }

    /// For a request about a task of another instance.
    pub(crate) const fn task_unavailable() -> Self {
        let text = "the instance of the server that has this task cannot be reached; try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    pub(crate) const fn has_get_stream() -> Self {
        Self::new(StatusCode::CONFLICT, "this session has its stream already")
    }

    pub(crate) const fn stopped() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is being stopped")
    }

    pub(crate) fn method(allow: &'static str) -> Self {
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here");
        Self { header: Some((ALLOW, HeaderValue::from_static(allow))), ..refusal }
    }

    /// For a body with a content coding.
    pub(crate) fn encoding() -> Self {
        let text = "the body must not be compressed: Content-Encoding is not supported";
        let refusal = Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
        Self { header: Some((ACCEPT_ENCODING, HeaderValue::from_static("identity"))), ..refusal }
    }

    /// For a body with a transfer coding besides `chunked`. Parsers may disagree on where such a body ends, so that
    /// nothing may follow it (OR7).
    pub(crate) fn transfer() -> Self {
        let refusal = Self::new(StatusCode::NOT_IMPLEMENTED, "the only supported Transfer-Encoding is chunked");
        Self { header: Some((CONNECTION, HeaderValue::from_static("close"))), ..refusal }
    }

    /// For a request that is refused with a challenge. The status follows from its error (RFC 6750, section 3.1).
    pub(crate) fn challenge(challenge: &Challenge) -> Self {
        let (status, text) = match challenge.error() {
            Some("insufficient_scope") => {
                (StatusCode::FORBIDDEN, "the token lacks scopes that this request needs; WWW-Authenticate names them")
            }
            Some("invalid_request") => (StatusCode::BAD_REQUEST, "the credentials of the request are malformed"),
            Some("invalid_token") => (StatusCode::UNAUTHORIZED, "the token is not valid here; get another one"),
            Some(_) | None => {
                (StatusCode::UNAUTHORIZED, "this server demands a token; WWW-Authenticate names its kind")
            }
        };
        Self { header: Some((WWW_AUTHENTICATE, challenge.to_header_value())), ..Self::new(status, text) }
    }

    /// For a body that is not a valid message (RULES 5.2, rows 6 and 7).
    pub(crate) fn frame(error: &ParseError) -> Self {
        let text = Cow::Owned(error.to_string());
        Self { code: error.code(), text, ..Self::new(StatusCode::BAD_REQUEST, "") }
    }

    /// For a notification whose headers differ from its body.
    pub(crate) fn error(error: &ErrorObject) -> Self {
        let text = Cow::Owned(error.message());
        Self { code: error.code(), text, ..Self::new(StatusCode::BAD_REQUEST, "") }
    }

    /// The HTTP response; its body is a JSON-RPC error without a request's id (SH-S-04, SH-S-08), which the client's
    /// revision writes as `unreadable_id` (A28).
    pub(crate) fn into_response(self, unreadable_id: UnreadableId) -> Response<Bytes> {
        let error = ErrorObject::new(self.code, &self.text);
        let body = Message::Response(Answer::Error { id: None, error }).to_bytes_with(unreadable_id);
        let mut response = json(self.status, body);
        // A text that is composed may repeat something of the request.
        if let Cow::Borrowed(text) = self.text {
            response.extensions_mut().insert(Reason(text));
        }
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// The reason for a refusal, in the extensions of its response.
#[derive(Debug, Clone, Copy)]
struct Reason(&'static str);

/// Returns the status and the reason with which a server has refused a request, for the log of its driver. Returns `None` for
/// other responses, and for refusals whose reason repeats something of the request.
///
/// # Example
///
/// ```
/// use http::{Request, Response};
/// use mcp_proto::server::{HttpConfig, refusal_reason};
///
/// let (head, ()) = Request::get("/").header("host", "evil.example").body(())?.into_parts();
/// let refused = HttpConfig::new().refusal(&head, None).unwrap();
/// assert_eq!(
///     refusal_reason(&refused).unwrap(),
///     "403 Forbidden: the Host of the request is not allowed here; HttpConfig::access lists those that are",
/// );
/// assert_eq!(refusal_reason(&Response::default()), None);
/// # Ok::<(), http::Error>(())
/// ```
#[must_use]
pub fn refusal_reason(response: &Response<Bytes>) -> Option<String> {
    let Reason(text) = response.extensions().get()?;
    Some(format!("{}: {text}", response.status()))
}

/// The response to any request on a connection for which a driver has no room: 503.
#[must_use]
pub fn too_many_connections() -> Response<Bytes> {
    let text = "there are too many connections at this time: as many as max_connections allows";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response(UnreadableId::Null)
}

/// The response to a request that a driver cannot pass to its server, because the server has ended: 503.
#[must_use]
pub fn server_stopped() -> Response<Bytes> {
    Refusal::stopped().into_response(UnreadableId::Null)
}

/// The status for a request that the machine refused itself: 503 if the server is overloaded, else 400.
pub(crate) fn refused(answer: &Message) -> StatusCode {
    match answer {
        Message::Response(Answer::Error { error, .. }) if error.code() == code::INTERNAL_ERROR => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Message::Response(_) | Message::Request(_) | Message::Notification(_) => StatusCode::BAD_REQUEST,
    }
}

/// A response with a JSON body; with the status 503, it has `Retry-After`.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY);
    }
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::Frame;
    use crate::limits::Limits;

    fn text(refusal: Refusal, unreadable_id: UnreadableId) -> (u16, String) {
        let response = refusal.into_response(unreadable_id);
        (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
    }

    #[test]
    fn a_refusal_explains_in_its_body_what_is_wrong() {
        let error = Frame::parse(&Bytes::from_static(b"{"), &Limits::default()).unwrap_err();
        let body = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32700,"message":"{error}"}}}}"#);
        assert_eq!(text(Refusal::frame(&error), UnreadableId::Null), (400, body));
        let said = r#"{"jsonrpc":"2.0","error":{"code":-32020,"message":"not the same"}}"#;
        assert_eq!(
            text(Refusal::error(&ErrorObject::new(-32020, "not the same")), UnreadableId::Omitted),
            (400, said.to_owned())
        );
        let refusal = Refusal::new(StatusCode::NOT_FOUND, "not here");
        let said = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not here"}}"#;
        assert_eq!(text(refusal, UnreadableId::Null), (404, said.to_owned()));
    }

    #[test]
    fn the_reason_of_a_refusal_is_for_the_log_unless_it_repeats_the_request() {
        for (response, expected) in [
            (
                too_many_connections(),
                Some(
                    "503 Service Unavailable: there are too many connections at this time: as many as max_connections allows",
                ),
            ),
            (
                Refusal::new(StatusCode::NOT_FOUND, "not here").into_response(UnreadableId::Null),
                Some("404 Not Found: not here"),
            ),
            (Refusal::error(&ErrorObject::new(-32020, "not the same")).into_response(UnreadableId::Null), None),
            (empty(StatusCode::BAD_REQUEST), None),
        ] {
            assert_eq!(refusal_reason(&response).as_deref(), expected);
        }
    }

    #[test]
    fn or_14_who_may_try_again_is_told_when_and_what_would_do() {
        let response = Refusal::method("GET, POST").into_response(UnreadableId::Null);
        assert_eq!((response.status().as_u16(), response.headers()[ALLOW].as_bytes()), (405, &b"GET, POST"[..]));
        assert!(!response.headers().contains_key(RETRY_AFTER));
        let response = Refusal::transfer().into_response(UnreadableId::Null);
        assert_eq!((response.status().as_u16(), response.headers()[CONNECTION].as_bytes()), (501, &b"close"[..]));
        let response = Refusal::encoding().into_response(UnreadableId::Null);
        assert_eq!(
            (response.status().as_u16(), response.headers()[ACCEPT_ENCODING].as_bytes()),
            (415, &b"identity"[..])
        );
        for response in [too_many_connections(), server_stopped()] {
            assert_eq!((response.status().as_u16(), response.headers()[RETRY_AFTER].as_bytes()), (503, &b"5"[..]));
            assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
            assert!(!response.headers().contains_key(ALLOW));
        }
        assert_eq!((empty(StatusCode::ACCEPTED).status().as_u16(), empty(StatusCode::OK).body().len()), (202, 0));
    }
}
