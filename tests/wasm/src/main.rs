//! Runs a client and a server machine until a request is answered, in each era, on a platform without clock, threads
//! and files.
//!
//! `tests/wasm/run` builds this for `wasm32-unknown-unknown` and runs it under Node. The exit code is the sum of the
//! answers: a program that ends early or does nothing returns another code.

use std::process::ExitCode;
use std::time::Duration;

use mcp_proto::client::{self, Call, Client, Outcome};
use mcp_proto::server::{self, Server};
use mcp_proto::{Instant, Json, Output, ProtocolVersion, Stdio, StdioAction, UsageError};

/// The answer to the one request of each connection; three connections make 42.
const ANSWER: i64 = 14;

fn main() -> ExitCode {
    let versions = [ProtocolVersion::V2024_11_05, ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST];
    let answers = versions.map(|version| answer(version).ok().flatten().unwrap_or_default());
    ExitCode::from(u8::try_from(answers.iter().sum::<i64>()).unwrap_or_default())
}

/// The number in the answer that a client of this revision receives.
fn answer(version: ProtocolVersion) -> Result<Option<i64>, UsageError> {
    let mut config = client::Config::new("wasm-client", "1.0.0");
    config.versions = vec![version];
    let mut client = Client::new(Stdio::new(), config)?;
    let capabilities = Json::empty_object().with_member("tools", &Json::empty_object());
    let config = server::Config::new("wasm-server", "1.0.0").capabilities(capabilities);
    let mut server = Server::new(Stdio::new(), config)?;

    let mut now = Instant::START;
    client.connect(now)?;
    let request = client.request(Call::new("tools/list"), now)?;
    for _ in 0..100 {
        now += Duration::from_millis(1);
        while let Some(output) = client.poll_output() {
            match output {
                Output::Action(StdioAction::Write(bytes)) => {
                    client.handle_written(bytes.len(), now);
                    server.handle_bytes(&bytes, now);
                }
                Output::Event(client::Event::Responded { request: answered, outcome }) if answered == request => {
                    let Outcome::Result(result) = outcome else { return Ok(None) };
                    return Ok(result.member("answer").ok().flatten().and_then(|answer| answer.read().ok()));
                }
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        while let Some(output) = server.poll_output() {
            match output {
                Output::Action(StdioAction::Write(bytes)) => {
                    server.handle_written(bytes.len(), now);
                    client.handle_bytes(&bytes, now);
                }
                Output::Event(server::Event::Requested { ticket, .. }) => {
                    let result = Json::empty_object().with_member("answer", &Json::from(ANSWER));
                    server.respond(ticket, Ok(result), now)?;
                }
                Output::Action(_) | Output::Event(_) => {}
            }
        }
    }
    Ok(None)
}
