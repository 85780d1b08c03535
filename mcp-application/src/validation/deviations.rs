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

/// Several deviations are stated if the bytes of the value times the keywords for one part of it are at most so many.
const MOST_WORK: usize = 32_768;

/// What is stated if no deviation is found.
const SOMEWHERE: &str = "value does not conform to the schema";

/// Finds the deviations of values that do not conform to a schema.
///
/// The library collects the deviations of all alternatives of a choice (`anyOf`, `oneOf`), and of their choices, before the first
/// one is taken: a few hundred bytes can cost gigabytes. It also applies a schema that leads to itself in two ways as often as
/// there are ways to each part of the value. Here, a choice is the double negation of itself, as is a reference by which this may
/// happen: of these, the library only finds out whether they hold.
pub(super) struct Deviations {
    /// `None` if the schema refers to what is inside of a choice.
    validator: Option<Validator>,
    /// The longest value, in bytes, of which all deviations are collected.
    longest_collected: usize,
    /// Members of one name are validated in the same way in all elements of a list.
    pub(super) is_uniform: bool,
}

impl Deviations {
    /// `is_recursive` states whether the schema may lead to itself.
    pub(super) fn new<E>(schema: &Value, is_recursive: bool, build: impl Fn(&Value) -> Result<Validator, E>) -> Self {
        let mut outline = Outline { negates_references: is_recursive && may_repeat(schema), ..Outline::default() };
        let schema = outline.of(schema);
        let longest_collected = if outline.has_references { 0 } else { MOST_WORK / most_keywords(&schema) };
        Self { validator: build(&schema).ok(), longest_collected, is_uniform: !outline.is_mixed }
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
            Some(validator) if length <= self.longest_collected => validator.iter_errors(value).collect(),
            Some(_) => self.first(value).into_iter().collect(),
            None => Vec::new(),
        };
        let any_is_preferred = errors.iter().any(&is_preferred);
        let stated = errors.iter().filter(|error| !any_is_preferred || is_preferred(error)).take(STATED).map(stated);
        let stated: Vec<_> = stated.collect();
        if stated.is_empty() { SOMEWHERE.to_owned() } else { stated.join("; ") }
    }
}

/// Whether an error is that a value does not conform to what is negated twice.
pub(super) fn is_negated_twice(error: &ValidationError<'_>) -> bool {
    negated(error).is_some()
}

/// The keyword that is negated twice.
fn negated(error: &ValidationError<'_>) -> Option<&'static str> {
    let ValidationErrorKind::Not { schema } = error.kind() else { return None };
    let is_negated = |keyword: &str| schema.get("not").is_some_and(|negated| negated.get(keyword).is_some());
    CHOICES.into_iter().chain(references::KEYWORDS).find(|keyword| is_negated(keyword))
}

const CHOICES: [&str; 2] = ["anyOf", "oneOf"];

/// Keywords by which the elements of a list, or objects with other members, are validated in different ways.
const MIXED: [&str; 5] = ["prefixItems", "then", "else", "dependentSchemas", "dependencies"];

/// Keywords whose schemas apply to a part of a value to which others beside them may apply, too. That of a negation or of a
/// condition is only asked whether it holds.
const REPEATED: [&str; 6] = ["allOf", "then", "else", "dependentSchemas", "dependencies", "patternProperties"];

/// Keywords that state something else about the whole value, or nothing, so that what is beside them does not apply to its parts.
const WITHOUT_PARTS: [&str; 13] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "title",
    "type",
];

/// Whether a schema may apply another one twice to the same part of a value.
fn may_repeat(value: &Value) -> bool {
    match value {
        Value::Object(keywords) => {
            let is_keyword = |keyword: &&str| keywords.get(*keyword).is_some_and(|value| !value.is_string());
            let references = keywords.keys().filter(|keyword| references::KEYWORDS.contains(&keyword.as_str())).count();
            let others = keywords.keys().filter(|keyword| !WITHOUT_PARTS.contains(&keyword.as_str())).count();
            REPEATED.iter().any(is_keyword) || (references > 0 && others > 1) || keywords.values().any(may_repeat)
        }
        Value::Array(schemas) => schemas.iter().any(may_repeat),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The largest number of keywords, and of names in their lists, that apply to one part of a value; at least one.
fn most_keywords(schema: &Value) -> usize {
    let below = match schema {
        Value::Object(keywords) => keywords.values().map(most_keywords).max(),
        Value::Array(schemas) => schemas.iter().map(most_keywords).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    keywords(schema).max(below.unwrap_or_default()).max(1)
}

/// The number of keywords of a schema, and of those that apply to the same part of a value.
fn keywords(schema: &Value) -> usize {
    let of = |(keyword, value): (&String, &Value)| match value {
        Value::Array(schemas) if keyword == "allOf" => schemas.iter().map(keywords).sum(),
        Value::Array(names) => names.len(),
        Value::Object(schemas) if REPEATED.contains(&keyword.as_str()) => {
            keywords(value) + schemas.values().map(keywords).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => 0,
    };
    schema.as_object().map_or(0, |keywords| keywords.iter().map(|keyword| 1 + of(keyword)).sum())
}

/// A schema with its choices negated twice, and its references if they are to be.
#[derive(Default)]
struct Outline {
    negates_references: bool,
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
        let mut negated = Vec::new();
        for (keyword, value) in keywords {
            let is_reference = value.is_string() && references::KEYWORDS.contains(&keyword.as_str());
            let is_choice = value.is_array() && CHOICES.contains(&keyword.as_str());
            self.has_references |= is_reference;
            self.is_mixed |= MIXED.contains(&keyword.as_str()) || (keyword == "items" && value.is_array());
            if is_choice || (is_reference && self.negates_references) {
                negated.push(serde_json::json!({ "not": { "not": { keyword: value } } }));
                continue;
            }
            let value = match (keyword.as_str(), value) {
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
        if !negated.is_empty() {
            let all = outline.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(all) = all {
                all.extend(negated);
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
    } else {
        match negated(error) {
            Some("oneOf") => {
                "value is not valid under exactly one of the schemas listed in the 'oneOf' keyword".to_owned()
            }
            Some("anyOf") => "value is not valid under any of the schemas listed in the 'anyOf' keyword".to_owned(),
            Some(_) => SOMEWHERE.to_owned(),
            None => error.masked().to_string(),
        }
    };
    let text = escape_text(&text, LONGEST);
    if path.is_empty() { text } else { format!("'{}': {text}", escape_text(&path, LONGEST)) }
}
