//! What clients declare in order to show the pages of MCP Apps.

use mcp_model::{ClientCapabilities, Payload};
use mcp_proto::Json;

/// These capabilities of a client, and that it shows the pages of MCP Apps. What else they contain is not changed.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
///
/// let capabilities = Json::parse(r#"{"roots":{},"extensions":{"com.example/x":{"a":1.0}},"other":7}"#)?;
/// assert_eq!(
///     mcp_application::with_apps(&capabilities).to_string(),
///     concat!(
///         r#"{"roots":{},"extensions":{"com.example/x":{"a":1.0},"io.modelcontextprotocol/ui":"#,
///         r#"{"mimeTypes":["text/html;profile=mcp-app"]}},"other":7}"#
///     )
/// );
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[must_use]
pub fn with_apps(capabilities: &Json) -> Json {
    let extensions = capabilities.first_member("extensions").filter(Json::is_object);
    let mut declared = ClientCapabilities::new();
    declared.extensions = extensions.and_then(|extensions| extensions.try_into().ok());
    let declared = declared.with_apps().to_json();
    match declared.first_member("extensions") {
        Some(extensions) => capabilities.with_member("extensions", &extensions),
        None => capabilities.clone(),
    }
}
