//! The thread that writes to a byte stream, and its queue.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::inbox::Inbox;
use crate::sync::{Condvar, Mutex, MutexGuard, thread};

/// Bytes that are read or written at a time.
pub(crate) const CHUNK: usize = 64 * 1024;
/// How long a thread waits for a non-blocking stream. Another program that shares a stream with this process can make
/// it non-blocking.
const NOT_READY: Duration = Duration::from_millis(10);
/// Stack size of each of the two threads, in bytes.
pub(super) const STACK: usize = 256 * 1024;

/// What the two threads report.
#[derive(Debug)]
pub(crate) enum Happened {
    /// Bytes were read.
    Read(Vec<u8>),
    /// The input has ended.
    InputEnded,
    /// The output has accepted bytes, which [`Writer::take_written`] counts.
    Written,
    /// The output accepts no more bytes.
    OutputClosed,
}

/// Whether the same call may succeed later. Waits before that if the stream was not ready.
pub(super) fn is_passing(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::WouldBlock {
        thread::sleep(NOT_READY);
    }
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// What a [`Writer`] writes to.
pub(crate) trait Output: Write + Send {
    /// Writes what the output accepts without blocking, and returns the number of those bytes; 0 if writing fails.
    fn write_now(&mut self, bytes: &[u8]) -> usize;
}

/// An output that may block at any write.
pub(crate) struct MayBlock<W>(pub(crate) W);

impl<W: Write> Write for MayBlock<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write + Send> Output for MayBlock<W> {
    fn write_now(&mut self, _: &[u8]) -> usize {
        0
    }
}

/// The driver's end of the writing thread.
///
/// It queues any amount of bytes, so that no other output of a machine waits for the peer. The machine bounds the queue
/// by the number of bytes that [`Writer::take_written`] returns.
///
/// The calling thread itself writes what the output accepts without blocking, which costs less than waking the writing
/// thread.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// `None` once it is closed. Locked after the state, or by the thread while it [writes](Stage::Writes).
    output: Mutex<Option<Box<dyn Output>>>,
}

mcp_application::opaque_debug!(Shared);

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    /// Bytes that were queued and not yet accepted by the output.
    waiting: usize,
    /// Bytes that were accepted and not yet reported.
    written: usize,
    /// Whether the driver must be woken once more bytes were accepted.
    wakes: bool,
    /// Whether the thread must end once the queue is empty.
    is_closing: bool,
    thread: Stage,
}

/// The state of the writing thread.
#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Waits,
    /// The thread has taken the queue, and has not written all of it yet.
    Writes,
    Ended,
}

