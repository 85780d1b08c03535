//! Mistakes of an application for which a service cannot be served.

use std::io::{Error, ErrorKind};

use mcp_proto::{InvalidAnnotation, UsageError};

/// A service that cannot be served: a mistake in the functions of a router, or in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidService {
    /// A router has two entries of one kind with the same name.
    #[error("two {kind} have the name '{name}'; each needs a name of its own")]
    DuplicateRoute {
        /// The kind of the entries, such as tools.
        kind: &'static str,
        /// The name, URI or URI template of both entries.
        name: Box<str>,
    },
    /// A field of the type of a prompt's arguments is no text, as all arguments of prompts are.
    #[error("the argument '{argument}' of the prompt '{prompt}' must be a text")]
    PromptArgument {
        /// The name of the prompt.
        prompt: Box<str>,
        /// The name of the field.
        argument: Box<str>,
    },
    /// The function that changes a shared router has asked for another change of the same router, which would wait for
    /// the first.
    #[error("a router cannot be changed inside of the function that changes it; make both changes in that function")]
    NestedChange,
    /// The schema of the arguments of a tool is not the schema of an object.
    #[error("the arguments of the tool '{tool}' must be an object: use a struct with named fields")]
    ToolSchema {
        /// The name of the tool.
        tool: Box<str>,
    },
    /// A schema of a tool cannot be compiled.
    #[cfg(feature = "validation")]
    #[error("a schema of the tool '{tool}' cannot be used for validation: {reason}")]
    InvalidToolSchema {
        /// The name of the tool.
        tool: Box<str>,
        /// What is wrong with it.
        reason: crate::validation::InvalidSchema,
    },
    /// The schema of the arguments of a tool has an `x-mcp-header` for which clients would ignore the tool.
    ///
    /// Rules: MD-P-05.
    #[error("the tool '{tool}' cannot be called over HTTP: {reason}")]
    HeaderAnnotation {
        /// The name of the tool.
        tool: Box<str>,
        /// What is invalid.
        reason: InvalidAnnotation,
    },
    /// A resource cannot be the page of an app.
    #[error("the resource '{uri}' is no app: its URI must begin with ui://, and `Resource::app` sets its media type")]
    App {
        /// The URI of the resource.
        uri: Box<str>,
    },
    /// The id of an extension has not the form of one.
    #[error(
        "the extension '{id}' cannot be declared: its id must be a vendor, a slash and a name, such as com.example/search"
    )]
    ExtensionId {
        /// The id.
        id: Box<str>,
    },
    /// An extension has a method of the specification.
    #[error("the method '{method}' is one of the specification: an extension needs a name of its own for each method")]
    ExtensionMethod {
        /// The method.
        method: Box<str>,
    },
    /// A URI template has expressions that cannot be matched.
    #[error(
        "the URI template '{template}' cannot be used: it must be one of RFC 6570, each variable once, with text \
         between an expression and a next one such as {{name}} or {{+path}}"
    )]
    UriTemplate {
        /// The template.
        template: Box<str>,
    },
    /// A skill cannot be served.
    #[cfg(feature = "skills")]
    #[error("the skill '{path}' cannot be served: {reason}")]
    Skill {
        /// The path of the skill.
        path: Box<str>,
        /// What is invalid.
        reason: crate::skills::InvalidSkill,
    },
    /// A mistake in the configuration, such as a capability that was not declared.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// For the functions of drivers that do I/O: the kind is [`ErrorKind::InvalidInput`].
impl From<InvalidService> for Error {
    fn from(error: InvalidService) -> Self {
        if let InvalidService::Usage(error) = error { error.into() } else { Self::new(ErrorKind::InvalidInput, error) }
    }
}
