//! A function of `mcp-tokio` returns its result instead of a future.
//! expected: is not a future

use mcp_tokio::{NoArguments, Router};

fn main() {
    let _ = Router::new().tool("hello", "Says hello.", |_: NoArguments, _| Ok("hello"));
}
