//! Random values of the flow, derived from the random bytes that the driver passes in.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Random bytes for one sign-in: the driver draws them from the operating system, new ones for each.
#[derive(Clone)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Wraps 32 bytes of a cryptographically secure random source.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

/// A source of unpredictable texts: the hash of the seed and a counter, so that no text is derived twice.
#[derive(Debug)]
pub(super) struct Nonces {
    seed: Seed,
    drawn: u64,
}

impl Nonces {
    pub(super) const fn new(seed: Seed) -> Self {
        Self { seed, drawn: 0 }
    }

    /// 256 bits as 43 characters of URL-safe Base64: enough for `state` (OA-Q-03), a code verifier (OA-Q-02) or the id
    /// of a JWT.
    pub(super) fn draw(&mut self) -> String {
        self.drawn += 1;
        let hash = Sha256::new().chain_update(self.seed.0).chain_update(self.drawn.to_be_bytes()).finalize();
        URL_SAFE_NO_PAD.encode(hash)
    }
}

/// The hash of a text as URL-safe Base64: the challenge of a verifier (RFC 7636, section 4.2), or the hash of an access
/// token in a proof (RFC 9449, section 4.2).
pub(super) fn sha256(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_q_02_the_challenge_is_that_of_rfc_7636_appendix_b() {
        let challenge = sha256("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn oa_q_03_no_text_is_drawn_twice_and_each_is_a_code_verifier() {
        let mut of_one = Nonces::new(Seed::new([1; 32]));
        let mut of_two = Nonces::new(Seed::new([2; 32]));
        let drawn = [of_one.draw(), of_one.draw(), of_two.draw(), of_two.draw()];
        for (position, text) in drawn.iter().enumerate() {
            assert!(text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            assert!(!drawn[..position].contains(text));
        }
        assert_eq!(format!("{of_one:?}"), "Nonces { seed: Seed, drawn: 2 }");
    }
}
