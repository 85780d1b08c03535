//! JSON text that is validated once and never serialised again.
//!
//! `params`, `result` and `error` pass through this crate as [`Json`]: a slice of the frame they arrived in. Numbers
//! keep their digits, objects their key order and strings their escapes, because they are never parsed into a tree.
//!
//! | file | what it does |
//! |---|---|
//! | `scan` | validates JSON text strictly, without recursion |
//! | `string` | quotes, unquotes and searches strings |
//! | `canonical` | a form that is equal for texts with the same content |
//! | `edit` | reads and replaces single members of an object, finds duplicate keys |
//! | `serde` | implements `Serialize` and `Deserialize` for `Json` |

mod canonical;
mod edit;
pub(crate) mod scan;
mod serde;
pub(crate) mod string;

use std::borrow::Cow;
use std::fmt;

use ::serde::{Deserialize, Serialize};
use bytes::Bytes;
use scan::Scanner;

pub use edit::DuplicateKey;

/// The deepest nesting of arrays and objects that is accepted unless a limit says otherwise.
pub(crate) const DEFAULT_DEPTH: usize = 128;

/// One valid JSON value, stored as the text in which it arrived.
///
/// Cloning is cheap: the text shares memory with the frame that it is a slice of, which stays in memory as long as any
/// slice of it. Two values are equal when their *texts* are equal, so `1.0` and `1` differ, as do `{"a":1}` and
/// `{ "a":1 }`. The `Debug` form shows the length and never the text, which may be confidential; the `Display` form is the
/// text.
///
/// # Example: digits are kept
///
/// ```
/// use mcp_proto::Json;
///
/// let text = r#"{"amount":12345678901234567890.10,"amount2":1.0}"#;
/// let json = Json::parse(text)?;
/// assert_eq!(json.as_bytes(), text.as_bytes());
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Bytes);

impl Json {
    /// Validates `text` (RFC 8259, UTF-8), with at most 128 nested arrays and objects.
    ///
    /// White space around the value is dropped; white space inside is kept. The text is a `String`, a `Vec<u8>`, `Bytes` or a
    /// `&'static str`; of another `&str`, pass a copy.
    ///
    /// # Errors
    ///
    /// [`JsonError`] states what is wrong and at which byte.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, JsonError> {
        Self::parse_within(text, DEFAULT_DEPTH)
    }

    /// Validates `text` with at most `max_depth` nested arrays and objects.
    ///
    /// # Errors
    ///
    /// As [`Json::parse`].
    pub fn parse_within(text: impl Into<Bytes>, max_depth: usize) -> Result<Self, JsonError> {
        let text = text.into();
        let mut scanner = Scanner::new(&text, max_depth);
        let outcome = scanner.whole_text();
        scanner.check_utf8(outcome.is_err())?;
        let span = outcome?;
        Ok(Self(text.slice(span)))
    }

    /// Serialises a value as JSON text.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if the value's `Serialize` fails, or if a map in it has keys that are not strings.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|text| Self(text.into()))
    }

    /// Appends `text` as a JSON string, with its quotes.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Json;
    ///
    /// let mut out = Vec::new();
    /// Json::quote_into(&mut out, "a\"b");
    /// assert_eq!(out, br#""a\"b""#);
    /// ```
    pub fn quote_into(out: &mut Vec<u8>, text: &str) {
        string::quote_into(out, text);
    }

    /// The empty object, `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Wraps a text without a check, for the crates of this project that write JSON. The text must be one JSON value
    /// without line breaks and without white space around it: any other text is sent as it is, and makes its message
    /// invalid.
    #[doc(hidden)]
    #[must_use]
    pub const fn from_valid_text(text: Bytes) -> Self {
        Self(text)
    }

    /// Returns this value for storage. `whole` is the length in bytes of the frame that it is a slice of. If the frame
    /// is much larger, the value is copied, so that a small stored value does not keep a large frame in memory.
    ///
    /// Rules: M3.
    #[must_use]
    pub fn detached_from(self, whole: usize) -> Self {
        Self::from_valid_text(detach(self.to_bytes(), whole))
    }

    /// Deserialises the text into a typed value, which may borrow from it.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if the text does not have the shape of `T`.
    ///
    /// # Example: one member of a result
    ///
    /// ```
    /// # use mcp_proto::Json;
    /// #[derive(serde::Deserialize)]
    /// struct Page<'a> {
    ///     #[serde(rename = "nextCursor")]
    ///     next_cursor: Option<&'a str>,
    /// }
    ///
    /// let json = Json::parse(r#"{"tools":[],"nextCursor":"p2"}"#)?;
    /// assert_eq!(json.read::<Page<'_>>().unwrap().next_cursor, Some("p2"));
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The text as bytes; it is always UTF-8.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text as a string; this takes one pass over the text.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// The text, sharing its memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Length of the text in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a JSON text is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether the value is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.0.first() == Some(&b'[')
    }

    /// The value as an unescaped string, if it is a string without unpaired surrogates.
    #[must_use]
    pub fn as_string(&self) -> Option<Cow<'_, str>> {
        string::unquote(&self.0)
    }
}

