//! Validation by JSON Schema (feature `validation`): what a schema states beyond the types of functions, such as lengths,
//! patterns and ranges.
//!
//! A [`Router`](crate::router::Router) validates the arguments of its tools and their structured results, and
//! [`Inputs`](crate::Inputs) the answers to forms. A client validates by [`CheckedTool`], because the schema belongs to the
//! server: schemas that only mean to cost much can do so whatever their size, so that a client validates with those of servers
//! that it trusts.
//!
//! Schemas have the dialect that their `$schema` names, or 2020-12. Nothing is fetched: a `$ref` to another document is an
//! error. Patterns are matched in linear time, so that one with a look-around or a backreference is an error. `format` is not
//! asserted, as 2020-12 has it, except in forms.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{PatternOptions, ValidationError, Validator};
use mcp_model::{CallToolRequestParams, CallToolResult, JsonObject, Payload, RequestedSchema, Tool};
use mcp_proto::Json;
use serde::Serialize;
use serde_json::Value;

use crate::Error;

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
    if path.is_empty() { shortened(&text) } else { format!("'{}': {}", shortened(&path), shortened(&text)) }
}

fn shortened(text: &str) -> String {
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(end, _)| end);
    let (shown, rest) = text.split_at(end);
    format!("{}{}", shown.escape_debug(), if rest.is_empty() { "" } else { "…" })
        .replace("\\\"", "\"")
        .replace("\\'", "'")
}

/// A tool with its compiled schemas. Clones share them.
///
/// # Example: a client that checks a result before it uses it
///
/// ```
/// use mcp_application::validation::CheckedTool;
/// use mcp_model::{CallToolResult, JsonObject, Tool};
/// use mcp_proto::Json;
///
/// // An entry of the server's list.
/// let schema = |text: &'static str| JsonObject::try_from(Json::parse(text).unwrap()).unwrap();
/// let tool = Tool::new("count", schema(r#"{"type":"object","properties":{"of":{"minLength":1}}}"#))
///     .output_schema(schema(r#"{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}"#));
/// let tool = CheckedTool::new(&tool)?;
///
/// assert!(tool.check_arguments(&Json::parse(r#"{"of":""}"#)?).is_err());
/// assert!(tool.check_result(&CallToolResult::structured(JsonObject::new().with("count", 3))).is_ok());
/// let mismatch = tool.check_result(&CallToolResult::structured(JsonObject::new().with("count", "three"))).unwrap_err();
/// assert_eq!(mismatch.to_string(), "'count': value is not of type \"integer\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CheckedTool {
    name: Arc<str>,
    arguments: CompiledSchema,
    result: Option<CompiledSchema>,
}

impl fmt::Debug for CheckedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedTool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CheckedTool {
    /// Compiles the schemas of a tool.
    ///
    /// # Errors
    ///
    /// One of them is invalid: see [`CompiledSchema::new`].
    pub fn new(tool: &Tool) -> Result<Self, InvalidSchema> {
        let arguments = CompiledSchema::new(tool.input_schema.as_json())?;
        let result = tool.output_schema.as_ref().map(|schema| CompiledSchema::new(schema.as_json())).transpose()?;
        Ok(Self { name: tool.name.as_str().into(), arguments, result })
    }

    /// The name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Validates the arguments of a call.
    ///
    /// # Errors
    ///
    /// They do not conform to `inputSchema`.
    pub fn check_arguments(&self, arguments: &Json) -> Result<(), SchemaMismatch> {
        self.arguments.validate(arguments)
    }

    /// The parameters of a call with these arguments.
    ///
    /// # Errors
    ///
    /// [`Error::Arguments`] and [`Error::ArgumentsMismatch`].
    pub fn call(&self, arguments: impl Serialize) -> Result<CallToolRequestParams, Error> {
        let params = crate::tool_call(&self.name, arguments)?;
        let none = JsonObject::new();
        let arguments = params.arguments.as_ref().unwrap_or(&none);
        self.check_arguments(arguments.as_json()).map_err(Error::ArgumentsMismatch)?;
        Ok(params)
    }

    /// Validates the structured content of a result. A result with `isError` needs none.
    ///
    /// # Errors
    ///
    /// The tool has an `outputSchema`, and the result has no structured content, or does not conform to it.
    pub fn check_result(&self, result: &CallToolResult) -> Result<(), SchemaMismatch> {
        let Some(schema) = self.result.as_ref().filter(|_| result.is_error != Some(true)) else { return Ok(()) };
        match &result.structured_content {
            Some(content) => schema.validate(content),
            None => Err(SchemaMismatch("there is no structured content, although the tool has an outputSchema".into())),
        }
    }
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
        let wrong = Json::parse(r#"{"mail":"nobody"}"#).unwrap();
        assert!(CompiledSchema::of_form(&form).unwrap().validate(&wrong).is_err());
        assert!(CompiledSchema::new(&form.to_json()).unwrap().validate(&wrong).is_ok());
    }
}
