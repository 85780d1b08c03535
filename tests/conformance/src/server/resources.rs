//! Resources.

use mcp_model::{BlobResourceContents, Resource, ResourceContents, ResourceTemplate, TextResourceContents};
use serde::Deserialize;
use serde_json::json;

use super::interop::BOARD;
use super::samples::PNG;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

/// The resources, each with its content.
pub(crate) fn all() -> [(Resource, ResourceContents); 4] {
    [
        (
            Resource::new(TEXT, "static-text").description("A text").mime_type("text/plain"),
            text(TEXT, "This is the content of the static text resource.").into(),
        ),
        (
            Resource::new(BINARY, "static-binary").description("A picture").mime_type("image/png"),
            BlobResourceContents::new(BINARY, PNG).mime_type("image/png").into(),
        ),
        (
            Resource::new(WATCHED, "watched-resource").description("May be watched").mime_type("text/plain"),
            text(WATCHED, "This resource may be watched.").into(),
        ),
        (
            Resource::new(BOARD, "board").description("Is updated by the tool touch").mime_type("text/plain"),
            text(BOARD, "board").into(),
        ),
    ]
}

/// A template, whose resources [`templated`] reads.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new("test://template/{id}/data", "template")
        .description("Data for an id")
        .mime_type("application/json")
}

/// The variables of the template.
#[derive(Debug, Deserialize)]
pub(crate) struct Id {
    id: String,
}

pub(crate) fn templated(Id { id }: &Id) -> String {
    json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string()
}

/// A resource with a text.
pub(crate) fn text(uri: &str, text: &str) -> TextResourceContents {
    TextResourceContents::new(uri, text).mime_type("text/plain")
}
