//! Tests of the driver, as one program, so that tests that wait run beside others.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

mod aggregate;
mod authority;
mod client;
mod debug;
mod draft;
mod examples;
mod extensions;
mod functions;
mod gateway;
mod in_memory;
mod private_port;
mod router;
mod running;
mod server;
mod server_card;
mod sign_in;
mod tls;
mod typed_client;
mod unix_socket;
mod unread;
