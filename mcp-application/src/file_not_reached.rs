//! Why a server of this machine cannot be connected to by its file.

use std::path::PathBuf;
use std::{fmt, io};

use mcp_proto::escape_text;

/// A server of this machine cannot be connected to by its file.
///
/// # Example
///
/// ```
/// use mcp_application::FileNotReached;
///
/// let error = std::io::ErrorKind::NotFound.into();
/// let reason = FileNotReached { kind: "Unix socket", path: "/run/mcp.sock".into(), error };
/// assert!(reason.to_string().starts_with("the Unix socket /run/mcp.sock cannot be connected to ("));
/// ```
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "drivers create it")]
pub struct FileNotReached {
    /// What the file is of, in words.
    pub kind: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// What the system states.
    pub error: io::Error,
}

impl fmt::Display for FileNotReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = escape_text(&self.path.to_string_lossy(), 200);
        write!(f, "the {} {path} cannot be connected to ({}); is the server running?", self.kind, self.error)
    }
}

impl std::error::Error for FileNotReached {}
