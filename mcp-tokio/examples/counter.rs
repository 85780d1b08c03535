//! A counter: tools that share a state, a resource, and a prompt:
//! `cargo run -p mcp-tokio --features schema --example counter`

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mcp_tokio::model::Resource;
use mcp_tokio::proto::server::Config;
use mcp_tokio::{NoArguments, Router, Server};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// The left summand
    a: i64,
    /// The right summand
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Example {
    /// A text that becomes part of the message
    message: String,
}

fn router() -> Router {
    Router::new()
        .with_state(Arc::new(AtomicI64::new(0)), |router| {
            router
                .tool("increment", "Increments the counter by 1.", |counter, _: NoArguments, _| async move {
                    Ok(counter.fetch_add(1, Ordering::Relaxed) + 1)
                })
                .tool("decrement", "Decrements the counter by 1.", |counter, _: NoArguments, _| async move {
                    Ok(counter.fetch_sub(1, Ordering::Relaxed) - 1)
                })
                .tool("get_value", "Returns the value of the counter.", |counter, _: NoArguments, _| async move {
                    Ok(counter.load(Ordering::Relaxed))
                })
        })
        .tool("say_hello", "Says hello to the client.", |_: NoArguments, _| async { Ok("Hello!") })
        .tool("echo", "Repeats a message.", |example: Example, _| async move { Ok(example.message) })
        .tool("sum", "Adds two numbers.", |Sum { a, b }: Sum, _| async move {
            Ok(a.checked_add(b).ok_or("the sum is too large")?)
        })
        .resource(&Resource::new("str:////Users/to/some/path/", "cwd"), |_| async { Ok("/Users/to/some/path/") })
        .resource(&Resource::new("memo://insights", "memo-name"), |_| async { Ok("Business intelligence memo") })
        .prompt("example_prompt", "A prompt with one argument.", |Example { message }: Example, _| async move {
            Ok(format!("This is an example prompt with your message here: '{message}'"))
        })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Server::new(Config::new("counter", "1.0.0"), router()).serve_stdio().await?;
    Ok(())
}
