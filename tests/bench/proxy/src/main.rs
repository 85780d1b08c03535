//! Measures proxies between stdio and HTTP side by side, and prints a table. `tests/bench/proxy/run` starts it.

mod contender;
mod pairs;
mod server;
mod small;
mod table;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, io, thread};

use contender::{Call, Contender, Running, size_on_disk};
use server::Era;
use table::{Figure, Target, Unit};

const SMALL: usize = 200;
const LARGE: usize = 10 << 20;
const IN_FLIGHT: usize = 32;
/// The sizes of results, in MiB, over which the time per byte must stay the same.
const GROWING: [usize; 4] = [5, 10, 20, 40];

/// The pause before a turn, in which the contenders finish the work of the previous one.
const PAUSE: Duration = Duration::from_millis(20);

/// The number of rounds and calls of each measurement. The contenders take turns in every round.
struct Effort {
    starts: usize,
    rounds: usize,
    calls_per_round: usize,
    large_rounds: usize,
    growing_rounds: usize,
}

const FULL: Effort = Effort { starts: 24, rounds: 24, calls_per_round: 100, large_rounds: 18, growing_rounds: 6 };
const QUICK: Effort = Effort { starts: 6, rounds: 6, calls_per_round: 100, large_rounds: 6, growing_rounds: 1 };

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let url = server::start(Era::Legacy)?;
    match arguments[..] {
        ["serve"] => {
            println!("{url}");
            loop {
                thread::park();
            }
        }
        ["compare", proxy, bare, modules, ref rest @ ..] => {
            let contenders = [
                Contender::proxy(Path::new(proxy), &url),
                Contender::bare(Path::new(bare), &url),
                Contender::remote(Path::new(modules), &url),
            ];
            let effort = if rest.contains(&"--quick") { &QUICK } else { &FULL };
            compare(&contenders, effort)?;
            pairs::compare(Path::new(proxy), &url, effort)?;
            Ok(())
        }
        ["pairs", proxy, ref rest @ ..] => {
            pairs::compare(Path::new(proxy), &url, if rest.contains(&"--quick") { &QUICK } else { &FULL })?;
            Ok(())
        }
        ["small", ref rest @ ..] if rest.iter().any(|argument| *argument != "--quick") => {
            let programs = rest.iter().filter(|argument| **argument != "--quick").map(Path::new);
            Ok(small::compare(
                &programs.collect::<Vec<_>>(),
                &url,
                if rest.contains(&"--quick") { &QUICK } else { &FULL },
            )?)
        }
        _ => Err("usage: proxy-bench serve | small PROGRAM… [--quick] | pairs PROXY [--quick] | \
                  compare PROXY BARE NODE_MODULES [--quick]"
            .into()),
    }
}

fn compare(contenders: &[Contender; 3], effort: &Effort) -> io::Result<()> {
    table::print_head(&contenders.each_ref().map(|contender| contender.name));
    start_up(contenders, effort)?;
    small_results(contenders, effort)?;
    large_results(contenders, effort)?;
    growing_results(contenders, effort)?;
    let mut sizes = [0.0; 3];
    for (size, contender) in sizes.iter_mut().zip(contenders) {
        *size = table::float(size_on_disk(&contender.installed)?);
    }
    Figure::note("on disk", Unit::Bytes).target(Target::AtMost(3e6)).print(sizes);
    sizes[2] += table::float(size_on_disk(&node()?)?);
    Figure::new("on disk, with node", Unit::Bytes).print(sizes);
    Ok(())
}

