//! The server that the official conformance suite tests, in every revision.
//!
//! Usage: `everything-server blocking|tokio [ADDRESS]`. The first line that it writes is its URL. With `stdio`, it uses
//! `mcp-tokio` on stdin and stdout.

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use conformance::server;
use mcp_proto::server::{Config, HttpConfig};
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).init();
    let mut arguments = std::env::args().skip(1);
    let adapter = arguments.next().ok_or("usage: everything-server blocking|tokio|stdio [ADDRESS]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut config = Config::new("everything-server", env!("CARGO_PKG_VERSION"));
    config.capabilities = server::capabilities();
    let mut http = HttpConfig::new();
    // Clients resume a stream to receive the events that they have missed; a short delay makes the suite faster.
    http.retry = Some(Duration::from_millis(500));
    match adapter.as_str() {
        "blocking" => {
            let listener = std::net::TcpListener::bind(address)?;
            show(listener.local_addr()?.port())?;
            Ok(mcp_blocking::Server::new(config, server::blocking()).http(http)?.serve(listener)?)
        }
        "tokio" => serve(&address, config, http),
        "stdio" => serve_stdio(config),
        _ => Err(format!("there is no adapter '{adapter}'").into()),
    }
}

#[tokio::main]
async fn serve(address: &str, config: Config, http: HttpConfig) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    show(listener.local_addr()?.port())?;
    Ok(mcp_tokio::Server::new(config, server::tokio()).http(http)?.serve(listener).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn serve_stdio(config: Config) -> Result<(), Box<dyn Error>> {
    mcp_tokio::Server::new(config, server::tokio()).serve_stdio().await?;
    Ok(())
}

fn show(port: u16) -> io::Result<()> {
    writeln!(io::stdout(), "http://localhost:{port}/mcp")
}
