//! Benchmarks of several implementations in turns.
//!
//! Machines are noisy and differ, so absolute figures mean little. All implementations do the same work in the same
//! run, round by round, and the ratio of the first to each other one is reported.

use std::env;
use std::hint::black_box;
use std::process::{Command, exit};
use std::time::{Duration, Instant};

/// One of the compared implementations: its name, and its work, which returns a count as a check.
pub struct Contender<'c> {
    name: &'static str,
    work: Box<dyn FnMut() -> usize + 'c>,
}

impl<'c> Contender<'c> {
    /// An implementation. `work` must return the same value for all implementations that do the same work.
    pub fn new(name: &'static str, work: impl FnMut() -> usize + 'c) -> Self {
        Self { name, work: Box::new(work) }
    }
}

const ROUNDS: usize = 15;
/// The length of a round: long enough to be measured, short enough that a disturbance affects only one round.
const ROUND: Duration = Duration::from_millis(15);

/// Runs the comparison and prints a line: the throughput of each in MB/s if `bytes` are processed per call (else ns per
/// call), and the ratio of the first to each other one.
pub fn contest(title: &str, bytes: Option<usize>, mut contenders: Vec<Contender<'_>>) {
    let calls: Vec<u32> = contenders.iter_mut().map(|contender| calibrate(&mut contender.work)).collect();
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for ((contender, &calls), times) in contenders.iter_mut().zip(&calls).zip(&mut rounds) {
            let start = Instant::now();
            for _ in 0..calls {
                black_box((contender.work)());
            }
            times.push(start.elapsed().as_secs_f64() / f64::from(calls));
        }
    }
    let times: Vec<f64> = rounds.into_iter().map(median).collect();
    print!("{title:<32}");
    for (place, (contender, time)) in contenders.iter().zip(&times).enumerate() {
        match bytes {
            Some(bytes) => {
                #[expect(clippy::cast_precision_loss, reason = "inputs have far fewer than 2^52 bytes")]
                let speed = bytes as f64 / time / 1e6;
                print!("  {} {speed:.0} MB/s", contender.name);
            }
            None => print!("  {} {:.0} ns", contender.name, time * 1e9),
        }
        if let Some(first) = times.first().filter(|_| place > 0) {
            print!(" (x{:.2})", time / first);
        }
    }
    println!();
}

/// The number of calls that fill a round.
fn calibrate(work: &mut dyn FnMut() -> usize) -> u32 {
    let mut calls = 1;
    loop {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(work());
        }
        let taken = start.elapsed();
        if taken >= ROUND / 2 {
            return calls;
        }
        calls *= 2;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Restarts the benchmark with an allocator that keeps freed memory. Otherwise, large inputs measure the page faults of
/// memory that was returned to the system.
pub fn with_warm_memory() {
    const SETTINGS: [(&str, &str); 3] = [
        ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
        ("MALLOC_MMAP_THRESHOLD_", "4294967296"),
        ("MALLOC_TOP_PAD_", "268435456"),
    ];
    if env::var_os(SETTINGS[0].0).is_some() {
        return;
    }
    let program = env::current_exe().expect("a running program has a file");
    let status = Command::new(program).args(env::args_os().skip(1)).envs(SETTINGS).status().expect("it starts again");
    exit(status.code().unwrap_or(1));
}
