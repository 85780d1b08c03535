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
    let mut builder = Client::builder().name("everything-client", env!("CARGO_PKG_VERSION"));
    // The older version of the suite passes no revision.
    if let Ok(version) = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        let version = ProtocolVersion::from_text(&version).ok_or("an unknown revision")?;
        // The client offers this revision, and accepts older ones of its era, which some scenarios answer with.
        let of_its_era = |other: &ProtocolVersion| *other <= version && other.rules().era == version.rules().era;
        builder = builder.versions(ProtocolVersion::ALL.iter().copied().filter(of_its_era));
    }
    client::run(&scenario, builder.http(&url)?).await
}
