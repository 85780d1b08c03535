//! The port of 127.0.0.1 to which the browser returns: one short HTTP request per connection (OA-B-01).

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, request};

use crate::server::http1::{Head, parse_head};

/// The time for one connection: other requests wait meanwhile.
const CONNECTION_TIME: Duration = Duration::from_secs(2);

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 32 * 1024;

/// An open port.
#[derive(Debug)]
pub(super) struct Listener(TcpListener);

impl Listener {
    /// Opens this port, or any that is free.
    pub(super) fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0)))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Answers one request, if there is one.
    pub(super) fn serve(&self, answer: impl FnOnce(&request::Parts) -> Response<Bytes>) {
        let Ok((mut stream, _)) = self.0.accept() else { return };
        // A connection that breaks concerns the browser only.
        let _ = exchange(&mut stream, answer);
    }
}

fn exchange(stream: &mut TcpStream, answer: impl FnOnce(&request::Parts) -> Response<Bytes>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CONNECTION_TIME))?;
    let until = Instant::now() + CONNECTION_TIME;
    let mut read = Vec::new();
    let head = loop {
        match parse_head(&read) {
            Ok(Some((Head { parts, .. }, _))) => break parts,
            Ok(None) if read.len() < MAX_HEAD => {}
            Ok(None) | Err(_) => return Ok(()),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            length => read.extend_from_slice(chunk.get(..length).unwrap_or_default()),
        }
    };
    let response = answer(&head);
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
    stream.write_all(&text)
}
