//! The client that the suite's scenarios for authorization test.
//!
//! Usage: `authorized-client blocking|tokio URL`. The suite passes the scenario and the revision in environment variables.

use std::error::Error;

use conformance::{authorization, offered};

const USAGE: &str = "usage: authorized-client blocking|tokio URL";

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::init();
    let mut arguments = std::env::args().skip(1);
    let adapter = arguments.next().ok_or(USAGE)?;
    let url = arguments.next().ok_or(USAGE)?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let (name, version) = ("authorized-client", env!("CARGO_PKG_VERSION"));
    match adapter.as_str() {
        "blocking" => {
            let builder = mcp_blocking::Client::builder().name(name, version).versions(offered()?);
            authorization::run_blocking(&scenario, &url, builder.http(&url)?)
        }
        "tokio" => {
            let builder = mcp_tokio::Client::builder().name(name, version).versions(offered()?);
            run(&scenario, &url, builder.http(&url)?)
        }
        _ => Err(format!("there is no adapter '{adapter}'").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(
    scenario: &str,
    url: &str,
    builder: mcp_tokio::Builder<mcp_tokio::HttpServer>,
) -> Result<(), Box<dyn Error>> {
    Box::pin(authorization::run_tokio(scenario, url, builder)).await
}
