//! Structured content of the results of tools.

use mcp_model::{CallToolRequest, CallToolResult, JsonObject};
use mcp_proto::{ErrorObject, Json};

use super::answer::IntoAnswer;
use super::finite::not_finite;
use super::routed::RoutedCall;
use super::schema::output_schema;

/// Structured content of a tool's result, and the same as text for older clients. The schema of `T` becomes the tool's
/// `outputSchema` (since 2025-06-18); values that are not objects exist since 2026-07-28. Infinity and NaN, which JSON
/// does not have, are an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: serde::Serialize + schemars::JsonSchema> IntoAnswer<CallToolRequest> for Structured<T> {
    fn into_answer(self, _: &RoutedCall) -> Result<Json, ErrorObject> {
        let unwritable = |reason: &str| {
            let text = format!("the result of the tool cannot be written as JSON{reason}");
            ErrorObject::new(mcp_proto::code::INTERNAL_ERROR, &text)
        };
        let value = Json::from_serialize(&self.0).map_err(|_| unwritable(""))?;
        if let Some(path) = not_finite(&self.0, &value) {
            return Err(unwritable(&format!(": '{path}' is infinite or not a number")));
        }
        Ok(CallToolResult::text(value.to_text()).structured_content(value).into())
    }

    fn output_schema() -> Option<JsonObject> {
        Some(output_schema::<T>())
    }
}
