//! Tools.

use mcp_proto::Json;
use serde::Deserialize;

use super::common::{CacheScope, Icon};
use super::content::{AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink};
use super::define::{object, string_enum};
use super::input::InputResponses;
use super::resources::ResourceContents;
use super::tasks::TaskMetadata;
use super::value::{JsonObject, Meta, Number};

object! {
    /// The result of `tools/list`.
    ListToolsResult {
        required {
            /// The tools of this page.
            tools: Vec<Tool> = "tools",
        }
        optional {
            /// The cursor of the next page; absent on the last page.
            next_cursor: String = "nextCursor",
            /// How many milliseconds the result may be cached (since 2026-07-28).
            ttl_ms: Number = "ttlMs",
            /// Which clients may use the cached result (since 2026-07-28).
            cache_scope: CacheScope = "cacheScope",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A tool that a server offers.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{JsonObject, Tool, ToolAnnotations};
    ///
    /// #[derive(serde::Serialize)]
    /// struct Schema {
    ///     r#type: &'static str,
    ///     required: [&'static str; 1],
    /// }
    ///
    /// let schema = JsonObject::from_serialize(&Schema { r#type: "object", required: ["city"] })?;
    /// let tool = Tool::new("weather", schema)
    ///     .description("Returns the weather.")
    ///     .annotations(ToolAnnotations::new().read_only_hint(true));
    /// assert_eq!(tool.input_schema.as_json().as_bytes(), br#"{"type":"object","required":["city"]}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    Tool {
        required {
            /// Its name.
            name: String = "name",
            /// The JSON schema of its arguments; its `type` is `object`.
            input_schema: JsonObject = "inputSchema",
        }
        optional {
            /// Its name for display (since 2025-06-18).
            title: String = "title",
            /// A description for the language model.
            description: String = "description",
            /// The JSON schema of its structured content (since 2025-06-18); its `type` is `object`.
            output_schema: JsonObject = "outputSchema",
            /// Hints on its behaviour (since 2025-03-26).
            annotations: ToolAnnotations = "annotations",
            /// How it is called (2025-11-25 only).
            execution: ToolExecution = "execution",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

impl Tool {
    /// A tool without arguments.
    #[must_use]
    pub fn without_arguments(name: &str) -> Self {
        Self::new(name, JsonObject::new().with("type", "object").with("additionalProperties", false))
    }
}

object! {
    /// Hints on a tool's behaviour (since 2025-03-26). A client must not rely on them unless it trusts the server.
    ToolAnnotations {
        optional {
            /// Its name for display.
            title: String = "title",
            /// Whether the tool changes nothing.
            read_only_hint: bool = "readOnlyHint",
            /// Whether the tool may make destructive changes; `true` if absent.
            destructive_hint: bool = "destructiveHint",
            /// Whether repeated calls with the same arguments have no additional effect.
            idempotent_hint: bool = "idempotentHint",
            /// Whether the tool interacts with external systems; `true` if absent.
            open_world_hint: bool = "openWorldHint",
        }
    }
}

object! {
    /// How a tool is called (2025-11-25 only).
    ToolExecution {
        optional {
            /// Whether a call may be answered with a task; `forbidden` if absent.
            task_support: TaskSupport = "taskSupport",
        }
    }
}

string_enum! {
    /// Whether a tool's call may be answered with a task.
    TaskSupport {
        /// It must not.
        Forbidden = "forbidden",
        /// It may.
        Optional = "optional",
        /// It must.
        Required = "required",
    }
}

object! {
    /// The parameters of `tools/call`.
    CallToolRequestParams {
        required {
            /// The tool's name.
            name: String = "name",
        }
        optional {
            /// The arguments.
            arguments: JsonObject = "arguments",
            /// Input that a result of this request required (since 2026-07-28).
            input_responses: InputResponses = "inputResponses",
            /// The state that such a result contained, unchanged (since 2026-07-28).
            request_state: String = "requestState",
            /// Requests a task (2025-11-25 only): the result is a [`CreateTaskResult`](super::CreateTaskResult).
            task: TaskMetadata = "task",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl CallToolRequestParams {
    /// Deserialises the arguments into a type of the application. Absent arguments are read as an empty object.
    ///
    /// # Errors
    ///
    /// The arguments do not have the shape of `T`. Note that the text of this error may quote them.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{CallToolRequestParams, JsonObject};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Sum {
    ///     a: i64,
    ///     b: i64,
    /// }
    ///
    /// let params = CallToolRequestParams::new("add").arguments(JsonObject::new().with("a", 1).with("b", 2));
    /// let Sum { a, b } = params.read_arguments()?;
    /// assert_eq!(a + b, 3);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn read_arguments<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        self.arguments.as_ref().map_or_else(|| serde_json::from_str("{}"), JsonObject::read)
    }
}

object! {
    /// The result of `tools/call`.
    ///
    /// # Example: results of tools
    ///
    /// ```
    /// use mcp_model::{CallToolResult, JsonObject, Payload};
    ///
    /// let result = CallToolResult::text("A map:").and_image(b"\x89PNG", "image/png");
    /// assert_eq!(result.content.len(), 2);
    ///
    /// let result = CallToolResult::error("there is no such city");
    /// assert_eq!(result.is_error, Some(true));
    ///
    /// let result = CallToolResult::structured(JsonObject::new().with("degrees", 21));
    /// assert_eq!(
    ///     result.to_json().as_bytes(),
    ///     br#"{"content":[{"type":"text","text":"{\"degrees\":21}"}],"structuredContent":{"degrees":21}}"#,
    /// );
    /// ```
    CallToolResult {
        defaulted {
            /// The content. It is always written; if a server omits it, it is read as empty.
            content: Vec<ContentBlock> = "content",
        }
        optional {
            /// The result as structured data that conforms to the tool's `outputSchema` (since 2025-06-18): an object.
            structured_content: Json = "structuredContent",
            /// Whether the tool failed; `content` then explains the failure to the language model.
            is_error: bool = "isError",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl CallToolResult {
    /// A result with a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().and(text.into())
    }

    /// A result with an image, given as the bytes of its file.
    #[must_use]
    pub fn image(bytes: &[u8], mime_type: &str) -> Self {
        Self::new().and_image(bytes, mime_type)
    }

    /// A result with audio, given as the bytes of its file (since 2025-03-26).
    #[must_use]
    pub fn audio(bytes: &[u8], mime_type: &str) -> Self {
        Self::new().and_audio(bytes, mime_type)
    }

    /// A result with a link to a resource (since 2025-06-18).
    #[must_use]
    pub fn resource_link(link: impl Into<ResourceLink>) -> Self {
        Self::new().and(link.into())
    }

    /// A result with an embedded resource.
    #[must_use]
    pub fn resource(resource: impl Into<ResourceContents>) -> Self {
        Self::new().and(EmbeddedResource::new(resource))
    }

    /// A result with structured content (since 2025-06-18), and its JSON text as content for older clients, as the
    /// specification recommends.
    #[must_use]
    pub fn structured(value: JsonObject) -> Self {
        Self::text(value.as_json().to_text()).structured_content(value)
    }

    /// A failure of the tool, with the reason for the language model.
    #[must_use]
    pub fn error(reason: impl Into<String>) -> Self {
        Self::text(reason).is_error(true)
    }

    /// Its texts, each on lines of its own: what a language model reads of a result without images and resources.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::CallToolResult;
    ///
    /// let result = CallToolResult::text("21.5 degrees").and_image(b"...", "image/png").and("sunny");
    /// assert_eq!(result.all_text(), "21.5 degrees\nsunny");
    /// ```
    #[must_use]
    pub fn all_text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
    }

    /// Adds a content block.
    #[must_use]
    pub fn and(mut self, content: impl Into<ContentBlock>) -> Self {
        self.content.push(content.into());
        self
    }

    /// Adds an image.
    #[must_use]
    pub fn and_image(self, bytes: &[u8], mime_type: &str) -> Self {
        self.and(ImageContent::from_bytes(bytes, mime_type))
    }

    /// Adds audio (since 2025-03-26).
    #[must_use]
    pub fn and_audio(self, bytes: &[u8], mime_type: &str) -> Self {
        self.and(AudioContent::from_bytes(bytes, mime_type))
    }
}
