//! A server with two tools: the balance of an account, and a transfer between two accounts.

use mcp_application::IncomingRequest;
use mcp_model::{CallToolRequest, CallToolRequestParams, CallToolResult, RequestMethod};
use mcp_proto::{ErrorObject, Json, Method};
use serde::Deserialize;

const TOOLS: &str = r#"{"tools":[
    {"name":"balance","inputSchema":{"type":"object","properties":{
        "account":{"enum":["savings","current"]}}}},
    {"name":"transfer","inputSchema":{"type":"object","properties":{
        "from":{"enum":["savings","current"]},"to":{"enum":["savings","current"]},"amount":{"type":"integer"}}}}
]}"#;

/// The arguments of the tool `transfer`.
#[derive(Debug, Deserialize)]
pub struct Transfer {
    pub from: String,
    pub to: String,
    pub amount: i64,
}

/// Handles the requests of clients. A service of `mcp-blocking` passes its `&Incoming` to it, one of `mcp-tokio` a
/// reference to its `Incoming`.
pub fn serve(request: &IncomingRequest) -> Result<Json, ErrorObject> {
    match request.method() {
        method if *method == Method::TOOLS_LIST => Ok(Json::parse(TOOLS).expect("JSON")),
        method if *method == Method::TOOLS_CALL => {
            let called = CallToolRequest::params(request.params())?;
            Ok(CallToolResult::text(call(&called)?).into())
        }
        method => Err(ErrorObject::method_not_found(method)),
    }
}

/// The arguments of a transfer, if a request calls that tool.
pub fn transfer(request: &IncomingRequest) -> Option<Transfer> {
    let called = CallToolRequest::params(request.params()).ok().filter(|called| called.name == "transfer")?;
    called.read_arguments().ok()
}

fn call(called: &CallToolRequestParams) -> Result<String, ErrorObject> {
    let invalid = |text: &str| ErrorObject::invalid_params(text);
    match &*called.name {
        "balance" => Ok("100".to_owned()),
        "transfer" => {
            let Transfer { from, to, amount } = called.read_arguments().map_err(|_| invalid("from, to, amount"))?;
            if from == to || !(1..=100).contains(&amount) {
                return Err(invalid("two accounts, and an amount of 1 to 100"));
            }
            Ok(format!("{amount} moved from {from} to {to}, which has {}", 100 + amount))
        }
        _ => Err(invalid("no such tool")),
    }
}
