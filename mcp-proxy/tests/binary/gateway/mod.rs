//! Tests of `mcp-proxy serve`: the test plays the clients, and shell scripts the servers behind it.

#![cfg(unix)]

mod access;
mod command_line;
mod ends;
mod failures;
mod kinds;
mod serving;
mod sessions;
mod shared;
mod users;
