//! The client that the suite's scenarios for skills test.
//!
//! Usage: `skills-client blocking|tokio URL`. The suite passes the scenario and the revision in environment variables.

use std::error::Error;

use conformance::{offered, skills};

const USAGE: &str = "usage: skills-client blocking|tokio URL";

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::init();
    let mut arguments = std::env::args().skip(1);
    let adapter = arguments.next().ok_or(USAGE)?;
    let url = arguments.next().ok_or(USAGE)?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let (name, version) = ("skills-client", env!("CARGO_PKG_VERSION"));
    match adapter.as_str() {
        "blocking" => {
            let builder = mcp_blocking::Client::builder().name(name, version).versions(offered()?);
            skills::run_blocking(&scenario, builder.http(&url)?)
        }
        "tokio" => {
            let builder = mcp_tokio::Client::builder().name(name, version).versions(offered()?);
            run(&scenario, builder.http(&url)?)
        }
        _ => Err(format!("there is no adapter '{adapter}'").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(scenario: &str, builder: mcp_tokio::Builder<mcp_tokio::HttpServer>) -> Result<(), Box<dyn Error>> {
    skills::run_tokio(scenario, builder).await
}
