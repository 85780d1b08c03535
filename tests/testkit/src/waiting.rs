//! Waiting for other threads.

use std::thread;
use std::time::{Duration, Instant};

/// The time after which a test that waits has failed.
pub const LONG: Duration = Duration::from_secs(30);

/// Returns once `is_so` holds; panics if that takes too long.
#[track_caller]
pub fn wait_until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "not within {LONG:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
