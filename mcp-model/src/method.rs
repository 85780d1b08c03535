//! The parameter and result types of each method.

use mcp_proto::{Json, Method, Notification};

use super::{
    CallToolRequestParams, CallToolResult, CancelTaskRequestParams, CancelTaskResult, CancelledNotificationParams,
    CompleteRequestParams, CompleteResult, CreateMessageRequestParams, CreateMessageResult, DiscoverResult,
    ElicitRequestParams, ElicitResult, ElicitationCompleteNotificationParams, EmptyResult, GetPromptRequestParams,
    GetPromptResult, GetSkillRequestParams, GetSkillResult, GetTaskPayloadRequestParams, GetTaskPayloadResult,
    GetTaskRequestParams, GetTaskResult, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListRootsResult, ListSkillsResult, ListTasksResult,
    ListToolsResult, LoggingMessageNotificationParams, ModelError, NotificationParams, PaginatedRequestParams, Payload,
    ProgressNotificationParams, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    ReadResourceRequestParams, ReadResourceResult, RequestParams, ResourceUpdatedNotificationParams,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams, SubscriptionsListenResult, TaskStatusNotificationParams,
    UnsubscribeRequestParams,
};

/// A request method and its types. Applications may define methods of their own.
///
/// # Example: a handler
///
/// ```
/// use mcp_model::{CallToolRequest, CallToolResult, RequestMethod};
/// use mcp_proto::{ErrorObject, Json};
///
/// fn call_tool(params: Option<&Json>) -> Result<Json, ErrorObject> {
///     let params = CallToolRequest::params(params)?;
///     Ok(CallToolResult::text(format!("Hello from {}!", params.name)).into())
/// }
///
/// let params = Json::parse(r#"{"name":"hello"}"#).unwrap();
/// assert_eq!(call_tool(Some(&params)).unwrap().as_bytes(), br#"{"content":[{"type":"text","text":"Hello from hello!"}]}"#);
///
/// // Invalid parameters are an error for the caller.
/// let error = call_tool(None).unwrap_err();
/// assert_eq!((error.code(), error.message().as_str()), (-32602, "invalid params: name: missing"));
/// ```
pub trait RequestMethod {
    /// The method's name.
    const METHOD: Method;
    /// The parameters.
    type Params: Payload;
    /// The result.
    type Result: Payload;

    /// Reads the parameters of such a request; absent ones are read as an empty object.
    ///
    /// # Errors
    ///
    /// They do not have the shape of [`RequestMethod::Params`].
    fn params(params: Option<&Json>) -> Result<Self::Params, ModelError> {
        read_params(params)
    }
}

/// A notification method and its type.
///
/// # Example: sending and receiving
///
/// ```
/// use mcp_model::{NotificationMethod, ResourceUpdatedNotification, ResourceUpdatedNotificationParams};
///
/// let sent = ResourceUpdatedNotification::message(&ResourceUpdatedNotificationParams::new("file:///notes.txt"));
/// assert_eq!(sent.method, ResourceUpdatedNotification::METHOD);
///
/// let received = ResourceUpdatedNotification::params(sent.params.as_ref())?;
/// assert_eq!(received.uri, "file:///notes.txt");
/// # Ok::<(), mcp_model::ModelError>(())
/// ```
pub trait NotificationMethod {
    /// The method's name.
    const METHOD: Method;
    /// The parameters.
    type Params: Payload;

    /// Reads the parameters of such a notification; absent ones are read as an empty object.
    ///
    /// # Errors
    ///
    /// They do not have the shape of [`NotificationMethod::Params`].
    fn params(params: Option<&Json>) -> Result<Self::Params, ModelError> {
        read_params(params)
    }

    /// The notification, ready to be sent.
    fn message(params: &Self::Params) -> Notification {
        Notification::with_params(Self::METHOD, params.to_json())
    }
}

fn read_params<P: Payload>(params: Option<&Json>) -> Result<P, ModelError> {
    params.map_or_else(|| P::from_json(&Json::empty_object()), P::from_json)
}

macro_rules! requests {
    ($($name:ident = $method:ident($params:ident) -> $result:ident;)*) => {
        $(
            #[doc = concat!("[`Method::", stringify!($method), "`].")]
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $name;

            impl RequestMethod for $name {
                const METHOD: Method = Method::$method;
                type Params = $params;
                type Result = $result;
            }
        )*
    };
}

