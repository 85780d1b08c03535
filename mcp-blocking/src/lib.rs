//! The Model Context Protocol on threads: a client, a server, and a proxy before servers of any kind. No async runtime.
//!
//! The protocol itself lives in [`mcp_proto`], which does no I/O. This crate does the I/O, with threads, channels and
//! `ureq`, and decides nothing: what is retried, resumed or refused is the machines' business.
//!
//! # A client
//!
//! [`Client`] talks to a server over HTTP, or to one that it starts as a child process ([`Client::child`]). It may be cloned and used from any number of threads; each call waits for
//! its own answer, and a slow call delays no other. [`Handler`] hears what the server tells and answers what it asks.
//!
//! ```no_run
//! use mcp_blocking::Client;
//! use mcp_proto::model::{CallToolRequestParams, CallToolResult, JsonObject, Payload};
//!
//! let client = Client::builder("https://example.com/mcp")?.name("my-app", "1.0.0").connect()?;
//! let params = CallToolRequestParams::new("search").arguments(JsonObject::new().with("query", "ureq"));
//! let found = CallToolResult::from_json(&client.request("tools/call", Some(params.into()))?)?;
//! println!("{:?}", found.content);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A lost session is opened again behind the calls; requests that the server refused because of it are sent again, all
//! others in flight fail at once with [`mcp_proto::Failed::SessionLost`], because nobody knows whether they were served.
//!
//! # A proxy
//!
//! [`Proxy`] joins any pair of byte streams to a server over HTTP or in a child process, whichever revisions the two
//! sides speak. The binary `mcp-proxy` is this and a command line; the feature `proxy` (on by default) builds it.
//!
//! # A server
//!
//! [`Server`] serves Streamable HTTP on `std::net`, to clients on this machine unless told otherwise.
//!
//! # Threads and memory
//!
//! ```text
//!   callers ──┐                       ┌──▶ worker: one exchange at a time, connections kept alive
//!   workers ──┴─ bounded channel ─▶ driver ─▶ worker …           (HttpOptions::max_workers)
//! ```
//!
//! One driver thread runs a client's machine, so there is no lock around it. Workers are started when they are needed, and
//! used again. A body is read while the machine has room for it, and no further; what the machine may hold is stated at
//! [`mcp_proto::Limits`].
//!
//! ```text
//!   reader: stdin ──┐           ┌──▶ worker …
//!   worker ─────────┼──▶ lock ──┼──▶ stdout, or its writer where that would wait
//!   time ───────────┘           └──▶ time
//! ```
//!
//! A proxy has a lock instead of an driver: the thread that has read something gives it to the machine, and carries out what
//! comes of it. Waking another thread for that would take longer than the machine does. Nothing that is done under the lock
//! waits for a peer: stdout is written to as far as it takes bytes at once, and a thread that meets a held lock leaves what
//! it has read to the thread that holds it.
//!
//! | file | what it does |
//! |---|---|
//! | `client`, `slot` | the client: commands to the driver, outcomes to the callers |
//! | `proxy` | the proxy: what joins its two sides |
//! | `link` | what clients and proxies need of the way to a server |
//! | `http_client` | servers over HTTP: exchanges on worker threads |
//! | `child` | servers in child processes: starting, feeding and ending them |
//! | `stdio` | a reader and a writer of byte streams |
//! | `server` | the server: connections, its driver, the threads that serve |
//! | `inbox` | where readers and workers hand in what happens |
//! | `backpressure` | stops the readers while the machine wants no input |
//! | `bounded` | a queue with a bound in bytes |

mod backpressure;
mod bounded;
mod child;
mod client;
mod http_client;
mod inbox;
mod link;
mod proxy;
mod response_slot;
mod server;
mod stdio;
#[cfg(test)]
mod stdio_tests;

pub use client::{
    Builder, Change, ChildServer, Client, Error, Handler, HttpServer, InFlight, Observation, Subscription,
};
pub use http_client::{HttpOptions, InvalidProxy, OptionsError};
pub use proxy::{Observer, Proxy, Stopper};
pub use server::{Incoming, Server, ServerPublisher, ServerStopper, Service, StateKeys};
