//! What a request is about, as far as a log may show it.

use super::Method;
use crate::json::Json;
use crate::text::Excerpt;

/// The most characters of a target that are kept.
const TARGET_CHARS: usize = 128;

impl Method {
    /// What a request with this method and these parameters is about, as far as a log may show it: the name of the tool or
    /// prompt, or only the scheme of the resource's URI, because the rest of it may be private. At most 128 characters.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::{Json, Method};
    ///
    /// let params = Json::parse(r#"{"uri":"file:///home/ada/notes.txt"}"#)?;
    /// assert_eq!(Method::RESOURCES_READ.target(Some(&params)).unwrap().as_str(), "file");
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    #[must_use]
    pub fn target(&self, params: Option<&Json>) -> Option<Excerpt> {
        let named_by = self.facts().named_by?;
        let name = params?.first_member(named_by)?;
        let name = name.as_string()?;
        let shown = match named_by {
            "name" => &*name,
            "uri" => name.split_once(':')?.0,
            // Who knows the id of a task may be able to read its result.
            _ => return None,
        };
        Some(Excerpt::new(shown, TARGET_CHARS)).filter(|shown| !shown.as_str().is_empty())
    }
}
