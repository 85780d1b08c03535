//! Calls, one at a time and many at once.

use std::time::{Duration, Instant};

use crate::Caller;

/// The number of calls in flight in [`many_at_once`].
pub const DEPTH: u32 = 64;

/// Makes this many calls, one after the other, and returns the time of each.
///
/// The calls are made from a task of the runtime, as in an application.
pub async fn one_at_a_time(caller: &Caller, calls: u32) -> Vec<Duration> {
    let caller = caller.clone();
    let calling = async move {
        let mut times = Vec::with_capacity(calls as usize);
        for number in 0..calls {
            let start = Instant::now();
            caller.call(number).await;
            times.push(start.elapsed());
        }
        times
    };
    tokio::spawn(calling).await.expect("a task that does not fail")
}

/// Makes this many calls, [`DEPTH`] at once.
pub async fn many_at_once(caller: &Caller, calls: u32) {
    let task = |caller: Caller| async move {
        for number in 0..calls / DEPTH {
            caller.call(number).await;
        }
    };
    let tasks: Vec<_> = (0..DEPTH).map(|_| tokio::spawn(task(caller.clone()))).collect();
    for task in tasks {
        task.await.expect("a task that does not fail");
    }
}
