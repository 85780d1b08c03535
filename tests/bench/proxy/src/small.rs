//! Any number of programs in comparison, each started with the URL: small results as JSON, and resident memory.

use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use crate::contender::{Call, Contender, Running, size_on_disk};
use crate::table::{Unit, float, shown};
use crate::{Effort, IN_FLIGHT, PAUSE, Rounds, SMALL, median};

const CALL: Call = Call { bytes: SMALL, sse: false };
/// The time after which a program without calls counts as idle.
const REST: Duration = Duration::from_millis(500);

/// Prints a line for each figure, with the ratio of each program to the last one.
pub fn compare(programs: &[&Path], url: &str, effort: &Effort) -> io::Result<()> {
    let mut running = Vec::new();
    for program in programs {
        running.push(Contender::bare(program, url).start(false)?.0);
    }
    thread::sleep(REST);
    print!("{:<32}", "");
    for program in programs {
        print!(" {:>24}", program.file_name().unwrap_or_default().to_string_lossy());
    }
    println!();
    let each = |running: &[Running], memory: fn(&Running) -> io::Result<f64>| -> io::Result<Vec<f64>> {
        running.iter().map(memory).collect()
    };
    print("idle: resident", Unit::Bytes, &each(&running, Running::resident_memory)?);
    print("idle: resident, not of a file", Unit::Bytes, &each(&running, Running::own_memory)?);

    let calls = effort.calls_per_round;
    let one = |running: &mut Running| (0..calls).map(|_| running.call(CALL)).collect();
    let rounds = measure(&mut running, effort, calls, 1, one)?;
    print("one at a time: p50", Unit::Seconds, &medians(&rounds, |rounds| &rounds.times));
    print("one at a time: CPU per call", Unit::Seconds, &medians(&rounds, |rounds| &rounds.cpu));
    print("one at a time: waits per call", Unit::Number, &medians(&rounds, |rounds| &rounds.waits));

    let calls = calls * 10;
    let all = |running: &mut Running| Ok(vec![running.calls(CALL, calls, IN_FLIGHT)?]);
    let rounds = measure(&mut running, effort, calls, IN_FLIGHT, all)?;
    let rates: Vec<_> =
        medians(&rounds, |rounds| &rounds.times).into_iter().map(|time| float(calls as u64) / time).collect();
    print("32 in flight: calls/s", Unit::Rate, &rates);
    print("32 in flight: CPU per call", Unit::Seconds, &medians(&rounds, |rounds| &rounds.cpu));
    print("32 in flight: waits per call", Unit::Number, &medians(&rounds, |rounds| &rounds.waits));
    print("most that was ever resident", Unit::Bytes, &each(&running, Running::peak_memory)?);
    let sizes: io::Result<Vec<_>> = programs.iter().map(|program| size_on_disk(program).map(float)).collect();
    print("on disk", Unit::Bytes, &sizes?);
    Ok(())
}

/// Makes `calls` calls to each program in each round, in an order that is rotated by one from round to round.
fn measure(
    running: &mut [Running],
    effort: &Effort,
    calls: usize,
    at_once: usize,
    make: impl Fn(&mut Running) -> io::Result<Vec<Duration>>,
) -> io::Result<Vec<Rounds>> {
    let count = running.len();
    let mut rounds: Vec<Rounds> = running.iter().map(|_| Rounds::default()).collect();
    for round in 0..effort.rounds {
        for turn in (0..count).map(|turn| (turn + round) % count) {
            thread::sleep(PAUSE);
            running[turn].calls(CALL, calls / 10 + at_once, at_once)?;
            rounds[turn].add(&mut running[turn], calls, &make)?;
        }
    }
    Ok(rounds)
}

fn medians(rounds: &[Rounds], values: impl Fn(&Rounds) -> &Vec<f64>) -> Vec<f64> {
    rounds.iter().map(|rounds| median(values(rounds).clone())).collect()
}

fn print(name: &str, unit: Unit, values: &[f64]) {
    let last = values.last().copied().unwrap_or_default();
    print!("{name:<32}");
    for value in values {
        let ratio = if matches!(unit, Unit::Rate) { last / value } else { value / last };
        print!(" {:>16} (x{ratio:>5.2})", shown(*value, unit));
    }
    println!();
}
