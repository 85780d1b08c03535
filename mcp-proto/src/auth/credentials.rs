//! Credentials: the access token that requests carry.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

use crate::auth::ProofKey;
use crate::error::UsageError;

/// The most characters of an access token.
const MAX_TOKEN: usize = 16 * 1024;

/// The characters of a SHA-256 value in Base64url.
const HASH: usize = 43;

/// An access token, and how it is sent: as a bearer token (RFC 6750), or with proofs that the client has its key (RFC
/// 9449).
///
/// Its `Debug` form contains nothing of the token.
///
/// # Example
///
/// ```
/// use mcp_proto::auth::Credentials;
///
/// let credentials = Credentials::bearer("mF_9.B5f-4.1JqM", 1)?;
/// assert_eq!(format!("{credentials:?}"), "Credentials { generation: 1, .. }");
/// assert!(Credentials::bearer("two words", 2).is_err());
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The value of `Authorization`.
    header: HeaderValue,
    /// The binding of a token that is sent with proofs; `None` for a bearer token.
    bound: Option<Bound>,
    generation: u64,
}

/// The binding of a token to a key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The hash of the token.
    pub(crate) hash: Box<str>,
    pub(crate) key: Arc<ProofKey>,
}

impl Credentials {
    /// A bearer token. `generation` numbers the tokens that the client gets: a newer one has a greater number.
    ///
    /// # Errors
    ///
    /// [`UsageError::AccessToken`] if the token is empty, longer than 16 KiB, or has characters other than visible
    /// ASCII.
    pub fn bearer(token: &str, generation: u64) -> Result<Self, UsageError> {
        Ok(Self { header: authorization("Bearer", token)?, bound: None, generation })
    }

    /// A token that is sent with a proof in each request: [`HttpAction::Open`](crate::client::HttpAction) has its claims.
    /// `hash` is the SHA-256 value of the token in Base64url, which is the claim `ath`, and `key` signs the proofs;
    /// `generation` is as in [`Credentials::bearer`].
    ///
    /// # Errors
    ///
    /// [`UsageError::AccessToken`] as for a bearer token, [`UsageError::AccessTokenHash`] if `hash` does not have 43
    /// characters of Base64url.
    ///
    /// Rules: OA-X-06.
    pub fn dpop(token: &str, hash: &str, key: impl Into<Arc<ProofKey>>, generation: u64) -> Result<Self, UsageError> {
        let is_hash =
            hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_hash {
            return Err(UsageError::AccessTokenHash);
        }
        let bound = Some(Bound { hash: hash.into(), key: key.into() });
        Ok(Self { header: authorization("DPoP", token)?, bound, generation })
    }

    /// The number of the token.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) const fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// The binding of the token, if each request needs a proof.
    pub(crate) const fn bound(&self) -> Option<&Bound> {
        self.bound.as_ref()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("generation", &self.generation).finish_non_exhaustive()
    }
}

fn authorization(scheme: &str, token: &str) -> Result<HeaderValue, UsageError> {
    let invalid = UsageError::AccessToken { limit: MAX_TOKEN };
    // Some servers issue tokens with other characters than RFC 6750 allows, such as `|`.
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~');
    if token.is_empty() || token.len() > MAX_TOKEN || !token.bytes().all(is_visible) {
        return Err(invalid);
    }
    let mut value = HeaderValue::from_str(&format!("{scheme} {token}")).map_err(|_| invalid)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ProofKey {
        ProofKey::new("private".into(), "x", "y")
    }

    #[test]
    fn a_token_is_sent_only_if_a_header_can_have_it_and_is_never_printed() {
        let longest = "x".repeat(MAX_TOKEN);
        for (token, is_valid) in [
            ("a", true),
            ("aZ0-._~+/==", true),
            (longest.as_str(), true),
            (&format!("{longest}x"), false),
            ("", false),
            ("12|a=b", true),
            ("a b", false),
            ("a\r\nx: y", false),
            ("\u{e9}", false),
        ] {
            for credentials in [Credentials::bearer(token, 7), Credentials::dpop(token, &"h".repeat(HASH), key(), 7)] {
                assert_eq!(credentials.is_ok(), is_valid, "{token}");
                let Ok(credentials) = credentials else { continue };
                assert!(
                    credentials.header().is_sensitive() && credentials.header().as_bytes().ends_with(token.as_bytes())
                );
                assert_eq!(format!("{credentials:?}"), "Credentials { generation: 7, .. }");
            }
        }
    }

    #[test]
    fn the_hash_of_a_token_is_a_sha256_value_in_base64url() {
        for (hash, is_valid) in
            [("-_aA0".repeat(9), false), ("x".repeat(43), true), ("x".repeat(42), false), ("=".repeat(43), false)]
        {
            assert_eq!(Credentials::dpop("a", &hash, key(), 1).is_ok(), is_valid, "{hash}");
        }
    }
}
