//! A server on stdin and stdout, on the standard library alone: `cargo run -p mcp-proto --example std_stdio_server`
//!
//! One thread reads, answers and writes. `docs/drivers.md` of the repository has what a driver for production adds.

#![allow(clippy::disallowed_methods, reason = "this is a driver, not the core")]

use std::io::{self, BufRead, Write};
use std::time::Instant;

use mcp_model::{
    CallToolRequest, CallToolResult, ListToolsResult, RequestMethod, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_proto::server::{Config, Event, Server};
use mcp_proto::{ErrorObject, Json, Method, Output, Stdio, StdioAction};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let now = || mcp_proto::Instant::after_start(start.elapsed());
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let mut server = Server::new(Stdio::new(), Config::new("my-tools", "1.0.0").capabilities(capabilities))?;
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    loop {
        while let Some(output) = server.poll_output() {
            match output {
                Output::Action(StdioAction::Write(bytes)) => {
                    stdout.write_all(&bytes)?;
                    server.handle_written(bytes.len(), now());
                }
                Output::Action(StdioAction::CloseWrite) => return Ok(()),
                Output::Event(Event::Requested { ticket, method, params }) => {
                    server.respond(ticket, serve(&method, params.as_ref()), now())?;
                }
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        stdout.flush()?;
        // Only requests to the client and unanswered requests have deadlines, and there is neither: this may block.
        let bytes = stdin.fill_buf()?;
        let length = bytes.len();
        match length {
            0 => server.handle_eof(now()),
            _ => server.handle_bytes(bytes, now()),
        }
        stdin.consume(length);
    }
}

fn serve(method: &Method, params: Option<&Json>) -> Result<Json, ErrorObject> {
    match method.as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" if CallToolRequest::params(params)?.name == "hello" => Ok(CallToolResult::text("Hello!").into()),
        "tools/call" => Err(ErrorObject::invalid_params("unknown tool")),
        _ => Err(ErrorObject::method_not_found(method)),
    }
}
