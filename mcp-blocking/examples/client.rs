//! Calls a tool: `cargo run -p mcp-blocking --example client -- http://127.0.0.1:3000/mcp hello`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use mcp_blocking::Client;
use mcp_proto::model::{CallToolRequest, CallToolRequestParams, ListToolsRequest, PaginatedRequestParams};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (arguments.next(), arguments.next()) else { return Err("usage: URL TOOL".into()) };
    let client = Client::builder().http(&url)?.name("my-app", "1.0.0").connect()?;
    println!("revision {}", client.version());
    for tool in client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new())?.tools {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new(tool))?;
    for text in called.content.iter().filter_map(|content| content.as_text()) {
        println!("{text}");
    }
    Ok(())
}
