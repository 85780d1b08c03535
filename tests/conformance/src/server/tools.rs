//! Tools.

use std::pin::Pin;
use std::time::Duration;

use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{LoggingLevel, Progress};
use mcp_proto::{Json, UsageError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::samples::{PNG, WAV};
use super::{Answer, invalid, params, resources};

/// Between two steps of a tool that shows its work.
const STEP: Duration = Duration::from_millis(50);
/// How long the tool works whose client has to come back for the answer.
const AWAY: Duration = Duration::from_millis(100);

struct Tool {
    name: &'static str,
    description: &'static str,
    input: fn() -> Value,
    call: for<'c> fn(&'c Caller<'c>, &'c Arguments) -> Calling<'c>,
}

/// What becomes of a call.
type Calling<'c> = Pin<Box<dyn Future<Output = Called> + Send + 'c>>;

/// The content, or why there is none: for the model that called the tool.
type Called = Result<Vec<Value>, String>;

type Arguments = Map<String, Value>;

#[derive(Deserialize)]
struct Params {
    name: String,
    #[serde(default)]
    arguments: Arguments,
}

const TOOLS: [Tool; 14] = [
    Tool {
        name: "test_simple_text",
        description: "Answers with a text",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec![text("This is a simple text response for testing.")]) }),
    },
    Tool {
        name: "test_image_content",
        description: "Answers with a picture",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec![image()]) }),
    },
    Tool {
        name: "test_audio_content",
        description: "Answers with a sound",
        input: nothing,
        call: |_, _| {
            Box::pin(async move { Ok(vec![json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" })]) })
        },
    },
    Tool {
        name: "test_embedded_resource",
        description: "Answers with a resource",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec![embedded_text()]) }),
    },
    Tool {
        name: "test_multiple_content_types",
        description: "Answers with a text, a picture and a resource",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec![text("Multiple content types test:"), image(), embedded_data()]) }),
    },
    Tool {
        name: "test_tool_with_logging",
        description: "Writes log messages while it works",
        input: nothing,
        call: |caller, _| Box::pin(with_logging(caller)),
    },
    Tool {
        name: "test_tool_with_progress",
        description: "Tells how far it is while it works",
        input: nothing,
        call: |caller, _| Box::pin(async move { Ok(vec![with_progress(caller).await]) }),
    },
    Tool {
        name: "test_error_handling",
        description: "Fails",
        input: nothing,
        call: |_, _| Box::pin(async move { Err("This tool intentionally returns an error for testing".to_owned()) }),
    },
    Tool {
        name: "test_sampling",
        description: "Lets the client's model answer a prompt",
        input: || texts("prompt", "What the model is asked"),
        call: |caller, arguments| Box::pin(with_sampling(caller, arguments)),
    },
    Tool {
        name: "test_elicitation",
        description: "Asks the client's user for a name and an address",
        input: || texts("message", "What the user is told"),
        call: |caller, arguments| Box::pin(with_elicitation(caller, arguments)),
    },
    Tool {
        name: "test_elicitation_sep1034_defaults",
        description: "Asks the client's user, and proposes answers",
        input: nothing,
        call: |caller, _| {
            Box::pin(async move { elicit_and_show(caller, "Please review these values", &form_with_defaults()).await })
        },
    },
    Tool {
        name: "test_elicitation_sep1330_enums",
        description: "Lets the client's user choose, in every way there is",
        input: nothing,
        call: |caller, _| Box::pin(async move { elicit_and_show(caller, "Please choose", &form_with_choices()).await }),
    },
    Tool {
        name: "test_reconnection",
        description: "Lets the client come back for the answer",
        input: nothing,
        call: |caller, _| Box::pin(async move { Ok(vec![after_a_break(caller).await]) }),
    },
    Tool {
        name: "json_schema_2020_12_tool",
        description: "Has an input schema with keywords of JSON Schema 2020-12",
        input: schema_2020_12,
        call: |_, arguments| {
            Box::pin(async move { Ok(vec![text(&format!("Called with {}", Value::Object(arguments.clone())))]) })
        },
    },
];

pub(crate) fn list() -> Value {
    let tools = TOOLS
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": (tool.input)() }));
    json!({ "tools": tools.collect::<Vec<_>>() })
}

pub(crate) async fn call(caller: &Caller<'_>) -> Answer {
    let Params { name, arguments } = params(caller)?;
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| invalid(&format!("unknown tool: {name}")))?;
    Ok(match (tool.call)(caller, &arguments).await {
        Ok(content) => json!({ "content": content }),
        Err(reason) => json!({ "content": [text(&reason)], "isError": true }),
    })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn embedded_text() -> Value {
    let resource = resources::text("test://embedded-resource", "This is an embedded resource content.");
    json!({ "type": "resource", "resource": resource })
}

