//! A client of a server that it starts as a child process, on the standard library alone. It lists the tools and calls
//! one of them: `cargo run -p mcp-proto --example std_stdio_client -- hello target/debug/examples/std_stdio_server`
//!
//! One thread runs the machine and writes, another one reads. `docs/drivers.md` of the repository has what a driver for
//! production adds.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is a driver, not the core")]
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::{Read, Write};
use std::process::{self, ChildStdout, Command};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_application::Error;
use mcp_model::{CallToolRequestParams, CallToolResult, ListToolsResult, Payload};
use mcp_proto::client::{Call, Client, Config, Event};
use mcp_proto::{Output, Stdio, StdioAction};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(tool), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err("usage: TOOL PROGRAM ARGUMENT…".into());
    };
    let start = Instant::now();
    let now = || mcp_proto::Instant::after_start(start.elapsed());
    let mut client = Client::new(Stdio::new(), Config::new("my-app", "1.0.0"))?;
    client.connect(now())?;
    let list = client.request(Call::new("tools/list"), now())?;

    let piped = process::Stdio::piped;
    let mut server = Command::new(program).args(arguments).stdin(piped()).stdout(piped()).spawn()?;
    let (mut stdin, stdout) = (server.stdin.take(), server.stdout.take());
    let (sender, parts) = sync_channel(1);
    thread::spawn(move || stdout.map(|stdout| read(stdout, &sender)));
    loop {
        client.handle_timeout(now());
        while let Some(output) = client.poll_output() {
            match output {
                Output::Action(StdioAction::Write(bytes)) => {
                    // If the server has ended, its stdout ends too, which the other thread finds.
                    let _ = stdin.as_mut().map(|stdin| stdin.write_all(&bytes));
                    client.handle_written(bytes.len(), now());
                }
                Output::Action(StdioAction::CloseWrite) => stdin = None,
                Output::Event(Event::Connected { version, .. }) => println!("revision {version}"),
                Output::Event(Event::Responded { request, outcome }) => {
                    let result = Error::result_of(outcome, &client.peer())?;
                    if request == list {
                        for tool in ListToolsResult::from_json(&result)?.tools {
                            println!("{}: {}", tool.name, tool.description.unwrap_or_default());
                        }
                        client.request(Call::new("tools/call").params(CallToolRequestParams::new(&*tool)), now())?;
                    } else {
                        let called = CallToolResult::from_json(&result)?;
                        for text in called.content.iter().filter_map(|content| content.as_text()) {
                            println!("{text}");
                        }
                        client.close(now());
                    }
                }
                Output::Event(Event::Closed(_)) => {
                    server.wait()?;
                    return Ok(());
                }
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        match parts.recv_timeout(client.poll_timeout().map_or(Duration::MAX, |due| due - now())) {
            Ok(bytes) if bytes.is_empty() => client.handle_eof(now()),
            Ok(bytes) => client.handle_bytes(&bytes, now()),
            Err(_) => {}
        }
    }
}

/// Passes on what the server writes, and at the end an empty part.
fn read(mut stdout: ChildStdout, parts: &SyncSender<Vec<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        let length = stdout.read(&mut buffer).unwrap_or(0);
        if parts.send(buffer[..length].to_vec()).is_err() || length == 0 {
            return;
        }
    }
}
