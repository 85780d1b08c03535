//! A driver of [`mcp-proto`](https://crates.io/crates/mcp-proto) for the tokio runtime.
//!
//! There is nothing in it yet: the name is kept for the driver that will stand beside `mcp-blocking`. Until then, drive
//! the machines of `mcp-proto` from your own tasks; its documentation shows the loop.
