//! The binary `mcp-proxy`, with the test as the editor in front of it.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

#[cfg(unix)]
mod child;
mod command_line;
mod editor;
mod eras;
mod http;
#[cfg(unix)]
mod unread;
