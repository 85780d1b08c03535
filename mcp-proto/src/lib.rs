//! tmp
#![warn(clippy::indexing_slicing)]
mod backoff;
mod buffer;
pub mod client;
mod deadlines;
mod error;
mod json;
mod limits;
pub mod line;
mod message;
mod outbox;
mod pending;
pub mod relay;
pub mod server;
pub mod sse;
mod transport;
mod version;
mod word;
pub use buffer::CowBytes;
pub use client::Client;
pub use error::*;
pub use json::{DuplicateKey, Json, JsonError};
pub use limits::Limits;
pub use message::*;
pub use outbox::Output;
pub use pending::{RequestKey, Ticket, TicketKey};
pub use relay::Relay;
pub use server::Server;
/// t
pub use std::time::Instant;
pub use transport::{Stdio, StdioAction, Transport};
pub use version::*;
