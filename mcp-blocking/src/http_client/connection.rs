//! Connections that need few system calls, over TCP or a socket of this machine.
//!
//! `ureq` writes the head of a request and its body separately, which makes two packets. Its own sockets set their
//! timeouts for each request, and check by three system calls whether they are open. Here, output stays in the buffer
//! until the buffer is full or a response is awaited, timeouts are rounded up to whole seconds so that they seldom
//! change, and on Unix one call checks whether a socket is open.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, NextTimeout, RustlsConnector, ShutdownHandle,
    Transport,
};
use ureq::{Error, Timeout};

use super::growing_buffers::GrowingBuffers;
use super::local_server::LocalServer;
use crate::platform::write_all;
use crate::socket::{Socket, is_timeout};

/// The connector: uses these connections, through an HTTP proxy and with TLS if configured; all to this server of this machine
/// if there is one.
pub(super) fn connector(local: Option<LocalServer>) -> impl Connector {
    let sockets = SocketConnector { local };
    ().chain(ConnectProxyConnector::default()).chain(sockets).chain(RustlsConnector::default())
}

#[derive(Debug)]
struct SocketConnector {
    local: Option<LocalServer>,
}

impl<In: Transport> Connector<In> for SocketConnector {
    type Out = Either<In, Connection>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        // The connection through the HTTP proxy has already been made.
        if let Some(connection) = chained {
            return Ok(Some(Either::A(connection)));
        }
        let socket = match &self.local {
            Some(server) => server.connect(details.timeout)?,
            None => connect(&details.addrs, details.timeout)?.into(),
        };
        let config = details.config;
        let buffers = GrowingBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let mut connection = Connection::new(socket, buffers);
        connection.connecting = Connecting::within(details.timeout);
        let shutdown: Weak<Closing> = Arc::downgrade(&connection.socket);
        (details.register_shutdown)(shutdown)?;
        Ok(Some(Either::B(connection)))
    }
}

/// Tries the addresses in order. Each but the last may take half of the remaining time.
fn connect(addresses: &[SocketAddr], timeout: NextTimeout) -> Result<TcpStream, Error> {
    let deadline = timeout.not_zero().map(|time| Instant::now() + *time);
    let mut failed = Error::HostNotFound;
    for (place, address) in addresses.iter().enumerate() {
        let outcome = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
            None => TcpStream::connect(address),
            Some(left) if left.is_zero() => return Err(Error::Timeout(timeout.reason)),
            Some(left) => TcpStream::connect_timeout(address, share_of(left, place, addresses.len())),
        };
        failed = match outcome {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if is_timeout(&error) => Error::Timeout(Timeout::Connect),
            Err(error) => error.into(),
        };
    }
    Err(failed)
}

/// The part of the remaining time that one of several addresses may take.
fn share_of(left: Duration, place: usize, addresses: usize) -> Duration {
    if place + 1 == addresses { left } else { left / 2 }
}

/// A socket that can be closed from another thread, and whether it was.
struct Closing {
    inner: Socket,
    is_closed: AtomicBool,
}

impl ShutdownHandle for Closing {
    fn shutdown(&self) {
        self.is_closed.store(true, Ordering::Release);
        // The socket may be closed already.
        let _ = self.inner.shutdown(Shutdown::Both);
    }
}

struct Connection {
    socket: Arc<Closing>,
    buffers: GrowingBuffers,
    /// The timeout for writing the held output; `None` if there is none.
    held_for: Option<NextTimeout>,
    /// Whether something was written since a response was last awaited.
    is_begun: bool,
    /// The timeouts that are set on the socket, for reading and for writing.
    timeouts: [Option<Duration>; 2],
    /// The time for the exchange with an HTTP proxy and the TLS handshake, until the connection is used again.
    connecting: Option<Connecting>,
}

/// The time that a connection may take until it can be used.
///
/// Without it, `ureq` gives each part of the answer of an HTTP proxy that time again.
#[derive(Debug, Clone, Copy)]
struct Connecting {
    /// The kind of timeout.
    reason: Timeout,
    until: Instant,
}

impl Connecting {
    fn within(timeout: NextTimeout) -> Option<Self> {
        let until = if timeout.after.is_not_happening() { None } else { Instant::now().checked_add(*timeout.after) };
        until.map(|until| Self { reason: timeout.reason, until })
    }

    /// The timeout with the time that is left.
    fn limit(self, mut timeout: NextTimeout) -> NextTimeout {
        if timeout.reason == self.reason {
            let left = self.until.saturating_duration_since(Instant::now());
            timeout.after = timeout.after.min(left.into());
        }
        timeout
    }
}

impl Connection {
    fn new(socket: Socket, buffers: GrowingBuffers) -> Self {
        Self {
            socket: Arc::new(Closing { inner: socket, is_closed: AtomicBool::new(false) }),
            buffers,
            held_for: None,
            is_begun: false,
            timeouts: [None; 2],
            connecting: None,
        }
    }

