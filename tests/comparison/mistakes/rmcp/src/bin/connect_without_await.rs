//! A client is used before it is connected.

use rmcp::ServiceExt;
use rmcp::transport::StreamableHttpClientTransport;

async fn list() -> Result<(), Box<dyn std::error::Error>> {
    let client = ().serve(StreamableHttpClientTransport::from_uri("http://127.0.0.1:3000/mcp"))?;
    client.list_tools(None).await?;
    Ok(())
}

fn main() {
    let _ = list();
}
