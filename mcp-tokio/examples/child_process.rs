//! Lists the tools of a server: `cargo run -p mcp-tokio --example child_process -- some-server its arguments`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use mcp_tokio::Client;
use tokio::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut command = Command::new(arguments.next().ok_or("usage: client COMMAND ARGUMENTS…")?);
    command.args(arguments);
    let client = Client::builder().name("my-app", "1.0.0").child(command).connect().await?;
    println!("revision {}", client.version());
    println!("{}", client.request("tools/list", None).await?.to_text());
    client.close().await;
    Ok(())
}
