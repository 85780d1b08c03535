//! Tools.

use std::pin::Pin;
use std::time::Duration;

use mcp_application::router::{HandlerError, IntoAnswer, RoutedCall};
use mcp_model::{
    AudioContent, BooleanSchema, CallToolRequest, CallToolRequestParams, CallToolResult, ContentBlock,
    CreateMessageRequest, CreateMessageRequestParams, ElicitRequest, ElicitRequestFormParams, EmbeddedResource,
    EnumOption, ImageContent, JsonObject, LegacyTitledEnumSchema, NumberKind, NumberSchema, Payload, RequestMethod,
    RequestedSchema, SamplingMessage, StringSchema, TextResourceContents, TitledItems, TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema, Tool, UntitledItems, UntitledMultiSelectEnumSchema, UntitledSingleSelectEnumSchema,
};
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::Progress;
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Json, Method, Notification, UsageError};
use serde_json::{Value, json};

use super::caller::Caller;
use super::samples::{PNG, WAV};
use super::{input, interop, invalid, resources};

/// The time between two steps of a tool that reports progress.
const STEP: Duration = Duration::from_millis(50);
/// The time that the tool takes whose client must resume the stream to receive the answer.
const AWAY: Duration = Duration::from_millis(100);

/// The tool that requires a capability of its client, but sends no request.
const NEEDS_SAMPLING: &str = "test_missing_capability";
/// A tool without tasks, for the scenarios about tasks.
const GREET: &str = "greet";

struct Offered {
    name: &'static str,
    description: &'static str,
    input: fn() -> JsonObject,
    call: for<'c> fn(&'c Caller<'c>, &'c CallToolRequestParams) -> Calling<'c>,
}

/// The future of a call.
type Calling<'c> = Pin<Box<dyn Future<Output = Called> + Send + 'c>>;

/// The content of the result, or the text of an error result for the model that called the tool.
type Called = Result<Vec<ContentBlock>, String>;

const TOOLS: [Offered; 18] = [
    Offered {
        name: "test_simple_text",
        description: "Answers with a text",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec!["This is a simple text response for testing.".into()]) }),
    },
    Offered {
        name: "test_image_content",
        description: "Answers with a picture",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec![image()]) }),
    },
    Offered {
        name: "test_audio_content",
        description: "Answers with a sound",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec![AudioContent::new(WAV, "audio/wav").into()]) }),
    },
    Offered {
        name: "test_embedded_resource",
        description: "Answers with a resource",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec![embedded_text()]) }),
    },
    Offered {
        name: "test_multiple_content_types",
        description: "Answers with a text, a picture and a resource",
        input: nothing,
        call: |_, _| Box::pin(async move { Ok(vec!["Multiple content types test:".into(), image(), embedded_data()]) }),
    },
    Offered {
        name: "test_tool_with_logging",
        description: "Writes log messages while it works",
        input: nothing,
        call: |caller, _| Box::pin(with_logging(caller)),
    },
    Offered {
        name: "test_tool_with_progress",
        description: "Reports its progress",
        input: nothing,
        call: |caller, _| Box::pin(async move { Ok(vec![with_progress(caller).await]) }),
    },
    Offered {
        name: "test_error_handling",
        description: "Fails",
        input: nothing,
        call: |_, _| Box::pin(async move { Err("This tool intentionally returns an error for testing".to_owned()) }),
    },
    Offered {
        name: "test_sampling",
        description: "Lets the client's model answer a prompt",
        input: || texts("prompt", "What the model is asked"),
        call: |caller, params| Box::pin(with_sampling(caller, params)),
    },
    Offered {
        name: "test_elicitation",
        description: "Asks the client's user for a name and an address",
        input: || texts("message", "The message of the form"),
        call: |caller, params| Box::pin(with_elicitation(caller, params)),
    },
    Offered {
        name: "test_elicitation_sep1034_defaults",
        description: "Asks the client's user, and proposes answers",
        input: nothing,
        call: |caller, _| Box::pin(elicit_and_show(caller, "Please review these values", form_with_defaults())),
    },
    Offered {
        name: "test_elicitation_sep1330_enums",
        description: "Lets the client's user choose, in every way there is",
        input: nothing,
        call: |caller, _| Box::pin(elicit_and_show(caller, "Please choose", form_with_choices())),
    },
    Offered {
        name: "test_reconnection",
        description: "Lets the client come back for the answer",
        input: nothing,
        call: |caller, _| Box::pin(async move { Ok(vec![after_a_break(caller).await]) }),
    },
    Offered {
        name: "test_logging_tool",
        description: "Writes log messages while it works",
        input: nothing,
        call: |caller, _| Box::pin(with_logging(caller)),
    },
    Offered {
        name: "test_trigger_tool_change",
        description: "Publishes a change of the list of tools",
        input: nothing,
        call: |caller, _| Box::pin(after_a_change(caller, Method::TOOLS_LIST_CHANGED)),
    },
    Offered {
        name: "test_trigger_prompt_change",
        description: "Publishes a change of the list of prompts",
        input: nothing,
        call: |caller, _| Box::pin(after_a_change(caller, Method::PROMPTS_LIST_CHANGED)),
    },
    Offered {
        name: "test_x_mcp_header",
        description: "Takes a region that the headers repeat",
        input: region,
        call: |_, params| {
            Box::pin(async move { Ok(vec![format!("Called in {}", argument(params, "region")?).into()]) })
        },
    },
    Offered {
        name: "json_schema_2020_12_tool",
        description: "Has an input schema with keywords of JSON Schema 2020-12",
        input: schema_2020_12,
        call: |_, params| {
            Box::pin(async move { Ok(vec![format!("Called with {}", arguments(params).to_text()).into()]) })
        },
    },
];

