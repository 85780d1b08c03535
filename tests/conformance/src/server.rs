//! What `everything-server` offers, on either adapter.

mod caller;
mod prompts;
mod resources;
mod samples;
mod tools;

use mcp_proto::{ErrorObject, Json, code};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use caller::{Caller, run};

/// What every request is answered with.
type Answer = Result<Value, ErrorObject>;

/// The object `capabilities` of `initialize`.
#[must_use]
pub fn capabilities() -> Value {
    json!({ "completions": {}, "logging": {}, "prompts": {}, "resources": { "subscribe": true }, "tools": {} })
}

/// Answers a request on a thread.
///
/// # Errors
///
/// The error is the answer.
pub fn serve_blocking(incoming: &mcp_blocking::Incoming) -> Result<Json, ErrorObject> {
    run(serve(&Caller::Blocking(incoming)))
}

/// Answers a request on a runtime.
///
/// # Errors
///
/// The error is the answer.
pub async fn serve_tokio(incoming: mcp_tokio::Incoming) -> Result<Json, ErrorObject> {
    serve(&Caller::Tokio(&incoming)).await
}

async fn serve(caller: &Caller<'_>) -> Result<Json, ErrorObject> {
    let answer = match caller.method().as_str() {
        "tools/list" => Ok(tools::list()),
        "tools/call" => tools::call(caller).await,
        "resources/list" => Ok(resources::list()),
        "resources/templates/list" => Ok(resources::templates()),
        "resources/read" => resources::read(caller),
        "resources/subscribe" | "resources/unsubscribe" => resources::watch(caller),
        "prompts/list" => Ok(prompts::list()),
        "prompts/get" => prompts::get(caller),
        "completion/complete" => Ok(json!({ "completion": { "values": [], "total": 0, "hasMore": false } })),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }?;
    Json::from_serialize(&answer).map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, &error.to_string()))
}

/// The parameters of a request, read as `T`.
fn params<T: DeserializeOwned>(caller: &Caller<'_>) -> Result<T, ErrorObject> {
    let params = caller.params().ok_or_else(|| invalid("there are no parameters"))?;
    params.read().map_err(|error| invalid(&error.to_string()))
}

fn invalid(reason: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, reason)
}
