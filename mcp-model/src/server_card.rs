//! Server cards (SEP-2127, a draft).

use super::common::Icon;
use super::define::object;
use super::value::Meta;

object! {
    /// What can be known about a server before a client connects to it. It is public, and states no tools, resources or prompts.
    /// A client must not decide about security by it: what the server says once it is connected counts.
    ///
    /// [SEP-2127](https://github.com/modelcontextprotocol/modelcontextprotocol/pull/2127) is a draft, so that this type may change
    /// in a minor version.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{Payload, ServerCard, ServerRemote};
    ///
    /// let card = ServerCard::describe("com.example/weather", "1.0.0", "The weather anywhere.")
    ///     .remotes([ServerRemote::new("streamable-http", "https://example.com/mcp")]);
    /// assert_eq!(
    ///     card.to_json().to_string(),
    ///     concat!(
    ///         r#"{"$schema":"https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json","#,
    ///         r#""name":"com.example/weather","version":"1.0.0","description":"The weather anywhere.","#,
    ///         r#""remotes":[{"type":"streamable-http","url":"https://example.com/mcp"}]}"#
    ///     )
    /// );
    /// ```
    ServerCard {
        required {
            /// The schema of the card.
            schema: String = "$schema",
            /// The name: a domain in reverse order, a slash, and the name of the server there.
            name: String = "name",
            /// The version of the server.
            version: String = "version",
            /// What it can do, in at most 100 characters.
            description: String = "description",
        }
        optional {
            /// Its name for display.
            title: String = "title",
            /// A page about it.
            website_url: String = "websiteUrl",
            /// Its source.
            repository: ServerRepository = "repository",
            /// Its icons.
            icons: Vec<Icon> = "icons",
            /// Where clients reach it over HTTP.
            remotes: Vec<ServerRemote> = "remotes",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl ServerCard {
    /// The schema of the cards that this type writes.
    pub const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json";

    /// A card with what each must have.
    #[must_use]
    pub fn describe(name: &str, version: &str, description: &str) -> Self {
        Self::new(Self::SCHEMA, name, version, description)
    }
}

object! {
    /// Where the source of a server is.
    ServerRepository {
        required {
            /// The URL, for browsers and for `git clone`.
            url: String = "url",
            /// The service that hosts it, such as `github`.
            source: String = "source",
        }
        optional {
            /// The path of the server in it.
            subfolder: String = "subfolder",
            /// The id of the repository at that service.
            id: String = "id",
        }
    }
}

object! {
    /// Where clients reach a server over HTTP. Which headers and variables its URL needs is not read.
    ServerRemote {
        required {
            /// The transport: `streamable-http` or `sse`.
            kind: String = "type",
            /// The URL, or a template of it.
            url: String = "url",
        }
        optional {
            /// The protocol revisions that it serves.
            supported_protocol_versions: Vec<String> = "supportedProtocolVersions",
        }
    }
}
