//! The server and the clients that the official conformance suite tests.
//!
//! | file | what |
//! |---|---|
//! | `authorization` | the behaviour of `authorized-client`, which signs in |
//! | `client` | the behaviour of `everything-client` in each scenario |
//! | `faulty` | a store that does not do what it answers, for several instances of `everything-server` |
//! | `server` | the tools, resources, prompts and skills of `everything-server` |
//! | `skills` | the behaviour of `skills-client`, which uses skills |

use std::error::Error;

use mcp_proto::ProtocolVersion;

pub mod authorization;
pub mod client;
pub mod faulty;
pub mod server;
pub mod skills;

/// The revisions that a client offers in a scenario: the one of the environment, and older ones of its era, which some
/// scenarios answer with.
///
/// # Errors
///
/// The environment names a revision that does not exist.
pub fn offered() -> Result<Vec<ProtocolVersion>, Box<dyn Error>> {
    // The older version of the suite passes no revision, and has no scenarios for those without `initialize`.
    let version = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        Ok(version) => ProtocolVersion::from_text(&version).ok_or("an unknown revision")?,
        Err(_) => ProtocolVersion::LATEST_LEGACY,
    };
    let of_its_era = |other: &ProtocolVersion| *other <= version && other.is_stateless() == version.is_stateless();
    Ok(ProtocolVersion::ALL.iter().copied().filter(of_its_era).collect())
}
