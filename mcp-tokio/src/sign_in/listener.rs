//! The port of this machine to which the browser returns: one short HTTP request per connection (OA-B-01).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcp_auth::{CALLBACK_TIME, CallbackHost, MAX_CALLBACK_HEAD, MAX_CALLBACKS};
use reqwest::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{sleep, timeout};

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// A request, and where its response is passed.
pub(super) type Callback = (request::Parts, oneshot::Sender<Response<Bytes>>);

/// An open port. Dropping it closes the port; responses that were passed are still sent.
#[derive(Debug)]
pub(super) struct Listener {
    /// One for each address of the host, at least one.
    sockets: Vec<TcpListener>,
    port: u16,
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
    /// Opens this port, or any that is free, at all addresses of a host that this machine has.
    pub(super) fn open(host: CallbackHost, port: Option<u16>) -> io::Result<Self> {
        // Binding does not wait: the name of the host is not resolved.
        let bind = |address| {
            let socket = std::net::TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let port = socket.local_addr()?.port();
            Ok((TcpListener::from_std(socket)?, port))
        };
        let absent = |address, error| tracing::debug!("cannot listen at {address}: {error}");
        let (sockets, port) = host.open(port, bind, absent)?;
        let (to_driver, callbacks) = mpsc::channel(MAX_CALLBACKS);
        Ok(Self { sockets, port, tasks: JoinSet::new(), connections: Vec::new(), to_driver, callbacks })
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Waits for a request. Dropping the future while it waits loses nothing.
    pub(super) async fn callback(&mut self) -> Callback {
        loop {
            self.forget_ended();
            if self.connections.len() >= MAX_CALLBACKS {
                // What has arrived is read before a connection counts as silent.
                yield_now().await;
                self.forget_ended();
            }
            let has_room = self.connections.len() < MAX_CALLBACKS || self.silent().is_some();
            tokio::select! {
                accepted = accept(&self.sockets), if has_room => match accepted {
                    Ok(stream) => self.serve(stream),
                    Err(_) => sleep(PAUSE).await,
                },
                Some(_) = self.tasks.join_next(), if !has_room => {}
                Some(callback) = self.callbacks.recv() => return callback,
            }
        }
    }

    fn serve(&mut self, stream: TcpStream) {
        if self.connections.len() >= MAX_CALLBACKS {
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

/// Waits for a connection at one of the addresses.
async fn accept(sockets: &[TcpListener]) -> io::Result<TcpStream> {
    poll_fn(|context| {
        for socket in sockets {
            if let Poll::Ready(accepted) = socket.poll_accept(context) {
                return Poll::Ready(accepted.map(|(stream, _)| stream));
            }
        }
        Poll::Pending
    })
    .await
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
    connection.keep_alive(false).max_buf_size(MAX_CALLBACK_HEAD);
    let _ = timeout(CALLBACK_TIME, connection.serve_connection(TokioIo::new(stream), service)).await;
}

/// The port was closed.
#[derive(Debug, thiserror::Error)]
#[error("the port was closed")]
struct Closed;

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

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
    async fn oa_q_09_localhost_is_both_loopback_addresses_with_one_port() {
        let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok();
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
                let mut browser = TcpStream::connect((address, port)).await.unwrap();
                browser.write_all(b"GET /callback?code=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
                let (head, _) = timeout(4 * CALLBACK_TIME, listener.callback()).await.unwrap();
                assert_eq!(head.uri, "/callback?code=1", "{host} {address}");
            }
            assert!(Listener::open(host, Some(port)).is_err(), "{host}: the port is taken");
        }
    }

    #[tokio::test]
    async fn oa_q_09_localhost_is_not_opened_in_part() {
        let Ok(taken) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else { return };
        let port = taken.local_addr().unwrap().port();
        // Another program may have it at the other address by chance.
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
            let opened = Listener::open(CallbackHost::Localhost, Some(port));
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::AddrInUse, "the browser would return to another program");
        }
        assert!(Listener::open(CallbackHost::Localhost, None).is_ok());
    }

    #[tokio::test]
    async fn a_request_is_answered_although_the_port_is_closed_at_once() {
        let mut listener = Listener::open(CallbackHost::Ipv4, None).unwrap();
        let port = listener.port();
        let asked = tokio::spawn(ask(port, "GET /callback?code=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        let (head, answer) = listener.callback().await;
        assert_eq!(head.uri, "/callback?code=1");
        assert_eq!(head.headers["host"], "127.0.0.1");
        answer.send(page()).unwrap();
        drop(listener);
        Listener::open(CallbackHost::Ipv4, Some(port)).expect("the port is free at once");
        let read = asked.await.unwrap();
        assert!(read.starts_with("HTTP/1.1 404 ") && read.ends_with("\r\n\r\npage"), "{read}");
    }

    #[tokio::test]
    async fn silent_connections_and_large_heads_delay_no_other_request() {
        for count in [0, 1, 20, 100] {
            let mut listener = Listener::open(CallbackHost::Ipv4, None).unwrap();
            let port = listener.port();
            let mut silent = Vec::new();
            for _ in 0..count {
                silent.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
            }
            let large = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(2 * MAX_CALLBACK_HEAD));
            let large = tokio::spawn(async move { ask(port, &large).await });
            let asked = tokio::spawn(ask(port, "GET /callback HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
            // Less than the silent ones would take one after the other, or in groups.
            let (head, answer) = timeout(4 * CALLBACK_TIME, listener.callback()).await.unwrap();
            assert_eq!(head.uri, "/callback", "the large one is not passed on");
            assert!(listener.connections.len() <= MAX_CALLBACKS, "{count}");
            answer.send(page()).unwrap();
            assert!(asked.await.unwrap().starts_with("HTTP/1.1 404 "), "{count}");
            drop(large);
        }
    }

    #[tokio::test]
    async fn a_connection_that_waits_for_its_response_is_closed_for_no_other() {
        let request = "GET /callback HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        for waiting in [2, MAX_CALLBACKS] {
            let mut listener = Listener::open(CallbackHost::Ipv4, None).unwrap();
            let port = listener.port();
            let (mut asked, mut answers, mut silent) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..waiting {
                asked.push(tokio::spawn(ask(port, request)));
                answers.push(listener.callback().await.1);
            }
            for _ in waiting..MAX_CALLBACKS {
                silent.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
            }
            let mut newest = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            newest.write_all(request.as_bytes()).await.unwrap();
            let answer_one = async {
                for _ in 0..100 {
                    yield_now().await;
                }
                if silent.is_empty() {
                    answers.pop().unwrap().send(page()).expect("nothing has closed the connection");
                }
            };
            tokio::join!(listener.callback(), answer_one);
            assert!(listener.connections.len() <= MAX_CALLBACKS, "{waiting}");
            for answer in answers {
                answer.send(page()).expect("nothing has closed the connection");
            }
            for asked in asked {
                let read = asked.await.unwrap();
                assert!(read.starts_with("HTTP/1.1 404 "), "{waiting}: {read}");
            }
        }
    }

    #[tokio::test]
    async fn a_connection_counts_until_it_ends() {
        let mut listener = Listener::open(CallbackHost::Ipv4, None).unwrap();
        let until = Instant::now() + 20 * CALLBACK_TIME;
        let mut browser = Some(TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port())).await.unwrap());
        for count in [1, 0] {
            while listener.connections.len() != count {
                assert!(Instant::now() < until, "{count}");
                let _ = timeout(Duration::from_millis(1), listener.callback()).await;
            }
            browser = None;
        }
        assert!(browser.is_none());
    }
}
