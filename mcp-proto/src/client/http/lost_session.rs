//! How servers state that they have lost a session, which the client then opens again (SH-C-08, A16).
//!
//! The specification has one form: 404. Servers, gateways and older SDKs have others:
//!
//! | status | explanation | sent by |
//! |---|---|---|
//! | 404 | any, except that the method was not found | the specification |
//! | 410 | any | gateways that store sessions |
//! | 400 | names a session: `Invalid session ID`, `No valid session ID provided` | TypeScript and Python SDKs, mcp-go |
//! | 400, 422 | `Server not initialized`, `expect initialize request` | TypeScript SDK and rmcp after a restart |
//! | 401, 403 | `Session not found`, without a challenge | older rmcp |
//! | 5xx | `Session not found` | servers without error handling for it |
//! | 2xx | a JSON-RPC error with code -32001, or without an id and with code -32600 or -32000, that says `Session not found` | servers that set no status |

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};

use crate::error::Refusal;
use crate::jsonrpc::ErrorObject;
use crate::spec::code;
use crate::text::Excerpt;

/// The code with which the TypeScript SDK, and servers written after it, report an unknown session.
const SESSION_NOT_FOUND: i64 = -32_001;
/// The code with which the same servers refuse requests for all other reasons.
const OTHER_REFUSAL: i64 = -32_000;

/// What a refused message shows about its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionState {
    /// Nothing: the session exists.
    Known,
    /// It is lost, and the message was not processed.
    Lost,
    /// It is lost, but the server had an error, so that the message may have been processed.
    LostInError,
}

/// What a refusal in a session shows. `error` is the JSON-RPC error in its body and whether it has the id of the
/// message; `explanation` is what the body says.
pub(super) fn of_refusal(
    status: StatusCode,
    error: Option<(&ErrorObject, bool)>,
    explanation: Option<&str>,
) -> SessionState {
    let own_error = error.filter(|(_, is_for_us)| *is_for_us).map(|(error, _)| error);
    // An error with the id of the message is about the message, unless it says otherwise.
    if let Some(error) = own_error.filter(|_| status != StatusCode::NOT_FOUND) {
        return if is_lost_by(error, true) { SessionState::Lost } else { SessionState::Known };
    }
    let explanation = explanation.unwrap_or_default().to_ascii_lowercase();
    let is_lost = match status.as_u16() {
        404 => own_error.is_none_or(|error| error.code() != code::METHOD_NOT_FOUND),
        410 => true,
        400 => explanation.contains("session") || is_uninitialized(&explanation),
        422 => says_lost(&explanation) || is_uninitialized(&explanation),
        401 | 403 => says_lost(&explanation),
        500..=599 if says_lost(&explanation) => return SessionState::LostInError,
        _ => false,
    };
    if is_lost { SessionState::Lost } else { SessionState::Known }
}

/// Whether a refusal without a JSON-RPC error states that the session is lost.
pub(super) fn states_loss(refusal: &Refusal) -> bool {
    let explanation = refusal.explanation.as_ref().map(Excerpt::as_str);
    of_refusal(refusal.status, None, explanation) == SessionState::Lost
}

/// Whether an error response says that the session of its request is unknown. If the error has no id, its code may also
/// be one with which servers refuse messages that they do not read. With an id, such a code may belong to a request
/// that was executed.
pub(super) fn is_lost_by(error: &ErrorObject, has_id: bool) -> bool {
    let is_unread = !has_id && matches!(error.code(), code::INVALID_REQUEST | OTHER_REFUSAL);
    (error.code() == SESSION_NOT_FOUND || is_unread) && says_lost(&error.message().to_ascii_lowercase())
}

