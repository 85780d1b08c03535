//! The stdout of a server, whose reading can be ended before its end: a process that has left the server's group may
//! keep it open for ever, and with it a thread.

use std::io::{self, Read};
use std::process::ChildStdout;

/// While this exists, the output is read.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Reading(
    #[expect(dead_code, reason = "it is closed when this is dropped")] std::os::unix::net::UnixStream,
);

/// An output that ends when its [`Reading`] is dropped.
#[cfg(unix)]
pub(crate) struct ServerOutput {
    output: ChildStdout,
    reading: std::os::unix::net::UnixStream,
}

#[cfg(unix)]
impl ServerOutput {
    pub(crate) fn new(output: ChildStdout) -> io::Result<(Self, Reading)> {
        let (reading, held) = std::os::unix::net::UnixStream::pair()?;
        Ok((Self { output, reading }, Reading(held)))
    }
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

/// Nothing is left that could keep it open, since a job ends with all of its processes.
#[cfg(windows)]
#[derive(Debug)]
pub(crate) struct Reading;

#[cfg(windows)]
pub(crate) struct ServerOutput(ChildStdout);

#[cfg(windows)]
impl ServerOutput {
    #[expect(clippy::unnecessary_wraps, reason = "other systems may have no descriptor left")]
    pub(crate) fn new(output: ChildStdout) -> io::Result<(Self, Reading)> {
        Ok((Self(output), Reading))
    }
}

#[cfg(windows)]
impl Read for ServerOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
