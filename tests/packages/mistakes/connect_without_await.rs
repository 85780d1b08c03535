//! A client is used before it is connected.
//! expected: consider `await`ing on the `Future`

use mcp_tokio::Client;

async fn list() -> Result<(), mcp_tokio::Error> {
    let client = Client::builder().http("http://127.0.0.1:3000/mcp")?.connect()?;
    client.list_tools(None).await?;
    Ok(())
}

fn main() {
    let _ = list();
}
