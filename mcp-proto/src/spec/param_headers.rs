//! Headers that repeat the body, so that intermediaries can route a request without reading it.
//!
//! A client writes them and a server compares them with the body; both use the functions here.
//!
//! Rules: RULES 8.2, 8.3.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use crate::json::Json;
use crate::json::scan::{Kind, Scanner};
use crate::json::string::unquote;
use crate::spec::header::PARAM_PREFIX;
use crate::spec::schema_keyword::Holds;

/// The greatest depth to which a schema is read.
const DEPTH: usize = 64;
/// The most annotations of one tool.
const ANNOTATIONS: usize = 64;
/// The most bytes that the names on the path to one argument have together.
const PATH: usize = 1024;

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Encodes a text as a header value: unchanged, or in Base64 if it could be misinterpreted (MD-P-08, MD-H-06).
pub(crate) fn encode(text: &str) -> HeaderValue {
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let is_sentinel = text.starts_with(OPEN) && text.ends_with(CLOSE);
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !is_padded && !is_sentinel;
    let value = if is_plain {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("{OPEN}{}{CLOSE}", STANDARD.encode(text)))
    };
    // The text is visible ASCII and spaces here, which a header value may contain, so this cannot fail.
    value.unwrap_or(HeaderValue::from_static(""))
}

/// Decodes a header value; `None` if it contains invalid characters, or Base64 that is malformed or not UTF-8 (MD-H-03,
/// MD-P-09, MD-P-13). Surrounding white space is ignored (MD-H-04).
pub(crate) fn decode(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    match text.strip_prefix(OPEN).and_then(|text| text.strip_suffix(CLOSE)) {
        None => Some(Cow::Borrowed(text)),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
    }
}

/// The arguments of one tool that headers repeat, as annotated in its `inputSchema`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotations(Vec<Annotation>);

/// One argument that a header repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Annotation {
    header: HeaderName,
    /// The names of the properties on the path to it.
    path: Vec<Box<str>>,
}

impl Annotations {
    /// Reads the `x-mcp-header` annotations of a schema.
    ///
    /// # Errors
    ///
    /// [`InvalidAnnotation`] if an annotation has an invalid value or place, which makes the tool's definition invalid.
    ///
    /// Rules: MD-P-02 to MD-P-04.
    pub fn read(schema: &Json) -> Result<Self, InvalidAnnotation> {
        let mut reader = Reader {
            text: schema.as_bytes(),
            scanner: Scanner::new(schema.as_bytes(), DEPTH),
            path: Vec::new(),
            names: BTreeSet::new(),
            found: Vec::new(),
        };
        match reader.schema(true) {
            Ok(()) => Ok(Self(reader.found)),
            // A schema without annotations may be nested to any depth.
            Err(InvalidAnnotation::TooDeep) if !mentions_annotations(schema) => Ok(Self::default()),
            Err(invalid) => Err(invalid),
        }
    }

    /// Whether no argument is repeated in a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Approximate memory use in bytes.
    pub(crate) fn weight(&self) -> usize {
        let weight = |annotation: &Annotation| {
            let path: usize = annotation.path.iter().map(|name| name.len() + size_of::<Box<str>>()).sum();
            size_of::<Annotation>() + annotation.header.as_str().len() + path
        };
        self.0.iter().map(weight).sum()
    }

    /// Each header with its argument; `None` if the argument is absent.
    pub(crate) fn arguments(&self, arguments: Option<&Json>) -> impl Iterator<Item = (&HeaderName, Option<Json>)> {
        self.0.iter().map(move |annotation| {
            let mut names = annotation.path.iter();
            let first = arguments.cloned();
            (&annotation.header, names.try_fold(first, |value, name| Some(value?.first_member(name))).flatten())
        })
    }

    /// Each header with the text of its argument; `None` if the argument is absent or `null`, and no header is sent
    /// (MD-P-06).
    pub(crate) fn values(&self, arguments: Option<&Json>) -> impl Iterator<Item = (&HeaderName, Option<String>)> {
        self.arguments(arguments).map(|(header, value)| (header, value.as_ref().and_then(value_text)))
    }
}

/// Whether a header's text equals this argument; `None` if the argument must not have a header. Numbers are compared
/// numerically (MD-P-10).
pub(crate) fn matches(header: &str, argument: &Json) -> Option<bool> {
    let text = value_text(argument)?;
    let is_number = argument.as_bytes().first().is_some_and(|first| matches!(first, b'-' | b'0'..=b'9'));
    let is_json = || Json::parse(header.to_owned()).is_ok();
    Some(header == text || (is_number && is_json() && integer_text(header) == text))
}

