//! Servers and clients whose files and functions `run` counts.
//!
//! `walk-bench server memory|stored` serves over HTTP and prints its URL. `walk-bench client URL` and `walk-bench
//! machine` make a call of a tool for each line that they read, and print a line when it is answered.

#![expect(clippy::print_stdout, reason = "`run` reads it")]

use std::error::Error;
use std::io::stdin;

use http::Response;
use mcp_proto::client::{self, Call, Client, ExchangeKey, Http, HttpAction, HttpConfig};
use mcp_proto::server::{Config, HttpConfig as ServerConfig, SessionMode, StoredSessions};
use mcp_proto::{ErrorObject, Instant, Json, Method, Output, ProtocolVersion};
use mcp_tokio::store::{InMemory, random_instance};
use mcp_tokio::{Incoming, Server};
use tokio::net::TcpListener;

const RESULT: &str = r#"{"content":[]}"#;
const PARAMS: &str = r#"{"name":"t","arguments":{}}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next().as_deref()) {
        (Some("server"), Some("memory")) => serve(false),
        (Some("server"), Some("stored")) => serve(true),
        (Some("client"), Some(url)) => call_with_driver(url),
        (Some("machine"), None) => call_with_machine(),
        _ => Err("usage: walk-bench server memory|stored, walk-bench client URL, or walk-bench machine".into()),
    }
}

/// Serves with `mcp-tokio`, on one thread.
#[tokio::main(flavor = "current_thread")]
async fn serve(is_stored: bool) -> Result<(), Box<dyn Error>> {
    let mut config = Config::new("walk", "1");
    config.capabilities = Json::parse(r#"{"tools":{}}"#)?;
    let answer = async |_: Incoming| Json::parse(RESULT).map_err(|_| ErrorObject::invalid_params("no result"));
    let server = Server::new(config, answer);
    let mut http = ServerConfig::new();
    let service = if is_stored {
        http.sessions = SessionMode::Stored(StoredSessions::new(random_instance()?));
        server.store(InMemory::new()).http(http)?
    } else {
        server.http(http)?
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    service.serve(listener).await?;
    Ok(())
}

/// Calls with `mcp-blocking`.
fn call_with_driver(url: &str) -> Result<(), Box<dyn Error>> {
    let client = mcp_blocking::Client::builder().versions([ProtocolVersion::LATEST_LEGACY]).http(url)?.connect()?;
    let params = Json::parse(PARAMS)?;
    for line in stdin().lines() {
        line?;
        println!("{:?}", client.request(Method::TOOLS_CALL, Some(params.clone()))?);
    }
    Ok(())
}

/// Calls with the machine of a client and the smallest loop that drives it. The server is in this file.
fn call_with_machine() -> Result<(), Box<dyn Error>> {
    let mut config = client::Config::new("walk", "1");
    config.versions = vec![ProtocolVersion::LATEST_LEGACY];
    let mut client = Client::new(Http::new(HttpConfig::new("http://localhost/mcp")?), config)?;
    client.connect(Instant::START)?;
    drive(&mut client);
    let params = Json::parse(PARAMS)?;
    for line in stdin().lines() {
        line?;
        client.request(Call::new(Method::TOOLS_CALL).params(params.clone()), Instant::START)?;
        let answers = drive(&mut client);
        println!("{answers}");
    }
    Ok(())
}

/// Answers all that the client sends, and returns how many of its requests have ended.
fn drive(client: &mut Client<Http>) -> usize {
    let mut responses = 0;
    loop {
        let mut opened = Vec::new();
        while let Some(output) = client.poll_output() {
            match output {
                Output::Action(HttpAction::Open { exchange, request, .. }) => opened.push((exchange, request)),
                Output::Event(client::Event::Responded { .. }) => responses += 1,
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        let _ = client.poll_timeout();
        if opened.is_empty() {
            return responses;
        }
        for (exchange, request) in opened {
            respond(client, exchange, request.body());
        }
    }
}

fn respond(client: &mut Client<Http>, exchange: ExchangeKey, body: &[u8]) {
    let now = Instant::START;
    let body = String::from_utf8_lossy(body);
    let id = body.split_once("\"id\":").and_then(|(_, rest)| rest.split([',', '}']).next());
    let result = if body.contains("\"initialize\"") {
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#
    } else {
        RESULT
    };
    let status = if id.is_some() { 200 } else { 202 };
    let response = Response::builder().status(status).header("content-type", "text/event-stream");
    let Ok(response) = response.header("mcp-session-id", "s").body(()) else { return };
    client.handle_response(exchange, &response.into_parts().0, now);
    if let Some(id) = id {
        let event = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n");
        client.handle_body(exchange, event.as_bytes(), now);
    }
    client.handle_end(exchange, now);
}
