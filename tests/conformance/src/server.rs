//! What `everything-server` offers.

mod prompts;
mod resources;
mod samples;
mod tools;

use mcp_blocking::Incoming;
use mcp_proto::{ErrorObject, Json, code};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What every request is answered with.
type Answer = Result<Value, ErrorObject>;

/// The object `capabilities` of `initialize`.
#[must_use]
pub fn capabilities() -> Value {
    json!({ "completions": {}, "logging": {}, "prompts": {}, "resources": { "subscribe": true }, "tools": {} })
}

/// Answers a request.
///
/// # Errors
///
/// The error is the answer.
pub fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    let answer = match incoming.method().as_str() {
        "tools/list" => Ok(tools::list()),
        "tools/call" => tools::call(incoming),
        "resources/list" => Ok(resources::list()),
        "resources/templates/list" => Ok(resources::templates()),
        "resources/read" => resources::read(incoming),
        "resources/subscribe" | "resources/unsubscribe" => resources::watch(incoming),
        "prompts/list" => Ok(prompts::list()),
        "prompts/get" => prompts::get(incoming),
        "completion/complete" => Ok(json!({ "completion": { "values": [], "total": 0, "hasMore": false } })),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }?;
    Json::from_serialize(&answer).map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, &error.to_string()))
}

/// The parameters of a request, read as `T`.
fn params<T: DeserializeOwned>(incoming: &Incoming) -> Result<T, ErrorObject> {
    let params = incoming.params().ok_or_else(|| invalid("there are no parameters"))?;
    params.read().map_err(|error| invalid(&error.to_string()))
}

fn invalid(reason: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, reason)
}
