//! Text from the peer, escaped for a terminal, a log or an error.

use std::fmt::{self, Write};

/// Escapes every character of `text` that could forge a line, move the cursor or reorder the display, and cuts it after
/// `max_chars` characters, marked with an ellipsis.
///
/// C0 and C1 controls, U+2028 and U+2029, bidirectional controls, zero-width and other format characters, and tags are
/// escaped as `\n` or `\u{202e}`. Everything else is unchanged, so that names in any script stay readable.
///
/// # Example
///
/// ```
/// use mcp_proto::escape_text;
///
/// assert_eq!(escape_text("naïve\n\u{1b}[31m\u{202e}txt", 80), "naïve\\n\\u{1b}[31m\\u{202e}txt");
/// assert_eq!(escape_text("a long text", 6), "a long…");
/// ```
///
/// Rules: PX8.
#[must_use]
pub fn escape_text(text: &str, max_chars: usize) -> String {
    let mut escaped = String::with_capacity(text.len().min(max_chars));
    for (position, c) in text.chars().enumerate() {
        if position == max_chars {
            escaped.push('…');
            break;
        }
        if c.is_control() || is_invisible(c) {
            // Writing to a `String` cannot fail.
            let _ = write!(escaped, "{}", c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// The beginning of a text from the peer, escaped by [`escape_text`] for display to a person. Its `Debug` form is the
/// length.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    /// Escapes the first `max_chars` characters of `text`.
    #[must_use]
    pub fn new(text: &str, max_chars: usize) -> Self {
        Self(escape_text(text, max_chars).into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Excerpt({} bytes)", self.0.len())
    }
}

/// Whether a character has no visible glyph: the general categories Cf, Zl and Zp, and `Default_Ignorable_Code_Point`,
/// except the variation selectors that emoji use.
pub(crate) const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::escape_text;

    #[test]
    fn px8_what_has_no_glyph_is_escaped_and_every_script_stays() {
        for (text, escaped) in [
            ("a\r\nmcp-proxy: \u{1b}[31mé", "a\\r\\nmcp-proxy: \\u{1b}[31mé"),
            ("\u{0}\u{7f}\u{80}\u{85}\u{9b}\u{9f}", "\\u{0}\\u{7f}\\u{80}\\u{85}\\u{9b}\\u{9f}"),
            ("\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}", "\\u{202a}\\u{202b}\\u{202c}\\u{202d}\\u{202e}"),
            ("\u{2066}\u{2067}\u{2068}\u{2069}", "\\u{2066}\\u{2067}\\u{2068}\\u{2069}"),
            ("\u{200e}\u{200f}\u{61c}", "\\u{200e}\\u{200f}\\u{61c}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            ("\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}", "\\u{200b}\\u{200c}\\u{200d}\\u{2060}\\u{feff}\\u{ad}"),
            ("\u{e0001}\u{e0041}\u{e007f}\u{e0100}", "\\u{e0001}\\u{e0041}\\u{e007f}\\u{e0100}"),
            ("\u{3164}\u{ffa0}\u{115f}\u{fff9}", "\\u{3164}\\u{ffa0}\\u{115f}\\u{fff9}"),
            ("tab\t", "tab\\t"),
            // A backslash in the peer's text is not doubled: this text is never parsed back.
            ("C:\\new", "C:\\new"),
            ("'quoted' \"text\"", "'quoted' \"text\""),
            ("naïve हिन्दी עברית 日本語 ❤\u{fe0f}", "naïve हिन्दी עברית 日本語 ❤\u{fe0f}"),
        ] {
            assert_eq!(escape_text(text, usize::MAX), escaped);
        }
    }

    #[test]
    fn a_text_is_cut_between_characters_of_its_own() {
        assert_eq!(escape_text("ééé", 3), "ééé");
        assert_eq!(escape_text("ééé", 2), "éé…");
        assert_eq!(escape_text("\n\n", 1), "\\n…");
        assert_eq!(escape_text("", 0), "");
        assert_eq!(escape_text("a", 0), "…");
    }
}
