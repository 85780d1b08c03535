//! Typed parameters and results of every method, for those who write handlers and callers.
//!
//! The machines of this crate carry payloads as [`Json`], which is text. The types of this module are made of such
//! text, and turned into it. They have the names that the specification's schemas have.
//!
//! # Example: a server's handler
//!
//! ```
//! use mcp_proto::model::{
//!     CallToolRequest, CallToolResult, ListToolsRequest, ListToolsResult, Request, Tool,
//! };
//! use mcp_proto::{ErrorObject, Json, Method, code};
//!
//! fn serve(method: &Method, params: Option<&Json>) -> Result<Json, ErrorObject> {
//!     if *method == ListToolsRequest::METHOD {
//!         Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into())
//!     } else if *method == CallToolRequest::METHOD {
//!         match CallToolRequest::params(params)?.name.as_str() {
//!             "hello" => Ok(CallToolResult::text("Hello!").into()),
//!             _ => Err(ErrorObject::new(code::INVALID_PARAMS, "unknown tool")),
//!         }
//!     } else {
//!         Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found"))
//!     }
//! }
//!
//! let answer = serve(&Method::TOOLS_CALL, Some(&Json::parse(r#"{"name":"hello"}"#).unwrap()));
//! assert_eq!(answer.unwrap().as_bytes(), br#"{"content":[{"type":"text","text":"Hello!"}]}"#);
//! ```
//!
//! # From text and to text
//!
//! | I have | I want | I write |
//! |---|---|---|
//! | a request's or a notification's parameters | them typed | `CallToolRequest::params(params)?` |
//! | a result | it typed | `CallToolResult::from_json(&json)?` |
//! | a value | its text | `value.into()`, or `value.to_json()` |
//! | a value | to send it as a notification | `ProgressNotification::message(&value)` |
//! | a type of my own | to hold such values | `#[derive(Serialize, Deserialize)]`, with `serde_json` |
//!
//! Writing cannot fail. Reading fails with a [`ModelError`], which says where and why, shows nothing of the payload, and
//! becomes the answer `-32602` by `?`.
//!
//! # One set of types for all revisions
//!
//! Members that not every revision has are optional, and say since when there are. A value is written as it is, for
//! whatever peer: to say nothing that the session's revision does not know is up to who builds the value. Clients of
//! older revisions do not mind members that they do not know, but they may mind content that they do not know
//! (`audio`, `resource_link`).
//!
//! # Nothing is lost
//!
//! * Members that this crate does not know are in `extra`, at every level, as the text that they came as.
//! * Words that it does not know (a [`Role`], a [`LoggingLevel`]) and objects that it does not know (a [`ContentBlock`])
//!   are `Other`, and no error.
//! * A [`Number`] keeps its digits, and a [`JsonObject`] its text.
//!
//! Two things are tidied: a known optional member that is `null` is read as absent, and members are written in an order
//! of their own. An object that has two members of one name is refused.
//!
//! What is kept as text is a slice of the frame that it came in, and keeps that frame in memory as long as it lives. The
//! `Debug` forms show strings, as those of any value do; what is kept as text shows its length only.

mod common;
mod completion;
mod content;
mod define;
mod elicitation;
mod error;
mod form;
mod initialize;
mod logging;
mod method;
mod object;
mod prompts;
mod resources;
mod roots;
mod sampling;
mod tasks;
mod tools;
mod value;

use crate::codec::json::Json;

pub use common::{
    Annotations, CancelledNotificationParams, EmptyResult, Icon, IconTheme, NotificationParams, PaginatedRequestParams,
    ProgressNotificationParams, RequestParams, Role,
};
pub use completion::{
    CompleteRequestParams, CompleteResult, Completion, CompletionArgument, CompletionContext, CompletionReference,
    PromptReference, ResourceTemplateReference,
};
pub use content::{
    AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, SamplingMessageContentBlock, TextContent,
    ToolResultContent, ToolUseContent,
};
pub use elicitation::{
    ElicitAction, ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult,
    ElicitationCompleteNotificationParams,
};
pub use error::{ModelError, Problem};
pub use form::{
    BooleanSchema, EnumOption, Fields, LegacyTitledEnumSchema, NumberKind, NumberSchema, PrimitiveSchemaDefinition,
    RequestedSchema, StringFormat, StringSchema, TitledItems, TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema, UntitledItems, UntitledMultiSelectEnumSchema, UntitledSingleSelectEnumSchema,
};
pub use initialize::{
    ClientCapabilities, ElicitationCapability, ElicitationTasksCapability, Implementation, InitializeRequestParams,
    InitializeResult, PromptsCapability, ResourcesCapability, RootsCapability, SamplingCapability,
    SamplingTasksCapability, ServerCapabilities, TaskRequestsCapability, TasksCapability, ToolTasksCapability,
    ToolsCapability,
};
pub use logging::{LoggingLevel, LoggingMessageNotificationParams, SetLevelRequestParams};
pub use method::{
    CallToolRequest, CancelTaskRequest, CancelledNotification, CompleteRequest, CreateMessageRequest, ElicitRequest,
    ElicitationCompleteNotification, GetPromptRequest, GetTaskPayloadRequest, GetTaskRequest, InitializeRequest,
    InitializedNotification, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListRootsRequest,
    ListTasksRequest, ListToolsRequest, LoggingMessageNotification, Notification, PingRequest, ProgressNotification,
    PromptListChangedNotification, ReadResourceRequest, Request, ResourceListChangedNotification,
    ResourceUpdatedNotification, RootsListChangedNotification, SetLevelRequest, SubscribeRequest,
    TaskStatusNotification, ToolListChangedNotification, UnsubscribeRequest,
};
pub use prompts::{GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage};
pub use resources::{
    BlobResourceContents, ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequestParams,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ResourceUpdatedNotificationParams,
    SubscribeRequestParams, TextResourceContents, UnsubscribeRequestParams,
};
pub use roots::{ListRootsResult, Root};
pub use sampling::{
    CreateMessageRequestParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingContent,
    SamplingMessage, StopReason, ToolChoice, ToolChoiceMode,
};
pub use tasks::{
    CancelTaskRequestParams, CancelTaskResult, CreateTaskResult, GetTaskPayloadRequestParams, GetTaskPayloadResult,
    GetTaskRequestParams, GetTaskResult, ListTasksResult, Task, TaskMetadata, TaskStatus, TaskStatusNotificationParams,
    Ttl,
};
pub use tools::{
    CallToolRequestParams, CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};
pub use value::{JsonObject, Meta, Number, ProgressToken};

/// A value that is made of JSON, and turned into it. All types of this module are; applications may add their own.
pub trait Payload: Sized {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// [`ModelError`] says where the JSON does not have the shape of this type.
    fn from_json(json: &Json) -> Result<Self, ModelError>;

    /// Writes the value. This cannot fail.
    fn to_json(&self) -> Json;
}

/// Any JSON, unread.
impl Payload for Json {
    fn from_json(json: &Json) -> Result<Self, ModelError> {
        Ok(json.clone())
    }

    fn to_json(&self) -> Json {
        self.clone()
    }
}
