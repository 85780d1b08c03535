//! Prints what the machine of a play says: `cargo run -p tests --bin play -- NAME SEED`. With `--count N`, so many seeds are
//! played from that one on, up to the first that fails.

use clap::Parser;
use tests::{plays, transcript};

/// A machine, and a peer and an application that do anything.
#[derive(Parser)]
struct Args {
    /// Which play.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(plays::ALL.map(|(name, _)| name)))]
    name: String,
    /// Its seed.
    seed: u64,
    /// Play so many seeds, and print none.
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
