//! `initialize`: who the two sides are, and what they can do.
//!
//! The machines of this crate shake hands by themselves. The types are for what an application says of itself, and for
//! reading what the peer said.

use super::common::Icon;
use super::define::object;
use super::value::{JsonObject, Meta};

object! {
    /// The parameters of `initialize`.
    InitializeRequestParams {
        required {
            /// The newest revision that the client speaks.
            protocol_version: String = "protocolVersion",
            /// What the server may ask the client for.
            capabilities: ClientCapabilities = "capabilities",
            /// Who the client is.
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
            /// The revision that is spoken from now on.
            protocol_version: String = "protocolVersion",
            /// What the client may ask the server for.
            capabilities: ServerCapabilities = "capabilities",
            /// Who the server is.
            server_info: Implementation = "serverInfo",
        }
        optional {
            /// How to use the server, for the language model to read.
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
            /// Its name, for programs.
            name: String = "name",
            /// Its version.
            version: String = "version",
        }
        optional {
            /// Its name, for people (since 2025-06-18).
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
    /// What a server may ask a client for.
    ///
    /// # Example: the capabilities of a client
    ///
    /// ```
    /// use mcp_proto::model::{ClientCapabilities, ElicitationCapability, Payload};
    ///
    /// let capabilities = ClientCapabilities::new().elicitation(ElicitationCapability::new());
    /// assert_eq!(capabilities.to_json().as_bytes(), br#"{"elicitation":{}}"#);
    /// ```
    ClientCapabilities {
        optional {
            /// Lists of roots.
            roots: RootsCapability = "roots",
            /// The use of its language model.
            sampling: SamplingCapability = "sampling",
            /// Questions to its user (since 2025-06-18).
            elicitation: ElicitationCapability = "elicitation",
            /// Tasks (2025-11-25 only).
            tasks: TasksCapability = "tasks",
            /// What no revision knows, by name.
            experimental: JsonObject = "experimental",
        }
    }
}

object! {
    /// What a client may ask a server for.
    ///
    /// # Example: the capabilities of a server
    ///
    /// ```
    /// use mcp_proto::model::{Payload, ResourcesCapability, ServerCapabilities, ToolsCapability};
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
            /// Log messages.
            logging: JsonObject = "logging",
            /// Tasks (2025-11-25 only).
            tasks: TasksCapability = "tasks",
            /// What no revision knows, by name.
            experimental: JsonObject = "experimental",
        }
    }
}

object! {
    /// The client's capability to list roots.
    RootsCapability {
        optional {
            /// It tells when the list changes.
            list_changed: bool = "listChanged",
        }
    }
}

object! {
    /// The client's capability to let the server use its language model.
    SamplingCapability {
        optional {
            /// It heeds `includeContext` (since 2025-11-25).
            context: JsonObject = "context",
            /// It heeds `tools` and `toolChoice` (since 2025-11-25).
            tools: JsonObject = "tools",
        }
    }
}

object! {
    /// The client's capability to ask its user. Without members it means forms.
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
            /// It tells when the list changes.
            list_changed: bool = "listChanged",
        }
    }
}

object! {
    /// The server's capability to offer resources.
    ResourcesCapability {
        optional {
            /// It tells when a resource changes, if a client wants that.
            subscribe: bool = "subscribe",
            /// It tells when the list changes.
            list_changed: bool = "listChanged",
        }
    }
}

object! {
    /// The server's capability to offer tools.
    ToolsCapability {
        optional {
            /// It tells when the list changes.
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
            /// It ends tasks that are asked to end.
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
