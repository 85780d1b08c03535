//! A server over HTTP/1.1 on blocking sockets of the standard library, without a runtime or an HTTP library, for clients
//! on this machine:
//! `cargo run -p mcp-proto --example std_http_server -- 127.0.0.1:3000`
//!
//! One thread accepts connections, another one does all the rest, for all clients: it reads a whole request, writes what
//! the machine has for it, and keeps the connections of open streams. `docs/drivers.md` of the repository has what a
//! driver for production adds.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is a driver, not the core")]

mod http1;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use mcp_application::may_accept_later;
use mcp_model::{
    CallToolRequest, CallToolResult, ListToolsResult, RequestMethod as _, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_proto::server::{Config, Event, ExchangeKey, Http, HttpAction, HttpConfig, RequestInfo, Server};
use mcp_proto::{ErrorObject, Json, Method, Output};

/// How long a client may pause while it sends a request, or while it receives a response.
const PAUSE: Option<Duration> = Some(Duration::from_secs(5));

struct Driver {
    server: Server<Http>,
    /// The connections on which a response is to be written.
    connections: BTreeMap<ExchangeKey, TcpStream>,
    start: Instant,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind(std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:3000"))?;
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let config = Config::new("my-tools", "1.0.0").capabilities(capabilities);
    let server = Server::new(Http::new(HttpConfig::new()), config)?;
    let mut driver = Driver { server, connections: BTreeMap::new(), start: Instant::now() };

    let (sender, accepted) = sync_channel(1);
    thread::spawn(move || {
        for accepted in listener.incoming() {
            match accepted {
                Ok(connection) => drop(sender.send(connection)),
                Err(error) if may_accept_later(&error) => thread::sleep(Duration::from_millis(100)),
                Err(_) => return,
            }
        }
    });
    loop {
        let timeout = driver.server.poll_timeout().map_or(Duration::MAX, |due| due - driver.now());
        match accepted.recv_timeout(timeout) {
            Ok(connection) => driver.receive(connection)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("no more connections can be accepted".into()),
        }
        driver.server.handle_timeout(driver.now());
        driver.carry_out()?;
    }
}

impl Driver {
    fn now(&self) -> mcp_proto::Instant {
        mcp_proto::Instant::after_start(self.start.elapsed())
    }

    /// Reads a request, and passes its parts to the machine. The connection of a client that sends no HTTP request is
    /// closed.
    fn receive(&mut self, connection: TcpStream) -> Result<(), Box<dyn std::error::Error>> {
        let Ok((mut reader, head)) = read_request(&connection) else { return Ok(()) };
        let headers = head.headers.clone();
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce)?;

        let exchange = self.server.handle_request(head, RequestInfo::new(nonce), self.now());
        self.connections.insert(exchange, connection);
        // Before its body, the request may be refused, or its client may wait for permission to send the body.
        self.carry_out()?;
        let now = self.now();
        let pass_on = |part: &[u8]| {
            self.server.handle_body(exchange, part, now);
            Ok(())
        };
        match http1::read_body(&mut reader, &headers, false, pass_on) {
            Ok(()) => self.server.handle_end(exchange, self.now()),
            Err(_) => self.disconnect(exchange),
        }
        Ok(())
    }

    /// Answers the requests that the machine reports, and writes what it has for its clients.
    fn carry_out(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Event(Event::Requested { ticket, method, params }) => {
                    self.server.respond(ticket, serve(&method, params.as_ref()), self.now())?;
                }
                Output::Action(HttpAction::Continue { exchange }) => {
                    self.write(exchange, b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                Output::Action(HttpAction::Respond { exchange, response }) => {
                    let (head, body) = response.into_parts();
                    self.write(exchange, &response_head(head.status, &head.headers, Some(body.len())));
                    self.write_body(exchange, &body);
                    self.connections.remove(&exchange);
                }
                Output::Action(HttpAction::Stream { exchange, head }) => {
                    self.write(exchange, &response_head(head.status(), head.headers(), None));
                }
                Output::Action(HttpAction::Write { exchange, chunk }) => self.write_body(exchange, &chunk),
                Output::Action(HttpAction::Finish { exchange } | HttpAction::Abort { exchange }) => {
                    self.connections.remove(&exchange);
                }
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        Ok(())
    }

    fn write_body(&mut self, exchange: ExchangeKey, bytes: &[u8]) {
        self.write(exchange, bytes);
        self.server.handle_written(exchange, bytes.len(), self.now());
    }

    fn write(&mut self, exchange: ExchangeKey, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&exchange) else { return };
        if connection.write_all(bytes).is_err() {
            self.disconnect(exchange);
        }
    }

    fn disconnect(&mut self, exchange: ExchangeKey) {
        self.connections.remove(&exchange);
        self.server.handle_disconnect(exchange, self.now());
    }
}

/// Reads the head of a request; the body is still to be read.
fn read_request(connection: &TcpStream) -> io::Result<(BufReader<TcpStream>, Parts)> {
    connection.set_read_timeout(PAUSE)?;
    connection.set_write_timeout(PAUSE)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    let (request_line, headers) = http1::read_head(&mut reader)?;
    let mut words = request_line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let request = Request::builder().method(method).uri(target).body(()).map_err(io::Error::other)?;
    let mut head = request.into_parts().0;
    head.headers = headers;
    Ok((reader, head))
}

/// The head of a response. Without the length of its body, the response ends with the connection.
fn response_head(status: StatusCode, headers: &HeaderMap, body_length: Option<usize>) -> Vec<u8> {
    http1::write_head(&format!("HTTP/1.1 {status}"), headers, body_length)
}

fn serve(method: &Method, params: Option<&Json>) -> Result<Json, ErrorObject> {
    match method.as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" if CallToolRequest::params(params)?.name == "hello" => Ok(CallToolResult::text("Hello!").into()),
        "tools/call" => Err(ErrorObject::invalid_params("unknown tool")),
        _ => Err(ErrorObject::method_not_found(method)),
    }
}
