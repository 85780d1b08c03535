//! The error of a program that cannot be started.

use std::io::{Error, ErrorKind};

/// Adds the name of the program and a hint to the error of starting it.
///
/// # Example
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use mcp_application::not_started;
///
/// let error = not_started("no-such-server", &Error::from(ErrorKind::NotFound));
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.to_string(), "cannot start `no-such-server`: entity not found; is it installed and in PATH?");
/// ```
#[must_use]
pub fn not_started(program: &str, error: &Error) -> Error {
    let hint = if error.kind() == ErrorKind::NotFound {
        "; is it installed and in PATH?"
    } else if error.kind() == ErrorKind::PermissionDenied {
        "; is it a program, and may you run it?"
    } else {
        ""
    };
    Error::new(error.kind(), format!("cannot start `{program}`: {error}{hint}"))
}
