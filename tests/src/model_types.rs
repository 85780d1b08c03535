//! The types of `mcp_model` by their names in the official schemas.

use mcp_model::{self, ModelError, Payload};
use mcp_proto::{Json, Method};

/// A type of the model.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The name of the type.
    pub name: &'static str,
    rewrite: fn(&Json) -> Result<Json, ModelError>,
}

impl Shape {
    const fn of<T: Payload>(name: &'static str) -> Self {
        Self { name, rewrite: |json| T::from_json(json).map(|value| value.to_json()) }
    }

    /// Parses a value and serializes it again.
    ///
    /// # Errors
    ///
    /// The JSON does not have the shape of the type.
    pub fn rewrite(&self, json: &Json) -> Result<Json, ModelError> {
        (self.rewrite)(json)
    }
}

/// A method of the model.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name of the type that declares the method.
    pub name: &'static str,
    /// The name of the method on the wire.
    pub method: Method,
    /// The type of the parameters.
    pub params: Shape,
    /// The type of the result; `None` for a notification.
    pub result: Option<Shape>,
}

macro_rules! requests {
    ($($name:ident)*) => {
        /// Every request.
        pub fn requests() -> Vec<Entry> {
            use mcp_model::RequestMethod;
            vec![$(Entry {
                name: stringify!($name),
                method: mcp_model::$name::METHOD,
                params: Shape::of::<<mcp_model::$name as RequestMethod>::Params>("params"),
                result: Some(Shape::of::<<mcp_model::$name as RequestMethod>::Result>("result")),
            },)*]
        }
    };
}

requests! {
    CallToolRequest CancelTaskRequest CompleteRequest CreateMessageRequest DiscoverRequest ElicitRequest GetPromptRequest
    GetTaskPayloadRequest GetTaskRequest InitializeRequest ListPromptsRequest ListResourceTemplatesRequest
    ListResourcesRequest ListRootsRequest ListTasksRequest ListToolsRequest PingRequest ReadResourceRequest
    SetLevelRequest SubscribeRequest SubscriptionsListenRequest UnsubscribeRequest
}

macro_rules! notifications {
    ($($name:ident)*) => {
        /// Every notification.
        pub fn notifications() -> Vec<Entry> {
            use mcp_model::NotificationMethod;
            vec![$(Entry {
                name: stringify!($name),
                method: mcp_model::$name::METHOD,
                params: Shape::of::<<mcp_model::$name as NotificationMethod>::Params>("params"),
                result: None,
            },)*]
        }
    };
}

notifications! {
    CancelledNotification ElicitationCompleteNotification InitializedNotification LoggingMessageNotification
    ProgressNotification PromptListChangedNotification ResourceListChangedNotification ResourceUpdatedNotification
    RootsListChangedNotification SubscriptionsAcknowledgedNotification TaskStatusNotification
    ToolListChangedNotification
}

macro_rules! shapes {
    ($($name:ident)*) => {
        /// Every type that has a name in a schema, including older names.
        pub fn shapes() -> Vec<Shape> {
            vec![
                $(Shape::of::<mcp_model::$name>(stringify!($name)),)*
                Shape::of::<mcp_model::ResourceTemplateReference>("ResourceReference"),
                Shape::of::<mcp_model::PrimitiveSchemaDefinition>("EnumSchema"),
                Shape::of::<mcp_model::PrimitiveSchemaDefinition>("MultiSelectEnumSchema"),
                Shape::of::<mcp_model::PrimitiveSchemaDefinition>("SingleSelectEnumSchema"),
            ]
        }
    };
}

shapes! {
    Annotations AudioContent BlobResourceContents BooleanSchema CallToolRequestParams CallToolResult CancelTaskResult
    CancelledNotificationParams ClientCapabilities CompleteRequestParams CompleteResult ContentBlock
    CreateMessageRequestParams CreateMessageResult CreateTaskResult DiscoverResult ElicitRequestFormParams ElicitRequestParams
    ElicitRequestURLParams ElicitResult EmbeddedResource EmptyResult GetPromptRequestParams GetPromptResult
    GetTaskPayloadResult GetTaskResult Icon ImageContent Implementation InitializeRequestParams InitializeResult
    InputRequest InputRequiredResult InputResponses
    LegacyTitledEnumSchema ListPromptsResult ListResourceTemplatesResult ListResourcesResult ListRootsResult
    ListTasksResult ListToolsResult LoggingLevel LoggingMessageNotificationParams ModelHint ModelPreferences
    NotificationParams NumberSchema PaginatedRequestParams PrimitiveSchemaDefinition ProgressNotificationParams
    ProgressToken Prompt PromptArgument PromptMessage PromptReference ReadResourceRequestParams ReadResourceResult
    RequestParams Resource ResourceContents ResourceLink ResourceTemplate ResourceTemplateReference
    ResourceUpdatedNotificationParams Role Root SamplingMessage SamplingMessageContentBlock ServerCapabilities
    SetLevelRequestParams StringSchema SubscribeRequestParams
    SubscriptionFilter SubscriptionsAcknowledgedNotificationParams SubscriptionsListenRequestParams
    SubscriptionsListenResult Task TaskMetadata TaskStatus
    TaskStatusNotificationParams TextContent TextResourceContents TitledMultiSelectEnumSchema
    TitledSingleSelectEnumSchema Tool ToolAnnotations ToolChoice ToolExecution ToolResultContent ToolUseContent
    UnsubscribeRequestParams UntitledMultiSelectEnumSchema UntitledSingleSelectEnumSchema
}

/// The type with this name.
pub fn shape(name: &str) -> Option<Shape> {
    shapes().into_iter().find(|shape| shape.name == name)
}