fn embedded_data() -> Value {
    let data = json!({ "test": "data", "value": 123 }).to_string();
    json!({ "type": "resource", "resource": {
        "uri": "test://mixed-content-resource",
        "mimeType": "application/json",
        "text": data,
    } })
}

async fn with_logging(caller: &Caller<'_>) -> Called {
    write_log(caller, "Tool execution started").await?;
    caller.sleep(STEP).await;
    write_log(caller, "Tool processing data").await?;
    caller.sleep(STEP).await;
    write_log(caller, "Tool execution completed").await?;
    Ok(vec![text("Three log messages were sent.")])
}

async fn write_log(caller: &Caller<'_>, message: &str) -> Result<(), String> {
    let logged = caller.log(LoggingLevel::Info, "everything-server", Json::from(message)).await;
    logged.map_err(|error| unsent(&error))
}

async fn with_progress(caller: &Caller<'_>) -> Value {
    for percent in [0.0, 50.0, 100.0] {
        caller.progress(Progress { progress: percent, total: Some(100.0), message: None }).await;
        caller.sleep(STEP).await;
    }
    text("The work is done.")
}

async fn after_a_break(caller: &Caller<'_>) -> Value {
    caller.release();
    caller.sleep(AWAY).await;
    text("The client came back for this.")
}

async fn with_sampling(caller: &Caller<'_>, arguments: &Arguments) -> Called {
    let said = json!({ "role": "user", "content": text(argument(arguments, "prompt")?) });
    let asked = json!({ "messages": [said], "maxTokens": 100 });
    let answer = ask(caller, "sampling", "sampling/createMessage", &asked).await?;
    let said = answer.pointer("/content/text").and_then(Value::as_str).unwrap_or("no text");
    Ok(vec![text(&format!("LLM response: {said}"))])
}

async fn with_elicitation(caller: &Caller<'_>, arguments: &Arguments) -> Called {
    let response = elicit(caller, argument(arguments, "message")?, &form_with_address()).await?;
    Ok(vec![text(&format!("User response: {response}"))])
}

async fn elicit_and_show(caller: &Caller<'_>, message: &str, form: &Value) -> Called {
    let response = elicit(caller, message, form).await?;
    Ok(vec![text(&format!("Elicitation completed: {response}"))])
}

/// What the user did, and what was filled in.
async fn elicit(caller: &Caller<'_>, message: &str, form: &Value) -> Result<String, String> {
    let asked = json!({ "message": message, "requestedSchema": form });
    let answer = ask(caller, "elicitation", "elicitation/create", &asked).await?;
    let action = answer["action"].as_str().unwrap_or("none");
    Ok(format!("action={action}, content={}", answer["content"]))
}

async fn ask(caller: &Caller<'_>, capability: &str, method: &str, asked: &Value) -> Result<Value, String> {
    let client: Value = caller.client().read().map_err(|error| error.to_string())?;
    if client["capabilities"].get(capability).is_none() {
        return Err(format!("The client does not offer {capability}."));
    }
    match caller.ask(Call::new(method).params(raw(asked)?)).await.map_err(|error| unsent(&error))? {
        Outcome::Result(answer) => answer.read().map_err(|error| error.to_string()),
        Outcome::Error(error) => Err(format!("The client refused: {}", error.message())),
        Outcome::Failed(reason) => Err(format!("The client did not answer: {reason}")),
    }
}

fn argument<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, String> {
    arguments.get(name).and_then(Value::as_str).ok_or_else(|| format!("The tool needs a text as its argument {name}."))
}

fn raw(value: &Value) -> Result<Json, String> {
    Json::from_serialize(value).map_err(|error| error.to_string())
}

fn unsent(error: &UsageError) -> String {
    format!("The client could not be told: {error}")
}

fn nothing() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn texts(name: &str, description: &str) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "string", "description": description } },
        "required": [name],
    })
}

fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

fn form_with_address() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    })
}

fn form_with_defaults() -> Value {
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

fn form_with_choices() -> Value {
    json!({ "type": "object", "properties": {
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": [
            { "const": "value1", "title": "First Option" },
            { "const": "value2", "title": "Second Option" },
            { "const": "value3", "title": "Third Option" },
        ] },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": { "type": "string", "enum": ["option1", "option2", "option3"] },
        },
        "titledMulti": { "type": "array", "items": { "anyOf": [
            { "const": "value1", "title": "First Choice" },
            { "const": "value2", "title": "Second Choice" },
            { "const": "value3", "title": "Third Choice" },
        ] } },
    } })
}
