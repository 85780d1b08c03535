//! Tests of `mcp-proxy serve`: the test plays the clients, and shell scripts the servers behind it.

#![cfg(unix)]

mod access;
mod command_line;
mod ended_servers;
mod ends;
mod failures;
mod kinds;
mod library;
mod serving;
mod sessions;
mod shared;
mod starting;
mod users;
