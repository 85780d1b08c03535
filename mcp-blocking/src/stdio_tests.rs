//! Tests of what the two threads of a byte stream report, and when.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ::mcp_testkit::waiting::{LONG, wait_until};
use bytes::Bytes;

use crate::backpressure::Backpressure;
use crate::stdio::{CHUNK, Happened, MayBlock, Writer, spawn_reader};

/// An output that accepts a piece whenever the test allows, and records what was flushed.
struct Gated {
    allowed: Receiver<io::Result<()>>,
    taken: Vec<u8>,
    flushed: Arc<Mutex<Vec<u8>>>,
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.allowed.recv().map_err(|_| ErrorKind::BrokenPipe)??;
        self.taken.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed.lock().unwrap().clone_from(&self.taken);
        Ok(())
    }
}

struct Writing {
    writer: Writer,
    allow: Sender<io::Result<()>>,
    flushed: Arc<Mutex<Vec<u8>>>,
    inputs: Receiver<Happened>,
}

fn writing() -> Writing {
    let ((allow, allowed), (inbox, inputs)) = (channel(), sync_channel(16));
    let flushed = Arc::default();
    let output = Gated { allowed, taken: Vec::new(), flushed: Arc::clone(&flushed) };
    Writing {
        writer: Writer::spawn(MayBlock(output), Arc::new(inbox), |happened| happened).unwrap(),
        allow,
        flushed,
        inputs,
    }
}

#[test]
fn written_bytes_are_counted_and_reported_on_request() {
    let Writing { writer, allow, flushed, inputs } = writing();
    assert!(writer.wake_when_written());
    writer.push(Bytes::from_static(b"abc"));
    writer.push(Bytes::from_static(b"de"));
    assert_eq!((writer.waiting(), writer.take_written(), writer.is_done()), (5, 0, false));
    assert!(inputs.try_recv().is_err());
    allow.send(Ok(())).unwrap();
    allow.send(Ok(())).unwrap();
    assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::Written)));
    wait_until(|| writer.waiting() == 0 && *flushed.lock().unwrap() == b"abcde");
    // There are unreported bytes now, so no message follows.
    assert!(!writer.wake_when_written());
    assert_eq!((writer.take_written(), writer.take_written()), (5, 0));
    writer.push(Bytes::from_static(b"f"));
    allow.send(Ok(())).unwrap();
    wait_until(|| writer.waiting() == 0);
    assert!(inputs.try_recv().is_err(), "it was not requested");
    assert!(!writer.is_done());
    writer.close();
    assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::Written)), "the end is reported");
    assert_eq!((writer.is_done(), writer.take_written()), (true, 1));
    assert_eq!(*flushed.lock().unwrap(), b"abcdef");
    // Bytes that are pushed too late are counted as written.
    writer.push(Bytes::from_static(b"late"));
    assert_eq!((writer.waiting(), writer.take_written()), (0, 4));
}

#[test]
fn a_large_message_is_counted_while_it_is_written() {
    let Writing { writer, allow, inputs, .. } = writing();
    writer.push(vec![0; 3 * CHUNK].into());
    writer.close();
    for _ in 0..3 {
        assert!(!writer.is_done());
        assert!(writer.wake_when_written());
        allow.send(Ok(())).unwrap();
        assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::Written)));
        assert_eq!(writer.take_written(), CHUNK);
    }
    wait_until(|| writer.is_done());
    assert_eq!(writer.waiting(), 0);
}

#[test]
fn a_closed_output_is_reported_and_its_queue_is_dropped() {
    for is_discarded in [false, true] {
        let Writing { writer, allow, inputs, .. } = writing();
        writer.push(Bytes::from_static(b"abc"));
        // By then, the thread has taken it and is blocked in the write.
        thread::sleep(Duration::from_millis(20));
        writer.push(Bytes::from_static(b"de"));
        if is_discarded {
            writer.discard();
            allow.send(Ok(())).unwrap();
            wait_until(|| writer.is_done());
            assert!(inputs.try_iter().all(|happened| matches!(happened, Happened::Written)));
        } else {
            allow.send(Err(ErrorKind::BrokenPipe.into())).unwrap();
            assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::OutputClosed)));
            assert!(writer.is_done());
        }
        assert_eq!((writer.waiting(), writer.take_written()), (0, 5));
    }
}