/// The text.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
///
/// let json = Json::parse(r#"{"name":"Ada"}"#)?;
/// assert_eq!(json.to_string(), r#"{"name":"Ada"}"#);
/// assert_eq!(format!("{json:?}"), "Json(14 bytes)");
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_text())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.0.len())
    }
}

/// A string, written as JSON text.
impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self(string::quote(text).into())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self(Bytes::from_static(if value { b"true" } else { b"false" }))
    }
}

/// A string, written as JSON text.
impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

macro_rules! from_integer {
    ($($integer:ty)*) => {
        $(impl From<$integer> for Json {
            fn from(number: $integer) -> Self {
                Self(number.to_string().into())
            }
        })*
    };
}

from_integer! { i32 i64 u32 u64 usize }

/// The shortest digits that are read as the same number. Infinity and NaN, which JSON does not have, become `null`, as
/// with `serde_json`.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
///
/// assert_eq!(Json::from(0.1).as_bytes(), b"0.1");
/// assert_eq!(Json::from(f64::NAN).as_bytes(), b"null");
/// ```
impl From<f64> for Json {
    fn from(number: f64) -> Self {
        Self::from_serialize(&number).unwrap_or(Self(Bytes::from_static(b"null")))
    }
}

/// The text of a tree, with the numbers and the order of keys that the tree has.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
///
/// assert_eq!(Json::from(serde_json::json!({"a": [1, null]})).as_bytes(), br#"{"a":[1,null]}"#);
/// ```
impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

/// Why a text is not acceptable JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The bytes are not UTF-8.
    ///
    /// Rules: JR-02.
    #[error("not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Position of the first invalid byte.
        offset: usize,
    },
    /// The text breaks the grammar of RFC 8259, or ends too early.
    #[error("not JSON at byte {offset}")]
    NotJson {
        /// Position of the violation.
        offset: usize,
    },
    /// A complete value is followed by something other than white space.
    #[error("more text after the JSON value at byte {offset}")]
    TrailingText {
        /// Position at which the additional text begins.
        offset: usize,
    },
    /// Arrays and objects are nested deeper than the limit.
    #[error("JSON nested deeper than {limit}")]
    TooDeep {
        /// The limit, in levels.
        limit: usize,
    },
}

/// Copies a slice of a text of `whole` bytes if it is much smaller, as for [`Json::detached_from`].
pub(crate) fn detach(part: Bytes, whole: usize) -> Bytes {
    const ENVELOPE: usize = 1024;
    if whole > part.len() + part.len() / 4 + ENVELOPE { Bytes::copy_from_slice(&part) } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_copied_when_it_would_keep_a_much_larger_buffer() {
        for (part, whole, is_shared) in [
            (1, 1025, true),
            (1, 1026, false),
            (4000, 6024, true),
            (4000, 6025, false),
            (4003, 6027, true),
            (4004, 6029, true),
        ] {
            let text = Bytes::from(vec![b' '; whole]);
            let given = text.slice(..part);
            let detached = detach(given.clone(), whole);
            assert_eq!(detached, given);
            assert_eq!(detached.as_ptr() == given.as_ptr(), is_shared, "{part} of {whole}");
        }
    }
}
