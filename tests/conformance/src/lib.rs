//! What the programs answer and ask that the official conformance suite is run against.
//!
//! | file | what |
//! |---|---|
//! | `client` | what `everything-client` does in each scenario |
//! | `server` | what `everything-server` offers |

pub mod client;
pub mod server;
