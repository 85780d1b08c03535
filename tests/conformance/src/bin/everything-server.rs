//! A server that offers what the official conformance suite asks for, up to revision 2025-11-25.
//!
//! Usage: `everything-server [ADDRESS]`. The first line that it writes is its URL.

use std::io::{self, Write};
use std::time::Duration;

use conformance::server;
use mcp_blocking::Server;
use mcp_proto::Json;
use mcp_proto::server::{Config, HttpConfig};

fn main() -> io::Result<()> {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut config = Config::new("everything-server", env!("CARGO_PKG_VERSION"));
    config.capabilities = Json::from_serialize(&server::capabilities())?;
    let mut http = HttpConfig::new();
    // Clients come back for what they have missed, and shall do so quickly.
    http.retry = Some(Duration::from_millis(500));
    let server = Server::bind_with(address, config, http)?;
    writeln!(io::stdout(), "http://localhost:{}/mcp", server.address().port())?;
    server.run(server::serve)
}
