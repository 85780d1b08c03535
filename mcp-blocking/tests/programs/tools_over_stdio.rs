//! The tests' tools over stdio, without a driver crate: a loop around the machine is enough for one thing at a time.
//!
//! Usage: `tools_over_stdio [--ends-when-probed] REVISION…`. Calls that wait and calls that are cancelled are reported on
//! stderr.

use std::io::{self, Read, Write};

use mcp_proto::server::{Event, Server};
use mcp_proto::{Instant, Output, ProtocolVersion, Stdio, StdioAction};
use tests::tools::{self, Served};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let ends_when_probed = arguments.iter().any(|argument| argument == "--ends-when-probed");
    let versions: Vec<_> = arguments.iter().filter_map(|name| ProtocolVersion::from_text(name)).collect();
    let mut server = Server::new(Stdio::new(), tools::config(&versions))?;
    let (mut input, mut buffer) = (io::stdin().lock(), vec![0; 64 * 1024]);
    loop {
        let length = input.read(&mut buffer)?;
        let bytes = buffer.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        if ends_when_probed && bytes.windows(15).any(|text| text == b"server/discover") {
            return Err("what is server/discover?".into());
        }
        server.handle_bytes(bytes, Instant::START);
        act(&mut server)?;
    }
}

fn act(server: &mut Server<Stdio>) -> Result<(), Box<dyn std::error::Error>> {
    let mut output = io::stdout().lock();
    while let Some(next) = server.poll_output() {
        match next {
            Output::Action(StdioAction::Write(bytes)) => {
                output.write_all(&bytes)?;
                server.handle_written(bytes.len(), Instant::START);
            }
            Output::Event(Event::Requested { ticket, method, params }) => {
                let now = Instant::START;
                match tools::serve(&method, params.as_ref()) {
                    Served::Answered(answer) => server.respond(ticket, answer, now)?,
                    Served::Counted(result) => {
                        for step in 1..=tools::STEPS {
                            server.progress(&ticket, &tools::step(step), now);
                        }
                        server.respond(ticket, Ok(result), now)?;
                    }
                    Served::Waits => writeln!(io::stderr(), "a call waits")?,
                }
            }
            Output::Event(Event::Cancelled { .. }) => writeln!(io::stderr(), "a call was cancelled")?,
            Output::Action(_) | Output::Event(_) => {}
        }
    }
    Ok(output.flush()?)
}
