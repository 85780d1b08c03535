//! Failures of exchanges, as drivers report them.

use std::io::{Error, ErrorKind};

use crate::error::Failed;
use crate::platform::is_unknown_host;
use crate::text::escape_text;

/// How an exchange failed, as the driver observed it.
///
/// # Example: errors of the operating system, described for people
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use mcp_proto::client::Failure;
///
/// let refused = Failure::connecting(&Error::from(ErrorKind::ConnectionRefused));
/// assert!(matches!(refused, Failure::Unreachable { detail } if &*detail == "nothing listens there (connection refused)"));
/// assert_eq!(Failure::closed(), Failure::exchanging(&Error::from(ErrorKind::UnexpectedEof)));
/// assert!(matches!(Failure::closed().before_sending(), Failure::Unreachable { .. }));
/// // Once something was sent, the request may have been served, whatever happened to the connection.
/// assert!(matches!(Failure::exchanging(&Error::from(ErrorKind::ConnectionReset)), Failure::Closed { .. }));
/// assert!(matches!(Failure::exchanging(&Error::from(ErrorKind::HostUnreachable)), Failure::Broken { .. }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The request was certainly not delivered, and another attempt may succeed: no route, connection refused, unknown
    /// host.
    Unreachable {
        /// A short description for people, without secrets.
        detail: Box<str>,
    },
    /// The request was certainly not delivered, and no other attempt can succeed: for example, the certificate is not
    /// trusted.
    Hopeless {
        /// A short description for people, without secrets.
        detail: Box<str>,
    },
    /// The connection broke after a part of the request may have reached the server.
    Broken {
        /// A short description for people, without secrets.
        detail: Box<str>,
    },
    /// The connection was closed after a part of the request may have reached the server. The server may have closed it
    /// because it was idle, so a request that may be repeated is sent again.
    Closed {
        /// A short description for people, without secrets.
        detail: Box<str>,
    },
}

impl Failure {
    /// The failure for an error that occurred before any part of the request was sent. An error of the kind
    /// [`ErrorKind::InvalidData`] counts as a failed TLS handshake.
    #[must_use]
    pub fn connecting(error: &Error) -> Self {
        // TLS libraries report a refused handshake with this kind of error.
        if error.kind() == ErrorKind::InvalidData {
            return Self::tls(&error.to_string());
        }
        Self::Unreachable { detail: in_words(error).into() }
    }

    /// The failure for an error that occurred when a part of the request may have been sent.
    #[must_use]
    pub fn exchanging(error: &Error) -> Self {
        use ErrorKind as E;
        let detail = in_words(error).into();
        let is_closed =
            matches!(error.kind(), E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe | E::UnexpectedEof);
        if is_closed { Self::Closed { detail } } else { Self::Broken { detail } }
    }

    /// The failure of a TLS handshake; `reason` is the message of the TLS library.
    #[must_use]
    pub fn tls(reason: &str) -> Self {
        let known = TLS_REASONS.iter().find(|(part, _)| reason.contains(part));
        let detail =
            known.map_or_else(|| format!("TLS failed: {}", escape_text(reason, 300)), |(_, words)| (*words).to_owned());
        let detail = detail.into();
        Self::Hopeless { detail }
    }

    /// The failure for a server whose name has no address.
    #[must_use]
    pub fn unknown_host() -> Self {
        Self::Unreachable { detail: UNKNOWN_HOST.into() }
    }

    /// The failure for a name that could not be resolved in time.
    #[must_use]
    pub fn lookup_timed_out() -> Self {
        Self::Unreachable { detail: "its name could not be looked up in time".into() }
    }

    /// The failure for a connection that could not be made in time.
    #[must_use]
    pub fn connect_timed_out() -> Self {
        Self::Unreachable { detail: "it did not accept the connection in time".into() }
    }

    /// The failure for a request that the HTTP library does not send.
    #[must_use]
    pub fn not_sendable() -> Self {
        Self::Hopeless { detail: "the request cannot be sent".into() }
    }

