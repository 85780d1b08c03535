//! The connections of an HTTP server.

#![cfg(feature = "http-server")]

use std::net::SocketAddr;
use std::time::Duration;

use mcp_proto::client::CloseReason;
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json};
use mcp_testkit::http_exchange::initialize;
use mcp_tokio::{HttpService, Incoming, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// More than the buffers of both ends of a socket hold.
const LARGE: usize = 12_000_000;
const SLOW: Duration = Duration::from_millis(1200);

async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "large" => Ok(Json::from("x".repeat(LARGE).as_str())),
        "slow" => {
            sleep(SLOW).await;
            Ok(Json::from("slow"))
        }
        _ => std::future::pending().await,
    }
}

/// A listening server, its address and its task.
async fn listen(
    change: impl FnOnce(&mut HttpService),
) -> (HttpService, SocketAddr, JoinHandle<std::io::Result<CloseReason>>) {
    tests::deadline::set();
    let mut http = HttpConfig::new();
    // Only the timeouts of the connection are tested here.
    http.unread_timeout = Duration::from_secs(24 * 3600);
    let mut service = Server::new(Config::new("s", "1"), serve).http(http).unwrap();
    change(&mut service);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, serving) = (listener.local_addr().unwrap(), service.clone());
    (service, address, tokio::spawn(async move { serving.serve(listener).await }))
}

/// A request, as text.
fn post(session: &str, message: &str) -> String {
    let accept = "accept: application/json, text/event-stream\r\ncontent-type: application/json";
    let length = message.len();
    format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{accept}\r\n{session}content-length: {length}\r\n\r\n{message}")
}

/// A call in this session.
fn call(session: &str, method: &str) -> String {
    post(session, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#))
}

/// Reads until this text has arrived; returns everything up to then.
async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(end) {
        let mut buffer = [0; 1024];
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8(read).unwrap()
}

/// Opens a session; returns the header with its id.
async fn open(stream: &mut TcpStream) -> String {
    stream.write_all(post("", &initialize("2025-06-18")).as_bytes()).await.unwrap();
    let answer = until(stream, "\"result\"").await;
    assert!(answer.contains("content-length: "), "{answer}");
    let id = answer.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
    format!("{id}\r\n")
}

#[tokio::test]
async fn an_answer_may_take_longer_than_the_head_of_its_request() {
    let (_service, address, _serving) = listen(|service| service.head_timeout = SLOW * 3 / 4).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let session = open(&mut client).await;
    // In two pieces, so that the server already waits for the second.
    let call = call(&session, "slow");
    client.write_all(&call.as_bytes()[..30]).await.unwrap();
    sleep(Duration::from_millis(10)).await;
    client.write_all(&call.as_bytes()[30..]).await.unwrap();
    let answer = until(&mut client, "slow").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_timeout_beyond_the_range_of_the_clock_is_no_limit() {
    let longest = Duration::MAX;
    let (_service, address, _serving) =
        listen(|service| (service.head_timeout, service.idle_timeout) = (longest, longest)).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let initialize = post("", &initialize("2025-06-18"));
    for part in [&initialize.as_bytes()[..30], &initialize.as_bytes()[30..]] {
        // The server waits for the first byte, and then for the rest of the head.
        sleep(Duration::from_millis(10)).await;
        client.write_all(part).await.unwrap();
    }
    until(&mut client, "\"result\"").await;
}

#[tokio::test]
async fn a_refused_connection_is_answered_once_and_after_its_request() {
    let (_service, address, _serving) = listen(|service| service.max_connections = 1).await;
    let mut busy = TcpStream::connect(address).await.unwrap();
    let session = open(&mut busy).await;
    busy.write_all(call(&session, "wait").as_bytes()).await.unwrap();
    busy.flush().await.unwrap();
    // Until its request is handled, the connection counts as idle and would be closed for another one.
    sleep(Duration::from_millis(50)).await;
    let mut refused = TcpStream::connect(address).await.unwrap();
    let mut answer = String::new();
    // Without a request there must be no response, because many clients report that as an error.
    timeout(Duration::from_millis(50), refused.read_to_string(&mut answer)).await.unwrap_err();
    refused.write_all(call(&session, "wait").as_bytes()).await.unwrap();
    refused.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: "), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    // The response may be sent before the request is complete.
    let mut refused = TcpStream::connect(address).await.unwrap();
    let asked = call(&session, "wait");
    refused.write_all(&asked.as_bytes()[..asked.len() - 5]).await.unwrap();
    let mut answer = String::new();
    refused.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
}

/// Time is paused: it advances only when the runtime is idle.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let long = Duration::from_secs(24 * 3600);
    let (_service, address, _serving) =
        listen(|service| (service.head_timeout, service.idle_timeout) = (long, long)).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let session = open(&mut client).await;
    client.write_all(call(&session, "large").as_bytes()).await.unwrap();
    let head = until(&mut client, "\"result\"").await;
    assert!(head.contains(&format!("content-length: {}", LARGE + 36)), "{}", &head[..200]);
    sleep(Duration::from_secs(3600)).await;
    let mut rest = Vec::new();
    // Bytes that were sent before may be lost when the connection is reset.
    let _ = client.read_to_end(&mut rest).await;
    assert!(head.len() + rest.len() < LARGE, "{} bytes", rest.len());
}

#[tokio::test]
async fn a_service_that_is_closed_listens_no_more_and_its_last_answers_are_written() {
    let (service, address, serving) = listen(|_| {}).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let session = open(&mut client).await;
    client.write_all(call(&session, "large").as_bytes()).await.unwrap();
    let head = until(&mut client, "\"result\"").await;
    service.close().await;
    while TcpStream::connect(address).await.is_ok() {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(!serving.is_finished(), "it waits until the answer was read");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(head.len() + rest.len() > LARGE && rest.ends_with(b"\"}"), "{} bytes", rest.len());
    assert_eq!(serving.await.unwrap().unwrap(), CloseReason::Local);
}