requests! {
    InitializeRequest = INITIALIZE(InitializeRequestParams) -> InitializeResult;
    DiscoverRequest = SERVER_DISCOVER(RequestParams) -> DiscoverResult;
    SubscriptionsListenRequest = SUBSCRIPTIONS_LISTEN(SubscriptionsListenRequestParams) -> SubscriptionsListenResult;
    PingRequest = PING(RequestParams) -> EmptyResult;
    ListToolsRequest = TOOLS_LIST(PaginatedRequestParams) -> ListToolsResult;
    CallToolRequest = TOOLS_CALL(CallToolRequestParams) -> CallToolResult;
    ListPromptsRequest = PROMPTS_LIST(PaginatedRequestParams) -> ListPromptsResult;
    GetPromptRequest = PROMPTS_GET(GetPromptRequestParams) -> GetPromptResult;
    ListResourcesRequest = RESOURCES_LIST(PaginatedRequestParams) -> ListResourcesResult;
    ListResourceTemplatesRequest = RESOURCES_TEMPLATES_LIST(PaginatedRequestParams) -> ListResourceTemplatesResult;
    ReadResourceRequest = RESOURCES_READ(ReadResourceRequestParams) -> ReadResourceResult;
    SubscribeRequest = RESOURCES_SUBSCRIBE(SubscribeRequestParams) -> EmptyResult;
    UnsubscribeRequest = RESOURCES_UNSUBSCRIBE(UnsubscribeRequestParams) -> EmptyResult;
    CompleteRequest = COMPLETION_COMPLETE(CompleteRequestParams) -> CompleteResult;
    SetLevelRequest = LOGGING_SET_LEVEL(SetLevelRequestParams) -> EmptyResult;
    CreateMessageRequest = SAMPLING_CREATE_MESSAGE(CreateMessageRequestParams) -> CreateMessageResult;
    ElicitRequest = ELICITATION_CREATE(ElicitRequestParams) -> ElicitResult;
    ListRootsRequest = ROOTS_LIST(RequestParams) -> ListRootsResult;
    GetTaskRequest = TASKS_GET(GetTaskRequestParams) -> GetTaskResult;
    GetTaskPayloadRequest = TASKS_RESULT(GetTaskPayloadRequestParams) -> GetTaskPayloadResult;
    ListTasksRequest = TASKS_LIST(PaginatedRequestParams) -> ListTasksResult;
    CancelTaskRequest = TASKS_CANCEL(CancelTaskRequestParams) -> CancelTaskResult;
    ListSkillsRequest = SKILLS_LIST(PaginatedRequestParams) -> ListSkillsResult;
    GetSkillRequest = SKILLS_GET(GetSkillRequestParams) -> GetSkillResult;
    ReadResourceDirectoryRequest = RESOURCES_DIRECTORY_READ(ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult;
}

macro_rules! notifications {
    ($($name:ident = $method:ident($params:ident);)*) => {
        $(
            #[doc = concat!("[`Method::", stringify!($method), "`].")]
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $name;

            impl NotificationMethod for $name {
                const METHOD: Method = Method::$method;
                type Params = $params;
            }
        )*
    };
}

notifications! {
    InitializedNotification = INITIALIZED(NotificationParams);
    CancelledNotification = CANCELLED(CancelledNotificationParams);
    ProgressNotification = PROGRESS(ProgressNotificationParams);
    LoggingMessageNotification = MESSAGE(LoggingMessageNotificationParams);
    RootsListChangedNotification = ROOTS_LIST_CHANGED(NotificationParams);
    ToolListChangedNotification = TOOLS_LIST_CHANGED(NotificationParams);
    PromptListChangedNotification = PROMPTS_LIST_CHANGED(NotificationParams);
    ResourceListChangedNotification = RESOURCES_LIST_CHANGED(NotificationParams);
    ResourceUpdatedNotification = RESOURCES_UPDATED(ResourceUpdatedNotificationParams);
    ElicitationCompleteNotification = ELICITATION_COMPLETE(ElicitationCompleteNotificationParams);
    SubscriptionsAcknowledgedNotification = SUBSCRIPTIONS_ACKNOWLEDGED(SubscriptionsAcknowledgedNotificationParams);
    TaskStatusNotification = TASKS_STATUS(TaskStatusNotificationParams);
}
