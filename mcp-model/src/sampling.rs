//! Sampling: a server uses the client's language model.

use mcp_proto::Json;

use super::common::Role;
use super::content::SamplingMessageContentBlock;
use super::define::{object, payload, string_enum};
use super::error::ModelError;
use super::object::Value;
use super::tasks::TaskMetadata;
use super::tools::Tool;
use super::value::{JsonObject, Meta, Number};

object! {
    /// The parameters of `sampling/createMessage`.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{CreateMessageRequestParams, SamplingMessage};
    ///
    /// let params = CreateMessageRequestParams::new([SamplingMessage::user("What is 6 times 7?")], 100);
    /// assert_eq!(params.max_tokens.as_u64(), Some(100));
    /// ```
    CreateMessageRequestParams {
        required {
            /// The conversation so far.
            messages: Vec<SamplingMessage> = "messages",
            /// The most tokens to generate.
            max_tokens: Number = "maxTokens",
        }
        optional {
            /// The model that the server prefers. The client may choose another.
            model_preferences: ModelPreferences = "modelPreferences",
            /// The system prompt. The client may change or omit it.
            system_prompt: String = "systemPrompt",
            /// Which context of servers to include in the prompt.
            include_context: IncludeContext = "includeContext",
            /// The sampling temperature.
            temperature: Number = "temperature",
            /// Strings at which the model stops.
            stop_sequences: Vec<String> = "stopSequences",
            /// Metadata for the model's provider.
            metadata: JsonObject = "metadata",
            /// The tools that the model may use (since 2025-11-25).
            tools: Vec<Tool> = "tools",
            /// Whether the model uses them (since 2025-11-25).
            tool_choice: ToolChoice = "toolChoice",
            /// Requests a task (2025-11-25 only): the result is a [`CreateTaskResult`](super::CreateTaskResult).
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
            /// The sender.
            role: Role = "role",
            /// The content.
            content: SamplingContent = "content",
        }
        optional {
            /// Metadata (since 2025-11-25).
            meta: Meta = "_meta",
        }
    }
}

impl SamplingMessage {
    /// A message from the user.
    #[must_use]
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, content)
    }

    /// A message from the language model.
    #[must_use]
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// The content of a message to or from a language model.
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

string_enum! {
    /// The context that is included in the prompt.
    IncludeContext {
        /// No context.
        None = "none",
        /// Context of the requesting server.
        ThisServer = "thisServer",
        /// Context of all servers.
        AllServers = "allServers",
    }
}

object! {
    /// A server's preferences for the choice of a language model.
    ModelPreferences {
        optional {
            /// Names of models, or parts of names; the client uses the first match.
            hints: Vec<ModelHint> = "hints",
            /// The importance of a low cost, from 0 to 1.
            cost_priority: Number = "costPriority",
            /// The importance of speed, from 0 to 1.
            speed_priority: Number = "speedPriority",
            /// The importance of capability, from 0 to 1.
            intelligence_priority: Number = "intelligencePriority",
        }
    }
}

object! {
    /// A language model that a server prefers.
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

string_enum! {
    /// Whether a language model uses tools.
    ToolChoiceMode {
        /// The model decides.
        Auto = "auto",
        /// The model uses at least one tool.
        Required = "required",
        /// The model uses no tool.
        None = "none",
    }
}

object! {
    /// The result of `sampling/createMessage`: a message from the language model.
    CreateMessageResult {
        required {
            /// The sender.
            role: Role = "role",
            /// The content.
            content: SamplingContent = "content",
            /// The model's name.
            model: String = "model",
        }
        optional {
            /// Why the model stopped.
            stop_reason: StopReason = "stopReason",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

string_enum! {
    /// Why a language model stopped; providers may use other values.
    StopReason {
        /// The message was complete.
        EndTurn = "endTurn",
        /// The model generated a stop sequence.
        StopSequence = "stopSequence",
        /// The limit of tokens was reached.
        MaxTokens = "maxTokens",
        /// The model requests tool calls (since 2025-11-25).
        ToolUse = "toolUse",
    }
}
