//! Unix sockets.

use std::os::fd::{AsFd, OwnedFd};
pub(crate) use std::os::unix::net::{UnixListener as LocalListener, UnixStream as LocalStream};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{io, thread};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, SockAddr, Socket, Type};

/// The pause before another attempt to connect to a socket whose queue is full.
const FULL_QUEUE: Duration = Duration::from_millis(10);

/// Connects to the socket at this path. While the queue of the server is full, it is tried again.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] if the queue is full until the deadline; otherwise, what the system says.
pub(crate) fn connect(path: &Path, deadline: Option<Instant>) -> io::Result<LocalStream> {
    loop {
        match try_connect(path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if deadline.is_some_and(|at| Instant::now() >= at) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                thread::sleep(FULL_QUEUE);
            }
            outcome => return outcome,
        }
    }
}

fn try_connect(path: &Path) -> io::Result<LocalStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Otherwise, it would wait for the server without a timeout.
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(false)?;
    Ok(LocalStream::from(OwnedFd::from(socket)))
}

/// A listening socket that accepts connections until its [`Waker`] is dropped. The file of the socket may be removed, so that
/// no connection could wake it.
#[derive(Debug)]
pub(crate) struct Wakeable {
    listener: LocalListener,
    /// The other end belongs to the waker.
    closed: LocalStream,
}

/// Wakes a [`Wakeable`] when it is dropped.
#[derive(Debug)]
pub(crate) struct Waker {
    _stream: LocalStream,
}

impl Wakeable {
    pub(crate) fn new(listener: LocalListener) -> io::Result<(Self, Waker)> {
        listener.set_nonblocking(true)?;
        let (closed, end) = LocalStream::pair()?;
        Ok((Self { listener, closed }, Waker { _stream: end }))
    }

    /// Waits for a connection; `None` if there is none, and the caller must check whether the waker was dropped.
    pub(crate) fn accept(&self) -> io::Result<Option<LocalStream>> {
        self.wait()?;
        match self.listener.accept() {
            Ok((stream, _)) => {
                // On some systems, it is as the listener is.
                stream.set_nonblocking(false)?;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until one of the two has something to read.
    fn wait(&self) -> io::Result<()> {
        let sockets = [self.listener.as_fd(), self.closed.as_fd()];
        match poll(&mut sockets.map(|socket| PollFd::new(socket, PollFlags::POLLIN)), PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A socket that may have received something.
pub(crate) trait Quiet {
    /// Whether the peer has neither sent anything nor closed the connection.
    fn is_quiet(&self) -> bool;
}

impl<S: AsFd> Quiet for S {
    fn is_quiet(&self) -> bool {
        poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(0)
    }
}
