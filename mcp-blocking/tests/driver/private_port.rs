//! A client that reaches its server at a port for those that have read a private file.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_blocking::{Client, Error, HttpOptions, Incoming, PrivatePort, Server, ServerStopper};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, ProtocolVersion};
use mcp_testkit::waiting::{LONG, wait_until};

/// A file that is removed when this is dropped.
struct PrivateFile(PathBuf);

impl PrivateFile {
    fn new(name: &str) -> Self {
        tests::deadline::set();
        Self(std::env::temp_dir().join(format!("mcp-private-{}-{name}", std::process::id())))
    }

    /// Writes what a server would write that listens at this port.
    fn name(&self, port: u16) {
        std::fs::write(&self.0, format!("mcp-private-port-1 {port} {}\n", "a".repeat(64))).unwrap();
    }

    fn port(&self) -> u16 {
        std::fs::read_to_string(&self.0).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server that answers each request with its name, on a thread of its own.
struct Running(ServerStopper, JoinHandle<()>);

impl Running {
    fn start(file: &Path, max_connections: usize) -> io::Result<Self> {
        let echo = |incoming: &Incoming| {
            Ok::<_, ErrorObject>(Json::empty_object().with_member("m", &Json::from(incoming.method().as_str())))
        };
        let mut service = Server::new(Config::new("s", "1"), echo).http(HttpConfig::new()).unwrap();
        service.max_connections = max_connections;
        let stopper = service.stopper();
        let port = PrivatePort::bind()?;
        std::fs::write(file, port.file_content())?;
        Ok(Self(
            stopper,
            thread::spawn(move || {
                service.serve(port).unwrap();
            }),
        ))
    }

    fn stop(self) {
        self.0.stop();
        self.1.join().unwrap();
    }
}

/// The server that a client has started, and how often it has.
#[derive(Clone, Default)]
struct Started(Arc<Mutex<Option<Running>>>, Arc<AtomicUsize>);

impl Started {
    fn options(&self, file: &Path) -> HttpOptions {
        let (Self(running, count), path, mut options) = (self.clone(), file.to_owned(), HttpOptions::new());
        options.private_port_of(file, move || {
            count.fetch_add(1, Ordering::SeqCst);
            *running.lock().unwrap() = Some(Running::start(&path, 16)?);
            Ok(())
        });
        options
    }

    fn count(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }

    fn stop(&self) {
        self.0.lock().unwrap().take().unwrap().stop();
    }
}

fn connect(options: HttpOptions, version: ProtocolVersion) -> Result<Client, Error> {
    Client::builder().versions([version]).http("http://localhost/mcp")?.http_options(options).connect()
}

#[test]
fn a_client_of_each_era_uses_a_server_at_a_private_port() {
    let file = PrivateFile::new("eras");
    let running = Running::start(&file.0, 16).unwrap();
    for version in [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST] {
        let started = Started::default();
        let client = connect(started.options(&file.0), version).unwrap();
        let answer = client.request("x/y", None).unwrap();
        assert_eq!(answer.member("m").unwrap().unwrap(), Json::from("x/y"), "{version}");
        assert_eq!(started.count(), 0, "it runs");
    }
    running.stop();
}

#[test]
fn a_server_at_a_private_port_is_started_when_there_is_none_and_again_after_it_has_ended() {
    let (file, started) = (PrivateFile::new("start"), Started::default());
    let client = connect(started.options(&file.0), ProtocolVersion::LATEST).unwrap();
    client.request("x", None).unwrap();
    assert_eq!(started.count(), 1);
    // Its file stays.
    started.stop();
    // The connection to the first one may still answer that it is being stopped.
    wait_until(|| client.request("x", None).is_ok());
    assert_eq!(started.count(), 2);
    drop(client);
    started.stop();
}

#[test]
fn a_file_that_names_no_port_is_that_of_no_server() {
    for content in ["", "garbage", "mcp-private-port-2 7 x\n", &"x".repeat(1 << 20)] {
        let (file, started) = (PrivateFile::new("garbage"), Started::default());
        std::fs::write(&file.0, content).unwrap();
        connect(started.options(&file.0), ProtocolVersion::LATEST).unwrap().request("x", None).unwrap();
        assert_eq!(started.count(), 1);
        started.stop();
    }
}

/// The server has ended, and a program of someone else listens at its port.
#[test]
fn another_program_at_the_port_learns_nothing_and_the_server_is_started() {
    for answer in [&b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..], &[0; 64], &[]] {
        let (file, started) = (PrivateFile::new("other"), Started::default());
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        file.name(other.local_addr().unwrap().port());
        let listening = thread::spawn(move || {
            let mut connection = other.accept().unwrap().0;
            let mut received = vec![0; 32];
            connection.read_exact(&mut received).unwrap();
            let _ = connection.write_all(answer);
            let _ = connection.shutdown(std::net::Shutdown::Write);
            // Closing with unread bytes resets the connection.
            let _ = connection.read_to_end(&mut received);
            received.len()
        });
        let client = connect(started.options(&file.0), ProtocolVersion::LATEST).unwrap();
        client.request("x", None).unwrap();
        assert_eq!((started.count(), listening.join().unwrap()), (1, 32));
        client.close();
        started.stop();
    }
}

#[test]
fn an_error_names_the_file_and_why_the_server_is_not_reached() {
    let file = PrivateFile::new("errors");
    let mut options = HttpOptions::new();
    options.private_port_of(&file.0, || Ok(()));
    let error = connect(options.clone(), ProtocolVersion::LATEST).unwrap_err().to_string();
    assert!(error.contains(&*file.0.to_string_lossy()) && error.contains("is the server running?"), "{error}");
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    file.name(other.local_addr().unwrap().port());
    thread::spawn(move || other.incoming().for_each(drop));
    let error = connect(options, ProtocolVersion::LATEST).unwrap_err().to_string();
    assert!(error.contains("does not prove that it has this file"), "{error}");
    assert!(!error.contains("aaa"), "{error}");
}

#[test]
fn a_connection_without_a_proof_is_closed_without_an_answer() {
    let file = PrivateFile::new("unproved");
    let running = Running::start(&file.0, 16).unwrap();
    let request = "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nx: 0123456789\r\n\r\n";
    for bytes in [request.as_bytes(), &[7; 64], &[7; 31]] {
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, file.port())).unwrap();
        connection.set_read_timeout(Some(LONG)).unwrap();
        { &connection }.write_all(bytes).unwrap();
        let _ = connection.shutdown(std::net::Shutdown::Write);
        let mut received = Vec::new();
        // Closing with unread bytes resets the connection.
        let _ = { &connection }.read_to_end(&mut received);
        assert_eq!(received.len(), if bytes.len() < 32 { 0 } else { 64 }, "a proof of the server at most");
        assert!(!received.windows(4).any(|part| part == b"HTTP"));
    }
    running.stop();
}

