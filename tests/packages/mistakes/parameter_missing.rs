//! A function has one parameter.
//! expected: closure is expected to take 2 arguments, but it takes 1 argument

use mcp_tokio::{NoArguments, Router};

fn main() {
    let _ = Router::new().tool("hello", "Says hello.", |_: NoArguments| async { Ok("hello") });
}
