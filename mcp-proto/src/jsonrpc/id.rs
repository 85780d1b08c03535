//! Request ids.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::json::Json;
use crate::json::string::{quote, quote_into, unquote};

/// The id of a request: an integer or a string, stored exactly.
///
/// `1` and `"1"` are different ids, and `1.0` is not an id: if these were confused, a response could be delivered to
/// the wrong caller. A string that arrived with escapes is equal to the same string without, and is sent back with its
/// original escapes.
///
/// # Example
///
/// ```
/// use mcp_proto::RequestId;
///
/// assert_ne!(RequestId::from(1), RequestId::from("1"));
/// assert_eq!(RequestId::from(1).to_string(), "1");
/// assert_eq!(RequestId::from("1").to_string(), "\"1\"");
/// ```
///
/// Rules: JR-03.
#[derive(Clone)]
pub struct RequestId(Repr);

#[derive(Clone)]
enum Repr {
    Number(i64),
    String(Box<Text>),
}

#[derive(Clone)]
struct Text {
    value: Box<str>,
    /// The JSON text with its quotes, if it differs from the default encoding of `value`.
    written: Option<Box<str>>,
}

impl RequestId {
    /// The id, if it is an integer.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Number(number) => Some(*number),
            Repr::String(_) => None,
        }
    }

    /// The id, if it is a string.
    #[must_use]
    pub const fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::Number(_) => None,
            Repr::String(text) => Some(&text.value),
        }
    }

    /// Reads an id from the valid JSON text of a value; `None` for fractions, `null`, and anything else that is not an
    /// id.
    #[must_use]
    pub fn from_json_text(text: &[u8]) -> Option<Self> {
        if text.first() == Some(&b'"') {
            let (value, written) = match unquote(text)? {
                Cow::Borrowed(value) => (value.into(), None),
                Cow::Owned(value) => {
                    let written = (quote(&value) != text).then(|| std::str::from_utf8(text).ok().map(Into::into));
                    (value.into(), written.flatten())
                }
            };
            return Some(Self(Repr::String(Box::new(Text { value, written }))));
        }
        integer(text).map(|number| Self(Repr::Number(number)))
    }

    /// Length of the JSON text of the id, assuming that nothing is escaped.
    pub(super) fn encoded_len(&self) -> usize {
        match &self.0 {
            Repr::Number(number) => {
                let digits = number.unsigned_abs().checked_ilog10().map_or(1, |tens| tens as usize + 1);
                digits + usize::from(*number < 0)
            }
            Repr::String(text) => text.written.as_ref().map_or(text.value.len() + 2, |written| written.len()),
        }
    }

    /// Appends the JSON text of the id.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Number(number) => {
                if *number < 0 {
                    out.push(b'-');
                }
                let first = out.len();
                let mut left = number.unsigned_abs();
                loop {
                    out.push(b'0' + u8::try_from(left % 10).unwrap_or_default());
                    left /= 10;
                    if left == 0 {
                        break;
                    }
                }
                if let Some(digits) = out.get_mut(first..) {
                    digits.reverse();
                }
            }
            Repr::String(text) => match &text.written {
                Some(written) => out.extend_from_slice(written.as_bytes()),
                None => quote_into(out, &text.value),
            },
        }
    }

    /// The id as JSON, as it was received.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut text = Vec::new();
        self.encode_into(&mut text);
        Json::from_valid_text(text.into())
    }
}

/// Parses a decimal integer; `None` if it does not fit in 64 bits.
fn integer(text: &[u8]) -> Option<i64> {
    let (digits, sign) = match text {
        // `-0` would be sent back as `0`.
        b"" | b"-" | b"-0" => return None,
        [b'-', digits @ ..] => (digits, -1),
        digits => (digits, 1),
    };
    digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(sign * digit)
    })
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self(Repr::Number(number))
    }
}

impl From<&str> for RequestId {
    fn from(value: &str) -> Self {
        Self(Repr::String(Box::new(Text { value: value.into(), written: None })))
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RequestId {}

impl PartialOrd for RequestId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Integers come before strings.
impl Ord for RequestId {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Number(a), Repr::Number(b)) => a.cmp(b),
            (Repr::String(a), Repr::String(b)) => a.value.cmp(&b.value),
            (Repr::Number(_), Repr::String(_)) => Ordering::Less,
            (Repr::String(_), Repr::Number(_)) => Ordering::Greater,
        }
    }
}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Number(number) => (0_u8, number).hash(state),
            Repr::String(text) => (1_u8, &text.value).hash(state),
        }
    }
}

/// The JSON text of the id.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json().to_text())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::collections::hash_map::DefaultHasher;

    use super::*;

    #[test]
    fn js8_only_integers_and_strings_are_ids_and_both_are_echoed_exactly() {
        for text in ["0", "1", "-1", "\"1\"", "\"\"", "9007199254740993", "9223372036854775807", "-9223372036854775808"]
        {
            let id = RequestId::from_json_text(text.as_bytes()).unwrap();
            assert_eq!(id.to_string(), text);
        }
        for text in [r#""\u00e9""#, r#""a\/b""#, r#""\u0061""#, "\"é\""] {
            assert_eq!(RequestId::from_json_text(text.as_bytes()).unwrap().to_string(), text);
        }
        for text in
            ["1.0", "1.5", "1e3", "-0", "18446744073709551616", "9223372036854775808", "true", "null", "[]", "{}"]
        {
            assert_eq!(RequestId::from_json_text(text.as_bytes()), None, "{text}");
        }
        // JS4: an unpaired surrogate is not a string.
        assert_eq!(RequestId::from_json_text(br#""\ud800""#), None);
    }

    #[test]
    fn js8_ids_are_equal_by_type_and_value_and_not_by_spelling() {
        assert_eq!(RequestId::from_json_text(br#""\u0061""#), Some(RequestId::from("a")));
        assert_ne!(RequestId::from(1), RequestId::from("1"));
    }

    #[test]
    fn ids_that_differ_have_different_hashes_and_equal_ones_the_same() {
        let hash = |id: &RequestId| {
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            hasher.finish()
        };
        let ids = [RequestId::from(1), RequestId::from(2), RequestId::from("1"), RequestId::from("a")];
        let hashes: BTreeSet<u64> = ids.iter().map(hash).collect();
        assert_eq!(hashes.len(), ids.len());
        let other_spelling = RequestId::from_json_text(br#""\u0061""#).expect("an id");
        assert_eq!(hash(&other_spelling), hash(&RequestId::from("a")));
    }
}
