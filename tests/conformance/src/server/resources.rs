//! Resources.

use mcp_proto::ErrorObject;
use mcp_proto::model::{
    BlobResourceContents, ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequest, ReadResourceResult,
    RequestMethod, Resource, ResourceContents, ResourceTemplate, TextResourceContents,
};
use serde_json::json;

use super::caller::Caller;
use super::samples::PNG;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

pub(crate) fn list() -> ListResourcesResult {
    ListResourcesResult::new([
        Resource::new(TEXT, "static-text").description("A text").mime_type("text/plain"),
        Resource::new(BINARY, "static-binary").description("A picture").mime_type("image/png"),
        Resource::new(WATCHED, "watched-resource").description("May be watched").mime_type("text/plain"),
    ])
}

pub(crate) fn templates() -> ListResourceTemplatesResult {
    ListResourceTemplatesResult::new([ResourceTemplate::new("test://template/{id}/data", "template")
        .description("Data for an id")
        .mime_type("application/json")])
}

pub(crate) fn read(caller: &Caller<'_>) -> Result<ReadResourceResult, ErrorObject> {
    let params = ReadResourceRequest::params(caller.params())?;
    Ok(ReadResourceResult::new([contents(caller, &params.uri)?]))
}

fn contents(caller: &Caller<'_>, uri: &str) -> Result<ResourceContents, ErrorObject> {
    match uri {
        TEXT => Ok(text(uri, "This is the content of the static text resource.").into()),
        BINARY => Ok(BlobResourceContents::new(uri, PNG).mime_type("image/png").into()),
        WATCHED => Ok(text(uri, "This resource may be watched.").into()),
        _ => templated(uri).map(ResourceContents::from).ok_or_else(|| not_found(caller, uri)),
    }
}

/// A resource with a text.
pub(crate) fn text(uri: &str, text: &str) -> TextResourceContents {
    TextResourceContents::new(uri, text).mime_type("text/plain")
}

fn templated(uri: &str) -> Option<TextResourceContents> {
    let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
    if id.is_empty() || id.contains('/') {
        return None;
    }
    let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
    Some(TextResourceContents::new(uri, data.to_string()).mime_type("application/json"))
}

fn not_found(caller: &Caller<'_>, uri: &str) -> ErrorObject {
    ErrorObject::resource_not_found(uri, caller.context().version)
}
