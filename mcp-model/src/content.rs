//! Content blocks of tool results, prompts and messages.

use mcp_proto::Json;

use super::common::{Annotations, Icon};
use super::define::{object, union};
use super::error::ModelError;
use super::resources::{Resource, ResourceContents};
use super::value::{JsonObject, Meta, Number, decode_base64, encode_base64};

union! {
    /// A part of a tool result or of a prompt.
    ///
    /// A kind that a newer revision adds becomes [`ContentBlock::Other`].
    ContentBlock("type") {
        /// A text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent) = "image",
        /// Audio (since 2025-03-26).
        Audio(AudioContent) = "audio",
        /// A link to a resource (since 2025-06-18).
        ResourceLink(ResourceLink) = "resource_link",
        /// An embedded resource.
        Resource(EmbeddedResource) = "resource",
    }
}

impl ContentBlock {
    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            Self::Image(_) | Self::Audio(_) | Self::ResourceLink(_) | Self::Resource(_) | Self::Other(_) => None,
        }
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::Text(TextContent::new(text))
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::Text(TextContent::new(text))
    }
}

object! {
    /// A text.
    TextContent("type" = "text") {
        required {
            /// The text.
            text: String = "text",
        }
        optional {
            /// Hints for the client.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// An image.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::ImageContent;
    ///
    /// let image = ImageContent::from_bytes(b"\x89PNG", "image/png");
    /// assert_eq!(image.data, "iVBORw==");
    /// assert_eq!(image.to_bytes().unwrap(), b"\x89PNG");
    /// ```
    ImageContent("type" = "image") {
        required {
            /// The file, in Base64.
            data: String = "data",
            /// Its media type.
            mime_type: String = "mimeType",
        }
        optional {
            /// Hints for the client.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// Audio (since 2025-03-26).
    AudioContent("type" = "audio") {
        required {
            /// The file, in Base64.
            data: String = "data",
            /// Its media type.
            mime_type: String = "mimeType",
        }
        optional {
            /// Hints for the client.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

macro_rules! encoded {
    ($name:ident) => {
        impl $name {
            /// Encodes a file, whose media type is `mime_type`.
            #[must_use]
            pub fn from_bytes(bytes: &[u8], mime_type: &str) -> Self {
                Self::new(encode_base64(bytes), mime_type)
            }

            /// Decodes the file.
            ///
            /// # Errors
            ///
            /// The data is not Base64.
            pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
                decode_base64(&self.data).map_err(|error| error.inside("data"))
            }
        }
    };
}

encoded! { ImageContent }
encoded! { AudioContent }

object! {
    /// An embedded resource.
    EmbeddedResource("type" = "resource") {
        required {
            /// The resource.
            resource: ResourceContents = "resource",
        }
        optional {
            /// Hints for the client.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A link to a resource that can be read (since 2025-06-18). It need not be in the list of resources.
    ResourceLink("type" = "resource_link") {
        required {
            /// Its URI.
            uri: String = "uri",
            /// Its name for use in programs.
            name: String = "name",
        }
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of its content.
            description: String = "description",
            /// Its media type.
            mime_type: String = "mimeType",
            /// Its size in bytes, before any encoding.
            size: Number = "size",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
            /// Hints for the client.
            annotations: Annotations = "annotations",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl From<Resource> for ResourceLink {
    fn from(resource: Resource) -> Self {
        Self {
            uri: resource.uri,
            name: resource.name,
            title: resource.title,
            description: resource.description,
            mime_type: resource.mime_type,
            size: resource.size,
            icons: resource.icons,
            annotations: resource.annotations,
            meta: resource.meta,
            extra: resource.extra,
        }
    }
}

union! {
    /// A part of a message to or from a language model.
    SamplingMessageContentBlock("type") {
        /// A text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent) = "image",
        /// Audio (since 2025-03-26).
        Audio(AudioContent) = "audio",
        /// A tool call that the model requests (since 2025-11-25).
        ToolUse(ToolUseContent) = "tool_use",
        /// The result of a tool call (since 2025-11-25).
        ToolResult(ToolResultContent) = "tool_result",
    }
}

impl From<&str> for SamplingMessageContentBlock {
    fn from(text: &str) -> Self {
        Self::Text(TextContent::new(text))
    }
}

object! {
    /// A tool call that a language model requests (since 2025-11-25).
    ToolUseContent("type" = "tool_use") {
        required {
            /// The id of this call, which its result repeats.
            id: String = "id",
            /// The tool's name.
            name: String = "name",
            /// The arguments.
            input: JsonObject = "input",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of a [`ToolUseContent`] (since 2025-11-25).
    ToolResultContent("type" = "tool_result") {
        required {
            /// The id of the call.
            tool_use_id: String = "toolUseId",
        }
        defaulted {
            /// The content of the result.
            content: Vec<ContentBlock> = "content",
        }
        optional {
            /// The result as structured data.
            structured_content: Json = "structuredContent",
            /// Whether the tool failed.
            is_error: bool = "isError",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
