//! A server with one tool on stdin and stdout, for an editor that starts it:
//! `cargo run -p mcp-blocking --example stdio_server`

use mcp_blocking::model::{
    CallToolRequest, CallToolResult, ListToolsResult, RequestMethod, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_blocking::proto::server::Config;
use mcp_blocking::proto::{ErrorObject, Json};
use mcp_blocking::{Incoming, Server};

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" if CallToolRequest::params(incoming.params())?.name == "hello" => {
            Ok(CallToolResult::text("Hello!").into())
        }
        "tools/call" => Err(ErrorObject::invalid_params("unknown tool")),
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    }
}

fn main() -> std::io::Result<()> {
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let config = Config::new("my-tools", "1.0.0").capabilities(capabilities);
    Server::new(config, serve).serve_stdio()?;
    Ok(())
}