/// MD-P-07: the text form of an argument; `None` for `null`, arrays and objects, which have no header.
fn value_text(value: &Json) -> Option<String> {
    let text = value.as_bytes();
    match text.first()? {
        b'"' => value.as_string().map(Cow::into_owned),
        b't' | b'f' => Some(value.to_text().into_owned()),
        b'-' | b'0'..=b'9' => Some(integer_text(&value.to_text())),
        _ => None,
    }
}

/// Integral numbers up to 2^53 - 1 in plain decimal form, such as `1.0` as `1`; other numbers unchanged.
#[must_use]
pub fn integer_text(number: &str) -> String {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    match number.parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && value.abs() <= EXACT => format!("{value:.0}"),
        Ok(_) | Err(_) => number.to_owned(),
    }
}

/// Why a tool's definition cannot be used over HTTP: its `x-mcp-header` annotations are invalid, or more than this
/// crate supports.
///
/// Rules: MD-P-05.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAnnotation {
    /// The value is not a string, is empty, or has characters that are invalid in a header name.
    ///
    /// Rules: MD-P-02.
    #[error("an 'x-mcp-header' is not a valid header name")]
    Name,
    /// Two annotations have the same name, compared without regard to case.
    ///
    /// Rules: MD-P-02.
    #[error("two 'x-mcp-header' have the same name")]
    Duplicate,
    /// The annotated property is not a string, an integer or a boolean.
    ///
    /// Rules: MD-P-03.
    #[error("an 'x-mcp-header' belongs to something else than a string, an integer or a boolean")]
    Type,
    /// The annotated schema is not reached through properties alone.
    ///
    /// Rules: MD-P-04.
    #[error("an 'x-mcp-header' belongs to something else than a property")]
    Place,
    /// There are more than 64 annotations, or the names on the path to one of them have more than 1 KiB.
    #[error("too many 'x-mcp-header', or names on the path to one that are too long")]
    TooMany,
    /// The schema is nested deeper than 64 levels.
    #[error("a schema with 'x-mcp-header' is nested too deep")]
    TooDeep,
}

fn mentions_annotations(schema: &Json) -> bool {
    memchr::memmem::find(schema.as_bytes(), b"x-mcp-header").is_some()
}

/// Reads a schema once, from left to right. It recurses as deep as the schema is nested, up to [`DEPTH`].
struct Reader<'t> {
    text: &'t [u8],
    scanner: Scanner<'t>,
    path: Vec<Box<str>>,
    names: BTreeSet<String>,
    found: Vec<Annotation>,
}

