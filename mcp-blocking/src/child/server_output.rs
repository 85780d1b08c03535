//! The stdout of a server, whose reading can be ended before its end: a process that has left the server's group may
//! keep it open for ever, and with it a thread.

use std::io::{self, Read};
use std::process::ChildStdout;

/// While this exists, the output is read.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Reading(
    #[expect(dead_code, reason = "it is closed when this is dropped")] std::os::unix::net::UnixStream,
);

/// An output that ends when its [`Reading`] is dropped.
#[cfg(unix)]
pub(super) struct ServerOutput {
    output: ChildStdout,
    reading: std::os::unix::net::UnixStream,
}

#[cfg(unix)]
pub(super) fn new(output: ChildStdout) -> io::Result<(ServerOutput, Reading)> {
    let (reading, held) = std::os::unix::net::UnixStream::pair()?;
    Ok((ServerOutput { output, reading }, Reading(held)))
}

#[cfg(unix)]
impl Read for ServerOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use std::os::fd::AsFd;

        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let output = PollFd::new(self.output.as_fd(), PollFlags::POLLIN);
        let mut polled = [output, PollFd::new(self.reading.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::NONE)?;
        let [_, reading] = &polled;
        if reading.any() != Some(false) {
            return Ok(0);
        }
        self.output.read(buffer)
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(super) struct Reading;

#[cfg(not(unix))]
pub(super) fn new(output: ChildStdout) -> io::Result<(impl Read + Send + 'static, Reading)> {
    Ok((output, Reading))
}
