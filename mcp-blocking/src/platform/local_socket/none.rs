//! The types for systems without Unix sockets. They have no values, and the same methods.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) enum LocalStream {}

#[derive(Debug)]
pub(crate) enum LocalListener {}

#[derive(Debug)]
pub(crate) enum Wakeable {}

#[derive(Debug)]
pub(crate) enum Waker {}

/// Fails.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`].
pub(crate) fn connect(_: &Path, _: Option<Instant>) -> io::Result<LocalStream> {
    Err(io::ErrorKind::Unsupported.into())
}

impl LocalStream {
    pub(crate) fn set_read_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn set_nonblocking(&self, _: bool) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match *self {}
    }

    pub(crate) fn shutdown(&self, _: Shutdown) -> io::Result<()> {
        match *self {}
    }
}

impl Read for &LocalStream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match **self {}
    }
}

impl Write for &LocalStream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match **self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match **self {}
    }
}

impl Wakeable {
    #[expect(clippy::needless_pass_by_value, reason = "the listener of systems with Unix sockets becomes a part of it")]
    pub(crate) fn new(listener: LocalListener) -> io::Result<(Self, Waker)> {
        match listener {}
    }

    pub(crate) fn accept(&self) -> io::Result<Option<LocalStream>> {
        match *self {}
    }
}

/// A socket that may have received something.
pub(crate) trait Quiet {
    /// Whether the peer has neither sent anything nor closed the connection.
    fn is_quiet(&self) -> bool;
}

impl Quiet for TcpStream {
    fn is_quiet(&self) -> bool {
        let peeked = self.set_nonblocking(true).and_then(|()| self.peek(&mut [0]));
        self.set_nonblocking(false).is_ok() && peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Quiet for LocalStream {
    fn is_quiet(&self) -> bool {
        match *self {}
    }
}
