//! MCP clients and servers on tokio, in all five revisions: over HTTP, stdio, child processes and any byte stream; a proxy, and a
//! gateway to servers for stdio.
//!
//! The crate [`mcp_proto`] has the protocol and does no I/O. This crate does the I/O, in tasks.
//!
//! # A server and a client
//!
//! In an empty project, for both programs:
//!
//! ```sh
//! cargo add schemars serde_json
//! cargo add mcp-tokio --features http-client
//! cargo add serde --features derive
//! cargo add tokio --features macros,net,rt-multi-thread
//! ```
//!
//! A server with one tool:
//!
//! ```no_run
//! use mcp_tokio::proto::server::{Config, HttpConfig};
//! use mcp_tokio::{Incoming, Router, Server};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use tokio::net::TcpListener;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Divide {
//!     dividend: i64,
//!     /// Not 0
//!     divisor: i64,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let router = Router::new().tool("divide", "Divides two numbers.", |numbers: Divide, _: Incoming| async move {
//!         let quotient = numbers.dividend.checked_div(numbers.divisor).ok_or("division by zero")?;
//!         Ok(quotient.to_string())
//!     });
//!     let server = Server::new(Config::new("my-tools", "1.0.0"), router);
//!     server.http(HttpConfig::new())?.serve(TcpListener::bind("127.0.0.1:3000").await?).await?;
//!     Ok(())
//! }
//! ```
//!
//! A client that lists its tools, and calls one:
//!
//! ```no_run
//! use mcp_tokio::Client;
//! use serde_json::json;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::builder().name("my-app", "1.0.0").http("http://127.0.0.1:3000/mcp")?.connect().await?;
//!     for tool in client.list_all_tools().collect().await? {
//!         println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//!     }
//!     for divisor in [7, 0] {
//!         let called = client.call_tool("divide", json!({ "dividend": 42, "divisor": divisor })).await?;
//!         println!("{}", called.content[0].as_text().unwrap_or_default());
//!     }
//!     client.close().await;
//!     Ok(())
//! }
//! ```
//!
//! It prints:
//!
//! ```text
//! divide: Divides two numbers.
//! 6
//! division by zero
//! ```
//!
//! The schema of a tool comes from the type of its argument. Arguments that do not match it, and errors of the function, reach
//! the language model, which can correct its call. [`Router`] also has prompts, resources and completions. A [`Service`] handles
//! every method in one function.
//!
//! # Connections of a server
//!
//! | I want to serve | I call |
//! |---|---|
//! | the process that started this one | [`Server::serve_stdio`] |
//! | one client on a byte stream, or in this process | [`Server::serve_stream`] |
//! | clients over HTTP | [`Server::http`], then [`HttpService::serve`] |
//! | the same in a router of axum | [`Server::http`], then `Router::route_service("/mcp", service)` |
//! | bytes that I have, for a test | [`Server::replay`] |
//!
//! A handler sends progress, log messages and requests to the client through its [`Incoming`]. [`Server::publisher`] publishes
//! changes to all clients from any task, and [`Server::shutdown`] stops the server once the requests in progress are answered.
//! Requests from web pages of other origins and for other hosts are refused unless [`mcp_proto::server::Access`] allows them.
//! Several servers, behind any load balancer, can share their sessions: [`Server::store`] sets a [`store::Store`].
//!
//! # Connections of a client
//!
//! | I want to connect to | I call, after `Client::builder()` |
//! |---|---|
//! | a server over HTTP, with either of the two HTTP transports | `.http(url)?.connect()` ([`Builder::http`]) |
//! | a server that I start as a child process | `.child(command).connect()` ([`Builder::child`]) |
//! | a server on a byte stream, or on my own stdin and stdout | `.stream(read, write).connect()` ([`Builder::stream`]) |
//! | a server in this process, for a test of its handler | `.in_memory(&server).connect()` ([`Builder::in_memory`]) |
//!
//! A [`Client`] may be cloned and used from any number of tasks. Each call waits for its own response, and dropping a call's
//! future cancels the call. A [`Handler`] handles the server's notifications and requests. [`Client::request`] sends any
//! method with any parameters.
//!
//! A server over HTTP may demand a token: a person signs in with a browser, and the tokens are stored
//! ([`Builder::authorization`], [`sign_in`]). A lost session is opened again automatically. Requests that the server refused
//! because of the loss are sent again; all others in flight fail at once with [`mcp_proto::Failed::SessionLost`], because the
//! server may have processed them.
//!
//! A child process is ended in steps, together with all processes that it has started: its stdin is closed, then (on
//! Unix) it receives SIGTERM, then it is killed.
//!
//! # Features
//!
//! | feature | what it adds | crates with this feature alone; 51 without any |
//! |---|---|---|
//! | `http-server` (on by default) | servers over HTTP, on hyper | 63 |
//! | `http-client` | clients over HTTP, on [`reqwest`] with rustls and aws-lc, and signing in | 120 |
//! | `schema` (on by default) | schemas of the types of a [`Router`]'s functions, by the crate `schemars` | 59 |
//! | `skills` | skills of a [`Router`], and a client that compares their files with their digests | 53 |
//! | `opentelemetry` | durations of requests as metrics of OpenTelemetry, and traces that lead from clients to servers (below) | 58 |
//! | `redis` | sessions in Redis or Valkey (`store::Redis`), so that any process of a server can serve any request; with `http-server` | 106 |
//!
//! A server that calls no other one over HTTP needs no other feature, and 71 crates in place of the 129 of the example above. A
//! client needs 120 without the default features:
//!
//! ```sh
//! cargo add mcp-tokio
//! cargo add mcp-tokio --no-default-features --features http-client
//! ```
//!
//! The crates are counted on Linux, in the repository: `cargo tree -p mcp-tokio -e normal --prefix none --no-dedupe
//! --no-default-features --features FEATURES | sort -u | wc -l`.
//!
//! The HTTP client uses the certificate authorities of the operating system, and the proxies from the environment except for
//! servers on this machine; [`HttpOptions`] changes that.
//!
//! The crates whose types occur in this API are the modules [`proto`], [`model`], [`application`], [`intermediary`] and [`auth`], so
//! that an application adds none of them itself.
//!
//! # A proxy
//!
//! [`Proxy`] connects a client on a pair of byte streams to a server over HTTP or in a child process. The two sides may
//! use different protocol revisions.
//!
//! # A gateway
//!
//! [`Gateway`] serves any number of clients over HTTP by servers that speak on a byte stream: child processes, which are
//! started when clients open sessions, sockets, or remote servers through a proxy ([`Backend`]).
//!
//! # Tasks and memory
//!
//! ```text
//!   callers ── bounded channel ──▶ driver ──▶ writer: lines          (byte stream)
//!   reader, or exchanges ────────▶        ──▶ exchange, exchange …   (HTTP: Limits::exchanges)
//!
//!   stream, or connections ──────▶ driver  ──▶ lines, or bodies of responses
//!   handlers ── bounded channel ─▶        ──▶ handler, handler …     (Limits::requests_in)
//!   store ── bounded channel ────▶        ──▶ action, action …       (64 at one time)
//!
//!   connections ─────────────────▶ driver  ──▶ bodies of responses   (a gateway)
//!   backends ── a chunk of each ─▶        ──▶ backend, backend …     (Limits::backends)
//! ```
//!
//! One task runs each machine, so there is no lock around it. The task does not read while the machine has no room;
//! [`mcp_proto::Limits`] states how much a machine may hold. A slow handler of a client does not delay anything else:
//! when its queue is full, notifications are dropped with a warning. A server's handler waits in `progress`, `log` and
//! `notify` while its client does not read, so the data that is queued for a client is limited, too.
//! `publish` waits for no client: [`mcp_proto::Limits::unwritten`] bounds what is queued by it.
//!
//! # What is logged
//!
//! Each connection of a client has a `tracing` span `mcp_client`, and each of its requests a span `mcp_request` (level
//! debug). A server's handlers run in a span `mcp_server_request` (level info). Requests that the machines answer or make
//! themselves, such as `initialize`, have none. The names of these spans and of their fields do not change within a major
//! version:
//!
//! | field | of | value |
//! |---|---|---|
//! | `otel.name` | both | the method, and after a space the tool or prompt, once it has given a result |
//! | `otel.kind`, `otel.status_code` | both | `client` or `server`; `error` if there is an `error.type` |
//! | `mcp.method.name` | both | the method |
//! | `mcp.protocol.version` | both | the protocol revision; of a client, the one in force when the request was made |
//! | `mcp.session.id` | `mcp_server_request` | the number of the session, which is local to the server; none for a stateless request. The session's own id is a secret |
//! | `jsonrpc.request.id` | both | the id of the request; of a client, the first if it is sent again |
//! | `gen_ai.tool.name`, `gen_ai.prompt.name` | both | the tool or the prompt |
//! | `gen_ai.operation.name` | both | `execute_tool` for a call of a tool |
//! | `mcp.resource.scheme` | both | the scheme of the resource's URI, of which the rest may be private |
//! | `network.transport`, `network.protocol.name` | both | `tcp` and `http`; `pipe` for stdio and child processes; none for other streams |
//! | `traceparent` | `mcp_server_request` | the trace that the client states, if any (`IncomingRequest::trace_context`) |
//! | `outcome` | both | `result`, `tool_error` (the tool has failed), `input_required` or `error`; of a server also `cancelled` or `panicked`; of a client the name of a [`Failed`] |
//! | `error.type` | both | of a failure: the code of the JSON-RPC error if there is one, otherwise the outcome |
//! | `rpc.response.status_code` | both | the code of the JSON-RPC error |
//! | `duration` | both | the time until the outcome, in seconds |
//!
//! Methods, ids, and names of tools and prompts have at most 128 characters.
//!
//! A gateway has a span `mcp_gateway_backend` (level info) for each backend, whose field `backend` is the number of it.
//!
//! Session ids, payloads, other header values and queries of URLs are never logged, with one exception: if a line on a
//! server's stdout does not begin a JSON object or array, at most 80 characters of it are logged.
//! [`Builder::log_stderr`] logs a server's stderr.
//!
//! # OpenTelemetry
//!
//! The names of the spans and fields are those of OpenTelemetry's [semantic conventions for MCP], as far as these have one.
//! The crate `tracing-opentelemetry` makes a span of OpenTelemetry of each, with the name and the kind in `otel.name` and
//! `otel.kind`. Differences from the conventions: no URI of a resource, no text of an error, and the number of a session
//! in place of its id.
//!
//! The feature `opentelemetry` adds what a layer for `tracing` cannot do:
//!
//! * The client states the trace of the span of a request in `_meta`, unless the application has done so, and the span of
//!   the server continues it. The application's propagator decides what is sent and received: without
//!   `opentelemetry::global::set_text_map_propagator`, it is nothing. A server trusts its clients with the ids of traces then,
//!   and with whether they are recorded.
//! * A span has the name of its tool or prompt also if this becomes known only by its result.
//! * The histograms `mcp.server.operation.duration` and `mcp.client.operation.duration` of the meter `mcp-tokio`, also
//!   for requests whose spans are disabled. Set `opentelemetry::global::set_meter_provider` before a server is created and
//!   before a client connects. A client can call tools that do not exist, so that a tool or a prompt is an attribute only
//!   after it has given a result, and at most 100 of each are; unknown methods are `_OTHER`
//!   ([`application::OperationNames`]).
//!
//! The feature has version 0.33 of the crate `opentelemetry`, and the application must have the same: another version has
//! its own providers. The example `opentelemetry` exports both over OTLP.
//!
//! [semantic conventions for MCP]: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
//! [`Failed`]: mcp_proto::Failed

