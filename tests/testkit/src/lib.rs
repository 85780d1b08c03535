//! Tests and fuzzing for servers, clients and drivers of the Model Context Protocol, without sockets where possible and
//! without waiting.
//!
//! The machines of `mcp-proto` do no I/O and read no clock. A test can therefore be their network, their clock and their
//! peer at once.
//!
//! | you have | take | what it does |
//! |---|---|---|
//! | a handler of requests | [`pair::Pair`] | connects it to a client in memory, under a seed and a virtual clock |
//! | a handler, and a fuzzer | [`one_answer`], [`conversation`] | checks that each request has one well-formed answer, whatever the client sends |
//! | a server on a byte stream, in any language | [`one_answer::assert_answers`], [`bad_lines`] | checks what it wrote, given what it received; lines that no client may write, with the expected answers |
//! | a server over HTTP | [`raw_client`], [`bad_requests`] | a client that sends any bytes; requests that must be refused, with the expected statuses and codes |
//! | a client over HTTP | [`loopback_server`], [`bad_answers`], [`late_answers`], [`bad_handshakes`], [`modern_answers`] | a server whose responses the test writes; responses that are invalid, late or unusual, with the expected outcomes |
//! | a client that starts servers | [`bad_servers`] | programs that write what no server may write, with the expected outcomes |
//! | a client that signs in | [`authorization::ProtectedServer`] | a server on loopback that demands tokens, and issues them |
//! | a driver, or a machine of your own | [`http_client`], [`http_server`], [`byte_stream`], [`network`] | passes bytes and time to one machine, collects its output, checks that each action is valid |
//! | an `Authorizer` | [`authorization`] | acts as its authorization server, its store, its browser and its person, for several processes at once |
//! | a store of sessions | [`store_contract`] | checks what every store has to do |
//! | a decoder | [`oracle`], [`chunks`] | naive decoders to compare it with, ways to split its input |
//!
//! A handler that is written for `mcp-tokio` or `mcp-blocking` is tested with these crates: `Client::builder().in_memory(&server)`
//! connects a client to it, and `server.replay(bytes)` returns what it writes, for [`one_answer::assert_answers`].
//!
//! A test that needs none of these in full takes their parts:
//!
//! | module | contents |
//! |---|---|
//! | [`vocabulary`] | the names of tools, arguments and resources, as a handler lists them |
//! | [`corpus`], [`dictionary`] | first inputs and tokens for a fuzzer; the program `mcp-testkit` writes them into files |
//! | [`http_exchange`] | HTTP requests of clients to build, and the responses to them |
//! | [`http1`] | a minimal reader of HTTP/1.1 messages |
//! | [`messages`] | the texts of frequent JSON-RPC messages, results and events |
//! | [`random`] | pseudo-random numbers from a seed, and choices from a seed or from the bytes of a fuzzer |
//! | [`transcript`] | all output of machines as text, whose digests a test compares with stored ones |
//! | [`waiting`] | waiting for another thread, with a limit |
//!
//! # A handler
//!
//! In a project of its own; a test of your crate adds the kit with `--dev`:
//!
//! ```sh
//! cargo add mcp-application
//! cargo add mcp-proto
//! cargo add mcp-testkit
//! ```
//!
//! ```
//! use mcp_application::IncomingRequest;
//! use mcp_proto::client::Outcome;
//! use mcp_proto::{ErrorObject, Json};
//! use mcp_testkit::one_answer::{assert_one_answer, full_config};
//! use mcp_testkit::pair::Pair;
//!
//! fn serve(request: &IncomingRequest) -> Result<Json, ErrorObject> {
//!     match request.method().as_str() {
//!         "tools/call" => Ok(Json::parse(r#"{"content":[{"type":"text","text":"Hello!"}]}"#).unwrap()),
//!         _ => Err(ErrorObject::method_not_found(request.method())),
//!     }
//! }
//!
//! fn main() -> Result<(), mcp_proto::JsonError> {
//!     // A test of its behaviour.
//!     let mut pair = Pair::new(full_config(), serve);
//!     let Outcome::Result(result) = pair.request("tools/call", Json::parse(r#"{"name":"hello"}"#)?) else { panic!() };
//!     assert!(result.to_text().contains("Hello!"));
//!
//!     // The body of a fuzz target.
//!     assert_one_answer(serve, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}\n\xff\n");
//!     Ok(())
//! }
//! ```
//!
//! # A machine and its peer
//!
//! The test is the server here. It sees the HTTP request of the client, answers late, and advances the clock itself:
//!
//! ```sh
//! cargo add mcp-proto
//! cargo add mcp-testkit
//! ```
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_proto::client::Outcome;
//! use mcp_testkit::http_client::{HttpClientHarness, Reply};
//! use mcp_testkit::messages;
//!
//! fn main() -> Result<(), &'static str> {
//!     let mut harness = HttpClientHarness::connected_client();
//!     let (request, opened) = harness.request("tools/list");
//!     assert_eq!(opened.line(), "POST /mcp");
//!     assert_eq!(opened.header("mcp-session-id"), "session-1");
//!
//!     // The virtual clock costs no time.
//!     harness.pass(Duration::from_secs(5));
//!     assert!(harness.outcomes().is_empty());
//!
//!     harness.reply(opened.key, &Reply::json(messages::result(&opened.id(), r#"{"tools":[]}"#)));
//!     let outcomes = harness.outcomes();
//!     assert!(matches!(outcomes.get(&request).ok_or("no outcome")?, Outcome::Result(_)));
//!     Ok(())
//! }
//! ```
//!
//! # Testing another implementation
//!
//! A program that is not built on `mcp-proto` is tested over sockets: [`loopback_server::LoopbackServer`] is a server that
//! behaves as the test says, valid or not, and [`raw_client::RawClient`] sends requests that no HTTP library would send.
//! [`oracle`] tests a parser without any machine.
//!
//! An implementation of the same machines in another crate implements [`http_client::Machine`] to be driven by
//! [`http_client::HttpClientHarness`], and [`transcript::Described`] for its output, so that every change of what a machine
//! does shows up as a changed digest.
//!
//! A panic is how the kit reports that an invariant does not hold.
//!
//! # Features
//!
//! `arbitrary`: [`conversation::Conversation`] implements `arbitrary::Arbitrary`, for fuzz targets.

pub mod authorization;
pub mod bad_answers;
pub mod bad_handshakes;
pub mod bad_lines;
pub mod bad_requests;
pub mod bad_servers;
pub mod byte_stream;
pub mod chunks;
pub mod conversation;
pub mod corpus;
pub mod dictionary;
pub mod http1;
pub mod http_client;
pub mod http_exchange;
pub mod http_server;
pub mod late_answers;
pub mod loopback_server;
pub mod messages;
pub mod modern_answers;
pub mod network;
pub mod one_answer;
pub mod oracle;
pub mod pair;
mod platform;
pub mod random;
pub mod raw_client;
pub mod store_contract;
pub mod transcript;
pub mod vocabulary;
pub mod waiting;

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
