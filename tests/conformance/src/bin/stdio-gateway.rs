//! A gateway of `mcp-tokio` in front of a server over stdio, with a process for each session.
//!
//! Usage: `stdio-gateway ADDRESS COMMAND ARGUMENTS…`

use std::env::args;
use std::error::Error;
use std::time::Duration;

use mcp_intermediary::gateway::Config;
use mcp_tokio::{Backend, Gateway};
use tokio::net::TcpListener;
use tokio::process::Command;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).init();
    let address = args().nth(1).ok_or("usage: stdio-gateway ADDRESS COMMAND ARGUMENTS…")?;
    let program = args().nth(2).ok_or("there is no command")?;
    let mut config = Config::default();
    // Clients resume a stream to receive the events that they have missed; a short delay makes the suite faster.
    config.http.retry = Some(Duration::from_millis(500));
    let gateway = Gateway::new(config, move |_| {
        let mut command = Command::new(&program);
        command.args(args().skip(3));
        async { Ok(Backend::child(command)) }
    });
    gateway.http()?.serve(TcpListener::bind(address).await?).await?;
    Ok(())
}
