//! Calls a tool: `cargo run -p mcp-tokio --example tokio_client -- http://127.0.0.1:3000/mcp hello`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use mcp_tokio::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (arguments.next(), arguments.next()) else { return Err("usage: URL TOOL".into()) };
    let client = Client::builder().name("my-app", "1.0.0").http(&url)?.connect().await?;
    println!("revision {}", client.version());
    for tool in client.list_all_tools().collect().await? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let called = client.call_tool(&tool, ()).await?;
    for text in called.content.iter().filter_map(|content| content.as_text()) {
        println!("{text}");
    }
    client.close().await; // Without this, the session is ended in the background.
    Ok(())
}
