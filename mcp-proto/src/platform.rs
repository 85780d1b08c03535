//! The code that depends on the operating system.

use std::io::Error;
use std::process::ExitStatus;

/// The signal that has ended a process.
#[cfg(unix)]
pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
pub(crate) const fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// Whether an error of a lookup states that there is no such host, for which the standard library has no kind.
#[cfg(not(windows))]
pub(crate) fn is_unknown_host(error: &Error) -> bool {
    error.to_string().starts_with("failed to lookup address information")
}

#[cfg(windows)]
pub(crate) fn is_unknown_host(error: &Error) -> bool {
    /// `WSAHOST_NOT_FOUND`, `WSATRY_AGAIN`, `WSANO_RECOVERY` and `WSANO_DATA`.
    const CODES: std::ops::RangeInclusive<i32> = 11_001..=11_004;
    error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}
