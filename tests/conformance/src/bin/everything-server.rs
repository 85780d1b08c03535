//! The server that the official conformance suite tests, in every revision.
//!
//! Usage: `everything-server blocking|tokio [ADDRESS…] [OPTION…]`. The first line that it writes is its URL. With `stdio`, it
//! uses `mcp-tokio` on stdin and stdout. With several addresses, each has a server of its own.
//!
//! Options:
//!
//! * `--sealed-key HEX`: sessions in their ids, signed with this key of 32 bytes.
//! * `--store memory|redis://ADDRESS`: sessions in a store, which all servers of the process, or all that use this Redis
//!   share.
//! * `--fault append|save|send|find`: what the store does not do ([`Fault`]).
//! * `--instance NUMBER`: what the tool `instance` answers.
//! * `--idle SECONDS`: how long a session is kept without a request.

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use conformance::faulty::{Fault, Faulty};
use conformance::server;
use mcp_proto::server::{Config, HmacKey, HttpConfig, SealedSessions, SessionMode, StateKeys, StoredSessions};
use mcp_tokio::store::{InMemory, Redis, random_instance};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).parse_default_env().init();
    let mut arguments = std::env::args().skip(1);
    let adapter = arguments.next().ok_or("usage: everything-server blocking|tokio|stdio [ADDRESS] [OPTION…]")?;
    let (mut addresses, mut store, mut fault) = (Vec::new(), None, None);
    let mut config = Config::new("everything-server", env!("CARGO_PKG_VERSION"));
    config.capabilities = server::capabilities();
    let mut http = HttpConfig::new();
    // Clients resume a stream to receive the events that they have missed; a short delay makes the suite faster.
    http.retry = Some(Duration::from_millis(500));
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            addresses.push(argument);
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--sealed-key" => {
                let keys = StateKeys::new(HmacKey::new(bytes_of(&value)?));
                http.sessions = SessionMode::Sealed(SealedSessions::new(keys));
            }
            "--store" => store = Some(value),
            "--fault" => fault = Some(value.parse()?),
            "--instance" => server::set_instance(value.parse()?),
            "--idle" => http.session_idle = Duration::from_secs(value.parse()?),
            _ => return Err(format!("there is no option {argument}").into()),
        }
    }
    if addresses.is_empty() {
        addresses.push("127.0.0.1:0".to_owned());
    }
    match adapter.as_str() {
        "blocking" => {
            let listener = std::net::TcpListener::bind(addresses.remove(0))?;
            show(listener.local_addr()?.port())?;
            mcp_blocking::Server::new(config, server::blocking()).http(http)?.serve(listener)?;
            Ok(())
        }
        "tokio" => serve(&addresses, &config, &http, store.as_deref(), fault),
        "stdio" => serve_stdio(config),
        _ => Err(format!("there is no adapter '{adapter}'").into()),
    }
}

/// The key that these hexadecimal digits state.
fn bytes_of(digits: &str) -> Result<[u8; 32], Box<dyn Error>> {
    let pairs =
        digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair)?, 16).map_err(Into::into));
    let bytes = pairs.collect::<Result<Vec<u8>, Box<dyn Error>>>()?;
    bytes.try_into().map_err(|_| "a key has 64 hexadecimal digits".into())
}

#[tokio::main]
async fn serve(
    addresses: &[String],
    config: &Config,
    http: &HttpConfig,
    store: Option<&str>,
    fault: Option<Fault>,
) -> Result<(), Box<dyn Error>> {
    let server = || mcp_tokio::Server::new(config.clone(), server::tokio());
    let memory = InMemory::new();
    let mut servers = JoinSet::new();
    for address in addresses {
        let mut http = http.clone();
        if store.is_some() {
            http.sessions = SessionMode::Stored(StoredSessions::new(random_instance()?));
        }
        let server = match store {
            None => server(),
            Some("memory") => server().store(Faulty::new(memory.clone(), fault)),
            Some(url) => server().store(Faulty::new(Redis::open(url)?, fault)),
        };
        let listener = TcpListener::bind(address).await?;
        show(listener.local_addr()?.port())?;
        let service = server.http(http)?;
        servers.spawn(async move { service.serve(listener).await });
    }
    while let Some(ended) = servers.join_next().await {
        ended??;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn serve_stdio(config: Config) -> Result<(), Box<dyn Error>> {
    mcp_tokio::Server::new(config, server::tokio()).serve_stdio().await?;
    Ok(())
}

fn show(port: u16) -> io::Result<()> {
    writeln!(io::stdout(), "http://localhost:{port}/mcp")
}
