//! The table of the specification's methods, with the properties of each.

use std::borrow::Cow;
use std::fmt;

use super::{Era, ProtocolVersion};
use crate::json::Json;

/// The name of a method, such as `tools/call`.
///
/// The names of the specification are constants; using one costs no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(Cow<'static, str>);

/// The properties of a method, as the specification defines them. A method for which [`Method`] has no constant has
/// none of them, and is not restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table: each column is independent of the others")]
#[non_exhaustive]
pub struct MethodFacts {
    /// The last revision that has the method; later ones removed it (RULES 8.4).
    until: Option<ProtocolVersion>,
    /// The era of the connections that begin with this request.
    pub opens: Option<Era>,
    /// Only the machines send it, when the protocol requires it. The commands of a client refuse it with
    /// [`UsageError::ReservedMethod`](crate::UsageError::ReservedMethod).
    ///
    /// Rules: RULES 7.1, 9.
    pub is_reserved: bool,
    /// The capability that a client must have declared before a server may send it this request. Only such requests can
    /// be input requests.
    ///
    /// Rules: MD-I-03.
    pub client_capability: Option<&'static str>,
    /// The result may require input from the client, in revisions that have such results.
    ///
    /// Rules: MD-I-01.
    pub takes_input: bool,
    /// The result states how long it may be cached.
    ///
    /// Rules: MD-K-01.
    pub is_cacheable: bool,
    /// The member of `params` that the header `Mcp-Name` repeats.
    ///
    /// Rules: RULES 8.2.
    pub named_by: Option<&'static str>,
    /// How the request refers to what a server offers.
    pub refers_to: Option<Reference>,
    /// The list in the result of the request.
    pub lists: Option<Listing>,
    /// The setting of a session that the request changes.
    pub changes_setting: Option<SettingChange>,
    /// The change that this notification reports to subscribers.
    pub change: Option<Change>,
    /// The request changes nothing, so it may be sent again even if the server has perhaps received it.
    pub only_reads: bool,
    /// A notification that may be dropped under load, because a later one replaces it or it is only displayed.
    ///
    /// Rules: RP9.
    pub may_be_missed: bool,
}

/// What a server offers to clients, each by a name or URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Primitive {
    /// Tools, by their names.
    Tool,
    /// Prompts, by their names.
    Prompt,
    /// Resources by their URIs, and resource templates by their URI templates.
    Resource,
}

/// How a request refers to tools, prompts or resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// The member `name` of the parameters is the name of a tool.
    Tool,
    /// The member `name` of the parameters is the name of a prompt.
    Prompt,
    /// The member `uri` of the parameters is the URI of a resource.
    Resource,
    /// The member `ref` of the parameters names a prompt, or a resource or resource template.
    Completion,
    /// The array `resourceSubscriptions` in the member `notifications` of the parameters has URIs of resources.
    ///
    /// Rules: MD-L-01.
    Subscriptions,
}

/// The list in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The member of the result that is the list.
    pub member: &'static str,
    /// What it lists.
    pub primitive: Primitive,
    /// The member of each element that is its name or URI.
    pub id: &'static str,
}

impl Listing {
    /// Whether it lists resource templates, by their URI templates.
    #[must_use]
    pub fn has_templates(self) -> bool {
        self.id == URI_TEMPLATE
    }
}

/// A setting that a server stores for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingChange {
    /// The lowest level of log messages.
    LogLevel,
    /// A subscription to a resource begins.
    Subscribe,
    /// A subscription to a resource ends.
    Unsubscribe,
}

/// What a client can subscribe to.
///
/// Rules: RULES 8.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// One of the lists.
    List(List),
    /// The resource that the member `uri` names.
    Resource,
    /// The task that the member `taskId` names.
    Task,
}

impl Change {
    /// The member of `params` that identifies what has changed.
    #[must_use]
    pub const fn named_by(self) -> Option<&'static str> {
        match self {
            Self::List(_) => None,
            Self::Resource => Some("uri"),
            Self::Task => Some("taskId"),
        }
    }

    /// The capability that a server declares if it sends this notification, and the member of the capability that is
    /// then set.
    ///
    /// Rules: LC-18.
    #[must_use]
    pub const fn capability(self) -> (&'static str, &'static str) {
        match self {
            Self::List(list) => (list.capability(), "listChanged"),
            Self::Resource => ("resources", "subscribe"),
            Self::Task => ("extensions", TASKS_EXTENSION),
        }
    }
}

