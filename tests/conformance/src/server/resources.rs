//! Resources.

use mcp_proto::{ErrorObject, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::caller::Caller;
use super::samples::PNG;
use super::{Answer, params};

/// The code for a resource that is not there, up to revision 2025-11-25.
const NOT_FOUND: i64 = -32002;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

#[derive(Deserialize)]
struct Address {
    uri: String,
}

pub(crate) fn list() -> Value {
    json!({ "resources": [
        { "uri": TEXT, "name": "static-text", "description": "A text", "mimeType": "text/plain" },
        { "uri": BINARY, "name": "static-binary", "description": "A picture", "mimeType": "image/png" },
        { "uri": WATCHED, "name": "watched-resource", "description": "May be watched", "mimeType": "text/plain" },
    ] })
}

pub(crate) fn templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "Data for an id",
        "mimeType": "application/json",
    }] })
}

pub(crate) fn read(caller: &Caller<'_>) -> Answer {
    let Address { uri } = params(caller)?;
    Ok(json!({ "contents": [contents(&uri)?] }))
}

/// Subscribes or unsubscribes. Nothing here ever changes, so there is nothing to remember.
pub(crate) fn watch(caller: &Caller<'_>) -> Answer {
    let Address { uri } = params(caller)?;
    contents(&uri).map(|_| json!({}))
}

fn contents(uri: &str) -> Answer {
    match uri {
        TEXT => Ok(text(uri, "This is the content of the static text resource.")),
        BINARY => Ok(json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })),
        WATCHED => Ok(text(uri, "This resource may be watched.")),
        _ => templated(uri).ok_or_else(|| not_found(uri)),
    }
}

/// A resource with a text.
pub(crate) fn text(uri: &str, text: &str) -> Value {
    json!({ "uri": uri, "mimeType": "text/plain", "text": text })
}

fn templated(uri: &str) -> Option<Value> {
    let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
    if id.is_empty() || id.contains('/') {
        return None;
    }
    let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
    Some(json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() }))
}

fn not_found(uri: &str) -> ErrorObject {
    let data = Json::empty_object().with_member("uri", &Json::from(uri));
    ErrorObject::with_data(NOT_FOUND, "Resource not found", &data)
}
