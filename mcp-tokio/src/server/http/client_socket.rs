//! The socket of a connection: of TCP, or a Unix socket.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;

use crate::platform::LocalStream;

/// The socket of a connection. Its methods are those of [`TcpStream`].
#[derive(Debug)]
pub(super) enum ClientSocket {
    Tcp(TcpStream),
    Local(LocalStream),
}

/// Calls a method of either socket.
macro_rules! either {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            ClientSocket::Tcp($stream) => $call,
            ClientSocket::Local($stream) => $call,
        }
    };
}

impl ClientSocket {
    /// Sends small responses at once, in place of waiting for more bytes (Nagle's algorithm). If the option cannot be set,
    /// they are delayed.
    pub(super) fn set_nodelay(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        either!(self, stream => stream.ready(interest).await)
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read_ready(cx))
    }

    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_write_ready(cx))
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        either!(self, stream => stream.try_read(buffer))
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    pub(super) fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, stream => stream.try_write_vectored(pieces))
    }

    /// Writes without asking the runtime whether the socket is ready.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, stream => SockRef::from(stream).send(bytes))
    }

    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        either!(self, stream => SockRef::from(stream).shutdown(Shutdown::Write))
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
