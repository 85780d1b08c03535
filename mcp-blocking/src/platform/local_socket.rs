//! Sockets for programs of this machine: Unix sockets. On systems without them, the types have no values.

#[cfg(not(unix))]
mod none;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use none::{LocalListener, LocalStream, Quiet, Wakeable, Waker, connect};
#[cfg(unix)]
pub(crate) use unix::{LocalListener, LocalStream, Quiet, Wakeable, Waker, connect};