pub(super) fn all() -> Vec<Tool> {
    let tools = TOOLS.iter().map(|tool| Tool::new(tool.name, (tool.input)()).description(tool.description));
    let asking = input::TOOLS.iter().map(|tool| Tool::new(tool.name, nothing()).description(tool.description));
    let sampling = Tool::new(NEEDS_SAMPLING, nothing()).description("Needs a client with a model");
    let others = interop::TOOLS.iter().map(|(name, description)| Tool::new(*name, nothing()).description(*description));
    let greeting = Tool::new(GREET, texts("name", "Who is greeted")).description("Greets");
    tools.chain(asking).chain(others).chain([sampling, greeting]).collect()
}

pub(super) async fn call(caller: &Caller<'_>) -> Result<Answer, HandlerError> {
    Ok(Answer(result(caller).await?))
}

/// A result, or what is required before there is one.
pub(super) struct Answer(Json);

impl IntoAnswer<CallToolRequest> for Answer {
    fn into_answer(self, _: &RoutedCall) -> Result<Json, ErrorObject> {
        Ok(self.0)
    }
}

async fn result(caller: &Caller<'_>) -> Result<Json, ErrorObject> {
    let params = CallToolRequest::params(caller.params())?;
    if let Some(tool) = input::TOOLS.iter().find(|tool| tool.name == params.name) {
        return tool.call(caller);
    }
    if let Some(result) = interop::call(caller, &params).await {
        return result;
    }
    if params.name == GREET {
        let name = argument(&params, "name").map_err(|reason| invalid(&reason))?;
        return Ok(CallToolResult::text(format!("Hello, {name}!")).into());
    }
    if params.name == NEEDS_SAMPLING {
        let sampling = Json::empty_object().with_member("sampling", &Json::empty_object());
        caller.context().require(&sampling)?;
        return Ok(CallToolResult::text("The client has a model.").into());
    }
    let tool = TOOLS.iter().find(|tool| tool.name == params.name);
    let tool = tool.ok_or_else(|| invalid(&format!("unknown tool: {}", params.name)))?;
    let result = match (tool.call)(caller, &params).await {
        Ok(content) => content.into_iter().fold(CallToolResult::new(), CallToolResult::and),
        Err(reason) => CallToolResult::error(reason),
    };
    Ok(result.into())
}

fn image() -> ContentBlock {
    ImageContent::new(PNG, "image/png").into()
}

fn embedded_text() -> ContentBlock {
    let resource = resources::text("test://embedded-resource", "This is an embedded resource content.");
    EmbeddedResource::new(resource).into()
}

fn embedded_data() -> ContentBlock {
    let data = json!({ "test": "data", "value": 123 }).to_string();
    let resource = TextResourceContents::new("test://mixed-content-resource", data).mime_type("application/json");
    EmbeddedResource::new(resource).into()
}

async fn with_logging(caller: &Caller<'_>) -> Called {
    write_log(caller, "Tool execution started").await?;
    caller.sleep(STEP).await;
    write_log(caller, "Tool processing data").await?;
    caller.sleep(STEP).await;
    write_log(caller, "Tool execution completed").await?;
    Ok(vec!["Three log messages were sent.".into()])
}

async fn write_log(caller: &Caller<'_>, message: &str) -> Result<(), String> {
    let logged = caller.log(LoggingLevel::Info, "everything-server", Json::from(message)).await;
    logged.map_err(|error| unsent(&error))
}

async fn with_progress(caller: &Caller<'_>) -> ContentBlock {
    for percent in [0.0, 50.0, 100.0] {
        caller.progress(Progress { progress: percent, total: Some(100.0), message: None }).await;
        caller.sleep(STEP).await;
    }
    "The work is done.".into()
}

async fn after_a_change(caller: &Caller<'_>, changed: Method) -> Called {
    caller.publish(Notification::new(changed)).await.map_err(|error| unsent(&error))?;
    Ok(vec!["The change was published.".into()])
}

async fn after_a_break(caller: &Caller<'_>) -> ContentBlock {
    caller.release();
    caller.sleep(AWAY).await;
    "The client came back for this.".into()
}

