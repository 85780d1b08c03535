//! Standard output, made for large messages.

use std::io;

use crate::stdio::{Output, Pipe};

/// Standard output without the standard library's search for line ends, which takes its time on large messages.
#[cfg(unix)]
pub(super) fn open() -> io::Result<impl Output + 'static> {
    use std::fs::File;
    use std::os::fd::AsFd;

    let file = io::stdout().as_fd().try_clone_to_owned().map(File::from)?;
    widen(&file);
    Ok(Pipe::new(file))
}

#[cfg(not(unix))]
pub(super) fn open() -> io::Result<impl Output + 'static> {
    Ok(Pipe::new(io::stdout()))
}

/// Gives a pipe the room that any user may have, so that a message of megabytes needs fewer turns of reader and writer.
#[cfg(target_os = "linux")]
fn widen(file: &std::fs::File) {
    use nix::fcntl::{FcntlArg, fcntl};

    const ROOM: i32 = 1 << 20;
    // What is no pipe, or may not be so large, stays as it is.
    let _ = fcntl(file, FcntlArg::F_SETPIPE_SZ(ROOM));
}

#[cfg(all(unix, not(target_os = "linux")))]
fn widen(_: &std::fs::File) {}
