//! Where and how a value deviates from a schema, in words.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{ValidationError, Validator};
use mcp_proto::escape_text;
use serde_json::{Map, Value};

use super::references;

/// The largest number of deviations that are stated.
const STATED: usize = 3;

/// The largest number of characters of what is stated about each.
const LONGEST: usize = 200;

/// The longest value, in bytes, of which several deviations are stated.
const SHORT: usize = 8192;

/// What is stated if no deviation is found.
const SOMEWHERE: &str = "value does not conform to the schema";

/// Finds the deviations of values that do not conform to a schema.
///
/// The library collects the deviations of all alternatives of a choice (`anyOf`, `oneOf`), and of their choices, before the first
/// one is taken: a few hundred bytes can cost gigabytes. Here, a choice is the double negation of itself, of which the library
/// only finds out whether it holds.
pub(super) struct Deviations {
    /// `None` if the schema refers to what is inside of a choice.
    validator: Option<Validator>,
    /// The work to collect all deviations is in proportion to the value.
    are_collected: bool,
    /// Members of one name are validated in the same way in all elements of a list.
    pub(super) is_uniform: bool,
}

impl Deviations {
    pub(super) fn new<E>(schema: &Value, build: impl Fn(&Value) -> Result<Validator, E>) -> Self {
        let mut outline = Outline::default();
        let schema = outline.of(schema);
        Self { validator: build(&schema).ok(), are_collected: !outline.has_references, is_uniform: !outline.is_mixed }
    }

    /// The first deviation.
    pub(super) fn first<'v>(&self, value: &'v Value) -> Option<ValidationError<'v>> {
        self.validator.as_ref()?.validate(value).err()
    }

    /// States the deviations of a value, whose text has so many bytes.
    pub(super) fn of(&self, value: &Value, length: usize) -> String {
        self.stated(value, length, |_| true)
    }

    /// As [`Deviations::of`], without those of members that are null if there are others.
    pub(super) fn but_for_nulls(&self, value: &Value, length: usize) -> String {
        self.stated(value, length, |error| !error.instance().is_null())
    }

    fn stated(&self, value: &Value, length: usize, is_preferred: impl Fn(&ValidationError<'_>) -> bool) -> String {
        let errors: Vec<_> = match &self.validator {
            Some(validator) if self.are_collected && length <= SHORT => validator.iter_errors(value).collect(),
            Some(_) => self.first(value).into_iter().collect(),
            None => Vec::new(),
        };
        let any_is_preferred = errors.iter().any(&is_preferred);
        let stated = errors.iter().filter(|error| !any_is_preferred || is_preferred(error)).take(STATED).map(stated);
        let stated: Vec<_> = stated.collect();
        if stated.is_empty() { SOMEWHERE.to_owned() } else { stated.join("; ") }
    }
}

/// Whether an error is that a value conforms to no alternative of a choice.
pub(super) fn is_choice(error: &ValidationError<'_>) -> bool {
    choice(error).is_some()
}

/// The keyword of the choice.
fn choice(error: &ValidationError<'_>) -> Option<&'static str> {
    let ValidationErrorKind::Not { schema } = error.kind() else { return None };
    CHOICES.into_iter().find(|keyword| schema.get("not").is_some_and(|negated| negated.get(keyword).is_some()))
}

const CHOICES: [&str; 2] = ["anyOf", "oneOf"];

/// Keywords by which the elements of a list, or objects with other members, are validated in different ways.
const MIXED: [&str; 5] = ["prefixItems", "then", "else", "dependentSchemas", "dependencies"];

/// A schema with its choices negated twice.
#[derive(Default)]
struct Outline {
    has_references: bool,
    is_mixed: bool,
}

impl Outline {
    /// `value` is a schema, or contains some: a reference may lead to any place, whatever the keyword.
    fn of(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(keywords) => self.of_keywords(keywords),
            Value::Array(schemas) => schemas.iter().map(|schema| self.of(schema)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }

    fn of_keywords(&mut self, keywords: &Map<String, Value>) -> Value {
        let mut outline = Map::new();
        let mut choices = Vec::new();
        for (keyword, value) in keywords {
            self.has_references |= references::KEYWORDS.contains(&keyword.as_str());
            self.is_mixed |= MIXED.contains(&keyword.as_str()) || (keyword == "items" && value.is_array());
            let value = match (keyword.as_str(), value) {
                (keyword, Value::Array(_)) if CHOICES.contains(&keyword) => {
                    choices.push(serde_json::json!({ "not": { "not": { keyword: value } } }));
                    continue;
                }
                // What a choice has evaluated is not known outside of its negation.
                ("unevaluatedItems" | "unevaluatedProperties", _) => continue,
                (
                    "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies",
                    Value::Object(members),
                ) => members.iter().map(|(name, schema)| (name.clone(), self.of(schema))).collect(),
                ("const" | "enum", _) => value.clone(),
                (_, value) => self.of(value),
            };
            outline.insert(keyword.clone(), value);
        }
        if !choices.is_empty() {
            let all = outline.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(all) = all {
                all.extend(choices);
            }
        }
        Value::Object(outline)
    }
}

/// The path and what is wrong there, as a line of text.
pub(super) fn stated(error: &ValidationError<'_>) -> String {
    let mut path = String::new();
    for segment in error.instance_path().segments() {
        match segment {
            LocationSegment::Property(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&name);
            }
            LocationSegment::Index(index) => path.extend(["[", &index.to_string(), "]"]),
        }
    }
    let is_false = matches!(error.kind(), ValidationErrorKind::FalseSchema);
    let text = if is_false && error.schema_path().as_str().ends_with("/additionalProperties") {
        "there are members, and none is allowed".to_owned()
    } else if is_false {
        "no value is allowed here".to_owned()
    } else if let Some(keyword) = choice(error) {
        let number = if keyword == "oneOf" { "exactly one" } else { "any" };
        format!("value is not valid under {number} of the schemas listed in the '{keyword}' keyword")
    } else {
        error.masked().to_string()
    };
    let text = escape_text(&text, LONGEST);
    if path.is_empty() { text } else { format!("'{}': {text}", escape_text(&path, LONGEST)) }
}
