//! The names that a handler reacts to, as its own lists state them.

use mcp_application::IncomingRequest;
use mcp_proto::client::Outcome;
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json};
use serde_json::Value;

use crate::one_answer::full_config;
use crate::pair::Pair;

/// The tools, prompts and resources of a handler: [`Conversation::to_bytes`](crate::conversation::Conversation::to_bytes)
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
}

/// A tool or a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Callable {
    /// Its name.
    pub name: String,
    /// Its arguments: their names and kinds.
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
        let arguments = arguments.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
        self.tools.push(Callable { name: name.to_owned(), arguments });
        self
    }

    /// Adds a prompt. Its arguments are texts.
    #[must_use]
    pub fn prompt<'n>(mut self, name: &str, arguments: impl IntoIterator<Item = &'n str>) -> Self {
        let arguments = arguments.into_iter().map(|name| (name.to_owned(), Kind::Text)).collect();
        self.prompts.push(Callable { name: name.to_owned(), arguments });
        self
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, uri: &str) -> Self {
        self.resources.push(uri.to_owned());
        self
    }

    /// Requests the lists of a handler: the first page of its tools with the types in their schemas, of its prompts, and
    /// of its resources. A list that it does not have is empty.
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

    /// The same for a server with this configuration.
    pub fn of_server(config: Config, handler: impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>) -> Self {
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
        }
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
