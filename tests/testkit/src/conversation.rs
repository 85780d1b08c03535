//! Conversations that a client begins: sequences of messages as a fuzzer draws and mutates them.

use std::fmt::Write;

use mcp_proto::{Method, ProtocolVersion};
use serde_json::{Map, Value, json};

use crate::messages::{INITIALIZED, initialize_with};
use crate::random::Choices;
use crate::vocabulary::{Callable, Kind, Vocabulary};

/// The most messages of a conversation that is drawn.
const MAX_STEPS: usize = 24;
/// The most members of an object and items of an array that is drawn.
const MAX_ITEMS: u64 = 4;
/// The maximum depth of a value that is drawn.
const MAX_DEPTH: u32 = 3;
/// The maximum length of a text that is drawn, in bytes, before invalid UTF-8 is replaced.
const MAX_TEXT: u64 = 24;

/// Texts that often reveal a bug.
const TEXTS: &[&str] =
    &["", "a", "\0", "\u{feff}", "é\u{301}", "../../etc/passwd", "%00", "{{x}}", "file:///", "-1", "null", "\r\n"];
/// Integers that often reveal a bug.
const INTEGERS: &[i64] = &[0, 1, -1, i64::MAX, i64::MIN, 1 << 53, 0xffff_ffff, -0x8000_0000, 255, 256];

/// The messages of a client, in order.
///
/// With the feature `arbitrary`, it implements `arbitrary::Arbitrary`, so that it can be the argument of a fuzz target.
/// Its parts name tools, arguments and resources by numbers; [`Conversation::to_bytes`] replaces these by the names in a
/// [`Vocabulary`].
///
/// # Example
///
/// ```
/// use mcp_testkit::conversation::Conversation;
/// use mcp_testkit::random::{Choices, Random};
/// use mcp_testkit::vocabulary::{Kind, Vocabulary};
///
/// let vocabulary = Vocabulary::new().tool("add", [("a", Kind::Integer), ("b", Kind::Integer)]);
/// let conversation = Conversation::draw(&mut Choices::Seed(Random::new(3)));
/// let bytes = conversation.to_bytes(&vocabulary);
/// assert!(bytes.ends_with(b"\n"));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Conversation {
    /// How it begins.
    pub opening: Opening,
    /// The messages after that.
    pub steps: Vec<Step>,
}

/// How a conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Opening {
    /// Every request states its revision, 2026-07-28, in `_meta`.
    #[default]
    Stateless,
    /// `initialize` with this revision, and `notifications/initialized`.
    Initialize(ProtocolVersion),
    /// Nothing, although the requests do not state a revision.
    Nothing,
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// A request.
    Request {
        /// Its id.
        id: Id,
        /// What it requests.
        asked: Asked,
        /// Whether it requests progress.
        has_progress: bool,
    },
    /// A notification.
    Notification {
        /// The method: the number of a notification of [`Method::ALL`], or after these of the vocabulary.
        method: usize,
        /// The parameters.
        params: Value,
    },
    /// The cancellation of a request: the number of an earlier one.
    Cancel(usize),
    /// A response: the id and the result.
    Respond(Id, Value),
    /// A line of any text.
    Line(String),
}

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Id {
    /// A new number.
    New,
    /// That of an earlier request: the number of that request.
    Earlier(usize),
    /// A text.
    Text(String),
}

/// What a request requests. A number selects an item of a list of the vocabulary, modulo its length.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Asked {
    /// A list, with a cursor.
    List(Method, Option<String>),
    /// A call of a tool.
    Tool(usize, Arguments),
    /// A prompt.
    Prompt(usize, Arguments),
    /// A resource.
    Resource(usize),
    /// A completion of an argument of a prompt.
    Complete(usize, String),
    /// A method of an extension.
    Method(usize, Arguments),
    /// Any method, with any parameters.
    Other(Method, Value),
}

/// The arguments of a tool or a prompt, or the parameters of a method of an extension.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Arguments {
    /// A value for each argument, which is converted to the kind of the argument.
    Fitting(Vec<Value>),
    /// These members; a number selects the name of an argument.
    Any(Vec<(usize, Value)>),
    /// None at all.
    Missing,
}

