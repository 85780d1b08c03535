//! A client over HTTP/1.1 on blocking sockets of the standard library, without a runtime or an HTTP library. It lists the
//! tools of a server and calls one of them:
//! `cargo run -p mcp-proto --example std_http_client -- http://127.0.0.1:3000/mcp hello`
//!
//! One thread runs the machine. Each exchange has a thread and a connection of its own, because a stream of the server
//! may be open while other requests are made. `docs/drivers.md` of the repository has what a driver for production adds.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is a driver, not the core")]
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod http1;

use std::collections::BTreeMap;
use std::io::{self, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use mcp_application::Error;
use mcp_model::{CallToolRequestParams, CallToolResult, ListToolsResult, Payload};
use mcp_proto::Output;
use mcp_proto::client::{Call, Client, Config, Event, Failure, Http, HttpAction, HttpConfig};
use mcp_proto::machine::{HandleResponses, Received};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (arguments.next(), arguments.next()) else { return Err("usage: URL TOOL".into()) };
    let start = Instant::now();
    let now = || mcp_proto::Instant::after_start(start.elapsed());
    let config = HttpConfig::new(&url)?;
    if config.is_https() {
        return Err("this example has no TLS: use an http URL".into());
    }
    let mut client = Client::new(Http::new(config), Config::new("my-app", "1.0.0"))?;
    client.connect(now())?;
    let list = client.request(Call::new("tools/list"), now())?;

    let (sender, receiver) = sync_channel(1);
    let mut connections = BTreeMap::new();
    loop {
        client.handle_timeout(now());
        while let Some(output) = client.poll_output() {
            match output {
                Output::Action(HttpAction::Open { exchange, request, .. }) => match connect(&request) {
                    Ok(connection) => {
                        connections.insert(exchange, Arc::clone(&connection));
                        let sender = sender.clone();
                        thread::spawn(move || {
                            // Once the machine has ended, what is received is not needed.
                            let pass_on = |received| drop(sender.send((exchange, received)));
                            let end = carry_out(&connection, &request, pass_on);
                            pass_on(end.map_err(|error| Failure::exchanging(&error)).into());
                        });
                    }
                    Err(error) => client.handle_failure(exchange, Failure::connecting(&error), now()),
                },
                Output::Action(HttpAction::Abort { exchange }) => {
                    // The thread of the exchange finds that its connection is closed.
                    let _ = connections.remove(&exchange).map(|connection| connection.shutdown(Shutdown::Both));
                }
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
                Output::Event(Event::Closed(_)) => return Ok(()),
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        let timeout = client.poll_timeout().map_or(Duration::MAX, |due| due - now());
        if let Ok((exchange, received)) = receiver.recv_timeout(timeout) {
            if received.is_last() {
                connections.remove(&exchange);
            }
            client.handle_received(exchange, received, now());
        }
    }
}

fn connect(request: &Request<Bytes>) -> io::Result<Arc<TcpStream>> {
    let uri = request.uri();
    let address = format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
    TcpStream::connect(address).map(Arc::new)
}

/// Writes the request, and passes on the parts of the response as they arrive.
fn carry_out(
    connection: &Arc<TcpStream>,
    request: &Request<Bytes>,
    pass_on: impl Fn(Received<Vec<u8>>),
) -> io::Result<()> {
    let (uri, body) = (request.uri(), request.body());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let first_line = format!("{} {path} HTTP/1.1\r\nhost: {host}", request.method());
    let head = http1::write_head(&first_line, request.headers(), (!body.is_empty()).then_some(body.len()));
    (&**connection).write_all(&[&head, &body[..]].concat())?;
    pass_on(Received::Sent);

    let mut reader = BufReader::new(&**connection);
    loop {
        let (status_line, headers) = http1::read_head(&mut reader)?;
        let mut head = Response::new(()).into_parts().0;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        head.status = status.ok_or(ErrorKind::InvalidData)?;
        head.headers.clone_from(&headers);
        if !head.status.is_informational() {
            pass_on(Received::Head(head));
            return http1::read_body(&mut reader, &headers, true, |part| {
                pass_on(Received::Body(part.to_vec()));
                // A connection that was shut down is still readable while the server writes.
                if Arc::strong_count(connection) == 1 { Err(ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
            });
        }
    }
}
