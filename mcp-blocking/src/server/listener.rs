//! Accepts the connections of a server over HTTP, until its driver has ended.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use mcp_application::may_accept_later;
use mcp_proto::server::PeerKey;

use crate::platform::{LocalListener, Wakeable, Waker};
use crate::private_port::PrivatePort;
use crate::socket::Socket;

/// How long the thread that accepts connections is woken after the driver has ended.
const WAKE_TIME: Duration = Duration::from_secs(5);
/// How long a connection that wakes this thread may take.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// The pause before another such connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens for the connections of clients: a [`TcpListener`], on Unix a `UnixListener`, or a [`PrivatePort`].
///
/// All clients of a Unix socket count as one peer when connections and sessions are distributed among peers. Which users
/// can connect is decided by the permissions of its file. A web page cannot connect to it, and the rule for `Host` is the
/// same as over TCP: clients send `Host: localhost`.
///
/// # Example
///
/// ```
/// use std::net::TcpListener;
/// use mcp_blocking::Listener;
///
/// let listener = Listener::from(TcpListener::bind("127.0.0.1:0")?);
/// # #[cfg(unix)] {
/// # let path = std::env::temp_dir().join(format!("mcp-listener-{}", std::process::id()));
/// let listener = Listener::from(std::os::unix::net::UnixListener::bind(&path)?);
/// # std::fs::remove_file(path)?;
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    opening: Opening,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Local(LocalListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self { kind: Kind::Tcp(listener), opening: Opening::default() }
    }
}

impl From<LocalListener> for Listener {
    fn from(listener: LocalListener) -> Self {
        Self { kind: Kind::Local(listener), opening: Opening::default() }
    }
}

impl From<PrivatePort> for Listener {
    fn from(port: PrivatePort) -> Self {
        let PrivatePort { listener, known } = port;
        Self { kind: Kind::Tcp(listener), opening: Opening(Some(Arc::new(move |socket| known.accept(socket)))) }
    }
}

/// What happens on a connection before its first request is read.
#[derive(Clone, Default)]
pub(super) struct Opening(Option<Arc<Open>>);

type Open = dyn Fn(&Socket) -> io::Result<()> + Send + Sync;

impl Opening {
    /// Whether nothing may be sent before.
    pub(super) const fn is_needed(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for it.
    ///
    /// # Errors
    ///
    /// The connection is to be closed without an answer.
    pub(super) fn open(&self, socket: &Socket) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |open| open(socket))
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_needed() { "Opening" } else { "None" })
    }
}

/// A loop that accepts connections.
#[derive(Debug)]
pub(crate) struct Accepting {
    socket: Accepts,
    pub(super) opening: Opening,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Accepts {
    Tcp(TcpListener),
    Local(Wakeable),
}

/// Ends [`Accepting::accept_all`] when it is dropped. It belongs to the thread of the driver, so that the loop ends with
/// that thread, however it ends.
#[derive(Debug)]
pub(crate) struct Closer {
    wakes: Wakes,
    shared: Arc<Shared>,
}

/// How the loop is woken.
#[derive(Debug)]
enum Wakes {
    /// By a connection to this address.
    Connection(SocketAddr),
    /// By dropping this.
    End { _waker: Waker },
}

#[derive(Debug, Default)]
struct Shared {
    /// No more connections are served.
    is_closed: AtomicBool,
    /// No more connections are accepted.
    has_ended: Mutex<bool>,
    ended: Condvar,
}

impl Accepting {
    /// Returns the loop, and a function that makes its closer on the thread of the driver.
    pub(crate) fn new(
        Listener { kind, opening }: Listener,
    ) -> io::Result<(Self, impl FnOnce() -> Closer + Send + 'static)> {
        let (socket, wakes) = match kind {
            Kind::Tcp(listener) => {
                listener.set_nonblocking(false)?;
                let address = reachable(listener.local_addr()?);
                (Accepts::Tcp(listener), Wakes::Connection(address))
            }
            Kind::Local(listener) => {
                let (wakeable, waker) = Wakeable::new(listener)?;
                (Accepts::Local(wakeable), Wakes::End { _waker: waker })
            }
        };
        let shared = Arc::<Shared>::default();
        Ok((Self { socket, opening, shared: Arc::clone(&shared) }, move || Closer { wakes, shared }))
    }

