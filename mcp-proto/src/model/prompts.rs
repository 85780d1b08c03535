//! Prompts.

use std::collections::BTreeMap;

use super::common::{Icon, Role};
use super::content::ContentBlock;
use super::define::object;
use super::value::Meta;

object! {
    /// The result of `prompts/list`.
    ListPromptsResult {
        required {
            /// The prompts of this page.
            prompts: Vec<Prompt> = "prompts",
        }
        optional {
            /// Asks for the next page; absent on the last.
            next_cursor: String = "nextCursor",
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
            /// Its name, for people (since 2025-06-18).
            title: String = "title",
            /// What it is for.
            description: String = "description",
            /// What it can be told.
            arguments: Vec<PromptArgument> = "arguments",
            /// Its icons (since 2025-11-25).
            icons: Vec<Icon> = "icons",
            /// Metadata (since 2025-06-18).
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// What a prompt can be told.
    PromptArgument {
        required {
            /// Its name.
            name: String = "name",
        }
        optional {
            /// Its name, for people (since 2025-06-18).
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// It must be given.
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
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl GetPromptRequestParams {
    /// The argument of that name, if it was given.
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
    /// use mcp_proto::model::{GetPromptResult, PromptMessage};
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
            /// What the prompt is for.
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
            /// Who says it.
            role: Role = "role",
            /// What is said.
            content: ContentBlock = "content",
        }
    }
}

impl PromptMessage {
    /// The user says it.
    #[must_use]
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// The language model says it.
    #[must_use]
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}
