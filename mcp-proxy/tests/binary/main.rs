//! Tests of the binary, as one program, so that tests that wait run beside others.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

mod editor;
mod gateway;
mod proxy;
mod shared;

#[path = "../../../mcp-blocking/tests/driver/authority.rs"]
#[expect(dead_code, reason = "a part of it is used")]
mod authority;
#[path = "../../../mcp-blocking/tests/driver/running.rs"]
#[cfg(unix)]
mod running;