impl Conversation {
    /// Draws a conversation: the same choices give the same conversation.
    pub fn draw(choices: &mut Choices<'_>) -> Self {
        let legacy: Vec<_> = ProtocolVersion::ALL.iter().filter(|version| !version.is_stateless()).copied().collect();
        let opening = match choices.below(8) {
            0..=3 => Opening::Stateless,
            4 => Opening::Nothing,
            _ => Opening::Initialize(choices.pick(&legacy).copied().unwrap_or(ProtocolVersion::LATEST_LEGACY)),
        };
        let mut steps = Vec::new();
        while steps.len() < MAX_STEPS && !choices.are_used_up() {
            steps.push(step(choices));
            // A seed has no end.
            if matches!(choices, Choices::Seed(_)) && choices.below(6) == 0 {
                break;
            }
        }
        Self { opening, steps }
    }

    /// The lines of the conversation, as a client writes them over stdio.
    pub fn to_bytes(&self, vocabulary: &Vocabulary) -> Vec<u8> {
        let mut writer = Writer { vocabulary, text: String::new(), ids: Vec::new(), is_stateless: false };
        match self.opening {
            Opening::Stateless => writer.is_stateless = true,
            Opening::Nothing => {}
            Opening::Initialize(version) => {
                let capabilities = writer.capabilities(json!({})).to_string();
                writer.line(&initialize_with("0", version.as_str(), &capabilities));
                writer.line(INITIALIZED);
            }
        }
        for step in &self.steps {
            writer.step(step);
        }
        writer.text.into_bytes()
    }
}

/// Uses all bytes that are left, so that a mutation changes the choices from one place on.
#[cfg(feature = "arbitrary")]
impl<'a> arbitrary::Arbitrary<'a> for Conversation {
    fn arbitrary(unstructured: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        let bytes = unstructured.bytes(unstructured.len())?;
        Ok(Self::draw(&mut Choices::Bytes(bytes)))
    }

    fn arbitrary_take_rest(unstructured: arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self::draw(&mut Choices::Bytes(unstructured.take_rest())))
    }
}

fn index(choices: &mut Choices<'_>, limit: u64) -> usize {
    usize::try_from(choices.below(limit)).unwrap_or_default()
}

fn step(choices: &mut Choices<'_>) -> Step {
    match choices.below(32) {
        0 => Step::Cancel(index(choices, 8)),
        1 => Step::Notification { method: index(choices, 64), params: object(choices, MAX_DEPTH) },
        2 => Step::Respond(id(choices), object(choices, MAX_DEPTH)),
        3 => Step::Line(text(choices)),
        _ => Step::Request { id: id(choices), asked: asked(choices), has_progress: choices.below(8) == 7 },
    }
}

fn id(choices: &mut Choices<'_>) -> Id {
    match choices.below(16) {
        14 => Id::Earlier(index(choices, 8)),
        15 => Id::Text(text(choices)),
        _ => Id::New,
    }
}

fn asked(choices: &mut Choices<'_>) -> Asked {
    let lists = [Method::TOOLS_LIST, Method::PROMPTS_LIST, Method::RESOURCES_LIST, Method::RESOURCES_TEMPLATES_LIST];
    match choices.below(18) {
        0..=8 => Asked::Tool(index(choices, 256), arguments(choices)),
        9 | 10 => Asked::Prompt(index(choices, 256), arguments(choices)),
        11 | 12 => Asked::Resource(index(choices, 256)),
        13 => {
            let method = lists[index(choices, 4)].clone();
            Asked::List(method, (choices.below(2) == 1).then(|| text(choices)))
        }
        14 => Asked::Complete(index(choices, 256), text(choices)),
        16 | 17 => Asked::Method(index(choices, 256), arguments(choices)),
        _ => {
            let method = Method::ALL.get(index(choices, Method::ALL.len() as u64)).cloned();
            Asked::Other(method.unwrap_or(Method::PING), object(choices, MAX_DEPTH))
        }
    }
}

fn arguments(choices: &mut Choices<'_>) -> Arguments {
    match choices.below(8) {
        0..=5 => Arguments::Fitting((0..choices.below(MAX_ITEMS + 1)).map(|_| value(choices, MAX_DEPTH)).collect()),
        6 => {
            let members = (0..choices.below(MAX_ITEMS + 1)).map(|_| (index(choices, 16), value(choices, MAX_DEPTH)));
            Arguments::Any(members.collect())
        }
        _ => Arguments::Missing,
    }
}

