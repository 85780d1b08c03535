//! Servers on loopback whose responses are set by the test, valid or not.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::Json;

use crate::http1::{self, HttpMessage};
use crate::messages::{DISCOVERED, complete, event, initialize_result, result};

/// A server that passes every request to a function.
#[derive(Debug, Clone)]
pub struct LoopbackServer {
    /// The host and port, such as `127.0.0.1:3000`.
    pub authority: String,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    requests: Mutex<Vec<HttpMessage>>,
    changed: Condvar,
    connections: AtomicUsize,
    closed: AtomicUsize,
}

/// Both directions of a connection, with or without TLS.
pub trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// A connection, as the function that answers receives it.
pub struct Connection {
    stream: Box<dyn Duplex>,
    /// Whether the response announces that the connection stays open, and it does.
    keep_alive: bool,
}

impl LoopbackServer {
    /// Starts a server that answers with `answer`.
    pub fn start(answer: impl Fn(&HttpMessage, &mut Connection) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::start_with(|stream| Ok(Box::new(stream)), answer)
    }

    /// Starts a server whose connections are wrapped first, for instance in TLS.
    pub fn start_with(
        wrap: impl Fn(TcpStream) -> io::Result<Box<dyn Duplex>> + Send + Sync + 'static,
        answer: impl Fn(&HttpMessage, &mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::listen("127.0.0.1:0", wrap, answer).expect("a free port")
    }

    /// Starts a server at this address.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn listen(
        address: &str,
        wrap: impl Fn(TcpStream) -> io::Result<Box<dyn Duplex>> + Send + Sync + 'static,
        answer: impl Fn(&HttpMessage, &mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let authority = listener.local_addr()?.to_string();
        let seen = Arc::new(Seen::default());
        let (wrap, answer) = (Arc::new(wrap), Arc::new(answer));
        let server_seen = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                server_seen.connections.fetch_add(1, Ordering::SeqCst);
                let (wrap, answer, seen) = (Arc::clone(&wrap), Arc::clone(&answer), Arc::clone(&server_seen));
                thread::spawn(move || {
                    let _ = stream.set_nodelay(true);
                    // A client that disconnects does not fail the test.
                    let _ = wrap(stream).and_then(|stream| serve(stream, &seen, &*answer));
                    seen.closed.fetch_add(1, Ordering::SeqCst);
                    seen.changed.notify_all();
                });
            }
        });
        Ok(Self { authority, seen })
    }

    /// The URL of the endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.authority)
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<HttpMessage> {
        self.seen.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every JSON-RPC request so far, without notifications and responses.
    pub fn asked(&self) -> Vec<PostedMessage> {
        let asked = self.requests().into_iter().filter_map(|request| PostedMessage::of(&request));
        asked.filter(|asked| !asked.id.is_empty() && !asked.method.is_empty()).collect()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The number of connections that have ended.
    pub fn closed_connections(&self) -> usize {
        self.seen.closed.load(Ordering::SeqCst)
    }

    /// Waits until a request arrives whose line begins with `start`.
    pub fn wait_for(&self, start: &str) -> HttpMessage {
        self.wait(|seen| seen.requests().iter().find(|request| request.line.starts_with(start)).cloned())
            .unwrap_or_else(|| panic!("no {start}; there were {:?}", self.requests()))
    }

    /// Calls `find` until it returns a value, for at most a minute.
    pub fn wait<T>(&self, find: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = find(self) {
                return Some(found);
            }
            if Instant::now() > until {
                return None;
            }
            let requests = self.seen.requests.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.seen.changed.wait_timeout(requests, Duration::from_millis(10)));
        }
    }
}

fn serve(
    mut stream: Box<dyn Duplex>,
    seen: &Seen,
    answer: &(dyn Fn(&HttpMessage, &mut Connection) -> io::Result<()> + Send + Sync),
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let mut rest = &bytes[..];
        match http1::read(&mut rest).filter(|request| request.is_complete) {
            Some(request) => {
                let length = rest.len();
                bytes.drain(..bytes.len() - length);
                seen.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
                seen.changed.notify_all();
                let mut connection = Connection { stream, keep_alive: true };
                answer(&request, &mut connection)?;
                if !connection.keep_alive {
                    return Ok(());
                }
                stream = connection.stream;
            }
            None => match stream.read(&mut buffer)? {
                0 => return Ok(()),
                length => bytes.extend_from_slice(&buffer[..length]),
            },
        }
    }
}

