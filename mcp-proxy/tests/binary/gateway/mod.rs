//! Tests of `mcp-proxy serve`: the test plays the clients, and shell scripts or another program the servers behind it.

mod access;
#[cfg(unix)]
mod command_line;
#[cfg(unix)]
mod ends;
mod exits;
#[cfg(unix)]
mod failures;
#[cfg(unix)]
mod kinds;
#[cfg(unix)]
mod names;
#[cfg(unix)]
mod operator;
#[cfg(unix)]
mod reload;
#[cfg(unix)]
mod reload_remote;
mod serving;
mod sessions;
#[cfg(unix)]
mod shared;
#[cfg(unix)]
mod users;
