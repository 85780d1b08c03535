//! Bounds for tests that wait for sockets, processes and other threads, so that each test ends by itself.
//!
//! The fixtures of the drivers' tests call [`set`], and run programs with [`output_of`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than any test takes, also on a busy machine.
const TEST: Duration = Duration::from_secs(600);
/// Far more than a program takes that ends by itself.
const PROGRAM: Duration = Duration::from_secs(90);

/// The tests that run: their names, and when they must have ended.
static RUNNING: Mutex<BTreeMap<u64, (String, Instant)>> = Mutex::new(BTreeMap::new());
static CHANGED: Condvar = Condvar::new();

/// The deadline of a test, until the thread of the test ends.
struct Deadline(u64);

thread_local! {
    static OF_THIS_TEST: RefCell<Option<Deadline>> = const { RefCell::new(None) };
}

/// The test on this thread must end within ten minutes from the first call. Otherwise the program ends, with the name of the
/// test: nothing else can end a thread that waits.
pub fn set() {
    set_within(TEST);
}

/// The same with another time.
pub fn set_within(time: Duration) {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| drop(thread::Builder::new().name("deadlines".to_owned()).spawn(watch)));
    let name = thread::current().name().unwrap_or("on a thread without a name").to_owned();
    OF_THIS_TEST.with_borrow_mut(|own| {
        if own.is_none() {
            *own = Some(Deadline::new(name, time));
        }
    });
}

impl Deadline {
    fn new(name: String, time: Duration) -> Self {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let key = running.last_key_value().map_or(0, |(last, _)| last + 1);
        running.insert(key, (name, Instant::now() + time));
        CHANGED.notify_one();
        Self(key)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Ends the program when a test has not ended in time.
fn watch() {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        if let Some((name, _)) = running.values().find(|(_, until)| *until <= now) {
            // The output of a test would be captured.
            let _ = writeln!(io::stderr(), "the test {name} has not ended in time");
            std::process::exit(101);
        }
        let next = running.values().map(|(_, until)| *until).min().unwrap_or(now + TEST);
        let waited = CHANGED.wait_timeout(running, next.saturating_duration_since(now));
        running = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Runs a program that must end by itself, as [`Command::output`] does.
///
/// # Panics
///
/// If it cannot be started, or has not ended within 90 s: then it is killed, and the message contains what it has written.
#[track_caller]
pub fn output_of(command: &mut Command) -> Output {
    output_within(command, PROGRAM)
}

/// The same with another time.
///
/// # Panics
///
/// As [`output_of`].
#[track_caller]
pub fn output_within(command: &mut Command, time: Duration) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let streams = (child.stdout.take().map(rest_of), child.stderr.take().map(rest_of));
    let until = Instant::now() + time;
    let mut has_ended = false;
    while !has_ended && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
        has_ended = child.try_wait().expect("a child").is_some();
    }
    if !has_ended {
        let _ = child.kill();
    }
    let status = child.wait().expect("a child");
    // A process that it has started may keep them open.
    let rest = |stream: Option<Receiver<Vec<u8>>>| {
        let until = until.max(Instant::now() + Duration::from_secs(1));
        stream.and_then(|stream| stream.recv_timeout(until.saturating_duration_since(Instant::now())).ok())
    };
    let (stdout, stderr) = (rest(streams.0), rest(streams.1));
    match (has_ended, stdout, stderr) {
        (true, Some(stdout), Some(stderr)) => Output { status, stdout, stderr },
        (_, _, stderr) => {
            let stderr = stderr.unwrap_or_default();
            let stderr = String::from_utf8_lossy(&stderr);
            panic!("the program and its output have not ended within {time:?}: {command:?}\n{stderr}")
        }
    }
}

fn rest_of(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (read, rest) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = read.send(bytes);
    });
    rest
}
