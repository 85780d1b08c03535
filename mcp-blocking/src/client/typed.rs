//! Calls with typed parameters and results.

use super::{Client, ListItems};

impl Client {
    mcp_application::typed_calls! {
        asynchronous: [] [],
        example: "# fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
    let weather = client.call_tool(\"weather\", Place { city: \"Paris\" })?;"
    }
}
