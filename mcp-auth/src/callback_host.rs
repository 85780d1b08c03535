//! Where the browser returns to: a port of this machine (RFC 8252, section 7.3; OA-Q-09).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// How long a driver serves one connection of a browser.
pub const CALLBACK_TIME: Duration = Duration::from_secs(2);

/// The longest head of a request of a browser, in bytes.
pub const MAX_CALLBACK_HEAD: usize = 32 * 1024;

/// The connections that a driver serves at one time: browsers open some without a request.
pub const MAX_CALLBACKS: usize = 16;

/// Attempts to find a port that is free at all addresses.
const ATTEMPTS: usize = 16;

/// The host of the redirect URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum CallbackHost {
    /// `127.0.0.1`, which no name server can lead elsewhere (RFC 8252, section 8.3).
    #[default]
    Ipv4,
    /// `localhost`, for authorization servers that accept no addresses.
    Localhost,
    /// `[::1]`.
    Ipv6,
}

impl CallbackHost {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ipv4, Self::Localhost, Self::Ipv6];

    /// As it is written in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "127.0.0.1",
            Self::Localhost => "localhost",
            Self::Ipv6 => "[::1]",
        }
    }

    /// The addresses at which a driver listens, all with the same port. The driver leaves out an address after the
    /// first if this machine does not have it. If the port of one address is taken, the driver opens none of them:
    /// otherwise the browser could return to another program.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_auth::CallbackHost;
    ///
    /// assert_eq!(CallbackHost::Ipv4.addresses().len(), 1);
    /// assert_eq!(CallbackHost::Localhost.addresses().len(), 2, "browsers try both");
    /// ```
    #[must_use]
    pub const fn addresses(self) -> &'static [IpAddr] {
        const IPV4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
        const IPV6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
        match self {
            Self::Ipv4 => &[IPV4],
            Self::Localhost => &[IPV4, IPV6],
            Self::Ipv6 => &[IPV6],
        }
    }

    /// Opens this port, or any that is free, at all [addresses](CallbackHost::addresses). Returns the sockets, of which there
    /// is at least one, and the port. `bind` opens a socket, and returns it with its port; `absent` receives the addresses
    /// that this machine does not have.
    ///
    /// # Errors
    ///
    /// The error of `bind`: no address can be used, or another program has the port.
    pub fn open<S>(
        self,
        port: Option<u16>,
        bind: impl Fn(SocketAddr) -> Result<(S, u16), Error>,
        absent: impl Fn(IpAddr, Error),
    ) -> Result<(Vec<S>, u16), Error> {
        let attempts = if port.is_some() { 1 } else { ATTEMPTS };
        let mut failed = None;
        for _ in 0..attempts {
            match self.open_each(port.unwrap_or(0), &bind, &absent) {
                Ok(opened) => return Ok(opened),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| ErrorKind::AddrInUse.into()))
    }

    fn open_each<S>(
        self,
        mut port: u16,
        bind: impl Fn(SocketAddr) -> Result<(S, u16), Error>,
        absent: impl Fn(IpAddr, Error),
    ) -> Result<(Vec<S>, u16), Error> {
        let mut sockets = Vec::new();
        for address in self.addresses() {
            match bind(SocketAddr::new(*address, port)) {
                Ok((socket, opened)) => {
                    port = opened;
                    sockets.push(socket);
                }
                Err(error) if sockets.is_empty() || error.kind() == ErrorKind::AddrInUse => return Err(error),
                Err(error) => absent(*address, error),
            }
        }
        Ok((sockets, port))
    }

    /// The redirect URI with this port and path.
    pub(super) fn redirect_uri(self, port: u16, path: &str) -> String {
        format!("http://{self}:{port}{path}")
    }

    /// The host and the port of a redirect URI with this path; `None` if it has another one.
    pub(super) fn read(redirect_uri: &str, path: &str) -> Option<(Self, u16)> {
        let authority = redirect_uri.strip_prefix("http://")?.strip_suffix(path)?;
        let (host, port) = authority.rsplit_once(':')?;
        let host = Self::ALL.into_iter().find(|own| own.as_str() == host)?;
        Some((host, port.parse().ok()?))
    }
}

/// As it is written in a URL.
impl fmt::Display for CallbackHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a text can be the path of a redirect URI. Every reader must understand the path alike, so it has no query,
/// no percent-encoding and no segments that parsers remove.
pub(super) fn is_callback_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.len() <= 256
        && path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(is_plain)
        && !path.split('/').any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_q_09_a_redirect_uri_is_read_as_it_was_written() {
        for host in CallbackHost::ALL {
            let uri = host.redirect_uri(4000, "/oauth/callback");
            assert_eq!(CallbackHost::read(&uri, "/oauth/callback"), Some((host, 4000)), "{uri}");
            assert_eq!(CallbackHost::read(&uri, "/callback/x"), None);
            assert!(host.addresses().iter().all(IpAddr::is_loopback));
        }
        for uri in ["", "https://127.0.0.1:1/callback", "http://127.0.0.1/callback", "http://127.0.0.2:1/callback"] {
            assert_eq!(CallbackHost::read(uri, "/callback"), None, "{uri}");
        }
    }

    #[test]
    fn oa_q_09_the_path_of_a_redirect_uri_is_plain() {
        for (path, expected) in [
            ("/callback", true),
            ("/oauth/callback/", true),
            ("/", true),
            ("/.well-known/x_1~", true),
            ("", false),
            ("callback", false),
            ("//evil.example/callback", false),
            ("/a/../callback", false),
            ("/callback?x=1", false),
            ("/callback#x", false),
            ("/call back", false),
            ("/call%20back", false),
            ("/callback\r\n", false),
        ] {
            assert_eq!(is_callback_path(path), expected, "{path}");
        }
        assert!(!is_callback_path(&"/a".repeat(200)));
    }
}
