//! JSON Web Tokens that the client signs: assertions of who it is, and proofs of possession (RFC 7519, RFC 7515).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::secret::Secret;

/// A token without its signature, which the driver adds.
///
/// Its `Debug` form contains nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct UnsignedJwt {
    message: String,
}

impl UnsignedJwt {
    /// A token with this header and these claims, which consist of texts and numbers only.
    #[must_use]
    pub fn new(header: &impl Serialize, claims: &impl Serialize) -> Self {
        let part = |value: Result<Vec<u8>, _>| URL_SAFE_NO_PAD.encode(value.unwrap_or_default());
        let (header, claims) = (part(serde_json::to_vec(header)), part(serde_json::to_vec(claims)));
        Self { message: format!("{header}.{claims}") }
    }

    /// What the signature is computed of (RFC 7515, section 5.1).
    #[must_use]
    pub fn message(&self) -> &[u8] {
        self.message.as_bytes()
    }

    /// The token with its signature, in the form of RFC 7518: for ECDSA, both numbers one after the other.
    #[must_use]
    pub fn sign(self, signature: &[u8]) -> Secret {
        let mut token = self.message;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Secret::new(token)
    }
}

impl fmt::Debug for UnsignedJwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnsignedJwt").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_has_the_form_of_rfc_7515_appendix_a_5() {
        // An unsecured token in that form has an empty signature.
        let unsigned = UnsignedJwt::new(&json!({ "alg": "none" }), &json!({ "iss": "joe" }));
        assert_eq!(unsigned.message(), b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ");
        assert_eq!(format!("{unsigned:?}"), "UnsignedJwt { .. }");
        assert_eq!(unsigned.clone().sign(&[]).reveal(), "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.");
        assert_eq!(unsigned.sign(&[0xFB, 0xFF]).reveal(), "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.-_8");
    }
}
