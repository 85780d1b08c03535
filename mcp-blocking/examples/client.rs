//! Calls a tool: `cargo run --example client -- http://127.0.0.1:3000/mcp hello`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use mcp_blocking::Client;
use mcp_proto::client::Call;
use mcp_proto::model::{CallToolRequestParams, CallToolResult, ListToolsResult, Payload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: client URL TOOL")?;
    let client = Client::builder(&url)?.name("my-app", "1.0.0").connect()?;
    println!("revision {}", client.version());
    for tool in ListToolsResult::from_json(&client.request("tools/list", None)?)?.tools {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    if let Some(tool) = arguments.next() {
        let call = Call::new("tools/call").params(CallToolRequestParams::new(tool)).with_progress();
        let result = client.call(call)?.wait_with(|progress| eprintln!("{}", progress.to_text()))?;
        for text in CallToolResult::from_json(&result)?.content.iter().filter_map(|content| content.as_text()) {
            println!("{text}");
        }
    }
    Ok(())
}
