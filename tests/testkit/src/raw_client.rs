//! A client that sends any bytes over real sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::http_exchange::{TestRequest, TestResponse, initialize};
use crate::http1;
use crate::platform;
use crate::waiting::LONG;

/// The address of a server that listens.
#[derive(Debug, Clone)]
pub struct RawClient {
    address: String,
    /// Bound to the port but not listening, it keeps the system from giving the port to another socket, except to one
    /// that asks for this port. None is needed for a port that the system gives to none.
    _reserved: Option<Arc<Socket>>,
}

impl RawClient {
    /// A server at this address, such as `127.0.0.1:3000`.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), _reserved: None }
    }

    /// A free address, at which the test may start a server in another process. Until then, connections are refused.
    pub fn free() -> Self {
        let (address, reserved) = platform::reserve();
        Self { address: address.to_string(), _reserved: reserved }
    }

    /// The address at which it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits until it listens.
    pub fn wait(&self) {
        let deadline = Instant::now() + LONG;
        while TcpStream::connect(&self.address).is_err() {
            assert!(Instant::now() < deadline, "no server listens at {}", self.address);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a request on a new connection, and reads the whole response. When this returns, the server has closed the
    /// connection, so that it counts as unused.
    pub fn answer(&self, asked: &TestRequest) -> TestResponse {
        let mut conversation = self.open(asked);
        let sent = conversation.until(|sent| sent.is_over);
        conversation.rest();
        sent
    }

    /// Sends a request on a new connection.
    pub fn open(&self, asked: &TestRequest) -> RawConnection {
        let mut conversation = self.connect();
        conversation.write(&text(asked));
        conversation
    }

    /// Opens a connection.
    pub fn connect(&self) -> RawConnection {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        RawConnection { stream, read: Vec::new() }
    }

    /// Opens a connection from another address of this machine, such as `127.0.0.2`.
    pub fn connect_from(&self, address: Ipv4Addr) -> RawConnection {
        let socket = tcp_socket();
        socket.bind(&SocketAddr::from((address, 0)).into()).expect("an address of this machine");
        let server: SocketAddr = self.address.parse().expect("an address");
        socket.connect(&server.into()).expect("the server listens");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        RawConnection { stream, read: Vec::new() }
    }

    /// Opens and confirms a session; returns its id.
    pub fn session(&self, version: &str) -> String {
        let opened = self.answer(&TestRequest::post(initialize(version)));
        assert_eq!(opened.code(), 200, "{}", opened.text());
        let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
        let confirm = TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).in_session(&id);
        assert_eq!(self.answer(&confirm).code(), 202);
        id
    }

    /// Opens a connection, writes these bytes, and reads until the server closes the connection.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut conversation = self.connect();
        conversation.write(bytes);
        conversation.rest()
    }
}

pub(crate) fn tcp_socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket")
}

