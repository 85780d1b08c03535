//! The error of a function is no error of the standard library's trait.
//! expected: `Broken` needs to implement `std::error::Error`

use mcp_tokio::{NoArguments, Router};

struct Broken;

fn work() -> Result<i64, Broken> {
    Err(Broken)
}

fn main() {
    let _ = Router::new().tool("work", "Works.", |_: NoArguments, _| async { Ok(work()?) });
}