/// The extension whose tasks a client can subscribe to.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The requests of the extension for tasks.
pub const TASKS_REQUESTS: [Method; 3] = [Method::TASKS_GET, Method::TASKS_UPDATE, Method::TASKS_CANCEL];

/// The capability of clients and servers that support the extension for tasks.
pub(crate) fn tasks_capability() -> Json {
    let extension = Json::empty_object().with_member(TASKS_EXTENSION, &Json::empty_object());
    Json::empty_object().with_member("extensions", &extension)
}

/// The extension with which a server offers skills.
///
/// Rules: SK-01.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The extension with which a client shows the web pages of a server, and a server has some.
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// A list of a server that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum List {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources.
    Resources,
}

impl List {
    /// All lists.
    pub const ALL: &'static [Self] = &Self::EACH;

    /// [`List::ALL`] as an array.
    pub(crate) const EACH: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The capability that a server declares if it has the list.
    #[must_use]
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    /// The kind of its items.
    #[must_use]
    pub const fn primitive(self) -> Primitive {
        match self {
            Self::Tools => Primitive::Tool,
            Self::Prompts => Primitive::Prompt,
            Self::Resources => Primitive::Resource,
        }
    }

    /// The member of the filter of `subscriptions/listen` that subscribes to its changes.
    ///
    /// Rules: MD-L-01.
    #[must_use]
    pub const fn filter_member(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    /// The requests that return the list.
    #[must_use]
    pub const fn requests(self) -> &'static [Method] {
        match self {
            Self::Tools => const { &[Method::TOOLS_LIST] },
            Self::Prompts => const { &[Method::PROMPTS_LIST] },
            Self::Resources => const { &[Method::RESOURCES_LIST, Method::RESOURCES_TEMPLATES_LIST] },
        }
    }

    /// The notification that the list has changed.
    #[must_use]
    pub const fn notification(self) -> Method {
        match self {
            Self::Tools => Method::TOOLS_LIST_CHANGED,
            Self::Prompts => Method::PROMPTS_LIST_CHANGED,
            Self::Resources => Method::RESOURCES_LIST_CHANGED,
        }
    }
}

/// The member of a resource template that identifies it.
const URI_TEMPLATE: &str = "uriTemplate";

/// The beginning of the names of all notifications.
const NOTIFICATION: &str = "notifications/";

const NONE: MethodFacts = MethodFacts {
    until: None,
    opens: None,
    is_reserved: false,
    client_capability: None,
    takes_input: false,
    is_cacheable: false,
    named_by: None,
    refers_to: None,
    lists: None,
    changes_setting: None,
    change: None,
    only_reads: false,
    may_be_missed: false,
};

const LEGACY: MethodFacts = MethodFacts { until: Some(ProtocolVersion::LATEST_LEGACY), ..NONE };
const LIST: MethodFacts = MethodFacts { is_cacheable: true, only_reads: true, ..NONE };
const TASK: MethodFacts = MethodFacts { named_by: Some("taskId"), ..NONE };

const fn list_of(member: &'static str, primitive: Primitive, id: &'static str) -> Listing {
    Listing { member, primitive, id }
}

const fn changed(list: List) -> MethodFacts {
    MethodFacts { change: Some(Change::List(list)), may_be_missed: true, ..NONE }
}

