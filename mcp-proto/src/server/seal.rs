//! Texts that a client stores for the server, and cannot alter.
//!
//! A text is URL-safe Base64 without padding of: the byte 1; the expiry in seconds since 1970 as 8 bytes, big-endian;
//! the content; and a tag of 32 bytes. The tag covers these and, before them, what the text is bound to. The content is
//! authenticated, but not encrypted: the client can read it.

#[cfg(feature = "seal")]
mod hmac;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

#[cfg(feature = "seal")]
pub use hmac::HmacKey;

const FORMAT: u8 = 1;
const TAG: usize = 32;
/// The bytes before the content: format and expiry.
const HEAD: usize = 9;

/// A keyed message authentication code, such as HMAC-SHA-256. `HmacKey` of the feature `seal` implements it.
pub trait StateKey {
    /// The tag of a message.
    fn sign(&self, message: &[u8]) -> [u8; 32];

    /// Whether a tag is valid for a message. The comparison must take constant time.
    fn verify(&self, message: &[u8], tag: &[u8; 32]) -> bool;
}

/// A key that several owners share.
impl<K: StateKey + ?Sized> StateKey for Arc<K> {
    fn sign(&self, message: &[u8]) -> [u8; 32] {
        (**self).sign(message)
    }

    fn verify(&self, message: &[u8], tag: &[u8; 32]) -> bool {
        (**self).verify(message, tag)
    }
}

/// The keys that sign states. The current one signs new states; states that an earlier one has signed can still be
/// opened.
#[derive(Clone)]
pub struct StateKeys<K> {
    current: K,
    earlier: Vec<K>,
}

impl<K> StateKeys<K> {
    /// Creates a set of one key.
    #[must_use]
    pub const fn new(key: K) -> Self {
        Self { current: key, earlier: Vec::new() }
    }

    /// Adds an earlier key: states that were sealed with it can still be opened.
    #[must_use]
    pub fn earlier(mut self, key: K) -> Self {
        self.earlier.push(key);
        self
    }

    /// The same keys in another form.
    pub(super) fn map<L>(self, form: impl FnMut(K) -> L) -> StateKeys<L> {
        let mut form = form;
        StateKeys { current: form(self.current), earlier: self.earlier.into_iter().map(form).collect() }
    }
}

impl<K: StateKey> StateKeys<K> {
    /// Signs a content that is bound to `bound`; `expires` is in seconds since 1970.
    pub(super) fn seal_content(&self, bound: &[u8], content: &[u8], expires: u64) -> String {
        let mut sealed = vec![FORMAT];
        sealed.extend_from_slice(&expires.to_be_bytes());
        sealed.extend_from_slice(content);
        let tag = self.current.sign(&[bound, &sealed].concat());
        sealed.extend_from_slice(&tag);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// The content of a text that one of these keys has signed for the same `bound`, and that has not expired; `now` is
    /// in seconds since 1970.
    pub(super) fn open_content(&self, bound: &[u8], text: &str, now: u64) -> Option<Vec<u8>> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG>()?;
        let message = [bound, sealed].concat();
        if !std::iter::once(&self.current).chain(&self.earlier).any(|key| key.verify(&message, tag)) {
            return None;
        }
        let (head, content) = sealed.split_at_checked(HEAD)?;
        let (&format, expires) = head.split_first()?;
        let expires = u64::from_be_bytes(expires.try_into().ok()?);
        (format == FORMAT && expires > now).then(|| content.to_vec())
    }
}

/// Shows no key.
impl<K> fmt::Debug for StateKeys<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateKeys").field("earlier", &self.earlier.len()).finish_non_exhaustive()
    }
}

/// The bytes to which a sealed text is bound. They begin with its purpose, which separates this use of a key from any
/// other. The parts follow; any of them may be absent. Each part has its length before it, so that no two lists of
/// parts give the same bytes.
pub(super) fn bound_to<'p>(purpose: &[u8], parts: impl IntoIterator<Item = Option<&'p [u8]>>) -> Vec<u8> {
    let mut bound = purpose.to_vec();
    for part in parts {
        // This distinguishes an absent part from an empty one.
        bound.push(u8::from(part.is_some()));
        let part = part.unwrap_or_default();
        bound.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bound.extend_from_slice(part);
    }
    bound
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Not secure: it only depends on each byte and its position.
    pub(in crate::server) struct Toy(pub(in crate::server) u8);

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

    #[test]
    fn parts_that_differ_are_bound_differently() {
        let lists: [&[Option<&[u8]>]; 6] =
            [&[], &[None], &[Some(b"")], &[Some(b"ab")], &[Some(b"a"), Some(b"b")], &[Some(b"ab"), None]];
        for (at, list) in lists.iter().enumerate() {
            for (other_at, other) in lists.iter().enumerate() {
                let [one, other] = [list, other].map(|list| bound_to(b"test", list.iter().copied()));
                assert_eq!(one == other, at == other_at, "{list:?}");
            }
        }
        assert_ne!(bound_to(b"test", []), bound_to(b"tess", []));
    }
}
