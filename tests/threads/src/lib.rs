//! The protocols between threads that `mcp-blocking` has written itself, in the orders in which their threads can run.
//!
//! The modules are those of `mcp-blocking`, compiled with the primitives of [`shuttle`], which chooses an order of threads in each
//! run and notices threads that wait for ever. Each function here is one run; `tests/orders.rs` makes many of them.
//!
//! | what | where in `mcp-blocking/src` |
//! |---|---|
//! | a queue between two threads | `bounded` |
//! | back-pressure, with aborts | `backpressure` |
//! | the slot in which a caller waits | `response_slot` |
//! | the queue of a connection, with and without a thread | `server/reply_queue` |
//! | a lock with a queue of input | `proxy/input_lock` |
//! | the writing thread and its queue | `stdio/writer` |

#![allow(dead_code, reason = "the modules are those of another crate, which uses all of them")]
#![expect(clippy::missing_panics_doc, reason = "a panic is how a finding is reported")]

#[path = "../../../mcp-blocking/src/backpressure.rs"]
mod backpressure;
#[path = "../../../mcp-blocking/src/bounded.rs"]
mod bounded;
#[path = "../../../mcp-blocking/src/inbox.rs"]
mod inbox;
#[path = "../../../mcp-blocking/src/proxy/input_lock.rs"]
mod input_lock;
#[path = "../../../mcp-blocking/src/server/reply_queue.rs"]
mod reply_queue;
#[path = "../../../mcp-blocking/src/response_slot.rs"]
mod response_slot;
#[path = "../../../mcp-blocking/src/stdio/writer.rs"]
mod writer;

mod sync {
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use shuttle::thread;
}

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::task::{Wake, Waker};
use std::time::Duration;

use backpressure::Backpressure;
use bounded::{Next, bounded};
use bytes::Bytes;
use inbox::Inbox;
use input_lock::InputLock;
use mcp_application::ProgressBytes;
use mcp_proto::Json;
use mcp_proto::client::Outcome;
use reply_queue::reply_queue;
use response_slot::{ResponseSlot, ResponseUpdate};
use sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::{Condvar, Mutex, thread};
use writer::{Happened, Output, Writer};

/// Each entry arrives once and in order, or is counted as missing in its place.
pub fn a_queue_loses_nothing_without_counting_it() {
    let (sender, receiver) = bounded(2, 2);
    let sending = thread::spawn(move || {
        for entry in 0..4 {
            if sender.try_send(entry, 1).is_err() {
                sender.miss();
            }
        }
        sender.finish(4);
    });
    let mut next = 0;
    while let Some(received) = receiver.recv() {
        match received {
            Next::Entry(entry) => {
                assert_eq!(entry, next, "an entry is lost, repeated or out of order");
                next += 1;
            }
            Next::Missed(count) => next += i32::try_from(count).expect("few"),
        }
    }
    assert_eq!(next, 5, "the last entry is lost");
    sending.join().expect("the sender ends");
}

/// Readers that wait are woken when it opens, each abort wakes its own reader, and nothing opens it for others.
pub fn whoever_waits_under_backpressure_is_woken() {
    let (backpressure, aborted) = (Arc::new(Backpressure::new()), Arc::new(AtomicBool::new(false)));
    let is_opened = Arc::new(AtomicBool::new(false));
    backpressure.set(false);
    let (of_reader, may_read) = (Arc::clone(&backpressure), Arc::clone(&is_opened));
    let reader = thread::spawn(move || {
        of_reader.wait();
        assert!(may_read.load(Ordering::SeqCst), "it was not opened");
    });
    let (of_aborted, flag) = (Arc::clone(&backpressure), Arc::clone(&aborted));
    let aborting = thread::spawn(move || of_aborted.wait_unless(&flag));
    backpressure.abort(&aborted);
    aborting.join().expect("the reader that was aborted ends");
    is_opened.store(true, Ordering::SeqCst);
    backpressure.set(true);
    reader.join().expect("the reader ends");
}

/// What was released stays open, whatever another thread closes.
pub fn what_is_released_stays_open() {
    let backpressure = Arc::new(Backpressure::new());
    backpressure.set(false);
    let of_reader = Arc::clone(&backpressure);
    let reader = thread::spawn(move || of_reader.wait());
    let of_other = Arc::clone(&backpressure);
    let other = thread::spawn(move || of_other.set(false));
    backpressure.release();
    reader.join().expect("the reader ends");
    other.join().expect("the other thread ends");
    backpressure.wait();
}

/// A caller receives all progress in order, and then its outcome, however its driver ends.
pub fn a_caller_receives_its_progress_and_then_its_outcome(is_dropped: bool) {
    let (sender, slot) = ResponseSlot::new(ProgressBytes::default().queue());
    let driver = thread::spawn(move || {
        for step in 0..2 {
            sender.progress(Json::from(step));
        }
        if is_dropped { drop(sender) } else { sender.outcome(Outcome::Result(Json::from(2))) }
    });
    let mut steps = 0;
    loop {
        match slot.wait() {
            ResponseUpdate::Progress(step) => {
                assert_eq!(step, Json::from(steps));
                steps += 1;
            }
            ResponseUpdate::Outcome(outcome) => {
                assert_eq!(matches!(outcome, Outcome::Result(_)), !is_dropped);
                break;
            }
        }
    }
    assert_eq!(steps, 2, "progress is lost");
    driver.join().expect("the driver ends");
}

