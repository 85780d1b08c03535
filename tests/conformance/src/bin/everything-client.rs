//! The client that the official conformance suite tests.
//!
//! Usage: `everything-client URL`. The suite passes the scenario and the revision in environment variables.

use std::error::Error;

use conformance::{client, offered};
use mcp_tokio::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: everything-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let builder = Client::builder().name("everything-client", env!("CARGO_PKG_VERSION"));
    let builder = builder.versions(offered()?);
    client::run(&scenario, builder.http(&url)?).await
}
