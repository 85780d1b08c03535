//! A server and its clients on a Unix socket.

#![cfg(all(unix, feature = "http-client", feature = "http-server"))]

use std::path::PathBuf;
use std::time::Duration;

use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, ProtocolVersion};
use mcp_testkit::waiting::LONG;
use mcp_tokio::model::ServerCard;
use mcp_tokio::{Client, Error, HttpOptions, HttpService, Incoming, Server, ServerPublisher};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A path in a folder that is removed when this is dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        tests::deadline::set();
        let folder = std::env::temp_dir().join(format!("mcp-tokio-unix-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("s")
    }

    fn options(&self) -> HttpOptions {
        let mut options = HttpOptions::new();
        options.unix_socket(self.path());
        options
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn connect(options: HttpOptions, version: ProtocolVersion) -> Result<Client, Error> {
    let builder = Client::builder().versions([version]).http("http://localhost/mcp")?.http_options(options);
    Box::pin(builder.connect()).await
}

/// A server that answers each request with its name; one for `wait` after it has sent a message, when the request is over.
fn serve(
    place: &Place,
    max_connections: usize,
) -> (HttpService<ServerPublisher>, mpsc::UnboundedReceiver<&'static str>) {
    let (steps, noted) = mpsc::unbounded_channel();
    let echo = move |incoming: Incoming| {
        let steps = steps.clone();
        async move {
            if incoming.method().as_str() == "wait" {
                let _ = steps.send("begun");
                let _ended = Ended(steps);
                std::future::pending::<()>().await;
            }
            Ok::<_, ErrorObject>(Json::empty_object().with_member("m", &Json::from(incoming.method().as_str())))
        }
    };
    let http = HttpConfig::new().server_card(ServerCard::describe("com.example/s", "1", ""));
    let mut service = Server::new(Config::new("s", "1"), echo).http(http).unwrap();
    service.max_connections = max_connections;
    let (running, listener) = (service.clone(), UnixListener::bind(place.path()).unwrap());
    tokio::spawn(async move { running.serve(listener).await });
    (service, noted)
}

/// Notes that a request is over.
struct Ended(mpsc::UnboundedSender<&'static str>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send("ended");
    }
}

#[tokio::test]
async fn a_client_of_each_era_uses_a_server_on_a_unix_socket() {
    let place = Place::new("eras");
    let (service, _steps) = serve(&place, 100);
    for version in [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST] {
        let client = connect(place.options(), version).await.unwrap();
        let answer = client.request("x/y", None).await.unwrap();
        assert_eq!(answer.member("m").unwrap().unwrap(), Json::from("x/y"), "{version}");
        client.close().await;
    }
    let builder = Client::builder().http("http://localhost/mcp").unwrap().http_options(place.options());
    let card = builder.server_card().await.unwrap();
    assert_eq!(card.map(|card| card.name).as_deref(), Some("com.example/s"));
    service.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_request_is_cancelled_when_its_client_is_gone() {
    let place = Place::new("gone");
    let (_service, mut steps) = serve(&place, 100);
    let mut stream = UnixStream::connect(place.path()).await.unwrap();
    let body = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"wait","params":{"_meta":{"#,
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"#,
        r#""io.modelcontextprotocol/clientCapabilities":{}}}}"#
    );
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: wait\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    assert_eq!(timeout(LONG, steps.recv()).await.unwrap(), Some("begun"));
    drop(stream);
    assert_eq!(timeout(LONG, steps.recv()).await.unwrap(), Some("ended"));
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_in_words() {
    let place = Place::new("limit");
    let (_service, mut steps) = serve(&place, 1);
    let first = connect(place.options(), ProtocolVersion::LATEST).await.unwrap();
    let _waiting = first.call(mcp_proto::client::Call::new("wait")).await.unwrap();
    assert_eq!(timeout(LONG, steps.recv()).await.unwrap(), Some("begun"));
    let mut second = UnixStream::connect(place.path()).await.unwrap();
    let mut answer = String::new();
    timeout(LONG, second.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
}

#[tokio::test]
async fn an_error_says_that_nothing_listens() {
    let place = Place::new("nothing");
    let error = connect(place.options(), ProtocolVersion::LATEST).await.unwrap_err().to_string();
    assert!(error.contains("the server at http://localhost/mcp"), "{error}");
    assert!(error.contains(&*place.path().to_string_lossy()), "{error}");
}
