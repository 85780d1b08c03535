//! One connection from a client: reads requests and writes their responses, one at a time.
//!
//! | file | what it does |
//! |---|---|
//! | `streaming` | a response that is a stream, while a thread writes it |
//! | `outgoing` | the pieces of a stream as bytes |
//! | `parking` | silent streams, which have no thread |

mod outgoing;
pub(super) mod parking;
mod streaming;

use std::any::Any;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::TryRecvError;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use mcp_application::{ConnectionSlot, ConnectionTimeouts};
use mcp_proto::auth::Challenge;
use mcp_proto::server::{PeerKey, Principal, expects_continue, server_stopped, too_many_connections};
use parking::{Parked, Parking};
use streaming::{Answering, Streaming};

use super::authenticate::Authenticate;
use super::http_exchanges::Arrived;
use super::http1::{Delimited, Framing, HEAD, Head, Piece, parse_head, write_head};
use super::response_channel::{CHUNK, Reply, Responses, replies};
use crate::inbox::Inbox;
use crate::platform::WRITES_TO_HALF_CLOSED;
use crate::socket::Socket;

/// How long a write may block because the client does not read.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long the connection reads on after the last response.
const LINGER: Duration = Duration::from_secs(1);
/// How long a connection that is answered with 503 may take to send the head of its request.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// How often a blocked read returns to check for other events.
const TICK: Duration = Duration::from_millis(500);

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The next number by which connections identify their requests to the driver.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// What answers a request.
pub(crate) enum Destination {
    /// A machine.
    Machine(Routed),
    /// This response.
    Response(Response<Bytes>),
}

/// What serves a request.
pub(crate) struct Routed {
    /// The inbox of the driver.
    pub(crate) driver: Arc<dyn Inbox<Arrived>>,
    pub(crate) authenticate: Authenticate,
    /// The configuration that has led here. It is kept until the request was passed to the driver.
    pub(crate) in_force: Option<Arc<dyn Any + Send + Sync>>,
}

pub(super) struct Connection {
    stream: Arc<Socket>,
    slot: ConnectionSlot<Arc<Socket>>,
    peer: PeerKey,
    server: Shared,
    /// Bytes that were read but not yet parsed.
    buffer: Vec<u8>,
    /// The request that has arrived in full and is being answered.
    answered: Option<Answered>,
}

/// A request that is being answered.
struct Answered {
    request: u64,
    driver: Arc<dyn Inbox<Arrived>>,
    is_11: bool,
    /// How often `Arrived::HalfClosed` was sent for this request.
    half_closed: u8,
}

/// What all connections of a server share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) timeouts: ConnectionTimeouts,
    /// Finds out what answers the request with this head.
    pub(super) route: Arc<dyn Fn(&Parts) -> Destination + Send + Sync>,
    /// The number of requests that are being answered.
    pub(super) answering: Arc<AtomicUsize>,
    /// The server is being stopped: no connection is kept for another request.
    pub(super) is_stopping: Arc<AtomicBool>,
    /// The stack of the thread of a connection, in bytes.
    pub(super) stack: usize,
    pub(super) parking: Parking,
}

/// What happens to the connection after a request, or after a part of its response.
enum Next {
    KeepAlive,
    Close,
    /// A stream has begun.
    Stream(Box<Streaming>),
    /// The stream is silent.
    Park(Box<Streaming>),
}

impl Connection {
    pub(super) fn new(
        stream: Arc<Socket>,
        slot: ConnectionSlot<Arc<Socket>>,
        peer: PeerKey,
        server: Shared,
    ) -> io::Result<Self> {
        stream.prepare(TICK, WRITE_TIME)?;
        Ok(Self { stream, slot, peer, server, buffer: Vec::new(), answered: None })
    }

    /// Serves requests until the connection ends, or its stream is silent: then the thread ends, and another one goes on later.
    pub(super) fn run(self) -> io::Result<()> {
        self.go_on(None)
    }

    /// Goes on with this stream.
    fn go_on(mut self, mut streaming: Option<Box<Streaming>>) -> io::Result<()> {
        loop {
            let outcome = match streaming.take() {
                Some(begun) => self.stream(begun),
                None => match self.read_head()? {
                    Some(head) => self.serve_head(head),
                    None => break,
                },
            };
            match outcome {
                Ok(Next::Stream(begun)) => streaming = Some(begun),
                Ok(Next::Park(silent)) => {
                    let parking = self.server.parking.clone();
                    let Err(parked) = parking.park(Box::new(Parked { connection: self, streaming: silent })) else {
                        return Ok(());
                    };
                    let Parked { connection, streaming: mut kept } = *parked;
                    self = connection;
                    kept.may_park = false;
                    streaming = Some(kept);
                }
                outcome => {
                    self.slot.set_unused();
                    if !matches!(outcome?, Next::KeepAlive) {
                        break;
                    }
                }
            }
        }
        self.linger();
        Ok(())
    }

