//! The client that the official conformance suite tests.
//!
//! Usage: `everything-client URL`. The suite passes the scenario and the revision in environment variables.

use std::error::Error;

use conformance::client;
use mcp_proto::ProtocolVersion;
use mcp_tokio::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: everything-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let builder = Client::builder().name("everything-client", env!("CARGO_PKG_VERSION"));
    // The older version of the suite passes no revision, and has no scenarios for those without `initialize`.
    let version = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        Ok(version) => ProtocolVersion::from_text(&version).ok_or("an unknown revision")?,
        Err(_) => ProtocolVersion::LATEST_LEGACY,
    };
    // The client offers this revision, and accepts older ones of its era, which some scenarios answer with.
    let of_its_era = |other: &ProtocolVersion| *other <= version && other.is_stateless() == version.is_stateless();
    let builder = builder.versions(ProtocolVersion::ALL.iter().copied().filter(of_its_era));
    client::run(&scenario, builder.http(&url)?).await
}