impl State {
    /// Counts bytes as written. Returns whether the driver must be woken.
    fn count_written(&mut self, bytes: usize) -> bool {
        let bytes = bytes.min(self.waiting);
        self.waiting -= bytes;
        self.written += bytes;
        bytes > 0 && std::mem::take(&mut self.wakes)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, Option<Box<dyn Output>>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what the output accepts without blocking, unless earlier bytes are still queued.
    fn write_now(&self, state: &State, bytes: &[u8]) -> usize {
        if state.thread == Stage::Writes || !state.queue.is_empty() {
            return 0;
        }
        self.output().as_mut().map_or(0, |output| output.write_now(bytes))
    }
}

impl Writer {
    pub(crate) fn spawn<I: Send + 'static>(
        output: impl Output + 'static,
        inbox: Arc<dyn Inbox<I>>,
        hand_in: impl Fn(Happened) -> I + Send + 'static,
    ) -> io::Result<Self> {
        let output: Box<dyn Output> = Box::new(output);
        let shared =
            Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), output: Mutex::new(Some(output)) });
        let thread_shared = Arc::clone(&shared);
        thread::Builder::new().name("mcp-writer".to_owned()).stack_size(STACK).spawn(move || {
            // If the inbox is full, the driver will read the count in its next step anyway. This thread must not wait
            // for it.
            let wake = || inbox.try_send(hand_in(Happened::Written));
            let outcome = write_all(&thread_shared, &wake);
            drop(thread_shared.output().take());
            let mut state = thread_shared.state();
            // What is still queued will never be written.
            state.queue.clear();
            let left = state.waiting;
            state.count_written(left);
            state.thread = Stage::Ended;
            drop(state);
            match outcome {
                Ok(()) => wake(),
                Err(error) => {
                    log::info!("the output is closed: {error}");
                    // Blocking is safe here, because nothing waits for this thread any more.
                    inbox.send(hand_in(Happened::OutputClosed));
                }
            }
        })?;
        Ok(Self { shared })
    }

    /// Queues bytes to write, whatever the length of the queue.
    pub(crate) fn push(&self, mut bytes: Bytes) {
        let mut state = self.shared.state();
        state.waiting += bytes.len();
        if state.thread == Stage::Ended {
            let left = state.waiting;
            state.count_written(left);
            return;
        }
        let taken = self.shared.write_now(&state, &bytes);
        // The caller reads the count afterwards, so it need not be woken.
        state.count_written(taken);
        if taken == bytes.len() {
            return;
        }
        state.queue.push_back(bytes.split_off(taken));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Returns how many bytes the output has accepted since the last call, including those that were dropped because it
    /// failed.
    pub(crate) fn take_written(&self) -> usize {
        std::mem::take(&mut self.shared.state().written)
    }

    /// Requests [`Happened::Written`] once more bytes were accepted. Returns `false` if there are unreported bytes
    /// already.
    pub(crate) fn wake_when_written(&self) -> bool {
        let mut state = self.shared.state();
        state.wakes = state.written == 0;
        state.wakes
    }

    /// The number of bytes that are queued or being written.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.state().waiting
    }

    /// Whether the thread has ended, as it does once it is closed and everything is written, or once writing failed.
    pub(crate) fn is_done(&self) -> bool {
        self.shared.state().thread == Stage::Ended
    }

    /// Ends the thread once everything is written.
    pub(crate) fn close(&self) {
        self.shared.state().is_closing = true;
        self.shared.changed.notify_all();
    }

    /// Ends the thread, and drops the bytes that it has not begun to write.
    pub(crate) fn discard(&self) {
        self.shared.state().queue.clear();
        self.close();
    }
}

fn write_all(shared: &Shared, wake: &dyn Fn()) -> io::Result<()> {
    let report = |written: &mut usize| {
        if shared.state().count_written(std::mem::take(written)) {
            wake();
        }
    };
    loop {
        let mut state = shared.state();
        state.thread = Stage::Waits;
        state = shared
            .changed
            .wait_while(state, |state| state.queue.is_empty() && !state.is_closing)
            .unwrap_or_else(PoisonError::into_inner);
        if state.queue.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut state.queue);
        state.thread = Stage::Writes;
        drop(state);
        let mut output = shared.output();
        // Only this thread closes the output.
        let Some(output) = output.as_mut() else { return Ok(()) };
        let mut written = 0;
        for bytes in batch {
            // A write to a pipe blocks until all of it is accepted. In pieces, progress is reported before a large
            // message ends.
            for piece in bytes.chunks(CHUNK) {
                write_piece(output.as_mut(), piece)?;
                written += piece.len();
                if written >= CHUNK {
                    report(&mut written);
                }
            }
        }
        while let Err(error) = output.flush() {
            if !is_passing(&error) {
                return Err(error);
            }
        }
        report(&mut written);
    }
}

