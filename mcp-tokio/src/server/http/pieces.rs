//! The pieces of a response's body, which the connection takes as its client reads them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;

use crate::server::requests::Accepted;

/// With this many bytes unread by a client, handlers that send to it wait.
const ROOM: usize = 64 * 1024;
/// The maximum bytes that a connection takes at once. Its own write buffer is not much larger.
pub(super) const PART: usize = 16 * 1024;

#[derive(Debug)]
enum Piece {
    Chunk(Bytes),
    /// Everything before this was taken: the handler may continue.
    Room(Accepted),
}

/// The pieces of a body that the connection has not taken.
#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// The bytes of all chunks.
    bytes: usize,
    /// The rest of the length that the head announces, if it announces one.
    length: Option<u64>,
    end: End,
    /// The connection takes nothing more.
    is_dropped: bool,
    /// Wakes the connection, which waits for the next piece.
    connection: Option<Waker>,
    /// Wakes the task that waits for an abort.
    watcher: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum End {
    /// More may follow.
    #[default]
    Open,
    /// Nothing follows the queued pieces.
    Ended,
    /// All senders are dropped: the body is broken off after the queued pieces.
    Broken,
    /// The body is broken off at once.
    Aborted,
}

impl Queue {
    fn wake(&mut self) {
        if let Some(waker) = self.connection.take() {
            waker.wake();
        }
    }

    /// Drops the queued pieces; handlers that wait for room may continue.
    fn drop_pieces(&mut self) {
        self.bytes = 0;
        for piece in self.pieces.drain(..) {
            if let Piece::Room(accepted) = piece {
                accepted.report();
            }
        }
    }
}

/// The sending end of a body. When the last clone is dropped, the body is broken off unless it has ended.
#[derive(Debug, Clone)]
pub(super) struct Pieces(Arc<Source>);

/// The queue, shared by all clones of its sender.
#[derive(Debug)]
struct Source(Arc<Mutex<Queue>>);

impl Drop for Source {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        if queue.end == End::Open {
            queue.end = End::Broken;
            queue.wake();
        }
    }
}

/// The receiving end of [`Pieces`], before it becomes a body.
#[derive(Debug)]
pub(super) struct Unread(Arc<Mutex<Queue>>);

impl Drop for Unread {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.is_dropped = true;
        queue.drop_pieces();
    }
}

/// A body that may be aborted while its connection is blocked.
#[derive(Debug, Clone)]
pub(super) struct Watched(Arc<Mutex<Queue>>);