    fn serve_head(&mut self, mut head: Head) -> io::Result<Next> {
        self.slot.set_used();
        match (self.server.route)(&head.parts) {
            Destination::Response(response) => {
                let _answering = Answering::new(&self.server.answering);
                self.answer(&head, response)
            }
            Destination::Machine(routed) => {
                let authentication = routed.authenticate.check(&head.parts).map(|authenticated| {
                    let (principal, extensions) = authenticated.into_parts();
                    head.parts.extensions.extend(extensions);
                    principal
                });
                self.serve(head, authentication, routed)
            }
        }
    }

    /// Answers any request with 503. Reads the head first, since closing a socket with unread bytes resets the
    /// connection and can destroy the response.
    pub(super) fn refuse_all(mut self) -> io::Result<()> {
        let until = Instant::now() + REFUSAL_TIME;
        while matches!(parse_head(&self.buffer), Ok(None)) && Instant::now() < until {
            if self.read_more()? == Some(0) {
                break;
            }
        }
        refuse_at_once(&self.stream)?;
        self.linger();
        Ok(())
    }

    /// Reads on for a moment after the last response: closing a socket with unread bytes can destroy a response in
    /// transit.
    fn linger(&mut self) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let until = Instant::now() + LINGER;
        while Instant::now() < until {
            self.buffer.clear();
            if !matches!(self.read_more(), Ok(None | Some(1..))) {
                return;
            }
        }
    }

    fn read_head(&mut self) -> io::Result<Option<Head>> {
        let timeouts = self.server.timeouts;
        let silent_since = Instant::now();
        let mut begun = None;
        loop {
            match parse_head(&self.buffer) {
                Ok(Some((head, length))) => {
                    self.buffer.drain(..length);
                    return Ok(Some(head));
                }
                Ok(None) => {}
                Err(status) => {
                    self.refuse(status)?;
                    return Ok(None);
                }
            }
            if !self.buffer.is_empty() && begun.is_none() {
                begun = Some(Instant::now());
            }
            let (since, limit) = begun.map_or((silent_since, timeouts.idle), |begun| (begun, timeouts.head));
            // A connection that was just made may be needed for a request that is still being answered.
            let limit = if begun.is_none() && self.is_stopping() { limit.min(TICK) } else { limit };
            if since.elapsed() >= limit {
                if begun.is_some() {
                    self.refuse(StatusCode::REQUEST_TIMEOUT)?;
                }
                return Ok(None);
            }
            if self.read_more()? == Some(0) {
                return Ok(None);
            }
        }
    }

    /// Reads the available bytes and returns their number, 0 at the end of the stream; `None` if there are none yet.
    fn read_more(&mut self) -> io::Result<Option<usize>> {
        let start = self.buffer.len();
        self.buffer.resize(start + CHUNK, 0);
        let outcome = (&*self.stream).read(self.buffer.get_mut(start..).unwrap_or_default());
        self.buffer.truncate(start + outcome.as_ref().copied().unwrap_or(0));
        match outcome {
            Ok(length) => Ok(Some(length)),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Answers a request by itself, without reading its body.
    fn answer(&self, head: &Head, response: Response<Bytes>) -> io::Result<Next> {
        let keep_alive = head.keep_alive && head.framing == Framing::Done && !self.is_stopping();
        write_response(&self.stream, response, keep_alive, head.parts.method == http::Method::HEAD)?;
        Ok(if keep_alive { Next::KeepAlive } else { Next::Close })
    }

    fn serve(
        &mut self,
        head: Head,
        authentication: Result<Option<Principal>, Challenge>,
        Routed { driver, in_force, .. }: Routed,
    ) -> io::Result<Next> {
        let answering = Answering::new(&self.server.answering);
        let Head { parts, mut framing, keep_alive } = head;
        let (replies, responses) = replies(&self.stream, Arc::clone(&driver));
        let request = NEXT.fetch_add(1, Ordering::Relaxed);
        let is_11 = parts.version == http::Version::HTTP_11;
        let is_head = parts.method == http::Method::HEAD;
        let waits = expects_continue(&parts);
        // The part of the body that arrived with the head is sent to the driver with it.
        let mut body = Vec::new();
        let fed = self.take_body(&mut framing, &mut body);
        let is_whole = framing == Framing::Done;
        let (head, peer) = (Box::new(parts), self.peer.clone());
        let arrived = Arrived::Request { request, head, authentication, peer, body, is_whole, replies };
        if !driver.send(arrived) {
            write_whole(&self.stream, server_stopped())?;
            return Ok(Next::Close);
        }
        let early = fed.and_then(|()| if waits { self.wait_to_continue(&responses) } else { Ok(None) });
        let early = early.and_then(|early| match early {
            None => self.feed(request, &mut framing, &responses, &*driver),
            Some(_) => Ok(early),
        });
        drop(in_force);
        let begun = early.and_then(|early| {
            let all_read = framing == Framing::Done;
            let answered = Answered { request, driver: Arc::clone(&driver), is_11, half_closed: 0 };
            self.answered = all_read.then_some(answered);
            self.respond(early, &responses, keep_alive && all_read, is_11, is_head)
        });
        let outcome = match begun {
            Ok(Begun::Stream { body, keep_alive }) => {
                let request = (request, &driver);
                return Ok(Next::Stream(Streaming::of(self, request, responses, body, keep_alive, answering)));
            }
            Ok(Begun::Over { keep_alive: true }) => Ok(Next::KeepAlive),
            Ok(Begun::Over { keep_alive: false }) => Ok(Next::Close),
            Err(error) => Err(error),
        };
        self.end_request(request, &*driver, outcome)
    }

    /// Ends a request. Reports the end of the connection to the driver, unless another request may follow.
    fn end_request(
        &mut self,
        request: u64,
        driver: &dyn Inbox<Arrived>,
        outcome: io::Result<Next>,
    ) -> io::Result<Next> {
        self.answered = None;
        if !matches!(outcome, Ok(Next::KeepAlive)) {
            driver.send(Arrived::Disconnected(request));
        }
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidData) {
            self.refuse(StatusCode::BAD_REQUEST)?;
            return Ok(Next::Close);
        }
        outcome
    }

    /// Sends `100 Continue` so that the client sends the body, or returns the response to the head alone.
    fn wait_to_continue(&mut self, responses: &Responses) -> io::Result<Option<Reply>> {
        match self.wait(responses)? {
            Some(Reply::Continue) => {
                (&*self.stream).write_all(CONTINUE)?;
                Ok(None)
            }
            Some(early) => Ok(Some(early)),
            None => Err(ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Moves the bytes of the body out of the buffer.
    fn take_body(&mut self, framing: &mut Framing, body: &mut Vec<u8>) -> io::Result<()> {
        let mut at = 0;
        let outcome = loop {
            if *framing == Framing::Done {
                break Ok(());
            }
            match framing.next(self.buffer.get(at..).unwrap_or_default()) {
                Ok(Piece::Data(length)) => {
                    body.extend_from_slice(self.buffer.get(at..at + length).unwrap_or_default());
                    at += length;
                }
                Ok(Piece::Skip(length)) => at += length,
                Ok(Piece::More) => break Ok(()),
                Err(_) => break Err(io::Error::new(ErrorKind::InvalidData, "the chunks of the body are broken")),
            }
        };
        self.buffer.drain(..at);
        outcome
    }

    /// Reads the rest of the body, unless the driver answers earlier.
    fn feed(
        &mut self,
        request: u64,
        framing: &mut Framing,
        responses: &Responses,
        driver: &dyn Inbox<Arrived>,
    ) -> io::Result<Option<Reply>> {
        while *framing != Framing::Done {
            match responses.try_recv() {
                Ok(early) => return Ok(Some(early)),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Err(ErrorKind::ConnectionAborted.into()),
            }
            if self.read_more()? == Some(0) {
                // The driver may already have answered the head alone.
                responses.wait(TICK);
                return responses.try_recv().map(Some).map_err(|_| ErrorKind::UnexpectedEof.into());
            }
            let mut body = Vec::new();
            self.take_body(framing, &mut body)?;
            let is_last = *framing == Framing::Done;
            if (is_last || !body.is_empty()) && !driver.send(Arrived::Body { request, body, is_last }) {
                return Err(ErrorKind::ConnectionAborted.into());
            }
        }
        Ok(None)
    }

    fn respond(
        &mut self,
        early: Option<Reply>,
        responses: &Responses,
        keep_alive: bool,
        is_11: bool,
        is_head: bool,
    ) -> io::Result<Begun> {
        let first = if early.is_some() { early } else { self.wait(responses)? };
        let Some(first) = first else {
            write_whole(&self.stream, server_stopped())?;
            return Ok(Begun::Over { keep_alive: false });
        };
        // The server may have been stopped while the request was handled.
        let keep_alive = keep_alive && !self.is_stopping();
        let mut out = BufWriter::with_capacity(CHUNK, &*self.stream);
        match first {
            Reply::Whole(response) => {
                let (head, body) = response.into_parts();
                write_head(&mut out, head.status, &head.headers, Delimited::Length(body.len()), keep_alive)?;
                // A response to HEAD has no body: the client would parse one as the next response (RFC 9110 9.3.2).
                if !is_head {
                    responses.write(&mut out, &body)?;
                }
                out.flush()?;
            }
            Reply::Stream(response) => {
                let head = response.into_parts().0;
                let body = if is_11 { Delimited::Chunks } else { Delimited::Close };
                write_head(&mut out, head.status, &head.headers, body, keep_alive)?;
                out.flush()?;
                return Ok(Begun::Stream { body, keep_alive });
            }
            Reply::Continue | Reply::Piece(_) | Reply::End => return Ok(Begun::Over { keep_alive: false }),
        }
        Ok(Begun::Over { keep_alive })
    }

    /// Waits for the response, and checks meanwhile that the client has not closed the connection.
    fn wait(&mut self, responses: &Responses) -> io::Result<Option<Reply>> {
        loop {
            match responses.try_recv() {
                Ok(Reply::Continue) if self.answered.is_some() => {
                    if self.answered.as_ref().is_some_and(|answered| answered.is_11) {
                        (&*self.stream).write_all(CONTINUE)?;
                    }
                }
                Ok(reply) => return Ok(Some(reply)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {
                    if !responses.wait(TICK) {
                        self.check_presence()?;
                    }
                }
            }
        }
    }

    /// Returns an error if the client has closed the connection. Bytes of a next request are read into the buffer,
    /// because the end of the stream comes after them (B14). A client that has only ended its sending side reads the
    /// response. A client that is gone refuses what is written to it; the machine causes such a write.
    fn check_presence(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        let mut outcome = Ok(None);
        while self.buffer.len() < HEAD {
            outcome = self.read_more();
            if !matches!(outcome, Ok(Some(1..))) {
                break;
            }
        }
        self.stream.set_nonblocking(false)?;
        if outcome? != Some(0) {
            return Ok(());
        }
        let Some(answered) = &mut self.answered else { return Err(ErrorKind::UnexpectedEof.into()) };
        if answered.half_closed == WRITES_TO_HALF_CLOSED {
            return self.stream.take_error()?.map_or(Ok(()), Err);
        }
        answered.half_closed += 1;
        answered.driver.send(Arrived::HalfClosed(answered.request));
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.server.is_stopping.load(Ordering::Acquire)
    }

    /// Answers invalid HTTP with `status`, after which the connection ends.
    fn refuse(&mut self, status: StatusCode) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(CHUNK, &*self.stream);
        write_head(&mut out, status, &HeaderMap::new(), Delimited::Length(0), false)?;
        out.flush()
    }
}

/// What became of a request when its response has begun.
enum Begun {
    /// The response was written in full, or cannot be.
    Over { keep_alive: bool },
    /// Its body follows, delimited in this way.
    Stream { body: Delimited, keep_alive: bool },
}

/// Runs a connection on a thread of its own, whose stack has this many bytes.
pub(super) fn on_thread(stack: usize, run: impl FnOnce() -> io::Result<()> + Send + 'static) {
    let spawned = thread::Builder::new().name("mcp-connection".to_owned()).stack_size(stack).spawn(move || {
        if let Err(error) = run() {
            log::debug!("a connection ended: {error}");
        }
    });
    if let Err(error) = spawned {
        log::warn!("cannot start another thread: {error}");
    }
}

/// Closes a connection to make room for another one.
pub(super) fn close(stream: &Socket) {
    let _ = stream.shutdown(Shutdown::Both);
}

/// Answers any request with 503.
pub(super) fn refuse_at_once(stream: &Socket) -> io::Result<()> {
    write_whole(stream, too_many_connections())
}

/// Writes a response after which the connection is closed.
fn write_whole(stream: &Socket, response: Response<Bytes>) -> io::Result<()> {
    write_response(stream, response, false, false)
}

fn write_response(stream: &Socket, response: Response<Bytes>, keep_alive: bool, is_head: bool) -> io::Result<()> {
    let (head, body) = response.into_parts();
    let mut out = BufWriter::with_capacity(CHUNK, stream);
    write_head(&mut out, head.status, &head.headers, Delimited::Length(body.len()), keep_alive)?;
    // A response to HEAD has no body: the client would parse one as the next response (RFC 9110 9.3.2).
    if !is_head {
        out.write_all(&body)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::thread::{self, JoinHandle};

    use ::mcp_testkit::waiting::{LONG, wait_until};
    use mcp_application::{Admitted, SharedConnections};

    use super::super::response_channel::Replies;
    use super::*;
    use crate::clock;

    /// A connection on its own thread. The test acts as its client and as the driver.
    struct Served {
        client: TcpStream,
        inputs: Receiver<Arrived>,
        answering: Arc<AtomicUsize>,
        is_stopping: Arc<AtomicBool>,
        connections: SharedConnections<Arc<Socket>>,
        parking: Parking,
        thread: JoinHandle<io::Result<()>>,
    }

    impl Served {
        fn start(timeouts: ConnectionTimeouts, run: fn(Connection) -> io::Result<()>) -> Self {
            Self::with(timeouts, Parking::default(), run)
        }

        /// Silent streams give up their threads there.
        fn parking(parking: Parking) -> Self {
            Self::with(ConnectionTimeouts { head: LONG, idle: LONG }, parking, Connection::run)
        }

        fn with(timeouts: ConnectionTimeouts, parking: Parking, run: fn(Connection) -> io::Result<()>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            let stream = Arc::new(Socket::from(listener.accept().unwrap().0));
            let connections = SharedConnections::new(1, 32, clock::now);
            let peer = PeerKey::new(&[1]);
            let Admitted::Served { slot, .. } = connections.admit(&peer, Arc::clone(&stream)) else {
                panic!("there is room")
            };
            let (driver, inputs) = sync_channel(16);
            let driver: Arc<dyn Inbox<Arrived>> = Arc::new(driver);
            let (answering, is_stopping) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let server = Shared {
                timeouts,
                route: Arc::new(move |_| {
                    let (driver, authenticate) = (Arc::clone(&driver), Authenticate::default());
                    Destination::Machine(Routed { driver, authenticate, in_force: None })
                }),
                answering: Arc::clone(&answering),
                is_stopping: Arc::clone(&is_stopping),
                stack: 256 * 1024,
                parking: parking.clone(),
            };
            let connection = Connection::new(stream, slot, peer, server).unwrap();
            let thread = thread::spawn(move || run(connection));
            Self { client, inputs, answering, is_stopping, connections, parking, thread }
        }

        fn new() -> Self {
            Self::start(ConnectionTimeouts { head: LONG, idle: LONG }, Connection::run)
        }

        fn write(&self, text: &str) {
            (&self.client).write_all(text.as_bytes()).unwrap();
        }

        /// Reads what the server sends, until it ends with `end`.
        fn read(&self, end: &str) -> String {
            let mut bytes = Vec::new();
            while !bytes.ends_with(end.as_bytes()) {
                let mut byte = [0];
                (&self.client).read_exact(&mut byte).unwrap();
                bytes.extend(byte);
            }
            String::from_utf8(bytes).unwrap()
        }

        /// Reads everything that the server sends until it closes the connection.
        fn rest(&self) -> String {
            let mut text = String::new();
            (&self.client).read_to_string(&mut text).unwrap();
            text
        }

        fn input(&self) -> Arrived {
            self.inputs.recv_timeout(LONG).unwrap()
        }

        /// The next request, as the driver receives it.
        fn request(&self) -> (String, Vec<u8>, bool, Replies, u64) {
            let Arrived::Request { request, head, body, is_whole, replies, peer, authentication: Ok(None) } =
                self.input()
            else {
                panic!("no request");
            };
            assert_eq!(peer, PeerKey::new(&[1]));
            (format!("{} {}", head.method, head.uri), body, is_whole, replies, request)
        }

        fn ends(self) -> io::Result<()> {
            drop(self.client);
            self.thread.join().unwrap()
        }
    }

    fn whole(text: &'static str) -> Reply {
        Reply::Whole(Response::new(Bytes::from_static(text.as_bytes())))
    }

    fn piece(text: &'static str) -> Reply {
        Reply::Piece(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn requests_are_handed_over_and_answered_one_after_the_other() {
        let served = Served::new();
        served.write("POST /a HTTP/1.1\r\ncontent-length: 4\r\n\r\nbodyGET /b HTTP/1.1\r\n\r\nDELETE /c HT");
        let (line, body, is_whole, replies, _) = served.request();
        assert_eq!((line.as_str(), &body[..], is_whole), ("POST /a", &b"body"[..], true));
        assert_eq!(served.answering.load(Ordering::Acquire), 1);
        assert_eq!(replies.send(whole("one")), Some(3));
        assert_eq!(served.read("one"), "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none");
        let (line, body, is_whole, replies, _) = served.request();
        assert_eq!((line.as_str(), &body[..], is_whole), ("GET /b", &b""[..], true));
        assert_eq!(replies.send(whole("")), Some(0));
        served.read("content-length: 0\r\n\r\n");
        served.write("TP/1.1\r\nconnection: close\r\n\r\n");
        let (line, _, _, replies, request) = served.request();
        assert_eq!(line, "DELETE /c");
        replies.send(whole("three"));
        assert_eq!(served.rest(), "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nthree");
        assert!(matches!(served.input(), Arrived::Disconnected(key) if key == request));
        assert_eq!(served.answering.load(Ordering::Acquire), 0);
        served.ends().unwrap();
    }

    #[test]
    fn a_body_is_handed_over_as_it_comes_however_it_is_delimited() {
        for (head, parts, bodies) in [
            ("content-length: 6", ["ab", "cdef"], ["ab", "cdef"]),
            ("transfer-encoding: chunked", ["3\r\nabc\r", "\n1\r\nd\r\n2\r\nef\r\n0\r\n\r\n"], ["abc", "def"]),
        ] {
            let served = Served::new();
            served.write(&format!("POST /a HTTP/1.1\r\n{head}\r\n\r\n"));
            let (_, body, is_whole, replies, request) = served.request();
            assert!(body.is_empty() && !is_whole);
            for (part, expected) in parts.iter().zip(bodies) {
                served.write(part);
                let Arrived::Body { request: of, body, is_last } = served.input() else { panic!("no body") };
                assert_eq!((of, &body[..], is_last), (request, expected.as_bytes(), expected.ends_with("def")));
            }
            replies.send(whole("done"));
            served.read("done");
            // The connection is reused.
            served.write("GET /b HTTP/1.1\r\n\r\n");
            assert_eq!(served.request().0, "GET /b");
            let _ = served.ends();
        }
    }

    #[test]
    fn a_client_that_expects_continue_gets_it_or_an_answer_before_its_body() {
        let served = Served::new();
        served.write("POST /a HTTP/1.1\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n");
        let (_, body, is_whole, replies, _) = served.request();
        assert!(body.is_empty() && !is_whole);
        replies.send(Reply::Continue);
        assert_eq!(served.read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
        served.write("body");
        assert!(matches!(served.input(), Arrived::Body { body, is_last: true, .. } if body == b"body"));
        replies.send(whole("done"));
        served.read("done");
        for expects in ["expect: 100-continue\r\n", ""] {
            let served = Served::new();
            served.write(&format!("POST /b HTTP/1.1\r\ncontent-length: 4\r\n{expects}\r\n"));
            let (_, _, _, replies, request) = served.request();
            replies.send(whole("early"));
            assert_eq!(
                served.rest(),
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nearly",
                "the rest of the request would be taken for another"
            );
            assert!(matches!(served.input(), Arrived::Disconnected(key) if key == request));
        }
    }

    #[test]
    fn a_stream_is_written_as_it_comes_and_ends_as_its_version_can() {
        for (version, fields, pieces, end) in [
            ("1.1", "transfer-encoding: chunked\r\n", ["2\r\nab\r\n", "3\r\ncde\r\n"], "0\r\n\r\n"),
            ("1.0", "connection: close\r\n", ["ab", "cde"], ""),
        ] {
            let served = Served::new();
            served.write(&format!("GET /a HTTP/{version}\r\n\r\n"));
            let (_, _, _, replies, request) = served.request();
            assert_eq!(replies.send(Reply::Stream(Response::new(()))), Some(0));
            assert_eq!(served.read("\r\n\r\n"), format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
            let unwritten = replies.unwritten();
            for (text, written) in ["ab", "cde"].into_iter().zip(pieces) {
                assert_eq!(replies.send(piece(text)), Some(text.len()));
                assert_eq!(served.read(written), written);
            }
            wait_until(|| unwritten.bytes() == 0);
            replies.send(Reply::End);
            if version == "1.1" {
                assert_eq!(served.read(end), end);
                served.write("GET /b HTTP/1.1\r\n\r\n");
                assert_eq!(served.request().0, "GET /b");
            } else {
                assert_eq!(served.rest(), end);
                assert!(matches!(served.input(), Arrived::Disconnected(key) if key == request));
            }
        }
        // A response that is cut off has no final chunk, and a burst is written in full.
        let served = Served::new();
        served.write("GET /a HTTP/1.1\r\n\r\n");
        let (_, _, _, replies, _) = served.request();
        for reply in [Reply::Stream(Response::new(())), piece("a"), piece("b"), piece("c")] {
            replies.send(reply);
        }
        served.read("\r\n\r\n");
        served.read("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n");
        drop(replies);
        assert_eq!(served.rest(), "");
    }

    #[test]
    fn the_answer_to_head_has_no_body_and_what_is_no_request_ends_the_connection() {
        let served = Served::new();
        served.write("HEAD /a HTTP/1.1\r\n\r\n");
        served.request().3.send(whole("text"));
        served.read("content-length: 4\r\n\r\n");
        served.write("GET /b HTTP/1.1\r\nconnection: close\r\n\r\n");
        served.request().3.send(whole("text"));
        assert!(served.rest().starts_with("HTTP/1.1 200 OK\r\n"));

        let served = Served::new();
        served.write("no HTTP\r\n\r\n");
        assert_eq!(served.rest(), "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        served.ends().unwrap();

        for broken in ["x\r\n", "1\r\nab"] {
            let served = Served::new();
            served.write(&format!("POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{broken}"));
            assert_eq!(served.rest(), "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let inputs: Vec<_> = served.inputs.try_iter().collect();
            assert!(matches!(&inputs[..], [Arrived::Request { .. }, Arrived::Disconnected(_)]), "{broken}: {inputs:?}");
        }
    }

    /// Where no stream can give up its thread.
    fn closed() -> Parking {
        let parking = Parking::default();
        parking.close();
        parking
    }

    /// Waits until the driver learns that the connection of this request has ended. After a whole request, the client may have
    /// ended its sending side only: it is gone if it does not take what `answer` sends. Returns how often that was needed.
    fn until_disconnected(inputs: &Receiver<Arrived>, request: u64, answer: impl Fn()) -> u8 {
        let mut half_closed = 0;
        loop {
            match inputs.recv_timeout(LONG) {
                Ok(Arrived::Written) => {}
                Ok(Arrived::HalfClosed(key)) if key == request => {
                    half_closed += 1;
                    answer();
                }
                Ok(Arrived::Disconnected(key)) if key == request => return half_closed,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn b9_a_disconnect_is_reported_and_a_server_that_has_ended_answers_503() {
        for (sent, streams) in [
            ("POST /a HTTP/1.1\r\ncontent-length: 4\r\n\r\nab", false),
            ("GET /a HTTP/1.1\r\n\r\n", false),
            ("GET /a HTTP/1.1\r\n\r\nGET /b", false),
            ("GET /a HTTP/1.1\r\n\r\n", true),
        ] {
            let served = Served::parking(closed());
            served.write(sent);
            let (_, _, _, replies, request) = served.request();
            if streams {
                replies.send(Reply::Stream(Response::new(())));
                served.read("\r\n\r\n");
            }
            let inputs = served.inputs;
            drop(served.client);
            let half_closed = until_disconnected(&inputs, request, || {
                replies.send(if streams { piece(": \n") } else { Reply::Continue });
            });
            assert_eq!(half_closed, if sent.starts_with("POST") { 0 } else { WRITES_TO_HALF_CLOSED }, "{sent}");
            served.thread.join().unwrap().unwrap_err();
            assert!(replies.send(whole("late")).is_none());
        }
        // Closing a client's socket with unread bytes resets the connection.
        let served = Served::parking(closed());
        served.write("GET /a HTTP/1.1\r\n\r\n");
        let (_, _, _, replies, request) = served.request();
        replies.send(Reply::Stream(Response::new(())));
        assert_eq!(served.client.peek(&mut [0]).unwrap(), 1);
        let inputs = served.inputs;
        drop(served.client);
        assert!(matches!(inputs.recv_timeout(LONG), Ok(Arrived::Disconnected(key)) if key == request));
        assert_eq!(served.thread.join().unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
        for has_request in [true, false] {
            let mut served = Served::new();
            if !has_request {
                served.inputs = sync_channel(1).1;
            }
            served.write("GET /a HTTP/1.1\r\n\r\n");
            if has_request {
                drop(served.request());
            }
            assert!(served.rest().starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{has_request}");
        }
    }

    /// Returns once the thread of the connection has ended, and a stream without one goes on.
    fn parked(parking: Parking) -> (Served, Replies, u64) {
        let mut served = Served::parking(parking);
        served.write("GET /a HTTP/1.1\r\n\r\n");
        let (_, _, _, replies, request) = served.request();
        replies.send(Reply::Stream(Response::new(())));
        served.read("\r\n\r\n");
        std::mem::replace(&mut served.thread, thread::spawn(|| Ok(()))).join().unwrap().unwrap();
        assert_eq!(served.answering.load(Ordering::Acquire), 1, "its request is still being answered");
        (served, replies, request)
    }

    #[test]
    fn a_silent_stream_goes_on_without_its_thread_and_the_connection_after_it_with_another() {
        let (served, replies, _) = parked(Parking::default());
        let unwritten = replies.unwritten();
        for text in ["ab", "cd"] {
            replies.send(piece(text));
            assert_eq!(served.read(text), format!("2\r\n{text}"));
            served.read("\r\n");
            wait_until(|| unwritten.bytes() == 0);
        }
        // More than sockets hold.
        let large = Bytes::from(vec![b'x'; 20 << 20]);
        replies.send(Reply::Piece(large.clone()));
        served.read(&format!("{:x}\r\n", large.len()));
        let mut received = vec![0; large.len() + 2];
        (&served.client).read_exact(&mut received).unwrap();
        assert!(received.starts_with(&large) && received.ends_with(b"\r\n"));
        wait_until(|| unwritten.bytes() == 0);
        served.write("GET /b HTTP/1.1\r\n\r\n");
        replies.send(piece("e"));
        served.read("1\r\ne\r\n");
        assert!(served.inputs.try_recv().is_err(), "its turn comes after the stream");
        replies.send(Reply::End);
        assert_eq!(served.read("\r\n\r\n"), "0\r\n\r\n");
        let (line, _, _, replies, _) = served.request();
        assert_eq!(line, "GET /b");
        replies.send(whole("done"));
        served.read("done");
        wait_until(|| served.answering.load(Ordering::Acquire) == 0);
    }

    #[test]
    fn a_stream_without_a_thread_is_cut_off_and_its_connection_aborted() {
        let (served, replies, request) = parked(Parking::default());
        replies.send(piece("a"));
        drop(replies);
        assert_eq!(served.rest(), "1\r\na\r\n", "there is no final chunk");
        assert!(matches!(served.input(), Arrived::Disconnected(key) if key == request));
        // The driver has dropped its end, and shuts the connection down because its client takes nothing.
        let (served, replies, request) = parked(Parking::default());
        let unwritten = replies.unwritten();
        replies.send(Reply::Piece(Bytes::from(vec![b'x'; 20 << 20])));
        drop(replies);
        thread::sleep(Duration::from_millis(100));
        assert!(unwritten.bytes() > 0);
        unwritten.abort();
        let ends = |input: &Arrived| matches!(input, Arrived::Disconnected(key) if *key == request);
        while !ends(&served.input()) {}
        wait_until(|| served.answering.load(Ordering::Acquire) == 0);
    }

    #[test]
    fn b9_a_disconnect_is_noticed_without_a_thread() {
        for is_reset in [false, true] {
            let (served, replies, request) = parked(Parking::default());
            if is_reset {
                replies.send(piece("a"));
                wait_until(|| served.client.peek(&mut [0]).is_ok_and(|length| length == 1));
            }
            let inputs = served.inputs;
            drop(served.client);
            let half_closed = until_disconnected(&inputs, request, || {
                replies.send(piece(": \n"));
            });
            assert_eq!(half_closed, if is_reset { 0 } else { WRITES_TO_HALF_CLOSED });
            wait_until(|| served.answering.load(Ordering::Acquire) == 0 && served.connections.is_empty());
            assert!(replies.send(piece("late")).is_none());
        }
    }

    #[test]
    fn a_client_that_takes_nothing_of_its_last_bytes_is_dropped() {
        let (served, replies, request) = parked(Parking::with_write_time(Duration::from_millis(100)));
        replies.send(Reply::Piece(Bytes::from(vec![b'x'; 20 << 20])));
        replies.send(Reply::End);
        assert!(matches!(served.input(), Arrived::Disconnected(key) if key == request));
        wait_until(|| served.connections.is_empty());
    }

    #[test]
    fn the_thread_that_waits_ends_with_the_last_stream_of_a_server_that_has_ended() {
        let (served, replies, _) = parked(Parking::default());
        served.parking.close();
        replies.send(piece("a"));
        served.read("1\r\na\r\n");
        assert!(!served.parking.is_over(), "a stream is left");
        drop(replies);
        assert_eq!(served.rest(), "");
        wait_until(|| served.parking.is_over());
    }

    /// The head timeout and the idle timeout are separate: a silent connection is closed, and a slow head is answered
    /// with 408.
    #[test]
    fn b16_a_silent_connection_is_closed_and_a_slow_head_answered() {
        let (wait_until, late) = (Duration::from_millis(50), LONG * 100);
        let began = Instant::now();
        for (sent, head, idle, answer) in [
            ("", late, wait_until, ""),
            ("G", wait_until, late, "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        ] {
            let served = Served::start(ConnectionTimeouts { head, idle }, Connection::run);
            served.write(sent);
            assert_eq!(served.rest(), answer);
            served.ends().unwrap();
        }
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn a_connection_of_a_server_that_is_being_stopped_is_closed_once_it_is_idle() {
        // A response that begins after that states it.
        let served = Served::new();
        served.write("GET /a HTTP/1.1\r\n\r\n");
        let replies = served.request().3;
        served.is_stopping.store(true, Ordering::Release);
        replies.send(whole("one"));
        assert_eq!(served.rest(), "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\none");
        // Without a request, it ends by itself; with the beginning of one, it does not.
        for (begin, is_closed) in [("", true), ("GET /a HTTP/1.1\r\n", false)] {
            let served = Served::new();
            served.write(begin);
            thread::sleep(Duration::from_millis(100));
            served.is_stopping.store(true, Ordering::Release);
            if is_closed {
                assert_eq!(served.rest(), "");
            } else {
                thread::sleep(TICK * 2);
                served.write("\r\n");
                served.request().3.send(whole("two"));
                assert!(served.rest().ends_with("two"));
            }
        }
    }

    #[test]
    fn a_refused_connection_is_answered_once_its_head_has_arrived() {
        let timeouts = ConnectionTimeouts { head: LONG, idle: LONG };
        let served = Served::start(timeouts, Connection::refuse_all);
        served.write("GET /a HT");
        thread::sleep(Duration::from_millis(100));
        served.client.set_nonblocking(true).unwrap();
        assert!(served.client.peek(&mut [0]).is_err(), "the head is waited for");
        served.client.set_nonblocking(false).unwrap();
        served.write("TP/1.1\r\n\r\n");
        assert!(served.rest().starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
        served.ends().unwrap();
        // The wait for the head ends after a time.
        let served = Served::start(timeouts, Connection::refuse_all);
        served.write("G");
        assert!(served.rest().starts_with("HTTP/1.1 503 "));
        served.ends().unwrap();
        let served = Served::start(timeouts, Connection::refuse_all);
        served.client.shutdown(Shutdown::Write).unwrap();
        assert!(served.rest().starts_with("HTTP/1.1 503 "));
    }

    #[test]
    fn only_a_connection_without_a_request_makes_room() {
        let served = Served::new();
        let another = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            served.connections.admit(&PeerKey::new(&[2]), Arc::new(stream.into()))
        };
        served.write("GET /a HTTP/1.1\r\n\r\n");
        let (_, _, _, replies, _) = served.request();
        assert!(matches!(another(), Admitted::Refused(_)));
        replies.send(whole("one"));
        served.read("one");
        wait_until(|| match another() {
            Admitted::Served { evicted: Some(stream), .. } => {
                close(&stream);
                true
            }
            Admitted::Served { .. } | Admitted::Refused(_) | Admitted::RefusedAtOnce => false,
        });
        assert_eq!(served.rest(), "", "it was closed to make room");
    }
}
