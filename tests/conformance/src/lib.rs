//! The server and the client that the official conformance suite tests.
//!
//! | file | what |
//! |---|---|
//! | `client` | the behaviour of `everything-client` in each scenario |
//! | `server` | the tools, resources and prompts of `everything-server` |

pub mod client;
pub mod server;
