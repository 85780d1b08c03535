//! The checks of a request's head that concern no session.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use crate::error::BodyKind;
use crate::limits::Limits;
use crate::server::http::exchange::refusal::Refusal;
use crate::spec::header::{PROTOCOL_VERSION, accepts, body_kind};
use crate::spec::{ProtocolVersion, SupportedVersions};

/// Whether a request may be a message, and its client reads both forms of a response.
pub(crate) fn check_message(head: &Parts, limits: &Limits) -> Result<(), Refusal> {
    check_body(head, limits)?;
    if !accepts(&head.headers, "application/json") || !accepts(&head.headers, "text/event-stream") {
        let text = "the answer may be application/json or text/event-stream, and Accept must allow both";
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, text));
    }
    Ok(())
}

/// Whether the body of a request may be a message.
pub(crate) fn check_body(head: &Parts, limits: &Limits) -> Result<(), Refusal> {
    // A web page can send other content types to a foreign origin without a preflight (OR4).
    if body_kind(&head.headers) != BodyKind::Json {
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"));
    }
    if has_coding_besides(&head.headers, &CONTENT_ENCODING, "identity") {
        return Err(Refusal::encoding());
    }
    let length = single(&head.headers, &CONTENT_LENGTH).ok().flatten().and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.message as u64) {
        return Err(Refusal::too_large());
    }
    Ok(())
}

/// Refuses a body with a transfer coding besides `chunked` (RFC 9112, section 6.1). An HTTP library may have removed the chunks
/// and left the coding.
pub(crate) fn check_transfer(headers: &HeaderMap) -> Result<(), Refusal> {
    if has_coding_besides(headers, &TRANSFER_ENCODING, "chunked") {
        return Err(Refusal::transfer());
    }
    Ok(())
}

/// Whether a header names a coding besides this one, or names it twice.
fn has_coding_besides(headers: &HeaderMap, name: &http::HeaderName, only: &str) -> bool {
    single(headers, name).map_or(true, |coding| coding.is_some_and(|coding| !coding.eq_ignore_ascii_case(only)))
}

/// The value of a header that must not be repeated.
pub(crate) fn single<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Refuses a revision that is not served (row 20). Without the header, the revision of the session applies (row
/// 21).
pub(crate) fn check_version(headers: &HeaderMap, versions: &SupportedVersions) -> Result<(), Refusal> {
    let version = match single(headers, &PROTOCOL_VERSION) {
        Ok(None) => return Ok(()),
        Ok(Some(text)) => ProtocolVersion::from_text(text),
        Err(()) => None,
    };
    if version.is_some_and(|version| !version.is_stateless() && versions.contains(version)) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::BAD_REQUEST, "the revision that MCP-Protocol-Version names is not served"))
}

/// Whether a request's path is the one of an endpoint. A slash at its end makes no other endpoint.
pub(crate) fn is_at(path: &str, own: &str) -> bool {
    path == own || path.strip_suffix('/') == Some(own)
}
