//! Runs the simulation: one seed with its trace, a number of seeds, or seeds for a number of hours.

use std::fmt::Display;
use std::panic;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use mcp_testkit::transcript;
use tests::aggregate_simulation::Aggregates;
use tests::gateway_simulation::Gateways;
use tests::instances_simulation::Instances;
use tests::seeded::{Run, Simulation, attempt, command, shortened};
use tests::sign_in_simulation::SignIns;
use tests::simulation::Networks;

/// Client, relay and server machines in a simulated network.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "options of the command line")]
struct Args {
    /// Run this seed alone and print its trace. If it fails, print the smallest part of its plan that still fails.
    #[arg(long)]
    seed: Option<u64>,
    /// Run this seed alone and print the output of its machines.
    #[arg(long, value_name = "SEED")]
    transcript: Option<u64>,
    /// The number of seeds to run.
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run for this many hours instead of a number of seeds.
    #[arg(long)]
    hours: Option<f64>,
    /// Run clients that sign in, with authorization servers, a person and several processes.
    #[arg(long, conflicts_with = "transcript")]
    sign_in: bool,
    /// Run instances of a server that share a store, with clients whose requests reach any of them.
    #[arg(long, conflicts_with = "sign_in")]
    instances: bool,
    /// Run clients of a gateway and processes of its server, with each way of sharing processes.
    #[arg(long, conflicts_with_all = ["sign_in", "instances"])]
    gateway: bool,
    /// Run aggregates of servers that are slow, silent, endless or hostile.
    #[arg(long, conflicts_with_all = ["sign_in", "instances", "gateway"])]
    aggregates: bool,
    /// Continue after a seed that fails, and print each reason with the number of seeds that failed for it.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // The panic message is printed once, with the seed, so the default hook is silenced.
    panic::set_hook(Box::new(|_| {}));
    if let Some(seed) = args.transcript {
        transcript::print(|| match (args.gateway, args.aggregates, args.instances) {
            (true, ..) => drop(attempt::<Gateways>(Run::new(seed))),
            (_, true, _) => drop(attempt::<Aggregates>(Run::new(seed))),
            (_, _, true) => drop(attempt::<Instances>(Run::new(seed))),
            (false, false, false) => drop(attempt::<Networks>(Run::new(seed))),
        });
        return ExitCode::SUCCESS;
    }
    if args.gateway {
        return simulate::<Gateways>(&args);
    }
    if args.aggregates {
        return simulate::<Aggregates>(&args);
    }
    if args.instances {
        return simulate::<Instances>(&args);
    }
    if args.sign_in {
        return simulate::<SignIns>(&args);
    }
    simulate::<Networks>(&args)
}

/// Runs one seed with its trace, or many.
fn simulate<S: Simulation>(args: &Args) -> ExitCode {
    match args.seed {
        Some(seed) => show::<S>(seed),
        None => many::<S>(args),
    }
}

/// Runs a seed with its trace. If it fails, runs the smallest part of its steps that still fails.
fn show<S: Simulation>(seed: u64) -> ExitCode {
    let mut print = |line: &str| println!("{line}");
    let reason = match attempt::<S>(Run::new(seed).watched(&mut print)) {
        Ok(report) => return report_one(Ok(report)),
        Err(reason) => reason,
    };
    println!("{reason}");
    let left_out = shortened::<S>(seed);
    println!();
    println!("the smallest part of its steps that fails:");
    let run = Run::new(seed).without(&left_out).watched(&mut print);
    report_one(attempt::<S>(run))
}

/// Runs many seeds, and prints the sum of their reports.
fn many<S: Simulation>(args: &Args) -> ExitCode {
    let start = Instant::now();
    let until = args.hours.map(|hours| Duration::from_secs_f64(hours * 3600.0));
    let mut sum = S::Report::default();
    let mut failed = 0_u64;
    for seed in args.from.. {
        if until.map_or(seed - args.from >= args.count, |until| start.elapsed() >= until) {
            break;
        }
        match attempt::<S>(Run::new(seed)) {
            Ok(report) => S::add(&mut sum, &report),
            Err(reason) => {
                println!("seed {seed}: {reason}");
                println!("{}", command::<S>(seed));
                failed += 1;
                if !args.keep_going {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{sum}");
    println!("{:.1} s, {failed} seeds failed", start.elapsed().as_secs_f64());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the report of one seed, or the reason for which it failed.
fn report_one(result: Result<impl Display, String>) -> ExitCode {
    let (text, code) = match result {
        Ok(report) => (report.to_string(), ExitCode::SUCCESS),
        Err(reason) => (reason, ExitCode::FAILURE),
    };
    println!("{text}");
    code
}
