//! The forms in which servers may read a name or URI.
//!
//! A server may decode the escapes of a URI once or again, take a backslash for a slash and several slashes for one, drop the
//! fragment or the query, join the host to the path, or find the drive of Windows anywhere in it. A rule is compared with all of
//! these.

use super::canonical_uri::decoded;
use super::glob::Glob;

/// How a URI, and the pattern that it is compared with, are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decoding {
    None,
    Once,
    /// Until no escapes are left.
    Repeated,
}

impl Decoding {
    const EACH: [Self; 3] = [Self::None, Self::Once, Self::Repeated];

    /// Decodes a text. A decoded text has slashes instead of backslashes, and no empty segments.
    fn of(self, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            Self::Once => without_empty_segments(&decoded(text, false)),
            Self::Repeated => without_empty_segments(&decoded(text, true)),
        }
    }
}

/// A form of a name or URI.
#[derive(Debug)]
pub(super) struct Reading {
    decoding: Decoding,
    text: String,
    /// The text without case.
    folded: String,
    /// The forms, without case, for servers that join the host to the path or do not distinguish the two, or that read a path
    /// of Windows.
    joined: Vec<String>,
    /// Where the query of a URI begins.
    query: Option<usize>,
    /// Whether the query was dropped.
    is_without_query: bool,
}

/// The one reading of the name of a tool or prompt.
pub(super) fn of_name(name: &str) -> Vec<Reading> {
    vec![Reading {
        decoding: Decoding::None,
        text: name.to_owned(),
        folded: without_case(name),
        joined: Vec::new(),
        query: None,
        is_without_query: false,
    }]
}

/// The readings of a canonical URI.
pub(super) fn of_uri(uri: &str) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    for decoding in Decoding::EACH {
        for (cut, is_cut) in cuts(uri) {
            let text = decoding.of(cut);
            for (cut, is_cut_again) in cuts(&text) {
                let is_without_query = is_cut || is_cut_again;
                let is_same = |other: &Reading| {
                    (other.decoding, &*other.text, other.is_without_query) == (decoding, cut, is_without_query)
                };
                if !readings.iter().any(is_same) {
                    readings.push(Reading::of_uri(decoding, cut, is_without_query));
                }
            }
        }
    }
    readings
}

/// The readings of a URI template, which servers compare as a whole.
pub(super) fn of_template(template: &str) -> Vec<Reading> {
    let each = Decoding::EACH.into_iter();
    each.map(|decoding| Reading { query: None, ..Reading::of_uri(decoding, &decoding.of(template), false) }).collect()
}

impl Reading {
    fn of_uri(decoding: Decoding, text: &str, is_without_query: bool) -> Self {
        let folded = without_case(text);
        let whole = (decoding != Decoding::None).then(|| folded.clone());
        Self {
            decoding,
            text: text.to_owned(),
            joined: whole.into_iter().chain(on_drive(&folded)).flat_map(|text| joined(&text)).collect(),
            folded,
            query: text.find('?'),
            is_without_query,
        }
    }
}

/// A text, the text without its fragment, and the text without its query; each with whether the query was dropped.
fn cuts(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let end_of = |symbols: &[char]| text.find(symbols).and_then(|end| text.get(..end));
    let without_query = text.contains('?').then(|| end_of(&['?', '#'])).flatten();
    let whole = std::iter::once((text, false));
    whole.chain(end_of(&['#']).map(|cut| (cut, false))).chain(without_query.map(|cut| (cut, true)))
}

/// A text with slashes instead of backslashes, and without empty segments after its scheme.
fn without_empty_segments(text: &str) -> String {
    let text = text.replace('\\', "/");
    match text.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", with_single_slashes(rest)),
        None => with_single_slashes(&text),
    }
}

fn with_single_slashes(text: &str) -> String {
    let mut last = None;
    text.chars().filter(|symbol| last.replace(*symbol) != Some('/') || *symbol != '/').collect()
}

/// A URI with one slash after its scheme, and with none.
fn joined(uri: &str) -> Vec<String> {
    let single = with_single_slashes(uri);
    let single = single.trim_end_matches('/');
    match single.split_once(':') {
        Some((scheme, rest)) => {
            let rest = rest.trim_start_matches('/');
            vec![format!("{scheme}:{rest}"), format!("{scheme}:/{rest}")]
        }
        None => vec![single.to_owned()],
    }
}

/// A URI of a file, without case, from its first drive of Windows on. The WHATWG URL standard has drives at the beginning of the
/// path; `nturl2path` of Python takes the letter before the only `:` or `|` for one, wherever it is.
fn on_drive(folded: &str) -> Option<String> {
    let path = folded.strip_prefix("FILE:")?;
    path.match_indices([':', '|']).find_map(|(mark, _)| {
        let letter = path.get(mark.checked_sub(1)?..mark)?;
        let after = path.get(mark + 1..)?;
        letter.starts_with(|letter: char| letter.is_ascii_alphabetic()).then(|| format!("FILE:{letter}:/{after}"))
    })
}

/// The pattern that is compared with the results of [`joined`].
fn joined_pattern(pattern: &str) -> String {
    let single = with_single_slashes(pattern);
    let single = single.trim_end_matches('/');
    match single.split_once(":/") {
        Some((scheme, rest)) if !scheme.contains(['*', '?', '/', ':']) => format!("{scheme}:{rest}"),
        Some(_) | None => single.to_owned(),
    }
}

/// A pattern that is compared with all readings of a name or URI.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    forms: Vec<PatternForm>,
}

