//! Tests of the binary `mcp-proxy`; the test plays the editor that uses it.

#[cfg(unix)]
mod child;
mod command_line;
mod eras;
mod http;
mod programs;
mod restrictions;
mod sign_in;
mod tls;
#[cfg(unix)]
mod unread;
#[cfg(windows)]
mod windows;
