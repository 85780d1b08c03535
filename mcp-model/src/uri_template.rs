//! URI templates (RFC 6570, all levels): which URI a template makes of values, and which values a URI has.

mod expand;
mod matching;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use mcp_proto::Json;

/// A URI template (RFC 6570, levels 1 to 4), such as `repo://{owner}/{repo}/contents{/path*}{?ref}`.
///
/// # Example
///
/// ```
/// use std::collections::BTreeMap;
///
/// use mcp_model::{TemplateValue, UriTemplate};
///
/// let template: UriTemplate = "repo://{owner}/contents{/path*}{?ref}".parse()?;
/// let mut values = BTreeMap::new();
/// values.insert("owner".to_owned(), TemplateValue::from("ada"));
/// values.insert("path".to_owned(), TemplateValue::from(["src", "main.rs"]));
/// let uri = template.expand(&values);
/// assert_eq!(uri, "repo://ada/contents/src/main.rs");
/// assert_eq!(template.match_uri(&uri), Some(values));
/// # Ok::<(), mcp_model::InvalidUriTemplate>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTemplate {
    written: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Encoded, as in the URIs.
    Text(String),
    Expression(Expression),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Expression {
    operator: Operator,
    variables: Vec<Variable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    name: String,
    modifier: Modifier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Modifier {
    None,
    /// At most this number of characters of a text.
    Prefix(usize),
    /// Each item of a list, or member of a map, is like a value of its own.
    Explode,
}

/// What an expression begins with, and what follows from it (RFC 6570, appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    PathSegment,
    PathParameter,
    Query,
    QueryContinuation,
}

impl Operator {
    fn of(first: char) -> Option<Self> {
        Some(match first {
            '+' => Self::Reserved,
            '#' => Self::Fragment,
            '.' => Self::Label,
            '/' => Self::PathSegment,
            ';' => Self::PathParameter,
            '?' => Self::Query,
            '&' => Self::QueryContinuation,
            _ => return None,
        })
    }

    /// What the expansion begins with, unless no variable has a value.
    const fn first(self) -> Option<char> {
        match self {
            Self::Simple | Self::Reserved => None,
            Self::Fragment => Some('#'),
            Self::Label => Some('.'),
            Self::PathSegment => Some('/'),
            Self::PathParameter => Some(';'),
            Self::Query => Some('?'),
            Self::QueryContinuation => Some('&'),
        }
    }

    /// What is between two values.
    const fn separator(self) -> char {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ',',
            Self::Label => '.',
            Self::PathSegment => '/',
            Self::PathParameter => ';',
            Self::Query | Self::QueryContinuation => '&',
        }
    }

    /// Whether values are written with their names.
    const fn is_named(self) -> bool {
        matches!(self, Self::PathParameter | Self::Query | Self::QueryContinuation)
    }

    /// Whether reserved characters, such as `/`, are written as they are.
    const fn allows_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }
}

/// The value of a variable of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateValue {
    /// A text.
    Text(String),
    /// A list, which is written like no value if it is empty.
    List(Vec<String>),
    /// Names with values, which are written like no value if there are none.
    Map(Vec<(String, String)>),
}

impl From<&str> for TemplateValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for TemplateValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<String>> for TemplateValue {
    fn from(list: Vec<String>) -> Self {
        Self::List(list)
    }
}

impl<const N: usize> From<[&str; N]> for TemplateValue {
    fn from(list: [&str; N]) -> Self {
        Self::List(list.map(str::to_owned).to_vec())
    }
}

/// A text becomes a string, a list an array of strings, and a map an object.
impl From<&TemplateValue> for Json {
    fn from(value: &TemplateValue) -> Self {
        match value {
            TemplateValue::Text(text) => Self::from(text.as_str()),
            TemplateValue::List(list) => {
                let list: Vec<_> = list.iter().map(|text| Self::from(text.as_str())).collect();
                Self::array(&list)
            }
            TemplateValue::Map(members) => {
                let members: Vec<_> = members.iter().map(|(name, text)| (name, Self::from(text.as_str()))).collect();
                let members: Vec<_> = members.iter().map(|(name, text)| (name.as_str(), text)).collect();
                Self::empty_object().with_members(&members)
            }
        }
    }
}

