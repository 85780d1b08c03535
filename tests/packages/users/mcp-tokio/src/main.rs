//! A client that calls the tool of a server, both on this machine.

use mcp_proto::server::{Config, HttpConfig};
use mcp_tokio::{Client, Incoming, Router, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Greeting {
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let router = Router::new().tool("hello", "Greets a person.", |greeting: Greeting, _: Incoming| async move {
        Ok(format!("Hello, {}!", greeting.name))
    });
    let server = Server::new(Config::new("my-tools", "1.0.0"), router);
    let service = server.http(HttpConfig::new())?;
    tokio::spawn(async move { service.serve(listener).await });

    let client = Client::builder().name("my-app", "1.0.0").http(&url)?.connect().await?;
    let called = client.call_tool("hello", Greeting { name: "Ada".to_owned() }).await?;
    assert_eq!(called.content[0].as_text(), Some("Hello, Ada!"));
    client.close().await;
    Ok(())
}
