//! One connection: its socket, its current stage, and its timeouts.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_application::{ConnectionSlot, ConnectionTimeouts};
use mcp_proto::server::{PeerKey, too_many_connections};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_io_timeout::TimeoutStream;

use super::client_socket::ClientSocket;
use super::driver::Urgent;
use super::half_close::{Closed, Current};
use super::inbox::Inbox;
use super::pieces::Watched;
use super::request_lines::RequestLines;
use super::{HttpBody, Stage as ServiceStage};

/// How long a client may take to read the bytes of one write.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// The maximum size of a connection's buffers.
const BUFFER: usize = 64 * 1024;
/// The interval of the checks whether the client has disconnected while a request is answered.
const TICK: Duration = Duration::from_millis(500);
/// How long reading continues after a response that ends the connection: closing it with unread bytes would destroy the
/// response.
const LINGER: Duration = Duration::from_secs(1);
/// How long the connection waits for the head of a request that is answered with 503.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// The maximum number of bytes per read while lingering.
const CHUNK: usize = 4096;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const REQUEST_TIMEOUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The current stage of a connection.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// There is no request, since then.
    Idle(Instant),
    /// The head of a request is arriving, since then.
    Head(Instant),
    /// A request is being answered.
    Answering,
    /// The rest of the response is being written.
    Flushing,
}

/// The state of a connection, as its socket and its service report it.
#[derive(Debug)]
struct Activity {
    stage: Mutex<Stage>,
    /// The body of the current response, if it can be aborted.
    body: Mutex<Option<Watched>>,
    changed: Notify,
    slot: ConnectionSlot<Arc<Notify>>,
    current: Current,
    /// Something of a response was passed to the socket, and not all of it was written.
    is_writing: AtomicBool,
    /// The client may be sent `100 Continue`: it speaks HTTP/1.1, and its response has not begun.
    is_probed: AtomicBool,
}

impl Activity {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn body(&self) -> MutexGuard<'_, Option<Watched>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers_with(&self, body: Option<Watched>) {
        self.is_probed.store(false, Ordering::Relaxed);
        let has_changed = body.is_some();
        *self.body() = body;
        if has_changed {
            self.changed.notify_one();
        }
    }

    fn on_read(&self) {
        let mut stage = self.stage();
        if matches!(*stage, Stage::Idle(_)) {
            *stage = Stage::Head(Instant::now());
            self.changed.notify_one();
        }
    }

    /// Whether `100 Continue` may be written: every response before is written, and this one has not begun.
    fn may_probe(&self) -> bool {
        self.is_probed.load(Ordering::Relaxed) && !self.is_writing.load(Ordering::Relaxed)
    }

    fn on_flushed(&self) {
        self.is_writing.store(false, Ordering::Relaxed);
        let mut stage = self.stage();
        if matches!(*stage, Stage::Flushing) {
            *stage = Stage::Idle(Instant::now());
            *self.body() = None;
            self.slot.set_unused();
            self.changed.notify_one();
        }
    }

    fn begin(self: &Arc<Self>, version: Version) -> Answering {
        *self.stage() = Stage::Answering;
        self.is_probed.store(version == Version::HTTP_11, Ordering::Relaxed);
        self.slot.set_used();
        self.changed.notify_one();
        Answering(Arc::clone(self))
    }
}

/// A request that is being answered.
#[derive(Debug)]
struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        *self.0.stage() = Stage::Flushing;
    }
}