impl Watched {
    /// Waits until the body is aborted.
    pub(super) async fn aborted(&self) {
        poll_fn(|cx| {
            let mut queue = lock(&self.0);
            if queue.end == End::Aborted {
                return Poll::Ready(());
            }
            queue.watcher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two ends of a body whose pieces follow.
pub(super) fn stream() -> (Pieces, Unread) {
    with(Queue::default())
}

/// The two ends of a complete body.
pub(super) fn whole(body: Bytes) -> (Pieces, Unread) {
    let (bytes, length) = (body.len(), Some(body.len() as u64));
    with(Queue { pieces: [Piece::Chunk(body)].into(), bytes, length, end: End::Ended, ..Queue::default() })
}

fn with(queue: Queue) -> (Pieces, Unread) {
    let queue = Arc::new(Mutex::new(queue));
    (Pieces(Arc::new(Source(Arc::clone(&queue)))), Unread(queue))
}

/// Whether a body is so small that a connection takes all of it at once.
pub(super) fn is_small(body: &Bytes) -> bool {
    body.len() <= PART
}

impl Pieces {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.0.0)
    }

    /// Queues a chunk, unless the client has disconnected.
    pub(super) fn send(&self, chunk: Bytes) {
        let mut queue = self.queue();
        if !queue.is_dropped && !chunk.is_empty() {
            queue.bytes += chunk.len();
            queue.pieces.push_back(Piece::Chunk(chunk));
            queue.wake();
        }
    }

    /// The bytes that the client has not taken.
    pub(super) fn waiting(&self) -> usize {
        self.queue().bytes
    }

    pub(super) fn end(&self) {
        let mut queue = self.queue();
        queue.end = End::Ended;
        queue.wake();
    }

    /// Breaks the body off, and drops the queued pieces. Does nothing if all of it was taken.
    pub(super) fn abort(&self) {
        let mut queue = self.queue();
        if queue.end == End::Ended && queue.bytes == 0 {
            return;
        }
        queue.end = End::Aborted;
        queue.drop_pieces();
        queue.wake();
        if let Some(watcher) = queue.watcher.take() {
            watcher.wake();
        }
    }

    /// Whether handlers may continue at once.
    pub(super) fn has_room(&self) -> bool {
        self.waiting() < ROOM
    }

    /// Sends the result to a handler when everything that is queued was taken; at once if the client has disconnected.
    pub(super) fn accept(&self, accepted: Accepted) {
        let mut queue = self.queue();
        if queue.is_dropped || queue.end == End::Aborted {
            accepted.report();
        } else {
            queue.pieces.push_back(Piece::Room(accepted));
            queue.wake();
        }
    }
}

impl Unread {
    /// A handle that waits until the body is aborted.
    pub(super) fn watched(&self) -> Watched {
        Watched(Arc::clone(&self.0))
    }

    /// The bytes that were not taken, if the head of the response announces a length.
    pub(super) fn length(&self) -> Option<u64> {
        lock(&self.0).length
    }

    /// Takes the next part.
    pub(super) fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut queue = lock(&self.0);
        loop {
            match queue.pieces.pop_front() {
                Some(Piece::Chunk(mut chunk)) => {
                    let part = chunk.split_to(chunk.len().min(PART));
                    if !chunk.is_empty() {
                        queue.pieces.push_front(Piece::Chunk(chunk));
                    }
                    queue.bytes -= part.len();
                    queue.length = queue.length.map(|length| length.saturating_sub(part.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
                Some(Piece::Room(accepted)) => accepted.report(),
                None => break,
            }
        }
        match queue.end {
            End::Ended => Poll::Ready(None),
            End::Broken | End::Aborted => Poll::Ready(Some(Err(ErrorKind::ConnectionAborted.into()))),
            End::Open => {
                queue.connection = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body::Body;

    use super::super::body::HttpBody;
    use super::super::body::tests::poll;
    use super::*;

    static THREE_PARTS: [u8; 3 * PART] = [0; 3 * PART];

    /// Bytes that count their instances.
    struct Counted(Arc<AtomicUsize>);

    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &THREE_PARTS
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn counted(count: &Arc<AtomicUsize>) -> Bytes {
        count.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Counted(Arc::clone(count)))
    }

    #[test]
    fn what_waits_is_dropped_as_soon_as_it_is_aborted() {
        for is_stream in [true, false] {
            let alive = Arc::default();
            let (pieces, unread) = if is_stream { stream() } else { whole(counted(&alive)) };
            if is_stream {
                pieces.send(counted(&alive));
            }
            let mut body = HttpBody::pieces(unread, None);
            assert_eq!(poll(&mut body), Poll::Ready(Some(Ok(PART))));
            assert_eq!((alive.load(Ordering::Relaxed), pieces.waiting()), (1, 2 * PART));
            pieces.abort();
            assert_eq!((alive.load(Ordering::Relaxed), pieces.waiting()), (0, 0));
            assert_eq!(poll(&mut body), Poll::Ready(Some(Err(ErrorKind::ConnectionAborted))));
        }
    }

    #[test]
    fn what_is_taken_counts_no_longer() {
        let (pieces, unread) = whole(counted(&Arc::default()));
        let mut body = HttpBody::pieces(unread, None);
        assert_eq!(body.size_hint().exact(), Some(3 * PART as u64));
        for left in [2 * PART, PART, 0] {
            assert_eq!(poll(&mut body), Poll::Ready(Some(Ok(PART))));
            assert_eq!((pieces.waiting(), body.size_hint().exact()), (left, Some(left as u64)));
        }
        assert_eq!(poll(&mut body), Poll::Ready(None));
        // A body that was taken in full is not broken off after its end.
        pieces.abort();
        assert_eq!(poll(&mut body), Poll::Ready(None));
    }

    #[test]
    fn nothing_is_queued_for_a_disconnected_client() {
        let alive = Arc::default();
        let (pieces, unread) = stream();
        pieces.send(counted(&alive));
        drop(unread);
        assert_eq!((pieces.waiting(), alive.load(Ordering::Relaxed)), (0, 0));
        pieces.send(counted(&alive));
        assert_eq!((pieces.waiting(), alive.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_body_whose_server_has_ended_breaks_off_after_the_queued_bytes() {
        let (pieces, unread) = stream();
        pieces.send(Bytes::from_static(b"x"));
        drop(pieces);
        let mut body = HttpBody::pieces(unread, None);
        assert_eq!(poll(&mut body), Poll::Ready(Some(Ok(1))));
        assert_eq!(poll(&mut body), Poll::Ready(Some(Err(ErrorKind::ConnectionAborted))));
    }
    #[test]
    fn fr14_a_body_has_room_for_a_number_of_bytes_and_wakes_waiting_senders() {
        let (pieces, unread) = stream();
        let mut body = HttpBody::pieces(unread, None);
        assert_eq!(poll(&mut body), Poll::Pending);
        for (length, has_room) in [(ROOM - 2, true), (1, true), (1, false)] {
            pieces.send(vec![0; length].into());
            assert_eq!(pieces.has_room(), has_room);
        }
        // An empty piece would be the end of a chunked body.
        pieces.send(Bytes::new());
        let (accept, mut accepted) = tokio::sync::oneshot::channel();
        pieces.accept(Accepted::new(accept, Ok(())));
        while pieces.waiting() > 0 {
            assert!(accepted.try_recv().is_err(), "{} bytes wait", pieces.waiting());
            assert!(matches!(poll(&mut body), Poll::Ready(Some(Ok(1..)))));
        }
        assert_eq!(poll(&mut body), Poll::Pending);
        assert_eq!(accepted.try_recv(), Ok(Ok(())));
        pieces.end();
        assert_eq!(poll(&mut body), Poll::Ready(None));
        for is_dropped in [true, false] {
            let (pieces, unread) = stream();
            let mut unread = Some(unread);
            let (accept, mut accepted) = tokio::sync::oneshot::channel();
            let (accept_next, mut accepted_next) = tokio::sync::oneshot::channel();
            pieces.accept(Accepted::new(accept, Ok(())));
            if is_dropped {
                unread = None;
            } else {
                pieces.abort();
            }
            assert_eq!(accepted.try_recv(), Ok(Ok(())), "a sender that waits when the client disconnects");
            pieces.accept(Accepted::new(accept_next, Ok(())));
            assert_eq!(accepted_next.try_recv(), Ok(Ok(())), "a later sender");
            drop(unread);
        }
    }

    /// A body's connection and its watcher are woken by each piece, the end, a break, and an abort.
    #[tokio::test]
    async fn a_connection_that_waits_is_woken_by_all_that_happens_to_its_body() {
        for (what, expected) in [
            ("a piece", Some(Ok(1))),
            ("room", None),
            ("the end", None),
            ("a break", Some(Err(ErrorKind::ConnectionAborted))),
            ("an abort", Some(Err(ErrorKind::ConnectionAborted))),
        ] {
            let (pieces, unread) = stream();
            let body = HttpBody::pieces(unread, None);
            let watched = body.watched().unwrap();
            let watching = tokio::spawn(async move { watched.aborted().await });
            let next = tokio::spawn(async move {
                let mut body = body;
                poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
            });
            tokio::task::yield_now().await;
            let mut pieces = Some(pieces);
            match what {
                "a piece" => pieces.as_ref().unwrap().send(Bytes::from_static(b"x")),
                "room" => {
                    let (accept, accepted) = tokio::sync::oneshot::channel();
                    pieces.as_ref().unwrap().accept(Accepted::new(accept, Ok(())));
                    assert_eq!(accepted.await, Ok(Ok(())));
                    pieces.as_ref().unwrap().end();
                }
                "the end" => pieces.as_ref().unwrap().end(),
                "a break" => pieces = None,
                _ => pieces.as_ref().unwrap().abort(),
            }
            let frame = next.await.unwrap();
            let frame = frame.map(|frame| frame.map(|it| it.into_data().unwrap().len()).map_err(|it| it.kind()));
            assert_eq!(frame, expected, "{what}");
            tokio::task::yield_now().await;
            assert_eq!(watching.is_finished(), what == "an abort", "{what}");
            watching.abort();
            drop(pieces);
        }
    }
}