// How the source is laid out:
//
// | file | what it does |
// |---|---|
// | `client` | the client: commands to its task, outcomes to its callers |
// | `client/builder` | the configuration of a client |
// | `client/driver` | the task that owns the machine |
// | `client/builder/in_memory` | a server in this process |
// | `client/in_flight`, `client/progress` | a request that has no outcome yet, and its progress |
// | `client/subscription` | changes that the application has subscribed to |
// | `client/handler` | the application's handler for the server's notifications and requests |
// | `sign_in` | signing in: its configuration, its task, signatures, and the port to which the browser returns |
// | `authorize` | the interface of a sign-in to the task that owns a machine |
// | `link` | the interface of a connection to the task that owns a machine |
// | `byte_stream` | a connection over a pair of byte streams |
// | `http_client` | HTTP exchanges as a transport, each in a task of its own |
// | `child` | servers that run as child processes |
// | `server` | a service, and its connections to clients |
// | `router`, `router/shared`, `router/tasks` | a service that consists of functions, which may change, and may run as tasks |
// | `server/service`, `server/incoming` | the application's service, and a request as its handler receives it |
// | `server/publisher`, `server/running` | publishes changes to clients, and what a server and its clones share |
// | `server/requests` | requests in progress: connects the machine and the handlers |
// | `server/notices` | notifications and other events for a service |
// | `server/stream` | the task of a server on a byte stream |
// | `server/replay` | a server whose input is known in full |
// | `server/http` | the server as a service of HTTP requests, and the task that owns its machine |
// | `store` | stores of sessions: in memory, in Redis, and the task between a server and its store |
// | `gateway` | the gateway: the kinds of backends, the task of each, and the machine between them and the clients |
// | `proxy` | the proxy: connects a client on a byte stream to a server over HTTP or in a child process |
// | `stdio` | stdin and stdout of this process |
// | `lines`, `bounded` | lines that are queued for a byte stream, and a queue that counts the entries that were dropped |
// | `operations` | what is reported about requests: spans, and durations |
// | `clock`, `panics` | the clock, and panics of handlers |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod authorize;
mod bounded;
mod byte_stream;
mod child;
mod client;
mod clock;
#[cfg(feature = "http-server")]
mod gateway;
#[cfg(feature = "http-client")]
mod http_client;
mod lines;
mod link;
#[cfg(not(all(feature = "http-client", feature = "http-server")))]
#[doc(hidden)]
pub mod missing_feature;
mod operations;
mod panics;
mod proxy;
mod router;
mod server;
#[cfg(feature = "http-client")]
pub mod sign_in;
#[cfg(feature = "http-client")]
mod signing;
mod stdio;
#[cfg(feature = "http-server")]
pub mod store;

