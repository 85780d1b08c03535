//! A server with one tool, on this machine: `cargo run --example server -- 127.0.0.1:3000`

#![expect(clippy::print_stderr, reason = "an example shows what it does")]

use mcp_blocking::{Incoming, Server};
use mcp_proto::model::{
    CallToolRequest, CallToolResult, ListToolsResult, Request, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json, code};

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" => match CallToolRequest::params(incoming.params())?.name.as_str() {
            "hello" => Ok(CallToolResult::text("Hello!").into()),
            _ => Err(ErrorObject::new(code::INVALID_PARAMS, "unknown tool")),
        },
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::new("my-tools", "1.0.0");
    config.capabilities = ServerCapabilities::new().tools(ToolsCapability::new()).into();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let server = Server::bind(&address, config)?;
    eprintln!("http://{}/mcp", server.address());
    Ok(server.run(serve)?)
}
