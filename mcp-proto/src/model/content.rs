//! What tools, prompts and messages consist of.

use super::common::{Annotations, Icon};
use super::define::{object, union};
use super::error::ModelError;
use super::resources::{Resource, ResourceContents};
use super::value::{JsonObject, Meta, Number, decode_base64, encode_base64};
use crate::codec::json::Json;

union! {
    /// A part of a tool's result or of a prompt.
    ///
    /// A kind that a newer revision adds is kept as [`ContentBlock::Other`].
    ContentBlock("type") {
        /// A text.
        Text(TextContent) = "text",
        /// A picture.
        Image(ImageContent) = "image",
        /// A sound (since 2025-03-26).
        Audio(AudioContent) = "audio",
        /// Where a resource is (since 2025-06-18).
        ResourceLink(ResourceLink) = "resource_link",
        /// A resource itself.
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
            /// What a client may go by.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A picture.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::model::ImageContent;
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
            /// What a client may go by.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A sound (since 2025-03-26).
    AudioContent("type" = "audio") {
        required {
            /// The file, in Base64.
            data: String = "data",
            /// Its media type.
            mime_type: String = "mimeType",
        }
        optional {
            /// What a client may go by.
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
    /// A resource itself.
    EmbeddedResource("type" = "resource") {
        required {
            /// The resource.
            resource: ResourceContents = "resource",
        }
        optional {
            /// What a client may go by.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// Where a resource is that can be read (since 2025-06-18). It need not be in the list of resources.
    ResourceLink("type" = "resource_link") {
        required {
            /// Its URI.
            uri: String = "uri",
            /// Its name, for programs.
            name: String = "name",
        }
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it holds.
            description: String = "description",
            /// Its media type.
            mime_type: String = "mimeType",
            /// Its size in bytes, before any encoding.
            size: Number = "size",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
            /// What a client may go by.
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
        /// A picture.
        Image(ImageContent) = "image",
        /// A sound (since 2025-03-26).
        Audio(AudioContent) = "audio",
        /// The model wants a tool to be called (since 2025-11-25).
        ToolUse(ToolUseContent) = "tool_use",
        /// What came of that (since 2025-11-25).
        ToolResult(ToolResultContent) = "tool_result",
    }
}

impl From<&str> for SamplingMessageContentBlock {
    fn from(text: &str) -> Self {
        Self::Text(TextContent::new(text))
    }
}

object! {
    /// A language model wants a tool to be called (since 2025-11-25).
    ToolUseContent("type" = "tool_use") {
        required {
            /// The id of this use, which its result repeats.
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
    /// What came of a [`ToolUseContent`] (since 2025-11-25).
    ToolResultContent("type" = "tool_result") {
        required {
            /// The id of the use.
            tool_use_id: String = "toolUseId",
        }
        defaulted {
            /// What came of it.
            content: Vec<ContentBlock> = "content",
        }
        optional {
            /// The same for programs.
            structured_content: Json = "structuredContent",
            /// The tool failed.
            is_error: bool = "isError",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
