//! A client that does what the official conformance suite wants to see.
//!
//! Usage: `everything-client URL`, with the scenario and the revision in the environment, where the suite puts them.

use std::error::Error;

use conformance::client;
use mcp_proto::ProtocolVersion;
use mcp_tokio::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: everything-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let mut builder = Client::builder().name("everything-client", env!("CARGO_PKG_VERSION"));
    // The older version of the suite tells no revision.
    if let Ok(version) = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        let version = ProtocolVersion::from_text(&version).ok_or("an unknown revision")?;
        // It is offered, and what some scenarios of its era answer with instead is taken.
        let of_its_era = |other: &ProtocolVersion| *other <= version && other.rules().era == version.rules().era;
        builder = builder.versions(ProtocolVersion::ALL.iter().copied().filter(of_its_era));
    }
    client::run(&scenario, builder.http(&url)?).await
}
