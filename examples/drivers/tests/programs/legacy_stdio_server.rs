//! A server of the revisions before 2026-07-28 on stdin and stdout, on `mcp-blocking`.

use mcp_blocking::{Incoming, Server};
use mcp_model::{CallToolResult, ListToolsResult, ServerCapabilities, Tool, ToolsCapability};
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json, ProtocolVersion};

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" => Ok(CallToolResult::text("Hello!").into()),
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    }
}

fn main() -> std::io::Result<()> {
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let mut config = Config::new("my-tools", "1.0.0").capabilities(capabilities);
    config.versions.retain(|version| *version != ProtocolVersion::LATEST);
    Server::new(config, serve).serve_stdio()?;
    Ok(())
}
