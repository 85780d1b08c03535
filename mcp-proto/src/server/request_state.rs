//! An authenticated `requestState`, which cannot be altered or used for another request (MD-I-12).

use super::principal::Principal;
use super::seal::{StateKey, StateKeys, bound_to};
use crate::json::Json;
use crate::jsonrpc::ErrorObject;
use crate::spec::{Method, code};

/// Separates this use of the keys from any other.
const PURPOSE: &[u8] = b"mcp requestState";

impl<K: StateKey> StateKeys<K> {
    /// Signs a state, and returns the text for `requestState`; `expires` is in seconds since 1970.
    #[must_use]
    pub fn seal(&self, binding: &StateBinding, state: &str, expires: u64) -> String {
        self.seal_content(&binding.bound, state.as_bytes(), expires)
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
        let state = self.open_content(&binding.bound, &text, now);
        state.and_then(|state| String::from_utf8(state).ok()).map(Some).ok_or_else(|| {
            ErrorObject::new(code::INVALID_PARAMS, "invalid params: requestState is not valid for this request")
        })
    }
}

/// What a state is bound to, so that it cannot be used for another request: the principal, the method and the target of
/// the request.
///
/// Rules: MD-I-12.
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
        let parts = [
            principal.map(|principal| principal.as_str().as_bytes()),
            Some(method.as_str().as_bytes()),
            name.as_ref().map(Json::as_bytes),
            uri.as_ref().map(Json::as_bytes),
            arguments.as_ref().map(Json::as_bytes),
        ];
        Self { bound: bound_to(PURPOSE, parts), given }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::seal::tests::Toy;

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
        let keys = StateKeys::new(Toy(8)).earlier(Toy(7));
        let asked = |given: &str| binding(None, "tools/call", given);
        assert_eq!(keys.open(&asked("{}"), 0), Ok(None));
        assert_eq!(keys.open(&asked(r#"{"requestState":7}"#), 0).map_err(|error| error.code()), Err(-32602));
        let text = StateKeys::new(Toy(7)).seal(&asked("{}"), "old", 1);
        let again = asked(&format!(r#"{{"requestState":"{text}"}}"#));
        assert_eq!(keys.open(&again, 0), Ok(Some("old".to_owned())));
        assert_ne!(keys.seal(&asked("{}"), "old", 1), text);
    }
}