fn value(choices: &mut Choices<'_>, depth: u32) -> Value {
    match choices.below(if depth == 0 { 8 } else { 10 }) {
        0 => json!(i64::try_from(choices.below(256)).unwrap_or_default() - 128),
        1 => choices.pick(INTEGERS).map_or(Value::Null, |number| json!(number)),
        2 => choices.pick(TEXTS).map_or(Value::Null, |text| json!(text)),
        3 | 4 => json!(text(choices)),
        5 => json!(choices.below(2) == 1),
        6 => json!(f64::from(u32::try_from(choices.below(1 << 16)).unwrap_or_default()) / 64.0 - 512.0),
        7 => Value::Null,
        8 => (0..choices.below(MAX_ITEMS + 1)).map(|_| value(choices, depth - 1)).collect(),
        _ => object(choices, depth - 1),
    }
}

fn object(choices: &mut Choices<'_>, depth: u32) -> Value {
    const NAMES: &[&str] = &["name", "uri", "arguments", "cursor", "_meta", "requestId", "ref", "level", "taskId"];
    let depth = depth.saturating_sub(1);
    let members: Map<String, Value> = (0..choices.below(MAX_ITEMS + 1))
        .map(|_| {
            let name = if choices.below(4) == 3 {
                text(choices)
            } else {
                choices.pick(NAMES).copied().unwrap_or_default().to_owned()
            };
            (name, value(choices, depth))
        })
        .collect();
    Value::Object(members)
}

/// The bytes of the text are in a row in the input of a fuzzer, so that it can insert a text that the handler compares with.
fn text(choices: &mut Choices<'_>) -> String {
    let bytes: Vec<u8> = match choices {
        Choices::Bytes(bytes) => {
            let Some((length, rest)) = bytes.split_first() else { return String::new() };
            let length = usize::from(*length) % usize::try_from(MAX_TEXT + 1).unwrap_or(1);
            let (text, rest) = rest.split_at(length.min(rest.len()));
            *bytes = rest;
            text.to_vec()
        }
        Choices::Seed(random) => {
            (0..random.below(MAX_TEXT + 1)).map(|_| b' ' + u8::try_from(random.below(95)).unwrap_or_default()).collect()
        }
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes the lines of a conversation.
struct Writer<'v> {
    vocabulary: &'v Vocabulary,
    text: String,
    /// The ids of the requests so far.
    ids: Vec<Value>,
    is_stateless: bool,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        // A text may contain line feeds, which would begin another line.
        let _ = writeln!(self.text, "{}", line.replace(['\n', '\r'], " "));
    }

    /// The capabilities of the client, with the extensions that it declares.
    fn capabilities(&self, mut capabilities: Value) -> Value {
        let declared: Map<_, _> = self.vocabulary.extensions.iter().map(|id| (id.clone(), json!({}))).collect();
        if !declared.is_empty() {
            capabilities["extensions"] = Value::Object(declared);
        }
        capabilities
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Request { id, asked, has_progress } => {
                let id = self.id(id);
                let (method, mut params) = self.asked(asked);
                let mut meta = Map::new();
                if self.is_stateless {
                    meta.insert(
                        mcp_proto::spec::meta::PROTOCOL_VERSION.to_owned(),
                        json!(ProtocolVersion::LATEST.as_str()),
                    );
                    meta.insert(
                        mcp_proto::spec::meta::CLIENT_CAPABILITIES.to_owned(),
                        self.capabilities(json!({"elicitation":{}})),
                    );
                }
                if *has_progress {
                    meta.insert("progressToken".to_owned(), id.clone());
                }
                if let (Value::Object(params), false) = (&mut params, meta.is_empty()) {
                    params.entry("_meta").or_insert(Value::Object(meta));
                }
                self.ids.push(id.clone());
                let request = json!({"jsonrpc": "2.0", "id": id, "method": method.as_str(), "params": params});
                self.line(&request.to_string());
            }
            Step::Notification { method, params } => {
                let notifications = Method::ALL.iter().filter(|method| method.as_str().starts_with("notifications/"));
                let own = self.vocabulary.notifications.iter().map(String::as_str);
                let method = notifications.map(Method::as_str).chain(own).cycle().nth(*method).unwrap_or_default();
                self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
            }
            Step::Cancel(request) => {
                let id = nth(&self.ids, *request).cloned().unwrap_or_default();
                let params = json!({"requestId": id});
                let cancelled = json!({"jsonrpc": "2.0", "method": Method::CANCELLED.as_str(), "params": params});
                self.line(&cancelled.to_string());
            }
            Step::Respond(id, result) => {
                let id = match id {
                    Id::New => json!(self.ids.len()),
                    Id::Earlier(number) => json!(number),
                    Id::Text(text) => json!(text),
                };
                self.line(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
            }
            Step::Line(text) => self.line(text),
        }
    }

    fn id(&self, id: &Id) -> Value {
        match id {
            Id::New => json!(self.ids.len() + 1),
            Id::Earlier(request) => nth(&self.ids, *request).cloned().unwrap_or(json!(1)),
            Id::Text(text) => json!(text),
        }
    }

    fn asked(&self, asked: &Asked) -> (Method, Value) {
        match asked {
            Asked::List(method, None) => (method.clone(), json!({})),
            Asked::List(method, Some(cursor)) => (method.clone(), json!({"cursor": cursor})),
            Asked::Tool(tool, arguments) => (Method::TOOLS_CALL, call(nth(&self.vocabulary.tools, *tool), arguments)),
            Asked::Prompt(prompt, arguments) => {
                (Method::PROMPTS_GET, call(nth(&self.vocabulary.prompts, *prompt), arguments))
            }
            Asked::Resource(resource) => {
                let uri = nth(&self.vocabulary.resources, *resource).map_or("file:///", String::as_str);
                (Method::RESOURCES_READ, json!({"uri": uri}))
            }
            Asked::Complete(prompt, value) => {
                let prompt = nth(&self.vocabulary.prompts, *prompt);
                let argument = prompt.and_then(|prompt| prompt.arguments.first()).map_or("", |(name, _)| name);
                let reference = json!({"type": "ref/prompt", "name": prompt.map_or("", |prompt| &prompt.name)});
                let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
                (Method::COMPLETION_COMPLETE, params)
            }
            Asked::Method(method, arguments) => {
                let none = Callable { name: "com.example/unknown".to_owned(), arguments: Vec::new() };
                let method = nth(&self.vocabulary.methods, *method).unwrap_or(&none);
                (Method::from(method.name.as_str()), members(method, arguments).unwrap_or_default())
            }
            Asked::Other(method, params) => (method.clone(), params.clone()),
        }
    }
}

