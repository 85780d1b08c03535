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
//! # A server
//!
//! A [`Service`] serves requests; a function will do. [`Server`] joins it to clients: over stdio, over any byte stream,
//! and as a [`tower_service::Service`] of HTTP requests that listens itself or stands in a router. [`Incoming`] is a
//! request as its handler sees it, and the way to talk to its client meanwhile: progress, log messages, questions.
//! [`Service::subscribed`] names the resources whose changes clients want to be told of.
//!
//! ```no_run
//! use mcp_proto::model::{CallToolResult, ListToolsResult, ServerCapabilities, Tool, ToolsCapability};
//! use mcp_proto::server::{Config, HttpConfig};
//! use mcp_proto::{ErrorObject, Json};
//! use mcp_tokio::{Incoming, Server};
//! use tokio::net::TcpListener;
//!
//! async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
//!     match incoming.method().as_str() {
//!         "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello")]).into()),
//!         "tools/call" => Ok(CallToolResult::text("Hello!").into()),
//!         _ => Err(ErrorObject::method_not_found(incoming.method())),
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
//! let server = Server::new(Config::new("my-tools", "1.0.0").with_capabilities(capabilities), serve);
//! server.http(HttpConfig::new())?.serve(TcpListener::bind("127.0.0.1:3000").await?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | I want to serve | I call |
//! |---|---|
//! | the process that started this one | [`Server::serve_stdio`] |
//! | one client on a byte stream, or in this process | [`Server::serve_stream`] |
//! | clients over HTTP | [`Server::http`], then [`HttpService::serve`] |
//! | the same in a router of axum | [`Server::http`], then `Router::route_service("/mcp", service)` |
//!
//! Pages of other origins and requests for other hosts are refused unless [`mcp_proto::server::Access`] allows them.
//!
//! # Tasks and memory
//!
//! ```text
//!   callers ── bounded channel ──▶ driver ──▶ writer: lines          (byte stream)
//!   reader, or exchanges ────────▶        ──▶ exchange, exchange …   (HTTP: Limits::exchanges)
//!
//!   stream, or connections ──────▶ driver  ──▶ lines, or bodies of responses
//!   handlers ── bounded channel ─▶        ──▶ handler, handler …     (Limits::requests_in)
//! ```
//!
//! One task runs each machine, so there is no lock around it. Nothing is read on while the machine has no room; what it
//! may hold is stated at [`mcp_proto::Limits`]. A client's handler that is slow delays nobody: what it is behind with is
//! dropped at last, with a warning. A server's handler waits in `progress`, `log` and `notify` while its client does not
//! read, so what waits for a client is bounded, too.
//!
//! # What is logged
//!
//! Each connection of a client has a `tracing` span `mcp_client` and each of its requests a span `mcp_request`, with its
//! method and how it ended. A server's handlers run in a span `request`, with its method and session. Payloads, header
//! values and queries of URLs are in none of them.
//!
//! # Features
//!
//! `http-client` (on by default): clients over HTTP, on [`reqwest`] with rustls. It takes the certificate authorities of
//! the operating system, and the proxies that the environment names, except for servers on this machine;
//! [`Builder::http_client`] takes anything else.
//!
//! `http-server` (on by default): servers over HTTP, on hyper.
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
//! | `server` | a service, and how clients reach it |
//! | `server/service`, `server/incoming` | what the application does with requests, and a request as it sees it |
//! | `server/requests` | requests that are being served: between the machine and the handlers |
//! | `server/notices` | what a service is told beside requests |
//! | `server/stream` | the task of a server on a byte stream |
//! | `server/http` | the server as a service of HTTP requests, and the task that owns its machine |
//! | `lines`, `clock`, `panics` | lines that wait to be written, the time, and handlers that panic |

mod child;
mod client;
mod clock;
#[cfg(feature = "http-client")]
mod http_client;
mod lines;
mod panics;
mod server;

pub use client::{Builder, Change, Client, Error, Handler, InFlight, Subscription};
#[cfg(feature = "http-client")]
pub use http_client::Http;
/// The HTTP client's library, for [`Builder::http_client`].
#[cfg(feature = "http-client")]
pub use reqwest;
#[cfg(feature = "http-server")]
pub use server::{HttpBody, HttpService};
pub use server::{Incoming, Server, ServerPublisher, Service, StateKeys};
