//! The tools, resources, prompts and skills of `everything-server`, on either driver.

mod caller;
mod input;
mod interop;
mod prompts;
mod resources;
mod samples;
mod skills;
mod tasks;
mod tools;

use caller::{Caller, run};
use mcp_model::{
    CompleteResult, Completion, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities, ToolsCapability,
};
use mcp_proto::{ErrorObject, Json, code};

pub use interop::set_instance;

/// The capabilities besides those of the routers, for the results of `initialize` and `server/discover`.
#[must_use]
pub fn capabilities() -> Json {
    let capabilities = ServerCapabilities::new()
        .completions(JsonObject::new())
        .logging(JsonObject::new())
        .prompts(PromptsCapability::new().list_changed(true))
        .resources(ResourcesCapability::new().subscribe(true))
        .tools(ToolsCapability::new().list_changed(true));
    capabilities.into()
}

/// The service on `mcp-blocking`.
#[must_use]
pub fn blocking() -> mcp_blocking::Router {
    let router = resources::all().into_iter().fold(mcp_blocking::Router::new(), |router, (resource, contents)| {
        router.resource(&resource, move |_| Ok(contents.clone()))
    });
    let router = router.resource_template(&resources::template(), |id, _| Ok(resources::templated(&id)));
    let router = skills::all().iter().fold(router, mcp_blocking::Router::skill);
    let router = tools::all().iter().fold(router, |router, tool| {
        let call = |_: Json, incoming: &mcp_blocking::Incoming| run(tools::call(&Caller::Blocking(incoming)));
        router.tool_with_schema(tool, call)
    });
    let router = tasks::blocking(router);
    router.fallback(|incoming: &mcp_blocking::Incoming| serve(&Caller::Blocking(incoming)))
}

/// The service on `mcp-tokio`.
#[must_use]
pub fn tokio() -> mcp_tokio::Router {
    let router = resources::all().into_iter().fold(mcp_tokio::Router::new(), |router, (resource, contents)| {
        router.resource(&resource, move |_| std::future::ready(Ok(contents.clone())))
    });
    let router =
        router.resource_template(&resources::template(), |id, _| std::future::ready(Ok(resources::templated(&id))));
    let router = skills::all().iter().fold(router, mcp_tokio::Router::skill);
    let router = tools::all().iter().fold(router, |router, tool| {
        let call = async |_: Json, incoming: mcp_tokio::Incoming| tools::call(&Caller::Tokio(&incoming)).await;
        router.tool_with_schema(tool, call)
    });
    let router = tasks::tokio(router);
    router.fallback(async |incoming: mcp_tokio::Incoming| serve(&Caller::Tokio(&incoming)))
}

fn serve(caller: &Caller<'_>) -> Result<Json, ErrorObject> {
    match caller.method().as_str() {
        "prompts/list" => Ok(prompts::list().into()),
        "prompts/get" => prompts::get(caller),
        "completion/complete" => Ok(CompleteResult::new(Completion::new([]).total(0).has_more(false)).into()),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }
}

fn invalid(reason: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, reason)
}