impl Connection {
    /// Sends exactly these bytes.
    ///
    /// # Errors
    ///
    /// The client has disconnected.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Sends a complete response.
    ///
    /// # Errors
    ///
    /// The client has disconnected.
    pub fn reply(&mut self, status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.as_ref().len());
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.as_ref());
        self.raw(bytes)
    }

    /// Sends a response with a JSON body.
    ///
    /// # Errors
    ///
    /// The client has disconnected.
    pub fn json(&mut self, body: impl AsRef<[u8]>) -> io::Result<()> {
        self.reply("200 OK", &[("content-type", "application/json")], body)
    }

    /// Begins a stream of events with chunked coding.
    ///
    /// # Errors
    ///
    /// The client has disconnected.
    pub fn begin_events(&mut self) -> io::Result<()> {
        self.raw("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    }

    /// Sends a chunk of a body with chunked coding.
    ///
    /// # Errors
    ///
    /// The client has disconnected.
    pub fn chunk(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut chunk = format!("{:x}\r\n", bytes.as_ref().len()).into_bytes();
        chunk.extend_from_slice(bytes.as_ref());
        chunk.extend_from_slice(b"\r\n");
        self.raw(chunk)
    }

    /// Ends a body with chunked coding.
    ///
    /// # Errors
    ///
    /// The client has disconnected.
    pub fn finish(&mut self) -> io::Result<()> {
        self.raw("0\r\n\r\n")
    }

    /// Closes the connection after this response.
    pub fn close(&mut self) {
        self.keep_alive = false;
    }

    /// Reads until the client closes the connection.
    ///
    /// # Errors
    ///
    /// Always, because the connection is closed.
    pub fn hang(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1024];
        loop {
            if self.stream.read(&mut buffer)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// A JSON-RPC message in a POST.
#[derive(Debug, Clone)]
pub struct PostedMessage {
    /// The method.
    pub method: String,
    /// The id as JSON text, empty for a notification.
    pub id: String,
    /// The parameters as JSON text; `{}` if there are none.
    pub params: String,
}

impl PostedMessage {
    /// The message in the body of a POST, if the body is JSON.
    pub fn of(request: &HttpMessage) -> Option<Self> {
        let json = Json::parse(request.body.clone()).ok()?;
        let member = |name: &str| json.member(name).ok().flatten().map(|value| value.to_text().into_owned());
        Some(Self {
            method: member("method").unwrap_or_default().trim_matches('"').to_owned(),
            id: member("id").unwrap_or_default(),
            params: member("params").unwrap_or_else(|| "{}".to_owned()),
        })
    }
}

/// A correct MCP server over Streamable HTTP with one session and no GET stream. It passes requests to `answer`, except
/// `initialize` and `ping`.
pub fn mcp_server(
    answer: impl Fn(&PostedMessage, &mut Connection) -> io::Result<()> + Send + Sync + 'static,
) -> impl Fn(&HttpMessage, &mut Connection) -> io::Result<()> + Send + Sync + 'static {
    move |request, connection| {
        if request.line.starts_with("DELETE") {
            return connection.reply("200 OK", &[], "");
        }
        let Some(asked) = PostedMessage::of(request).filter(|_| request.line.starts_with("POST")) else {
            return connection.reply("405 Method Not Allowed", &[("allow", "POST, DELETE")], "");
        };
        match asked.method.as_str() {
            "initialize" => {
                let body = result(&asked.id, &initialize_result("2025-11-25"));
                connection.reply(
                    "200 OK",
                    &[("content-type", "application/json"), ("mcp-session-id", "the-session")],
                    body,
                )
            }
            "ping" => connection.json(result(&asked.id, "{}")),
            // Notifications, and responses to requests of the server.
            method if asked.id.is_empty() || method.is_empty() => connection.reply("202 Accepted", &[], ""),
            _ => answer(&asked, connection),
        }
    }
}

/// An [`mcp_server`] that answers every request with its parameters.
pub fn echo_server() -> LoopbackServer {
    LoopbackServer::start(mcp_server(|asked, connection| connection.json(result(&asked.id, &asked.params))))
}

/// A server of the two-endpoint transport. It sends the result of `answer` on its stream for every request but
/// `initialize`, and responds to each POST with `accept`.
pub fn two_endpoint_server(
    answer: fn(&PostedMessage) -> String,
    accept: fn(&PostedMessage, &mut Connection) -> io::Result<()>,
) -> LoopbackServer {
    let (to_stream, from_posts) = channel::<String>();
    let (to_stream, from_posts) = (Mutex::new(to_stream), Mutex::new(from_posts));
    LoopbackServer::start(move |request, connection| {
        if request.line.starts_with("GET /mcp") {
            connection.begin_events()?;
            connection.chunk("event: endpoint\ndata: /messages?sessionId=1\n\n")?;
            for message in from_posts.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                connection.chunk(event(&message))?;
            }
            return connection.finish();
        }
        let asked = PostedMessage::of(request).filter(|_| request.line.starts_with("POST /messages?sessionId=1"));
        let Some(asked) = asked else {
            return connection.reply("404 Not Found", &[("content-type", "text/html")], "Cannot POST /mcp");
        };
        if !asked.id.is_empty() {
            let is_first = asked.method == "initialize";
            let text = if is_first { result(&asked.id, &initialize_result("2024-11-05")) } else { answer(&asked) };
            let _ = to_stream.lock().unwrap_or_else(PoisonError::into_inner).send(text);
        }
        accept(&asked, connection)
    })
}

/// An [`mcp_server`] of 2026-07-28. Its tools require `roots/list` as input, and its subscriptions publish one change
/// and end. A tool named `hang` sends no response.
pub fn modern_server() -> LoopbackServer {
    const NOTICE: &str = r#""params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"#;
    LoopbackServer::start(mcp_server(|asked, connection| match asked.method.as_str() {
        "server/discover" => connection.json(result(&asked.id, DISCOVERED)),
        "subscriptions/listen" => {
            let id = &asked.id;
            connection.begin_events()?;
            for text in [
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",{NOTICE}{id}}},"notifications":{{"toolsListChanged":true}}}}}}"#
                ),
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed",{NOTICE}{id}}}}}}}"#),
                complete(id),
            ] {
                connection.chunk(event(&text))?;
            }
            connection.finish()
        }
        "tools/call" if asked.params.contains(r#""name":"hang""#) => connection.hang(),
        "tools/call" if !asked.params.contains("inputResponses") => {
            let inputs =
                r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}},"requestState":"s"}"#;
            connection.json(result(&asked.id, inputs))
        }
        _ => connection.json(complete(&asked.id)),
    }))
}
