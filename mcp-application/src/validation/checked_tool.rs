//! Tools whose calls are validated.

use std::fmt;
use std::sync::Arc;

use mcp_model::{CallToolRequestParams, CallToolResult, JsonObject, Tool};
use mcp_proto::Json;
use serde::Serialize;

use super::compiled_schema::{CompiledSchema, InvalidSchema, SchemaMismatch};
use crate::{Error, tool_call};

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

    /// Validates the arguments that a client has sent, and returns them without members that are null where `inputSchema`
    /// accepts none ([`CompiledSchema::accept`]).
    ///
    /// # Errors
    ///
    /// They do not conform to `inputSchema`.
    pub fn accept_arguments(&self, arguments: &Json) -> Result<Json, SchemaMismatch> {
        self.arguments.accept(arguments)
    }

    /// The parameters of a call with these arguments.
    ///
    /// # Errors
    ///
    /// [`Error::Arguments`] and [`Error::ArgumentsMismatch`].
    pub fn call_params(&self, arguments: impl Serialize) -> Result<CallToolRequestParams, Error> {
        let params = tool_call(&self.name, arguments)?;
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
            None => Err(SchemaMismatch::no_content()),
        }
    }
}
