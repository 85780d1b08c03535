//! Types that many messages share.

use mcp_proto::RequestId;

use super::define::{object, string_enum};
use super::value::{Meta, Number, ProgressToken};

object! {
    /// The parameters of a request that has none but metadata.
    RequestParams {
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of a notification that has none but metadata.
    NotificationParams {
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of a request that returns only success.
    EmptyResult {
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of a request for one page of a list.
    PaginatedRequestParams {
        optional {
            /// The `nextCursor` of the previous page; absent for the first page.
            cursor: String = "cursor",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `notifications/cancelled`. The machines of this crate send and handle these themselves.
    CancelledNotificationParams {
        optional {
            /// The request that is cancelled. It may be absent only in 2025-11-25, for tasks.
            request_id: RequestId = "requestId",
            /// The reason, as text for display.
            reason: String = "reason",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `notifications/progress`.
    ProgressNotificationParams {
        required {
            /// The token from the request.
            progress_token: ProgressToken = "progressToken",
            /// The progress so far; it increases with every notification.
            progress: Number = "progress",
        }
        optional {
            /// The total, if it is known.
            total: Number = "total",
            /// A description of the current progress (since 2025-03-26).
            message: String = "message",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// Hints for a client on how to display or use an object.
    Annotations {
        optional {
            /// The intended audience.
            audience: Vec<Role> = "audience",
            /// Its importance, from 0 to 1.
            priority: Number = "priority",
            /// When it was last changed, as an ISO 8601 time (since 2025-06-18).
            last_modified: String = "lastModified",
        }
    }
}

object! {
    /// An icon for a user interface (since 2025-11-25).
    Icon {
        required {
            /// Its URI: `https:`, `http:` or `data:`.
            src: String = "src",
        }
        optional {
            /// Its media type.
            mime_type: String = "mimeType",
            /// The sizes that it is suitable for, such as `48x48`, or `any`.
            sizes: Vec<String> = "sizes",
            /// The theme that it is drawn for.
            theme: IconTheme = "theme",
        }
    }
}

string_enum! {
    /// The theme that an [`Icon`] is drawn for.
    IconTheme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

string_enum! {
    /// The sender or recipient of a message.
    Role {
        /// The user.
        User = "user",
        /// The language model.
        Assistant = "assistant",
    }
}

string_enum! {
    /// Which clients may use a cached result (since 2026-07-28).
    CacheScope {
        /// Only the principal whose request it answers (MD-K-02).
        Private = "private",
        /// All clients.
        Public = "public",
    }
}

impl From<mcp_proto::spec::CacheScope> for CacheScope {
    fn from(scope: mcp_proto::spec::CacheScope) -> Self {
        Self::from(scope.as_str())
    }
}
