//! The names that a handler reacts to, as its own lists state them.

use mcp_application::IncomingRequest;
use mcp_proto::client::Outcome;
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json};
use serde_json::{Map, Value};

use crate::one_answer::full_config;
use crate::pair::Pair;

/// The tools, prompts, resources and extensions of a handler: [`Conversation::to_bytes`](crate::conversation::Conversation::to_bytes)
/// uses their names, so that a fuzzer need not guess them.
///
/// # Example
///
/// ```
/// use mcp_testkit::vocabulary::{Kind, Vocabulary};
///
/// let vocabulary = Vocabulary::new().tool("add", [("a", Kind::Integer), ("b", Kind::Integer)]).resource("file:///a");
/// assert_eq!(vocabulary.tools[0].arguments.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Vocabulary {
    /// The tools.
    pub tools: Vec<Callable>,
    /// The prompts.
    pub prompts: Vec<Callable>,
    /// The URIs of the resources.
    pub resources: Vec<String>,
    /// The ids of the protocol extensions that the client declares.
    pub extensions: Vec<String>,
    /// The methods of extensions, with their parameters.
    pub methods: Vec<Callable>,
    /// The notifications of extensions that a client sends.
    pub notifications: Vec<String>,
}

/// A tool, a prompt, or a method of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Callable {
    /// Its name.
    pub name: String,
    /// Its arguments or parameters: their names and kinds.
    pub arguments: Vec<(String, Kind)>,
}

/// The kind of value that an argument takes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A boolean.
    Boolean,
    /// An integer.
    Integer,
    /// Any number.
    Number,
    /// A string.
    Text,
    /// One of these values, which are JSON texts.
    OneOf(Vec<String>),
    /// An array.
    List,
    /// An object.
    Object,
    /// Any value.
    Any,
}

impl Vocabulary {
    /// No names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool<'n>(mut self, name: &str, arguments: impl IntoIterator<Item = (&'n str, Kind)>) -> Self {
        self.tools.push(Callable::new(name, arguments));
        self
    }

    /// Adds a prompt. Its arguments are texts.
    #[must_use]
    pub fn prompt<'n>(mut self, name: &str, arguments: impl IntoIterator<Item = &'n str>) -> Self {
        self.prompts.push(Callable::new(name, arguments.into_iter().map(|name| (name, Kind::Text))));
        self
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, uri: &str) -> Self {
        self.resources.push(uri.to_owned());
        self
    }

    /// Lets the client declare a protocol extension.
    #[must_use]
    pub fn extension(mut self, id: &str) -> Self {
        self.extensions.push(id.to_owned());
        self
    }

    /// Adds a method of an extension.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_testkit::conversation::Conversation;
    /// use mcp_testkit::random::{Choices, Random};
    /// use mcp_testkit::vocabulary::{Kind, Vocabulary};
    ///
    /// let query = [("words", Kind::Text), ("limit", Kind::Integer)];
    /// let vocabulary =
    ///     Vocabulary::new().extension("com.example/search").method("com.example/search/query", query);
    /// let is_called = |seed| {
    ///     let lines = Conversation::draw(&mut Choices::Seed(Random::new(seed))).to_bytes(&vocabulary);
    ///     String::from_utf8_lossy(&lines).contains("com.example/search/query")
    /// };
    /// assert!((0..100).any(is_called));
    /// ```
    #[must_use]
    pub fn method<'n>(mut self, name: &str, params: impl IntoIterator<Item = (&'n str, Kind)>) -> Self {
        self.methods.push(Callable::new(name, params));
        self
    }

    /// Adds a notification of an extension that a client sends.
    #[must_use]
    pub fn notification(mut self, method: &str) -> Self {
        self.notifications.push(method.to_owned());
        self
    }

    /// Requests the lists of a handler: the first page of its tools with the types in their schemas, of its prompts, and
    /// of its resources. A list that it does not have is empty. The methods of extensions have no list:
    /// [`Vocabulary::method`] adds them.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_application::IncomingRequest;
    /// use mcp_proto::{ErrorObject, Json};
    /// use mcp_testkit::vocabulary::{Kind, Vocabulary};
    ///
    /// fn serve(request: &IncomingRequest) -> Result<Json, ErrorObject> {
    ///     let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    ///     match request.method().as_str() {
    ///         "tools/list" => Ok(Json::parse(format!(r#"{{"tools":[{{"name":"double","inputSchema":{schema}}}]}}"#)).unwrap()),
    ///         _ => Err(ErrorObject::method_not_found(request.method())),
    ///     }
    /// }
    ///
    /// assert_eq!(Vocabulary::of(serve), Vocabulary::new().tool("double", [("n", Kind::Integer)]));
    /// ```
    pub fn of(handler: impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>) -> Self {
        Self::of_server(full_config(), handler)
    }

    /// The same for a server with this configuration, whose extensions the client declares too.
    pub fn of_server(config: Config, handler: impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>) -> Self {
        let declared = config.capabilities.first_member("extensions");
        let declared: Map<String, Value> = declared.and_then(|declared| declared.read().ok()).unwrap_or_default();
        let mut pair = Pair::new(config, handler);
        let mut list = |method: &str, member: &str| -> Vec<Value> {
            let Outcome::Result(result) = pair.request(method, Json::empty_object()) else { return Vec::new() };
            let items = result.first_member(member).and_then(|items| items.read().ok());
            items.unwrap_or_default()
        };
        let tools = list("tools/list", "tools");
        let prompts = list("prompts/list", "prompts");
        let resources = list("resources/list", "resources");
        Self {
            tools: tools.iter().filter_map(tool).collect(),
            prompts: prompts.iter().filter_map(prompt).collect(),
            resources: resources.iter().filter_map(|resource| text(resource, "uri")).collect(),
            extensions: declared.into_iter().map(|(id, _)| id).collect(),
            ..Self::new()
        }
    }
}

impl Callable {
    fn new<'n>(name: &str, arguments: impl IntoIterator<Item = (&'n str, Kind)>) -> Self {
        let arguments = arguments.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
        Self { name: name.to_owned(), arguments }
    }
}

fn text(object: &Value, member: &str) -> Option<String> {
    object.get(member)?.as_str().map(str::to_owned)
}

fn tool(tool: &Value) -> Option<Callable> {
    let properties = tool.get("inputSchema").and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let arguments = properties.into_iter().flatten().map(|(name, schema)| (name.clone(), kind(schema)));
    let mut arguments: Vec<_> = arguments.collect();
    // A run depends on their order, which must not depend on whether maps of `serde_json` keep theirs.
    arguments.sort_by(|(name, _), (other, _)| name.cmp(other));
    Some(Callable { name: text(tool, "name")?, arguments })
}

fn prompt(prompt: &Value) -> Option<Callable> {
    let arguments = prompt.get("arguments").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten().filter_map(|argument| Some((text(argument, "name")?, Kind::Text)));
    Some(Callable { name: text(prompt, "name")?, arguments: arguments.collect() })
}

fn kind(schema: &Value) -> Kind {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Kind::OneOf(values.iter().map(Value::to_string).collect());
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => Kind::Boolean,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("string") => Kind::Text,
        Some("array") => Kind::List,
        Some("object") => Kind::Object,
        _ => Kind::Any,
    }
}
