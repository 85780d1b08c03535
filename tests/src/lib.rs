//! The scenarios of this workspace: tables of input and outcomes that the core, both drivers and the proxy run.
//!
//! What builds and runs such scenarios is the crate `mcp-testkit`, in `tests/testkit`.
//!
//! | module | contents |
//! |---|---|
//! | [`admission`] | requests that an HTTP server must refuse |
//! | [`bad_answers`], [`modern_answers`], [`late_answers`] | HTTP responses that are invalid, unusual or late, and the outcomes that a client must report |
//! | [`bad_handshakes`] | the same for the beginning of a connection |
//! | [`bad_lines`], [`bad_servers`] | invalid lines on byte streams, of clients and of servers |
//! | [`unread_pipes`] | servers that do not read their input |
//! | [`on_the_wire`] | scenarios for servers that listen on sockets |
//! | [`protected`] | servers that demand tokens |
//! | [`plays`] | one machine with a peer and an application that behave randomly, correctly or not |
//! | [`routed`] | a server that is a router of functions |
//! | [`keys`] | private keys |
//! | [`tools`] | the tools of the servers in tests of proxies |
//! | [`typed_calls`] | a server for typed clients |
//! | [`urls`] | URLs of servers in the spellings that users write |
//! | [`examples`] | runs the examples of the drivers |
//! | [`catalogue`], [`defects`], [`error_texts`] | the tables `CATALOGUE.md`, `DEFECTS.md` and `ERRORS.md`, and the tests that belong to their rows |

pub mod admission;
pub mod bad_answers;
pub mod bad_handshakes;
pub mod bad_lines;
pub mod bad_servers;
pub mod catalogue;
pub mod defects;
pub mod error_texts;
pub mod examples;
pub mod keys;
pub mod late_answers;
pub mod modern_answers;
pub mod on_the_wire;
pub mod plays;
pub mod protected;
pub mod routed;
pub mod tools;
pub mod typed_calls;
pub mod unread_pipes;
pub mod urls;
