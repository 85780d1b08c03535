//! A driver of [`mcp_proto`] for the tokio runtime.
//!
//! The protocol itself lives in `mcp_proto`, which does no I/O. This crate does the I/O, in one task for each
//! connection, and decides nothing: what is answered, cancelled or given up is the machine's business.
//!
//! # A client
//!
//! [`Client`] talks to a server over HTTP, over any pair of byte streams, or to one that it starts as a child process. It
//! may be cloned and used from any number of tasks; each call waits for its own answer, and dropping a call's future
//! cancels the call. [`Handler`] hears what the server tells and answers what it asks.
//!
//! ```no_run
//! use mcp_proto::Json;
//! use mcp_tokio::Client;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let builder = Client::builder().name("my-app", "1.0.0").http("https://example.com/mcp")?;
//! let client = builder.bearer("secret")?.connect().await?;
//! let params = Json::parse(r#"{"name":"search","arguments":{"query":"tokio"}}"#)?;
//! println!("{}", client.request("tools/call", Some(params)).await?.to_text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! | I want to reach | I call, after `Client::builder()` |
//! |---|---|
//! | a server over HTTP, whichever of the two HTTP transports it has | `.http(url)?.connect()` ([`Builder::http`]) |
//! | a server that I start as a child process | `.spawn(command)` ([`Builder::spawn`]) |
//! | whoever is at the other end of a byte stream, or of my own stdin and stdout | `.connect(read, write)` ([`Builder::connect`]) |
//!
//! Over HTTP, a lost session is opened again behind the calls; requests that the server refused because of it are sent
//! again, all others in flight fail at once with [`mcp_proto::Failed::SessionLost`].
//!
//! A child process is ended in steps, with all that it has started: its stdin is closed, then it is asked to end, then it
//! is killed.
//!
//! Servers are not here yet: drive the machines of `mcp_proto` from your own tasks, as its documentation shows, or use
//! `mcp-blocking`.
//!
//! # Tasks and memory
//!
//! ```text
//!   callers ── bounded channel ──▶ driver ──▶ writer: lines          (byte stream)
//!   reader, or exchanges ────────▶        ──▶ exchange, exchange …   (HTTP: Limits::exchanges)
//! ```
//!
//! One task runs the machine, so there is no lock around it. Nothing is read on while the machine has no room; what it
//! may hold is stated at [`mcp_proto::Limits`]. A handler that is slow delays nobody: what it is behind with is dropped
//! at last, with a warning.
//!
//! # What is logged
//!
//! Each connection has a `tracing` span `mcp_client` and each request a span `mcp_request`, with its method and how it
//! ended. Payloads, header values and queries of URLs are in neither.
//!
//! # Features
//!
//! `http-client` (on by default): clients over HTTP, on [`reqwest`] with rustls. It takes the certificate authorities of
//! the operating system, and the proxies that the environment names, except for servers on this machine;
//! [`Builder::http_client`] takes anything else.
//!
//! # How the source is laid out
//!
//! | file | what it does |
//! |---|---|
//! | `client` | the client: commands to its task, outcomes to its callers |
//! | `client/builder` | what the client is told before it connects |
//! | `client/driver` | the task that owns the machine |
//! | `client/link` | what that task needs of a transport |
//! | `client/byte_stream` | a pair of byte streams as a transport |
//! | `client/handler` | what the application does about what the server tells and asks |
//! | `http_client` | HTTP exchanges as a transport, each in a task of its own |
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
pub use server::{Incoming, Server, Service};