    /// Accepts connections until the [`Closer`] is dropped, or no more can be accepted.
    pub(crate) fn accept_all(self, mut serve: impl FnMut(Socket, PeerKey)) -> io::Result<()> {
        loop {
            let accepted = self.socket.accept();
            if self.shared.is_closed.load(Ordering::Acquire) {
                return Ok(());
            }
            match accepted {
                Ok(Some((socket, peer))) => serve(socket, peer),
                Ok(None) => {}
                Err(error) if may_accept_later(&error) => {
                    log::warn!("a connection could not be accepted: {error}");
                    // With no file descriptor left, the next attempt fails too until a connection ends.
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Accepts {
    /// Waits for a connection; `None` if there is none, and the caller must check whether the loop has to end.
    fn accept(&self) -> io::Result<Option<(Socket, PeerKey)>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok(Some((Socket::Tcp(stream), PeerKey::from(peer.ip()))))
            }
            Self::Local(wakeable) => {
                Ok(wakeable.accept()?.map(|stream| (Socket::Local(stream), PeerKey::new(b"unix"))))
            }
        }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        *self.shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
    }
}

/// The loop checks for the end only after an accepted connection, which this provides. An attempt may fail, for example
/// because no file descriptor is left, so it is repeated.
impl Drop for Closer {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        let address = match &self.wakes {
            Wakes::Connection(address) => address,
            Wakes::End { .. } => return,
        };
        let until = Instant::now() + WAKE_TIME;
        let mut has_ended = self.shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*has_ended && Instant::now() < until {
            drop(has_ended);
            let _ = TcpStream::connect_timeout(address, CONNECT_TIME);
            has_ended = self.shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.shared.ended.wait_timeout_while(has_ended, PAUSE, |has_ended| !*has_ended);
            has_ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The address at which to reach a socket that listens at `address`: some systems connect to no unspecified address.
const fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use ::mcp_testkit::waiting::wait_until;

    use super::*;

    #[test]
    fn a_loop_ends_with_its_closer_at_whatever_address_it_listens() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            // Not every machine has IPv6.
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let (listener, closer) = Accepting::new(socket.into()).unwrap();
            let closer = closer();
            let Wakes::Connection(wakes) = &closer.wakes else { panic!("a socket of TCP") };
            assert!(!wakes.ip().is_unspecified(), "some systems connect to no unspecified address");
            let accepting = thread::spawn(move || listener.accept_all(|_, _| panic!("nothing is served")));
            thread::sleep(Duration::from_millis(20));
            assert!(!accepting.is_finished(), "{address}");
            drop(closer);
            accepting.join().unwrap().unwrap();
        }
    }

    /// No connection could wake it.
    #[cfg(unix)]
    #[test]
    fn a_loop_on_a_unix_socket_ends_with_its_closer_although_the_file_is_gone() {
        let path = std::env::temp_dir().join(format!("mcp-blocking-{}.sock", std::process::id()));
        let (listener, closer) = Accepting::new(LocalListener::bind(&path).unwrap().into()).unwrap();
        let (closer, (sender, served)) = (closer(), std::sync::mpsc::channel());
        let accepting = thread::spawn(move || listener.accept_all(|socket, _| sender.send(socket).unwrap()));
        drop(crate::platform::connect(&path, None).unwrap());
        assert!(matches!(served.recv().unwrap(), Socket::Local(_)));
        std::fs::remove_file(path).unwrap();
        assert!(!accepting.is_finished());
        drop(closer);
        wait_until(|| accepting.is_finished());
        accepting.join().unwrap().unwrap();
    }

    /// Nothing listens at the address at first, so that the first attempt fails.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_loop_that_was_not_woken_is_woken_again() {
        let address = TcpListener::bind("127.0.0.77:0").unwrap().local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let closer = Closer { wakes: Wakes::Connection(address), shared: Arc::clone(&shared) };
        let closing = thread::spawn(move || drop(closer));
        thread::sleep(PAUSE * 2);
        let socket = Accepts::Tcp(TcpListener::bind(address).unwrap());
        let listener = Accepting { socket, opening: Opening::default(), shared };
        let accepting = thread::spawn(move || listener.accept_all(|_, _| panic!("nothing is served")));
        wait_until(|| accepting.is_finished() && closing.is_finished());
        accepting.join().unwrap().unwrap();
    }
}