async fn with_sampling(caller: &Caller<'_>, params: &CallToolRequestParams) -> Called {
    let prompt = SamplingMessage::user(argument(params, "prompt")?.as_str());
    let asked = CreateMessageRequestParams::new([prompt], 100);
    let answer = ask::<CreateMessageRequest>(caller, "sampling", &asked).await?;
    Ok(vec![format!("LLM response: {}", answer.content.as_text().unwrap_or("no text")).into()])
}

async fn with_elicitation(caller: &Caller<'_>, params: &CallToolRequestParams) -> Called {
    let response = elicit(caller, &argument(params, "message")?, form_with_address()).await?;
    Ok(vec![format!("User response: {response}").into()])
}

async fn elicit_and_show(caller: &Caller<'_>, message: &str, form: RequestedSchema) -> Called {
    let response = elicit(caller, message, form).await?;
    Ok(vec![format!("Elicitation completed: {response}").into()])
}

/// Asks the user to fill in a form, and returns the action and the content as text.
async fn elicit(caller: &Caller<'_>, message: &str, form: RequestedSchema) -> Result<String, String> {
    let asked = ElicitRequestFormParams::new(message, form).into();
    let answer = ask::<ElicitRequest>(caller, "elicitation", &asked).await?;
    let content = answer.content.as_ref().map_or("null".into(), |content| content.as_json().to_text());
    Ok(format!("action={}, content={content}", answer.action))
}

async fn ask<R: RequestMethod>(caller: &Caller<'_>, capability: &str, asked: &R::Params) -> Result<R::Result, String> {
    if !caller.declares(capability) {
        return Err(format!("The client does not offer {capability}."));
    }
    match caller.ask(Call::new(R::METHOD).params(asked.to_json())).await.map_err(|error| unsent(&error))? {
        Outcome::Result(answer) => R::Result::from_json(&answer).map_err(|error| error.to_string()),
        Outcome::Error(error) => Err(format!("The client refused: {}", error.message())),
        Outcome::Failed(reason) => Err(format!("The client did not answer: {reason}")),
    }
}

fn arguments(params: &CallToolRequestParams) -> Json {
    params.arguments.clone().unwrap_or_default().into()
}

fn argument(params: &CallToolRequestParams, name: &str) -> Result<String, String> {
    let argument = arguments(params).member(name).ok().flatten();
    let text = argument.as_ref().and_then(Json::as_string);
    text.map(String::from).ok_or_else(|| format!("The tool needs a text as its argument {name}."))
}

fn unsent(error: &UsageError) -> String {
    format!("Nothing could be sent to the client: {error}")
}

fn object(value: &Value) -> JsonObject {
    JsonObject::from_serialize(value).expect("the schemas of this file are objects")
}

pub(super) fn nothing() -> JsonObject {
    object(&json!({ "type": "object", "properties": {} }))
}

fn texts(name: &str, description: &str) -> JsonObject {
    object(&json!({
        "type": "object",
        "properties": { name: { "type": "string", "description": description } },
        "required": [name],
    }))
}

fn region() -> JsonObject {
    object(&json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    }))
}

fn schema_2020_12() -> JsonObject {
    object(&json!({
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
    }))
}

fn form_with_address() -> RequestedSchema {
    RequestedSchema::form()
        .with_required("username", StringSchema::new().description("User's response"))
        .with_required("email", StringSchema::new().description("User's email address"))
}

fn form_with_defaults() -> RequestedSchema {
    let statuses = ["active", "inactive", "pending"].map(str::to_owned);
    RequestedSchema::form()
        .with("name", StringSchema::new().default("John Doe"))
        .with("age", NumberSchema::new(NumberKind::Integer).default(30))
        .with("score", NumberSchema::new(NumberKind::Number).default(95.5))
        .with("status", UntitledSingleSelectEnumSchema::new(statuses).default("active"))
        .with("verified", BooleanSchema::new().default(true))
}

fn form_with_choices() -> RequestedSchema {
    let options = ["option1", "option2", "option3"].map(str::to_owned);
    let named = |first, second, third| {
        [EnumOption::new("value1", first), EnumOption::new("value2", second), EnumOption::new("value3", third)]
    };
    let legacy = LegacyTitledEnumSchema::new(["opt1", "opt2", "opt3"].map(str::to_owned))
        .enum_names(["Option One", "Option Two", "Option Three"].map(str::to_owned));
    let single = TitledSingleSelectEnumSchema::new(named("First Option", "Second Option", "Third Option"));
    let multi = TitledItems::new(named("First Choice", "Second Choice", "Third Choice"));
    RequestedSchema::form()
        .with("untitledSingle", UntitledSingleSelectEnumSchema::new(options.clone()))
        .with("titledSingle", single)
        .with("legacyEnum", legacy)
        .with("untitledMulti", UntitledMultiSelectEnumSchema::new(UntitledItems::new(options)))
        .with("titledMulti", TitledMultiSelectEnumSchema::new(multi))
}
