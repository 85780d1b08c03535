//! SWAR: operations on eight bytes at a time, packed in one `u64`.
//!
//! Most lines, keys and strings are only a few times eight bytes long: for these, this costs less than a call into a
//! vectorised search.
//!
//! A byte that is less than `n` borrows when `n` is subtracted from it, which sets its highest bit. The borrow may
//! change the bytes after it, never those before, so the first byte found is correct.

/// Bytes in a word.
pub(crate) const WIDTH: usize = 8;

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x8080_8080_8080_8080;

/// Loads a word, little-endian: the first byte is the lowest.
pub(crate) const fn load(bytes: [u8; WIDTH]) -> u64 {
    u64::from_le_bytes(bytes)
}

#[inline]
pub(crate) fn load_four(bytes: &[u8; 4 * WIDTH]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(WIDTH)) {
        *word = bytes.try_into().map_or(0, load);
    }
    words
}

pub(crate) const fn is_ascii(word: u64) -> bool {
    word & HIGHEST == 0
}

/// The word with `bits` of each byte flipped.
pub(crate) const fn flip(word: u64, bits: u8) -> u64 {
    word ^ (EACH * bits as u64)
}

/// Marks the bytes that are less than `n`, at most 128.
pub(crate) const fn below(word: u64, n: u8) -> u64 {
    word.wrapping_sub(EACH * n as u64) & !word & HIGHEST
}

/// Marks the bytes that are `byte`.
pub(crate) const fn equal(word: u64, byte: u8) -> u64 {
    below(flip(word, byte), 1)
}

/// The index of the first marked byte.
pub(crate) const fn first(marks: u64) -> Option<usize> {
    if marks == 0 { None } else { Some(marks.trailing_zeros() as usize / 8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_ascii_if_each_of_its_bytes_is() {
        assert!(is_ascii(load(*b"abcdefgh")) && is_ascii(load([0x7f; WIDTH])) && is_ascii(0));
        for place in 0..WIDTH {
            let mut bytes = *b"abcdefgh";
            bytes[place] = 0x80;
            assert!(!is_ascii(load(bytes)), "{place}");
        }
    }

    #[test]
    fn the_first_of_the_bytes_that_are_looked_for_is_found_among_any_others() {
        for filler in [0x00, 0x01, 0x20, 0x21, 0x7f, 0x80, 0xff] {
            for wanted in [0x00, 0x0a, 0x22, 0x5c, 0x7f] {
                for at in 0..=WIDTH {
                    let mut bytes = [filler; WIDTH];
                    for byte in bytes.iter_mut().skip(at) {
                        *byte = wanted;
                    }
                    let word = load(bytes);
                    assert_eq!(first(equal(word, wanted)), bytes.iter().position(|&byte| byte == wanted));
                    assert_eq!(first(below(word, wanted)), bytes.iter().position(|&byte| byte < wanted));
                }
            }
        }
    }
}
