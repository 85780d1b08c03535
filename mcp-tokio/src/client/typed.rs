//! Calls with typed parameters and results.

use super::{Client, ListItems};

impl Client {
    mcp_application::typed_calls! {
        asynchronous: [async] [.await],
        example: "# async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
    let weather = client.call_tool(\"weather\", Place { city: \"Paris\" }).await?;"
    }
}
