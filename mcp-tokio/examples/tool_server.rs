//! Three tools, a resource, a template and a prompt, over stdio or in a router of axum with authentication:
//! `cargo run -p mcp-tokio --example tool_server -- 127.0.0.1:3000`

use std::future::ready;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use mcp_tokio::application::router::{HandlerError, NoArguments, Structured};
use mcp_tokio::application::{Elicited, Inputs};
use mcp_tokio::model::{Resource, ResourceTemplate};
use mcp_tokio::proto::auth::Challenge;
use mcp_tokio::proto::server::{Config, HttpConfig, Principal, Progress};
use mcp_tokio::{Incoming, Router, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

async fn add(Add { a, b }: Add, _: Incoming) -> Result<Structured<Sum>, HandlerError> {
    Ok(Structured(Sum { sum: a.checked_add(b).ok_or("the sum is too large")? }))
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// Up to which number
    to: u32,
}

/// If the client cancels the request, this is dropped at an `await`.
async fn count(Count { to }: Count, incoming: Incoming) -> Result<String, HandlerError> {
    for number in 1..=to {
        tokio::time::sleep(Duration::from_millis(100)).await;
        incoming.progress(Progress::new(number.into()).total(to.into())).await;
    }
    Ok(format!("counted to {to}"))
}

#[derive(Deserialize, JsonSchema)]
struct Guest {
    /// Your name
    name: String,
}

/// The client's user fills in a form, with any revision.
async fn greet(_: NoArguments, incoming: Incoming) -> Result<String, HandlerError> {
    let mut inputs = Inputs::new(&incoming)?;
    match inputs.elicit_as::<Guest>("guest", "Who are you?")? {
        Some(Elicited::Accepted(Guest { name })) => Ok(format!("Hello, {name}!")),
        Some(Elicited::Declined | Elicited::Cancelled) => Ok("Hello, stranger!".into()),
        None => Err(inputs.required()),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    name: String,
}

fn router() -> Router {
    Router::new()
        .tool_with("add", |tool| tool.title("Sum").description("Adds two numbers."), add)
        .tool("count", "Counts slowly.", count)
        .tool("greet", "Greets the user.", greet)
        .resource(&Resource::new("note:///welcome", "welcome").mime_type("text/plain"), |_| async { Ok("Welcome!") })
        .resource_template(&ResourceTemplate::new("note:///{name}", "notes"), |note: Note, _| async move {
            Ok(format!("The note {}.", note.name))
        })
        .prompt("review", "Reviews a note.", |note: Note, _| async move { Ok(format!("Review {}.", note.name)) })
        .complete_prompt("review", "name", |_, _| async { Ok(vec!["welcome"]) })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new(Config::new("my-tools", "1.0.0"), router());
    let Some(address) = std::env::args().nth(1) else {
        server.serve_stdio().await?;
        return Ok(());
    };
    let service = server.http(HttpConfig::new())?.authenticate(|head| {
        ready(match head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes) {
            Some(b"Bearer the-token-of-ada") => Ok(Principal::new("ada")),
            _ => Err(Challenge::bearer()),
        })
    });
    let app = axum::Router::new().route_service("/mcp", service);
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, app).await?)
}
