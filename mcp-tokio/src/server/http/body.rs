//! Bodies of responses: whole ones, and streams of events that a slow reader holds up.

use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::owner::Presence;
use crate::server::requests::Accepted;

/// Bytes that wait for a client. With more, handlers that speak to it wait.
const ROOM: usize = 64 * 1024;

/// The body of a response.
pub struct HttpBody(Inner);

/// Shows nothing of what is sent.
impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Whole(bytes) => write!(f, "HttpBody({} bytes)", bytes.len()),
            Inner::Stream { .. } => f.write_str("HttpBody(a stream)"),
        }
    }
}

enum Inner {
    Whole(Bytes),
    Stream { pieces: mpsc::UnboundedReceiver<Piece>, waiting: Arc<AtomicUsize>, presence: Presence },
}

#[derive(Debug)]
enum Piece {
    Chunk(Bytes),
    /// Everything before this was taken.
    Room(Accepted),
    End,
}

/// Where the pieces of a body come from.
#[derive(Debug, Clone)]
pub(super) struct Pieces {
    sender: mpsc::UnboundedSender<Piece>,
    waiting: Arc<AtomicUsize>,
}

/// The receiving end of [`Pieces`], before it is a body.
#[derive(Debug)]
pub(super) struct Unread {
    pieces: mpsc::UnboundedReceiver<Piece>,
    waiting: Arc<AtomicUsize>,
}

pub(super) fn stream() -> (Pieces, Unread) {
    let (sender, pieces) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Pieces { sender, waiting: Arc::clone(&waiting) }, Unread { pieces, waiting })
}

impl Pieces {
    /// If the client is gone, this does nothing.
    pub(super) fn send(&self, chunk: Bytes) {
        self.waiting.fetch_add(chunk.len(), Ordering::AcqRel);
        let _ = self.sender.send(Piece::Chunk(chunk));
    }

    /// Bytes that the client has not taken.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether nothing more is taken.
    pub(super) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    pub(super) fn end(&self) {
        let _ = self.sender.send(Piece::End);
    }

    /// Whether those who speak may go on at once.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Acquire) < ROOM
    }

    /// Tells whoever waits when everything so far was taken. With the client gone, that is at once.
    pub(super) fn accept(&self, accepted: Accepted) {
        if let Err(mpsc::error::SendError(Piece::Room(accepted))) = self.sender.send(Piece::Room(accepted)) {
            accepted.tell();
        }
    }
}

impl HttpBody {
    pub(super) const fn whole(body: Bytes) -> Self {
        Self(Inner::Whole(body))
    }

    pub(super) fn stream(unread: Unread, presence: Presence) -> Self {
        Self(Inner::Stream { pieces: unread.pieces, waiting: unread.waiting, presence })
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.0 {
            Inner::Whole(body) if body.is_empty() => Poll::Ready(None),
            Inner::Whole(body) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(body))))),
            Inner::Stream { pieces, waiting, presence } => loop {
                match std::task::ready!(pieces.poll_recv(cx)) {
                    Some(Piece::Chunk(chunk)) => {
                        waiting.fetch_sub(chunk.len(), Ordering::AcqRel);
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                    Some(Piece::Room(accepted)) => accepted.tell(),
                    Some(Piece::End) => {
                        presence.is_served();
                        return Poll::Ready(None);
                    }
                    // Without its end, the body breaks off.
                    None => return Poll::Ready(Some(Err(ErrorKind::ConnectionAborted.into()))),
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(body) if body.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(body) => SizeHint::with_exact(body.len() as u64),
            Inner::Stream { .. } => SizeHint::default(),
        }
    }
}
