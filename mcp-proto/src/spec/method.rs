//! Method names.

use std::borrow::Cow;
use std::fmt;

/// The name of a method, such as `tools/call`.
///
/// The names of the specification are constants; using one costs no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(Cow<'static, str>);

macro_rules! methods {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        impl Method {
            $($(#[$doc])* pub const $constant: Self = Self(Cow::Borrowed($name));)*
        }

        fn known(name: &[u8]) -> Option<Method> {
            $(const $constant: &[u8] = $name.as_bytes();)*
            match name {
                $($constant => Some(Method::$constant),)*
                _ => None,
            }
        }
    };
}

methods! {
    /// Opens a legacy session.
    INITIALIZE = "initialize";
    /// Tells the server that the client has read the answer to `initialize`.
    INITIALIZED = "notifications/initialized";
    /// Asks for an empty result, to see whether the peer lives.
    PING = "ping";
    /// Asks a server of revision 2026-07-28 what it can do.
    SERVER_DISCOVER = "server/discover";
    /// Asks to be told of changes for as long as the request is open.
    SUBSCRIPTIONS_LISTEN = "subscriptions/listen";
    /// Tells which changes are told.
    SUBSCRIPTIONS_ACKNOWLEDGED = "notifications/subscriptions/acknowledged";
    /// Tells that the sender no longer wants an answer.
    CANCELLED = "notifications/cancelled";
    /// Tells how far a request has come.
    PROGRESS = "notifications/progress";
    /// Carries a log message.
    MESSAGE = "notifications/message";
    /// The list of tools has changed.
    TOOLS_LIST_CHANGED = "notifications/tools/list_changed";
    /// The list of prompts has changed.
    PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed";
    /// The list of resources has changed.
    RESOURCES_LIST_CHANGED = "notifications/resources/list_changed";
    /// A subscribed resource has changed.
    RESOURCES_UPDATED = "notifications/resources/updated";
    /// The list of roots has changed.
    ROOTS_LIST_CHANGED = "notifications/roots/list_changed";
    /// Lists tools.
    TOOLS_LIST = "tools/list";
    /// Calls a tool.
    TOOLS_CALL = "tools/call";
    /// Lists prompts.
    PROMPTS_LIST = "prompts/list";
    /// Reads a prompt.
    PROMPTS_GET = "prompts/get";
    /// Lists resources.
    RESOURCES_LIST = "resources/list";
    /// Lists resource templates.
    RESOURCES_TEMPLATES_LIST = "resources/templates/list";
    /// Reads a resource.
    RESOURCES_READ = "resources/read";
    /// Subscribes to a resource.
    RESOURCES_SUBSCRIBE = "resources/subscribe";
    /// Ends such a subscription.
    RESOURCES_UNSUBSCRIBE = "resources/unsubscribe";
    /// Completes an argument.
    COMPLETION_COMPLETE = "completion/complete";
    /// Sets the level of log messages.
    LOGGING_SET_LEVEL = "logging/setLevel";
    /// Asks the client to let a model write something.
    SAMPLING_CREATE_MESSAGE = "sampling/createMessage";
    /// Asks the client to ask the user.
    ELICITATION_CREATE = "elicitation/create";
    /// A user has ended an elicitation that happened elsewhere.
    ELICITATION_COMPLETE = "notifications/elicitation/complete";
    /// Asks the client for its roots.
    ROOTS_LIST = "roots/list";
    /// Asks how a task stands.
    TASKS_GET = "tasks/get";
    /// Asks for what came of a task.
    TASKS_RESULT = "tasks/result";
    /// Lists tasks.
    TASKS_LIST = "tasks/list";
    /// Ends a task.
    TASKS_CANCEL = "tasks/cancel";
    /// Answers what a task has asked for.
    TASKS_UPDATE = "tasks/update";
    /// Tells how a task of the extension stands.
    TASKS = "notifications/tasks";
    /// Tells how a task stands.
    TASKS_STATUS = "notifications/tasks/status";
}

impl Method {
    /// The name as it stands on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Method {
    /// The method that a JSON string text names without escapes, if it is one of the constants.
    pub(crate) fn known_in_json(text: &[u8]) -> Option<Self> {
        known(text.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Self {
        known(name.as_bytes()).unwrap_or_else(|| Self(Cow::Owned(name.to_owned())))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq<str> for Method {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}
