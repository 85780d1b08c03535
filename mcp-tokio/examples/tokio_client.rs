//! Calls a tool: `cargo run -p mcp-tokio --example tokio_client -- http://127.0.0.1:3000/mcp hello`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use mcp_proto::Json;
use mcp_proto::client::Call;
use mcp_tokio::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (arguments.next(), arguments.next()) else { return Err("usage: URL TOOL".into()) };
    let client = Client::builder().name("my-app", "1.0.0").http(&url)?.connect().await?;
    println!("revision {}", client.version());
    println!("{}", client.request("tools/list", None).await?.to_text());
    let params = format!(r#"{{"name":{},"arguments":{{}}}}"#, Json::from(tool.as_str()).to_text());
    let mut call = client.call(Call::new("tools/call").params(Json::parse(params)?).with_progress()).await?;
    while let Some(progress) = call.progress().await {
        eprintln!("{}", progress.to_text());
    }
    println!("{}", call.wait().await?.to_text());
    client.close().await; // Without this, the session is ended in the background.
    Ok(())
}
