//! YAML to JSON, by the core schema of YAML 1.2. The crate `saphyr-parser` reads the syntax.

use std::collections::BTreeSet;

use bytes::Bytes;
use mcp_model::JsonObject;
use mcp_proto::Json;
use saphyr_parser::{Event, Parser, ScalarStyle};

use super::error::InvalidFrontmatter;

/// How deep collections may be inside each other.
const DEEPEST: usize = 32;

/// Converts a document that is a mapping.
pub(super) fn to_object(yaml: &str) -> Result<JsonObject, InvalidFrontmatter> {
    let mut document = Document::default();
    for event in Parser::new_from_str(yaml) {
        // The parser counts lines from 1.
        let (event, span) = event.map_err(|error| InvalidFrontmatter::Yaml { line: error.marker().line() })?;
        document.add(event).map_err(|what| InvalidFrontmatter::Unsupported { line: span.start.line(), what })?;
    }
    let root = document.root.ok_or(InvalidFrontmatter::NoMapping)?;
    JsonObject::try_from(root).map_err(|_| InvalidFrontmatter::NoMapping)
}

/// The part of a document that was read.
#[derive(Default)]
struct Document {
    root: Option<Json>,
    /// The collections that have not ended.
    open: Vec<Collection>,
}

enum Collection {
    List(Vec<Json>),
    Mapping {
        members: Vec<(String, Json)>,
        names: BTreeSet<String>,
        /// The key whose value comes next.
        key: Option<String>,
    },
}

impl Document {
    fn add(&mut self, event: Event<'_>) -> Result<(), &'static str> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => Err("a second document"),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
            // An alias would make the result larger than the text.
            Event::Alias(_) => Err("an alias, which is not supported"),
            Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag)
                if anchor != 0 || tag.is_some() =>
            {
                Err("an anchor or a tag, which is not supported")
            }
            Event::Scalar(text, style, ..) => self.add_scalar(&text, style),
            Event::SequenceStart(..) => self.begin(Collection::List(Vec::new())),
            Event::MappingStart(..) => {
                self.begin(Collection::Mapping { members: Vec::new(), names: BTreeSet::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(collection) => self.add_value(collection.into_json()),
                None => Ok(()),
            },
        }
    }

    fn begin(&mut self, collection: Collection) -> Result<(), &'static str> {
        if matches!(self.open.last(), Some(Collection::Mapping { key: None, .. })) {
            return Err("a key that is no scalar");
        }
        if self.open.len() == DEEPEST {
            return Err("collections that are too deep inside each other");
        }
        self.open.push(collection);
        Ok(())
    }

    fn add_scalar(&mut self, text: &str, style: ScalarStyle) -> Result<(), &'static str> {
        if let Some(Collection::Mapping { names, key: key @ None, .. }) = self.open.last_mut() {
            if !names.insert(text.to_owned()) {
                return Err("a key that is there twice");
            }
            *key = Some(text.to_owned());
            return Ok(());
        }
        let value = match style {
            ScalarStyle::Plain => plain(text)?,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted | ScalarStyle::Literal | ScalarStyle::Folded => {
                Json::from(text)
            }
        };
        self.add_value(value)
    }

    fn add_value(&mut self, value: Json) -> Result<(), &'static str> {
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Collection::List(values)) => values.push(value),
            Some(Collection::Mapping { members, key, .. }) => match key.take() {
                Some(key) => members.push((key, value)),
                None => return Err("a key that is no scalar"),
            },
        }
        Ok(())
    }
}

impl Collection {
    fn into_json(self) -> Json {
        match self {
            Self::List(values) => Json::array(&values),
            Self::Mapping { members, .. } => {
                let members: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
                Json::empty_object().with_members(&members)
            }
        }
    }
}