#[test]
fn silent_connections_hold_up_no_other_and_are_closed_after_a_while() {
    let file = PrivateFile::new("silent");
    let running = Running::start(&file.0, 16).unwrap();
    let silent: Vec<_> = (0..8).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, file.port())).unwrap()).collect();
    let began = std::time::Instant::now();
    let client = connect(Started::default().options(&file.0), ProtocolVersion::LATEST).unwrap();
    client.request("x", None).unwrap();
    for mut connection in silent {
        connection.set_read_timeout(Some(LONG)).unwrap();
        assert_eq!(connection.read(&mut [0]).unwrap(), 0);
    }
    assert!(began.elapsed() > Duration::from_secs(4), "they have some time");
    client.request("x", None).unwrap();
    client.close();
    running.stop();
}

/// They are the first to be closed for others.
#[test]
fn connections_without_a_proof_count_in_the_limit() {
    let file = PrivateFile::new("limit");
    let running = Running::start(&file.0, 2).unwrap();
    let connections: Vec<_> =
        (0..60).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, file.port())).unwrap()).collect();
    let mut received = Vec::new();
    for mut connection in connections {
        connection.set_read_timeout(Some(LONG)).unwrap();
        let _ = connection.read_to_end(&mut received);
    }
    assert!(received.is_empty(), "they are closed without an answer");
    connect(Started::default().options(&file.0), ProtocolVersion::LATEST).unwrap().request("x", None).unwrap();
    running.stop();
}
