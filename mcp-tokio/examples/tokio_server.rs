//! A server with one tool, over stdio or HTTP: `cargo run -p mcp-tokio --example tokio_server -- 127.0.0.1:3000`

use mcp_tokio::model::{
    CallToolRequest, CallToolResult, ListToolsResult, RequestMethod, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_tokio::proto::server::{Config, HttpConfig};
use mcp_tokio::proto::{ErrorObject, Json};
use mcp_tokio::{Incoming, Server};

async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" if CallToolRequest::params(incoming.params())?.name == "hello" => {
            Ok(CallToolResult::text("Hello!").into())
        }
        "tools/call" => Err(ErrorObject::invalid_params("unknown tool")),
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let server = Server::new(Config::new("my-tools", "1.0.0").capabilities(capabilities), serve);
    match std::env::args().nth(1) {
        Some(address) => server.http(HttpConfig::new())?.serve(tokio::net::TcpListener::bind(address).await?).await?,
        None => server.serve_stdio().await?,
    };
    Ok(())
}
