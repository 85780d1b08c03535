//! The tools of the servers that proxies are tested with: the same on every transport and in every era.

use mcp_proto::model::{
    CallToolRequest, CallToolResult, ListToolsResult, Request, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_proto::server::{Config, InputRequired, Progress};
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion};

/// Bytes of text that the tool `big` answers with.
pub const BIG: usize = 10 << 20;
/// Steps that the tool `count` tells of.
pub const STEPS: u8 = 3;

/// What becomes of a request.
#[derive(Debug)]
pub enum Served {
    /// This is the answer.
    Answered(Result<Json, ErrorObject>),
    /// This is the answer, after the steps.
    Counted(Json),
    /// There is none: the server waits until its client takes the request back.
    Waits,
}

/// A server that offers the tools, in these revisions.
pub fn config(versions: &[ProtocolVersion]) -> Config {
    let mut config =
        Config::new("tools", "1").with_capabilities(ServerCapabilities::new().tools(ToolsCapability::new()));
    config.versions = versions.to_vec();
    config
}

/// Serves a request.
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

/// A step of the tool `count`.
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

/// The tool `greet` asks the user for a name.
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
