//! A client over HTTP on the runtime `smol`, with `hyper`. It lists the tools of a server and calls one of them:
//! `cargo run -p driver-examples --bin smol_client -- http://127.0.0.1:3000/mcp hello`
//!
//! Each exchange is a task, which ends when it is dropped. `docs/drivers.md` of the repository has what a driver for
//! production adds.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use mcp_application::Error;
use mcp_model::{CallToolRequestParams, CallToolResult, ListToolsResult, Payload};
use mcp_proto::Output;
use mcp_proto::client::{Call, Client, Config, Event, ExchangeKey, Failure, Http, HttpAction, HttpConfig};
use mcp_proto::machine::{HandleResponses, Received};
use smol::channel::{Sender, bounded};
use smol::net::TcpStream;
use smol::{Timer, future};
use smol_hyper::rt::FuturesIo;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (arguments.next(), arguments.next()) else { return Err("usage: URL TOOL".into()) };
    smol::block_on(call(&url, &tool))
}

async fn call(url: &str, tool: &str) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let now = || mcp_proto::Instant::after_start(start.elapsed());
    let config = HttpConfig::new(url)?;
    if config.is_https() {
        return Err("this example has no TLS: use an http URL".into());
    }
    let mut client = Client::new(Http::new(config), Config::new("my-app", "1.0.0"))?;
    client.connect(now())?;
    let list = client.request(Call::new("tools/list"), now())?;

    let (sender, receiver) = bounded(1);
    let mut exchanges = BTreeMap::new();
    loop {
        client.handle_timeout(now());
        while let Some(output) = client.poll_output() {
            match output {
                Output::Action(HttpAction::Open { exchange, request, .. }) => {
                    exchanges.insert(exchange, smol::spawn(carry_out(exchange, request, sender.clone())));
                }
                Output::Action(HttpAction::Abort { exchange }) => drop(exchanges.remove(&exchange)),
                Output::Event(Event::Connected { version, .. }) => println!("revision {version}"),
                Output::Event(Event::Responded { request, outcome }) => {
                    let result = Error::result_of(outcome, &client.peer())?;
                    if request == list {
                        for tool in ListToolsResult::from_json(&result)?.tools {
                            println!("{}: {}", tool.name, tool.description.unwrap_or_default());
                        }
                        client.request(Call::new("tools/call").params(CallToolRequestParams::new(tool)), now())?;
                    } else {
                        let called = CallToolResult::from_json(&result)?;
                        for text in called.content.iter().filter_map(|content| content.as_text()) {
                            println!("{text}");
                        }
                        client.close(now());
                    }
                }
                Output::Event(Event::Closed(_)) => return Ok(()),
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        let timeout = async {
            match client.poll_timeout() {
                Some(due) => drop(Timer::after(due - now()).await),
                None => future::pending().await,
            }
            None
        };
        if let Some((exchange, received)) = future::or(async { receiver.recv().await.ok() }, timeout).await {
            if Received::is_last(&received) {
                exchanges.remove(&exchange);
            }
            client.handle_received(exchange, received, now());
        }
    }
}

/// Performs an exchange, and passes on what it receives.
async fn carry_out(exchange: ExchangeKey, request: Request<Bytes>, sender: Sender<(ExchangeKey, Received<Bytes>)>) {
    let end = receive(request, |received| sender.send((exchange, received))).await;
    // Once the machine has ended, what is received is not needed.
    let _ = sender.send((exchange, end.into())).await;
}

/// Sends a request on a new connection, and passes on the parts of the response as they arrive.
async fn receive<F: Future>(
    mut request: Request<Bytes>,
    pass_on: impl Fn(Received<Bytes>) -> F,
) -> Result<(), Failure> {
    let uri = std::mem::take(request.uri_mut());
    let (Some(authority), Some(path)) = (uri.authority(), uri.path_and_query()) else {
        return Err(Failure::not_sendable());
    };
    let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Failure::not_sendable())?;
    request.headers_mut().insert(HOST, host);
    *request.uri_mut() = Uri::from(path.clone());

    let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
    let socket = TcpStream::connect(address).await.map_err(|error| Failure::connecting(&error))?;
    let broken = |error: hyper::Error| Failure::Broken { detail: error.to_string().into() };
    let (mut connection, driving) = http1::handshake(FuturesIo::new(socket)).await.map_err(broken)?;
    let _driving = smol::spawn(driving);
    let response = connection.send_request(request.map(Full::new)).await.map_err(broken)?;
    let (head, mut body) = response.into_parts();
    pass_on(Received::Head(head)).await;
    while let Some(frame) = body.frame().await {
        if let Ok(part) = frame.map_err(broken)?.into_data() {
            pass_on(Received::Body(part)).await;
        }
    }
    Ok(())
}
