//! Roots: where a server may look on the client's side.

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
    /// A folder or file that a server may look at.
    Root {
        required {
            /// Its URI; so far always one that begins with `file://`.
            uri: String = "uri",
        }
        optional {
            /// Its name, for people.
            name: String = "name",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}
