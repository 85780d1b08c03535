//! A function of `mcp-blocking` returns a future.
//! expected: expected `Result<_, HandlerError>`, found

use mcp_blocking::{NoArguments, Router};

fn main() {
    let _ = Router::new().tool("hello", "Says hello.", |_: NoArguments, _| async { Ok("hello") });
}
