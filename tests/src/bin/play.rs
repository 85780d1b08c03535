//! Prints the output of the machine in a play: `cargo run -p tests --bin play -- NAME SEED`. With `--count N`, it runs
//! N seeds from SEED on without printing, and stops at the first that fails.

use clap::Parser;
use mcp_testkit::transcript;
use tests::plays;

/// Runs a machine with a randomly behaving peer and application.
#[derive(Parser)]
struct Args {
    /// The name of the play.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(plays::ALL.map(|(name, _)| name)))]
    name: String,
    /// The seed, or the first of several.
    seed: u64,
    /// Run this many seeds without printing.
    #[arg(long)]
    count: Option<u64>,
}

fn main() {
    let args = Args::parse();
    for (_, play) in plays::ALL.iter().filter(|(name, _)| *name == args.name) {
        let Some(count) = args.count else {
            transcript::print(|| play(args.seed));
            continue;
        };
        for seed in args.seed..args.seed + count {
            let outcome = std::panic::catch_unwind(|| play(seed));
            assert!(outcome.is_ok(), "seed {seed}: cargo run -p tests --bin play -- {} {seed}", args.name);
        }
    }
}
