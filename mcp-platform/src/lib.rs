//! What differs between operating systems for the drivers of [`mcp_proto`].
//!
//! | item | on Unix | on Windows |
//! |---|---|---|
//! | [`ProcessTree`] | a process group, which is signalled | a job object, which ends with this process |
//! | [`command`], [`find_program`] | a name is looked for in `PATH` | with each ending of `PATHEXT`, so that `npx` is `npx.cmd` |
//! | [`not_started`] | states where a program was looked for | the same |
//! | [`is_reader_gone`] | `EPIPE` | also `ERROR_PIPE_NOT_CONNECTED` |
//! | [`private_file`] | mode 0600, no symbolic links | the user's profile, or an access list for the owner alone |
//!
//! All code of the crate that depends on the system is in its module `platform`.
//!
//! # Example: a server with all that it starts
//!
//! ```sh
//! cargo add mcp-platform
//! ```
//!
//! ```
//! use std::process::Stdio;
//!
//! use mcp_platform::{ProcessTree, command};
//!
//! fn main() -> std::io::Result<()> {
//!     // The compiler is a program that each machine with Cargo has.
//!     let mut command = command("rustc");
//!     ProcessTree::lead(&mut command);
//!     let mut server = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
//!     let mut tree = ProcessTree::of(&server)?;
//!     // It waits for its input; now it ends, and so does all that it has started.
//!     tree.kill();
//!     server.wait()?;
//!     Ok(())
//! }
//! ```

mod platform;
pub mod private_file;
mod process_tree;
mod program;

pub use process_tree::{Leader, ProcessTree};
pub use program::{Problem, command, command_in, find_program, not_started};

/// Whether a write has failed with this error because the reader has closed its end.
///
/// # Example
///
/// ```
/// use std::io::{Error, ErrorKind};
///
/// assert!(mcp_platform::is_reader_gone(&Error::from(ErrorKind::BrokenPipe)));
/// assert!(!mcp_platform::is_reader_gone(&Error::from(ErrorKind::StorageFull)));
/// ```
#[must_use]
pub fn is_reader_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe || platform::is_reader_gone(error)
}

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::is_reader_gone;

    #[test]
    fn a_broken_pipe_states_that_the_reader_is_gone_and_a_full_disk_does_not() {
        assert!(is_reader_gone(&Error::from(ErrorKind::BrokenPipe)));
        assert!(!is_reader_gone(&Error::from(ErrorKind::StorageFull)));
    }
}