    /// The failure for a response whose headers exceed the limit of the HTTP library; `limit` is in bytes, if it is
    /// known.
    #[must_use]
    pub fn large_head(limit: Option<usize>) -> Self {
        let detail = match limit {
            Some(limit) => format!("its headers are larger than {limit} bytes"),
            None => "its headers are larger than is accepted".to_owned(),
        };
        Self::Broken { detail: detail.into() }
    }

    /// The failure for something that is no HTTP response.
    #[must_use]
    pub fn not_http(is_https: bool) -> Self {
        let detail = if is_https {
            "it does not speak HTTP/1.1"
        } else {
            "it does not speak HTTP/1.1; if it is a TLS server, its URL begins with https://"
        };
        Self::Broken { detail: detail.into() }
    }

    /// The failure for a connection that the server closed before its response was complete.
    #[must_use]
    pub fn closed() -> Self {
        Self::exchanging(&ErrorKind::UnexpectedEof.into())
    }

    /// The failure for a server that sent nothing for too long.
    #[must_use]
    pub fn silent() -> Self {
        Self::exchanging(&ErrorKind::TimedOut.into())
    }

    /// The same failure of a request of which certainly no part was sent.
    #[must_use]
    pub fn before_sending(self) -> Self {
        match self {
            Self::Broken { detail } | Self::Closed { detail } => Self::Unreachable { detail },
            other @ (Self::Unreachable { .. } | Self::Hopeless { .. }) => other,
        }
    }

    pub(super) fn into_failed(self) -> Failed {
        match self {
            Self::Unreachable { detail } | Self::Hopeless { detail } => Failed::Unreachable { detail },
            Self::Broken { detail } | Self::Closed { detail } => Failed::Broken { detail },
        }
    }
}

const UNKNOWN_HOST: &str = "its name cannot be looked up; is it spelled right?";

/// Parts of the TLS library's messages for common failures, each with an explanation for people.
const TLS_REASONS: &[(&str, &str)] = &[
    (
        "UnknownIssuer",
        "its certificate comes from an authority that is not trusted here; name a private one in SSL_CERT_FILE, or to \
         mcp-proxy with --ca-file",
    ),
    (
        "CaUsedAsEndEntity",
        "its certificate is one of an authority (CA:TRUE), which no server may use as its own; make one for the server with \
         openssl req -x509 -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:<host>",
    ),
    ("InvalidContentType", "it does not use TLS; if it is a plain HTTP server, its URL begins with http://"),
    ("certificate expired", "its certificate has expired"),
    ("Expired", "its certificate has expired"),
    ("not valid yet", "its certificate is not valid yet; is the clock right?"),
    ("NotValidYet", "its certificate is not valid yet; is the clock right?"),
    ("not valid for", "its certificate is for another host name than the one in the URL"),
    ("NotValidForName", "its certificate is for another host name than the one in the URL"),
    ("UnsupportedCertVersion", "its certificate is of an old version; make one of version 3 with a subjectAltName"),
    ("CertificateRequired", "it requires a client certificate"),
    ("HandshakeFailure", "no TLS version or cipher is common to both sides; TLS 1.2 or 1.3 is needed"),
];

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the standard library's, whose own text is used for all other kinds"
)]
fn in_words(error: &Error) -> String {
    use ErrorKind as E;
    match error.kind() {
        E::ConnectionRefused => "nothing listens there (connection refused)".to_owned(),
        E::ConnectionReset => "it reset the connection".to_owned(),
        E::ConnectionAborted | E::BrokenPipe | E::UnexpectedEof => "it closed the connection".to_owned(),
        E::HostUnreachable | E::NetworkUnreachable | E::NetworkDown => "there is no route to it".to_owned(),
        E::TimedOut | E::WouldBlock => "it was silent for too long".to_owned(),
        _ if is_unknown_host(error) => UNKNOWN_HOST.to_owned(),
        _ => error.to_string(),
    }
}
