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

pub(crate) fn is_link() -> std::io::Error {
    std::io::Error::other("it is a symbolic link, which is not followed; name the file itself")
}