/// The path of node.
fn node() -> io::Result<PathBuf> {
    let output = Command::new("node").args(["-p", "process.execPath"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().into())
}

fn start_up(contenders: &[Contender; 3], effort: &Effort) -> io::Result<()> {
    let mut times = [const { Vec::new() }; 3];
    for round in 0..effort.starts {
        for turn in turns(round) {
            times[turn].push(contenders[turn].start(false)?.1.as_secs_f64());
        }
    }
    Figure::new("from start to first answer", Unit::Seconds).target(Target::AtMost(0.010)).print(times.map(median));
    Ok(())
}

/// The figures of one contender, from all rounds of a measurement.
#[derive(Default)]
struct Rounds {
    times: Vec<f64>,
    cpu: Vec<f64>,
    waits: Vec<f64>,
}

impl Rounds {
    /// Makes `calls` calls with `round`, which returns the time of each call or of all calls together.
    fn add(
        &mut self,
        running: &mut Running,
        calls: usize,
        round: impl FnOnce(&mut Running) -> io::Result<Vec<Duration>>,
    ) -> io::Result<()> {
        let before = running.usage()?;
        let times = round(running)?;
        let after = running.usage()?;
        let calls = table::float(calls as u64);
        self.times.extend(times.iter().map(Duration::as_secs_f64));
        self.cpu.push((after.cpu.saturating_sub(before.cpu)).as_secs_f64() / calls);
        self.waits.push(table::float(after.waits.saturating_sub(before.waits)) / calls);
        Ok(())
    }
}

fn small_results(contenders: &[Contender; 3], effort: &Effort) -> io::Result<()> {
    let mut running = start_all(contenders, false)?;
    let calls = effort.calls_per_round;
    let in_turn = |running: &mut [Running; 3], call| -> io::Result<[Rounds; 3]> {
        let mut rounds: [Rounds; 3] = Default::default();
        for round in 0..effort.rounds {
            for turn in turns(round) {
                let running = &mut running[turn];
                thread::sleep(PAUSE);
                running.calls(call, calls / 10, 1)?;
                rounds[turn].add(running, calls, |running| (0..calls).map(|_| running.call(call)).collect())?;
            }
        }
        Ok(rounds)
    };
    for sse in [false, true] {
        let rounds = in_turn(&mut running, Call { bytes: SMALL, sse })?;
        let kind = if sse { "SSE" } else { "JSON" };
        let figure = |name: &str, unit| Figure::new(&format!("200 B as {kind}, one at a time: {name}"), unit);
        figure("p50", Unit::Seconds)
            .target(Target::TimesBare(2.0))
            .print(rounds.each_ref().map(|rounds| median(rounds.times.clone())));
        figure("CPU per call", Unit::Seconds)
            .target(Target::AtMost(100e-6))
            .print(rounds.each_ref().map(|rounds| median(rounds.cpu.clone())));
        Figure::note(&format!("200 B as {kind}, one at a time: waits per call"), Unit::Number)
            .print(rounds.each_ref().map(|rounds| median(rounds.waits.clone())));
    }
    print_peak(&running, "200 B, one at a time: peak memory")?;

    let count = calls * 10;
    let mut rounds: [Rounds; 3] = Default::default();
    for round in 0..effort.rounds {
        for turn in turns(round) {
            let running = &mut running[turn];
            thread::sleep(PAUSE);
            let call = Call { bytes: SMALL, sse: false };
            running.calls(call, IN_FLIGHT * 2, IN_FLIGHT)?;
            rounds[turn].add(running, count, |running| Ok(vec![running.calls(call, count, IN_FLIGHT)?]))?;
        }
    }
    let rate = |rounds: &Rounds| table::float(count as u64) / median(rounds.times.clone());
    Figure::new("200 B as JSON, 32 in flight: calls/s", Unit::Rate).print(rounds.each_ref().map(rate));
    Figure::new("200 B as JSON, 32 in flight: CPU per call", Unit::Seconds)
        .target(Target::AtMost(100e-6))
        .print(rounds.each_ref().map(|rounds| median(rounds.cpu.clone())));
    Figure::note("200 B as JSON, 32 in flight: waits per call", Unit::Number)
        .print(rounds.each_ref().map(|rounds| median(rounds.waits.clone())));
    print_peak(&running, "200 B, 32 in flight: peak memory")
}

fn print_peak(running: &[Running; 3], name: &str) -> io::Result<()> {
    let mut peaks = [0.0; 3];
    for (peak, running) in peaks.iter_mut().zip(running) {
        *peak = running.peak_memory()?;
    }
    Figure::new(name, Unit::Bytes).target(Target::AtMost(5e6)).print(peaks);
    Ok(())
}

fn large_results(contenders: &[Contender; 3], effort: &Effort) -> io::Result<()> {
    for sse in [false, true] {
        let mut running = start_all(contenders, false)?;
        let mut times = [const { Vec::new() }; 3];
        let mut small_peaks = [0.0; 3];
        for (peak, running) in small_peaks.iter_mut().zip(&mut running) {
            running.calls(Call { bytes: SMALL, sse }, 200, 1)?;
            *peak = running.peak_memory()?;
        }
        for round in 0..effort.large_rounds {
            for turn in turns(round) {
                times[turn].push(running[turn].call(Call { bytes: LARGE, sse })?.as_secs_f64());
            }
        }
        let kind = if sse { "SSE" } else { "JSON" };
        Figure::new(&format!("10 MiB as {kind}: p50"), Unit::Seconds).print(times.map(median));
        let mut shares = [0.0; 3];
        for ((share, small), running) in shares.iter_mut().zip(small_peaks).zip(&running) {
            *share = (running.peak_memory()? - small) / table::float(LARGE as u64);
        }
        Figure::new(&format!("10 MiB as {kind}: memory per byte in flight"), Unit::Share)
            .target(Target::AtMost(2.0))
            .print(shares);
    }
    Ok(())
}

fn growing_results(contenders: &[Contender; 3], effort: &Effort) -> io::Result<()> {
    let mut running = start_all(contenders, true)?;
    let mut times = [const { [const { Vec::new() }; 3] }; GROWING.len()];
    for round in 0..effort.growing_rounds {
        for (times, mib) in times.iter_mut().zip(GROWING) {
            for turn in turns(round) {
                let bytes = mib << 20;
                let taken = running[turn].call(Call { bytes, sse: true })?.as_secs_f64();
                times[turn].push(taken / table::float(bytes as u64));
            }
        }
    }
    let mut first = None;
    for (times, mib) in times.into_iter().zip(GROWING) {
        let times = times.map(median);
        // Half as much again is allowed for noise; quadratic growth would make the last size eight times as slow.
        let limit = *first.get_or_insert(times[0] * 1.5);
        Figure::new(&format!("{mib} MiB as SSE: time per byte"), Unit::Seconds)
            .target(Target::AtMost(limit))
            .print(times);
    }
    Ok(())
}

/// The order of a round. After the contender that needs the most, the caches are cold and the processors are busy with
/// its garbage collection; therefore all orders are used in turns.
fn turns(round: usize) -> [usize; 3] {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [1, 0, 2], [2, 0, 1]];
    ORDERS[round % ORDERS.len()]
}

fn start_all(contenders: &[Contender; 3], any_size: bool) -> io::Result<[Running; 3]> {
    let [first, second, third] = contenders;
    Ok([first.start(any_size)?.0, second.start(any_size)?.0, third.start(any_size)?.0])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
