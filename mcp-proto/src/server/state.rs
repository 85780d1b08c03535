//! `requestState` that nobody can alter or use elsewhere (MD-I-12): what is in it, and what it is bound to.
//!
//! The text is, in Base64 for URLs without padding: a 1; the second at which it expires since 1970, in 8 bytes; the
//! state; and a tag of 32 bytes. The tag covers these, the principal, the method and what the request is for, each with
//! its length before it. What the state says can be read by the client: it is authentic, and no secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::http::Principal;
use crate::json::Json;
use crate::message::{ErrorObject, Method, code};

const FORMAT: u8 = 1;
const TAG: usize = 32;
/// Format and expiry.
const HEAD: usize = 9;
/// Keeps the key's other uses apart from this one.
const PURPOSE: &[u8] = b"mcp requestState";

/// A message authentication code with a key, such as HMAC-SHA-256.
pub trait StateKey {
    /// The tag of a message.
    fn sign(&self, message: &[u8]) -> [u8; 32];

    /// Whether a tag is that of a message, in a time that does not depend on where they differ.
    fn verify(&self, message: &[u8], tag: &[u8; 32]) -> bool;
}

/// What a state is bound to: who asks, and for what (MD-I-12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateBinding(Vec<u8>);

impl StateBinding {
    /// The request with these parameters, by this principal. What is bound are `name`, `uri` and `arguments`, as their
    /// texts.
    #[must_use]
    pub fn new(principal: Option<&Principal>, method: &Method, params: Option<&Json>) -> Self {
        let params = params.cloned().unwrap_or(Json::empty_object());
        let [name, uri, arguments] = params.first_members(["name", "uri", "arguments"]);
        let mut bound = Vec::new();
        let parts = [
            principal.map(|principal| principal.as_str().as_bytes()),
            Some(method.as_str().as_bytes()),
            name.as_ref().map(Json::as_bytes),
            uri.as_ref().map(Json::as_bytes),
            arguments.as_ref().map(Json::as_bytes),
        ];
        for part in parts {
            // Absent and empty differ.
            bound.push(u8::from(part.is_some()));
            let part = part.unwrap_or_default();
            bound.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bound.extend_from_slice(part);
        }
        Self(bound)
    }

    fn message(&self, sealed: &[u8]) -> Vec<u8> {
        [PURPOSE, &self.0, sealed].concat()
    }

    /// A state as text for `requestState`, until a second since 1970.
    #[must_use]
    pub fn seal(&self, key: &impl StateKey, state: &str, expires: u64) -> String {
        let mut sealed = vec![FORMAT];
        sealed.extend_from_slice(&expires.to_be_bytes());
        sealed.extend_from_slice(state.as_bytes());
        let tag = key.sign(&self.message(&sealed));
        sealed.extend_from_slice(&tag);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// The state in a text that came back, at a second since 1970.
    ///
    /// # Errors
    ///
    /// The answer to a client whose text is not what it was given, is too old, or belongs to another request.
    pub fn open(&self, key: &impl StateKey, text: &str, now: u64) -> Result<String, ErrorObject> {
        self.read(key, text, now).ok_or_else(|| {
            ErrorObject::new(code::INVALID_PARAMS, "invalid params: requestState is not valid for this request")
        })
    }

    fn read(&self, key: &impl StateKey, text: &str, now: u64) -> Option<String> {
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

    /// Not secure: it only depends on each byte and its place.
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

    fn binding(principal: Option<&str>, method: &str, params: &str) -> StateBinding {
        let params = Json::parse(params.to_owned()).expect("JSON");
        StateBinding::new(principal.map(Principal::new).as_ref(), &Method::from(method), Some(&params))
    }

    #[test]
    fn mr1_a_state_is_good_for_its_request_its_principal_its_time_and_its_key() {
        let asked = r#"{"name":"buy","arguments":{"n":1}}"#;
        let bound = binding(Some("ann"), "tools/call", asked);
        let text = bound.seal(&Toy(7), "step 1 ✓", 1000);
        assert_eq!(bound.open(&Toy(7), &text, 999).as_deref(), Ok("step 1 ✓"));
        let again = r#"{"requestState":"x","arguments":{"n":1},"inputResponses":{},"name":"buy","_meta":{}}"#;
        assert!(binding(Some("ann"), "tools/call", again).open(&Toy(7), &text, 0).is_ok());
        for (name, other, key, now) in [
            ("expired", bound.clone(), Toy(7), 1000),
            ("another key", bound.clone(), Toy(8), 0),
            ("another principal", binding(Some("bob"), "tools/call", asked), Toy(7), 0),
            ("nobody", binding(None, "tools/call", asked), Toy(7), 0),
            ("another method", binding(Some("ann"), "prompts/get", asked), Toy(7), 0),
            ("another tool", binding(Some("ann"), "tools/call", r#"{"name":"sell","arguments":{"n":1}}"#), Toy(7), 0),
            ("other arguments", binding(Some("ann"), "tools/call", r#"{"name":"buy","arguments":{"n":2}}"#), Toy(7), 0),
            ("no arguments", binding(Some("ann"), "tools/call", r#"{"name":"buy"}"#), Toy(7), 0),
        ] {
            assert_eq!(other.open(&key, &text, now).map_err(|error| error.code()), Err(-32602), "{name}");
        }
    }

    #[test]
    fn mr1_no_altered_text_is_a_state() {
        let bound = binding(None, "tools/call", "{}");
        let text = bound.seal(&Toy(7), "s", u64::MAX);
        for at in 0..text.len() {
            for byte in ["A", "B", "_", "=", ""] {
                let mut altered = text.clone();
                altered.replace_range(at..=at, byte);
                assert!(altered == text || bound.open(&Toy(7), &altered, 0).is_err(), "{at} {byte}");
            }
        }
        for text in ["", "AQ", "é", &format!("{text}-TAMPERED"), &text[..20]] {
            assert!(bound.open(&Toy(7), text, 0).is_err(), "{text}");
        }
    }
}
