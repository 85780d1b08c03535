//! The port of 127.0.0.1 to which the browser returns: one short HTTP request per connection (OA-B-01).

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reqwest::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{sleep, timeout};

/// The time for one connection.
const CONNECTION_TIME: Duration = Duration::from_secs(2);

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 32 * 1024;

/// Connections at one time: browsers open some without a request.
const MAX_CONNECTIONS: usize = 16;

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// A request, and where its response is passed.
pub(super) type Callback = (request::Parts, oneshot::Sender<Response<Bytes>>);

/// An open port. Dropping it closes the port; responses that were passed are still sent.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    tasks: JoinSet<()>,
    /// In the order in which they were accepted.
    connections: Vec<Connection>,
    to_driver: mpsc::Sender<Callback>,
    callbacks: mpsc::Receiver<Callback>,
}

/// A connection that is served.
#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    has_request: Arc<AtomicBool>,
}

impl Listener {
    /// Opens this port, or any that is free.
    pub(super) async fn open(port: Option<u16>) -> io::Result<Self> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let (to_driver, callbacks) = mpsc::channel(MAX_CONNECTIONS);
        Ok(Self { socket, tasks: JoinSet::new(), connections: Vec::new(), to_driver, callbacks })
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Waits for a request. Dropping the future while it waits loses nothing.
    pub(super) async fn callback(&mut self) -> Callback {
        loop {
            self.forget_ended();
            if self.connections.len() >= MAX_CONNECTIONS {
                // What has arrived is read before a connection counts as silent.
                yield_now().await;
                self.forget_ended();
            }
            let has_room = self.connections.len() < MAX_CONNECTIONS || self.silent().is_some();
            tokio::select! {
                accepted = self.socket.accept(), if has_room => match accepted {
                    Ok((stream, _)) => self.serve(stream),
                    Err(_) => sleep(PAUSE).await,
                },
                Some(_) = self.tasks.join_next(), if !has_room => {}
                Some(callback) = self.callbacks.recv() => return callback,
            }
        }
    }

    fn serve(&mut self, stream: TcpStream) {
        if self.connections.len() >= MAX_CONNECTIONS {
            if let Some(silent) = self.silent() {
                self.connections.remove(silent).task.abort();
            }
        }
        let has_request = Arc::new(AtomicBool::new(false));
        let task = self.tasks.spawn(serve(stream, self.to_driver.clone(), Arc::clone(&has_request)));
        self.connections.push(Connection { task, has_request });
    }

    /// The first connection that has sent no request.
    fn silent(&self) -> Option<usize> {
        self.connections.iter().position(|connection| !connection.has_request.load(Ordering::Relaxed))
    }

    fn forget_ended(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.connections.retain(|connection| !connection.task.is_finished());
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tasks.detach_all();
    }
}

/// Passes the request of a connection on, and sends its response. A connection that breaks concerns the browser only.
async fn serve(stream: TcpStream, to_driver: mpsc::Sender<Callback>, has_request: Arc<AtomicBool>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        has_request.store(true, Ordering::Relaxed);
        let to_driver = to_driver.clone();
        async move {
            let (head, _) = request.into_parts();
            let (answer, answered) = oneshot::channel();
            to_driver.send((head, answer)).await.map_err(|_| Closed)?;
            let response = answered.await.map_err(|_| Closed)?;
            Ok::<_, Closed>(response.map(Body::from))
        }
    });
    let mut connection = http1::Builder::new();
    connection.keep_alive(false).max_buf_size(MAX_HEAD);
    let _ = timeout(CONNECTION_TIME, connection.serve_connection(TokioIo::new(stream), service)).await;
}

/// The port was closed.
#[derive(Debug, thiserror::Error)]
#[error("the port was closed")]
struct Closed;

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(port: u16, text: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut read = String::new();
        stream.read_to_string(&mut read).await.unwrap();
        read
    }

    fn page() -> Response<Bytes> {
        let mut response = Response::new(Bytes::from_static(b"page"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }

    #[tokio::test]
    async fn a_request_is_answered_although_the_port_is_closed_at_once() {
        let mut listener = Listener::open(None).await.unwrap();
        let port = listener.port().unwrap();
        let asked = tokio::spawn(ask(port, "GET /callback?code=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        let (head, answer) = listener.callback().await;
        assert_eq!(head.uri, "/callback?code=1");
        assert_eq!(head.headers["host"], "127.0.0.1");
        answer.send(page()).unwrap();
        drop(listener);
        Listener::open(Some(port)).await.expect("the port is free at once");
        let read = asked.await.unwrap();
        assert!(read.starts_with("HTTP/1.1 404 ") && read.ends_with("\r\n\r\npage"), "{read}");
    }

    #[tokio::test]
    async fn silent_connections_and_large_heads_delay_no_other_request() {
        for count in [0, 1, 20, 100] {
            let mut listener = Listener::open(None).await.unwrap();
            let port = listener.port().unwrap();
            let mut silent = Vec::new();
            for _ in 0..count {
                silent.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
            }
            let large = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(2 * MAX_HEAD));
            let large = tokio::spawn(async move { ask(port, &large).await });
            let asked = tokio::spawn(ask(port, "GET /callback HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
            // Less than the silent ones would take one after the other, or in groups.
            let (head, answer) = timeout(4 * CONNECTION_TIME, listener.callback()).await.unwrap();
            assert_eq!(head.uri, "/callback", "the large one is not passed on");
            assert!(listener.connections.len() <= MAX_CONNECTIONS, "{count}");
            answer.send(page()).unwrap();
            assert!(asked.await.unwrap().starts_with("HTTP/1.1 404 "), "{count}");
            drop(large);
        }
    }
}