/// The value of a scalar without quotation marks (YAML 1.2.2, section 10.3.2).
fn plain(text: &str) -> Result<Json, &'static str> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Json::from_valid_text(Bytes::from_static(b"null"))),
        "true" | "True" | "TRUE" => return Ok(true.into()),
        "false" | "False" | "FALSE" => return Ok(false.into()),
        ".nan" | ".NaN" | ".NAN" => return Err(NO_NUMBER),
        _ if matches!(unsigned, ".inf" | ".Inf" | ".INF") => return Err(NO_NUMBER),
        _ => {}
    }
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        let digits = text.strip_prefix(prefix).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)));
        if let Some(digits) = digits.filter(|digits| !digits.is_empty()) {
            return u64::from_str_radix(digits, radix).map(Json::from).map_err(|_| NO_NUMBER);
        }
    }
    if !is_decimal(unsigned) {
        return Ok(Json::from(text));
    }
    if let Ok(integer) = text.parse::<i64>() {
        return Ok(integer.into());
    }
    // Larger integers are rounded, as most parsers of JSON do it too.
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Json::from).ok_or(NO_NUMBER)
}

const NO_NUMBER: &str = "a number that JSON does not have";

/// Whether it has the form of a decimal number without a sign: `1`, `1.`, `.5`, `1.5e-3`.
fn is_decimal(text: &str) -> bool {
    let (number, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(number, rest)| (number, Some(rest)));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && are_digits(digits)
    });
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    has_digits && are_digits(whole) && are_digits(fraction) && is_exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_types_of_the_core_schema() {
        for (yaml, expected) in [
            ("a: text", r#"{"a":"text"}"#),
            ("a: 'it''s'\nb: \"x\\ty\"", r#"{"a":"it's","b":"x\ty"}"#),
            ("a: |\n  x\n  y\nb: >\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y\n"}"#),
            ("a: 12\nb: -012\nc: +3\nd: 0x1F\ne: 0o17", r#"{"a":12,"b":-12,"c":3,"d":31,"e":15}"#),
            ("a: 1.50\nb: .5\nc: 1.\nd: -1e3\ne: 1e+2", r#"{"a":1.5,"b":0.5,"c":1.0,"d":-1000.0,"e":100.0}"#),
            (
                "a: 1.2.3\nb: 0x\nc: 1e\nd: .\ne: '1'\nf: 0o9",
                r#"{"a":"1.2.3","b":"0x","c":"1e","d":".","e":"1","f":"0o9"}"#,
            ),
            ("a: true\nb: FALSE\nc: yes\nd: 'true'", r#"{"a":true,"b":false,"c":"yes","d":"true"}"#),
            ("a:\nb: ~\nc: null\nd: ''", r#"{"a":null,"b":null,"c":null,"d":""}"#),
            ("a: [1, {b: c}]\nd:\n- e\n- - f", r#"{"a":[1,{"b":"c"}],"d":["e",["f"]]}"#),
            ("1: a\ntrue: b\n# comment\n", r#"{"1":"a","true":"b"}"#),
            ("a: 2026-09-13\nb: 18446744073709551616", r#"{"a":"2026-09-13","b":1.8446744073709552e+19}"#),
            ("{}", "{}"),
        ] {
            let json = to_object(yaml).map(|object| object.as_json().to_text().into_owned());
            assert_eq!(json.as_deref(), Ok(expected), "{yaml}");
        }
    }

    #[test]
    fn what_json_does_not_have_is_refused_with_its_line() {
        let unsupported = |line, what| InvalidFrontmatter::Unsupported { line, what };
        for (yaml, expected) in [
            ("a: b\nc: &x d\n", unsupported(2, "an anchor or a tag, which is not supported")),
            ("a: !!str 1", unsupported(1, "an anchor or a tag, which is not supported")),
            ("a: *x", InvalidFrontmatter::Yaml { line: 1 }),
            ("a: b\na: c", unsupported(2, "a key that is there twice")),
            ("? [a]\n: b", unsupported(1, "a key that is no scalar")),
            ("a: .inf", unsupported(1, NO_NUMBER)),
            ("a: 1e999", unsupported(1, NO_NUMBER)),
            ("a: b\n...\n--- \nc: d\n", unsupported(3, "a second document")),
            ("a: [\n", InvalidFrontmatter::Yaml { line: 2 }),
            ("- a", InvalidFrontmatter::NoMapping),
            ("text", InvalidFrontmatter::NoMapping),
            ("", InvalidFrontmatter::NoMapping),
        ] {
            assert_eq!(to_object(yaml), Err(expected), "{yaml}");
        }
        let deep = format!("a: {}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
        assert_eq!(to_object(&deep), Err(unsupported(1, "collections that are too deep inside each other")));
    }
}
