//! Calls a tool: `cargo run -p mcp-blocking --example client -- http://127.0.0.1:3000/mcp hello`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use mcp_blocking::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (arguments.next(), arguments.next()) else { return Err("usage: URL TOOL".into()) };
    let client = Client::builder().http(&url)?.name("my-app", "1.0.0").connect()?;
    println!("revision {}", client.version());
    for tool in client.list_all_tools() {
        let tool = tool?;
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let called = client.call_tool(&tool, ())?;
    for text in called.content.iter().filter_map(|content| content.as_text()) {
        println!("{text}");
    }
    Ok(())
}
