//! Tools whose arguments headers repeat: remembered from the lists of tools that the server gives.

use std::collections::BTreeMap;

use crate::codec::json::Json;
use crate::spec::param_headers::Annotations;

/// Tools that are remembered. Further ones are not checked.
const TOOLS: usize = 4096;

/// The annotated tools of a server, by their names.
#[derive(Debug, Default)]
pub(super) struct AnnotatedTools(BTreeMap<Box<str>, Annotations>);

impl AnnotatedTools {
    /// Takes in what a result of `tools/list` says of the tools in it. The list is the application's, so that its size
    /// is not the client's to choose.
    pub(super) fn learn(&mut self, result: &Json) {
        let is_annotated = memchr::memmem::find(result.as_bytes(), b"x-mcp-header").is_some();
        if self.0.is_empty() && !is_annotated {
            return;
        }
        let Some(tools) = result.first_member("tools") else { return };
        for tool in tools.elements() {
            let [name, schema] = tool.first_members(["name", "inputSchema"]);
            let Some(name) = name.as_ref().and_then(Json::as_string) else { continue };
            // A definition that is invalid is dropped by clients (MD-P-05), and nothing can be compared with it.
            let annotations = schema.and_then(|schema| Annotations::read(&schema).ok()).unwrap_or_default();
            if annotations.is_empty() {
                self.0.remove(&*name);
            } else if self.0.len() < TOOLS || self.0.contains_key(&*name) {
                self.0.insert((&*name).into(), annotations);
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Annotations> {
        self.0.get(name)
    }
}
