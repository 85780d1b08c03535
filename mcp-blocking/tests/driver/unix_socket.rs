//! A client that reaches its server over a Unix socket.

#![cfg(unix)]

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use mcp_blocking::model::ServerCard;
use mcp_blocking::{Client, Error, HttpOptions, Incoming, Server};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, ProtocolVersion};
use mcp_testkit::waiting::wait_until;

/// A path in a folder that is removed when this is dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        tests::deadline::set();
        let folder = std::env::temp_dir().join(format!("mcp-unix-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("s")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn connect(options: HttpOptions, version: ProtocolVersion) -> Result<Client, Error> {
    Client::builder().versions([version]).http("http://localhost/mcp")?.http_options(options).connect()
}

/// A server that answers each request with its name, on a thread of its own.
fn serve(listener: UnixListener) -> (impl FnOnce(), thread::JoinHandle<()>) {
    let echo = |incoming: &Incoming| {
        Ok::<_, ErrorObject>(Json::empty_object().with_member("m", &Json::from(incoming.method().as_str())))
    };
    let http = HttpConfig::new().server_card(ServerCard::describe("com.example/s", "1", ""));
    let service = Server::new(Config::new("s", "1"), echo).http(http).unwrap();
    let stopper = service.stopper();
    let running = thread::spawn(move || {
        service.serve(listener).unwrap();
    });
    (move || stopper.stop(), running)
}

#[test]
fn a_client_of_each_era_uses_a_server_on_a_unix_socket() {
    let place = Place::new("eras");
    let (stop, running) = serve(UnixListener::bind(place.path()).unwrap());
    for version in [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST] {
        let mut options = HttpOptions::new();
        options.unix_socket(place.path());
        let client = connect(options, version).unwrap();
        let answer = client.request("x/y", None).unwrap();
        assert_eq!(answer.member("m").unwrap().unwrap(), Json::from("x/y"), "{version}");
    }
    let mut options = HttpOptions::new();
    options.unix_socket(place.path());
    let card = Client::builder().http("http://localhost/mcp").unwrap().http_options(options).server_card();
    assert_eq!(card.unwrap().map(|card| card.name).as_deref(), Some("com.example/s"));
    stop();
    running.join().unwrap();
}

#[test]
fn a_server_is_started_when_nothing_listens_and_again_after_it_has_ended() {
    let place = Place::new("start");
    let running = Arc::new(std::sync::Mutex::new(None));
    let (starts, path) = (Arc::new(AtomicUsize::new(0)), place.path());
    let (started, counted) = (Arc::clone(&running), Arc::clone(&starts));
    let mut options = HttpOptions::new();
    options.unix_socket_of(place.path(), move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = std::fs::remove_file(&path);
        *started.lock().unwrap() = Some(serve(UnixListener::bind(&path)?));
        Ok(())
    });
    let client = connect(options, ProtocolVersion::LATEST).unwrap();
    client.request("x", None).unwrap();
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    let (stop, ended) = running.lock().unwrap().take().unwrap();
    stop();
    ended.join().unwrap();
    // The connection to the first one may still answer that it is being stopped.
    wait_until(|| client.request("x", None).is_ok());
    assert_eq!(starts.load(Ordering::SeqCst), 2);
    drop(client);
    let (stop, ended) = running.lock().unwrap().take().unwrap();
    stop();
    ended.join().unwrap();
}

#[test]
fn an_error_names_the_socket_and_what_is_wrong_with_it() {
    let place = Place::new("errors");
    let error = |options: HttpOptions| connect(options, ProtocolVersion::LATEST).unwrap_err().to_string();
    let at = |path: PathBuf| {
        let mut options = HttpOptions::new();
        options.unix_socket(path);
        options
    };
    let missing = error(at(place.path()));
    assert!(
        missing.contains(&*place.path().to_string_lossy()) && missing.contains("is the server running?"),
        "{missing}"
    );
    drop(UnixListener::bind(place.path()).unwrap());
    let stale = error(at(place.path()));
    assert!(stale.contains("is the server running?"), "{stale}");
    let long = error(at(place.0.join("x".repeat(200))));
    assert!(long.contains("is the server running?"), "{long}");
}

/// A server whose queue is full, with the connections in it.
fn full(place: &Place) -> (socket2::Socket, Vec<socket2::Socket>) {
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(place.path()).unwrap()).unwrap();
    listener.listen(0).unwrap();
    let mut queued = Vec::new();
    loop {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        match socket.connect(&socket2::SockAddr::unix(place.path()).unwrap()) {
            Ok(()) => queued.push(socket),
            Err(_) => return (listener, queued),
        }
    }
}

/// The server neither accepts nor reads.
#[test]
fn connecting_to_a_server_that_does_not_accept_ends_at_the_timeout() {
    let place = Place::new("full");
    let (listener, queued) = full(&place);
    let mut options = HttpOptions::new();
    options.connect_timeout = Duration::from_millis(200);
    options.unix_socket(place.path());
    let waiting = thread::spawn(move || connect(options, ProtocolVersion::LATEST).unwrap_err().to_string());
    let error = waiting.join().unwrap();
    assert!(error.contains("did not accept the connection in time"), "{error}");
    drop((queued, listener));
}

#[test]
fn a_server_whose_queue_is_full_for_a_while_is_connected_to_when_it_has_room() {
    let place = Place::new("busy");
    let (listener, queued) = full(&place);
    let mut options = HttpOptions::new();
    options.unix_socket(place.path());
    let connecting = thread::spawn(move || connect(options, ProtocolVersion::LATEST).map(|client| client.close()));
    thread::sleep(Duration::from_millis(100));
    assert!(!connecting.is_finished(), "it waits for room");
    drop(queued);
    let (stop, running) = serve(UnixListener::from(listener));
    connecting.join().unwrap().unwrap();
    stop();
    running.join().unwrap();
}
