//! A server with one tool, on this machine: `cargo run -p mcp-blocking --example server -- 127.0.0.1:3000`

use std::net::TcpListener;

use mcp_blocking::model::{
    CallToolRequest, CallToolResult, ListToolsResult, RequestMethod, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_blocking::proto::server::{Config, HttpConfig};
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let config = Config::new("my-tools", "1.0.0").capabilities(capabilities);
    let listener = TcpListener::bind(std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:3000"))?;
    Server::new(config, serve).http(HttpConfig::new())?.serve(listener)?;
    Ok(())
}
