//! How the first attempt of a client to connect has ended, and what is known about the server.

#![expect(clippy::disallowed_types, reason = "a driver and its clients share this; no machine contains it")]

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_model::{Implementation, Meta, Payload, ServerCapabilities};
use mcp_proto::client::{DetectedEra, HttpTransport, Unavailable};
use mcp_proto::{Json, ProtocolVersion};

use super::Error;

/// What is known about a server to which there is, or was, a connection.
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

impl Connected {
    /// The server's capabilities; `None` if they do not have the form of the specification.
    #[must_use]
    pub fn server_capabilities(&self) -> Option<ServerCapabilities> {
        ServerCapabilities::from_json(&self.result.first_member("capabilities")?).ok()
    }

    /// The server's name and version; `None` if it does not state them, as it need not since 2026-07-28.
    ///
    /// Rules: MD-V-04.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        match self.result.first_member("serverInfo") {
            Some(info) => Implementation::from_json(&info).ok(),
            None => Meta::from_json(&self.result.first_member("_meta")?).ok()?.server_info(),
        }
    }

    /// The server's instructions for the language model, if there are any.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.result.first_member("instructions")?.as_string().map(Cow::into_owned)
    }
}

/// What is known about the server of a client now. The driver updates it whenever the connection was made again.
///
/// # Example
///
/// ```
/// use mcp_proto::client::{DetectedBy, DetectedEra};
/// use mcp_application::{Connected, SharedConnected};
/// use mcp_proto::{Era, Json, ProtocolVersion};
///
/// let connected = |instructions: &str| Connected {
///     version: ProtocolVersion::LATEST,
///     result: Json::empty_object().with_member("instructions", &Json::from(instructions)),
///     transport: None,
///     detected_era: DetectedEra { era: Era::Modern, by: DetectedBy::Discovered },
/// };
/// let server = SharedConnected::new(connected("before"));
/// let shared = server.clone();
/// server.set(connected("after"));
/// assert_eq!(shared.get().instructions().as_deref(), Some("after"));
/// ```
#[derive(Debug, Clone)]
pub struct SharedConnected(Arc<Mutex<Arc<Connected>>>);

impl SharedConnected {
    /// Shares what is known now.
    #[must_use]
    pub fn new(connected: Connected) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(connected))))
    }

    /// What is known now.
    #[must_use]
    pub fn get(&self) -> Arc<Connected> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces what is known, for all clones.
    pub fn set(&self, connected: Connected) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(connected);
    }
}

/// Why the first connection could not be made.
#[derive(Debug)]
pub struct NotConnected {
    /// The reason that the machine has reported.
    pub reason: Unavailable,
}

impl NotConnected {
    /// The error to return to the application. `server` is the server's name for errors.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Failed;
    /// use mcp_proto::client::Unavailable;
    /// use mcp_application::NotConnected;
    ///
    /// let outcome = NotConnected { reason: Unavailable::Failed(Failed::Closed) };
    /// assert_eq!(outcome.into_error("the server").to_string(), Failed::Closed.describe("the server"));
    /// ```
    #[must_use]
    pub fn into_error(self, server: &str) -> Error {
        match self.reason {
            Unavailable::Error(error) => Error::Server(error),
            Unavailable::Failed(reason) => Error::Failed { server: server.into(), reason },
        }
    }
}
