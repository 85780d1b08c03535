//! An authenticated `requestState`, which cannot be altered or used for another request (MD-I-12).
//!
//! The text is URL-safe Base64 without padding of: the byte 1; the expiry in seconds since 1970 as 8 bytes, big-endian;
//! the state; and a tag of 32 bytes. The tag covers these and, each preceded by its length, the principal, the method
//! and the target of the request. The state is authenticated, but not encrypted: the client can read it.

#[cfg(feature = "seal")]
mod hmac;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::principal::Principal;
use crate::codec::json::Json;
use crate::codec::jsonrpc::ErrorObject;
use crate::spec::{Method, code};

#[cfg(feature = "seal")]
pub use hmac::HmacKey;

const FORMAT: u8 = 1;
const TAG: usize = 32;
/// Format and expiry.
const HEAD: usize = 9;
/// Separates this use of the key from any other.
const PURPOSE: &[u8] = b"mcp requestState";

/// A keyed message authentication code, such as HMAC-SHA-256. `HmacKey` of the feature `seal` implements it.
pub trait StateKey {
    /// The tag of a message.
    fn sign(&self, message: &[u8]) -> [u8; 32];

    /// Whether a tag is valid for a message. The comparison must take constant time.
    fn verify(&self, message: &[u8], tag: &[u8; 32]) -> bool;
}

/// The keys that sign states. The current one signs new states; states that an earlier one has signed can still be
/// opened.
#[derive(Clone)]
pub struct StateKeys<K> {
    current: K,
    earlier: Vec<K>,
}

impl<K: StateKey> StateKeys<K> {
    /// Creates a set of one key.
    #[must_use]
    pub const fn new(key: K) -> Self {
        Self { current: key, earlier: Vec::new() }
    }

    /// Adds an earlier key: states that were sealed with it can still be opened.
    #[must_use]
    pub fn with_earlier(mut self, key: K) -> Self {
        self.earlier.push(key);
        self
    }

    /// Signs a state, and returns the text for `requestState`; `expires` is in seconds since 1970.
    #[must_use]
    pub fn seal(&self, binding: &StateBinding, state: &str, expires: u64) -> String {
        binding.seal(&self.current, state, expires)
    }

    /// Opens the state that a request contains, if there is one; `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The answer to the client, if `requestState` was sealed by none of these keys, has expired, or belongs to another
    /// request.
    pub fn open(&self, binding: &StateBinding, now: u64) -> Result<Option<String>, ErrorObject> {
        let Some(given) = &binding.given else { return Ok(None) };
        let text = given.as_string().unwrap_or_default();
        let mut keys = std::iter::once(&self.current).chain(&self.earlier);
        keys.find_map(|key| binding.open(key, &text, now)).map(Some).ok_or_else(|| {
            ErrorObject::new(code::INVALID_PARAMS, "invalid params: requestState is not valid for this request")
        })
    }
}

/// Shows no key.
impl<K> fmt::Debug for StateKeys<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateKeys").field("earlier", &self.earlier.len()).finish_non_exhaustive()
    }
}

/// What a state is bound to, so that it cannot be used for another request: the principal, the method and the target of
/// the request (MD-I-12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateBinding {
    bound: Vec<u8>,
    /// The member `requestState` of the parameters.
    given: Option<Json>,
}

impl StateBinding {
    /// Binds to the principal, the method and the members `name`, `uri` and `arguments` of the parameters, as JSON
    /// texts.
    #[must_use]
    pub fn new(principal: Option<&Principal>, method: &Method, params: Option<&Json>) -> Self {
        let params = params.cloned().unwrap_or(Json::empty_object());
        let [name, uri, arguments, given] = params.first_members(["name", "uri", "arguments", "requestState"]);
        let mut bound = Vec::new();
        let parts = [
            principal.map(|principal| principal.as_str().as_bytes()),
            Some(method.as_str().as_bytes()),
            name.as_ref().map(Json::as_bytes),
            uri.as_ref().map(Json::as_bytes),
            arguments.as_ref().map(Json::as_bytes),
        ];
        for part in parts {
            // This distinguishes an absent part from an empty one.
            bound.push(u8::from(part.is_some()));
            let part = part.unwrap_or_default();
            bound.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bound.extend_from_slice(part);
        }
        Self { bound, given }
    }

    fn message(&self, sealed: &[u8]) -> Vec<u8> {
        [PURPOSE, &self.bound, sealed].concat()
    }

