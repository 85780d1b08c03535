//! Waiting until one of many sockets can be read or written.
//!
//! `mio` registers sockets without `unsafe`, unlike `polling`, and on each system with what it has for many of them: epoll,
//! kqueue, or the driver of sockets of Windows. Its events come once: after one, the socket is read until it would block.

use std::io;
use std::net::TcpStream;
#[cfg(unix)]
use std::os::fd::AsRawFd;

use mio::event::Source;
use mio::{Interest, Registry, Token};

use super::LocalStream;

/// A socket, as it is registered.
#[cfg(unix)]
pub(crate) struct Watched(std::os::fd::RawFd);

/// A socket, as it is registered: another handle of it, because the library keeps the state of its emulation in the handle.
#[cfg(windows)]
pub(crate) struct Watched(mio::net::TcpStream);

#[cfg(unix)]
impl Watched {
    /// The socket must be open until this is deregistered.
    #[expect(clippy::unnecessary_wraps, reason = "another handle cannot always be made on other systems")]
    pub(crate) fn tcp(stream: &TcpStream) -> io::Result<Self> {
        Ok(Self(stream.as_raw_fd()))
    }

    /// As for TCP.
    #[expect(clippy::unnecessary_wraps, reason = "there are no such sockets on other systems")]
    pub(crate) fn local(stream: &LocalStream) -> io::Result<Self> {
        Ok(Self(stream.as_raw_fd()))
    }

    /// Reads or writes without blocking.
    #[expect(clippy::unused_self, reason = "the handle is needed on other systems")]
    pub(crate) fn try_io<T>(&self, io: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        io()
    }
}

#[cfg(windows)]
impl Watched {
    pub(crate) fn tcp(stream: &TcpStream) -> io::Result<Self> {
        stream.try_clone().map(|stream| Self(mio::net::TcpStream::from_std(stream)))
    }

    pub(crate) fn local(stream: &LocalStream) -> io::Result<Self> {
        match *stream {}
    }

    /// Reads or writes without blocking. When that would block, the next event is waited for.
    pub(crate) fn try_io<T>(&self, io: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.0.try_io(io)
    }
}

#[cfg(unix)]
impl Source for Watched {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        mio::unix::SourceFd(&self.0).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        mio::unix::SourceFd(&self.0).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        mio::unix::SourceFd(&self.0).deregister(registry)
    }
}

#[cfg(windows)]
impl Source for Watched {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.0.register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.0.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.0.deregister(registry)
    }
}
