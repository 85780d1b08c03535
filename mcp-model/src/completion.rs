//! Completion of arguments.

use std::collections::BTreeMap;

use super::define::{object, union};
use super::value::{Meta, Number};

object! {
    /// The parameters of `completion/complete`.
    CompleteRequestParams {
        required {
            /// The prompt or resource that has the argument.
            reference: CompletionReference = "ref",
            /// The argument.
            argument: CompletionArgument = "argument",
        }
        optional {
            /// Context for the completion (since 2025-06-18).
            context: CompletionContext = "context",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

union! {
    /// The prompt or resource whose argument is completed.
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
            /// Its name for display (since 2025-06-18).
            title: String = "title",
        }
    }
}

object! {
    /// A resource or a template; `ResourceReference` before 2025-06-18.
    ResourceTemplateReference("type" = "ref/resource") {
        required {
            /// Its URI, or its URI template.
            uri: String = "uri",
        }
    }
}

object! {
    /// The argument to complete.
    CompletionArgument {
        required {
            /// Its name.
            name: String = "name",
            /// Its value so far.
            value: String = "value",
        }
    }
}

object! {
    /// Context for the completion (since 2025-06-18).
    CompletionContext {
        optional {
            /// The other arguments that are already set, by name.
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
    /// use mcp_model::{CompleteResult, Completion, Payload};
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
            /// The number of all proposals.
            total: Number = "total",
            /// Whether there are more proposals.
            has_more: bool = "hasMore",
        }
    }
}