/// Serves requests until the connection ends. `eviction` is notified when it must close to make room for another one.
pub(super) async fn serve(
    inbox: Inbox,
    timeouts: ConnectionTimeouts,
    stream: Arc<ClientSocket>,
    slot: ConnectionSlot<Arc<Notify>>,
    eviction: Arc<Notify>,
    peer: PeerKey,
    mut service_stage: watch::Receiver<ServiceStage>,
) {
    stream.set_nodelay();
    let stage = Mutex::new(Stage::Idle(Instant::now()));
    let (current, urgent) = (Current::default(), inbox.urgent().clone());
    let activity = Arc::new(Activity {
        stage,
        body: Mutex::new(None),
        changed: Notify::new(),
        slot,
        current: current.clone(),
        is_writing: AtomicBool::new(false),
        is_probed: AtomicBool::new(false),
    });
    let mut socket = TimeoutStream::new(Socket {
        stream: Arc::clone(&stream),
        activity: Arc::clone(&activity),
        lines: RequestLines::default(),
    });
    socket.set_write_timeout(Some(WRITE_TIME));
    let service = Tracked { inbox, activity: Arc::clone(&activity), peer };
    // A service that is being stopped answers one request.
    let begun = *service_stage.borrow();
    let mut is_ending = false;
    {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            // A client that ends its sending side after its request may wait for the response.
            .half_close(true)
            .keep_alive(begun == ServiceStage::Serving)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(Box::pin(socket)), service);
        let mut connection = std::pin::pin!(connection);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut half_closed = None;
        loop {
            let stage = *activity.stage();
            let body = activity.body().clone();
            // A time that is too large for the clock is no limit.
            let (deadline, is_answering) = match stage {
                Stage::Idle(since) => (since.checked_add(timeouts.idle), false),
                Stage::Head(since) => (since.checked_add(timeouts.head), false),
                Stage::Answering | Stage::Flushing => (None, true),
            };
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended");
                    }
                    return;
                }
                () = activity.changed.notified() => {}
                () = eviction.notified() => return,
                // Closing the connection also drops the bytes that its buffers have taken (M3).
                () = until_aborted(body.as_ref()) => return,
                () = until(deadline) => match stage {
                    Stage::Head(_) => break,
                    Stage::Idle(_) | Stage::Answering | Stage::Flushing => return,
                },
                // hyper does not detect the end of the input behind a pipelined request (B14). After a client has ended
                // its sending side, hyper does not detect either that the client is gone: such a client refuses what is
                // written to it, and the machine causes such a write.
                _ = tick.tick(), if is_answering => match (Closed::of(&stream).await, current.arrived()) {
                    (Closed::Both, _) => return,
                    (Closed::Sending, Some(arrived)) if half_closed != Some(arrived) => {
                        half_closed = Some(arrived);
                        let _ = urgent.send(Urgent::HalfClosed(arrived, Arc::clone(current.probe())));
                    }
                    (Closed::Sending | Closed::Neither, _) => {}
                },
                () = current.probe().notified() => {
                    let is_cut = |written| matches!(written, Ok(length) if length < CONTINUE.len());
                    if activity.may_probe() && is_cut(stream.try_write(CONTINUE)) {
                        return;
                    }
                }
                () = super::until_past(&mut service_stage, begun), if !is_ending => {
                    is_ending = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
    if stream.try_write(REQUEST_TIMEOUT).is_ok() {
        linger(&stream).await;
    }
}

/// Answers the first request with 503.
pub(super) async fn refuse(mut stream: ClientSocket, _slot: ConnectionSlot<Arc<Notify>>) {
    let service = hyper::service::service_fn(|_: Request<Incoming>| {
        std::future::ready(Ok::<_, Infallible>(too_many_connections().map(HttpBody::whole)))
    });
    let serving = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(&mut stream), service);
    let _ = timeout(REFUSAL_TIME, serving).await;
    // This also covers a connection without a request. After a response, nothing more can be written.
    refuse_at_once(&stream);
    linger(&stream).await;
}

/// Answers with 503 without waiting for a request, as far as that can be written without blocking.
pub(super) fn refuse_at_once(stream: &ClientSocket) {
    let (head, body) = too_many_connections().into_parts();
    let mut text = format!("HTTP/1.1 {}\r\nconnection: close\r\ncontent-length: {}\r\n", head.status, body.len());
    for (name, value) in &head.headers {
        text.extend([name.as_str(), ": ", value.to_str().unwrap_or_default(), "\r\n"]);
    }
    text.push_str("\r\n");
    // The runtime has no readiness for this socket yet, so it is written to directly.
    let _ = stream.send(&[text.as_bytes(), &body].concat());
}

async fn until_aborted(body: Option<&Watched>) {
    match body {
        Some(body) => body.aborted().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Reads and discards bytes for up to [`LINGER`].
async fn linger(stream: &ClientSocket) {
    let reading = async {
        let mut buffer = [0; CHUNK];
        while stream.readable().await.is_ok() {
            match stream.try_read(&mut buffer) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return,
            }
        }
    };
    let _ = timeout(LINGER, reading).await;
}

/// The socket of a connection, which reports when bytes are read and makes ambiguous requests invalid.
#[derive(Debug)]
struct Socket {
    stream: Arc<ClientSocket>,
    activity: Arc<Activity>,
    lines: RequestLines,
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let free = buffer.initialize_unfilled();
            match self.stream.try_read(free) {
                Ok(length) => {
                    self.lines.examine(free.get_mut(..length).unwrap_or_default());
                    buffer.advance(length);
                    self.activity.on_read();
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.activity.is_writing.store(true, Ordering::Relaxed);
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match self.stream.try_write_vectored(pieces) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper calls this when everything was written; the socket has no buffer of its own.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.on_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown_write())
    }
}

/// The service of one connection, which reports when a request is being answered.
#[derive(Debug)]
struct Tracked {
    inbox: Inbox,
    activity: Arc<Activity>,
    peer: PeerKey,
}

impl hyper::service::Service<Request<Incoming>> for Tracked {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<TrackedBody>, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let answering = self.activity.begin(request.version());
        let inbox = self.inbox.clone();
        request.extensions_mut().insert(self.peer.clone());
        request.extensions_mut().insert(self.activity.current.clone());
        Box::pin(async move {
            let response = inbox.answer(request, false).await;
            answering.0.answers_with(response.body().watched());
            Ok(response.map(|body| TrackedBody { body, _answering: answering }))
        })
    }
}

/// A body that marks its request as answered when it is dropped.
#[derive(Debug)]
struct TrackedBody {
    body: HttpBody,
    _answering: Answering,
}

impl Body for TrackedBody {
    type Data = <HttpBody as Body>::Data;
    type Error = <HttpBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
