//! The type of a tool's arguments cannot be read.
//! expected: the trait bound `Sum: serde::de::DeserializeOwned` is not satisfied

use mcp_tokio::Router;

#[derive(schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

fn main() {
    let _ = Router::new().tool("sum", "Adds.", |sum: Sum, _| async move { Ok(sum.a + sum.b) });
}
