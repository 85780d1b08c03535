//! JSON Schemas, and values that do not conform to them.

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{PatternOptions, ValidationError, Validator};
use mcp_model::{Payload, RequestedSchema};
use mcp_proto::{Json, escape_text};
use serde_json::Value;

/// The largest number of deviations that an error states.
const STATED: usize = 3;

/// The largest number of characters of what it states about each.
const LONGEST: usize = 200;

/// A JSON Schema against which values are validated. Clones share it.
///
/// # Example
///
/// ```
/// use mcp_application::validation::CompiledSchema;
/// use mcp_proto::Json;
///
/// let schema = Json::parse(r#"{"properties":{"stops":{"items":{"properties":{"price":{"minimum":0}}}}}}"#)?;
/// let schema = CompiledSchema::new(&schema)?;
/// assert!(schema.validate(&Json::parse(r#"{"stops":[{"price":1}]}"#)?).is_ok());
/// let mismatch = schema.validate(&Json::parse(r#"{"stops":[{"price":1},{"price":-1}]}"#)?).unwrap_err();
/// assert_eq!(mismatch.to_string(), "'stops[1].price': value is less than the minimum of 0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CompiledSchema(Arc<Validator>);

/// A schema that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(Box<str>);

/// A value that does not conform to a schema. The text states at most three deviations, each with its path, and no values; it
/// may name members of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaMismatch(Box<str>);

crate::opaque_debug!(CompiledSchema);

impl SchemaMismatch {
    pub(super) fn no_content() -> Self {
        Self("there is no structured content, although the tool has an outputSchema".into())
    }
}

impl CompiledSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// It is no JSON Schema, refers to another document, or has a pattern that cannot be matched in linear time.
    pub fn new(schema: &Json) -> Result<Self, InvalidSchema> {
        Self::compile(schema, false)
    }

    /// Compiles the schema of a form, in which formats such as `email` are asserted.
    ///
    /// # Errors
    ///
    /// As for [`CompiledSchema::new`].
    pub fn of_form(form: &RequestedSchema) -> Result<Self, InvalidSchema> {
        Self::compile(&form.to_json(), true)
    }

    fn compile(schema: &Json, asserts_formats: bool) -> Result<Self, InvalidSchema> {
        let schema: Value = schema.read().map_err(|_| InvalidSchema(NESTED.into()))?;
        // Offline whatever features of `jsonschema` other crates have enabled.
        let mut options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
        if asserts_formats {
            options = options.should_validate_formats(true);
        }
        let validator = options.build(&schema).map_err(|error| InvalidSchema(stated(&error).into()))?;
        Ok(Self(Arc::new(validator)))
    }

    /// Validates a value.
    ///
    /// # Errors
    ///
    /// It does not conform to the schema.
    pub fn validate(&self, value: &Json) -> Result<(), SchemaMismatch> {
        let value: Value = value.read().map_err(|_| SchemaMismatch(NESTED.into()))?;
        let deviations: Vec<_> = self.0.iter_errors(&value).take(STATED).map(|error| stated(&error)).collect();
        if deviations.is_empty() { Ok(()) } else { Err(SchemaMismatch(deviations.join("; ").into())) }
    }
}

const NESTED: &str = "it is nested too deeply to be validated";

