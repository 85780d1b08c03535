//! The channel between the driver and a connection: one response, with the number of bytes that are not yet written.

use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use http::Response;

use super::commands::ROOM;
use super::http_exchanges::Arrived;
use super::reply_queue::{Receiver, Sender, reply_queue};
use crate::inbox::Inbox;
use crate::socket::Socket;

/// Bytes that are read or written at a time.
pub(super) const CHUNK: usize = 16 * 1024;

/// What the driver sends to a connection.
#[derive(Debug)]
pub(super) enum Reply {
    /// The head is accepted: send `100 Continue`, which the client expects.
    Continue,
    /// The whole response.
    Whole(Response<Bytes>),
    /// The head of a response whose body follows in pieces.
    Stream(Response<()>),
    /// A piece of the body.
    Piece(Bytes),
    /// The body is complete.
    End,
}

impl Reply {
    /// The size of the body in bytes.
    fn weight(&self) -> usize {
        match self {
            Self::Whole(response) => response.body().len(),
            Self::Piece(piece) => piece.len(),
            Self::Continue | Self::Stream(_) | Self::End => 0,
        }
    }
}

/// The driver's end of a response.
#[derive(Debug)]
pub(crate) struct Replies {
    sender: Sender<Reply>,
    unwritten: Unwritten,
}

/// Bytes of a response that are not yet written to the connection.
#[derive(Debug, Clone)]
pub(super) struct Unwritten {
    count: Arc<Count>,
    writing: Weak<Writing>,
}

#[derive(Debug, Default)]
struct Count {
    bytes: AtomicUsize,
    /// The driver must be woken once less than [`ROOM`] is unwritten.
    is_awaited: AtomicBool,
}

/// A connection while it writes one response.
#[derive(Debug)]
struct Writing(Arc<Socket>);

/// The connection's end of a response.
pub(super) struct Responses {
    receiver: Receiver<Reply>,
    count: Arc<Count>,
    driver: Arc<dyn Inbox<Arrived>>,
    _writing: Arc<Writing>,
}

/// Makes both ends of the response that this connection writes.
pub(super) fn replies(stream: &Arc<Socket>, driver: Arc<dyn Inbox<Arrived>>) -> (Replies, Responses) {
    let (sender, receiver) = reply_queue();
    let (count, writing) = (Arc::<Count>::default(), Arc::new(Writing(Arc::clone(stream))));
    let unwritten = Unwritten { count: Arc::clone(&count), writing: Arc::downgrade(&writing) };
    (Replies { sender, unwritten }, Responses { receiver, count, driver, _writing: writing })
}

impl Replies {
    /// Never blocks. Returns the number of body bytes that were queued; `None` if the connection has ended.
    pub(super) fn send(&self, reply: Reply) -> Option<usize> {
        let weight = reply.weight();
        self.unwritten.count.bytes.fetch_add(weight, Ordering::SeqCst);
        self.sender.send(reply).then_some(weight)
    }

    pub(super) fn unwritten(&self) -> Unwritten {
        self.unwritten.clone()
    }
}

impl Unwritten {
    /// The number of bytes; 0 once the response is over.
    pub(super) fn bytes(&self) -> usize {
        if self.writing.strong_count() == 0 { 0 } else { self.count.bytes.load(Ordering::SeqCst) }
    }

    /// Whether there are less than [`ROOM`]. If not, the driver is woken once there are.
    pub(super) fn has_room(&self) -> bool {
        if self.bytes() < ROOM {
            return true;
        }
        self.count.is_awaited.store(true, Ordering::SeqCst);
        // A connection that has written more in the meantime may not have seen the flag.
        self.bytes() < ROOM
    }

    /// Shuts the connection down if it is still writing the response. Its thread then drops the rest.
    pub(super) fn abort(&self) {
        if let Some(writing) = self.writing.upgrade() {
            let _ = writing.0.shutdown(Shutdown::Both);
        }
    }
}

impl Responses {
    /// Waits for a reply, or until the driver has ended. Returns `false` if there was neither in this time.
    pub(super) fn wait(&self, time: Duration) -> bool {
        self.receiver.wait(time)
    }

    pub(super) fn try_recv(&self) -> Result<Reply, TryRecvError> {
        self.receiver.try_recv()
    }

    /// Has `waker` woken once by the next reply. Returns `false` if there is one, or the driver has ended.
    pub(super) fn wake_at_next(&self, waker: &Waker) -> bool {
        self.receiver.wake_at_next(waker)
    }

    /// Writes a body, and counts what was written. `out` buffers at most [`CHUNK`] bytes, so the count is close to what the
    /// client has received.
    pub(super) fn write(&self, out: &mut impl Write, body: &[u8]) -> io::Result<()> {
        for part in body.chunks(CHUNK) {
            out.write_all(part)?;
            self.count(part.len());
        }
        Ok(())
    }

    /// Counts bytes of a body that were written.
    pub(super) fn count(&self, written: usize) {
        let left = self.count.bytes.fetch_sub(written, Ordering::SeqCst).saturating_sub(written);
        if left < ROOM && self.count.is_awaited.swap(false, Ordering::SeqCst) {
            // If the inbox is full, the driver checks the count in its next step anyway.
            self.driver.try_send(Arrived::Written);
        }
    }
}