/// An item of a list, modulo its length.
fn nth<T>(list: &[T], number: usize) -> Option<&T> {
    list.get(number.checked_rem(list.len())?)
}

/// The parameters of a call of a tool or a prompt.
fn call(callable: Option<&Callable>, arguments: &Arguments) -> Value {
    let none = Callable { name: "unknown".to_owned(), arguments: Vec::new() };
    let callable = callable.unwrap_or(&none);
    match members(callable, arguments) {
        None => json!({"name": callable.name}),
        Some(members) => json!({"name": callable.name, "arguments": members}),
    }
}

/// An object with the arguments, unless they are missing.
fn members(callable: &Callable, arguments: &Arguments) -> Option<Value> {
    let members: Map<String, Value> = match arguments {
        Arguments::Missing => return None,
        Arguments::Any(members) => {
            let name = |number| nth(&callable.arguments, number).map_or("unknown", |(name, _)| name).to_owned();
            members.iter().map(|(number, value)| (name(*number), value.clone())).collect()
        }
        Arguments::Fitting(values) => {
            let given = values.iter().chain(std::iter::repeat(&Value::Null));
            let fit = |((name, kind), value): (&(String, Kind), &Value)| (name.clone(), fitting(kind, value));
            callable.arguments.iter().zip(given).map(fit).collect()
        }
    };
    Some(Value::Object(members))
}

/// A value of this kind that is made of another one.
fn fitting(kind: &Kind, value: &Value) -> Value {
    match kind {
        Kind::Boolean => json!(integer(value) > 0),
        Kind::Number if value.is_number() => value.clone(),
        Kind::Integer | Kind::Number => json!(integer(value)),
        Kind::Text if value.is_string() => value.clone(),
        Kind::Text if value.is_null() => json!(""),
        Kind::Text => json!(value.to_string()),
        Kind::OneOf(values) => {
            let number = usize::try_from(integer(value).unsigned_abs()).unwrap_or_default();
            nth(values, number).and_then(|value| serde_json::from_str(value).ok()).unwrap_or_default()
        }
        Kind::List if value.is_array() => value.clone(),
        Kind::List => json!([value]),
        Kind::Object if value.is_object() => value.clone(),
        Kind::Object => json!({}),
        Kind::Any => value.clone(),
    }
}

/// An integer that is made of a value.
fn integer(value: &Value) -> i64 {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.len().to_string(),
        Value::Bool(is_true) => u8::from(*is_true).to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    };
    let whole = text.split('.').next().unwrap_or_default();
    whole.parse().unwrap_or_default()
}
