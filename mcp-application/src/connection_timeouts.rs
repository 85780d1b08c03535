//! How long the client of a connection may take.

use std::time::Duration;

/// How long the client of a connection to a listening server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// To send the head of a request, from its first byte. Default 10 s.
    pub head: Duration,
    /// To begin the next request. Default 60 s.
    pub idle: Duration,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), idle: Duration::from_secs(60) }
    }
}
