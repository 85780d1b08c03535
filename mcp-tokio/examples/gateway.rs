//! A server for stdio, over HTTP in a router of axum, with a process for each session:
//! `cargo run -p mcp-tokio --example gateway -- 127.0.0.1:3000 COMMAND ARGUMENTS…`

use std::env::args;

use axum::Router;
use axum::routing::get;
use mcp_tokio::intermediary::gateway::Config;
use mcp_tokio::{Backend, Gateway};
use tokio::net::TcpListener;
use tokio::process::Command;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = args().nth(1).ok_or("usage: gateway ADDRESS COMMAND ARGUMENTS…")?;
    let program = args().nth(2).ok_or("there is no command")?;
    let gateway = Gateway::new(Config::default(), move |_| {
        let mut command = Command::new(&program);
        command.args(args().skip(3));
        async { Ok(Backend::child(command)) }
    });
    let service = gateway.http()?;
    let monitor = service.monitor();
    let sessions = async move || monitor.status().await.map_or(0, |status| status.sessions).to_string();
    let app = Router::new().route_service("/mcp", service).route("/sessions", get(sessions));
    Ok(axum::serve(TcpListener::bind(address).await?, app).await?)
}
