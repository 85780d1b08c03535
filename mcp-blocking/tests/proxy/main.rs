//! Tests of the binary `mcp-proxy`; the test plays the editor that uses it.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

#[cfg(unix)]
mod child;
mod command_line;
mod editor;
mod eras;
mod http;
#[cfg(unix)]
mod restrictions;
mod sign_in;
#[cfg(unix)]
mod unread;
