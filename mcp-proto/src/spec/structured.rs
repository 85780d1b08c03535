//! Structured content and schemas of tools. Before 2026-07-28, structured content and its schema must be objects, and
//! so must the schema of each property.
//!
//! Rules: BR-L-08.

use super::{Method, ProtocolVersion};
use crate::json::Json;

/// The result of this method in the form of this revision.
#[must_use]
pub fn result_for(version: ProtocolVersion, method: &Method, result: Json) -> Json {
    if version.rules().any_structured_content { result } else { to_legacy(method, &result) }
}

/// The result of this method without structured content that is not an object, and without schemas of such content:
/// clients read the text instead. Schemas of properties that are booleans become objects.
#[must_use]
pub fn to_legacy(method: &Method, result: &Json) -> Json {
    if *method == Method::TOOLS_CALL {
        let content = result.first_member("structuredContent");
        let is_any = content.is_some_and(|content| !content.is_object());
        return if is_any { result.without_members(&["structuredContent"]) } else { result.clone() };
    }
    if *method != Method::TOOLS_LIST {
        return result.clone();
    }
    let Some(tools) = result.first_member("tools") else { return result.clone() };
    result.with_member("tools", &tools.map_elements(|tool| with_objects(&without_wide_schema(&tool))))
}

/// A tool whose schemas of properties are objects, as the schemas of the older revisions demand. Deeper schemas may be
/// booleans there.
fn with_objects(tool: &Json) -> Json {
    ["inputSchema", "outputSchema"].into_iter().fold(tool.clone(), |tool, name| {
        let Some(schema) = tool.first_member(name) else { return tool };
        let Some(properties) = schema.first_member("properties") else { return tool };
        let changed = properties.map_members(|property| match property.as_bytes() {
            b"true" => Json::empty_object(),
            b"false" => Json::empty_object().with_member("not", &Json::empty_object()),
            _ => property,
        });
        if changed == properties { tool } else { tool.with_member(name, &schema.with_member("properties", &changed)) }
    })
}

fn without_wide_schema(tool: &Json) -> Json {
    let schema = tool.first_member("outputSchema");
    let kind = schema.as_ref().and_then(|schema| schema.first_member("type"));
    if schema.is_some() && kind.is_none_or(|kind| kind.as_bytes() != b"\"object\"") {
        return tool.without_members(&["outputSchema"]);
    }
    tool.clone()
}
