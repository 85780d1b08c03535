//! How important a report is.

/// How important a report of a client is for the operator of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For the diagnosis of a server.
    Debug,
    /// The client has handled it.
    Info,
    /// Requests may fail or wait because of it, or settings have no effect.
    Warning,
}
