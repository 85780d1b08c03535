//! States that clients send back when they repeat a request, and that they cannot alter.

use std::time::Duration;

use mcp_proto::server::{HmacKey, StateBinding};
use mcp_proto::{ErrorObject, server};

use super::IncomingRequest;

/// The keys that sign `requestState`, with HMAC-SHA-256. Servers that share the keys accept each other's states.
///
/// A state is valid until it expires, for the same request by the same principal. It is signed, not encrypted, and may
/// be used more than once; to prevent that, keep a list of the states that were used.
///
/// # Example: a handler that asks once, about the price that it has seen
///
/// ```
/// use std::time::Duration;
///
/// use mcp_application::{IncomingRequest, StateKeys};
/// use mcp_model::{CallToolRequest, CallToolResult, ElicitAction, ElicitRequest, ElicitRequestFormParams, Payload, RequestMethod, RequestedSchema};
/// use mcp_proto::server::InputRequired;
/// use mcp_proto::{ErrorObject, Json};
///
/// fn book(incoming: &IncomingRequest, keys: &StateKeys) -> Result<Json, ErrorObject> {
///     let params = CallToolRequest::params(incoming.params())?;
///     if let Some(price) = keys.open(incoming)? {
///         let answer = params.input_response::<ElicitRequest>("sure")?;
///         let is_sure = answer.is_some_and(|answer| answer.action == ElicitAction::Accept);
///         let text = if is_sure { format!("Booked for {price}.") } else { "Nothing was booked.".into() };
///         return Ok(CallToolResult::text(text).into());
///     }
///     let state = keys.seal(incoming, "80 euros", Duration::from_secs(600));
///     let form = ElicitRequestFormParams::new("Book for 80 euros?", RequestedSchema::form());
///     Ok(InputRequired::new().ask("sure", "elicitation/create", form.to_json()).state(&state).into())
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
    pub fn earlier(self, key: [u8; 32]) -> Self {
        Self(self.0.earlier(HmacKey::new(key)))
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
