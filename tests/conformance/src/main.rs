//! A server that offers what the official conformance suite asks for, up to revision 2025-11-25.
//!
//! Usage: `everything-server [ADDRESS]`. The first line that it writes is its URL.

mod prompts;
mod resources;
mod samples;
mod tools;

use std::io::{self, Write};
use std::time::Duration;

use mcp_blocking::{Incoming, Server};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, code};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What every request is answered with.
type Answer = Result<Value, ErrorObject>;

fn main() -> io::Result<()> {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut config = Config::new("everything-server", env!("CARGO_PKG_VERSION"));
    config.capabilities = Json::from_serialize(&capabilities())?;
    let mut http = HttpConfig::new();
    // Clients come back for what they have missed, and shall do so quickly.
    http.retry = Some(Duration::from_millis(500));
    let server = Server::bind_with(address, config, http)?;
    writeln!(io::stdout(), "http://localhost:{}/mcp", server.address().port())?;
    server.run(serve)
}

fn capabilities() -> Value {
    json!({ "completions": {}, "logging": {}, "prompts": {}, "resources": { "subscribe": true }, "tools": {} })
}

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    let answer = match incoming.method().as_str() {
        "tools/list" => Ok(tools::list()),
        "tools/call" => tools::call(incoming),
        "resources/list" => Ok(resources::list()),
        "resources/templates/list" => Ok(resources::templates()),
        "resources/read" => resources::read(incoming),
        "resources/subscribe" | "resources/unsubscribe" => resources::watch(incoming),
        "prompts/list" => Ok(prompts::list()),
        "prompts/get" => prompts::get(incoming),
        "completion/complete" => Ok(json!({ "completion": { "values": [], "total": 0, "hasMore": false } })),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }?;
    Json::from_serialize(&answer).map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, &error.to_string()))
}

/// The parameters of a request, read as `T`.
fn params<T: DeserializeOwned>(incoming: &Incoming) -> Result<T, ErrorObject> {
    let params = incoming.params().ok_or_else(|| invalid("there are no parameters"))?;
    params.read().map_err(|error| invalid(&error.to_string()))
}

fn invalid(reason: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, reason)
}
