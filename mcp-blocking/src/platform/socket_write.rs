//! Writing to a socket that another thread may close meanwhile.

use std::io::{self, Write};
use std::time::Duration;

/// Writes all bytes; `within` is the time for each part, which the socket has as its timeout.
///
/// # Errors
///
/// The socket was closed, by this process or by the peer, or takes nothing for too long.
#[cfg(unix)]
pub(crate) fn write_all(
    mut socket: impl Write,
    _set_nonblocking: impl Fn(bool) -> io::Result<()>,
    bytes: &[u8],
    _within: Option<Duration>,
    _is_closed: impl Fn() -> bool,
) -> io::Result<()> {
    // `shutdown` ends a write that waits.
    socket.write_all(bytes)
}

/// Writes all bytes; `within` is the time for each part.
///
/// On Windows, `shutdown` does not end a write that waits, and after a write that has timed out it is not known what was
/// written. The socket therefore does not block meanwhile.
///
/// # Errors
///
/// The socket was closed, by this process or by the peer, or takes nothing for too long.
#[cfg(windows)]
pub(crate) fn write_all(
    socket: impl Write,
    set_nonblocking: impl Fn(bool) -> io::Result<()>,
    bytes: &[u8],
    within: Option<Duration>,
    is_closed: impl Fn() -> bool,
) -> io::Result<()> {
    set_nonblocking(true)?;
    let written = write_without_blocking(socket, bytes, within, is_closed);
    written.and(set_nonblocking(false))
}

#[cfg(windows)]
fn write_without_blocking(
    mut socket: impl Write,
    mut bytes: &[u8],
    within: Option<Duration>,
    is_closed: impl Fn() -> bool,
) -> io::Result<()> {
    /// The pauses before another attempt: each is twice as long as the one before.
    const PAUSES: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(20)];
    let (mut since, mut pause) = (std::time::Instant::now(), PAUSES[0]);
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                bytes = bytes.get(length..).unwrap_or_default();
                (since, pause) = (std::time::Instant::now(), PAUSES[0]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if is_closed() {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                if within.is_some_and(|within| since.elapsed() >= within) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSES[1]);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
