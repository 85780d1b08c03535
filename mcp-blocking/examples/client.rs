//! Calls a tool: `cargo run --example client -- http://127.0.0.1:3000/mcp hello`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use mcp_blocking::Client;
use mcp_proto::Json;
use mcp_proto::client::Call;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: client URL TOOL")?;
    let client = Client::builder(&url)?.name("my-app", "1.0.0").connect()?;
    println!("revision {}", client.version());
    println!("{}", client.request("tools/list", None)?.to_text());
    if let Some(tool) = arguments.next() {
        let params = format!(r#"{{"name":{},"arguments":{{}}}}"#, Json::from(tool.as_str()).to_text());
        let call = Call::new("tools/call").params(Json::parse(params)?).with_progress();
        let result = client.call(call)?.wait_with(|progress| eprintln!("{}", progress.to_text()))?;
        println!("{}", result.to_text());
    }
    Ok(())
}
