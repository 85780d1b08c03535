//! HMAC-SHA-256 as the key of sealed texts.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::StateKey;

/// A key for HMAC-SHA-256 (RFC 2104), of 32 random bytes from a secure source.
///
/// # Example
///
/// ```
/// use mcp_proto::server::{HmacKey, StateKey};
///
/// let key = HmacKey::new([7; 32]);
/// let tag = key.sign(b"a message");
/// assert!(key.verify(b"a message", &tag));
/// assert!(!key.verify(b"another message", &tag));
/// ```
#[derive(Clone)]
pub struct HmacKey([u8; 32]);

impl HmacKey {
    /// A key of these bytes.
    #[must_use]
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

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

/// Shows nothing of the key.
impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shorter key is equivalent to one padded with zeros (RFC 4231, section 4.3).
    #[test]
    fn states_are_signed_with_hmac_sha_256() {
        let mut key = [0; 32];
        for (slot, byte) in key.iter_mut().zip(b"Jefe") {
            *slot = *byte;
        }
        let key = HmacKey::new(key);
        let tag = key.sign(b"what do ya want for nothing?");
        let text = tag.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(key.verify(b"what do ya want for nothing?", &tag));
        assert!(!key.verify(b"what do ya want for nothing!", &tag));
        assert!(!HmacKey::new([1; 32]).verify(b"what do ya want for nothing?", &tag));
        assert_eq!(format!("{key:?}"), "HmacKey");
    }
}
