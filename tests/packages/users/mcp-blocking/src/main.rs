//! A client that calls the tool of a server, both on this machine.

use std::net::TcpListener;
use std::thread;

use mcp_blocking::{Client, Incoming, Server};
use mcp_proto::model::{CallToolRequest, CallToolRequestParams, CallToolResult, ServerCapabilities, ToolsCapability};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json};

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/call" => Ok(CallToolResult::text("Hello!").into()),
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let server = Server::new(Config::new("my-tools", "1.0.0").with_capabilities(capabilities), serve);
    let service = server.http(HttpConfig::new())?;
    thread::spawn(move || service.serve(listener));

    let client = Client::builder().name("my-app", "1.0.0").http(&url)?.connect()?;
    let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello"))?;
    assert_eq!(called.content[0].as_text(), Some("Hello!"));
    Ok(())
}
