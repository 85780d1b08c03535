//! The connections of a listening socket: accepts them as far as there may be more, and starts a thread for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use http::request::Parts;
use mcp_application::{Admitted, ConnectionTimeouts, SharedConnections};
use mcp_proto::server::PeerKey;

use super::connection::parking::Parking;
use super::connection::{Connection, Destination, Shared, close, on_thread, refuse_at_once};
use super::listener::{Accepting, Opening};
use crate::clock;
use crate::socket::Socket;

/// How long the last responses may take to be written when a server is stopped.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of connections beyond the limit that get a thread, which answers with 503.
const MAX_REFUSED: usize = 32;

/// The connections of a listening socket.
pub(crate) struct HttpConnections {
    connections: SharedConnections<Arc<Socket>>,
    shared: Shared,
}

impl HttpConnections {
    /// At most `most` connections at one time, whose threads have a stack of this size. `route` finds out what answers a request, and `is_stopping` is set once
    /// connections are closed when they are idle.
    pub(crate) fn new(
        most: usize,
        timeouts: ConnectionTimeouts,
        stack: usize,
        route: impl Fn(&Parts) -> Destination + Send + Sync + 'static,
        is_stopping: Arc<AtomicBool>,
    ) -> Self {
        let answering = Arc::new(AtomicUsize::new(0));
        Self {
            connections: SharedConnections::new(most, MAX_REFUSED, clock::now),
            shared: Shared {
                timeouts,
                route: Arc::new(route),
                answering,
                is_stopping,
                stack,
                parking: Parking::default(),
            },
        }
    }

    /// Serves connections until the driver has ended, or no more can be accepted.
    pub(crate) fn serve(&self, listener: Accepting) -> io::Result<()> {
        let opening = listener.opening.clone();
        listener.accept_all(|socket, peer| self.admit(Arc::new(socket), peer, &opening))
    }

    /// Returns a closure that finds out whether no connection is open.
    pub(crate) fn are_none(&self) -> impl Fn() -> bool + Send + 'static {
        let connections = self.connections.clone();
        move || connections.is_empty()
    }

    /// Waits until the last responses are written, since the process may end afterwards.
    pub(crate) fn flush(&self) {
        let until = Instant::now() + FLUSH_TIMEOUT;
        while self.shared.answering.load(Ordering::Acquire) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn admit(&self, socket: Arc<Socket>, peer: PeerKey, opening: &Opening) {
        let (slot, is_served) = match self.connections.admit(&peer, Arc::clone(&socket)) {
            Admitted::Served { slot, evicted } => {
                if let Some(evicted) = evicted {
                    close(&evicted);
                }
                (slot, true)
            }
            Admitted::Refused(slot) => (slot, false),
            Admitted::RefusedAtOnce => {
                log::warn!("there are too many connections; another one was refused");
                if opening.is_needed() {
                    return;
                }
                let _ = socket.set_nonblocking(true).and_then(|()| refuse_at_once(&socket));
                return;
            }
        };
        if !is_served {
            log::warn!("all connections are in use; another one was refused");
        }
        let (stack, shared, opening) = (self.shared.stack, self.shared.clone(), opening.clone());
        on_thread(stack, move || {
            opening.open(&socket)?;
            let connection = Connection::new(socket, slot, peer, shared)?;
            if is_served { connection.run() } else { connection.refuse_all() }
        });
    }
}

/// The thread that waits for silent streams ends with the last one.
impl Drop for HttpConnections {
    fn drop(&mut self) {
        self.shared.parking.close();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::PrivatePort;

    #[test]
    fn beyond_all_limits_a_connection_is_answered_if_it_needs_no_proof() {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let listener = listen();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, Arc::new(Socket::from(listener.accept().unwrap().0)))
        };
        for (listener, expected) in [(listen().into(), "HTTP/1.1 503"), (PrivatePort::bind().unwrap().into(), "")] {
            let opening = Accepting::new(listener).unwrap().0.opening.clone();
            let route = |_: &Parts| unreachable!("there is no request");
            let connections = HttpConnections::new(1, ConnectionTimeouts::default(), 256 * 1024, route, Arc::default());
            let peer = PeerKey::new(&[1]);
            let mut slots = Vec::new();
            for _ in 0..=MAX_REFUSED {
                let (_, other) = pair();
                match connections.connections.admit(&peer, other) {
                    Admitted::Served { slot, .. } => {
                        slot.set_used();
                        slots.push(slot);
                    }
                    Admitted::Refused(slot) => slots.push(slot),
                    Admitted::RefusedAtOnce => panic!("there is room"),
                }
            }
            let (mut client, socket) = pair();
            connections.admit(socket, peer, &opening);
            let mut received = String::new();
            client.read_to_string(&mut received).unwrap();
            assert!(received.starts_with(expected) && received.is_empty() == expected.is_empty(), "{received}");
        }
    }

    #[test]
    fn the_end_waits_for_a_response_that_is_being_written() {
        let route = |_: &Parts| unreachable!("there is no request");
        let connections = HttpConnections::new(1, ConnectionTimeouts::default(), 256 * 1024, route, Arc::default());
        let answering = Arc::clone(&connections.shared.answering);
        answering.store(1, Ordering::Release);
        let writing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            answering.store(0, Ordering::Release);
        });
        connections.flush();
        assert_eq!(connections.shared.answering.load(Ordering::Acquire), 0);
        writing.join().unwrap();
    }
}
