//! The port of this machine to which the browser returns: one short HTTP request per connection (OA-B-01).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use bytes::Bytes;
use http::{Response, request};
use mcp_auth::{CALLBACK_TIME, CallbackHost, MAX_CALLBACK_HEAD, MAX_CALLBACKS};

use crate::server::http1::{Head, parse_head};

/// Connections that are accepted at once, before the sign-in goes on.
const MAX_ACCEPTED: usize = 256;

/// An open port.
#[derive(Debug)]
pub(super) struct Listener {
    /// One for each address of the host, at least one.
    sockets: Vec<TcpListener>,
    port: u16,
    /// In the order in which they were accepted.
    connections: Vec<Connection>,
}

/// A connection whose request has not arrived in full.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    until: Instant,
    read: Vec<u8>,
}

impl Listener {
    /// Opens this port, or any that is free, at all addresses of a host that this machine has.
    pub(super) fn open(host: CallbackHost, port: Option<u16>) -> io::Result<Self> {
        let bind = |address| {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let port = socket.local_addr()?.port();
            Ok((socket, port))
        };
        let absent = |address, error| log::debug!("cannot listen at {address}: {error}");
        let (sockets, port) = host.open(port, bind, absent)?;
        Ok(Self { sockets, port, connections: Vec::new() })
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Answers the requests that have arrived, and waits for none.
    pub(super) fn serve(&mut self, mut answer: impl FnMut(&request::Parts) -> Response<Bytes>) {
        for socket in 0..self.sockets.len() {
            for _ in 0..MAX_ACCEPTED {
                let Some(Ok((stream, _))) = self.sockets.get(socket).map(TcpListener::accept) else { break };
                if self.connections.len() == MAX_CALLBACKS {
                    self.answer_arrived(&mut answer);
                    self.make_room();
                }
                self.connections.extend(Connection::new(stream));
            }
        }
        self.answer_arrived(&mut answer);
    }

    /// If there are as many connections as may be, closes the first that has sent nothing, or else the first.
    fn make_room(&mut self) {
        if self.connections.len() == MAX_CALLBACKS {
            let silent = self.connections.iter().position(|connection| connection.read.is_empty());
            self.connections.remove(silent.unwrap_or(0));
        }
    }

    fn answer_arrived(&mut self, answer: &mut impl FnMut(&request::Parts) -> Response<Bytes>) {
        self.connections.retain_mut(|connection| match connection.head() {
            Ok(Some(head)) => {
                // A connection that breaks concerns the browser only.
                let _ = connection.respond(&answer(&head));
                false
            }
            Ok(None) => true,
            Err(_) => false,
        });
    }
}

impl Connection {
    /// `None` if the connection has broken already.
    fn new(stream: TcpStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, until: Instant::now() + CALLBACK_TIME, read: Vec::new() })
    }

    /// Reads what has arrived. Returns the head of the request once it is complete.
    fn head(&mut self) -> io::Result<Option<request::Parts>> {
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.read.extend_from_slice(chunk.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < self.until => return Ok(None),
                Err(error) => return Err(error),
            }
            match parse_head(&self.read) {
                Ok(Some((Head { parts, .. }, _))) => return Ok(Some(parts)),
                Ok(None) if self.read.len() < MAX_CALLBACK_HEAD => {}
                Ok(None) | Err(_) => return Err(ErrorKind::InvalidData.into()),
            }
        }
    }

    fn respond(&mut self, response: &Response<Bytes>) -> io::Result<()> {
        let status = response.status();
        let mut text =
            format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default()).into_bytes();
        for (name, value) in response.headers() {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(response.body());
        // A page is small enough for the buffer of the socket.
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(CALLBACK_TIME))?;
        self.stream.write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    use super::*;

    const REQUEST: &str = "GET /callback?code=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    /// Much less than the time for one connection, times the number of silent ones.
    const BOUND: Duration = Duration::from_secs(15);

    /// Serves until a request has arrived. Returns its target.
    fn served(listener: &mut Listener) -> String {
        let (mut target, until) = (None, Instant::now() + BOUND);
        while target.is_none() {
            assert!(Instant::now() < until, "no request is served");
            listener.serve(|head| {
                target = Some(head.uri.to_string());
                Response::new(Bytes::from_static(b"page"))
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        target.unwrap()
    }

    fn connect(listener: &Listener) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port())).unwrap()
    }

    #[test]
    fn oa_q_09_localhost_is_both_loopback_addresses_with_one_port() {
        let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        for host in CallbackHost::ALL {
            if host == CallbackHost::Ipv6 && !has_ipv6 {
                continue;
            }
            let mut listener = Listener::open(host, None).unwrap();
            let port = listener.port();
            for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
                let is_open = host.addresses().contains(&address) && (address.is_ipv4() || has_ipv6);
                let places: Vec<_> = listener.sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
                // Another program may have the port at the other address.
                assert_eq!(places.contains(&(address, port).into()), is_open, "{host} {address}");
                if !is_open {
                    continue;
                }
                let mut browser = TcpStream::connect((address, port)).unwrap();
                browser.write_all(REQUEST.as_bytes()).unwrap();
                assert_eq!(served(&mut listener), "/callback?code=1", "{host} {address}");
            }
            assert!(Listener::open(host, Some(port)).is_err(), "{host}: the port is taken");
        }
    }

    #[test]
    fn oa_q_09_localhost_is_not_opened_in_part() {
        let Ok(taken) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
        let port = taken.local_addr().unwrap().port();
        // Another program may have it at the other address by chance.
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            let opened = Listener::open(CallbackHost::Localhost, Some(port));
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::AddrInUse, "the browser would return to another program");
        }
        assert!(Listener::open(CallbackHost::Localhost, None).is_ok());
    }

    #[test]
    fn silent_connections_delay_no_request() {
        for count in [0, 1, 20, 100] {
            let mut listener = Listener::open(CallbackHost::Ipv4, None).unwrap();
            let silent: Vec<_> = (0..count).map(|_| connect(&listener)).collect();
            let mut browser = connect(&listener);
            browser.write_all(REQUEST.as_bytes()).unwrap();
            assert_eq!(served(&mut listener), "/callback?code=1", "{count}");
            let mut read = String::new();
            browser.read_to_string(&mut read).unwrap();
            assert!(read.starts_with("HTTP/1.1 200 OK\r\n") && read.ends_with("\r\n\r\npage"), "{read}");
            assert!(listener.connections.len() < MAX_CALLBACKS);
            drop(silent);
        }
    }

    #[test]
    fn a_request_that_arrives_in_pieces_is_not_given_up_for_silent_connections() {
        let mut listener = Listener::open(CallbackHost::Ipv4, None).unwrap();
        let mut browser = connect(&listener);
        browser.set_nodelay(true).unwrap();
        browser.write_all(&REQUEST.as_bytes()[..20]).unwrap();
        while listener.connections.first().is_none_or(|connection| connection.read.is_empty()) {
            listener.serve(|_| panic!("it is not complete"));
        }
        let _silent: Vec<_> = (0..50).map(|_| connect(&listener)).collect();
        listener.serve(|_| panic!("it is not complete"));
        assert_eq!(listener.connections.len(), MAX_CALLBACKS);
        browser.write_all(&REQUEST.as_bytes()[20..]).unwrap();
        assert_eq!(served(&mut listener), "/callback?code=1");
    }

    #[test]
    fn a_connection_without_a_request_is_closed() {
        let mut listener = Listener::open(CallbackHost::Ipv4, None).unwrap();
        let large = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(2 * MAX_CALLBACK_HEAD));
        for sent in ["", "GET", "nonsense\r\n\r\n", &large] {
            let mut browser = connect(&listener);
            browser.set_nonblocking(true).unwrap();
            let _ = browser.write(sent.as_bytes());
            let until = Instant::now() + BOUND;
            // The connection is closed, or reset.
            while matches!(browser.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
                assert!(Instant::now() < until, "{} bytes", sent.len());
                listener.serve(|_| panic!("there is no request"));
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(listener.connections.is_empty());
        }
    }

    #[test]
    fn a_page_that_is_larger_than_the_buffer_of_the_socket_arrives_in_full() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut browser = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut connection = Connection::new(listener.accept().unwrap().0).unwrap();
        let page = Bytes::from(vec![b'x'; 16 << 20]);
        let response = Response::new(page.clone());
        let responding = std::thread::spawn(move || connection.respond(&response));
        let mut read = Vec::new();
        browser.read_to_end(&mut read).unwrap();
        responding.join().unwrap().unwrap();
        assert!(read.ends_with(&page), "{} bytes", read.len());
    }
}
