//! The values that a recording, the log and the output of `--check` must not contain: those from the environment or
//! from headers.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use mcp_proto::escape_text;

/// The text that replaces a secret.
const PLACEHOLDER: &str = "[secret]";
/// The minimum length of a secret. Shorter texts occur by chance, and replacing them would make the output unreadable.
const MIN_CHARS: usize = 6;
/// Tools often return JSON within a JSON string. This is how many levels of escapes are resolved.
const LEVELS: usize = 3;
/// Terms of the protocol that occur in nearly every recording.
const VOCABULARY: &str = "jsonrpc method params result error message data protocolVersion capabilities clientInfo \
                          serverInfo name version initialize notifications/initialized tools/call tools/list content \
                          arguments text inputSchema description properties object string required";

/// A URL without the parts that may be secret.
pub(crate) fn shown_url(url: &str) -> String {
    let shown = url.split(['?', '#']).next().filter(|url| !url.contains('@'));
    escape_text(shown.unwrap_or("the URL"), 200)
}

/// Texts that are removed from the output, in all spellings that JSON allows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    found: Vec<Secret>,
}

#[derive(Clone)]
struct Secret {
    /// The source of the value, for error messages.
    source: String,
    value: String,
}

/// Omits the value.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Secrets {
    /// Adds a value and its source. An empty value is ignored.
    pub(crate) fn add(&mut self, source: impl Into<String>, value: &str) {
        if !value.is_empty() && self.found.iter().all(|secret| secret.value != value) {
            self.found.push(Secret { source: source.into(), value: value.to_owned() });
        }
    }

    /// Adds those of another configuration.
    pub(crate) fn extend(&mut self, other: &Self) {
        for Secret { source, value } in &other.found {
            self.add(source, value);
        }
    }

    /// Checks that each secret can be removed without making the recording useless.
    ///
    /// # Errors
    ///
    /// A text for the user, with the source of a secret that cannot be removed, but without its value.
    pub(crate) fn check(&self) -> Result<(), String> {
        for Secret { source, value } in &self.found {
            let length = value.chars().count();
            if length < MIN_CHARS {
                return Err(format!(
                    "the value of {source} has {length} characters, and a text of fewer than {MIN_CHARS} cannot be \
                     removed from the recording without making it unreadable; record without it or with a longer value"
                ));
            }
            if VOCABULARY.split(' ').any(|word| word.contains(value.as_str())) {
                return Err(format!(
                    "the value of {source} is a word of the protocol, and cannot be removed from the recording without \
                     making it unreadable; record without it or with another value"
                ));
            }
        }
        Ok(())
    }

    /// Replaces each secret in the text by a placeholder, including those that are spelled with JSON escapes. Values
    /// that are too short to be found reliably stay; [`Secrets::check`] reports them.
    pub(crate) fn leave_out(&self, text: &str) -> String {
        let mut level = Decoded::plain(text);
        let mut ranges = self.find(&level);
        for _ in 0..LEVELS {
            if !level.text.contains('\\') {
                break;
            }
            level = level.unescape();
            ranges.extend(self.find(&level));
        }
        replace(text, ranges)
    }

    fn find(&self, text: &Decoded) -> Vec<Range<usize>> {
        let long = self.found.iter().filter(|secret| secret.value.chars().count() >= MIN_CHARS);
        long.flat_map(|secret| text.find(&secret.value)).collect()
    }
}

/// Writes lines without the secrets. A line is written once it is complete.
pub(crate) struct WithoutSecrets<W> {
    out: W,
    secrets: Arc<Secrets>,
    line: Vec<u8>,
}

impl<W: Write> WithoutSecrets<W> {
    pub(crate) fn new(out: W, secrets: Arc<Secrets>) -> Self {
        Self { out, secrets, line: Vec::new() }
    }
}

impl<W: Write> Write for WithoutSecrets<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.line, rest);
            self.out.write_all(self.secrets.leave_out(&String::from_utf8_lossy(&lines)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn replace(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut replaced = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        if range.start >= end {
            replaced.push_str(text.get(end..range.start).unwrap_or_default());
            replaced.push_str(PLACEHOLDER);
        }
        end = end.max(range.end);
    }
    replaced.push_str(text.get(end..).unwrap_or_default());
    replaced
}

/// A text with its escapes resolved, and the position of each of its bytes in the original.
struct Decoded {
    text: String,
    /// The offset in the original of each byte of the text, and of its end; `None` if text and original are identical.
    origins: Option<Vec<usize>>,
}

impl Decoded {
    fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), origins: None }
    }

    fn origin(&self, position: usize) -> usize {
        match &self.origins {
            None => position,
            Some(origins) => origins.get(position).copied().unwrap_or_default(),
        }
    }

    /// The ranges of the original in which `value` occurs.
    fn find<'d>(&'d self, value: &'d str) -> impl Iterator<Item = Range<usize>> + 'd {
        self.text.match_indices(value).map(|(start, found)| self.origin(start)..self.origin(start + found.len()))
    }

    fn unescape(&self) -> Self {
        let mut text = String::with_capacity(self.text.len());
        let mut origins = Vec::with_capacity(self.text.len() + 1);
        let mut position = 0;
        let mut rest = self.text.as_str();
        while let Some(c) = rest.chars().next() {
            let (c, length) = if c == '\\' { escape(rest) } else { (c, c.len_utf8()) };
            let begin = text.len();
            text.push(c);
            origins.extend(std::iter::repeat_n(self.origin(position), text.len() - begin));
            position += length;
            rest = rest.get(length..).unwrap_or_default();
        }
        origins.push(self.origin(position));
        Self { text, origins: Some(origins) }
    }
}

