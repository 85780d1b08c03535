//! Failures of exchanges, as drivers report them.

use std::io::{Error, ErrorKind};

use crate::codec::text::escape_text;
use crate::error::Failed;

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
/// // Once something was sent, the request may have been served, whatever happened to the connection.
/// for kind in [ErrorKind::ConnectionReset, ErrorKind::HostUnreachable] {
///     assert!(matches!(Failure::exchanging(&Error::from(kind)), Failure::Broken { .. }));
/// }
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
        Self::Broken { detail: in_words(error).into() }
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

    pub(super) fn into_failed(self) -> Failed {
        match self {
            Self::Unreachable { detail } | Self::Hopeless { detail } => Failed::Unreachable { detail },
            Self::Broken { detail } => Failed::Broken { detail },
        }
    }
}

/// Parts of the TLS library's messages for common failures, each with an explanation for people.
const TLS_REASONS: &[(&str, &str)] = &[
    (
        "UnknownIssuer",
        "its certificate comes from an authority that is not trusted here; a private one has to be named",
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
        _ => {
            let text = error.to_string();
            // The standard library has no `ErrorKind` for this error.
            if text.starts_with("failed to lookup address information") {
                return "its name cannot be looked up; is it spelled right?".to_owned();
            }
            text
        }
    }
}
