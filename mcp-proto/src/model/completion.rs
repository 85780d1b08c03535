//! Completion of arguments.

use std::collections::BTreeMap;

use super::define::{object, union};
use super::value::{Meta, Number};

object! {
    /// The parameters of `completion/complete`.
    CompleteRequestParams {
        required {
            /// What the argument belongs to.
            reference: CompletionReference = "ref",
            /// The argument.
            argument: CompletionArgument = "argument",
        }
        optional {
            /// What is known already (since 2025-06-18).
            context: CompletionContext = "context",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

union! {
    /// What an argument belongs to that shall be completed.
    CompletionReference("type") {
        /// A prompt.
        Prompt(PromptReference) = "ref/prompt",
        /// A resource or a template.
        Resource(ResourceTemplateReference) = "ref/resource",
    }
}

object! {
    /// A prompt.
    PromptReference("type" = "ref/prompt") {
        required {
            /// Its name.
            name: String = "name",
        }
        optional {
            /// Its name, for people (since 2025-06-18).
            title: String = "title",
        }
    }
}

object! {
    /// A resource or a template; `ResourceReference` before 2025-06-18.
    ResourceTemplateReference("type" = "ref/resource") {
        required {
            /// Its URI, or how that is built.
            uri: String = "uri",
        }
    }
}

object! {
    /// The argument that shall be completed.
    CompletionArgument {
        required {
            /// Its name.
            name: String = "name",
            /// What it is so far.
            value: String = "value",
        }
    }
}

object! {
    /// What is known already when an argument is completed (since 2025-06-18).
    CompletionContext {
        optional {
            /// Other arguments by name.
            arguments: BTreeMap<String, String> = "arguments",
        }
    }
}

object! {
    /// The result of `completion/complete`.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::model::{CompleteResult, Completion, Payload};
    ///
    /// let result = CompleteResult::new(Completion::new(["python".to_owned(), "pytorch".to_owned()]));
    /// assert_eq!(result.to_json().as_bytes(), br#"{"completion":{"values":["python","pytorch"]}}"#);
    /// ```
    CompleteResult {
        required {
            /// The proposals.
            completion: Completion = "completion",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// Proposals for an argument.
    Completion {
        required {
            /// At most 100 of them, the best first.
            values: Vec<String> = "values",
        }
        optional {
            /// How many there are.
            total: Number = "total",
            /// There are more.
            has_more: bool = "hasMore",
        }
    }
}
