//! A server that offers what the official conformance suite asks for, up to revision 2025-11-25.
//!
//! Usage: `everything-server [ADDRESS]`. The first line that it writes is its URL.

mod prompts;
mod resources;
mod samples;
mod tools;

use std::io::{self, Write};
use std::time::Duration;

use mcp_blocking::{Incoming, Server};
use mcp_proto::model::{
    CompleteResult, Completion, EmptyResult, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities,
    ToolsCapability,
};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, code};

fn main() -> io::Result<()> {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut config = Config::new("everything-server", env!("CARGO_PKG_VERSION"));
    config.capabilities = capabilities().into();
    let mut http = HttpConfig::new();
    // Clients come back for what they have missed, and shall do so quickly.
    http.retry = Some(Duration::from_millis(500));
    let server = Server::bind_with(address, config, http)?;
    writeln!(io::stdout(), "http://localhost:{}/mcp", server.address().port())?;
    server.run(serve)
}

fn capabilities() -> ServerCapabilities {
    ServerCapabilities::new()
        .completions(JsonObject::new())
        .logging(JsonObject::new())
        .prompts(PromptsCapability::new())
        .resources(ResourcesCapability::new().subscribe(true))
        .tools(ToolsCapability::new())
}

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/list" => Ok(tools::list().into()),
        "tools/call" => tools::call(incoming).map(Json::from),
        "resources/list" => Ok(resources::list().into()),
        "resources/templates/list" => Ok(resources::templates().into()),
        "resources/read" => resources::read(incoming).map(Json::from),
        "resources/subscribe" => resources::subscribe(incoming).map(Json::from),
        "resources/unsubscribe" => resources::unsubscribe(incoming).map(Json::from),
        "prompts/list" => Ok(prompts::list().into()),
        "prompts/get" => prompts::get(incoming).map(Json::from),
        "completion/complete" => Ok(CompleteResult::new(Completion::new([]).total(0).has_more(false)).into()),
        // Its only messages are those that a tool is called for.
        "logging/setLevel" => Ok(EmptyResult::new().into()),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }
}

fn invalid(reason: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, reason)
}
