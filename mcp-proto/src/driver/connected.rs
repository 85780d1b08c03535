//! How the first attempt of a client to connect has ended.

use std::process::ExitStatus;

use super::Error;
use crate::client::{DetectedEra, HttpTransport, Unavailable};
use crate::codec::json::Json;
use crate::error::Failed;
use crate::spec::ProtocolVersion;

/// What is known about a server once the first connection to it was made.
#[derive(Debug)]
pub struct Connected {
    /// The revision in force.
    pub version: ProtocolVersion,
    /// The result of `initialize` or `server/discover`.
    pub result: Json,
    /// The HTTP transport that was detected; `None` on a byte stream.
    pub transport: Option<HttpTransport>,
    /// Which era the server belongs to, and how that was detected.
    pub detected_era: DetectedEra,
}

/// Why the first connection could not be made.
#[derive(Debug)]
pub struct NotConnected {
    /// The reason that the machine has reported.
    pub reason: Unavailable,
    /// How the server's process ended, if it ended by itself.
    pub exited: Option<ExitStatus>,
}

impl NotConnected {
    /// The error to return to the application. `server` is the server's name for errors.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Failed;
    /// use mcp_proto::client::Unavailable;
    /// use mcp_proto::driver::NotConnected;
    ///
    /// let outcome = NotConnected { reason: Unavailable::Failed(Failed::Closed), exited: None };
    /// assert_eq!(outcome.into_error("the server").to_string(), Failed::Closed.describe("the server"));
    /// ```
    #[must_use]
    pub fn into_error(self, server: &str) -> Error {
        match (self.reason, self.exited) {
            (Unavailable::Error(error), _) => Error::Server(error),
            (Unavailable::Failed(Failed::Closed), Some(status)) => Error::Exited { status },
            (Unavailable::Failed(reason), _) => Error::Failed { server: server.into(), reason },
        }
    }
}
