//! Log messages.

use mcp_proto::Json;

use super::define::{object, string_enum};
use super::value::Meta;

object! {
    /// The parameters of `logging/setLevel`.
    SetLevelRequestParams {
        required {
            /// The least severe level that the client wants to receive.
            level: LoggingLevel = "level",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `notifications/message`. They must not contain secrets.
    LoggingMessageNotificationParams {
        required {
            /// The severity.
            level: LoggingLevel = "level",
            /// The message: a string, or any other value.
            data: Json = "data",
        }
        optional {
            /// The name of the logger.
            logger: String = "logger",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

string_enum! {
    /// The severity of a log message, as in RFC 5424.
    LoggingLevel {
        /// Details for debugging.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// A normal but significant event.
        Notice = "notice",
        /// A potential problem.
        Warning = "warning",
        /// An error.
        Error = "error",
        /// A failure of an important component.
        Critical = "critical",
        /// Action must be taken immediately.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

impl From<mcp_proto::spec::LoggingLevel> for LoggingLevel {
    fn from(level: mcp_proto::spec::LoggingLevel) -> Self {
        Self::from(level.as_str())
    }
}
