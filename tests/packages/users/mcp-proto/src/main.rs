//! A client and a server machine that are joined without any I/O.

use mcp_proto::client::{self, Call, Client, Outcome};
use mcp_proto::model::{CallToolRequestParams, CallToolResult, Payload, ServerCapabilities, ToolsCapability};
use mcp_proto::server::{self, Server};
use mcp_proto::{Instant, Output, Stdio, StdioAction};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let now = Instant::START;
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let config = server::Config::new("my-tools", "1.0.0").with_capabilities(capabilities);
    let mut server = Server::new(Stdio::new(), config)?;
    let mut client = Client::new(Stdio::new(), client::Config::new("my-app", "1.0.0"))?;
    client.connect(now)?;
    client.request(Call::new("tools/call").params(CallToolRequestParams::new("hello")), now)?;

    let mut answer = None;
    for _ in 0..10 {
        while let Some(output) = client.poll_output() {
            match output {
                Output::Action(StdioAction::Write(bytes)) => server.handle_bytes(&bytes, now),
                Output::Event(client::Event::Responded { outcome, .. }) => answer = Some(outcome),
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        while let Some(output) = server.poll_output() {
            match output {
                Output::Action(StdioAction::Write(bytes)) => client.handle_bytes(&bytes, now),
                Output::Event(server::Event::Requested { ticket, .. }) => {
                    server.respond(ticket, Ok(CallToolResult::text("Hello!").into()), now)?;
                }
                Output::Action(_) | Output::Event(_) => {}
            }
        }
    }
    let Some(Outcome::Result(result)) = answer else { return Err("there is no result".into()) };
    assert_eq!(CallToolResult::from_json(&result)?.content[0].as_text(), Some("Hello!"));
    Ok(())
}
