//! A server with functions of every shape of Rust types, and forms of every kind of field: what real clients read of the
//! schemas that are made of them, by which arguments, results and answers are validated. It also has an MCP App and a protocol
//! extension. Both drivers serve it, in tests of this workspace and to the clients of other SDKs (`tests/interop/zoo`).

mod shapes;

use mcp_application::router::{HandlerError, Structured};
use mcp_application::{Elicited, IncomingRequest, Inputs};
use mcp_model::{AppUi, Resource, ResourceTemplate, ToolUi};
use mcp_proto::{Json, Method, ProtocolVersion};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use shapes::{
    Anything, Choices, Clock, Defaults, Edit, Enums, Flattened, Form, Limits, ListForm, Lists, Maps, Names, Newtypes,
    Node, Numbers, Optional, Review, Text, Unicode, Words,
};

use crate::schema::Schema;

/// The URI of the resource with [`samples`].
pub const SAMPLES_URI: &str = "zoo:///samples";

/// The id of the extension.
pub const EXTENSION: &str = "org.example/words";

/// The setting with which the extension is declared: its name and value.
pub const EXTENSION_SETTING: (&str, &str) = ("language", "en");

const EXTENSION_METHOD: &str = "org.example/words/count";
const APP_URI: &str = "ui://clock/view";
const APP_PAGE: &str = "<!doctype html><title>Clock</title><p id=time>\u{231a}</p>";

/// A type whose values are arguments and results.
pub trait Shape: Serialize + DeserializeOwned + JsonSchema + Send + 'static {}

impl<T: Serialize + DeserializeOwned + JsonSchema + Send + 'static> Shape for T {}

