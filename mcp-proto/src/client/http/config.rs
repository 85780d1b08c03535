//! The configuration of a client's HTTP transport.

use std::fmt;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::error::UsageError;
use crate::url::HttpUrl;

/// Which of the two HTTP transports is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HttpTransport {
    /// Streamable HTTP, or the two-endpoint transport of 2024-11-05 if the server supports only that.
    ///
    /// Rules: ER-27.
    #[default]
    Auto,
    /// Streamable HTTP only.
    StreamableHttp,
    /// The two-endpoint transport of 2024-11-05 only.
    HttpSse,
}

impl fmt::Display for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "either transport",
            Self::StreamableHttp => "Streamable HTTP",
            Self::HttpSse => "HTTP+SSE with two endpoints",
        })
    }
}

/// The URL of an HTTP server, and how the client communicates with it.
///
/// # Example
///
/// ```
/// use mcp_proto::client::HttpConfig;
///
/// let mut config = HttpConfig::new("https://example.com/mcp")?;
/// config.header("X-Api-Key", "secret")?;
/// assert!(config.header("Mcp-Session-Id", "mine").is_err());
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpConfig {
    pub(crate) endpoint: HttpUrl,
    pub(crate) headers: HeaderMap,
    /// Which transport is used. Default [`HttpTransport::Auto`].
    pub transport: HttpTransport,
    /// How long a server may pause within a body before the connection counts as broken. Default 5 min.
    pub idle_timeout: Duration,
    /// How long a server may take to accept a notification or a response. Default 30 s.
    pub accept_timeout: Duration,
    /// How long a two-endpoint server may take to send its `endpoint` event. Default 10 s.
    ///
    /// Rules: HS-11, LE2.
    pub endpoint_timeout: Duration,
    /// How long a stream is read after its request has ended. Default 5 s.
    ///
    /// Rules: SS10.
    pub linger: Duration,
    /// How long a client that closes waits in all: for the id of a session that the server is opening, and for the answer
    /// to the request that ends the session. Default 3 s.
    ///
    /// Rules: H6.
    pub close_timeout: Duration,
    /// How long the client tries again to deliver a message that was certainly not delivered, before it fails. Default
    /// zero: it fails at once.
    pub redelivery: Duration,
    /// Whether messages wait for authorization, instead of failing, if the server answers with a challenge: 401, or 403
    /// because of an insufficient scope. [`Event::Challenged`](super::super::Event::Challenged) is reported then, and
    /// the application answers it with [`Client::authorize`](super::super::Client::authorize) or
    /// [`Client::refuse_authorization`](super::super::Client::refuse_authorization). Meanwhile no message is sent. It
    /// has no effect if the configuration has an `Authorization` header. Default `false`.
    ///
    /// Rules: OA-T-02, OA-T-06.
    pub managed_authorization: bool,
    /// Whether the cookies that the server or a load balancer sets are sent back to the server in the same session, so that
    /// all of its requests reach the same instance. They are in memory only. A `Cookie` header of the configuration replaces
    /// them, and revisions without sessions have none. Default `true`.
    pub cookies: bool,
    /// How long a message waits for authorization before it fails. The timeout of a call is not extended. Default 6 min.
    pub authorization_timeout: Duration,
}

impl HttpConfig {
    /// The configuration for a server at an absolute `http` or `https` URL.
    ///
    /// # Errors
    ///
    /// [`UsageError::Endpoint`] if the URL is invalid. Non-ASCII characters in its path or query are no error: they are
    /// percent-encoded.
    pub fn new(url: &str) -> Result<Self, UsageError> {
        Ok(Self {
            endpoint: HttpUrl::parse(url).map_err(UsageError::Endpoint)?,
            headers: HeaderMap::new(),
            transport: HttpTransport::Auto,
            idle_timeout: Duration::from_secs(300),
            accept_timeout: Duration::from_secs(30),
            endpoint_timeout: Duration::from_secs(10),
            linger: Duration::from_secs(5),
            close_timeout: Duration::from_secs(3),
            redelivery: Duration::ZERO,
            managed_authorization: false,
            cookies: true,
            authorization_timeout: Duration::from_secs(360),
        })
    }

    /// Adds a header to every request to the server's origin. Its value is treated as a secret.
    ///
    /// # Errors
    ///
    /// [`UsageError::ReservedHeader`] if the protocol or HTTP itself sets it, [`UsageError::HeaderName`] or
    /// [`UsageError::HeaderValue`] if it contains characters that a header must not have.
    ///
    /// Rules: HT16, HT15.
    pub fn header(&mut self, name: &str, value: &str) -> Result<(), UsageError> {
        let name: HeaderName = name.parse().map_err(|_| UsageError::HeaderName)?;
        if is_reserved(&name) {
            return Err(UsageError::ReservedHeader { name: name.as_str().into() });
        }
        let invalid = |_| UsageError::HeaderValue { name: name.as_str().into() };
        let mut value: HeaderValue = value.parse().map_err(invalid)?;
        value.set_sensitive(true);
        self.headers.append(name, value);
        Ok(())
    }

    /// Takes the headers of another configuration, in the place of its own.
    ///
    /// # Errors
    ///
    /// [`UsageError::AuthorizationHeader`] if only one of the two has an `Authorization` header. Then nothing has changed.
    pub fn set_headers(&mut self, from: &Self) -> Result<(), UsageError> {
        if self.has_authorization() != from.has_authorization() {
            return Err(UsageError::AuthorizationHeader);
        }
        self.headers.clone_from(&from.headers);
        Ok(())
    }

    /// Whether it has an `Authorization` header, so that nothing else authorizes the client.
    pub(crate) fn has_authorization(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }

    /// The headers of every request to the server's origin. They may contain credentials.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The server's URL for people to read: without the query, which may contain a key.
    #[must_use]
    pub fn server(&self) -> String {
        self.endpoint.to_string()
    }

    /// The server's URL to which requests are sent, with the query.
    #[must_use]
    pub fn uri(&self) -> Uri {
        self.endpoint.to_uri()
    }

    /// Whether the URL's host is this machine: `localhost`, a name below it, or a loopback address. Proxy settings of
    /// the environment do not apply to such a server.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.endpoint.is_loopback()
    }

    /// Whether the server is reached over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.endpoint.is_https()
    }
}

fn is_reserved(name: &HeaderName) -> bool {
    const RESERVED: [&str; 16] = [
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
    ];
    RESERVED.contains(&name.as_str()) || name.as_str().starts_with("mcp-")
}
