//! Log messages.

use super::define::{object, words};
use super::value::Meta;
use crate::codec::json::Json;

object! {
    /// The parameters of `logging/setLevel`.
    SetLevelRequestParams {
        required {
            /// The least severe level that the client wants to see.
            level: LoggingLevel = "level",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `notifications/message`. They hold no secrets.
    LoggingMessageNotificationParams {
        required {
            /// How severe it is.
            level: LoggingLevel = "level",
            /// What happened: a text, or any other value.
            data: Json = "data",
        }
        optional {
            /// Who says it.
            logger: String = "logger",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

words! {
    /// How severe a log message is, as RFC 5424 has it.
    LoggingLevel {
        /// For those who look for a bug.
        Debug = "debug",
        /// Something normal.
        Info = "info",
        /// Something normal that matters.
        Notice = "notice",
        /// Something that may go wrong.
        Warning = "warning",
        /// Something went wrong.
        Error = "error",
        /// Something important went wrong.
        Critical = "critical",
        /// Somebody must act at once.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}

impl From<crate::server::LoggingLevel> for LoggingLevel {
    fn from(level: crate::server::LoggingLevel) -> Self {
        Self::from(level.as_str())
    }
}
