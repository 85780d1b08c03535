//! Sampling: a server uses the client's language model.

use super::common::Role;
use super::content::SamplingMessageContentBlock;
use super::define::{object, payload, words};
use super::error::ModelError;
use super::object::Value;
use super::tasks::TaskMetadata;
use super::tools::Tool;
use super::value::{JsonObject, Meta, Number};
use crate::codec::json::Json;

object! {
    /// The parameters of `sampling/createMessage`.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::model::{CreateMessageRequestParams, SamplingMessage};
    ///
    /// let params = CreateMessageRequestParams::new([SamplingMessage::user("What is 6 times 7?")], 100);
    /// assert_eq!(params.max_tokens.as_u64(), Some(100));
    /// ```
    CreateMessageRequestParams {
        required {
            /// The conversation so far.
            messages: Vec<SamplingMessage> = "messages",
            /// At most so many tokens are written.
            max_tokens: Number = "maxTokens",
        }
        optional {
            /// Which model the server would like. The client may take another.
            model_preferences: ModelPreferences = "modelPreferences",
            /// What the model is told first. The client may change or leave it out.
            system_prompt: String = "systemPrompt",
            /// What else the model is shown.
            include_context: IncludeContext = "includeContext",
            /// How much is left to chance.
            temperature: Number = "temperature",
            /// The model ends where it would write one of these.
            stop_sequences: Vec<String> = "stopSequences",
            /// What is meant for the model's provider.
            metadata: JsonObject = "metadata",
            /// The tools that the model may use (since 2025-11-25).
            tools: Vec<Tool> = "tools",
            /// Whether it uses them (since 2025-11-25).
            tool_choice: ToolChoice = "toolChoice",
            /// Asks for a task (2025-11-25 only): the result is a [`CreateTaskResult`](super::CreateTaskResult).
            task: TaskMetadata = "task",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// A message to or from a language model.
    SamplingMessage {
        required {
            /// Who says it.
            role: Role = "role",
            /// What is said.
            content: SamplingContent = "content",
        }
        optional {
            /// Metadata (since 2025-11-25).
            meta: Meta = "_meta",
        }
    }
}

impl SamplingMessage {
    /// The user says it.
    #[must_use]
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, content)
    }

    /// The language model says it.
    #[must_use]
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// What is said in a message to or from a language model.
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingContent {
    /// One part.
    One(SamplingMessageContentBlock),
    /// Any number of parts (since 2025-11-25).
    Many(Vec<SamplingMessageContentBlock>),
}

impl SamplingContent {
    /// The parts.
    #[must_use]
    pub fn blocks(&self) -> &[SamplingMessageContentBlock] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }

    /// The first text, if there is any.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        self.blocks().iter().find_map(|block| match block {
            SamplingMessageContentBlock::Text(content) => Some(content.text.as_str()),
            SamplingMessageContentBlock::Image(_)
            | SamplingMessageContentBlock::Audio(_)
            | SamplingMessageContentBlock::ToolUse(_)
            | SamplingMessageContentBlock::ToolResult(_)
            | SamplingMessageContentBlock::Other(_) => None,
        })
    }
}

impl<B: Into<SamplingMessageContentBlock>> From<B> for SamplingContent {
    fn from(block: B) -> Self {
        Self::One(block.into())
    }
}

impl From<Vec<SamplingMessageContentBlock>> for SamplingContent {
    fn from(blocks: Vec<SamplingMessageContentBlock>) -> Self {
        Self::Many(blocks)
    }
}

impl Value for SamplingContent {
    fn read(json: &Json) -> Result<Self, ModelError> {
        if json.is_object() { Value::read(json).map(Self::One) } else { Value::read(json).map(Self::Many) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::One(block) => block.write(out),
            Self::Many(blocks) => blocks.write(out),
        }
    }
}

payload! { SamplingContent }

words! {
    /// What else a language model is shown.
    IncludeContext {
        /// Nothing.
        None = "none",
        /// What the asking server gave.
        ThisServer = "thisServer",
        /// What all servers gave.
        AllServers = "allServers",
    }
}

object! {
    /// Which language model a server would like.
    ModelPreferences {
        optional {
            /// Names, or parts of names; the first that fits.
            hints: Vec<ModelHint> = "hints",
            /// How much a low price matters, from 0 to 1.
            cost_priority: Number = "costPriority",
            /// How much speed matters, from 0 to 1.
            speed_priority: Number = "speedPriority",
            /// How much ability matters, from 0 to 1.
            intelligence_priority: Number = "intelligencePriority",
        }
    }
}

object! {
    /// A language model that a server would like.
    ModelHint {
        optional {
            /// A name, or a part of it.
            name: String = "name",
        }
    }
}

object! {
    /// Whether a language model uses tools (since 2025-11-25).
    ToolChoice {
        optional {
            /// `auto` if absent.
            mode: ToolChoiceMode = "mode",
        }
    }
}

words! {
    /// Whether a language model uses tools.
    ToolChoiceMode {
        /// As it likes.
        Auto = "auto",
        /// At least one.
        Required = "required",
        /// None.
        None = "none",
    }
}

object! {
    /// The result of `sampling/createMessage`: a message of the language model's.
    CreateMessageResult {
        required {
            /// Who says it.
            role: Role = "role",
            /// What is said.
            content: SamplingContent = "content",
            /// The model's name.
            model: String = "model",
        }
        optional {
            /// Why it stopped.
            stop_reason: StopReason = "stopReason",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

words! {
    /// Why a language model stopped; providers have words of their own.
    StopReason {
        /// It was done.
        EndTurn = "endTurn",
        /// It came to a stop sequence.
        StopSequence = "stopSequence",
        /// It had written as many tokens as it may.
        MaxTokens = "maxTokens",
        /// It wants tools to be called (since 2025-11-25).
        ToolUse = "toolUse",
    }
}
