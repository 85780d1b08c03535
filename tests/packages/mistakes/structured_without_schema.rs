//! The type of a structured result has no schema.
//! expected: the trait bound `Place: schemars::JsonSchema` is not satisfied

use mcp_tokio::{NoArguments, Router, Structured};

#[derive(serde::Serialize)]
struct Place {
    city: String,
}

fn main() {
    let _ = Router::new()
        .tool("place", "A place.", |_: NoArguments, _| async { Ok(Structured(Place { city: "Paris".to_owned() })) });
}
