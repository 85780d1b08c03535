//! A tool returns a value of a type of the application, without `Structured`.
//! expected: a tool whose result is a value of your own returns `Structured(value)`

use mcp_tokio::{NoArguments, Router};

#[derive(serde::Serialize)]
struct Place {
    city: String,
}

fn main() {
    let _ =
        Router::new().tool("place", "A place.", |_: NoArguments, _| async { Ok(Place { city: "Paris".to_owned() }) });
}
