//! What is between clients and servers of the Model Context Protocol, as state machines without I/O.
//!
//! | machine | joins |
//! |---|---|
//! | [`Relay`] | one client and one server, with any revision and any transport on each side |
//! | [`Gateway`] | many clients over HTTP, and processes that speak on their stdin and stdout |
//! | [`Aggregate`] | one client and several servers, as one server |
//!
//! They use only what any other crate could use of `mcp-proto`: [`Server::pass_through`](mcp_proto::Server::pass_through) and
//! [`Call::unchanged`](mcp_proto::client::Call::unchanged). Drivers run them by the traits of [`mcp_proto::machine`].

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::indexing_slicing)]

pub mod aggregate;
pub mod gateway;
mod machine;
mod observer;
pub mod relay;
mod restart;

pub use aggregate::Aggregate;
pub use gateway::Gateway;
pub use observer::{ObservedOutput, Observer, poll_observed};
pub use relay::Relay;

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