const fn asks_client(capability: &'static str) -> MethodFacts {
    MethodFacts { client_capability: Some(capability), ..NONE }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $facts:expr;)*) => {
        impl Method {
            $($(#[$doc])* pub const $constant: Self = Self(Cow::Borrowed($name));)*

            /// All methods for which there are constants.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }

        fn known(name: &[u8]) -> Option<Method> {
            $(const $constant: &[u8] = $name.as_bytes();)*
            match name {
                $($constant => Some(Method::$constant),)*
                _ => None,
            }
        }

        fn facts(name: &str) -> &'static MethodFacts {
            match name {
                $($name => const { &$facts },)*
                _ => &NONE,
            }
        }
    };
}

methods! {
    /// Opens a legacy session.
    INITIALIZE = "initialize", MethodFacts { opens: Some(Era::Legacy), is_reserved: true, ..LEGACY };
    /// Notifies the server that the client has received the response to `initialize`.
    INITIALIZED = "notifications/initialized", MethodFacts { is_reserved: true, ..NONE };
    /// Requests an empty result, to check that the peer responds.
    PING = "ping", MethodFacts { only_reads: true, ..LEGACY };
    /// Requests the capabilities of a server of revision 2026-07-28.
    SERVER_DISCOVER = "server/discover", MethodFacts { opens: Some(Era::Modern), ..LIST };
    /// Subscribes to changes for as long as the request is open.
    SUBSCRIPTIONS_LISTEN = "subscriptions/listen",
        MethodFacts { refers_to: Some(Reference::Subscriptions), ..NONE };
    /// Notifies the client of the subscriptions that the server accepted.
    SUBSCRIPTIONS_ACKNOWLEDGED = "notifications/subscriptions/acknowledged", NONE;
    /// Notifies the peer that a request is cancelled.
    CANCELLED = "notifications/cancelled", MethodFacts { is_reserved: true, ..NONE };
    /// Notifies the sender of a request of its progress.
    PROGRESS = "notifications/progress", NONE;
    /// Carries a log message.
    MESSAGE = "notifications/message", MethodFacts { may_be_missed: true, ..NONE };
    /// The list of tools has changed.
    TOOLS_LIST_CHANGED = "notifications/tools/list_changed", changed(List::Tools);
    /// The list of prompts has changed.
    PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed", changed(List::Prompts);
    /// The list of resources has changed.
    RESOURCES_LIST_CHANGED = "notifications/resources/list_changed", changed(List::Resources);
    /// A subscribed resource has changed.
    RESOURCES_UPDATED = "notifications/resources/updated",
        MethodFacts { change: Some(Change::Resource), may_be_missed: true, ..NONE };
    /// The list of roots has changed.
    ROOTS_LIST_CHANGED = "notifications/roots/list_changed", NONE;
    /// Lists tools.
    TOOLS_LIST = "tools/list", MethodFacts { lists: Some(list_of("tools", Primitive::Tool, "name")), ..LIST };
    /// Calls a tool.
    TOOLS_CALL = "tools/call",
        MethodFacts { takes_input: true, named_by: Some("name"), refers_to: Some(Reference::Tool), ..NONE };
    /// Lists prompts.
    PROMPTS_LIST = "prompts/list", MethodFacts { lists: Some(list_of("prompts", Primitive::Prompt, "name")), ..LIST };
    /// Reads a prompt.
    PROMPTS_GET = "prompts/get",
        MethodFacts {
            takes_input: true,
            named_by: Some("name"),
            refers_to: Some(Reference::Prompt),
            only_reads: true,
            ..NONE
        };
    /// Lists resources.
    RESOURCES_LIST = "resources/list",
        MethodFacts { lists: Some(list_of("resources", Primitive::Resource, "uri")), ..LIST };
    /// Lists resource templates.
    RESOURCES_TEMPLATES_LIST = "resources/templates/list",
        MethodFacts { lists: Some(list_of("resourceTemplates", Primitive::Resource, URI_TEMPLATE)), ..LIST };
    /// Reads a resource.
    RESOURCES_READ = "resources/read",
        MethodFacts {
            takes_input: true,
            named_by: Some("uri"),
            refers_to: Some(Reference::Resource),
            ..LIST
        };
    /// Lists the direct children of a directory (extension for skills).
    RESOURCES_DIRECTORY_READ = "resources/directory/read",
        MethodFacts {
            refers_to: Some(Reference::Resource),
            lists: Some(list_of("resources", Primitive::Resource, "uri")),
            only_reads: true,
            ..NONE
        };
    /// Subscribes to a resource.
    RESOURCES_SUBSCRIBE = "resources/subscribe",
        MethodFacts {
            changes_setting: Some(SettingChange::Subscribe),
            refers_to: Some(Reference::Resource),
            ..LEGACY
        };
    /// Ends the subscription to a resource.
    RESOURCES_UNSUBSCRIBE = "resources/unsubscribe",
        MethodFacts {
            changes_setting: Some(SettingChange::Unsubscribe),
            refers_to: Some(Reference::Resource),
            ..LEGACY
        };
    /// Lists skills (extension for skills).
    SKILLS_LIST = "skills/list", MethodFacts { lists: Some(list_of("skills", Primitive::Resource, "uri")), ..LIST };
    /// Requests the entry of one skill (extension for skills).
    SKILLS_GET = "skills/get", MethodFacts { refers_to: Some(Reference::Resource), ..LIST };
    /// Completes an argument.
    COMPLETION_COMPLETE = "completion/complete",
        MethodFacts { refers_to: Some(Reference::Completion), only_reads: true, ..NONE };
    /// Sets the level of log messages.
    LOGGING_SET_LEVEL = "logging/setLevel",
        MethodFacts { changes_setting: Some(SettingChange::LogLevel), ..LEGACY };
    /// Requests that the client samples a message from its language model.
    SAMPLING_CREATE_MESSAGE = "sampling/createMessage", asks_client("sampling");
    /// Requests input from the client's user.
    ELICITATION_CREATE = "elicitation/create", asks_client("elicitation");
    /// Notifies the client that an elicitation at a URL has ended.
    ELICITATION_COMPLETE = "notifications/elicitation/complete", NONE;
    /// Requests the list of the client's roots.
    ROOTS_LIST = "roots/list", asks_client("roots");
    /// Requests the state of a task.
    TASKS_GET = "tasks/get", MethodFacts { only_reads: true, ..TASK };
    /// Requests the result of a task.
    TASKS_RESULT = "tasks/result", MethodFacts { only_reads: true, ..LEGACY };
    /// Lists tasks.
    TASKS_LIST = "tasks/list", MethodFacts { only_reads: true, ..LEGACY };
    /// Cancels a task.
    TASKS_CANCEL = "tasks/cancel", TASK;
    /// Supplies the input that a task requires.
    TASKS_UPDATE = "tasks/update", TASK;
    /// Notifies the client of the state of a task of the tasks extension.
    TASKS = "notifications/tasks", MethodFacts { change: Some(Change::Task), ..NONE };
    /// Notifies the client of the state of a task.
    TASKS_STATUS = "notifications/tasks/status", NONE;
}

impl Method {
    /// A method whose name is known when the program is compiled, such as one of an extension.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Method;
    ///
    /// const QUERY: Method = Method::from_static("com.example/search/query");
    /// assert_eq!(QUERY, Method::from("com.example/search/query"));
    /// assert_eq!(Method::from_static("tools/call"), Method::TOOLS_CALL);
    /// ```
    #[must_use]
    pub const fn from_static(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Method {
    /// The properties of the method in the specification.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Method;
    ///
    /// assert!(Method::TOOLS_CALL.facts().takes_input);
    /// assert_eq!(Method::from("x/unknown").facts().named_by, None);
    /// ```
    #[must_use]
    pub fn facts(&self) -> &'static MethodFacts {
        facts(&self.0)
    }

    /// Whether it is a request about tasks, of either era.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Method;
    ///
    /// assert!(Method::TASKS_LIST.is_about_tasks() && !Method::TOOLS_CALL.is_about_tasks());
    /// ```
    #[must_use]
    pub fn is_about_tasks(&self) -> bool {
        self.0.starts_with("tasks/")
    }

    /// Whether the specification has it as a request, which has an id.
    #[must_use]
    pub fn is_request(&self) -> bool {
        !self.0.starts_with(NOTIFICATION) && known(self.0.as_bytes()).is_some()
    }

    /// Whether the specification has it as a notification, which has no id.
    ///
    /// Rules: JR-11.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        self.0.starts_with(NOTIFICATION) && known(self.0.as_bytes()).is_some()
    }

    /// Whether this revision has removed it (RULES 8.4).
    pub(crate) fn is_removed_in(&self, version: ProtocolVersion) -> bool {
        self.facts().until.is_some_and(|last| version > last)
    }

    /// The capability that a server declares if it serves this method, determined by the first part of the name.
    pub(crate) fn server_capability(&self) -> Option<&'static str> {
        let (group, _) = self.0.split_once('/')?;
        match group {
            "tools" => Some("tools"),
            "prompts" => Some("prompts"),
            "resources" => Some("resources"),
            "completion" => Some("completions"),
            _ => None,
        }
    }

    /// The method named by a JSON string text without escapes, if it is one of the constants.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn those(holds: impl Fn(&Method) -> bool) -> Vec<&'static str> {
        Method::ALL.iter().filter(|method| holds(method)).map(|method| facts_name(method)).collect()
    }

    fn facts_name(method: &Method) -> &'static str {
        match &method.0 {
            Cow::Borrowed(name) => name,
            Cow::Owned(_) => panic!("{method} is a constant"),
        }
    }

    #[test]
    fn each_column_holds_for_the_methods_that_the_specification_names() {
        let (legacy, modern) = (ProtocolVersion::LATEST_LEGACY, ProtocolVersion::V2026_07_28);
        assert_eq!(those(|method| method.is_removed_in(legacy)), [""; 0]);
        let removed = [
            "initialize",
            "ping",
            "resources/subscribe",
            "resources/unsubscribe",
            "logging/setLevel",
            "tasks/result",
            "tasks/list",
        ];
        assert_eq!(those(|method| method.is_removed_in(modern)), removed, "RULES 8.4");
        let input = ["tools/call", "prompts/get", "resources/read"];
        assert_eq!(those(|method| method.facts().takes_input), input, "MD-I-01");
        let asked = ["sampling/createMessage", "elicitation/create", "roots/list"];
        assert_eq!(those(|method| method.facts().client_capability.is_some()), asked, "MD-I-03");
        let cacheable = [
            "server/discover",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "skills/list",
            "skills/get",
        ];
        assert_eq!(those(|method| method.facts().is_cacheable), cacheable, "MD-K-01, SK-05");
        let reading = [
            "ping",
            "server/discover",
            "tools/list",
            "prompts/list",
            "prompts/get",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/directory/read",
            "skills/list",
            "skills/get",
            "completion/complete",
            "tasks/get",
            "tasks/result",
            "tasks/list",
        ];
        assert_eq!(those(|method| method.facts().only_reads), reading);
        for (member, methods) in [
            ("name", &["tools/call", "prompts/get"][..]),
            ("uri", &["resources/read"]),
            ("taskId", &["tasks/get", "tasks/cancel", "tasks/update"]),
        ] {
            assert_eq!(those(|method| method.facts().named_by == Some(member)), methods, "RULES 8.2, {member}");
        }
    }

    #[test]
    fn what_a_server_offers_is_listed_and_referred_to_by_the_requests_that_the_specification_names() {
        for (primitive, id, methods) in [
            (Primitive::Tool, "name", &["tools/list"][..]),
            (Primitive::Prompt, "name", &["prompts/list"]),
            (Primitive::Resource, "uri", &["resources/list", "resources/directory/read", "skills/list"]),
            (Primitive::Resource, "uriTemplate", &["resources/templates/list"]),
        ] {
            let is_listed = |listing: Listing| listing.primitive == primitive && listing.id == id;
            assert_eq!(those(|method| method.facts().lists.is_some_and(is_listed)), methods, "{primitive:?}");
        }
        let by_uri = [
            "resources/read",
            "resources/directory/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "skills/get",
        ];
        for (reference, methods) in [
            (Reference::Tool, &["tools/call"][..]),
            (Reference::Prompt, &["prompts/get"]),
            (Reference::Resource, &by_uri),
            (Reference::Completion, &["completion/complete"]),
            (Reference::Subscriptions, &["subscriptions/listen"]),
        ] {
            assert_eq!(those(|method| method.facts().refers_to == Some(reference)), methods, "{reference:?}");
        }
    }

    #[test]
    fn a_method_of_the_specification_is_either_a_request_or_a_notification() {
        let notifications = [
            "notifications/initialized",
            "notifications/subscriptions/acknowledged",
            "notifications/cancelled",
            "notifications/progress",
            "notifications/message",
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
            "notifications/roots/list_changed",
            "notifications/elicitation/complete",
            "notifications/tasks",
            "notifications/tasks/status",
        ];
        assert_eq!(those(Method::is_notification), notifications);
        assert_eq!(those(|method| method.is_request() == method.is_notification()), [""; 0]);
        for name in ["x/y", "notifications/x", "tools/call ", "Tools/Call", "notifications"] {
            let method = Method::from(name);
            assert!(!method.is_request() && !method.is_notification(), "{name}");
        }
    }

    #[test]
    fn lists_and_their_notifications_name_each_other() {
        for list in List::EACH {
            let method = list.notification();
            assert_eq!(method.facts().change, Some(Change::List(list)));
            assert_eq!(method.as_str(), format!("notifications/{}/list_changed", list.capability()));
            assert_eq!(list.filter_member(), format!("{}ListChanged", list.capability()));
            for method in list.requests() {
                assert!(method.facts().is_cacheable && method.server_capability() == Some(list.capability()));
            }
        }
    }

    #[test]
    fn a_method_that_is_not_in_the_table_is_not_restricted() {
        let method = Method::from("x/y");
        assert_eq!(*method.facts(), NONE);
        assert!(!method.is_removed_in(ProtocolVersion::V2026_07_28) && method.server_capability().is_none());
        assert_eq!(Method::from("tools/x").server_capability(), Some("tools"), "row 26");
    }
}
