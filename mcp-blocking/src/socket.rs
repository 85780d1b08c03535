//! A connected socket: one of TCP, or of the local machine.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::platform::{LocalStream, Quiet, Watched};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Local(LocalStream),
}

/// Calls the method that both kinds of sockets have.
macro_rules! each {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Local($stream) => $call,
        }
    };
}

impl Socket {
    /// Sets how long reads and writes may block. Small packets are sent at once.
    pub(crate) fn prepare(&self, read: Duration, write: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true)?,
            Self::Local(_) => {}
        }
        each!(self, stream => {
            stream.set_read_timeout(Some(read))?;
            stream.set_write_timeout(Some(write))
        })
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        each!(self, stream => stream.set_read_timeout(timeout))
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        each!(self, stream => stream.set_write_timeout(timeout))
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        each!(self, stream => stream.set_nonblocking(nonblocking))
    }

    /// This socket for a poll of many. It must be open until that is deregistered.
    pub(crate) fn watch(&self) -> io::Result<Watched> {
        match self {
            Self::Tcp(stream) => Watched::tcp(stream),
            Self::Local(stream) => Watched::local(stream),
        }
    }

    /// The error that has ended the connection, if it was not returned before.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        each!(self, stream => stream.take_error())
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        each!(self, stream => stream.shutdown(how))
    }

    /// Whether the peer has neither sent anything nor closed the connection.
    pub(crate) fn is_quiet(&self) -> bool {
        each!(self, stream => stream.is_quiet())
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        each!(*self, stream => Read::read(&mut { stream }, buffer))
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        each!(*self, stream => Write::write(&mut { stream }, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

/// Whether a read, a write or a connection was not possible in time.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
