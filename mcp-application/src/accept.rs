//! Errors of listening sockets.

use std::io::{Error, ErrorKind};

/// Whether accepting another connection may succeed after this error, so that a listening server should continue.
///
/// # Example
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use mcp_application::may_accept_later;
///
/// assert!(may_accept_later(&Error::from(ErrorKind::ConnectionAborted)));
/// assert!(!may_accept_later(&Error::from(ErrorKind::InvalidInput)));
/// ```
#[must_use]
pub fn may_accept_later(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_lost_or_has_no_descriptor_does_not_end_the_server() {
        for (kind, expected) in [
            (ErrorKind::ConnectionAborted, true),
            (ErrorKind::Interrupted, true),
            // No file descriptor is left.
            (ErrorKind::Other, true),
            (ErrorKind::InvalidInput, false),
            (ErrorKind::Unsupported, false),
            (ErrorKind::NotConnected, false),
        ] {
            assert_eq!(may_accept_later(&kind.into()), expected, "{kind}");
        }
    }
}
