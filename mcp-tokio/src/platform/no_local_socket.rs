//! The types for systems without Unix sockets. They have no values, and the methods of those of tokio.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

#[derive(Debug)]
pub(crate) enum LocalListener {}

#[derive(Debug)]
pub(crate) enum LocalStream {}

impl LocalListener {
    pub(crate) async fn accept(&self) -> io::Result<(LocalStream, ())> {
        match *self {}
    }
}

impl LocalStream {
    pub(crate) async fn ready(&self, _: Interest) -> io::Result<Ready> {
        match *self {}
    }

    pub(crate) fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub(crate) fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub(crate) fn try_read(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn try_write_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for LocalStream {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        match *self {}
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}
