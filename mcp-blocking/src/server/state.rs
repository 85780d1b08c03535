//! States that clients send back when they repeat a request, and that they cannot alter.

use std::time::{Duration, SystemTime};

use mcp_proto::ErrorObject;
use mcp_proto::server::{self as proto, HmacKey, StateBinding};

use super::Incoming;

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
/// use mcp_proto::server::InputRequired;
/// use mcp_proto::{ErrorObject, Json};
/// use mcp_blocking::{Incoming, StateKeys};
///
/// fn book(incoming: &Incoming, keys: &StateKeys) -> Result<Json, ErrorObject> {
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
pub struct StateKeys(proto::StateKeys<HmacKey>);

impl StateKeys {
    /// Creates a set of one key: 32 random bytes from a secure source.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(proto::StateKeys::new(HmacKey::new(key)))
    }

    /// Adds an earlier key: states that were sealed with it can still be opened.
    #[must_use]
    pub fn with_earlier(self, key: [u8; 32]) -> Self {
        Self(self.0.with_earlier(HmacKey::new(key)))
    }

    /// Seals a state for `lifetime`, as text for `requestState`.
    #[must_use]
    pub fn seal(&self, incoming: &Incoming, state: &str, lifetime: Duration) -> String {
        self.0.seal(&binding(incoming), state, seconds().saturating_add(lifetime.as_secs()))
    }

    /// Opens the state in a request, if it has one.
    ///
    /// # Errors
    ///
    /// The error to return to a client whose `requestState` was not signed by one of these keys, has expired, or
    /// belongs to another request.
    pub fn open(&self, incoming: &Incoming) -> Result<Option<String>, ErrorObject> {
        self.0.open(&binding(incoming), seconds())
    }
}

fn binding(incoming: &Incoming) -> StateBinding {
    let principal = incoming.context().principal.as_ref();
    StateBinding::new(principal, incoming.method(), incoming.params())
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_calendar() {
        let year_2020 = 1_577_836_800;
        assert!(seconds() > year_2020);
    }
}
