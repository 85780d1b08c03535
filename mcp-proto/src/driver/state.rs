//! States that clients send back when they repeat a request, and that they cannot alter.

use std::time::Duration;

use super::IncomingRequest;
use crate::codec::jsonrpc::ErrorObject;
use crate::server::{self, HmacKey, StateBinding};

/// The keys that sign `requestState`, with HMAC-SHA-256. Servers that share the keys accept each other's states.
///
/// A state is valid until it expires, for the same request by the same principal. It is signed, not encrypted, and may
/// be used more than once; to prevent that, keep a list of the states that were used.
///
/// # Example: a handler that asks once
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::driver::{IncomingRequest, StateKeys};
/// use mcp_proto::server::InputRequired;
/// use mcp_proto::{ErrorObject, Json};
///
/// fn book(incoming: &IncomingRequest, keys: &StateKeys) -> Result<Json, ErrorObject> {
///     if keys.open(incoming)?.as_deref() == Some("asked") {
///         return Ok(Json::parse(r#"{"content":[]}"#).expect("JSON"));
///     }
///     let state = keys.seal(incoming, "asked", Duration::from_secs(600));
///     let params = r#"{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}"#;
///     let form = Json::parse(params).expect("JSON");
///     Ok(InputRequired::new().ask("sure", "elicitation/create", form).state(&state).into())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct StateKeys(server::StateKeys<HmacKey>);

impl StateKeys {
    /// Creates a set of one key: 32 random bytes from a secure source.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(server::StateKeys::new(HmacKey::new(key)))
    }

    /// Adds an earlier key: states that were sealed with it can still be opened.
    #[must_use]
    pub fn with_earlier(self, key: [u8; 32]) -> Self {
        Self(self.0.with_earlier(HmacKey::new(key)))
    }

    /// Seals a state for `lifetime`, in whole seconds, as text for `requestState`.
    #[must_use]
    pub fn seal(&self, incoming: &IncomingRequest, state: &str, lifetime: Duration) -> String {
        self.0.seal(&binding(incoming), state, incoming.unix_time().saturating_add(lifetime.as_secs()))
    }

    /// Opens the state in a request, if it has one.
    ///
    /// # Errors
    ///
    /// The error to return to a client whose `requestState` was not signed by one of these keys, has expired, or
    /// belongs to another request.
    pub fn open(&self, incoming: &IncomingRequest) -> Result<Option<String>, ErrorObject> {
        self.0.open(&binding(incoming), incoming.unix_time())
    }
}

fn binding(incoming: &IncomingRequest) -> StateBinding {
    StateBinding::new(incoming.principal(), incoming.method(), incoming.params())
}
