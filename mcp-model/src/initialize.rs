//! `initialize`: the names, versions and capabilities of the two sides.
//!
//! The machines of this crate carry out the handshake themselves. An application uses these types to declare its
//! capabilities, and to read those of the peer.

use super::common::Icon;
use super::define::object;
use super::value::{JsonObject, Meta};

object! {
    /// The parameters of `initialize`.
    InitializeRequestParams {
        required {
            /// The newest revision that the client supports.
            protocol_version: String = "protocolVersion",
            /// The capabilities of the client.
            capabilities: ClientCapabilities = "capabilities",
            /// The client's name and version.
            client_info: Implementation = "clientInfo",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `initialize`.
    InitializeResult {
        required {
            /// The negotiated revision.
            protocol_version: String = "protocolVersion",
            /// The capabilities of the server.
            capabilities: ServerCapabilities = "capabilities",
            /// The server's name and version.
            server_info: Implementation = "serverInfo",
        }
        optional {
            /// Instructions for the language model on how to use the server.
            instructions: String = "instructions",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The name and version of a client or server.
    Implementation {
        required {
            /// Its name for use in programs.
            name: String = "name",
            /// Its version.
            version: String = "version",
        }
        optional {
            /// Its name for display (since 2025-06-18).
            title: String = "title",
            /// What it does (since 2025-11-25).
            description: String = "description",
            /// Its website (since 2025-11-25).
            website_url: String = "websiteUrl",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
        }
    }
}

object! {
    /// The capabilities of a client: what a server may request.
    ///
    /// # Example: the capabilities of a client
    ///
    /// ```
    /// use mcp_model::{ClientCapabilities, ElicitationCapability, Payload};
    ///
    /// let capabilities = ClientCapabilities::new().elicitation(ElicitationCapability::new());
    /// assert_eq!(capabilities.to_json().as_bytes(), br#"{"elicitation":{}}"#);
    /// ```
    ClientCapabilities {
        optional {
            /// Listing roots (deprecated since 2026-07-28).
            roots: RootsCapability = "roots",
            /// Sampling from its language model (deprecated since 2026-07-28).
            sampling: SamplingCapability = "sampling",
            /// Input from its user (since 2025-06-18).
            elicitation: ElicitationCapability = "elicitation",
            /// Tasks (2025-11-25 only).
            tasks: TasksCapability = "tasks",
            /// Extensions of the protocol, by name (since 2026-07-28).
            extensions: JsonObject = "extensions",
            /// Capabilities that no revision defines, by name.
            experimental: JsonObject = "experimental",
        }
    }
}

object! {
    /// The capabilities of a server: what a client may request.
    ///
    /// # Example: the capabilities of a server
    ///
    /// ```
    /// use mcp_model::{Payload, ResourcesCapability, ServerCapabilities, ToolsCapability};
    ///
    /// let capabilities = ServerCapabilities::new()
    ///     .tools(ToolsCapability::new())
    ///     .resources(ResourcesCapability::new().subscribe(true));
    /// assert_eq!(capabilities.to_json().as_bytes(), br#"{"resources":{"subscribe":true},"tools":{}}"#);
    /// ```
    ServerCapabilities {
        optional {
            /// Prompts.
            prompts: PromptsCapability = "prompts",
            /// Resources.
            resources: ResourcesCapability = "resources",
            /// Tools.
            tools: ToolsCapability = "tools",
            /// Completion of arguments (since 2025-03-26).
            completions: JsonObject = "completions",
            /// Log messages (deprecated since 2026-07-28).
            logging: JsonObject = "logging",
            /// Tasks (2025-11-25 only).
            tasks: TasksCapability = "tasks",
            /// Extensions of the protocol, by name (since 2026-07-28).
            extensions: JsonObject = "extensions",
            /// Capabilities that no revision defines, by name.
            experimental: JsonObject = "experimental",
        }
    }
}

object! {
    /// The client's capability to list roots.
    RootsCapability {
        optional {
            /// Whether it sends a notification when the list changes.
            list_changed: bool = "listChanged",
        }
    }
}

object! {
    /// The client's capability to let the server use its language model.
    SamplingCapability {
        optional {
            /// It supports `includeContext` (since 2025-11-25).
            context: JsonObject = "context",
            /// It supports `tools` and `toolChoice` (since 2025-11-25).
            tools: JsonObject = "tools",
        }
    }
}

object! {
    /// The client's capability to request input from its user. Without members it means forms.
    ElicitationCapability {
        optional {
            /// It shows forms (since 2025-11-25).
            form: JsonObject = "form",
            /// It opens URLs (since 2025-11-25).
            url: JsonObject = "url",
        }
    }
}

object! {
    /// The server's capability to offer prompts.
    PromptsCapability {
        optional {
            /// Whether it sends a notification when the list changes.
            list_changed: bool = "listChanged",
        }
    }
}

object! {
    /// The server's capability to offer resources.
    ResourcesCapability {
        optional {
            /// Whether clients can subscribe to changes of a resource.
            subscribe: bool = "subscribe",
            /// Whether it sends a notification when the list changes.
            list_changed: bool = "listChanged",
        }
    }
}

object! {
    /// The server's capability to offer tools.
    ToolsCapability {
        optional {
            /// Whether it sends a notification when the list changes.
            list_changed: bool = "listChanged",
        }
    }
}

object! {
    /// The capability to answer requests with tasks.
    TasksCapability {
        optional {
            /// It lists tasks.
            list: JsonObject = "list",
            /// It cancels tasks on request.
            cancel: JsonObject = "cancel",
            /// The requests that it answers with tasks.
            requests: TaskRequestsCapability = "requests",
        }
    }
}

object! {
    /// The requests that may be answered with tasks.
    TaskRequestsCapability {
        optional {
            /// Of a server: requests about tools.
            tools: ToolTasksCapability = "tools",
            /// Of a client: requests about sampling.
            sampling: SamplingTasksCapability = "sampling",
            /// Of a client: requests about elicitation.
            elicitation: ElicitationTasksCapability = "elicitation",
        }
    }
}

object! {
    /// The requests about tools that may be answered with tasks.
    ToolTasksCapability {
        optional {
            /// `tools/call`.
            call: JsonObject = "call",
        }
    }
}

object! {
    /// The requests about sampling that may be answered with tasks.
    SamplingTasksCapability {
        optional {
            /// `sampling/createMessage`.
            create_message: JsonObject = "createMessage",
        }
    }
}

object! {
    /// The requests about elicitation that may be answered with tasks.
    ElicitationTasksCapability {
        optional {
            /// `elicitation/create`.
            create: JsonObject = "create",
        }
    }
}