/// One connection.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl RawConnection {
    /// Writes these bytes. Errors are ignored, because the server may have closed the connection.
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Reads until `is_such` holds for the first response.
    ///
    /// # Panics
    ///
    /// If the server closes the connection before that, or takes longer than [`LONG`].
    pub fn until(&mut self, is_such: impl Fn(&TestResponse) -> bool) -> TestResponse {
        let deadline = Instant::now() + LONG;
        loop {
            let mut sent = self.sent();
            if is_such(&sent) {
                return sent;
            }
            assert!(Instant::now() < deadline, "not in time: {sent:?}");
            if !self.read_more() {
                // The end of the connection ends a response without a length.
                sent.is_over = true;
                assert!(is_such(&sent), "the connection was closed before: {sent:?}");
                return sent;
            }
        }
    }

    /// Waits for this many events; returns their data.
    pub fn events(&mut self, count: usize) -> Vec<String> {
        self.until(|sent| sent.data().len() >= count).data()
    }

    /// Reads what arrives next; returns it as text, which is empty if the server has closed the connection.
    pub fn read_part(&mut self) -> String {
        let start = self.read.len();
        self.read_more();
        String::from_utf8_lossy(self.read.get(start..).unwrap_or_default()).into_owned()
    }

    /// Reads until the server closes the connection; returns all bytes as text.
    pub fn rest(&mut self) -> String {
        while self.read_more() {}
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Like [`RawConnection::rest`], with a pause after each part that is read.
    pub fn rest_slowly(&mut self) -> String {
        while self.read_more() {
            thread::sleep(Duration::from_millis(1));
        }
        self.rest()
    }

    /// Writes a request.
    pub fn ask(&mut self, asked: &TestRequest) {
        self.write(&text(asked));
    }

    /// Sends nothing more, and can still read.
    pub fn end_sending(&self) {
        // The server may have closed the connection.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads one byte each second on another thread, until the server closes the connection.
    pub fn read_slowly(mut self) {
        thread::spawn(move || {
            while matches!(self.stream.read(&mut [0]), Ok(1)) {
                thread::sleep(Duration::from_secs(1));
            }
        });
    }

    /// Reads this many bytes.
    pub fn read_bytes(&mut self, count: usize) {
        self.stream.read_exact(&mut vec![0; count]).expect("the server writes that much");
    }

    /// Reads until the server closes the connection; returns the number of bytes, which are not kept.
    pub fn count_rest(&mut self) -> usize {
        let (mut count, mut buffer) = (0, vec![0; 64 * 1024]);
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return count,
                Ok(length) => count += length,
                Err(error) => {
                    is_reset(&error);
                    return count;
                }
            }
        }
    }

    /// Whether no bytes have arrived and the connection is open. Does not wait.
    pub fn is_silent(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let found = self.stream.peek(&mut [0; 8]);
        self.stream.set_nonblocking(false).expect("a socket");
        matches!(found, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether the server has closed the connection, even if unread bytes are left.
    pub fn is_closed(&self) -> bool {
        // After the peer closed a connection with unread bytes, the second write fails at the latest.
        (&self.stream).write_all(b" ").is_err()
    }

    fn sent(&self) -> TestResponse {
        let mut bytes = &self.read[..];
        let mut found = http1::read(&mut bytes);
        while found.as_ref().is_some_and(|exchange| exchange.status() / 100 == 1) {
            found = http1::read(&mut bytes);
        }
        let Some(exchange) = found else { return TestResponse::default() };
        let mut sent = TestResponse { status: exchange.status().try_into().ok(), ..TestResponse::default() };
        sent.is_stream = exchange.header("content-type") == "text/event-stream";
        sent.is_over = exchange.is_complete;
        for (name, value) in &exchange.headers {
            let name: http::HeaderName = name.parse().expect("a name");
            sent.headers.append(name, value.parse().expect("a value"));
        }
        sent.body = exchange.body;
        sent
    }

    fn read_more(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let read = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => false,
            Ok(length) => {
                self.read.extend_from_slice(&buffer[..length]);
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) => is_reset(&error),
        }
    }
}

fn is_reset(error: &io::Error) -> bool {
    assert!(
        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "the server neither writes nor closes: {error}"
    );
    false
}

/// The bytes of a request with `connection: close`.
pub fn text(asked: &TestRequest) -> Vec<u8> {
    let TestRequest { method, target, fields, body, .. } = asked;
    let mut lines = vec![format!("{method} {target} HTTP/1.1")];
    lines.extend(fields.iter().map(|(name, value)| format!("{name}: {value}")));
    if !fields.iter().any(|(name, _)| name == "content-length") {
        lines.push(format!("content-length: {}", body.len()));
    }
    lines.push("connection: close\r\n\r\n".to_owned());
    [lines.join("\r\n").as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_free_address_is_given_to_no_other_socket() {
        let free = RawClient::free();
        assert_eq!(TcpStream::connect(free.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // More often than there are ports.
        for _ in 0..70_000 {
            let other = TcpListener::bind("127.0.0.1:0").unwrap();
            assert_ne!(other.local_addr().unwrap().to_string(), free.address());
        }
        let _server = TcpListener::bind(free.address()).unwrap();
        free.wait();
    }
}
