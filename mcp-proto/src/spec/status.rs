//! Classes of HTTP statuses.

use http::StatusCode;

/// Whether the same request may succeed at another time.
#[must_use]
pub fn is_temporary(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS)
}

/// Whether the server has not handled the request, and says with `Retry-After` when it may (RFC 9110, section 10.2.3; RFC 6585,
/// section 4).
pub(crate) const fn asks_to_wait(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// Whether a status is about credentials or load, and shows nothing about the protocol (ER-26, ER-29).
pub(crate) fn is_inconclusive(status: StatusCode) -> bool {
    is_temporary(status)
        || matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED
        )
}
