//! Resources.

use super::common::{Annotations, Icon};
use super::define::{object, union};
use super::error::ModelError;
use super::object::{Value, has};
use super::value::{Meta, Number, decode_base64, encode_base64};
use crate::codec::json::Json;

object! {
    /// The result of `resources/list`.
    ListResourcesResult {
        required {
            /// The resources of this page.
            resources: Vec<Resource> = "resources",
        }
        optional {
            /// Asks for the next page; absent on the last.
            next_cursor: String = "nextCursor",
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
            /// Its name, for programs.
            name: String = "name",
        }
        optional {
            /// Its name, for people (since 2025-06-18).
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
            /// Asks for the next page; absent on the last.
            next_cursor: String = "nextCursor",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// Many resources whose URIs are built alike.
    ResourceTemplate {
        required {
            /// How a URI is built, as RFC 6570 has it.
            uri_template: String = "uriTemplate",
            /// Its name, for programs.
            name: String = "name",
        }
        optional {
            /// Its name, for people (since 2025-06-18).
            title: String = "title",
            /// What the resources hold.
            description: String = "description",
            /// The media type of all of them.
            mime_type: String = "mimeType",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
            /// What a client may go by.
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
    /// use mcp_proto::model::{BlobResourceContents, ReadResourceResult, TextResourceContents};
    ///
    /// let text = TextResourceContents::new("file:///notes.txt", "Buy milk.").mime_type("text/plain");
    /// let picture = BlobResourceContents::from_bytes("file:///map.png", b"\x89PNG").mime_type("image/png");
    /// let result = ReadResourceResult::new([text.into(), picture.into()]);
    /// assert_eq!(result.contents.len(), 2);
    /// ```
    ReadResourceResult {
        required {
            /// The resource, or what is in it.
            contents: Vec<ResourceContents> = "contents",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

union! {
    /// What a resource holds.
    ResourceContents {
        /// A text.
        Text(TextResourceContents),
        /// Binary data.
        Blob(BlobResourceContents),
    }
}

impl ResourceContents {
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
    /// A resource that is a text.
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
    /// A resource that is binary.
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
            /// The URI of the resource that has changed. It may be a part of the one that was subscribed to.
            uri: String = "uri",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
