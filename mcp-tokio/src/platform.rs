//! The code that depends on the operating system: Unix sockets, which are types without values on systems that have none
//! (`no_local_socket`).

#[cfg(all(feature = "http-server", not(unix)))]
mod no_local_socket;

#[cfg(feature = "http-client")]
use std::path::Path;

#[cfg(all(feature = "http-server", not(unix)))]
pub(crate) use no_local_socket::{LocalListener, LocalStream};
#[cfg(all(feature = "http-server", unix))]
pub(crate) use tokio::net::{UnixListener as LocalListener, UnixStream as LocalStream};

/// The HTTP client over the Unix socket at this path; `None` on systems without these.
#[cfg(all(feature = "http-client", unix))]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
pub(crate) fn over_local_socket(client: reqwest::ClientBuilder, path: &Path) -> Option<reqwest::ClientBuilder> {
    Some(client.unix_socket(path))
}

/// The HTTP client over the Unix socket at this path; `None` on systems without these.
#[cfg(all(feature = "http-client", not(unix)))]
pub(crate) fn over_local_socket(_: reqwest::ClientBuilder, _: &Path) -> Option<reqwest::ClientBuilder> {
    None
}