/// Like `Write::write_all`, which does not return how much it has written when the output is not ready.
fn write_piece(output: &mut dyn Output, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// An output that accepts as many bytes as the test allows, then fails.
    struct Allowed(Receiver<usize>);

    impl Write for Allowed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map(|allowed| allowed.min(bytes.len())).map_err(|_| io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_writer_takes_what_waits_for_an_output_that_takes_nothing() {
        let (allow, allowed) = sync_channel(64);
        let (inbox, inputs) = sync_channel(1);
        // The inbox is full for now; the thread must not wait for room.
        inbox.send(Happened::InputEnded).unwrap();
        let writer = Writer::spawn(MayBlock(Allowed(allowed)), Arc::new(inbox), |happened| happened).unwrap();
        for _ in 0..100 {
            writer.push(Bytes::from(vec![0; CHUNK]));
        }
        assert_eq!((writer.take_written(), writer.waiting()), (0, 100 * CHUNK));
        for _ in 0..3 {
            allow.send(CHUNK).unwrap();
        }
        let mut written = 0;
        while written < 3 * CHUNK {
            written += writer.take_written();
            thread::yield_now();
        }
        assert_eq!((written, writer.waiting()), (3 * CHUNK, 97 * CHUNK));
        // With room in the inbox, the driver is woken. At the end, it is always woken.
        assert!(matches!(inputs.recv(), Ok(Happened::InputEnded)));
        assert!(writer.wake_when_written());
        allow.send(CHUNK).unwrap();
        assert!(matches!(inputs.recv(), Ok(Happened::Written)));
        assert!(!writer.wake_when_written(), "there is something to take account of");
        drop(allow);
        while !matches!(inputs.recv(), Ok(Happened::OutputClosed)) {}
        // Bytes that the output did not accept are counted as written, and so are all later ones.
        writer.push(Bytes::from_static(b"x"));
        assert!(writer.is_done());
        assert_eq!((writer.take_written(), writer.waiting()), (97 * CHUNK + 1, 0));
    }

    /// The maximum number of bytes that [`Noting`] accepts without blocking.
    const AT_ONCE: usize = 4;

    /// What was written, and by which thread.
    type Noted = Arc<Mutex<Vec<(Vec<u8>, thread::ThreadId)>>>;

    /// An output that records which thread writes what. It accepts bytes without blocking only while it has room, and
    /// otherwise when the test allows.
    struct Noting {
        has_room: Arc<AtomicBool>,
        is_stuck: Arc<AtomicBool>,
        go_on: Receiver<()>,
        noted: Noted,
    }

    impl Write for Noting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.has_room.load(Ordering::SeqCst) {
                self.is_stuck.store(true, Ordering::SeqCst);
                self.go_on.recv().map_err(io::Error::other)?;
            }
            self.noted.lock().unwrap().push((bytes.to_vec(), thread::current().id()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Output for Noting {
        fn write_now(&mut self, bytes: &[u8]) -> usize {
            let bytes = if self.has_room.load(Ordering::SeqCst) { bytes.get(..AT_ONCE).unwrap_or(bytes) } else { &[] };
            if bytes.is_empty() { 0 } else { self.write(bytes).unwrap_or_default() }
        }
    }

    #[test]
    fn bytes_are_written_by_the_calling_thread_unless_others_are_queued_before_them() {
        let (has_room, noted) = (Arc::new(AtomicBool::new(true)), Noted::default());
        let (go, go_on) = sync_channel(8);
        let (inbox, inputs) = sync_channel(8);
        let is_stuck = Arc::new(AtomicBool::new(false));
        let output = Noting {
            has_room: Arc::clone(&has_room),
            is_stuck: Arc::clone(&is_stuck),
            go_on,
            noted: Arc::clone(&noted),
        };
        let writer = Writer::spawn(output, Arc::new(inbox), |happened| happened).unwrap();
        writer.push(Bytes::from_static(b"1"));
        assert_eq!((writer.take_written(), writer.waiting()), (1, 0));
        has_room.store(false, Ordering::SeqCst);
        writer.push(Bytes::from_static(b"2"));
        while !is_stuck.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        has_room.store(true, Ordering::SeqCst);
        writer.push(Bytes::from_static(b"3"));
        assert_eq!(writer.take_written(), 0);
        go.send(()).unwrap();
        while writer.waiting() > 0 || writer.shared.state().thread == Stage::Writes {
            thread::yield_now();
        }
        // The rest is left to the thread.
        writer.push(vec![b'4'; AT_ONCE + 1].into());
        writer.close();
        while !writer.is_done() {
            thread::yield_now();
        }
        assert!(matches!(inputs.recv(), Ok(Happened::Written)));
        let (bytes, threads): (Vec<_>, Vec<_>) = std::mem::take(&mut *noted.lock().unwrap()).into_iter().unzip();
        assert_eq!(bytes, [b"1".to_vec(), b"2".to_vec(), b"3".to_vec(), vec![b'4'; AT_ONCE], b"4".to_vec()]);
        let own = thread::current().id();
        assert_eq!(threads.iter().map(|thread| *thread == own).collect::<Vec<_>>(), [true, false, false, true, false]);
    }

    #[test]
    fn a_closed_writer_ends_once_everything_is_written() {
        let (inbox, inputs) = sync_channel(1);
        let writer = Writer::spawn(MayBlock(Vec::new()), Arc::new(inbox), |happened| happened).unwrap();
        writer.push(Bytes::from_static(b"last"));
        writer.close();
        assert!(matches!(inputs.recv(), Ok(Happened::Written)));
        assert!(writer.is_done());
        assert_eq!(writer.take_written(), 4);
    }
}
