//! What drivers share besides their I/O: types of their APIs, and decisions that do not depend on the kind of I/O. The
//! crates `mcp-blocking` and `mcp-tokio` use all of it; an application that drives a machine itself needs none of it.
//!
//! | file | what it does |
//! |---|---|
//! | `error` | why a client could not connect, or a call has no result |
//! | `connected` | how the first attempt of a client to connect has ended |
//! | `start` | the error of a program that cannot be started |
//! | `client_event` | sorts the events of a client by who receives them |
//! | `change` | events of a subscription |
//! | `observation` | events of a client that need no answer |
//! | `notice` | what the handler of a client receives without answering it |
//! | `observer` | what a relay reports to the application |
//! | `incoming` | a request of a client, as its handler receives it |
//! | `state` | states that clients send back and cannot alter |
//! | `accept` | errors of listening sockets |
//! | `connections` | the connections of a listening server |
//! | `connection_timeouts` | how long the client of a connection may take |

mod accept;
mod change;
mod client_event;
mod connected;
mod connection_timeouts;
mod connections;
mod error;
mod incoming;
mod notice;
mod observation;
mod observer;
mod start;
#[cfg(feature = "seal")]
mod state;

pub use accept::may_accept_later;
pub use change::Change;
pub use client_event::ClientEvent;
pub use connected::{Connected, NotConnected};
pub use connection_timeouts::ConnectionTimeouts;
pub use connections::{Admitted, ConnectionSlot, SharedConnections};
pub use error::Error;
pub use incoming::IncomingRequest;
pub use notice::Notice;
pub use observation::Observation;
pub use observer::{ObservedOutput, Observer, poll_observed};
pub use start::not_started;
#[cfg(feature = "seal")]
pub use state::StateKeys;
