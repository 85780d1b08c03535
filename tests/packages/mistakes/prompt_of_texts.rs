//! A prompt returns several texts without saying whose they are.
//! expected: is not an answer to a `GetPromptRequest`

use mcp_tokio::{NoArguments, Router};

fn main() {
    let _ = Router::new().prompt("greet", "Greets.", |_: NoArguments, _| async { Ok(vec!["hello".to_owned()]) });
}
