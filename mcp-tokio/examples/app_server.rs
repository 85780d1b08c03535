//! An MCP App: a tool whose result a host shows in a web page, and a tool that only the page calls. Hosts in a browser reach it
//! over HTTP: `cargo run -p mcp-tokio --features schema --example app_server`

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_tokio::model::{AppUi, Resource, ToolUi, ToolVisibility};
use mcp_tokio::proto::server::{Config, HttpConfig};
use mcp_tokio::{Router, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

const URI: &str = "ui://dice/view";
const PAGE: &str = include_str!("app_server/page.html");

#[derive(Deserialize, JsonSchema)]
struct Dice {
    /// The sides of the dice
    #[schemars(range(min = 2))]
    sides: u64,
}

fn router() -> Router {
    let shown = ToolUi::app(URI);
    let called = ToolUi::app(URI).visibility([ToolVisibility::App]);
    let thrown = Arc::new(AtomicU64::new(0));
    Router::new().app(&Resource::app(URI, "dice"), PAGE, &AppUi::new().prefers_border(true)).with_state(
        thrown,
        |router| {
            router
                .tool_with(
                    "dice",
                    |tool| tool.description("Shows a dice, which the user can throw.").ui(&shown),
                    |_, dice: Dice, _| async move { Ok(format!("a dice with {} sides", dice.sides)) },
                )
                .tool_with(
                    "throw",
                    |tool| tool.description("Throws the dice.").ui(&called),
                    // A dice for tests: its sides come one after the other.
                    |thrown, dice: Dice, _| async move {
                        let side =
                            thrown.fetch_add(1, Ordering::Relaxed).checked_rem(dice.sides).ok_or("no sides")? + 1;
                        Ok(format!("throw {side} of {}", dice.sides))
                    },
                )
        },
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    // The page of a host is of another origin on this machine.
    let http = HttpConfig::new().cors(true);
    Server::new(Config::new("dice", "1.0.0"), router()).http(http)?.serve(listener).await?;
    Ok(())
}