/// The router of a driver, to which the functions are added.
pub trait Functions: Sized {
    /// Adds a tool whose result is its arguments.
    #[must_use]
    fn echo<T: Shape>(self, name: &'static str) -> Self;

    /// Adds a tool that asks the user.
    #[must_use]
    fn asking(self, name: &'static str, function: fn(&IncomingRequest) -> Result<String, HandlerError>) -> Self;

    /// Adds a tool without arguments.
    #[must_use]
    fn tool<T: Shape>(self, name: &'static str, function: fn() -> Result<Structured<T>, HandlerError>) -> Self;

    /// Adds a prompt.
    #[must_use]
    fn prompt<A: Shape>(self, name: &'static str, function: fn(A) -> Result<String, HandlerError>) -> Self;

    /// Adds a resource template.
    #[must_use]
    fn template<A: Shape>(self, template: &ResourceTemplate, function: fn(A) -> Result<String, HandlerError>) -> Self;

    /// Adds a resource.
    #[must_use]
    fn resource(self, resource: &Resource, function: fn() -> Result<String, HandlerError>) -> Self;

    /// Adds the page of an app, and a tool that is linked to it, whose result is its arguments.
    #[must_use]
    fn app<T: Shape>(self, resource: &Resource, page: (&str, &AppUi), tool: (&'static str, &ToolUi)) -> Self;

    /// Adds the extension [`EXTENSION`] with its setting and one method.
    #[must_use]
    fn extension<P: Shape, O: Shape>(self, method: &'static str, function: fn(P) -> Result<O, HandlerError>) -> Self;

    /// Validates arguments and results by the schemas of the tools.
    #[must_use]
    fn validate(self) -> Self;
}

/// Adds all functions to a router.
pub fn add<F: Functions>(router: F) -> F {
    router
        .echo::<Maps>("maps")
        .echo::<Anything>("anything")
        .echo::<Node>("recursive")
        .echo::<Edit>("tagged")
        .echo::<Enums>("enums")
        .echo::<Flattened>("flattened")
        .echo::<Newtypes>("newtypes")
        .echo::<Numbers>("numbers")
        .echo::<Choices>("choices")
        .echo::<Optional>("optional")
        .echo::<Lists>("lists")
        .echo::<Unicode>("unicode")
        .echo::<Names>("names")
        .echo::<Defaults>("defaults")
        .echo::<Limits>("limits")
        .tool("infinite", || Ok(Structured(shapes::Report { rows: vec![shapes::Row { mean: f64::INFINITY }] })))
        .asking("form", ask::<Form>)
        .asking("list_form", ask::<ListForm>)
        .prompt("review", |review: Review| Ok(format!("{} in {:?}", review.code, review.approach)))
        .template(&ResourceTemplate::new("zoo:///{colour}/{id}", "animals"), |animal: shapes::Animal| {
            Ok(format!("{:?} {}", animal.colour, animal.id))
        })
        .resource(&Resource::new(SAMPLES_URI, "samples").mime_type("application/json"), || Ok(samples().to_string()))
        .app::<Clock>(
            &Resource::app(APP_URI, "clock"),
            (APP_PAGE, &AppUi::new().prefers_border(true)),
            ("clock", &ToolUi::app(APP_URI)),
        )
        .extension::<Text, Words>(EXTENSION_METHOD, |text| Ok(Words { words: text.text.split_whitespace().count() }))
        .validate()
}

fn ask<T: Shape>(incoming: &IncomingRequest) -> Result<String, HandlerError> {
    let mut inputs = Inputs::new(incoming)?.validated();
    match inputs.elicit_as::<T>("form", "Please fill in")? {
        None => Err(inputs.required()),
        Some(Elicited::Accepted(entered)) => Ok(Json::from_serialize(&entered)?.to_text().into_owned()),
        Some(Elicited::Declined | Elicited::Cancelled) => Ok("not entered".to_owned()),
    }
}

/// What a client calls, gets and reads, and what it receives: an object.
///
/// | member | contents |
/// |---|---|
/// | `tools` | the name and arguments of calls, with the structured content of the result, or else the text of an error |
/// | `forms` | tools that ask the user, and the JSON in the text of the result if the answers are those of [`answer`] |
/// | `prompt` | a prompt, its arguments in the order of its list, and the text |
/// | `resource` | a URI of the template, and its text |
/// | `app` | the name of a tool, the URI of its page, and the media type and the text of the page |
/// | `extension` | the id and the settings of an extension, a method, its parameters, and its result |
#[must_use]
pub fn samples() -> Value {
    let tools: Vec<_> = CALLS
        .iter()
        .map(|(name, arguments, expected)| {
            let mut sample = json!({ "name": name, "arguments": read(arguments) });
            let (member, value) = match expected {
                Expected::Same => ("result", read(arguments)),
                Expected::Result(result) => ("result", read(result)),
                Expected::Error(text) => ("error", json!(text)),
            };
            sample.as_object_mut().expect("an object").insert(member.to_owned(), value);
            sample
        })
        .collect();
    json!({
        "tools": tools,
        "forms": [
            { "name": "form", "result": read(FORM) },
            { "name": "list_form", "result": read(LIST_FORM) },
        ],
        "prompt": { "name": "review", "arguments": ["code", "approach"], "values": ["x = 1", "depth"], "text": "x = 1 in Some(\"depth\")" },
        "resource": { "uri": "zoo:///Red/7", "text": "Red 7" },
        "app": { "tool": "clock", "uri": APP_URI, "mimeType": "text/html;profile=mcp-app", "text": APP_PAGE },
        "extension": {
            "id": EXTENSION,
            "settings": { EXTENSION_SETTING.0: EXTENSION_SETTING.1 },
            "method": EXTENSION_METHOD,
            "params": { "text": "größe\n名前 x" },
            "result": { "words": 3 },
        },
    })
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

enum Expected {
    /// The arguments.
    Same,
    Result(&'static str),
    Error(&'static str),
}

use Expected::{Error, Result as Gives, Same};

const CALLS: [(&str, &str, Expected); 32] = [
    ("maps", r#"{"counts":{"a":1,"b":2},"nested":{"x":{"y":true}}}"#, Same),
    (
        "maps",
        r#"{"counts":{"a":"x"},"nested":{}}"#,
        Error(r#"invalid arguments: 'counts.a': value is not of type "integer""#),
    ),
    ("anything", r#"{"value":{"a":[1,null,"x"]},"optional":7,"list":[1,"x"],"pair":[{},true]}"#, Same),
    (
        "anything",
        r#"{"value":"x","list":[],"pair":[null,false]}"#,
        Gives(r#"{"value":"x","optional":null,"list":[],"pair":[null,false]}"#),
    ),
    (
        "recursive",
        r#"{"name":"a","children":[{"name":"b","children":[],"next":null}],"next":{"name":"c","children":[],"next":null}}"#,
        Same,
    ),
    ("recursive", r#"{"name":"a","children":[]}"#, Gives(r#"{"name":"a","children":[],"next":null}"#)),
    ("tagged", r#"{"action":"Insert","text":"x"}"#, Same),
    ("tagged", r#"{"action":"Delete"}"#, Same),
    (
        "enums",
        r#"{"external":{"Circle":{"radius":1.5}},"internal":{"kind":"Bird","wings":2},"adjacent":{"t":"Text","c":"x"},"untagged":7,"unit":"Nothing"}"#,
        Same,
    ),
    (
        "enums",
        r#"{"external":"Empty","internal":{"kind":"Fish"},"adjacent":{"t":"None"},"untagged":"seven","unit":{"Something":1}}"#,
        Same,
    ),
    ("flattened", r#"{"id":"a","limit":5,"offset":2,"more":true}"#, Same),
    ("newtypes", r#"{"metres":1.5,"name":"a","pair":[1,"x"],"point":[1,2],"unit":null}"#, Same),
    (
        "numbers",
        r#"{"small":255,"signed":-128,"large":9007199254740991,"huge":-9007199254740991,"single":0.5,"double":1e-3,"size":1,"letter":"é"}"#,
        Same,
    ),
    (
        "numbers",
        r#"{"small":5.0,"signed":-1e1,"large":1e3,"huge":2.0,"single":1,"double":1,"size":1.0,"letter":"x"}"#,
        Gives(r#"{"small":5,"signed":-10,"large":1000,"huge":2,"single":1.0,"double":1.0,"size":1,"letter":"x"}"#),
    ),
    ("choices", r#"{"colour":"Red","speed":"Slow","size":"large","colours":["Green"],"other":"Fast"}"#, Same),
    ("choices", r#"{"colour":"Green","speed":"Fast","size":"small","colours":[],"other":null}"#, Same),
    (
        "optional",
        "{}",
        Gives(
            r#"{"number":null,"text":null,"colour":null,"inner":null,"inners":null,"twice":null,"shape":null,"numbers":[]}"#,
        ),
    ),
    (
        "optional",
        r#"{"number":null,"text":null,"colour":null,"inner":null,"inners":null,"twice":null,"shape":null,"numbers":[null,1]}"#,
        Same,
    ),
    (
        "optional",
        r#"{"number":1,"text":"x","colour":"Red","inner":{"a":1,"b":null},"inners":[{"a":2,"b":"x"}],"twice":2,"shape":{"Circle":{"radius":1.5}},"numbers":[1]}"#,
        Same,
    ),
    ("lists", r#"{"inners":[{"a":1,"b":null}],"nested":[[{"a":2,"b":"x"}],[]],"three":[1,2,3],"set":["a","b"]}"#, Same),
    (
        "lists",
        r#"{"inners":[{"a":1},{"a":true}],"nested":[],"three":[1,2,3],"set":[]}"#,
        Error(r#"invalid arguments: 'inners[1].a': value is not of type "integer""#),
    ),
    ("unicode", r#"{"größe":7,"名前":"x","a b":true,"quote\"d":"é"}"#, Same),
    (
        "names",
        r#"{"x-mcp-header":"a","type":"b","properties":{"a":1,"b":null},"required":true,"default":1,"const":"c","enum":["d"],"items":{"x":"y"}}"#,
        Same,
    ),
    (
        "defaults",
        "{}",
        Gives(r#"{"text":"none","number":3,"colour":"Green","inner":{"a":1,"b":null},"optional":null}"#),
    ),
    ("limits", r#"{"level":9,"name":"né","tags":["a"],"note":"x"}"#, Same),
    (
        "limits",
        r#"{"level":9.0,"name":"né","tags":[],"note":null}"#,
        Gives(r#"{"level":9,"name":"né","tags":[],"note":null}"#),
    ),
    (
        "limits",
        r#"{"level":10,"name":"","tags":["a","b","c"]}"#,
        Error(
            "invalid arguments: 'level': value is greater than the maximum of 9; 'name': value is shorter than 1 character; 'tags': value has more than 2 items",
        ),
    ),
    (
        "limits",
        r#"{"level":1,"name":"A B","tags":[],"note":null}"#,
        Error(r#"invalid arguments: 'name': value does not match "^\S*$""#),
    ),
    ("clock", r#"{"zone":"Europe/Zürich"}"#, Same),
    ("defaults", r#"{"text":"x","number":4,"colour":"Red","inner":{"a":2,"b":"y"},"optional":"z"}"#, Same),
    (
        "choices",
        r#"{"colour":"Blue","speed":"Slow","size":"large","colours":[]}"#,
        Error(r#"invalid arguments: 'colour': value is not one of "Red" or "Green""#),
    ),
    (
        "recursive",
        r#"{"name":"a","children":[{"name":"b"}]}"#,
        Error(r#"invalid arguments: 'children[0]': "children" is a required property"#),
    ),
];

const FORM: &str = r#"{"text":"text","mail":"ada@example.org","count":7,"weight":1.5,"gift":true,"colour":"Red","speed":"Slow","size":"small","other":"Red","note":"text","wrapping":"text"}"#;
const LIST_FORM: &str = r#"{"colours":["Red"],"speeds":["Slow"],"some":["Red"]}"#;

/// The answer of a user to a form, who enters the first choice, `text`, `ada@example.org`, 7, 1.5 and true.
///
/// # Panics
///
/// A field is of no kind that forms have.
#[must_use]
pub fn answer(form: &Value) -> Value {
    let fields = form["properties"].as_object().expect("the fields");
    let first = |choices: &Value, name: &str| choices[0].get(name).unwrap_or(&choices[0]).clone();
    let entered = fields.iter().map(|(name, field)| {
        let value = match field["type"].as_str().unwrap_or_default() {
            "string" if field.get("oneOf").is_some() => first(&field["oneOf"], "const"),
            "string" if field.get("enum").is_some() => first(&field["enum"], ""),
            "string" if field["format"] == "email" => json!("ada@example.org"),
            "string" => json!("text"),
            "integer" => json!(7),
            "number" => json!(1.5),
            "boolean" => json!(true),
            "array" if field["items"].get("anyOf").is_some() => json!([first(&field["items"]["anyOf"], "const")]),
            "array" => json!([first(&field["items"]["enum"], "")]),
            other => panic!("{name} has the type {other:?}"),
        };
        (name.clone(), value)
    });
    json!({ "action": "accept", "content": entered.collect::<Map<_, _>>() })
}

/// The requests of a client of this revision: method, parameters, the definition of the result in the official schema, and
/// what is expected of the result.
#[must_use]
pub fn requests(version: ProtocolVersion) -> Vec<ZooRequest> {
    let request = |method: &Method, params: Value, definition, expected| ZooRequest {
        method: method.clone(),
        params,
        definition,
        expected,
    };
    let text = |value: &Value, is_error: bool| Content::Text { is_error, value: value.clone() };
    let mut all = vec![
        request(&Method::TOOLS_LIST, json!({}), "ListToolsResult", Content::Unchecked),
        request(&Method::PROMPTS_LIST, json!({}), "ListPromptsResult", Content::Unchecked),
        request(&Method::RESOURCES_LIST, json!({}), "ListResourcesResult", Content::Unchecked),
        request(&Method::RESOURCES_TEMPLATES_LIST, json!({}), "ListResourceTemplatesResult", Content::Unchecked),
    ];
    let samples = samples();
    for sample in samples["tools"].as_array().into_iter().flatten() {
        let params = json!({ "name": sample["name"], "arguments": sample["arguments"] });
        let expected = match sample.get("error") {
            Some(error) => text(error, true),
            None => text(&sample["result"], false),
        };
        all.push(request(&Method::TOOLS_CALL, params, "CallToolResult", expected));
    }
    for sample in samples["forms"].as_array().into_iter().flatten().filter(|_| version.rules().elicitation) {
        let has_lists = sample["name"] == "list_form";
        let value = if has_lists && !version.rules().choices_in_forms {
            text(&Value::Null, true)
        } else {
            text(&sample["result"], false)
        };
        all.push(request(&Method::TOOLS_CALL, json!({ "name": sample["name"] }), "CallToolResult", value));
    }
    let prompt = &samples["prompt"];
    let arguments = json!({ "code": prompt["values"][0], "approach": prompt["values"][1] });
    let params = json!({ "name": "review", "arguments": arguments });
    all.push(request(&Method::PROMPTS_GET, params, "GetPromptResult", text(&prompt["text"], false)));
    for read in [&samples["resource"], &samples["app"]] {
        let params = json!({ "uri": read["uri"] });
        all.push(request(&Method::RESOURCES_READ, params, "ReadResourceResult", text(&read["text"], false)));
    }
    let words = Content::Member { name: "words", value: samples["extension"]["result"]["words"].clone() };
    all.push(request(&Method::from(EXTENSION_METHOD), samples["extension"]["params"].clone(), "Result", words));
    all
}

/// A request of a client of the zoo.
#[derive(Debug)]
pub struct ZooRequest {
    /// The method.
    pub method: Method,
    /// The parameters.
    pub params: Value,
    definition: &'static str,
    expected: Content,
}

/// What is expected of a result.
#[derive(Debug)]
enum Content {
    Unchecked,
    /// The text of its first content, or JSON that is that text and the structured content; null for any text.
    Text {
        is_error: bool,
        value: Value,
    },
    /// A member of the result.
    Member {
        name: &'static str,
        value: Value,
    },
}

impl ZooRequest {
    /// Checks the result: what it contains, and its form by the official schema of the revision.
    ///
    /// # Panics
    ///
    /// It is another result.
    pub fn check(&self, version: ProtocolVersion, result: &Json, schemas: &[Schema]) {
        let result = read(&result.to_text());
        let what = format!("{version} {} {}", self.method, self.params);
        check_form(version, self.definition, &result, schemas);
        let (is_error, expected) = match &self.expected {
            Content::Unchecked => return,
            Content::Member { name, value } => return assert_eq!(&result[*name], value, "{what}"),
            Content::Text { is_error, value } => (is_error, value),
        };
        let text = ["/content/0/text", "/messages/0/content/text", "/contents/0/text"];
        let text = text.iter().find_map(|place| result.pointer(place)).and_then(Value::as_str).expect("a text");
        assert_eq!(result["isError"].as_bool().unwrap_or_default(), *is_error, "{what}: {text}");
        match expected {
            Value::Null => {}
            Value::String(expected) => assert_eq!(text, expected, "{what}"),
            expected => {
                assert_eq!(&read(text), expected, "{what}");
                if let Some(content) = result.get("structuredContent") {
                    assert_eq!(content, expected, "{what}");
                }
            }
        }
    }
}

/// Checks that a value has the form of a definition of the official schema of the revision.
///
/// # Panics
///
/// It has not.
pub fn check_form(version: ProtocolVersion, definition: &str, value: &Value, schemas: &[Schema]) {
    let Some(schema) = schemas.iter().find(|schema| schema.version == version) else { return };
    let document = schema.document(schema.definition(definition));
    let validator = jsonschema::validator_for(&document).expect("a schema");
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{version} {definition}: {errors:?} in {value}");
}

/// Checks the lists of tools and prompts for what clients refuse although it may be valid, that their order is that of
/// declaration, and that a tool is linked to the page of its app.
///
/// # Panics
///
/// They have it, or another order.
pub fn check_lists(tools: &Json, prompts: &Json) {
    let (tools, prompts) = (read(&tools.to_text()), read(&prompts.to_text()));
    let mut pages = Vec::new();
    for tool in tools["tools"].as_array().expect("tools") {
        if let Some(uri) = tool["_meta"]["ui"]["resourceUri"].as_str() {
            pages.push((tool["name"].as_str(), uri));
        }
        for name in ["inputSchema", "outputSchema"].into_iter().filter(|name| tool.get(name).is_some()) {
            let text = tool[name].to_string();
            assert!(!text.contains(r#""format":"#), "{text}");
            let properties = tool[name]["properties"].as_object().into_iter().flatten();
            assert!(properties.clone().all(|(_, property)| property.is_object()), "{text}");
            let names: Vec<_> = properties.map(|(name, _)| name.as_str()).collect();
            if tool["name"] == "numbers" {
                assert_eq!(names, ["small", "signed", "large", "huge", "single", "double", "size", "letter"]);
            }
        }
    }
    assert_eq!(pages, [(Some("clock"), APP_URI)]);
    let arguments = prompts["prompts"][0]["arguments"].as_array().expect("arguments");
    let names: Vec<_> = arguments.iter().map(|argument| argument["name"].as_str()).collect();
    assert_eq!(names, [Some("code"), Some("approach")]);
}
