//! The client that the suite's scenarios for authorization test.
//!
//! Usage: `authorized-client URL`. The suite passes the scenario and the revision in environment variables.

use std::error::Error;

use conformance::{authorization, offered};
use mcp_blocking::Client;

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::init();
    let url = std::env::args().nth(1).ok_or("usage: authorized-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let builder = Client::builder().name("authorized-client", env!("CARGO_PKG_VERSION")).versions(offered()?);
    authorization::run(&scenario, &url, builder.http(&url)?)
}
