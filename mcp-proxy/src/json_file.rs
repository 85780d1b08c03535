//! A JSON file that a person writes: with comments and trailing commas, as editors allow them, and with the place of each
//! mistake.

use std::collections::BTreeSet;
use std::fmt;

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use mcp_proto::escape_text;

/// A mistake in a file, for the user. It contains no value of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The line, counted from 1.
    line: usize,
    text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl From<Mistake> for String {
    fn from(mistake: Mistake) -> Self {
        mistake.to_string()
    }
}

/// The most objects and arrays within each other, because each takes a part of the stack of the parser.
const MAX_DEPTH: usize = 128;

/// Reads the text of a file.
///
/// # Errors
///
/// If it is no JSON, or has too many objects and arrays within each other.
pub(crate) fn parse(text: &str) -> Result<Value<'_>, Mistake> {
    check_depth(text)?;
    let options =
        ParseOptions { allow_comments: true, allow_trailing_commas: true, allow_loose_object_property_names: false };
    let parsed = parse_to_ast(without_mark(text), &CollectOptions::default(), &options).map_err(|error| {
        let place = format!("column {}: {}", error.column_display(), error.kind());
        Mistake { line: error.line_display(), text: place }
    })?;
    parsed.value.ok_or_else(|| Mistake { line: 1, text: "the file is empty".to_owned() })
}

/// Checks how many brackets are open at one time. A closing one counts only outside of strings and comments.
fn check_depth(text: &str) -> Result<(), Mistake> {
    let (mut depth, mut line) = (0_usize, 1);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => string_length(rest, first),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => first.len_utf8(),
        };
        match first {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Mistake { line, text: format!("more than {MAX_DEPTH} brackets are open") });
        }
        let (passed, next) = rest.split_at(length);
        line += passed.matches('\n').count();
        rest = next;
    }
    Ok(())
}

/// The bytes of the string at the beginning of the text, which ends with `quote`.
fn string_length(text: &str, quote: char) -> usize {
    let mut is_escaped = true;
    for (at, character) in text.char_indices() {
        if character == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = at > 0 && character == '\\' && !is_escaped;
    }
    text.len()
}

/// The text without the byte order mark that some editors write.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A value in a file.
#[derive(Clone)]
pub(crate) struct Node<'t> {
    value: &'t Value<'t>,
    /// Where it stands, such as `mcpServers.files.args[0]`; empty for the whole file.
    path: String,
    text: &'t str,
}

impl<'t> Node<'t> {
    /// The whole file with this text.
    pub(crate) fn file(value: &'t Value<'t>, text: &'t str) -> Self {
        Self { value, path: String::new(), text: without_mark(text) }
    }

    /// The mistake that this value is: the predicate follows the place, as in "must be a string".
    pub(crate) fn mistake(&self, predicate: impl fmt::Display) -> Mistake {
        let place = if self.path.is_empty() { "the file" } else { &self.path };
        self.mistake_here(format!("{place} {predicate}"))
    }

    /// The mistake with this text in the line of this value.
    pub(crate) fn mistake_here(&self, text: String) -> Mistake {
        let before = self.text.get(..self.value.range().start).unwrap_or_default();
        Mistake { line: before.matches('\n').count() + 1, text }
    }

    /// Where it stands.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn at(&self, value: &'t Value<'t>, path: String) -> Self {
        Self { value, path, text: self.text }
    }

    /// The names and values of an object.
    pub(crate) fn object(&self) -> Result<Object<'t>, Mistake> {
        let object = self.value.as_object().ok_or_else(|| self.mistake("must be an object"))?;
        let (mut members, mut names) = (Vec::new(), BTreeSet::new());
        for property in &object.properties {
            let (ObjectPropName::String(name), value) = (&property.name, &property.value) else {
                return Err(self.mistake("has a name that is no string"));
            };
            let name: &str = &name.value;
            let dot = if self.path.is_empty() { "" } else { "." };
            let node = self.at(value, format!("{}{dot}{}", self.path, escape_text(name, 80)));
            if !names.insert(name) {
                return Err(node.mistake("is there twice"));
            }
            members.push((name.to_owned(), node));
        }
        Ok(Object(members))
    }

    /// The elements of an array.
    pub(crate) fn array(&self) -> Result<Vec<Self>, Mistake> {
        let array = self.value.as_array().ok_or_else(|| self.mistake("must be an array"))?;
        let element = |(index, value)| self.at(value, format!("{}[{index}]", self.path));
        Ok(array.elements.iter().enumerate().map(element).collect())
    }

    /// The text of a string.
    pub(crate) fn string(&self) -> Result<&'t str, Mistake> {
        let string = self.value.as_string_lit().ok_or_else(|| self.mistake("must be a string"))?;
        Ok(&string.value)
    }

    /// The digits of a number.
    pub(crate) fn number(&self) -> Option<&'t str> {
        self.value.as_number_lit().map(|number| number.value)
    }

    /// A truth value.
    pub(crate) fn boolean(&self) -> Option<bool> {
        self.value.as_boolean_lit().map(|boolean| boolean.value)
    }

    pub(crate) const fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    pub(crate) const fn is_array(&self) -> bool {
        matches!(self.value, Value::Array(_))
    }
}

/// The members of an object, in the order of the file. Each name occurs once.
pub(crate) struct Object<'t>(Vec<(String, Node<'t>)>);

impl<'t> Object<'t> {
    pub(crate) fn get(&self, name: &str) -> Option<&Node<'t>> {
        self.iter().find_map(|(own, node)| (own == name).then_some(node))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node<'t>)> {
        self.0.iter().map(|(name, node)| (name.as_str(), node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_read_and_names_without_quotes_are_not() {
        let text = "\u{feff}// a\n{ /* b */ \"x\": [1, true,],\n}";
        let value = parse(text).unwrap();
        let node = Node::file(&value, text).object().unwrap().get("x").cloned().unwrap();
        let elements = node.array().unwrap();
        assert_eq!((elements[0].number(), elements[1].boolean()), (Some("1"), Some(true)));
        for other in ["{x:1}", "[NaN]", "[\"\\x41\"]", "", "{}{}"] {
            assert!(parse(other).is_err(), "{other}");
        }
        for open in ["[", r#"["]","#, r#"["\"]","#, "[//]\n", "[/*]*/"] {
            assert!(parse(&open.repeat(100_000)).is_err(), "{open}");
        }
    }

    #[test]
    fn a_mistake_names_its_line_and_its_place_but_no_value() {
        let text = "{\n  \"a\": {\n    \"b\": [\"x\",\n 4711]\n  }, \"c\": 1,\n\"c\": 2\n}";
        let value = parse(text).unwrap();
        let file = Node::file(&value, text);
        assert_eq!(file.object().err().unwrap().to_string(), "line 6: c is there twice");
        assert_eq!(file.array().err().unwrap().to_string(), "line 1: the file must be an array");
        let text = text.replace("\"c\": 1,", "");
        let value = parse(&text).unwrap();
        let a = Node::file(&value, &text).object().unwrap().get("a").cloned().unwrap();
        let b = a.object().unwrap().get("b").cloned().unwrap();
        assert_eq!(b.string().unwrap_err().to_string(), "line 3: a.b must be a string");
        let elements = b.array().unwrap();
        assert_eq!(elements[1].string().unwrap_err().to_string(), "line 4: a.b[1] must be a string");
        let error = parse("{\n \"token\": secret-4711 }").unwrap_err().to_string();
        assert!(error.starts_with("line 2: column 11: ") && !error.contains("4711"), "{error}");
    }
}
