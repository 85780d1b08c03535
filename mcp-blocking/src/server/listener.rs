//! Accepts the connections of a server over HTTP, until its driver has ended.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::driver::may_accept_later;

/// How long the thread that accepts connections is woken after the driver has ended.
const WAKE_TIME: Duration = Duration::from_secs(5);
/// How long a connection that wakes this thread may take.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// The pause before another such connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// Ends [`Listener::accept_all`] when it is dropped. It belongs to the thread of the driver, so that the loop ends with
/// that thread, however it ends.
#[derive(Debug)]
pub(super) struct Closer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// No more connections are served.
    is_closed: AtomicBool,
    /// No more connections are accepted.
    has_ended: Mutex<bool>,
    ended: Condvar,
}

impl Listener {
    /// Returns the socket, and what makes its closer on the thread of the driver.
    pub(super) fn new(listener: TcpListener) -> io::Result<(Self, impl FnOnce() -> Closer + Send + 'static)> {
        listener.set_nonblocking(false)?;
        let (address, shared) = (reachable(listener.local_addr()?), Arc::<Shared>::default());
        Ok((Self { listener, shared: Arc::clone(&shared) }, move || Closer { address, shared }))
    }

    /// Accepts connections until the [`Closer`] is dropped, or no more can be accepted.
    pub(super) fn accept_all(self, mut serve: impl FnMut(TcpStream, IpAddr)) -> io::Result<()> {
        loop {
            let accepted = self.listener.accept();
            if self.shared.is_closed.load(Ordering::Acquire) {
                return Ok(());
            }
            match accepted {
                Ok((stream, peer)) => serve(stream, peer.ip()),
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

impl Drop for Listener {
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
        let until = Instant::now() + WAKE_TIME;
        let mut has_ended = self.shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*has_ended && Instant::now() < until {
            drop(has_ended);
            let _ = TcpStream::connect_timeout(&self.address, CONNECT_TIME);
            has_ended = self.shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.shared.ended.wait_timeout_while(has_ended, PAUSE, |has_ended| !*has_ended);
            has_ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// An address that a socket which listens at `address` can be reached at: some systems connect to no unspecified address.
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
    use ::mcp_testkit::waiting::wait_until;

    use super::*;

    #[test]
    fn a_loop_ends_with_its_closer_at_whatever_address_it_listens() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            // Not every machine has IPv6.
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let (listener, closer) = Listener::new(socket).unwrap();
            let closer = closer();
            assert!(!closer.address.ip().is_unspecified(), "some systems connect to no unspecified address");
            let accepting = thread::spawn(move || listener.accept_all(|_, _| panic!("nothing is served")));
            thread::sleep(Duration::from_millis(20));
            assert!(!accepting.is_finished(), "{address}");
            drop(closer);
            accepting.join().unwrap().unwrap();
        }
    }

    /// Nothing listens at the address at first, so that the first attempt fails.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_loop_that_was_not_woken_is_woken_again() {
        let address = TcpListener::bind("127.0.0.77:0").unwrap().local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let closer = Closer { address, shared: Arc::clone(&shared) };
        let closing = thread::spawn(move || drop(closer));
        thread::sleep(PAUSE * 2);
        let listener = Listener { listener: TcpListener::bind(address).unwrap(), shared };
        let accepting = thread::spawn(move || listener.accept_all(|_, _| panic!("nothing is served")));
        wait_until(|| accepting.is_finished() && closing.is_finished());
        accepting.join().unwrap().unwrap();
    }
}
