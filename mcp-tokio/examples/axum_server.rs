//! A server in a router of axum: `cargo run -p mcp-tokio --example axum_server -- 127.0.0.1:3000`

use axum::{Router, routing::get};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, code};
use mcp_tokio::{Incoming, Server};

async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    let text = match incoming.method().as_str() {
        "tools/list" => r#"{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}"#,
        "tools/call" => r#"{"content":[{"type":"text","text":"Hello!"}]}"#,
        _ => return Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    };
    Json::parse(text).map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, &error.to_string()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::new("my-tools", "1.0.0");
    config.capabilities = Json::parse(r#"{"tools":{}}"#)?;
    let service = Server::new(config, serve).http(HttpConfig::new())?;
    let app = Router::new().route_service("/mcp", service).route("/health", get(async || "well"));
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, app).await?)
}
