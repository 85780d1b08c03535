//! The levels at which the log has what the core reports.

use log::Level;
use mcp_proto::Severity;

pub(crate) const fn level_of(severity: Severity) -> Level {
    match severity {
        Severity::Warning => Level::Warn,
        Severity::Info => Level::Info,
        Severity::Debug => Level::Debug,
    }
}
