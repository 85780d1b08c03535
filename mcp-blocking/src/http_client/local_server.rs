//! A server of this machine that is found by a file, and may be started on demand.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, io};

use mcp_application::FileNotReached;
use ureq::unversioned::transport::NextTimeout;
use ureq::{Error, Timeout};

use crate::socket::{Socket, is_timeout};
use crate::{platform, private_port};

/// Connects to the server with this file, until this moment. The error is of the kind [`io::ErrorKind::NotFound`] or
/// [`io::ErrorKind::ConnectionRefused`] if there is no such server.
type Connect = fn(&Path, Option<Instant>) -> io::Result<Socket>;
pub(super) type Start = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A server of this machine.
#[derive(Clone)]
pub(super) struct LocalServer {
    /// What the file is of, in words.
    kind: &'static str,
    path: PathBuf,
    connect: Connect,
    start: Option<Start>,
}

impl LocalServer {
    /// The server that listens on the Unix socket at this path.
    pub(super) fn unix_socket(path: PathBuf, start: Option<Start>) -> Self {
        let connect: Connect = |path, deadline| platform::connect(path, deadline).map(Socket::Local);
        Self { kind: "Unix socket", path, connect, start }
    }

    /// The server whose port this file names.
    pub(super) fn private_port(path: PathBuf, start: Start) -> Self {
        Self { kind: "private port of", path, connect: private_port::connect, start: Some(start) }
    }

    /// Connects to the server. If there is none, it is started, and connected to once more.
    pub(super) fn connect(&self, timeout: NextTimeout) -> Result<Socket, Error> {
        let not_reached = |error| connecting(FileNotReached { kind: self.kind, path: self.path.clone(), error });
        let connect = || {
            let deadline = timeout.not_zero().map(|time| Instant::now() + *time);
            (self.connect)(&self.path, deadline).map_err(|error| match error {
                error if is_timeout(&error) => Error::Timeout(Timeout::Connect),
                error => not_reached(error),
            })
        };
        match (&self.start, connect()) {
            (Some(start), Err(Error::Io(error))) if is_unused(&error) => {
                start().map_err(not_reached)?;
                connect()
            }
            (_, outcome) => outcome,
        }
    }
}

/// Whether there is no server.
fn is_unused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Shows only what is at which path.
impl fmt::Debug for LocalServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalServer").field("kind", &self.kind).field("path", &self.path).finish_non_exhaustive()
    }
}

/// The error of the library for it.
fn connecting(reason: FileNotReached) -> Error {
    Error::Io(io::Error::new(reason.error.kind(), reason))
}

/// The reason of an error, if it is that.
pub(super) fn not_reached(error: &io::Error) -> Option<&FileNotReached> {
    error.get_ref().and_then(|reason| reason.downcast_ref())
}