/// A thread that waits for streams.
#[derive(Default)]
struct Woken {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().expect("no thread has failed") = true;
        self.changed.notify_all();
    }
}

/// A connection receives all that its driver sends, in order, and the end, whether it waits for each by itself or is woken.
pub fn a_connection_receives_everything_with_and_without_a_thread(begins_with_thread: bool) {
    let (sender, receiver) = reply_queue();
    let driver = thread::spawn(move || {
        for step in 0..3 {
            assert!(sender.send(step), "the connection receives");
        }
    });
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let (mut has_thread, mut steps) = (begins_with_thread, 0);
    loop {
        match receiver.try_recv() {
            Ok(step) => {
                assert_eq!(step, steps, "an entry is lost, repeated or out of order");
                steps += 1;
                has_thread = !has_thread;
            }
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) if has_thread => assert!(receiver.wait(Duration::MAX)),
            Err(TryRecvError::Empty) => {
                if receiver.wake_at_next(&waker) {
                    let is_woken = woken.is_woken.lock().expect("no thread has failed");
                    let waited = woken.changed.wait_while(is_woken, |is_woken| !*is_woken);
                    *waited.expect("no thread has failed") = false;
                }
            }
        }
    }
    assert_eq!(steps, 3, "the last entry is lost");
    driver.join().expect("the driver ends");
}

/// Each input is passed in once, in the order of its thread, by one thread at a time, and none is left when all have sent theirs.
pub fn no_input_is_left_and_one_thread_works_at_a_time(most: usize) {
    let lock = Arc::new(InputLock::new(Vec::new(), most));
    let working = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let (lock, working) = (Arc::clone(&lock), Arc::clone(&working));
            thread::spawn(move || {
                for step in 0..2 {
                    lock.send((number, step), |taken: &mut Vec<(u8, u8)>| {
                        assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "two threads work at a time");
                        while let Some(input) = lock.next() {
                            taken.push(input);
                        }
                        working.fetch_sub(1, Ordering::SeqCst);
                        true
                    });
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread ends");
    }
    assert!(!lock.has_input(), "input is left");
    let taken = lock.state();
    for number in 0..3 {
        let steps: Vec<_> = taken.iter().filter(|(of, _)| *of == number).map(|(_, step)| *step).collect();
        assert_eq!(steps, [0, 1], "input is lost, repeated or out of order");
    }
}

/// What a writer has written, and of which it takes this much without blocking.
struct Noted {
    bytes: Arc<Mutex<Vec<u8>>>,
    at_once: usize,
    fails: bool,
}

impl Write for Noted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.fails {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let length = bytes.len().min(2);
        self.bytes.lock().expect("no thread has failed").extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Noted {
    fn write_now(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.at_once);
        self.bytes.lock().expect("no thread has failed").extend_from_slice(&bytes[..length]);
        length
    }
}

/// The inbox of a driver that waits for what happens.
#[derive(Debug, Default)]
struct Driver {
    happened: Mutex<Vec<&'static str>>,
    changed: Condvar,
}

impl Inbox<Happened> for Driver {
    fn send(&self, input: Happened) -> bool {
        let name = if matches!(input, Happened::OutputClosed) { "closed" } else { "written" };
        self.happened.lock().expect("no thread has failed").push(name);
        self.changed.notify_all();
        true
    }

    fn try_send(&self, input: Happened) {
        self.send(input);
    }
}

impl Driver {
    fn wait(&self) -> &'static str {
        let happened = self.happened.lock().expect("no thread has failed");
        let mut happened =
            self.changed.wait_while(happened, |happened| happened.is_empty()).expect("no thread has failed");
        happened.remove(0)
    }
}

/// All bytes are written in order and counted, the driver that waits for this is woken, and the thread ends.
pub fn a_writer_writes_everything_in_order_and_reports_it(at_once: usize) {
    let (driver, bytes) = (Arc::new(Driver::default()), Arc::new(Mutex::new(Vec::new())));
    let output = Noted { bytes: Arc::clone(&bytes), at_once, fails: false };
    let inbox: Arc<dyn Inbox<Happened>> = driver.clone();
    let writer = Writer::spawn(output, inbox, |happened| happened).expect("a thread");
    let mut written = 0;
    for piece in ["abc", "de", "f"] {
        writer.push(Bytes::from_static(piece.as_bytes()));
    }
    while written < 6 {
        written += writer.take_written();
        if written < 6 && writer.wake_when_written() {
            assert_eq!(driver.wait(), "written");
        }
    }
    assert_eq!(written, 6, "more is reported than was written");
    assert_eq!(*bytes.lock().expect("no thread has failed"), b"abcdef");
    writer.close();
    while !writer.is_done() {
        assert_eq!(driver.wait(), "written");
    }
    assert_eq!(writer.waiting(), 0);
}

/// What cannot be written is reported as written, so that nothing waits for it, and the driver learns why.
pub fn a_writer_whose_output_fails_reports_that_and_holds_nothing() {
    let driver = Arc::new(Driver::default());
    let output = Noted { bytes: Arc::default(), at_once: 0, fails: true };
    let inbox: Arc<dyn Inbox<Happened>> = driver.clone();
    let writer = Writer::spawn(output, inbox, |happened| happened).expect("a thread");
    for piece in ["abc", "de"] {
        writer.push(Bytes::from_static(piece.as_bytes()));
    }
    while driver.wait() != "closed" {}
    writer.push(Bytes::from_static(b"f"));
    assert_eq!((writer.take_written(), writer.waiting(), writer.is_done()), (6, 0, true));
}
