//! How the process of a server has ended, and why it could not be started.

use std::fmt;
use std::io::{Error, ErrorKind};

use crate::platform;

/// How the process of a server has ended, or why it is ended.
///
/// The texts are predicates about the server.
///
/// # Example
///
/// ```
/// use mcp_proto::ProcessEnd;
///
/// assert_eq!(ProcessEnd::Code(3).to_string(), "exited with code 3");
/// assert_eq!(ProcessEnd::Signal(9).to_string(), "was ended by signal 9 (SIGKILL)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessEnd {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It has ended; the system does not state how.
    Unknown,
    /// It has closed its output, and has not exited. It is stopped.
    OutputClosed,
    /// It has closed its input, and has not exited. It is stopped.
    InputClosed,
}

impl From<std::process::ExitStatus> for ProcessEnd {
    fn from(status: std::process::ExitStatus) -> Self {
        match (platform::signal_of(status), status.code()) {
            (Some(signal), _) => Self::Signal(signal),
            (None, Some(code)) => Self::Code(code),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was ended by signal {signal} ({name})"),
                None => write!(f, "was ended by signal {signal}"),
            },
            Self::Unknown => f.write_str("has ended"),
            Self::OutputClosed => f.write_str("closed its output without exiting"),
            Self::InputClosed => f.write_str("closed its input without exiting"),
        }
    }
}

/// The name of a signal whose number is the same on all systems.
const fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        _ => return None,
    })
}

/// Why the process of a server could not be started. The reason contains neither the command nor the words of the
/// system, because clients of other people read it.
///
/// # Example
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use mcp_proto::StartFailure;
///
/// let failure = StartFailure::from(&Error::from(ErrorKind::NotFound));
/// assert_eq!(failure.to_string(), "its command was not found");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartFailure {
    /// There is no such program, or its working directory is missing.
    #[error("its command was not found")]
    NotFound,
    /// The program is not executable, or the user may not execute it.
    #[error("its command may not be executed")]
    NotPermitted,
    /// For another reason, such as a limit of the system.
    #[error("the system has refused to start its command")]
    Other,
}

impl From<&Error> for StartFailure {
    fn from(error: &Error) -> Self {
        if error.kind() == ErrorKind::NotFound {
            Self::NotFound
        } else if error.kind() == ErrorKind::PermissionDenied {
            Self::NotPermitted
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_without_a_common_number_has_no_name() {
        for number in [-1, 0, 7, 10, 12, 16, 26, 64] {
            assert_eq!(ProcessEnd::Signal(number).to_string(), format!("was ended by signal {number}"));
        }
    }

    #[test]
    fn a_signal_with_a_common_number_has_its_name() {
        let named =
            "1 HUP 2 INT 3 QUIT 4 ILL 5 TRAP 6 ABRT 8 FPE 9 KILL 11 SEGV 13 PIPE 14 ALRM 15 TERM 24 XCPU 25 XFSZ";
        let words: Vec<_> = named.split(' ').collect();
        for pair in words.chunks(2) {
            let text = ProcessEnd::Signal(pair[0].parse().unwrap()).to_string();
            assert_eq!(text, format!("was ended by signal {} (SIG{})", pair[0], pair[1]));
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_exit_status_states_the_code_or_the_signal() {
        use std::os::unix::process::ExitStatusExt;
        for (raw, end) in [(3 << 8, ProcessEnd::Code(3)), (9, ProcessEnd::Signal(9)), (0x7f, ProcessEnd::Unknown)] {
            assert_eq!(ProcessEnd::from(std::process::ExitStatus::from_raw(raw)), end);
        }
    }

    #[test]
    fn a_failure_to_start_is_described_without_the_words_of_the_system() {
        for (kind, failure) in [
            (ErrorKind::NotFound, StartFailure::NotFound),
            (ErrorKind::PermissionDenied, StartFailure::NotPermitted),
            (ErrorKind::OutOfMemory, StartFailure::Other),
        ] {
            let error = Error::new(kind, "a secret path");
            assert_eq!(StartFailure::from(&error), failure);
            assert!(!failure.to_string().contains("secret"));
        }
    }
}
