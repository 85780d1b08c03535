//! Standard output, made for large messages.

use std::io::{self, BufWriter, Write};

/// Bytes of small messages that are written at once.
const BUFFER: usize = 8 * 1024;

/// Standard output without the standard library's search for line ends, which takes its time on large messages.
#[cfg(unix)]
pub(crate) fn open() -> io::Result<impl Write + Send + 'static> {
    use std::fs::File;
    use std::os::fd::AsFd;

    let file = io::stdout().as_fd().try_clone_to_owned().map(File::from)?;
    widen(&file);
    Ok(BufWriter::with_capacity(BUFFER, file))
}

#[cfg(not(unix))]
pub(crate) fn open() -> io::Result<impl Write + Send + 'static> {
    Ok(BufWriter::with_capacity(BUFFER, io::stdout()))
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
