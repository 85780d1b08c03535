//! The error of a client that does not read.

use std::io::{Error, ErrorKind};

/// The error of a server or proxy that has ended before its client has read all of the last messages.
///
/// # Example
///
/// ```
/// use mcp_application::not_read;
///
/// assert_eq!(not_read(7).to_string(), "the client does not read: 7 bytes were not written to it");
/// ```
#[must_use]
pub fn not_read(bytes: usize) -> Error {
    Error::new(ErrorKind::TimedOut, format!("the client does not read: {bytes} bytes were not written to it"))
}