/// A text is no URI template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URI template is invalid at its byte {at}: {reason}")]
pub struct InvalidUriTemplate {
    at: usize,
    reason: &'static str,
}

impl FromStr for UriTemplate {
    type Err = InvalidUriTemplate;

    fn from_str(text: &str) -> Result<Self, InvalidUriTemplate> {
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(inner) = rest.strip_prefix('{') {
                let invalid = |reason| InvalidUriTemplate { at, reason };
                let (inner, _) = inner.split_once('}').ok_or_else(|| invalid("'{' without '}'"))?;
                parts.push(Part::Expression(Expression::parse(inner).map_err(invalid)?));
                at += inner.len() + 2;
                continue;
            }
            let literal = rest.split('{').next().unwrap_or_default();
            if let Some(wrong) = literal.find(|c: char| c == '}' || c.is_ascii_control() || c == ' ') {
                return Err(InvalidUriTemplate { at: at + wrong, reason: "this character must be encoded" });
            }
            parts.push(Part::Text(encoded(literal, true)));
            at += literal.len();
        }
        Ok(Self { written: text.to_owned(), parts })
    }
}

impl Expression {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let first = text.chars().next().ok_or("an expression without a variable")?;
        let operator = Operator::of(first);
        let list = if operator.is_some() { text.get(1..).unwrap_or_default() } else { text };
        let variables = list.split(',').map(Variable::parse).collect::<Result<_, _>>()?;
        Ok(Self { operator: operator.unwrap_or(Operator::Simple), variables })
    }
}

impl Variable {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, modifier) = if let Some(name) = text.strip_suffix('*') {
            (name, Modifier::Explode)
        } else if let Some((name, length)) = text.split_once(':') {
            let is_length = (1..=4).contains(&length.len()) && length.bytes().all(|digit| digit.is_ascii_digit());
            let length = length.parse().ok().filter(|length| is_length && *length > 0);
            (name, Modifier::Prefix(length.ok_or("the length of a prefix must be 1 to 9999")?))
        } else {
            (text, Modifier::None)
        };
        if is_name(name) { Ok(Self { name: name.to_owned(), modifier }) } else { Err("this is no name of a variable") }
    }
}

/// Letters, digits, `_` and percent-encoded bytes, with single dots within them.
fn is_name(name: &str) -> bool {
    name.split('.').all(|part| {
        let mut bytes = part.bytes();
        let mut is_valid = !part.is_empty();
        while let Some(byte) = bytes.next() {
            is_valid &= match byte {
                b'%' => (0..2).all(|_| bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit())),
                other => other.is_ascii_alphanumeric() || other == b'_',
            };
        }
        is_valid
    })
}

/// The template as it was written.
impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Each byte that may not be in a URI as `%XX`, and each reserved character, unless these are allowed. With reserved
/// characters, what is encoded already stays so.
fn encoded(text: &str, allows_reserved: bool) -> String {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let mut encoded = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let is_unreserved = character.is_ascii_alphanumeric() || "-._~".contains(character);
        let is_reserved = ":/?#[]@!$&'()*+,;=".contains(character);
        if is_unreserved || allows_reserved && (is_reserved || is_escape(text, at)) {
            encoded.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            let digits = [byte >> 4, byte & 15].map(|digit| HEX.get(usize::from(digit)).copied().unwrap_or('0'));
            encoded.push('%');
            encoded.extend(digits);
        }
    }
    encoded
}

/// Whether `%XX` is there.
fn is_escape(text: &str, at: usize) -> bool {
    let escape = text.as_bytes().get(at..at + 3);
    escape.is_some_and(|escape| escape.starts_with(b"%") && escape.iter().skip(1).all(u8::is_ascii_hexdigit))
}
