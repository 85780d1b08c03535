//! What many messages share.

use super::define::{object, words};
use super::value::{Meta, Number, ProgressToken};
use crate::codec::jsonrpc::RequestId;

object! {
    /// The parameters of a request that needs none.
    RequestParams {
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of a notification that says nothing more.
    NotificationParams {
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of a request that only succeeds.
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
            /// The `nextCursor` of the page before; absent for the first page.
            cursor: String = "cursor",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `notifications/cancelled`. The machines of this crate send and read these by themselves.
    CancelledNotificationParams {
        optional {
            /// The request that is taken back. Only 2025-11-25 lets it be absent, for tasks.
            request_id: RequestId = "requestId",
            /// Why, for a person to read.
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
            /// The token that came with the request.
            progress_token: ProgressToken = "progressToken",
            /// How far it is; grows with every notification.
            progress: Number = "progress",
        }
        optional {
            /// How far there is to go.
            total: Number = "total",
            /// What is happening (since 2025-03-26).
            message: String = "message",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// What a client may go by when it shows or uses something.
    Annotations {
        optional {
            /// Whom it is for.
            audience: Vec<Role> = "audience",
            /// How much it matters, from 0 to 1.
            priority: Number = "priority",
            /// When it was last changed, as an ISO 8601 time (since 2025-06-18).
            last_modified: String = "lastModified",
        }
    }
}

object! {
    /// A picture that stands for something in a user interface (since 2025-11-25).
    Icon {
        required {
            /// Its URI: `https:`, `http:` or `data:`.
            src: String = "src",
        }
        optional {
            /// Its media type.
            mime_type: String = "mimeType",
            /// The sizes that it is good for, such as `48x48`, or `any`.
            sizes: Vec<String> = "sizes",
            /// The theme that it is drawn for.
            theme: IconTheme = "theme",
        }
    }
}

words! {
    /// The theme that an [`Icon`] is drawn for.
    IconTheme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

words! {
    /// Who speaks, or is spoken to.
    Role {
        /// The user.
        User = "user",
        /// The language model.
        Assistant = "assistant",
    }
}
