//! The tools of the servers in tests of proxies. They are the same on every transport and in every era.

use mcp_model::{
    CallToolRequest, CallToolResult, ListToolsResult, RequestMethod, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_proto::server::{Config, InputRequired, Progress};
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion};

/// Bytes of text in the result of the tool `big`.
pub const BIG: usize = 10 << 20;
/// Steps that the tool `count` reports.
pub const STEPS: u8 = 3;

/// The way in which a request is answered.
#[derive(Debug)]
pub enum Served {
    /// With this result or error.
    Answered(Result<Json, ErrorObject>),
    /// With this result, after the steps.
    Counted(Json),
    /// Not at all: the server waits until its client cancels the request.
    Waits,
}

/// The configuration of a server that offers the tools in these revisions.
pub fn config(versions: &[ProtocolVersion]) -> Config {
    let mut config = Config::new("tools", "1").capabilities(ServerCapabilities::new().tools(ToolsCapability::new()));
    config.versions = versions.to_vec();
    config
}

/// The response to a request.
pub fn serve(method: &Method, params: Option<&Json>) -> Served {
    match method.as_str() {
        "tools/list" => {
            let tools = ["big", "count", "echo", "greet", "wait"].map(Tool::without_arguments);
            Served::Answered(Ok(ListToolsResult::new(tools).into()))
        }
        "tools/call" => call(params).unwrap_or_else(|error| Served::Answered(Err(error))),
        _ => Served::Answered(Err(ErrorObject::method_not_found(method))),
    }
}

/// The progress of the tool `count` at this step.
pub fn step(step: u8) -> Progress {
    Progress { progress: step.into(), total: Some(STEPS.into()), message: None }
}

fn call(params: Option<&Json>) -> Result<Served, ErrorObject> {
    let call = CallToolRequest::params(params)?;
    Ok(match call.name.as_str() {
        "count" => Served::Counted(CallToolResult::text("counted").into()),
        "greet" => Served::Answered(Ok(greet(params))),
        "wait" => Served::Waits,
        "echo" => {
            let arguments = call.arguments.unwrap_or_default();
            Served::Answered(Ok(CallToolResult::text(arguments.as_json().to_text()).into()))
        }
        "big" => Served::Answered(Ok(CallToolResult::text("x".repeat(BIG)).into())),
        _ => return Err(ErrorObject::invalid_params("unknown tool")),
    })
}

/// The tool `greet`, which asks the user for a name.
fn greet(params: Option<&Json>) -> Json {
    let member = |json: Json, name: &str| json.member(name).ok().flatten();
    let name = params.cloned().and_then(|params| {
        ["inputResponses", "name", "content", "name"]
            .into_iter()
            .try_fold(params, member)?
            .as_string()
            .map(String::from)
    });
    let params =
        r#"{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
    let question = Json::parse(params).expect("a question is JSON");
    name.map_or_else(
        || InputRequired::new().ask("name", "elicitation/create", question).state("asked").into(),
        |name| CallToolResult::text(format!("Hello, {name}!")).into(),
    )
}
