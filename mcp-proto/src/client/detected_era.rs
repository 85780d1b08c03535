//! The era of a server, and how it was detected.

use std::fmt;

use crate::spec::Era;

/// The era of a server, and how it was detected.
///
/// The value may be stored and set in [`Config::known_era`](super::Config) for the next connection, which then need not
/// detect the era again. The server may change in the meantime, so a stored value should expire.
///
/// # Example
///
/// ```
/// use mcp_proto::Era;
/// use mcp_proto::client::{Config, DetectedEra};
///
/// let mut config = Config::new("my-app", "1.0.0");
/// config.known_era = Some(DetectedEra::known(Era::Legacy));
/// ```
///
/// Rules: ER-09.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectedEra {
    /// The era.
    pub era: Era,
    /// How it was detected.
    pub by: DetectedBy,
}

impl DetectedEra {
    pub(crate) const fn legacy(by: DetectedBy) -> Self {
        Self { era: Era::Legacy, by }
    }

    pub(crate) const fn modern(by: DetectedBy) -> Self {
        Self { era: Era::Modern, by }
    }

    /// An era that is known from an earlier connection.
    #[must_use]
    pub const fn known(era: Era) -> Self {
        Self { era, by: DetectedBy::Known }
    }
}

/// How the era of a server was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetectedBy {
    /// The configuration allows no other era.
    Configured,
    /// It was set in [`Config::known_era`](super::Config), or the application supplied `initialize` to
    /// [`Client::connect_with`](crate::Client::connect_with).
    Known,
    /// The server answered `server/discover`.
    Discovered,
    /// The server answered `server/discover` with an error of this code.
    Error {
        /// The code.
        code: i64,
    },
    /// The server answered `server/discover` with this HTTP status and no JSON-RPC error.
    Status {
        /// The status.
        status: u16,
    },
    /// The server's answer to `server/discover` is neither an error nor a list of its revisions.
    OtherAnswer,
    /// The server did not answer `server/discover` in time.
    ///
    /// Rules: ER-04.
    Silence,
    /// The server's process exited before it answered `server/discover`.
    ///
    /// Rules: ER-06.
    Exited,
}

impl fmt::Display for DetectedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("set by the configuration"),
            Self::Known => f.write_str("known from an earlier connection"),
            Self::Discovered => f.write_str("it answered server/discover"),
            Self::Error { code } => write!(f, "it answered server/discover with error {code}"),
            Self::Status { status } => write!(f, "it answered server/discover with status {status}"),
            Self::OtherAnswer => f.write_str("it answered server/discover with something else"),
            Self::Silence => f.write_str("it did not answer server/discover"),
            Self::Exited => f.write_str("its process exited after server/discover"),
        }
    }
}
