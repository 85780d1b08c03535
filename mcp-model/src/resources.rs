//! Resources.

use mcp_proto::Json;

use super::common::{Annotations, CacheScope, Icon};
use super::define::{object, union};
use super::error::ModelError;
use super::input::InputResponses;
use super::object::{Value, has};
use super::value::{Meta, Number, decode_base64, encode_base64};

object! {
    /// The result of `resources/list`.
    ListResourcesResult {
        required {
            /// The resources of this page.
            resources: Vec<Resource> = "resources",
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
    /// A resource that a server offers.
    Resource {
        required {
            /// Its URI.
            uri: String = "uri",
            /// Its name for use in programs.
            name: String = "name",
        }
        optional {
            /// Its name for display (since 2025-06-18).
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
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `resources/templates/list`.
    ListResourceTemplatesResult {
        required {
            /// The templates of this page.
            resource_templates: Vec<ResourceTemplate> = "resourceTemplates",
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
    /// A set of resources whose URIs have a common template.
    ResourceTemplate {
        required {
            /// The URI template (RFC 6570).
            uri_template: String = "uriTemplate",
            /// Its name for use in programs.
            name: String = "name",
        }
        optional {
            /// Its name for display (since 2025-06-18).
            title: String = "title",
            /// A description of the resources' content.
            description: String = "description",
            /// The media type, if all of them have the same.
            mime_type: String = "mimeType",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
            /// Hints for the client.
            annotations: Annotations = "annotations",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `resources/read`.
    ReadResourceRequestParams {
        required {
            /// The resource's URI.
            uri: String = "uri",
        }
        optional {
            /// Input that a result of this request required (since 2026-07-28).
            input_responses: InputResponses = "inputResponses",
            /// The state that such a result contained, unchanged (since 2026-07-28).
            request_state: String = "requestState",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `resources/read`.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{BlobResourceContents, ReadResourceResult, TextResourceContents};
    ///
    /// let text = TextResourceContents::new("file:///notes.txt", "Buy milk.").mime_type("text/plain");
    /// let picture = BlobResourceContents::from_bytes("file:///map.png", b"\x89PNG").mime_type("image/png");
    /// let result = ReadResourceResult::new([text.into(), picture.into()]);
    /// assert_eq!(result.contents.len(), 2);
    /// ```
    ReadResourceResult {
        required {
            /// The contents of the resource, or of the resources inside it.
            contents: Vec<ResourceContents> = "contents",
        }
        optional {
            /// How many milliseconds the result may be cached (since 2026-07-28).
            ttl_ms: Number = "ttlMs",
            /// Which clients may use the cached result (since 2026-07-28).
            cache_scope: CacheScope = "cacheScope",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl ReadResourceResult {
    /// Its texts, each on lines of its own.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{ReadResourceResult, ResourceContents, TextResourceContents};
    ///
    /// let contents = |text: &str| ResourceContents::from(TextResourceContents::new("note:///1", text));
    /// assert_eq!(ReadResourceResult::new(vec![contents("milk"), contents("bread")]).all_text(), "milk\nbread");
    /// ```
    #[must_use]
    pub fn all_text(&self) -> String {
        self.contents.iter().filter_map(ResourceContents::as_text).collect::<Vec<_>>().join("\n")
    }
}

union! {
    /// The content of a resource.
    ResourceContents {
        /// A text.
        Text(TextResourceContents),
        /// Binary data.
        Blob(BlobResourceContents),
    }
}

impl ResourceContents {
    /// The URI of the resource; `None` for contents of an unknown kind.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{ResourceContents, TextResourceContents};
    ///
    /// assert_eq!(ResourceContents::from(TextResourceContents::new("note:///1", "milk")).uri(), Some("note:///1"));
    /// ```
    #[must_use]
    pub fn uri(&self) -> Option<&str> {
        match self {
            Self::Text(contents) => Some(&contents.uri),
            Self::Blob(contents) => Some(&contents.uri),
            Self::Other(_) => None,
        }
    }

    /// The text, if this is a text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(contents) = self { Some(&contents.text) } else { None }
    }

    fn choose(json: &Json) -> Result<Self, ModelError> {
        if !json.is_object() {
            Err(ModelError::expected("an object"))
        } else if has(json, "text") {
            Value::read(json).map(Self::Text)
        } else if has(json, "blob") {
            Value::read(json).map(Self::Blob)
        } else {
            Ok(Self::Other(json.clone()))
        }
    }
}

object! {
    /// The content of a text resource.
    TextResourceContents {
        required {
            /// The resource's URI.
            uri: String = "uri",
            /// The text.
            text: String = "text",
        }
        optional {
            /// Its media type.
            mime_type: String = "mimeType",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The content of a binary resource.
    BlobResourceContents {
        required {
            /// The resource's URI.
            uri: String = "uri",
            /// The data, in Base64.
            blob: String = "blob",
        }
        optional {
            /// Its media type.
            mime_type: String = "mimeType",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

impl BlobResourceContents {
    /// Encodes data.
    #[must_use]
    pub fn from_bytes(uri: &str, bytes: &[u8]) -> Self {
        Self::new(uri, encode_base64(bytes))
    }

    /// Decodes the data.
    ///
    /// # Errors
    ///
    /// The data is not Base64.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        decode_base64(&self.blob).map_err(|error| error.inside("blob"))
    }
}

object! {
    /// The parameters of `resources/subscribe`.
    SubscribeRequestParams {
        required {
            /// The resource's URI.
            uri: String = "uri",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `resources/unsubscribe`.
    UnsubscribeRequestParams {
        required {
            /// The resource's URI.
            uri: String = "uri",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `notifications/resources/updated`.
    ResourceUpdatedNotificationParams {
        required {
            /// The URI of the resource that has changed. It may be inside the one that was subscribed to.
            uri: String = "uri",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
