//! Bytes that are borrowed where possible, and buffers that grow no further than their limit.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

/// Bytes that are borrowed from the input if they are contiguous there, and owned if they had to be joined.
///
/// Most lines and events arrive in one piece; these are framed without a copy or an allocation.
#[derive(Clone, PartialEq, Eq)]
pub enum CowBytes<'i> {
    /// A part of the input.
    Borrowed(&'i [u8]),
    /// A separate buffer.
    Owned(Bytes),
}

impl CowBytes<'_> {
    /// Returns the bytes as a value that can be kept; borrowed bytes are copied.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Shows the number of bytes only, because they may be a payload.
impl fmt::Debug for CowBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CowBytes({} bytes)", self.len())
    }
}

impl Deref for CowBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// The smallest capacity of a buffer, in bytes.
const SMALLEST: usize = 128;

/// From this capacity on a buffer grows fourfold, since growing copies, and memory not yet written to is not resident.
const LARGE: usize = 64 << 10;

/// Appends `bytes`; the capacity doubles at first, and exceeds `limit` only if the bytes themselves need it.
#[inline]
pub(crate) fn extend_within(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    if bytes.len() > buffer.capacity() - buffer.len() {
        grow(buffer, bytes.len(), limit);
    }
    buffer.extend_from_slice(bytes);
}

/// Returns the bytes of a finished buffer. Excess capacity over a quarter of the length is released, because kept bytes
/// are counted by their length (M3).
pub(crate) fn into_bytes(mut buffer: Vec<u8>) -> Bytes {
    if buffer.capacity() - buffer.len() > buffer.len() / 4 {
        buffer.shrink_to_fit();
    }
    buffer.into()
}

#[cold]
fn grow(buffer: &mut Vec<u8>, additional: usize, limit: usize) {
    let factor = if buffer.capacity() < LARGE { 2 } else { 4 };
    let needed = buffer.len() + additional;
    let capacity = (buffer.capacity() * factor).max(SMALLEST).min(limit).max(needed);
    buffer.reserve_exact(capacity - buffer.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_twofold_then_fourfold_and_never_beyond_its_limit() {
        let capacities = |limit| {
            let mut buffer = Vec::new();
            let mut seen = vec![];
            while buffer.len() < 300_000 {
                extend_within(&mut buffer, b"a", limit);
                if seen.last() != Some(&buffer.capacity()) {
                    seen.push(buffer.capacity());
                }
            }
            seen
        };
        let doubled = [128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
        assert_eq!(capacities(1_000_000), [&doubled[..], &[262_144, 1_000_000]].concat());
        assert_eq!(capacities(300_000), [&doubled[..], &[262_144, 300_000]].concat());
    }

    #[test]
    fn what_fits_leaves_a_buffer_as_large_as_it_is_and_what_is_larger_than_the_limit_gets_its_own_room() {
        let mut buffer = Vec::with_capacity(10);
        extend_within(&mut buffer, &[0; 10], 100);
        assert_eq!(buffer.capacity(), 10);
        extend_within(&mut buffer, &[0; 95], 100);
        assert_eq!((buffer.len(), buffer.capacity()), (105, 105));
    }

    #[test]
    fn room_beyond_a_quarter_of_the_bytes_is_given_back() {
        for (capacity, kept) in [(100, 100), (101, 101), (125, 125), (126, 100), (400, 100)] {
            let mut buffer = Vec::with_capacity(capacity);
            buffer.extend_from_slice(&[7; 100]);
            assert_eq!(Vec::from(into_bytes(buffer)).capacity(), kept, "of {capacity}");
        }
    }
}
