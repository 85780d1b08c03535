//! States that clients send back when they repeat a request, and that they cannot alter.

use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use mcp_proto::ErrorObject;
use mcp_proto::server::{self as proto, StateBinding, StateKey};
use sha2::Sha256;

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
        Self(proto::StateKeys::new(HmacKey(key)))
    }

    /// Adds an earlier key: states that were sealed with it can still be opened.
    #[must_use]
    pub fn with_earlier(self, key: [u8; 32]) -> Self {
        Self(self.0.with_earlier(HmacKey(key)))
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

#[derive(Clone)]
struct HmacKey([u8; 32]);

impl HmacKey {
    fn over(&self, message: &[u8]) -> Hmac<Sha256> {
        // A key is padded with zeros to the size of a block (RFC 2104, section 2).
        let mut block = [0; 64];
        block.iter_mut().zip(self.0).for_each(|(slot, byte)| *slot = byte);
        let mut hmac = Hmac::<Sha256>::new(&block.into());
        hmac.update(message);
        hmac
    }
}

impl StateKey for HmacKey {
    fn sign(&self, message: &[u8]) -> [u8; 32] {
        self.over(message).finalize().into_bytes().into()
    }

    fn verify(&self, message: &[u8], tag: &[u8; 32]) -> bool {
        self.over(message).verify_slice(tag).is_ok()
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

    /// A shorter key is equivalent to one padded with zeros (RFC 4231, section 4.3).
    #[test]
    fn states_are_signed_with_hmac_sha_256() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let key = HmacKey(key);
        let tag = key.sign(b"what do ya want for nothing?");
        let text = tag.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(key.verify(b"what do ya want for nothing?", &tag));
        assert!(!key.verify(b"what do ya want for nothing!", &tag));
        assert!(!HmacKey([1; 32]).verify(b"what do ya want for nothing?", &tag));
    }

    #[test]
    fn the_time_is_that_of_the_calendar() {
        let year_2020 = 1_577_836_800;
        assert!(seconds() > year_2020);
    }
}
