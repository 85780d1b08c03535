//! The levels of log messages.

/// How serious a log message is, as in RFC 5424, section 6.2.1. A more serious level is greater.
///
/// # Example
///
/// ```
/// use mcp_proto::server::LoggingLevel;
///
/// assert!(LoggingLevel::Error > LoggingLevel::Info);
/// assert_eq!(LoggingLevel::from_text("notice"), Some(LoggingLevel::Notice));
/// assert_eq!(LoggingLevel::from_text("NOTICE"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoggingLevel {
    /// For those who look for faults.
    Debug,
    /// What happens in good order.
    Info,
    /// Of note, but in good order.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part does not work.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LoggingLevel {
    /// All levels, the least serious first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name as it stands on the wire.
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

    /// The level of that name.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}