impl Reader<'_> {
    /// Reads a schema, or an array of schemas; `is_reachable` if the path consists of properties only.
    fn schema(&mut self, is_reachable: bool) -> Result<(), InvalidAnnotation> {
        match self.kind()? {
            Kind::Object => {}
            Kind::Array => return self.schemas(),
            Kind::String | Kind::Number | Kind::True | Kind::False | Kind::Null => return self.skip().map(drop),
        }
        let (mut annotation, mut kind) = (None, None);
        let mut more = self.enter()?;
        while more {
            match self.key()?.as_ref() {
                b"x-mcp-header" => annotation = Some(self.skip()?),
                b"type" => kind = Some(self.skip()?),
                keyword => match Holds::of(&String::from_utf8_lossy(keyword)) {
                    Holds::Properties => self.schemas_by_name(is_reachable)?,
                    Holds::SchemasByName => self.schemas_by_name(false)?,
                    Holds::Schemas | Holds::SchemaOrBoolean => self.schema(false)?,
                    Holds::Value => drop(self.skip()?),
                },
            }
            more = self.more(b'}')?;
        }
        match annotation {
            Some(name) => self.annotation(name, kind, is_reachable),
            None => Ok(()),
        }
    }

    fn schemas(&mut self) -> Result<(), InvalidAnnotation> {
        let mut more = self.enter()?;
        while more {
            self.schema(false)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    fn schemas_by_name(&mut self, is_reachable: bool) -> Result<(), InvalidAnnotation> {
        if self.kind()? != Kind::Object {
            return self.skip().map(drop);
        }
        let mut more = self.enter()?;
        while more {
            let name = self.key()?;
            if is_reachable {
                self.path.push(String::from_utf8_lossy(&name).into());
            }
            self.schema(is_reachable)?;
            if is_reachable {
                self.path.pop();
            }
            more = self.more(b'}')?;
        }
        Ok(())
    }

    fn annotation(&mut self, name: &[u8], kind: Option<&[u8]>, is_reachable: bool) -> Result<(), InvalidAnnotation> {
        if !is_reachable || self.path.is_empty() {
            return Err(InvalidAnnotation::Place);
        }
        if !matches!(kind.and_then(unquote).as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(InvalidAnnotation::Type);
        }
        let name = unquote(name).filter(|name| !name.is_empty()).ok_or(InvalidAnnotation::Name)?;
        // The name must be a token, in any case; with the prefix it is one if it was one before.
        let header: HeaderName = format!("{PARAM_PREFIX}{name}").parse().map_err(|_| InvalidAnnotation::Name)?;
        if self.found.len() >= ANNOTATIONS || self.path.iter().map(|name| name.len()).sum::<usize>() > PATH {
            return Err(InvalidAnnotation::TooMany);
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(InvalidAnnotation::Duplicate);
        }
        self.found.push(Annotation { header, path: self.path.clone() });
        Ok(())
    }

    fn kind(&mut self) -> Result<Kind, InvalidAnnotation> {
        self.scanner.peek_kind().map_err(|_| InvalidAnnotation::TooDeep)
    }

    // The text was validated before, so only its depth can cause an error.
    fn enter(&mut self) -> Result<bool, InvalidAnnotation> {
        self.scanner.enter().map_err(|_| InvalidAnnotation::TooDeep)
    }

    fn more(&mut self, close: u8) -> Result<bool, InvalidAnnotation> {
        self.scanner.next_element(close).map_err(|_| InvalidAnnotation::TooDeep)
    }
}

impl<'t> Reader<'t> {
    fn key(&mut self) -> Result<Cow<'t, [u8]>, InvalidAnnotation> {
        let key = self.scanner.key().map_err(|_| InvalidAnnotation::TooDeep)?;
        Ok(key.name(self.text).unwrap_or_default())
    }

    /// Skips a value, and returns its text.
    fn skip(&mut self) -> Result<&'t [u8], InvalidAnnotation> {
        let value = self.scanner.value().map_err(|_| InvalidAnnotation::TooDeep)?;
        Ok(value.text(self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).expect("the test's text is JSON")
    }

    fn read(properties: &str) -> Result<Annotations, InvalidAnnotation> {
        Annotations::read(&json(&format!(r#"{{"type":"object","properties":{properties}}}"#)))
    }

    #[test]
    fn every_byte_of_an_annotation_weighs() {
        let weight = |properties: &str| read(properties).unwrap().weight();
        let named =
            |property: &str, header: &str| format!(r#""{property}":{{"type":"string","x-mcp-header":"{header}"}}"#);
        let one = weight(&format!("{{{}}}", named("a", "A")));
        assert!(one >= size_of::<Annotation>() + PARAM_PREFIX.len() + "A".len() + size_of::<Box<str>>() + "a".len());
        let longer = format!("{{{}}}", named(&"a".repeat(101), &"A".repeat(201)));
        assert_eq!(weight(&longer) - one, 100 + 200);
        let two = format!("{{{},{}}}", named("a", "A"), named("b", "B"));
        assert_eq!(weight(&two), 2 * one);
        let nested = format!(r#"{{"object":{{"properties":{{{}}}}}}}"#, named("a", "A"));
        assert_eq!(weight(&nested) - one, size_of::<Box<str>>() + "object".len());
    }

    #[test]
    fn md_p_08_what_could_be_misread_is_base64() {
        for (text, value) in [
            ("us-west1", "us-west1"),
            ("us west 1", "us west 1"),
            ("", ""),
            (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
            ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
            ("=?BASE64?YQ==?=", "=?BASE64?YQ==?="),
        ] {
            assert_eq!(encode(text), value, "{text:?}");
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
    }

    #[test]
    fn hm4_md_p_13_malformed_base64_is_refused_and_an_incomplete_sentinel_is_a_text() {
        for (value, text) in [
            ("=?base64?YQ?=", None),
            ("=?base64?Y*==?=", None),
            ("=?base64?/w==?=", None),
            ("=?base64?YQ==", Some("=?base64?YQ==")),
            ("YQ==?=", Some("YQ==?=")),
            ("=?Base64?YQ==?=", Some("=?Base64?YQ==?=")),
            ("\ttext  ", Some("text")),
        ] {
            assert_eq!(decode(&HeaderValue::from_str(value).unwrap()).as_deref(), text, "{value}");
        }
        assert_eq!(decode(&HeaderValue::from_bytes(b"caf\xe9").unwrap()), None);
    }

    #[test]
    fn hm6_md_p_02_to_04_invalid_annotations_are_found() {
        use InvalidAnnotation as I;
        for (properties, expected) in [
            (r#"{"a":{"type":"string","x-mcp-header":""}}"#, I::Name),
            (r#"{"a":{"type":"string","x-mcp-header":7}}"#, I::Name),
            (r#"{"a":{"type":"string","x-mcp-header":"My Region"}}"#, I::Name),
            (r#"{"a":{"type":"string","x-mcp-header":"Region:Primary"}}"#, I::Name),
            (r#"{"a":{"type":"string","x-mcp-header":"Région"}}"#, I::Name),
            (r#"{"a":{"type":"string","x-mcp-header":"Region\t1"}}"#, I::Name),
            (r#"{"a":{"type":"number","x-mcp-header":"A"}}"#, I::Type),
            (r#"{"a":{"type":"object","x-mcp-header":"A"}}"#, I::Type),
            (r#"{"a":{"type":["string","null"],"x-mcp-header":"A"}}"#, I::Type),
            (r#"{"a":{"x-mcp-header":"A"}}"#, I::Type),
            (r#"{"a":{"type":"string","x-mcp-header":"My"},"b":{"type":"string","x-mcp-header":"my"}}"#, I::Duplicate),
            (r#"{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}"#, I::Place),
            (r#"{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}"#, I::Place),
            (r#"{"a":{"$defs":{"b":{"type":"string","x-mcp-header":"A"}}}}"#, I::Place),
            (r#"{"a":{"not":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}}"#, I::Place),
            (r#"{"a":{"additionalProperties":{"type":"string","x-mcp-header":"A"}}}"#, I::Place),
            (r#"{"a":{"dependencies":{"b":{"type":"string","x-mcp-header":"A"}}}}"#, I::Place),
        ] {
            assert_eq!(read(properties), Err(expected), "{properties}");
        }
        assert_eq!(Annotations::read(&json(r#"{"type":"string","x-mcp-header":"A"}"#)), Err(I::Place));
    }

    #[test]
    fn md_p_04_a_name_or_a_value_is_no_annotation() {
        for properties in [
            r#"{"x-mcp-header":{"type":"string"}}"#,
            r#"{"a":{"type":"object","default":{"x-mcp-header":"A"}}}"#,
            r#"{"a":{"enum":[{"x-mcp-header":""}],"const":{"x-mcp-header":""}}}"#,
            r#"{"a":{"items":{"properties":{"x-mcp-header":{"type":"null"}}}}}"#,
            r#"{"a":true,"b":{"properties":7}}"#,
            r#"{"a":{"required":["x-mcp-header"],"dependentRequired":{"x-mcp-header":["b"]}}}"#,
            r#"{"a":{"dependencies":{"x-mcp-header":["b"]}}}"#,
            r#"{"a":{"example":{"x-mcp-header":"A"},"x-vendor":{"properties":{"b":{"x-mcp-header":7}}}}}"#,
            r#"{"a":{"discriminator":{"mapping":{"x-mcp-header":"A"}},"$comment":{"x-mcp-header":"A"}}}"#,
        ] {
            assert_eq!(read(properties), Ok(Annotations::default()), "{properties}");
        }
        for (words, place) in
            [("dependentRequired", r#"{"x-mcp-header":["b"]}"#), ("x-vendor", r#"{"x-mcp-header":7}"#)]
        {
            let schema = format!(r#"{{"type":"object","{words}":{place}}}"#);
            assert_eq!(Annotations::read(&json(&schema)), Ok(Annotations::default()), "{schema}");
        }
        for names in ["$defs", "definitions", "patternProperties", "dependentSchemas"] {
            let named = format!(r#"{{"a":{{"{names}":{{"x-mcp-header":{{"type":"string"}}}}}}}}"#);
            assert_eq!(read(&named), Ok(Annotations::default()), "{named}");
        }
        for schema in ["true", "[]", "{}", "null"] {
            assert!(Annotations::read(&json(schema)).unwrap().is_empty());
        }
    }

    #[test]
    fn deep_schemas_are_refused_only_with_annotations() {
        let nested = |inner: &str| format!("{}{inner}{}", r#"{"properties":{"a":"#.repeat(50), "}}".repeat(50));
        assert!(Annotations::read(&json(&nested("{}"))).unwrap().is_empty());
        let annotated = json(&nested(r#"{"type":"string","x-mcp-header":"A"}"#));
        assert_eq!(Annotations::read(&annotated), Err(InvalidAnnotation::TooDeep));
        // A schema of exactly the greatest depth is read.
        let half = |inner: &str| format!("{}{inner}{}", r#"{"properties":{"a":"#.repeat(31), "}}".repeat(31));
        assert_eq!(
            Annotations::read(&json(&half(r#"{"type":"string","x-mcp-header":"A"}"#))).map(|a| a.0.len()),
            Ok(1)
        );
    }

    #[test]
    fn there_are_only_so_many_annotations_and_so_long_a_way_to_each() {
        let many = |count: usize| {
            let each = |number| format!(r#""{number}":{{"type":"string","x-mcp-header":"H{number}"}}"#);
            read(&format!("{{{}}}", (0..count).map(each).collect::<Vec<_>>().join(",")))
        };
        assert_eq!(many(ANNOTATIONS).map(|found| found.0.len()), Ok(ANNOTATIONS));
        assert_eq!(many(ANNOTATIONS + 1), Err(InvalidAnnotation::TooMany));
        let far = |length: usize| {
            let (near, rest) = ("n".repeat(24), "r".repeat(length - 24));
            read(&format!(r#"{{"{near}":{{"properties":{{"{rest}":{{"type":"string","x-mcp-header":"A"}}}}}}}}"#))
        };
        assert_eq!(far(PATH).map(|found| found.0.len()), Ok(1));
        assert_eq!(far(PATH + 1), Err(InvalidAnnotation::TooMany));
    }

    #[test]
    fn md_p_06_and_07_values_stand_at_their_paths_in_text_form() {
        let annotations = read(
            r#"{
                "region": {"type":"string","x-mcp-header":"Region"},
                "page": {"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Page"}}},
                "dry\u002drun": {"x-mcp-header":"Dry-Run","type":"boolean"}
            }"#,
        )
        .unwrap();
        for (arguments, expected) in [
            (r#"{"region":"eu","page":{"n":42},"dry-run":false}"#, [Some("eu"), Some("42"), Some("false")]),
            (r#"{"region":"","page":{"n":42.0}}"#, [Some(""), Some("42"), None]),
            (r#"{"region":null,"page":{"n":-4.2e1},"dry-run":null}"#, [None, Some("-42"), None]),
            (r#"{"region":"\u0041","page":{"n":9007199254740993}}"#, [Some("A"), Some("9007199254740993"), None]),
            (r#"{"page":{"n":42.5}}"#, [None, Some("42.5"), None]),
            (r#"{"page":{"n":1e16}}"#, [None, Some("1e16"), None]),
            (r#"{"page":{"n":9007199254740991.0}}"#, [None, Some("9007199254740991"), None]),
            (r#"{"region":["eu"],"page":7}"#, [None, None, None]),
            ("[]", [None, None, None]),
        ] {
            let arguments = json(arguments);
            let found: Vec<_> = annotations.values(Some(&arguments)).collect();
            let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["mcp-param-region", "mcp-param-page", "mcp-param-dry-run"]);
            let values: Vec<_> = found.iter().map(|(_, value)| value.as_deref()).collect();
            assert_eq!(values, expected, "{arguments:?}");
        }
        assert!(annotations.values(None).all(|(_, value)| value.is_none()));
    }

    #[test]
    fn md_p_05_a_schema_is_too_deep_wherever_it_has_one_level_more() {
        let inner = r#"{"a":{"type":"string","x-mcp-header":"A"}}"#;
        for (open, close, levels) in [
            (r#"{"properties":{"a":"#, "}}", 2),
            (r#"{"items":{"properties":{"a":"#, "}}}", 3),
            (r#"{"anyOf":[{"properties":{"a":"#, "}}]}", 4),
            (r#"{"items":"#, "}", 1),
            (r#"{"anyOf":["#, "]}", 2),
        ] {
            for count in 1..100 / levels {
                for own in [r#"{"properties":{"b":{}}}"#, r#"{"properties":{}}"#, r#"{"anyOf":[]}"#, "{}"] {
                    let deepest = count * levels + own.matches(['{', '[']).count();
                    let nested = format!("{}{own}{}", open.repeat(count), close.repeat(count));
                    // The annotation is in another place, so that the schema is read in any case.
                    let text = format!(r#"{{"properties":{inner},"z":{nested}}}"#);
                    let read = Annotations::read(&json(&text)).map(drop);
                    let expected = if deepest + 1 > DEPTH { Err(InvalidAnnotation::TooDeep) } else { Ok(()) };
                    assert_eq!(read, expected, "{deepest} {text}");
                }
            }
        }
    }
}
