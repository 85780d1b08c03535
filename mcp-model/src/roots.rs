//! Roots: the folders and files of the client that a server may access.

use super::define::object;
use super::value::Meta;

object! {
    /// The result of `roots/list`.
    ListRootsResult {
        required {
            /// The roots.
            roots: Vec<Root> = "roots",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A folder or file that a server may access.
    Root {
        required {
            /// Its URI, which must begin with `file://` in all revisions.
            uri: String = "uri",
        }
        optional {
            /// Its name for display.
            name: String = "name",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}
