//! The type of a tool's arguments has no schema.
//! expected: the trait bound `Sum: schemars::JsonSchema` is not satisfied

use mcp_tokio::Router;

#[derive(serde::Deserialize)]
struct Sum {
    a: i64,
    b: i64,
}

fn main() {
    let _ = Router::new().tool("sum", "Adds.", |sum: Sum, _| async move { Ok(sum.a + sum.b) });
}
