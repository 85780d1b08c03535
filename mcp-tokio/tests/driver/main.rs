//! Tests of the driver, as one program, so that tests that wait run beside others.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

mod child;
mod client;
mod connections;
mod debug_forms;
mod examples;
mod extensions;
mod functions;
mod gateway;
mod gateway_chain;
mod http_client;
mod in_memory;
mod local_functions;
mod modern;
mod protected_server;
mod proxy;
mod redis_values;
mod router;
mod server;
mod server_card;
mod sign_in;
mod store;
mod stores_over_sockets;
mod typed_client;
mod unix_socket;
mod unread;

#[path = "../../../mcp-blocking/tests/driver/authority.rs"]
#[cfg(feature = "http-client")]
mod authority;
#[path = "../../../mcp-blocking/tests/driver/running.rs"]
#[cfg(feature = "http-client")]
mod running;
