//! Standard output, optimized for large messages.

use std::io;

use crate::stdio::{Output, Pipe};

/// Standard output without the line buffering of the standard library, which searches large messages for line ends.
#[cfg(unix)]
pub(crate) fn open() -> io::Result<impl Output + 'static> {
    use std::fs::File;
    use std::os::fd::AsFd;

    let file = io::stdout().as_fd().try_clone_to_owned().map(File::from)?;
    widen(&file);
    Ok(Pipe::new(file))
}

#[cfg(not(unix))]
pub(crate) fn open() -> io::Result<impl Output + 'static> {
    Ok(Pipe::new(io::stdout()))
}

/// Enlarges a pipe to the size that any user may set, so that the reader and the writer of a large message switch less
/// often.
#[cfg(target_os = "linux")]
fn widen(file: &std::fs::File) {
    use nix::fcntl::{FcntlArg, fcntl};

    const ROOM: i32 = 1 << 20;
    // If this is not a pipe, or may not be so large, it is left unchanged.
    let _ = fcntl(file, FcntlArg::F_SETPIPE_SZ(ROOM));
}

#[cfg(all(unix, not(target_os = "linux")))]
fn widen(_: &std::fs::File) {}