    fn seal(&self, key: &impl StateKey, state: &str, expires: u64) -> String {
        let mut sealed = vec![FORMAT];
        sealed.extend_from_slice(&expires.to_be_bytes());
        sealed.extend_from_slice(state.as_bytes());
        let tag = key.sign(&self.message(&sealed));
        sealed.extend_from_slice(&tag);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    fn open(&self, key: &impl StateKey, text: &str, now: u64) -> Option<String> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG>()?;
        if !key.verify(&self.message(sealed), tag) {
            return None;
        }
        let (head, state) = sealed.split_at_checked(HEAD)?;
        let (&format, expires) = head.split_first()?;
        let expires = u64::from_be_bytes(expires.try_into().ok()?);
        if format != FORMAT || expires <= now {
            return None;
        }
        String::from_utf8(state.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not secure: it only depends on each byte and its position.
    struct Toy(u8);

    impl StateKey for Toy {
        fn sign(&self, message: &[u8]) -> [u8; 32] {
            let mut tag = [self.0; 32];
            for (at, byte) in message.iter().enumerate() {
                let slot = tag.get_mut(at % 32).expect("a place");
                *slot = slot.rotate_left(3) ^ byte ^ u8::try_from(at % 251).expect("small");
            }
            tag
        }

        fn verify(&self, message: &[u8], tag: &[u8; 32]) -> bool {
            self.sign(message) == *tag
        }
    }

    /// Opens a text as the `requestState` of a request; the error is its code.
    fn open(binding: &StateBinding, key: u8, text: &str, now: u64) -> Result<Option<String>, i64> {
        let binding = StateBinding { given: Some(Json::from(text)), ..binding.clone() };
        StateKeys::new(Toy(key)).open(&binding, now).map_err(|error| error.code())
    }

    fn binding(principal: Option<&str>, method: &str, params: &str) -> StateBinding {
        let params = Json::parse(params.to_owned()).expect("JSON");
        StateBinding::new(principal.map(Principal::new).as_ref(), &Method::from(method), Some(&params))
    }

    #[test]
    fn mr1_a_state_is_good_for_its_request_its_principal_its_time_and_its_key() {
        let asked = r#"{"name":"buy","arguments":{"n":1}}"#;
        let bound = binding(Some("ann"), "tools/call", asked);
        let text = StateKeys::new(Toy(7)).seal(&bound, "step 1 ✓", 1000);
        let opened = Ok(Some("step 1 ✓".to_owned()));
        assert_eq!(open(&bound, 7, &text, 999), opened);
        let again = r#"{"requestState":"x","arguments":{"n":1},"inputResponses":{},"name":"buy","_meta":{}}"#;
        assert_eq!(open(&binding(Some("ann"), "tools/call", again), 7, &text, 0), opened);
        for (name, other, key, now) in [
            ("expired", bound.clone(), 7, 1000),
            ("another key", bound.clone(), 8, 0),
            ("another principal", binding(Some("bob"), "tools/call", asked), 7, 0),
            ("no principal", binding(None, "tools/call", asked), 7, 0),
            ("another method", binding(Some("ann"), "prompts/get", asked), 7, 0),
            ("another tool", binding(Some("ann"), "tools/call", r#"{"name":"sell","arguments":{"n":1}}"#), 7, 0),
            ("other arguments", binding(Some("ann"), "tools/call", r#"{"name":"buy","arguments":{"n":2}}"#), 7, 0),
            ("no arguments", binding(Some("ann"), "tools/call", r#"{"name":"buy"}"#), 7, 0),
        ] {
            assert_eq!(open(&other, key, &text, now), Err(-32602), "{name}");
        }
    }

    #[test]
    fn mr1_no_altered_text_is_a_state() {
        let bound = binding(None, "tools/call", "{}");
        let text = StateKeys::new(Toy(7)).seal(&bound, "s", u64::MAX);
        for at in 0..text.len() {
            for byte in ["A", "B", "_", "=", ""] {
                let mut altered = text.clone();
                altered.replace_range(at..=at, byte);
                assert!(altered == text || open(&bound, 7, &altered, 0).is_err(), "{at} {byte}");
            }
        }
        for text in ["", "AQ", "é", &format!("{text}-TAMPERED"), &text[..20]] {
            assert!(open(&bound, 7, text, 0).is_err(), "{text}");
        }
    }

    #[test]
    fn earlier_keys_open_and_do_not_seal() {
        let keys = StateKeys::new(Toy(8)).with_earlier(Toy(7));
        let asked = |given: &str| binding(None, "tools/call", given);
        assert_eq!(keys.open(&asked("{}"), 0), Ok(None));
        assert_eq!(keys.open(&asked(r#"{"requestState":7}"#), 0).map_err(|error| error.code()), Err(-32602));
        let text = StateKeys::new(Toy(7)).seal(&asked("{}"), "old", 1);
        let again = asked(&format!(r#"{{"requestState":"{text}"}}"#));
        assert_eq!(keys.open(&again, 0), Ok(Some("old".to_owned())));
        assert_ne!(keys.seal(&asked("{}"), "old", 1), text);
    }
}