/// The path and what is wrong there, as a line of text.
fn stated(error: &ValidationError<'_>) -> String {
    let mut path = String::new();
    for segment in error.instance_path().segments() {
        match segment {
            LocationSegment::Property(name) if path.is_empty() => path.push_str(&name),
            LocationSegment::Property(name) => path = format!("{path}.{name}"),
            LocationSegment::Index(index) => path = format!("{path}[{index}]"),
        }
    }
    let is_false = matches!(error.kind(), ValidationErrorKind::FalseSchema);
    let text = if is_false && error.schema_path().as_str().ends_with("/additionalProperties") {
        "there are members, and none is allowed".to_owned()
    } else if is_false {
        "no value is allowed here".to_owned()
    } else {
        error.masked().to_string()
    };
    let text = escape_text(&text, LONGEST);
    if path.is_empty() { text } else { format!("'{}': {text}", escape_text(&path, LONGEST)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(schema: &str) -> Result<CompiledSchema, InvalidSchema> {
        CompiledSchema::new(&Json::parse(schema.to_owned()).unwrap())
    }

    fn mismatch(schema: &str, value: &str) -> Option<String> {
        let outcome = compiled(schema).unwrap().validate(&Json::parse(value.to_owned()).unwrap());
        outcome.err().map(|mismatch| mismatch.to_string())
    }

    #[test]
    fn an_error_names_the_path_and_no_value() {
        for (schema, value, expected) in [
            (r#"{"type":"object"}"#, "{}", None),
            (r#"{"type":"integer"}"#, "5.0", None),
            (r#"{"type":"object"}"#, "7", Some(r#"value is not of type "object""#)),
            (r#"{"additionalProperties":false}"#, r#"{"a":1}"#, Some("there are members, and none is allowed")),
            (r#"{"properties":{"a":false}}"#, r#"{"a":1}"#, Some("'a': no value is allowed here")),
            (r#"{"required":["a"]}"#, "{}", Some(r#""a" is a required property"#)),
            (
                r#"{"properties":{"a":{"items":{"maxLength":3}}}}"#,
                r#"{"a":["abc","secret"]}"#,
                Some("'a[1]': value is longer than 3 characters"),
            ),
            (
                r#"{"items":{"type":"string"}}"#,
                "[1,2,3,4]",
                Some(
                    r#"'[0]': value is not of type "string"; '[1]': value is not of type "string"; '[2]': value is not of type "string""#,
                ),
            ),
        ] {
            assert_eq!(mismatch(schema, value).as_deref(), expected, "{schema} {value}");
        }
        let closed = r#"{"properties":{"a":{}},"additionalProperties":false}"#;
        let long = format!(r#"{{"{}":1}}"#, "n".repeat(100_000));
        let text = mismatch(closed, &long).unwrap();
        assert!(text.chars().count() < 300 && text.contains("nnn"), "{text}");
        let control = mismatch(closed, "{\"\\u001b[31m\\n\":1}").unwrap();
        assert!(!control.contains(['\u{1b}', '\n']), "{control}");
    }

    #[test]
    fn a_schema_cannot_fetch_or_backtrack_and_may_refer_to_itself() {
        for invalid in [
            r#"{"type":"nothing"}"#,
            r#"{"$ref":"http://127.0.0.1:9/schema.json"}"#,
            r#"{"$ref":"file:///etc/passwd"}"#,
            r##"{"$ref":"#/$defs/none"}"##,
            r#"{"pattern":"(?=a)b"}"#,
            r#"{"pattern":"(a)\\1"}"#,
        ] {
            let error = compiled(invalid).unwrap_err().to_string();
            assert!(!error.is_empty() && error.chars().count() < 500, "{error}");
        }
        let tree = r##"{"type":"object","properties":{"child":{"$ref":"#"}},"additionalProperties":false}"##;
        assert_eq!(mismatch(tree, r#"{"child":{"child":{}}}"#), None);
        assert!(mismatch(tree, r#"{"child":{"child":{"other":1}}}"#).unwrap().starts_with("'child.child': "));
        // A value that only refers to itself conforms to everything.
        for cycle in
            [r##"{"$ref":"#"}"##, r##"{"allOf":[{"$ref":"#"}]}"##, r##"{"anyOf":[{"$ref":"#"},{"type":"string"}]}"##]
        {
            let _ = mismatch(cycle, "7");
        }
    }

    #[test]
    fn a_value_that_is_nested_deeply_is_refused_without_a_panic() {
        let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert_eq!(mismatch("{}", &deep), None);
        if let Ok(value) = Json::parse(format!("{}{}", "[".repeat(10_000), "]".repeat(10_000))) {
            assert_eq!(compiled("{}").unwrap().validate(&value).unwrap_err().to_string(), NESTED);
        }
    }

    #[test]
    fn formats_are_asserted_in_forms_only() {
        let form = RequestedSchema::form().with("mail", mcp_model::StringSchema::new().format("email"));
        let wrong = Json::parse(r#"{"mail":"no address"}"#).unwrap();
        assert!(CompiledSchema::of_form(&form).unwrap().validate(&wrong).is_err());
        assert!(CompiledSchema::new(&form.to_json()).unwrap().validate(&wrong).is_ok());
    }
}
