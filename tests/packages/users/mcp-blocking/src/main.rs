//! A client that calls the tool of a server, both on this machine.

use std::net::TcpListener;
use std::thread;

use mcp_blocking::{Client, Incoming, Router, Server};
use mcp_proto::server::{Config, HttpConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Greeting {
    name: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let router = Router::new()
        .tool("hello", "Greets a person.", |greeting: Greeting, _: &Incoming| Ok(format!("Hello, {}!", greeting.name)));
    let service = Server::new(Config::new("my-tools", "1.0.0"), router).http(HttpConfig::new())?;
    thread::spawn(move || service.serve(listener));

    let client = Client::builder().name("my-app", "1.0.0").http(&url)?.connect()?;
    let called = client.call_tool("hello", Greeting { name: "Ada".to_owned() })?;
    assert_eq!(called.content[0].as_text(), Some("Hello, Ada!"));
    Ok(())
}
