//! Values that the specification lists: levels of log messages, and who may use a cached result.

/// The severity of a log message, as in RFC 5424, section 6.2.1. A more severe level is greater.
///
/// # Example
///
/// ```
/// use mcp_proto::spec::LoggingLevel;
///
/// assert!(LoggingLevel::Error > LoggingLevel::Info);
/// assert_eq!(LoggingLevel::from_text("notice"), Some(LoggingLevel::Notice));
/// assert_eq!(LoggingLevel::from_text("NOTICE"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoggingLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal, but significant.
    Notice,
    /// A possible error.
    Warning,
    /// An error.
    Error,
    /// A component does not work.
    Critical,
    /// Action is required at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LoggingLevel {
    /// All levels, the least severe first.
    pub const ALL: &'static [Self] = &[
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level with this name, in lower case; `None` for any other text.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|level| level.as_str() == text)
    }
}

/// Who may use a cached result.
///
/// Rules: MD-K-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CacheScope {
    /// Only the client that sent the request.
    #[default]
    Private,
    /// All clients, because the result is the same for each.
    Public,
}

impl CacheScope {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}
