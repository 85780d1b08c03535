//! A server with one tool, on this machine: `cargo run --example server -- 127.0.0.1:3000`

#![expect(clippy::print_stderr, reason = "an example shows what it does")]

use mcp_blocking::{Incoming, Server};
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json, code};

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    let text = match incoming.method().as_str() {
        "tools/list" => r#"{"tools":[{"name":"hello","description":"Says hello.","inputSchema":{"type":"object"}}]}"#,
        "tools/call" => r#"{"content":[{"type":"text","text":"Hello!"}]}"#,
        _ => return Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    };
    Json::parse(text).map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, &error.to_string()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::new("my-tools", "1.0.0");
    config.capabilities = Json::parse(r#"{"tools":{}}"#)?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let server = Server::bind(&address, config)?;
    eprintln!("http://{}/mcp", server.address());
    Ok(server.run(serve)?)
}