/// Whether a status alone states that the session, or a stream of it, does not exist.
pub(super) const fn is_gone(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// Whether a response without a challenge may state that the session is lost, although its status demands credentials.
pub(super) fn may_be_lost(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::UNAUTHORIZED && !headers.contains_key(WWW_AUTHENTICATE)
}

/// Whether an explanation in lower case says that a session does not exist.
fn says_lost(explanation: &str) -> bool {
    const STATES: [&str; 11] = [
        "not found",
        "not exist",
        "invalid",
        "unknown",
        "expired",
        "terminated",
        "closed",
        "no valid",
        "no such",
        "missing",
        "not initialized",
    ];
    explanation.contains("session") && STATES.iter().any(|state| explanation.contains(state))
}

/// Whether an explanation in lower case says that the server expects `initialize`.
fn is_uninitialized(explanation: &str) -> bool {
    ["not initialized", "not been initialized", "expect initialize", "expected initialize"]
        .iter()
        .any(|words| explanation.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a16_each_form_of_a_lost_session_is_known_by_status_and_explanation() {
        use SessionState::{Known, Lost, LostInError};
        for (status, explanation, expected) in [
            (404, "", Lost),
            (404, "Not Found", Lost),
            (410, "", Lost),
            (400, "Invalid session ID", Lost),
            (400, "Bad Request: No valid session ID provided", Lost),
            (400, "Bad Request: Mcp-Session-Id header is required", Lost),
            (400, "Bad Request: Server not initialized", Lost),
            (400, "Bad Request: Unsupported protocol version", Known),
            (400, "", Known),
            (401, "Unauthorized: Session not found", Lost),
            (401, "Unauthorized: Your session is not allowed to do that", Known),
            (401, "", Known),
            (403, "Session expired", Lost),
            (403, "Session does not exist", Lost),
            (403, "This session is invalid", Lost),
            (403, "Unknown session", Lost),
            (403, "Session was terminated", Lost),
            (403, "The session is closed", Lost),
            (403, "No valid session", Lost),
            (403, "No such session", Lost),
            (403, "Missing session ID", Lost),
            (403, "Session not initialized", Lost),
            (400, "Session required", Lost),
            (400, "The server has not been initialized", Lost),
            (422, "Server not initialized", Lost),
            (422, "Expected initialize request", Lost),
            (403, "Forbidden", Known),
            (422, "Unexpected message, expect initialize request", Lost),
            (422, "Unprocessable Entity: unknown session", Lost),
            (422, "field required", Known),
            (500, "Error: session not found", LostInError),
            (503, "Service Unavailable", Known),
            (429, "Session not found", Known),
            (418, "Session not found", Known),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(of_refusal(status, None, Some(explanation)), expected, "{status} {explanation}");
        }
    }

    #[test]
    fn a16_an_error_with_the_id_of_the_message_is_about_the_message_unless_it_says_otherwise() {
        use SessionState::{Known, Lost};
        for (status, code, message, expected) in [
            (400, -32_602, "unknown session in arguments", Known),
            (400, -32_001, "Session not found", Lost),
            (400, -32_001, "Request timed out", Known),
            (404, -32_601, "Method not found", Known),
            (404, -32_001, "Session not found", Lost),
            (500, -32_603, "session not found", Known),
        ] {
            let (status, error) = (StatusCode::from_u16(status).unwrap(), ErrorObject::new(code, message));
            assert_eq!(of_refusal(status, Some((&error, true)), Some(message)), expected, "{status} {code} {message}");
        }
    }

    #[test]
    fn a16_only_codes_of_what_was_not_read_state_a_loss() {
        for (code, has_id, message, expected) in [
            (-32_001, true, "Session not found", true),
            (-32_001, false, "Session not found", true),
            (-32_000, false, "Session not found", true),
            (-32_600, false, "Session not found", true),
            (-32_000, true, "Session not found", false),
            (-32_600, true, "Session not found", false),
            (-32_603, false, "Session not found", false),
            (-32_000, false, "Session limit reached", false),
        ] {
            assert_eq!(is_lost_by(&ErrorObject::new(code, message), has_id), expected, "{code} {has_id} {message}");
        }
    }
}
