//! Typed parameters and results of every method, for handlers and callers.
//!
//! The machines of `mcp-proto` pass payloads on as [`Json`], which is text. The types of this crate are parsed from
//! such text and written as it. They have the names of the specification's schemas.
//!
//! # Example: a server's handler
//!
//! ```sh
//! cargo add mcp-model
//! cargo add mcp-proto
//! ```
//!
//! ```
//! use mcp_model::{CallToolRequest, CallToolResult, ListToolsRequest, ListToolsResult, RequestMethod, Tool};
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
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let params = Json::parse(r#"{"name":"hello"}"#)?;
//!     let answer = serve(&Method::TOOLS_CALL, Some(&params)).map_err(|error| error.message())?;
//!     assert_eq!(answer.as_bytes(), br#"{"content":[{"type":"text","text":"Hello!"}]}"#);
//!     Ok(())
//! }
//! ```
//!
//! # Reading and writing
//!
//! | from | to | code |
//! |---|---|---|
//! | the parameters of a request or notification | a typed value | `CallToolRequest::params(params)?` |
//! | a result | a typed value | `CallToolResult::from_json(&json)?` |
//! | a typed value | its text | `value.into()`, or `value.to_json()` |
//! | a typed value | a notification | `ProgressNotification::message(&value)` |
//! | a type of your own | with such values as members | `#[derive(Serialize, Deserialize)]`, with `serde_json` |
//!
//! Writing cannot fail. Reading fails with a [`ModelError`], which states the place and the reason, contains nothing of
//! the payload, and converts with `?` into an error response with code `-32602`.
//!
//! # One set of types for all revisions
//!
//! Members that not every revision has are optional, and their docs state the first revision that has them. Values are
//! written the same way for all peers: the application must not set what the session's revision does not have. Clients
//! of older revisions ignore unknown members, but may refuse unknown content (`audio`, `resource_link`).
//!
//! # Nothing is lost
//!
//! * Unknown members are stored in `extra`, at every level, as their original text.
//! * The member `resultType` of a complete result (since 2026-07-28), which the machines write and read, is
//!   one of these.
//! * Unknown enum values (of a [`Role`], a [`LoggingLevel`]) and unknown objects (of a [`ContentBlock`]) become
//!   `Other`, and are not errors.
//! * A [`Number`] keeps its digits, and a [`JsonObject`] its text.
//!
//! Two things are normalised: a known optional member that is `null` is read as absent, and members are written in a
//! fixed order. An object that has two members with the same name is refused.
//!
//! Values stored as text are slices of the frame that they arrived in, and keep that frame in memory as long as they
//! exist. The `Debug` forms of typed values show their strings, which may be confidential; values stored as text show
//! only their length.

#![warn(clippy::indexing_slicing)]

mod apps;
mod common;
mod completion;
mod content;
mod define;
mod discover;
mod elicitation;
mod error;
mod form;
mod initialize;
mod input;
mod logging;
mod method;
mod object;
mod page;
mod prompts;
mod resources;
mod roots;
mod sampling;
mod server_card;
mod skills;
mod subscriptions;
mod task_extension;
mod tasks;
mod tools;
mod uri_template;
mod value;

use mcp_proto::Json;

pub use apps::{APP_MIME_TYPE, AppCsp, AppPermissions, AppUi, ReceivedApp, ToolUi, ToolVisibility};
pub use common::{
    Annotations, CacheScope, CancelledNotificationParams, EmptyResult, Icon, IconTheme, NotificationParams,
    PaginatedRequestParams, ProgressNotificationParams, RequestParams, Role,
};
pub use completion::{
    CompleteRequestParams, CompleteResult, Completion, CompletionArgument, CompletionContext, CompletionReference,
    PromptReference, ResourceTemplateReference,
};
pub use content::{
    AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, SamplingMessageContentBlock, TextContent,
    ToolResultContent, ToolUseContent,
};
pub use discover::DiscoverResult;
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
pub use input::{
    CreateMessageInputRequest, ElicitInputRequest, InputRequest, InputRequiredResult, InputResponses,
    ListRootsInputRequest,
};
pub use logging::{LoggingLevel, LoggingMessageNotificationParams, SetLevelRequestParams};
pub use method::{
    CallToolRequest, CancelTaskRequest, CancelledNotification, CompleteRequest, CreateMessageRequest, DiscoverRequest,
    ElicitRequest, ElicitationCompleteNotification, GetPromptRequest, GetSkillRequest, GetTaskPayloadRequest,
    GetTaskRequest, InitializeRequest, InitializedNotification, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ListRootsRequest, ListSkillsRequest, ListTasksRequest, ListToolsRequest,
    LoggingMessageNotification, NotificationMethod, PingRequest, ProgressNotification, PromptListChangedNotification,
    ReadResourceDirectoryRequest, ReadResourceRequest, RequestMethod, ResourceListChangedNotification,
    ResourceUpdatedNotification, RootsListChangedNotification, SetLevelRequest, SubscribeRequest,
    SubscriptionsAcknowledgedNotification, SubscriptionsListenRequest, TaskStatusNotification,
    ToolListChangedNotification, UnsubscribeRequest,
};
pub use page::Page;
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
pub use server_card::{ServerCard, ServerRemote, ServerRepository};
pub use skills::{
    GetSkillRequestParams, GetSkillResult, ListSkillsResult, ReadResourceDirectoryRequestParams,
    ReadResourceDirectoryResult, Skill, SkillResource, SkillResources,
};
pub use subscriptions::{
    SubscriptionFilter, SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
};
pub use task_extension::{ExtensionTask, UpdateTaskRequestParams};
pub use tasks::{
    CancelTaskRequestParams, CancelTaskResult, CreateTaskResult, GetTaskPayloadRequestParams, GetTaskPayloadResult,
    GetTaskRequestParams, GetTaskResult, ListTasksResult, Task, TaskMetadata, TaskStatus, TaskStatusNotificationParams,
    Ttl,
};
pub use tools::{
    CallToolRequestParams, CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};
pub use uri_template::{InvalidUriTemplate, TemplateValue, UriTemplate};
pub use value::{JsonObject, Meta, Number, ProgressToken};

/// A value that is read from JSON and written as JSON. All types of this module implement it; applications may add
/// their own.
pub trait Payload: Sized {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// [`ModelError`] states where the JSON does not have the shape of this type.
    fn from_json(json: &Json) -> Result<Self, ModelError>;

    /// Writes the value. This cannot fail.
    fn to_json(&self) -> Json;
}

/// Any JSON, unparsed.
impl Payload for Json {
    fn from_json(json: &Json) -> Result<Self, ModelError> {
        Ok(json.clone())
    }

    fn to_json(&self) -> Json {
        self.clone()
    }
}

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
