//! The tools, resources and prompts of `everything-server`, on either driver.

mod caller;
mod input;
mod prompts;
mod resources;
mod samples;
mod tasks;
mod tools;

use mcp_proto::model::{
    CompleteResult, Completion, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities, ToolsCapability,
};
use mcp_proto::{ErrorObject, Json, code};

use caller::{Caller, run};

/// The object `capabilities` in the results of `initialize` and `server/discover`.
#[must_use]
pub fn capabilities() -> Json {
    let capabilities = ServerCapabilities::new()
        .completions(JsonObject::new())
        .logging(JsonObject::new())
        .prompts(PromptsCapability::new().list_changed(true))
        .resources(ResourcesCapability::new().subscribe(true))
        .tools(ToolsCapability::new().list_changed(true));
    Json::from(capabilities).with_member("extensions", &tasks::capability())
}

/// Answers a request of `mcp-blocking`.
///
/// # Errors
///
/// The error that is sent as the answer.
pub fn serve_blocking(incoming: &mcp_blocking::Incoming) -> Result<Json, ErrorObject> {
    run(serve(&Caller::Blocking(incoming)))
}

/// Answers a request of `mcp-tokio`.
///
/// # Errors
///
/// The error that is sent as the answer.
pub async fn serve_tokio(incoming: mcp_tokio::Incoming) -> Result<Json, ErrorObject> {
    serve(&Caller::Tokio(&incoming)).await
}

async fn serve(caller: &Caller<'_>) -> Result<Json, ErrorObject> {
    match caller.method().as_str() {
        "tools/list" => Ok(tools::list().into()),
        "tools/call" => tools::call(caller).await,
        "resources/list" => Ok(resources::list().into()),
        "resources/templates/list" => Ok(resources::templates().into()),
        "resources/read" => resources::read(caller).map(Json::from),
        "prompts/list" => Ok(prompts::list().into()),
        "prompts/get" => prompts::get(caller),
        "completion/complete" => Ok(CompleteResult::new(Completion::new([]).total(0).has_more(false)).into()),
        "tasks/get" | "tasks/update" | "tasks/cancel" => tasks::on_task(caller),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }
}

fn invalid(reason: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, reason)
}
