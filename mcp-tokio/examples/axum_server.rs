//! A server with one tool in a router of axum: `cargo run -p mcp-tokio --example axum_server -- 127.0.0.1:3000`

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
    let app = axum::Router::new().route_service("/mcp", server.http(HttpConfig::new())?);
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, app).await?)
}
