//! A proxy on stdin and stdout: `cargo run -p mcp-tokio --example tokio_proxy -- http://127.0.0.1:3000/mcp`, or with a
//! command and its arguments instead of a URL.

use mcp_tokio::intermediary::relay::Config;
use mcp_tokio::proto::client::HttpConfig;
use mcp_tokio::{HttpOptions, Proxy};
use tokio::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().ok_or("usage: proxy URL, or proxy COMMAND ARGUMENTS…")?;
    let proxy = if server.starts_with("http") {
        Proxy::http(HttpConfig::new(&server)?, HttpOptions::new(), Config::default())?
    } else {
        let mut command = Command::new(server);
        command.args(arguments);
        Proxy::child(command, Config::default())?
    };
    proxy.run_on_stdio(()).await?;
    Ok(())
}
