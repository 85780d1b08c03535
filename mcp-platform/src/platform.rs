//! The code that depends on the operating system: the same names in a file for each kind.
//!
//! | file | systems |
//! |---|---|
//! | `unix` | Linux, macOS and others |
//! | `windows` | Windows |

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