    /// The timeout for one read or write. `ureq` allows one more second when no time is left, so a peer that sends a
    /// byte each second would never be late.
    ///
    /// # Errors
    ///
    /// No time is left.
    fn left(&self, timeout: NextTimeout) -> Result<NextTimeout, Error> {
        let timeout = self.connecting.map_or(timeout, |connecting| connecting.limit(timeout));
        if timeout.after.is_zero() { Err(Error::Timeout(timeout.reason)) } else { Ok(timeout) }
    }

    /// Writes the held output.
    fn write(&mut self) -> Result<(), Error> {
        let Some(timeout) = self.held_for.take() else { return Ok(()) };
        let timeout = self.left(timeout)?;
        let [_, set] = &mut self.timeouts;
        set_timeout(set, timeout, |time| self.socket.inner.set_write_timeout(time))?;
        let was_begun = std::mem::replace(&mut self.is_begun, true);
        let Closing { inner, is_closed } = &*self.socket;
        let is_closed = || is_closed.load(Ordering::Acquire);
        let set_nonblocking = |is_so| inner.set_nonblocking(is_so);
        write_all(inner, set_nonblocking, self.buffers.take_held(), self.timeouts[1], is_closed).map_err(|error| {
            match error {
                error if is_timeout(&error) => Error::Timeout(timeout.reason),
                // If the first part of a request could not be written, the server cannot have received the whole request.
                error if !was_begun => Error::Io(io::Error::new(error.kind(), Unsent(error))),
                error => error.into(),
            }
        })
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.buffers.hold(amount);
        self.held_for = Some(timeout);
        if self.buffers.output().is_empty() { self.write() } else { Ok(()) }
    }

    fn maybe_await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.write()?;
        if self.buffers.can_use_input() { Ok(true) } else { self.await_input(timeout) }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.write()?;
        let timeout = self.left(timeout)?;
        self.is_begun = false;
        let [set, _] = &mut self.timeouts;
        set_timeout(set, timeout, |time| self.socket.inner.set_read_timeout(time))?;
        let room = self.buffers.input_append_buf();
        let length = loop {
            match (&self.socket.inner).read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(Error::Timeout(timeout.reason)),
                outcome => break outcome?,
            }
        };
        self.buffers.input_appended(length);
        Ok(length > 0)
    }

    fn is_open(&mut self) -> bool {
        self.connecting = None;
        self.socket.inner.is_quiet()
    }
}

mcp_application::opaque_debug!(Connection);

/// Sets a timeout, rounded up to whole seconds: most calls then find it set already.
fn set_timeout(
    set: &mut Option<Duration>,
    timeout: NextTimeout,
    apply: impl FnOnce(Option<Duration>) -> io::Result<()>,
) -> io::Result<()> {
    let wanted =
        timeout.not_zero().map(|time| Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0)));
    if *set != wanted {
        apply(wanted)?;
        *set = wanted;
    }
    Ok(())
}

/// The error of a request that was not sent, although the connection was established.
#[derive(Debug)]
pub(super) struct Unsent(io::Error);

impl Unsent {
    /// Whether this caused the error.
    pub(super) fn is_reason(error: &Error) -> bool {
        let Error::Io(error) = error else { return false };
        error.get_ref().and_then(|reason| reason.downcast_ref::<Self>()).is_some()
    }
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Unsent {}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A connection, and the server's end of it.
    fn pair(room: usize) -> (Connection, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = connect(&[listener.local_addr().unwrap()], within(Duration::from_secs(60))).unwrap();
        let (server, _) = listener.accept().unwrap();
        (Connection::new(stream.into(), GrowingBuffers::new(room, room)), server)
    }

    fn within(time: Duration) -> NextTimeout {
        NextTimeout { after: time.into(), reason: Timeout::SendBody, per_read: None, per_write: None }
    }

    fn transmit(connection: &mut Connection, bytes: &[u8]) -> Result<(), Error> {
        connection.buffers().output()[..bytes.len()].copy_from_slice(bytes);
        connection.transmit_output(bytes.len(), within(Duration::from_secs(60)))
    }

