//! Tools whose arguments are repeated in headers, taken from the results of `tools/list` that the server sends.

use std::collections::BTreeMap;

use crate::json::Json;
use crate::spec::param_headers::Annotations;

/// The maximum number of tools that are stored. The headers of further ones are not checked.
const TOOLS: usize = 4096;

/// The tools with `x-mcp-header` annotations, by name.
#[derive(Debug, Default)]
pub(crate) struct AnnotatedTools(BTreeMap<Box<str>, Annotations>);

impl AnnotatedTools {
    /// Stores the annotations of the tools in a result of `tools/list`. The application makes the list, so that a
    /// client cannot choose its size.
    pub(crate) fn learn(&mut self, result: &Json) {
        let is_annotated = memchr::memmem::find(result.as_bytes(), b"x-mcp-header").is_some();
        if self.0.is_empty() && !is_annotated {
            return;
        }
        let Some(tools) = result.first_member("tools") else { return };
        for tool in tools.elements() {
            let [name, schema] = tool.first_members(["name", "inputSchema"]);
            let Some(name) = name.as_ref().and_then(Json::as_string) else { continue };
            // Clients ignore an invalid definition (MD-P-05), so that there is nothing to compare.
            let annotations = schema.and_then(|schema| Annotations::read(&schema).ok()).unwrap_or_default();
            if annotations.is_empty() {
                self.0.remove(&*name);
            } else if self.0.len() < TOOLS || self.0.contains_key(&*name) {
                self.0.insert((&*name).into(), annotations);
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Annotations> {
        self.0.get(name)
    }
}