/// The end is visible although the inbox has no room for the message about it.
#[test]
fn an_output_that_has_ended_is_known_to_have_ended_before_that_is_taken() {
    let ((allow, allowed), (inbox, inputs)) = (channel(), sync_channel(1));
    inbox.send(Happened::InputEnded).unwrap();
    let output = Gated { allowed, taken: Vec::new(), flushed: Arc::default() };
    let writer = Writer::spawn(MayBlock(output), Arc::new(inbox), |happened| happened).unwrap();
    writer.push(Bytes::from_static(b"abc"));
    allow.send(Err(ErrorKind::BrokenPipe.into())).unwrap();
    wait_until(|| writer.is_done());
    assert_eq!((writer.waiting(), writer.take_written()), (0, 3));
    assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::InputEnded)));
    assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::OutputClosed)));
}

/// An input that returns what the test sends, and counts how often it was read.
struct Given {
    results: Receiver<io::Result<&'static [u8]>>,
    reads: Arc<Mutex<usize>>,
}

impl Read for Given {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        *self.reads.lock().unwrap() += 1;
        let bytes = self.results.recv().unwrap_or(Ok(b""))?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

type Reading = (Sender<io::Result<&'static [u8]>>, Arc<Mutex<usize>>, Receiver<Happened>, Arc<Backpressure>);

fn reading() -> Reading {
    let ((give, results), (inbox, inputs)) = (channel(), sync_channel::<Happened>(16));
    let (reads, backpressure) = (Arc::default(), Arc::new(Backpressure::new()));
    start(Given { results, reads: Arc::clone(&reads) }, inbox, &backpressure);
    (give, reads, inputs, backpressure)
}

fn start(input: Given, inbox: SyncSender<Happened>, backpressure: &Arc<Backpressure>) {
    spawn_reader(input, Arc::new(inbox), Arc::clone(backpressure), |happened| happened).unwrap();
}

#[test]
fn an_input_is_read_until_its_end_whatever_interrupts_it() {
    for (last, text) in [(Ok(&b""[..]), "the end"), (Err(ErrorKind::ConnectionReset.into()), "an error")] {
        let (give, reads, inputs, _gate) = reading();
        give.send(Ok(b"abc")).unwrap();
        give.send(Err(ErrorKind::Interrupted.into())).unwrap();
        give.send(Ok(b"de")).unwrap();
        give.send(last).unwrap();
        for expected in [&b"abc"[..], b"de"] {
            let happened = inputs.recv_timeout(LONG).unwrap();
            assert!(matches!(&happened, Happened::Read(bytes) if bytes == expected), "{happened:?}");
        }
        assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::InputEnded)), "{text}");
        // The thread has ended and dropped its sender.
        assert!(inputs.recv_timeout(LONG).is_err() && *reads.lock().unwrap() == 4, "{text}");
    }
}

#[test]
fn nothing_is_read_under_backpressure_or_without_a_receiver() {
    let (give, reads, inputs, backpressure) = reading();
    wait_until(|| *reads.lock().unwrap() == 1);
    backpressure.set(false);
    give.send(Ok(b"abc")).unwrap();
    assert!(matches!(inputs.recv_timeout(LONG), Ok(Happened::Read(_))));
    thread::sleep(Duration::from_millis(50));
    assert_eq!(*reads.lock().unwrap(), 1);
    backpressure.set(true);
    wait_until(|| *reads.lock().unwrap() == 2);
    drop(inputs);
    give.send(Ok(b"de")).unwrap();
    // The input is dropped with the thread.
    wait_until(|| Arc::strong_count(&reads) == 1);
    assert_eq!(*reads.lock().unwrap(), 2);
}