#[derive(Debug, Clone)]
struct PatternForm {
    decoding: Decoding,
    exact: Glob,
    folded: Glob,
    joined: Glob,
}

impl Pattern {
    /// A pattern of names.
    pub(super) fn of_names(pattern: &str) -> Self {
        Self { forms: vec![PatternForm::new(Decoding::None, pattern)] }
    }

    /// A pattern of URIs and URI templates.
    pub(super) fn of_uris(pattern: &str) -> Self {
        let each = Decoding::EACH.into_iter();
        let decode = |decoding: Decoding| match decoding {
            Decoding::None => pattern.to_owned(),
            // An escaped wildcard is an ordinary character, and a `?` stands for it.
            Decoding::Once | Decoding::Repeated => decoding.of(&pattern.replace("%2A", "?")),
        };
        Self { forms: each.map(|decoding| PatternForm::new(decoding, &decode(decoding))).collect() }
    }

    /// Whether it matches every reading, as it is written. A query matches only where the pattern has a `?`, or if the URI
    /// also matches without it, because servers may ignore it.
    pub(super) fn matches_all(&self, readings: &[Reading]) -> bool {
        let mut needed = readings.iter().filter(|reading| !reading.is_without_query);
        needed.all(|reading| {
            self.forms_for(reading).all(|form| {
                let is_query_matched = |at: usize| {
                    reading.text.get(..at).is_some_and(|before| form.exact.matches(before))
                        || form.exact.matches_with_query(&reading.text, at)
                };
                form.exact.matches(&reading.text) && reading.query.is_none_or(is_query_matched)
            })
        })
    }

    /// Whether it matches any reading, in upper and lower case.
    pub(super) fn matches_any(&self, readings: &[Reading]) -> bool {
        readings.iter().any(|reading| {
            self.forms_for(reading).any(|form| {
                form.exact.matches(&reading.text)
                    || form.folded.matches(&reading.folded)
                    || reading.joined.iter().any(|joined| form.joined.matches(joined))
            })
        })
    }

    fn forms_for<'r>(&'r self, reading: &'r Reading) -> impl Iterator<Item = &'r PatternForm> {
        self.forms.iter().filter(|form| form.decoding == reading.decoding)
    }
}

impl PatternForm {
    fn new(decoding: Decoding, pattern: &str) -> Self {
        let folded = without_case(pattern);
        Self {
            decoding,
            exact: Glob::new(pattern),
            joined: Glob::new(&joined_pattern(&folded)),
            folded: Glob::new(&folded),
        }
    }
}

/// Makes letters equal that differ only in case. The case is converted in both directions, because some letters, such
/// as the sign of kelvin, have the case of others in only one.
pub(super) fn without_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(uri: &str, decoding: Decoding) -> Vec<String> {
        of_uri(uri).into_iter().filter(|reading| reading.decoding == decoding).map(|reading| reading.text).collect()
    }

    #[test]
    fn a_uri_is_read_with_and_without_what_servers_drop_and_decode() {
        let uri = "file:///a%2F%252Fb%5C?q#f";
        assert_eq!(texts(uri, Decoding::None), [uri, "file:///a%2F%252Fb%5C?q", "file:///a%2F%252Fb%5C"]);
        let once = texts(uri, Decoding::Once);
        assert_eq!(once, ["file:///a/%2Fb/?q#f", "file:///a/%2Fb/?q", "file:///a/%2Fb/"]);
        assert_eq!(texts(uri, Decoding::Repeated)[2], "file:///a/b/");
        // An escaped character may separate parts when it is decoded.
        assert!(texts("note:a%3Fb%23c", Decoding::Once).contains(&"note:a".to_owned()));
        assert!(texts("note:a%23c", Decoding::Once).contains(&"note:a".to_owned()));
        assert_eq!(texts("note:a", Decoding::None), ["note:a"]);
    }

    #[test]
    fn a_host_may_be_the_first_segment_of_the_path() {
        for uri in ["docs:a/b", "docs:/a/b", "docs://a/b", "docs:///a//b/"] {
            assert_eq!(joined(uri), ["docs:a/b", "docs:/a/b"], "{uri}");
        }
        assert_eq!(joined("no scheme"), ["no scheme"]);
        for (pattern, joined) in [
            ("docs://a/*", "docs:a/*"),
            ("docs:a/", "docs:a"),
            ("*://a/*", "*:/a/*"),
            ("*/a//b", "*/a/b"),
            ("d?cs://a", "d?cs:/a"),
            ("*", "*"),
        ] {
            assert_eq!(joined_pattern(pattern), joined, "{pattern}");
        }
    }

    #[test]
    fn a_path_may_begin_with_a_drive_anywhere() {
        for (uri, read) in [
            ("FILE:///C:/A", Some("FILE:C://A")),
            ("FILE:///A/C|B", Some("FILE:C:/B")),
            ("FILE:///1:C|/X:Y", Some("FILE:C://X:Y")),
            ("FILE:///1:/Ä:/:", None),
            ("FILE::", None),
            ("DOCS:///C:/A", None),
        ] {
            assert_eq!(on_drive(uri).as_deref(), read, "{uri}");
        }
    }

    #[test]
    fn an_escaped_wildcard_of_a_pattern_is_a_character() {
        let pattern = Pattern::of_uris("file:///a%2Ab");
        assert!(pattern.matches_any(&of_uri("file:///a%2Ab")) && pattern.matches_any(&of_uri("file:///a*b")));
        assert!(!pattern.matches_any(&of_uri("file:///a/long/way/b")));
        assert!(Pattern::of_uris("file:///a%2Ab").matches_all(&of_uri("file:///a%2Ab")));
    }
}
