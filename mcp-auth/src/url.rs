//! URLs of the sign-in flow. Their texts stay as they were published, because they are compared and sent byte for byte;
//! here are only their parts.

use std::fmt;

use http::Uri;
use mcp_proto::url::{HttpUrl, InvalidUrl};

/// The checked parts of a URL to which credentials may be sent: `https`, or `http` to this machine (OA-A-06).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecureUrl {
    endpoint: HttpUrl,
}

/// Why a URL of a metadata document, a challenge or the configuration is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlRefused {
    /// It is not a URL that a client may use.
    #[error("{0}")]
    Invalid(InvalidUrl),
    /// It uses plain `http` to another machine.
    ///
    /// Rules: OA-A-06.
    #[error("must begin with https://; http:// is accepted for this machine only (localhost, 127.0.0.1, [::1])")]
    Insecure,
    /// It is longer than 8 KiB.
    #[error("is longer than 8 KiB")]
    TooLong,
    /// A person's browser would open it, and it leads to the person's own network.
    ///
    /// Rules: OA-N-02.
    #[error(
        "leads to an address that is private or reserved, and the server that names it is not on a private network; \
         tolerate that if it is intended (`--tolerate private-addresses`)"
    )]
    Private,
}

/// The longest URL that is accepted, in bytes.
const MAX_LENGTH: usize = 8 * 1024;

impl SecureUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, UrlRefused> {
        if text.len() > MAX_LENGTH {
            return Err(UrlRefused::TooLong);
        }
        let endpoint = HttpUrl::parse(text).map_err(UrlRefused::Invalid)?;
        if !endpoint.is_https() && !endpoint.is_loopback() {
            return Err(UrlRefused::Insecure);
        }
        Ok(Self { endpoint })
    }

    pub(crate) const fn endpoint(&self) -> &HttpUrl {
        &self.endpoint
    }

    pub(crate) fn to_uri(&self) -> Uri {
        self.endpoint.to_uri()
    }
}

/// Without the query, which may contain a key.
impl fmt::Display for SecureUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.endpoint, f)
    }
}

impl fmt::Debug for SecureUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Scheme, host in lower case, and port: what two URLs of one origin have in common (RFC 6454, section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) is_https: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    pub(crate) fn of(endpoint: &HttpUrl) -> Self {
        let is_https = endpoint.is_https();
        let port = endpoint.port().unwrap_or(if is_https { 443 } else { 80 });
        Self { is_https, host: endpoint.host().to_ascii_lowercase(), port }
    }
}

/// Without a port that the scheme implies.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, implied) = if self.is_https { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == implied { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}
