//! A driver of [`mcp_proto`] for the tokio runtime.
//!
//! The protocol itself lives in `mcp_proto`, which does no I/O. This crate does the I/O, in one task for each
//! connection, and decides nothing: what is answered, cancelled or given up is the machine's business.
//!
//! # A client
//!
//! [`Client`] talks to a server over any pair of byte streams, or to one that it starts as a child process. It may be
//! cloned and used from any number of tasks; each call waits for its own answer, and dropping a call's future cancels
//! the call. [`Handler`] hears what the server tells and answers what it asks.
//!
//! ```no_run
//! use mcp_tokio::Client;
//! use tokio::process::Command;
//!
//! # async fn example() -> Result<(), mcp_tokio::Error> {
//! let client = Client::builder().name("my-app", "1.0.0").spawn(Command::new("some-server")).await?;
//! let tools = client.request("tools/list", None).await?;
//! println!("{}", tools.to_text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! HTTP and servers are not here yet: drive the machines of `mcp_proto` from your own tasks, as its documentation
//! shows, or use `mcp-blocking`.
//!
//! | file | what it does |
//! |---|---|
//! | `client` | the client: commands to its task, outcomes to its callers |
//! | `client/driver` | the task that owns the machine |
//! | `client/handler` | what the application does about what the server tells and asks |
//! | `child` | servers that are started as processes, and ended |

mod child;
mod client;
mod clock;
#[cfg(feature = "http-client")]
mod http_client;
mod lines;
mod server;

pub use client::{Builder, Client, Error, Handler, InFlight};
#[cfg(feature = "http-client")]
pub use http_client::Http;
/// The HTTP client's library, for [`Builder::http_client`].
#[cfg(feature = "http-client")]
pub use reqwest;
#[cfg(feature = "http-server")]
pub use server::{HttpBody, HttpService};
pub use server::{Incoming, Server, Service, StateKeys};
