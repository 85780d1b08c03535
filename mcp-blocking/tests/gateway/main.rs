//! Tests of `mcp-proxy serve`: the test plays the clients, and shell scripts the servers behind it.

#![cfg(unix)]
#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

mod access;
mod command_line;
mod ends;
mod failures;
mod kinds;
mod library;
mod serving;
mod sessions;
mod shared;
mod starting;
mod users;

#[path = "../proxy/editor.rs"]
#[allow(dead_code, reason = "these tests play no editor")]
mod editor;
#[path = "../running/mod.rs"]
#[allow(dead_code, reason = "these tests need one server")]
mod running;