    #[test]
    fn what_is_written_leaves_once_an_answer_is_waited_for_or_the_buffer_is_full() {
        let (mut connection, server) = pair(8);
        let mut read = [0; 16];
        transmit(&mut connection, b"head").unwrap();
        transmit(&mut connection, b"bod").unwrap();
        server.set_nonblocking(true).unwrap();
        assert_eq!((&server).read(&mut read).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        server.set_nonblocking(false).unwrap();
        transmit(&mut connection, b"y").unwrap();
        assert_eq!((&server).read(&mut read).unwrap(), 8, "the buffer is full");
        assert_eq!(&read[..8], b"headbody");
        transmit(&mut connection, b"more").unwrap();
        (&server).write_all(b"answer").unwrap();
        assert!(connection.await_input(within(Duration::from_secs(60))).unwrap());
        assert_eq!((connection.buffers().input(), (&server).read(&mut read).unwrap()), (&b"answer"[..], 4));
        assert_eq!(&read[..4], b"more");
        connection.buffers().input_consume(1);
        transmit(&mut connection, b"last").unwrap();
        assert!(connection.maybe_await_input(within(Duration::from_secs(60))).unwrap(), "there is some already");
        server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(((&server).read(&mut read).unwrap(), &read[..4]), (4, &b"last"[..]), "what was held has left");
    }

    #[test]
    fn a_request_of_which_the_first_part_cannot_be_written_was_not_sent() {
        let (mut connection, server) = pair(8);
        transmit(&mut connection, b"first").unwrap();
        connection.socket.inner.shutdown(Shutdown::Write).unwrap();
        assert!(Unsent::is_reason(&connection.maybe_await_input(within(Duration::from_secs(60))).unwrap_err()));
        drop(server);
        // Once a part was written, the server may have received the request.
        let (mut connection, _server) = pair(4);
        transmit(&mut connection, b"part").unwrap();
        connection.socket.inner.shutdown(Shutdown::Write).unwrap();
        assert!(!Unsent::is_reason(&transmit(&mut connection, b"next").unwrap_err()));
    }

    #[test]
    fn a_connection_counts_as_open_while_the_server_is_silent() {
        let (mut connection, server) = pair(8);
        assert!(connection.is_open());
        (&server).write_all(b"x").unwrap();
        while connection.is_open() {
            thread::yield_now();
        }
        let (mut connection, server) = pair(8);
        drop(server);
        while connection.is_open() {
            thread::yield_now();
        }
    }

    #[test]
    fn the_next_address_is_tried_where_nothing_listens() {
        let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let open = listener.local_addr().unwrap();
        let connected = connect(&[closed, open], within(Duration::from_secs(60))).unwrap();
        assert_eq!(connected.peer_addr().unwrap(), open);
        assert!(matches!(connect(&[closed], within(Duration::from_secs(60))), Err(Error::Io(error))
            if error.kind() == io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn waiting_for_a_silent_server_ends_at_the_timeout() {
        let (mut connection, _server) = pair(8);
        let began = Instant::now();
        let silent = connection.await_input(within(Duration::from_millis(300)));
        assert!(matches!(silent, Err(Error::Timeout(_))));
        assert!(began.elapsed() >= Duration::from_millis(300));
    }

    #[test]
    fn each_address_but_the_last_has_half_of_the_time() {
        let time = Duration::from_secs(10);
        for (place, addresses, seconds) in [(0, 1, 10), (0, 2, 5), (1, 2, 10), (0, 3, 5), (1, 3, 5), (2, 3, 10)] {
            assert_eq!(share_of(time, place, addresses), Duration::from_secs(seconds), "{place} of {addresses}");
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let late = connect(&[listener.local_addr().unwrap()], within(Duration::from_nanos(1)));
        assert!(matches!(late, Err(Error::Timeout(Timeout::SendBody))), "{late:?}");
    }

    #[test]
    fn a_timeout_is_whole_seconds_and_set_where_it_is_another() {
        let mut set = None;
        for (time, expected) in [
            (Duration::from_millis(1), Some(1)),
            (Duration::from_secs(1), None),
            (Duration::from_millis(1001), Some(2)),
            (Duration::from_millis(1999), None),
            (Duration::from_secs(1), Some(1)),
        ] {
            let mut applied = None;
            set_timeout(&mut set, within(time), |time| {
                applied = time;
                Ok(())
            })
            .unwrap();
            assert_eq!(applied, expected.map(Duration::from_secs), "{time:?}");
        }
        let failed = set_timeout(&mut set, within(Duration::from_secs(9)), |_| Err(io::ErrorKind::Other.into()));
        assert!(failed.is_err() && set == Some(Duration::from_secs(1)), "what was not set is tried again");
    }

    #[test]
    fn a_connection_that_is_reset_is_no_silent_one() {
        let (mut connection, server) = pair(8);
        transmit(&mut connection, b"unread").unwrap();
        connection.write().unwrap();
        server.set_nonblocking(false).unwrap();
        // Closing with unread bytes resets the connection.
        let mut read = [0; 8];
        while server.peek(&mut read).unwrap() < 6 {}
        drop(server);
        let outcome = connection.await_input(within(Duration::from_secs(60)));
        assert!(
            matches!(&outcome, Err(Error::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset),
            "{outcome:?}"
        );
    }

    #[test]
    fn waiting_for_an_answer_fails_at_once_if_the_request_cannot_be_written() {
        let (mut connection, _server) = pair(8);
        transmit(&mut connection, b"first").unwrap();
        connection.socket.inner.shutdown(Shutdown::Write).unwrap();
        assert!(Unsent::is_reason(&connection.await_input(within(Duration::from_secs(60))).unwrap_err()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connecting_to_a_host_that_does_not_accept_ends_at_the_timeout() {
        use socket2::{Domain, Socket as AnySocket, Type};

        let listener = AnySocket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        // Linux answers no more when the queue of the listener is full.
        let mut queued = Vec::new();
        let error = loop {
            match connect(&[address], within(Duration::from_millis(200))) {
                Ok(stream) => queued.push(stream),
                Err(error) => break error,
            }
            assert!(queued.len() < 100, "the queue is never full");
        };
        assert!(matches!(error, Error::Timeout(Timeout::Connect)), "{error}");
    }
}