#[cfg(feature = "http-client")]
pub use client::HttpServer;
pub use client::{
    Builder, ChildServer, Client, Handler, InFlight, InMemoryServer, ListItems, StreamServer, Subscription, ToolTask,
};
#[cfg(feature = "http-server")]
pub use gateway::{Backend, Gateway, GatewayMonitor, GatewayStatus};
#[cfg(feature = "http-client")]
pub use http_client::{HttpOptions, HttpSettings};
pub use mcp_application as application;
pub use mcp_application::router::HandlerError;
#[cfg(feature = "schema")]
pub use mcp_application::router::{NoArguments, Structured};
pub use mcp_application::{Authenticated, Change, Error, InvalidService, Observation, StateKeys};
#[cfg(feature = "http-client")]
pub use mcp_auth as auth;
pub use mcp_intermediary as intermediary;
pub use mcp_intermediary::Observer;
pub use mcp_model as model;
pub use mcp_proto as proto;
pub use proxy::{Proxy, Stopper};
/// The library of the HTTP client, for [`HttpOptions`].
#[cfg(feature = "http-client")]
pub use reqwest;
pub use router::{Router, SharedRouter, StateRouter, TaskContext};
#[cfg(feature = "http-server")]
pub use server::{HttpBody, HttpService};
pub use server::{Incoming, Server, ServerPublisher, Service};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