/// Decodes the escape at the beginning of `text`. Returns the character and the length of the escape. A backslash that
/// begins no valid escape is returned as itself.
fn escape(text: &str) -> (char, usize) {
    let c = match text.as_bytes().get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(text).unwrap_or(('\\', 1)),
        Some(_) | None => return ('\\', 1),
    };
    (c, 2)
}

fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    };
    let first = unit(0)?;
    let second = if (0xd800..0xdc00).contains(&first) { unit(6) } else { None };
    let mut decoded = char::decode_utf16([first].into_iter().chain(second));
    match decoded.next()? {
        Ok(c) => Some((c, if c.len_utf16() == 2 { 12 } else { 6 })),
        // Half of a surrogate pair is not a character.
        Err(_) => Some((char::REPLACEMENT_CHARACTER, 6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        for value in values {
            secrets.add("a test", value);
        }
        secrets
    }

    #[test]
    fn a_secret_is_left_out_in_every_spelling_of_json() {
        let secrets = secrets(&["to/ken\"é😀", "other-secret"]);
        for (text, expected) in [
            (r#"{"a":"to/ken\"é😀"}"#, r#"{"a":"[secret]"}"#),
            (r#"{"a":"x to\/ken\"é😀 y"}"#, r#"{"a":"x [secret] y"}"#),
            (r#"{"a":"\u0074\u006f\u002Fken\u0022\u00e9\ud83d\ude00"}"#, r#"{"a":"[secret]"}"#),
            (r#"{"a":"\u0074o/k\u0065n\u0022\u00E9\uD83D\uDE00"}"#, r#"{"a":"[secret]"}"#),
            // JSON within a JSON string, and one level deeper.
            (r#"{"a":"{\"b\":\"to/ken\\\"é😀\"}"}"#, r#"{"a":"{\"b\":\"[secret]\"}"}"#),
            (r#"["[\"[\\\"to\\\\/ken\\\\\\\"é😀\\\"]\"]"]"#, r#"["[\"[\\\"[secret]\\\"]\"]"]"#),
            (r#"{"other-secret":"other-secretother-secret"}"#, r#"{"[secret]":"[secret][secret]"}"#),
            (r"\ud83d other-secret \u12 \x \", r"\ud83d [secret] \u12 \x \"),
            ("no JSON: other-secret", "no JSON: [secret]"),
            (r"\u0061 other-secret", r"\u0061 [secret]"),
            (r#"{"a":"other-secre"}"#, r#"{"a":"other-secre"}"#),
            ("", ""),
        ] {
            assert_eq!(secrets.leave_out(text), expected);
        }
    }

    #[test]
    fn what_overlaps_is_left_out_as_one() {
        assert_eq!(secrets(&["abcdef", "defghi", "bcd---"]).leave_out("xabcdefghix"), "x[secret]x");
        assert_eq!(
            secrets(&["Bearer token-4711", "token-4711"]).leave_out("Bearer token-4711 token-4711"),
            "[secret] [secret]"
        );
    }

    #[test]
    fn a_secret_that_would_destroy_the_record_is_named_and_not_shown() {
        for (value, text) in [
            ("o", "has 1 characters"),
            ("12345", "has 5 characters"),
            ("result", "a word of the protocol"),
            ("ééééé", "has 5 characters"),
        ] {
            let error = secrets(&["long enough", value]).check().unwrap_err();
            assert!(error.contains(text) && error.contains("the value of a test"), "{error}");
            assert!(value == "o" || !error.contains(value), "{error}");
        }
        assert_eq!(secrets(&["", "123456", "long enough"]).check(), Ok(()));
        assert_eq!(
            format!("{:?}", secrets(&["123456", "123456"])),
            "Secrets { found: [Secret { source: \"a test\", .. }] }"
        );
    }

    #[test]
    fn lines_are_written_whole_and_without_secrets() {
        let secrets = Arc::new(secrets(&["token-4711", "short"]));
        let mut out = WithoutSecrets::new(Vec::new(), secrets);
        for part in ["a tok", "en-4711 ", "b\nc token-47", "11 short\n", "d\n"] {
            out.write_all(part.as_bytes()).unwrap();
        }
        assert_eq!(String::from_utf8(out.out).unwrap(), "a [secret] b\nc [secret] short\nd\n");
    }

    #[test]
    fn leaving_out_takes_linear_time() {
        let secrets = secrets(&["aaaaaaab"]);
        let text = format!("\"{}\\u0061\"", "aaaaaaa".repeat(200_000));
        assert_eq!(secrets.leave_out(&text), text);
        let text = "\\\\".repeat(500_000);
        assert_eq!(secrets.leave_out(&text), text);
    }
}
