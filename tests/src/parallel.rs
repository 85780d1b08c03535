//! Cases of a table that run concurrently.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// The time that all cases of a table may take together on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many times as long they may take where the programs of another processor are emulated.
const EMULATED: &str = "TESTS_ARE_EMULATED";

/// One case of a table, which runs on its own thread.
pub struct Case {
    name: String,
    run: Box<dyn FnOnce() + Send>,
}

/// A case with a name.
pub fn case(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Case {
    Case { name: name.into(), run: Box::new(run) }
}

/// Runs cases concurrently.
///
/// # Panics
///
/// The message contains the names of the cases that panicked or did not end.
pub fn run_all(cases: Vec<Case>) {
    crate::deadline::set();
    let mut left: Vec<_> = cases.iter().map(|case| case.name.clone()).collect();
    let (ended, endings) = channel();
    for Case { name, run } in cases {
        let ended = ended.clone();
        // The threads are not joined, so that a case that hangs is reported by name.
        thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let is_fine = catch_unwind(AssertUnwindSafe(run)).is_ok();
                let _ = ended.send((name, is_fine));
            })
            .expect("a thread");
    }
    let factor = if std::env::var_os(EMULATED).is_some() { 4 } else { 1 };
    let until = Instant::now() + PATIENCE * factor;
    let mut failed = Vec::new();
    while !left.is_empty() {
        let Ok((name, is_fine)) = endings.recv_timeout(until.saturating_duration_since(Instant::now())) else { break };
        left.retain(|other| *other != name);
        if !is_fine {
            failed.push(name);
        }
    }
    assert!(left.is_empty() && failed.is_empty(), "without an end: {left:?}; failed: {failed:?}");
}
