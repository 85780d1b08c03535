//! `requestState` values that clients carry from one attempt of a request to the next, and cannot alter.

use std::time::{Duration, SystemTime};

use mcp_proto::ErrorObject;
use mcp_proto::server::{self as proto, HmacKey, StateBinding};

use super::Incoming;

/// The keys that sign `requestState`, with HMAC-SHA-256. Servers that share the keys accept each other's states.
///
/// A state is valid until it expires, for a retry of the same request by the same principal. It is not secret, and it
/// may be used more than once: an application that must prevent that has to keep a list.
///
/// # Example: a handler that asks once
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::server::InputRequired;
/// use mcp_proto::{ErrorObject, Json};
/// use mcp_tokio::{Incoming, StateKeys};
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
    /// Creates a key set with one key: random bytes from a secure source.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(proto::StateKeys::new(HmacKey::new(key)))
    }

    /// Adds an earlier key, so that states that were signed with it are still accepted.
    #[must_use]
    pub fn with_earlier(self, key: [u8; 32]) -> Self {
        Self(self.0.with_earlier(HmacKey::new(key)))
    }

    /// Signs a state as text for `requestState`. It is valid for `lifetime`, in whole seconds.
    #[must_use]
    pub fn seal(&self, incoming: &Incoming, state: &str, lifetime: Duration) -> String {
        self.0.seal(&binding(incoming), state, seconds().saturating_add(lifetime.as_secs()))
    }

    /// Returns the state that came with a request, if there is one.
    ///
    /// # Errors
    ///
    /// The answer to a client whose `requestState` was not signed with these keys, has expired, or belongs to another
    /// request.
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
