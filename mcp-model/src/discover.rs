//! `server/discover`: the revisions and capabilities of a server (since 2026-07-28).

use super::common::CacheScope;
use super::define::object;
use super::initialize::{Implementation, ServerCapabilities};
use super::value::{Meta, Number};

object! {
    /// The result of `server/discover`. The parameters are [`RequestParams`](super::RequestParams).
    DiscoverResult {
        required {
            /// The revisions that the server supports.
            supported_versions: Vec<String> = "supportedVersions",
            /// The capabilities of the server.
            capabilities: ServerCapabilities = "capabilities",
        }
        optional {
            /// Instructions for the language model on how to use the server.
            instructions: String = "instructions",
            /// How many milliseconds the result may be cached.
            ttl_ms: Number = "ttlMs",
            /// Which clients may use the cached result.
            cache_scope: CacheScope = "cacheScope",
            /// Metadata, with [`Meta::server_info`].
            meta: Meta = "_meta",
        }
    }
}

impl DiscoverResult {
    /// The server's name and version, if it states them (MD-V-04).
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.meta.as_ref()?.server_info()
    }
}
