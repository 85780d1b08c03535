//! The code that depends on the operating system.

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
