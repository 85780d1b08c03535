//! Prompts.

use std::collections::BTreeMap;

use super::common::{CacheScope, Icon, Role};
use super::content::ContentBlock;
use super::define::object;
use super::input::InputResponses;
use super::value::{Meta, Number};

object! {
    /// The result of `prompts/list`.
    ListPromptsResult {
        required {
            /// The prompts of this page.
            prompts: Vec<Prompt> = "prompts",
        }
        optional {
            /// The cursor of the next page; absent on the last page.
            next_cursor: String = "nextCursor",
            /// How many milliseconds the result may be cached (since 2026-07-28).
            ttl_ms: Number = "ttlMs",
            /// Which clients may use the cached result (since 2026-07-28).
            cache_scope: CacheScope = "cacheScope",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A prompt that a server offers.
    Prompt {
        required {
            /// Its name.
            name: String = "name",
        }
        optional {
            /// Its name for display (since 2025-06-18).
            title: String = "title",
            /// Its purpose.
            description: String = "description",
            /// Its arguments.
            arguments: Vec<PromptArgument> = "arguments",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// An argument of a prompt.
    PromptArgument {
        required {
            /// Its name.
            name: String = "name",
        }
        optional {
            /// Its name for display (since 2025-06-18).
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// Whether it is required.
            required: bool = "required",
        }
    }
}

object! {
    /// The parameters of `prompts/get`.
    GetPromptRequestParams {
        required {
            /// The prompt's name.
            name: String = "name",
        }
        optional {
            /// The arguments by name.
            arguments: BTreeMap<String, String> = "arguments",
            /// Input that a result of this request required (since 2026-07-28).
            input_responses: InputResponses = "inputResponses",
            /// The state that such a result contained, unchanged (since 2026-07-28).
            request_state: String = "requestState",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl GetPromptRequestParams {
    /// The argument with this name, if there is one.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments.as_ref()?.get(name).map(String::as_str)
    }
}

object! {
    /// The result of `prompts/get`.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{GetPromptResult, PromptMessage};
    ///
    /// let result = GetPromptResult::new([PromptMessage::user("Review this code.")]);
    /// assert_eq!(result.messages[0].content.as_text(), Some("Review this code."));
    /// ```
    GetPromptResult {
        required {
            /// The messages.
            messages: Vec<PromptMessage> = "messages",
        }
        optional {
            /// The purpose of the prompt.
            description: String = "description",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A message of a prompt.
    PromptMessage {
        required {
            /// The sender.
            role: Role = "role",
            /// The content.
            content: ContentBlock = "content",
        }
    }
}

impl PromptMessage {
    /// A message from the user.
    #[must_use]
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// A message from the language model.
    #[must_use]
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}
