//! A server with one tool, over stdio or HTTP: `cargo run -p mcp-tokio --example tokio_server -- 127.0.0.1:3000`

use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, code};
use mcp_tokio::{Incoming, Server};
use tokio::net::TcpListener;

async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    let text = match incoming.method().as_str() {
        "tools/list" => r#"{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}"#,
        "tools/call" => r#"{"content":[{"type":"text","text":"Hello!"}]}"#,
        _ => return Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    };
    Ok(Json::parse(text).expect("JSON"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::new("my-tools", "1.0.0");
    config.capabilities = Json::parse(r#"{"tools":{}}"#)?;
    let server = Server::new(config, serve);
    if let Some(address) = std::env::args().nth(1) {
        server.http(HttpConfig::new())?.serve(TcpListener::bind(address).await?).await?;
    } else {
        server.serve_stdio().await?;
    }
    Ok(())
}
