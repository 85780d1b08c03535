//! JSON strings: finding the end of a plain part, unescaping and quoting.

use std::borrow::Cow;

use crate::swar;

/// Length of the part of a string before its first quote, backslash or control character; `None` if there is none.
pub(super) fn plain_prefix(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk() {
        let ends = swar::load_four(block).map(ends_in);
        if ends[0] | ends[1] | ends[2] | ends[3] != 0 {
            break;
        }
        rest = after;
    }
    while let Some((word, after)) = rest.split_first_chunk() {
        if let Some(length) = swar::first(ends_in(swar::load(*word))) {
            return Some(text.len() - rest.len() + length);
        }
        rest = after;
    }
    rest.iter().position(|&byte| ends(byte)).map(|length| text.len() - rest.len() + length)
}

/// Whether the whole string is plain.
fn is_plain(text: &[u8]) -> bool {
    plain_prefix(text).is_none()
}

/// Whether `byte` ends the plain part of a string.
pub(super) const fn ends(byte: u8) -> bool {
    // Flipping this bit maps the quote (0x22) to 0x20, next to the control characters.
    byte ^ 0x02 < 0x21 || byte == b'\\'
}

/// Marks the bytes of a word for which [`ends`] is true.
#[inline]
pub(super) const fn ends_in(word: u64) -> u64 {
    swar::below(swar::flip(word, 0x02), 0x21) | swar::equal(word, b'\\')
}

/// The value of a JSON string text (with its quotes); `None` for other texts and unpaired surrogates.
pub(crate) fn unquote(text: &[u8]) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if is_plain(inner) {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(text).ok().map(Cow::Owned)
}

/// Appends `text` as a JSON string text, with its quotes.
pub(crate) fn quote_into(out: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else if serde_json::to_writer(&mut *out, text).is_err() {
        // Unreachable: a string has no map keys, and writing to a `Vec` cannot fail.
        out.extend_from_slice(b"\"\"");
    }
}

/// `text` as a JSON string text, with its quotes.
pub(crate) fn quote(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote_into(&mut out, text);
    out
}

/// The value of a JSON string text given without its quotes; `None` for unpaired surrogates.
pub(super) fn unescape(raw: &[u8]) -> Option<String> {
    serde_json::from_slice(&[b"\"", raw, b"\""].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_part_of_a_string_ends_before_its_first_special_byte_wherever_others_stand() {
        for length in 0..80 {
            let text = vec![b'a'; length];
            assert_eq!(plain_prefix(&text), None);
            for first in 0..length {
                for other in first..length {
                    let mut text = text.clone();
                    (text[first], text[other]) = (b'"', b'"');
                    assert_eq!(plain_prefix(&text), Some(first), "{first} and {other} of {length}");
                }
            }
        }
        for byte in 0..=u8::MAX {
            let is_special = byte < 0x20 || byte == b'"' || byte == b'\\';
            assert_eq!(plain_prefix(&[byte; 20]), is_special.then_some(0), "{byte}");
        }
    }

    #[test]
    fn a_string_without_escapes_takes_just_the_room_that_it_needs() {
        for text in ["", "a", "plain text", "é"] {
            let quoted = quote(text);
            assert_eq!(quoted, format!("\"{text}\"").as_bytes());
            assert_eq!(quoted.capacity(), quoted.len(), "{text:?}");
        }
    }
}
