//! Three tools, a resource and a prompt, over stdio or HTTP with authentication:
//! `cargo run -p mcp-blocking --example blocking_tool_server -- 127.0.0.1:3000`

use std::net::TcpListener;
use std::thread::sleep;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use mcp_blocking::application::router::{HandlerError, NoArguments, Structured};
use mcp_blocking::application::{Elicited, Inputs};
use mcp_blocking::model::Resource;
use mcp_blocking::proto::auth::Challenge;
use mcp_blocking::proto::server::{Config, HttpConfig, Principal, Progress};
use mcp_blocking::{Incoming, Router, Server};
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

fn add(Add { a, b }: Add, _: &Incoming) -> Result<Structured<Sum>, HandlerError> {
    Ok(Structured(Sum { sum: a.checked_add(b).ok_or("the sum is too large")? }))
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// Up to which number
    to: u32,
}

fn count(Count { to }: Count, incoming: &Incoming) -> Result<String, HandlerError> {
    for number in 1..=to {
        if incoming.is_cancelled() {
            return Err("the call was cancelled".into());
        }
        sleep(Duration::from_millis(100));
        incoming.progress(Progress::new(number.into()).total(to.into()));
    }
    Ok(format!("counted to {to}"))
}

#[derive(Deserialize, JsonSchema)]
struct Guest {
    /// Your name
    name: String,
}

/// The client's user fills in a form, with any revision.
fn greet(_: NoArguments, incoming: &Incoming) -> Result<String, HandlerError> {
    let mut inputs = Inputs::new(incoming)?;
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
        .tool("add", "Adds two numbers.", add)
        .tool("count", "Counts slowly.", count)
        .tool("greet", "Greets the user.", greet)
        .resource(&Resource::new("note:///welcome", "welcome").mime_type("text/plain"), |_| Ok("Welcome!"))
        .prompt("review", "Reviews a note.", |note: Note, _| Ok(format!("Review {}.", note.name)))
        .complete_prompt("review", "name", |_, _| Ok(vec!["welcome"]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new(Config::new("my-tools", "1.0.0"), router());
    let Some(address) = std::env::args().nth(1) else {
        server.serve_stdio()?;
        return Ok(());
    };
    let service = server.http(HttpConfig::new())?.authenticate(|head| {
        match head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes) {
            Some(b"Bearer the-token-of-ada") => Ok(Principal::new("ada")),
            _ => Err(Challenge::bearer()),
        }
    });
    service.serve(TcpListener::bind(address)?)?;
    Ok(())
}
